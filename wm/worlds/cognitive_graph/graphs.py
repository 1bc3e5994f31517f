"""The six graphs of CogEval, their changes, and exact answers about them.

An agent walks on a graph: arcs from node to node, a start node, and rewards at
some nodes. The six graphs are those of Momennejad et al. 2023 (NeurIPS,
"Evaluating Cognitive Maps and Planning in Large Language Models with CogEval",
figure 1).

CHANGES are CogEval's changes of its graphs, one for each condition.
'Neighbours of X' always means those in the graph before the change.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import networkx as nx

from wm.core import inputs

Arc = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Graph:
  """Nodes, arcs between them, a start and rewards.

  Attributes:
    arcs: (tail, head) pairs in the order of the text; a two-way edge is two
      arcs, first the one in the text.
    start: start node of an agent that looks for a reward.
    rewards: (node, reward) pairs.
    chances: (tail, head, probability) of doors with a random outcome; all other
      arcs can be chosen.
  """

  arcs: tuple[Arc, ...]
  start: int
  rewards: tuple[tuple[int, int], ...] = ()
  chances: tuple[tuple[int, int, float], ...] = ()

  @functools.cached_property
  def known(self) -> frozenset[Arc]:
    """All arcs, as a set."""
    return frozenset(self.arcs)

  @functools.cached_property
  def nodes(self) -> tuple[int, ...]:
    """All nodes, ascending."""
    return tuple(sorted({node for arc in self.arcs for node in arc}))

  @functools.cached_property
  def after(self) -> Mapping[int, tuple[int, ...]]:
    """Node -> successors, ascending."""
    heads: dict[int, set[int]] = {node: set() for node in self.nodes}
    for tail, head in self.arcs:
      heads[tail].add(head)
    return {node: tuple(sorted(following)) for node, following in heads.items()}

  @functools.cached_property
  def edges(self) -> tuple[Arc, ...]:
    """Each pair of joined nodes once, in the direction of its first arc."""
    edges: dict[frozenset[int], Arc] = {}
    for arc in self.arcs:
      edges.setdefault(frozenset(arc), arc)
    return tuple(edges.values())

  @property
  def directed(self) -> bool:
    """True if some arc is one-way."""
    return any((head, tail) not in self.known for tail, head in self.arcs)

  def neighbours(self, node: int) -> tuple[int, ...]:
    """Nodes joined to a node by an arc either way, ascending."""
    joined = {b for a, b in self.arcs if a == node}
    return tuple(sorted(joined | {a for a, b in self.arcs if b == node}))


class Change(NamedTuple):
  """A change of a graph.

  Attributes:
    closed: pairs of nodes whose arcs are removed, in both directions.
    opened: new arcs; two-way in graphs without one-way arcs.
    portals: new arcs that are one-way in any graph.
    rewards: (node, reward) pairs that are new or have another value.
    chances: see Graph.
  """

  closed: tuple[Arc, ...] = ()
  opened: tuple[Arc, ...] = ()
  portals: tuple[Arc, ...] = ()
  rewards: tuple[tuple[int, int], ...] = ()
  chances: tuple[tuple[int, int, float], ...] = ()


def both_ways(edges: Iterable[Arc]) -> tuple[Arc, ...]:
  """Both arcs of each two-way edge, without duplicates."""
  arcs = dict.fromkeys(edges)
  arcs.update(dict.fromkeys((b, a) for a, b in tuple(arcs)))
  return tuple(arcs)


def changed(graph: Graph, change: Change) -> Graph:
  """The graph after a change."""
  shut = {*change.closed, *((b, a) for a, b in change.closed)}
  new = change.opened if graph.directed else both_ways(change.opened)
  arcs = [arc for arc in graph.arcs if arc not in shut]
  rewards = {**dict(graph.rewards), **dict(change.rewards)}
  return Graph(
    tuple(dict.fromkeys([*arcs, *new, *change.portals])),
    graph.start,
    tuple(rewards.items()),
    change.chances,
  )


def two_way(rows: str) -> tuple[Arc, ...]:
  """Arcs of two-way edges, listed as 'NODE: NODE NODE; NODE: ...'.

  Their order is that of the paper's texts.
  """
  parts = (row.split(': ') for row in rows.split('; '))
  return both_ways((int(a), int(b)) for a, bs in parts for b in bs.split())


def chain(*nodes: int) -> tuple[Arc, ...]:
  """Arcs along a one-way chain."""
  return tuple(itertools.pairwise(nodes))


# The paper's A to F, by the names of its data.
GRAPHS: Mapping[str, Graph] = {
  'n7line': Graph(chain(0, 1, 3, 5) + chain(0, 2, 4, 6), 0, ((5, 10), (6, 50))),
  'n7tree': Graph(
    two_way('1: 2 3; 2: 4 5; 3: 6 7'), 1, ((4, 56), (5, 22), (6, 10), (7, 50))
  ),
  'n13line': Graph(
    chain(0, 1, 3, 5, 7, 9, 11) + chain(0, 2, 4, 6, 8, 10, 12),
    0,
    ((11, 10), (12, 50)),
  ),
  'n15star': Graph(
    two_way(
      '1: 7 10 13 11; 2: 5 8 11 14; 3: 6 9 12 8; 4: 7 10 13 15; 5: 8 11 14; '
      '6: 9 12 15; 7: 10 13; 8: 14; 9: 12 15; 10: 13; 11: 14; 12: 15'
    ),
    1,
    ((8, 50), (15, 10)),
  ),
  'n16cluster': Graph(
    two_way(
      '1: 2 3 4 7; 2: 1 3 4 16; 3: 1 2 4 5; 4: 1 2 3 14; 5: 6 7 8 3; '
      '6: 5 7 8 12; 7: 1 8 6 5; 8: 5 6 7 10; 9: 10 11 12 15; 10: 9 11 8 12; '
      '11: 13 9 12 10; 12: 9 10 11 6; 13: 14 15 16 11; 14: 4 13 15 16; '
      '15: 13 14 16 9; 16: 13 14 15 2'
    ),
    1,
    ((10, 50), (15, 10)),
  ),
  'n21star': Graph(
    two_way(
      '1: 2 3 4 5 6 7; 12: 13 14 8 9 10 11; 21: 15 16 17 18 19 20; '
      '6: 7 2 3 4 5; 3: 4 5 7 2; 14: 4 8 9 10 11; 10: 11 13 8 9; '
      '19: 20 15 16 17 18; 5: 7 2 16; 8: 9 11 13; 9: 11 13; 18: 20 15 16 17; '
      '7: 2 4; 11: 13; 20: 15 16 17; 2: 4; 13: 17; 17: 15; 15: 16'
    ),
    1,
    ((20, 50), (10, 10)),
  ),
}

# The paper's letters, in its order.
LETTERS = dict(zip('ABCDEF', GRAPHS, strict=True))


def graph(name: str) -> Graph:
  """A graph by its name or letter; raises InputError."""
  inputs.check_known(name, (*GRAPHS, *LETTERS), f'unknown graph {name!r}')
  return GRAPHS[LETTERS.get(name, name)]


# Domains whose texts differ from those of the ordered rooms.
NAMED = ('unordSpatial', 'socialTies')


def fan(graph: str, tail: int, of: int) -> tuple[Arc, ...]:
  """Arcs from a node to all neighbours of another, except to itself."""
  heads = GRAPHS[graph].neighbours(of)
  return tuple((tail, node) for node in heads if node != tail)


def anywhere(graph: str, tail: int) -> tuple[Arc, ...]:
  """Arcs from a node to all others."""
  return tuple((tail, node) for node in GRAPHS[graph].nodes if node != tail)


CHANGES: Mapping[str, Mapping[str, Change]] = {
  'n7line': {
    'rewardReval': Change(rewards=((5, 100),)),
    'transReval': Change(closed=((3, 5), (4, 6)), opened=((3, 6), (4, 5))),
    'nonteleShortcut': Change(opened=((0, 7), (7, 6))),
    'teleShortcut': Change(portals=fan('n7line', 0, 4)),
    'nonteleDetour': Change(closed=((4, 6),), opened=chain(0, 7, 8, 6)),
    'teleDetour': Change(
      closed=((4, 6),), opened=chain(0, 7, 8, 9), portals=fan('n7line', 9, 4)
    ),
  },
  'n7tree': {
    'rewardReval': Change(rewards=((4, 30), (5, 40), (6, 60), (7, 20))),
    'transReval': Change(closed=((2, 4),)),
    'nonteleShortcut': Change(portals=fan('n7tree', 1, 2)),
    'teleShortcut': Change(portals=fan('n7tree', 1, 2)),
    'nonteleDetour': Change(closed=((2, 4),), opened=((1, 8), (8, 4))),
    'teleDetour': Change(
      closed=((2, 4),), opened=((1, 8),), portals=fan('n7tree', 8, 2)
    ),
  },
  'n13line': {
    'rewardReval': Change(rewards=((11, 60),)),
    'transReval': Change(closed=((3, 5), (4, 6)), opened=((3, 6), (4, 5))),
    'transRevalStochastic': Change(
      opened=((3, 6), (4, 5)),
      chances=((3, 5, 0.9), (3, 6, 0.1), (4, 6, 0.9), (4, 5, 0.1)),
    ),
    'nonteleShortcut': Change(opened=((1, 14), *fan('n13line', 14, 10))),
    'teleShortcut': Change(opened=((1, 14),), portals=fan('n13line', 14, 10)),
    'nonteleDetour': Change(
      closed=((10, 12),), opened=((9, 14), *fan('n13line', 14, 10))
    ),
    'teleDetour': Change(
      closed=((10, 12),), opened=((9, 14),), portals=fan('n13line', 14, 10)
    ),
  },
  'n15star': {
    'rewardReval': Change(rewards=((8, 12), (15, 48))),
    'policyReval': Change(rewards=((10, 100),)),
    'transReval': Change(closed=((1, 11), (4, 15)), opened=((1, 12), (4, 11))),
    'nonteleShortcut': Change(opened=((1, 16), *fan('n15star', 16, 14))),
    'teleShortcut': Change(opened=((1, 16),), portals=fan('n15star', 16, 14)),
    'nonteleDetour': Change(closed=((1, 11),), opened=((13, 11),)),
    'teleDetour': Change(closed=((1, 11),), portals=fan('n15star', 4, 14)),
    'teleDetourAnywhere': Change(
      closed=((1, 11),), portals=anywhere('n15star', 4)
    ),
  },
  'n16cluster': {
    'rewardReval': Change(rewards=((15, 60),)),
    'rewardRevalBoth': Change(rewards=((10, 14), (15, 46))),
    'policyReval': Change(rewards=((13, 100),)),
    'transReval': Change(
      closed=((2, 16), (6, 12), (4, 14), (1, 7)),
      opened=((2, 12), (6, 16), (4, 7)),
    ),
    'nonteleShortcut': Change(opened=((1, 17), *fan('n16cluster', 17, 12))),
    'teleShortcut': Change(
      opened=((1, 17),), portals=fan('n16cluster', 17, 12)
    ),
    'nonteleDetour': Change(closed=((1, 7),)),
    'teleDetour': Change(closed=((1, 7),), portals=fan('n16cluster', 5, 12)),
    'teleDetourAnywhere': Change(
      closed=((1, 7),), portals=anywhere('n16cluster', 5)
    ),
  },
  'n21star': {
    'rewardReval': Change(rewards=((10, 49), (20, 11))),
    'policyReval': Change(rewards=((12, 100),)),
    'transReval': Change(closed=((4, 14), (5, 16)), opened=((4, 16), (5, 14))),
    'nonteleShortcut': Change(opened=((1, 22), *fan('n21star', 22, 15))),
    'teleShortcut': Change(opened=((1, 22),), portals=fan('n21star', 22, 15)),
    'nonteleDetour': Change(closed=((5, 16),), opened=((6, 15),)),
    'teleDetour': Change(closed=((5, 16),), portals=fan('n21star', 14, 15)),
    'teleDetourAnywhere': Change(
      closed=((5, 16),), portals=anywhere('n21star', 14)
    ),
  },
}


def change(name: str, edit: str) -> Change:
  """A graph's change by its name, '' for none; raises InputError."""
  graph(name)
  edits = {'': Change(), **CHANGES[LETTERS.get(name, name)]}
  inputs.check_known(edit, edits, f'unknown edit {edit!r} of {name}')
  return edits[edit]


