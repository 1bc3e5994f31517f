"""Sequences told in place of rules: what begins as one of them can come."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable

from tests.language.stand_ins import base

OPENING = 'The rules are not told. They allow each of these sequences'


class Shown(base.Reading):
  """All beginnings of the sequences told, as a tree; states are its nodes."""

  def __init__(self, sequences: list[list[str]]) -> None:
    """sequences: words of each."""
    self._after: list[dict[str, int]] = [{}]
    for words in sequences:
      node = 0
      for word in words:
        if word not in self._after[node]:
          self._after[node][word] = len(self._after)
          self._after.append({})
        node = self._after[node][word]

  def start(self) -> Hashable:
    """No words."""
    return 0

  def step(self, state: int, word: str) -> Hashable | None:
    """One word more, where a sequence told goes on so."""
    return self._after[state].get(word)

  def every(self) -> Iterable[str]:
    """The words of all sequences told."""
    return dict.fromkeys(word for after in self._after for word in after)


def read(told: str) -> Shown | None:
  """The sequences of a text, None where it tells none."""
  if not told.startswith(OPENING):
    return None
  lines = re.findall(r'^\d+\. (.*)$', told, re.MULTILINE)
  return Shown([line.split(', ') for line in lines])
