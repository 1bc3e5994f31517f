"""Rules that are told as sentences: a line of places, full columns, seats."""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Iterable

from tests.language.stand_ins import base

_STEPS = {'left': -1, 'stay': 0, 'right': 1}


class Line(base.Reading):
  """Places 0 to `last`, with walls that stop a walk."""

  def __init__(self, last: int) -> None:
    self.last = last

  def start(self) -> Hashable:
    """Place 0."""
    return 0

  def step(self, state: int, word: str) -> Hashable | None:
    """The place after a step; None into a wall."""
    if word not in _STEPS:
      return None
    after = state + _STEPS[word]
    return after if 0 <= after <= self.last else None

  def every(self) -> Iterable[str]:
    """The steps."""
    return [*_STEPS]


def read_line(told: str) -> Line | None:
  """A line of places; None where the text has none."""
  result = re.match(
    r'\d+ places stand in a row, numbered from 0 .* to (\d+)', told
  )
  return Line(int(result[1])) if result else None


class Columns(base.Reading):
  """Columns that fill up; a state is how many each holds."""

  def __init__(self, columns: int, room: int) -> None:
    """room: how many each column takes."""
    self.columns, self.room = columns, room

  def start(self) -> Hashable:
    """Empty columns."""
    return (0,) * self.columns

  def step(self, state: tuple[int, ...], word: str) -> Hashable | None:
    """One more in a column that has room."""
    if word not in self.every():
      return None
    held = list(state)
    held[int(word) - 1] += 1
    return tuple(held) if max(held) <= self.room else None

  def every(self) -> Iterable[str]:
    """The columns' numbers."""
    return [str(k + 1) for k in range(self.columns)]


def read_columns(told: str) -> Columns | None:
  """Columns or tubes; None where the text has none."""
  columns = re.match(
    r'A board stands upright. It has (\d+) columns|'
    r'Balls are put into (\d+) tubes',
    told,
  )
  room = re.search(
    r'Each column has room for (\d+) discs|A tube takes (\d+) balls', told
  )
  if not (columns and room):
    return None
  return Columns(*(int(result[1] or result[2]) for result in (columns, room)))


class Seats(base.Reading):
  """People and seats; a state is the set of arrangements that are left."""

  def __init__(self, people: list[str], seat: str, apart: str) -> None:
    """seat, apart: forms of statements, with {p}, {q} and {n}."""
    self.people = people
    num = range(1, len(people) + 1)
    # Statement -> the arrangements, seats by person, that make it true.
    self._true: dict[str, frozenset[tuple[int, ...]]] = {}
    self._all = frozenset(itertools.permutations(num))
    for p, n in itertools.product(people, num):
      at = people.index(p)
      self._true[seat.format(p=p, n=n)] = frozenset(
        item for item in self._all if item[at] == n
      )
    for (p, q), n in itertools.product(
      itertools.permutations(people, 2), num[:-1]
    ):
      first, second = people.index(p), people.index(q)
      self._true[apart.format(p=p, q=q, n=n)] = frozenset(
        item for item in self._all if abs(item[first] - item[second]) == n
      )

  def start(self) -> Hashable:
    """All arrangements."""
    return self._all

  def step(
    self, state: frozenset[tuple[int, ...]], word: str
  ) -> Hashable | None:
    """Those that a statement leaves, if there are any."""
    return (state & self._true.get(word, frozenset())) or None

  def every(self) -> Iterable[str]:
    """All statements."""
    return self._true


def read_seats(told: str) -> Seats | None:
  """A seating puzzle; None where the text has none."""
  people = re.match(r'\d people, (.*), take \d seats in a row', told)
  guests = re.match(r'At one side of a table .*, for (.*), one place for', told)
  result = people or guests
  if not result:
    return None
  names = re.split(r', | and ', result[1])
  if people:
    return Seats(
      names, '{p} sits in seat {n}', '{p} and {q} sit {n} seats apart'
    )
  return Seats(
    names, '{p} is at place {n}', 'the distance of {p} to {q} is {n}'
  )