def of_condition(graph: str, condition: str, domain: str) -> str:
  """Name of a condition's change in a domain; '' for none.

  In the texts of fields and scholars, a portal of the three large graphs leads
  to any node, and both rewards of n16cluster change.
  """
  changes = CHANGES[graph]
  other = {'teleDetour': 'teleDetourAnywhere', 'rewardReval': 'rewardRevalBoth'}
  name = other.get(condition, condition) if domain in NAMED else condition
  name = name if name in changes else condition
  return name if name in changes else ''


def edited(name: str, edit: str) -> Graph:
  """A graph by its name, after one of its changes; raises InputError."""
  return changed(graph(name), change(name, edit))


Path = tuple[int, ...]


@functools.lru_cache(maxsize=4096)
def distances(graph: Graph, start: int) -> Mapping[int, int]:
  """Node -> arcs on a shortest path from `start`, of the reachable nodes."""
  steps = {start: 0} if start in graph.after else {}
  queue = collections.deque(steps)
  while queue:
    node = queue.popleft()
    for head in graph.after[node]:
      if head not in steps:
        steps[head] = steps[node] + 1
        queue.append(head)
  return steps


@functools.lru_cache(maxsize=4096)
def shortest_paths(graph: Graph, start: int, goal: int) -> tuple[Path, ...]:
  """All shortest paths, both ends included, ascending; () without a path."""
  if goal not in distances(graph, start):
    return ()
  paths = nx.all_shortest_paths(nx.DiGraph(graph.arcs), start, goal)
  return tuple(sorted(map(tuple, paths)))


