"""CogEval's recorded conversations, as logs of Inspect and as a page.

They are read from the files of the data's README: JSON lines with the text, or
a CSV file without it, which has the answers as nodes. Logs hold those with a
text; the authors' score stands in them as the scorer `recorded`.
"""

from __future__ import annotations

import collections
import functools
import gzip
import json
import pathlib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import (
  ChatMessageAssistant,
  ChatMessageSystem,
  ChatMessageUser,
)
from inspect_ai.scorer import Score

from wm.core import inputs
from wm.evaluation.statistics import proportion
from wm.language import eval_logs, pages
from wm.language.pages import AnswersPage
from wm.models.serving.structures import NodeReply
from wm.papers.cogeval import prompts, statistics
from wm.papers.cogeval import report as reports
from wm.papers.cogeval import score as scoring
from wm.papers.cogeval import task as tasks
from wm.papers.cogeval.score import AnswerVerdict
from wm.reporting.tables import Cell, Table
from wm.worlds.cognitive_graph import questions
from wm.worlds.cognitive_graph.questions import Question

SAMPLE = 'conversations_sample.jsonl.gz'
FINAL, HISTORY, MAY = (
  f'scores_{name}.csv.gz' for name in ('all', 'history', 'may2023')
)
FACTORS = ('graph', 'domain', 'condition', 'model')
AUDITED = 'v2'  # The prompts of August 2023, which the solver's questions are.
TEXT_COLUMNS = 'answer', 'expected'
VERDICT = ['solver', 'graded', 'outcome']
COLUMNS = {
  FINAL: {
    'prompt_version': 'prompts',
    'start': 'start',
    'goal': 'goal',
    'recorded_score': 'recorded',
    'rescore': 'solver',
    'key_status': 'key_status',
    'outcome': 'outcome',
    'answer_nodes': 'nodes',
  },
  HISTORY: {'snapshot': 'snapshot', 'score': 'recorded'},
  MAY: {
    'snapshot': 'snapshot',
    'token_score': 'token',
    'exact_match': 'exact',
    'recorded_score': 'recorded',
  },
}


class ScoreTables(NamedTuple):
  """All recorded scores.

  Attributes:
    final: of the last commit: `recorded` (by the authors' judge), `solver`,
      `outcome`, `nodes` ('1-7-?'), `key_status`, `prompts` ('v1', 'v2', 'cot').
    history: of three earlier commits, by `snapshot`: `recorded`.
    may: of the paper's time, by `snapshot`: `token`, `exact`, `recorded`.
  """

  final: pd.DataFrame
  history: pd.DataFrame
  may: pd.DataFrame


def read_scores(folder: str | pathlib.Path) -> ScoreTables:
  """Reads the three tables of a folder, as the data's README describes them.

  Raises:
    InputError: a file is missing, damaged, or lacks a column.
  """
  place = pathlib.Path(folder)
  return ScoreTables(
    *(read_table(place / name) for name in (FINAL, HISTORY, MAY))
  )


def read_table(path: pathlib.Path) -> pd.DataFrame:
  """One of the three tables, columns renamed.

  Raises:
    InputError: the file is missing, damaged, or lacks a column.
  """
  columns = COLUMNS[path.name]
  heads = ('temperature', 'repeat') if path.name == FINAL else ('temp', 'rep')
  used = [*FACTORS, *heads, *columns]
  words = [name for name in used if name in _WORDS]
  renamed = dict(zip(heads, ('temperature', 'repeat'), strict=True)) | columns
  with inputs.reading_file(path, 'a table of scores'):
    frame = pd.read_csv(
      path, usecols=used, dtype=dict.fromkeys(words, 'category')
    )
    return named(frame.rename(columns=renamed))


_WORDS = (
  *FACTORS,
  *('prompt_version', 'key_status', 'outcome', 'snapshot', 'answer_nodes'),
)


def named(frame: pd.DataFrame) -> pd.DataFrame:
  """Adds `group`, and `question`, a number for each different question."""
  asked = ['graph', 'domain', 'condition', 'prompts', 'start', 'goal']
  keys = [name for name in asked if name in frame]
  number = frame.groupby(keys, observed=True, sort=False, dropna=False).ngroup()
  group = frame['condition'].astype(object).map(statistics.GROUP).fillna('')
  return frame.assign(question=number, group=group)


