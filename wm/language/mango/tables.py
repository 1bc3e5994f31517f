"""The tables of MANGO from scored answers: rows as `rows.COLUMNS` has them.

Numbers are those of the paper (Ding et al. 2024): table 1 and 9 compare models
pair by pair, 2 has regressions, 3 and 5 to 8 are of the games, 4 of ill-formed
answers, 10 of the minigames.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from wm.evaluation import statistics
from wm.language import rescored
from wm.language.mango import parsing, regressions
from wm.language.mango import rows as answers
from wm.language.mango.facts import Facts
from wm.language.mango.questions import KINDS
from wm.reporting import papers, tables

WORDS = {
  'success': 'edit similarity of the last place with the right one; of a '
  'route, whether it gets there',
  'well-formed': 'answers that are lists of moves; the paper leaves out others',
  'micro': 'each question weighs the same',
  'macro': 'each game weighs the same',
  'ill-formed are 0': 'success over all answers',
  'chance': 'success of a place drawn at random',
  'above chance': '(success - chance) / (1 - chance)',
  'exact': 'the right place by name; a route without a repaired move',
  'nearest name': 'whether the most similar name of a place is the right one',
  'reasoning': "whether all moves are right, by the paper's rule",
  'repaired': 'moves that are no action of the game',
  'unknown places': 'places that the game does not have',
  'unknown moves': 'moves between known places that the map does not have',
}
DIFFICULTY = {True: 'easy', False: 'hard'}


def parts(rows: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
  """(model, questions and difficulty, the rows of these), in order."""
  for model in dict.fromkeys(rows.model):
    for kind, easy in itertools.product(KINDS, DIFFICULTY):
      some = answers.select(rows, model=model, kind=kind, easy=easy)
      if len(some):
        head = {'model': model, 'questions': f'{kind}, {DIFFICULTY[easy]}'}
        yield head, some


def success(rows: pd.DataFrame, title: str = 'Success') -> tables.Table:
  """Success with intervals, as the paper has it and over all answers."""
  found = []
  for head, some in parts(rows):
    formed = answers.well_formed(some)
    found.append(
      {
        **head,
        'asked': len(some),
        'well-formed': len(formed),
        'success, micro': _interval(answers.mean(formed)),
        'success, macro': _interval(
          answers.mean(formed, average=answers.MACRO)
        ),
        'chance': _value(formed, 'chance'),
        'above chance': answers.corrected(formed),
        'ill-formed are 0': _interval(answers.mean(some)),
      }
    )
  return rescored.table(
    title,
    found,
    'Over well-formed answers, as in the paper, but for the last column. '
    'Intervals are clustered by game.',
  )


def beside(rows: pd.DataFrame) -> tables.Table:
  """Stricter and looser readings of the same answers, and what they make up."""
  found = []
  for head, some in parts(rows):
    formed = answers.well_formed(some)
    moves = formed.moves.sum()
    found.append(
      {
        **head,
        'exact': _value(formed, 'exact'),
        'nearest name': _value(formed, 'nearest'),
        'reasoning': _value(formed, 'reasoning'),
        "July 2023's rule": _value(formed, 'july2023'),
        'camera-ready rule': _value(formed, 'camera_ready'),
        'repaired': _share(formed.repaired.sum(), moves),
        'unknown places': _share(formed.places.sum(), 2 * moves),
        'unknown moves': _share(formed.edges.sum(), moves),
      }
    )
  return rescored.table(
    'Reasoning, and what is made up',
    found,
    'Over well-formed answers; of a route, `nearest name` is the success of '
    'the camera-ready program.',
  )


@functools.cache
def published() -> dict[str, Any]:
  """What the paper prints: launch/flags/mango2023/published.json."""
  path = papers.folder() / 'mango2023' / 'published.json'
  found: dict[str, Any] = json.loads(path.read_text(encoding='utf-8'))
  return found


def printed() -> tables.Table:
  """Success of the models that the authors have tested."""
  board = dict(published()['leaderboard'])
  note = board.pop('note')
  heads = [f'{kind}, {easy}' for kind in KINDS for easy in DIFFICULTY.values()]
  found = [
    {'model': model, **dict(zip(heads, values, strict=True))}
    for model, values in board.items()
  ]
  title = "Success on the authors' page"
  return rescored.table(title, found, f'{note}.', folded=True)


def pairwise(rows: pd.DataFrame, column: str = 'success') -> tables.Table:
  """Models in pairs, on the questions that both answered well-formed.

  column: 'success' makes table 1, 'reasoning' table 9.
  """
  found = []
  models = list(dict.fromkeys(rows.model))
  for kind, easy in itertools.product(KINDS, DIFFICULTY):
    asked = answers.select(rows, kind=kind, easy=easy)
    for pair in itertools.combinations(models, 2):
      one, other = answers.both(asked, pair)
      if len(one):
        found.append(
          {
            'questions': f'{kind}, {DIFFICULTY[easy]}',
            'model': pair[0],
            'other': pair[1],
            'both answered': len(one),
            'model has': _value(one, column),
            'other has': _value(other, column),
            'difference': difference(one, other, column),
          }
        )
  number = {'success': 1, 'reasoning': 9}.get(column, 0)
  return rescored.table(
    f'{column.capitalize()} in pairs (table {number})',
    found,
    'Over the questions that both answered well-formed; the difference is '
    'paired, its interval clustered by game.',
  )


def difference(one: pd.DataFrame, other: pd.DataFrame, column: str) -> str:
  """Mean paired difference of what is between 0 and 1, and its interval."""
  _, index = np.unique(one.game.to_numpy(str), return_inverse=True)
  totals = np.bincount(index, (one[column] - other[column]).to_numpy(float))
  weights = np.bincount(index).astype(float)
  low, high, _ = statistics.interval(totals, weights, (-1.0, 1.0))
  value = float(totals.sum() / weights.sum())
  return _interval(answers.Mean(value, low, high, len(one), len(weights)))


def ill_formed(rows: pd.DataFrame, games: int = 0) -> tables.Table:
  """Answers that are ill-formed, per game, and by cause (table 4).

  games: that were asked about; default those with rows.
  """
  found = []
  for model in dict.fromkeys(rows.model):
    for kind in KINDS:
      some = answers.select(rows, model=model, kind=kind)
      if not len(some):
        continue
      num = games or some.game.nunique()
      ill = some[some.failure != '']
      causes = ill.failure.value_counts().sort_index(kind='stable')
      found.append(
        {
          'model': model,
          'questions': kind,
          'per game': f'{len(some) / num:.2f}',
          'ill-formed': f'{len(ill) / num:.2f}',
          'share': len(ill) / len(some),
          'causes': ', '.join(f'{k} {v}' for k, v in causes.items()),
        }
      )
  known = set(rows.failure) - {''}
  said = (f'{k}: {v}' for k, v in parsing.FAILURES.items() if k in known)
  return rescored.table('Ill-formed answers (table 4)', found, '; '.join(said))


def games(known: Sequence[Facts], title: str) -> tables.Table:
  """Numbers of games at their cut-offs (tables 3 and 5 to 8)."""
  return rescored.table(
    title,
    [
      {
        'game': one.game,
        'steps': one.steps,
        'up to': one.cut,
        'locations': one.locations,
        'edges': one.explicit + one.imputed,
        'imputed': one.imputed,
        'confusing': one.confusion,
        'mean length': f'{one.length:.2f}',
        'destinations, easy': one.df_easy,
        'hard': one.df_hard,
        'routes, easy': one.rf_easy,
        'hard ': one.rf_hard,
      }
      for one in known
    ],
    f'{sum(one.df_easy + one.df_hard for one in known):,} destination and '
    f'{sum(one.rf_easy + one.rf_hard for one in known):,} route questions.',
    folded=True,
  )


def regressed(rows: pd.DataFrame, known: Sequence[Facts]) -> tables.Table:
  """What makes a game hard (table 2)."""
  found = [
    {
      'model': model,
      'questions': f'{kind}, {DIFFICULTY[easy]}',
      'regression': one.kind,
      'variable': one.variable,
      'beta': f'{one.beta:.3f} [{one.low:.3f}, {one.high:.3f}]',
      'p': one.p,
      'games': one.n,
      'r squared': one.r2,
    }
    for (model, kind, easy), several in regressions.table(rows, known).items()
    for one in several
  ]
  return rescored.table(
    'What makes a game hard (table 2)',
    found,
    'Ordinary least squares of the success of each game on standardised '
    'variables. Variables are collinear: read the components beside them.',
    folded=True,
  )


def minigames(rows: pd.DataFrame) -> tables.Table:
  """Successes of minigames, game by game, with the map and without (table 10).

  Rows have kinds of `logs.MINIGAMES`.
  """
  found: list[dict[str, Any]] = []
  for game in [*sorted(set(rows.game)), '']:
    some = answers.select(rows, game=game or None)
    row: dict[str, Any] = {'game': game or 'all'}
    for model in dict.fromkeys(rows.model):
      for kind in dict.fromkeys(rows.kind):
        part = answers.select(some, model=model, kind=kind)
        if len(part):
          said = f'{int(part.success.sum())} of {len(part)}'
          said += '' if game else f', {_interval(answers.mean(part))}'
          row[f'{model}, {kind}'] = said
    found.append(row)
  return rescored.table(
    'Minigames (table 10)',
    found,
    'Right is the action of the walkthrough, which need not be the best one.',
  )


def _value(rows: pd.DataFrame, column: str) -> float | None:
  return float(rows[column].mean()) if len(rows) else None


def _share(part: float, whole: float) -> float | None:
  return float(part / whole) if whole else None


def _interval(found: answers.Mean) -> str:
  if found.value is None or found.low is None or found.high is None:
    return '–'
  return f'{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]'
