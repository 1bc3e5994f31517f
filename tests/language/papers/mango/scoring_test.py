"""Scores of answers on a small maze, and the rules that differ."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wm.language.papers.mango import score as scoring
from wm.language.papers.mango.score import MazeMove, MazeQuestion, MovesAnswer

# Rejected by play: hall-west->cellar is not of the data.
EDGES = [
  ('hall', 'north', 'kitchen'),
  ('kitchen', 'south', 'hall'),
  ('cellar', 'east', 'hall'),
  ('hall', 'enter car', 'inside of the car'),
  ('kitchen', 'pray', 'attic'),
  ('kitchen', 'pray', 'hall'),
]
LOOSE = scoring.JudgeGraph(EDGES)


def walk(start: str, *pairs: tuple[str, str]) -> MovesAnswer:
  """An answer whose moves are linked: (action, place) each."""
  moves, here = [], start
  for action, after in pairs:
    moves.append(MazeMove(here, action, after))
    here = after
  return MovesAnswer(tuple(moves))


@pytest.mark.parametrize(
  ('text', 'name', 'expected'),
  [
    ('the house', 'house', 0.555556),
    ('that house', 'house', 0.5),
    ('driveway', 'bathroom', 0.0),
    ('bedroom', 'living room', 0.363636),
    ('Hall', 'hall (1st floor, north end of north/south hall)', 0.085106),
    ('walk south', 'south', 0.5),
    ('walk south', 'southwest', 0.1),
    ('go north', 'north', 0.625),
    ('n', 'in', 0.5),
    ('n', 'down', 0.25),
    ('n', 'north', 0.2),
    ('', '', 0.0),
    ('', 'a', 0.0),
  ],
)
def test_similarity(text, name, expected):
  assert scoring.similarity(text, name) == pytest.approx(expected, abs=1e-6)


@given(st.text('abAB ', max_size=9), st.text('abAB ', max_size=9))
def test_similarity_is_one_minus_edits_over_the_longer_length(one, other):
  one, other = one.lower(), other.lower()
  row = list(range(len(other) + 1))
  for i, x in enumerate(one, 1):
    last, row[0] = row[0], i
    for j, y in enumerate(other, 1):
      last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
  most = max(len(one), len(other))
  expected = 1 - row[-1] / most if most else 0
  assert scoring.similarity(one, other) == pytest.approx(expected)


@given(st.lists(st.text('abc', max_size=4), min_size=1), st.text('abc'))
def test_the_closest_name_is_the_first_of_the_most_similar(names, text):
  names = sorted(set(names))
  close = [scoring.similarity(text, name) for name in names]
  result = scoring.JudgeGraph([('', name, '') for name in names]).closest(text)
  assert names.index(result) == close.index(max(close))


def test_a_destination_has_partial_credit_and_chance_beside_it():
  asked = MazeQuestion('hall', 'kitchen', ('north',))
  right = scoring.judge(LOOSE, asked, walk('hall', ('north', 'Kitchen')))
  assert right[1:4] == (1, 1, 1)
  near = scoring.judge(LOOSE, asked, walk('hall', ('north', 'the kitchen!')))
  assert near.success == pytest.approx(7 / 12)
  assert (near.exact, near.reasoning) == (0, 0)
  names = 'attic', 'cellar', 'hall', 'inside of the car', 'kitchen'
  chance = sum(scoring.similarity(name, 'kitchen') for name in names) / 5
  assert right.chance == near.chance == pytest.approx(chance)
  ill = scoring.judge(LOOSE, asked, MovesAnswer((), 'empty'))
  assert ill == scoring.Score('empty', chance=right.chance)


def test_several_places_are_right_where_an_action_has_several_outcomes():
  asked = MazeQuestion('kitchen', 'attic', ('pray',))
  for place in ('attic', 'hall'):
    result = scoring.judge(LOOSE, asked, walk('kitchen', ('pray', place)))
    assert (result.success, result.reasoning) == (1, 1)


def test_reasoning_is_right_move_by_move():
  asked = MazeQuestion('kitchen', 'inside of the car', ('south', 'enter car'))
  moves = (
    MazeMove('kitchen', 'south', 'hall'),
    MazeMove('hall', 'enter car', 'inside of the car'),
  )

  def rule(*moves: MazeMove) -> float:
    return scoring.judge(LOOSE, asked, MovesAnswer(moves)).reasoning

  assert rule(*moves) == 1
  jump = MazeMove('hall', 'enter car', 'attic')
  assert rule(moves[0], jump) == 0
  # Other actions than asked for.
  assert rule(MazeMove('cellar', 'east', 'hall'), moves[1]) == 0
  assert rule(MazeMove('kitchen', 'pray', 'hall'), moves[1]) == 0
  # A move that is taken for the right one.
  assert rule(MazeMove('kitchen', 'go south', 'hall'), moves[1]) == 1
  unlinked = MazeMove('hall', 'enter car', 'hall')
  assert rule(moves[0], unlinked) == 0


def test_a_route_may_take_moves_known_to_fail_in_the_loose_graph():
  asked = MazeQuestion('hall', 'cellar')
  answer = walk('hall', ('west', 'cellar'))
  assert scoring.judge(LOOSE, asked, answer).success == 1


def test_moves_of_a_route_are_repaired_and_counted():
  asked = MazeQuestion('hall', 'kitchen')
  answer = walk('hall', ('walk north', 'kitchen'))
  result = scoring.judge(LOOSE, asked, answer)
  assert (result.success, result.exact, result.repaired) == (1, 0, 1)
  assert result.reasoning == 0
  # What no action is like is taken for one all the same.
  open_door = walk('hall', ('open front door', 'hall'), ('north', 'kitchen'))
  assert scoring.judge(LOOSE, asked, open_door).success == 0


def test_the_closest_move_of_the_graph():
  asked = MazeQuestion('hall', 'kitchen')
  answer = walk('hall', ('n', 'kitchen'))
  # 'n' is as close to `north` as to nothing else here but `enter car`: the
  # first of the most similar actions is taken.
  assert LOOSE.closest('n') == 'north'
  wider = [*EDGES, ('attic', 'in', 'kitchen')]
  assert scoring.JudgeGraph(wider).closest('n') == 'in'
  assert scoring.judge(scoring.JudgeGraph(wider), asked, answer).success == 0
  # Ties are broken by the alphabet, whatever order edges come in.
  for edges in (EDGES, EDGES[::-1]):
    assert scoring.JudgeGraph(edges).closest('xyzzq') == 'east'


def test_what_is_made_up_is_counted():
  answer = MovesAnswer(
    (
      MazeMove('hall', 'north', 'kitchen'),
      MazeMove('kitchen', 'fly', 'moon'),
      MazeMove('kitchen', 'north', 'attic'),
    )
  )
  result = scoring.judge(LOOSE, MazeQuestion('hall', 'attic'), answer)
  assert (result.moves, result.repaired, result.places, result.edges) == (
    3,
    1,
    1,
    1,
  )


def test_questions_of_places_that_the_graph_does_not_know():
  asked = MazeQuestion('moon', 'mars', ('fly',))
  result = scoring.judge(LOOSE, asked, walk('moon', ('fly', 'mars')))
  assert result.success == 1
  route = asked._replace(actions=())
  assert scoring.judge(LOOSE, route, walk('moon', ('fly', 'mars'))).success == 0
