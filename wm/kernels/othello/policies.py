"""Whole games of Othello, by players that stand in for people."""

from __future__ import annotations

import functools

import numpy as np

from wm import core
from wm.kernels.base import checks, pieces
from wm.kernels.othello import rules

POLICIES = ('uniform', 'greedy', 'mobility', 'search')


def play(
  num: int,
  seed: int,
  first: int = 0,
  size: int = 8,
  policy: str = 'uniform',
  noise: float = 0.0,
  depth: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
  """Whole games; number i depends on (seed, first + i) and the policy alone.

  Policies stand in for how people play where no records are at hand:
  'uniform' over the legal moves; 'greedy', those that turn most discs;
  'mobility', those that leave the other side fewest moves (ties of both are
  drawn uniformly); 'search', the best by alpha-beta to `depth` plies, ties to
  the lowest square. Search judges a position by own minus other's: 32 a
  corner, -12 a square diagonal to an empty corner, 4 a legal square, and
  discs, 1 each once three quarters of the board are filled and -1 before;
  once the game is over, by 1000 a disc.

  Args:
    num: games.
    seed: of all games.
    first: number of the first game.
    size: 4, 6 or 8.
    policy: one of POLICIES.
    noise: probability, at each move, of a uniform move instead, 0..1.
    depth: plies that 'search' looks ahead, 1..20; others take no notice.

  Returns:
    tokens: [num, size * size - 4] int32, 0-padded.
    lengths: [num] int32.
  """
  from wm.kernels.othello import policies_numba

  if policy not in POLICIES:
    raise core.InputError(
      f'unknown policy {policy!r}; available: {", ".join(POLICIES)}'
    )
  if num < 0 or not 0 <= noise <= 1:
    raise core.InputError(
      f'num is {num}, noise {noise}; expected num >= 0 and noise 0..1'
    )
  if policy == 'search' and not 1 <= depth <= 20:
    raise core.InputError(f'search depth is {depth}; expected 1..20')
  board = rules.tokens_of(size), len(rules.squares(size)), rules.mask(size)
  key = np.uint64(seed & (2**64 - 1))
  rest = POLICIES.index(policy), np.int64(noise * 2**32), depth

  def games(some: slice) -> tuple[np.ndarray, ...]:
    start = np.int64(first + some.start)
    return policies_numba.play(
      some.stop - some.start, key, start, *board, *rest, _evaluation(size)
    )

  return pieces.run(games, num, 1 if policy == 'search' else 64)


def chances(
  position: rules.Position,
  size: int = 8,
  policy: str = 'uniform',
  noise: float = 0.0,
  depth: int = 0,
) -> tuple[np.ndarray, float, float]:
  """How `play` draws the next move.

  Args:
    position: black and white [B] uint64, side to move [B] int8.
    size, policy, noise, depth: see `play`.

  Returns:
    favoured: [B] uint64, bits of the moves that the policy draws from.
    drawn: probability of such a draw, uniform over `favoured`.
    noisy: of the other, uniform over all legal moves.
  """
  from wm.kernels.othello import policies_numba

  favoured = policies_numba.favoured(
    *rules.checked(position),
    *(rules.mask(size), POLICIES.index(policy), depth, _evaluation(size)),
  )
  # To the draw: `play` compares whole numbers.
  noisy = int(noise * 2**32) / 2**32
  return favoured, 1 - noisy, noisy


@functools.cache
def _evaluation(size: int) -> tuple[np.uint64, np.ndarray, int]:
  """Corners; each with its diagonal neighbour; discs when play is late."""
  low, high = (8 - size) // 2, (8 + size) // 2 - 1
  beside = [
    (8 * row + column, 8 * (row + down) + column + right)
    for row, down in ((low, 1), (high, -1))
    for column, right in ((low, 1), (high, -1))
  ]
  corners = np.uint64(sum(1 << corner for corner, _ in beside))
  return corners, checks.frozen(beside, np.int64), 3 * size * size // 4
