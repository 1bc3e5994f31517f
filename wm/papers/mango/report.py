"""MANGO's tables and figures, of answers old or new.

Tables 1 and 9 compare models pair by pair, 2 has regressions, 3 and 5 to 8 are
of the games, 4 of ill-formed answers, 10 of the minigames. Figures are the map
with its imputed moves, success and reasoning of models, success against numbers
of games and the length of paths, ill-formed answers, and success by game.
"""

from __future__ import annotations

import collections
import functools
import itertools
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wm import core
from wm.evaluation import statistics
from wm.language import pages
from wm.language.pages import AnswersPage
from wm.papers import declared
from wm.papers.mango import facts, questions
from wm.papers.mango import score as scoring
from wm.papers.mango.facts import Facts
from wm.papers.mango.questions import KINDS
from wm.papers.mango.score import QuestionWords, Score
from wm.reporting import figures, papers, tables, write
from wm.reporting.tables import Table
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game import readers

if TYPE_CHECKING:
  from inspect_ai.log import EvalLog


WORDS = declared('mango', 'report.toml')['words']
DIFFICULTY = {True: 'easy', False: 'hard'}


def parts(rows: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
  """(model, questions and difficulty, the rows of these), in order."""
  for model in dict.fromkeys(rows.model):
    for kind, easy in itertools.product(KINDS, DIFFICULTY):
      part = facts.select(rows, model=model, kind=kind, easy=easy)
      if len(part):
        head = {'model': model, 'questions': f'{kind}, {DIFFICULTY[easy]}'}
        yield head, part


def success_table(rows: pd.DataFrame, title: str = 'Success') -> tables.Table:
  """Success with intervals, as the paper has it and over all answers."""
  lines = []
  for head, part in parts(rows):
    formed = facts.well_formed(part)
    lines.append(
      {
        **head,
        'asked': len(part),
        'well-formed': len(formed),
        'success, micro': _interval(facts.mean_with_interval(formed)),
        'success, macro': _interval(
          facts.mean_with_interval(formed, average=facts.MACRO)
        ),
        'chance': _value(formed, 'chance'),
        'above chance': facts.corrected(formed),
        'ill-formed are 0': _interval(facts.mean_with_interval(part)),
      }
    )
  return pages.table(
    title,
    lines,
    'Over well-formed answers, as in the paper, but for the last column. '
    'Intervals are clustered by game.',
  )


def reasoning_table(rows: pd.DataFrame) -> tables.Table:
  """Stricter and looser readings of the same answers, and what they make up."""
  lines = []
  for head, part in parts(rows):
    formed = facts.well_formed(part)
    moves = formed.moves.sum()
    lines.append(
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
  return pages.table(
    'Reasoning, and what is made up',
    lines,
    'Over well-formed answers; of a route, `nearest name` is the success of '
    'the camera-ready program.',
  )


@functools.cache
def published() -> dict[str, Any]:
  """The paper's numbers: launch/flags/mango2023/published.json."""
  path = papers.folder() / 'mango2023' / 'published.json'
  numbers: dict[str, Any] = json.loads(path.read_text(encoding='utf-8'))
  return numbers


def published_table() -> tables.Table:
  """Success of the models that the authors have tested."""
  board = dict(published()['leaderboard'])
  note = board.pop('note')
  heads = [f'{kind}, {easy}' for kind in KINDS for easy in DIFFICULTY.values()]
  lines = [
    {'model': model, **dict(zip(heads, values, strict=True))}
    for model, values in board.items()
  ]
  title = "Success on the authors' page"
  return pages.table(title, lines, f'{note}.', folded=True)


def pairwise_table(rows: pd.DataFrame, column: str = 'success') -> tables.Table:
  """Models in pairs, on the questions that both answered well-formed.

  column: 'success' makes table 1, 'reasoning' table 9.
  """
  lines = []
  models = list(dict.fromkeys(rows.model))
  for kind, easy in itertools.product(KINDS, DIFFICULTY):
    asked = facts.select(rows, kind=kind, easy=easy)
    for pair in itertools.combinations(models, 2):
      first, second = facts.both_answered(asked, pair)
      if len(first):
        lines.append(
          {
            'questions': f'{kind}, {DIFFICULTY[easy]}',
            'model': pair[0],
            'other': pair[1],
            'both answered': len(first),
            'model has': _value(first, column),
            'other has': _value(second, column),
            'difference': difference(first, second, column),
          }
        )
  number = {'success': 1, 'reasoning': 9}.get(column, 0)
  return pages.table(
    f'{column.capitalize()} in pairs (table {number})',
    lines,
    'Over the questions that both answered well-formed; the difference is '
    'paired, its interval clustered by game.',
  )


def difference(first: pd.DataFrame, second: pd.DataFrame, column: str) -> str:
  """Mean paired difference of what is between 0 and 1, and its interval."""
  _, index = np.unique(first.game.to_numpy(str), return_inverse=True)
  totals = np.bincount(index, (first[column] - second[column]).to_numpy(float))
  weights = np.bincount(index).astype(float)
  low, high, _ = statistics.interval(totals, weights, (-1.0, 1.0))
  value = float(totals.sum() / weights.sum())
  return _interval(facts.GamesMean(value, low, high, len(first), len(weights)))


def ill_formed_table(rows: pd.DataFrame, num_games: int = 0) -> tables.Table:
  """Answers that are ill-formed, per game, and by cause (table 4).

  num_games: that were asked about; default those with rows.
  """
  lines = []
  for model in dict.fromkeys(rows.model):
    for kind in KINDS:
      part = facts.select(rows, model=model, kind=kind)
      if not len(part):
        continue
      num = num_games or part.game.nunique()
      ill = part[part.failure != '']
      causes = ill.failure.value_counts().sort_index(kind='stable')
      lines.append(
        {
          'model': model,
          'questions': kind,
          'per game': f'{len(part) / num:.2f}',
          'ill-formed': f'{len(ill) / num:.2f}',
          'share': len(ill) / len(part),
          'causes': ', '.join(f'{k} {v}' for k, v in causes.items()),
        }
      )
  causes_seen = set(rows.failure) - {''}
  meanings = (
    f'{k}: {v}' for k, v in scoring.FAILURES.items() if k in causes_seen
  )
  return pages.table('Ill-formed answers (table 4)', lines, '; '.join(meanings))


def games_table(numbers: Sequence[Facts], title: str) -> tables.Table:
  """Numbers of games at their cut-offs (tables 3 and 5 to 8)."""
  return pages.table(
    title,
    [
      {
        'game': game.game,
        'steps': game.steps,
        'up to': game.cut,
        'locations': game.locations,
        'edges': game.explicit + game.imputed,
        'imputed': game.imputed,
        'confusing': game.confusion,
        'mean length': f'{game.length:.2f}',
        'destinations, easy': game.df_easy,
        'hard': game.df_hard,
        'routes, easy': game.rf_easy,
        'hard ': game.rf_hard,
      }
      for game in numbers
    ],
    f'{sum(game.df_easy + game.df_hard for game in numbers):,} destination and '
    f'{sum(game.rf_easy + game.rf_hard for game in numbers):,} route '
    'questions.',
    folded=True,
  )


def regression_table(
  rows: pd.DataFrame, numbers: Sequence[Facts]
) -> tables.Table:
  """Regressions of success on the numbers of games (table 2)."""
  lines = [
    {
      'model': model,
      'questions': f'{kind}, {DIFFICULTY[easy]}',
      'regression': coefficient.kind,
      'variable': coefficient.variable,
      'beta': tables.between(
        *(
          f'{end:.3f}'
          for end in (coefficient.beta, coefficient.low, coefficient.high)
        )
      ),
      'p': coefficient.p,
      'games': coefficient.n,
      'r squared': coefficient.r2,
    }
    for (model, kind, easy), several in facts.regressions(rows, numbers).items()
    for coefficient in several
  ]
  return pages.table(
    'What makes a game hard (table 2)',
    lines,
    'Ordinary least squares of the success of each game on standardised '
    'variables. Variables are collinear: read the components beside them.',
    folded=True,
  )


def minigames_table(rows: pd.DataFrame) -> tables.Table:
  """Successes of minigames, game by game, with the map and without (table 10).

  Rows have kinds of MINIGAMES.
  """
  lines: list[dict[str, Any]] = []
  for game in [*sorted(set(rows.game)), '']:
    of_game = facts.select(rows, game=game or None)
    row: dict[str, Any] = {'game': game or 'all'}
    for model in dict.fromkeys(rows.model):
      for kind in dict.fromkeys(rows.kind):
        part = facts.select(of_game, model=model, kind=kind)
        if len(part):
          text = f'{int(part.success.sum())} of {len(part)}'
          text += (
            '' if game else f', {_interval(facts.mean_with_interval(part))}'
          )
          row[f'{model}, {kind}'] = text
    lines.append(row)
  return pages.table(
    'Minigames (table 10)',
    lines,
    'Right is the action of the walkthrough, which need not be the best one.',
  )


def _value(rows: pd.DataFrame, column: str) -> float | None:
  return float(rows[column].mean()) if len(rows) else None


def _share(part: float, whole: float) -> float | None:
  return float(part / whole) if whole else None


def _interval(mean: facts.GamesMean) -> str:
  if mean.value is None or mean.low is None or mean.high is None:
    return '–'
  ends = mean.value, mean.low, mean.high
  return tables.between(*(f'{end:.3f}' for end in ends))


# Where a direction leads on paper; up and down lean, so that they are seen.
_TOWARDS = {
  'north': (0, 1),
  'south': (0, -1),
  'east': (1, 0),
  'west': (-1, 0),
  'northeast': (1, 1),
  'northwest': (-1, 1),
  'southeast': (1, -1),
  'southwest': (-1, -1),
  'up': (0.4, 0.7),
  'down': (-0.4, -0.7),
}


def pictures(
  rows: pd.DataFrame, numbers: Sequence[Facts], maze: mazes.Maze | None = None
) -> list[write.Picture]:
  """All figures that these rows allow, each of them well-formed or not."""
  drawings = []
  if maze is not None:
    caption = (
      f'The map of {maze.game} up to step {mazes.LAST}; grey moves are only '
      'imputed (figure 1)'
    )
    drawings.append(write.Picture('mango_map.png', caption, drawn(maze)))
  intervals = 'bars are 95 % intervals clustered by game'
  drawings += [
    write.Picture(
      'mango_success.png',
      f'Success over well-formed answers; {intervals}; black is chance '
      '(figure 2)',
      bars(rows, 'success'),
    ),
    write.Picture(
      'mango_reasoning.png',
      f"Reasoning by the paper's rule; {intervals} (figure 3)",
      bars(rows, 'reasoning'),
    ),
    write.Picture(
      'mango_locations.png',
      'Success of each game against its locations, and the least-squares line '
      '(figure 4)',
      against(rows, numbers, 'locations'),
    ),
    write.Picture(
      'mango_confusion.png',
      'Success of each game against how confusing its names are (figure 5)',
      against(rows, numbers, 'confusion'),
    ),
    write.Picture(
      'mango_length.png',
      'Success by the length of paths (figure 6)',
      lengths(rows),
    ),
    write.Picture(
      'mango_failures.png',
      'Ill-formed answers by cause, as shares of all (figure 7)',
      causes(rows),
    ),
    write.Picture(
      'mango_games.png',
      'Success game by game, ill-formed answers left out (figure 8)',
      by_game(rows),
    ),
  ]
  return drawings


def bars(rows: pd.DataFrame, column: str) -> bytes:
  """A panel for each kind of question, a bar for each model and difficulty."""
  figure, axes = figures.new_axes(len(KINDS), size=(5.2, 3.4))
  models = list(dict.fromkeys(rows.model))
  for axis, kind in zip(axes, KINDS, strict=True):
    for shift, (easy, name) in enumerate(DIFFICULTY.items()):
      for place, model in enumerate(models):
        part = facts.well_formed(
          facts.select(rows, model=model, kind=kind, easy=easy)
        )
        mean = facts.mean_with_interval(part, column)
        if mean.value is None or mean.low is None or mean.high is None:
          continue
        at = place + 0.4 * shift - 0.2
        ends = [[mean.value - mean.low], [mean.high - mean.value]]
        axis.bar(
          *(at, mean.value, 0.36),
          color=f'C{shift}',
          yerr=ends,
          capsize=3,
          label=name if not place else None,
        )
        if column == 'success' and part.chance.any():
          axis.hlines(part.chance.mean(), at - 0.18, at + 0.18, color='black')
    axis.set(title=kind, ylim=(0, 1), xticks=range(len(models)))
    axis.set_xticklabels(models, rotation=20, ha='right')
  if axes[0].get_legend_handles_labels()[0]:
    axes[0].legend()
  axes[0].set_ylabel(column)
  return figures.to_png(figure)


def _per_game(
  rows: pd.DataFrame, model: str, kind: str, easy: bool
) -> pd.Series:
  part = facts.select(rows, model=model, kind=kind, easy=easy)
  means: pd.Series = facts.well_formed(part).groupby('game').success.mean()
  return means


def _panels(rows: pd.DataFrame) -> list[tuple[str, str, bool]]:
  """(title, kind, easy) of the panels that have rows."""
  return [
    (f'{kind}, {name}', kind, easy)
    for kind in KINDS
    for easy, name in DIFFICULTY.items()
    if len(facts.select(rows, kind=kind, easy=easy))
  ]


def against(
  rows: pd.DataFrame, numbers: Sequence[Facts], variable: str
) -> bytes:
  """Success of each game against one of its numbers."""
  number = {game.game: getattr(game, variable) for game in numbers}
  panels = _panels(rows)
  figure, axes = figures.new_axes(len(panels))
  for axis, (title, kind, easy) in zip(axes, panels, strict=True):
    for colour, model in enumerate(dict.fromkeys(rows.model)):
      success = _per_game(rows, model, kind, easy)
      x = np.array([number[game] for game in success.index], float)
      y = success.to_numpy(float)
      axis.plot(x, y, '.', color=f'C{colour}', label=model)
      if len(x) > 2 and np.ptp(x) > 0:
        ends = np.array([x.min(), x.max()])
        axis.plot(ends, np.polyval(np.polyfit(x, y, 1), ends), f'C{colour}')
    axis.set(title=title, xlabel=variable, ylim=(-0.03, 1.03))
  axes[0].set_ylabel('success')
  axes[0].legend(fontsize='small')
  return figures.to_png(figure)


def lengths(rows: pd.DataFrame) -> bytes:
  """Mean success at each length of path, where ten answers are well-formed."""
  panels = _panels(rows)
  figure, axes = figures.new_axes(len(panels))
  for axis, (title, kind, easy) in zip(axes, panels, strict=True):
    for colour, model in enumerate(dict.fromkeys(rows.model)):
      part = facts.well_formed(
        facts.select(rows, model=model, kind=kind, easy=easy)
      )
      by_length = part.groupby('length').success.agg(['mean', 'size'])
      by_length = by_length[by_length['size'] >= 10]
      axis.plot(
        *(by_length.index, by_length['mean'], 'o-'),
        color=f'C{colour}',
        ms=3,
        label=model,
      )
    axis.set(title=title, xlabel='moves', ylim=(-0.03, 1.03))
  axes[0].set_ylabel('success')
  axes[0].legend(fontsize='small')
  return figures.to_png(figure)


def causes(rows: pd.DataFrame) -> bytes:
  """Shares of ill-formed answers by cause, a stacked bar for each model."""
  figure, axes = figures.new_axes(len(KINDS), size=(5.2, 3.4))
  models = list(dict.fromkeys(rows.model))
  names = sorted(set(rows.failure) - {''})
  for axis, kind in zip(axes, KINDS, strict=True):
    base = np.zeros(len(models))
    for name in names:
      shares = np.array(
        [
          (part.failure == name).mean() if len(part) else 0.0
          for part in (
            facts.select(rows, model=model, kind=kind) for model in models
          )
        ]
      )
      axis.bar(models, shares, 0.6, base, label=name)
      base += shares
    axis.set(title=kind, ylim=(0, 1))
    axis.tick_params(axis='x', rotation=20)
  if names:
    axes[-1].legend(fontsize='small', loc='upper left', bbox_to_anchor=(1, 1))
  return figures.to_png(figure)


def by_game(rows: pd.DataFrame) -> bytes:
  """Success of each game, a colour for each model, games by their mean."""
  panels = [(kind, easy) for _, kind, easy in _panels(rows)]
  figure, axes = figures.new_axes(len(panels), across=1, size=(11, 3.4))
  for axis, (kind, easy) in zip(axes, panels, strict=True):
    success = pd.DataFrame(
      {
        model: _per_game(rows, model, kind, easy)
        for model in dict.fromkeys(rows.model)
      }
    )
    order = success.mean(axis=1).sort_values(kind='stable').index
    for colour, model in enumerate(success.columns):
      axis.plot(
        *(order, success.loc[order, model], 'o'),
        ms=3,
        color=f'C{colour}',
        label=model,
      )
    axis.set(title=f'{kind}, {DIFFICULTY[easy]}', ylim=(-0.03, 1.03))
    axis.tick_params(axis='x', rotation=90, labelsize='x-small')
  axes[0].legend(fontsize='small')
  return figures.to_png(figure)


def drawn(maze: mazes.Maze) -> bytes:
  """The map up to the published step; grey moves are only imputed."""
  shown = mazes.prefix(maze, mazes.LAST)
  where = _layout(shown)
  figure, (axis,) = figures.new_axes(1, size=(8, 6))
  for edge in range(shown.edges.source.size):
    source, action, target = shown.words(edge)
    walked = bool(shown.edges.walked[edge])
    axis.annotate(
      '',
      where[target],
      where[source],
      arrowprops={
        'arrowstyle': '->',
        'color': 'black' if walked else 'silver',
        'connectionstyle': 'arc3,rad=0.12',
        'shrinkA': 8,
        'shrinkB': 8,
      },
    )
    if action not in _TOWARDS:
      middle = np.mean([where[source], where[target]], axis=0)
      axis.text(*middle, action, fontsize=5, color='tab:blue', ha='center')
  axis.plot(*np.array(list(where.values())).T, '.', color='tab:red', ms=4)
  for place, (x, y) in where.items():
    axis.text(x, y + 0.06, place.partition(' (')[0], fontsize=6, ha='center')
  axis.set_axis_off()
  axis.grid(False)
  axis.set_title(maze.game)
  return figures.to_png(figure)


def _layout(maze: mazes.Maze) -> dict[str, Any]:
  """Place -> (x, y): as directions have it, by least squares."""
  edges = maze.edges
  size = len(maze.places)
  lines, directions = [], []
  for source, action, target in zip(*edges[:3], strict=True):
    row = np.zeros(size)
    row[target] += 1
    row[source] -= 1
    lines.append(row)
    directions.append(_TOWARDS.get(maze.actions[action], (0.6, -0.3)))
  # A weak pull to the middle settles what no edge does.
  lines += list(0.03 * np.eye(size))
  directions += [(0.0, 0.0)] * size
  solution = np.linalg.lstsq(
    np.array(lines), np.array(directions, float), rcond=None
  )
  seen = mazes.seen(maze)
  return {
    name: tuple(at)
    for name, at, is_seen in zip(maze.places, solution[0], seen, strict=True)
    if is_seen
  }


TITLE = 'MANGO: destinations and routes in text games'


def answers_page(
  rows: pd.DataFrame,
  mazes_of: Mapping[str, mazes.Maze] | None = None,
  cuts: Mapping[str, int] | None = None,
  more: Sequence[Table] = (),
) -> pages.AnswersPage:
  """All tables and figures that scored answers allow.

  Args:
    rows: as facts.answer_frame makes them, of one model or several.
    mazes_of: game -> its map; without it there are no tables of games, no
      regressions and no baselines.
    cuts: game -> the step up to which it was shown; default the map's last.
    more: further tables, which come last.
  """
  asked_mazes = [
    maze for game, maze in (mazes_of or {}).items() if game in set(rows.game)
  ]
  numbers = facts.facts_of_all(asked_mazes, cuts)
  shown = [success_table(rows), reasoning_table(rows)]
  if asked_mazes:
    shown.append(baselines_table(rows, asked_mazes, cuts))
  if rows.model.nunique() > 1:
    shown += [pairwise_table(rows), pairwise_table(rows, 'reasoning')]
  shown.append(ill_formed_table(rows))
  if asked_mazes:
    if len(asked_mazes) > 5:  # Fewer games have no regression.
      shown.append(regression_table(rows, numbers))
    title = 'The games as they were shown (tables 5 to 8)'
    shown.append(games_table(numbers, title))
  drawings = (
    pictures(rows, numbers, max(asked_mazes, key=lambda m: len(m.places)))
    if asked_mazes
    else []
  )
  models = ', '.join(dict.fromkeys(rows.model))
  lead = (
    f'{len(rows):,} answers of {models} about {rows.game.nunique()} games. '
    "Where the paper's programs do what it does not say, both are shown."
  )
  return pages.AnswersPage(
    TITLE,
    lead,
    [*shown, *more],
    drawings,
    WORDS,
    {
      'answers': rows.to_dict('records'),
      'games': [game._asdict() for game in numbers],
    },
  )


def tables_page(
  rows: pd.DataFrame, shown: Sequence[Table]
) -> pages.AnswersPage:
  """A page of these tables alone."""
  models = ', '.join(dict.fromkeys(rows.model))
  lead = f'{len(rows):,} answers of {models}.'
  csv_rows = {'answers': rows.to_dict('records')}
  return pages.AnswersPage(TITLE, lead, shown, (), WORDS, csv_rows)


def baselines_table(
  rows: pd.DataFrame,
  asked_mazes: Sequence[mazes.Maze],
  cuts: Mapping[str, int] | None = None,
) -> Table:
  """Scores of the baselines on questions about the same games."""
  lines = []
  for kind in KINDS:
    if not len(facts.select(rows, kind=kind)):
      continue
    scored = facts.answer_frame(
      facts.answer_row(name, asked, score)
      for maze in asked_mazes
      for name, asked, score in facts.baseline_scores(
        maze,
        kind,
        (cuts or {}).get(maze.game, mazes.LAST),
        names=[
          name
          for name in facts.BASELINES
          if maze.steps or name not in ('last', 'frequent')
        ],
      )
    )
    for head, part in parts(scored):
      lines.append(
        {
          'baseline': head['model'],
          'questions': head['questions'],
          'asked': len(part),
          'success, micro': facts.mean_with_interval(part).value,
          'macro': facts.mean_with_interval(part, average=facts.MACRO).value,
          'exact': float(part.exact.mean()),
          'reasoning': float(part.reasoning.mean()),
        }
      )
  note = '; '.join(f'{k}: {v}' for k, v in facts.BASELINES.items())
  return pages.table(
    'Answers without a language model', lines, note, folded=True
  )


# Kinds of minigames, without the map and with it.
MINIGAMES = 'minigame', 'minigame with map'


def scored(logs: Sequence[EvalLog]) -> Iterator[tuple[Any, ...]]:
  """Rows of all samples that were scored, as `facts.answer_frame` takes them.

  A model in the setting 'simple' is called MODEL-S, as in the paper, and one
  that is asked for a function call MODEL, function. Of several scores of a
  sample, as `inspect score --action append` makes them, the last one counts.
  """
  named = {'simple': '-S', 'function': ', function'}
  for log, (model, how) in zip(logs, names(logs), strict=True):
    for sample in log.samples or []:
      metadata = sample.metadata or {}
      for score in reversed((sample.scores or {}).values()):
        score_metadata = score.metadata or {}
        if set(Score._fields) <= set(score_metadata):
          fields = {name: score_metadata[name] for name in Score._fields}
          name = model + named.get(metadata.get('setting', ''), '') + how
          yield facts.answer_row(
            name, questions.asked_of(metadata), Score(**fields)
          )
          break
        if (
          metadata.get('task') == 'mango_minigames'
          and 'success' in score_metadata
        ):
          won = Score(
            score_metadata['failure'], score_metadata['success'], moves=1
          )
          yield facts.answer_row(model + how, _minigame(metadata), won)
          break


# Arguments of the tasks that change what is asked or how it is judged. The
# setting is in names already, and what else there is chooses questions.
ASKED = (
  *('generation', 'budget', 'forced', 'answer', 'graph'),
  *('easy', 'scope', 'aliases', 'reject', 'places'),
)


def names(logs: Sequence[EvalLog]) -> list[tuple[str, str]]:
  """(name of the model, how it was asked) of each log, so that they differ.

  The name is without its provider's, unless models of two providers have it;
  how it was asked has arguments in which the logs of one model differ, as in
  ', graph=strict'.
  """
  full = {log.eval.model for log in logs}
  short = collections.Counter(name.rpartition('/')[2] for name in full)
  args_of: dict[tuple[str, str], list[dict[str, Any]]] = {}
  for log in logs:
    same_model = args_of.setdefault((log.eval.task, log.eval.model), [])
    same_model.append({name: log.eval.task_args.get(name) for name in ASKED})
  pairs = []
  for log in logs:
    model, same_model = log.eval.model, args_of[log.eval.task, log.eval.model]
    how = ''.join(
      f', {name}={log.eval.task_args.get(name)}'
      for name in ASKED
      if len({str(args[name]) for args in same_model}) > 1
    )
    last = model.rpartition('/')[2]
    pairs.append((last if short[last] == 1 else model, how))
  return pairs


def _minigame(metadata: Mapping[str, Any]) -> questions.MazeQuestion:
  return questions.MazeQuestion(
    metadata['game'],
    MINIGAMES[bool(metadata['map'])],
    f'{metadata["game"]}/{metadata["step"]}',
    QuestionWords(metadata['here'], metadata['there']),
    easy=True,
    length=1,
    imputed=0,
  )


def maps(logs: Sequence[EvalLog]) -> dict[str, mazes.Maze]:
  """Game -> its map, of the folders that logs name and that are still there."""
  mazes_of: dict[str, mazes.Maze] = {}
  for log in logs:
    folder = str(log.eval.task_args.get('folder', ''))
    if not folder or not pathlib.Path(folder).exists():
      continue
    games = {str((s.metadata or {}).get('game')) for s in log.samples or []}
    for game in sorted(games - set(mazes_of)):
      walkthroughs = str(log.eval.task_args.get('walkthroughs', ''))
      mazes_of[game] = readers.read(folder, game, walkthroughs)
  return mazes_of


def cuts(logs: Sequence[EvalLog]) -> dict[str, int]:
  """Game -> the last step that was shown of it in any of the logs."""
  last_steps: dict[str, int] = {}
  for log in logs:
    for sample in log.samples or []:
      metadata = sample.metadata or {}
      if metadata.get('kind') in KINDS:
        game = metadata['game']
        last_steps[game] = max(last_steps.get(game, 0), metadata['step'])
  return last_steps


def page(logs: Sequence[EvalLog]) -> AnswersPage:
  """All tables and figures that these logs allow.

  Raises:
    InputError: no sample has the scores of MANGO's scorers.
  """
  every = facts.answer_frame(scored(logs))
  if not len(every):
    raise core.InputError(
      'no sample of these logs was scored by mango_scorer or minigame_scorer; '
      'score them with inspect score'
    )
  games = every[~every.kind.isin(KINDS)]
  more = [minigames_table(games)] if len(games) else []
  asked = every[every.kind.isin(KINDS)]
  if not len(asked):
    return tables_page(every, more)
  return answers_page(asked, maps(logs), cuts(logs), more)
