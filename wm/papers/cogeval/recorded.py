"""CogEval's recorded conversations, as logs of Inspect and as a page.

They are read from the files of the data's README: JSON lines with the text, or
a CSV file without it, which has the answers as nodes. Logs hold those with a
text; the authors' score stands in them as the scorer `recorded`.
"""

from __future__ import annotations

import csv
import functools
import gzip
import operator
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import (
  ChatMessageAssistant,
  ChatMessageSystem,
  ChatMessageUser,
)
from inspect_ai.scorer import Score

from wm import core
from wm.core import inputs
from wm.language import eval_logs, pages
from wm.language.pages import AnswersPage
from wm.papers.cogeval import answers, prompts, regression
from wm.papers.cogeval import report as reports
from wm.papers.cogeval import score as scoring
from wm.papers.cogeval import task as tasks
from wm.papers.cogeval.score import AnswerVerdict
from wm.reporting.tables import Table
from wm.worlds.base import verbal
from wm.worlds.cognitive_graph import questions
from wm.worlds.cognitive_graph.questions import Question

SAMPLE = 'conversations_sample.jsonl.gz'
SCORES = 'scores_all.csv.gz'
COLUMNS = verbal.words(
  'prompt_version graph domain condition model temperature repeat start goal '
  'recorded_score key_status rescore outcome answer_nodes'
)
AUDITED = 'v2'  # The prompts of August 2023, which the six graphs are those of.


class Conversation(NamedTuple):
  """One conversation.

  Attributes:
    question: the last one.
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
  texts = {key_of(row): row for row in text_rows_of(folder / SAMPLE)}
  path, conversations = folder / SCORES, []
  table = csv.reader(_lines(path))
  columns = {name: k for k, name in enumerate(next(table, []))}
  lacking = [name for name in COLUMNS if name not in columns]
  if lacking:
    raise core.InputError(f'{path}: lacks columns {", ".join(lacking)}')
  take = operator.itemgetter(*(columns[name] for name in COLUMNS))
  for line, row in enumerate(table, start=2):
    with inputs.reading(f'{path}: line {line}', 'a conversation'):
      values = take(row)
      if values[0] == AUDITED:
        conversations.append(_conversation(values[1:], texts))
  return conversations


def text_rows_of(path: pathlib.Path) -> Iterator[dict[str, Any]]:
  """Objects of JSON lines, one for each conversation with text.

  Raises:
    InputError: the file is missing or damaged; says where.
  """
  for line, text in enumerate(_lines(path), start=1):
    with inputs.reading(f'{path}: line {line}', 'a conversation'):
      row = inputs.parse_json(text)
      key_of(row)
    yield row


def _lines(path: pathlib.Path) -> Iterator[str]:
  """Lines of a compressed text file."""
  with (
    inputs.reading_file(path, 'a file of conversations'),
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
    scoring.UNKNOWN if node == '?' else int(node)
    for node in text.split('-')
    if node
  )


@functools.lru_cache(maxsize=4096)
def known_names(question: Question) -> dict[int, str]:
  """Node -> name, as the recorded prompts have them."""
  most = questions.most_nodes(question.graph)
  return dict(questions.node_names(question.graph, question.domain, most))


def verdict_of(asked: Conversation) -> scoring.AnswerVerdict:
  """The verdict on the text of a conversation."""
  return scoring.of_text(
    asked.question, asked.answer, known_names(asked.question)
  )


def key_nodes(asked: Conversation) -> frozenset[tuple[int, ...]]:
  """The authors' answer key as nodes, the start of a path included."""
  problem = questions.problem(asked.question)
  node_names = known_names(asked.question)
  keys = (scoring.read_path(text, node_names).nodes for text in asked.expected)
  return frozenset(scoring.whole(problem, nodes) for nodes in keys if nodes)


def wrong_keys(
  conversations: list[Conversation],
) -> dict[tuple[str, str, str], tuple[int, tuple[str, ...]]]:
  """Keys of the authors that the solver contradicts.

  Returns:
    (graph, domain, condition) -> conversations of the sample with such a key,
      and the key. Cluster counts are left out.
  """
  errors: dict[tuple[str, str, str], tuple[int, tuple[str, ...]]] = {}
  for asked in conversations:
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