def judged(frame: pd.DataFrame) -> pd.DataFrame:
  """Answers to audited prompts, judged by the solver from their nodes.

  Numbers of clusters are no nodes: what the data say of them stays, and so
  does what they say has no answer.

  Returns:
    Rows of audited prompts with `solver` (is it optimal?), `graded` and
      `outcome`.
  """
  asked = ['graph', 'condition', 'domain', 'start', 'goal', 'nodes']
  every = frame[frame['prompts'] == AUDITED]
  counts = every['group'] == 'Clusters'
  paths = every[~counts]
  # Nodes of what has no answer are those of prose.
  paths = paths.assign(
    nodes=paths['nodes'].where(paths['outcome'] != 'no_answer')
  )
  paths = paths.drop(columns=['solver', 'outcome'])
  code = paths.groupby(asked, observed=True, sort=False, dropna=False).ngroup()
  first = paths.loc[~code.duplicated(), asked].astype(object)
  rows = [_verdict(*row) for row in first.itertuples(index=False)]
  verdicts = pd.DataFrame(rows, columns=VERDICT)
  wide = verdicts.take(code.to_numpy()).set_index(paths.index)
  whole = pd.concat([pd.concat([paths, wide], axis=1), every[counts]])
  return whole.assign(outcome=whole['outcome'].astype('category'))


