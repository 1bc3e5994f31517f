"""Map reconstruction: edges in use after routes are placed one by one.

Each node has at most one edge in use per label; labels 0..7 are the eight
directions, higher ones other tokens that stand where a direction should, which
no true edge has. True edges are unused until a route takes them; false edges
are added where no true one fits (Vafa et al. 2024, section 4 and appendix E).
"""

from __future__ import annotations

from wm.kernels.maps.edges import Edges, Problem


def reconstruct(problem: Problem) -> Edges:
  """Places routes one after the other."""
  from wm.kernels.maps import reconstruction_numba

  return reconstruction_numba.reconstruct(problem)