PAPER = '2023-05-20'  # The snapshot that is nearest to the paper's tables.
# Condition and model directory of the supplement's plain question from 1 to 12.
AWAY = 'ShortestPathOneClusterAway', 'original/exp3'


def rescore(folder: str | pathlib.Path) -> AnswersPage:
  """Scores recorded answers again; the tables and figures of the paper.

  Args:
    folder: of the recorded answers, as its README describes them.

  Raises:
    InputError: a file is missing or damaged.
  """
  place = pathlib.Path(folder)
  recorded = answers.read_scores(place)
  final = answers.judged(recorded.final)
  final = final[final['domain'].isin(answers.DOMAINS)]
  sample = text_rows_of(place / SAMPLE)
  read = load(place)
  texts = [asked for asked in read if asked.answer]
  verdicts = [verdict_of(asked) for asked in texts]
  main = answers.of_paper(final, list(answers.MODELS))
  fits = _fits(recorded, final)
  # The paper's means are of all domains, strays included.
  early = recorded.may[recorded.may['snapshot'] == PAPER]
  old = reports.means_of_cells(early, 'token')
  return reports.assembled(
    reports.TITLE,
    f'{reports.lead(final, "solver")}, scored again by an exact solver; '
    f'{len(texts):,} of them with text, read again. Recorded by the authors in '
    '2023.',
    main,
    'solver',
    [
      reports.stepwise_table(fits),
      reports.table_3(old, f'Snapshot of {PAPER}, recovered score of words'),
      reports.repeats_table(main, ['recorded', 'solver']),
      reports.judges_table(final),
      reread_table(texts, verdicts),
      keys_table(read),
    ],
    {
      'deviances': reports.deviances(fits),
      'table3': _table3(old),
      'texts': text_rows(texts, verdicts),
    },
    [
      *reports.decided(main, 'solver'),
      *reports.decided(main, 'recorded')[:2],
      *reports.one_cluster_away(one_cluster_away(sample)),
    ],
  )


def _fits(
  recorded: answers.ScoreTables, final: pd.DataFrame
) -> dict[str, regression.Stepwise]:
  """Table 2 of several scores."""
  late = recorded.history[recorded.history['snapshot'] == '2023-07-12']
  early = recorded.may[recorded.may['snapshot'] == PAPER]
  return {
    'solver': regression.stepwise(answers.of_paper(final), 'solver'),
    'recorded': regression.stepwise(
      answers.of_paper(recorded.final), 'recorded'
    ),
    'recorded, July 2023': regression.stepwise(
      answers.of_paper(late), 'recorded'
    ),
    'words, May 2023': regression.stepwise(
      answers.of_paper(early, cot=True), 'token'
    ),
  }


def one_cluster_away(
  rows: Iterable[Mapping[str, Any]],
) -> list[tuple[float, bool]]:
  """(temperature, right by the authors' key) of the supplement's texts.

  rows: of `text_rows_of`.
  """
  return [
    (float(row['temperature']), row['parsed'] in row['expected'])
    for row in rows
    if (row['condition'], row['model']) == AWAY
  ]


def reread_table(
  texts: Sequence[Conversation], verdicts: Sequence[AnswerVerdict]
) -> Table:
  """The reader of texts here beside the one that the data come with."""
  frame = pd.DataFrame(
    {
      'model': [asked.model for asked in texts],
      'n': 1,
      'same': [
        asked.rescore == (verdict.outcome == 'correct')
        for asked, verdict in zip(texts, verdicts, strict=True)
      ],
      'same class': [
        asked.outcome == verdict.outcome
        for asked, verdict in zip(texts, verdicts, strict=True)
      ],
    }
  )
  shares = frame.groupby('model').agg(
    {'n': 'sum', 'same': 'mean', 'same class': 'mean'}
  )
  rows = [
    {'model': answers.label(model), **shares.loc[model].to_dict()}
    for model in answers.models_of(frame)
  ]
  for row in rows:
    row['n'] = int(row['n'])
  return pages.table(
    'Texts read again',
    rows,
    'Share of texts that two readers find right or wrong alike, and in one '
    'class of failure.',
    folded=True,
  )


def errors(folder: str | pathlib.Path) -> list[dict[str, Any]]:
  """Answer keys of the authors that the solver contradicts, a row each.

  Raises:
    InputError: a file is missing or damaged.
  """
  return wrong_key_rows(load(folder))


