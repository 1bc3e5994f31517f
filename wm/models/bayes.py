"""The Bayes predictor: the world's own distribution of sequences.

No predictor has a lower expected loss on what the world samples; what a
trained model loses beyond it is what is left to learn (Vafa et al. 2024 train
on the samples alone, so this is what their models tend to).
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from wm import core
from wm.models.serving import state_session, tables

OFF = 'nothing', 'replan'  # What it says off the support of the sampler.


class Bayes(tables.Tabulated):
  """Predicts by a process; after what it never does, nothing is possible."""

  def __init__(self, world: core.World, process: core.SequenceProcess) -> None:
    """process: of sequences of the world."""
    self.vocab_size, self.end = len(world.vocab), world.end
    self.max_len, self._process = world.max_len, process

  def enter(self, prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See Tabulated: the memory of the process."""
    memory = self._process.init(len(lengths))
    for t in range(int(np.max(lengths, initial=0))):
      rows = np.flatnonzero(t < lengths)
      memory[rows] = self._process.advance(memory[rows], prefixes[rows, t])
    return memory

  def follow(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See Tabulated."""
    return self._process.advance(states, tokens)

  def known(
    self, states: np.ndarray
  ) -> tuple[state_session.Support, np.ndarray]:
    """See Tabulated; equal memories are looked up once."""
    first, place = state_session.distinct(states)
    tokens, log_probs = self._process.next(states[first])
    found = state_session.Support(tokens, log_probs.astype(np.float32))
    return found, place


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Probabilities of the next token given all before, by the world's sampler.

  Attributes:
    split: whose sequences: 'all', 'train' or 'heldout'. Where the split goes
      by the task, only the tokens that state it depend on this.
    distinct: of a sample of all sequences, where sampling repeats none: each
      counts once, however many ways there are to draw it.
    off: what it says after a legal prefix that is never sampled: 'nothing' is
      possible; or 'replan', what the rules and the goal imply: the limit of
      the sampler mixed with a vanishing share of random legal moves.
  """

  version: ClassVar[str] = '1'
  needs: ClassVar[tuple[core.Need, ...]] = (core.Generative,)
  gives: ClassVar[tuple[type, ...]] = (Bayes,)

  split: str = 'all'
  distinct: bool = False
  off: str = OFF[0]

  def __post_init__(self) -> None:
    if self.off not in OFF:
      raise core.InputError(
        f'bayes: off={self.off!r} was given; available: {", ".join(OFF)}'
      )

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model; raises InputError where the world has no process."""
    del seed
    if not isinstance(world, core.Generative):
      raise core.InputError(
        f'bayes: {core.lacks_law(type(world))}; available: '
        "'oracle()', uniform over what is legal"
      )
    if self.off == 'nothing':
      return Bayes(world, world.data_distribution(self.split, self.distinct))
    return Bayes(
      world, world.data_distribution(self.split, self.distinct, replan=True)
    )
