"""Steps of walkthroughs that go where they have been."""

import numpy as np
import pytest

from tests.worlds.text_game import games
from wm import core
from wm.language.papers.mango import maze_questions
from wm.worlds import mazes
from wm.worlds.text_game import maze


def walked(*steps):
  """A maze of nothing but a walkthrough of (action, first line)."""
  result = mazes.World().maze
  lines = [maze.WalkthroughStep(0, 'Init', 'Hall\nA hall.')]
  lines += [
    maze.WalkthroughStep(k, action, f'{line}\nMore.')
    for k, (action, line) in enumerate(steps, 1)
  ]
  return result._replace(steps=tuple(lines), trail=np.zeros(0, np.int32))


def test_a_way_taken_before_or_come_by_is_a_minigame():
  results = maze_questions.minigames(
    walked(
      ('north', 'Bar'),
      ('take cup', 'Taken.'),
      ('east', 'Yard'),
      ('west', 'Bar'),  # Came by it.
      ('South', 'Hall'),  # Came by it.
      ('north', 'Bar'),  # Took it.
      ('north', 'Bar'),  # Leads nowhere.
      ('enter lift', 'Bar'),  # No direction.
      ('south', 'Cellar'),  # Another place than before.
    )
  )
  assert [(g.step, g.place, g.action, g.next_place) for g in results] == [
    (4, 'Yard', 'west', 'Bar'),
    (5, 'Bar', 'south', 'Hall'),
    (6, 'Hall', 'north', 'Bar'),
  ]
  assert results[1].ways == (('Hall', 'south'), ('Yard', 'east'))
  assert results[2].ways == (('Bar', 'north'),)


def test_a_reply_is_no_place():
  steps = walked(('north', 'Bar'), ('take cup', 'Taken.'), ('south', 'Hall'))
  assert len(maze_questions.minigames(steps)) == 1
  assert not maze_questions.minigames(steps, last=2)


def test_counts_of_the_53_games(testdata):
  results = [
    len(maze_questions.minigames(item))
    for item in games.mazes(testdata).values()
  ]
  assert (sum(results), np.count_nonzero(results)) == (380, 48)


def test_bad_requests_are_one_line():
  bare = mazes.World().maze._replace(steps=())
  with pytest.raises(core.InputError, match='no walkthrough'):
    maze_questions.minigames(bare)
