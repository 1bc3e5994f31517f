"""MANGO's tables and figures, of answers old or new."""

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
from wm.language.pages import Page
from wm.papers.mango import facts, questions
from wm.papers.mango import score as scoring
from wm.papers.mango.facts import Facts
from wm.papers.mango.questions import KINDS
from wm.papers.mango.score import Question, Score
from wm.reporting import figures, papers, tables, write
from wm.reporting.tables import Table
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game import readers

if TYPE_CHECKING:
  from inspect_ai.log import EvalLog


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
      some = facts.select(rows, model=model, kind=kind, easy=easy)
      if len(some):
        head = {'model': model, 'questions': f'{kind}, {DIFFICULTY[easy]}'}
        yield head, some


def success_table(rows: pd.DataFrame, title: str = 'Success') -> tables.Table:
  """Success with intervals, as the paper has it and over all answers."""
  found = []
  for head, some in parts(rows):
    formed = facts.well_formed(some)
    found.append(
      {
        **head,
        'asked': len(some),
        'well-formed': len(formed),
        'success, micro': _interval(facts.mean_with_interval(formed)),
        'success, macro': _interval(
          facts.mean_with_interval(formed, average=facts.MACRO)
        ),
        'chance': _value(formed, 'chance'),
        'above chance': facts.corrected(formed),
        'ill-formed are 0': _interval(facts.mean_with_interval(some)),
      }
    )
  return pages.table(
    title,
    found,
    'Over well-formed answers, as in the paper, but for the last column. '
    'Intervals are clustered by game.',
  )


