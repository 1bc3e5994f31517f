"""The nouns: World, Sequences, Predictor, Session, Metric and Scores.

  World --sample--> Sequences --train--> Predictor --score--> Scores -> report
    |                                        ^                   ^
    +-------------- as oracle ---------------+                   |
    +-------------- ground truth (legal, state, boundary) -------+

Shape letters: B batch, L length, V vocabulary, D width, H heads, N sequences,
S states, E edges, T trials, M continuations of one prefix, K steps of a
continuation, W words of a state.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

DEAD = -1  # in every table: no such transition; as a token: none.
OPTIMAL_TOLERANCE = 1e-6  # Relative; costs are sums of floats.
PAD = 0  # token id of padding in every vocabulary; never legal.

# How a sampled continuation came to its end.
ENDED, CAPPED, STUCK = 1, 2, 3


class InputError(ValueError):
  """Bad input; its one line says what was given, expected and available."""


def hash64(*words: np.ndarray | int) -> np.ndarray:
  """Mixes integers into uint64 hashes (splitmix64), broadcasting.

  The same on every machine, so splits, seeds and uniforms built on it do not
  depend on batch size, device count or library version.
  """
  mixed = np.uint64(0)
  with np.errstate(over='ignore'):
    for word in words:
      word = np.asarray(word)
      if word.dtype != np.uint64:
        word = word.astype(np.int64).astype(np.uint64)
      x = (mixed ^ word) + np.uint64(0x9E3779B97F4A7C15)
      x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
      x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
      mixed = x ^ (x >> np.uint64(31))
  return np.asarray(mixed)


def uniforms(*words: np.ndarray | int) -> np.ndarray:
  """Uniform float32 in [0, 1), a pure function of the integer `words`."""
  top = (hash64(*words) >> np.uint64(40)).astype(np.float32)
  return top * np.float32(2.0**-24)


@dataclasses.dataclass(frozen=True)
class Sequences:
  """Token sequences of one world.

  Attributes:
    tokens: [N, L] int32, padded with PAD.
    lengths: [N] int32, tokens in use of each row.
    side: named arrays [N, ...] that go with the rows.
    counts: what was dropped or resolved while sampling, cause -> count.
  """

  tokens: np.ndarray
  lengths: np.ndarray
  side: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
  counts: dict[str, int] = dataclasses.field(default_factory=dict)

  def __len__(self) -> int:
    return len(self.lengths)

  def take(self, rows: np.ndarray) -> Sequences:
    """The given rows (index or boolean array), side data included."""
    side = {name: array[rows] for name, array in self.side.items()}
    return Sequences(self.tokens[rows], self.lengths[rows], side, self.counts)


class Prefixes(NamedTuple):
  """Prefixes that reach given states.

  Attributes:
    tokens: [T, L] int32, padded with PAD.
    lengths: [T] int32.
    ok: [T] bool, False where no such prefix was found.
  """

  tokens: np.ndarray
  lengths: np.ndarray
  ok: np.ndarray


class World(abc.ABC):
  """A world with exactly known rules; subclasses are frozen dataclasses.

  States are rows of W int32 words, `[B, W]`, whose meaning the subclass
  documents. `advance` takes an illegal token to a dead state, from which
  nothing is legal. All functions are pure and host-side (NumPy); `tokens`
  hold ids into `vocab`, where id 0 is always padding.
  """

  version: ClassVar[str]

  @property
  def name(self) -> str:
    """Registry name: the module this class is defined in."""
    return type(self).__module__.rsplit('.', 1)[-1]

  @property
  @abc.abstractmethod
  def vocab(self) -> tuple[str, ...]:
    """Token strings by id; `vocab[0]` is '<pad>'."""

  @property
  def end(self) -> int:
    """Id of the end token, or DEAD where sequences just stop."""
    return DEAD

  @property
  @abc.abstractmethod
  def max_len(self) -> int:
    """Longest sequence that `sample` gives, in tokens."""

  @property
  def distinct(self) -> bool:
    """Does one call of `sample` give no sequence twice? Default: it may."""
    return False

  @abc.abstractmethod
  def init(self, batch: int) -> np.ndarray:
    """The initial state, [batch, W] int32."""

  @abc.abstractmethod
  def advance(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """States [B, W] after one token each [B]; dead where it is illegal."""

  @abc.abstractmethod
  def legal(self, states: np.ndarray) -> np.ndarray:
    """[B, V] bool: tokens legal in each state; all False when over or dead."""

  @abc.abstractmethod
  def state_id(self, states: np.ndarray) -> np.ndarray:
    """[B] int64, equal exactly when two states are the same; DEAD if dead."""

  @abc.abstractmethod
  def sample(self, num: int, seed: int, split: str = 'all') -> Sequences:
    """`num` legal sequences; split 'train' and 'heldout' share no `split_key`.

    Fewer than `num` come back only where the world has no more of them.
    """

  @abc.abstractmethod
  def sample_states(self, num: int, seed: int) -> np.ndarray:
    """[num, W] states as a metric's trials draw them, i.i.d."""

  @abc.abstractmethod
  def prefix_moves(self, states: np.ndarray) -> np.ndarray:
    """[T, 2] int32: least and most moves of a prefix that reaches the state.

    A row with most < least has no prefix.
    """

  @abc.abstractmethod
  def sample_prefixes(
    self, states: np.ndarray, moves: np.ndarray, seeds: np.ndarray
  ) -> Prefixes:
    """One random prefix of moves[t] moves that ends in states[t], each t."""

  @abc.abstractmethod
  def parse_state(self, text: str) -> np.ndarray:
    """[1, W] state from its written form; raises InputError."""

  @abc.abstractmethod
  def format_state(self, state: np.ndarray) -> str:
    """Written form of one state [W]."""

  @abc.abstractmethod
  def boundary(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> list[list[tuple[int, ...]]]:
    """Exact Myhill-Nerode boundaries of state pairs, to a length bound.

    Element t holds the minimal suffixes (token tuples of length <= depth)
    legal from first[t] and not from second[t], in lexicographic order of
    tokens, shorter ones first (Vafa et al. 2024, Def. 2.4).
    """

  @abc.abstractmethod
  def count(self, state: np.ndarray, depth: int) -> list[int]:
    """Number of legal token sequences of lengths 1..depth from state [W]."""

  # What a world may refine; the defaults suit any world.

  def key(self, sequences: Sequences) -> np.ndarray:
    """[N] uint64 split key; sequences with one key go to one split."""
    mixed = hash64(sequences.lengths)
    for k, column in enumerate(sequences.tokens.T):
      used = k < sequences.lengths  # Not padding, which is up to the batch.
      mixed = np.where(used, hash64(mixed, column), mixed)
    return mixed

  def walk(
    self, states: np.ndarray, tokens: np.ndarray, lengths: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """Follows tokens [B, K] of given lengths [B] from states [B, W].

    Returns:
      steps: [B] int32, tokens followed before the first illegal one.
      states: [B, W] after these steps.
    """
    states = np.array(states)
    steps = np.zeros(len(states), np.int32)
    alive = np.ones(len(states), bool)
    for k in range(tokens.shape[1]):
      rows = np.flatnonzero(alive & (k < lengths))
      if not rows.size:
        break
      after = self.advance(states[rows], tokens[rows, k])
      ok = self.state_id(after) != DEAD
      alive[rows[~ok]] = False
      states[rows[ok]] = after[ok]
      steps[rows[ok]] += 1
    return steps, states

  def completable(self, states: np.ndarray, budget: np.ndarray) -> np.ndarray:
    """[B, V] bool: legal tokens after which a sequence can still complete.

    budget: [B] int32, tokens left, this one included. For detours (Vafa et
    al. 2024, section 4). Default: every legal token.
    """
    del budget
    return self.legal(states)

  def complete(self, states: np.ndarray) -> np.ndarray:
    """[B] bool: a sequence may stop here. Default: over after `end`, or any
    living state of a world without `end`."""
    alive = self.state_id(states) != DEAD
    if self.end == DEAD:
      return alive
    return alive & ~self.legal(states).any(-1)

  def prompt_len(self) -> int:
    """Tokens at the start of a sequence that state the task, not moves."""
    return 0

  def probe_labels(self, states: np.ndarray) -> np.ndarray:
    """[B] int64 class that a linear probe reads out; default the state id."""
    return self.state_id(states)

  def tags(self, states: np.ndarray) -> dict[str, np.ndarray]:
    """Named columns [B] by which results are broken down."""
    del states
    return {}

  def cost(self, sequences: Sequences) -> np.ndarray:
    """[N] float64 cost of each legal sequence (maps: metres); default NaN."""
    return np.full(len(sequences), np.nan)

  def optimal_cost(self, sequences: Sequences) -> np.ndarray:
    """[N] float64 least cost of the same task; default NaN."""
    return np.full(len(sequences), np.nan)

  def optimal(self, sequences: Sequences) -> dict[str, np.ndarray]:
    """Named criteria [N] bool by which a sequence is as good as any.

    Default: 'least' where `cost` is `optimal_cost`, to OPTIMAL_TOLERANCE.
    """
    best = self.optimal_cost(sequences) * (1 + OPTIMAL_TOLERANCE)
    return {'least': self.cost(sequences) <= best}

  def judge(self, sequences: Sequences) -> np.ndarray:
    """[N] str: is each whole sequence in the language, and if not, why.

    'valid'; 'bad_header', an illegal token in the prompt; 'path_fail',
    another illegal token; 'dest_fail', an illegal end token; 'no_end';
    'tokens_after_end'. The first failure decides (Vafa et al. 2024, section
    3).
    """
    tokens, lengths = sequences.tokens, sequences.lengths
    num = len(sequences)
    steps, states = self.walk(self.init(num), tokens, lengths)
    last = np.minimum(steps, tokens.shape[1] - 1)
    refused = tokens[np.arange(num), last]
    complete = self.complete(states)
    ended = complete & (self.end != DEAD)
    failed = steps < lengths
    return np.select(
      [
        failed & (steps < self.prompt_len()),
        failed & ended,
        failed & (refused == self.end),
        failed,
        ~complete,
      ],
      ['bad_header', 'tokens_after_end', 'dest_fail', 'path_fail', 'no_end'],
      'valid',
    )

  def boundary_sizes(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> list[int]:
    """Sizes of one pair's boundary [W], to each length bound 1..depth."""
    lengths = [
      len(s) for s in self.boundary(first[None], second[None], depth)[0]
    ]
    return [sum(n <= k for n in lengths) for k in range(1, depth + 1)]

  def automaton(self) -> Automaton | None:
    """The finite table behind this world, or None."""
    return None


class Automaton(NamedTuple):
  """A finite table that compiled kernels run on.

  A state is (row, goal): labels move the row; the world's end token is legal
  exactly where row == goal. A world without such goals uses goal = -2.

  Attributes:
    delta: [S, A] int32, next row, or DEAD.
    tokens: [A] int32, token id of each label, ascending.
  """

  delta: np.ndarray
  tokens: np.ndarray


class Session(abc.ABC):
  """B prefixes, each with M continuations under way, advanced in step.

  Rows are independent: what a row gives does not depend on the others, on B,
  or on the number of devices. `restart` puts a new prefix in a row so that
  batches stay full as trials are decided.
  """

  @abc.abstractmethod
  def log_probs(self) -> np.ndarray:
    """[B, M, V] float32: log-probability of each next token, in nats."""

  @abc.abstractmethod
  def advance(
    self, tokens: np.ndarray, parents: np.ndarray | None = None
  ) -> None:
    """Appends tokens [B, M]; DEAD leaves a continuation as it was.

    parents: [B, M] index of the continuation each one goes on from (default:
    itself), for searches that branch.
    """

  @abc.abstractmethod
  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """Gives rows [R] the prefixes [R, L] of lengths [R], nothing appended."""

  def draw(self, accept: Any, uniform: np.ndarray) -> np.ndarray:
    """[B, M] int32 tokens drawn from the accepted ones, renormalised.

    uniform: [B, M] float32 in [0, 1); the token whose cumulative mass first
    exceeds it, in order of id, is taken. DEAD where nothing is accepted.
    """
    log_probs = np.asarray(self.log_probs())
    return accept.draw(log_probs, uniform)

  def accepted(self, accept: Any, tokens: np.ndarray) -> np.ndarray:
    """[B, M] bool: is each token [B, M] accepted next? DEAD never is."""
    mask = np.asarray(accept.mask(np.asarray(self.log_probs())))
    taken = np.take_along_axis(mask, np.maximum(tokens, 0)[..., None], -1)
    return taken[..., 0] & (tokens != DEAD)


class Predictor(abc.ABC):
  """Anything that gives next-token probabilities.

  Attributes:
    vocab_size: V.
    end: id of the end token, or DEAD.
    max_len: longest sequence, in tokens, that it was made for.
  """

  vocab_size: int
  end: int
  max_len: int

  @abc.abstractmethod
  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[B, L, V] float32: log p(next | tokens[:, :t + 1]) at each t.

    tokens: [B, L] int32; lengths: [B]. Positions t >= lengths are undefined.
    """

  @abc.abstractmethod
  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> Session:
    """A session with `num` continuations of each prefix [B, L]."""

  def hidden(
    self, tokens: np.ndarray, lengths: np.ndarray, layer: int
  ) -> np.ndarray | None:
    """[B, L, D] float32 activations after `layer` (-1 the last, final norm
    included); None where the predictor has none."""
    del tokens, lengths, layer
    return None

  def untrained(self, seed: int) -> Predictor | None:
    """The same model with random weights, a control; None if it has none."""
    del seed
    return None


class Samples(NamedTuple):
  """Sampled continuations.

  Attributes:
    tokens: [B, M, K] int32, padded with PAD; the end token is included.
    lengths: [B, M] int32.
    status: [B, M] int8: ENDED, CAPPED (no token budget left) or STUCK
      (nothing was accepted).
  """

  tokens: np.ndarray
  lengths: np.ndarray
  status: np.ndarray


def sample(
  predictor: Predictor,
  prefixes: np.ndarray,
  lengths: np.ndarray,
  *,
  num: int,
  max_len: int,
  seeds: np.ndarray,
  accept: Any,
) -> Samples:
  """Samples `num` continuations of each prefix, temperature 1.

  Args:
    predictor: what to sample from.
    prefixes: [B, L] int32.
    lengths: [B] int32.
    num: continuations a prefix, M.
    max_len: total tokens, prefix included, at which sampling is capped.
    seeds: [B] integers; row b depends on seeds[b] alone.
    accept: rule from `wm.accept`; only accepted tokens are drawn, with
      probabilities renormalised over them.
  """
  batch, budget = len(lengths), max_len - np.asarray(lengths)
  steps = max(int(budget.max(initial=0)), 0)
  tokens = np.zeros((batch, num, steps), np.int32)
  count = np.zeros((batch, num), np.int32)
  status = np.zeros((batch, num), np.int8)
  status[budget <= 0] = CAPPED
  session = predictor.session(prefixes, lengths, num)
  branch = np.arange(num)[None]
  for k in range(steps):
    drawn = session.draw(accept, uniforms(seeds[:, None], branch, k))
    drawn = np.where(status == 0, drawn, DEAD)
    status[(status == 0) & (drawn == DEAD)] = STUCK
    moved = drawn != DEAD
    tokens[..., k] = np.where(moved, drawn, PAD)
    count += moved
    status[moved & (drawn == predictor.end)] = ENDED
    status[moved & (status == 0) & (k + 1 >= budget)[:, None]] = CAPPED
    if status.all():
      break
    session.advance(np.where(status == 0, drawn, DEAD))
  return Samples(tokens, count, status)


def accepted_steps(
  predictor: Predictor,
  prefixes: np.ndarray,
  lengths: np.ndarray,
  suffixes: np.ndarray,
  suffix_lengths: np.ndarray,
  accept: Any,
) -> np.ndarray:
  """[B, M] int32: tokens of each suffix accepted before the first refusal.

  prefixes: [B, L], lengths: [B], suffixes: [B, M, K], suffix_lengths: [B, M].
  A suffix is in the model's language exactly when this equals its length.
  """
  batch, num, longest = suffixes.shape
  steps = np.zeros((batch, num), np.int32)
  alive = suffix_lengths > 0
  session = predictor.session(prefixes, lengths, num)
  for k in range(longest):
    tokens = np.where(alive, suffixes[..., k], DEAD)
    alive &= session.accepted(accept, tokens)
    steps += alive
    alive &= k + 1 < suffix_lengths
    if not alive.any():
      break
    session.advance(np.where(alive, tokens, DEAD))
  return steps


@dataclasses.dataclass(frozen=True)
class Scores:
  """One quantity of one metric, a row per trial; derived numbers are not kept.

  Attributes:
    quantity: what `value` is, e.g. 'precision'.
    value: [T] float64; NaN where not measured.
    reason: [T] str, '' where measured, else why not.
    group: [T] int64, trials that share it are dependent (clustered errors).
    weight: [T] float64, the score is sum(weight * value) / sum(weight).
    columns: named side columns [T].
    counts: events that are no row of their own (resamples by cause).
    bounds: least and greatest value possible, or None where unbounded.
  """

  quantity: str
  value: np.ndarray
  reason: np.ndarray
  group: np.ndarray
  weight: np.ndarray
  columns: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
  counts: dict[str, int] = dataclasses.field(default_factory=dict)
  bounds: tuple[float, float] | None = (0.0, 1.0)

  @property
  def measured(self) -> np.ndarray:
    """[T] bool."""
    return self.reason == ''


def scores(
  quantity: str,
  value: Sequence[float] | np.ndarray,
  *,
  reason: Sequence[str] | np.ndarray | None = None,
  group: np.ndarray | None = None,
  weight: np.ndarray | None = None,
  columns: dict[str, np.ndarray] | None = None,
  counts: dict[str, int] | None = None,
  bounds: tuple[float, float] | None = (0.0, 1.0),
) -> Scores:
  """Scores with defaults filled in: all measured, every row its own group."""
  value = np.asarray(value, np.float64)
  num = len(value)
  reason = np.full(num, '') if reason is None else np.asarray(reason, str)
  return Scores(
    quantity=quantity,
    value=np.where(reason == '', value, np.nan),
    reason=reason,
    group=np.arange(num) if group is None else np.asarray(group, np.int64),
    weight=np.ones(num) if weight is None else np.asarray(weight, np.float64),
    columns=dict(columns or {}),
    counts=dict(counts or {}),
    bounds=bounds,
  )


class Metric(abc.ABC):
  """A measurement; subclasses are frozen dataclasses of its parameters."""

  version: ClassVar[str]
  needs: ClassVar[tuple[str, ...]] = ()  # e.g. ('hidden',), ('cost',)
  headline: ClassVar[tuple[str, ...]] = ()  # Quantities of the main table.

  @property
  def name(self) -> str:
    """Registry name: the module this class is defined in."""
    return type(self).__module__.rsplit('.', 1)[-1]

  @abc.abstractmethod
  def __call__(
    self, predictor: Predictor, world: World, seed: int
  ) -> tuple[Scores, ...]:
    """Runs the trials; one Scores for each quantity."""


class Model(abc.ABC):
  """A spec that becomes a predictor; subclasses are frozen dataclasses."""

  version: ClassVar[str]

  @property
  def name(self) -> str:
    """Registry name: the module this class is defined in."""
    return type(self).__module__.rsplit('.', 1)[-1]

  @abc.abstractmethod
  def predictor(self, world: World, seed: int) -> Predictor:
    """The predictor before any training (random weights for networks)."""
