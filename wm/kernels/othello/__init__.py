"""Front door to Othello's rules: NumPy in, NumPy out.

A position is three arrays: discs `black` and `white`, [B] uint64 with bit
8 * row + column, and `side`, [B] int8: 0 black moves, 1 white moves, 2 the
game is over. After a move the turn passes, without a token, where the other
side has none; the game is over where neither has.

Boards of `size` 4, 6 and 8 lie amid the 8x8 grid, so that the four squares
filled at the start are bits 27, 28, 35, 36 on each. Token k is the k-th of
the other squares (Vafa et al. 2024, appendix on Othello; Li et al. 2023).

`backend` names the implementation: 'numba' compiled, 'ref' plain Python (the
specification). Both agree to the bit. `vmap` holds the rules as JAX traces
them.
"""

from __future__ import annotations

import functools

import numpy as np

from wm import core
from wm.kernels.base import checks

_backend = functools.partial(
  checks.backend, __package__, numba='rules_numba', ref='ref'
)
# Where `boundary` is.
_pairs = functools.partial(
  checks.backend, __package__, numba='pairs_numba', ref='ref'
)

SIZES = (4, 6, 8)
CENTRE = (27, 28, 35, 36)
BLACK, WHITE = np.uint64(1 << 28 | 1 << 35), np.uint64(1 << 27 | 1 << 36)
OVER = 2
POLICIES = ('uniform', 'greedy', 'mobility', 'search')

Position = tuple[np.ndarray, np.ndarray, np.ndarray]  # black, white, side.


@functools.cache
def squares(size: int = 8) -> np.ndarray:
  """[n] uint8 bits of tokens 1..n, n = size * size - 4, read-only."""
  if size not in SIZES:
    raise core.InputError(
      f'board size is {size!r}; available: {", ".join(map(str, SIZES))}'
    )
  edge = (8 - size) // 2
  lines = range(edge, edge + size)
  bits = [8 * row + column for row in lines for column in lines]
  return checks.frozen([b for b in bits if b not in CENTRE], np.uint8)


@functools.cache
def tokens_of(size: int = 8) -> np.ndarray:
  """[64] int32 token of each bit, 0 where no move is made, read-only."""
  found = np.zeros(64, np.int32)
  found[squares(size)] = np.arange(1, len(squares(size)) + 1)
  return checks.frozen(found, np.int32)


@functools.cache
def mask(size: int) -> np.uint64:
  """uint64 word of all squares that tokens name."""
  return np.bitwise_or.reduce(np.uint64(1) << squares(size).astype(np.uint64))


