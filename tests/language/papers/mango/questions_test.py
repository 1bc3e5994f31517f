"""Questions in words, what is shown of a walkthrough, and the baselines."""

import collections

import pytest

from tests.language.stand_ins import asked as askeds
from tests.language.stand_ins import mango as reader
from tests.worlds.text_game import games
from wm import core
from wm.language.papers.mango import questions
from wm.language.papers.mango import score as scoring
from wm.language.papers.mango.score import MazeQuestion, similarity
from wm.worlds import text_game
from wm.worlds.text_game import readers
from wm.worlds.text_game.maze import WalkthroughStep

HOTEL = text_game.hotel()


@pytest.fixture(scope='module')
def zork1(testdata):
  return readers.read(games.archive(testdata), 'zork1')


@pytest.fixture(scope='module')
def small(testdata):
  return readers.read(games.archive(testdata), '905')


@pytest.mark.parametrize(
  ('step', 'kind', 'easy', 'hard'),
  [
    (20, 'destination', 34, 3),
    (20, 'route', 34, 3),
    (40, 'destination', 142, 19),
    (40, 'route', 142, 19),
    (70, 'destination', 351, 46),
    (70, 'route', 279, 45),
  ],
)
def test_zork1_has_the_published_questions(zork1, step, kind, easy, hard):
  results = questions.questions(zork1, kind, step)
  counted = collections.Counter(asked.easy for asked in results)
  assert (counted[True], counted[False]) == (easy, hard)
  assert len({asked.key for asked in results}) == len(results)
  if kind == 'destination':
    assert all(asked.easy == (asked.imputed == 0) for asked in results)
    assert all(len(asked.actions) == asked.length for asked in results)


def test_altar_to_dome_room_is_not_the_papers_example(zork1):
  routes = {asked[:2]: asked for asked in questions.questions(zork1, 'route')}
  assert routes['altar', 'dome room'].length == 12
  graph = questions.judge_graph(zork1)
  assert graph.follow('altar', ('north',)) == {'temple'}


def test_places_after_steps_are_the_annotators(testdata):
  ready, whole = (
    games.archive(testdata, name) for name in ('camera_ready', 'annotation')
  )
  differ, steps = [], 0
  for game in ('905', 'zork3', 'lurking', 'inhumane', 'murdac'):
    ours = questions.places_walked(readers.read(ready, game))
    full = readers.read(whole, game)
    for step, (first, other) in enumerate(
      zip(ours[:71], questions.places_walked(full)[:71], strict=False)
    ):
      steps += bool(other)
      differ += [(game, step)] * (bool(other) and first != other)
  # The annotators have a lift move one step later.
  assert differ == [('inhumane', 51)]
  assert steps > 250


def test_a_maze_without_walkthrough_shows_nothing():
  with pytest.raises(core.InputError, match='no walkthrough'):
    questions.shown_steps(HOTEL)


def _chance(maze):
  """Mean chance of an answer to an easy destination question."""
  graph = questions.judge_graph(maze)
  unread = scoring.MovesAnswer((), 'empty')
  chances = [
    scoring.judge(graph, asked, unread).chance
    for asked in questions.questions(maze, 'destination')
    if asked.easy
  ]
  return sum(chances) / len(chances)


def test_chance_is_that_of_a_place_drawn_at_random(zork1):
  names = zork1.places
  expected = [
    sum(similarity(name, asked.target) for name in names) / len(names)
    for asked in questions.questions(zork1, 'destination')
    if asked.easy
  ]
  chance = _chance(zork1)
  # A few actions have several outcomes.
  assert sum(expected) / len(expected) <= chance
  assert 0.2 < chance < 0.3


@pytest.mark.slow
def test_chance_over_all_games(testdata):
  mazes = games.read_all(games.archive(testdata))
  total = num = 0
  for maze in mazes.values():
    means = {
      end: sum(similarity(name, end) for name in maze.places) / len(maze.places)
      for end in maze.places
    }
    for asked in questions.questions(maze, 'destination'):
      total += means[asked.target]
      num += 1
  assert num == 21160
  assert round(total / num, 4) == 0.2361


@pytest.mark.parametrize('generation', ['camera_ready', 'paper'])
def test_the_solver_reads_prompts(small, generation):
  shown = questions.render(questions.shown_steps(small, 'simple'))
  names = small.actions, small.places
  graph = questions.judge_graph(small)
  for kind in questions.KINDS:
    for asked in questions.questions(small, kind):
      text = questions.prompt(shown, asked, names, generation)
      output = reader.answer(askeds.Asked([text]))
      answer = scoring.parse(output)
      result = scoring.judge(graph, asked, answer)
      assert (result.success, result.reasoning) == (1, 1)
      guess = scoring.parse(reader.answer(askeds.Asked([text], 'random')))
      assert guess.failure == ''


def test_other_prompts_are_not_the_readers():
  for text in (
    '',
    'Hello!',
    'A text game was played as follows, step by step:\n',
  ):
    assert reader.answer(askeds.Asked([text])) is None


def test_a_question_is_read_with_quotes_inside_names():
  asked = MazeQuestion('at "y2"', "aunt jemima's lair")
  names = ['say "xyzzy"'], [*asked[:2]]
  steps = [
    WalkthroughStep(0, 'Init', 'At "Y2" (dark)\nYou see nothing.'),
    WalkthroughStep(1, 'say "xyzzy"', "Aunt Jemima's lair"),
  ]
  text = questions.prompt(questions.render(steps), asked, names)
  result = reader.read(text)
  assert result.start, result.target == asked[:2]
  assert result.steps == [
    ('Init', 'at "y2"'),
    ('say "xyzzy"', "aunt jemima's lair"),
  ]
