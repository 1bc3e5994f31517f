"""Puts held-out values of training beside those that papers print of searches.

Tables 5 and 6 of Walker and Lyons 2026: the best evaluation of each run.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from wm.core import registry
from wm.reporting import papers, tables, unlike
from wm.reporting.collect import Run
from wm.reporting.papers import Search

NOTE = (
  'Held-out values at the best evaluation of each run, as training found them; '
  'a dash where neither it nor the paper has one.'
)


def search_tables(runs: Sequence[Run]) -> list[tables.Table]:
  """Returns a table per printed search that has a model of these runs: a row
  per run, ours and the paper's values.
  """
  result = []
  for world, sources in papers.papers().items():
    mine = [run for run in runs if _trained_on(run) == world]
    for source in sources:
      result += [_table(search, source, mine) for search in source.searches]
  return [table for table in result if table.rows]


def _trained_on(run: Run) -> str:
  """Returns the name of the world of a trained run, '' if it is not known."""
  world = run.trained.get('world') or ''
  return registry.parse(world)[0] if world else ''


def _table(
  search: Search, source: papers.Paper, runs: Sequence[Run]
) -> tables.Table:
  shown = [run for run in runs if papers.model_key(run.name) in search.values]
  keys = [
    key.removeprefix('best_')
    for run in shown
    for key in run.trained
    if key.startswith('best_') and key != 'best_step'
  ]
  # Losses of parts of the labels are not printed anywhere.
  names = [key for key in dict.fromkeys(keys) if not key.startswith('loss_')]
  several = len({run.name for run in shown}) < len(shown)
  frame = []
  for run in shown:
    key = papers.model_key(run.name)
    printed = dict(zip(search.forms, search.values[key], strict=True))
    trained = source.models.get(key, papers.Trained())
    spec = run.trained.get('model')
    differs = [
      *unlike.size(trained.model, spec),
      *unlike.lacking(search.training, run.training),
    ]
    seed = f', seed {run.training.get("seed", "?")}' if several else ''
    ours = {name: run.trained.get(f'best_{name}') for name in names}
    frame.append(
      {
        'model': run.name + seed,
        **{name: _shown(x, search.forms.get(name)) for name, x in ours.items()},
        **{
          f'paper: {name}': format(value, search.forms[name])
          for name, value in printed.items()
        },
        'the paper has': ', '.join(differs),
      }
    )
  title = f'Beside the paper: {search.table}'
  return tables.Table(title, pd.DataFrame(frame), NOTE, folded=True)


def _shown(value: float | None, form: str | None) -> str:
  return '–' if value is None else format(value, form or '.4f')
