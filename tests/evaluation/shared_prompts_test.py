"""Questions that share a prompt are read and scored as single ones are."""

import collections

import numpy as np
import pytest

import wm
from tests.models.played import Played
from wm import core
from wm.core import queries, registry
from wm.evaluation import query_plans, shared_prompts
from wm.language import provider
from wm.language.answer_cache import CallReply
from wm.language.answers import grammar

WORLD = registry.make('world', 'maps(rows=3, columns=3)')
METRIC = registry.make(
  'metric', 'distinction(samples=0, max_elements=5, trials=30)'
)


@pytest.fixture
def played(monkeypatch):
  provider_played = Played()
  monkeypatch.setattr(provider, 'replies', provider_played)
  return provider_played


@pytest.fixture
def asked(played, tmp_path):
  """Makes predictors of as many questions a prompt."""

  def make(per_prompt, fields=''):
    spec = (
      f"language(model='a/b', answers={str(tmp_path)!r}, "
      f'per_prompt={per_prompt}{fields})'
    )
    return registry.make('model', spec).predictor(WORLD, 0)

  return make


@pytest.mark.parametrize('knows', ['solver', 'yes'])
def test_the_scores_are_those_of_single_questions(asked, played, knows):
  played.knows = knows
  plans, tables = [], []
  for per_prompt in 1, 4:
    model = asked(per_prompt)
    played.calls.clear()
    plans.append(query_plans.plan_of(METRIC, model, WORLD, 0))
    plans[-1].ask()
    assert sorted(played.calls) == sorted(q.prompt for q in plans[-1].requests)
    played.calls.clear()
    tables.append((*METRIC(model, WORLD, 0), *plans[-1].scores(WORLD)))
    assert not played.calls
  single, shared = plans
  assert shared.calls < single.calls / 2
  assert shared.tokens < single.tokens / 2
  assert f'; one question a prompt: {single.calls:,} calls' in str(shared)
  assert 'one question' not in str(single)
  for first, other in zip(*tables, strict=True):
    np.testing.assert_array_equal(first.value, other.value)
    np.testing.assert_array_equal(first.group, other.group)


def test_a_prompt_is_paid_for_once_and_kept_on_one_line(
  asked, played, tmp_path
):
  questions = query_plans.plan_of(METRIC, asked(4), WORLD, 0).questions
  first = asked(4).ask(questions[:21])
  calls = len(played.calls)
  (path,) = tmp_path.glob('*.jsonl')
  assert len(path.read_text().splitlines()) == 1 + calls
  again = asked(4)
  assert again.ask(questions[:21]) == first
  assert len(played.calls) == calls
  assert again.backend.forecast(questions[:21]).calls == 0
  # Of more questions those that have an answer are in no prompt.
  played.calls.clear()
  truths = queries.truths(WORLD, questions)
  assert [answer.value for answer in again.ask(questions)] == truths
  lines = '\n'.join(played.calls).splitlines()
  items = [line for line in lines if line[:2] in ('1.', '2.', '3.', '4.')]
  alone = [line for line in lines if line.startswith('Can it go on with: ')]
  assert len(items) + len(alone) == len(questions) - 21
  # Single questions do not share answers with them.
  assert asked(1).backend.forecast(questions).calls == len(questions)


def test_prompts_of_one_beginning_follow_each_other(asked, played):
  questions = query_plans.plan_of(METRIC, asked(1), WORLD, 0).questions
  asked(1).ask([*reversed(questions)])
  assert played.calls == sorted(played.calls)
  groups = queries.grouped(questions, 3)
  assert max(map(len, groups)) == 3
  assert sorted(q for group in groups for q in group) == sorted(questions)
  assert all(len({q.prefix for q in group}) == 1 for group in groups)


def test_unread_items_are_unread_and_not_wrong(asked, played):
  model = asked(4)
  questions = query_plans.plan_of(METRIC, model, WORLD, 0).questions

  def reply(prompt):
    text = played.known(prompt).text
    return CallReply(text.replace('2. ', '2. Perhaps ').replace('3. No.', ''))

  played.reply = reply
  truths = queries.truths(WORLD, questions)
  answers = model.ask(questions)
  failures = collections.Counter(answer.failure for answer in answers)
  assert failures['nothing'] > 10
  assert failures[''] > 10
  for answer, truth in zip(answers, truths, strict=True):
    assert answer.value == (None if answer.failure else truth)


def test_a_list_that_is_cut_off_says_so(asked, played):
  model = asked(4)
  questions = query_plans.plan_of(METRIC, model, WORLD, 0).questions
  (group, *_) = [g for g in queries.grouped(questions, 4) if len(g) == 4]
  played.reply = lambda prompt: CallReply('1. Yes.\n2. No.\n3.', 'max_tokens')
  result = [(answer.value, answer.failure) for answer in model.ask(group)]
  assert result == [(True, ''), (False, ''), *[(None, 'cut_off')] * 2]


