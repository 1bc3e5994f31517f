"""How an answer to a CogEval question fails, by the solver alone."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import NamedTuple

from wm.language.cogeval import parsing
from wm.language.cogeval.parsing import UNKNOWN, Reply
from wm.worlds.cognitive_graph import questions
from wm.worlds.cognitive_graph.questions import Problem, Question
from wm.worlds.cognitive_graph.solver import best_nodes, distances

# The classes of an answer, in the order in which they are asked for.
OUTCOMES = (
  'no_answer',
  'correct',
  'hallucinated_node',
  'wrong_start',
  'hallucinated_edge',
  'loop',
  'too_long',
  'wrong_goal',
  'wrong_choice',
  'wrong_count',
)


class Verdict(NamedTuple):
  """What is right and wrong with an answer.

  Attributes:
    outcome: one of OUTCOMES, the first that applies.
    nodes: of the path, with the start where it may be left out.
    hallucinated_nodes: items that name no node of the graph.
    hallucinated_edges: steps that no arc of the graph makes.
    perseverations: those of these steps that an arc made before the change.
    loop: is a node visited twice?
    too_long: arcs beyond the shortest way, of a path that reaches a goal.
    old_goal: does the path end at a best node before the change?
    valid: do arcs make all steps, from the right start?
    reaches: does the path end at a goal?
  """

  outcome: str
  nodes: tuple[int, ...]
  hallucinated_nodes: int = 0
  hallucinated_edges: int = 0
  perseverations: int = 0
  loop: bool = False
  too_long: int = 0
  old_goal: bool = False
  valid: bool = False
  reaches: bool = False

  @property
  def graded(self) -> float:
    """1 for an optimal answer, 2/3 where it is valid and reaches, 1/3 valid."""
    if self.outcome == 'correct':
      return 1.0
    return (self.valid + (self.valid and self.reaches)) / 3


def judge(problem: Problem, reply: Reply) -> Verdict:
  """Class and flags of a reply to a problem."""
  nodes = reply.nodes
  if not nodes:
    return Verdict('no_answer', ())
  if problem.kind == 'count':
    right = nodes[:1] in problem.optimal
    return Verdict('correct' if right else 'wrong_count', nodes[:1])
  if problem.kind == 'choice':
    return _choice(problem, reply)
  return _path(problem, nodes)


def of_text(question: Question, text: str, known: Mapping[int, str]) -> Verdict:
  """The verdict on a reply to a question.

  known: node -> name, as the question has them.
  """
  problem = questions.problem(question)
  if problem.kind == 'count':
    return judge(problem, parsing.read_count(text))
  return judge(problem, parsing.read(text, known))


def whole(problem: Problem, nodes: tuple[int, ...]) -> tuple[int, ...]:
  """A path with its start, where it may be left out and was."""
  free = problem.kind == 'path' and problem.optional_start
  return (
    (problem.start, *nodes) if free and nodes[0] != problem.start else nodes
  )


def _choice(problem: Problem, reply: Reply) -> Verdict:
  """Of a first step; a whole path stands for its first step."""
  nodes = reply.nodes
  if not reply.hedged:  # A sentence around a name is no second item.
    nodes = tuple(node for node in nodes if node != UNKNOWN) or nodes
  if nodes[0] == problem.start and nodes[1:]:
    nodes = nodes[1:]
  right = nodes[:1] in problem.optimal
  known = nodes[0] in {*problem.graph.after, *problem.before.after}
  return Verdict(
    'correct' if right else 'wrong_choice',
    reply.nodes,
    hallucinated_nodes=int(not known),
    valid=(problem.start, nodes[0]) in problem.graph.known,
    reaches=right,
  )


def _path(problem: Problem, nodes: tuple[int, ...]) -> Verdict:
  """Of a path with or without its start."""
  graph, start = problem.graph, problem.start
  nodes = whole(problem, nodes)
  steps = list(itertools.pairwise(nodes))
  known = {*graph.after, *problem.before.after}
  unknown = sum(node not in known for node in nodes)
  wrong = [step for step in steps if step not in graph.known]
  loop = len(set(nodes)) < len(nodes)
  reaches = nodes[-1] in problem.goals
  valid = not unknown and not wrong and nodes[0] == start
  least = min((distances(graph, start)[g] for g in problem.goals), default=0)
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
  return Verdict(
    outcome,
    nodes,
    hallucinated_nodes=unknown,
    hallucinated_edges=len(wrong),
    perseverations=sum(step in problem.before.known for step in wrong),
    loop=loop,
    too_long=max(len(nodes) - 1 - least, 0) if reaches and valid else 0,
    old_goal=nodes[-1] in best_nodes(problem.before),
    valid=valid,
    reaches=reaches,
  )
