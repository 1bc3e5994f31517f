"""Compares models: differences, correlations, and wordings of prompts.

Differences are between trained models on the same trials. Correlations are
over models (Vafa et al. 2025 correlate inductive biases with transfer over ten
models: five families, trained and not). Wordings of one world given to a
language model say nothing of the world: their spread is noise of the question,
beside that of the trials.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from wm import core
from wm.core import registry
from wm.evaluation import comparisons, results
from wm.reporting import catalog, ceilings, tables
from wm.reporting.collect import Entry, Run

PAIRED_TITLE = 'Differences between trained models'
MOST_PAIRED = 4  # Trained models of which each pair is compared.
_OTHER = 'not the same trials'
_MISSING = 'no trials kept'
_FEW, _ALIKE = 'too few clusters', 'the same in each of'
_SHOWN = 0.001  # Smaller p values are shown as smaller than this.


def paired_table(
  runs: Sequence[Run], frame: pd.DataFrame
) -> tables.Table | None:
  """Tables a row for each headline quantity, a column for each pair of models.

  Args:
    runs: all of a report; those that stand for several seeds are left out.
    frame: their `tables.results`.

  Returns:
    The table; None where no two trained models have a quantity in common.
  """
  labels = tables.labels(runs)
  trained = [
    place
    for place, run in enumerate(runs)
    if ceilings.is_trained(run) and not run.seeds
  ]
  pairs = [*itertools.combinations(trained, 2)]
  if len(trained) > MOST_PAIRED:
    pairs = [(trained[0], other) for other in trained[1:]]
  compared: dict[str, list[comparisons.Difference | str]] = {}
  shown = frame[(frame.headline != '') & frame.run.isin(trained)]
  for (metric, spec), of_spec in shown.groupby(['metric', 'spec'], sort=False):
    # Trials of one spec are held at a time.
    scores = {place: _scores(runs[place], metric, spec) for place in trained}
    for quantity, rows in of_spec.groupby('quantity', sort=False):
      rows = rows.drop_duplicates('run').set_index('run').entry
      cells = [
        _difference(rows[a], rows[b], scores[a], scores[b])
        if a in rows and b in rows
        else ''
        for a, b in pairs
      ]
      if any(cells):
        compared[f'{spec}: {quantity}'] = cells
  if not compared:
    return None
  num = _adjust(compared.values())
  table = pd.DataFrame(
    [[head, *map(_difference_cell, row)] for head, row in compared.items()],
    columns=['quantity', *(f'{labels[a]} − {labels[b]}' for a, b in pairs)],
    dtype=object,
  )
  note = _paired_note(num, table, len(trained))
  return tables.Table(PAIRED_TITLE, table, note, folded=len(pairs) > 6)


def _paired_note(num: int, frame: pd.DataFrame, models: int) -> str:
  note = (
    "The first model's value less the second's on the same trials [95 % "
    'interval of paired differences], and p of no difference, adjusted by the '
    f'method of Holm for the {num} tests of this table; the intervals are not. '
    'Bold: the interval excludes 0. Both are about these two trained models '
    'only, not about the recipes that they were trained by: other seeds of the '
    'same recipes may differ the other way.'
  )
  if frame.map(lambda cell: f'({_FEW})' in cell).any(axis=None):
    least = comparisons.FEWEST_PAIRED
    note += f' {_FEW.capitalize()}: an interval takes {least} or more.'
  if frame.map(lambda cell: f'({_ALIKE} ' in cell).any(axis=None):
    note += (
      ' Where the difference is the same in each cluster, and no bounds of the '
      'quantity say how far others may be off, there is no interval.'
    )
  if (frame == _OTHER).any(axis=None):
    note += (
      f' {_OTHER.capitalize()}: the models were scored in different worlds, '
      'with different seeds or on different groups of trials, and are not '
      'compared.'
    )
  if (frame == _MISSING).any(axis=None):
    note += f' {_MISSING.capitalize()}: the folder has no file of the trials.'
  if models > MOST_PAIRED:
    note += ' Of more than four models, each is compared with the first.'
  return note


def _scores(run: Run, metric: str, spec: str) -> dict[str, core.Scores]:
  """Trials of a run by quantity; {} where there is no usable file of them."""
  path = results.path(run.folder, metric, spec)
  if not path.is_file():
    return {}
  try:
    return {scores.quantity: scores for scores in results.read(path).scores}
  except results.Unusable:
    return {}


def _difference(
  first: Entry,
  second: Entry,
  first_scores: Mapping[str, core.Scores],
  second_scores: Mapping[str, core.Scores],
) -> comparisons.Difference | str:
  """The difference of two results on their trials, or why there is none."""
  if any(first.get(key) != second.get(key) for key in results.SAME):
    return _OTHER
  measured = first_scores.get(first['quantity'])
  other = second_scores.get(first['quantity'])
  if measured is None or other is None:
    return _MISSING
  if not np.array_equal(measured.group, other.group):
    return _OTHER
  return comparisons.paired(measured, other)


def _adjust(rows: Iterable[list[comparisons.Difference | str]]) -> int:
  """Adjusts all p values together, in place; returns how many there are."""
  tested = [
    (row, column, difference, difference.p)
    for row in rows
    for column, difference in enumerate(row)
    if not isinstance(difference, str) and difference.p is not None
  ]
  p_values = comparisons.holm([p for *_, p in tested])
  for (row, column, difference, _), p in zip(tested, p_values, strict=True):
    row[column] = difference._replace(p=p)
  return len(tested)


def _difference_cell(difference: comparisons.Difference | str) -> str:
  if isinstance(difference, str):
    return difference
  low, high, p = difference.low, difference.high, difference.p
  if difference.value is None:
    return '–'
  # Of enough clusters only those that all differ alike have no interval.
  few = difference.clusters < comparisons.FEWEST_PAIRED
  why = _FEW if few else f'{_ALIKE} {difference.clusters} clusters'
  shown = tables.interval({**difference._asdict(), 'interval': why})
  if p is None or low is None or high is None:
    return tables.joined(shown, f'n={difference.n}')
  small = f'p<{_SHOWN}' if p < _SHOWN else f'p={p:.3f}'
  cell = tables.joined(shown, small, f'n={difference.n}')
  return cell if low <= 0 <= high else tables.Bold(*cell.pieces)


# Ends of quantities that are of another point of the same model.
POINTS = ('', '_untrained')


def correlation_table(frame: pd.DataFrame) -> tables.Table | None:
  """Tables correlations; None where there are too few models, or no pair.

  frame: `tables.results` of all runs of a report.
  """
  measured = frame[frame.value.notna()]
  values = {
    key: {
      run: dict(zip(rows.quantity, rows.value, strict=True))
      for run, rows in of_spec.groupby('run', sort=False)
    }
    for key, of_spec in measured.groupby(
      ['world', 'metric', 'spec'], sort=False
    )
  }
  cells: dict[tuple[str, str], dict[str, str]] = {}
  for (world, metric, spec), mine in values.items():
    for (other_world, probe, other_spec), theirs in values.items():
      if metric == probe or world != other_world:
        continue
      declared = catalog.metric_class(probe)
      for quantity in catalog.metric_class(metric).correlated_quantities:
        for name in dict.fromkeys([*declared.headline, *declared.derived]):
          derived = declared.derived.get(name, operator.itemgetter(name))
          points = [*_points(mine, theirs, quantity, derived)]
          columns = [np.array(column) for column in zip(*points, strict=True)]
          between = columns and comparisons.pearson_over_models(*columns)
          if between:
            row = cells.setdefault((world, f'{other_spec}: {name}'), {})
            row[f'{spec}: {quantity}'] = tables.joined(
              tables.correlation(between), f'n={between.clusters}'
            )
  if not cells:
    return None
  table = pd.DataFrame(
    [{'world': w, 'measure': m, **row} for (w, m), row in cells.items()],
    dtype=object,
  ).fillna('')
  if table['world'].nunique() == 1:
    table = table.drop(columns='world')
  note = (
    "Pearson's correlation over models, each trained and, where measured, "
    "untrained; in brackets Fisher's 95 % interval, n models."
  )
  return tables.Table('Across models', table, note)


def _points(
  mine: Mapping[int, Mapping[str, float]],
  theirs: Mapping[int, Mapping[str, float]],
  quantity: str,
  derived: Callable[[Mapping[str, float]], float],
) -> Iterator[tuple[float, float, int]]:
  """Yields (number of another metric, quantity, run) of all runs with both."""
  for run, values in mine.items():
    for end in POINTS:
      others = {
        key.removesuffix(end): value
        for key, value in theirs.get(run, {}).items()
        if key.endswith(end)
      }
      with contextlib.suppress(KeyError, ZeroDivisionError):
        point = derived(others), values[quantity + end], run
        if math.isfinite(point[0]):
          yield point


NORMAL_95 = 1.96  # Half a 95 % interval, in standard deviations.


def wording_table(frame: pd.DataFrame) -> tables.Table | None:
  """Tables headline quantities that have several wordings; None without.

  frame: `tables.results` of all runs of a report.
  """
  by_measure: dict[tuple, dict[tuple, tuple[Entry, Mapping]]] = {}
  for row in frame[(frame.headline != '') & frame.value.notna()].itertuples():
    if worded := _wording(row.entry):
      model, fields = worded
      # Wordings are compared on the same trials, those of one seed.
      key = row.world, model, f'{row.spec}: {row.quantity}', row.entry['seed']
      worded_alike = by_measure.setdefault(key, {})
      worded_alike[tuple(fields.values())] = row.entry, fields
  seeds = len({seed for *_, seed in by_measure}) > 1
  rows = []
  for (world, model, measure, seed), pairs in by_measure.items():
    if len(pairs) > 1:
      entries, fields = zip(*pairs.values(), strict=True)
      row = {'world': world, 'model': model, 'measure': measure}
      row |= {'seed': str(seed)} if seeds else {}
      numbers = spread(pd.DataFrame(entries), pd.DataFrame(fields))
      rows.append(row | {'tellings': str(len(pairs)), **numbers})
  if not rows:
    return None
  note = (
    'Standard deviation over tellings of one world, and of the means over '
    'those that share a wording, or names and order. By chance: what trials '
    'alone would give, by the width of the intervals.'
  )
  return tables.Table('In other words', pd.DataFrame(rows).fillna('–'), note)


def spread(entries: pd.DataFrame, fields: pd.DataFrame) -> dict[str, str]:
  """Returns how far results in several wordings lie apart, as cells.

  Args:
    entries: [T] rows of value, low and high, which may be missing.
    fields: [T] rows of the fields that say how the world was worded.

  Returns:
    mean, least to greatest, and standard deviations (of n - 1): of the values;
    for each field of the means over the wordings that share its value; and by
    chance, the root of the mean square of the values' own errors: the deviation
    that trials alone would give, if each wording had its own.
  """
  value = entries.value.astype(float)
  width = (entries.high - entries.low).astype(float)
  errors = width.to_numpy() / (2 * NORMAL_95)

  def number(x: float) -> str:
    return tables.number(None if math.isnan(x) else x)

  return {
    'mean': number(value.mean()),
    'least to greatest': f'{number(value.min())} to {number(value.max())}',
    'deviation': number(value.std()),
    **{
      f'by {name}': number(value.groupby(field, dropna=False).mean().std())
      for name, field in fields.items()
    },
    'by chance': number(float(np.sqrt((errors**2).mean()))),
  }


def _wording(entry: Entry) -> tuple[str, Mapping[str, Any]] | None:
  """The model without the fields that say how, and these with values."""
  spec = entry.get('model_spec') or ''
  name = spec.partition('(')[0]
  if entry['value'] is None or name not in registry.names('model'):
    return None
  cls = registry.find('model', name)
  arguments = registry.parse(spec)[2]
  usual = {field.name: field.default for field in dataclasses.fields(cls)}
  fields = {field: arguments.get(field, usual[field]) for field in cls.retold}
  if not fields:
    return None
  rest = ', '.join(
    f'{key}={value!r}' for key, value in arguments.items() if key not in fields
  )
  return f'{name}({rest})', fields
