"""Map reconstruction: edges in use after routes are placed one by one.

Each node has at most one used edge per label. Labels 0..7 are the eight
directions; higher labels are other tokens in the place of a direction, which no
true edge has. True edges are unused until a route takes them; false edges are
added where no true edge fits (Vafa et al. 2024, section 4 and appendix E).

The algorithms are those of the reference in tests/kernels, on flat arrays. The
used edges of a node are the first degree[node] slots of its row,

    label[node], target[node], route[node]   | 0 | 1 | 2 | free ...
                                                           ^ degree[node]

and a trial walk only marks the unused true edges that it would take (`fresh`),
so that undoing it is cheap.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wm.kernels.base import calls
from wm.kernels.base.bits import put
from wm.kernels.base.jit import njit

# Reasons why a route could not be placed.
OK, NO_ROOM, TOO_FAR, NO_CANDIDATE, OFF_DESTINATION = range(5)

# Typed, since a literal would make Numba compile callees once more.
_NOWHERE: Any = np.int32(-1)  # As a node or a label.
_NONE: Any = np.int64(0)
_DIRECTIONS: Any = np.int64(8)  # Labels that true edges may have.


class PlacementProblem(NamedTuple):
  """A map, the routes to place on it, and how.

  Attributes:
    delta: [S, 8] int32, the true map; DEAD where there is no edge.
    near_offsets: [S + 1] int64, start of each node's candidates.
    near_nodes: candidates of added edges, in the order that breaks ties.
    origins: [N] int32.
    destinations: [N] int32.
    offsets: [N + 1] int64, start of each route's labels.
    labels: int32; one or more a route.
    max_degree: limit of edges (paper: distinct neighbours) out of a node.
    paper: True for the printed algorithm, False for the published program.
  """

  delta: np.ndarray
  near_offsets: np.ndarray
  near_nodes: np.ndarray
  origins: np.ndarray
  destinations: np.ndarray
  offsets: np.ndarray
  labels: np.ndarray
  max_degree: int
  paper: bool


class UsedEdges(NamedTuple):
  """Edges in use after all routes, ordered by source and label.

  Attributes:
    source, label, target: [E] int32.
    false: [E] bool, True for edges that the true map lacks.
    route: [E] int32, the route that first used it.
    reasons: [N] int8, OK or why a route failed.
  """

  source: np.ndarray
  label: np.ndarray
  target: np.ndarray
  false: np.ndarray
  route: np.ndarray
  reasons: np.ndarray


class _Map(NamedTuple):
  """A map under construction.

  Attributes:
    true: [S, 8] int32, all true edges.
    label, target, route: [S, D] int32, edges in use; route is the one that
      first used it, or ~route for a false edge.
    degree: [S] int64, slots in use.
    fresh: [S, 8] bool, unused true edges that the trial walk takes.
    held: [S] int32, number of fresh and pending edges out of each node.
    max_degree: limit of edges, or neighbours, of a node.
  """

  true: np.ndarray
  label: np.ndarray
  target: np.ndarray
  route: np.ndarray
  degree: np.ndarray
  fresh: np.ndarray
  held: np.ndarray
  max_degree: int


class _TrialWalk(NamedTuple):
  """Scratch of one walk of up to K steps.

  Attributes:
    path: [K + 1] int32, nodes, including the first.
    first: [K] bool, steps that marked a fresh edge, which is to be undone.
  """

  path: np.ndarray
  first: np.ndarray


@njit
def _near(problem, node):
  """Nodes that a false edge from `node` may lead to."""
  ends = problem.near_offsets
  return problem.near_nodes[ends[node] : ends[node + 1]]


@njit
def _slot(graph, node, label):
  """Slot of the edge in use with a label, -1 if there is none."""
  for slot in range(graph.degree[node]):
    if graph.label[node, slot] == label:
      return slot
  return -1


@njit
def _add(graph, node, label, target, route):
  """Adds a used edge."""
  slot = graph.degree[node]
  graph.label[node, slot] = label
  graph.target[node, slot] = target
  graph.route[node, slot] = route
  graph.degree[node] = slot + 1


@njit
def _take(graph, walk, labels, route):
  """Puts the true edges of a walk in use; returns its last node."""
  for step in range(len(labels)):
    node, label = walk.path[step], labels[step]
    if _slot(graph, node, label) < 0:
      _add(graph, node, label, walk.path[step + 1], route)
  return walk.path[len(labels)]


# The published program. While the program tries targets of a false edge, the
# edge is pending: it leaves node `at` (-1: none) with label `pending`.


@njit
def _has_room(graph, node, label, at, pending):
  """True if an edge with this label fits, beside fresh and pending edges."""
  if graph.degree[node] + graph.held[node] >= graph.max_degree:
    return False
  if node == at and label == pending:
    return False
  if label < 8 and graph.fresh[node, label]:
    return False  # The trial walk has taken this label.
  return _slot(graph, node, label) < 0


@njit
def _step(graph, walk, step, label, at, pending):
  """Takes one step of a walk if an edge allows it."""
  node = walk.path[step]
  slot = _slot(graph, node, label)
  walk.first[step] = False
  if slot >= 0:
    walk.path[step + 1] = graph.target[node, slot]
    return True
  if label >= 8 or graph.true[node, label] < 0:
    return False
  if not graph.fresh[node, label]:
    if not _has_room(graph, node, label, at, pending):
      return False
    graph.fresh[node, label] = True
    graph.held[node] += 1
    walk.first[step] = True
  walk.path[step + 1] = graph.true[node, label]
  return True


@njit
def _back(graph, walk, labels, length, to):
  """Removes the marks of a walk's steps beyond the first `to`."""
  for step in range(to, length):
    if walk.first[step]:
      graph.fresh[walk.path[step], labels[step]] = False
      graph.held[walk.path[step]] -= 1


