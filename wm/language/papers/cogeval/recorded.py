"""CogEval's recorded conversations, as a page.

They are read from the files of the data's README: JSON lines with the text, or
a CSV file without it, which has the answers as nodes.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from wm.core import inputs
from wm.language.pages import AnswersPage
from wm.language.papers import published
from wm.language.papers.cogeval import prompts, statistics
from wm.language.papers.cogeval import report as reports
from wm.language.papers.cogeval import score as scoring
from wm.worlds.cognitive_graph import questions
from wm.worlds.cognitive_graph.questions import Question

SAMPLE = 'conversations_sample.jsonl.gz'
FINAL, MAY = 'scores_all.csv.gz', 'scores_may2023.csv.gz'
TEXTS = SAMPLE, FINAL  # Files that conversations are read from.
AUDITED = 'v2'  # The prompts of August 2023, which the solver's questions are.
FACTORS = ['graph', 'domain', 'condition', 'model']
_CONVERSATION = [*FACTORS, 'temperature', 'repeat']
_QUESTION = ['graph', 'domain', 'condition', 'start', 'goal']
# File -> its columns that are read besides FACTORS, by their names here.
COLUMNS = {
  FINAL: [
    *('temperature', 'repeat', 'start', 'goal', 'prompts', 'recorded'),
    *('solver', 'key_status', 'outcome', 'nodes'),
  ],
  MAY: ['temperature', 'repeat', 'snapshot', 'token'],
}
_NAMES = {
  'temp': 'temperature',
  'rep': 'repeat',
  'prompt_version': 'prompts',
  'recorded_score': 'recorded',
  'rescore': 'solver',
  'answer_nodes': 'nodes',
  'token_score': 'token',
}


def read_table(path: pathlib.Path) -> pd.DataFrame:
  """A table of scores, columns renamed.

  FINAL, of the last commit, has `recorded` (by the authors' judge), `solver`,
  `outcome`, `nodes` ('1-7-?'), `key_status`, and `prompts` ('v1', 'v2', 'cot');
  MAY, of the paper's time, `token` by `snapshot`.

  Raises:
    InputError: the file is missing, damaged, or lacks a column.
  """
  with inputs.reading_file(path, 'a table of scores'):
    frame = pd.read_csv(path).rename(columns=_NAMES)
    return named(frame[[*FACTORS, *COLUMNS[path.name]]])


def named(frame: pd.DataFrame) -> pd.DataFrame:
  """Adds `group`, and `question`, a number for each different question."""
  keys = [name for name in (*_QUESTION, 'prompts') if name in frame]
  number = frame.groupby(keys, observed=True, sort=False, dropna=False).ngroup()
  group = frame['condition'].astype(object).map(questions.GROUP).fillna('')
  return frame.assign(question=number, group=group)


def question_of(row: Mapping[str, Any]) -> Question:
  """The question that an answer, a row of a table, is about."""
  ends = row['start'], row['goal']
  start, goal = (None if pd.isna(end) else int(end) for end in ends)
  return Question(row['graph'], row['condition'], row['domain'], start, goal)


def judged(frame: pd.DataFrame) -> pd.DataFrame:
  """Answers to audited prompts, judged by the solver from their nodes.

  Numbers of clusters are no nodes: what the data say of them stays, and so
  does what they say has no answer.

  Returns:
    Rows of audited prompts with `solver` (is it optimal?) and `outcome`.
  """
  every = frame[frame['prompts'] == AUDITED]
  counts = every['group'] == 'Clusters'
  # Nodes of what has no answer are those of prose.
  nodes = every['nodes'].where(every['outcome'] != 'no_answer')
  paths = every.assign(nodes=nodes)[~counts]
  paths = paths.drop(columns=['solver', 'outcome'])
  asked = paths[[*_QUESTION, 'nodes']].drop_duplicates()
  asked['outcome'] = [
    scoring.judge(
      questions.problem(question_of(row)), scoring.parse_nodes(row['nodes'])
    ).outcome
    for row in asked.to_dict('records')
  ]
  asked['solver'] = (asked['outcome'] == 'correct').astype(float)
  paths = paths.merge(asked, 'left').set_index(paths.index)
  return pd.concat([paths, every[counts]])


def load(folder: str | pathlib.Path) -> pd.DataFrame:
  """All conversations with audited prompts, those of the sample with text.

  Returns:
    A conversation a row: the columns of FINAL, see `read_table`, where `solver`
      and `outcome` are by the data's parser and solver, `nodes` is the answer
      as its authors' readers read it, and `key_status` 'ok', 'wrong' or 'n/a'
      of the authors' key by that solver. `question` is the last one, `answer`
      is the last reply, '' without text, and `expected` the authors' keys, ()
      without; `messages` are pairs of a role and a text, NaN without.

  Raises:
    InputError: a file is missing or damaged; says which.
  """
  place = pathlib.Path(folder)
  needed: dict[str, type] = dict.fromkeys(FACTORS, str)
  needed |= {'temperature': float, 'repeat': float}
  lines = published.read_lines(place / SAMPLE, needed)
  # Not of all lines: they have columns of the table, too.
  of_text = [*_CONVERSATION, 'messages', 'answer', 'expected']
  texts = pd.DataFrame(lines, columns=of_text)
  texts = texts.astype({'temperature': float, 'repeat': float})
  frame = read_table(place / FINAL)
  frame = frame[frame['prompts'] == AUDITED].merge(texts, 'left')
  return frame.assign(
    question=[question_of(row) for row in frame[_QUESTION].to_dict('records')],
    answer=frame['answer'].fillna(''),
    expected=[
      (keys,) if isinstance(keys, str) else (*keys,) if keys == keys else ()
      for keys in frame['expected']
    ],
    key_status=frame['key_status'].astype(object).fillna('n/a'),
  )


@functools.lru_cache(maxsize=4096)
def key_nodes(
  question: Question, expected: tuple[str, ...]
) -> frozenset[tuple[int, ...]]:
  """The authors' answer key as nodes, the start of a path included."""
  problem, node_names = questions.problem(question), prompts.names_of(question)
  keys = (scoring.read_path(text, node_names) for text in expected)
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
  table, may = read_table(place / FINAL), read_table(place / MAY)
  final = judged(table)
  final = final[final['domain'].isin(statistics.DOMAINS)]
  read = load(place)
  main = statistics.of_paper(final, list(statistics.MODELS))
  deviances = [
    {'score': score, **step}
    for score, frame in (('solver', final), ('recorded', table))
    for step in statistics.stepwise(statistics.of_paper(frame), score)
  ]
  # The paper's means are of all domains, strays included.
  old = means_of_cells(may[may['snapshot'] == PAPER], 'token')
  return reports.answers_page(
    f'{reports.lead(final)}, scored again by an exact solver; '
    f'{(read["answer"] != "").sum():,} of them with text. Recorded by the '
    'authors in 2023.',
    main,
    [
      reports.stepwise_table(deviances),
      reports.REPORT.table('table3', beside_printed(old), **agreement(old)),
      reports.repeats_table(main, ['recorded', 'solver']),
      reports.REPORT.table('judges', both_judged(final)),
      reports.REPORT.table('wrong_keys', wrong_keys(read)),
    ],
    {'deviances': deviances, 'table3': old.reset_index().to_dict('records')},
  )


def wrong_keys(read: pd.DataFrame) -> pd.DataFrame:
  """Conversations whose answer key the solver contradicts.

  Cluster counts are left out. Columns besides: `key` and `right`, as text, and
  `conversations`, how many ask the same.

  read: as `load` has it.
  """
  same = read.groupby(['graph', 'condition', 'domain'])['graph']
  read = read.assign(conversations=same.transform('size'))
  keyed = read[(read['expected'] != ()) & (read['group'] != 'Clusters')]
  wrong = [
    key_nodes(*pair) != frozenset(questions.problem(pair[0]).optimal)
    for pair in zip(keyed['question'], keyed['expected'], strict=True)
  ]
  rows = keyed[wrong]
  right = [
    scoring.keys(questions.problem(question), prompts.names_of(question))
    for question in rows['question']
  ]
  return rows.assign(
    key=rows['expected'].map(' | '.join), right=[*map(' | '.join, right)]
  )


def means_of_cells(frame: pd.DataFrame, score: str) -> pd.DataFrame:
  """Table 3: `mean`, `sd` (ddof 1) and `n`, by condition and model."""
  scored = frame[frame[score].notna()]
  keys = [scored[name].astype(str) for name in ('condition', 'model')]
  cells = scored[score].clip(0, 1).groupby(keys)
  return cells.agg(mean='mean', sd='std', n='size')


def beside_printed(means: pd.DataFrame) -> pd.DataFrame:
  """Cells in the order of the paper's table 3, with its numbers.

  Columns besides: `asked` (the condition), `model`, `printed_mean`,
  `printed_sd`; NaN where either has none.
  """
  table = reports.REPORT.published['table3']
  printed = [
    (condition, model, *(values or (np.nan, np.nan)))
    for condition, row in table['conditions'].items()
    for model, values in zip(table['models'], row, strict=True)
  ]
  heads = ['asked', 'model', 'printed_mean', 'printed_sd']
  frame = pd.DataFrame(printed, columns=heads)
  return frame.join(means, on=['asked', 'model'])


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


def both_judged(frame: pd.DataFrame) -> pd.DataFrame:
  """Answers that the authors' judge and the solver have scored.

  Columns besides, bool: `judge` and `solver`, is the answer right by each,
  `same`, `judge_alone` and `solver_alone`.
  """
  both = frame.dropna(subset=['recorded', 'solver'])
  judge, solver = both['recorded'] > 0.5, both['solver'] > 0.5
  return both.assign(
    judge=judge,
    solver=solver,
    same=judge == solver,
    judge_alone=judge & ~solver,
    solver_alone=solver & ~judge,
  )
