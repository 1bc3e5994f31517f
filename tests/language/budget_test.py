"""Calls stay within a budget, which all metrics share."""

import asyncio
import collections
import dataclasses
import gzip
import json

import numpy as np
import pytest
from inspect_ai.model import ModelAPI, ModelOutput, ModelUsage, modelapi

import wm
from wm import core
from wm.core import queries, verbal
from wm.language import answer_cache, call_ledger, llm_predictor, provider
from wm.language.models import language

WORLD = 'maps(rows=3, columns=3)'
METRICS = [
  "compression(suffixes='world', k=1, samples=3, trials=40)",
  'distinction(samples=0, max_elements=3, trials=40)',
]
CALLS = {'most': 0, 'open': 0, 'num': 0}


@modelapi(name='chatty')
class Chatty(ModelAPI):
  """Answers are as long as may be; of 'rude' longer, of 'busy' late."""

  async def generate(self, input, tools, tool_choice, config):
    CALLS['num'] += 1
    CALLS['open'] += 1
    CALLS['most'] = max(CALLS['most'], CALLS['open'])
    await asyncio.sleep(0.002 * (CALLS['num'] % 3))
    CALLS['open'] -= 1
    if self.model_name == 'busy' and CALLS['num'] % 2:
      raise TimeoutError
    long = 4 if self.model_name == 'rude' else 1
    output = ModelOutput.from_content('chatty', 'Yes.')
    output.usage = ModelUsage(
      input_tokens=len(input[-1].text) // 4,
      output_tokens=long * config.max_tokens,
    )
    return output


@pytest.fixture
def settings(monkeypatch):
  CALLS.update(most=0, open=0, num=0)
  monkeypatch.setattr(provider, 'PAUSE', 0.001)
  return language.Model('chatty/polite', max_tokens=500, retries=3)


def _replies(settings, ledger, num):
  prompts = [f'{k} ' + 'word ' * (20 + k % 40) for k in range(num)]
  replies = {}
  provider.replies(settings, prompts, replies.__setitem__, ledger=ledger)
  return [replies[k] for k in range(num)]


@pytest.mark.parametrize('limit', [2_000, 9_000, 40_000])
def test_long_answers_many_at_a_time_stay_within_it(settings, limit):
  ledger = call_ledger.CallLedger(limit, 'tok', None)
  replies = _replies(settings, ledger, 100)
  asked = [reply for reply in replies if reply.failure != provider.BUDGET]
  used = sum(reply.tokens_in + reply.tokens_out for reply in asked)
  assert ledger.spent == used <= limit
  assert len(asked) == CALLS['num'] < 100
  # All but what one more call might have cost.
  assert limit - used < 500 + 310 + call_ledger.TEMPLATE
  assert CALLS['most'] <= 10
  assert limit < 20_000 or CALLS['most'] > 3


def test_one_that_counts_more_than_it_may_is_known_after_one_call(settings):
  rude = dataclasses.replace(settings, model='chatty/rude')
  ledger = call_ledger.CallLedger(20_000, 'tok', None)
  _replies(rude, ledger, 100)
  assert 12_000 < ledger.spent <= 20_000


def test_a_call_that_fails_is_tried_again_and_counts_in_full(settings):
  busy = dataclasses.replace(settings, model='chatty/busy', connections=1)
  ledger = call_ledger.CallLedger(1e6, 'tok', None)
  prompts, replies = ['word ' * 20] * 4, {}
  provider.replies(busy, prompts, replies.__setitem__, ledger=ledger)
  assert not any(reply.failure for reply in replies.values())
  full = call_ledger.tokens(ledger.most(prompts[0], 500))
  assert CALLS['num'] == 8
  assert ledger.spent == 4 * full + 4 * (25 + 500)


