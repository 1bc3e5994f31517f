"""Pictures of MANGO's results, from scored answers.

After the paper's figures (Ding et al. 2024): a map with its imputed moves,
success and reasoning of models, success against the numbers of games and the
length of paths, ill-formed answers, and success game by game.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from wm.language.mango import rows as answers
from wm.language.mango import tables
from wm.language.mango.facts import Facts
from wm.language.mango.questions import KINDS
from wm.reporting import figures, write
from wm.worlds.text_game import maze as mazes

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
    for shift, (easy, name) in enumerate(tables.DIFFICULTY.items()):
      for place, model in enumerate(models):
        some = answers.well_formed(
          answers.select(rows, model=model, kind=kind, easy=easy)
        )
        mean = answers.mean(some, column)
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
  some = answers.select(rows, model=model, kind=kind, easy=easy)
  found: pd.Series = answers.well_formed(some).groupby('game').success.mean()
  return found


def _panels(rows: pd.DataFrame) -> list[tuple[str, str, bool]]:
  """(title, kind, easy) of the panels that have rows."""
  return [
    (f'{kind}, {name}', kind, easy)
    for kind in KINDS
    for easy, name in tables.DIFFICULTY.items()
    if len(answers.select(rows, kind=kind, easy=easy))
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
      some = answers.well_formed(
        answers.select(rows, model=model, kind=kind, easy=easy)
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
            answers.select(rows, model=model, kind=kind) for model in models
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
    axis.set(title=f'{kind}, {tables.DIFFICULTY[easy]}', ylim=(-0.03, 1.03))
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
