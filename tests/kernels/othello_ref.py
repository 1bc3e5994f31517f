"""The functions of `wm.kernels.othello` in plain Python: their specification.

They take what those take, unchecked, and return the same to the bit. Rays are
walked square by square. A position is (black, white, side) as plain integers;
`squares` is a word of the squares that moves may be made on, the four of the
centre left out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.kernels.base import product_ref
from tests.kernels.base.product_ref import Suffix
from tests.kernels.base.rng_ref import below, splitmix
from wm import core
from wm.kernels import othello as rules

Position = tuple[int, int, int]

_RAYS = tuple(
  (down, right) for down in (-1, 0, 1) for right in (-1, 0, 1) if down or right
)
_START = (1 << 28 | 1 << 35, 1 << 27 | 1 << 36, 0)
_NOISE = 64


def _set(word: int) -> list[int]:
  """Bits set, ascending."""
  return [square for square in range(64) if word >> square & 1]


def _turned(mine: int, opp: int, square: int) -> int:
  """Discs of `opp` that a disc of `own` on the square encloses."""
  turned = 0
  for down, right in _RAYS:
    row, column = square // 8 + down, square % 8 + right
    line = 0
    while 0 <= row < 8 and 0 <= column < 8:
      here = 1 << (8 * row + column)
      if not opp & here:
        turned |= line if mine & here else 0
        break
      line |= here
      row, column = row + down, column + right
  return turned


def _moves(mine: int, opp: int, squares: int) -> int:
  """Empty squares on which `own` turns a disc or more."""
  empty = squares & ~(mine | opp)
  return sum(1 << s for s in _set(empty) if _turned(mine, opp, s))


def _own(position: Position) -> tuple[int, int]:
  """Discs of the mover (black where nobody moves) and of the other."""
  black, white, side = position
  return (white, black) if side == 1 else (black, white)


def legal_squares(position: Position, squares: int) -> int:
  if position[2] not in (0, 1):
    return 0
  return _moves(*_own(position), squares)


def moved(position: Position, square: int, squares: int) -> Position:
  """The position after a legal move; the turn passes where it must."""
  mine, opp = _own(position)
  turned = _turned(mine, opp, square)
  mine, opp = mine | turned | 1 << square, opp & ~turned
  black, white = (mine, opp) if position[2] == 0 else (opp, mine)
  for side in (1 - position[2], position[2]):
    if legal_squares((black, white, side), squares):
      return black, white, side
  return black, white, 2


def _positions(columns: rules.Position) -> list[Position]:
  """Positions of columns; scalars are one."""
  black, white, side = (np.ravel(column).tolist() for column in columns)
  return list(zip(black, white, side, strict=True))


def _packed(positions: list[Position]) -> tuple[np.ndarray, ...]:
  """Columns black, white, side of positions."""
  columns = list(zip(*positions, strict=True)) or [(), (), ()]
  kinds = (np.uint64, np.uint64, np.int8)
  return tuple(np.array(c, k) for c, k in zip(columns, kinds, strict=True))


def legal(position: rules.Position, size: int = 8) -> np.ndarray:
  """Legal squares of each position."""
  squares = int(rules.mask(size))
  rows = _positions(position)
  return np.array([legal_squares(row, squares) for row in rows], np.uint64)


def advance(
  position: rules.Position, bits: np.ndarray, size: int = 8
) -> tuple[np.ndarray, ...]:
  """Positions after one move each; unchanged where it is illegal."""
  squares, after, ok = int(rules.mask(size)), [], []
  rows = _positions(position)
  for row, square in zip(rows, np.asarray(bits).tolist(), strict=True):
    fine = 0 <= square < 64 and legal_squares(row, squares) >> square & 1
    ok.append(fine)
    after.append(moved(row, square, squares) if fine else row)
  return (*_packed(after), np.array(ok, bool))


def _line(tokens: list[int], size: int) -> list[Position]:
  """The start, and where each token leads before the first illegal one."""
  line, bits = [_START], rules.squares(size)
  for token in tokens:
    square = int(bits[token - 1]) if 1 <= token <= len(bits) else 64
    if not legal_squares(line[-1], int(rules.mask(size))) >> square & 1:
      break
    line.append(moved(line[-1], square, int(rules.mask(size))))
  return line


def replay(
  tokens: np.ndarray, lengths: np.ndarray, size: int = 8
) -> tuple[np.ndarray, ...]:
  """Plays rows of tokens from the start, up to the first illegal one."""
  rows = zip(np.asarray(tokens).tolist(), lengths, strict=True)
  results = [_line(row[:length], size) for row, length in rows]
  steps = np.array([len(line) - 1 for line in results], np.int32)
  return (steps, *_packed([line[-1] for line in results]))


def replay_labels(
  tokens: np.ndarray, lengths: np.ndarray, size: int = 8
) -> np.ndarray:
  """Labels after each token of rows; 0 from the first illegal one on."""
  labels = np.zeros((*tokens.shape, size * size + 1), np.uint8)
  inside = range(4 - size // 2, 4 + size // 2)
  cells = [8 * row + column for row in inside for column in inside]
  for n, (row, length) in enumerate(zip(tokens.tolist(), lengths, strict=True)):
    for k, position in enumerate(_line(row[:length], size)[1:]):
      black, white, side = position
      labels[n, k, -1] = side
      for place, cell in enumerate(cells):
        labels[n, k, place] = (black >> cell & 1) + 2 * (white >> cell & 1)
  return labels


def play(
  num: int,
  seed: int,
  first: int = 0,
  size: int = 8,
  policy: str = 'uniform',
  noise: float = 0.0,
  depth: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
  """Move k takes draw k of its game's stream, its noise draw 64 + k."""
  squares, token_of = int(rules.mask(size)), rules.tokens_of(size)
  tokens = np.zeros((num, len(rules.squares(size))), np.int32)
  lengths = np.zeros(num, np.int32)
  for n in range(num):
    mixed = splitmix(seed & (2**64 - 1)) ^ (first + n)
    position = _START
    while moves := _set(legal_squares(position, squares)):
      ply = int(lengths[n])
      noisy = below(mixed, _NOISE + ply, 1 << 32) < int(noise * 2**32)
      if policy != 'uniform' and not noisy:
        moves = _favoured(position, moves, size, policy, depth)
      square = moves[below(mixed, ply, len(moves))]
      tokens[n, ply] = token_of[square]
      lengths[n] += 1
      position = moved(position, square, squares)
  return tokens, lengths


