"""Street graphs as transition tables, with lengths.

paths           hop counts, shortest paths, routes, random walks
reconstruction  the map that a model's routes imply; nodes in reach on the
                sphere, crossings of segments
"""
