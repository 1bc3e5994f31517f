"""Replies to CogEval's questions: read as nodes, scored, and how they fail.

A reply is read by `replies`, whose rules all tasks share.

The token score is the one of the paper, which is not published: it was
recovered from scores that its repository held in May 2023. The matched part of
a reply begins with the word 'Answer:', and that word counts, so that a wrong
answer of one word has half of all. It is for reading the paper's numbers only.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wm.language.answers import replies, structures
from wm.language.answers.structures import NodeReply
from wm.worlds.cognitive_graph import questions
from wm.worlds.cognitive_graph.graphs import best_nodes, distances
from wm.worlds.cognitive_graph.questions import AnsweredQuestion

UNKNOWN = structures.UNKNOWN  # An item that names no node.
# `Answer:`, also `**Final answer:**` and `ANSWER =`.
_ANSWER = re.compile(r'\banswer[\s*_]{0,4}[:=][\s*_]*', re.IGNORECASE)
LONGEST = 100_000  # Characters of a reply that are read, from its end.


def parse_nodes(text: object) -> tuple[int, ...]:
  """Nodes of '1-7-?'; none of what is no text."""
  if not isinstance(text, str) or not text:
    return ()
  return tuple(
    UNKNOWN if node == '?' else int(node) for node in text.split('-')
  )


def format_nodes(nodes: Sequence[int]) -> str:
  """Nodes as `parse_nodes` reads them."""
  return '-'.join('?' if node < 0 else str(node) for node in nodes)


def read_path(text: str, node_names: Mapping[int, str]) -> NodeReply:
  """The nodes that a reply names as its answer; none of one that is unread.

  text: the reply, reasoning included.
  node_names: node -> name.
  """
  reading = structures.path(text, _table(tuple(node_names.items())))
  return reading.value or NodeReply(())


def read_count(text: str) -> NodeReply:
  """The number of clusters that a reply gives, as its only node."""
  count = structures.number(text[-LONGEST:], 'cluster').value
  return NodeReply(() if count is None else (count,))


def read_reply(
  problem: AnsweredQuestion, text: str, node_names: Mapping[int, str]
) -> NodeReply:
  """The answer of a reply to a problem, by the problem's kind.

  Arguments are those of read_path.
  """
  reader = _read if len(text) <= _REMEMBERED else _read.__wrapped__
  return reader(problem.kind, text, tuple(node_names.items()))


# Characters of a reply that is not read again, at most. Models repeat each
# other, and logs and the page of a record have the same replies.
_REMEMBERED = 4000


@functools.lru_cache(maxsize=1 << 16)
def _read(
  kind: str, text: str, node_names: tuple[tuple[int, str], ...]
) -> NodeReply:
  """See read_reply."""
  if kind == 'count':
    return read_count(text)
  return read_path(text, dict(node_names))


@functools.lru_cache(maxsize=256)
def _table(node_names: tuple[tuple[int, str], ...]) -> Mapping[str, int]:
  """Name, in small letters, -> node."""
  table = {name.lower(): node for node, name in node_names}
  for alias, name in questions.ALIASES.items():
    if name in table:
      table.setdefault(alias, table[name])
  return table


WORD = 'Answer:'


def token_score(answer: str, keys: Sequence[str]) -> float:
  """Share of leading words that an answer shares with its keys.

  1 where the answer is a key. Else the number of leading words shared, over
  the number of words of the longer one; the least over all keys.

  Args:
    answer: from the word 'Answer:' on; '' where nothing was matched.
    keys: right answers, with that word.
  """
  if answer in keys:
    return 1.0
  answered, shares = answer.split(), []
  for words in (key.split() for key in keys if answered):
    alike = [a == b for a, b in zip(answered, words, strict=False)]
    shared = [*alike, False].index(False)
    shares.append(shared / max(len(answered), len(words)))
  return min(shares, default=0.0)


def matched(text: str) -> str:
  """A reply's first 'Answer:' and the rest of its line; '' where it has none.

  The paper searched for a regular expression, whose first match counts.
  """
  place = text.find(WORD)
  return text[place:].split('\n', 1)[0].strip() if place >= 0 else ''


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


class AnswerVerdict(NamedTuple):
  """Class and flags of an answer.

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


