"""Solvers that only answer: is this a valid continuation of that prefix?

Stand-ins for closed language models (Vafa et al. 2024, section 4.2), right or
wrong in ways that can be worked out by hand. They run on any world.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from wm import core
from wm.models.serving import accepting

ERROR, SILENCE = 1, 2


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Yes where the world says so, but for faults of known kind and size.

  Attributes:
    answer: 'world', or 'yes' to every question.
    errors: share of questions that get the wrong answer. Which ones is a hash
      of the seed, the suffix and what `by` says.
    by: 'question': the tokens of the prefix; 'state': the state that they
      reach, so that all prefixes of a state go wrong alike; 'order': as
      'question', but prefixes of ascending tokens never go wrong.
    memory: how many of the last tokens after the prompt it remembers; 0 is
      all. Remembered tokens that are illegal without the others are skipped.
    silent: share of questions that get no answer.
  """

  version: ClassVar[str] = '1'
  gives: ClassVar[tuple[type, ...]] = (accepting.Accepting,)

  answer: str = 'world'
  errors: float = 0.0
  by: str = 'question'
  memory: int = 0
  silent: float = 0.0

  def __post_init__(self) -> None:
    super().__post_init__()
    for field, value, known in (
      ('answer', self.answer, "'world', 'yes'"),
      ('by', self.by, "'question', 'state', 'order'"),
    ):
      if repr(value) not in known.split(', '):
        raise core.InputError(f'solver: {field}={value!r}; available: {known}')
    if not (0 <= self.errors <= 1 and 0 <= self.silent <= 1):
      raise core.InputError(
        f'solver: errors={self.errors}, silent={self.silent}; expected 0 to 1'
      )
    if self.memory < 0:
      raise core.InputError(f'solver: memory={self.memory}; expected >= 0')

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model."""
    solver = _Solver(self, world, seed)
    return accepting.Accepting(
      solver.accepts,
      vocab_size=len(world.vocab),
      end=world.end,
      max_len=world.max_len,
      next_mask=solver.next_mask,
      label='solver',
    )


class _Solver:
  """Reads prefixes, with what memory it has, and answers."""

  def __init__(self, fields: Model, world: core.World, seed: int) -> None:
    self.fields, self.world, self.seed = fields, world, seed

  def accepts(
    self, prefixes: list[tuple[int, ...]], suffixes: list[tuple[int, ...]]
  ) -> np.ndarray:
    """See accepting.Accepting."""
    states, key, wrong = self._read(*_table(prefixes))
    tokens, lengths = _table(suffixes)
    steps, _ = self.world.walk(states, tokens, lengths)
    right = (steps == lengths) | (self.fields.answer == 'yes')
    key = _folded(key, tokens, lengths)
    found = right ^ (wrong & self._hit(key, ERROR, self.fields.errors))
    used = np.arange(tokens.shape[1]) < lengths[:, None]
    found &= ~(used & (tokens == core.PAD)).any(1)
    silent = self._hit(key, SILENCE, self.fields.silent)
    return np.where(silent, core.NO_ANSWER, found).astype(np.int8)

  def next_mask(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See accepting.Accepting."""
    states, key, wrong = self._read(tokens, lengths)
    mask = self.world.legal(states) | (self.fields.answer == 'yes')
    if self.fields.errors or self.fields.silent:
      keys = core.hash64(key[:, None], np.arange(mask.shape[1]))
      mask ^= wrong[:, None] & self._hit(keys, ERROR, self.fields.errors)
      mask &= ~self._hit(keys, SILENCE, self.fields.silent)
    mask[:, core.PAD] = False
    return mask

  def _hit(self, key: np.ndarray, what: int, share: float) -> np.ndarray:
    """Bools of the given share, by hash of the seed, `what` and the key."""
    return core.uniforms(self.seed, key, what) < share

  def _read(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What it makes of prefixes [R, L] of lengths [R].

    Returns:
      states: [R, W] that it takes them for.
      keys: [R] uint64, what the errors are a hash of.
      wrong: [R] bool, may it go wrong here?
    """
    states = self._reached(tokens, lengths)
    if self.fields.by == 'state':
      key = core.hash64(self.world.state_id(states))
    else:
      key = _folded(np.zeros(len(states), np.uint64), tokens, lengths)
    wrong = np.ones(len(states), bool)
    if self.fields.by == 'order':
      within = np.arange(1, tokens.shape[1]) < lengths[:, None]
      wrong &= (within & (np.diff(tokens, axis=1) < 0)).any(1)
    return states, key, wrong

  def _reached(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    states = self.world.init(len(lengths))
    prompt, memory = self.world.prompt_len, self.fields.memory
    for k in range(tokens.shape[1]):
      rows = np.flatnonzero(k < lengths)
      if memory and k >= prompt:
        rows = rows[k >= lengths[rows] - memory]
      after = self.world.advance(states[rows], tokens[rows, k])
      if memory:
        kept = self.world.state_id(after) != core.DEAD
        rows, after = rows[kept], after[kept]
      states[rows] = after
    return states


def _table(rows: list[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
  """Tuples as tokens [N, L] int32, padded with PAD, and lengths [N]."""
  lengths = np.array([len(row) for row in rows], np.int32)
  tokens = np.full((len(rows), int(lengths.max(initial=0))), core.PAD, np.int32)
  for n, row in enumerate(rows):
    tokens[n, : len(row)] = row
  return tokens, lengths


def _folded(
  key: np.ndarray, tokens: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
  """[R] uint64 keys with the tokens [R, L] of each row mixed in."""
  for k, column in enumerate(tokens.T):
    key = np.where(k < lengths, core.hash64(key, column), key)
  return key
