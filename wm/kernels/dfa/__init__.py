"""Finite automata as transition tables (Vafa et al. 2024, section 2).

table      steps, walks, counts, reachable rows, minimisation
product    pairs of states: Myhill-Nerode boundaries and their sizes
vmap       the moves in JAX, for programs on a device
"""

from wm.kernels.dfa.product import VARIANTS, boundary
from wm.kernels.dfa.table import (
  NONE,
  Predecessors,
  advance,
  count,
  legal,
  minimize,
  predecessors,
  reachable,
  reverse_walk,
  walk,
)
