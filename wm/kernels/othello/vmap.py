"""Othello's rules in JAX, for programs that never leave the device.

The functions of one board, to be mapped over many; see `traced.Rules`. A board
is a `Word`, two uint32, and a game is held as in `rules`: me, opp, side
and the legal moves.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wm import core
from wm.kernels.base import words
from wm.kernels.base.words import Word

_INNER = words.constant(0x7E7E7E7E7E7E7E7E)
_NONE = words.constant(0)


class Game(NamedTuple):
  """A position; words hold arrays uint32.

  Attributes:
    me: discs of the side to move; of black once the game is over.
    opp: discs of the other.
    side: int32, 0 black moves, 1 white moves, 2 over, DEAD after an illegal
      move.
    moves: legal squares, none where the game is over or dead.
  """

  me: Word
  opp: Word
  side: jax.Array
  moves: Word


@functools.partial(
  jax.tree_util.register_dataclass,
  data_fields=('tokens', 'squares'),
  meta_fields=('board',),
)
@dataclasses.dataclass(frozen=True)
class Rules:
  """Rules of a board.

  Attributes:
    tokens: [n] int32, one for each square but the four of the start.
    squares: [n] int32 bit of each.
    board: mask of the squares of this size of board.
  """

  tokens: jax.Array
  squares: jax.Array
  board: int

  def legal(self, game: Game) -> jax.Array:
    """[n] bool."""
    return (game.moves & words.bit(self.squares)).some()

  def advance(self, game: Game, move: jax.Array) -> Game:
    """The game after a move; dead where the move, or its number, is illegal."""
    # DEAD names no bit: `placed` is empty, and the move therefore illegal.
    square = jnp.where(move < 0, core.DEAD, self.squares[move])
    placed = words.bit(square)
    ok = (game.moves & placed).some()
    after = _step(game, placed, self.board)
    dead = game._replace(side=jnp.int32(core.DEAD), moves=_NONE)
    return jax.tree.map(lambda a, b: jnp.where(ok, a, b), after, dead)

  def alive(self, game: Game) -> jax.Array:
    """Bool."""
    return game.side != core.DEAD


def rules(squares: np.ndarray, board: int) -> Rules:
  """Rules of a board whose tokens 1.. are squares [n], in order."""
  tokens = jnp.arange(1, len(squares) + 1, dtype=jnp.int32)
  return Rules(tokens, jnp.asarray(squares, jnp.int32), board)


def games(
  black: np.ndarray, white: np.ndarray, side: np.ndarray, board: int
) -> Game:
  """Games [B] of boards [B] uint64 and sides [B], DEAD for none."""
  boards = words.split(black), words.split(white)
  return _opened(*boards, np.asarray(side, np.int32), board)


def _ray(start: Word, through: Word, shift: int) -> Word:
  """Squares of `through` that rays from `start` cross; down if negative."""

  def shifted(word: Word, by: int) -> Word:
    return word << by if by > 0 else word >> -by

  # Six discs at most: two steps by one square, two by two.
  ray = through & shifted(start, shift)
  ray |= through & shifted(ray, shift)
  two = through & shifted(through, shift)
  ray |= two & shifted(ray, 2 * shift)
  return ray | (two & shifted(ray, 2 * shift))


def _rays(start: Word, opp: Word) -> list[tuple[Word, Word]]:
  """Of each direction, discs of `opp` crossed and the squares after them."""
  rays = []
  # Rows and diagonals would wrap around the edge: see `rules`.
  for shift in (1, 7, 8, 9):
    through = opp if shift == 8 else opp & _INNER
    up, down = _ray(start, through, shift), _ray(start, through, -shift)
    rays += [(up, up << shift), (down, down >> shift)]
  return rays


def _moves(me: Word, opp: Word, board: int) -> Word:
  """Squares on which `me` may place a disc."""
  ends = functools.reduce(Word.__or__, (end for _, end in _rays(me, opp)))
  return ends & ~(me | opp) & words.constant(board)


def _flips(move: Word, me: Word, opp: Word) -> Word:
  """Discs that a move (one bit) turns over."""
  held = (
    words.where((end & me).some(), crossed, _NONE)
    for crossed, end in _rays(move, opp)
  )
  return functools.reduce(Word.__or__, held)


def _step(game: Game, move: Word, board: int) -> Game:
  """One legal move (one bit) of one board; the turn passes where it must."""
  flips = _flips(move, game.me, game.opp)
  me, opp = game.me | move | flips, game.opp ^ flips
  # Both are made: lanes of a batch take both sides of any branch.
  theirs, ours = _moves(opp, me, board), _moves(me, opp, board)
  turned, going = theirs.some(), theirs.some() | ours.some()
  # The other moves next; or, with the game over and white last, black first.
  swap = turned | (~going & (game.side == 1))
  side = jnp.where(turned, 1 - game.side, game.side)
  return Game(
    words.where(swap, opp, me),
    words.where(swap, me, opp),
    jnp.where(going, side, 2),
    words.where(turned, theirs, ours),
  )


@functools.partial(jax.jit, static_argnums=3)
def _opened(black: Word, white: Word, side: jax.Array, board: int) -> Game:
  """Games with their moves worked out."""
  me = words.where(side == 1, white, black)
  opp = words.where(side == 1, black, white)
  going = (side == 0) | (side == 1)
  moves = words.where(going, _moves(me, opp, board), _NONE)
  return Game(me, opp, side, moves)
