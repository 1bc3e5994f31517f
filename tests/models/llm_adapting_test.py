"""In-context adapting: one call a data set, and those who look labels up."""

import numpy as np
import pytest

from tests.language.stand_ins import labels
from tests.language.stand_ins.asked import Asked
from wm import core
from wm.core import adapting, queries, registry, verbal
from wm.core.queries import Answer
from wm.evaluation import query_plans, statistics
from wm.language import llm_predictor
from wm.language.answers import grammar

LATTICE = registry.make('world', 'lattice(length=20)')
METRIC = registry.make(
  'metric', 'inductive_bias(num=4, examples=60, states=4, pool=8)'
)


class Answerer:
  """Answers from the text of prompts by a function."""

  repeats = per_prompt = 1

  def __init__(self, write):
    self.write, self.asked = write, []

  def answers(self, questions, model):
    self.asked += questions
    return [model.read(item, self.write(item.prompt)) for item in questions]

  def diagnostics(self):
    return []


def _model(write, world=LATTICE, style=None):
  inputs = style or verbal.PromptStyle()
  return llm_predictor.LanguageModel(world, inputs, Answerer(write), 100_000)


def _solver(prompt):
  return labels.answer(Asked([prompt]))


def _values(predictor, world=LATTICE, metric=METRIC):
  results = metric(predictor, world, 0)
  return {
    item.quantity: statistics.summarize(item)['value'] for item in results
  }


def test_one_who_looks_labels_up_by_state_is_the_learned_oracle():
  """All states of a lattice are labelled: no coin is left."""
  oracle = registry.make('model', 'oracle()').predictor(LATTICE, 0)
  result, expected = _values(_model(_solver)), _values(oracle)
  assert result == pytest.approx(expected)
  assert result['r_ib'] == result['accuracy'] == 1
  # In any order of the rules.
  assert _values(_model(_solver, style=verbal.PromptStyle(seed=3)))['r_ib'] == 1


def test_boards_are_read_too():
  """Of Othello most states have no label: a coin each, the same each time."""
  world = registry.make('world', 'othello(size=4)')
  metric = registry.make(
    'metric', 'inductive_bias(num=2, examples=6, states=4, pool=8)'
  )
  assert _values(_model(_solver, world), world, metric)['r_ib'] == 1


def test_one_call_a_data_set_is_planned():
  model = _model(_solver)
  made = query_plans.plan_of(METRIC, model, LATTICE, 0)
  assert made.calls == METRIC.num
  assert {item.kind for item in made.questions} == {queries.LABELS}
  assert [item.trial for item in made.questions] == [0, 1, 2, 3]
  # Twins differ in their labels alone, and are two questions.
  assert len({item.prefix for item in made.questions}) == METRIC.num
  assert queries.truths(LATTICE, made.questions) == [None] * METRIC.num


def test_a_data_set_without_an_answer_is_a_row_that_says_so():
  replies = iter(['Answer: [0]', '', 'I think none.'])

  def write(prompt):
    return next(replies, None) or _solver(prompt)

  results = METRIC(_model(lambda prompt: 'Answer: [0, 1]'), LATTICE, 0)
  by = {item.quantity: item for item in results}
  assert set(by['r_ib'].reason) == {'no_answer'}
  assert set(by['d_ib_normalised'].reason) <= {'no_answer', 'one_label'}
  assert set(by['d_ib_oracle'].reason) == {''}
  sample = METRIC(_model(write), LATTICE, 0)[0]
  assert list(sample.reason) == ['no_answer', '', 'no_answer', '']


def test_a_constant_has_r_1_and_d_0():
  def zeros(prompt):
    wanted = prompt.rpartition('Write a list of ')[2].split()[0]
    return f'Sure.\nAnswer: [{", ".join("0" * int(wanted))}]'

  result = _values(_model(zeros))
  assert (result['r_ib'], result['d_ib']) == (1, 0)


def _one(kind, labels_):
  tokens = np.array([[[1, 2, 3], [2, 2, 2]]], np.int32)
  places = np.array([[[0], [2]]], np.int32)
  return (
    adapting.FewShotTasks(tokens, places, labels_),
    adapting.QueryPoints(tokens, places),
    kind,
  )


def test_real_labels_are_numbers():
  sets, asked, kind = _one(
    adapting.Real(2), np.full((1, 2, 1, 2), 0.5, np.float32)
  )
  model = _model(lambda prompt: 'Answer: [[1, 2], [3e0, -4.5]]')
  result = model.adapt(sets, asked, kind, (1, 2), 0)
  np.testing.assert_array_equal(result[:, 0, :, 0], [[[1, 2], [3, -4.5]]] * 2)
  prompt = model.backend.asked[0].prompt
  assert '1. left: [0.5, 0.5]' in prompt
  assert 'a list of 2 numbers' in prompt
  means = _model(_solver).adapt(sets, asked, kind, (1,), 0)
  np.testing.assert_array_equal(means, np.full((1, 1, 2, 1, 2), 0.5))


def test_what_does_not_fit_is_refused():
  sets, asked, kind = _one(adapting.Classes(2, 2), np.zeros((1, 2, 1, 2), int))
  with pytest.raises(core.InputError, match='one label a place, not 2'):
    _model(_solver).adapt(sets, asked, kind, (1,), 0)


def test_a_stream_is_refused():
  sets, asked, kind = _one(adapting.Classes(2), np.zeros((1, 2, 1, 1), int))
  with pytest.raises(core.InputError, match='expected data sets, and no strea'):
    _model(_solver).adapt(
      adapting.TaskStream(lambda step: sets), asked, kind, (1,), 0
    )
  small = llm_predictor.LanguageModel(
    LATTICE, verbal.PromptStyle(), Answerer(_solver), 400
  )
  with pytest.raises(core.InputError, match='most_told'):
    METRIC(small, LATTICE, 0)


@pytest.mark.parametrize(
  ('text', 'value', 'failure'),
  [
    ('Answer: [0, 1, 1]', (0, 1, 1), ''),
    ('[0, 1, 1]', (0, 1, 1), ''),
    ('Answer: 0, 1, 1', (0, 1, 1), ''),
    ('Answer:\n1. 0\n2. 1\n3. 1', (0, 1, 1), ''),
    ('Answer: ["0", 1.0, 1]', (0, 1, 1), ''),
    ('Answer: [0, 1]', None, 'wrong_length'),
    ('Answer: [0, 1, 2]', None, 'unknown_label'),
    ('Answer: [0, 1, true]', None, 'unknown_label'),
    ('Answer: [0, 1, exec]', None, 'malformed'),
    ('Answer: [0, 1, 1', None, 'truncated'),
    ('', None, 'empty'),
    ('9' * 100_000, None, 'nothing'),
    ('[' * 100_000, None, 'too_deep'),
  ],
)
def test_lists_of_labels(text, value, failure):
  question = queries.Query('', queries.LABELS, (0,), ((3, 1, 2),))
  result = grammar.AnswerReader(['', 'a']).read(question, text)
  assert result == Answer(value, failure, result.probability, text)
