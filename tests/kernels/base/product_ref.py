"""Boundary and interior of two states, by listing: what products specify."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Suffix = tuple[int, ...]


def product(
  first: Any,
  second: Any,
  depth: int,
  legal: Callable[[Any], Iterable[int]],
  advance: Callable[[Any, int], Any],
) -> tuple[list[Suffix], list[Suffix]]:
  """Suffixes of at most `depth` labels, level by level.

  Returns:
    boundary: legal from first alone, every proper prefix legal from both.
    interior: legal from both.
  """
  level: list[tuple[Any, Any, Suffix]] = [(first, second, ())]
  outer: list[Suffix] = []
  inner: list[Suffix] = []
  for _ in range(depth):
    deeper: list[tuple[Any, Any, Suffix]] = []
    for item, two, path in level:
      others = set(legal(two))
      for label in legal(item):
        longer = (*path, label)
        if label not in others:
          outer.append(longer)
          continue
        inner.append(longer)
        deeper.append((advance(item, label), advance(two, label), longer))
    level = deeper
  return outer, inner


def sizes(suffixes: list[Suffix], depth: int) -> list[int]:
  """How many are of 1, 2, ..., `depth` labels."""
  return [sum(len(s) == k for s in suffixes) for k in range(1, depth + 1)]
