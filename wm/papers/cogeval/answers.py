"""Scored answers to CogEval's questions as tables, and means by question.

Rows of recorded files and of logs have the same columns: `graph`, `domain`,
`condition`, `model`, `temperature`, `repeat`, `group` (of conditions) and
`question`, which names what was asked. A model that is asked 30 times says much
the same, most of all at temperature 0: repeats of a question are a cluster, and
intervals, standard errors and tests go by questions.
"""

from __future__ import annotations

import itertools
import math
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from wm import core
from wm.core import basics, inputs
from wm.evaluation import comparisons, statistics
from wm.evaluation.statistics import resample
from wm.papers import declared
from wm.papers.cogeval import score as scoring
from wm.worlds.cognitive_graph import graphs, questions
from wm.worlds.cognitive_graph.questions import Question

FINAL, HISTORY, MAY = (
  f'scores_{name}.csv.gz' for name in ('all', 'history', 'may2023')
)
FACTORS = ('graph', 'domain', 'condition', 'model')
# The paper's three domains; those that it left out are not in its tables.
DOMAINS = ('ordRooms', 'unordSpatial', 'socialTies')
MODELS = declared('cogeval', 'report.toml')['models']
# Table 2 is of eight.
EIGHT = tuple(name for name in MODELS if name != 'forefront-pythia-20b')
# Graph -> the paper's letter.
LETTERS = {name: letter for letter, name in graphs.LETTERS.items()}
AUDITED = 'v2'  # Prompts of August 2023, which the solver's questions are.
VERDICT = ['solver', 'graded', 'outcome', 'edges', 'old', 'over']
COT = 'CoT'  # In the table of May 2023, for '...Shortest'.
GROUP = {
  condition: group
  for group, several in questions.GROUPS.items()
  for condition in several
} | {f'{where}teleShortcutCoT': 'Shortcut' for where in ('', 'non')}
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
  group = frame['condition'].astype(object).map(GROUP).fillna('')
  return frame.assign(question=number, group=group)


def label(model: object) -> str:
  """A model as the paper has it."""
  return MODELS.get(str(model), str(model))


def models_of(frame: pd.DataFrame) -> list[str]:
  """Models of some answers: the paper's in its order, then others."""
  present = [str(name) for name in frame['model'].unique()]
  ordered = [name for name in MODELS if name in present]
  return ordered + sorted(set(present) - set(ordered))


def of_paper(
  frame: pd.DataFrame,
  models: Sequence[str] = EIGHT,
  *,
  cot: bool = False,
) -> pd.DataFrame:
  """Rows of the paper's design: its models, domains, graphs and groups.

  cot: also the two conditions that the paper calls chain of thought, where the
    word 'shortest' is added.
  """
  left_out = ['', 'Clusters']
  design = (
    frame['model'].isin(models)
    & frame['domain'].isin(DOMAINS)
    & frame['graph'].isin(LETTERS)
    & ~frame['group'].isin(left_out)
  )
  if not cot:
    design &= ~frame['condition'].astype(str).str.endswith((COT, 'Shortest'))
  return frame[design]


