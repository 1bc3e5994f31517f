"""A prompt put to a known answerer, and what that knows."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

KNOWS = {
  'solver': 'reads the prompt and answers rightly',
  'yes': 'says yes, takes everything for possible, and the first choice',
  'random': 'tosses a coin',
  'old_map': 'reads the prompt, but knows what was told before a change',
}


@dataclasses.dataclass
class Asked:
  """A prompt, and who is asked.

  Attributes:
    turns: text of all messages but the model's own, in order.
    knows: a key of KNOWS.
    draws: random numbers of 'random'.
  """

  turns: Sequence[str]
  knows: str = 'solver'
  draws: random.Random = dataclasses.field(
    default_factory=lambda: random.Random(0)
  )

  @property
  def text(self) -> str:
    """All turns, one after the other."""
    return '\n\n'.join(self.turns)

  def yes(self) -> bool:
    """What 'yes' and 'random' say to anything."""
    return self.knows == 'yes' or self.draws.random() < 0.5

  def one_of(self, choices: Sequence[str]) -> str:
    """What they choose."""
    return choices[0] if self.knows == 'yes' else self.draws.choice(choices)
