"""CogEval's questions about a graph, each with all correct answers.

Names of nodes depend on the domain, one of the paper's three. A seed above 0
shuffles the names.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import basics, inputs
from wm.worlds.base import verbal
from wm.worlds.cognitive_graph import graphs

# Distance between start and goal of a path question.
STEPS = {'1stepPath': 1, '2stepPath': 2, '3stepPath': 3}
FARTHEST = {'n13line': 5, 'n15star': 4, 'n16cluster': 4, 'n21star': 4}
LARGE = ('n15star', 'n16cluster', 'n21star')
# The paper's five groups of conditions, and further ones in its data.
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
GROUP = {name: group for group, names in GROUPS.items() for name in names}


class Question(NamedTuple):
  """A question about a graph.

  Attributes:
    graph: a name of `graphs.GRAPHS`.
    condition: one of `conditions(graph)`.
    domain: see `DOMAINS`; in some domains the change differs.
    start, goal: of path questions; None otherwise.
  """

  graph: str
  condition: str
  domain: str = 'ordRooms'
  start: int | None = None
  goal: int | None = None


class AnsweredQuestion(NamedTuple):
  """A question with its answers.

  Attributes:
    kind: 'path', 'choice' (only the first step) or 'count' (of clusters).
    before: the graph that is described first.
    graph: the graph of the question, after the change.
    start: first node of a path.
    goals: last nodes of correct paths.
    optimal: all correct answers: paths with both ends, single steps, or a
      number.
    optional_start: True if a path may omit its start, as entrances have no
      number.
  """

  kind: str
  before: graphs.Graph
  graph: graphs.Graph
  start: int
  goals: tuple[int, ...]
  optimal: tuple[graphs.Path, ...]
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
  """Arcs from start to goal of a path question; None for other conditions."""
  if condition == 'nstepPath':
    return FARTHEST.get(graphs.LETTERS.get(graph, graph))
  return STEPS.get(condition)


@functools.lru_cache(maxsize=4096)
def problem(question: Question) -> AnsweredQuestion:
  """The question's graph and all correct answers.

  Raises:
    InputError: an unknown graph or condition, a missing start or goal, or no
      path between them.
  """
  name = graphs.LETTERS.get(question.graph, question.graph)
  before = graphs.graph(name)
  text = f'unknown condition {question.condition!r} of {name}'
  inputs.check_known(question.condition, conditions(name), text)
  condition = question.condition.removesuffix('Shortest')
  if condition == 'nClusters':
    answers = ((len(graphs.clusters(before)),),)
    return AnsweredQuestion(
      'count', before, before, before.start, (), answers, True
    )
  if distance(name, condition) is not None:
    return _between(question, before)
  edit = graphs.of_condition(name, condition, question.domain)
  after = graphs.changed(before, graphs.change(name, edit))
  goals = graphs.best_nodes(after)
  if name == 'n7line' or after.chances:
    choices = tuple((node,) for node in graphs.best_choices(after))
    return AnsweredQuestion(
      'choice', before, after, after.start, goals, choices, True
    )
  paths = graphs.best_paths(after)
  free = after.start == 0
  return AnsweredQuestion(
    'path', before, after, after.start, goals, paths, free
  )


def _between(question: Question, graph: graphs.Graph) -> AnsweredQuestion:
  """A question about shortest paths between two nodes at any distance."""
  start, goal = question.start, question.goal
  if start is None or goal is None:
    raise core.InputError(f'{question.condition} takes a start and a goal')
  paths = graphs.shortest_paths(graph, start, goal)
  if not paths:
    raise core.InputError(
      f'{question.graph}: no path leads from {start} to {goal}'
    )
  return AnsweredQuestion('path', graph, graph, start, (goal,), paths, False)


FIELDS = verbal.words(
  'rose sunflower tulip daisy orchid hydrangea lily peony daffodil '
  'chrysanthemum carnation marigold poppy zinnia lavender aster dahlia '
  'hyacinth jasmine snapdragon iris magnolia'
)
SCHOLARS = verbal.words(
  'Amir Wim Raj Jing Wei Nisha Reza Kim Ian Moin Puja Sara Pari Pam Matt Eva '
  'Amy Gia Ming Prem Zack Vivian'
)
FIRST = {'unordSpatial': 'entrance', 'socialTies': 'Vicky'}

DOMAINS = verbal.words('ordRooms unordSpatial socialTies')
SHORT = {'rooms': 'ordRooms', 'fields': 'unordSpatial', 'people': 'socialTies'}
# Domains in which node 0 is the entrance, not a numbered place.
LOBBY = 'lobby'

# Other spellings of one name: graph D has both for scholar 15.
ALIASES = {'max': 'matt'}


def full_domain(name: str) -> str:
  """A domain by its name or short name; raises InputError."""
  inputs.check_known(name, (*DOMAINS, *SHORT), f'unknown domain {name!r}')
  return SHORT.get(name, name)


def most_nodes(graph: str) -> int:
  """Largest number of a node of a graph, after any change.

  The three large graphs share their names, hence this number.
  """
  name = graphs.LETTERS.get(graph, graph)
  return {'n7line': 9, 'n7tree': 8, 'n13line': 14}.get(name, 22)


def node_names(
  graph: str, domain_name: str, most: int, seed: int = 0
) -> Mapping[int, str]:
  """Node -> name, for nodes 0..most.

  graph: a name of `graphs.GRAPHS`; n7tree has its entrance at node 1.
  most: the largest number of a node, including new nodes of a change.
  seed: 0 gives the names of CogEval; other seeds shuffle the names.
    The entrance and the lobby keep their names.
  """
  domain_name = full_domain(domain_name)
  graph = graphs.LETTERS.get(graph, graph)
  fields = domain_name == 'unordSpatial'
  first = 1 if graph == 'n7tree' and fields else 0
  places = range(first + 1, most + 1)
  names = {
    'ordRooms': [str(place) for place in places],
    'unordSpatial': _enough(FIELDS, len(places)),
    'socialTies': _enough(SCHOLARS, len(places)),
  }[domain_name]
  if seed:
    order = np.argsort(basics.hash64(seed, np.arange(len(places))))
    names = [names[k] for k in order]
  start = LOBBY if domain_name == 'ordRooms' else FIRST[domain_name]
  return {first: start, **dict(zip(places, names, strict=False))}


def _enough(pool: Sequence[str], count: int) -> list[str]:
  """`count` names; beyond the pool, its names repeat with numbers."""
  rounds = range(2, 2 + count // len(pool))
  return [*pool, *(f'{name}{k}' for k in rounds for name in pool)]
