"""Replies to CogEval's questions: read as nodes, and how they fail.

A reply is read by `replies`, whose rules all tasks share.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from typing import NamedTuple

from wm.language.answers import values
from wm.worlds.cognitive_graph import questions
from wm.worlds.cognitive_graph.questions import AnsweredQuestion

UNKNOWN = values.UNKNOWN  # An item that names no node.


def parse_nodes(text: object) -> tuple[int, ...]:
  """Nodes of '1-7-?'; none of what is no text."""
  if not isinstance(text, str) or not text:
    return ()
  return tuple(
    UNKNOWN if node == '?' else int(node) for node in text.split('-')
  )


def read_path(text: str, node_names: Mapping[int, str]) -> tuple[int, ...]:
  """The nodes that a reply names as its answer; () of one that is unread.

  text: the reply, reasoning included.
  node_names: node -> name.
  """
  return values.path(text, _table(tuple(node_names.items()))).value or ()


def read_reply(
  problem: AnsweredQuestion, text: str, node_names: Mapping[int, str]
) -> tuple[int, ...]:
  """The answer of a reply to a problem, by the problem's kind.

  A number of clusters is its only node. Arguments are those of read_path.
  """
  if problem.kind == 'count':
    count = values.number(text, 'cluster').value
    return () if count is None else (count,)
  nodes = read_path(text, node_names)
  if problem.kind == 'choice':  # A sentence around a name is no second item.
    return tuple(node for node in nodes if node != UNKNOWN) or nodes
  return nodes


@functools.lru_cache(maxsize=256)
def _table(node_names: tuple[tuple[int, str], ...]) -> Mapping[str, int]:
  """Name, in small letters, -> node."""
  table = {name.lower(): node for node, name in node_names}
  aliases = questions.ALIASES.items()
  return {**{x: table[name] for x, name in aliases if name in table}, **table}


class AnswerVerdict(NamedTuple):
  """Class and flags of an answer.

  Attributes:
    outcome: the first that applies: no_answer, correct, hallucinated_node,
      wrong_start, hallucinated_edge, loop, too_long, wrong_goal; wrong_choice
      of a first step, wrong_count of clusters.
    nodes: of the path, with the start where it may be left out.
    hallucinated_edges: steps that no arc of the graph makes.
  """

  outcome: str
  nodes: tuple[int, ...]
  hallucinated_edges: int = 0


def judge(problem: AnsweredQuestion, nodes: tuple[int, ...]) -> AnswerVerdict:
  """Class and flags of an answer; a path stands for its first step."""
  if not nodes:
    return AnswerVerdict('no_answer', ())
  if problem.kind == 'path':
    return _path(problem, nodes)
  skips = problem.kind == 'choice' and nodes[0] == problem.start and nodes[1:]
  right = (nodes[1:2] if skips else nodes[:1]) in problem.optimal
  outcome = 'correct' if right else f'wrong_{problem.kind}'
  return AnswerVerdict(outcome, nodes)


def whole(problem: AnsweredQuestion, nodes: tuple[int, ...]) -> tuple[int, ...]:
  """A path with its start, where it may be left out and was."""
  free = problem.kind == 'path' and problem.optional_start
  return (
    (problem.start, *nodes) if free and nodes[0] != problem.start else nodes
  )


def _path(problem: AnsweredQuestion, nodes: tuple[int, ...]) -> AnswerVerdict:
  """Judges a path with or without its start."""
  graph, start = problem.graph, problem.start
  nodes = whole(problem, nodes)
  steps = list(itertools.pairwise(nodes))
  existing = {*graph.after, *problem.before.after}
  unknown = any(node not in existing for node in nodes)
  wrong = [step for step in steps if step not in graph.known]
  loop = len(set(nodes)) < len(nodes)
  reaches = nodes[-1] in problem.goals
  if nodes in problem.optimal:
    outcome = 'correct'
  elif unknown:
    outcome = 'hallucinated_node'
  elif nodes[0] != start:
    outcome = 'wrong_start'
  elif wrong:
    outcome = 'hallucinated_edge'
  elif loop:
    outcome = 'loop'
  else:
    outcome = 'too_long' if reaches else 'wrong_goal'
  return AnswerVerdict(outcome, nodes, hallucinated_edges=len(wrong))


def keys(problem: AnsweredQuestion, node_names: Mapping[int, str]) -> list[str]:
  """All right answers as text, without the word `Answer:`."""
  if problem.kind == 'count':
    return [f'there are {n} clusters' for (n,) in problem.optimal]
  paths = list(problem.optimal)
  if problem.kind == 'path' and problem.optional_start:
    paths += [path[1:] for path in paths]
  return [', '.join(node_names[node] for node in path) for path in paths]
