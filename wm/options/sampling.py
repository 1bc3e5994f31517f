"""Options of a data set sampled from a world."""

from __future__ import annotations

import dataclasses

from wm.options import check, documented, option


@documented
@dataclasses.dataclass(frozen=True)
class Sampling:
  """What is sampled from a world."""

  num: int = option(100_000, 'Training sequences.', least=1)
  # No split key is in both splits.
  num_heldout: int = option(1000, 'Held-out sequences.', least=1)
  seed: int = option(0, 'Seed of all randomness.', least=0, most=2**32 - 1)
  # OUT/data/train_sequences.txt, heldout_sequences.txt
  text: bool = option(False, 'Also write the published text format.')

  def __post_init__(self) -> None:
    check(self)
