"""Reconstructs the map that a model's routes imply.

Routes are placed one after the other on the nodes of the true map. A true edge
is used where it fits. Where none fits, a false edge is added to a node in
reach, chosen so that as much of the rest as possible can be walked (Vafa et al.
2024, section 4 and appendix E). The false edges are what the model got wrong.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.kernels.maps import geometry, reconstruction
from wm.kernels.maps import reconstruction as codes
from wm.kernels.maps.reconstruction import Edges, Problem
from wm.options.reconstruction import Reconstruction
from wm.recon.routes import CLASSES, LENGTH_CAP, Fate, Routes
from wm.worlds.maps import streets

EARTH_MILES = 3958.7613  # Mean radius.

# By the kernel's reconstruction.
REASONS = {
  codes.NO_ROOM: 'no_room',
  codes.TOO_FAR: 'destination_too_far',
  codes.NO_CANDIDATE: 'no_candidate',
  codes.OFF_DESTINATION: 'off_destination',
}


class Candidates(NamedTuple):
  """The nodes that a false edge from each node may lead to, preferred ones
  first.

  Attributes:
    offsets: [S + 1] int64, start of each node's.
    nodes: int32.
  """

  offsets: np.ndarray
  nodes: np.ndarray


def candidates(
  graph: streets.StreetGraph, options: Reconstruction
) -> Candidates:
  """Returns the nodes in reach of each node by great circle, itself
  included.
  """
  offsets, nodes = geometry.within(
    graph.lat, graph.lon, options.max_miles, EARTH_MILES
  )
  nearest = options.ties == 'nearest' or (
    options.ties == 'default' and options.variant == 'paper'
  )
  if nearest:
    start = np.repeat(np.arange(len(graph)), np.diff(offsets))
    apart = streets.great_circle(
      graph.lat[start], graph.lon[start], graph.lat[nodes], graph.lon[nodes]
    )
    nodes = nodes[np.lexsort((nodes, apart, start))]
  return Candidates(offsets, nodes)


def reconstruct(
  graph: streets.StreetGraph,
  routes: Routes,
  options: Reconstruction,
  near: Candidates | None = None,
) -> Edges:
  """Places routes in their order; gives the edges in use.

  near: of `candidates`, for calls that share it.
  """
  return reconstruction.reconstruct(problem(graph, routes, options, near))


def problem(
  graph: streets.StreetGraph,
  routes: Routes,
  options: Reconstruction,
  near: Candidates | None = None,
) -> Problem:
  """What the kernel is given."""
  near = near or candidates(graph, options)
  return Problem(
    graph.delta,
    near.offsets,
    near.nodes,
    routes.origins,
    routes.destinations,
    routes.offsets,
    routes.labels,
    options.max_degree,
    options.variant == 'paper',
    options.rollback,
  )


def counts(
  graph: streets.StreetGraph,
  routes: Routes,
  fate: Fate,
  edges: Edges,
) -> dict[str, int | dict[str, int]]:
  """Counts failures and edges by class.

  A failed route counts as `length_cap`, whatever stopped it, if it was cut off:
  it is as long as the world's sequences may get, and does not end at its
  destination. `parallel_edges` are false edges between two nodes that another
  edge, true or false, used or not, joins already.
  """
  failed = edges.reasons != codes.OK
  groups = fate.groups(routes)
  cut = groups == LENGTH_CAP
  reasons = {
    name: int((edges.reasons[~cut] == code).sum())
    for code, name in REASONS.items()
  }
  reasons[CLASSES[LENGTH_CAP]] = int(failed[cut].sum())
  true = int((~edges.false).sum())
  source, target = edges.source[edges.false], edges.target[edges.false]
  pairs = source.astype(np.int64) * len(graph) + target
  real = graph.edges()
  joined = np.isin(pairs, real[0].astype(np.int64) * len(graph) + real[2])
  added = pairs[~joined]
  return {
    'failed': int(failed.sum()),
    'failure_reasons': reasons,
    'failed_by_class': {
      name: int(failed[groups == group].sum())
      for group, name in enumerate(CLASSES)
    },
    'true_edges': true,
    'new_edges': int(edges.false.sum()),
    'unused_edges': graph.num_edges - true,
    'self_loops': int((source == target).sum()),
    'parallel_edges': int(joined.sum()) + len(added) - len(np.unique(added)),
  }


def permutation(num: int, order: str | int, shuffle: int = 0) -> np.ndarray:
  """Returns [num] rows in an order: 'file', or drawn from a seed.

  shuffle: number of a further order drawn from the same seed, from 1.

  Raises:
    InputError: the order is neither 'file' nor an integer >= 0.
  """
  if order == 'file' and not shuffle:
    return np.arange(num)
  if not str(order).isdecimal():
    raise core.InputError(f"order {order!r}: expected 'file' or a seed >= 0")
  return np.random.default_rng([int(order), shuffle]).permutation(num)
