"""Reads routes on a street map from sequences, and makes control routes.

A control is another set of routes for the same reconstruction: the valid routes
of a model alone, or valid routes with random mistakes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import inputs
from wm.worlds.maps import navigation, streets

# Outcome of a route on the true map (Vafa et al. 2024, mapping/).
VALID, PATH, DESTINATION, LENGTH_CAP = range(4)
CLASSES = ('valid', 'path', 'destination', 'length_cap')

# Reasons why a sequence is not a route.
SHORT, NO_END, CAPPED, BAD_HEADER = (
  'fewer_than_4_tokens',
  'no_end',
  CLASSES[LENGTH_CAP],
  'header_not_two_nodes',
)


class Routes(NamedTuple):
  """N routes, whose labels are stored end to end.

  Attributes:
    origins, destinations: [N] int32, rows of the street graph.
    offsets: [N + 1] int64, start of each route's labels.
    labels: int32; 0..7 are streets.DIRECTIONS, 8 + k is others[k].
    lines: [N] int64, line number of each in its file, from 1.
    capped: [N] bool, whether it has the world's greatest length.
    others: tokens in place of a direction.
  """

  origins: np.ndarray
  destinations: np.ndarray
  offsets: np.ndarray
  labels: np.ndarray
  lines: np.ndarray
  capped: np.ndarray
  others: tuple[str, ...] = ()

  @property
  def lengths(self) -> np.ndarray:
    """[N] int64, number of labels of each route."""
    return np.diff(self.offsets)

  def take(self, rows: np.ndarray) -> Routes:
    """Returns the given rows in their order; a row may be taken more than
    once.
    """
    lengths = self.lengths[rows]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    shift = np.repeat(self.offsets[rows] - offsets[:-1], lengths)
    return Routes(
      self.origins[rows],
      self.destinations[rows],
      offsets,
      self.labels[np.arange(offsets[-1]) + shift],
      self.lines[rows],
      self.capped[rows],
      self.others,
    )


def has_streets(world: core.World) -> bool:
  """Is it a street map, which can be reconstructed?"""
  return isinstance(world, navigation.Navigation)


def street_graph(world: core.World) -> streets.StreetGraph:
  """Returns the world's streets; raises InputError if it has none."""
  if not isinstance(world, navigation.Navigation):
    raise core.InputError(
      f'world {world.name!r} has no street map to reconstruct; expected '
      'maps(...)'
    )
  return world.graph


def _meanings(
  world: core.World, graph: streets.StreetGraph
) -> tuple[np.ndarray, np.ndarray]:
  """Returns [V] graph row and [V] direction of each token, DEAD if it is
  none.
  """
  rows = {name: row for row, name in enumerate(graph.names)}
  names = {name: label for label, name in enumerate(streets.DIRECTIONS)}
  return (
    np.array([rows.get(token, core.DEAD) for token in world.vocab], np.int32),
    np.array([names.get(token, core.DEAD) for token in world.vocab], np.int32),
  )


def directions(sequences: core.Sequences, world: core.World) -> int:
  """Returns how many directions sequences have in all (appendix B.2)."""
  _, label_of = _meanings(world, street_graph(world))
  return int(np.count_nonzero(label_of[sequences.tokens] != core.DEAD))