def judged(frame: pd.DataFrame) -> pd.DataFrame:
  """Answers to audited prompts, judged by the solver from their nodes.

  Numbers of clusters are no nodes: what the data say of them stays, and so
  does what they say has no answer.

  Returns:
    Rows of audited prompts with `solver` (is it optimal?), `graded`, `outcome`,
      `edges` (steps that no arc makes), `old` (those of them that an arc made
      before the change) and `over` (arcs too many of a way to the goal).
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
  reply = scoring.NodeReply(parse_nodes(nodes), 'answer', '', hedged=True)
  verdict = scoring.judge(problem, reply)
  right = float(verdict.outcome == 'correct')
  edges = verdict.hallucinated_edges, verdict.perseverations, verdict.too_long
  return (right, verdict.graded, verdict.outcome, *edges)


def parse_nodes(text: object) -> tuple[int, ...]:
  """Nodes of '1-7-?'; none of what is no text."""
  if not isinstance(text, str) or not text:
    return ()
  return tuple(
    scoring.UNKNOWN if node == '?' else int(node) for node in text.split('-')
  )


# Whose repeats are alike: answers of one model at one temperature.
REPEATED = 'question', 'model', 'temperature'
_DRAWS = 1_999


class Intraclass(NamedTuple):
  """Correlation and design effect of repeated answers.

  Attributes:
    correlation: intraclass correlation, by the analysis of variance.
    effect: design effect 1 + (size - 1) * correlation: answers count as
      n / effect independent ones.
    size: mean size of the cells, weighted as that analysis asks.
    cells, n: how many cells and answers.
    same: share of cells whose answers are all right or all wrong.
  """

  correlation: float
  effect: float
  size: float
  cells: int
  n: int
  same: float


def intraclass(
  frame: pd.DataFrame, score: str, by: Sequence[str] = REPEATED
) -> Intraclass:
  """Correlation of the repeats of one question.

  Args:
    frame: an answer a row; leave out questions that differ from repeat to
      repeat.
    score: name of the column of scores, cut to [0, 1].
    by: columns whose combinations are cells.

  Raises:
    InputError: there are no two cells, or no cell of two answers.
  """
  scored = frame[frame[score].notna()]
  values = scored[score].clip(0, 1)
  keys = [scored[name] for name in by]
  cells = values.groupby(keys, observed=True).agg(['mean', 'size', 'var'])
  size, num, n = cells['size'], len(cells), len(scored)
  if num < 2 or n == num:
    raise core.InputError(
      f'{n} answers in {num} cells; expected several of each of two questions'
    )
  mean_size = (n - (size**2).sum() / n) / (num - 1)
  between = (size * (cells['mean'] - values.mean()) ** 2).sum() / (num - 1)
  within = (cells['var'].fillna(0) * (size - 1)).sum() / (n - num)
  total = between + (mean_size - 1) * within
  correlation = float((between - within) / total) if total else 0.0
  effect = 1 + (float(mean_size) - 1) * correlation
  same = float(cells['mean'].isin([0, 1]).mean())
  return Intraclass(correlation, effect, float(mean_size), num, n, same)


class ScoreMean(NamedTuple):
  """A mean score with what is uncertain of it.

  Attributes:
    value: the mean.
    sd: standard deviation of answers (ddof 1); NaN of one answer.
    low, high: 95 %, by questions, as all reports of scores have it.
    naive: standard error as if answers were independent.
    n, questions: answers, and clusters.
  """

  value: float
  sd: float
  low: float
  high: float
  naive: float
  n: int
  questions: int


def mean(frame: pd.DataFrame, score: str) -> ScoreMean:
  """Mean of some answers, and its interval by questions.

  Raises:
    InputError: no answer has a score.
  """
  totals, weights, values = _sums(frame, score)
  low, high = _interval(totals, weights, 0.0)
  value, n = float(values.mean()), len(values)
  sd = float(values.std(ddof=1)) if n > 1 else math.nan
  naive = float(np.sqrt(values.var() / n))
  return ScoreMean(value, sd, low, high, naive, n, len(totals))


def _interval(
  totals: np.ndarray, weights: np.ndarray, least: float
) -> tuple[float, float]:
  """95 % by clusters, of what is between `least` and 1."""
  low, high, _ = statistics.interval(totals, weights, (least, 1.0))
  return (math.nan if low is None else low, math.nan if high is None else high)


def _sums(
  frame: pd.DataFrame, score: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Sums of scores [G] and answers [G] of each question, and all scores."""
  scored = frame[frame[score].notna()]
  if scored.empty:
    raise core.InputError(f'no answer has a score {score!r}')
  values = scored[score].clip(0, 1).to_numpy(float)
  code = pd.factorize(scored['question'])[0]
  return np.bincount(code, values), np.bincount(code).astype(float), values