@njit
def _walk(graph, walk, start, destination, labels, at, pending):
  """Length of the walk: all labels if it ends at the destination, else that of
  the longest proper prefix whose last node has room for the next label."""
  walk.path[0] = start
  length = _NONE
  if at >= 0:  # The pending edge counts too.
    graph.held[at] += 1
  # Walks as far as edges permit; each step marks its fresh edge.
  while length < len(labels) and _step(
    graph, walk, length, labels[length], at, pending
  ):
    length += 1
  if length < len(labels) or walk.path[length] != destination:
    shorter = min(length, len(labels) - 1)
    _back(graph, walk, labels, length, shorter)
    # Marks are removed one step at a time, as they count against the room.
    while shorter > 0 and not _has_room(
      graph, walk.path[shorter], labels[shorter], at, pending
    ):
      shorter -= 1
      _back(graph, walk, labels, shorter + 1, shorter)
    length = shorter
  _back(graph, walk, labels, length, _NONE)
  if at >= 0:
    graph.held[at] -= 1
  return length


@njit
def _best(graph, walk, best, near, destination, labels, at, pending):
  """Writes the longest walk of all candidates, the first on ties, to `best`."""
  longest = 0
  for candidate in near:
    # Unless complete, a walk leaves a label: none can be longer than this.
    if longest == len(labels):
      break
    length = _walk(graph, walk, candidate, destination, labels, at, pending)
    if length > longest:
      longest = length
      put(best.path, walk.path[: length + 1])
  return longest


@njit
def _program(graph, walk, best, problem, n):
  """Places route n as the published program does; returns OK or the reason."""
  labels = problem.labels[problem.offsets[n] : problem.offsets[n + 1]]
  origin, destination = problem.origins[n], problem.destinations[n]
  length = _walk(graph, walk, origin, destination, labels, _NOWHERE, _NOWHERE)
  # No edge to walk and no room for a false edge: the route cannot begin.
  if length == 0 and not _has_room(
    graph, origin, labels[0], _NOWHERE, _NOWHERE
  ):
    return NO_ROOM
  node = _take(graph, walk, labels[:length], n)
  done = length
  #   labels   | done: walked | label: a false edge | rest: walked from its end
  while done < len(labels):
    near, label, rest = _near(problem, node), labels[done], labels[done + 1 :]
    if len(rest) == 0:
      # The last label must lead to the destination.
      if not np.any(near == destination):
        return TOO_FAR
      _add(graph, node, label, destination, ~n)
      return OK
    length = _best(graph, walk, best, near, destination, rest, node, label)
    if length == 0:
      return NO_CANDIDATE
    _add(graph, node, label, best.path[0], ~n)
    node = _take(graph, best, rest[:length], n)
    done += 1 + length
  return OK


