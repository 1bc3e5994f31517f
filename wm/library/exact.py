"""What is counted and listed exactly: boundaries, sequences, classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import registry
from wm.worlds.base import exact


class Apart(NamedTuple):
  """Two states of a world, told apart by suffixes of at most `depth` tokens.

  Attributes:
    world, first, second, depth: what was asked for; states are [W].
    sizes: (k, boundary, interior) for each k up to `depth`: how many suffixes
      of at most k tokens are legal from the first state and not from the
      second, all but the last token being legal from both; and how many are
      legal from both.
  """

  world: core.Enumerable
  first: np.ndarray
  second: np.ndarray
  depth: int
  sizes: list[tuple[int, int, int]]

  def suffixes(self) -> list[str]:
    """The suffixes of the boundary in words, the shortest first."""
    pair = self.first[None], self.second[None]
    (found,) = self.world.boundary(*pair, self.depth).listed()
    return [' '.join(self.world.vocab[k] for k in one) for one in found]


def _enumerable(world: core.World | str) -> Any:
  """A world whose states can be named, and its suffixes counted."""
  made = registry.made('world', world)
  for kind in (core.Written, core.Enumerable):
    if not isinstance(made, kind):
      raise core.InputError(f'{made.name} is not {kind.__name__.lower()}')
  return made


def boundary(
  world: core.World | str, first: str, second: str, depth: int = 5
) -> Apart:
  """The exact Myhill-Nerode boundary and interior of two states.

  Vafa et al. 2024, definitions 2.3 and 2.4.

  Args:
    world: whose rules.
    first, second: states as the world writes them, or sequences of tokens
      that lead to them.
    depth: longest suffix, in tokens.
  """
  made = _enumerable(world)
  one, two = exact.locate(made, first), exact.locate(made, second)
  numbers = exact.sizes(made, one, two, depth)
  sizes = list(zip(range(1, depth + 1), *numbers, strict=True))
  return Apart(made, one, two, depth, sizes)


def count(
  world: core.World | str, state: str | None = None, depth: int = 5
) -> Iterator[int]:
  """How many legal token sequences there are from a state, by length from 1.

  Args:
    world: whose rules.
    state: as the world writes it, or a sequence of tokens that leads to it;
      None is the start.
    depth: greatest length.

  Yields:
    A count as soon as it is known.
  """
  made = _enumerable(world)
  start = exact.opening(made) if state is None else exact.locate(made, state)
  yield from exact.counts(made, start, depth)


def classes(world: core.World | str, most: int = exact.MOST) -> exact.Classes:
  """The Myhill-Nerode classes of a world's legal sequences.

  Vafa et al. 2024, definition C.1 and theorem C.2.

  Args:
    world: whose rules.
    most: states that are enumerated at most.

  Raises:
    InputError: the world has more states.
  """
  return exact.classes(registry.made('world', world), most)