def _favoured(
  position: Position, moves: list[int], size: int, policy: str, depth: int
) -> list[int]:
  """The moves among which the policy draws."""
  squares, worth = int(rules.mask(size)), []
  for square in moves:
    after = moved(position, square, squares)
    sign = 1 if position[2] == 0 else -1
    worth.append(sign * _minimax(after, size, depth - 1))
  best = [m for m, w in zip(moves, worth, strict=True) if w == max(worth)]
  return best[:1]


def _minimax(position: Position, size: int, depth: int) -> int:
  """Worth to black after `depth` more plies of best play."""
  if depth == 0 or position[2] == 2:
    return _judged(position, size)
  squares = int(rules.mask(size))
  result = [
    _minimax(moved(position, square, squares), size, depth - 1)
    for square in _set(legal_squares(position, squares))
  ]
  return max(result) if position[2] == 0 else min(result)


def _judged(position: Position, size: int) -> int:
  """Worth to black, by what `othello_games.play` lists."""
  black, white, side = position
  discs = black.bit_count() - white.bit_count()
  if side == 2:
    return 1000 * discs
  late = 4 * (black | white).bit_count() >= 3 * size * size
  worth = discs if late else -discs
  low, high = 4 - size // 2, 3 + size // 2
  ends = (low, 1), (high, -1)
  for mine, opp, sign in ((black, white, 1), (white, black, -1)):
    worth += sign * 4 * _moves(mine, opp, int(rules.mask(size))).bit_count()
    for row, down in ends:
      for column, right in ends:
        corner, risky = 8 * row + column, 8 * (row + down) + column + right
        worth += sign * 32 * (mine >> corner & 1)
        free = not (mine | opp) >> corner & 1
        worth -= sign * 12 * (free and mine >> risky & 1)
  return worth