# The algorithm as printed: it counts distinct neighbours instead of edges.


@njit
def _leads(graph, node, target, slots, label):
  """True if one of the first slots, or a fresh edge of lower label, does."""
  for slot in range(slots):
    if graph.target[node, slot] == target:
      return True
  for fresh in range(label):
    if graph.fresh[node, fresh] and graph.true[node, fresh] == target:
      return True
  return False


@njit
def _fits(graph, node, target):
  """True if an edge to `target` keeps distinct neighbours within the limit."""
  if _leads(graph, node, target, graph.degree[node], _DIRECTIONS):
    return True
  if graph.degree[node] + graph.held[node] < graph.max_degree:
    return True
  # The number of edges exceeds the limit: count distinct targets, each at its
  # first slot or, for fresh edges, at its lowest label.
  distinct = 0  # Distinct neighbours.
  for slot in range(graph.degree[node]):
    distinct += not _leads(graph, node, graph.target[node, slot], slot, _NONE)
  for label in range(8):
    if graph.fresh[node, label]:
      distinct += not _leads(
        graph, node, graph.true[node, label], graph.degree[node], label
      )
  return distinct < graph.max_degree


@njit
def _follow(graph, walk, node, destination, labels):
  """Number of possible steps, plus 1 if they end at the destination."""
  walk.path[0] = node
  # As `_walk`, but with the limit on neighbours and without backing up.
  steps = _NONE
  while steps < len(labels):
    node, label = walk.path[steps], labels[steps]
    slot = _slot(graph, node, label)
    walk.first[steps] = False
    if slot >= 0:
      walk.path[steps + 1] = graph.target[node, slot]
    elif label >= 8 or graph.true[node, label] < 0:
      break
    else:
      if not graph.fresh[node, label]:
        if not _fits(graph, node, graph.true[node, label]):
          break
        graph.fresh[node, label] = True
        graph.held[node] += 1
        walk.first[steps] = True
      walk.path[steps + 1] = graph.true[node, label]
    steps += 1
  _back(graph, walk, labels, steps, _NONE)
  if steps == len(labels) and walk.path[steps] == destination:
    steps += 1
  return steps


@njit
def _choose(graph, walk, near, node, destination, label, rest, n):
  """Target of the edge that the printed algorithm adds, or -1."""
  slots = graph.degree[node]
  # The last edge must end the route; earlier edges may lead to any candidate.
  best, chosen = -1 if len(rest) else 0, _NOWHERE
  for candidate in near:
    if candidate == node or _leads(graph, node, candidate, slots, _NONE):
      continue
    # Added for the trial, so that the walk may use the edge, then removed.
    _add(graph, node, label, candidate, ~n)
    steps = _follow(graph, walk, candidate, destination, rest)
    graph.degree[node] -= 1
    if steps > best:
      best, chosen = steps, candidate
    if best > len(rest):
      break  # The complete rest to the destination: the maximum.
  return chosen


@njit
def _paper(graph, walk, problem, n):
  """Places route n by the printed algorithm; returns OK or the reason."""
  labels = problem.labels[problem.offsets[n] : problem.offsets[n + 1]]
  node, destination = problem.origins[n], problem.destinations[n]
  for done in range(len(labels)):
    label = labels[done]
    slot = _slot(graph, node, label)
    if slot >= 0:
      node = graph.target[node, slot]
      continue
    target = graph.true[node, label] if label < 8 else _NOWHERE
    # Node -1 is no neighbour: without a true edge, this tests whether another
    # neighbour would fit.
    if not _fits(graph, node, target):
      return NO_ROOM
    if target >= 0:
      _add(graph, node, label, target, n)
    else:
      near, rest = _near(problem, node), labels[done + 1 :]
      target = _choose(graph, walk, near, node, destination, label, rest, n)
      if target < 0:
        return NO_CANDIDATE if len(rest) else TOO_FAR
      _add(graph, node, label, target, ~n)
    node = target
  return OK if node == destination else OFF_DESTINATION


# Each algorithm has its own entry point, so that only the requested one is
# compiled.


@njit
def _place(graph, walk, best, problem, reasons, first, last):
  """Places routes first..last - 1 as published; fills their reasons."""
  for n in range(first, last):
    reasons[n] = _program(graph, walk, best, problem, n)


