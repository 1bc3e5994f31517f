"""The Bayes predictor: the world's own distribution of sequences.

No predictor has a lower expected loss on the world's samples. A trained model's
excess loss is therefore all that remains to be learned. Vafa et al. 2024 train
on samples alone, so their models tend to this predictor.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from wm import core
from wm.core.fields import field
from wm.models.serving import process

OFF = 'nothing', 'replan'  # Predictions outside the sampler's support.


class Bayes(process.ProcessPredictor):
  """Predicts by a process; after impossible prefixes no token is possible."""

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
    # Processes compute in float64; predictors return float32, as networks do.
    return process.NextTokens(tokens, log_probs.astype(np.float32))


class TableBayes(process.TablePredictor, Bayes):
  """Adapts by process state: prefixes with equal states share an answer."""


class BeliefBayes(Bayes, process.BeliefReader):
  """For worlds with a hidden state: activations are the belief about it."""


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Probabilities of the next token given the prefix, by the world's sampler.

  Attributes:
    off: prediction after a legal prefix that is never sampled. 'nothing': no
      token is possible. 'replan': the limit of the sampler mixed with a
      vanishing share of random legal moves.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Generative,)
  gives: ClassVar[tuple[type, ...]] = (TableBayes, BeliefBayes)

  off: str = field(OFF[0], choices=OFF)

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model; raises InputError where the world has no process."""
    del seed
    if not isinstance(world, core.Generative):
      raise core.InputError(
        f'bayes: {core.capabilities.lacks_law(type(world))}; available: '
        "'oracle()', uniform over what is legal"
      )
    law = world.data_distribution(replan=self.off == 'replan')
    # Probes can read a belief only where the process has a hidden state.
    believes = core.can(law, core.SequenceProcess.belief)
    return (BeliefBayes if believes else TableBayes)(world, law)
