"""Chess states as the 75 labels of the benchmark (Walker and Lyons 2026).

   0..63  squares a8, b8, .. h8, a7, .. h1: 0 empty, 1..6 PNBRQK, 7..12 pnbrqk
      64  side to move              69, 70  en-passant file and rank, 0 none
  65..68  rights K, Q, k, q         71..74  halfmove clock, fullmove number,
                                            a high byte and a low one each

Section 2.1. Below, functions take packed moves [N, L] and numbers of moves
[N].
"""

from __future__ import annotations

import abc
import functools

import numpy as np

from wm import core
from wm.kernels import chess as kernels
from wm.worlds.chess import fen
from wm.worlds.chess import moves as moves_of

HEADS = (13,) * 64 + (2,) * 5 + (9, 3) + (256,) * 4
GROUPS = {
  'board': slice(0, 64),
  'rules': slice(0, 71),
  'counters': slice(71, 75),
}
SIDE, RIGHTS, CLOCK, NUMBER = 64, slice(65, 69), slice(71, 73), slice(73, 75)
_PAWNS, _KINGS = (1, 7), (6, 12)
# Worth of each label of a square, in pawns.
VALUES = np.array([0, 1, 3, 3, 5, 9, 0, -1, -3, -3, -5, -9, 0])
# Label of each square, a1 = 0.
SQUARE = (np.arange(64) ^ 56).astype(np.int64)


