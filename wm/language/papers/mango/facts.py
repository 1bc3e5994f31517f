"""Scored answers as rows, the numbers of games, and regressions.

Rows have the columns of `COLUMNS`. Regressions are of success of each game on
its numbers (table 2): ordinary least squares on standardised variables, one at
a time as the paper has them, and all at once, which are collinear. Source: Ding
et al. 2024, section 3.3 and appendix B.
"""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from wm.core import inputs
from wm.language.papers.mango import questions
from wm.language.papers.mango import score as scoring
from wm.language.papers.mango.score import MazeMove
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game import questions as game_questions

COLUMNS = [
  *('model', 'game', 'kind', 'key', 'easy', 'length', 'imputed'),
  *scoring.Score._fields,
]


def answer_row(
  model: str, asked: scoring.MazeQuestion, score: scoring.Score
) -> dict[str, Any]:
  """A scored answer with the columns of COLUMNS, and others."""
  return {'model': model, **asked._asdict(), **score._asdict()}


def answer_frame(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
  """A table of rows."""
  # Tuples take a fifth of the memory of mappings.
  values = [tuple(row[name] for name in COLUMNS) for row in rows]
  return pd.DataFrame(values, columns=COLUMNS)


def well_formed(rows: pd.DataFrame) -> pd.DataFrame:
  """The rows that the paper's scores are over."""
  return rows[rows.failure == '']


def corrected(rows: pd.DataFrame) -> float | None:
  """Success above chance, over what is above chance: 0 guesses, 1 is right."""
  if not len(rows):
    return None
  chance = rows.chance.mean()
  return float((rows.success.mean() - chance) / (1 - chance))


def confusion(names: Sequence[str]) -> float:
  """Sum over names of the similarity, in words, with the most similar other.

  The paper prints the edit distance itself over the longer length, and says
  that it finds similar names; the authors' program has one minus that.
  """
  words = [name.lower().split() for name in names]
  alike = process.cdist(
    words, words, scorer=Levenshtein.normalized_similarity, dtype=float
  )
  np.fill_diagonal(alike, 0)
  return float(sum(alike.max(1, initial=0)))


def facts_of(maze: mazes.Maze, step: int = mazes.LAST) -> dict[str, Any]:
  """The numbers of a game at a step.

  Keys: game; steps, the last one of its walkthrough, 0 without; cut, the last
  step that counts; locations, places with an edge; explicit, edges that are
  walked, and imputed, those that are only imputed; confusion; length, mean
  edges of a simple path, length_easy and length_hard; imputed_hard, mean of
  the imputed edges in a hard path; scene, mean words of an observation;
  df_easy, df_hard, rf_easy and rf_hard, questions. Means of nothing are NaN.
  """
  shown = mazes.prefix(maze, step)
  edges = shown.edges
  walked = edges.answerable.forward <= step
  paths = game_questions.destinations(shown)
  easy = paths.easy <= step
  sizes = pd.Series(paths.paths.length)
  unwalked = np.concatenate([[0], np.cumsum(~walked[paths.paths.edges])])
  imputed = pd.Series(np.diff(unwalked[paths.paths.offsets]))
  names = list(itertools.compress(shown.places, mazes.seen(shown)))
  words = [len(shown_step.observation.split()) for shown_step in shown.steps]
  routes = [asked.easy for asked in questions.questions(maze, 'route', step)]
  return {
    'game': maze.game,
    'steps': maze.steps[-1].number if maze.steps else 0,
    'cut': step,
    'locations': len(names),
    'explicit': int(walked.sum()),
    'imputed': int((~walked).sum()),
    'confusion': confusion(names),
    'length': float(sizes.mean()),
    'length_easy': float(sizes[easy].mean()),
    'length_hard': float(sizes[~easy].mean()),
    'imputed_hard': float(imputed[~easy].mean()),
    'scene': float(np.mean(words)) if words else math.nan,
    'df_easy': int(easy.sum()),
    'df_hard': int((~easy).sum()),
    'rf_easy': sum(routes),
    'rf_hard': len(routes) - sum(routes),
  }


def facts_of_all(
  mazes_shown: Iterable[mazes.Maze],
  cuts: Mapping[str, int] | None = None,
) -> pd.DataFrame:
  """The numbers of games, each at its own step; default the map's last.

  cuts: game -> step, as of a model's prefixes (tables 5, 7 and 8).
  """
  cuts = cuts or {}
  return pd.DataFrame(
    facts_of(maze, cuts.get(maze.game, mazes.LAST)) for maze in mazes_shown
  )


Moves = dict[str, dict[str, list[str]]]


def visible_moves(maze: mazes.Maze, step: int) -> Moves:
  """Place -> action -> places: the moves that steps 0..step show."""
  moves: Moves = {}
  words = [maze.words(edge) for edge in range(maze.edges.size)]
  shown = maze.edges.answerable.total <= step
  for source, action, target in itertools.compress(words, shown):
    moves.setdefault(source, {}).setdefault(action, []).append(target)
  return moves


def _follow(moves: Moves, start: str, actions: Sequence[str]) -> list[MazeMove]:
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
  place, path = places[0], []
  for action, reached in zip(actions[::-1], came[::-1], strict=True):
    path.append(MazeMove(reached[place], action, place))
    place = reached[place]
  return path[::-1]


def _shortest(moves: Moves, start: str, end: str) -> list[MazeMove]:
  came: dict[str, MazeMove] = {}
  queue = collections.deque([start])
  while queue and end not in came:
    place = queue.popleft()
    for action, targets in moves.get(place, {}).items():
      for after in targets:
        if after != start and after not in came:
          came[after] = MazeMove(place, action, after)
          queue.append(after)
  path: list[MazeMove] = []
  while end in came:
    path.append(came[end])
    end = came[end].before
  return path[::-1]


def walk(
  moves: Moves, start: str, target: str, actions: Sequence[str]
) -> list[MazeMove]:
  """A path of the actions, or a shortest one where there are none."""
  if actions:
    return _follow(moves, start, actions)
  return _shortest(moves, start, target)


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
_FEWEST = 3  # Games beyond the number of coefficients.


COEFFICIENT = ['kind', 'variable', 'beta', 'low', 'high', 'p', 'n', 'r2']


def by_game(
  rows: pd.DataFrame, facts: pd.DataFrame, variables: Sequence[str]
) -> pd.DataFrame:
  """A row per game: mean success of its rows, and standardised variables.

  Games without rows are left out, and variables that do not vary.
  """
  success = rows.groupby('game').success.mean()
  numbers_of = facts.set_index('game')[list(variables)]
  numbers_of = numbers_of.dropna(axis='columns', how='all')
  joined = numbers_of.join(success, how='inner').dropna()
  numbers = joined[numbers_of.columns].astype(float)
  spread = numbers.std(ddof=0)
  varied = [name for name in numbers_of.columns if spread[name] > 1e-12]
  scaled = (numbers[varied] - numbers[varied].mean()) / spread[varied]
  return scaled.assign(success=joined.success.astype(float))


def regress(
  rows: pd.DataFrame, facts: pd.DataFrame, variables: Sequence[str]
) -> list[pd.DataFrame]:
  """All coefficients of one model on one kind of question, by regression.

  Args:
    rows: scored answers; those that are ill-formed are left out, as the paper
      does.
    facts: of each game.
    variables: keys of `facts_of`.

  Returns:
    Columns COEFFICIENT: the kind of regression, 'simple' or 'multiple'; the
    variable; success by one standard deviation of it, with its 95 % interval
    and two-sided p; games, and r squared of the whole regression. Regressions
    without games enough are left out; often all are.
  """
  table = by_game(well_formed(rows), facts, variables)
  success = table.pop('success')
  several = [('simple', table[[name]]) for name in table.columns]
  several.append(('multiple', table))
  fitted = (_fit(kind, success, columns) for kind, columns in several)
  return [part for part in fitted if part is not None]


def _fit(
  kind: str, success: pd.Series, variables: pd.DataFrame
) -> pd.DataFrame | None:
  """Coefficients but the constant; None of games too few or all alike."""
  with inputs.extra('language', 'a regression'):
    from statsmodels.regression import linear_model

  num = len(variables.columns)
  if not num or len(variables) < num + 1 + _FEWEST or np.ptp(success) == 0:
    return None
  design = variables.assign(constant=1.0)
  if np.linalg.matrix_rank(design.to_numpy()) < num + 1:
    return None
  fit = linear_model.OLS(success, design).fit()
  ends = fit.conf_int()
  columns = (kind, design.columns, fit.params, ends[0], ends[1], fit.pvalues)
  values = dict(zip(COEFFICIENT, columns, strict=False))
  return pd.DataFrame({**values, 'n': len(variables), 'r2': fit.rsquared})[:-1]


def regressions(rows: pd.DataFrame, facts: pd.DataFrame) -> pd.DataFrame:
  """Coefficients as `regress` has them, by `model`, `asked` and `easy`."""
  columns = [*COEFFICIENT, 'model', 'asked', 'easy']
  fitted = [
    part.assign(model=model, asked=kind, easy=bool(easy))
    for (model, kind, easy), answers in rows.groupby(['model', 'kind', 'easy'])
    for part in regress(answers, facts, EASY if easy else HARD)
  ]
  return pd.concat([pd.DataFrame(columns=columns), *fitted], ignore_index=True)
