"""The first table of a report: all headline quantities of all runs."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from wm.reporting import ceilings, tables
from wm.reporting.collect import Entry, Run

_WIDE = 8  # More quantities than this are rows, unless there are more runs.


def table(runs: Sequence[Run]) -> tables.Table:
  """Tables headline quantities in their plainest setting.

  A row per run and a column per quantity; the other way round where there are
  many quantities, as a page is longer than it is wide.
  """
  frame = tables.results(runs)
  frame['head'] = [
    f'{m}: {q}' for m, q in zip(frame.metric, frame.quantity, strict=True)
  ]
  shown = frame[(frame.headline != '') & frame['at'].isna()]
  plain = shown[shown.plain.astype(bool)]
  wide = tables.by_run(plain, 'head', 'cell')
  wide = wide.reindex(range(len(runs)), fill_value='')
  heads = ['model', *dict.fromkeys(shown['head'])]
  wide = wide.reindex(columns=heads, fill_value='')
  wide['model'] = tables.labels(runs)
  if len(heads) - 1 > max(_WIDE, len(runs)):
    wide = wide.set_index('model').T.rename_axis(columns=None)
    wide.insert(0, 'quantity', list(wide.index))
  note = (
    'Value [95 % interval], and n, the number of trials. Trials are '
    'independent of each other, unless the cell says how many clusters they '
    'form. A dash means that nothing could be measured; the table "All '
    'results" gives the reasons.'
  )
  note += _settings(runs) + _seeds(runs, list(plain.entry))
  note += ceilings.note(plain['position'])
  return tables.Table('The table', wide, note + _few(runs, plain))


def _settings(runs: Sequence[Run]) -> str:
  """Returns which of several settings of a metric the table shows."""
  entries = [entry for run in runs for entry in run.entries]
  specs = dict.fromkeys((e['metric'], tables.spec(e)) for e in entries)
  names = [name for name, _ in specs]
  plain = tables.plainest(entries).items()
  several = [text for name, text in plain if names.count(name) > 1]
  if not several:
    return ''
  return f' Of metrics with several settings it shows {", ".join(several)}.'


def _seeds(runs: Sequence[Run], entries: Sequence[Entry]) -> str:
  """Returns what a reader must know of seeds; '' where each model has one."""
  if not any(run.seeds for run in runs):
    return ''
  return (
    ' A model that was trained with several seeds has their mean '
    f'[{tables.in_brackets(entries)}]; the table "All results" has each seed '
    'in a row of its own. A model of one seed has the '
    f'{tables.OF_TRIALS}.{tables.modes(entries)}'
  )


def _few(runs: Sequence[Run], plain: pd.DataFrame) -> str:
  """Names columns whose trained models so few trials do not tell apart."""
  roles = ceilings.roles(runs)
  by_head: dict[str, list[Entry]] = {}
  columns = plain.run, plain['head'], plain.entry
  for run, head, entry in zip(*columns, strict=True):
    if roles[run] == ceilings.TRAINED:
      by_head.setdefault(head, []).append(entry)
  return ceilings.too_few(by_head)
