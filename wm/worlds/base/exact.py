"""Exact answers on any world: states by name, and numbers of suffixes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from wm import core
from wm.worlds.base import games


def locate(world: core.Written, text: str) -> np.ndarray:
  """[W] state that a text names: a state, or a sequence of tokens from init.

  Raises:
    InputError: neither, or a sequence with an illegal token.
  """
  try:
    return world.parse(text)[0]
  except ValueError as error:  # Also for numbers that are too long.
    unread = error
    if not isinstance(error, core.InputError):
      unread = core.InputError(f'{text!r:.60} is no state: {error}')
    index = {token: k for k, token in enumerate(world.vocab) if k}
    words = text.split()
    if not words or not all(word in index for word in words):
      raise unread from error
  tokens = np.array([[index[word] for word in words]], np.int32)
  steps, states = world.walk(world.init(1), tokens, np.array([len(words)]))
  if not steps[0]:  # Not a sequence: the error about the state says more.
    raise unread
  if steps[0] < len(words):
    raise core.InputError(
      f'token {words[steps[0]]!r}, number {steps[0] + 1} of {text!r}, is not '
      f'legal in state {world.format(states[0])}'
    )
  return states[0]


def sizes(
  world: core.Enumerable, first: np.ndarray, second: np.ndarray, depth: int
) -> tuple[list[int], list[int]]:
  """Sizes of boundary and interior of a pair [W], to each bound 1..depth."""
  outer, inner = world.count(first, second, depth)
  return [*itertools.accumulate(outer)], [*itertools.accumulate(inner)]


def count(world: core.Enumerable, state: np.ndarray, depth: int) -> list[int]:
  """Number of legal token sequences of each length 1..depth from state [W]."""
  return world.count(state, state, depth)[1]


def opening(world: core.World) -> np.ndarray:
  """[W] the initial state, after the prompt tokens that are forced.

  The start token of chess is forced; the origin and the destination of a route
  are not.
  """
  state = world.init(1)
  for _ in range(world.prompt_len):
    (forced,) = np.nonzero(world.legal(state)[0])
    if len(forced) != 1:
      break
    state = world.advance(state, forced)
  return state[0]


def counts(
  world: core.Enumerable, state: np.ndarray, depth: int
) -> Iterator[int]:
  """As `count`, each number as soon as it is known."""
  if not isinstance(world, games.GameWorld):
    yield from count(world, state, depth)
    return
  for bound in range(1, depth + 1):  # Each length dwarfs those before it.
    yield count(world, state, bound)[-1]