def _position(
  black: np.ndarray, white: np.ndarray, side: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Checked and frozen; raises InputError where sizes differ."""
  black = checks.frozen(np.atleast_1d(black), np.uint64)
  white = checks.frozen(np.atleast_1d(white), np.uint64)
  side = checks.frozen(np.atleast_1d(side), np.int8)
  checks.same_length(black=black, white=white, side=side)
  return black, white, side


def start(batch: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """The starting position, [batch] each; black moves."""
  full = functools.partial(np.full, batch)
  return full(BLACK), full(WHITE), np.zeros(batch, np.int8)


def legal(
  black: np.ndarray,
  white: np.ndarray,
  side: np.ndarray,
  size: int = 8,
  *,
  backend: str = 'numba',
) -> np.ndarray:
  """[B] uint64: squares on which the side to move may place a disc.

  0 where the game is over or `side` is anything but 0 and 1.
  """
  position = _position(black, white, side)
  return _backend(backend).legal(*position, mask(size))


def advance(
  black: np.ndarray,
  white: np.ndarray,
  side: np.ndarray,
  bits: np.ndarray,
  size: int = 8,
  *,
  backend: str = 'numba',
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Positions after one move each.

  Args:
    black: [B].
    white: [B].
    side: [B].
    bits: [B] integers, the squares played; outside 0..63 is illegal too.
    size: 4, 6 or 8.
    backend: 'numba' or 'ref'.

  Returns:
    black: [B] uint64.
    white: [B] uint64.
    side: [B] int8.
    ok: [B] bool, False where the move is illegal; the position then stays.
  """
  position = _position(black, white, side)
  bits = checks.frozen(np.atleast_1d(bits), np.int32)
  checks.same_length(black=black, bits=bits)
  return _backend(backend).advance(*position, bits, mask(size))


def _moves(
  tokens: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  tokens = checks.frozen(np.atleast_2d(tokens), np.int32)
  lengths = checks.frozen(np.atleast_1d(lengths), np.int32)
  checks.same_length(tokens=tokens, lengths=lengths)
  if lengths.size and not 0 <= lengths.min() <= lengths.max() <= len(tokens.T):
    raise core.InputError(
      f'lengths hold {lengths.min()}..{lengths.max()}; tokens have '
      f'{len(tokens.T)} columns'
    )
  return tokens, lengths


def replay(
  tokens: np.ndarray,
  lengths: np.ndarray,
  size: int = 8,
  *,
  backend: str = 'numba',
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Plays token rows from the start, up to the first illegal token.

  Args:
    tokens: [N, L] integers; those past lengths[n] are not read.
    lengths: [N].
    size: 4, 6 or 8.
    backend: 'numba' or 'ref'.

  Returns:
    steps: [N] int32, tokens played.
    black: [N] uint64 after them.
    white: [N] uint64.
    side: [N] int8.
  """
  rows, call = _moves(tokens, lengths), _backend(backend).replay
  return checks.by_rows(call, rows, squares(size), mask(size))


def replay_labels(
  tokens: np.ndarray,
  lengths: np.ndarray,
  size: int = 8,
  *,
  backend: str = 'numba',
) -> np.ndarray:
  """[N, L, size * size + 1] uint8 labels after each token of `replay`'s rows.

  Of the squares, row by row, 0 empty, 1 black, 2 white; then of the side. 0
  from the first illegal token on and past a row's length.
  """
  rows, call = _moves(tokens, lengths), _backend(backend).replay_labels
  return checks.by_rows(call, rows, squares(size), mask(size), size)


def play(
  num: int,
  seed: int,
  first: int = 0,
  size: int = 8,
  policy: str = 'uniform',
  noise: float = 0.0,
  depth: int = 0,
  *,
  backend: str = 'numba',
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
    backend: 'numba' or 'ref'.

  Returns:
    tokens: [num, size * size - 4] int32, 0-padded.
    lengths: [num] int32.
  """
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
  rest = tokens_of(size), len(squares(size)), mask(size)
  seed = np.uint64(seed & (2**64 - 1))
  if policy == 'uniform':
    call = _backend(backend).play_uniform
  else:
    twins = {'numba': 'policy_numba', 'ref': 'ref'}
    call = checks.backend(__package__, backend, **twins).play
    chance = np.int64(noise * 2**32)
    rest = *rest, POLICIES.index(policy), chance, depth, _shape(size)

  def games(some: slice) -> tuple[np.ndarray, ...]:
    start = np.int64(first + some.start)
    return call(some.stop - some.start, seed, start, *rest)

  return checks.in_pieces(games, num, 1 if policy == 'search' else 64)


@functools.cache
def _shape(size: int) -> tuple[np.uint64, np.ndarray, int]:
  """Corners; each with its diagonal neighbour; discs when play is late."""
  low, high = (8 - size) // 2, (8 + size) // 2 - 1
  beside = [
    (8 * row + column, 8 * (row + down) + column + right)
    for row, down in ((low, 1), (high, -1))
    for column, right in ((low, 1), (high, -1))
  ]
  corners = np.uint64(sum(1 << corner for corner, _ in beside))
  return corners, checks.frozen(beside, np.int64), 3 * size * size // 4


def count(
  black: np.ndarray,
  white: np.ndarray,
  side: np.ndarray,
  depth: int,
  size: int = 8,
  *,
  backend: str = 'numba',
) -> list[int]:
  """Numbers of legal token sequences of lengths 1..depth from one position.

  A pass is no token. Arguments are scalars or of shape [1]; work grows with
  the sequences of length depth - 1.
  """
  position = (column[0] for column in _position(black, white, side))
  if depth < 0:
    raise core.InputError(f'depth is {depth}; expected at least 0')
  return [int(n) for n in _backend(backend).count(*position, depth, mask(size))]


def boundary(
  first: Position,
  second: Position,
  depth: int,
  size: int = 8,
  *,
  backend: str = 'numba',
) -> core.Boundary:
  """Myhill-Nerode boundary of two positions, to a length bound.

  The suffixes of at most `depth` moves that are legal from `first` and not
  from `second` while every proper prefix is legal from both (Vafa et al. 2024,
  Def. 2.4).

  Args:
    first, second: columns of one position each, scalars or of shape [1].
    depth: longest suffix, at least 1.
    size: 4, 6 or 8.
    backend: 'numba' or 'ref'.
  """
  pair = _pair(first, second, depth)
  rows, lengths, _ = _pairs(backend).boundary(
    *pair, depth, mask(size), tokens_of(size), True
  )
  order = np.argsort(lengths, kind='stable')  # They come in order of tokens.
  tokens, sizes = rows[order].astype(np.int32), lengths[order].astype(np.int32)
  return core.Boundary(np.array([0, len(order)]), tokens, sizes)


def boundary_sizes(
  first: Position,
  second: Position,
  depth: int,
  size: int = 8,
  *,
  interior: bool = False,
  backend: str = 'numba',
) -> list[int]:
  """Sizes of `boundary` to each length bound 1..depth, without listing it.

  With `interior`, instead, how many suffixes are legal from both positions.
  """
  pair = _pair(first, second, depth)
  *_, counts = _pairs(backend).boundary(
    *pair, depth, mask(size), tokens_of(size), False, interior
  )
  return np.cumsum(counts[int(interior)]).tolist()


def _pair(first: Position, second: Position, depth: int) -> Position:
  """Columns of the two positions, [2] each."""
  if depth < 1:
    raise core.InputError(f'depth is {depth}; expected at least 1')
  columns = zip(_position(*first), _position(*second), strict=True)
  return _position(*(np.concatenate(column) for column in columns))


def orders(
  tokens: np.ndarray,
  lengths: np.ndarray,
  seeds: np.ndarray,
  size: int = 8,
  sweeps: int = 3,
  window: int = 6,
  opening: int = 11,
  *,
  backend: str = 'numba',
) -> np.ndarray:
  """Random orders of each row's moves that reach the same position.

  A Gibbs chain: pick a window of consecutive moves, its start uniform; list
  every order of the window's squares that is legal from the position before
  it and leads to the position after it, side to move included; take one of
  them uniformly. The chain leaves the uniform distribution over all move
  orders that such steps connect as it is, and tends to it. The window at the
  start of a row is wider than the others, as few orders are legal there; a
  row no longer than it is drawn exactly, uniform over all its orders. Of a
  random game's first 12, 20, 30 and 60 moves, one draw differs in .69, .91,
  .99 and 1.00 of rows, and in .45 and .53 of the places of 30 and 60 moves
  (chains ten times as long: .53 and .63).

  Args:
    tokens: [T, L] legal rows of tokens.
    lengths: [T].
    seeds: [T] uint64; row t depends on its moves and seeds[t] alone.
    size: 4, 6 or 8.
    sweeps: windows drawn, as multiples of the number of starts in the row.
    window: moves in a window, 2..12.
    opening: moves in the window at the start, window..12.
    backend: 'numba' or 'ref'.

  Returns:
    tokens [T, L] int32, 0 past each length.
  """
  if not (2 <= window <= opening <= 12 and sweeps >= 0):
    raise core.InputError(
      f'sweeps {sweeps}, window {window}, opening {opening}; expected '
      'sweeps >= 0 and 2 <= window <= opening <= 12'
    )
  rows = _moves(tokens, lengths)
  seeds = checks.frozen(np.atleast_1d(seeds), np.uint64)
  checks.same_length(tokens=rows[0], seeds=seeds)
  steps = replay(*rows, size)[0]
  if (steps < rows[1]).any():
    row = int(np.argmax(steps < rows[1]))
    raise core.InputError(
      f'row {row} has an illegal token {rows[0][row, steps[row]]} at move '
      f'{steps[row] + 1}; expected legal moves from the start'
    )
  twins = {'numba': 'orders_numba', 'ref': 'ref'}
  module = checks.backend(__package__, backend, **twins)
  table = squares(size), tokens_of(size), mask(size)
  rest = *table, sweeps, window, opening
  return checks.by_rows(module.orders, (*rows, seeds), *rest)
