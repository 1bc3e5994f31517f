"""A model that says the last token again.

Copied into wm/models it is the model `repeats`. A model that is trained gives a
Flax module instead; wm/models/rnn.py is a short one.
"""

import dataclasses

import numpy as np

from wm import core
from wm.models.serving import user_objects


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """The last token again, or any token.

  Attributes:
    again: probability of the last token.
  """

  version = '1'

  again: float = 0.5

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model."""
    size = len(world.vocab)
    probs = self.again * np.eye(size) + (1 - self.again) / size
    return user_objects.FromCallable(
      lambda tokens: np.log(probs)[tokens],
      vocab_size=size,
      end=world.end,
      max_len=world.max_len,
    )
