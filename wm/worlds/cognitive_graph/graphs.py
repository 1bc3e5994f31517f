"""Graphs with rewards, changes of them, and the six graphs of CogEval.

A graph is what an agent walks on: arcs from node to node, a node where its
walks start, and rewards at some nodes. The six graphs are those of Momennejad
et al. 2023 (NeurIPS, "Evaluating Cognitive Maps and Planning in Large Language
Models with CogEval", figure 1); what changes in them is in `changes`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from wm import core

Arc = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Graph:
  """Nodes, arcs between them, a start and rewards.

  Attributes:
    arcs: (tail, head) pairs in the order in which they are told; an edge that
      leads both ways is two arcs, the way it is told first.
    start: where an agent sets out that looks for a reward.
    rewards: (node, reward) pairs.
    chances: (tail, head, probability) of doors that lead somewhere by chance;
      all other arcs can be taken at will.
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
    """Node -> the nodes that one arc leads to, ascending."""
    heads: dict[int, set[int]] = {node: set() for node in self.nodes}
    for tail, head in self.arcs:
      heads[tail].add(head)
    return {node: tuple(sorted(found)) for node, found in heads.items()}

  @functools.cached_property
  def edges(self) -> tuple[Arc, ...]:
    """Each pair of joined nodes once, as it is told first."""
    told: dict[frozenset[int], Arc] = {}
    for arc in self.arcs:
      told.setdefault(frozenset(arc), arc)
    return tuple(told.values())

  @property
  def directed(self) -> bool:
    """Does some arc lead one way only?"""
    return any((head, tail) not in self.known for tail, head in self.arcs)

  def neighbours(self, node: int) -> tuple[int, ...]:
    """Nodes joined to a node by an arc either way, ascending."""
    found = {b for a, b in self.arcs if a == node}
    return tuple(sorted(found | {a for a, b in self.arcs if b == node}))


class Change(NamedTuple):
  """What is no longer so in a graph.

  Attributes:
    closed: pairs of nodes that no arc joins any more, in neither direction.
    opened: arcs that are new; both ways where the graph has no one-way arcs.
    portals: arcs that are new and lead one way in any graph.
    rewards: (node, reward) pairs that are new or have another value.
    chances: see Graph.
  """

  closed: tuple[Arc, ...] = ()
  opened: tuple[Arc, ...] = ()
  portals: tuple[Arc, ...] = ()
  rewards: tuple[tuple[int, int], ...] = ()
  chances: tuple[tuple[int, int, float], ...] = ()


def both_ways(edges: Iterable[Arc]) -> tuple[Arc, ...]:
  """Arcs of edges that lead both ways, each pair once."""
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


def told(rows: Mapping[int, Iterable[int]]) -> tuple[Arc, ...]:
  """Arcs of edges that lead both ways, listed by their first node."""
  return both_ways((a, b) for a, heads in rows.items() for b in heads)


def chain(*nodes: int) -> tuple[Arc, ...]:
  """Arcs along a one-way chain."""
  return tuple(itertools.pairwise(nodes))


# The paper's A to F, by the names of its data.
GRAPHS: Mapping[str, Graph] = {
  'n7line': Graph(chain(0, 1, 3, 5) + chain(0, 2, 4, 6), 0, ((5, 10), (6, 50))),
  'n7tree': Graph(
    told({1: (2, 3), 2: (4, 5), 3: (6, 7)}),
    1,
    ((4, 56), (5, 22), (6, 10), (7, 50)),
  ),
  'n13line': Graph(
    chain(0, 1, 3, 5, 7, 9, 11) + chain(0, 2, 4, 6, 8, 10, 12),
    0,
    ((11, 10), (12, 50)),
  ),
  'n15star': Graph(
    told(
      {
        1: (7, 10, 13, 11),
        2: (5, 8, 11, 14),
        3: (6, 9, 12, 8),
        4: (7, 10, 13, 15),
        5: (8, 11, 14),
        6: (9, 12, 15),
        7: (10, 13),
        8: (14,),
        9: (12, 15),
        10: (13,),
        11: (14,),
        12: (15,),
      }
    ),
    1,
    ((8, 50), (15, 10)),
  ),
  'n16cluster': Graph(
    told(
      {
        1: (2, 3, 4, 7),
        2: (1, 3, 4, 16),
        3: (1, 2, 4, 5),
        4: (1, 2, 3, 14),
        5: (6, 7, 8, 3),
        6: (5, 7, 8, 12),
        7: (1, 8, 6, 5),
        8: (5, 6, 7, 10),
        9: (10, 11, 12, 15),
        10: (9, 11, 8, 12),
        11: (13, 9, 12, 10),
        12: (9, 10, 11, 6),
        13: (14, 15, 16, 11),
        14: (4, 13, 15, 16),
        15: (13, 14, 16, 9),
        16: (13, 14, 15, 2),
      }
    ),
    1,
    ((10, 50), (15, 10)),
  ),
  'n21star': Graph(
    told(
      {
        1: (2, 3, 4, 5, 6, 7),
        12: (13, 14, 8, 9, 10, 11),
        21: (15, 16, 17, 18, 19, 20),
        6: (7, 2, 3, 4, 5),
        3: (4, 5, 7, 2),
        14: (4, 8, 9, 10, 11),
        10: (11, 13, 8, 9),
        19: (20, 15, 16, 17, 18),
        5: (7, 2, 16),
        8: (9, 11, 13),
        9: (11, 13),
        18: (20, 15, 16, 17),
        7: (2, 4),
        11: (13,),
        20: (15, 16, 17),
        2: (4,),
        13: (17,),
        17: (15,),
        15: (16,),
      }
    ),
    1,
    ((20, 50), (10, 10)),
  ),
}

# The paper's letters, in its order.
LETTERS = dict(zip('ABCDEF', GRAPHS, strict=True))


def graph(name: str) -> Graph:
  """A graph by its name or letter; raises InputError."""
  found = GRAPHS.get(LETTERS.get(name, name))
  if found is None:
    raise core.InputError(
      f'unknown graph {name!r}; available: {", ".join(GRAPHS)}, '
      f'or {", ".join(LETTERS)}'
    )
  return found
