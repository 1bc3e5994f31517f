"""World: exactly known rules that produce sequences of tokens.

`wm.core.capabilities` has the classes for further abilities of a world.
"""

from __future__ import annotations

import abc
import dataclasses
import hashlib
from typing import Any, NamedTuple

import numpy as np

from wm.core.basics import DEAD, InputError, hash64
from wm.core.resources import Bounded


@dataclasses.dataclass(frozen=True)
class Sequences:
  """Token sequences of one world.

  Attributes:
    tokens: [N, L] int32, padded with PAD.
    lengths: [N] int32, number of tokens of each row without padding.
    side: name -> array [N, ...] of side data, one entry a row.
    counts: cause -> number of sequences that sampling dropped or corrected.
    distinct: whether the sampler guarantees that no sequence occurs twice.
  """

  tokens: np.ndarray
  lengths: np.ndarray
  side: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
  counts: dict[str, int] = dataclasses.field(default_factory=dict)
  distinct: bool = False

  def __post_init__(self) -> None:
    for name, value in (('tokens', self.tokens), ('lengths', self.lengths)):
      if isinstance(value, list | tuple | None):
        raise InputError(
          f'{name} of Sequences are of type {type(value).__name__}; expected '
          'an array of int32, tokens [N, L] and lengths [N]'
        )

  def __len__(self) -> int:
    return len(self.lengths)

  def hashes(self) -> np.ndarray:
    """[N] uint64 hash of each sequence; padding does not change it."""
    mixed = hash64(self.lengths)
    for k, column in enumerate(self.tokens.T):
      rows = np.flatnonzero(k < self.lengths)
      mixed[rows] = hash64(mixed[rows], column[rows])
    return mixed

  def take(self, rows: np.ndarray) -> Sequences:
    """Selects rows by an index or boolean array, side data included."""
    side = {name: array[rows] for name, array in self.side.items()}
    return dataclasses.replace(
      self, tokens=self.tokens[rows], lengths=self.lengths[rows], side=side
    )


class Prefixes(NamedTuple):
  """Prefixes that reach given states.

  Attributes:
    tokens: [T, L] int32, padded with PAD.
    lengths: [T] int32.
    ok: [T] bool, False where no prefix that reaches the state was found.
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

  A world inherits a class of `wm.core.capabilities` for each further ability.
  Callers ask `isinstance(world, core.Labelled)`. A class may set `noun:
  ClassVar[str]`, the words for the world in reports: 'this city'; and `move`,
  what reports call a location and a token: 'street'.
  """

  @property
  @abc.abstractmethod
  def vocab(self) -> tuple[str, ...]:
    """Token strings by id; `vocab[0]` is '<pad>'."""

  @property
  def end(self) -> int:
    """Id of the end token, or DEAD if sequences stop without one."""
    return DEAD

  @property
  @abc.abstractmethod
  def max_len(self) -> int:
    """Length of the longest sequence that `sample` returns, in tokens."""

  @property
  def prompt_len(self) -> int:
    """Number of leading tokens that state the task instead of moves."""
    return 0

  @abc.abstractmethod
  def init(self, batch: int) -> np.ndarray:
    """The initial state, [batch, W] int32."""

  @abc.abstractmethod
  def advance(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """States [B, W] after one token each [B]; dead after an illegal token."""

  @abc.abstractmethod
  def legal(self, states: np.ndarray) -> np.ndarray:
    """[B, V] bool: legal tokens of each state; all False if over or dead."""

  @abc.abstractmethod
  def state_id(self, states: np.ndarray) -> np.ndarray:
    """[B] int64 id, equal exactly for the same states; DEAD for dead ones."""

  @abc.abstractmethod
  def sample(self, num: int, seed: int, split: str = 'all') -> Sequences:
    """Samples `num` legal sequences of a split: 'all', 'train' or 'heldout'.

    The splits 'train' and 'heldout' share no `split_key`. Fewer than `num`
    sequences are returned only if the world has no more.
    """

  def over(self, states: np.ndarray) -> np.ndarray:
    """[B] bool: the state is alive and no token is legal."""
    alive = self.state_id(states) != DEAD
    return alive & ~self.legal(states).any(-1)

  def split_key(self, sequences: Sequences) -> np.ndarray:
    """[N] uint64 key; sequences with equal keys belong to the same split."""
    return sequences.hashes()

  def walk(
    self, states: np.ndarray, tokens: np.ndarray, lengths: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """Follows tokens [B, K] of lengths [B] from states [B, W].

    Returns:
      steps: [B] int32, number of tokens before the first illegal one.
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
  """Hex hash of the token strings in order.

  Worlds with equal hashes can share data.
  """
  return hashlib.sha256('\n'.join(world.vocab).encode()).hexdigest()


_WALKS, _STEPS = 32, 64  # Random walks that compare rules, and their steps.


def rules_hash(world: Any) -> str:
  """Hex hash of a world's vocabulary, lengths and rules.

  The rules are those along random walks; the sampler does not count.
  """
  sizes = world.end, world.max_len, world.prompt_len
  digest = hashlib.sha256(f'{vocab_sha256(world)} {sizes}'.encode())
  draw, states = np.random.default_rng(0), world.init(_WALKS)
  for _ in range(min(_STEPS, world.max_len)):
    legal = world.legal(states)
    digest.update(np.packbits(legal).tobytes())
    alive = legal.any(-1)
    if not alive.any():
      break
    states, legal = states[alive], legal[alive]
    tokens = (draw.random(legal.shape) * legal).argmax(-1).astype(np.int32)
    states = world.advance(states, tokens)
  return digest.hexdigest()[:16]


def same_rules(first: Any, second: Any) -> bool:
  """Whether two worlds have the same vocabulary, length and rules.

  The rules are compared on random walks; the samplers may differ.
  """
  if type(first) is not type(second):
    return False
  return bool(first == second) or rules_hash(first) == rules_hash(second)
