"""Sequences told in place of rules: what begins as one of them can come."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable

from wm.language.readers import base

OPENING = 'The rules are not told. They allow each of these sequences'


class Shown(base.Reading):
  """All beginnings of the sequences told; states are their words so far."""

  def __init__(self, sequences: list[list[str]]) -> None:
    """sequences: words of each."""
    self.sequences = sequences
    self._known = {
      tuple(words[:k]) for words in sequences for k in range(len(words) + 1)
    }

  def start(self) -> Hashable:
    """No words."""
    return ()

  def step(self, state: tuple[str, ...], word: str) -> Hashable | None:
    """One word more, where a sequence told begins so."""
    after = (*state, word)
    return after if after in self._known else None

  def every(self) -> Iterable[str]:
    """The words of all sequences told."""
    return dict.fromkeys(word for words in self.sequences for word in words)


def read(told: str) -> Shown | None:
  """The sequences of a text, None where it tells none."""
  if not told.startswith(OPENING):
    return None
  lines = re.findall(r'^\d+\. (.*)$', told, re.MULTILINE)
  return Shown([line.split(', ') for line in lines])
