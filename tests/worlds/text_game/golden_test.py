"""The published benchmark: 53 games, in three generations of data."""

import functools
import gzip
import json

import numpy as np
import pytest

from tests.kernels import simple_paths_ref as ref
from tests.worlds.text_game import games
from wm.language.papers.mango import maze_questions
from wm.worlds.text_game import maze as mazes

# T: edges; destination questions easy, hard; and routes by some shortest path
# easy, hard. All of the camera-ready data.
BY_STEP = {
  10: (298, 488, 225, 474, 236),
  20: (577, 1601, 799, 1488, 675),
  30: (836, 3149, 1341, 2906, 1218),
  40: (1071, 5335, 2212, 4777, 1816),
  50: (1296, 7973, 3003, 6819, 2527),
  60: (1464, 10861, 4405, 8926, 2683),
  70: (1673, 14166, 6994, 11314, 3468),
}


@functools.cache
def questions(testdata, generation):
  """Game -> its destination questions."""
  listed = generation != 'annotation'
  return {
    game: maze_questions.destinations(maze, listed=listed)
    for game, maze in games.mazes(testdata, generation).items()
  }


def routes(testdata, generation):
  """Game -> its route questions."""
  result = games.mazes(testdata, generation)
  return {
    game: maze_questions.routes(sample, len(result[game].places))
    for game, sample in questions(testdata, generation).items()
  }


def totals(outcome, step):
  """Easy and hard questions of all games at a step."""
  masks = (games.answered_at(sample, step) for sample in outcome.values())
  return tuple(np.sum([[m.sum() for m in pair] for pair in masks], 0).tolist())


def test_the_games_are_those_of_the_paper(testdata):
  results = games.mazes(testdata)
  assert len(results) == 53
  assert sum(len(maze.places) for maze in results.values()) == 930
  assert sum(maze.edges.size for maze in results.values()) == 1673
  walked = sum(int(maze.edges.walked.sum()) for maze in results.values())
  assert (walked, 1673 - walked) == (1362, 311)
  assert sum(len(maze.steps) for maze in results.values()) == 13305
  last = {
    game: known['last_step_num']
    for game, known in games.golden(testdata).items()
  }
  assert {g: maze.steps[-1].number for g, maze in results.items()} == last
  for maze in results.values():
    played, output = maze.edges.played, maze.edges.answerable
    for stamps in (played, output):
      np.testing.assert_array_equal(
        stamps.total, np.minimum(stamps.forward, stamps.reverse)
      )
    assert (output.total >= played.total).all()
    reversible = [a in mazes.OPPOSITE for a in maze.actions]
    assert all(np.array(reversible)[maze.edges.action[~maze.edges.walked]])


@pytest.mark.parametrize('step', BY_STEP)
def test_questions_at_each_cut_off(testdata, step):
  known = games.mazes(testdata)
  edges = sum(
    int((maze.edges.answerable.total <= step).sum()) for maze in known.values()
  )
  everything = questions(testdata, 'camera_ready')
  assert (
    edges,
    *totals(everything, step),
    *totals(routes(testdata, 'camera_ready'), step),
  ) == BY_STEP[step]
  counts = sum(
    maze_questions.counts(sample)[step] for sample in everything.values()
  )
  assert tuple(counts) == BY_STEP[step][1:3]


def test_questions_of_the_papers_own_data(testdata):
  result = games.mazes(testdata, 'paper')
  assert sum(len(maze.places) for maze in result.values()) == 927
  assert sum(maze.edges.size for maze in result.values()) == 1656
  assert totals(questions(testdata, 'paper'), 70) == (14142, 6904)
  assert totals(routes(testdata, 'paper'), 70) == (11277, 3421)


