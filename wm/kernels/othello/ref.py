"""Othello in plain Python: the specification of `wm.kernels.othello`.

Rays are walked square by square. A position is (black, white, side) as plain
integers; `squares` is a word of the squares that moves may be made on, the
four of the centre left out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wm.kernels.dfa.ref import below, splitmix

Position = tuple[int, int, int]

_RAYS = tuple(
  (down, right) for down in (-1, 0, 1) for right in (-1, 0, 1) if down or right
)
_START = (1 << 28 | 1 << 35, 1 << 27 | 1 << 36, 0)
_NOISE = 64


def _set(word: int) -> list[int]:
  """Bits set, ascending."""
  return [square for square in range(64) if word >> square & 1]


def _turned(own: int, opp: int, square: int) -> int:
  """Discs of `opp` that a disc of `own` on the square encloses."""
  turned = 0
  for down, right in _RAYS:
    row, column = square // 8 + down, square % 8 + right
    line = 0
    while 0 <= row < 8 and 0 <= column < 8:
      here = 1 << (8 * row + column)
      if not opp & here:
        turned |= line if own & here else 0
        break
      line |= here
      row, column = row + down, column + right
  return turned


def _moves(own: int, opp: int, squares: int) -> int:
  """Empty squares on which `own` turns a disc or more."""
  empty = squares & ~(own | opp)
  return sum(1 << s for s in _set(empty) if _turned(own, opp, s))


def _own(position: Position) -> tuple[int, int]:
  """Discs of the mover (black where nobody moves) and of the other."""
  black, white, side = position
  return (white, black) if side == 1 else (black, white)


def _legal(position: Position, squares: int) -> int:
  if position[2] not in (0, 1):
    return 0
  return _moves(*_own(position), squares)


def _after(position: Position, square: int, squares: int) -> Position:
  """The position after a legal move; the turn passes where it must."""
  own, opp = _own(position)
  turned = _turned(own, opp, square)
  own, opp = own | turned | 1 << square, opp & ~turned
  black, white = (own, opp) if position[2] == 0 else (opp, own)
  for side in (1 - position[2], position[2]):
    if _legal((black, white, side), squares):
      return black, white, side
  return black, white, 2


def _unpacked(*columns: np.ndarray) -> Iterator[tuple[int, ...]]:
  """Rows of columns as plain integers."""
  return zip(*(column.tolist() for column in columns), strict=True)


def _packed(positions: list[Position]) -> tuple[np.ndarray, ...]:
  """Columns black, white, side of positions."""
  columns = list(zip(*positions, strict=True)) or [(), (), ()]
  kinds = (np.uint64, np.uint64, np.int8)
  return tuple(np.array(c, k) for c, k in zip(columns, kinds, strict=True))


def legal(
  black: np.ndarray, white: np.ndarray, side: np.ndarray, squares: int
) -> np.ndarray:
  """Legal squares of each position."""
  rows = _unpacked(black, white, side)
  return np.array([_legal(row, int(squares)) for row in rows], np.uint64)


def advance(
  black: np.ndarray,
  white: np.ndarray,
  side: np.ndarray,
  bits: np.ndarray,
  squares: int,
) -> tuple[np.ndarray, ...]:
  """Positions after one move each; unchanged where it is illegal."""
  after, ok = [], []
  for *position, square in _unpacked(black, white, side, bits):
    fine = 0 <= square < 64
    fine = fine and bool(_legal(tuple(position), int(squares)) >> square & 1)
    ok.append(fine)
    after.append(
      _after(tuple(position), square, int(squares)) if fine else position
    )
  return (*_packed(after), np.array(ok, bool))


def _line(tokens: list[int], bits: np.ndarray, squares: int) -> list[Position]:
  """The start, and where each token leads before the first illegal one."""
  line = [_START]
  for token in tokens:
    square = int(bits[token - 1]) if 1 <= token <= len(bits) else 64
    if not _legal(line[-1], squares) >> square & 1:
      break
    line.append(_after(line[-1], square, squares))
  return line


def replay(
  tokens: np.ndarray, lengths: np.ndarray, bits: np.ndarray, squares: int
) -> tuple[np.ndarray, ...]:
  """Plays rows of tokens from the start, up to the first illegal one."""
  rows = zip(tokens.tolist(), lengths.tolist(), strict=True)
  found = [_line(row[:length], bits, int(squares)) for row, length in rows]
  steps = np.array([len(line) - 1 for line in found], np.int32)
  return (steps, *_packed([line[-1] for line in found]))


def replay_labels(
  tokens: np.ndarray,
  lengths: np.ndarray,
  bits: np.ndarray,
  squares: int,
  size: int,
) -> np.ndarray:
  """Labels after each token of rows; 0 from the first illegal one on."""
  labels = np.zeros((*tokens.shape, size * size + 1), np.uint8)
  inside = range(4 - size // 2, 4 + size // 2)
  cells = [8 * row + column for row in inside for column in inside]
  for n, (row, length) in enumerate(zip(tokens.tolist(), lengths, strict=True)):
    for k, position in enumerate(_line(row[:length], bits, int(squares))[1:]):
      black, white, side = position
      labels[n, k, -1] = side
      for place, cell in enumerate(cells):
        labels[n, k, place] = (black >> cell & 1) + 2 * (white >> cell & 1)
  return labels


def play_uniform(
  num: int,
  seed: int,
  first: int,
  token_of: np.ndarray,
  length: int,
  squares: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Games whose every move is uniform over the legal ones."""
  shape = 0, [], 0
  return play(num, seed, first, token_of, length, squares, 0, 1 << 32, 0, shape)


