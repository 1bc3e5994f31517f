"""Openings: all orders in which given squares can be played from the start.

Different orders of the same squares lead to different boards, so that a model
cannot tell their states apart by which squares were played (Vafa et al. 2025
score inductive biases there).
"""

from __future__ import annotations

import re

import numpy as np

from wm import core

# Of the board of 8 x 8. The published program takes the fifth most frequent
# board after ten moves; eight boards, of two sets of squares, share its rank,
# and its sort is not stable: 'published' is what it most likely gave, 'tied'
# the other one.
NAMED = {
  'published': 'c3 f3 c4 f4 f5 d6 e6 f6 f7 g7',
  'tied': 'c3 d3 f4 f5 c6 d6 e6 f6 g6 c7',
  'rich': 'b2 c2 c3 d3 e3 f3 c4 f4 f5 f6',
}


def squares(text: str, vocab: tuple[str, ...]) -> tuple[int, ...]:
  """Tokens of squares, ascending.

  text: a name in NAMED, or squares as 'c3 d3'.

  Raises:
    InputError: a square that is none of the vocabulary, or comes twice.
  """
  names = re.findall('[^, ]+', NAMED.get(text, text))
  index = {name: token for token, name in enumerate(vocab) if token}
  wrong = [name for name in names if name not in index]
  if wrong or len(set(names)) < len(names) or not names:
    raise core.InputError(
      f'othello: openings={text!r}'
      + (f': no square is called {wrong[0]!r}' if wrong else '')
      + f'; expected different squares from {vocab[1]!r} to {vocab[-1]!r}, or '
      + ', '.join(map(repr, NAMED))
    )
  return tuple(sorted(index[name] for name in names))


def orders(world: core.World, tokens: tuple[int, ...]) -> np.ndarray:
  """[N, K] int32 all legal orders of K tokens from the start, ascending."""
  options = np.array(tokens, np.int32)
  found, states = np.zeros((1, 0), np.int32), world.init(1)
  for _ in options:
    legal = world.legal(states)[:, options]
    row, pick = np.nonzero(legal)
    token = options[pick]
    found = np.concatenate([found[row], token[:, None]], axis=1)
    states = world.advance(states[row], token)
  return found