def test_each_game_has_its_published_counts(testdata):
  known = games.golden(testdata)
  for name, generation in (
    ('camera_ready_70', 'camera_ready'),
    ('paper_2023_07', 'paper'),
  ):
    mazes_of = games.mazes(testdata, generation)
    easy = routes(testdata, generation)
    for game, sample in questions(testdata, generation).items():
      want = known[game][name]
      maze = mazes_of[game]
      assert len(maze.places) == want['locations'], game
      assert maze.edges.size == want['edges'], game
      assert totals({0: sample}, 70) == (want['df_easy'], want['df_hard']), game
      assert totals({0: easy[game]}, 70) == (
        want['rf_easy_any_shortest'],
        want['rf_hard_any_shortest'],
      )
      assert sample.paths.length.mean() == pytest.approx(
        want['avg_len'], abs=0.006
      )


def test_the_full_annotation_has_its_counts(testdata):
  known, result = games.golden(testdata), games.mazes(testdata, 'annotation')
  for game, sample in questions(testdata, 'annotation').items():
    want, maze = known[game]['full_annotation_2024_03'], result[game]
    assert (len(maze.places), maze.edges.size, sample.size) == (
      want['locations'],
      want['edges'],
      want['simple_paths'],
    ), game
    assert (~maze.edges.walked).sum() == want['imputed_only'], game
    assert sample.paths.length.mean() == pytest.approx(
      want['avg_len'], abs=0.006
    )


def test_zork1_by_hand(testdata):
  maze = games.mazes(testdata)['zork1']
  place = maze.places.index
  result = maze_questions.destinations(maze)
  routes_of = maze_questions.routes(result, len(maze.places))

  def route(source, target):
    row = (routes_of.source == place(source)) & (
      routes_of.target == place(target)
    )
    assert row.sum() == 1
    return [int(column[row][0]) for column in routes_of[2:4]]

  assert route('cellar', 'living room') == [52, mazes.NEVER]
  assert route('altar', 'temple') == [39, 44]
  assert route('west of house', 'attic')[1:] == [16]
  action = maze.actions.index
  moves = [action('north'), action('north'), action('up')]
  where = games.reached(maze, place('altar'), moves[:1])
  assert [maze.places[k] for k in np.flatnonzero(where)] == ['temple']
  assert not games.reached(maze, place('altar'), moves[:2]).any()


def test_ids_are_those_that_were_published(testdata):
  maze = games.mazes(testdata)['905']
  result = maze_questions.destinations(maze)
  ids = {
    maze_questions.path_id(maze, result.paths.of(p)) for p in range(result.size)
  }
  assert len(ids) == result.size == 16
  ends = maze_questions.routes(result, len(maze.places))
  pairs = {
    maze_questions.pair_id(maze, *pair)
    for pair in zip(ends.source.tolist(), ends.target.tolist(), strict=True)
  }
  asked = {'desti_finding': set(), 'route_finding': set()}
  path = testdata / 'mango' / 'example-answers-905.jsonl.gz'
  for line in gzip.decompress(path.read_bytes()).splitlines():
    row = json.loads(line)
    asked[row['task']].add(row['sample_id'])
  assert asked['desti_finding'] == ids
  # Four more were asked that have no answer.
  assert pairs < asked['route_finding']
  assert (len(pairs), len(asked['route_finding'])) == (16, 20)


def test_walks_of_annotators_start_where_the_games_do(testdata):
  full = games.mazes(testdata, 'annotation')
  for game, maze in games.mazes(testdata).items():
    other = full[game]
    assert other.places[other.trail[0]] == maze.places[maze.start], game


def test_paths_by_the_plain_specification(testdata):
  maze = games.mazes(testdata)['zork2']
  edges = maze.edges
  sides = edges.source.tolist(), edges.target.tolist(), len(maze.places)
  plain = ref.list_paths(*sides, [edges.answerable.total.tolist()])
  result = questions(testdata, 'camera_ready')['zork2']
  np.testing.assert_array_equal(result.paths.edges, plain.edges)
  np.testing.assert_array_equal(result.answerable, plain.labels[0])
