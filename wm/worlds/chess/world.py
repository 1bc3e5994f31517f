"""Chess: a token is a legal move, the state the position.

A move is legal exactly where the rules of moving allow it, from any position:
repetition, the fifty-move rule and dead material end sampled games (`stop`),
not the language. A sequence begins with the start token, which sets up the
board; so what is counted from there is perft. The state is what decides which
moves are legal from now on: placement, side to move, castling rights and an
en-passant square where a pawn may legally take (Walker and Lyons 2026,
sections 2 and 4, with states named as FIDE's repetition rule compares them).

State words, a row of the kernels and the history behind it:

  0..7  pieces, a nibble a square     9  halfmove clock, fullmove number
  8     side, rights, en-passant     10  moves known in the history; BEFORE
        file after any double push       the start token, UNKNOWN from a FEN
  11..  history, a token of 16 bits a move

all DEAD in a dead state; pieces are 0 before the start token.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics, registry
from wm.core.fields import field
from wm.kernels import chess as kernels
from wm.worlds.base import games, sampling, svg, verbal
from wm.worlds.chess import fen, moves, notation, states
from wm.worlds.chess.states import check_start

WORDS = fen.WORDS
FLAGS, KNOWN = 8, 10
BEFORE, UNKNOWN = -2, fen.HISTORY_UNKNOWN
LONGEST = 5_900  # Plies that a game can have, about: the 75-move rule.
MOST_LEAST = 100  # Nearly every random game has more plies.
MOST_SHORT = 1000  # Games in a row that are too short.
# Share of short games, which are dropped and in the law; of so many games.
MOST_DROPPED, DROPPED_OF = 0.05, 2000


TEXTS = verbal.Texts(__file__)

_BEGIN = {'coordinates': 'begin', 'hyphens': 'setup'}


class VerbalChess(states.ChessLabels, core.Verbal):
  """Chess, told in words."""

  wordings: ClassVar[tuple[str, ...]] = ('coordinates', 'hyphens')

  def token_names(self, telling: core.PromptStyle) -> tuple[str, ...]:
    """Moves as UCI writes them, or with a hyphen."""
    return _spoken(self.vocabulary, core.verbal.wording_of(self, telling))

  def rules(self, telling: core.PromptStyle) -> str:
    """See core.Verbal; squares keep their names."""
    wording = core.verbal.wording_of(self, telling)
    return TEXTS.render(
      wording,
      fen=fen.format(self.origin),
      rules='\n'.join(TEXTS.lines(f'{wording}_rules', telling)),
    )


@functools.cache
def _spoken(vocabulary: str, wording: str) -> tuple[str, ...]:
  pad, *names, _ = moves.vocab(vocabulary)
  if wording == 'hyphens':
    names = [
      f'{move[:2]}-{move[2:4]}' + (f'={move[4:]}' if move[4:] else '')
      for move in names
    ]
  return (pad, *names, _BEGIN[wording])


@dataclasses.dataclass(frozen=True)
class World(VerbalChess, games.GameWorld, games.Recorded):
  """Chess and random games played of it.

  Attributes:
    vocabulary: tokens of moves: 'compact', each possible move; 'packed', each
      of the published ids, most of which are the move of no piece.
    length: most plies of a sequence; longer games are cut. Of the published
      random games the longest has 698.
    lengths: where sampled games are cut before that: 'whole', nowhere, as
      published; 'human', after as many plies as a game of people has, so that
      what is unfamiliar in random games is the positions alone.
    stop: end of a sampled game: 'claims', as published, as soon as a player may
      claim a draw; 'automatic', where the arbiter ends it (fivefold repetition,
      75 moves, dead material); 'moves', where no move is legal.
    policy: moves that sampled games prefer: 'uniform' as published, or
      'few_captures', 'promotions', 'shuffling' (of knights and rooks),
      'castling', 'en_passant'; see kernels.chess.policies. Trials of metrics
      draw their states from uniform games in any case.
    least: shorter sampled games are dropped and counted; 20 as published. If
      more than 5 % are dropped, as in some endgames, the distribution of games
      is not known; 0 drops none.
    start: FEN that every game starts from, such as an endgame of a few pieces;
      '' is the standard position. The start token is named after it, so that
      data of another start are refused.
    ep: the en-passant label: 'raw', after every double push, as published;
      'legal', where a pawn may take.
  """

  version: ClassVar[str] = '1'
  boundary_depth: ClassVar[int] = 2
  position_words: ClassVar[int] = WORDS
  history_item: ClassVar[type[np.unsignedinteger]] = np.uint16

  vocabulary: str = field('compact', choices=('compact', 'packed'))
  length: int = field(128, least=2, most=LONGEST, unit='plies')
  lengths: str = field('whole', choices=('whole', 'human'))
  stop: str = field('claims', choices=('claims', 'automatic', 'moves'))
  policy: str = field('uniform', choices=tuple(kernels.POLICIES))
  least: int = field(20, least=0, most=MOST_LEAST, unit='plies')
  start: str = ''
  ep: str = field('raw', choices=('raw', 'legal'))
  states: str = games.states_field()
  pool: int = games.pool_field()

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.start:
      check_start(self.origin, self.start, self.stop)

  # Tokens.

  @property
  def vocab(self) -> tuple[str, ...]:
    """'<pad>', moves as UCI writes them by packed id, '<start>' or '<FEN>'."""
    if not self.start:
      return moves.vocab(self.vocabulary)
    name = fen.format(self.origin).replace(' ', '_')
    return moves.vocab(self.vocabulary, f'<{name}>')

  @property
  def max_len(self) -> int:
    """The start token and `length` moves."""
    return self.length + 1

  @functools.cached_property
  def _columns(self) -> np.ndarray:
    """[20480] int32 token of each packed id, DEAD where it has none."""
    tokens = moves.index(self.vocabulary)
    return np.where(tokens > 0, tokens, core.DEAD).astype(np.int32)

  # States.

  @property
  def _words(self) -> int:
    return WORDS + -(-self.length // 2)

  def rows(self, positions: np.ndarray) -> np.ndarray:
    """[B, W] states of positions [B, 11], their history unknown."""
    states = np.zeros((len(positions), self._words), np.int32)
    states[:, :WORDS] = positions
    states[:, KNOWN] = UNKNOWN
    return states

  def opening(self) -> np.ndarray:
    """[1, W] the first position, after the start token."""
    states = self.rows(self.origin[None])
    states[:, KNOWN] = 0
    return states

  def init(self, batch: int) -> np.ndarray:
    """No board yet; only the start token is legal."""
    states = np.zeros((batch, self._words), np.int32)
    states[:, KNOWN] = BEFORE
    return states

  def dead(self, states: np.ndarray) -> np.ndarray:
    """[B] bool."""
    return states[:, FLAGS] == core.DEAD

  def known(self, states: np.ndarray) -> np.ndarray:
    """[B] moves in the history; below 0 where unknown or before the start."""
    return states[:, KNOWN]

  def boards(self, states: np.ndarray) -> np.ndarray:
    """[B] bool: neither dead nor before the start token."""
    return ~self.dead(states) & (states[:, KNOWN] != BEFORE)

  def advance(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """States [B, W] after tokens [B]; a history without room is dropped."""
    tokens, played = np.asarray(tokens), states[:, KNOWN]
    within = (tokens > 0) & (tokens < len(self.packed))
    packed = self.packed[np.where(within, tokens, 0)]
    after = states.copy()
    after[:, :WORDS], ok = kernels.advance(states, packed)
    room = (played >= 0) & (played < self.length)
    after[~room, WORDS:] = 0
    after[~room, KNOWN] = UNKNOWN
    moves = after[:, WORDS:].view(self.history_item)
    recorded = np.flatnonzero(ok & room)
    moves[recorded, played[recorded]] = tokens[recorded]
    after[~ok] = core.DEAD
    after[(played == BEFORE) & (tokens == self.header[0])] = self.opening()
    return after

  def legal(self, states: np.ndarray) -> np.ndarray:
    """[B, V] bool."""
    legal = kernels.legal_mask(states, self._columns, len(self.packed))
    legal[states[:, KNOWN] == BEFORE, self.header[0]] = True
    return legal

  def over(self, states: np.ndarray) -> np.ndarray:
    """[B] bool: mate or stalemate."""
    return self.boards(states) & (kernels.legal(states)[1] == 0)

  def hashes(self, states: np.ndarray) -> np.ndarray:
    """[B] uint64 Zobrist keys; 0 before the start."""
    return kernels.keys(states)

  def canonical(self, states: np.ndarray) -> np.ndarray:
    """[B, 9] int32: pieces, and word 8 with a legal en-passant file only."""
    words, on = states[:, : FLAGS + 1].copy(), ~self.dead(states)
    file = kernels.labels(states[on], 'legal')[:, 69].astype(np.int32)
    words[on, FLAGS] = words[on, FLAGS] & 31 | file << 5
    return words

  # Games.

  def play(
    self, num: int, seed: int, first: int = 0, random: bool = False
  ) -> tuple[np.ndarray, np.ndarray]:
    """See games.GameWorld; compiled."""
    moves, lengths, _ = kernels.play(
      num,
      seed,
      first,
      most=self.length,
      stop=self.stop,
      policy='uniform' if random else self.policy,
      start_row=self.origin,
    )
    if self.lengths == 'human' and not random:
      cut = human_lengths(seed, first + np.arange(num))
      lengths = np.minimum(lengths, cut)
    tokens = np.zeros((num, self.max_len), np.int32)
    used = np.arange(self.length) < lengths[:, None]
    tokens[:, 0] = self.header[0]
    tokens[:, 1:][used] = self._columns[moves[used]]
    return tokens, lengths + np.int32(1)

  def law(self, replan: bool) -> core.SequenceProcess:
    """See sampling.UniformPlay.

    It goes on where a game is cut or ends before no move is legal (`length`,
    `lengths`, `stop`), which no token says. The short games that are dropped
    are in it: it is off by their share in total variation. Uniform games from
    the usual start have fewer than 20 plies in .2 % of cases (42 of 20,042),
    'shuffling' ones in 1.2 %, and those of king and queen against king in 29 %.
    Above MOST_DROPPED there is no law.
    """
    if self.policy == 'uniform':
      return super().law(replan)
    return ChessPlay(self, self.policy)

  def played_otherwise(self) -> str:
    """See sampling.UniformPlay; and where too many games are dropped."""
    why = super().played_otherwise()
    if why or self._short_share <= MOST_DROPPED:
      return why
    return (
      f'{self._short_share:.0%} of {DROPPED_OF:,} games have fewer than least='
      f'{self.least} plies and are dropped, and how the others are distributed '
      'is not known; available: least=0, which drops none'
    )

  @functools.cached_property
  def _short_share(self) -> float:
    """Share of played games that `sample` drops."""
    least = min(self.least, self.length) + 1
    if least == 1:
      return 0.0
    return float((self.play(DROPPED_OF, 0)[1] < least).mean())

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    """Games by number, without those of fewer than `least` plies.

    counts: 'games_dropped_short', games left out before the last one given.
    """
    least, asked = min(self.least, self.length) + 1, num
    while True:
      drawn = super().sample(asked, seed, split)
      rows = np.flatnonzero(drawn.lengths >= least)
      if len(rows) >= num or len(drawn) < asked:
        break
      if not len(rows) and asked > MOST_SHORT:
        raise core.InputError(
          f'{registry.spec(self)}: none of {asked} games has least='
          f'{self.least} plies'
        )
      asked += 2 * (num - len(rows)) + 8
    rows = rows[:num]
    dropped = int(rows[-1]) + 1 - len(rows) if rows.size else 0
    long_enough = drawn.take(rows)
    counts = {'games_dropped_short': dropped}
    return dataclasses.replace(long_enough, counts=counts)

  def after(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[T, W] states after legal sequences [T, L] of at most `max_len`."""
    lengths = np.asarray(lengths, np.int32)
    states, started = self.init(len(tokens)), lengths > 0
    used = np.arange(1, tokens.shape[1]) < lengths[:, None]
    moves = np.where(used, tokens[:, 1:], core.PAD)
    plies = np.maximum(lengths - 1, 0)
    _, rows = kernels.replay(self.packed[moves], plies, self.origin)
    states[started, :WORDS] = rows[started]
    states[:, WORDS:].view(self.history_item)[:, : moves.shape[1]] = moves
    return states

  def transpositions(
    self, tokens: np.ndarray, lengths: np.ndarray, seeds: np.ndarray
  ) -> np.ndarray:
    """See games.GameWorld: a Gibbs chain over windows of plies."""
    used = np.arange(tokens.shape[1]) < lengths[:, None]
    moves = self.packed[np.where(used, tokens, 0)]
    reordered = kernels.transpositions(moves, lengths, seeds, self.origin)
    return np.where(used, self._columns[np.maximum(reordered, 0)], core.PAD)

  # Exact answers.

  def boundary(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> core.Boundary:
    """Boundaries of pairs of states, by compiled product search."""
    boards = self.boards(first) & self.boards(second)
    boundaries = []
    for left, right, board in zip(first, second, boards, strict=True):
      if not board:
        boundaries.append(core.boundary.product(self, left, right, depth))
        continue
      moves, lengths = kernels.boundary(left, right, depth)
      tokens = np.where(moves < 0, core.PAD, self._columns[moves])
      offsets = np.array([0, len(lengths)])
      boundaries.append(
        core.Boundary(offsets, tokens.astype(np.int32), lengths)
      )
    return core.boundary.joined(boundaries)

  def count(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> tuple[list[int], list[int]]:
    """Sizes of boundary and interior of a pair [W], exact; perft of a state."""
    pair = np.stack([first, second])
    boards = self.boards(pair).all()
    if np.equal(*self.state_id(pair)):
      if boards:
        return [0] * depth, kernels.count(first, depth)
      if first[KNOWN] == BEFORE:  # The start token, then perft.
        perft = kernels.count(self.origin, depth - 1)
        return [0] * depth, [1, *perft][:depth]
    if not boards:
      return super().count(first, second, depth)
    outer, inner = (
      kernels.boundary_sizes(first, second, depth, interior=interior)
      for interior in (False, True)
    )
    return games.by_length(outer), games.by_length(inner)

  # Text and pictures.

  def format(self, state: np.ndarray) -> str:
    """FEN with the raw en-passant square; 'init', 'dead'."""
    if state[FLAGS] == core.DEAD:
      return 'dead'
    return 'init' if state[KNOWN] == BEFORE else fen.format(state)

  def parse(self, text: str) -> np.ndarray:
    """State of a FEN, of moves from the first position, or of a name.

    The names are 'startpos', 'init' (before the start token) and 'dead';
    moves are in UCI or SAN, with or without move numbers.

    Raises:
      InputError: an impossible position, or the ply and move that is illegal.
    """
    words = text.split()
    if words == ['dead']:
      return np.full((1, self._words), core.DEAD, np.int32)
    if words == ['init']:
      return self.init(1)
    if words == ['startpos']:
      return self.opening()
    if words and '/' in words[0]:
      return self.rows(fen.parse(text)[None])
    moves = notation.parse(text, self.origin)
    if not moves.size:
      raise core.InputError(
        f"{text!r} is no state of chess; expected a FEN, 'startpos', or moves "
        'from there in UCI or SAN'
      )
    tokens = np.array([[*self.header, *self._columns[moves]]], np.int32)
    return self.walk(self.init(1), tokens, np.array([tokens.size]))[1]

  def render(self, state: np.ndarray) -> str:
    """The board, the last move on yellow, a king in check on red."""
    if not self.boards(state[None])[0]:
      return svg.card([self.format(state)])
    board = fen.squares(state)
    pieces = {
      square: svg.chessman(fen.PIECES[piece])
      for square, piece in enumerate(board.tolist())
      if piece
    }
    black = int(state[FLAGS]) & 1
    danger = []
    if kernels.in_check(state[None])[0]:
      danger = np.flatnonzero(board == (12 if black else 6)).tolist()
    _, _, rights, passing, clock, number = self.format(state).split()
    doing = 'to move'
    if self.over(state[None])[0]:
      doing = 'is mated' if danger else 'is stalemated'
    note = (
      f'{("White", "Black")[black]} {doing}; rights {rights}, en passant '
      f'{passing}, clock {clock}, move {number}'
    )
    return svg.board(
      8,
      8,
      pieces,
      last=self._last(state),
      danger=danger,
      upwards=True,
      note=note,
    )

  def _last(self, state: np.ndarray) -> list[int]:
    """Squares of the move that led to a state, none where unknown."""
    played = int(state[KNOWN])
    if played < 1:
      return []
    token = self.history(state[None])[0, played - 1]
    return list(divmod(int(self.packed[token]) // 5, 64))

  def from_moves(
    self, packed: np.ndarray, lengths: np.ndarray
  ) -> core.Sequences:
    """See Recorded."""
    used = np.arange(lengths.max(initial=0)) < lengths[:, None]
    tokens = np.zeros((len(lengths), used.shape[1] + 1), np.int32)
    tokens[:, 0] = self.header[0]
    tokens[:, 1:][used] = moves.index(self.vocabulary)[packed]
    return core.Sequences(tokens, lengths + np.int32(1))


class ChessPlay(sampling.Play):
  """Games of a policy; the memory is a state of the world.

  Every legal move has a weight above 0, so that nothing is off its support.
  """

  def __init__(self, world: core.World, policy: str) -> None:
    """policy: as kernels have it, not the uniform one."""
    super().__init__(world)
    self._policy = policy

  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See core.SequenceProcess."""
    tokens, log_probs = super().next(memory)
    # Tokens and packed moves are in one order.
    moves, shares = kernels.chances(memory, self._policy)
    played = moves[:, 0] >= 0
    with np.errstate(divide='ignore'):
      log_probs[played] = np.log(shares[played, : tokens.shape[1]])
    return tokens, log_probs


# Twentieths of the lengths of 13,050 games of at least 20 plies: 9,951 by
# masters (GNU Chess book 1.02), 3,099 rated ones of Lichess; mean 77.
HUMAN = (
  *(20, 32, 39, 45, 49, 54, 59, 62, 66, 70, 74),
  *(78, 81, 84, 89, 95, 102, 110, 120, 134, 327),
)

_SALT = 0x1E47  # Apart from what the games themselves are drawn by.


def human_lengths(seed: int, numbers: np.ndarray) -> np.ndarray:
  """[N] int32 plies, drawn for games by number: the same for each number."""
  share = basics.uniforms(seed, numbers, _SALT)
  steps = np.arange(len(HUMAN)) / (len(HUMAN) - 1)
  return np.interp(share, steps, HUMAN).astype(np.int32)