def play(
  num: int,
  seed: int,
  first: int,
  token_of: np.ndarray,
  length: int,
  squares: int,
  policy: int,
  noise: int,
  depth: int,
  shape: tuple,
) -> tuple[np.ndarray, np.ndarray]:
  """Games by policy 1 greedy, 2 mobility, 3 search."""
  tokens = np.zeros((num, length), np.int32)
  lengths = np.zeros(num, np.int32)
  squares = int(squares)
  for n in range(num):
    mixed = splitmix(int(seed)) ^ (int(first) + n)
    position = _START
    while moves := _set(_legal(position, squares)):
      ply = int(lengths[n])
      if below(mixed, _NOISE + ply, 1 << 32) >= noise:
        moves = _favoured(position, moves, squares, policy, depth, shape)
      square = moves[below(mixed, ply, len(moves))]
      tokens[n, ply] = token_of[square]
      lengths[n] += 1
      position = _after(position, square, squares)
  return tokens, lengths


def _favoured(
  position: Position,
  moves: list[int],
  squares: int,
  policy: int,
  depth: int,
  shape: tuple,
) -> list[int]:
  """The moves among which the policy draws."""
  own, opp = _own(position)
  worth = []
  for square in moves:
    turned = _turned(own, opp, square)
    after = _after(position, square, squares)
    if policy == 1:
      worth.append(turned.bit_count())
    elif policy == 2:
      left = _moves(opp & ~turned, own | turned | 1 << square, squares)
      worth.append(-left.bit_count())
    else:
      sign = 1 if position[2] == 0 else -1
      worth.append(sign * _minimax(after, squares, depth - 1, shape))
  best = [m for m, w in zip(moves, worth, strict=True) if w == max(worth)]
  return best[:1] if policy == 3 else best


def _minimax(position: Position, squares: int, depth: int, shape: tuple) -> int:
  """Worth to black after `depth` more plies of best play."""
  if depth == 0 or position[2] == 2:
    return _judged(position, squares, shape)
  found = [
    _minimax(_after(position, square, squares), squares, depth - 1, shape)
    for square in _set(_legal(position, squares))
  ]
  return max(found) if position[2] == 0 else min(found)


