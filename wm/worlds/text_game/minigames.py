"""Minigames: steps of a walkthrough that go where it has been (section 3.4).

A model is shown the steps before one and asked for the next action; it is right
if that is what the walkthrough did. A step is a minigame where its action is a
direction that leads elsewhere, and the walkthrough has taken this way before,
or has come the other way: a map of what was seen has the answer. That the other
way leads back is taken on trust, as published (Ding et al. 2024).

The paper has 284 of them, in 47 games (table 10). What the published data gives
in the first 70 steps depends on where the walk is said to be:

    lines   first line of every observation; 'Taken.' is a place too   169 (37)
    moves   first line of the last observation of a direction          380 (48)
    trail   the annotators' places                                     537 (50)

The paper's models saw fewer steps: at cut-offs of some 3,600 tokens 'moves'
gives about 280. The published lists of valid actions come from the games
themselves, which the data does not have: `actions` of the maze stand in.
"""

from __future__ import annotations

from typing import NamedTuple

from wm import core
from wm.worlds.text_game import maze as mazes

PLACES = 'moves', 'lines', 'trail'


class Minigame(NamedTuple):
  """A step to be foretold.

  Attributes:
    step: its number; the steps before are what a model is shown.
    here: where the walk is.
    action: the right answer.
    there: where it leads.
    ways: (place, action) of each way that the steps before show from here, in
      the order of their first steps: the map that a prompt may add.
  """

  step: int
  here: str
  action: str
  there: str
  ways: tuple[tuple[str, str], ...]


def minigames(
  maze: mazes.Maze, last: int = mazes.LAST, places: str = 'moves'
) -> tuple[Minigame, ...]:
  """The minigames of a walkthrough.

  Args:
    maze: with a walkthrough, of which step 0 is no minigame.
    last: the last step that may be one.
    places: where the walk is taken to be, of PLACES.

  Raises:
    InputError: no such rule, or no walkthrough.
  """
  if places not in PLACES:
    raise core.InputError(
      f'minigames by places={places!r}; available: {", ".join(PLACES)}'
    )
  if not maze.steps:
    raise core.InputError(f'{maze.game} has no walkthrough to make games of')
  at = _places(maze, places)
  ways_seen: dict[str, dict[tuple[str, str], None]] = {}
  games = []
  for step, before, after in zip(maze.steps[1:], at, at[1:], strict=False):
    action = step.action.lower()
    if step.number > last:
      break
    if action not in mazes.OPPOSITE or before == after:
      continue
    ways = ways_seen.setdefault(before, {})
    if (after, action) in ways:
      games.append(Minigame(step.number, before, action, after, tuple(ways)))
    ways[after, action] = None
    ways_seen.setdefault(after, {})[before, mazes.OPPOSITE[action]] = None
  return tuple(games)


def _places(maze: mazes.Maze, rule: str) -> list[str]:
  """Where the walk is after each step."""
  if rule == 'trail':
    return [maze.places[k] for k in mazes.followed(maze).tolist()]
  places: list[str] = []
  for step in maze.steps:
    moved = rule == 'lines' or step.action.lower() in mazes.OPPOSITE
    line = step.observation.split('\n')[0].strip()
    places.append(line if moved or not places else places[-1])
  return places
