"""CogEval's recorded conversations, as a page.

They are read from the files of the data's README: JSON lines with the text, or
a CSV file without it, which has the answers as nodes.
"""

from __future__ import annotations

import collections
import functools
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from wm.core import inputs
from wm.language import pages, recorded_answers
from wm.language.answers.values import NodeReply
from wm.language.pages import AnswersPage
from wm.language.papers.cogeval import report as reports
from wm.language.papers.cogeval import score as scoring
from wm.language.papers.cogeval import statistics
from wm.reporting.tables import Table
from wm.worlds.cognitive_graph import questions
from wm.worlds.cognitive_graph.questions import Question

SAMPLE = 'conversations_sample.jsonl.gz'
FINAL, MAY = 'scores_all.csv.gz', 'scores_may2023.csv.gz'
TEXTS = SAMPLE, FINAL  # Files that conversations are read from.
FACTORS = ('graph', 'domain', 'condition', 'model')
AUDITED = 'v2'  # The prompts of August 2023, which the solver's questions are.
# File -> its columns that are read besides FACTORS.
COLUMNS = {
  FINAL: (
    *('temperature', 'repeat', 'prompt_version', 'start', 'goal'),
    *('recorded_score', 'rescore', 'key_status', 'outcome', 'answer_nodes'),
  ),
  MAY: ('temp', 'rep', 'snapshot', 'token_score'),
}
# Their names here, where these are others.
NAMES = {
  'temp': 'temperature',
  'rep': 'repeat',
  'prompt_version': 'prompts',
  'recorded_score': 'recorded',
  'rescore': 'solver',
  'answer_nodes': 'nodes',
  'token_score': 'token',
}
_WORDS = {
  *FACTORS,
  *('prompt_version', 'key_status', 'outcome', 'snapshot', 'answer_nodes'),
}


class ScoreTables(NamedTuple):
  """All recorded scores.

  Attributes:
    final: of the last commit: `recorded` (by the authors' judge), `solver`,
      `outcome`, `nodes` ('1-7-?'), `key_status`, `prompts` ('v1', 'v2', 'cot').
    may: of the paper's time, by `snapshot`: `token`.
  """

  final: pd.DataFrame
  may: pd.DataFrame


def read_scores(folder: str | pathlib.Path) -> ScoreTables:
  """Reads the tables of a folder, as the data's README describes them.

  Raises:
    InputError: a file is missing, damaged, or lacks a column.
  """
  place = pathlib.Path(folder)
  return ScoreTables(*(read_table(place / name) for name in (FINAL, MAY)))


def read_table(path: pathlib.Path) -> pd.DataFrame:
  """One of the tables, columns renamed.

  Raises:
    InputError: the file is missing, damaged, or lacks a column.
  """
  columns = [*FACTORS, *COLUMNS[path.name]]
  words = dict.fromkeys(_WORDS & {*columns}, 'category')
  with inputs.reading_file(path, 'a table of scores'):
    frame = pd.read_csv(path, usecols=columns, dtype=words)
    return named(frame.rename(columns=NAMES))


def named(frame: pd.DataFrame) -> pd.DataFrame:
  """Adds `group`, and `question`, a number for each different question."""
  asked = ['graph', 'domain', 'condition', 'prompts', 'start', 'goal']
  keys = [name for name in asked if name in frame]
  number = frame.groupby(keys, observed=True, sort=False, dropna=False).ngroup()
  group = frame['condition'].astype(object).map(questions.GROUP).fillna('')
  return frame.assign(question=number, group=group)