def _judged(position: Position, squares: int, shape: tuple) -> int:
  """Worth to black, by what `othello.play` lists."""
  black, white, side = position
  corners, beside, late = int(shape[0]), shape[1], shape[2]
  discs = black.bit_count() - white.bit_count()
  if side == 2:
    return 1000 * discs
  worth = discs if (black | white).bit_count() >= late else -discs
  for own, opp, sign in ((black, white, 1), (white, black, -1)):
    worth += sign * 32 * (own & corners).bit_count()
    worth += sign * 4 * _moves(own, opp, squares).bit_count()
    for corner, risky in beside:
      free = not (own | opp) >> int(corner) & 1
      worth -= sign * 12 * (free and own >> int(risky) & 1)
  return worth


def count(
  black: int, white: int, side: int, depth: int, squares: int
) -> list[int]:
  """Legal sequences of lengths 1..depth, level by level."""
  counts, level = [], [(int(black), int(white), int(side))]
  for _ in range(depth):
    level = [
      _after(position, square, int(squares))
      for position in level
      for square in _set(_legal(position, int(squares)))
    ]
    counts.append(len(level))
  return counts


def boundary(
  black: np.ndarray,
  white: np.ndarray,
  side: np.ndarray,
  depth: int,
  squares: int,
  token_of: np.ndarray,
  listing: bool,
  through: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Elements in order of tokens, their lengths, counts by length [2, depth]."""
  del listing, through
  found: list[tuple[int, ...]] = []
  counts = np.zeros((2, depth), np.int64)

  def search(one: Position, two: Position, path: tuple[int, ...]) -> None:
    """Appends what `one` alone may play after `path`."""
    moves = _legal(one, int(squares)), _legal(two, int(squares))
    for square in _set(moves[0]):
      longer = (*path, int(token_of[square]))
      both = moves[1] >> square & 1
      counts[both, len(path)] += 1
      if not both:
        found.append(longer)
      elif len(longer) < depth:
        nexts = (_after(p, square, int(squares)) for p in (one, two))
        search(*nexts, longer)

  search(*_unpacked(black, white, side), ())
  found.sort()
  lengths = np.array([len(path) for path in found], np.int64)
  rows = np.zeros((len(found), depth), np.uint8)
  for n, path in enumerate(found):
    rows[n, : len(path)] = path
  return rows, lengths, counts


def orders(
  tokens: np.ndarray,
  lengths: np.ndarray,
  seeds: np.ndarray,
  bits: np.ndarray,
  token_of: np.ndarray,
  squares: int,
  sweeps: int,
  window: int,
  opening: int,
) -> np.ndarray:
  """A Gibbs chain over the orders of each row's moves."""
  del token_of
  out = np.zeros(tokens.shape, np.int32)
  rows = _unpacked(lengths, seeds)
  for n, (length, seed) in enumerate(rows):
    line = tokens[n, :length].tolist()
    starts = 1 if length <= opening else max(length - window + 1, 1)
    draws = min(sweeps, 1) if starts == 1 else sweeps * starts
    for draw in range(draws if length > 1 else 0):
      mixed = splitmix(seed) ^ draw
      low = below(mixed, 0, starts)
      high = low + min(opening if low == 0 else window, length)
      line[low:high] = _reordered(line, low, high, mixed, bits, int(squares))
    out[n, :length] = line
  return out


def _reordered(
  line: list[int],
  low: int,
  high: int,
  mixed: int,
  bits: np.ndarray,
  squares: int,
) -> list[int]:
  """The window's tokens in one of the orders that keep what follows."""
  path = _line(line[:high], bits, squares)
  before, after = path[low], path[high]
  num, held = 0, line[low:high]
  for order, position in _orders(before, sorted(held), bits, squares):
    if position == after:
      num += 1
      if below(mixed, num, num) == 0:
        held = order
  return held


def _orders(
  position: Position, left: list[int], bits: np.ndarray, squares: int
) -> Iterator[tuple[list[int], Position]]:
  """Legal orders of the tokens, ascending, and where they lead."""
  if not left:
    yield [], position
  for token in left:
    square = int(bits[token - 1])
    if _legal(position, squares) >> square & 1:
      rest = [other for other in left if other != token]
      after = _after(position, square, squares)
      for order, reached in _orders(after, rest, bits, squares):
        yield [token, *order], reached
