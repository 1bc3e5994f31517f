"""Whole games of Othello: games of simulated players, and other move orders.

`play` draws games by a policy; `transpositions` draws other orders of a game's
moves that lead to the same position.
"""

from __future__ import annotations

import functools

import numpy as np

from wm import core
from wm.kernels import othello
from wm.kernels.base import calls
from wm.kernels.base.bits import (
  below,
  bit,
  lowest,
  nth,
  popcount,
  put,
  splitmix,
  without_lowest,
)
from wm.kernels.base.jit import njit

POLICIES = ('uniform', 'search')
_NONE = np.uint64(0)
_MOST = 1 << 20
# Draws of a game's stream: move k takes number k, its noise NOISE + k.
_NOISE = 64


def play(
  num: int,
  seed: int,
  first: int = 0,
  size: int = 8,
  policy: str = 'uniform',
  noise: float = 0.0,
  depth: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
  """Whole games; game i depends only on (seed, first + i) and the policy.

  Policies replace human play where no records are available: 'uniform' over the
  legal moves; 'search', the best move by alpha-beta to `depth` plies, ties to
  the lowest square. Search scores a position by own minus other's: 32 per
  corner, -12 per square diagonal to an empty corner, 4 per legal square, and
  per disc 1 once three quarters of the board are filled, -1 before; a finished
  game by 1000 per disc.

  Args:
    num: games.
    seed: of all games.
    first: number of the first game.
    size: 4, 6 or 8.
    policy: one of POLICIES.
    noise: probability, at each move, of a uniform move instead, 0..1.
    depth: plies that 'search' looks ahead, 1..20; ignored by 'uniform'.

  Returns:
    tokens: [num, size * size - 4] int32, 0-padded.
    lengths: [num] int32.
  """
  board = (
    othello.tokens_of(size),
    len(othello.squares(size)),
    othello.mask(size),
  )
  key = np.uint64(seed & (2**64 - 1))
  rest = POLICIES.index(policy), np.int64(noise * 2**32), depth

  def games(rows: slice) -> tuple[np.ndarray, ...]:
    start = np.int64(first + rows.start)
    return _play(
      rows.stop - rows.start, key, start, *board, *rest, _evaluation(size)
    )

  # A game by search may take a second, so the first call plays only one game.
  return calls.run(games, num, 1 if policy == 'search' else 64)


@njit
def _play(
  num, seed, first, token_of, length, squares, policy, noise, depth, shape
) -> tuple:
  """Games by policy 0 uniform, 1 search.

  noise: a move is uniform where the upper half of its draw is below it.
  """
  tokens = np.zeros((num, length), np.int32)
  lengths = np.zeros(num, np.int32)
  room = _room(max(depth, 1))
  # Game n has the stream of (seed, first + n): parts of a run equal the whole.
  mixed = splitmix(seed)
  for n in range(num):
    stream = splitmix(mixed ^ np.uint64(first + n))
    me, opp, side, moves = othello.first_position(squares)
    ply = 0
    while moves != _NONE:
      among = moves
      # Noise has its own draws, so that draws of moves do not depend on it.
      if policy and below(stream, _NOISE + ply, 1 << 32) >= noise:
        among = _search(me, opp, side, moves, squares, shape, depth, room)
      square = nth(among, below(stream, ply, popcount(among)))
      tokens[n, ply] = token_of[square]
      me, opp, side, moves = othello.step(me, opp, side, bit(square), squares)
      ply += 1
    lengths[n] = ply
  return tokens, lengths


def chances(
  position: othello.Position,
  size: int = 8,
  policy: str = 'uniform',
  noise: float = 0.0,
  depth: int = 0,
) -> tuple[np.ndarray, float, float]:
  """The distribution from which `play` draws the next move.

  Args:
    position: black and white [B] uint64, side to move [B] int8.
    size, policy, noise, depth: see `play`.

  Returns:
    favoured: [B] uint64, bits of the moves from which the policy draws.
    drawn: probability of a policy draw, uniform over `favoured`.
    noisy: probability of a noise draw, uniform over all legal moves.
  """
  favoured = _favoured(
    *othello.checked(position),
    *(othello.mask(size), POLICIES.index(policy), depth, _evaluation(size)),
  )
  # Exact, as `play` compares integers.
  noisy = int(noise * 2**32) / 2**32
  return favoured, 1 - noisy, noisy


@njit
def _favoured(black, white, side, squares, policy, depth, shape) -> np.ndarray:
  """[B] bits of the moves from which a policy draws; 0 after the end."""
  among = np.zeros(len(side), np.uint64)
  room = _room(max(depth, 1))
  for n in range(len(side)):
    if not 0 <= side[n] <= 1:
      continue
    me, opp = othello.oriented(black[n], white[n], side[n])
    mover, moves = np.int64(side[n]), othello.moves_of(me, opp, squares)
    among[n] = moves
    if policy:
      among[n] = _search(me, opp, mover, moves, squares, shape, depth, room)
  return among


@functools.cache
def _evaluation(size: int) -> tuple[np.uint64, np.ndarray, int]:
  """Corners; corners with diagonal neighbours; number of discs of late play."""
  low, high = (8 - size) // 2, (8 + size) // 2 - 1
  # A corner, and the square one step towards the centre on its diagonal.
  beside = [
    (8 * row + column, 8 * (row + down) + column + right)
    for row, down in ((low, 1), (high, -1))
    for column, right in ((low, 1), (high, -1))
  ]
  corners = np.uint64(sum(1 << corner for corner, _ in beside))
  return corners, calls.frozen(beside, np.int64), 3 * size * size // 4


@njit
def _judged(me, opp, side, moves, squares, shape) -> np.int64:
  """Value of a position for the side to move (for black after the end)."""
  corners, beside, late = shape
  discs = popcount(me) - popcount(opp)
  # A won game outweighs every estimate below, as these stay under 1000.
  if side == 2:
    return 1000 * discs
  worth = 32 * (popcount(me & corners) - popcount(opp & corners))
  for k in range(4):
    # A disc diagonal to an empty corner gives the corner away.
    corner, risky = bit(beside[k, 0]), bit(beside[k, 1])
    if (me | opp) & corner == _NONE:
      worth -= 12 * (np.int64((me & risky) != _NONE))
      worth += 12 * (np.int64((opp & risky) != _NONE))
  # `moves` are the mover's; the other side's are computed as if on move.
  worth += 4 * (popcount(moves) - popcount(othello.moves_of(opp, me, squares)))
  return worth + (discs if popcount(me | opp) >= late else -discs)


@njit
def _search(me, opp, side, moves, squares, shape, depth, room) -> np.uint64:
  """The best move by alpha-beta to `depth` plies, ties to the lowest square.

  Levels are plies below the root. `lows` and `highs` are the alpha and beta
  bounds of a level's mover. After a pass the mover stays, so bounds are negated
  only where the side changes.
  """
  discs, turns, lows, highs = room
  # discs [level, 3]: me, opp, moves still to try.
  discs[0, 0], discs[0, 1], discs[0, 2], turns[0] = me, opp, moves, side
  lows[0], highs[0] = -_MOST, _MOST
  best, tried, level = _NONE, _NONE, 0
  while True:
    # Nothing left to try, or the other side will not let it come to this.
    if discs[level, 2] == _NONE or lows[level] >= highs[level]:
      if level == 0:
        return best
      worth, mover, level = lows[level], turns[level], level - 1
    else:
      move = bit(lowest(discs[level, 2]))
      discs[level, 2] = without_lowest(discs[level, 2])
      if level == 0:  # The root's move, to be kept if it proves best.
        tried = move
      me, opp, mover, moves = othello.step(
        discs[level, 0], discs[level, 1], turns[level], move, squares
      )
      if mover != 2 and level + 1 < depth:
        # One ply deeper, with the bounds as the next mover sees them.
        same = mover == turns[level]
        low, high = lows[level], highs[level]
        level += 1
        discs[level, 0], discs[level, 1], discs[level, 2] = me, opp, moves
        turns[level] = mover
        lows[level] = low if same else -high
        highs[level] = high if same else -low
        continue
      worth = _judged(me, opp, mover, moves, squares, shape)
    # The value of this level for the mover of the level above. After the end
    # of a game, values are black's.
    owner = 0 if mover == 2 else mover
    gain = worth if owner == turns[level] else -worth
    # Strict: on ties the first move, the lowest square, stays.
    if gain > lows[level]:
      lows[level] = gain
      if level == 0:
        best = tried


@njit
def _room(levels) -> tuple:
  """Working memory of a search, a row for each ply."""
  return (
    np.empty((levels, 3), np.uint64),
    np.empty(levels, np.int64),
    np.empty(levels, np.int64),
    np.empty(levels, np.int64),
  )


def transpositions(
  tokens: np.ndarray,
  lengths: np.ndarray,
  seeds: np.ndarray,
  size: int = 8,
  sweeps: int = 3,
  window: int = 6,
  opening: int = 11,
) -> np.ndarray:
  """Random orders of each row's moves that reach the same position.

  A Gibbs chain. Each step picks a window of consecutive moves with a uniform
  start, enumerates every order of its squares that is legal from the position
  before and leads to the position after (including the side to move), and takes
  one uniformly. The chain converges to the uniform distribution over all orders
  connected by such steps. The window at the start of a row is wider, as few
  orders are legal there. A row that fits in this window is drawn exactly,
  uniformly over all its orders. For a random game's first 12, 20, 30 and 60
  moves, one draw differs in .69, .91, .99 and 1.00 of rows, and in .45 and .53
  of the places of 30 and 60 moves (chains ten times as long: .53 and .63).

  Args:
    tokens: [T, L] legal rows of tokens.
    lengths: [T].
    seeds: [T] uint64; row t depends on its moves and seeds[t] alone.
    size: 4, 6 or 8.
    sweeps: windows drawn, as multiples of the number of starts in the row.
    window: moves in a window, 2..12.
    opening: moves in the window at the start, window..12.

  Returns:
    tokens [T, L] int32, 0 past each length.
  """
  rows = calls.games(np.atleast_2d(tokens), lengths, 'tokens')
  seeds = calls.seeds(seeds)
  calls.same_length(tokens=rows[0], seeds=seeds)
  # Compiled code does not check tokens, so they are checked here once.
  steps = othello.replay(*rows, size)[0]
  if (steps < rows[1]).any():
    row = int(np.argmax(steps < rows[1]))
    raise core.InputError(
      f'row {row} has an illegal token {rows[0][row, steps[row]]} at move '
      f'{steps[row] + 1}; expected legal moves from the start'
    )
  board = othello.squares(size), othello.tokens_of(size), othello.mask(size)
  return calls.run_rows(
    _transpositions, (*rows, seeds), *board, sweeps, window, opening
  )


@njit
def _transpositions(
  tokens, lengths, seeds, bits, token_of, squares, sweeps, window, opening
) -> np.ndarray:
  """A Gibbs chain over the orders of each row's moves."""
  most, widest = tokens.shape[1], max(window, opening)
  out = np.zeros(tokens.shape, np.int32)
  played = np.empty(most, np.int64)
  discs = np.empty((most + 1, 3), np.uint64)
  sides = np.empty(most + 1, np.int64)
  room = (
    np.empty((widest, 4), np.uint64),
    np.empty(widest, np.int64),
    np.empty(widest, np.int64),
  )
  for n in range(len(tokens)):
    length = np.int64(lengths[n])
    # A row that one window covers is drawn exactly, at once.
    starts = 1 if length <= opening else max(length - window + 1, 1)
    draws = min(sweeps, 1) if starts == 1 else sweeps * starts
    # One random stream for each row, and one for each window of it.
    stream = splitmix(seeds[n])
    discs[0, 0], discs[0, 1], sides[0], discs[0, 2] = othello.first_position(
      squares
    )
    for k in range(length):
      played[k] = bits[tokens[n, k] - 1]
    _fill(played, discs, sides, np.int64(0), length, squares)
    for draw in range(draws * (length > 1)):  # One move has one order.
      draws = splitmix(stream ^ np.uint64(draw))
      low = below(draws, 0, starts)
      width = min(opening if low == 0 else window, length)
      _drawn(played, discs, sides, low, width, squares, room, draws)
      # All orders lead to the position after the window: no later one changes.
      _fill(played, discs, sides, low, low + width, squares)
    for k in range(length):
      out[n, k] = token_of[played[k]]
  return out


@njit
def _fill(played, discs, sides, low, high, squares) -> None:
  """Positions before plies low + 1..high of a legal line of squares.

  discs: [L + 1, 3], me, opp and legal squares at each ply.
  """
  for k in range(low, high):
    me, opp, side, moves = othello.step(
      discs[k, 0], discs[k, 1], sides[k], bit(played[k]), squares
    )
    discs[k + 1, 0], discs[k + 1, 1], discs[k + 1, 2] = me, opp, moves
    sides[k + 1] = side


@njit
def _drawn(played, discs, sides, low, width, squares, room, stream) -> None:
  """Redraws the window's order among those that keep the position after it.

  Depth first, squares ascending. Reservoir sampling: the n-th order replaces
  the current one with probability 1 / n, so that all are equally likely without
  a list. room: by level (me, opp, unplayed squares, squares to try); the sides
  to move; the order under trial.
  """
  tried, turns, order = room
  # Words are sets of squares: `left` those of the window not played yet.
  high = low + width
  own_after, opp_after = discs[high, 0], discs[high, 1]
  left = _NONE
  for k in range(low, high):
    left |= bit(played[k])
  tried[0, 0], tried[0, 1], turns[0] = discs[low, 0], discs[low, 1], sides[low]
  tried[0, 2], tried[0, 3] = left, left & discs[low, 2]
  # Each level plays one of the squares that are left and legal there.
  num, level = 0, 0
  while level >= 0:
    if tried[level, 3] == _NONE:
      level -= 1
      continue
    order[level] = lowest(tried[level, 3])
    move = bit(order[level])
    tried[level, 3] = without_lowest(tried[level, 3])
    me, opp, side, moves = othello.step(
      tried[level, 0], tried[level, 1], turns[level], move, squares
    )
    left = tried[level, 2] & ~move
    if level + 1 < width:
      level += 1
      tried[level, 0], tried[level, 1], turns[level] = me, opp, side
      tried[level, 2], tried[level, 3] = left, left & moves
    # All are played: does the order lead where it must?
    elif me == own_after and opp == opp_after and side == sides[high]:
      num += 1
      if below(stream, num, num) == 0:
        put(played[low:], order[:width])
