"""Generated mazes: their truth, walkthroughs, and the format of MANGO."""

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tests.language.stand_ins import mazes as readers
from tests.worlds.text_game import games
from wm import core
from wm.core import registry, verbal
from wm.language.papers.mango import maze_questions
from wm.worlds import mazes, text_game
from wm.worlds.text_game import maze

LARGE = mazes.World(
  places=40,
  loops=10,
  one_way=4,
  doors=4,
  levels=3,
  named=6,
  confusable=20,
  dark=5,
  seed=7,
)


@st.composite
def worlds(draw):
  """Mazes of any mixture whose passages fit."""
  places = draw(st.integers(2, 16))
  named = draw(st.integers(0, min(3, places - 1)))
  rest = places - named
  small = st.integers(0, 2)
  world = mazes.World(
    places=places,
    loops=draw(small),
    one_way=draw(small),
    doors=draw(small),
    levels=draw(st.integers(1, min(3, rest))),
    named=named,
    confusable=draw(st.integers(0, rest)),
    dark=draw(st.integers(0, places - 1)),
    seed=draw(st.integers(0, 99)),
  )
  try:
    world.layout  # noqa: B018
  except core.InputError:
    reject()
  return world


def triples(outcome):
  """Edges by name."""
  return {outcome.words(edge) for edge in range(outcome.edges.size)}


@given(worlds())
@settings(max_examples=40)
def test_a_maze_has_what_is_asked_for(world):
  facts, result = world.stats(), world.maze
  two_way = world.places - 1 + world.loops
  one_way = world.one_way + world.doors
  assert facts['places'] == facts['reached'] == world.places
  assert facts['sets'] == world.places
  assert facts['edges'] == 2 * two_way + one_way
  assert facts['ambiguous'] == 0
  assert len(set(result.places)) == world.places
  marked = [name for name in result.places if '(' in name]
  assert len(marked) == world.confusable
  floors = [name for name in result.actions if name in ('up', 'down')]
  assert bool(floors) >= (world.levels > 1)
  reach = np.eye(world.places, dtype=bool)
  for _ in range(world.places):
    np.maximum.at(reach.T, result.edges.target, reach.T[result.edges.source])
  assert reach.all()


@given(worlds())
@settings(max_examples=40)
def test_the_walkthrough_shows_all_of_the_maze_when_it_says(world):
  result, layout = world.maze, world.layout
  every = mazes.moves(layout)
  assert triples(result) == {
    (layout.places[m.source], m.action, layout.places[m.target]) for m in every
  }
  played = result.edges.played
  forward = np.full(result.edges.size, maze.NEVER)
  messages = forward.copy()
  numbers = {result.words(e): e for e in range(result.edges.size)}
  seen = {result.places[0]}
  for step, (before, after) in enumerate(
    zip(result.trail[:-1], result.trail[1:], strict=True), 1
  ):
    there = result.places[after]
    lines = result.steps[step].observation.split('\n')
    if result.steps[step].action == mazes.LAMP:
      assert before == after
      assert lines[0] == there
      seen.add(there)
      continue
    edge = numbers[result.places[before], result.steps[step].action, there]
    late = lines == ['It is pitch dark here.']
    assert late == (int(after) in layout.dark and there not in seen)
    assert late or lines[0] == there
    seen.add(there)
    if forward[edge] == maze.NEVER:
      forward[edge], messages[edge] = step, step + late
  np.testing.assert_array_equal(played.forward, forward)
  np.testing.assert_array_equal(result.edges.answerable.forward, messages)
  np.testing.assert_array_equal(
    maze.followed(result._replace(trail=result.trail[:0])), result.trail
  )
  # An edge is imputed as soon as its opposite is walked, if it is there.
  for edge in range(result.edges.size):
    source, action, target = result.words(edge)
    other = numbers.get((target, maze.OPPOSITE.get(action), source))
    expected = maze.NEVER if other is None else forward[other]
    assert played.reverse[edge] == expected
  assert (played.total < maze.NEVER).all()