def _verdict(
  graph: str, condition: str, domain: str, start: float, goal: float, nodes: str
) -> tuple:
  """One answer, judged; see `judged`."""
  ends = (None if pd.isna(end) else int(end) for end in (start, goal))
  problem = questions.problem(Question(graph, condition, domain, *ends))
  reply = NodeReply(scoring.parse_nodes(nodes), hedged=True)
  verdict = scoring.judge(problem, reply)
  right = float(verdict.outcome == 'correct')
  return right, verdict.graded, verdict.outcome


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
    InputError: a file is missing or damaged; says which.
  """
  folder = pathlib.Path(folder)
  # Messages are left on disk: they are most of the file.
  texts = {
    key_of(row): {name: row[name] for name in TEXT_COLUMNS if name in row}
    for row in text_rows_of(folder / SAMPLE)
  }
  frame = read_table(folder / FINAL)
  frame = frame[frame['prompts'] == AUDITED].astype(object)
  rows = frame.where(frame.notna(), None).to_dict('records')
  return [_conversation(row, texts.get(key_of(row), {})) for row in rows]


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


def key_of(row: Mapping[str, Any]) -> tuple:
  """Names a conversation among all; see Conversation.key."""
  what = (row[k] for k in ('graph', 'domain', 'condition', 'model'))
  return (*what, float(row['temperature']), int(row['repeat']))


def _conversation(
  row: Mapping[str, Any], text: Mapping[str, Any]
) -> Conversation:
  """A row of the table, and what the sample has of it."""
  ends = (
    None if row[name] is None else int(row[name]) for name in ('start', 'goal')
  )
  question = Question(row['graph'], row['condition'], row['domain'], *ends)
  expected = text.get('expected', ())
  return Conversation(
    question,
    row['model'],
    float(row['temperature']),
    int(row['repeat']),
    text.get('answer', ''),
    scoring.parse_nodes(row['nodes']),
    (expected,) if isinstance(expected, str) else tuple(expected),
    None if row['recorded'] is None else min(float(row['recorded']), 1.0),
    row['key_status'] or 'n/a',
    row['solver'] == 1,
    row['outcome'],
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
  recorded = read_scores(place)
  final = judged(recorded.final)
  final = final[final['domain'].isin(statistics.DOMAINS)]
  sample = text_rows_of(place / SAMPLE)
  read = load(place)
  texts = [asked for asked in read if asked.answer]
  verdicts = [verdict_of(asked) for asked in texts]
  main = statistics.of_paper(final, list(statistics.MODELS))
  fits = _fits(recorded, final)
  # The paper's means are of all domains, strays included.
  early = recorded.may[recorded.may['snapshot'] == PAPER]
  old = means_of_cells(early, 'token')
  return reports.assembled(
    reports.TITLE,
    f'{reports.lead(final, "solver")}, scored again by an exact solver; '
    f'{len(texts):,} of them with text, read again. Recorded by the authors in '
    '2023.',
    main,
    'solver',
    [
      reports.stepwise_table(fits),
      table_3(old, f'Snapshot of {PAPER}, recovered score of words'),
      reports.repeats_table(main, ['recorded', 'solver']),
      judges_table(final),
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
      *one_cluster_away(away_answers(sample)),
    ],
  )


def _fits(
  recorded: ScoreTables, final: pd.DataFrame
) -> dict[str, statistics.Stepwise]:
  """Table 2 of several scores."""
  late = recorded.history[recorded.history['snapshot'] == '2023-07-12']
  early = recorded.may[recorded.may['snapshot'] == PAPER]
  return {
    'solver': statistics.stepwise(statistics.of_paper(final), 'solver'),
    'recorded': statistics.stepwise(
      statistics.of_paper(recorded.final), 'recorded'
    ),
    'recorded, July 2023': statistics.stepwise(
      statistics.of_paper(late), 'recorded'
    ),
    'words, May 2023': statistics.stepwise(
      statistics.of_paper(early, cot=True), 'token'
    ),
  }


def away_answers(
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
      'model': asked.model,
      'same': asked.rescore == (verdict.outcome == 'correct'),
      'same_class': asked.outcome == verdict.outcome,
    }
    for asked, verdict in zip(texts, verdicts, strict=True)
  )
  return reports.REPORT.table('reread', frame)


def errors(folder: str | pathlib.Path) -> list[dict[str, Any]]:
  """Answer keys of the authors that the solver contradicts, a row each.

  Raises:
    InputError: a file is missing or damaged.
  """
  return wrong_key_rows(load(folder))


def wrong_key_rows(read: Sequence[Conversation]) -> list[dict[str, Any]]:
  """Answer keys of the authors that the solver contradicts, a row each.

  Cluster counts are left out.
  """
  wrong: dict[tuple[str, ...], list[Conversation]] = {}
  for asked in read:
    where = asked.question[:3]
    if asked.expected and 'nClusters' not in where:
      right = frozenset(questions.problem(asked.question).optimal)
      if key_nodes(asked) != right:
        wrong.setdefault(where, []).append(asked)
  every = collections.Counter(asked.question[:3] for asked in read)
  rows = []
  for (graph, condition, domain), several in wrong.items():
    question = several[-1].question
    keys = scoring.keys(questions.problem(question), known_names(question))
    rows.append(
      {
        'graph': f'{statistics.LETTERS[graph]} ({graph})',
        'domain': domain,
        'condition': condition,
        'key of the authors': ' | '.join(several[-1].expected),
        'right': ' | '.join(keys),
        'conversations': every[graph, condition, domain],
        'with text': len(several),
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
  means: dict[str, dict[str, MeanCell]],
) -> list[dict[str, Any]]:
  return [
    {'condition': condition, 'model': model, **cell._asdict()}
    for condition, row in means.items()
    for model, cell in row.items()
  ]


class MeanCell(NamedTuple):
  """A cell of table 3: mean, standard deviation (ddof 1) and answers."""

  mean: float
  sd: float
  n: int


def means_of_cells(
  frame: pd.DataFrame, score: str
) -> dict[str, dict[str, MeanCell]]:
  """Table 3: condition -> model -> its answers."""
  scored = frame[frame[score].notna()]
  keys = [scored['condition'].astype(str), scored['model'].astype(str)]
  cells = scored[score].clip(0, 1).groupby(keys).agg(['mean', 'std', 'size'])
  table: dict[str, dict[str, MeanCell]] = {}
  for (condition, model), mean, sd, n in cells.itertuples(name=None):
    table.setdefault(condition, {})[model] = MeanCell(mean, sd, int(n))
  return table


class Agreement(NamedTuple):
  """Agreement of means and standard deviations with the printed ones.

  Attributes:
    cells: compared.
    means: within rounding, .005.
    both: of these, standard deviations too.
    error: mean absolute difference of means.
    correlation: of means.
  """

  cells: int
  means: int
  both: int
  error: float
  correlation: float


_ROUNDING = 0.005 + 1e-9


def agreement(means: Mapping[str, Mapping[str, MeanCell]]) -> Agreement:
  """Compares with the paper's table 3."""
  paper_table = reports.REPORT.published['table3']
  pairs = [
    (means[condition][model], values)
    for condition, row in paper_table['conditions'].items()
    for model, values in zip(paper_table['models'], row, strict=True)
    if values is not None and model in means.get(condition, {})
  ]
  ours = np.array([(cell.mean, cell.sd) for cell, _ in pairs])
  theirs = np.array([values for _, values in pairs])
  off = np.abs(ours - theirs) <= _ROUNDING
  return Agreement(
    len(pairs),
    int(off[:, 0].sum()),
    int(off.all(1).sum()),
    float(np.abs(ours - theirs)[:, 0].mean()),
    float(np.corrcoef(ours[:, 0], theirs[:, 0])[0, 1]),
  )


def table_3(means: Mapping[str, Mapping[str, MeanCell]], source: str) -> Table:
  """Table 3 of answers, with the paper's means and standard deviations."""
  paper_table = reports.REPORT.published['table3']
  rows = [
    {
      'condition': condition,
      'models': {
        statistics.label(model): _beside(
          means.get(condition, {}).get(model), printed
        )
        for model, printed in zip(paper_table['models'], values, strict=True)
      },
    }
    for condition, values in paper_table['conditions'].items()
  ]
  return reports.REPORT.table(
    'table3', rows, source=source, near=agreement(means)
  )


