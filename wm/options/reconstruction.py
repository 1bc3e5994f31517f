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
  # 'order' of nodes is the program's. The paper does not say: its default here
  # is 'nearest', then the first.
  ties: str = option(
    'default',
    "Head of a new edge among equally good nodes; default: the variant's.",
    choices=('default', 'order', 'nearest'),
  )
  rollback: bool = option(False, 'Remove the edges of a failed sequence.')
  order: str = option('file', "Order of sequences: 'file' or a seed.")
  shuffles: int = option(
    0, 'Further random orders, for the range of results.', least=0, most=10_000
  )
  # Seeds shuffles and sampled routes.
  seed: int = option(0, 'Seed of all randomness.', least=0, most=2**32 - 1)

  def __post_init__(self) -> None:
    check(self)
    if self.order != 'file' and not str(self.order).isdecimal():
      refuse(f'order {self.order!r}', ": expected 'file' or a seed >= 0")
