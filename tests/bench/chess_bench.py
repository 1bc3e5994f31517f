"""Chess kernels, against python-chess and rust-chess in the same process.

Everything runs on one core and is compared by CPU seconds. The peers are
driven from Python, which is part of what their figures say: it is how a
data pipeline would use them.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.bench import harness
from tests.kernels.chess import ref
from wm.kernels import chess

KIWIPETE = (
  'r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1'
)


def python_chess() -> tuple[Any, str]:
  """The package, and what to call it."""
  import chess as peer

  return peer, f'python-chess {peer.__version__}, same run'


def rust_chess() -> tuple[Any, str]:
  """The package, and what to call it."""
  import importlib.metadata

  import rust_chess as peer

  version = importlib.metadata.version('rust-chess')
  return peer, f'rust-chess {version}, same run'


def python_games(num: int, claims: bool, labelled: bool) -> int:
  """Plies of random games by python-chess."""
  peer, _ = python_chess()
  rng, plies = random.Random(0), 0
  for _ in range(num):
    board = peer.Board()
    while board.outcome(claim_draw=claims) is None:
      if labelled:
        python_labels(board)
      board.push(rng.choice(list(board.legal_moves)))
      plies += 1
  return plies


def python_labels(board: Any) -> np.ndarray:
  """[75] state labels, raw en passant."""
  result = np.zeros(chess.layout.LABELS, np.uint8)
  for square, piece in board.piece_map().items():
    result[square ^ 56] = piece.piece_type + 6 * (not piece.color)
  rights, passed = board.castling_rights, board.ep_square
  result[64:69] = [not board.turn, *(rights >> s & 1 for s in (7, 0, 63, 56))]
  if passed is not None:
    result[69:71] = passed % 8 + 1, 1 if passed < 32 else 2
  result[71:73] = divmod(board.halfmove_clock, 256)
  result[73:75] = divmod(board.fullmove_number, 256)
  return result


def rust_games(num: int) -> int:
  """Plies of random games by rust-chess, ended as an arbiter would."""
  peer, _ = rust_chess()
  rng, plies, going = random.Random(0), 0, peer.BoardStatus.ONGOING
  for _ in range(num):
    board = peer.Board()
    while board.get_status() == going:
      moves = list(board.generate_legal_moves())
      board.make_move(rng.choice(moves), False)
      plies += 1
  return plies


def rate(plies: Callable[[], int]) -> tuple[float, float]:
  """Things a CPU-second of a call that says how many it did; compile time."""
  seen: list[int] = []
  timing = harness.measure(lambda: seen.append(plies()), 3)
  return seen[-1] / timing.cpu, timing.compile_s


def beside(
  name: str,
  unit: str,
  ours: Callable[[], int],
  theirs: Callable[[], int],
  baseline: str,
  target: str = '',
) -> harness.Line:
  """Our rate beside that of a peer."""
  mine, compiled = rate(ours)
  ratio = mine / rate(theirs)[0]
  unit = f'{unit}/CPU-s'
  return harness.Line(name, mine, unit, baseline, ratio, compiled, target)


def played(labelled: bool = False, **kwargs: Any) -> int:
  """Plies of random games of ours, played a batch at a time."""
  plies = 0
  for first in range(0, 2_000, 500):
    moves, lengths, _ = chess.play(500, 3, first, most=768, **kwargs)
    if labelled:
      chess.replay_labels(moves, lengths)
    plies += int(lengths.sum())
  return plies


def bench_chess_play() -> Iterator[harness.Line]:
  """Random games: moves and the arbiter's rules; then claims; then labels."""
  for name, kwargs, few, target in (
    ('no claims', {'stop': 'automatic'}, (6, False, False), '1000000 plies/s'),
    ('claims', {}, (2, True, False), '500000 plies/s'),
    (
      'claims and labels',
      {'labelled': True},
      (2, True, True),
      '500000 plies/s',
    ),
  ):
    yield beside(
      f'chess random games, {name}',
      'plies',
      functools.partial(played, **kwargs),
      functools.partial(python_games, *few),
      *(python_chess()[1], target),
    )


def bench_chess_policies() -> Iterator[harness.Line]:
  """Random games that prefer some moves, with claims, against uniform ones."""
  for policy in list(chess.POLICIES)[1:]:
    yield beside(
      f'chess random games, {policy}',
      'plies',
      functools.partial(played, policy=policy),
      *(played, 'uniform policy, same run', '500000 plies/s'),
    )


def bench_chess_play_rust() -> Iterator[harness.Line]:
  """Random games without claims, against the fastest peer."""
  yield beside(
    'chess random games, no claims',
    'plies',
    functools.partial(played, stop='automatic'),
    functools.partial(rust_games, 60),
    *(rust_chess()[1], '1000000 plies/s, ratio > 1'),
  )


def python_perft(board: Any, depth: int) -> int:
  """Their lines, the last ply counted and not made."""
  if depth == 1:
    return board.legal_moves.count()
  total = 0
  for move in board.legal_moves:
    board.push(move)
    total += python_perft(board, depth - 1)
    board.pop()
  return total


def rust_perft(board: Any, depth: int) -> int:
  """Their lines, the last ply counted and not made."""
  moves = board.generate_legal_moves()
  if depth == 1:
    return len(moves)
  return sum(
    rust_perft(board.make_move_new(move, False), depth - 1)
    for move in list(moves)
  )


def perft_lines(
  peer: tuple[Any, str], few: int, count: Callable[[Any, int], int]
) -> Iterator[harness.Line]:
  """Ours from the start and a crowded position, theirs to depth `few`."""
  from wm.worlds.chess import notation as chess_notation

  module, baseline = peer
  for name, fen, depth in (
    ('start', chess_notation.START_FEN, 5),
    ('kiwipete', KIWIPETE, 4),
  ):
    row = chess_notation.parse_fen(fen)
    yield beside(
      f'chess perft {name} {depth}',
      'nodes',
      lambda row=row, depth=depth: chess.count(row, depth)[-1],
      lambda fen=fen: count(module.Board(fen), few),
      *(baseline, '20000000 nodes/s'),
    )


def bench_chess_perft() -> Iterator[harness.Line]:
  """Lines of play counted, against python-chess."""
  yield from perft_lines(python_chess(), 3, python_perft)


def bench_chess_perft_rust() -> Iterator[harness.Line]:
  """Lines of play counted, against the fastest peer."""
  yield from perft_lines(rust_chess(), 4, rust_perft)


def bench_chess_rows() -> Iterator[harness.Line]:
  """State rows of random games: legal moves, moves made, keys, labels."""
  moves, lengths, _ = chess.play(4_096, 1, most=768)
  plies = np.minimum(lengths, np.arange(len(lengths)) % 300)
  rows = chess.replay(moves, plies)[1]
  rows = rows[chess.legal(rows)[1] > 0]
  choices = chess.legal(rows)[0][:, 0]
  for name, function, args in (
    ('legal moves', 'legal', (rows,)),
    ('advance', 'advance', (rows, choices)),
    ('keys', 'keys', (rows,)),
    ('labels', 'labels', (rows,)),
  ):
    few = [array[:40] for array in args]
    yield harness.rated(
      f'chess rows, {name}',
      *('rows', len(rows), functools.partial(getattr(chess, function), *args)),
      *(40, functools.partial(getattr(ref, function), *few)),
    )