def _beside(cell: MeanCell | None, pair: Sequence[float] | None) -> str:
  if cell is None:
    return '–'
  paper = '–' if pair is None else f'{pair[0]:.2f}, sd {pair[1]:.2f}'
  shown = f'{cell.mean:.2f}, sd {cell.sd:.2f}'
  return Cell(shown, f' [{paper}]', f', n={cell.n}')


def one_cluster_away(
  right: Sequence[tuple[float, bool]],
) -> list[reports.JudgedClaim]:
  """The way from 1 to 12 in graph D is never found at low temperatures.

  right: (temperature, is the answer one of the authors' keys?).
  """
  shares = reports.REPORT.published['claims']['one_cluster_away']
  claims = []
  for temperature, printed in zip((0.0, 0.5, 1.0), shares, strict=True):
    outcomes = [float(ok) for t, ok in right if t == temperature]
    if outcomes:
      n, share = len(outcomes), sum(outcomes) / len(outcomes)
      low, high = (float(x) for x in proportion(share, n))
      claims.append(
        reports.JudgedClaim(
          'GPT-4-32k finds the way to a room one cluster away at '
          f'temperature {temperature:g}',
          f'{printed:.2f}, n=30',
          Cell(
            f'{share:.3f}', f' [{low:.3f}, {high:.3f}]', f', n={n} with text'
          ),
          'not against it' if low <= printed <= high else 'no',
        )
      )
  return claims


class Judges(NamedTuple):
  """Two judges of the same answers.

  Attributes:
    n, agreement, kappa: answers, share of the same verdicts, and Cohen's kappa.
    counts: (first, second) -> answers.
  """

  n: int
  agreement: float
  kappa: float
  counts: dict[tuple[int, int], int]


def judges(
  frame: pd.DataFrame, first: str = 'recorded', second: str = 'solver'
) -> Judges:
  """How often two scores, each 0 or 1, are the same."""
  both_scored = frame[frame[first].notna() & frame[second].notna()]
  both = [
    (both_scored[name].clip(0, 1) > 0.5).astype(int) for name in (first, second)
  ]
  counted = both_scored.groupby(both).size()
  counts = {(a, b): int(counted.get((a, b), 0)) for a in (0, 1) for b in (0, 1)}
  n = sum(counts.values())
  same = (counts[0, 0] + counts[1, 1]) / n
  ones = [
    (counts[1, 1] + counts[1, 0]) / n,
    (counts[1, 1] + counts[0, 1]) / n,
  ]
  chance = ones[0] * ones[1] + (1 - ones[0]) * (1 - ones[1])
  kappa = (same - chance) / (1 - chance) if chance < 1 else 1.0
  return Judges(n, same, kappa, counts)


def judges_table(frame: pd.DataFrame) -> Table:
  """The authors' judge beside the solver, over all and by graph and domain."""
  scored = frame[frame['recorded'].notna() & frame['solver'].notna()]
  parts: list[tuple[str, str, pd.DataFrame]] = [('all', 'all', scored)]
  for graph, on_graph in reports.by_value(scored, 'graph'):
    for domain, part in on_graph.groupby('domain', observed=True):
      parts.append((statistics.LETTERS[graph], str(domain), part))
  rows = []
  for graph, domain, part in parts:
    compared = judges(part) if len(part) else None
    if compared is not None:
      rows.append(
        {
          'graph': graph,
          'domain': domain,
          **compared._asdict(),
          'first_alone': compared.counts[1, 0],
          'second_alone': compared.counts[0, 1],
        }
      )
  return reports.REPORT.table('judges', rows)


# Of the last commit of the published repository.
RECORD = eval_logs.Record(
  'cogeval',
  tasks.VERSION,
  '2023-12-29T00:00:00+00:00',
  'github.com/cogeval/cogmaps, MIT',
)
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
  # Samples take many times the memory of packed rows: a model at a time.
  packed: dict[str, list[bytes]] = {}
  for row in text_rows_of(place / SAMPLE):
    if key_of(row) in conversations and row['prompt_version'] == AUDITED:
      text = zlib.compress(json.dumps(row).encode(), 1)
      packed.setdefault(row['model'], []).append(text)
  for model in sorted(packed):
    rows = (json.loads(zlib.decompress(text)) for text in packed.pop(model))
    yield eval_logs.scored_log(
      RECORD,
      model,
      [eval_sample(conversations[key_of(row)], row) for row in rows],
      tasks.planned(),
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
