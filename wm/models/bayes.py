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
from wm.core.fields import field
from wm.models.serving import process

OFF = 'nothing', 'replan'  # Predictions off the support of the sampler.


class Bayes(process.ProcessPredictor):
  """Predicts by a process; after a prefix that it never gives, no token is."""

  def __init__(self, world: core.World, law: core.SequenceProcess) -> None:
    """law: the distribution of the world's sequences."""
    self.vocab_size, self.end = len(world.vocab), world.end
    self.max_len, self.law = world.max_len, law

  def init(self, batch: int) -> np.ndarray:
    """See core.SequenceProcess."""
    return self.law.init(batch)

  def advance(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.SequenceProcess."""
    return self.law.advance(memory, tokens)

  def next(self, memory: np.ndarray) -> process.NextTokens:
    """See core.SequenceProcess."""
    tokens, log_probs = self.law.next(memory)
    # Laws compute in float64; predictors give float32, as networks do.
    return process.NextTokens(tokens, log_probs.astype(np.float32))


class TableBayes(process.TablePredictor, Bayes):
  """Adapts by the states of the process: equal ones share an answer."""


class BeliefBayes(Bayes, process.BeliefReader):
  """Of a world with a hidden state: activations are the belief about it."""


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Probabilities of the next token given the prefix, by the world's sampler.

  Attributes:
    split: of the sequences: 'all', 'train' or 'heldout'. Where the task decides
      the split, only the tokens that state the task depend on this.
    distinct: sequences are drawn without repetition until there are no more:
      each counts once, however likely it is to be drawn.
    off: prediction after a legal prefix that is never sampled: 'nothing' is
      possible; or 'replan', as the rules and the goal imply: the limit of the
      sampler mixed with a vanishing share of random legal moves.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Generative,)
  gives: ClassVar[tuple[type, ...]] = (TableBayes, BeliefBayes)

  split: str = 'all'
  distinct: bool = False
  off: str = field(OFF[0], choices=OFF)

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model; raises InputError where the world has no process."""
    del seed
    if not isinstance(world, core.Generative):
      raise core.InputError(
        f'bayes: {core.capabilities.lacks_law(type(world))}; available: '
        "'oracle()', uniform over what is legal"
      )
    replan = self.off == 'replan'
    law = world.data_distribution(self.split, self.distinct, replan)
    # The law decides: only a hidden state has a belief to be read by probes.
    believes = core.can(law, core.SequenceProcess.belief)
    return (BeliefBayes if believes else TableBayes)(world, law)
