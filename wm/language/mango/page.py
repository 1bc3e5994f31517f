"""The page of MANGO's tables and figures, of answers old or new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from wm.language import rescored
from wm.language.mango import baselines, facts, figures, tables
from wm.language.mango import rows as answers
from wm.language.mango.questions import KINDS
from wm.reporting.tables import Table
from wm.worlds.text_game import maze as mazes

TITLE = 'MANGO: destinations and routes in text games'


def page(
  rows: pd.DataFrame,
  known: Mapping[str, mazes.Maze] | None = None,
  cuts: Mapping[str, int] | None = None,
  more: Sequence[Table] = (),
) -> rescored.Rescored:
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
  numbers = facts.table(some, cuts)
  shown = [tables.success(rows), tables.beside(rows)]
  if some:
    shown.append(compared(rows, some, cuts))
  if rows.model.nunique() > 1:
    shown += [tables.pairwise(rows), tables.pairwise(rows, 'reasoning')]
  shown.append(tables.ill_formed(rows))
  if some:
    if len(some) > 5:  # Fewer games have no regression.
      shown.append(tables.regressed(rows, numbers))
    title = 'The games as they were shown (tables 5 to 8)'
    shown.append(tables.games(numbers, title))
  pictures = (
    figures.pictures(rows, numbers, max(some, key=lambda m: len(m.places)))
    if some
    else []
  )
  models = ', '.join(dict.fromkeys(rows.model))
  lead = (
    f'{len(rows):,} answers of {models} about {rows.game.nunique()} games. '
    "Where the paper's programs do what it does not say, both are shown."
  )
  return rescored.Rescored(
    TITLE,
    lead,
    [*shown, *more],
    pictures,
    tables.WORDS,
    {
      'answers': rows.to_dict('records'),
      'games': [one._asdict() for one in numbers],
    },
  )


def bare(rows: pd.DataFrame, shown: Sequence[Table]) -> rescored.Rescored:
  """A page of these tables alone."""
  models = ', '.join(dict.fromkeys(rows.model))
  lead = f'{len(rows):,} answers of {models}.'
  kept = {'answers': rows.to_dict('records')}
  return rescored.Rescored(TITLE, lead, shown, (), tables.WORDS, kept)


def compared(
  rows: pd.DataFrame,
  known: Sequence[mazes.Maze],
  cuts: Mapping[str, int] | None = None,
) -> Table:
  """What is had without a language model, on questions of the same games."""
  found = []
  for kind in KINDS:
    if not len(answers.select(rows, kind=kind)):
      continue
    scored = answers.frame(
      answers.row(name, asked, score)
      for maze in known
      for name, asked, score in baselines.scores(
        maze,
        kind,
        (cuts or {}).get(maze.game, mazes.LAST),
        names=[
          name
          for name in baselines.BASELINES
          if maze.steps or name not in ('last', 'frequent')
        ],
      )
    )
    for head, some in tables.parts(scored):
      found.append(
        {
          'baseline': head['model'],
          'questions': head['questions'],
          'asked': len(some),
          'success, micro': answers.mean(some).value,
          'macro': answers.mean(some, average=answers.MACRO).value,
          'exact': float(some.exact.mean()),
          'reasoning': float(some.reasoning.mean()),
        }
      )
  note = '; '.join(f'{k}: {v}' for k, v in baselines.BASELINES.items())
  return rescored.table(
    'Answers without a language model', found, note, folded=True
  )
