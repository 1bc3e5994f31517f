"""World: exactly known rules."""

from __future__ import annotations

import abc
import html
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from wm.core.basics import DEAD, OPTIMAL_TOLERANCE, hash64, plug_in_name
from wm.core.boundary import Boundary, interior_sizes
from wm.core.sequences import Automaton, Prefixes, Sequences


class World(abc.ABC):
  """A world with exactly known rules; subclasses are frozen dataclasses.

  States are rows of W int32 words, `[B, W]`, whose meaning the subclass
  documents. `advance` takes an illegal token to a dead state, from which
  nothing is legal. All functions are pure and host-side (NumPy); `tokens`
  hold ids into `vocab`, where id 0 is always padding.
  """

  version: ClassVar[str]
  # Longest suffix of an exact boundary that metrics ask for by default.
  boundary_depth: ClassVar[int] = 5

  @property
  def name(self) -> str:
    """Registry name, see `plug_in_name`."""
    return plug_in_name(type(self))

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
  ) -> Boundary:
    """Exact Myhill-Nerode boundaries of state pairs, to a length bound.

    Of pair t the minimal suffixes, of at most `depth` tokens, legal from
    first[t] and not from second[t] (Vafa et al. 2024, Def. 2.4).

    first, second: [T, W] states.
    """

  @abc.abstractmethod
  def count(self, state: np.ndarray, depth: int) -> list[int]:
    """Number of legal token sequences of lengths 1..depth from state [W]."""

  # What a world may refine; the defaults suit any world.

  def options(self, states: np.ndarray) -> np.ndarray:
    """[B, K] int32: the tokens legal in each state, ascending; DEAD is none.

    What `legal` says, for worlds of many tokens that know the few legal ones.
    """
    row, token = np.nonzero(self.legal(states))
    sizes = np.bincount(row, minlength=len(states))
    place = np.arange(len(row)) - (np.cumsum(sizes) - sizes)[row]
    found = np.full((len(states), sizes.max(initial=1)), DEAD, np.int32)
    found[row, place] = token
    return found

  def soonest(self, states: np.ndarray, options: np.ndarray) -> np.ndarray:
    """[B, K] bool: options on the way to the soonest completion.

    All False where a sequence of the world's length cannot complete. Where the
    world does not say what can complete, all legal tokens.

    options: [B, K] of the states [B, W].
    """
    low = np.ones(len(states), np.int32)
    high = np.full(len(states), self.max_len, np.int32)
    while (low < high).any():  # The least budget that leaves any token.
      middle = (low + high) // 2
      enough = self.completable(states, middle).any(-1)
      high = np.where(enough, middle, high)
      low = np.where(enough, low, np.minimum(middle + 1, high))
    kept = self.completable(states, low)
    legal = np.take_along_axis(kept, np.maximum(options, 0), -1)
    return legal & (options != DEAD)

  def counts(self, state: np.ndarray, depth: int) -> Iterator[int]:
    """What `count` gives, one length at a time, as they are known.

    Default: all at the end, as where work does not grow with the counts.
    """
    yield from self.count(state, depth)

  def canonical(self, states: np.ndarray) -> np.ndarray:
    """[B, K] int32: the words that make a state what it is; default all.

    Equal exactly where `state_id` is. A game leaves out the moves that led
    to a position.
    """
    return states

  def over(self, states: np.ndarray) -> np.ndarray:
    """[B] bool: alive, and nothing is legal any more."""
    alive = self.state_id(states) != DEAD
    return alive & ~self.legal(states).any(-1)

  def render(self, state: np.ndarray) -> str:
    """SVG picture of one state [W]; default: its written form."""
    text = html.escape(self.format_state(state))
    return (
      '<svg xmlns="http://www.w3.org/2000/svg" width="360" height="48">'
      f'<text x="8" y="30" font-family="monospace" font-size="14">{text}'
      '</text></svg>'
    )

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
    if self.end == DEAD:
      return self.state_id(states) != DEAD
    return self.over(states)

  def prompt_len(self) -> int:
    """Tokens at the start of a sequence that state the task, not moves."""
    return 0

  def probe_labels(self, states: np.ndarray) -> np.ndarray:
    """[B] int64 class that a linear probe reads out; default the state id."""
    return self.state_id(states)

  def questions(self, num: int, seed: int) -> Sequences:
    """Sequences after which one of some tokens is legal; default: none.

    side: 'choices' [N, C] int32 tokens and 'answer' [N], the legal one.
    """
    del num, seed
    no = np.zeros((0, 1), np.int32)
    return Sequences(no, no[:, 0], {'choices': no, 'answer': no[:, 0]})

  # The whole state as labels, for models that are trained to give it.

  @property
  def state_heads(self) -> tuple[int, ...]:
    """Number of classes of each of the K labels of a state; default: none.

    Together the labels tell states apart (Walker and Lyons 2026, section 2).
    """
    return ()

  @property
  def state_groups(self) -> dict[str, slice]:
    """Named runs of labels that results are told apart by; default: none."""
    return {}

  def state_labels(self, states: np.ndarray) -> np.ndarray:
    """[B, K] labels of states, of type `state_dtype`; 0 in a dead state."""
    return np.zeros((len(states), 0), self.state_dtype)

  @property
  def state_dtype(self) -> np.dtype:
    """Least type of unsigned integers that holds every label."""
    return np.min_scalar_type(max(self.state_heads, default=1) - 1)

  def sequence_labels(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> np.ndarray:
    """[N, L, K] labels after each token of sequences [N, L]; a pure function.

    0 past a sequence's length [N] and from its first illegal token on.
    """
    shape = (*tokens.shape, len(self.state_heads))
    labels = np.zeros(shape, self.state_dtype)
    rows, states = np.arange(len(tokens)), self.init(len(tokens))
    for k in range(tokens.shape[1]):
      going = k < np.asarray(lengths)[rows]
      rows, states = rows[going], states[going]
      states = self.advance(states, tokens[rows, k])
      alive = self.state_id(states) != DEAD
      rows, states = rows[alive], states[alive]
      if not rows.size:
        break
      labels[rows, k] = self.state_labels(states)
    return labels

  def naive_labels(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> np.ndarray | None:
    """Labels as `sequence_labels`, from what tokens say without the rules.

    A baseline without learning; None, the default, where there is none.
    """
    del tokens, lengths
    return None

  def move_tags(self, sequences: Sequences) -> dict[str, np.ndarray]:
    """Named kinds of token [N, L] bool that are scored apart; default: none."""
    del sequences
    return {}

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

  def facts(self) -> dict[str, int]:
    """Counts about what the world was made from: its size, what of its files
    was dropped or resolved, by cause. Default: none."""
    return {}

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
    found = self.boundary(first[None], second[None], depth)
    sizes = np.bincount(found.lengths, minlength=depth + 1)
    return np.cumsum(sizes)[1:].tolist()

  def interior_sizes(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> list[int]:
    """Suffixes legal from both states [W], to each length bound 1..depth.

    Exact (Vafa et al. 2024, Def. 2.3).
    """
    return interior_sizes(self, first, second, depth)

  def automaton(self) -> Automaton | None:
    """The finite table behind this world, or None."""
    return None
