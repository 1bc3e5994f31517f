"""Street graphs as transition tables, with lengths.

paths           hop counts, shortest paths
pair_routes     routes between pairs, under several weightings
reconstruction  the map that a model's routes imply; crossings of segments
"""
