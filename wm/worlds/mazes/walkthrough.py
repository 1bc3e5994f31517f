"""A walk that sees every passage of a maze, in a game's words and in labels.

The walk goes to the nearest passage that it has not taken, until it has taken
each in one of its directions; named ones in both, since no direction tells that
they lead back. Its map is then the whole maze: an edge is walked, or imputed
from its opposite, and never imputed where no passage leads back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm.worlds.mazes import layout as layouts
from wm.worlds.text_game import maze as mazes

LAMP = 'light lamp'


class Move(NamedTuple):
  """One direction of a passage.

  Attributes:
    source: place.
    action: leads from there to the target.
    target: place.
    passage: number of its passage.
    reversible: whether the way back is a direction, so that it is imputed.
  """

  source: int
  action: str
  target: int
  passage: int
  reversible: bool


def moves(layout: layouts.Layout) -> list[Move]:
  """Every move that the maze allows."""
  directions = []
  for k, passage in enumerate(layout.passages):
    both = passage.kind == layouts.WAY
    directions.append(
      Move(passage.source, passage.action, passage.target, k, both)
    )
    if passage.back:
      directions.append(
        Move(passage.target, passage.back, passage.source, k, both)
      )
  return directions


def walk(layout: layouts.Layout, seed: int) -> mazes.Maze:
  """The maze as the walk shows it, steps and places along it included."""
  every = moves(layout)
  taken = _tour(layout, every, seed)
  steps = [mazes.Step(0, 'Init', describe(layout, 0))]
  trail, lit = [0], {0}
  forward: dict[int, tuple[int, int]] = {}
  for number in taken:
    move, step = every[number], len(steps)
    dark = move.target in layout.dark and move.target not in lit
    lit.add(move.target)
    observation = (
      'It is pitch dark here.' if dark else describe(layout, move.target)
    )
    steps.append(mazes.Step(step, move.action, observation))
    trail.append(move.target)
    if dark:
      observation = describe(layout, move.target)
      steps.append(mazes.Step(step + 1, LAMP, observation))
      trail.append(move.target)
    forward.setdefault(number, (step, step + dark))
  labelled = _labelled(layout, every, forward)
  return labelled._replace(steps=tuple(steps), trail=np.array(trail, np.int32))


def _tour(layout: layouts.Layout, every: list[Move], seed: int) -> list[int]:
  """Numbers of the moves of the walk."""
  rng = np.random.default_rng([seed, 0x70A2])
  order = rng.permutation(len(every)).tolist()
  leaving: list[list[int]] = [[] for _ in layout.places]
  for number in order:
    leaving[every[number].source].append(number)
  # What has to be walked, by move: its passage; of a named one itself.
  to_walk = {
    number: (move.passage if move.reversible else -1 - number)
    for number, move in enumerate(every)
  }
  left, place = set(to_walk.values()), 0
  taken: list[int] = []
  while left:
    goals = {number for number, what in to_walk.items() if what in left}
    way = _nearest(leaving, every, place, goals)
    taken += way
    left -= {to_walk[number] for number in way}
    place = every[taken[-1]].target
  return taken


def _nearest(
  leaving: list[list[int]], every: list[Move], start: int, goals: set[int]
) -> list[int]:
  """The shortest way from a place that ends with one of some moves."""
  way: dict[int, list[int]] = {start: []}
  queue = [start]
  for place in queue:
    for number in leaving[place]:
      if number in goals:
        return [*way[place], number]
      target = every[number].target
      if target not in way:
        way[target] = [*way[place], number]
        queue.append(target)
  raise AssertionError('every place can be reached from every other')


def _labelled(
  layout: layouts.Layout,
  every: list[Move],
  forward: dict[int, tuple[int, int]],
) -> mazes.Maze:
  """The map of a walk; forward: first step of each move, and when told."""
  back = {
    (move.passage, move.source): n
    for n, move in enumerate(every)
    if move.reversible
  }
  never = mazes.NEVER, mazes.NEVER
  stamps = []
  for number, move in enumerate(every):
    other = back.get((move.passage, move.target), -1)
    onward, again = forward.get(number, never), forward.get(other, never)
    least = (min(pair) for pair in zip(onward, again, strict=True))
    columns = zip(onward, again, least, strict=True)
    stamps.append([step for column in columns for step in column])
  triples = [
    (layout.places[m.source], m.action, layout.places[m.target]) for m in every
  ]
  actions = list(dict.fromkeys(move.action for move in every))
  names = list(layout.places), actions
  return mazes.made(
    'maze', 'camera_ready', names, triples, stamps, 'the generated maze'
  )


def describe(layout: layouts.Layout, place: int) -> str:
  """What the game says at a place: its name, and what leads on from there."""
  ways, more = [], []
  for passage in layout.passages:
    if passage.kind == layouts.NAMED:
      if passage.source == place:
        more.append(f'There is a {layout.places[passage.target]} here.')
      if passage.target == place:
        more.append(f'You can {passage.back}.')
    elif passage.source == place and passage.kind == layouts.SLIDE:
      more.append(f'A slide leads {passage.action}; nobody can climb back.')
    elif passage.source == place and passage.kind == layouts.DOOR:
      more.append(f'A heavy door {_towards(passage.action)} stands open.')
    elif passage.source == place:
      ways.append(passage.action)
    elif passage.target == place and passage.kind == layouts.DOOR:
      side = _towards(mazes.OPPOSITE[passage.action])
      more.append(f'A heavy door {side} is shut; it has no handle here.')
    elif passage.target == place and passage.back:
      ways.append(passage.back)
  ways.sort(key=list(layouts.STEPS).index)
  if ways:
    several = ', '.join(ways[:-1])
    listed = f'{several} and {ways[-1]}' if several else ways[-1]
    more.insert(0, f'{"Ways lead" if several else "A way leads"} {listed}.')
  name = layout.places[place]
  return f'{name}\nYou are in the {name}. {" ".join(more)}'


def _towards(action: str) -> str:
  vertical = {'up': 'above', 'down': 'in the floor'}
  return vertical.get(action, f'to the {action}')
