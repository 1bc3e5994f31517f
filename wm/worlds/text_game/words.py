"""Mazes in words: ways one by one, or what leaves each place.

  ways    From "hall", north leads to "kitchen".
  rooms   In "hall": north goes to "kitchen", enter lift goes to "lift".

Names of places are in quotes, as JSON writes them: games have places whose
names hold brackets, commas and quotes.
"""

from __future__ import annotations

import abc
import json
import re
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core.predictor import Tokens
from wm.worlds.base import table
from wm.worlds.text_game import maze as mazes

_TEXT = {
  'ways': (
    'This is a map of {num} places: {names}.\n{body}\n'
    'There are no other ways, and a way leads one way only, unless the way '
    'back is told too.\n'
    'A walk starts at {first}. It is written as the list of actions that are '
    'taken, one after the other. {several}An action can come next exactly if '
    'a way of that name leads on from {where}.'
  ),
  'rooms': (
    'A house has {num} rooms: {names}.\n{body}\n'
    'No other moves are possible, and none can be undone unless that is '
    'written too.\n'
    'A walk begins in {first} and is a list of moves, in the order in which '
    'they are made. {several}A move is allowed exactly if it goes somewhere '
    'from {where}.'
  ),
}
_SEVERAL = {
  'ways': (
    'Where an action leads from one place to several, the walk may be at any '
    'of them afterwards. '
  ),
  'rooms': (
    'Where a move goes from one room to several, the walk may be in any of '
    'them afterwards. '
  ),
}
_WHERE = {
  'ways': ('where the walk is', 'at least one place where the walk may be'),
  'rooms': (
    'the room where the walk is',
    'at least one room where the walk may be',
  ),
}
# Actions that can stand in a list as they are; others are numbered.
_PLAIN = re.compile(r"[\w' -]+")


class InWords(table.NamedTableWorld, core.Verbal):
  """Walks on `maze`, told in words."""

  wordings: ClassVar[tuple[str, ...]] = tuple(_TEXT)

  @property
  @abc.abstractmethod
  def maze(self) -> mazes.Maze:
    """The map that walks are on."""

  @property
  @abc.abstractmethod
  def sets(self) -> Sets:
    """The table over sets of places."""

  def token_names(self, telling: core.PromptStyle) -> tuple[str, ...]:
    """Actions as the game has them; 'action7' where a list cannot hold them."""
    core.wording_of(self, telling)
    names = [self.maze.actions[action] for action in self.sets.actions]
    numbered = [f'action{number}' for number in range(1, len(names) + 1)]
    plain = all(name not in names for name in numbered)
    return (
      '<pad>',
      *(
        name if plain and _PLAIN.fullmatch(name) else number
        for name, number in zip(names, numbered, strict=True)
      ),
    )

  def _called(self, telling: core.PromptStyle) -> list[str]:
    """Names of places, new ones for a seed, in quotes."""
    names = self.maze.places
    if telling.seed:
      names = core.new_names(len(names), telling)
    return [json.dumps(name, ensure_ascii=False) for name in names]

  def rules(self, telling: core.PromptStyle) -> str:
    """See core.Verbal: all places by name, and all ways."""
    wording = core.wording_of(self, telling)
    called, spoken = self._called(telling), self.token_names(telling)
    label = dict(zip(self.sets.actions, spoken[1:], strict=True))
    leads: dict[int, dict[str, list[str]]] = {}
    for u, a, v in zip(*(c.tolist() for c in self.maze.edges[:3]), strict=True):
      leads.setdefault(v, {})
      leads.setdefault(u, {}).setdefault(label[a], []).append(called[v])
    told = [(called[u], leads[u]) for u in leads]
    told = [told[k] for k in core.shuffled(len(told), telling)]
    tell = _ways if wording == 'ways' else _rooms
    outcomes = [to for ways in leads.values() for to in ways.values()]
    several = any(len(to) > 1 for to in outcomes)
    return _TEXT[wording].format(
      num=len(told),
      names=', '.join(name for name, _ in told),
      body='\n'.join(tell(told, telling)),
      first=called[self.sets.members[0][0]],
      several=_SEVERAL[wording] if several else '',
      where=_WHERE[wording][several],
    )

  def render_trajectory(self, tokens: Tokens, telling: core.PromptStyle) -> str:
    """See core.Verbal: with the places that it passes, or may pass."""
    called, row = self._called(telling), 0
    passed = [row]
    for token in tokens:
      row = int(self.delta[row, token - 1])
      passed.append(row)
    names = (
      ' or '.join(called[place] for place in self.sets.members[row])
      for row in passed
    )
    moves = self.render_tokens(tokens, telling)
    return f'{moves}. On the way: {", ".join(names)}.'

  def extent(self, telling: core.PromptStyle) -> core.Extent:
    """See core.Verbal."""
    num = int(mazes.seen(self.maze).sum())
    return core.Extent(num, 'places', core.text_tokens(self.rules(telling)))