LISTS = {
  'yes, no, yes': (True, False, True),
  '1: yes, 2: no, 3: yes': (True, False, True),
  '{"1": "yes", "2": "no", "3": "no"}': (True, False, False),
  '["yes", "no", "yes"]': (True, False, True),
  '{"answers": [true, false, true]}': (True, False, True),
  '1) **Yes** - since\n\n2) **No** - it is closed\n\n3) Yes': (
    *(True, False, True),
  ),
  '| 1 | yes |\n| 2 | no |\n| 3 | no |': (True, False, False),
  '1. a, b: Yes\n2. c: No\n3. d: Yes.': (True, False, True),
  '1. a: yes 2. b: no 3. c: yes': (True, False, True),
  '1. Answer: Yes\n2. Answer: No\n3. Answer: Yes': (True, False, True),
  '1. The answer is yes.\n2. The answer is no.\n3. It is: no.': (
    *(True, False, False),
  ),
  'I look.\n1. I go.\n2. I see.\n\nFinal:\n1. Yes\n2. No\n3. No': (
    *(True, False, False),
  ),
  # Unread, whole or in part.
  '1. Yes\n3. No': (True, None, False),
  '1. Yes or no\n2. Yes/no\n3. No': (None, None, False),
  '1. Yes\n2. No\n3. Yes\n2. Yes': (True, None, True),
  '1. Yes\n2. No\n3. Yes\n4. No': None,
  '2. Yes\n3. No': None,
  'yes, no': None,
  'Yes.': None,
  'No road leads there, no.': None,
  "I'm sorry, I can't.": None,
  '': None,
}


@pytest.mark.parametrize('text', LISTS)
def test_lists_of_yes_and_no_are_read(text):
  reading = grammar.yes_no_list(text, 3)
  assert reading.value == LISTS[text]
  whole = reading.value and None not in reading.value
  assert bool(reading.failure) == (not whole)


def test_long_replies_are_read_in_time():
  for text in (
    '1. ' * 100_000,
    '1' * 500_000,
    'yes ' * 200_000,
    '1.\n' * 90_000,
  ):
    grammar.yes_no_list(text, 3)


def _questions(model, trials=30):
  metric = registry.make(
    'metric', f'distinction(samples=0, max_elements=5, trials={trials})'
  )
  return query_plans.plan_of(metric, model, WORLD, 0).questions


def test_two_looks_are_enough_where_both_forms_are_alike(asked, played):
  model, lines = asked(4), []
  questions = _questions(model)
  shared_prompts.check(questions, model, WORLD, lines.append)
  assert len(lines) == 4
  assert lines[2].startswith('right answers of 100 questions: 1.000 in shared')
  alone = [prompt for prompt in played.calls if 'each of these' not in prompt]
  assert len(alone) == 100
  # What was asked in shared prompts is what will be asked.
  played.calls.clear()
  model.ask(questions)
  planned = {request.prompt for request in model.requests(questions)}
  assert {*played.calls} < planned


def test_a_model_that_is_worse_at_lists_is_refused(asked, played):
  model, lines = asked(4), []

  def reply(prompt):
    text = played.known(prompt).text
    return CallReply(text.replace('No.', 'Yes.') if '\n' in text else text)

  played.reply = reply
  with pytest.raises(core.InputError, match='both forms are apart') as error:
    shared_prompts.check(_questions(model), model, WORLD, lines.append)
  assert '\n' not in str(error.value)
  assert len(lines) == 2


def test_calls_that_fail_tell_nothing_of_a_form(asked, played):
  model, lines = asked(4), []
  failed = CallReply('', failure='timeout')

  def reply(prompt):
    return failed if len(played.calls) % 3 == 0 else played.known(prompt)

  played.reply = reply
  questions = _questions(model, 60)
  shared_prompts.check(questions, model, WORLD, lines.append)
  assert all(': 1.000 in shared' in line for line in lines[::2])


def test_a_few_questions_decide_nothing(asked):
  model = asked(4)
  with pytest.raises(core.InputError, match='both forms are undecided'):
    shared_prompts.check(_questions(model, 2), model, WORLD, print)
  assert (
    shared_prompts.check(_questions(model)[:1], model, WORLD, print) is None
  )


def test_a_model_beyond_the_margin_rarely_passes(monkeypatch):
  monkeypatch.setattr(
    queries, 'truths', lambda world, asked: [True] * len(asked)
  )
  rng, passed, num = np.random.default_rng(0), 0, 200
  asked = [queries.Query('', queries.YES_NO, (k,), ((1,),)) for k in range(400)]
  level = shared_prompts.LEVEL / len(shared_prompts.PAIRS)
  for _ in range(num):
    single = rng.random(400) < 0.9
    lost = rng.random(400) < shared_prompts.MARGIN / 0.9
    sides = [
      [queries.Answer(value) for value in side.tolist()]
      for side in (single & ~lost, single)
    ]
    for size in shared_prompts.PAIRS:
      parts = [side[:size] for side in sides]
      table = shared_prompts.compare(WORLD, asked[:size], *parts, ())
      outcome = shared_prompts.verdict(table, level)
      if outcome != 'undecided':
        break
    passed += outcome == 'alike'
  assert passed / num <= shared_prompts.LEVEL


METRICS = [
  "compression(suffixes='world', k=1, samples=5, trials=30)",
  'distinction(samples=0, max_elements=5, trials=30)',
]


def _scores(tmp_path, name, per_prompt):
  answers = str(tmp_path / 'answers')
  model = f"language(model='wm/{name}', answers={answers!r}"
  entries = wm.score(f'{model}, per_prompt={per_prompt})', METRICS, WORLD)
  return {(e['metric'], e['quantity']): e for e in entries}


@pytest.mark.parametrize('name', ['solver', 'yes'])
def test_known_answers_score_the_same_both_ways(tmp_path, name):
  single, shared = (_scores(tmp_path, name, size) for size in (1, 10))
  assert single.keys() == shared.keys()
  for key, entry in single.items():
    assert entry['value'] == shared[key]['value'], key


def test_a_coin_is_as_often_right_both_ways(monkeypatch, tmp_path):
  monkeypatch.setattr(shared_prompts, 'MARGIN', 0.3)
  sides = [_scores(tmp_path, 'random', size) for size in (1, 10)]
  single, shared = (side['distinction', 'right_answers'] for side in sides)
  assert single['n'] == shared['n'] > 200
  assert single['low'] < shared['value'] < single['high']