def test_what_a_killed_run_left_counts(tmp_path):
  path = tmp_path / 'calls.jsonl'
  ledger = call_ledger.CallLedger(10_000, 'tok', None, path)

  async def calls():
    first = await ledger.reserve('a' * 100, 50)
    ledger.settle(first, ModelUsage(input_tokens=30, output_tokens=7))
    await ledger.reserve('b' * 100, 50)  # Killed before its answer.

  asyncio.run(calls())
  with open(path, 'ab') as file:
    file.write(b'\n{"call": 2, "usa')
  again = call_ledger.CallLedger(10_000, 'tok', None, path)
  assert again.spent == 37 + 150 + call_ledger.TEMPLATE
  asyncio.run(again.reserve('c', 1))
  more = call_ledger.CallLedger(10_000, 'tok', None, path)
  assert more.spent == again.spent + 2 + call_ledger.TEMPLATE
  # A whole line that is no call is no end of a killed process.
  path.write_bytes(b'{}\n' + path.read_bytes())
  with pytest.raises(core.InputError, match=r'calls\.jsonl'):
    call_ledger.CallLedger(10_000, 'tok', None, path)


def _prices(tmp_path, content):
  path = tmp_path / 'prices.json'
  path.write_text(content if isinstance(content, str) else json.dumps(content))
  return str(path)


def test_money_is_by_the_prices_given(tmp_path):
  file = _prices(tmp_path, {'a/b': {'input': 2, 'output': 10}})
  cost = call_ledger.model_cost('a/b', file)
  ledger = call_ledger.CallLedger(1.0, 'usd', cost)
  usage = ModelUsage(
    input_tokens=10**6, output_tokens=10**5, input_tokens_cache_read=10**6
  )
  assert ledger.price(usage) == 2 + 1 + 2
  assert call_ledger.model_cost('a/b') is None


@pytest.mark.parametrize(
  ('content', 'message'),
  [
    ('{', 'prices.json'),
    ([], 'expected an object'),
    ({'c/d': {'input': 1, 'output': 1}}, 'available: c/d'),
    ({'a/b': {'input': 1}}, 'lacks output'),
    ({'a/b': {'input': 1, 'output': -1}}, 'expected a number from 0'),
    ({'a/b': {'input': 1, 'output': '1'}}, 'expected a number from 0'),
  ],
)
def test_bad_prices_are_one_line(tmp_path, content, message, one_line):
  with one_line(message):
    call_ledger.model_cost('a/b', _prices(tmp_path, content))


@pytest.mark.parametrize(
  ('text', 'parsed'),
  [
    ('5usd', (5, 'usd')),
    ('0.25 USD', (0.25, 'usd')),
    ('200_000tok', (200_000, 'tok')),
    ('1,000tok', (1000, 'tok')),
  ],
)
def test_budgets_are_read(text, parsed):
  assert call_ledger.parse_budget(text) == parsed


@pytest.mark.parametrize(
  'text', ['', '5', '-5usd', '0tok', '5eur', 'nanusd', '1e9tok', '9' * 400]
)
def test_bad_budgets_are_one_line(text):
  with pytest.raises(core.InputError, match='expected dollars or tokens'):
    call_ledger.parse_budget(text)


def _ask(tmp_path, budget, **options):
  lines = []
  model = f"language(model='wm/solver', answers={str(tmp_path / 'answers')!r})"
  metrics = options.pop('metrics', METRICS)
  entries = wm.ask(
    model,
    metrics,
    WORLD,
    tmp_path / 'out',
    budget=budget,
    log=lines.append,
    **options,
  ).to_dict('records')
  return entries, '\n'.join(lines)


def test_a_dry_run_tells_all_and_asks_nothing(tmp_path):
  prices = _prices(tmp_path, {'wm/solver': {'input': 1, 'output': 10}})
  entries, text = _ask(tmp_path, '50_000tok', prices=prices, dry_run=True)
  assert entries == []
  assert not (tmp_path / 'out').exists()
  assert not list((tmp_path / 'answers').glob('*.jsonl'))
  assert text.count('Answer yes or no.') == 10
  assert text.count(' calls, about ') == 2
  assert ', $0.0' in text


