"""CogEval's questions about a graph, each with all of its right answers."""

from __future__ import annotations

import functools
from typing import NamedTuple

from wm import core
from wm.worlds.cognitive_graph import graphs, solver
from wm.worlds.cognitive_graph.graphs import Graph
from wm.worlds.cognitive_graph.solver import Path

# Distance between start and goal of a path question.
STEPS = {'1stepPath': 1, '2stepPath': 2, '3stepPath': 3}
FARTHEST = {'n13line': 5, 'n15star': 4, 'n16cluster': 4, 'n21star': 4}
LARGE = ('n15star', 'n16cluster', 'n21star')
# The paper's five groups of conditions, and what is in its data besides.
GROUPS = {
  'Traversal': (
    'valuePath',
    '1stepPath',
    '2stepPath',
    '3stepPath',
    'nstepPath',
  ),
  'RewReval': ('rewardReval', 'policyReval'),
  'TransReval': ('transReval', 'transRevalStochastic'),
  'Shortcut': (
    'nonteleShortcut',
    'teleShortcut',
    'nonteleShortcutShortest',
    'teleShortcutShortest',
  ),
  'Detour': ('nonteleDetour', 'teleDetour'),
  'Clusters': ('nClusters',),
}


class Question(NamedTuple):
  """What is asked.

  Attributes:
    graph: a name of `graphs.GRAPHS`.
    condition: one of `conditions(graph)`.
    domain: see `names.DOMAINS`; some domains change something else.
    start, goal: of path questions; None otherwise.
  """

  graph: str
  condition: str
  domain: str = 'ordRooms'
  start: int | None = None
  goal: int | None = None


class Problem(NamedTuple):
  """A question with its answers.

  Attributes:
    kind: 'path', 'choice' (the first step alone) or 'count' (of clusters).
    before: the graph that is described first.
    graph: the graph that the question is about, after the change.
    start: where a path starts.
    goals: nodes at which a right path ends.
    optimal: all right answers: paths with both ends, single steps, or a number.
    optional_start: may a path leave its start out? Entrances have no number.
  """

  kind: str
  before: Graph
  graph: Graph
  start: int
  goals: tuple[int, ...]
  optimal: tuple[Path, ...]
  optional_start: bool


def conditions(graph: str) -> tuple[str, ...]:
  """All conditions of a graph, in the order of the paper."""
  graphs.graph(graph)
  name = graphs.LETTERS.get(graph, graph)
  ordered = [c for group in GROUPS.values() for c in group]
  far = ['3stepPath'] if name in FARTHEST else []
  asked = ['valuePath', '1stepPath', '2stepPath', *far]
  asked += ['nstepPath'] if name in FARTHEST else []
  asked += graphs.CHANGES[name]
  asked += ['nClusters'] if name in LARGE else []
  if name in ('n7line', 'n13line'):
    asked += ['nonteleShortcutShortest', 'teleShortcutShortest']
  return tuple(condition for condition in ordered if condition in asked)


def distance(graph: str, condition: str) -> int | None:
  """Arcs from start to goal of a path question; None of other conditions."""
  if condition == 'nstepPath':
    return FARTHEST.get(graphs.LETTERS.get(graph, graph))
  return STEPS.get(condition)


@functools.lru_cache(maxsize=4096)
def problem(question: Question) -> Problem:
  """The question's graph and all of its right answers.

  Raises:
    InputError: there is no such graph or condition, start and goal are
      missing, or no path joins them.
  """
  name = graphs.LETTERS.get(question.graph, question.graph)
  before = graphs.graph(name)
  if question.condition not in conditions(name):
    raise core.InputError(
      f'unknown condition {question.condition!r} of {name}; available: '
      + ', '.join(conditions(name))
    )
  condition = question.condition.removesuffix('Shortest')
  if condition == 'nClusters':
    answers = ((len(solver.clusters(before)),),)
    return Problem('count', before, before, before.start, (), answers, True)
  if distance(name, condition) is not None:
    return _between(question, before)
  edit = graphs.of_condition(name, condition, question.domain)
  after = graphs.changed(before, graphs.change(name, edit))
  goals = solver.best_nodes(after)
  if name == 'n7line' or after.chances:
    choices = tuple((node,) for node in solver.best_choices(after))
    return Problem('choice', before, after, after.start, goals, choices, True)
  paths = solver.best_paths(after)
  free = after.start == 0
  return Problem('path', before, after, after.start, goals, paths, free)


def _between(question: Question, graph: Graph) -> Problem:
  """A shortest path between two nodes, however far apart they are."""
  start, goal = question.start, question.goal
  if start is None or goal is None:
    raise core.InputError(f'{question.condition} takes a start and a goal')
  paths = solver.shortest_paths(graph, start, goal)
  if not paths:
    raise core.InputError(
      f'{question.graph}: no path leads from {start} to {goal}'
    )
  return Problem('path', graph, graph, start, (goal,), paths, False)