def count(position: rules.Position, depth: int, size: int = 8) -> list[int]:
  """Legal sequences of lengths 1..depth, level by level."""
  squares = int(rules.mask(size))
  counts, level = [], _positions(position)
  for _ in range(depth):
    level = [
      moved(row, square, squares)
      for row in level
      for square in _set(legal_squares(row, squares))
    ]
    counts.append(len(level))
  return counts


def _product(
  first: rules.Position, second: rules.Position, depth: int, size: int
) -> tuple[list[Suffix], list[Suffix]]:
  """Boundary and interior of a pair, as tokens."""
  squares, bits = int(rules.mask(size)), rules.squares(size)
  token_of = rules.tokens_of(size)
  return product_ref.product(
    _positions(first)[0],
    _positions(second)[0],
    depth,
    lambda p: token_of[_set(legal_squares(p, squares))].tolist(),
    lambda p, token: moved(p, int(bits[token - 1]), squares),
  )


def boundary(
  first: rules.Position, second: rules.Position, depth: int, size: int = 8
) -> core.Boundary:
  """Suffixes of the boundary; shorter ones first, then in order of tokens."""
  results, _ = _product(first, second, depth, size)
  results.sort(key=lambda path: (len(path), path))
  rows = np.zeros((len(results), depth), np.int32)
  for n, path in enumerate(results):
    rows[n, : len(path)] = path
  lengths = np.array([len(path) for path in results], np.int32)
  return core.Boundary(np.array([0, len(results)]), rows, lengths)


def boundary_sizes(
  first: rules.Position, second: rules.Position, depth: int, size: int = 8
) -> tuple[list[int], list[int]]:
  """Sizes of boundary and interior by length, by listing."""
  outer, inner = _product(first, second, depth, size)
  return product_ref.sizes(outer, depth), product_ref.sizes(inner, depth)


def transpositions(
  tokens: np.ndarray,
  lengths: np.ndarray,
  seeds: np.ndarray,
  size: int = 8,
  sweeps: int = 3,
  window: int = 6,
  opening: int = 11,
) -> np.ndarray:
  """A Gibbs chain over the orders of each row's moves."""
  out = np.zeros(tokens.shape, np.int32)
  pairs = zip(lengths.tolist(), seeds.tolist(), strict=True)
  for n, (length, seed) in enumerate(pairs):
    line = tokens[n, :length].tolist()
    starts = 1 if length <= opening else max(length - window + 1, 1)
    draws = min(sweeps, 1) if starts == 1 else sweeps * starts
    for draw in range(draws if length > 1 else 0):
      mixed = splitmix(seed) ^ draw
      low = below(mixed, 0, starts)
      high = low + min(opening if low == 0 else window, length)
      line[low:high] = _reordered(line, low, high, mixed, size)
    out[n, :length] = line
  return out


def _reordered(
  line: list[int], low: int, high: int, mixed: int, size: int
) -> list[int]:
  """The window's tokens in one of the orders that keep what follows."""
  path = _line(line[:high], size)
  before, after = path[low], path[high]
  num, held = 0, line[low:high]
  for order, position in _orders(before, sorted(held), size):
    if position == after:
      num += 1
      if below(mixed, num, num) == 0:
        held = order
  return held


def _orders(
  position: Position, left: list[int], size: int
) -> Iterator[tuple[list[int], Position]]:
  """Legal orders of the tokens, ascending, and where they lead."""
  if not left:
    yield [], position
  squares = int(rules.mask(size))
  for token in left:
    square = int(rules.squares(size)[token - 1])
    if legal_squares(position, squares) >> square & 1:
      rest = [other for other in left if other != token]
      for order, reached in _orders(
        moved(position, square, squares), rest, size
      ):
        yield [token, *order], reached
