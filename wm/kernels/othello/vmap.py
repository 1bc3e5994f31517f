"""Othello's rules in JAX, for games that live beside a model.

The functions of one board are mapped over the batch; `wm.kernels.othello`
documents them. A board is a `Word`, two uint32, and a position is kept as in
`othello_numba`: own, opp, side and the legal moves. The functions below the
line take and give JAX arrays; the ones above are their NumPy forms.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from wm import core
from wm.kernels.othello import pairs_vmap as pairs
from wm.kernels.othello.pairs_vmap import Word

_INNER = pairs.constant(0x7E7E7E7E7E7E7E7E)
_BLACK = pairs.constant(1 << 28 | 1 << 35)
_WHITE = pairs.constant(1 << 27 | 1 << 36)
_NONE = pairs.constant(0)


class Game(NamedTuple):
  """Positions; words hold arrays [B] uint32.

  Attributes:
    own: discs of the mover; of black once the game is over.
    opp: discs of the other.
    side: [B] int32, 0 black moves, 1 white moves, 2 over.
    moves: legal squares, none where the game is over.
  """

  own: Word
  opp: Word
  side: jax.Array
  moves: Word


def legal(
  black: np.ndarray, white: np.ndarray, side: np.ndarray, squares: int
) -> np.ndarray:
  """Legal squares of each position."""
  return pairs.joined(_game(black, white, side, squares).moves)


def advance(
  black: np.ndarray,
  white: np.ndarray,
  side: np.ndarray,
  bits: np.ndarray,
  squares: int,
) -> tuple[np.ndarray, ...]:
  """Positions after one move each; unchanged where it is illegal."""
  game = _game(black, white, side, squares)
  after, ok = (
    jax.tree.map(np.asarray, part)
    for part in advance_jit(game, np.asarray(bits), int(squares))
  )
  own, opp = pairs.joined(after.own), pairs.joined(after.opp)
  blacks = np.where(after.side == 1, opp, own)
  whites = np.where(after.side == 1, own, opp)
  return (
    np.where(ok, blacks, black),
    np.where(ok, whites, white),
    np.where(ok, after.side, side).astype(np.int8),
    ok,
  )


def play_uniform(
  num: int,
  seed: int,
  first: int,
  token_of: np.ndarray,
  length: int,
  squares: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Games whose every move is uniform over the legal ones."""
  streams = core.hash64(seed, first + np.arange(num))
  played = np.asarray(play_jit(pairs.split(streams), length, int(squares)))
  tokens = np.where(played < 0, 0, token_of[played]).astype(np.int32)
  return tokens, (played >= 0).sum(1).astype(np.int32)


def _game(
  black: np.ndarray, white: np.ndarray, side: np.ndarray, squares: int
) -> Game:
  """Positions of the front door as JAX arrays."""
  words = pairs.split(black), pairs.split(white)
  return game_jit(*words, np.asarray(side, np.int32), int(squares))


# ---------------------------------------------------------------------------


def _ray(start: Word, through: Word, shift: int) -> Word:
  """Squares of `through` that rays from `start` cross; down if negative."""

  def shifted(word: Word, by: int) -> Word:
    return word << by if by > 0 else word >> -by

  ray = through & shifted(start, shift)
  ray |= through & shifted(ray, shift)
  two = through & shifted(through, shift)
  ray |= two & shifted(ray, 2 * shift)
  return ray | (two & shifted(ray, 2 * shift))


def _rays(start: Word, opp: Word) -> list[tuple[Word, Word]]:
  """Of each direction, discs of `opp` crossed and the squares after them."""
  found = []
  for shift in (1, 7, 8, 9):
    through = opp if shift == 8 else opp & _INNER
    up, down = _ray(start, through, shift), _ray(start, through, -shift)
    found += [(up, up << shift), (down, down >> shift)]
  return found


def _moves(own: Word, opp: Word, squares: int) -> Word:
  """Squares on which `own` may place a disc."""
  ends = functools.reduce(Word.__or__, (end for _, end in _rays(own, opp)))
  return ends & ~(own | opp) & pairs.constant(squares)


def _flips(move: Word, own: Word, opp: Word) -> Word:
  """Discs that a move (one bit) turns over."""
  held = (
    pairs.where((end & own).some(), crossed, _NONE)
    for crossed, end in _rays(move, opp)
  )
  return functools.reduce(Word.__or__, held)


def _step(game: Game, move: Word, squares: int) -> Game:
  """One legal move (one bit) of one board; the turn passes where it must."""
  flips = _flips(move, game.own, game.opp)
  own, opp = game.own | move | flips, game.opp ^ flips
  theirs, ours = _moves(opp, own, squares), _moves(own, opp, squares)
  turned, going = theirs.some(), theirs.some() | ours.some()
  # The other moves next; or, with the game over and white last, black first.
  swap = turned | (~going & (game.side == 1))
  side = jnp.where(turned, 1 - game.side, game.side)
  return Game(
    pairs.where(swap, opp, own),
    pairs.where(swap, own, opp),
    jnp.where(going, side, 2),
    pairs.where(turned, theirs, ours),
  )


def _opened(black: Word, white: Word, side: jax.Array, squares: int) -> Game:
  """A position with its moves worked out."""
  own = pairs.where(side == 1, white, black)
  opp = pairs.where(side == 1, black, white)
  going = (side == 0) | (side == 1)
  moves = pairs.where(going, _moves(own, opp, squares), _NONE)
  return Game(own, opp, side, moves)


def _advance(
  game: Game, square: jax.Array, squares: int
) -> tuple[Game, jax.Array]:
  """One move; the game as it was and False where it is illegal."""
  move = pairs.bit(square)
  ok = (game.moves & move).some()
  after = _step(game, move, squares)
  kept = jax.tree.map(lambda a, b: jnp.where(ok, a, b), after, game)
  return kept, ok


def _played(stream: Word, length: int, squares: int) -> jax.Array:
  """[length] squares of one game of uniform moves, -1 once it is over."""

  def ply(game: Game, k: jax.Array) -> tuple[Game, jax.Array]:
    """A game that is over has no moves, so its step is thrown away."""
    square = pairs.nth(
      game.moves, pairs.below(stream, k, game.moves.popcount())
    )
    after, ok = _advance(game, square, squares)
    return after, jnp.where(ok, square, -1)

  start = _opened(_BLACK, _WHITE, jnp.int32(0), squares)
  return lax.scan(ply, start, jnp.arange(length))[1]


@functools.partial(jax.jit, static_argnums=3)
def game_jit(black: Word, white: Word, side: jax.Array, squares: int) -> Game:
  """Positions of words and sides [B]."""
  opened = functools.partial(_opened, squares=squares)
  return jax.vmap(opened)(black, white, side)


@functools.partial(jax.jit, static_argnums=2)
def advance_jit(
  game: Game, bits: jax.Array, squares: int
) -> tuple[Game, jax.Array]:
  """Games after one move each [B], and where it was legal [B]."""
  return jax.vmap(functools.partial(_advance, squares=squares))(game, bits)


@functools.partial(jax.jit, static_argnums=(1, 2))
def play_jit(streams: Word, length: int, squares: int) -> jax.Array:
  """[B, length] int32 squares of uniform games, -1 once they are over.

  streams: [B], core.hash64(seed, number of the game).
  """
  played = functools.partial(_played, length=length, squares=squares)
  return jax.vmap(played)(streams)
