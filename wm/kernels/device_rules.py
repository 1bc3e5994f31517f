"""Rules of automata and of Othello in JAX, for programs on a device.

Functions of one state, to be vmapped; see `traced.Rules`. They agree with the
compiled rules in `wm.kernels.dfa` and `wm.kernels.othello`.

An automaton's state is (row, goal), as in `wm.kernels.dfa`:

  delta   | e 0 1 2 ...      one column per token, ascending; the end token's
  row 0   | - 4 - 7          column is DEAD: it is legal where row == goal
  ...     |
  row S   | - - - -          the row after the end token: alive, nothing legal

An Othello board is a `Word`, two uint32; a game has the fields of
`wm.kernels.othello`: me, opp, side and the legal moves.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wm import core
from wm.kernels.base import calls, words
from wm.kernels.base.words import Word


class TableState(NamedTuple):
  """A state.

  Attributes:
    row: of the table; S after the end token, DEAD after an illegal token.
    goal: row in which the end token is legal, or NO_GOAL.
  """

  row: jax.Array
  goal: jax.Array


@functools.partial(
  jax.tree_util.register_dataclass,
  data_fields=('delta', 'tokens', 'end'),
  meta_fields=(),
)
@dataclasses.dataclass(frozen=True)
class TableRules:
  """Rules of an automaton as a transition table.

  Attributes:
    delta: [S + 1, A] int32 next rows, DEAD where illegal; see above.
    tokens: [A] int32, ascending.
    end: column of the end token, or DEAD.
  """

  delta: jax.Array
  tokens: jax.Array
  end: jax.Array

  def legal(self, position: TableState) -> jax.Array:
    """[A] bool."""
    row, goal = position
    # A dead row reads row 0, and is masked: indices must be in range.
    moves = self.delta[jnp.maximum(row, 0)] >= 0
    moves |= (jnp.arange(len(moves)) == self.end) & (row == goal)
    return moves & (row >= 0)

  def advance(self, position: TableState, move: jax.Array) -> TableState:
    """The next state; DEAD where the move is illegal or not a column."""
    row, goal = position
    alive = (row >= 0) & (move >= 0)
    head = self.delta[jnp.maximum(row, 0), jnp.maximum(move, 0)]
    # The end token's column is DEAD: where it is legal, go to the last row.
    ends = alive & (move == self.end) & (row == goal)
    head = jnp.where(ends, len(self.delta) - 1, head)
    return TableState(
      jnp.where(alive, head, core.DEAD), jnp.where(ends, calls.NO_GOAL, goal)
    )

  def alive(self, position: TableState) -> jax.Array:
    """Bool."""
    return position.row >= 0


def table_rules(
  delta: np.ndarray, tokens: np.ndarray, end: int = core.DEAD
) -> TableRules:
  """Rules of a table [S, A] whose labels are tokens [A], ascending.

  end: the token that is legal where row == goal, or DEAD.
  """
  over = np.full((1, delta.shape[1]), core.DEAD, np.int32)
  # Adds the row after the end token, and the end token's column, which is DEAD:
  # `legal` and `advance` compare with the goal instead.
  delta, place = np.concatenate([delta, over]), core.DEAD
  if end != core.DEAD:
    place = int(np.searchsorted(tokens, end))
    delta = np.insert(delta, place, core.DEAD, axis=1)
    tokens = np.insert(tokens, place, end)
  return TableRules(
    *(jnp.asarray(x, jnp.int32) for x in (delta, tokens, place))
  )


def table_states(rows: np.ndarray, goals: np.ndarray) -> TableState:
  """Positions [B] of states (rows, goals) [B]."""
  return TableState(jnp.asarray(rows, jnp.int32), jnp.asarray(goals, jnp.int32))


_INNER = words.constant(0x7E7E7E7E7E7E7E7E)
_NONE = words.constant(0)


class OthelloGame(NamedTuple):
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
  # Static: `words.constant` needs the board's mask at compile time.
  meta_fields=('board',),
)
@dataclasses.dataclass(frozen=True)
class OthelloRules:
  """Rules of Othello on one size of board.

  Attributes:
    tokens: [n] int32, one for each square but the four of the start.
    squares: [n] int32 bit of each.
    board: mask of the squares of this size of board.
  """

  tokens: jax.Array
  squares: jax.Array
  board: int

  def legal(self, game: OthelloGame) -> jax.Array:
    """[n] bool."""
    return (game.moves & words.bit(self.squares)).some()

  def advance(self, game: OthelloGame, move: jax.Array) -> OthelloGame:
    """The game after a move; dead where the move is illegal or not a column."""
    # DEAD has no bit: `placed` is empty, so the move is illegal.
    square = jnp.where(move < 0, core.DEAD, self.squares[move])
    placed = words.bit(square)
    ok = (game.moves & placed).some()
    # Computed for illegal moves too: under `vmap` a branch runs both sides.
    after = _step(game, placed, self.board)
    dead = game._replace(side=jnp.int32(core.DEAD), moves=_NONE)
    return jax.tree.map(lambda a, b: jnp.where(ok, a, b), after, dead)

  def alive(self, game: OthelloGame) -> jax.Array:
    """Bool."""
    return game.side != core.DEAD


def othello_rules(squares: np.ndarray, board: int) -> OthelloRules:
  """Rules of a board whose tokens 1.. are squares [n], in order."""
  tokens = jnp.arange(1, len(squares) + 1, dtype=jnp.int32)
  return OthelloRules(tokens, jnp.asarray(squares, jnp.int32), board)


def othello_games(
  black: np.ndarray, white: np.ndarray, side: np.ndarray, board: int
) -> OthelloGame:
  """Games [B] of boards [B] uint64 and sides [B], DEAD for none."""
  boards = words.split(black), words.split(white)
  return _opened(*boards, np.asarray(side, np.int32), board)


def _ray(start: Word, through: Word, shift: int) -> Word:
  """Squares of `through` that rays from `start` cross; down if negative."""

  def shifted(word: Word, by: int) -> Word:
    return word << by if by > 0 else word >> -by

  # At most six discs: two steps of one square, then two steps of two squares.
  ray = through & shifted(start, shift)
  ray |= through & shifted(ray, shift)
  two = through & shifted(through, shift)
  ray |= two & shifted(ray, 2 * shift)
  return ray | (two & shifted(ray, 2 * shift))


def _rays(start: Word, opp: Word) -> list[tuple[Word, Word]]:
  """For each direction, the crossed discs of `opp` and the squares after."""
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


def _step(game: OthelloGame, move: Word, board: int) -> OthelloGame:
  """One legal move (one bit) of one board; the turn passes where it must."""
  flips = _flips(move, game.me, game.opp)
  me, opp = game.me | move | flips, game.opp ^ flips
  # Both sides are computed, since a batched branch runs both.
  theirs, ours = _moves(opp, me, board), _moves(me, opp, board)
  turned, going = theirs.some(), theirs.some() | ours.some()
  # The other side moves next; in a finished game, `me` is black.
  swap = turned | (~going & (game.side == 1))
  side = jnp.where(turned, 1 - game.side, game.side)
  return OthelloGame(
    words.where(swap, opp, me),
    words.where(swap, me, opp),
    jnp.where(going, side, 2),
    words.where(turned, theirs, ours),
  )


@functools.partial(jax.jit, static_argnums=3)
def _opened(
  black: Word, white: Word, side: jax.Array, board: int
) -> OthelloGame:
  """Games with their legal moves computed."""
  me = words.where(side == 1, white, black)
  opp = words.where(side == 1, black, white)
  going = (side == 0) | (side == 1)
  moves = words.where(going, _moves(me, opp, board), _NONE)
  return OthelloGame(me, opp, side, moves)
