"""Exact answers on any world as text: boundaries and counts by length."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wm import core


def locate(world: core.World, text: str) -> np.ndarray:
  """[W] state that a text names: a state, or a sequence of tokens from init.

  Raises:
    InputError: neither, or a sequence with an illegal token.
  """
  try:
    return world.parse_state(text)[0]
  except core.InputError as error:
    unread = error
    index = {token: k for k, token in enumerate(world.vocab) if k}
    words = text.split()
    if not words or not all(word in index for word in words):
      raise
  tokens = np.array([[index[word] for word in words]], np.int32)
  steps, states = world.walk(world.init(1), tokens, np.array([len(words)]))
  if not steps[0]:  # No sequence: what is wrong with the state says more.
    raise unread
  if steps[0] < len(words):
    raise core.InputError(
      f'token {words[steps[0]]!r}, number {steps[0] + 1} of {text!r}, is not '
      f'legal in state {world.format_state(states[0])}'
    )
  return states[0]


def boundary_lines(
  world: core.World, first: str, second: str, depth: int, show: bool = False
) -> list[str]:
  """'k boundary interior' for each length bound k; with `show` suffixes first.

  Sizes, cumulative, of the Myhill-Nerode boundary and interior of two states
  (Vafa et al. 2024, Defs. 2.3 and 2.4).
  """
  one, two = locate(world, first), locate(world, second)
  lines = []
  if show:
    for suffix in world.boundary(one[None], two[None], depth).listed()[0]:
      lines.append(' '.join(world.vocab[token] for token in suffix))
  outer = world.boundary_sizes(one, two, depth)
  inner = world.interior_sizes(one, two, depth)
  sizes = zip(range(1, depth + 1), outer, inner, strict=True)
  return lines + [f'{k} {a} {b}' for k, a, b in sizes]


def opening(world: core.World) -> np.ndarray:
  """[W] state in which a task's own moves begin.

  The initial one, after the tokens that open every sequence of the world
  alike: chess has one, a map's origin and destination are not.
  """
  state = world.init(1)
  for _ in range(world.prompt_len()):
    (forced,) = np.nonzero(world.legal(state)[0])
    if len(forced) != 1:
      break
    state = world.advance(state, forced)
  return state[0]


def count_lines(
  world: core.World, state: str | None, depth: int
) -> Iterator[str]:
  """'k count': legal token sequences of each length from a state or opening.

  A line comes as soon as it is known.
  """
  start = opening(world) if state is None else locate(world, state)
  for k, number in enumerate(world.counts(start, depth)):
    yield f'{k + 1} {number}'
