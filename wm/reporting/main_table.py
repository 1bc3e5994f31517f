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
  found = tables.results(runs)
  found['head'] = [
    f'{m}: {q}' for m, q in zip(found.metric, found.quantity, strict=True)
  ]
  shown = found[(found.headline != '') & found['at'].isna()]
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
    'Value [95 % interval], n trials (independent where no clusters are '
    'named). A dash: nothing could be measured; the '
    'table of all results says why.'
  )
  note += _settings(runs) + ceilings.note(plain['position'])
  return tables.Table('The table', wide, note + _few(runs, plain))


def _settings(runs: Sequence[Run]) -> str:
  """Returns what a reader must know of settings and seeds."""
  entries = [entry for run in runs for entry in run.entries]
  specs = dict.fromkeys((e['metric'], tables.spec(e)) for e in entries)
  names = [name for name, _ in specs]
  plain = tables.plainest(entries).items()
  several = [text for name, text in plain if names.count(name) > 1]
  text = f' Of several settings: {", ".join(several)}.' if several else ''
  if any(run.seeds for run in runs):
    text += (
      ' Where a model was trained with several seeds: mean [least, greatest] '
      'of them, or up to five in full; the table of all results has each by '
      f'itself. Of one seed: {tables.OF_TRIALS}.'
    )
  return text


def _few(runs: Sequence[Run], plain: pd.DataFrame) -> str:
  """Names columns whose trained models so few trials do not tell apart."""
  roles = ceilings.roles(runs)
  by_head: dict[str, list[Entry]] = {}
  columns = plain.run, plain['head'], plain.entry
  for run, head, entry in zip(*columns, strict=True):
    if roles[run] == ceilings.TRAINED:
      by_head.setdefault(head, []).append(entry)
  return ceilings.too_few(by_head)
