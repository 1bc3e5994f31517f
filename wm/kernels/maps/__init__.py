"""Street graphs as transition tables, with lengths.

paths           hop counts, shortest paths, routes, random walks
geometry        nodes in reach on the sphere, crossings of segments
reconstruction  the map that a model's routes imply
*_numba         their compiled forms; `ref` and `reconstruction_ref` are all
                of them in plain Python: the specification
"""

from wm.kernels.maps.paths import (
  GOALS,
  dijkstra,
  follow,
  hops,
  random_walks,
  shortest_routes,
  to_goals,
)
