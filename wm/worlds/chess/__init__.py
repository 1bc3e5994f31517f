"""Chess: a token is a legal move, the state the position.

A move is legal exactly if the rules of movement allow it in the position:
repetition, the fifty-move rule and dead material end sampled games (`stop`),
but do not make moves illegal. A sequence begins with the start token, which
sets up the board, so counts from there are perft. The state determines all
later legal moves: placement, side to move, castling rights and an en-passant
square if a pawn may legally take (Walker and Lyons 2026, sections 2 and 4, with
states compared as in FIDE's repetition rule).

State words, a row of the kernels and the history behind it:

  0..7  pieces, a nibble a square     9  halfmove clock, fullmove number
  8     side, rights, en-passant     10  moves known in the history; BEFORE
        file after any double push       the start token, UNKNOWN from a FEN
  11..  history, a token of 16 bits a move

all DEAD in a dead state; pieces are 0 before the start token.

Labels are the 75 of the benchmark (Walker and Lyons 2026, section 2.1):

   0..63  squares a8, b8, .. h8, a7, .. h1: 0 empty, 1..6 PNBRQK, 7..12 pnbrqk
      64  side to move              69, 70  en-passant file and rank, 0 none
  65..68  rights K, Q, k, q         71..74  halfmove clock, fullmove number,
                                            a high byte and a low one each

Functions of labels take packed moves [N, L] and numbers of moves [N].
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics, registry
from wm.core.capabilities import Box
from wm.core.fields import field
from wm.kernels import chess as kernels
from wm.kernels.chess import san as chess_san
from wm.worlds.base import games, sampling, svg, verbal
from wm.worlds.chess import notation

HEADS = (13,) * 64 + (2,) * 5 + (9, 3) + (256,) * 4
GROUPS = {
  'board': slice(0, 64),
  'rules': slice(0, 71),
  'counters': slice(71, 75),
}
SIDE, RIGHTS, CLOCK, NUMBER = 64, slice(65, 69), slice(71, 73), slice(73, 75)
_PAWNS, _KINGS = (1, 7), (6, 12)
# Value of each label of a square, in pawns.
VALUES = np.array([0, 1, 3, 3, 5, 9, 0, -1, -3, -3, -5, -9, 0])
WORDS = notation.WORDS
FLAGS, KNOWN = 8, 10  # Words: side, rights, en-passant file; moves known.
BEFORE, UNKNOWN = -2, notation.HISTORY_UNKNOWN
LONGEST = 5_900  # Plies of the longest game under the 75-move rule, about.
MOST_LEAST = 100  # Nearly every random game has more plies.
MOST_SHORT = 1000  # Limit of consecutive games that are too short.
# Limit of dropped games for a known distribution, and the games counted.
MOST_DROPPED, DROPPED_OF = 0.05, 2000
TEXTS = verbal.Texts(__file__)


@dataclasses.dataclass(frozen=True)
class World(core.Labelled, core.Verbal, games.GameWorld, games.RecordedGames):
  """Chess, with random games.

  Attributes:
    vocabulary: tokens of moves: 'compact': each possible move; 'packed': each
      published id, most of which no piece can move.
    length: most plies of a sequence; longer games are cut. The longest
      published random game has 698.
    lengths: earlier cuts of sampled games: 'whole': none, as published;
      'human': at the lengths of human games, so that random games differ from
      human ones in their positions alone.
    stop: end of a sampled game: 'claims': when a player may claim a draw, as
      published; 'automatic': when the arbiter ends the game (fivefold
      repetition, 75 moves, dead material); 'moves': when no move is legal.
    policy: moves that sampled games prefer: 'uniform' as published, or
      'promotions'; see kernels.chess.games. Trials of metrics always draw their
      states from uniform games.
    least: shorter sampled games are dropped and counted; 20 as published. If
      more than 5 % are dropped, as in some endgames, the distribution of games
      is not known; 0 drops none.
    start: FEN of the position that games start from, such as an endgame of a
      few pieces; '' is the standard position. The start token has its name, so
      that data with another start are refused.
    ep: the en-passant label: 'raw': after every double push, as published;
      'legal': only if a pawn may take.
  """

  noun: ClassVar[str] = 'chess'
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
    none, origin = np.zeros((1, 1), np.int32), self.origin[None]
    if self.start and kernels.outcomes(none, none[0], self.stop, origin)[0, 0]:
      raise core.InputError(
        f'chess: start={self.start!r} is a game that has ended, by '
        f'stop={self.stop!r}'
      )

  # Tokens.

  @property
  def vocab(self) -> tuple[str, ...]:
    """'<pad>', moves as UCI writes them by packed id, '<start>' or '<FEN>'."""
    if not self.start:
      return notation.vocab(self.vocabulary)
    name = notation.format_fen(self.origin).replace(' ', '_')
    return notation.vocab(self.vocabulary, f'<{name}>')

  @property
  def max_len(self) -> int:
    """The start token and `length` moves."""
    return self.length + 1

  @functools.cached_property
  def _columns(self) -> np.ndarray:
    """[20480] int32 token of each packed id, DEAD for none."""
    tokens = notation.token_ids(self.vocabulary)
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

  def sequence_process(self, replan: bool) -> core.SequenceProcess:
    """See sampling.UniformPlay.

    The process continues beyond ends that no token marks (`length`, `lengths`,
    `stop`). It includes the dropped short games, so it is off by their share in
    total variation. Uniform games from the standard position have fewer than 20
    plies in .2 % of cases (42 of 20,042), and games of king and queen against
    king in 29 %. Above MOST_DROPPED the distribution counts as unknown.
    """
    if self.policy == 'uniform':
      return super().sequence_process(replan)
    return ChessPlay(self, self.policy)

  def played_otherwise(self) -> str:
    """See sampling.UniformPlay; also a reason if too many games are dropped."""
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
    """Games by number, without games of fewer than `least` plies.

    counts: 'games_dropped_short', number of dropped games before the last.
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
    return kernels.boundary_sizes(first, second, depth)

  # Text and pictures.

  def format(self, state: np.ndarray) -> str:
    """FEN with the raw en-passant square; 'init', 'dead'."""
    if state[FLAGS] == core.DEAD:
      return 'dead'
    return 'init' if state[KNOWN] == BEFORE else notation.format_fen(state)

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
      return self.rows(notation.parse_fen(text)[None])
    moves = notation.parse_moves(text, self.origin)
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
    board = notation.squares(state)
    pieces = {
      square: svg.chessman(notation.PIECES[piece])
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
      svg.Marks(last=self._last(state), danger=danger),
      upwards=True,
      note=note,
    )

  def token_boxes(
    self, state: np.ndarray, tokens: Iterable[int]
  ) -> dict[int, list[Box]]:
    """See core.Written: the square that a move leaves, and its target."""
    if not self.boards(state[None])[0]:
      return {}
    boxes = svg.squares(8, 8, upwards=True)
    return {
      token: [boxes[square] for square in divmod(packed // 5, 64)]
      for token in tokens
      if (packed := int(self.packed[token])) >= 0
    }

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
    """See games.RecordedGames."""
    used = np.arange(lengths.max(initial=0)) < lengths[:, None]
    tokens = np.zeros((len(lengths), used.shape[1] + 1), np.int32)
    tokens[:, 0] = self.header[0]
    tokens[:, 1:][used] = notation.token_ids(self.vocabulary)[packed]
    return core.Sequences(tokens, lengths + np.int32(1))

  def transcribe(
    self, texts: Sequence[str]
  ) -> tuple[list[games.Transcript], dict[str, int]]:
    """See games.Transcribed: SAN or UCI, numbered or not."""
    start = self.vocab[self.header[0]]
    # Corpora of language models begin each game with a semicolon.
    lines = [
      text.removeprefix(start).lstrip('; ').encode() + b'\n' for text in texts
    ]
    data, ends = b''.join(lines), np.cumsum([0, *map(len, lines)])
    read = chess_san.read(data, ends, self.origin)
    tokens = notation.token_ids(self.vocabulary)[read.moves].tolist()
    transcripts = []
    for n, (length, error) in enumerate(
      zip(read.lengths.tolist(), read.errors.tolist(), strict=True)
    ):
      first, last = read.words[n]
      if not length and not error:  # Numbers, or a result alone.
        error, first, last = (
          chess_san.ERRORS.index('unreadable'),
          *ends[n : n + 2],
        )
      fault = data[first:last].decode('utf-8', 'replace').strip()
      row = [*self.header, *tokens[n][:length]]
      transcript = games.Transcript(
        row, fault, chess_san.ERRORS[error] == 'unreadable'
      )
      transcripts.append(transcript)
    return transcripts, {}

  # Labels.

  @functools.cached_property
  def origin(self) -> np.ndarray:
    """[11] int32 position that games start from."""
    if not self.start:
      return kernels.start()
    origin = notation.parse_fen(self.start)
    origin[10] = 0  # Number of moves before it.
    return origin

  @functools.cached_property
  def header(self) -> tuple[int, ...]:
    """The start token."""
    return (notation.start_token(self.vocabulary),)

  @functools.cached_property
  def packed(self) -> np.ndarray:
    """[V] int32 packed id of each token, DEAD for padding and start."""
    return notation.packed_ids(self.vocabulary)

  @property
  def heads(self) -> core.Heads:
    """The benchmark's 75, see above; a probe reads the squares, by colour."""
    board = GROUPS['board']
    return core.Heads(HEADS, GROUPS, probe=board, turn=SIDE, mine=False)

  def labels(self, states: np.ndarray) -> np.ndarray:
    """[B, 75] uint8, `ep` as set; 0 if dead and before the start token."""
    return kernels.labels(states, self.ep)

  def functions(self, states: np.ndarray) -> dict[str, np.ndarray]:
    """'material', the side with more of it, and whether a side is in check.

    'material': 0 black, 1 equal, 2 white; pieces count 9, 5, 3, 3 and 1.
    """
    men = self.labels(states)[:, GROUPS['board']]
    ahead = np.sign(VALUES[men].sum(1))
    return {
      'material': ahead.astype(np.int64) + 1,
      'check': kernels.in_check(states).astype(np.int64),
    }

  def edited(
    self, states: np.ndarray, label: np.ndarray, value: np.ndarray
  ) -> np.ndarray:
    """See core.Labelled.edited: pieces are put on squares and taken from them.

    See `edited_positions`; other labels do not change. A square that a right to
    castle needs, or an en-passant square, stays as it is.
    """
    after = np.full_like(states, core.DEAD)
    on = np.flatnonzero(self.boards(states))
    arguments = states[on, : notation.WORDS], label[on], value[on], self.ep
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

  # In words.

  def token_names(self, style: core.PromptStyle) -> tuple[str, ...]:
    """Moves as UCI writes them."""
    del style
    return (*notation.vocab(self.vocabulary)[:-1], 'begin')

  def rules(self, style: core.PromptStyle) -> str:
    """See core.Verbal; squares keep their names."""
    return TEXTS.render(
      'coordinates',
      fen=notation.format_fen(self.origin),
      rules='\n'.join(TEXTS.lines('coordinates_rules', style)),
    )


# Label of each square, a1 = 0.
SQUARE = (np.arange(64) ^ 56).astype(np.int64)


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
  moves: np.ndarray, lengths: np.ndarray, starts: np.ndarray, origin: np.ndarray
) -> np.ndarray:
  """[N, L + 1, 75] uint8 labels without the rules of special moves.

  A piece moves to the target square and captures any piece there. The side
  changes, moves are counted, and pawn moves and captures reset the clock.
  Castling moves no rook, en passant captures no pawn, pawns are not promoted,
  and rights and en-passant squares never change. Arguments as for
  `after_tokens`.
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


def edited_positions(
  positions: np.ndarray, label: np.ndarray, value: np.ndarray, ep: str
) -> tuple[np.ndarray, np.ndarray]:
  """Positions [B, 11] with pieces 0..12 put on squares.

  Args:
    positions: rows of the chess kernels, each with a board.
    label: [B] label of a square, 0 is a8; other labels leave the position.
    value: [B] the piece, 0 is none.
    ep: convention of the en-passant labels, which do not change.

  Returns:
    positions: [B, 11] int32.
    known: [B] bool, True for possible positions: one king per side; the side
      that is not to move is not in check; no pawn on the first or last rank; no
      more promoted pieces than missing pawns; castling and en passant stay
      possible.
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
  # Without one king a side, or with one to be taken, there is no board, and all
  # labels are 0.
  possible &= (labels == expected).all(-1)
  board, flags = labels[:, :64], after[:, FLAGS]
  for first in (1, 7):  # Pawn, ..., queen of a side.
    pawns, knights, bishops, rooks, queens = (
      board == first + kind for kind in range(5)
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
  # Of the rights K, Q, k and q, bits 1..4 of FLAGS.
  for right, (king, rook) in enumerate(notation.HOMES.values()):
    touched = (square == king) | (square == rook)
    possible &= ~(touched & (flags >> (right + 1) & 1 > 0))
  # The pawn of a double push, and the two squares that it left and passed.
  push = np.where(flags & 1, square // 8 - 1, square // 8 - 4)
  possible &= ~((flags >> 5 == square % 8 + 1) & (push >= 0) & (push < 3))
  return after, possible


class ChessPlay(sampling.Play):
  """Games of a policy; the memory is a state of the world.

  Every legal move has a weight above 0, so that nothing is off its support.
  """

  def __init__(self, world: core.World, policy: str) -> None:
    """policy: name in kernels.chess.games, other than 'uniform'."""
    super().__init__(world)
    self._policy = policy

  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See core.SequenceProcess."""
    tokens, log_probs = super().next(memory)
    # Tokens and packed moves ascend together, so their columns are equal.
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
_SALT = 0x1E47  # Separates this stream from that of the games.


def human_lengths(seed: int, numbers: np.ndarray) -> np.ndarray:
  """[N] int32 plies, drawn for games by number: the same for each number."""
  share = basics.uniforms(seed, numbers, _SALT)
  steps = np.arange(len(HUMAN)) / (len(HUMAN) - 1)
  return np.interp(share, steps, HUMAN).astype(np.int32)
