"""The functions of `wm.kernels.chess` in plain Python: their specification.

They take what those take, unchecked, and return the same. The rules are in
`rules_ref`; only move orders ask the compiled ones, to be done in time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.kernels.base import product_ref
from tests.kernels.base.product_ref import Suffix as Line
from tests.kernels.base.rng_ref import below, splitmix
from tests.kernels.chess import rules_ref
from wm import core
from wm.core import basics
from wm.kernels.chess import games, layout, positions


def legal(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Legal moves [B, 256] and their numbers [B]."""
  moves = np.full((len(rows), layout.MOST_MOVES), -1, np.int32)
  results = [_moves(rules_ref.read(row)) for row in rows]
  for b, listed in enumerate(results):
    moves[b, : len(listed)] = listed
  return moves, np.array([len(listed) for listed in results], np.int32)


def _moves(position: rules_ref.Position | None) -> list[int]:
  return rules_ref.moves(position) if position else []


def legal_mask(rows: np.ndarray, index: np.ndarray, columns: int) -> np.ndarray:
  """[B, columns] bool: legal moves by column."""
  mask = np.zeros((len(rows), columns), bool)
  for b, row in enumerate(rows):
    for move in _moves(rules_ref.read(row)):
      if 0 <= index[move] < columns:
        mask[b, index[move]] = True
  return mask


