"""The seating puzzle put to answerers of known faults, and text that is odd."""

import numpy as np
import pytest

from tests.language.stand_ins import seatings
from tests.language.stand_ins.asked import Asked
from wm import core
from wm.core import registry
from wm.metrics import capability
from wm.papers.seating import report as reports
from wm.papers.seating import score as scoring
from wm.worlds.seating import text


@pytest.fixture(scope='module')
def protocol():
  return scoring.Protocol(puzzles=30, trials=40)


@pytest.fixture(scope='module')
def asked(protocol):
  return scoring.questions(protocol)


def _read(one, reply, strict=False):
  if one.suffix:
    found = scoring.verdict(reply, strict).value
  else:
    found = scoring.seat(reply, 3, strict).value
  return None if found is None else int(found)


def _said(asked, knows):
  replies = (seatings.answer(Asked([one.prompt], knows)) for one in asked)
  return [_read(one, reply) for one, reply in zip(asked, replies, strict=True)]


def _values(protocol, asked, said):
  found = scoring.headlines(scoring.scores(protocol, asked, said))
  return {name: one['value'] for name, one in found.items()}


def test_one_who_reads_prompts_is_perfect(protocol, asked):
  """The truth of the list is the world's; the reader never saw the world."""
  said = _said(asked, 'solver')
  assert said == [one.truth for one in asked]
  assert _values(protocol, asked, said) == {
    'accuracy': 1,
    'accuracy_all': 1,
    'compression': 1,
    'distinction': 1,
  }


def test_one_who_says_yes_compresses_and_distinguishes_nothing(protocol, asked):
  found = _values(protocol, asked, _said(asked, 'yes'))
  assert found['compression'] == 1
  assert found['distinction'] == 0
  seats = [one.truth for one in asked if not one.suffix]
  assert found['accuracy'] == np.mean(np.array(seats) == 1)


@pytest.mark.parametrize('spec', ['solver(errors=0.1)', 'solver(memory=1)'])
def test_answers_in_words_score_as_the_metrics_do(protocol, asked, spec):
  """A noisy one, and one who remembers the last statement alone: by order."""
  world = protocol.world
  predictor = registry.make('model', spec).predictor(world, 0)
  verdicts = [one for one in asked if one.suffix]
  answers = predictor.answers(
    [one.prefix for one in verdicts], [one.suffix for one in verdicts]
  )
  replies = [f'I think so.\nANSWER: {("No", "Yes")[k]}.' for k in answers]
  said = [
    _read(one, reply) for one, reply in zip(verdicts, replies, strict=True)
  ]
  found = scoring.scores(protocol, verdicts, said)
  for part, metric in protocol.metrics().items():
    wanted = metric(predictor, world, protocol.seed)
    for one, other in zip(found[part], wanted, strict=True):
      assert one.quantity == other.quantity
      np.testing.assert_array_equal(one.value, other.value)
      np.testing.assert_array_equal(one.reason, other.reason)
  summaries = scoring.headlines(found)
  assert summaries['compression']['value'] < 0.95
  assert summaries['distinction']['value'] < 0.95


def test_puzzles_are_those_of_the_metric(protocol, asked):
  world = protocol.world
  oracle = registry.make('model', 'oracle()').predictor(world, 0)
  (wanted,) = capability.Metric(num=30)(oracle, world, protocol.seed)
  mine = [one for one in asked if not one.suffix]
  for one, prefix in zip(mine, wanted.columns['prefix'], strict=True):
    assert [world.vocab[t] for t in one.prefix] == prefix.split()
  said = [one.truth for one in mine]
  (found, _) = scoring.scores(protocol, mine, said)['capability']
  np.testing.assert_array_equal(found.group, wanted.group)


def test_what_cannot_be_read_is_a_third_outcome(protocol, asked):
  said = [None if n % 3 else one.truth for n, one in enumerate(asked)]
  shares = scoring.unread(asked, said)
  assert set(shares) == set(scoring.PARTS)
  assert all(0.6 < share < 0.7 for share in shares.values())
  found = scoring.headlines(scoring.scores(protocol, asked, said))
  assert found['accuracy']['value'] == 1
  assert found['accuracy']['unmeasured'] == {'no_answer': 20}
  assert found['accuracy_all']['value'] == pytest.approx(1 / 3)
  nothing = [None] * len(asked)
  silent = scoring.headlines(scoring.scores(protocol, asked, nothing))
  assert silent['compression']['value'] is None
  assert silent['compression']['unmeasured']['no_answer'] > 0


def test_each_question_is_put_once_and_says_what_it_asks(protocol, asked):
  pairs = [(one.prefix, one.suffix) for one in asked if one.suffix]
  assert len(set(pairs)) == len(pairs)
  assert [one.part for one in asked[:30]] == ['capability'] * 30
  vocab = protocol.world.vocab
  one = next(one for one in asked if one.suffix)
  for token in one.prefix + one.suffix:
    assert text.statement(vocab[token]) in one.prompt
  again = scoring.questions(protocol)
  assert again == asked


def test_published_protocol_draws_once_and_reads_strictly(protocol):
  published = scoring.Protocol('published', puzzles=2, trials=2)
  assert published.strict
  assert published.metrics()['compression'].attempts == 1
  assert protocol.metrics()['compression'].attempts == 32


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
    ('A is in seat 1.\nC sits at seat number 2, 1 seat away from A.', 2, None),
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


def test_the_figure_has_the_papers_models_beside(protocol, asked):
  noisy = [
    one.truth if n % 7 else 1 - min(one.truth, 1) for n, one in enumerate(asked)
  ]
  runs = {
    'noisy': reports.ModelAnswers(protocol, asked, noisy),
    'solver': reports.ModelAnswers(protocol, asked, _said(asked, 'solver')),
  }
  found = reports.runs_page(runs)
  rows = {row[0]: row[1:] for row in found.tables[0].rows}
  assert rows['solver'][0].startswith('1.000 [')
  assert rows['GPT-4'] == (
    *('1.00 ± 0.00', '0.21 ± 0.04', '0.56 ± 0.03', '', 'paper'),
  )
  assert rows['Llama-3-8B'][0] == '0.85 ± 0.02'
  assert len(rows) == 2 + 8
  (table,) = found.tables[1:]
  assert table.title.startswith('noisy: one state, two answers')
  assert not list(reports.contradictions(runs['solver']))
  for one in reports.contradictions(runs['noisy']):
    assert one['yes'] != one['no']
  assert len(found.rows['seating']) == 2 * len(asked)