def wrong_key_rows(read: Sequence[Conversation]) -> list[dict[str, Any]]:
  """Answer keys of the authors that the solver contradicts, a row each."""
  rows = []
  for (graph, domain, condition), (n, key) in wrong_keys(list(read)).items():
    asked = next(
      other
      for other in read
      if other.question[:3] == (graph, condition, domain)
    )
    every = sum(other.question[:3] == asked.question[:3] for other in read)
    node_names = known_names(asked.question)
    right = scoring.keys(questions.problem(asked.question), node_names)
    rows.append(
      {
        'graph': f'{answers.LETTERS[graph]} ({graph})',
        'domain': domain,
        'condition': condition,
        'key of the authors': ' | '.join(key),
        'right': ' | '.join(right),
        'conversations': every,
        'with text': n,
      }
    )
  return rows


def keys_table(read: Sequence[Conversation]) -> Table:
  """The authors' key errors."""
  return pages.table(
    "The authors' answer keys that are wrong", wrong_key_rows(read), folded=True
  )


def text_rows(
  texts: Sequence[Conversation], verdicts: Sequence[AnswerVerdict]
) -> list[dict[str, Any]]:
  """A row for each conversation with text, all scores side by side."""
  rows = []
  for asked, verdict in zip(texts, verdicts, strict=True):
    problem = questions.problem(asked.question)
    node_names = known_names(asked.question)
    right = verdict.outcome == 'correct'
    rows.append(
      {
        **asked.question._asdict(),
        'model': asked.model,
        'temperature': asked.temperature,
        'repeat': asked.repeat,
        'recorded': asked.recorded,
        'solver': int(right),
        'strict': int(
          right and scoring.as_asked(problem, asked.answer, node_names)
        ),
        'graded': round(verdict.graded, 4),
        'token': round(
          scoring.token_score(scoring.matched(asked.answer), asked.expected), 4
        ),
        'outcome': verdict.outcome,
        'nodes': '-'.join('?' if n < 0 else str(n) for n in verdict.nodes),
      }
    )
  return rows


def _table3(
  means: dict[str, dict[str, reports.MeanCell]],
) -> list[dict[str, Any]]:
  return [
    {'condition': condition, 'model': model, **cell._asdict()}
    for condition, row in means.items()
    for model, cell in row.items()
  ]


# Of the last commit of the published repository.
CREATED = '2023-12-29T00:00:00+00:00'
_ROLES: dict[str, type[Any]] = {
  's': ChatMessageSystem,
  'u': ChatMessageUser,
  'a': ChatMessageAssistant,
}


def logs(folder: str | pathlib.Path) -> Iterator[EvalLog]:
  """A scored log for each model, in order of their names.

  Raises:
    InputError: a file is missing or damaged.
  """
  place = pathlib.Path(folder)
  conversations = {asked.key: asked for asked in load(place)}
  samples: dict[str, list[EvalSample]] = {}
  for row in text_rows_of(place / SAMPLE):
    key = key_of(row)
    if key in conversations and row['prompt_version'] == AUDITED:
      sample = eval_sample(conversations[key], row)
      samples.setdefault(conversations[key].model, []).append(sample)
  for model in sorted(samples):
    yield eval_logs.scored_log(
      f'cogeval-{model}',
      samples[model],
      tasks.planned(),
      task='cogeval',
      version=tasks.VERSION,
      model=model,
      created=CREATED,
      source='github.com/cogeval/cogmaps, MIT',
    )


def eval_sample(asked: Conversation, row: dict[str, Any]) -> EvalSample:
  """One conversation: its messages are all turns before the last answer."""
  sample = tasks.sample(
    asked.question, prompts.PLAIN, asked.temperature, asked.repeat
  )
  recorded = asked.recorded
  return eval_logs.sample(
    str(sample.id),
    [_ROLES[role](content=text) for role, text in row['messages']],
    asked.answer,
    model=asked.model,
    target=sample.target,
    metadata={
      **(sample.metadata or {}),
      'second': '',  # It is among the messages.
      'recorded': recorded,
      'expected': list(asked.expected),
      'key_status': asked.key_status,
    },
    scores={} if recorded is None else {'recorded': Score(value=recorded)},
  )
