"""Options of a map reconstruction."""

from __future__ import annotations

import dataclasses

from wm.options import check, documented, option, refuse


@documented
@dataclasses.dataclass(frozen=True)
class Reconstruction:
  """How a map is reconstructed from routes, and from which of them."""

  # Edges added: distinct neighbours count in the paper, all in the program.
  max_degree: int = option(4, 'Most edges out of a node.', least=1, most=1000)
  # Great-circle distance.
  max_miles: float = option(0.5, 'Longest added edge.', least=0)
  # `tests/kernels/maps/reconstruction_ref.py` holds both in plain Python.
  variant: str = option(
    'program',
    'The published program, or the algorithm as printed.',
    choices=('program', 'paper'),
  )
  # 'order' of nodes is the program's; the paper says nothing, and has
  # 'nearest', then first, here.
  ties: str = option(
    'default',
    "Which of equally good nodes a new edge leads to; default: the variant's.",
    choices=('default', 'order', 'nearest'),
  )
  rollback: bool = option(False, 'A failed sequence leaves no edges.')
  order: str = option('file', "Order of sequences: 'file' or a seed.")
  shuffles: int = option(
    0, 'Further seeded orders for the range.', least=0, most=10_000
  )
  # See `controls.apply`; None is 'none', or 'uniform' with an error rate.
  control: str | None = option(
    None,
    'What replaces the sequences: the valid ones alone, the valid ones with '
    "--error_rate, or with mistakes as frequent and as late as the sequences'.",
    choices=('none', 'valid', 'uniform', 'matched'),
  )
  error_rate: float = option(
    0.0,
    'Corrupt valid sequences instead, with this probability each.',
    least=0,
    most=1,
  )
  # Of shuffles, controls and sampled routes.
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
