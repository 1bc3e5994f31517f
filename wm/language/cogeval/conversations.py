"""Recorded conversations of language models with CogEval's prompts.

They are read from the files of the data's README: JSON lines with the text, or
a CSV file without it, which has the answers as nodes.
"""

from __future__ import annotations

import csv
import functools
import gzip
import operator
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from wm import core
from wm.language.cogeval import failures, parsing
from wm.worlds.cognitive_graph import names, questions
from wm.worlds.cognitive_graph.questions import Question

SAMPLE = 'conversations_sample.jsonl.gz'
SCORES = 'scores_all.csv.gz'
COLUMNS = names.words(
  'prompt_version graph domain condition model temperature repeat start goal '
  'recorded_score key_status rescore outcome answer_nodes'
)
AUDITED = 'v2'  # The prompts of August 2023, which the six graphs are those of.


class Conversation(NamedTuple):
  """One conversation.

  Attributes:
    question: what was asked last.
    model, temperature, repeat: who answered, and how often it was asked.
    key: of the conversation among all.
    answer: the last reply; '' where the file has no text.
    nodes: the answer as nodes, as the data's authors' readers read it.
    expected: the authors' answer key; () where the file has none.
    recorded: score by the authors' judge, at most 1; None where there is none.
    key_status: of that key by the data's own solver: 'ok', 'wrong' or 'n/a'.
    rescore: did the data's own parser and solver find the answer right?
    outcome: the class that they found.
  """

  question: Question
  model: str
  temperature: float
  repeat: int
  answer: str
  nodes: tuple[int, ...]
  expected: tuple[str, ...]
  recorded: float | None
  key_status: str
  rescore: bool
  outcome: str

  @property
  def key(self) -> tuple[str, str, str, str, float, int]:
    """Names the conversation among all."""
    asked = self.question
    what = asked.graph, asked.domain, asked.condition, self.model
    return (*what, self.temperature, self.repeat)


def load(folder: str | pathlib.Path) -> list[Conversation]:
  """All conversations with audited prompts, those of the sample with text.

  Raises:
    InputError: a file is missing or damaged; says which, and in which line.
  """
  folder = pathlib.Path(folder)
  texts = {key_of(row): row for row in rows(folder / SAMPLE)}
  path, found = folder / SCORES, []
  table = csv.reader(_lines(path))
  columns = {name: k for k, name in enumerate(next(table, []))}
  lacking = [name for name in COLUMNS if name not in columns]
  if lacking:
    raise core.InputError(f'{path}: lacks columns {", ".join(lacking)}')
  take = operator.itemgetter(*(columns[name] for name in COLUMNS))
  for line, row in enumerate(table, start=2):
    with core.reading(f'{path}: line {line}', 'a conversation'):
      values = take(row)
      if values[0] == AUDITED:
        found.append(_conversation(values[1:], texts))
  return found


def rows(path: pathlib.Path) -> Iterator[dict[str, Any]]:
  """Objects of JSON lines, one for each conversation with text.

  Raises:
    InputError: the file is missing or damaged; says where.
  """
  for line, text in enumerate(_lines(path), start=1):
    with core.reading(f'{path}: line {line}', 'a conversation'):
      row = core.parse_json(text)
      key_of(row)
    yield row


def _lines(path: pathlib.Path) -> Iterator[str]:
  """Lines of a compressed text file."""
  with (
    core.reading_file(path, 'a file of conversations'),
    gzip.open(path, 'rt', encoding='utf-8', newline='') as file,
  ):
    yield from file


def key_of(row: dict[str, Any]) -> tuple:
  what = (row[k] for k in ('graph', 'domain', 'condition', 'model'))
  return (*what, float(row['temperature']), int(row['repeat']))


def _conversation(values: tuple[str, ...], texts: dict) -> Conversation:
  """A row of the table, and what the sample has of it."""
  graph, domain, condition, model, temperature, repeat, *more = values
  start, goal, recorded, status, rescore, outcome, nodes = more
  asked = _question(graph, condition, domain, start, goal)
  key = graph, domain, condition, model, float(temperature), int(repeat)
  text = texts.get(key, {})
  expected = text.get('expected', ())
  return Conversation(
    asked,
    *key[3:],
    text.get('answer', ''),
    _nodes(nodes),
    (expected,) if isinstance(expected, str) else tuple(expected),
    min(float(recorded), 1.0) if recorded else None,
    status,
    rescore == '1',
    outcome,
  )


@functools.cache
def _question(
  graph: str, condition: str, domain: str, start: str, goal: str
) -> Question:
  start_node, goal_node = (int(end) if end else None for end in (start, goal))
  return Question(graph, condition, domain, start_node, goal_node)


@functools.cache
def _nodes(text: str) -> tuple[int, ...]:
  """Nodes of '1-7-?'."""
  return tuple(
    parsing.UNKNOWN if node == '?' else int(node)
    for node in text.split('-')
    if node
  )


@functools.lru_cache(maxsize=4096)
def known_names(question: Question) -> dict[int, str]:
  """Node -> name, as the recorded prompts have them."""
  most = names.most_nodes(question.graph)
  return dict(names.node_names(question.graph, question.domain, most))


def rescored(asked: Conversation) -> failures.Verdict:
  """The verdict on the text of a conversation."""
  return failures.of_text(
    asked.question, asked.answer, known_names(asked.question)
  )


def key_nodes(asked: Conversation) -> frozenset[tuple[int, ...]]:
  """The authors' answer key as nodes, the start of a path included."""
  problem = questions.problem(asked.question)
  known = known_names(asked.question)
  keys = (parsing.read(text, known).nodes for text in asked.expected)
  return frozenset(failures.whole(problem, nodes) for nodes in keys if nodes)


def wrong_keys(
  found: list[Conversation],
) -> dict[tuple[str, str, str], tuple[int, tuple[str, ...]]]:
  """Keys of the authors that the solver contradicts.

  Returns:
    (graph, domain, condition) -> conversations of the sample with such a key,
      and the key. Cluster counts are left out.
  """
  errors: dict[tuple[str, str, str], tuple[int, tuple[str, ...]]] = {}
  for asked in found:
    if not asked.expected or asked.question.condition == 'nClusters':
      continue
    problem = questions.problem(asked.question)
    if key_nodes(asked) != frozenset(problem.optimal):
      where = (
        asked.question.graph,
        asked.question.domain,
        asked.question.condition,
      )
      count = errors.get(where, (0, ()))[0] + 1
      errors[where] = count, asked.expected
  return errors