def extract(
  sequences: core.Sequences, world: core.World
) -> tuple[Routes, dict[str, int]]:
  """Returns the routes of well-formed sequences, and counts the others by
  cause.

  A route has two nodes, one or more labels, and `end` last. Tokens that are no
  directions become labels of their own, which no true edge has.
  """
  node_of, label_of = _meanings(world, street_graph(world))
  tokens, lengths = sequences.tokens, np.asarray(sequences.lengths)
  num = len(sequences)
  last = tokens[np.arange(num), np.maximum(lengths - 1, 0)]
  ended = (last == world.end) & (lengths > 0)
  capped = lengths >= world.max_len
  cause = np.full(num, '', dtype=object)
  header = tokens[:, :2] if tokens.shape[1] >= 2 else np.zeros((num, 2), int)
  cause[(node_of[header] == core.DEAD).any(-1)] = BAD_HEADER
  cause[~ended] = NO_END
  cause[~ended & capped] = CAPPED
  cause[lengths < 4] = SHORT
  rows = np.flatnonzero(cause == '')
  ill_formed = {
    name: int((cause == name).sum())
    for name in (SHORT, NO_END, CAPPED, BAD_HEADER)
  }
  inside = np.arange(tokens.shape[1]) < lengths[rows, None] - 1
  inside[:, :2] = False
  moves = tokens[rows][inside]
  labels = label_of[moves]
  odd, place = np.unique(moves[labels == core.DEAD], return_inverse=True)
  labels[labels == core.DEAD] = len(streets.DIRECTIONS) + place
  lines = sequences.side.get('line', np.arange(1, num + 1))
  return (
    Routes(
      node_of[tokens[rows, 0]],
      node_of[tokens[rows, 1]],
      np.concatenate([[0], np.cumsum(lengths[rows] - 3)]).astype(np.int64),
      labels,
      np.asarray(lines, np.int64)[rows],
      capped[rows],
      tuple(world.vocab[token] for token in odd),
    ),
    ill_formed,
  )


class Fate(NamedTuple):
  """The course of routes on the true map.

  Attributes:
    kind: [N] int8, VALID, PATH (no such edge) or DESTINATION (ends elsewhere).
    steps: [N] int64, labels followed.
    node: [N] int32, where that leads.
  """

  kind: np.ndarray
  steps: np.ndarray
  node: np.ndarray

  def groups(self, routes: Routes) -> np.ndarray:
    """Returns [N] int8 index into CLASSES; routes that were cut off are
    LENGTH_CAP.
    """
    cut = (self.kind == DESTINATION) & routes.capped
    return np.where(cut, LENGTH_CAP, self.kind).astype(np.int8)


def moves(routes: Routes, graph: streets.StreetGraph) -> np.ndarray:
  """[S, K] int32 nodes by label of the routes: directions, then `others`."""
  return np.pad(
    graph.delta, ((0, 0), (0, len(routes.others))), constant_values=core.DEAD
  )


def follow(routes: Routes, graph: streets.StreetGraph) -> Fate:
  """Follows each route on the true map, to its end or first missing edge."""
  node, steps = routes.origins.copy(), np.zeros(len(routes.origins), np.int64)
  alive = np.arange(len(node))
  delta = moves(routes, graph)
  for step in range(int(routes.lengths.max(initial=0))):
    alive = alive[step < routes.lengths[alive]]
    after = delta[node[alive], routes.labels[routes.offsets[alive] + step]]
    alive, after = alive[after != core.DEAD], after[after != core.DEAD]
    node[alive] = after
    steps[alive] += 1
  kind = np.where(node == routes.destinations, VALID, DESTINATION)
  kind[steps < routes.lengths] = PATH
  return Fate(kind.astype(np.int8), steps, node)


CONTROLS = ('none', 'valid', 'uniform', 'matched')


def apply_control(
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
  inputs.check_known(name, CONTROLS, f'no control {name!r}')
  fate = follow(routes, graph)
  valid = np.flatnonzero(fate.kind == VALID)
  if not valid.size:
    raise core.InputError(
      f'control {name!r} needs valid routes; none of {len(fate.kind)} is'
    )
  rng = np.random.default_rng([seed, CONTROLS.index(name)])
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
  fate: Fate,
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
      node = result.origins[n]
      for label in result.labels[result.offsets[n] : at]:
        node = graph.delta[node, label]
      # A direction without an edge, or any other one if all have edges.
      free = np.flatnonzero(graph.delta[node] == core.DEAD)
      if not free.size:
        free = np.flatnonzero(np.arange(8) != labels[at])
      labels[at] = rng.choice(free)
    elif fate.kind[n] == DESTINATION:
      miss = _metres(graph, routes.destinations[n])[fate.node[n]]
      off = np.abs(_metres(graph, result.destinations[n]) - miss)
      off[result.destinations[n]] = np.inf
      destinations[n] = np.argmin(off)
  return result._replace(labels=labels, destinations=destinations)


def _metres(graph: streets.StreetGraph, row: int) -> np.ndarray:
  """Returns [S] great-circle metres from one node to all."""
  return streets.great_circle(
    graph.lat[row], graph.lon[row], graph.lat, graph.lon
  )
