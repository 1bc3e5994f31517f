"""The seating puzzle put to answerers of known faults, and text that is odd."""

import functools

import numpy as np
import pytest

from tests.language.stand_ins import seatings
from tests.language.stand_ins.asked import Asked
from wm import core
from wm.core import queries, registry
from wm.core.queries import Answer
from wm.language import world_questions
from wm.language.papers.seating import prompts
from wm.language.papers.seating import report as reports
from wm.language.papers.seating import score as scoring
from wm.metrics import capability


@pytest.fixture(scope='module')
def protocol():
  return scoring.Protocol(puzzles=30, trials=40)


@pytest.fixture(scope='module')
def asked(protocol):
  """(metadata of a sample, question) of all questions, in order."""
  result = []
  for setting, questions in protocol.settings():
    world = world_questions.made_world(setting.world)
    truths = queries.truths(world, [question for question, _ in questions])
    for (question, trial), truth in zip(questions, truths, strict=True):
      data = world_questions.metadata(setting, question, truth, trial)
      result.append((data, question))
  return result


def _pairs(asked, reply):
  """Metadata and answers; reply: (metadata, question) -> text, or None."""
  return [
    (data, scoring.read(question, reply(data, question) or '', data['truth']))
    for data, question in asked
  ]


def _of(knows):
  return lambda data, question: seatings.answer(Asked([question.prompt], knows))


def _right(data, question):
  if question.kind == queries.YES_NO:
    return ('No.', 'Yes.')[data['truth']]
  return f'ANSWER: {data["truth"] + 1}'


def _values(pairs):
  bars = scoring.bars(world_questions.gathered(pairs))
  return {name: item['value'] for name, item in bars.items()}


def test_one_who_reads_prompts_is_perfect(asked):
  """The truth of the list is the world's; the reader never saw the world."""
  pairs = _pairs(asked, _of('solver'))
  assert [answer.value for _, answer in pairs] == [x['truth'] for x, _ in asked]
  assert _values(pairs) == {
    'accuracy': 1,
    'accuracy_all': 1,
    'compression': 1,
    'distinction': 1,
  }


def test_one_who_says_yes_compresses_and_distinguishes_nothing(asked):
  result = _values(_pairs(asked, _of('yes')))
  assert result['compression'] == 1
  assert result['distinction'] == 0
  seats = [x['truth'] for x, item in asked if item.kind == queries.ONE_NEXT]
  assert result['accuracy_all'] == pytest.approx(seats.count(0) / len(seats))


@pytest.mark.parametrize('spec', ['solver(errors=0.1)', 'solver(memory=1)'])
def test_answers_in_words_score_as_the_metrics_do(asked, spec):
  """A noisy one, and one who remembers the last statement alone: by order."""
  verdicts = [(x, first) for x, first in asked if first.kind == queries.YES_NO]
  world = world_questions.made_world(verdicts[0][0]['world'])
  predictor = registry.make('model', spec).predictor(world, 0)
  answers = predictor.answers(
    [first.prefix for _, first in verdicts],
    [first.suffixes[0] for _, first in verdicts],
  )
  output = {
    first.prompt: f'I think so.\nANSWER: {("No", "Yes")[k]}.'
    for (_, first), k in zip(verdicts, answers, strict=True)
  }
  pairs = _pairs(verdicts, lambda _, question: output[question.prompt])
  ((setting, known),) = world_questions.gathered(pairs).items()
  model = world_questions.recalled_predictor(setting, known)
  for metric in map(
    functools.partial(registry.make, 'metric'), setting.metrics
  ):
    results, expected = (
      metric(x, world, setting.seed) for x in (model, predictor)
    )
    for first, other in zip(results, expected, strict=True):
      assert first.quantity == other.quantity
      np.testing.assert_array_equal(first.value, other.value)
      np.testing.assert_array_equal(first.reason, other.reason)
  values = _values(pairs)
  assert values['compression'] < 0.95
  assert values['distinction'] < 0.95


def test_puzzles_are_those_of_the_metric(asked):
  """Of the usual world too, where it does not find them too long."""
  world = registry.make('world', 'seating()')
  oracle = registry.make('model', 'oracle()').predictor(world, 0)
  (expected,) = capability.Metric(num=30)(oracle, world, 0)
  mine = {
    ' '.join(world.vocab[t] for t in item.prefix)
    for _, item in asked
    if item.kind == queries.ONE_NEXT
  }
  assert mine == {*expected.columns['prefix']}


def test_what_cannot_be_read_is_a_third_outcome(asked):
  places = {item.prompt: n for n, (_, item) in enumerate(asked)}

  def third(data, question):
    return '' if places[question.prompt] % 3 else _right(data, question)

  pairs = _pairs(asked, third)
  shares = scoring.unread(pairs)
  assert set(shares) == {'capability', 'compression', 'distinction'}
  assert all(0.6 < share < 0.7 for share in shares.values())
  bars = scoring.bars(world_questions.gathered(pairs))
  assert bars['accuracy']['value'] == 1
  assert set(bars['accuracy']['unmeasured']) == {'no_answer'}
  assert bars['accuracy_all']['value'] == pytest.approx(1 / 3, abs=0.02)
  silent = _pairs(asked, lambda data, question: '')
  bars = scoring.bars(world_questions.gathered(silent))
  assert bars['compression']['value'] is None
  assert bars['compression']['unmeasured']['no_answer'] > 0


