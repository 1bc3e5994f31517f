"""Exact answers on any world: states by name, numbers of suffixes, classes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import capabilities
from wm.kernels import dfa
from wm.worlds.base import games

MOST = 1 << 17  # Limit of enumerated states.
SHOWN = 5  # Number of printed classes, and of printed states of each.


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


class EquivalenceClasses(NamedTuple):
  """The Myhill-Nerode classes of a world's legal sequences.

  Two sequences are in one class if no suffix is legal after only one of them
  (Vafa et al. 2024, definition C.1). Illegal sequences form one more class,
  which is not counted.

  Attributes:
    names: [S] str, the written form of each reachable state.
    block: [S] int32 class of each state, in order of first occurrence.
    told_apart: numbers of classes that suffixes of at most 0, 1, ... tokens
      distinguish; longer suffixes distinguish no more.
    minimal: number of states of the minimal automaton, which equals the number
      of classes (theorem C.2).
  """

  names: np.ndarray
  block: np.ndarray
  told_apart: list[int]
  minimal: int

  def shared(self) -> list[list[str]]:
    """Names of the states of each class that has several."""
    order = np.argsort(self.block, kind='stable')
    cuts = np.cumsum(np.bincount(self.block))[:-1]
    groups = np.split(self.names[order], cuts)
    return [group.tolist() for group in groups if len(group) > 1]

  def lines(self) -> list[str]:
    """The classes in words, one fact per line."""
    counts, shared = self.told_apart, self.shared()
    holds = 'holds' if counts[-1] == self.minimal else 'FAILS'
    by_length = [f'  {k} {number}' for k, number in enumerate(counts)]
    rest = len(shared) - SHOWN
    return [
      f'states {len(self.names)}',
      f'classes {counts[-1]}',
      'told apart by suffixes of at most k tokens:',
      *by_length,
      f'theorem C.2 {holds}: the minimal automaton has {self.minimal} states',
      f'classes of several states {len(shared)}',
      *(f'  {_few(names)}' for names in shared[:SHOWN]),
      *([f'  and {rest} more'] if rest > 0 else []),
    ]


def _few(names: list[str]) -> str:
  rest = len(names) - SHOWN
  return ' | '.join(names[:SHOWN]) + (f' | and {rest} more' * (rest > 0))


def classes(world: core.World, most: int = MOST) -> EquivalenceClasses:
  """Myhill-Nerode classes, counted by suffixes and by minimisation.

  Raises:
    InputError: more than `most` states are reachable.
  """
  states, delta = capabilities.enumerated(world, most)
  counts, block = [1], np.zeros(len(delta), np.int32)
  while True:
    # One more token: legality, and the class that the token leads to.
    after = np.append(block, core.DEAD).astype(np.int32)[delta]
    finer = np.unique(
      np.column_stack([block, after]), axis=0, return_inverse=True
    )[1].reshape(-1)
    if finer.max() + 1 == counts[-1]:
      break
    block = finer.astype(np.int32)
    counts.append(int(block.max()) + 1)
  # Every legal sequence is in the language: only DEAD distinguishes rows.
  smallest = dfa.minimize(delta, np.zeros(len(delta), np.int32))
  names = capabilities.written(world, states)
  return EquivalenceClasses(names, smallest, counts, int(smallest.max()) + 1)
