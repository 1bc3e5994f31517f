"""Sampling: splits of sequences, endless lists of sequences, and random play.

In random play each token is uniform over the legal ones until the world is
over.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from wm import core
from wm.core import basics, inputs, registry

SPLITS = 'all', 'train', 'heldout'
# One key in HELDOUT is held out (or `parts` of them), for all sampling seeds.
HELDOUT, SALT = 20, 0x5EED
# Tokens played at a time, to bound memory; results do not depend on it.
CHUNK_TOKENS = 1 << 23


def check_split(split: str) -> None:
  """Raises InputError for an unknown split."""
  inputs.check_known(split, SPLITS, f'unknown split {split!r}')


def in_split(key: np.ndarray, split: str, parts: int = 1) -> np.ndarray:
  """[N] bool: True for keys in a split; `parts` in HELDOUT are held out."""
  check_split(split)
  if split == 'all':
    return np.ones(len(key), bool)
  # Decided by the key, so that no seed moves a sequence between splits.
  held = basics.hash64(key, SALT) % np.uint64(HELDOUT) < parts
  return held == (split == 'heldout')


def drawn(legal: np.ndarray, uniform: np.ndarray) -> np.ndarray:
  """[B] tokens drawn uniformly from legal [B, V]; DEAD if none is legal."""
  count = legal.sum(-1)
  # A uniform number next to 1 can round up to `count`.
  place = np.minimum((uniform * count).astype(np.int64), count - 1)
  token = (np.cumsum(legal, axis=-1) > place[:, None]).argmax(-1)
  return np.where(count > 0, token, core.DEAD)


def picks(seed: int, num: int, size: int) -> np.ndarray:
  """[num] int64, uniform over 0..size - 1; entry n depends on (seed, n)."""
  words = basics.hash64(seed, np.arange(num)) % np.uint64(size)
  return words.astype(np.int64)


def normalised(
  mass: np.ndarray, tokens: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """The result of `core.SequenceProcess.next`, from masses [B, K] of tokens.

  tokens: [B, K], or [K] for all rows. A row without mass has no token.
  """
  total = np.maximum(mass.sum(-1, keepdims=True), np.finfo(float).tiny)
  with np.errstate(divide='ignore'):  # The logarithm of no mass is -inf.
    log_probs = np.log(mass / total)
  return np.where(mass > 0, tokens, core.DEAD).astype(np.int32), log_probs


def stream(
  world: core.World,
  num: int,
  seed: int,
  split: str,
  play: Callable[[np.ndarray], np.ndarray | core.Sequences] | None = None,
) -> core.Sequences:
  """The first `num` sequences of a split, from an endless random list.

  Sequence n of the list depends on (seed, n) alone.

  play: numbers [N] -> tokens [N, max_len] of these sequences, or Sequences with
    side data; default random play: each token uniform over the legal ones, to
    `max_len` or over.
  """
  play = play or functools.partial(played, world, seed)
  length = world.max_len
  rate = {'train': 1 - 1 / HELDOUT, 'heldout': 1 / HELDOUT}.get(split, 1.0)
  batches: list[core.Sequences] = []
  # A small world may have no sequence of a split: the search has an end.
  have, first, limit = 0, 0, 2**16 + 400 * num
  check_split(split)
  while (have < num and first < limit) or not batches:
    # One percent more than expected, so that few rounds are needed.
    asked = int((num - have) / rate * 1.01) + 8
    asked = min(asked, max(CHUNK_TOKENS // length, 1))
    batch = play(np.arange(first, first + asked))
    if not isinstance(batch, core.Sequences):
      lengths = (batch != core.PAD).sum(-1).astype(np.int32)
      batch = core.Sequences(batch, lengths)
    first += asked
    rows = in_split(world.split_key(batch), split)
    batches.append(batch if rows.all() else batch.take(rows))
    have += len(batches[-1])
  return joined(batches, num)


def joined(batches: Sequence[core.Sequences], num: int) -> core.Sequences:
  """The first `num` sequences of batches of one width."""
  tokens, lengths = (
    np.concatenate([getattr(batch, name) for batch in batches])[:num]
    for name in ('tokens', 'lengths')
  )
  side = {
    name: np.concatenate([batch.side[name] for batch in batches])[:num]
    for name in batches[0].side
  }
  return core.Sequences(tokens, lengths, side)


def played(world: core.World, seed: int, numbers: np.ndarray) -> np.ndarray:
  """[N, max_len] tokens of random play: sequences `numbers` of the seed."""
  tokens = np.zeros((len(numbers), world.max_len), np.int32)
  states = world.init(len(numbers))
  for k in range(world.max_len):
    token = drawn(world.legal(states), basics.uniforms(seed, numbers, k))
    going = token != core.DEAD
    if not going.any():
      break
    tokens[going, k] = token[going]
    after = world.advance(states, np.maximum(token, 0))
    states = np.where(going[:, None], after, states)
  return tokens


class UniformPlay(core.Generative):
  """A world whose samples are random play, to `max_len` or until it is over.

  A world with another known distribution overrides `sequence_process`.
  """

  def sequence_process(self, replan: bool) -> core.SequenceProcess:
    """The distribution of samples; see core.Generative.data_distribution."""
    del replan  # Random play continues in the same way from any state.
    return Play(self)

  def played_otherwise(self) -> str:
    """Reason why the distribution of samples is not known, or ''."""
    return ''

  def data_distribution(self, replan: bool = False) -> core.SequenceProcess:
    """See core.Generative."""
    if why := self.played_otherwise():
      raise core.InputError(f'{registry.spec(self)}: {why}')
    return self.sequence_process(replan)


class Play(core.SequenceProcess):
  """Random play; the memory is a state of the world.

  The process continues after `max_len` tokens, where samples are cut: legal
  tokens follow the last token.
  """

  def __init__(self, world: core.World) -> None:
    """world: world whose legal tokens are played."""
    self._world = world

  def init(self, batch: int) -> np.ndarray:
    """See core.SequenceProcess."""
    return self._world.init(batch)

  def advance(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.SequenceProcess."""
    return self._world.advance(memory, tokens.astype(np.int32))

  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See core.SequenceProcess."""
    legal = self._world.legal(memory)
    count = legal.sum(1)
    rows, token = np.nonzero(legal)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    tokens = np.full((len(legal), int(count.max(initial=0))), core.DEAD)
    tokens[rows, place] = token
    share = -np.log(np.maximum(count, 1))[:, None]
    log_probs = np.where(tokens != core.DEAD, share, -np.inf)
    return tokens.astype(np.int32), log_probs
