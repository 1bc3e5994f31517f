"""The predictor of a language model, on a provider that is played."""

import math
import threading

import numpy as np
import pytest

from tests.models.played import Played
from wm import core
from wm.core import queries, registry
from wm.language import llm_predictor, provider
from wm.language.answer_cache import CallReply
from wm.language.answers import grammar

WORLD = registry.make('world', 'maps(rows=3, columns=3)')
SAMPLED = WORLD.sample(6, 0, 'train')
PREFIXES = core.predictor.histories(SAMPLED.tokens, SAMPLED.lengths)


@pytest.fixture
def played(monkeypatch):
  result = Played()
  monkeypatch.setattr(provider, 'replies', result)
  return result


@pytest.fixture
def made(played, tmp_path):
  def make(fields=''):
    spec = f"language(model='a/b', answers={str(tmp_path)!r}{fields})"
    return registry.make('model', spec).predictor(WORLD, 0)

  return make


def _questions():
  prefixes = [prefix[:4] for prefix in PREFIXES for _ in range(4)]
  suffixes = [(1 + n % 8,) for n in range(len(prefixes))]
  return prefixes, suffixes


def test_answers_are_the_worlds(made, played):
  questions = _questions()
  result = made().answers(*questions)
  world = WORLD.walk(
    WORLD.walk(WORLD.init(24), *queries.table(questions[0]))[1],
    *queries.table(questions[1]),
  )[0]
  np.testing.assert_array_equal(result, world)
  assert len(played.calls) == len({*zip(*questions, strict=True)})


def test_nothing_is_asked_twice(made, played):
  predictor = made()
  first = predictor.answers(*_questions())
  asked_for = len(played.calls)
  np.testing.assert_array_equal(predictor.answers(*_questions()), first)
  np.testing.assert_array_equal(made().answers(*_questions()), first)
  assert len(played.calls) == asked_for
  assert '; 0 calls were made now' in made().diagnostics()[0]


def test_a_run_that_is_killed_goes_on(made, played):
  def reply(call):
    if len(played.calls) and played.left == 0:
      raise KeyboardInterrupt
    played.left -= 1
    return played.known(call)

  played.left, played.reply = 5, reply
  heard = []
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(threading, 'excepthook', heard.append)
    with pytest.raises(AssertionError):
      made().answers(*_questions())
  assert len(heard) == 1
  played.calls.clear()
  played.reply = played.known
  made().answers(*_questions())
  assert len(played.calls) == len({*zip(*_questions(), strict=True)}) - 5


def test_next_tokens_are_listed_in_one_call(made, played):
  prefixes = [prefix[:3] for prefix in PREFIXES]
  tokens, lengths = queries.table(prefixes)
  result = made().session(tokens, lengths, 2).log_probs()
  legal = WORLD.legal(WORLD.walk(WORLD.init(6), tokens, lengths)[1])
  np.testing.assert_array_equal(result[:, 0] > -np.inf, legal)
  np.testing.assert_array_equal(result[:, 1], result[:, 0])
  assert len(played.calls) == len({*prefixes})


def test_one_of_some_tokens_is_chosen(made):
  prefix = PREFIXES[0][:2]
  legal = WORLD.legal(WORLD.walk(WORLD.init(1), *queries.table([prefix]))[1])[0]
  legal[core.PAD] = False
  good, bad = np.flatnonzero(legal), np.flatnonzero(~legal)[1:]
  choices = (int(bad[0]), int(good[0]), int(bad[1]))
  assert made().choose([prefix], [choices]).tolist() == [1]
  assert made().choose([prefix], [(int(bad[0]),)]).tolist() == [core.NO_ANSWER]


def test_probabilities_decide_where_they_are_read(made, played):
  chances = iter([0.9, 0.2, None])
  played.reply = lambda call: CallReply('hm', probability=next(chances))
  predictor = made(", read='logprobs'")
  questions = [predictor.yes_no((1,), (token,)) for token in (1, 2, 3)]
  questions.sort(key=lambda question: question.prompt)  # As they are asked.
  results = predictor.ask(questions)
  assert [item.value for item in results] == [True, False, None]
  assert results[0].probability == 0.9
  assert results[2].failure == 'no_probability'
  assert played.settings.config().logprobs


