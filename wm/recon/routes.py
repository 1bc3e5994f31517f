"""Reads routes on a street map from sequences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
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
  """How routes fare on the true map.

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


def follow(routes: Routes, graph: streets.StreetGraph) -> Fate:
  """Follows each route on the true map, to its end or first missing edge."""
  node, steps = routes.origins.copy(), np.zeros(len(routes.origins), np.int64)
  alive = np.arange(len(node))
  delta = np.pad(
    graph.delta, ((0, 0), (0, len(routes.others))), constant_values=core.DEAD
  )
  for step in range(int(routes.lengths.max(initial=0))):
    alive = alive[step < routes.lengths[alive]]
    after = delta[node[alive], routes.labels[routes.offsets[alive] + step]]
    alive, after = alive[after != core.DEAD], after[after != core.DEAD]
    node[alive] = after
    steps[alive] += 1
  kind = np.where(node == routes.destinations, VALID, DESTINATION)
  kind[steps < routes.lengths] = PATH
  return Fate(kind.astype(np.int8), steps, node)
