"""Scored answers as rows, numbers of games, baselines, and regressions."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rapidfuzz.distance import Levenshtein

from wm import core
from wm.evaluation import statistics
from wm.papers.mango import questions
from wm.papers.mango import score as scoring
from wm.papers.mango.score import OPPOSITES, Answer, Graph, Move, Rules
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game import skeletons

COLUMNS = (
  'model',
  'game',
  'kind',
  'key',
  'easy',
  'length',
  'imputed',
  *scoring.Score._fields,
)
MICRO, MACRO = 'micro', 'macro'


class Mean(NamedTuple):
  """A mean and its 95 % interval, clustered by game; None where n is 0."""

  value: float | None
  low: float | None
  high: float | None
  n: int
  games: int


def answer_row(
  model: str, asked: questions.Asked, score: scoring.Score
) -> tuple[Any, ...]:
  """A scored answer, in the order of COLUMNS."""
  return (
    model,
    asked.game,
    asked.kind,
    asked.key,
    asked.easy,
    asked.length,
    asked.imputed,
    *score,
  )


def answer_frame(rows: Iterable[tuple[Any, ...]]) -> pd.DataFrame:
  """A table of rows."""
  return pd.DataFrame(list(rows), columns=list(COLUMNS))


def select(rows: pd.DataFrame, **columns: Any) -> pd.DataFrame:
  """The rows that have these values; None is any."""
  kept = np.ones(len(rows), bool)
  for name, value in columns.items():
    if value is not None:
      kept &= (rows[name] == value).to_numpy()
  return rows[kept]


def well_formed(rows: pd.DataFrame) -> pd.DataFrame:
  """The rows that the paper's scores are over."""
  return rows[rows.failure == '']


def mean_with_interval(
  rows: pd.DataFrame,
  column: str = 'success',
  average: str = MICRO,
  value: Callable[[pd.DataFrame], np.ndarray] | None = None,
) -> Mean:
  """Mean of a column of 0 to 1, over questions or over games.

  Args:
    rows: any.
    column: its name.
    average: 'micro' weighs each question the same, as the paper's tables do;
      'macro' each game, as the caption of its figure 2 says.
    value: instead of the column, [rows] numbers.
  """
  if not len(rows):
    return Mean(None, None, None, 0, 0)
  values = rows[column].to_numpy(float) if value is None else value(rows)
  games, index = np.unique(rows.game.to_numpy(str), return_inverse=True)
  weights = np.bincount(index).astype(float)
  totals = np.bincount(index, values)
  if average == MACRO:
    totals, weights = totals / weights, np.ones(len(games))
  low, high, _ = statistics.interval(totals, weights, (0.0, 1.0))
  found = float(totals.sum() / weights.sum())
  return Mean(found, low, high, len(rows), len(games))


def corrected(rows: pd.DataFrame) -> float | None:
  """Success above chance, over what is above chance: 0 guesses, 1 is right."""
  if not len(rows):
    return None
  chance = rows.chance.mean()
  return float((rows.success.mean() - chance) / (1 - chance))