def advance(
  rows: np.ndarray, moves: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Rows after one move each, and whether it was legal."""
  after = np.full((len(rows), layout.WORDS), core.DEAD, np.int32)
  ok = np.zeros(len(rows), bool)
  for b, row in enumerate(rows):
    position, move = rules_ref.read(row), int(moves[b])
    if position and move in rules_ref.moves(position):
      ok[b], after[b] = True, rules_ref.write(rules_ref.after(position, move))
  return after, ok


def keys(rows: np.ndarray) -> np.ndarray:
  """Zobrist keys."""
  results = [rules_ref.read(row) for row in rows]
  words = [rules_ref.key(position) if position else 0 for position in results]
  return np.array(words, np.int64).view(np.uint64)


def in_check(rows: np.ndarray) -> np.ndarray:
  """Is the side to move in check?"""
  results = [rules_ref.read(row) for row in rows]
  return np.array(
    [p is not None and rules_ref.checked(p, p.side) for p in results]
  )


def labels(rows: np.ndarray, ep: str = 'raw') -> np.ndarray:
  """State labels [B, 75]."""
  result = np.zeros((len(rows), layout.LABELS), np.uint8)
  for b, row in enumerate(rows):
    position = rules_ref.read(row)
    if position:
      result[b] = rules_ref.labels(position, ep == 'legal')
  return result


def count(row: np.ndarray, depth: int) -> list[int]:
  """Numbers of lines of 1..depth moves, by listing."""
  position, counts = rules_ref.read(row), []
  level = [position] if position else []
  for _ in range(depth):
    level = [rules_ref.after(p, m) for p in level for m in rules_ref.moves(p)]
    counts.append(len(level))
  return counts


# Games.


def _game(moves: list[int], start: np.ndarray) -> list[rules_ref.Position]:
  """Positions of a game up to its first illegal move; none without board."""
  position = rules_ref.read(start)
  history = [position] if position else []
  for move in moves if history else ():
    if move not in rules_ref.moves(history[-1]):
      break
    history.append(rules_ref.after(history[-1], move))
  return history


def _games(
  moves: np.ndarray, lengths: np.ndarray, starts: np.ndarray | None
) -> list[list[rules_ref.Position]]:
  starts = layout.start_rows(starts, len(moves))
  return [
    _game(list(game[:length]), starts[n % len(starts)])
    for n, (game, length) in enumerate(zip(moves, lengths, strict=True))
  ]


def replay(
  moves: np.ndarray, lengths: np.ndarray, starts: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
  """Moves followed, and rows after them; games from rows with a board."""
  results = _games(moves, lengths, starts)
  steps = np.array([len(history) - 1 for history in results], np.int32)
  return steps, np.array([rules_ref.write(history[-1]) for history in results])


def replay_labels(
  moves: np.ndarray,
  lengths: np.ndarray,
  ep: str = 'raw',
  starts: np.ndarray | None = None,
) -> np.ndarray:
  """State labels after every move."""
  num, plies = np.shape(moves)
  result = np.zeros((num, plies + 1, layout.LABELS), np.uint8)
  for n, history in enumerate(_games(moves, lengths, starts)):
    for ply, position in enumerate(history):
      result[n, ply] = rules_ref.labels(position, ep == 'legal')
  return result


def outcomes(
  moves: np.ndarray,
  lengths: np.ndarray,
  stop: str = 'claims',
  starts: np.ndarray | None = None,
) -> np.ndarray:
  """Outcomes after every move."""
  num, plies = np.shape(moves)
  codes = np.full((num, plies + 1), -1, np.int8)
  level = layout.STOPS.index(stop)
  for n, history in enumerate(_games(moves, lengths, starts)):
    for ply in range(len(history)):
      codes[n, ply] = rules_ref.outcome(history[: ply + 1], level)
  return codes


def play(
  num: int,
  seed: int,
  first: int = 0,
  *,
  most: int = 1024,
  stop: str = 'claims',
  policy: str = 'uniform',
  labels: str | None = None,
  start_row: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
  """Random games; a move at ply t takes draw t of its game's stream."""
  (start,) = _game([], layout.start() if start_row is None else start_row)
  level, weights = layout.STOPS.index(stop), games.weights(policy).tolist()
  moves = np.full((num, most), -1, np.int32)
  lengths, codes = np.zeros(num, np.int32), np.zeros(num, np.int8)
  shown = np.zeros((num * bool(labels), most + 1, layout.LABELS), np.uint8)
  for n, key in enumerate(basics.hash64(seed, first + np.arange(num)).tolist()):
    history = [start]
    codes[n] = rules_ref.outcome(history, level)
    while not codes[n] and len(history) <= most:
      choices, ply = rules_ref.moves(history[-1]), len(history) - 1
      draw = splitmix(key ^ ply) >> 32
      move = choices[draw * len(choices) >> 32]
      if weights:
        move = rules_ref.draw(history[-1], choices, weights, draw)
      moves[n, ply] = move
      history.append(rules_ref.after(history[-1], move))
      codes[n] = rules_ref.outcome(history, level)
    lengths[n] = len(history) - 1
    for ply, position in enumerate(history if labels else ()):
      shown[n, ply] = rules_ref.labels(position, labels == 'legal')
  return (moves, lengths, codes) + ((shown,) if labels else ())


# Boundaries.


def _product(
  first: np.ndarray, second: np.ndarray, depth: int
) -> tuple[list[Line], list[Line]]:
  """Boundary and interior of a pair of rows."""
  pair = rules_ref.read(first), rules_ref.read(second)
  return product_ref.product(*pair, depth, _moves, rules_ref.after)


def boundary(
  first: np.ndarray, second: np.ndarray, depth: int
) -> tuple[np.ndarray, np.ndarray]:
  """Lines of the boundary, shorter ones first, and their lengths."""
  lines, _ = _product(first, second, depth)
  moves = np.full((len(lines), max(map(len, lines), default=0)), -1, np.int32)
  for k, line in enumerate(lines):
    moves[k, : len(line)] = line
  return moves, np.array([len(line) for line in lines], np.int32)


def boundary_sizes(
  first: np.ndarray, second: np.ndarray, depth: int, *, interior: bool = False
) -> list[int]:
  """Sizes of boundary or interior, by listing."""
  result = _product(first, second, depth)[int(interior)]
  return product_ref.sizes(result, depth)


# Move orders.


def transpositions(
  moves: np.ndarray,
  lengths: np.ndarray,
  seeds: np.ndarray,
  start: np.ndarray | None = None,
  sweeps: int = 4,
  window: int = 5,
  opening: int = 8,
) -> np.ndarray:
  """A Gibbs chain over the orders of each row's moves."""
  start = layout.start() if start is None else start
  out = np.full(moves.shape, -1, np.int32)
  for n, length in enumerate(lengths.tolist()):
    played = tuple(moves[n, :length].tolist())
    starts = max(length - window + 1, 1)
    steps = sweeps * starts if length > opening else min(sweeps, 1)
    seed = int(seeds[n])
    for step in range(steps):
      low = below(seed, step, starts) if length > opening else 0
      high = low + (window if low else min(opening, length))
      mixed = splitmix(seed) ^ splitmix(step)
      before = _after(start, played[:low])
      drawn = _drawn(before, played[low:high], mixed)
      played = played[:low] + drawn + played[high:]
    out[n, :length] = played
  return out


def _after(row: np.ndarray, moves: Line) -> np.ndarray:
  return games.replay(np.array([moves], int), np.array([len(moves)]), row)[1][0]


def _key(row: np.ndarray) -> int:
  return int(positions.keys(row[None])[0])


def _drawn(before: np.ndarray, moves: Line, seed: int) -> Line:
  """One of the orders that lead where `moves` does, uniformly."""
  goal = _key(_after(before, moves))
  kept, num = moves, 0
  for order, row in _orders(before, sorted(moves[::2]), sorted(moves[1::2])):
    if _key(row) == goal:
      num += 1
      if below(seed, num, num) == 0:
        kept = order
  return kept


def _orders(
  row: np.ndarray, own: list[int], other: list[int]
) -> Iterator[tuple[Line, np.ndarray]]:
  """Legal orders of both sides' moves, ascending, and where they lead."""
  if not own:
    yield (), row
    return
  for move in sorted(set(own)):
    after, ok = positions.advance(row[None], np.array([move]))
    if not ok[0]:
      continue
    left = list(own)
    left.remove(move)
    for rest, reached in _orders(after[0], other, left):
      yield (move, *rest), reached