def bootstrap(
  frame: pd.DataFrame, score: str, seed: int = 0, draws: int = _DRAWS
) -> np.ndarray:
  """[B] means of samples of as many questions, drawn with replacement."""
  totals, weights, _ = _sums(frame, score)
  counts = resample(len(totals), seed, np.arange(draws))
  return (counts @ totals) / (counts @ weights)


class Contrast(NamedTuple):
  """Two groups of questions.

  Attributes:
    first, second: mean scores.
    difference: of second over first.
    low, high: 95 %, percentiles of the bootstrap over questions.
    p: two-sided, twice the share of resamples on the other side of 0.
    questions: of both.
  """

  first: float
  second: float
  difference: float
  low: float
  high: float
  p: float
  questions: int


def contrast(
  first: pd.DataFrame, second: pd.DataFrame, score: str, seed: int = 0
) -> Contrast:
  """Do answers to other questions score higher? Each is resampled by itself."""
  sums, other_sums = (_sums(frame, score) for frame in (first, second))
  drawn = bootstrap(second, score, seed + 1) - bootstrap(first, score, seed)
  low, high = np.quantile(drawn, [0.025, 0.975])
  tail = min((drawn <= 0).sum(), (drawn >= 0).sum())
  means = float(sums[2].mean()), float(other_sums[2].mean())
  p = min(2 * (1 + int(tail)) / (1 + len(drawn)), 1.0)
  num = len(sums[0]) + len(other_sums[0])
  return Contrast(*means, means[1] - means[0], float(low), float(high), p, num)


class Pair(NamedTuple):
  """Two models on the questions that both answered.

  Attributes:
    first, second: names.
    difference: mean score of second less that of first, each question at each
      temperature counting once.
    low, high: 95 %, by questions.
    p: two-sided, of signs of the questions' differences flipped at random.
    adjusted: the same for all pairs together (Holm).
    questions, cells: that both answered; a cell is a question at a temperature.
  """

  first: str
  second: str
  difference: float
  low: float
  high: float
  p: float
  adjusted: float
  questions: int
  cells: int


def pairs(
  frame: pd.DataFrame,
  score: str,
  models: Sequence[str] | None = None,
  seed: int = 0,
  draws: int = _DRAWS,
) -> list[Pair]:
  """Compares all pairs of models on what both were asked.

  models: in order; None is all of the frame's. Pairs with no question in
    common are left out.
  """
  scored = frame[frame[score].notna()]
  keys = [scored[name] for name in ('question', 'temperature', 'model')]
  means = scored[score].clip(0, 1).groupby(keys, observed=True).mean().unstack()
  names = [m for m in models or list(means.columns) if m in means.columns]
  code = pd.factorize(means.index.get_level_values(0))[0]
  num = int(code.max(initial=-1)) + 1
  signs = _signs(num, seed, draws)
  compared: list[Pair] = []
  for first, second in itertools.combinations(names, 2):
    gap = (means[second] - means[first]).to_numpy(float)
    both = np.isfinite(gap)
    if not both.any():
      continue
    weights = np.bincount(code[both], minlength=num).astype(float)
    totals = np.bincount(code[both], gap[both], num)
    used = weights > 0
    low, high = _interval(totals[used], weights[used], -1.0)
    beyond = np.abs(signs @ totals) >= abs(totals.sum()) - 1e-9
    p = float((1 + beyond.sum()) / (1 + draws))
    value, cells = float(gap[both].mean()), int(both.sum())
    fields = first, second, value, low, high, p, p, int(used.sum()), cells
    compared.append(Pair(*fields))
  adjusted = comparisons.holm([pair.p for pair in compared])
  return [
    pair._replace(adjusted=p)
    for pair, p in zip(compared, adjusted, strict=True)
  ]


def _signs(num: int, seed: int, draws: int) -> np.ndarray:
  """[B, G] float64 of -1 and 1, a pure function of the integers."""
  bits = basics.hash64(seed, np.arange(draws)[:, None], np.arange(num))
  return np.where(bits >> np.uint64(63), 1.0, -1.0)
