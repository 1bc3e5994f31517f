"""Scores of one reply: strict, lenient and graded, or of the edges it lists."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from wm.language import replies
from wm.language.cogeval import failures, parsing, tokens
from wm.worlds.cognitive_graph.graphs import Arc, Graph
from wm.worlds.cognitive_graph.questions import Problem

_PAIR = re.compile(
  r'[(\[]\s{0,4}([^()\[\],]{1,60}),\s{0,4}([^()\[\],]{1,60})[)\]]'
)
_LINE = re.compile(r'^[\s*#>+-]{0,9}([^:\n]{1,60}):([^\n]{1,2000})$', re.M)


class Scored(NamedTuple):
  """What a reply is worth, each from 0 to 1.

  Attributes:
    correct: is it an optimal answer, however it is written (lenient)?
    strict: is it one, written as it was asked for behind the last `Answer:`?
    graded: 1 optimal, 2/3 a way to the goal, 1/3 a way, 0 none.
    token: the paper's score of words; see `tokens`.
    verdict: class and flags.
  """

  correct: float
  strict: float
  graded: float
  token: float
  verdict: failures.Verdict


def scored(problem: Problem, text: str, known: Mapping[int, str]) -> Scored:
  """Scores of a reply to a problem; known: node -> name."""
  count = problem.kind == 'count'
  reply = parsing.read_count(text) if count else parsing.read(text, known)
  verdict = failures.judge(problem, reply)
  correct = float(verdict.outcome == 'correct')
  strict = correct and float(as_asked(problem, text, known))
  right = [f'{tokens.WORD} {key}' for key in keys(problem, known)]
  token = tokens.token_score(tokens.matched(text[-parsing.LONGEST :]), right)
  return Scored(correct, strict, verdict.graded, token, verdict)


def as_asked(problem: Problem, text: str, known: Mapping[int, str]) -> bool:
  """Is what follows the last `Answer:` one of the keys, but for blanks, case,
  and a full stop?"""
  said = replies.after_answer(text[-parsing.LONGEST :]).value or ''
  plain = ''.join(said.lower().removesuffix('.').split())
  return plain in {''.join(key.lower().split()) for key in keys(problem, known)}


def keys(problem: Problem, known: Mapping[int, str]) -> list[str]:
  """All right answers as text, without the word `Answer:`."""
  if problem.kind == 'count':
    return [f'there are {n} clusters' for (n,) in problem.optimal]
  paths = list(problem.optimal)
  if problem.kind == 'path' and problem.optional_start:
    paths += [path[1:] for path in paths]
  return [', '.join(known[node] for node in path) for path in paths]


class Edges(NamedTuple):
  """What a list of connections is worth.

  Attributes:
    precision: share of the listed pairs that are edges; 0 of none.
    recall: share of the edges that are listed.
    listed: pairs.
  """

  precision: float
  recall: float
  listed: int


def edges(graph: Graph, text: str, known: Mapping[int, str]) -> Edges:
  """Scores of tuples `(a, b)`, or of lines `a: b, c`; directions do not count.

  Read is what follows the last `Answer:`, all of a reply where that lists
  nothing. Pairs with a name that nobody has count as wrong ones.
  """
  text = text[-parsing.LONGEST :]
  said = replies.after_answer(text).value or ''
  pairs = _pairs(said, known) or _pairs(replies.visible(text).value, known)
  found = {frozenset(pair) for pair in pairs}
  true = {frozenset(arc) for arc in graph.arcs}
  right = len(found & true)
  return Edges(
    right / len(found) if found else 0.0, right / len(true), len(found)
  )


def _pairs(text: str, known: Mapping[int, str]) -> list[Arc | tuple[str, str]]:
  """Listed pairs; a name that nobody has stays a word."""

  def node(words: str) -> int | str:
    nodes = parsing.read(f'Answer: {words}', known).nodes
    return nodes[0] if len(nodes) == 1 and nodes[0] >= 0 else words.strip()

  tuples = _PAIR.findall(text)
  if tuples:
    return [(node(a), node(b)) for a, b in tuples]  # type: ignore[misc]
  return [
    (node(head), node(item))  # type: ignore[misc]
    for head, items in _LINE.findall(text)
    if head.strip().lower() != 'answer'
    for item in items.split(',')
    if item.strip()
  ]