def both_answered(
  rows: pd.DataFrame, models: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
  """Rows of two models for the questions that both answered well-formed.

  As tables 1 and 9 have it; of several answers of one model to a question the
  first counts.
  """
  some = [
    well_formed(select(rows, model=name)).drop_duplicates(['game', 'key'])
    for name in models
  ]
  indexed = [part.set_index(['game', 'key']) for part in some]
  common = indexed[0].index.intersection(indexed[1].index)
  one, other = (part.loc[common].reset_index() for part in indexed)
  return one, other


class Facts(NamedTuple):
  """Numbers of one game.

  Attributes:
    game: its name.
    steps: the last step of its walkthrough; 0 where there is none.
    cut: the last step that counts.
    locations: places with an edge.
    explicit: edges that are walked.
    imputed: edges that are only imputed.
    confusion: sum over places of how similar, in words, the most similar other
      name is: 1 - edit distance / length of the longer one.
    length: mean edges of a simple path; NaN without any.
    length_easy, length_hard: the same of the easy and of the hard ones.
    imputed_hard: mean of the imputed edges in a hard path.
    scene: mean words of an observation; NaN without a walkthrough.
    df_easy, df_hard, rf_easy, rf_hard: questions.
  """

  game: str
  steps: int
  cut: int
  locations: int
  explicit: int
  imputed: int
  confusion: float
  length: float
  length_easy: float
  length_hard: float
  imputed_hard: float
  scene: float
  df_easy: int
  df_hard: int
  rf_easy: int
  rf_hard: int


def confusion(names: Sequence[str]) -> float:
  """Sum over names of the similarity, in words, with the most similar other.

  The paper prints the edit distance itself over the longer length, and says
  that it finds similar names; the authors' program has one minus that.
  """
  words = [name.lower().split() for name in names]
  return float(
    sum(
      max(
        (
          Levenshtein.normalized_similarity(one, other)
          for k, other in enumerate(words)
          if k != number
        ),
        default=0.0,
      )
      for number, one in enumerate(words)
    )
  )


def facts_of(
  maze: mazes.Maze, step: int = mazes.LAST, rule: str = 'some'
) -> Facts:
  """The numbers of a game at a step; rule: see `questions.questions`."""
  some = mazes.prefix(maze, step)
  edges = some.edges
  walked = edges.answerable.forward <= step
  found = skeletons.destinations(some)
  easy = found.easy <= step
  sizes = found.paths.length
  unwalked = np.concatenate([[0], np.cumsum(~walked[found.paths.edges])])
  offsets = found.paths.offsets
  imputed = unwalked[offsets[1:]] - unwalked[offsets[:-1]]
  seen = mazes.seen(some)
  names = [name for name, here in zip(some.places, seen, strict=True) if here]
  words = [len(one.observation.split()) for one in some.steps]
  routes = [one.easy for one in questions.questions(maze, 'route', step, rule)]
  return Facts(
    maze.game,
    maze.steps[-1].number if maze.steps else 0,
    step,
    len(names),
    int(walked.sum()),
    int((~walked).sum()),
    confusion(names),
    _mean(sizes),
    _mean(sizes[easy]),
    _mean(sizes[~easy]),
    _mean(imputed[~easy]),
    _mean(words),
    int(easy.sum()),
    int((~easy).sum()),
    sum(routes),
    len(routes) - sum(routes),
  )


def _mean(values: Sequence[int] | np.ndarray) -> float:
  return float(np.mean(values)) if len(values) else float('nan')


def facts_of_all(
  known: Iterable[mazes.Maze],
  cuts: Mapping[str, int] | None = None,
  rule: str = 'some',
) -> list[Facts]:
  """The numbers of games, each at its own step; default the map's last.

  cuts: game -> step, as of a model's prefixes (tables 5, 7 and 8).
  """
  return [
    facts_of(maze, (cuts or {}).get(maze.game, mazes.LAST), rule)
    for maze in known
  ]


Moves = dict[str, dict[str, list[str]]]

BASELINES = {
  'uniform': 'a place drawn at random: the mean over all of them',
  'last': 'the last place of the walkthrough',
  'frequent': "the walkthrough's most frequent place",
  'random_walk': 'as many random moves on the visible map as the path has',
  'walked': 'the path on the map of walked moves; one that is missing stays',
  'reversed': 'the same, with the opposite of each walked direction',
}


class Seen(NamedTuple):
  """What a prefix shows of a game.

  Attributes:
    last, frequent: places.
    visible, walked, reverse: place -> action -> places; see BASELINES.
  """

  last: str
  frequent: str
  visible: Moves
  walked: Moves
  reverse: Moves


def seen_at(maze: mazes.Maze, step: int) -> Seen:
  """What the steps 0..step show; the last place is '' of a maze without any."""
  places = questions.places_walked(maze)[: step + 1] if maze.steps else []
  shown = [place for place in places if place]
  edges = maze.edges
  visible: Moves = {}
  walked: Moves = {}
  for edge in range(edges.source.size):
    source, action, target = maze.words(edge)
    for moves, known in (
      (visible, edges.answerable.total[edge]),
      (walked, edges.answerable.forward[edge]),
    ):
      if known <= step:
        moves.setdefault(source, {}).setdefault(action, []).append(target)
  back = {place: dict(out) for place, out in walked.items()}
  for source, out in walked.items():
    for action, targets in out.items():
      for target in targets if action in OPPOSITES else ():
        back.setdefault(target, {}).setdefault(OPPOSITES[action], [source])
  frequent = collections.Counter(shown).most_common(1)
  return Seen(
    shown[-1] if shown else '',
    frequent[0][0] if frequent else '',
    visible,
    walked,
    back,
  )


def _follow(moves: Moves, start: str, actions: Sequence[str]) -> list[Move]:
  """A path of the actions; an action that leads nowhere stays."""
  # Where each action may lead, from any of the places before it: place -> one
  # from which it is reached.
  came: list[dict[str, str]] = []
  places = [start]
  for action in actions:
    reached = {
      after: place
      for place in places
      for after in moves.get(place, {}).get(action, ())
    }
    came.append(reached or {place: place for place in places})
    places = list(came[-1])
  here, path = places[0], []
  for action, reached in zip(actions[::-1], came[::-1], strict=True):
    path.append(Move(reached[here], action, here))
    here = reached[here]
  return path[::-1]


def _shortest(moves: Moves, start: str, end: str) -> list[Move]:
  came: dict[str, Move] = {}
  queue = collections.deque([start])
  while queue and end not in came:
    here = queue.popleft()
    for action, targets in moves.get(here, {}).items():
      for after in targets:
        if after != start and after not in came:
          came[after] = Move(here, action, after)
          queue.append(after)
  path: list[Move] = []
  while end in came:
    path.append(came[end])
    end = came[end].before
  return path[::-1]


def walk(
  moves: Moves, start: str, target: str, actions: Sequence[str]
) -> list[Move]:
  """A path of the actions, or a shortest one where there are none."""
  if actions:
    return _follow(moves, start, actions)
  return _shortest(moves, start, target)


def _random(moves: Moves, asked: questions.Asked, seed: int) -> list[Move]:
  here, path = asked.question.start, []
  draws = core.hash64(
    seed, int(asked.key[:15], 16), np.arange(max(asked.length, 1))
  )
  for draw in draws.tolist():
    out = [(a, v) for a, vs in moves.get(here, {}).items() for v in vs]
    if not out:
      break
    action, after = out[draw % len(out)]
    path.append(Move(here, action, after))
    here = after
  return path


def baseline_answer(
  name: str, asked: questions.Asked, known: Seen, seed: int = 0
) -> Answer:
  """The answer of a baseline but 'uniform'; an empty one is 'empty_list'."""
  start, target, actions = asked.question
  if name in ('last', 'frequent'):
    place = known.last if name == 'last' else known.frequent
    path = [Move(start, action, place) for action in actions or ('',)]
  elif name == 'random_walk':
    path = _random(known.visible, asked, seed)
  else:
    moves = known.walked if name == 'walked' else known.reverse
    path = walk(moves, start, target, actions)
  return Answer(tuple(path), '' if path else 'empty_list')


def baseline_scores(
  maze: mazes.Maze,
  kind: str,
  step: int = mazes.LAST,
  *,
  rule: str = 'some',
  rules: Rules | None = None,
  names: Sequence[str] = tuple(BASELINES),
  seed: int = 0,
) -> Iterator[tuple[str, questions.Asked, scoring.Score]]:
  """(baseline, question, score) of all questions of a kind about a game.

  Raises:
    InputError: there is no such kind, rule or baseline.
  """
  for name in names:
    if name not in BASELINES:
      raise core.InputError(
        f'no baseline {name!r}; available: {", ".join(BASELINES)}'
      )
  graph = questions.judge_graph(maze, rules)
  known = seen_at(maze, step)
  judge = judged(kind)
  for asked in questions.questions(maze, kind, step, rule):
    for name in names:
      if name == 'uniform':
        yield name, asked, _uniform(graph, asked)
      else:
        found = baseline_answer(name, asked, known, seed)
        yield name, asked, judge(graph, asked.question, found)


def judged(
  kind: str,
) -> Callable[[Graph, scoring.Question, Answer], scoring.Score]:
  """What scores answers to questions of a kind."""
  if kind == questions.DESTINATION:
    return scoring.destination
  return scoring.route


def _uniform(graph: Graph, asked: questions.Asked) -> scoring.Score:
  """The mean over all places of a destination; of a route no move at all."""
  if asked.kind != questions.DESTINATION:
    return scoring.Score('empty_list')
  start, target, actions = asked.question
  truth = graph.follow(start, actions) or frozenset([target])
  share = len(truth) / len(graph.places)
  mean = graph.chance(truth)
  return scoring.Score('', mean, share, share, share, chance=mean)


# Variables of easy and of hard questions, as in table 2.
EASY = ('locations', 'explicit', 'confusion', 'length_easy', 'scene')
HARD = (
  'locations',
  'explicit',
  'imputed',
  'confusion',
  'length_hard',
  'imputed_hard',
  'scene',
)
SIMPLE, MULTIPLE, COMPONENTS = REGRESSIONS = 'simple', 'multiple', 'components'
# Components that are kept explain this share of the variance.
VARIANCE_KEPT = 0.9
_FEWEST = 3  # Games beyond the number of coefficients.


class Coefficient(NamedTuple):
  """One coefficient: success by one standard deviation of a variable.

  Attributes:
    kind: 'simple', 'multiple' or 'components'.
    variable: its name; of a component its number and its largest loadings.
    beta: the coefficient.
    low, high: its 95 % interval.
    p: two-sided.
    n: games.
    r2: of the whole regression.
  """

  kind: str
  variable: str
  beta: float
  low: float
  high: float
  p: float
  n: int
  r2: float


def by_game(
  rows: pd.DataFrame, facts: Sequence[Facts], variables: Sequence[str]
) -> pd.DataFrame:
  """A row per game: mean success of its rows, and standardised variables.

  Games without rows are left out, and variables that do not vary.
  """
  success = rows.groupby('game').success.mean()
  known = pd.DataFrame(facts).set_index('game')[list(variables)]
  known = known.dropna(axis='columns', how='all')
  found = known.join(success, how='inner').dropna()
  numbers = found[known.columns].astype(float)
  spread = numbers.std(ddof=0)
  some = [name for name in known.columns if spread[name] > 1e-12]
  scaled = (numbers[some] - numbers[some].mean()) / spread[some]
  return scaled.assign(success=found.success.astype(float))


def regress(
  rows: pd.DataFrame, facts: Sequence[Facts], variables: Sequence[str]
) -> list[Coefficient]:
  """All coefficients of one model on one kind of question.

  Args:
    rows: scored answers; those that are ill-formed are left out, as the paper
      does.
    facts: of each game.
    variables: fields of Facts.

  Returns:
    Of each kind of regression those that have games enough; often none.
  """
  found = by_game(well_formed(rows), facts, variables)
  success = found.pop('success')
  coefficients: list[Coefficient] = []
  for name in found.columns:
    coefficients += _fit(SIMPLE, success, found[[name]])
  coefficients += _fit(MULTIPLE, success, found)
  return coefficients + _fit(COMPONENTS, success, components(found))


def components(known: pd.DataFrame) -> pd.DataFrame:
  """Principal components of standardised variables, each of variance one.

  So many as explain KEPT of the variance; a component's name tells the
  variables with the largest loadings, and its sign makes the first positive.
  """
  if len(known) < 2 or not len(known.columns):
    return known
  values = known.to_numpy(float)
  left, sizes, loadings = np.linalg.svd(values, full_matrices=False)
  shares = np.cumsum(sizes**2) / (sizes**2).sum()
  num = int(np.searchsorted(shares, VARIANCE_KEPT - 1e-12)) + 1
  columns = {}
  for k in range(num):
    order = np.argsort(-np.abs(loadings[k]), kind='stable')[:3]
    sign = np.sign(loadings[k, order[0]]) or 1.0
    parts = [
      f'{known.columns[at]} {sign * loadings[k, at]:+.2f}' for at in order
    ]
    share = sizes[k] ** 2 / (sizes**2).sum()
    name = f'{k + 1} ({share:.0%}): {", ".join(parts)}'
    columns[name] = sign * left[:, k] * np.sqrt(len(values))
  return pd.DataFrame(columns, index=known.index)


def _fit(
  kind: str, success: pd.Series, known: pd.DataFrame
) -> list[Coefficient]:
  """Coefficients but the constant; [] where games are too few or all alike."""
  from statsmodels.regression import linear_model

  num = len(known.columns)
  if not num or len(known) < num + 1 + _FEWEST or np.ptp(success) == 0:
    return []
  design = known.assign(constant=1.0)
  if np.linalg.matrix_rank(design.to_numpy()) < num + 1:
    return []
  fit = linear_model.OLS(success, design).fit()
  ends = fit.conf_int()
  return [
    Coefficient(
      kind,
      name,
      float(fit.params[name]),
      float(ends.loc[name, 0]),
      float(ends.loc[name, 1]),
      float(fit.pvalues[name]),
      len(known),
      float(fit.rsquared),
    )
    for name in known.columns
  ]


def regressions(
  rows: pd.DataFrame, facts: Sequence[Facts]
) -> Mapping[tuple[str, str, bool], list[Coefficient]]:
  """(model, kind of question, easy) -> coefficients."""
  found = {}
  for (model, kind, easy), some in rows.groupby(['model', 'kind', 'easy']):
    variables = EASY if easy else HARD
    found[model, kind, bool(easy)] = regress(some, facts, variables)
  return found