_Told = list[tuple[str, dict[str, list[str]]]]


def _ways(told: _Told, telling: core.PromptStyle) -> list[str]:
  """A line for each way."""
  lines = [
    f'From {here}, {action} leads to {" or ".join(there)}.'
    for here, ways in told
    for action, there in ways.items()
  ]
  return [lines[k] for k in core.shuffled(len(lines), telling)]


def _rooms(told: _Told, telling: core.PromptStyle) -> list[str]:
  """A line for each place."""
  lines = []
  for number, (here, ways) in enumerate(told):
    steps = [f'{a} goes to {" or ".join(to)}' for a, to in ways.items()]
    order = core.shuffled(len(steps), telling, stream=number)
    listed = ', '.join(steps[k] for k in order) or 'no move goes on'
    lines.append(f'In {here}: {listed}.')
  return lines


MOST_SETS = 50_000
BETWEEN = ' | '  # Places of one set, in its name.


class Sets(NamedTuple):
  """The sets of places that some actions lead to, breadth first.

  Attributes:
    delta: [R, A] int32 next rows, DEAD where an action is at none of a row's
      places; row 0 is the start alone.
    members: [R] places of each row, ascending.
    actions: [A] numbers of actions with an edge, ascending.
  """

  delta: np.ndarray
  members: tuple[tuple[int, ...], ...]
  actions: tuple[int, ...]


def sets(maze: mazes.Maze, start: int) -> Sets:
  """The subset construction from one place.

  Raises:
    InputError: there are more than MOST_SETS sets.
  """
  edges = maze.edges
  actions = np.unique(edges.action).tolist()
  column = {action: k for k, action in enumerate(actions)}
  leads: dict[tuple[int, int], set[int]] = {}
  for u, a, v in zip(*(c.tolist() for c in edges[:3]), strict=True):
    leads.setdefault((u, column[a]), set()).add(v)
  rows: dict[tuple[int, ...], int] = {(start,): 0}
  delta: list[list[int]] = []
  queue = list(rows)
  for places in queue:
    delta.append([core.DEAD] * len(actions))
    for k in range(len(actions)):
      after = sorted(set().union(*(leads.get((u, k), ()) for u in places)))
      if not after:
        continue
      key = tuple(after)
      if key not in rows:
        rows[key] = len(rows)
        queue.append(key)
      delta[-1][k] = rows[key]
    if len(rows) > MOST_SETS:
      raise core.InputError(
        f'{maze.game}: its actions lead to more than {MOST_SETS:,} sets of '
        'places; expected a map with fewer actions of several outcomes'
      )
  return Sets(np.array(delta, np.int32), tuple(queue), tuple(actions))


def name(maze: mazes.Maze, members: tuple[int, ...]) -> str:
  """Name of a set of places."""
  return BETWEEN.join(maze.places[place] for place in members)