def rewarded(graph: Graph) -> tuple[int, ...]:
  """Nodes with the largest reward that can be reached from the start."""
  reached = distances(graph, graph.start)
  rewards = {node: value for node, value in graph.rewards if node in reached}
  most = max(rewards.values(), default=0)
  return tuple(sorted(node for node, value in rewards.items() if value == most))


def best_nodes(graph: Graph) -> tuple[int, ...]:
  """The nearest of the reachable nodes with the largest reward."""
  steps, best = distances(graph, graph.start), rewarded(graph)
  least = min((steps[node] for node in best), default=0)
  return tuple(node for node in best if steps[node] == least)


def best_paths(graph: Graph) -> tuple[Path, ...]:
  """All shortest paths from the start to the largest single reward."""
  goals = best_nodes(graph)
  by_goal = [shortest_paths(graph, graph.start, goal) for goal in goals]
  return tuple(sorted(path for paths in by_goal for path in paths))


def best_choices(graph: Graph) -> tuple[int, ...]:
  """First steps of the best paths, ascending.

  With random doors, the steps with the largest probability of reaching the
  largest reward under the best later choices.
  """
  if not graph.chances:
    return tuple(sorted({path[1] for path in best_paths(graph) if path[1:]}))
  most = max(value for _, value in graph.rewards)
  goals = [node for node, value in graph.rewards if value == most]
  chance = _chances(graph, goals)
  steps = graph.after[graph.start]
  best = max(chance[node] for node in steps)
  return tuple(node for node in steps if chance[node] == best)