def judged(frame: pd.DataFrame) -> pd.DataFrame:
  """Answers to audited prompts, judged by the solver from their nodes.

  Numbers of clusters are no nodes: what the data say of them stays, and so
  does what they say has no answer.

  Returns:
    Rows of audited prompts with `solver` (is it optimal?) and `outcome`.
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
  verdicts = []
  for row in first.to_dict('records'):
    reply = NodeReply(scoring.parse_nodes(row['nodes']), hedged=True)
    problem = questions.problem(reports.question_of(row))
    verdict = scoring.judge(problem, reply)
    right = float(verdict.outcome == 'correct')
    verdicts.append((right, verdict.outcome))
  names = ['solver', 'outcome']
  wide = pd.DataFrame(verdicts, columns=names).take(code.to_numpy())
  paths = pd.concat([paths, wide.set_index(paths.index)], axis=1)
  whole = pd.concat([paths, every[counts]])
  return whole.assign(outcome=whole['outcome'].astype('category'))


def load(folder: str | pathlib.Path, *, messages: bool = False) -> pd.DataFrame:
  """All conversations with audited prompts, those of the sample with text.

  messages: whether these are read too; they are most of the file.

  Returns:
    A conversation a row, None where there is nothing: the columns of
      `ScoreTables.final`, where `solver` and `outcome` are by the data's parser
      and solver, `nodes` is the answer as its authors' readers read it, and
      `key_status` 'ok', 'wrong' or 'n/a' of the authors' key by that solver.
      `question` is the last one, `key` names the conversation among all,
      `answer` is the last reply, '' without text, and `expected` the authors'
      keys, () without; `messages` are pairs of a role and a text, None without.

  Raises:
    InputError: a file is missing or damaged; says which.
  """
  place = pathlib.Path(folder)
  texts = {}
  interned: dict[str, str] = {}  # Thousands of conversations share a prompt.
  for row in text_rows_of(place / SAMPLE):
    turns = None
    if messages and row['prompt_version'] == AUDITED:
      turns = [(who, interned.setdefault(x, x)) for who, x in row['messages']]
    answered = row.get('answer', ''), row.get('expected', ())
    texts[key_of(row)] = (*answered, turns)
  frame = read_table(place / FINAL)
  frame = frame.assign(recorded=frame['recorded'].clip(upper=1))
  frame = frame[frame['prompts'] == AUDITED].astype(object)
  frame = frame.where(frame.notna(), None)
  rows = frame.to_dict('records')
  keys = [key_of(row) for row in rows]
  read = [texts.get(key, ('', (), None)) for key in keys]
  return frame.assign(
    question=[reports.question_of(row) for row in rows],
    key=keys,
    answer=[answer for answer, *_ in read],
    expected=[(k,) if isinstance(k, str) else tuple(k) for _, k, *_ in read],
    messages=[turns for *_, turns in read],
    key_status=frame['key_status'].fillna('n/a'),
  )


def text_rows_of(path: pathlib.Path) -> Iterator[dict[str, Any]]:
  """Objects of JSON lines, one for each conversation with text.

  Raises:
    InputError: the file is missing or damaged; says where.
  """
  needed: dict[str, type] = dict.fromkeys(FACTORS, str)
  needed |= {'temperature': float, 'repeat': float}
  return recorded_answers.read_lines(path, needed)


def key_of(row: Mapping[str, Any]) -> tuple:
  """Names a conversation among all."""
  what = (row[name] for name in FACTORS)
  return (*what, float(row['temperature']), int(row['repeat']))


@functools.lru_cache(maxsize=4096)
def known_names(question: Question) -> dict[int, str]:
  """Node -> name, as the recorded prompts have them."""
  most = questions.most_nodes(question.graph)
  return dict(questions.node_names(question.graph, question.domain, most))


@functools.lru_cache(maxsize=4096)
def key_nodes(
  question: Question, expected: tuple[str, ...]
) -> frozenset[tuple[int, ...]]:
  """The authors' answer key as nodes, the start of a path included."""
  problem, node_names = questions.problem(question), known_names(question)
  keys = (scoring.read_path(text, node_names).nodes for text in expected)
  return frozenset(scoring.whole(problem, nodes) for nodes in keys if nodes)


PAPER = '2023-05-20'  # The snapshot that is nearest to the paper's tables.


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
  read = load(place)
  texts = int((read['answer'] != '').sum())
  main = statistics.of_paper(final, list(statistics.MODELS))
  fits = _fits(recorded, final)
  # The paper's means are of all domains, strays included.
  early = recorded.may[recorded.may['snapshot'] == PAPER]
  old = means_of_cells(early, 'token')
  return reports.assembled(
    f'{reports.lead(final)}, scored again by an exact solver; '
    f'{texts:,} of them with text. Recorded by the authors in 2023.',
    main,
    [
      reports.stepwise_table(fits),
      table_3(old, f'Snapshot of {PAPER}, recovered score of words'),
      reports.repeats_table(main, ['recorded', 'solver']),
      reports.REPORT.table('judges', both_judged(final)),
      pages.table(
        "The authors' answer keys that are wrong",
        wrong_key_rows(read),
        folded=True,
      ),
    ],
    {
      'deviances': reports.deviances(fits),
      'table3': old.reset_index().to_dict('records'),
    },
    [
      *reports.decided(main),
      *reports.harder(main, 'recorded', statistics.models_of(main)[0]),
    ],
  )