def reasoning_table(rows: pd.DataFrame) -> tables.Table:
  """Stricter and looser readings of the same answers, and what they make up."""
  found = []
  for head, some in parts(rows):
    formed = facts.well_formed(some)
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
  return pages.table(
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


def published_table() -> tables.Table:
  """Success of the models that the authors have tested."""
  board = dict(published()['leaderboard'])
  note = board.pop('note')
  heads = [f'{kind}, {easy}' for kind in KINDS for easy in DIFFICULTY.values()]
  found = [
    {'model': model, **dict(zip(heads, values, strict=True))}
    for model, values in board.items()
  ]
  title = "Success on the authors' page"
  return pages.table(title, found, f'{note}.', folded=True)


def pairwise_table(rows: pd.DataFrame, column: str = 'success') -> tables.Table:
  """Models in pairs, on the questions that both answered well-formed.

  column: 'success' makes table 1, 'reasoning' table 9.
  """
  found = []
  models = list(dict.fromkeys(rows.model))
  for kind, easy in itertools.product(KINDS, DIFFICULTY):
    asked = facts.select(rows, kind=kind, easy=easy)
    for pair in itertools.combinations(models, 2):
      one, other = facts.both_answered(asked, pair)
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
  return pages.table(
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
  return _interval(facts.Mean(value, low, high, len(one), len(weights)))


def ill_formed_table(rows: pd.DataFrame, games_table: int = 0) -> tables.Table:
  """Answers that are ill-formed, per game, and by cause (table 4).

  games: that were asked about; default those with rows.
  """
  found = []
  for model in dict.fromkeys(rows.model):
    for kind in KINDS:
      some = facts.select(rows, model=model, kind=kind)
      if not len(some):
        continue
      num = games_table or some.game.nunique()
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
  said = (f'{k}: {v}' for k, v in scoring.FAILURES.items() if k in known)
  return pages.table('Ill-formed answers (table 4)', found, '; '.join(said))


def games_table(known: Sequence[Facts], title: str) -> tables.Table:
  """Numbers of games at their cut-offs (tables 3 and 5 to 8)."""
  return pages.table(
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


def regression_table(
  rows: pd.DataFrame, known: Sequence[Facts]
) -> tables.Table:
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
    for (model, kind, easy), several in facts.regressions(rows, known).items()
    for one in several
  ]
  return pages.table(
    'What makes a game hard (table 2)',
    found,
    'Ordinary least squares of the success of each game on standardised '
    'variables. Variables are collinear: read the components beside them.',
    folded=True,
  )


def minigames_table(rows: pd.DataFrame) -> tables.Table:
  """Successes of minigames, game by game, with the map and without (table 10).

  Rows have kinds of `logs.MINIGAMES`.
  """
  found: list[dict[str, Any]] = []
  for game in [*sorted(set(rows.game)), '']:
    some = facts.select(rows, game=game or None)
    row: dict[str, Any] = {'game': game or 'all'}
    for model in dict.fromkeys(rows.model):
      for kind in dict.fromkeys(rows.kind):
        part = facts.select(some, model=model, kind=kind)
        if len(part):
          said = f'{int(part.success.sum())} of {len(part)}'
          said += (
            '' if game else f', {_interval(facts.mean_with_interval(part))}'
          )
          row[f'{model}, {kind}'] = said
    found.append(row)
  return pages.table(
    'Minigames (table 10)',
    found,
    'Right is the action of the walkthrough, which need not be the best one.',
  )


def _value(rows: pd.DataFrame, column: str) -> float | None:
  return float(rows[column].mean()) if len(rows) else None


def _share(part: float, whole: float) -> float | None:
  return float(part / whole) if whole else None


def _interval(found: facts.Mean) -> str:
  if found.value is None or found.low is None or found.high is None:
    return '–'
  return f'{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]'


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
  rows: pd.DataFrame, known: Sequence[Facts], maze: mazes.Maze | None = None
) -> list[write.Picture]:
  """All figures that these rows allow, each of them well-formed or not."""
  found = []
  if maze is not None:
    caption = (
      f'The map of {maze.game} up to step {mazes.LAST}; grey moves are only '
      'imputed (figure 1)'
    )
    found.append(write.Picture('mango_map.png', caption, drawn(maze)))
  intervals = 'bars are 95 % intervals clustered by game'
  found += [
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
      against(rows, known, 'locations'),
    ),
    write.Picture(
      'mango_confusion.png',
      'Success of each game against how confusing its names are (figure 5)',
      against(rows, known, 'confusion'),
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
  return found


def bars(rows: pd.DataFrame, column: str) -> bytes:
  """A panel for each kind of question, a bar for each model and difficulty."""
  figure, axes = figures.new_axes(len(KINDS), size=(5.2, 3.4))
  models = list(dict.fromkeys(rows.model))
  for axis, kind in zip(axes, KINDS, strict=True):
    for shift, (easy, name) in enumerate(DIFFICULTY.items()):
      for place, model in enumerate(models):
        some = facts.well_formed(
          facts.select(rows, model=model, kind=kind, easy=easy)
        )
        mean = facts.mean_with_interval(some, column)
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
        if column == 'success' and some.chance.any():
          axis.hlines(some.chance.mean(), at - 0.18, at + 0.18, color='black')
    axis.set(title=kind, ylim=(0, 1), xticks=range(len(models)))
    axis.set_xticklabels(models, rotation=20, ha='right')
  if axes[0].get_legend_handles_labels()[0]:
    axes[0].legend()
  axes[0].set_ylabel(column)
  return figures.to_png(figure)


def _per_game(
  rows: pd.DataFrame, model: str, kind: str, easy: bool
) -> pd.Series:
  some = facts.select(rows, model=model, kind=kind, easy=easy)
  found: pd.Series = facts.well_formed(some).groupby('game').success.mean()
  return found


def _panels(rows: pd.DataFrame) -> list[tuple[str, str, bool]]:
  """(title, kind, easy) of the panels that have rows."""
  return [
    (f'{kind}, {name}', kind, easy)
    for kind in KINDS
    for easy, name in DIFFICULTY.items()
    if len(facts.select(rows, kind=kind, easy=easy))
  ]


def against(rows: pd.DataFrame, known: Sequence[Facts], variable: str) -> bytes:
  """Success of each game against one of its numbers."""
  number = {one.game: getattr(one, variable) for one in known}
  panels = _panels(rows)
  figure, axes = figures.new_axes(len(panels))
  for axis, (title, kind, easy) in zip(axes, panels, strict=True):
    for colour, model in enumerate(dict.fromkeys(rows.model)):
      found = _per_game(rows, model, kind, easy)
      x = np.array([number[game] for game in found.index], float)
      y = found.to_numpy(float)
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
      some = facts.well_formed(
        facts.select(rows, model=model, kind=kind, easy=easy)
      )
      found = some.groupby('length').success.agg(['mean', 'size'])
      found = found[found['size'] >= 10]
      axis.plot(
        *(found.index, found['mean'], 'o-'),
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
          (some.failure == name).mean() if len(some) else 0.0
          for some in (
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
    found = pd.DataFrame(
      {
        model: _per_game(rows, model, kind, easy)
        for model in dict.fromkeys(rows.model)
      }
    )
    order = found.mean(axis=1).sort_values(kind='stable').index
    for colour, model in enumerate(found.columns):
      axis.plot(
        *(order, found.loc[order, model], 'o'),
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
  some = mazes.prefix(maze, mazes.LAST)
  where = _layout(some)
  figure, (axis,) = figures.new_axes(1, size=(8, 6))
  for edge in range(some.edges.source.size):
    source, action, target = some.words(edge)
    walked = bool(some.edges.walked[edge])
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
  lines, wanted = [], []
  for source, action, target in zip(*edges[:3], strict=True):
    row = np.zeros(size)
    row[target] += 1
    row[source] -= 1
    lines.append(row)
    wanted.append(_TOWARDS.get(maze.actions[action], (0.6, -0.3)))
  # A weak pull to the middle settles what no edge does.
  lines += list(0.03 * np.eye(size))
  wanted += [(0.0, 0.0)] * size
  found = np.linalg.lstsq(np.array(lines), np.array(wanted, float), rcond=None)
  seen = mazes.seen(maze)
  return {
    name: tuple(at)
    for name, at, here in zip(maze.places, found[0], seen, strict=True)
    if here
  }


TITLE = 'MANGO: destinations and routes in text games'


def answers_page(
  rows: pd.DataFrame,
  known: Mapping[str, mazes.Maze] | None = None,
  cuts: Mapping[str, int] | None = None,
  more: Sequence[Table] = (),
) -> pages.Page:
  """All tables and figures that scored answers allow.

  Args:
    rows: as rows.frame makes them, of one model or several.
    known: game -> its map; without it there are no tables of games, no
      regressions and no baselines.
    cuts: game -> the step up to which it was shown; default the map's last.
    more: further tables, which come last.
  """
  some = [
    maze for game, maze in (known or {}).items() if game in set(rows.game)
  ]
  numbers = facts.facts_of_all(some, cuts)
  shown = [success_table(rows), reasoning_table(rows)]
  if some:
    shown.append(baselines_table(rows, some, cuts))
  if rows.model.nunique() > 1:
    shown += [pairwise_table(rows), pairwise_table(rows, 'reasoning')]
  shown.append(ill_formed_table(rows))
  if some:
    if len(some) > 5:  # Fewer games have no regression.
      shown.append(regression_table(rows, numbers))
    title = 'The games as they were shown (tables 5 to 8)'
    shown.append(games_table(numbers, title))
  drawings = (
    pictures(rows, numbers, max(some, key=lambda m: len(m.places)))
    if some
    else []
  )
  models = ', '.join(dict.fromkeys(rows.model))
  lead = (
    f'{len(rows):,} answers of {models} about {rows.game.nunique()} games. '
    "Where the paper's programs do what it does not say, both are shown."
  )
  return pages.Page(
    TITLE,
    lead,
    [*shown, *more],
    drawings,
    WORDS,
    {
      'answers': rows.to_dict('records'),
      'games': [one._asdict() for one in numbers],
    },
  )


def tables_page(rows: pd.DataFrame, shown: Sequence[Table]) -> pages.Page:
  """A page of these tables alone."""
  models = ', '.join(dict.fromkeys(rows.model))
  lead = f'{len(rows):,} answers of {models}.'
  kept = {'answers': rows.to_dict('records')}
  return pages.Page(TITLE, lead, shown, (), WORDS, kept)


def baselines_table(
  rows: pd.DataFrame,
  known: Sequence[mazes.Maze],
  cuts: Mapping[str, int] | None = None,
) -> Table:
  """What is had without a language model, on questions of the same games."""
  found = []
  for kind in KINDS:
    if not len(facts.select(rows, kind=kind)):
      continue
    scored = facts.answer_frame(
      facts.answer_row(name, asked, score)
      for maze in known
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
    for head, some in parts(scored):
      found.append(
        {
          'baseline': head['model'],
          'questions': head['questions'],
          'asked': len(some),
          'success, micro': facts.mean_with_interval(some).value,
          'macro': facts.mean_with_interval(some, average=facts.MACRO).value,
          'exact': float(some.exact.mean()),
          'reasoning': float(some.reasoning.mean()),
        }
      )
  note = '; '.join(f'{k}: {v}' for k, v in facts.BASELINES.items())
  return pages.table(
    'Answers without a language model', found, note, folded=True
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
      known = sample.metadata or {}
      for score in reversed((sample.scores or {}).values()):
        found = score.metadata or {}
        if set(Score._fields) <= set(found):
          fields = {name: found[name] for name in Score._fields}
          name = model + named.get(known.get('setting', ''), '') + how
          yield facts.answer_row(
            name, questions.asked_of(known), Score(**fields)
          )
          break
        if known.get('task') == 'mango_minigames' and 'success' in found:
          won = Score(found['failure'], found['success'], moves=1)
          yield facts.answer_row(model + how, _minigame(known), won)
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
  given: dict[tuple[str, str], list[dict[str, Any]]] = {}
  for log in logs:
    own = given.setdefault((log.eval.task, log.eval.model), [])
    own.append({name: log.eval.task_args.get(name) for name in ASKED})
  made = []
  for log in logs:
    model, own = log.eval.model, given[log.eval.task, log.eval.model]
    how = ''.join(
      f', {name}={log.eval.task_args.get(name)}'
      for name in ASKED
      if len({str(one[name]) for one in own}) > 1
    )
    last = model.rpartition('/')[2]
    made.append((last if short[last] == 1 else model, how))
  return made


def _minigame(known: Mapping[str, Any]) -> questions.Asked:
  return questions.Asked(
    known['game'],
    MINIGAMES[bool(known['map'])],
    f'{known["game"]}/{known["step"]}',
    Question(known['here'], known['there']),
    easy=True,
    length=1,
    imputed=0,
  )


def maps(logs: Sequence[EvalLog]) -> dict[str, mazes.Maze]:
  """Game -> its map, of the folders that logs name and that are still there."""
  found: dict[str, mazes.Maze] = {}
  for log in logs:
    folder = str(log.eval.task_args.get('folder', ''))
    if not folder or not pathlib.Path(folder).exists():
      continue
    games = {str((s.metadata or {}).get('game')) for s in log.samples or []}
    for game in sorted(games - set(found)):
      walkthroughs = str(log.eval.task_args.get('walkthroughs', ''))
      found[game] = readers.read(folder, game, walkthroughs)
  return found


def cuts(logs: Sequence[EvalLog]) -> dict[str, int]:
  """Game -> the last step that was shown of it in any of the logs."""
  found: dict[str, int] = {}
  for log in logs:
    for sample in log.samples or []:
      known = sample.metadata or {}
      if known.get('kind') in KINDS:
        game = known['game']
        found[game] = max(found.get(game, 0), known['step'])
  return found


def page(logs: Sequence[EvalLog]) -> Page:
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
