"""Makes controls: routes of a true model, and of one that errs at random.

A model's map is compared with the maps that the same algorithm makes of valid
routes alone, and of valid routes with random mistakes.
"""

from __future__ import annotations

import numpy as np

from wm import core
from wm.recon import routes as routes_lib
from wm.recon.routes import DESTINATION, PATH, VALID, Routes
from wm.worlds.maps import streets

NAMES = ('none', 'valid', 'uniform', 'matched')


def apply(
  name: str,
  routes: Routes,
  graph: streets.StreetGraph,
  *,
  rate: float,
  seed: int,
) -> Routes:
  """Makes the routes of a control from a model's routes.

  Args:
    name: 'none': as they are. 'valid': the valid ones. 'uniform': the valid
      ones, each with probability `rate` with one direction, chosen uniformly,
      replaced by another one (the published noise: fewer routes than the
      model's). 'matched': as many routes as the model's, wrong as often, of
      the same kind and as late, but at random places (see `matched`).
    routes: of the model.
    graph: the true map.
    rate: for 'uniform', in [0, 1].
    seed: of all draws.

  Raises:
    InputError: an unknown name, or no valid route to start from.
  """
  if name == 'none':
    return routes
  if name not in NAMES:
    raise core.InputError(f'no control {name!r}; available: {", ".join(NAMES)}')
  fate = routes_lib.follow(routes, graph)
  valid = np.flatnonzero(fate.kind == VALID)
  if not valid.size:
    raise core.InputError(
      f'control {name!r} needs valid routes; none of {len(fate.kind)} is'
    )
  rng = np.random.default_rng([seed, NAMES.index(name)])
  if name == 'valid':
    return routes.take(valid)
  if name == 'uniform':
    return _uniform(routes.take(valid), rate, rng)
  return matched(routes, fate, graph, rng)


def _uniform(routes: Routes, rate: float, rng: np.random.Generator) -> Routes:
  num = len(routes.origins)
  chosen = np.flatnonzero(rng.random(num) < rate)
  at = routes.offsets[chosen] + rng.integers(routes.lengths[chosen])
  labels = routes.labels.copy()
  labels[at] = (labels[at] + rng.integers(1, 8, len(chosen))) % 8
  return routes._replace(labels=labels)


def matched(
  routes: Routes,
  fate: routes_lib.Fate,
  graph: streets.StreetGraph,
  rng: np.random.Generator,
) -> Routes:
  """Makes as many routes, wrong as often, in the same way and as late.

  A valid route stays. An invalid one is replaced by a valid one, drawn
  uniformly (with replacement) from those that are long enough, and made wrong
  in the same way. For a missing edge, the direction at the same step becomes
  one without an edge. For a wrong destination, the header names the node whose
  distance from the true one is closest to the distance by which the model
  missed.
  """
  wrong = np.flatnonzero(fate.kind != VALID)
  rows = np.arange(len(fate.kind))
  valid = np.flatnonzero(fate.kind == VALID)
  valid = valid[np.argsort(routes.lengths[valid], kind='stable')]
  # Draw among the valid routes that are longer than the step to corrupt.
  needed = np.where(fate.kind == PATH, fate.steps, 0)[wrong]
  first = np.searchsorted(routes.lengths[valid], needed, side='right')
  first = np.minimum(first, len(valid) - 1)
  rows[wrong] = valid[rng.integers(first, len(valid))]
  result = routes.take(rows)
  labels, destinations = result.labels.copy(), result.destinations.copy()
  for n in wrong:
    if fate.kind[n] == PATH:
      step = min(int(fate.steps[n]), int(result.lengths[n]) - 1)
      at = result.offsets[n] + step
      node = _node_at(result, graph, int(n), step)
      labels[at] = _dead_label(graph.delta[node], int(labels[at]), rng)
    elif fate.kind[n] == DESTINATION:
      miss = _metres(graph, routes.destinations[n])[fate.node[n]]
      off = np.abs(_metres(graph, result.destinations[n]) - miss)
      off[result.destinations[n]] = np.inf
      destinations[n] = np.argmin(off)
  return result._replace(labels=labels, destinations=destinations)


def _node_at(
  routes: Routes, graph: streets.StreetGraph, n: int, step: int
) -> int:
  node = routes.origins[n]
  for label in routes.labels[routes.offsets[n] : routes.offsets[n] + step]:
    node = graph.delta[node, label]
  return int(node)


def _dead_label(edges: np.ndarray, label: int, rng: np.random.Generator) -> int:
  """Draws a direction without an edge, or any other one if all have edges."""
  free = np.flatnonzero(edges == core.DEAD)
  if not free.size:
    free = np.flatnonzero(np.arange(8) != label)
  return int(rng.choice(free))


def _metres(graph: streets.StreetGraph, row: int) -> np.ndarray:
  """Returns [S] great-circle metres from one node to all."""
  return streets.great_circle(
    graph.lat[row], graph.lon[row], graph.lat, graph.lon
  )