def _fits(
  recorded: ScoreTables, final: pd.DataFrame
) -> dict[str, statistics.Stepwise]:
  """Table 2 of two scores."""
  scored = {
    'solver': (statistics.of_paper(final), 'solver'),
    'recorded': (statistics.of_paper(recorded.final), 'recorded'),
  }
  return {name: statistics.stepwise(*of) for name, of in scored.items()}


def wrong_key_rows(read: pd.DataFrame) -> list[dict[str, Any]]:
  """Answer keys of the authors that the solver contradicts, a row each.

  Cluster counts are left out.

  read: as `load` has it.
  """
  wrong: dict[tuple[str, ...], list[Any]] = {}
  for asked in read[read['expected'] != ()].itertuples():
    where = asked.question[:3]
    if 'nClusters' not in where:
      right = frozenset(questions.problem(asked.question).optimal)
      if key_nodes(asked.question, asked.expected) != right:
        wrong.setdefault(where, []).append(asked)
  every = collections.Counter(asked[:3] for asked in read['question'])
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


def means_of_cells(frame: pd.DataFrame, score: str) -> pd.DataFrame:
  """Table 3: `mean`, `sd` (ddof 1) and `n`, by condition and model."""
  scored = frame[frame[score].notna()]
  keys = [scored[name].astype(str) for name in ('condition', 'model')]
  cells = scored[score].clip(0, 1).groupby(keys)
  return cells.agg(mean='mean', sd='std', n='size')


def beside_printed(means: pd.DataFrame) -> pd.DataFrame:
  """Cells in the order of the paper's table 3, with its numbers.

  Columns besides: `condition`, `model`, `printed_mean`, `printed_sd`; NaN where
  either has none.
  """
  table = reports.REPORT.published['table3']
  printed = [
    (condition, model, *(values or (np.nan, np.nan)))
    for condition, row in table['conditions'].items()
    for model, values in zip(table['models'], row, strict=True)
  ]
  heads = ['condition', 'model', 'printed_mean', 'printed_sd']
  frame = pd.DataFrame(printed, columns=heads)
  return frame.join(means, on=['condition', 'model'])


def agreement(means: pd.DataFrame) -> dict[str, float]:
  """Agreement of means and standard deviations with the paper's table 3.

  Returns:
    cells that are compared; means, how many are within rounding, .005; both, of
    these, whose standard deviations are too; error, the mean absolute
    difference of means; and correlation of means.
  """
  both = beside_printed(means).dropna(subset=['mean', 'printed_mean'])
  printed = both[['printed_mean', 'printed_sd']].to_numpy()
  off = np.abs(both[['mean', 'sd']].to_numpy() - printed)
  near = off <= 0.005 + 1e-9
  return {
    'cells': len(both),
    'means': int(near[:, 0].sum()),
    'both': int(near.all(1).sum()),
    'error': float(off[:, 0].mean()),
    'correlation': float(both['mean'].corr(both['printed_mean'])),
  }


def table_3(means: pd.DataFrame, source: str) -> Table:
  """Table 3 of answers, with the paper's means and standard deviations."""
  frame = beside_printed(means).rename(columns={'condition': 'asked'})
  near = agreement(means)
  return reports.REPORT.table('table3', frame, source=source, **near)


def both_judged(frame: pd.DataFrame) -> pd.DataFrame:
  """Answers that the authors' judge and the solver have scored.

  Columns besides, bool: `judge` and `solver`, is the answer right by each,
  `same`, `judge_alone` and `solver_alone`.
  """
  both = frame[frame['recorded'].notna() & frame['solver'].notna()]
  judge, solver = (both[name] > 0.5 for name in ('recorded', 'solver'))
  return both.assign(
    judge=judge,
    solver=solver,
    same=judge == solver,
    judge_alone=judge & ~solver,
    solver_alone=solver & ~judge,
  )