def test_failures_are_counted_by_cause_and_not_asked_again(made, played):
  output = iter(
    [
      CallReply('', failure='timeout'),
      CallReply('I cannot', stop='content_filter'),
      CallReply('Well, let me see', stop='max_tokens'),
      CallReply('<think>yes'),
      CallReply('x' * (1 << 21)),
    ]
  )
  played.reply = lambda call: next(output)
  predictor = made()
  questions = [predictor.yes_no((1,), (token,)) for token in range(1, 6)]
  questions.sort(key=lambda question: question.prompt)  # As they are asked.
  for _ in range(2):
    result = [item.failure for item in predictor.ask(questions)]
    assert result == ['timeout', 'refused', 'cut_off', 'unfinished', 'too_long']
  assert predictor.diagnostics()[1] == '3 characters of reasoning, not read'
  assert 'timeout 1' in predictor.diagnostics()[2]


READ = {
  'Answer: north; east': (1, 2),
  'I think so.\n**Answer:**\n- North\n- East.': (1, 2),
  'Answer: north, Xanadu': (0, 1),
  'Answer: north; east.\nThere is nothing else, I think.': (1, 2),
  'Answer: nothing.': (),
  'north': (1,),
  'Answer: Xanadu': 'unknown_name',
  'Go where you like. Go.\nAnd back.': 'nothing',
}


@pytest.mark.parametrize('text', READ)
def test_lists_of_names_are_read(text):
  reader = grammar.AnswerReader(('<pad>', 'north', 'east', 'a, b'))
  result = reader.read(queries.Query('', queries.ALL_NEXT), text)
  expected = READ[text]
  wrong = isinstance(expected, str)
  assert result.value == (None if wrong else expected)
  assert result.failure == (expected if wrong else '')


def test_names_that_differ_in_case_or_marks_are_read_exactly():
  reader = grammar.AnswerReader(('<pad>', 'a', 'A', '.', 'go'))
  question = queries.Query('', queries.ALL_NEXT)
  assert reader.read(question, 'Answer: A; .; Go').value == (2, 3, 4)
  assert reader.read(question, 'Answer: a').value == (1,)


@pytest.mark.parametrize(
  ('tokens', 'chance'),
  [
    ([[('\n', 0.9)], [('Yes', 0.6), (' no', 0.2)]], 0.75),
    ([[('There', 0.9), ('Yes', 0.05), ('No', 0.05)]], 0.5),
    ([[('There', 0.9)], [('is', 0.9)], [('no', 0.9)]], None),
    ([[('**', 0.9)]], None),
    ([], None),
  ],
)
def test_yes_is_as_likely_as_the_first_word_has_it(tokens, chance):
  models = pytest.importorskip('inspect_ai.model')
  content = [
    models.Logprob(
      token=top[0][0],
      logprob=math.log(top[0][1]),
      top_logprobs=[
        models.TopLogprob(token=token, logprob=math.log(share))
        for token, share in top
      ],
    )
    for top in tokens
  ]
  result = provider.yes_probability(models.Logprobs(content=content))
  assert result == (chance and pytest.approx(chance))


def test_only_yes_or_no_has_a_probability(made):
  reply = CallReply('Answer: nothing', probability=0.0)
  predictor = made()
  read = grammar.AnswerReader(WORLD.token_names(core.PromptStyle())).read
  result = llm_predictor.answer(predictor.all_next((1,)), reply, read)
  assert (result.value, math.isnan(result.probability)) == ((), True)


@pytest.mark.parametrize(
  'fields',
  ["'solver'", "'a/b', args=('c',)", "'a/b', read='ear'", "'a/b', names=-1"],
)
def test_bad_fields_are_one_line(fields):
  with pytest.raises(core.InputError, match=r'expected|available'):
    registry.make('model', f'language({fields})')


def test_only_told_worlds_can_be_asked_about():
  model = registry.make('model', "language('a/b')")
  with pytest.raises(core.InputError, match='cannot be told'):
    model.predictor(registry.make('world', 'groups()'), 0)
