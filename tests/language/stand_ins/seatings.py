"""The seating puzzle from a prompt's text alone."""

from __future__ import annotations

import itertools
import re

from tests.language.stand_ins.asked import Asked

_SCENE = re.compile(
  r'(\d) people, ((?:\w+, )*\w+ and \w+), take \1 seats in a row\.'
)
_SAYS = re.compile(
  r'^\d+\. (\w+) sits (?:in seat (\d)|(\d) seats? away from (\w+))\.$', re.M
)
_WHERE = re.compile(r'^Where is (\w+) seated\?', re.M)
_VALID = 'Is this a valid continuation'


def seatings(text: str) -> list[dict[str, int]]:
  """All seatings that the numbered sentences of a text allow."""
  scene = _SCENE.search(text)
  if scene is None:
    return []
  names = re.split(r', | and ', scene[2])
  result = []
  for order in itertools.permutations(range(1, len(names) + 1)):
    seats = dict(zip(names, order, strict=True))
    if all(
      seats[first] == int(seat)
      if seat
      else abs(seats[first] - seats[other]) == int(apart)
      for first, seat, apart, other in _SAYS.findall(text)
    ):
      result.append(seats)
  return result


def answer(asked: Asked) -> str | None:
  """A verdict or a seat; None where a prompt asks for neither."""
  scene, where = _SCENE.search(asked.text), _WHERE.search(asked.text)
  if scene is None or not (where or _VALID in asked.text):
    return None
  guesses = asked.knows in ('yes', 'random')
  if where is None:
    can = asked.yes() if guesses else bool(seatings(asked.text))
    return f'ANSWER: {"yes" if can else "no"}'
  if guesses:
    seats = [str(n + 1) for n in range(int(scene[1]))]
    return f'ANSWER: {asked.one_of(seats)}'
  left = {item[where[1]] for item in seatings(asked.text)}
  said = left.pop() if len(left) == 1 else 'unknown'
  return f'{where[1]} is in seat {said}.\nANSWER: {said}'
