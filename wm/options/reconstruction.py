"""Options of a map reconstruction."""

from __future__ import annotations

import dataclasses

from wm.options import check, documented, option, refuse


@documented
@dataclasses.dataclass(frozen=True)
class Reconstruction:
  """Options for reconstructing a map from routes."""

  # Limit of added edges: the paper counts distinct neighbours, the program all.
  max_degree: int = option(4, 'Most edges out of a node.', least=1, most=1000)
  # Great-circle distance.
  max_miles: float = option(0.5, 'Longest added edge.', least=0)
  # `tests/kernels/maps/reconstruction_ref.py` holds both in plain Python.
  variant: str = option(
    'program',
    'The published program, or the algorithm as printed.',
    choices=('program', 'paper'),
  )
  order: str = option('file', "Order of sequences: 'file' or a seed.")
  shuffles: int = option(
    0, 'Further random orders, for the range of results.', least=0, most=10_000
  )
  # See `controls.apply`; None is 'none', or 'uniform' with an error rate.
  control: str | None = option(
    None,
    'Control in place of the sequences: the valid ones alone, the valid ones '
    'corrupted at --error_rate, or with mistakes as frequent and as late as '
    'those of the sequences.',
    choices=('none', 'valid', 'uniform', 'matched'),
  )
  error_rate: float = option(
    0.0,
    'Probability of corrupting each valid sequence, in the control uniform.',
    least=0,
    most=1,
  )
  # Seeds shuffles, controls and sampled routes.
  seed: int = option(0, 'Seed of all randomness.', least=0, most=2**32 - 1)

  def __post_init__(self) -> None:
    check(self)
    if self.control is None:
      control = 'uniform' if self.error_rate else 'none'
      object.__setattr__(self, 'control', control)
    if self.order != 'file' and not str(self.order).isdecimal():
      refuse(f'order {self.order!r}', ": expected 'file' or a seed >= 0")
    if self.error_rate and self.control != 'uniform':
      refuse(
        f'error_rate={self.error_rate}',
        f' is for the control uniform, not {self.control!r}',
      )
