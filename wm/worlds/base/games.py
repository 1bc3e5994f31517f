"""Base classes of board games, whose states remember their moves.

A state row is

  | position words | history: one item a move, in the order played, then 0 |

so that a state holds one prefix that reaches it. A transposition, the same
moves in another order, is another prefix. Two states are the same if their
positions are.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import basics, registry
from wm.core.fields import field
from wm.worlds.base import sampling

# Streams of randomness under one seed.
PLIES, GAMES = 1, 2
# Games drawn for one ply before another ply is drawn.
REDRAW = 16
# Limit of games of a trial that are too short, before an error.
HOPELESS = 64 * REDRAW
# The pool of games, the source of states and prefixes, is the same for any
# seed.
POOL_SEED = 0


def states_field() -> Any:
  """The field `states` of a game."""
  return field(
    'stratified',
    'distribution of the states of trials',
    choices={
      'stratified': 'trial n draws a ply uniform on `plies` and the position '
      'after it of a random game that goes on from there; a prefix is a '
      'transposition of the moves that led to it',
      'recurring': 'uniform over the positions that two or more prefixes of a '
      'pool of random games reach, a prefix uniform over these (as published '
      'for Othello by Vafa et al. 2024)',
    },
  )


def pool_field(default: int = 10_000) -> Any:
  """The field `pool` of a game."""
  return field(default, 'number of games in that pool', least=1, unit='games')


class GameWorld(
  sampling.UniformPlay,
  core.Prefixed,
  core.Enumerable,
  core.Written,
  core.Described,
  words={'ply': 'moves made (bins of 10)'},
):
  """A game of two players, defined by its kernels.

  Subclasses are frozen dataclasses with the fields

    states: made by `states_field`
    pool: made by `pool_field`
    policy: policy of sampled games, 'uniform' or another

  and give `vocab`, `max_len`, `init`, `advance`, `legal`, `play`,
  `transpositions`,
  `known`, `parse`, `format`.
  """

  # Words of a position, and the type of a move in the history after them.
  position_words: ClassVar[int]
  history_item: ClassVar[type[np.unsignedinteger]] = np.uint8
  states: str
  pool: int
  policy: str

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded; memory holds all games of the pool."""
    del world
    games = self.pool if self.states == 'recurring' else 0
    return core.Cost(4 * games * self.max_len, 0, ('pool',))

  # What a game gives.

  @abc.abstractmethod
  def play(
    self, num: int, seed: int, first: int = 0, random: bool = False
  ) -> tuple[np.ndarray, np.ndarray]:
    """Games first..first + num - 1, each a function of (seed, number).

    random: whether moves are uniform over the legal ones in place of `policy`.

    Returns:
      tokens: [num, max_len] int32 with the header, padded with PAD.
      lengths: [num] int32.
    """

  def played_otherwise(self) -> str:
    """See sampling.UniformPlay."""
    if core.can(self, core.Described.stats):
      return (
        'how recorded games are distributed is not known, and the loss of any '
        'model bounds that of the Bayes predictor from above; available: games '
        'of a policy'
      )
    return ''

  @abc.abstractmethod
  def transpositions(
    self, tokens: np.ndarray, lengths: np.ndarray, seeds: np.ndarray
  ) -> np.ndarray:
    """[T, L] int32 the same moves in a random order to the same position.

    tokens: [T, L] moves from the start, without the header.
    lengths: [T] moves of each.
    seeds: [T] uint64; row t depends on its own.
    """

  @abc.abstractmethod
  def known(self, states: np.ndarray) -> np.ndarray:
    """[B] number of moves in each state's history; negative if unknown."""

  @property
  def plies(self) -> tuple[int, int]:
    """Fewest and most moves of a stratified state."""
    moves = self.max_len - len(self.header)
    return min(4, moves - 1), moves - 1

  # What follows from that.

  def dead(self, states: np.ndarray) -> np.ndarray:
    """[B] bool."""
    return (states[:, : self.position_words] == core.DEAD).all(-1)

  def canonical(self, states: np.ndarray) -> np.ndarray:
    """[B, K] int32: the words that identify a state, without history.

    They are equal exactly if `state_id` is.
    """
    return states[:, : self.position_words]

  def hashes(self, states: np.ndarray) -> np.ndarray:
    """[B] uint64 hashes of positions; arbitrary for dead states."""
    return basics.hash64(*self.canonical(states).T)

  def state_id(self, states: np.ndarray) -> np.ndarray:
    """[B] int64 hash of the position; DEAD if dead."""
    ids = (self.hashes(states) >> np.uint64(1)).astype(np.int64)
    return np.where(self.dead(states), core.DEAD, ids)

  def history(self, states: np.ndarray) -> np.ndarray:
    """[B, L] int32 tokens of the moves that led to each state, 0-padded."""
    words = np.ascontiguousarray(states[:, self.position_words :])
    return words.view(self.history_item).astype(np.int32)

  def remembered(self, tokens: np.ndarray) -> np.ndarray:
    """[B, words] int32 history of moves [B, L], 0-padded to whole words."""
    return np.ascontiguousarray(tokens, self.history_item).view(np.int32)

  @property
  def header(self) -> tuple[int, ...]:
    """Tokens that every sequence begins with."""
    return ()

  @property
  def prompt_len(self) -> int:
    """Tokens of the header."""
    return len(self.header)

  def tags(self, states: np.ndarray) -> dict[str, np.ndarray]:
    """The 'ply', -1 if it is unknown."""
    moves = self.known(states)
    return {'ply': np.where(moves < 0, -1, moves // 10 * 10)}

  def split_key(self, sequences: core.Sequences) -> np.ndarray:
    """[N] uint64 of the whole game, eight bytes at a time."""
    num, length = sequences.tokens.shape
    items = 8 // np.dtype(self.history_item).itemsize
    packed = np.zeros((num, -(-length // items) * items), self.history_item)
    packed[:, :length] = sequences.tokens
    mixed = basics.hash64(sequences.lengths)
    for word in packed.view(np.uint64).T:
      # No token is 0, so a word of zeros is padding, which may vary.
      mixed = np.where(word != 0, basics.hash64(mixed, word), mixed)
    return mixed

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    """The first `num` games of the split, by number."""
    return sampling.stream(
      self,
      *(num, seed, split),
      lambda numbers: self.play(len(numbers), seed, int(numbers[0]))[0],
    )

  def after(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[T, W] states after legal sequences [T, L], the header included."""
    return self.walk(self.init(len(tokens)), tokens, lengths)[1]

  def sample_states(self, num: int, seed: int) -> np.ndarray:
    """[num, W] states from the distribution `states`; none is over.

    Raises:
      InputError: random games are too short, or no position recurs.
    """
    if self.states == 'recurring':
      place = sampling.picks(seed, num, len(self._pool.keys))
      return self._pool.states[place]
    low, high = self.plies
    tokens = np.zeros((num, self.max_len), np.int32)
    lengths = np.zeros(num, np.int32)
    pending, attempt = np.arange(num), 0
    while pending.size:
      if attempt == HOPELESS and pending.size == num:
        raise core.InputError(
          f'{registry.spec(self)}: of {attempt} random games none goes on '
          f'after {low} to {high} moves; expected longer games'
        )
      word = basics.hash64(seed, PLIES, pending, attempt // REDRAW)
      ply = (word % np.uint64(high - low + 1)).astype(np.int32) + low
      least = int(pending[0])
      games = self.play(
        int(pending[-1]) - least + 1,
        int(basics.hash64(seed, GAMES, attempt) >> np.uint64(2)),
        least,
        random=True,
      )
      tokens[pending] = games[0][pending - least]
      lengths[pending] = ply + len(self.header)
      pending = pending[games[1][pending - least] <= lengths[pending]]
      attempt += 1
    return self.after(tokens, lengths)

  def prefix_moves(self, states: np.ndarray) -> np.ndarray:
    """[T, 2] int32: the number of moves that each state remembers."""
    played = np.where(self.dead(states), 0, self.known(states))
    if self.states == 'recurring':
      played = np.where(self._pool.find(self, states, played)[1], played, 0)
    most = np.maximum(played, 0)
    return np.stack([np.maximum(most, 1), most], axis=-1).astype(np.int32)

  def sample_prefixes(
    self, states: np.ndarray, moves: np.ndarray, seeds: np.ndarray
  ) -> core.Prefixes:
    """A random transposition of the moves that led to each state."""
    moves, head = np.asarray(moves), len(self.header)
    tokens = np.zeros((len(states), int(moves.max(initial=0)) + head), np.int32)
    ok = ~self.dead(states) & (self.known(states) == moves) & (moves > 0)
    if self.states == 'recurring':
      place, in_pool = self._pool.find(self, states, moves)
      ok &= in_pool
      rows = np.flatnonzero(ok)
      drawn = self._pool.draw(place[rows], np.asarray(seeds)[rows])
    else:
      rows = np.flatnonzero(ok)
      drawn = self.transpositions(
        self.history(states[rows]),
        moves[rows].astype(np.int32),
        np.asarray(seeds)[rows].astype(np.uint64),
      )
    width = int(moves[rows].max(initial=0))
    used = np.arange(width) < moves[rows, None]
    drawn = np.where(used, drawn[:, :width], core.PAD)
    tokens[rows, head : head + width] = drawn
    tokens[rows, :head] = self.header
    lengths = np.where(ok, moves + head, 0).astype(np.int32)
    return core.Prefixes(tokens, lengths, ok)

  @functools.cached_property
  def _pool(self) -> GamePool:
    return make_pool(self)


class GamePool(NamedTuple):
  """Positions that several prefixes of a pool of games reach.

  Attributes:
    keys: [G] uint64 hashes of position and number of moves, ascending.
    states: [G, W] states, each with one of its prefixes as history.
    offsets: [G + 1] int64 into `rows`.
    rows: [P] int64, a game that begins with each distinct prefix.
    moves: [N, L] int32, the games' moves without header.
  """

  keys: np.ndarray
  states: np.ndarray
  offsets: np.ndarray
  rows: np.ndarray
  moves: np.ndarray

  def find(
    self, world: GameWorld, states: np.ndarray, plies: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """Index [T] among the keys, and [T] bool: True if the state has a key."""
    keys = basics.hash64(world.state_id(states), plies)
    place = np.searchsorted(self.keys, keys)
    place = np.minimum(place, len(self.keys) - 1)
    return place, self.keys[place] == keys

  def draw(self, place: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """[T, L] int32: games whose prefix is drawn uniformly at each index."""
    size = np.diff(self.offsets)[place].astype(np.uint64)
    pick = basics.hash64(seeds) % np.maximum(size, np.uint64(1))
    return self.moves[self.rows[self.offsets[place] + pick.astype(np.int64)]]


def make_pool(world: GameWorld) -> GamePool:
  """The recurring positions of `world.pool` random games.

  A prefix counts only if its game continues after the prefix.

  Raises:
    InputError: no position recurs.
  """
  tokens, lengths = world.play(world.pool, POOL_SEED, random=True)
  head = len(world.header)
  plies: list[tuple[np.ndarray, ...]] = []
  states = world.after(tokens, np.full(len(tokens), head))
  mixed = np.zeros(len(tokens), np.uint64)
  for k in range(head, int(lengths.max()) - 1):
    rows = np.flatnonzero(lengths > k + 1)
    states[rows] = world.advance(states[rows], tokens[rows, k])
    mixed[rows] = basics.hash64(mixed[rows], tokens[rows, k])
    ply = np.full(len(rows), k + 1 - head)
    key = basics.hash64(world.state_id(states[rows]), ply)
    plies.append((key, mixed[rows], rows, ply))
  if not plies:  # No game has a second move.
    raise _none_recurs(world)
  key, prefix, row, ply = (np.concatenate(c) for c in zip(*plies, strict=True))
  order = np.lexsort((row, prefix, key))
  key, prefix, row, ply = key[order], prefix[order], row[order], ply[order]
  # Several games may begin alike: each distinct prefix counts once.
  fresh = np.append(True, (np.diff(key) != 0) | (np.diff(prefix) != 0))
  key, row, ply = key[fresh], row[fresh], ply[fresh]
  keys, first, size = np.unique(key, return_index=True, return_counts=True)
  many = size > 1
  if not many.any():
    raise _none_recurs(world)
  recurring = np.repeat(many, size)
  chosen = first[many]
  reached = world.after(tokens[row[chosen]], ply[chosen] + head)
  offsets = np.concatenate([[0], np.cumsum(size[many])])
  return GamePool(
    keys[many], reached, offsets, row[recurring], tokens[:, head:]
  )


def _none_recurs(world: GameWorld) -> core.InputError:
  return core.InputError(
    f'{world.name}: no position recurs in pool={world.pool} random games; '
    "expected a larger pool, or states='stratified'"
  )


# Fields of a line of JSON or CSV with the sequence; the first present is used.
FIELDS = (
  *('tokens', 'moves', 'game_moves', 'transcript', 'pgn', 'san'),
  *('input', 'sequence', 'text'),
)


def field_of(record: Mapping[str, Any], where: str) -> Any:
  """The sequence in a record; raises InputError without any of FIELDS."""
  for name in FIELDS:
    if name in record:
      return record[name]
  raise core.InputError(
    f'{where} has no field {" or ".join(map(repr, FIELDS))}; available: '
    f'{", ".join(map(str, record)) or "none"}'
  )


class Transcript(NamedTuple):
  """A game from its written form, up to the first bad move.

  Attributes:
    tokens: ids of its moves.
    fault: the bad move, as written; '' if there is none.
    unreadable: whether the bad move cannot be parsed; otherwise it is illegal.
  """

  tokens: list[int]
  fault: str = ''
  unreadable: bool = False


class Transcribed(core.World):
  """A world that parses games in several human notations."""

  @abc.abstractmethod
  def transcribe(
    self, texts: Sequence[str]
  ) -> tuple[list[Transcript], dict[str, int]]:
    """Parses games, a text each; also returns notes on parsing -> counts."""


class RecordedGames(Transcribed):
  """Base class of worlds whose games `wm.data.pgn_games` reads.

  Attributes:
    least: games of fewer plies are dropped.
    length: longer games are cut to this number of plies.
    start: '' for games from the standard position, as recorded games are.
  """

  least: int
  length: int
  start: str

  @abc.abstractmethod
  def from_moves(
    self, packed: np.ndarray, lengths: np.ndarray
  ) -> core.Sequences:
    """Sequences of games, with the header of every sequence of the world.

    Args:
      packed: [sum of lengths] uint16 packed moves, the games end to end.
      lengths: [N] int32 plies of each.
    """