def _chances(graph: Graph, goals: Iterable[int]) -> Mapping[int, float]:
  """Node -> probability of reaching a goal with the best choice everywhere."""
  by_chance: dict[int, list[tuple[int, float]]] = {}
  for tail, head, probability in graph.chances:
    by_chance.setdefault(tail, []).append((head, probability))
  chance = {node: float(node in goals) for node in graph.nodes}
  for _ in graph.nodes:
    for node in graph.nodes:
      if node in by_chance:
        chance[node] = sum(p * chance[head] for head, p in by_chance[node])
      elif graph.after[node] and node not in goals:
        chance[node] = max(chance[head] for head in graph.after[node])
  return chance


def clusters(graph: Graph) -> tuple[frozenset[int], ...]:
  """Groups of at least two nodes that triangles connect.

  Two neighbours are in one group if they share a neighbour; bridges of a
  community graph are in no triangle.
  """
  whole = nx.Graph(graph.arcs)
  inside = [(a, b) for a, b in whole.edges if {*whole[a]} & {*whole[b]}]
  return tuple(map(frozenset, nx.connected_components(nx.Graph(inside))))


def pairs_at(graph: Graph, distance: int) -> tuple[tuple[int, int], ...]:
  """Pairs of nodes that a shortest path of `distance` arcs joins, ascending."""
  return tuple(
    (start, goal)
    for start in graph.nodes
    for goal, steps in distances(graph, start).items()
    if steps == distance
  )
