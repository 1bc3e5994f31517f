"""Reads a MANGO prompt: a map from its walkthrough, and what is asked of it.

Nothing is known but the text. A place is the line of an observation that is on
the prompt's list of locations; where there is none, one is where one was. The
opposite of a move along a direction is taken to lead back (Ding et al. 2024,
section 2.1, without the check by play).
"""

from __future__ import annotations

import ast
import collections
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.language.stand_ins import asked as askeds

_BEGINS = 'A text game was played as follows, step by step:'
_BLOCK = re.compile(
  r'^==>STEP NUM: (\d{1,9})\n==>ACT: (.*)\n==>OBSERVATION: ', re.MULTILINE
)
_LISTS = re.compile(
  r'^Actions of the game: (\[.*\])\.\n'
  r'Places of the game: (\[.*\])\.$',
  re.MULTILINE,
)
_DESTINATION = re.compile(
  r'^You are at "(.*)" and take these actions in turn: (\[.*\])\. Which',
  re.MULTILINE,
)
_ROUTE = re.compile(
  r'^You are at "(.*)"\. Which moves take you to "(.*)"\?', re.MULTILINE
)
_KEYS = re.compile(r"with the keys '(\w+)', '(\w+)' and '(\w+)'")
_MARK = re.compile(r'\s*\([^()]*\)$')
_PAIRS = (
  ('north', 'south'),
  ('east', 'west'),
  ('northeast', 'southwest'),
  ('northwest', 'southeast'),
  ('up', 'down'),
)
OPPOSITE = dict(_PAIRS) | {back: there for there, back in _PAIRS}

Map = Mapping[str, Mapping[str, str]]


class Read(NamedTuple):
  """What a prompt says.

  Attributes:
    steps: action of each step, and the place after it; '' before the first.
    places: the list of locations.
    start: of the question.
    target: of a route question, else ''.
    actions: of a destination question, else ().
    keys: names of the three values of a move.
  """

  steps: Sequence[tuple[str, str]]
  places: Sequence[str]
  start: str
  target: str
  actions: tuple[str, ...]
  keys: tuple[str, ...]


def read(text: str) -> Read | None:
  """A prompt's contents; None where it is none of MANGO."""
  if _BEGINS not in text:
    return None
  lists, keys = _LISTS.search(text), _KEYS.search(text)
  if not lists or not keys:
    return None
  places = ast.literal_eval(lists[2])
  end = lists.end()
  result, route = _DESTINATION.search(text, end), _ROUTE.search(text, end)
  steps = _steps(text[: lists.start()], places)
  if result:
    actions = tuple(ast.literal_eval(result[2]))
    return Read(steps, places, result[1], '', actions, keys.groups())
  if route:
    return Read(steps, places, route[1], route[2], (), keys.groups())
  return None


def _steps(text: str, places: Sequence[str]) -> list[tuple[str, str]]:
  known = {place.lower(): place for place in reversed(places)}
  blocks = list(_BLOCK.finditer(text))
  ends = [block.start() for block in blocks[1:]] + [len(text)]
  here, steps = '', []
  for block, end in zip(blocks, ends, strict=True):
    output = text[block.end() : end].lower().splitlines()
    for line in map(str.strip, output):
      place = known.get(line) or known.get(_MARK.sub('', line))
      if place:
        here = place
        break
    steps.append((block[2].strip(), here))
  return steps


def drawn(steps: Sequence[tuple[str, str]], *, reverses: bool = True) -> Map:
  """Place -> action -> place, as the steps show it; the last walk counts.

  reverses: moves along a direction lead back too, where none was walked.
  """
  moves: dict[str, dict[str, str]] = {}
  before = ''
  for action, after in steps:
    if before and after and before != after:
      moves.setdefault(before, {})[action] = after
    before = after
  if reverses:
    walked = [(u, a, v) for u, out in moves.items() for a, v in out.items()]
    for source, action, target in walked:
      if action in OPPOSITE:
        moves.setdefault(target, {}).setdefault(OPPOSITE[action], source)
  return moves


def follow(
  moves: Map, start: str, actions: Sequence[str]
) -> list[tuple[str, str, str]]:
  """Moves of a list of actions; one that leads nowhere stays."""
  here, path = start, []
  for action in actions:
    after = moves.get(here, {}).get(action, here)
    path.append((here, action, after))
    here = after
  return path


def shortest(moves: Map, start: str, end: str) -> list[tuple[str, str, str]]:
  """Moves of a shortest path; [] where there is none."""
  came: dict[str, tuple[str, str]] = {start: ('', '')}
  queue = collections.deque([start])
  while queue and end not in came:
    here = queue.popleft()
    for action, after in moves.get(here, {}).items():
      if after not in came:
        came[after] = here, action
        queue.append(after)
  path, here = [], end
  while here in came and here != start:
    before, action = came[here]
    path.append((before, action, here))
    here = before
  return path[::-1]


def answer(asked: askeds.Asked) -> str | None:
  """What the solver says; 'yes' and 'random' name places, 'old_map' has half.

  That is the first half of the walkthrough.
  """
  seen = read(asked.text)
  if seen is None:
    return None
  if asked.knows in ('yes', 'random'):
    places, actions = list(seen.places), seen.actions or ('north',)
    path = [(seen.start, action, asked.one_of(places)) for action in actions]
  else:
    half = asked.knows == 'old_map'
    steps = seen.steps[: len(seen.steps) // 2] if half else seen.steps
    moves = drawn(steps)
    if seen.actions:
      path = follow(moves, seen.start, seen.actions)
    else:
      path = shortest(moves, seen.start, seen.target)
  return repr([dict(zip(seen.keys, move, strict=True)) for move in path])