@pytest.mark.parametrize(
  'world', [mazes.World(), LARGE], ids=['small', 'large']
)
def test_text_game_reads_what_is_written(world, tmp_path):
  place = text_game.readers.write(world.maze, tmp_path, 'castle')
  assert sorted(path.name for path in tmp_path.iterdir()) == ['castle']
  assert place == tmp_path / 'castle'
  result, expected = text_game.readers.read(tmp_path, 'castle'), world.maze
  assert result.game == 'castle'
  for name in ('generation', 'places', 'actions', 'steps'):
    assert getattr(result, name) == getattr(expected, name)
  np.testing.assert_array_equal(result.trail, expected.trail)
  for first, other in zip(
    (*result.edges[:3], *result.edges.played, *result.edges.answerable),
    (*expected.edges[:3], *expected.edges.played, *expected.edges.answerable),
    strict=True,
  ):
    assert first.dtype == other.dtype
    np.testing.assert_array_equal(first, other)
  again = text_game.World(folder=str(tmp_path), game='castle')
  assert (again.vocab, again.names) == (world.vocab, world.names)
  np.testing.assert_array_equal(again.delta, world.delta)
  with pytest.raises(core.InputError, match='is there already'):
    text_game.readers.write(world.maze, tmp_path, 'castle')


def test_doors_and_darkness_make_questions_hard():
  """What a reader of the text would get wrong is counted, and labelled."""
  result = LARGE.maze
  late = result.edges.answerable.forward > result.edges.played.forward
  assert late.sum() == LARGE.dark
  easy, hard = games.answered_at(
    maze_questions.destinations(result, longest=6, listed=False), result.last
  )
  assert min(easy.sum(), hard.sum()) > 100


@given(st.integers(0, 30), st.integers(0, 9))
@settings(max_examples=15)
def test_a_maze_is_told_edge_by_edge(seed, telling):
  world = mazes.World(seed=seed, loops=1, doors=0, one_way=0)
  lines = core.PromptStyle(telling)
  read = readers.read(verbal.render_description(world, lines))
  names = list(world.maze.places)
  if telling:
    names = verbal.new_names(len(names), lines)
  edges = world.maze.edges
  assert read.edges == {
    (names[u], world.maze.actions[a], names[v])
    for u, a, v in zip(*edges[:3], strict=True)
  }
  assert read.first == names[world.maze.start]


@pytest.mark.parametrize(
  ('spec', 'message'),
  [
    ('places=1', 'places=1; expected at least 2'),
    ('loops=-1', 'loops=-1; expected at least 0'),
    (
      'places=4, named=4',
      'named=4; expected at least 0 and at most 96 and less than places=4',
    ),
    ('levels=12', 'levels=12, places=12, named=1; expected at most 11'),
    ('confusable=12', 'confusable=12.*expected at most 11'),
    ('dark=12', 'dark=12; expected at least 0 and less than places=12'),
    ('places=400', 'places=400, named=1; expected at most 257'),
    ('places=150, named=100', 'named=100; .* at most 96'),
    ('length=1', 'length=1; expected at least 2 actions'),
  ],
)
def test_bad_fields_are_one_line(spec, message, one_line):
  with one_line(message):
    registry.make('world', f'mazes({spec})')


def test_what_does_not_fit_is_one_line(one_line):
  message = 'loops=99, one_way=1 and doors=1 are 101 passages; [0-9]+ more fit'
  with one_line(message):
    mazes.World(loops=99).maze  # noqa: B018


def test_a_tree_without_room_for_the_rest_is_drawn_again():
  for seed in (32, 46, 289):  # Their first trees leave room for four passages.
    assert len(mazes.World(seed=seed).maze.places) == 12


def test_a_passage_with_a_name_is_seen_from_both_sides():
  """Outside the thing is there to enter; inside one can leave it."""
  layout = LARGE.layout
  passage = next(p for p in layout.passages if p.kind == mazes.NAMED)
  name = layout.places[passage.target]
  outside, inside = (
    mazes.describe(layout, place) for place in (passage.source, passage.target)
  )
  assert f'There is a {name} here.' in outside
  assert f'You can {passage.back}.' in inside
  assert f'There is a {name} here.' not in inside
  assert f'You can {passage.back}.' not in outside
