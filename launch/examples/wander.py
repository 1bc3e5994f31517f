"""How long does a model that wanders freely keep to the rules?

Copied into wm/metrics it is the metric `wander`. Means and intervals are made
from the rows. The headline quantities go to the main table and are 1 for the
world itself; the glossary tells in reports what each one means.
"""

import dataclasses
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics, registry


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Samples continuations of held-out prompts.

  Attributes:
    num: prompts, each with one continuation.
    moves: tokens that are sampled.
    accept: rule of the tokens that may be sampled.
  """

  version = '1'
  measures: ClassVar = {'legal': core.Measure(1, 'wanders by the rules')}
  glossary: ClassVar = {
    'legal': 'Share of continuations that break no rule. No goal is asked for.'
  }

  num: int = 200
  moves: int = 10
  accept: str = 'epsilon(0.01)'

  def __call__(
    self, predictor: core.Predictor, world: core.World, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per continuation."""
    start = max(world.prompt_len, 1)
    prompts = world.sample(self.num, seed, split='heldout').tokens[:, :start]
    drawn = core.sample(
      predictor,
      prompts,
      np.full(len(prompts), start),
      num=1,
      max_len=start + self.moves,
      seeds=basics.hash64(seed, np.arange(len(prompts))),
      accept=registry.make('accept', self.accept),
    )
    tokens = np.concatenate([prompts, drawn.tokens[:, 0]], axis=1)
    lengths = start + drawn.lengths[:, 0]
    steps, _ = world.walk(world.init(len(tokens)), tokens, lengths)
    return (core.scores('legal', steps == lengths),)
