"""Othello: a token is a square, the state the board and whose turn it is.

Black moves first; a move must outflank discs. There is no token for a pass: a
side moves again if the other cannot move, and the game is over if neither can
(Vafa et al. 2024, section 4.3, with the side to move in the state).

    a b c d e f g h     the start; square 8 * row + column of the 8x8 grid,
  4 . . . O X . . .     smaller boards in its middle; tokens are the squares
  5 . . . X O . . .     ascending from 1, without these four

State words: black low and high, white low and high (a bit a square), the side
to move (0 black, 1 white, 2 over), 15 of history; all DEAD in a dead state.

Openings are all legal orders of given squares from the start. Different orders
of the same squares lead to different boards, so that the set of played squares
does not distinguish their states (Vafa et al. 2025 score inductive biases
there).

Functions of a board are the tasks of Vafa et al. 2025: each as in the paper,
and, if it differs, as in the program. The program reads the stored 0, 1, 2 as
empty, black, white, although they are white, empty, black.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from wm import core
from wm.core import basics, inputs
from wm.core.capabilities import Box
from wm.core.fields import field, field_error
from wm.kernels import othello as kernels
from wm.kernels import othello_games
from wm.worlds.base import games, sampling, svg, verbal
from wm.worlds.othello import records as othello_records

EMPTY, BLACK, WHITE = 0, 1, 2
HISTORY = 60  # Moves of the longest game.
SIDE = 4  # Word of the side to move.
DEPTH = 2  # Plies that the policy 'search' looks ahead.
TEXTS = verbal.Texts(__file__)


@dataclasses.dataclass(frozen=True)
class World(core.Labelled, core.Verbal, games.GameWorld, games.Transcribed):
  """A board and the games played on it.

  Attributes:
    policy: choice of moves in sampled games: 'uniform', over legal moves;
      'search', alpha-beta to DEPTH plies.
    openings: squares, e.g. 'd3 c3 c4', or a name in OPENINGS; held-out
      sequences are then all legal orders of these squares from the start.
  """

  noun: ClassVar[str] = 'Othello'
  boundary_depth: ClassVar[int] = 4
  position_words: ClassVar[int] = 5

  size: int = field(8, 'squares a side', choices=kernels.SIZES)
  policy: str = field('uniform', choices=othello_games.POLICIES)
  noise: float = field(
    0.0, 'probability of a uniform move instead', least=0, most=1
  )
  states: str = games.states_field()
  pool: int = games.pool_field()
  records: str = field(
    '',
    'file or folder of games to sample from instead',
    kw_only=True,
    format=othello_records.__name__,
  )
  lost: float = field(
    inputs.LOST,
    'share of a file of games that may be dropped for one reason',
    least=0,
    most=1,
    kw_only=True,
  )
  openings: str = dataclasses.field(default='', kw_only=True)

  # Recorded games have other interfaces, which callers find by class.
  def __new__(cls, *args: Any, records: str = '', **others: Any) -> World:
    """A world of `records` is a `RecordedWorld` one."""
    del args, others
    return object.__new__(RecordedWorld if records else cls)

  def __post_init__(self) -> None:
    if self.records and (self.policy != 'uniform' or self.noise):
      raise field_error(
        self, 'records policy noise', 'no policy and no noise with records'
      )
    super().__post_init__()
    if self.openings:
      squares = opening_squares(self.openings, self.vocab)
      if self.records or not len(opening_orders(self, squares)):
        expected = 'playable squares in some order, and no records'
        raise field_error(self, 'openings records', expected)

  @functools.cached_property
  def _squares(self) -> np.ndarray:
    """[n] int32 bit of each token but padding."""
    return kernels.squares(self.size).astype(np.int32)

  @functools.cached_property
  def _runs(self) -> list[tuple[int, int, int]]:
    """(first token, first bit, count) of runs in which both ascend by one."""
    cuts = np.flatnonzero(np.diff(self._squares) != 1) + 1
    runs = np.split(np.arange(self.max_len), cuts)
    return [(r[0] + 1, int(self._squares[r[0]]), len(r)) for r in runs]

  @functools.cached_property
  def vocab(self) -> tuple[str, ...]:
    """'<pad>', then 'a1', 'b1', ... without the four of the start."""
    return othello_records.vocab(self.size)

  @property
  def max_len(self) -> int:
    """A full board."""
    return self.size**2 - 4

  def rows(
    self, black: np.ndarray, white: np.ndarray, side: np.ndarray
  ) -> np.ndarray:
    """[B, W] states without history."""
    rows = np.zeros((len(side), self.position_words + HISTORY // 4), np.int32)
    boards = np.stack([black, white], axis=-1).astype(np.uint64)
    rows[:, :SIDE] = boards.view(np.int32)
    rows[:, SIDE] = side
    return rows

  def _position(
    self, states: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Black and white [B] uint64, side [B] int8; nothing moves if dead."""
    black, white = np.ascontiguousarray(states[:, :SIDE]).view(np.uint64).T
    return black, white, states[:, SIDE].astype(np.int8)

  def init(self, batch: int) -> np.ndarray:
    """Four discs, black to move."""
    return self.rows(*kernels.start(batch))

  def advance(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """States [B, W] after tokens [B]."""
    tokens = np.asarray(tokens)
    valid = (tokens > 0) & (tokens <= self.max_len)
    index = np.where(valid, tokens - 1, 0)
    bits = np.where(valid, self._squares[index], core.DEAD)
    *position, ok = kernels.advance(self._position(states), bits, self.size)
    after = self.rows(*position)
    after[:, self.position_words :] = states[:, self.position_words :]
    played = self.known(states)[ok]
    history = after.view(np.uint8)
    history[ok, 4 * self.position_words + played] = tokens[ok]
    after[~ok] = core.DEAD
    return after

  def legal(self, states: np.ndarray) -> np.ndarray:
    """[B, V] bool."""
    moves = kernels.legal(self._position(states), self.size)
    grid = _bits(moves)
    legal = np.zeros((len(states), self.max_len + 1), bool)
    columns = legal.view(np.uint8)
    for token, bit, num in self._runs:
      columns[:, token : token + num] = grid[:, bit : bit + num]
    return legal

  def traced(self, states: np.ndarray) -> tuple[core.traced.Rules, Any]:
    """See core.Enumerable.traced; any state will do."""
    from wm.kernels import device_rules  # Deferred: it imports JAX.

    board = int(kernels.mask(self.size))
    games = device_rules.othello_games(*self._position(states), board)
    return device_rules.othello_rules(self._squares, board), games

  def over(self, states: np.ndarray) -> np.ndarray:
    """[B] bool."""
    return states[:, SIDE] == kernels.OVER

  def dead(self, states: np.ndarray) -> np.ndarray:
    """[B] bool."""
    return states[:, SIDE] == core.DEAD

  def known(self, states: np.ndarray) -> np.ndarray:
    """[B] moves made: the discs beyond the four of the start."""
    boards = np.ascontiguousarray(states[:, :SIDE]).view(np.uint64)
    return np.bitwise_count(boards).sum(-1, dtype=np.int32) - 4

  def hashes(self, states: np.ndarray) -> np.ndarray:
    """[B] uint64 of discs and side to move."""
    return basics.hash64(*self._position(states))

  @property
  def heads(self) -> core.Heads:
    """The squares, a1, b1, ..., and the side to move.

    A probe reads discs as mine and theirs, as models represent them (Nanda et
    al. 2023).
    """
    squares = self.size**2
    groups = {'board': slice(0, squares), 'side': slice(squares, None)}
    sizes = (3,) * (squares + 1)
    return core.Heads(sizes, groups, probe=groups['board'], turn=squares)

  def labels(self, states: np.ndarray) -> np.ndarray:
    """[B, K] uint8: 0 empty, 1 black, 2 white; 0 black, 1 white, 2 over."""
    boards = np.ascontiguousarray(states[:, :SIDE]).view(np.uint8)
    grid = np.unpackbits(boards, axis=-1, bitorder='little')
    low = 4 - self.size // 2
    inside = slice(low, low + self.size)
    grid = grid.reshape(-1, 2, 8, 8)[:, :, inside, inside]
    discs = grid[:, 0] + 2 * grid[:, 1]
    discs = discs.reshape(len(states), self.size**2)
    labels = np.concatenate([discs, states[:, [SIDE]]], axis=-1)
    return np.where(self.dead(states)[:, None], 0, labels).astype(np.uint8)

  def edited(
    self, states: np.ndarray, label: np.ndarray, value: np.ndarray
  ) -> np.ndarray:
    """See core.Labelled.edited: turns a disc, or changes the side to move.

    Edits neither fill nor empty squares, which would change the number of
    moves, and the side to move must have a legal move.
    """
    arguments = self._position(states), self.labels(states), label, value
    *position, possible = edited_position(*arguments)
    after = self.rows(*position)
    after[~possible | ~self.legal(after).any(-1)] = core.DEAD
    return after

  def surface_labels(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> np.ndarray:
    """[N, L, K] uint8, compiled: discs are never turned."""
    first = self.labels(self.init(1))[0]
    places = np.append(0, self._places(self._squares))
    return labels_as_put(tokens, lengths, first, places)

  def sequence_labels(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> np.ndarray:
    """[N, L, K] uint8, compiled."""
    return kernels.replay_labels(tokens, lengths, self.size)

  def play(
    self, num: int, seed: int, first: int = 0, random: bool = False
  ) -> tuple[np.ndarray, np.ndarray]:
    """See games.GameWorld; compiled."""
    if random:
      return othello_games.play(num, seed, first, self.size)
    return othello_games.play(
      num, seed, first, self.size, self.policy, self.noise, DEPTH
    )

  def sequence_process(self, replan: bool) -> core.SequenceProcess:
    """See sampling.UniformPlay."""
    if self.policy == 'uniform':
      return super().sequence_process(replan)
    player = self.size, self.policy, self.noise, DEPTH
    return OthelloPlay(
      *(self, self._squares),
      lambda states: othello_games.chances(self._position(states), *player),
      replan,
    )

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    """Games of the split; 'heldout' are the `openings` if set."""
    if not self.openings or split != 'heldout':
      return super().sample(num, seed, split)
    squares = opening_squares(self.openings, self.vocab)
    moves = opening_orders(self, squares)
    chosen = np.argsort(basics.hash64(seed, np.arange(len(moves))))[:num]
    tokens = np.zeros((len(chosen), self.max_len), np.int32)
    tokens[:, : len(squares)] = moves[chosen]
    lengths = np.full(len(chosen), len(squares), np.int32)
    return core.Sequences(tokens, lengths, distinct=True)

  def transcribe(
    self, texts: Sequence[str]
  ) -> tuple[list[games.Transcript], dict[str, int]]:
    """See games.Transcribed, and `records` for what is read."""
    return othello_records.transcribe(texts, self.size)

  def transpositions(
    self, tokens: np.ndarray, lengths: np.ndarray, seeds: np.ndarray
  ) -> np.ndarray:
    """See games.GameWorld: a Gibbs chain over windows of moves.

    Short rows are drawn exactly, uniform over all their orders; see
    othello_games.transpositions.
    """
    return othello_games.transpositions(tokens, lengths, seeds, self.size)

  def after(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[T, W] states after legal sequences [T, L]."""
    _, *position = kernels.replay(tokens, lengths, self.size)
    states = self.rows(*position)
    history = np.zeros((len(tokens), HISTORY), np.int32)
    width = min(tokens.shape[1], HISTORY)
    used = np.arange(width) < np.asarray(lengths)[:, None]
    history[:, :width] = np.where(used, tokens[:, :width], core.PAD)
    states[:, self.position_words :] = self.remembered(history)
    return states

  def boundary(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> core.Boundary:
    """Boundaries of pairs of states, by compiled product search."""
    pairs = zip(*self._position(first), *self._position(second), strict=True)
    return core.boundary.joined(
      [
        kernels.boundary(tuple(pair[:3]), tuple(pair[3:]), depth, self.size)
        for pair in pairs
      ]
    )

  def count(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> tuple[list[int], list[int]]:
    """Sizes of boundary and interior of a pair [W], exact; perft of a state."""
    left, right = (self._position(s[None]) for s in (first, second))
    if left == right:
      return [0] * depth, kernels.count(left, depth, self.size)
    return kernels.boundary_sizes(left, right, depth, self.size)

  def format(self, state: np.ndarray) -> str:
    """The moves played, 'd3c3c4'; 'start' without any, 'dead' if dead."""
    if state[SIDE] == core.DEAD:
      return 'dead'
    moves = self.history(state[None])[0]
    return ''.join(self.vocab[token] for token in moves if token) or 'start'

  def render(self, state: np.ndarray) -> str:
    """The board, the last move on yellow, dots where a move is legal."""
    if state[SIDE] == core.DEAD:
      return super().render(state)
    black, white, side = (a[0] for a in self._position(state[None]))
    played = self.history(state[None])[0]
    last = self._squares[played[played > 0][-1:] - 1]
    legal = self._squares[np.flatnonzero(self.legal(state[None])[0, 1:])]
    discs = {
      square: svg.disc(color)
      for board, color in ((black, svg.BLACK), (white, svg.WHITE))
      for square in self._places(np.flatnonzero(_bits(board)[0]))
    }
    turn = ('black to move', 'white to move', 'over')[side]
    return svg.board(
      self.size,
      self.size,
      discs,
      svg.Marks(self._places(legal), self._places(last)),
      tones=svg.FELT,
      note=f'{turn}, {int(black).bit_count()} : {int(white).bit_count()}',
    )

  def token_boxes(
    self, state: np.ndarray, tokens: Iterable[int]
  ) -> dict[int, list[Box]]:
    """See core.Written: squares."""
    if state[SIDE] == core.DEAD:
      return {}
    boxes = svg.squares(self.size, self.size)
    places = self._places(self._squares)
    return {token: [boxes[places[token - 1]]] for token in tokens if token}

  def _places(self, bits: np.ndarray) -> list[int]:
    """Squares of this board, counted row by row, of bits."""
    row, column = np.divmod(bits - (8 - self.size) // 2 * 9, 8)
    return (row * self.size + column).tolist()

  def parse(self, text: str) -> np.ndarray:
    """State from the moves played, with or without blanks between them.

    Raises:
      InputError: no such squares, or the ply and move that is not legal.
    """
    joined = ''.join(text.lower().split())
    if joined == 'dead':
      return np.full_like(self.init(1), core.DEAD)
    moves = [] if joined == 'start' else re.findall('..?', joined)
    index = {name: token for token, name in enumerate(self.vocab) if token}
    wrong = [name for name in moves if name not in index]
    if wrong or not joined:
      raise core.InputError(
        f'{text!r} is no state of othello(size={self.size})'
        + (f': no move is named {wrong[0]!r}' if wrong else '')
        + f"; expected 'start', or moves as {self.vocab[1]!r} to "
        f'{self.vocab[-1]!r} one after the other'
      )
    tokens = np.array([[index[name] for name in moves]], np.int32)
    steps, states = self.walk(self.init(1), tokens, np.array([len(moves)]))
    if steps[0] < len(moves):
      legal = [self.vocab[t] for t in np.flatnonzero(self.legal(states)[0])]
      raise core.InputError(
        f'ply {steps[0] + 1}, {moves[steps[0]]!r}, is not legal after '
        f'{self.format(states[0])!r}; legal: '
        + (', '.join(legal) or 'nothing, the game is over')
      )
    return states

  # Functions of states.

  def from_labels(self, labels: np.ndarray) -> np.ndarray:
    """See core.Labelled.from_labels: any discs, and any side to move."""
    low = 4 - self.size // 2
    discs = labels[:, :-1].reshape(-1, self.size, self.size)
    inside = slice(low, low + self.size)

    def board(disc: int) -> np.ndarray:
      grid = np.zeros((len(labels), 8, 8), np.uint8)
      grid[:, inside, inside] = discs == disc
      packed = np.packbits(grid.reshape(-1, 64), axis=-1, bitorder='little')
      return packed.view(np.uint64)[:, 0]

    side = labels[:, -1].astype(np.int8)
    return self.rows(board(BLACK), board(WHITE), side)

  def functions(self, states: np.ndarray) -> dict[str, np.ndarray]:
    """Functions of black discs: 'parity', 'majority', 'balance', 'edges'.

    They are the parity of their number; whether they outnumber white discs;
    whether the upper half has more than the lower; and whether they outnumber
    white discs at the edge. The published program uses white discs for parity
    and balance, and compares white discs with empty squares at the edge.
    """
    board = self.labels(states)[:, :-1].reshape(-1, self.size, self.size)
    black, white, empty = (board == disc for disc in (BLACK, WHITE, EMPTY))
    edge = np.ones((self.size, self.size), bool)
    edge[1:-1, 1:-1] = False
    upper = np.arange(self.size)[:, None] < self.size // 2
    everywhere = np.ones_like(edge)

    def num(discs: np.ndarray, part: np.ndarray = everywhere) -> np.ndarray:
      return (discs & part).sum((1, 2))

    values = {
      'parity': num(black) % 2,
      'majority': num(black) > num(white),
      'balance': num(black, upper) > num(black, ~upper),
      'edges': num(black, edge) > num(white, edge),
      'parity_published': num(white) % 2,
      'balance_published': num(white, upper) > num(white, ~upper),
      'edges_published': num(white, edge) > num(empty, edge),
    }
    return {name: value.astype(np.int64) for name, value in values.items()}

  # In words.

  def rules(self, style: core.PromptStyle) -> str:
    """See core.Verbal; squares keep their names."""
    discs = self.labels(self.init(1))[0, :-1].reshape(self.size, self.size)
    places = {
      side: [f'{"abcdefgh"[c]}{r + 1}' for r, c in np.argwhere(discs == side)]
      for side in (BLACK, WHITE)
    }
    black, white = (
      ' and '.join(verbal.in_order(squares, style))
      for squares in places.values()
    )
    return TEXTS.render(
      'othello',
      size=self.size,
      file='abcdefgh'[self.size - 1],
      black=black,
      white=white,
      rules='\n'.join(TEXTS.lines('othello_rules', style)),
    )


Position = tuple[np.ndarray, np.ndarray, np.ndarray]


def edited_position(
  position: Position, labels: np.ndarray, label: np.ndarray, value: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Positions [B] with a disc turned, or with the given side to move.

  Args:
    position: black and white [B] uint64, side [B]; 0 black moves, 1 white.
    labels: [B, K] of these: squares row by row, 0 empty, 1 black, 2 white;
      then the side.
    label, value: [B] what is changed, and to what.

  Returns:
    black, white, side: as given.
    known: [B] bool, whether the position exists; others are meaningless.
  """
  black, white, side = position
  rows, squares = np.arange(len(side)), labels.shape[1] - 1
  size, old, disc = int(squares**0.5), labels[rows, label], label < squares
  possible = (side >= 0) & (side < kernels.OVER)
  turns = (old > 0) & np.isin(value, (1, 2))
  possible &= np.where(disc, turns, np.isin(value, (0, 1)))
  # Squares of this board, counted row by row, as bits of the 8x8 grid.
  row, column = np.divmod(np.minimum(label, squares - 1), size)
  low = 4 - size // 2
  bit = np.asarray(8 * (low + row) + low + column, np.uint64)
  turned = (possible & disc & (old != value)).astype(np.uint64) << bit
  side = np.where(possible & ~disc, value, side).astype(side.dtype)
  return black ^ turned, white ^ turned, side, possible


def labels_as_put(
  tokens: np.ndarray, lengths: np.ndarray, first: np.ndarray, places: np.ndarray
) -> np.ndarray:
  """[N, L, K] uint8 labels if sides alternate and discs are never turned.

  Args:
    tokens: [N, L] int32, of lengths [N].
    first: [K] labels before the first.
    places: label of the square of each token.
  """
  num, longest = tokens.shape
  now = np.tile(first, (num, 1))
  inside = (tokens > 0) & (tokens < len(places))
  place = places[np.where(inside, tokens, 0)]
  labels = np.zeros((num, longest, now.shape[1]), np.uint8)
  rows = np.arange(num)
  for ply in range(longest):
    rows = rows[(ply < np.asarray(lengths)[rows]) & inside[rows, ply]]
    now[rows, place[rows, ply]] = 1 + ply % 2
    now[rows, -1] = (ply + 1) % 2
    labels[rows, ply] = now[rows]
  return labels


class RecordedWorld(World):
  """Othello whose sequences are the games of `records`."""

  @functools.cached_property
  def _records(self) -> othello_records.Records:
    return othello_records.read(self.records, self.size, self.lost)

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    """Recorded games without duplicates, in an order by seed."""
    games = self._records.sequences
    rows = np.flatnonzero(sampling.in_split(self.split_key(games), split))
    order = np.argsort(basics.hash64(seed, rows), kind='stable')
    taken = games.take(rows[order[:num]])
    return dataclasses.replace(taken, counts={}, distinct=True)

  def stats(self) -> dict[str, int]:
    """Games kept, rejected by cause, and the first rejected."""
    return othello_records.facts(self._records)


def _bits(boards: np.ndarray) -> np.ndarray:
  """[B, 64] uint8: the bits of words [B] or of one, lowest first."""
  octets = np.ascontiguousarray(boards).reshape(-1, 1).view(np.uint8)
  return np.unpackbits(octets, axis=-1, bitorder='little')


Chances = Callable[[np.ndarray], tuple[np.ndarray, float, float]]


class OthelloPlay(sampling.Play):
  """Games of a policy with noise; the memory is a state of the world.

  With the probability of the noise a move is uniform over legal moves, and
  otherwise over the moves that the policy prefers.
  """

  def __init__(
    self, world: core.World, squares: np.ndarray, chances: Chances, replan: bool
  ) -> None:
    """Takes the players.

    world: world of the policy.
    squares: [n] bit of each token except padding.
    chances: function from states to move probabilities; see
      `wm.kernels.othello_games.chances`.
    replan: whether games continue from positions that the policy never reaches.
    """
    super().__init__(world)
    self._bits = np.append(0, squares).astype(np.uint64)
    self._chances, self._replan = chances, replan

  def advance(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.SequenceProcess; nothing follows a move that is never played."""
    after = super().advance(memory, tokens)
    if not self._replan:
      moves, log_probs = self.next(memory)
      played = (moves == tokens[:, None]) & np.isfinite(log_probs)
      after[~played.any(1)] = core.DEAD
    return after

  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See core.SequenceProcess."""
    tokens, log_probs = super().next(memory)
    legal = tokens != core.DEAD
    favoured, drawn, noisy = self._chances(memory)
    chosen = (favoured[:, None] >> self._bits[np.where(legal, tokens, 0)]) & 1
    chosen = legal & chosen.astype(bool)
    share = chosen / np.maximum(chosen.sum(1, keepdims=True), 1)
    odds = noisy * np.exp(log_probs) + drawn * share
    with np.errstate(divide='ignore'):
      return np.where(odds > 0, tokens, core.DEAD), np.log(odds)


# For the 8 x 8 board. The published program takes the fifth most frequent board
# after ten moves. Eight boards, of two sets of squares, share this rank, and
# its sort is unstable: 'published' is its most likely result, 'tied' the other.
OPENINGS = {
  'published': 'c3 f3 c4 f4 f5 d6 e6 f6 f7 g7',
  'tied': 'c3 d3 f4 f5 c6 d6 e6 f6 g6 c7',
  'rich': 'b2 c2 c3 d3 e3 f3 c4 f4 f5 f6',
}


def opening_squares(text: str, vocab: tuple[str, ...]) -> tuple[int, ...]:
  """Tokens of squares, ascending.

  text: a name in OPENINGS, or squares as 'c3 d3'.

  Raises:
    InputError: a square that is none of the vocabulary, or comes twice.
  """
  names = re.findall('[^, ]+', OPENINGS.get(text, text))
  index = {name: token for token, name in enumerate(vocab) if token}
  wrong = [name for name in names if name not in index]
  if wrong or len(set(names)) < len(names) or not names:
    raise core.InputError(
      f'othello: openings={text!r}'
      + (f': no square is called {wrong[0]!r}' if wrong else '')
      + f'; expected different squares from {vocab[1]!r} to {vocab[-1]!r}, or '
      + ', '.join(map(repr, OPENINGS))
    )
  return tuple(sorted(index[name] for name in names))


def opening_orders(world: core.World, tokens: tuple[int, ...]) -> np.ndarray:
  """[N, K] int32 all legal orders of K tokens from the start, ascending."""
  options = np.array(tokens, np.int32)
  orders, states = np.zeros((1, 0), np.int32), world.init(1)
  for _ in options:
    legal = world.legal(states)[:, options]
    row, pick = np.nonzero(legal)
    token = options[pick]
    orders = np.concatenate([orders[row], token[:, None]], axis=1)
    states = world.advance(states[row], token)
  return orders