def test_a_budget_is_used_and_not_passed_and_not_spent_twice(tmp_path):
  entries, text = _ask(tmp_path, '60_000tok')
  record = json.loads((tmp_path / 'out' / 'budget.json').read_text())
  usage = record['usage']
  spent = usage['input_tokens'] + usage['output_tokens']
  assert 45_000 < spent <= 60_000
  assert all(4 < num <= 40 for num in record['trials'].values()), record
  headline = {e['quantity']: e for e in entries}
  assert headline['precision']['value'] == headline['recall']['value'] == 1.0
  # Later steps are expected within a tenth.
  later = record['steps'][1:]
  used, expected = (sum(s[k] for s in later) for k in ('used', 'expected'))
  assert abs(used / expected - 1) < 0.1
  before = (tmp_path / 'out' / 'calls.jsonl').read_bytes()
  again, text = _ask(tmp_path, '60_000tok')
  assert (tmp_path / 'out' / 'calls.jsonl').read_bytes() == before
  assert '; 0 calls were made now' in text
  assert [e['value'] for e in again] == [e['value'] for e in entries]


@pytest.mark.parametrize(
  ('budget', 'options', 'message'),
  [
    ('1_000tok', {}, 'one call may take'),
    ('4_000tok', {}, 'the first trials of 2 metrics need about'),
    ('5usd', {}, 'the price of this model is unknown; expected prices=FILE'),
    ('5usd', {'prices': 'gone.json'}, 'gone.json'),
    ('9_000tok', {'metrics': 'compression()'}, 'cannot be listed'),
  ],
)
def test_bad_input_is_told_before_anything_is_asked(
  tmp_path, budget, options, message
):
  with pytest.raises(core.InputError, match=message):
    _ask(tmp_path, budget, **options)
  assert not (tmp_path / 'out').exists()


def test_only_language_models_have_a_budget(tmp_path):
  with pytest.raises(core.InputError, match='is no language model'):
    wm.ask('uniform()', METRICS, WORLD, tmp_path, budget='5tok')


def _recorded(folder):
  """Model -> recorded (prompt, answer, condition), of the three with most."""
  by_model = collections.defaultdict(list)
  path = folder / 'cogeval' / 'conversations_sample.jsonl.gz'
  for line in gzip.decompress(path.read_bytes()).decode().splitlines():
    entry = json.loads(line)
    prompt = '\n'.join(text for _, text in entry['messages'])
    by_model[entry['model']].append(
      (prompt, entry['answer'], entry['condition'])
    )
  most = sorted(by_model, key=lambda model: -len(by_model[model]))[:3]
  return {model: by_model[model][::3][:400] for model in most}


def test_recorded_runs_take_what_their_first_answers_say(testdata, tmp_path):
  """Expected tokens are within a tenth, of answers of real models."""
  runs = _recorded(testdata)
  assert len(runs) == 3
  for model, entries in runs.items():
    settings = language.Model(f'recorded/{model}', answers=str(tmp_path))
    backend = llm_predictor.QueryBackend(settings)
    order = np.random.default_rng(0).permutation(len(entries))
    once = {entries[k][0]: entries[k] for k in order}
    questions, used = [], [0, 0]
    for number, (prompt, answer, kind) in enumerate(once.values()):
      sizes = verbal.text_tokens(prompt), verbal.text_tokens(answer)
      questions.append(queries.Query(prompt, kind))
      if number < 80:
        reply = answer_cache.CallReply(answer, 'stop', None, *sizes)
        backend._cache.put(answer_cache.key(prompt), reply)
      else:
        used = [total + size for total, size in zip(used, sizes, strict=True)]
    need = backend.forecast(questions)
    assert need.calls == len(once) - 80 > 100
    assert need.measured == 80
    print(model, need, used)
    assert abs(need.usage.input_tokens / used[0] - 1) < 0.1, model
    whole = (need.usage.input_tokens + need.usage.output_tokens) / sum(used)
    assert abs(whole - 1) < 0.1, model
