"""Twins in plain Python of the compiled chess kernels, by chess_ref's rules.

Each fills the arrays that the kernel of its name fills.
"""

from __future__ import annotations

import numpy as np

from wm.kernels.chess import policy_ref as policy
from wm.kernels.chess import ref
from wm.kernels.dfa.ref import splitmix


def legal(rows: np.ndarray, moves: np.ndarray, counts: np.ndarray) -> None:
  """Fills moves [B, 256] and counts [B]."""
  for b, row in enumerate(rows):
    position = ref.read(row)
    found = ref.moves(position) if position else []
    moves[b, : len(found)] = found
    counts[b] = len(found)


def legal_mask(rows: np.ndarray, index: np.ndarray, mask: np.ndarray) -> None:
  """Sets mask [B, columns] at the columns of legal moves."""
  for b, row in enumerate(rows):
    position = ref.read(row)
    for move in ref.moves(position) if position else []:
      if 0 <= index[move] < mask.shape[1]:
        mask[b, index[move]] = True


def advance(
  rows: np.ndarray, moves: np.ndarray, after: np.ndarray, ok: np.ndarray
) -> None:
  """Fills after [B, 11] and ok [B]."""
  for b, row in enumerate(rows):
    position = ref.read(row)
    ok[b] = position is not None and int(moves[b]) in ref.moves(position)
    after[b] = -1
    if ok[b]:
      after[b] = ref.write(ref.after(position, int(moves[b])))


def describe(
  rows: np.ndarray,
  legal_ep: bool,
  keys: np.ndarray,
  checks: np.ndarray,
  labels: np.ndarray,
) -> None:
  """Fills those of keys [B], checks [B] and labels [B, 75] not empty."""
  for b, row in enumerate(rows):
    position = ref.read(row)
    if position is None:
      continue
    if len(keys):
      keys[b] = ref.key(position)
    if len(checks):
      checks[b] = ref.checked(position, position.side)
    if len(labels):
      labels[b] = ref.labels(position, legal_ep)


def attacked(
  rows: np.ndarray, squares: np.ndarray, sides: np.ndarray
) -> np.ndarray:
  """[B] bool."""
  found = np.zeros(len(rows), bool)
  for b, row in enumerate(rows):
    position = ref.read(row)
    if position:
      found[b] = ref.is_attacked(position.board, squares[b], sides[b])
  return found


def replay(
  moves: np.ndarray,
  lengths: np.ndarray,
  starts: np.ndarray,
  legal_ep: bool,
  stop: int,
  steps: np.ndarray,
  rows: np.ndarray,
  labels: np.ndarray,
  codes: np.ndarray,
) -> None:
  """Fills steps [N], rows [N, 11], and labels and codes unless empty."""
  for n, game in enumerate(moves):
    start = starts[n if len(starts) > 1 else 0]
    steps[n], rows[n] = 0, start[:11]
    position = ref.read(start)
    if position is None:
      continue
    history = [position]
    for move in game[: lengths[n]].tolist():
      if move not in ref.moves(history[-1]):
        break
      history.append(ref.after(history[-1], move))
    steps[n], rows[n] = len(history) - 1, ref.write(history[-1])
    for ply, position in enumerate(history):
      if len(labels):
        labels[n, ply] = ref.labels(position, legal_ep)
      if len(codes):
        codes[n, ply] = ref.outcome(history[: ply + 1], stop)


def play(
  start: np.ndarray,
  seeds: np.ndarray,
  legal_ep: bool,
  stop: int,
  weights: np.ndarray,
  moves: np.ndarray,
  lengths: np.ndarray,
  codes: np.ndarray,
  labels: np.ndarray,
) -> bool:
  """Fills moves [N, L], lengths [N], codes [N] and, unless empty, labels."""
  first = ref.read(start)
  if first is None:
    return False
  for n, seed in enumerate(seeds.tolist()):
    history = [first]
    codes[n] = ref.outcome(history, stop)
    while not codes[n] and len(history) <= moves.shape[1]:
      choices = ref.moves(history[-1])
      ply = len(history) - 1
      draw = splitmix(seed ^ ply) >> 32
      move = choices[draw * len(choices) >> 32]
      if len(weights):
        move = policy.draw(history[-1], choices, weights.tolist(), draw)
      moves[n, ply] = move
      history.append(ref.after(history[-1], move))
      codes[n] = ref.outcome(history, stop)
    lengths[n] = len(history) - 1
    if len(labels):
      labels[n, : len(history)] = [ref.labels(p, legal_ep) for p in history]
  return True


def perft(row: np.ndarray, depth: int) -> int:
  """Number of lines of `depth` moves."""
  position = ref.read(row)
  return _lines(position, depth) if position else 0


def _lines(position: ref.Position, depth: int) -> int:
  if depth == 0:
    return 1
  moves = ref.moves(position)
  return sum(_lines(ref.after(position, move), depth - 1) for move in moves)


def boundary(
  rows: np.ndarray, depth: int, listing: bool, through: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Moves [n, depth] int32, -1 behind the end, lengths [n], counts [2, depth].

  Counts are by length, of the boundary and of the interior.
  """
  del listing, through
  lines: list[tuple[int, ...]] = []
  counts = np.zeros((2, depth), np.int64)
  _parting(ref.read(rows[0]), ref.read(rows[1]), depth, (), lines, counts)
  moves = np.full((len(lines), depth), -1, np.int32)
  for k, line in enumerate(lines):
    moves[k, : len(line)] = line
  return moves, np.array([len(line) for line in lines], np.int64), counts


def _parting(
  first: ref.Position | None,
  second: ref.Position | None,
  depth: int,
  path: tuple[int, ...],
  lines: list[tuple[int, ...]],
  counts: np.ndarray,
) -> None:
  """Adds the boundary of a pair, each line behind `path`."""
  others = ref.moves(second) if second else []
  for move in ref.moves(first) if first else []:
    counts[int(move in others), len(path)] += 1
    if move not in others:
      lines.append((*path, move))
    elif depth > 1:
      pair = ref.after(first, move), ref.after(second, move)
      _parting(*pair, depth - 1, (*path, move), lines, counts)
