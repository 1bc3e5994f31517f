"""Solvers that only answer whether a continuation of a prefix is valid.

They replace closed language models (Vafa et al. 2024, section 4.2) in any
world, with errors whose effect can be derived by hand.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics, queries
from wm.core.fields import field
from wm.core.predictor import Tokens
from wm.models.serving import stateless

ERROR, SILENCE = 1, 2


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Answers correctly except for errors of known kind and size.

  Attributes:
    answer: 'world' follows the rules; 'yes' answers every question with yes.
    errors: share of wrong answers, chosen by a hash of the seed, the suffix and
      the key `by`.
    by: 'question': the tokens of the prefix. 'state': the state after the
      prefix, so that all prefixes of a state have equal errors.
    memory: number of remembered tokens, the last ones after the prompt; 0 is
      all. Remembered tokens that are illegal without the others are skipped.
    silent: share of questions without an answer.
  """

  gives: ClassVar[tuple[type, ...]] = (stateless.Accepting,)

  answer: str = field('world', choices=('world', 'yes'))
  errors: float = field(0.0, least=0, most=1)
  by: str = field('question', choices=('question', 'state'))
  memory: int = field(0, least=0)
  silent: float = field(0.0, least=0, most=1)

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model."""
    return Solver(self, world, seed)


class Solver(stateless.Accepting):
  """Reads the remembered tokens of prefixes, and answers."""

  def __init__(self, fields: Model, world: core.World, seed: int) -> None:
    """fields: kinds of errors; seed: of the choice of wrong answers."""
    super().__init__(
      self._accepted,
      vocab_size=len(world.vocab),
      end=world.end,
      max_len=world.max_len,
      label='solver',
    )
    self.fields, self.world, self.seed = fields, world, seed

  def _accepted(
    self, prefixes: list[Tokens], suffixes: list[Tokens]
  ) -> np.ndarray:
    states, key = self._read(*queries.table(prefixes))
    tokens, lengths = queries.table(suffixes)
    steps, _ = self.world.walk(states, tokens, lengths)
    # A suffix is valid if `walk` took all of its tokens.
    right = (steps == lengths) | (self.fields.answer == 'yes')
    # The key includes the suffix: errors of questions are independent.
    key = _folded(key, tokens, lengths)
    answers = right ^ self._hit(key, ERROR, self.fields.errors)
    # Padding within a suffix is not a token: the answer is always no.
    used = np.arange(tokens.shape[1]) < lengths[:, None]
    answers &= ~(used & (tokens == core.PAD)).any(1)
    silent = self._hit(key, SILENCE, self.fields.silent)
    return np.where(silent, core.NO_ANSWER, answers).astype(np.int8)

  def next_mask(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See stateless.Accepting."""
    states, key = self._read(tokens, lengths)
    mask = self.world.legal(states) | (self.fields.answer == 'yes')
    if self.fields.errors or self.fields.silent:
      # [R, V] equal to `_folded` for suffixes of one token: both ways agree.
      keys = basics.hash64(key[:, None], np.arange(mask.shape[1]))
      mask ^= self._hit(keys, ERROR, self.fields.errors)
      mask &= ~self._hit(keys, SILENCE, self.fields.silent)
    mask[:, core.PAD] = False
    return mask

  def _hit(self, key: np.ndarray, what: int, share: float) -> np.ndarray:
    """Bools, a share of which are True, by a hash of seed, `what` and key."""
    return basics.uniforms(self.seed, key, what) < share

  def _read(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """Reads prefixes [R, L] of lengths [R].

    Returns:
      states: [R, W] after the remembered tokens.
      keys: [R] uint64 keys of the errors.
    """
    states = self._reached(tokens, lengths)
    # With by='state' the key is the state; otherwise the prefix.
    if self.fields.by == 'state':
      key = basics.hash64(self.world.state_id(states))
    else:
      key = _folded(np.zeros(len(states), np.uint64), tokens, lengths)
    return states, key

  def _reached(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    states = self.world.init(len(lengths))
    prompt, memory = self.world.prompt_len, self.fields.memory
    for k in range(tokens.shape[1]):
      rows = np.flatnonzero(k < lengths)
      if memory and k >= prompt:
        # The prompt is always remembered, then the last `memory` tokens.
        rows = rows[k >= lengths[rows] - memory]
      after = self.world.advance(states[rows], tokens[rows, k])
      if memory:
        # An illegal token is skipped: the state does not change.
        alive = self.world.state_id(after) != core.DEAD
        rows, after = rows[alive], after[alive]
      states[rows] = after
    return states


def _folded(
  key: np.ndarray, tokens: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
  """[R] uint64 keys with the tokens [R, L] of each row mixed in."""
  for k, column in enumerate(tokens.T):
    key = np.where(k < lengths, basics.hash64(key, column), key)
  return key