@njit
def _place_as_printed(graph, walk, problem, reasons, first, last):
  """Places routes first..last - 1 by the paper; fills their reasons."""
  for n in range(first, last):
    reasons[n] = _paper(graph, walk, problem, n)


def reconstruct(problem: PlacementProblem) -> UsedEdges:
  """Edges of all routes."""
  # One dtype each, contiguous: one compiled version. Mypy counts no fields.
  dtypes = 'i4', 'i8', 'i4', 'i4', 'i4', 'i8', 'i4'
  arrays = map(np.ascontiguousarray, problem[: len(dtypes)], dtypes)
  problem = PlacementProblem(*arrays, *problem[len(dtypes) :])  # type: ignore[arg-type]
  # A path has one node more than the longest route has labels.
  room = int(np.diff(problem.offsets).max(initial=0)) + 1
  # A node has at most one edge per label, plus one on trial. The paper limits
  # neighbours, to which up to 8 true edges may lead.
  kinds = max(int(problem.labels.max(initial=0)) + 1, 8)
  most = problem.max_degree + 8 * problem.paper
  states, slots = len(problem.delta), min(most, kinds) + 1
  graph = _Map(
    problem.delta,
    label=np.full((states, slots), -1, np.int32),
    target=np.full((states, slots), -1, np.int32),
    route=np.full((states, slots), -1, np.int32),
    degree=np.zeros(states, np.int64),
    fresh=np.zeros((states, 8), bool),
    held=np.zeros(states, np.int32),
    max_degree=problem.max_degree,
  )
  walk = _TrialWalk(np.zeros(room, np.int32), np.zeros(room, bool))
  best = _TrialWalk(np.zeros(room, np.int32), np.zeros(room, bool))
  reasons = np.zeros(len(problem.origins), np.int8)
  for rows in calls.slices(len(reasons)):
    span = rows.start, rows.stop
    if problem.paper:
      _place_as_printed(graph, walk, problem, reasons, *span)
    else:
      _place(graph, walk, best, problem, reasons, *span)
  source, slot = np.nonzero(np.arange(slots) < graph.degree[:, None])
  # Slots are in order of use; the result is by source, then label.
  order = np.lexsort((graph.label[source, slot], source))
  source, slot = source[order].astype(np.int32), slot[order]
  label, target, route = (
    column[source, slot] for column in (graph.label, graph.target, graph.route)
  )
  false = route < 0
  return UsedEdges(
    source, label, target, false, np.where(false, ~route, route), reasons
  )


# Segments on a map, and how many others they cross.


def crossings(
  x: np.ndarray, y: np.ndarray, tails: np.ndarray, heads: np.ndarray, num: int
) -> np.ndarray:
  """[num] int64: number of segments that each of the first `num` crosses.

  Touching or sharing an end does not count.

  Args:
    x: [S] float64, planar coordinates of the nodes.
    y: [S] float64.
    tails: [E] int32, ends of the segments.
    heads: [E] int32.
    num: number of segments to count for.
  """
  counts = np.zeros(num, np.int64)
  _crossings(x, y, tails, heads, counts)
  return counts


@njit
def _crossings(x, y, tails, heads, counts) -> None:
  """Adds to counts [num] the segments that each of the first `num` crosses."""
  for i in range(len(counts)):
    a, b = tails[i], heads[i]
    west, east = min(x[a], x[b]), max(x[a], x[b])
    south, north = min(y[a], y[b]), max(y[a], y[b])
    for j in range(len(tails)):
      c, d = tails[j], heads[j]
      # Most pairs are ruled out by the boxes around them.
      if max(x[c], x[d]) < west or min(x[c], x[d]) > east:
        continue
      if max(y[c], y[d]) < south or min(y[c], y[d]) > north:
        continue
      if a == b or c == d or a in (c, d) or b in (c, d):
        continue
      # The ends of each segment are on different sides of the other.
      if _side(x, y, a, b, c) * _side(x, y, a, b, d) < 0:
        counts[i] += _side(x, y, c, d, a) * _side(x, y, c, d, b) < 0


@njit
def _side(x, y, a, b, c) -> float:
  """Signed area: above 0 where c is to the left of the line from a to b."""
  return (x[b] - x[a]) * (y[c] - y[a]) - (y[b] - y[a]) * (x[c] - x[a])
