"""What CogEval changes in its graphs: one change for each condition.

'Neighbours of X' are always those in the graph before the change.
"""

from __future__ import annotations

from collections.abc import Mapping

from wm import core
from wm.worlds.cognitive_graph import graphs
from wm.worlds.cognitive_graph.graphs import GRAPHS, Arc, Change, Graph

# Conditions that change nothing, in the order of the paper.
UNCHANGED = ('valuePath', '1stepPath', '2stepPath', '3stepPath', 'nstepPath')
# Domains whose texts say something else than those of the ordered rooms.
NAMED = ('unordSpatial', 'socialTies')


def fan(graph: str, tail: int, of: int) -> tuple[Arc, ...]:
  """Arcs from a node to all neighbours of another, itself left out."""
  found = GRAPHS[graph].neighbours(of)
  return tuple((tail, node) for node in found if node != tail)


def anywhere(graph: str, tail: int) -> tuple[Arc, ...]:
  """Arcs from a node to all others."""
  return tuple((tail, node) for node in GRAPHS[graph].nodes if node != tail)


CHANGES: Mapping[str, Mapping[str, Change]] = {
  'n7line': {
    'rewardReval': Change(rewards=((5, 100),)),
    'transReval': Change(closed=((3, 5), (4, 6)), opened=((3, 6), (4, 5))),
    'nonteleShortcut': Change(opened=((0, 7), (7, 6))),
    'teleShortcut': Change(portals=fan('n7line', 0, 4)),
    'nonteleDetour': Change(closed=((4, 6),), opened=graphs.chain(0, 7, 8, 6)),
    'teleDetour': Change(
      closed=((4, 6),),
      opened=graphs.chain(0, 7, 8, 9),
      portals=fan('n7line', 9, 4),
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


def change(graph: str, name: str) -> Change:
  """A change of a graph by its name, '' for none; raises InputError."""
  graphs.graph(graph)
  known = CHANGES[graphs.LETTERS.get(graph, graph)]
  if name and name not in known:
    raise core.InputError(
      f"unknown edit {name!r} of {graph}; available: '', {', '.join(known)}"
    )
  return known[name] if name else Change()


def of_condition(graph: str, condition: str, domain: str) -> str:
  """Name of the change that a condition makes in a domain; '' for none.

  The texts of fields and scholars let a portal of the three large graphs lead
  anywhere, and change both rewards of n16cluster.
  """
  known = CHANGES[graph]
  other = {'teleDetour': 'teleDetourAnywhere', 'rewardReval': 'rewardRevalBoth'}
  name = other.get(condition, condition) if domain in NAMED else condition
  name = name if name in known else condition
  return name if name in known else ''


def edited(graph: str, edit: str) -> Graph:
  """A graph by its name, after one of its changes; raises InputError."""
  return graphs.changed(graphs.graph(graph), change(graph, edit))
