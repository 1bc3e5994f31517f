"""World: exactly known rules, and the sequences that it gives.

What else a world can do: `capabilities`.
"""

from __future__ import annotations

import abc
import dataclasses
import hashlib
from typing import Any, ClassVar, NamedTuple

import numpy as np

from wm.core.basics import DEAD, hash64, plug_in_name
from wm.core.resources import Bounded


@dataclasses.dataclass(frozen=True)
class Sequences:
  """Token sequences of one world.

  Attributes:
    tokens: [N, L] int32, padded with PAD.
    lengths: [N] int32, tokens in use of each row.
    side: named arrays [N, ...] that go with the rows.
    counts: what was dropped or resolved while sampling, cause -> count.
    distinct: no sequence is there twice, by the way that it was sampled.
  """

  tokens: np.ndarray
  lengths: np.ndarray
  side: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
  counts: dict[str, int] = dataclasses.field(default_factory=dict)
  distinct: bool = False

  def __len__(self) -> int:
    return len(self.lengths)

  def hashes(self) -> np.ndarray:
    """[N] uint64 of whole sequences, the same whatever they are padded to."""
    mixed = hash64(self.lengths)
    for k, column in enumerate(self.tokens.T):
      rows = np.flatnonzero(k < self.lengths)
      mixed[rows] = hash64(mixed[rows], column[rows])
    return mixed

  def take(self, rows: np.ndarray) -> Sequences:
    """The given rows (index or boolean array), side data included."""
    side = {name: array[rows] for name, array in self.side.items()}
    return dataclasses.replace(
      self, tokens=self.tokens[rows], lengths=self.lengths[rows], side=side
    )


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


class World(Bounded, abc.ABC):
  """A world with exactly known rules; subclasses are frozen dataclasses.

  States are rows of W int32 words, `[B, W]`, whose meaning the subclass
  documents. `advance` takes an illegal token to a dead state, from which
  nothing is legal. All functions are pure and host-side (NumPy); `tokens`
  hold ids into `vocab`, where id 0 is always padding.

  A world inherits a class of `wm.core.capabilities` for each thing that it can
  do beyond this. Callers ask `isinstance(world, core.Labelled)`. A class may
  have a `noun: ClassVar[str]`, which reports call it by: 'this city'.
  """

  # Counts up when it gives other results.
  version: ClassVar[str] = '1'

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
  def prompt_len(self) -> int:
    """Tokens at the start of a sequence that state the task, not moves."""
    return 0

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

  def over(self, states: np.ndarray) -> np.ndarray:
    """[B] bool: alive, and nothing is legal any more."""
    alive = self.state_id(states) != DEAD
    return alive & ~self.legal(states).any(-1)

  def split_key(self, sequences: Sequences) -> np.ndarray:
    """[N] uint64; sequences with the same key belong to the same split."""
    return sequences.hashes()

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


def vocab_sha256(world: World) -> str:
  """Hex hash of the token strings in order; worlds of equal hash share data."""
  return hashlib.sha256('\n'.join(world.vocab).encode()).hexdigest()


_WALKS, _STEPS = 32, 64  # By which rules are compared.


def same_rules(first: Any, second: Any, seed: int = 0) -> bool:
  """Whether two worlds have one vocabulary, one length and the same rules.

  The rules are compared on random walks, whoever samples the sequences.
  """
  sizes = [(w.vocab, w.end, w.max_len, w.prompt_len) for w in (first, second)]
  if type(first) is not type(second) or sizes[0] != sizes[1]:
    return False
  if first == second:
    return True
  draw = np.random.default_rng(seed)
  states, others = first.init(_WALKS), second.init(_WALKS)
  for _ in range(min(_STEPS, first.max_len)):
    legal = first.legal(states)
    if not np.array_equal(legal, second.legal(others)):
      return False
    alive = legal.any(-1)
    if not alive.any():
      break
    states, others, legal = states[alive], others[alive], legal[alive]
    tokens = (draw.random(legal.shape) * legal).argmax(-1).astype(np.int32)
    states, others = (
      first.advance(states, tokens),
      second.advance(others, tokens),
    )
  return True
