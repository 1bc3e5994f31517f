"""Questions in words, what is shown of a walkthrough, and the baselines."""

import collections

import pytest

from tests.language.stand_ins import asked as askeds
from tests.language.stand_ins import mango as reader
from tests.worlds.text_game import games
from wm import core
from wm.papers.mango import facts, questions
from wm.papers.mango import score as scoring
from wm.papers.mango.score import JudgeRules, MazeQuestion, similarity
from wm.worlds import text_game
from wm.worlds.text_game import readers
from wm.worlds.text_game.maze import WalkthroughStep

HOTEL = text_game.hotel()


@pytest.fixture(scope='module')
def zork1(testdata):
  path = testdata / 'mango' / 'camera-ready-70.tar.gz'
  if not path.exists():
    pytest.skip(f'no MANGO data at {path}')
  return readers.read(path, 'zork1')


@pytest.fixture(scope='module')
def small(testdata):
  path = testdata / 'mango' / 'camera-ready-70.tar.gz'
  if not path.exists():
    pytest.skip(f'no MANGO data at {path}')
  return readers.read(path, '905')


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
  found = questions.questions(zork1, kind, step)
  counted = collections.Counter(asked.easy for asked in found)
  assert (counted[True], counted[False]) == (easy, hard)
  assert len({asked.key for asked in found}) == len(found)
  if kind == 'destination':
    assert all(asked.easy == (asked.imputed == 0) for asked in found)
    assert all(len(asked.actions) == asked.length for asked in found)


def test_altar_to_dome_room_is_not_the_papers_example(zork1):
  routes = {asked[:2]: asked for asked in questions.questions(zork1, 'route')}
  assert routes['altar', 'dome room'].length == 12
  graph = questions.judge_graph(zork1, JudgeRules(graph='strict'))
  assert graph.follow('altar', ('north',)) == {'temple'}
  assert graph.follow('altar', ('north', 'north', 'up')) == frozenset()


def test_kinds_are_named():
  with pytest.raises(core.InputError, match='available: destination, route'):
    questions.questions(HOTEL, 'x')


def test_places_after_steps_are_the_annotators(testdata):
  folder = testdata / 'mango'
  if not folder.is_dir():
    pytest.skip(f'no MANGO data at {folder}')
  differ, steps = [], 0
  for game in ('905', 'zork3', 'lurking', 'inhumane', 'murdac'):
    ready = folder / 'camera-ready-70.tar.gz'
    ours = questions.places_walked(readers.read(ready, game))
    full = readers.read(folder / 'annotation-full-2024-03.tar.gz', game, ready)
    for step, (one, other) in enumerate(
      zip(ours[:71], questions.places_walked(full)[:71], strict=False)
    ):
      steps += bool(other)
      differ += [(game, step)] * (bool(other) and one != other)
  # The annotators have a lift move one step later.
  assert differ == [('inhumane', 51)]
  assert steps > 250


def test_a_maze_without_walkthrough_shows_nothing():
  with pytest.raises(core.InputError, match='no walkthrough'):
    questions.shown_steps(HOTEL)


def _means(maze, kind, **options):
  found = collections.defaultdict(list)
  for name, asked, score in facts.baseline_scores(maze, kind, **options):
    found[name, asked.easy].append(score.success)
  return {key: sum(values) / len(values) for key, values in found.items()}


def test_what_was_walked_answers_all_easy_questions(zork1):
  for maze in (HOTEL, zork1):
    for kind in questions.KINDS:
      means = _means(maze, kind)
      assert means['walked', True] == means['reversed', True] == 1
      assert means['reversed', False] > 0.95
      # A route that needs no imputed move may only be longer.
      assert kind == 'route' or means['walked', False] < 0.6
      assert means['random_walk', True] < 0.6


def test_chance_is_that_of_a_place_drawn_at_random(zork1):
  means = _means(zork1, 'destination', names=['uniform'])
  strict = _means(
    zork1, 'destination', names=['uniform'], rules=JudgeRules(graph='strict')
  )
  names = zork1.places
  found = [
    sum(similarity(name, asked.target) for name in names) / len(names)
    for asked in questions.questions(zork1, 'destination')
    if asked.easy
  ]
  # No action of this game has several outcomes.
  assert strict['uniform', True] == pytest.approx(sum(found) / len(found))
  assert means['uniform', True] >= strict['uniform', True]
  assert 0.2 < means['uniform', True] < 0.3


@pytest.mark.slow
def test_chance_over_all_games(testdata):
  mazes = games.read_all(testdata / 'mango' / 'camera-ready-70.tar.gz')
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


def test_baselines_are_named(zork1):
  with pytest.raises(core.InputError, match='available: uniform, last'):
    next(facts.baseline_scores(zork1, 'route', names=['x']))


@pytest.mark.parametrize('generation', ['camera_ready', 'paper'])
def test_the_solver_reads_prompts(small, generation):
  style = questions.MazePrompt(generation, 'simple')
  shown = questions.render(questions.shown_steps(small, 'simple'))
  names = questions.lists(small.actions, small.places)
  graph = questions.judge_graph(small)
  for kind in questions.KINDS:
    for asked in questions.questions(small, kind):
      text = questions.prompt(shown, names, asked, style)
      said = reader.answer(askeds.Asked([text]))
      answer = scoring.parse(said)
      found = scoring.judge(graph, asked, answer)
      assert (found.success, found.reasoning) == (1, 1)
      guess = scoring.parse(reader.answer(askeds.Asked([text], 'random')))
      assert guess.failure == ''


def test_other_prompts_are_not_the_readers():
  for text in ('', 'Hello!', '!!! Here is a walkthrough of a text game:\n'):
    assert reader.answer(askeds.Asked([text])) is None


def test_a_question_is_read_with_quotes_inside_names():
  asked = MazeQuestion('at "y2"', "aunt jemima's lair")
  names = questions.lists(['say "xyzzy"'], [*asked[:2]])
  steps = [
    WalkthroughStep(0, 'Init', 'At "Y2" (dark)\nYou see nothing.'),
    WalkthroughStep(1, 'say "xyzzy"', "Aunt Jemima's lair"),
  ]
  text = questions.prompt(
    questions.render(steps), names, asked, questions.MazePrompt()
  )
  found = reader.read(text)
  assert found.start, found.target == asked[:2]
  assert found.steps == [
    ('Init', 'at "y2"'),
    ('say "xyzzy"', "aunt jemima's lair"),
  ]
