"""Chess kernels, against python-chess and rust-chess in the same process.

Everything runs on one core and is compared by CPU seconds. The peers are
driven from Python, which is part of what their figures say: it is how a
data pipeline would use them.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
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
  try:
    import chess as peer
  except ImportError as error:
    raise harness.Skip(str(error)) from error
  return peer, f'python-chess {peer.__version__}, same run'


def rust_chess() -> tuple[Any, str]:
  """The package, and what to call it."""
  import importlib.metadata

  try:
    import rust_chess as peer
  except ImportError as error:
    raise harness.Skip(str(error)) from error
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


def rate(plies: Callable[[], int], runs: int = 3) -> tuple[float, float]:
  """Things a CPU-second of a call that says how many it did; compile time."""
  seen: list[int] = []
  timing = harness.measure(lambda: seen.append(plies()), runs)
  return seen[-1] / timing.cpu, timing.compile_s


def played(**kwargs: Any) -> int:
  """Plies of random games of ours, played a batch at a time."""
  return sum(
    int(chess.play(500, 3, first, most=768, **kwargs)[1].sum())
    for first in range(0, 2_000, 500)
  )


def bench_chess_play() -> Iterator[harness.Line]:
  """Random games: moves and the arbiter's rules; then claims; then labels."""
  for name, kwargs, few, target in (
    ('no claims', {'stop': 'automatic'}, (6, False, False), '1000000 plies/s'),
    ('claims', {}, (2, True, False), '500000 plies/s'),
    ('claims and labels', {'labels': 'raw'}, (2, True, True), '500000 plies/s'),
  ):
    mine, compiled = rate(lambda kwargs=kwargs: played(**kwargs))
    other, _ = rate(lambda few=few: python_games(*few))
    yield harness.Line(
      name=f'chess random games, {name}',
      value=mine,
      unit='plies/CPU-s',
      baseline=python_chess()[1],
      ratio=mine / other,
      compile_s=compiled,
      target=target,
    )


def bench_chess_policies() -> Iterator[harness.Line]:
  """Random games that prefer some moves, with claims, against uniform ones."""
  uniform, _ = rate(played)
  for policy in chess.POLICIES[1:]:
    mine, compiled = rate(lambda policy=policy: played(policy=policy))
    yield harness.Line(
      name=f'chess random games, {policy}',
      value=mine,
      unit='plies/CPU-s',
      baseline='uniform policy, same run',
      ratio=mine / uniform,
      compile_s=compiled,
      target='500000 plies/s',
    )


def bench_chess_play_rust() -> Iterator[harness.Line]:
  """Random games without claims, against the fastest peer."""
  other, _ = rate(lambda: rust_games(60))
  mine, compiled = rate(lambda: played(stop='automatic'))
  yield harness.Line(
    name='chess random games, no claims',
    value=mine,
    unit='plies/CPU-s',
    baseline=rust_chess()[1],
    ratio=mine / other,
    compile_s=compiled,
    target='1000000 plies/s, ratio > 1',
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
    mine, compiled = rate(
      lambda row=row, depth=depth: chess.count(row, depth)[-1]
    )
    other, _ = rate(lambda fen=fen: count(module.Board(fen), few), 2)
    yield harness.Line(
      name=f'chess perft {name} {depth}',
      value=mine,
      unit='nodes/CPU-s',
      baseline=baseline,
      ratio=mine / other,
      compile_s=compiled,
      target='20000000 nodes/s',
    )


def bench_chess_perft() -> Iterator[harness.Line]:
  """Lines of play counted, against python-chess."""
  yield from perft_lines(python_chess(), 3, python_perft)


def bench_chess_perft_rust() -> Iterator[harness.Line]:
  """Lines of play counted, against the fastest peer."""
  yield from perft_lines(rust_chess(), 4, rust_perft)


def called(kernels: ModuleType, name: str, args: Sequence[np.ndarray]) -> int:
  """Rows that a function of either form was given."""
  getattr(kernels, name)(*args)
  return len(args[0])


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
    mine, compiled = rate(functools.partial(called, chess, function, args))
    few = [array[:40] for array in args]
    plain, _ = rate(functools.partial(called, ref, function, few), 1)
    yield harness.Line(
      name=f'chess rows, {name}',
      value=mine,
      unit='rows/CPU-s',
      baseline='plain reference, same run',
      ratio=mine / plain,
      compile_s=compiled,
    )