class ChessLabels(core.Labelled):
  """The part of chess that gives labels.

  Attributes:
    vocabulary: kind of tokens, one of `moves.KINDS`.
    ep: convention of the en-passant labels.
    start: FEN that games start from, '' for the standard position.
  """

  vocabulary: str
  ep: str
  start: str

  @functools.cached_property
  def origin(self) -> np.ndarray:
    """[11] int32 position that games start from."""
    if not self.start:
      return kernels.start()
    origin = fen.parse(self.start)
    origin[10] = 0  # Moves known before it: all there were.
    return origin

  @functools.cached_property
  def header(self) -> tuple[int, ...]:
    """The start token."""
    return (moves_of.start(self.vocabulary),)

  @functools.cached_property
  def packed(self) -> np.ndarray:
    """[V] int32 packed id of each token, DEAD for padding and start."""
    return moves_of.packed(self.vocabulary)

  @property
  def heads(self) -> core.Heads:
    """The benchmark's 75, see above; a probe reads the squares, by colour."""
    board = GROUPS['board']
    return core.Heads(HEADS, GROUPS, probe=board, turn=SIDE, mine=False)

  def labels(self, states: np.ndarray) -> np.ndarray:
    """[B, 75] uint8, `ep` as set; 0 if dead and before the start token."""
    return kernels.labels(states, self.ep)

  def functions(self, states: np.ndarray) -> dict[str, np.ndarray]:
    """Who has more material, and whether the side to move is in check.

    'material': 0 black, 1 nobody, 2 white, at 9, 5, 3, 3 and 1 a piece.
    """
    men = self.labels(states)[:, GROUPS['board']]
    ahead = np.sign(VALUES[men].sum(1))
    return {
      'material': ahead.astype(np.int64) + 1,
      'check': kernels.in_check(states).astype(np.int64),
    }

  @abc.abstractmethod
  def rows(self, positions: np.ndarray) -> np.ndarray:
    """[B, W] states of positions [B, 11], their history unknown."""

  @abc.abstractmethod
  def boards(self, states: np.ndarray) -> np.ndarray:
    """[B] bool: neither dead nor before the start token."""

  def edited(
    self, states: np.ndarray, label: np.ndarray, value: np.ndarray
  ) -> np.ndarray:
    """See core.Labelled.edited: pieces are put on squares and taken from them.

    See `edits.edited`; other labels do not change. A square that a right to
    castle needs, or an en-passant square, stays as it is.
    """
    after = np.full_like(states, core.DEAD)
    on = np.flatnonzero(self.boards(states))
    arguments = states[on, : fen.WORDS], label[on], value[on], self.ep
    positions, possible = edited_positions(*arguments)
    after[on[possible]] = self.rows(positions[possible])
    return after

  def _moves(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Packed moves [N, L - 1] (DEAD past the last), lengths, valid starts."""
    used = np.arange(1, tokens.shape[1]) < np.asarray(lengths)[:, None]
    inside = (tokens >= 0) & (tokens < len(self.packed))
    padded = np.where(inside, tokens, core.PAD)[:, 1:]
    moves = np.where(used, self.packed[padded], core.DEAD)
    starts = (tokens[:, 0] == self.header[0]) & (np.asarray(lengths) > 0)
    return moves, np.maximum(np.asarray(lengths) - 1, 0), starts

  def sequence_labels(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> np.ndarray:
    """[N, L, 75] uint8, compiled."""
    moves = self._moves(tokens, lengths)
    return after_tokens(*moves, self.ep, self.origin)

  def surface_labels(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> np.ndarray:
    """[N, L, 75] uint8, compiled: pieces change squares, no more."""
    return from_to(*self._moves(tokens, lengths), self.origin)

  def move_tags(self, sequences: core.Sequences) -> dict[str, np.ndarray]:
    """Masks [N, L] bool of the special moves, by the labels around them.

    'castling'; 'en_passant', the capture; 'promotion'; 'lost_rights', a
    capture that takes the other side's right to castle.
    """
    moves, lengths, starts = self._moves(sequences.tokens, sequences.lengths)
    labels = after_tokens(moves, lengths, starts, self.ep, self.origin)
    source, target = (moves // 5) >> 6, (moves // 5) & 63
    before, after = labels[:, :-1], labels[:, 1:]
    legal = (moves >= 0) & after.any(-1)  # Not after an illegal move.
    man, taken = (_at(before, square) for square in (source, target))
    across = (source ^ target) & 7 != 0
    black = before[..., SIDE] == 1
    gone = before[..., RIGHTS] > after[..., RIGHTS]
    masks = {
      'castling': np.isin(man, _KINGS) & (abs(source - target) == 2),
      'en_passant': np.isin(man, _PAWNS) & across & (taken == 0),
      'promotion': moves % 5 > 0,
      'lost_rights': np.where(
        black, gone[..., :2].any(-1), gone[..., 2:].any(-1)
      ),
    }
    start = ((0, 0), (1, 0))  # The start token is no move.
    return {name: np.pad(mask & legal, start) for name, mask in masks.items()}


def check_start(origin: np.ndarray, start: str, stop: str) -> None:
  """Raises InputError where the game has ended at `start`, by rules `stop`.

  origin: [11] position of the FEN `start`.
  """
  none = np.zeros((1, 1), np.int32)
  if kernels.outcomes(none, none[0], stop, origin[None])[0, 0]:
    raise core.InputError(
      f'chess: start={start!r} is a game that has ended, by stop={stop!r}'
    )


def after_tokens(
  moves: np.ndarray,
  lengths: np.ndarray,
  starts: np.ndarray,
  ep: str,
  origin: np.ndarray,
) -> np.ndarray:
  """[N, L + 1, 75] uint8 labels after the start token and after each move.

  lengths: [N] moves; starts: [N] bool, False where a sequence has no (right)
  start token, and no labels; origin: [11], position that games start from.
  """
  plies = np.where(starts, lengths, 0)
  labels = kernels.replay_labels(moves, plies, ep, origin)
  labels[~starts] = 0
  return labels


def _at(labels: np.ndarray, square: np.ndarray) -> np.ndarray:
  """[N, L] contents of a square [N, L] in labels [N, L, 75]."""
  place = SQUARE[np.where(square < 0, 0, square)]
  return np.take_along_axis(labels, place[..., None], -1)[..., 0]


def from_to(
  moves: np.ndarray,
  lengths: np.ndarray,
  starts: np.ndarray,
  origin: np.ndarray,
) -> np.ndarray:
  """[N, L + 1, 75] uint8 labels of a reader who knows no special move.

  A piece goes from its square to the other and takes what stands there. The
  side changes, moves are counted, and pawn moves and captures reset the clock.
  Castling moves no rook, en passant takes no pawn, nothing is promoted, and
  rights and en-passant squares never change. Arguments as for `after_tokens`.
  """
  num, plies = moves.shape
  labels = np.zeros((num, plies + 1, len(HEADS)), np.uint8)
  start = kernels.labels(origin[None])[0]
  black = int(start[SIDE])
  clock, number = (start[part] @ [256, 1] for part in (CLOCK, NUMBER))
  labels[starts, 0] = start
  rows = np.flatnonzero(starts)
  now = np.tile(start, (num, 1))
  clock = np.full(num, clock)
  for ply in range(plies):
    rows = rows[(ply < lengths[rows]) & (moves[rows, ply] >= 0)]
    pair = moves[rows, ply] // 5
    source, target = SQUARE[pair >> 6], SQUARE[pair & 63]
    man, taken = now[rows, source], now[rows, target]
    now[rows, source] = 0
    now[rows, target] = man
    now[rows, SIDE] = (black + ply + 1) % 2
    reset = np.isin(man, _PAWNS) | (taken > 0)
    clock[rows] = np.where(reset, 0, clock[rows] + 1)
    now[rows, CLOCK] = _bytes(clock[rows])
    now[rows, NUMBER] = _bytes(
      np.full(len(rows), number + (black + ply + 1) // 2)
    )
    labels[rows, ply + 1] = now[rows]
  return labels


def _bytes(count: np.ndarray) -> np.ndarray:
  """[B, 2] uint8: high byte and low byte of counts [B]."""
  count = np.minimum(count, 2**16 - 1)
  return np.stack([count >> 8, count & 255], axis=-1).astype(np.uint8)


PAWNS = 8  # Of a side, promoted or not.
# Squares of one colour, as labels go.
LIGHT = (np.arange(64) // 8 + np.arange(64) % 8) % 2 == 0
FLAGS = 8  # Word of side, rights and en-passant file.
# Squares of king and rook for the rights K, Q, k and q, bits 1..4 of FLAGS.
HOMES = ((4, 7), (4, 0), (60, 63), (60, 56))


def edited_positions(
  positions: np.ndarray, label: np.ndarray, value: np.ndarray, ep: str
) -> tuple[np.ndarray, np.ndarray]:
  """Positions [B, 11] with pieces 0..12 put on squares.

  Args:
    positions: rows of the chess kernels, each with a board.
    label: [B] label of a square, 0 is a8; others are left as they are.
    value: [B] the piece, 0 is none.
    ep: convention of the en-passant labels, which stay as they are.

  Returns:
    positions: [B, 11] int32.
    known: [B] bool: a king a side, the one that is not to move out of check; no
      pawn on the first or last rank, no more pieces than pawns are gone for;
      castling and en passant stay possible.
  """
  possible = (label < 64) & (value >= 0) & (value <= 12)
  square = np.where(possible, label, 0) ^ 56  # a1 is 0.
  piece = np.where(possible, value, 0).astype(np.uint32)
  rows, word = np.arange(len(label)), square // 8
  shift = (4 * (square % 8)).astype(np.uint32)
  after = np.array(positions, np.int32)
  held = after[rows, word].view(np.uint32) & ~(np.uint32(15) << shift)
  after[rows, word] = (held | piece << shift).view(np.int32)
  labels = kernels.labels(after, ep)
  expected = kernels.labels(positions, ep)
  expected[rows[possible], label[possible]] = value[possible]
  possible &= (labels == expected).all(-1)
  board, flags = labels[:, :64], after[:, FLAGS]
  for first in (1, 7):  # Pawn, ..., king of a side.
    pawns, knights, bishops, rooks, queens, kings = (
      board == first + kind for kind in range(6)
    )
    promoted = sum(
      np.maximum(men.sum(-1) - least, 0)
      for men, least in (
        (knights, 2),
        (bishops & LIGHT, 1),
        (bishops & ~LIGHT, 1),
        (rooks, 2),
        (queens, 1),
      )
    )
    possible &= pawns.sum(-1) + promoted <= PAWNS
    possible &= ~(pawns[:, :8] | pawns[:, 56:]).any(-1)
    possible &= kings.sum(-1) == 1
  for right, (king, rook) in enumerate(HOMES):
    touched = (square == king) | (square == rook)
    possible &= ~(touched & (flags >> (right + 1) & 1 > 0))
  # The pawn of a double push, and the two squares that it came over.
  push = np.where(flags & 1, square // 8 - 1, square // 8 - 4)
  possible &= ~((flags >> 5 == square % 8 + 1) & (push >= 0) & (push < 3))
  other = after.copy()
  other[:, FLAGS] ^= 1
  return after, possible & ~kernels.in_check(other)