def judge(problem: AnsweredQuestion, reply: NodeReply) -> AnswerVerdict:
  """Class and flags of a reply to a problem."""
  nodes = reply.nodes
  if not nodes:
    return AnswerVerdict('no_answer', ())
  if problem.kind == 'count':
    right = nodes[:1] in problem.optimal
    return AnswerVerdict('correct' if right else 'wrong_count', nodes[:1])
  if problem.kind == 'choice':
    return _choice(problem, reply)
  return _path(problem, nodes)


def whole(problem: AnsweredQuestion, nodes: tuple[int, ...]) -> tuple[int, ...]:
  """A path with its start, where it may be left out and was."""
  free = problem.kind == 'path' and problem.optional_start
  return (
    (problem.start, *nodes) if free and nodes[0] != problem.start else nodes
  )


def _choice(problem: AnsweredQuestion, reply: NodeReply) -> AnswerVerdict:
  """Judges a first step; a whole path stands for its first step."""
  nodes = reply.nodes
  if not reply.hedged:  # A sentence around a name is no second item.
    nodes = tuple(node for node in nodes if node != UNKNOWN) or nodes
  if nodes[0] == problem.start and nodes[1:]:
    nodes = nodes[1:]
  right = nodes[:1] in problem.optimal
  exists = nodes[0] in {*problem.graph.after, *problem.before.after}
  return AnswerVerdict(
    'correct' if right else 'wrong_choice',
    reply.nodes,
    hallucinated_nodes=int(not exists),
    valid=(problem.start, nodes[0]) in problem.graph.known,
    reaches=right,
  )


def _path(problem: AnsweredQuestion, nodes: tuple[int, ...]) -> AnswerVerdict:
  """Judges a path with or without its start."""
  graph, start = problem.graph, problem.start
  nodes = whole(problem, nodes)
  steps = list(itertools.pairwise(nodes))
  existing = {*graph.after, *problem.before.after}
  unknown = sum(node not in existing for node in nodes)
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
  return AnswerVerdict(
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


def scored(
  problem: AnsweredQuestion, text: str, node_names: Mapping[int, str]
) -> tuple[dict[str, float], AnswerVerdict]:
  """Scores of a reply to a problem; node_names: node -> name.

  Returns:
    The verdict, and scores from 0 to 1: correct, is it an optimal answer,
    however it is written (lenient)? strict, is it one, written as it was asked
    for behind the last `Answer:`? graded, 1 optimal, 2/3 a way to the goal, 1/3
    a way, 0 none; token, the paper's score of words, see `token_score`.
  """
  verdict = judge(problem, read_reply(problem, text, node_names))
  correct = float(verdict.outcome == 'correct')
  right = [f'{WORD} {key}' for key in keys(problem, node_names)]
  return {
    'correct': correct,
    'strict': correct and float(as_asked(problem, text, node_names)),
    'graded': verdict.graded,
    'token': token_score(matched(text[-LONGEST:]), right),
  }, verdict


def as_asked(
  problem: AnsweredQuestion, text: str, node_names: Mapping[int, str]
) -> bool:
  """Is what follows the last `Answer:` one of the keys, but for blanks, case,
  and a full stop?"""
  answered = _ANSWER.split(replies.visible(text[-LONGEST:]).value)[-1].strip()
  plain = ''.join(answered.lower().removesuffix('.').split())
  return plain in {
    ''.join(key.lower().split()) for key in keys(problem, node_names)
  }


def keys(problem: AnsweredQuestion, node_names: Mapping[int, str]) -> list[str]:
  """All right answers as text, without the word `Answer:`."""
  if problem.kind == 'count':
    return [f'there are {n} clusters' for (n,) in problem.optimal]
  paths = list(problem.optimal)
  if problem.kind == 'path' and problem.optional_start:
    paths += [path[1:] for path in paths]
  return [', '.join(node_names[node] for node in path) for path in paths]
