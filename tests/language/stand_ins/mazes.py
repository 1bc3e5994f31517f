"""Mazes, read from either wording or from walks that name places."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable

from tests.language.stand_ins import base

_NAME = r'"(?:[^"\\]|\\.)*"'
_NAMES = rf'{_NAME}(?: or {_NAME})*'
_OPENING = re.compile(
  r'(?:This is a map of|A house has) \d+ (?:places|rooms): '
  rf'{_NAME}(?:, {_NAME})*\.'
)
_START = re.compile(rf'A walk (?:starts at|begins in) ({_NAME})')
_WAY = re.compile(rf'From ({_NAME}), (.+?) leads to ({_NAMES})\.')
_ROOM = re.compile(rf'In ({_NAME}): (.*)\.')
_MOVE = re.compile(rf'([^,"]+?) goes to ({_NAMES})(?:, |$)')
_WALK = re.compile(rf'\d+\. (.*)\. On the way: ({_NAMES}(?:, {_NAMES})*)\.')


class Maze(base.Reading):
  """Ways between places; a state is all places where a walk may be."""

  def __init__(self, first: str) -> None:
    """A maze without ways; first: the place where walks start."""
    self.first = first
    self.ways: dict[tuple[str, str], set[str]] = {}

  @property
  def edges(self) -> set[tuple[str, str, str]]:
    """All ways: from where, by which action, to where."""
    return {(u, a, v) for (u, a), to in self.ways.items() for v in to}

  def lead(self, here: str, action: str, there: Iterable[str]) -> None:
    """Adds a way."""
    self.ways.setdefault((here, action), set()).update(there)

  def start(self) -> Hashable:
    """At the first place."""
    return frozenset([self.first])

  def step(self, state: frozenset[str], word: str) -> Hashable | None:
    """Wherever the action leads from some place."""
    after: set[str] = set()
    for place in state:
      after |= self.ways.get((place, word), set())
    return frozenset(after) or None

  def every(self) -> Iterable[str]:
    """All actions."""
    return dict.fromkeys(action for _, action in self.ways)


def read(told: str) -> Maze | None:
  """A maze as its rules tell it; None where the text tells of none."""
  lines = told.splitlines()
  first = _START.match(lines[-1]) if lines else None
  if not (first and _OPENING.fullmatch(lines[0])):
    return None
  maze = Maze(json.loads(first[1]))
  for line in lines[1:]:
    if way := _WAY.fullmatch(line):
      maze.lead(json.loads(way[1]), way[2], _quoted(way[3]))
    elif room := _ROOM.fullmatch(line):
      for move in _MOVE.finditer(room[2]):
        maze.lead(json.loads(room[1]), move[1], _quoted(move[2]))
  return maze


def read_walks(told: str) -> Maze | None:
  """A maze of the walks told, which name the places that they pass.

  Where a walk may have been at several places, nothing is said of the ways
  between, but that it could take them: they are ways of the place of that name.
  """
  walks = [
    walk for line in told.splitlines() if (walk := _WALK.fullmatch(line))
  ]
  if not walks:
    return None
  passed = [re.findall(_NAMES, walk[2]) for walk in walks]
  maze = Maze(passed[0][0])
  for walk, places in zip(walks, passed, strict=True):
    actions = walk[1].split(', ')
    for here, action, there in zip(places, actions, places[1:], strict=False):
      maze.lead(here, action, [there])
  return maze


def _quoted(text: str) -> list[str]:
  return [json.loads(name) for name in re.findall(_NAME, text)]
