"""Walks to a stated goal, read from either wording."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable

from tests.language.stand_ins import base

END, REWARD = 'end', 'reward'
_PLACES = re.compile(r'There are \d+ places: (.*)\.')
_PAIRS = re.compile(r'These pairs are all steps between \d+ places, .*')
_STEP = re.compile(r'From (\w+), a step leads to (.*)\.')
_PAIR = re.compile(r'\((\w+), (\w+)\)')
_CALLED = re.compile(
  r'The goal may also be called reward: then any of these is one: (.*)\.'
)
_WALK = 'A sequence is a walk: first the name of its goal,'


class Trips(base.Reading):
  """Steps between places; a state is the goal and the place, '' if untold."""

  def __init__(self) -> None:
    """No steps."""
    self.steps: dict[str, set[str]] = {}
    self.rewarded: list[str] = []

  @property
  def edges(self) -> set[tuple[str, str, str]]:
    """All steps: from where, by which word, to where."""
    return {(a, b, b) for a, heads in self.steps.items() for b in heads}

  def lead(self, here: str, there: Iterable[str]) -> None:
    """Adds steps."""
    self.steps.setdefault(here, set()).update(there)

  def goals(self, name: str) -> list[str]:
    """The places that a goal stands for."""
    return self.rewarded if name == REWARD else [name]

  def near(self, goal: str) -> set[str]:
    """The places from which a goal can be reached, those of it included."""
    result, queue = set(self.goals(goal)), list(self.goals(goal))
    for node in queue:
      for here, heads in self.steps.items():
        if node in heads and here not in result:
          result.add(here)
          queue.append(here)
    return result

  def start(self) -> Hashable:
    """Nothing is told."""
    return ('', '')

  def step(self, state: tuple[str, str], word: str) -> Hashable | None:
    """After a goal, a start, a step, or the end, after which nothing is."""
    goal, place = state
    if place == END:
      return None
    if not goal:
      starts = self.near(word) - set(self.goals(word))
      return (word, '') if starts and word in self.every() else None
    if word == END:
      return (goal, END) if place in self.goals(goal) else None
    if not place:
      apart = self.near(goal) - set(self.goals(goal))
      return (goal, word) if word in apart else None
    leads = word in self.steps.get(place, ()) and word in self.near(goal)
    return (goal, word) if leads else None

  def every(self) -> Iterable[str]:
    """All places, the reward, and the end."""
    heads = (head for heads in self.steps.values() for head in heads)
    return dict.fromkeys([END, REWARD, *self.steps, *heads])


def read(told: str) -> Trips | None:
  """Steps and goals as the rules tell them; None where a text tells none."""
  lines = told.splitlines()
  if not lines or not lines[-1].startswith(_WALK):
    return None
  if not (_PLACES.fullmatch(lines[0]) or _PAIRS.fullmatch(lines[0])):
    return None
  result = Trips()
  for line in lines[1:-1]:
    if step := _STEP.fullmatch(line):
      result.lead(step[1], step[2].split(' or to '))
    elif called := _CALLED.fullmatch(line):
      result.rewarded = called[1].split(', ')
    else:
      for here, there in _PAIR.findall(line):
        result.lead(here, [there])
  return result