def test_each_question_is_put_once_and_says_what_it_asks(protocol, asked):
  prompts_of = [item.prompt for _, item in asked]
  assert len(set(prompts_of)) == len(asked)
  vocab = world_questions.made_world(asked[0][0]['world']).vocab
  data, item = next((x, q) for x, q in asked if q.kind == queries.YES_NO)
  assert data['trial'].startswith('compression ')
  for token in item.prefix + item.suffixes[0]:
    assert prompts.statement(vocab[token]) in item.prompt
  again = [q.prompt for _, of in protocol.settings() for q, _ in of]
  assert again == prompts_of


def test_published_protocol_draws_once_and_reads_strictly():
  published = scoring.Protocol('published', puzzles=2, trials=2)
  assert published.strict
  for protocol, attempts in ((published, 1), (scoring.Protocol(trials=2), 32)):
    *_, (setting, _) = protocol.settings()
    for spec in setting.metrics:
      assert registry.make('metric', spec).attempts == attempts
  question = queries.Query('', queries.ONE_NEXT, (), ((1,), (2,), (3,)))
  assert scoring.read(question, 'ANSWER: 2', 0, True).value == 1
  assert scoring.read(question, 'ANSWER: 7', 2, True).value == 0
  assert scoring.read(question, 'ANSWER: 7', 2).failure


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'variant': 'mine'}, 'available: corrected, published'),
    ({'trials': 0}, 'expected at least 1'),
  ],
)
def test_bad_protocols(fields, message):
  with pytest.raises(core.InputError, match=message):
    scoring.Protocol(**fields)


@pytest.mark.parametrize(
  ('reply', 'seat', 'strict'),
  [
    ('ANSWER: 2', 2, 2),
    ('So A is in seat 1.\nANSWER: seat 2', 2, None),
    ('**Answer:** C is seated in seat **3**.', 3, None),
    ('C is seated in seat 3.', 3, None),
    ('C sits in the third seat.', 3, None),
    (
      'A is in seat 1.\nC sits at seat number 2, 1 seat away from A.',
      None,
      None,
    ),
    ('Answer: two', 2, None),
    ('The answer is: 2', 2, None),
    ('So the answer is "C sits in seat 3."', 3, None),
    ('<think>ANSWER: 1</think>ANSWER: 3', 3, 3),
    ('3', 3, None),
    ('ANSWER: 4', None, 4),
    ('ANSWER: 1. No!\nANSWER: **3**.', 3, 3),
    ('ANSWER: 1 or 2', None, 1),
    ('A is in seat 1, B is in seat 2.', None, None),
    ('ANSWER: unknown', None, None),
    ('ANSWER: C sits in seat 2, 1 seat away from A', 2, None),
    ('ANSWER: 1 seat away from A', None, 1),
    ('Answer: No one knows.', None, None),
    ('Answer: the one on the left', None, None),
    ('Answer: seat one', 1, None),
    ('C cannot be in seat 3.', None, None),
    ("Answer: it isn't seat 2", None, None),
    ("I'm sorry, I cannot tell.", None, None),
    ('', None, None),
    ('seat ' * 100_000, None, None),
    ('9' * 500_000, None, None),
  ],
)
def test_seats_in_free_text(reply, seat, strict):
  assert scoring.seat(reply, 3).value == seat
  assert scoring.seat(reply, 3, strict=True).value == strict


@pytest.mark.parametrize(
  ('reply', 'verdict', 'strict'),
  [
    ('ANSWER: yes', True, True),
    ('ANSWER: **No**', False, None),
    ('No.', False, None),
    ('The answer is yes.', True, None),
    ('ANSWER: yes\nOr not.\nANSWER: no', False, False),
    ('ANSWER: Yes', True, None),
    ('Answer: yes', True, None),
    ('ANSWER: yes, it is', True, None),
    ('ANSWER: perhaps', None, None),
    ('Perhaps.', None, None),
    ('\ud800', None, None),
  ],
)
def test_verdicts_in_free_text(reply, verdict, strict):
  assert scoring.verdict(reply).value is verdict
  assert scoring.verdict(reply, strict=True).value is strict


def test_the_figure_has_the_papers_models_beside(asked):
  noisy = [
    (data, Answer(bool(data['truth']) if n % 7 else not data['truth']))
    if item.kind == queries.YES_NO
    else (data, Answer(data['truth']))
    for n, (data, item) in enumerate(asked)
  ]
  solver = _pairs(asked, _of('solver'))
  runs = {
    'noisy': ('corrected', noisy),
    'solver': ('corrected', solver),
  }
  rows = {row[0]: row[1:] for row in reports.figure_4(runs).rows}
  assert rows['solver'][0].startswith('1.000 [')
  assert rows['solver'][3:] == ('0.000, 0.000, 0.000', 'corrected')
  assert rows['GPT-4'] == (
    *('1.00 ± 0.00', '0.21 ± 0.04', '0.56 ± 0.03', '', 'paper'),
  )
  assert rows['Llama-3-8B'][0] == '0.85 ± 0.02'
  assert len(rows) == 2 + 8
