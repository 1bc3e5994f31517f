"""Compares models: differences, correlations, and wordings of prompts.

Differences are between trained models on the same trials. Correlations are
over models (Vafa et al. 2025 correlate inductive biases with transfer over ten
models: five families, trained and not). Wordings of one world given to a
language model say nothing of the world: their spread is noise of the question,
beside that of the trials.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from wm import core
from wm.core import registry
from wm.evaluation import comparisons, results
from wm.reporting import catalog, ceilings, tables
from wm.reporting.collect import Entry, Run

if TYPE_CHECKING:
  from wm.evaluation import comparisons


PAIRED_TITLE = 'Differences between trained models'
MOST_PAIRED = 4  # Trained models of which each pair is compared.
_OTHER = 'not the same trials'
_MISSING = 'no trials kept'
_FEW, _ALIKE = 'too few clusters', 'the same in each of'
# What two results must share for their trials to be the same.
_SAME = 'world', 'seed', 'spec', 'metric_version', 'world_version'
_SHOWN = 0.001  # Smaller p values are shown as smaller than this.


class _Trials(NamedTuple):
  """A result and its trials; None where they are not kept."""

  entry: Entry
  scores: core.Scores | None


def paired_table(runs: Sequence[Run]) -> tables.Table | None:
  """Tables a row for each headline quantity, a column for each pair of models.

  Args:
    runs: all of a report; those that stand for several seeds are left out.

  Returns:
    The table; None where no two trained models have a quantity in common.
  """
  labelled = zip(runs, tables.labels(runs), strict=True)
  trained = [
    (run, label)
    for run, label in labelled
    if ceilings.is_trained(run) and not run.seeds
  ]
  pairs = [*itertools.combinations(range(len(trained)), 2)]
  if len(trained) > MOST_PAIRED:
    pairs = [(0, other) for other in range(1, len(trained))]
  compared = [
    (head, [_difference(several[a], several[b]) for a, b in pairs])
    for head, several in _quantities([run for run, _ in trained])
  ]
  compared = [(head, cells) for head, cells in compared if any(cells)]
  if not compared:
    return None
  names = [f'{trained[a][1]} − {trained[b][1]}' for a, b in pairs]
  adjusted = _adjusted([cells for _, cells in compared])
  rows = [
    [
      head,
      *(
        _difference_cell(difference, adjusted.get((k, n)))
        for n, difference in enumerate(cells)
      ),
    ]
    for k, (head, cells) in enumerate(compared)
  ]
  frame = pd.DataFrame(rows, columns=['quantity', *names], dtype=object)
  note = _paired_note(len(adjusted), frame, len(trained))
  return tables.Table(PAIRED_TITLE, frame, note, folded=len(pairs) > 6)


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


def _quantities(
  runs: Sequence[Run],
) -> Iterator[tuple[str, list[_Trials | None]]]:
  """Yields the head of each headline quantity, and what each run has of it.

  Trials of one spec are held at a time.
  """
  heads: dict[tuple[str, str], dict[str, None]] = {}
  for run in runs:
    for entry in run.entries:
      if tables.headline(entry['metric'], entry['quantity'])[0]:
        key = entry['metric'], tables.spec(entry)
        heads.setdefault(key, {})[entry['quantity']] = None
  for (metric, spec), quantities in heads.items():
    parts = [_scores(run, metric, spec) for run in runs]
    for quantity in quantities:
      yield (
        f'{spec}: {quantity}',
        [
          _trials(run, part, spec, quantity)
          for run, part in zip(runs, parts, strict=True)
        ],
      )


def _scores(run: Run, metric: str, spec: str) -> dict[str, core.Scores]:
  """Trials of a run by quantity; {} where there is no usable file of them."""
  path = results.path(run.folder, metric, spec)
  if not path.is_file():
    return {}
  try:
    return {scores.quantity: scores for scores in results.read(path).scores}
  except results.Unusable:
    return {}


def _trials(
  run: Run, part: dict[str, core.Scores], spec: str, quantity: str
) -> _Trials | None:
  for entry in run.entries:
    if (tables.spec(entry), entry['quantity']) == (spec, quantity):
      return _Trials(entry, part.get(quantity))
  return None


def _difference(
  first: _Trials | None, second: _Trials | None
) -> comparisons.Difference | str:
  """The difference of two results, or why there is none; '' if one lacks it."""
  if first is None or second is None:
    return ''
  if any(first.entry.get(key) != second.entry.get(key) for key in _SAME):
    return _OTHER
  if first.scores is None or second.scores is None:
    return _MISSING
  if not np.array_equal(first.scores.group, second.scores.group):
    return _OTHER
  return comparisons.paired(first.scores, second.scores)


def _adjusted(
  rows: Sequence[Sequence[comparisons.Difference | str]],
) -> dict[tuple[int, int], float]:
  """(row, column) -> p adjusted for all that have one."""
  p_values = {
    (k, n): difference.p
    for k, row in enumerate(rows)
    for n, difference in enumerate(row)
    if not isinstance(difference, str) and difference.p is not None
  }
  return dict(
    zip(p_values, comparisons.holm([*p_values.values()]), strict=True)
  )


def _difference_cell(
  difference: comparisons.Difference | str, p: float | None
) -> str:
  if isinstance(difference, str):
    return difference
  if difference.value is None:
    return '–'
  # Of enough clusters only those that all differ alike have no interval.
  few = difference.clusters < comparisons.FEWEST_PAIRED
  why = _FEW if few else f'{_ALIKE} {difference.clusters} clusters'
  shown = tables.interval({**difference._asdict(), 'interval': why})
  if p is None or difference.low is None or difference.high is None:
    return tables.joined(shown, f'n={difference.n}')
  small = f'p<{_SHOWN}' if p < _SHOWN else f'p={p:.3f}'
  cell = tables.joined(shown, small, f'n={difference.n}')
  return (
    cell
    if difference.low <= 0 <= difference.high
    else tables.Bold(*cell.pieces)
  )


# Ends of quantities that are of another point of the same model.
POINTS = ('', '_untrained')

# World and metric's spec -> run -> quantity -> value.
Values = dict[tuple[str, str], dict[int, dict[str, float]]]


def correlation_table(runs: Sequence[Run]) -> tables.Table | None:
  """Tables correlations; None where there are too few models, or no pair."""
  values, metrics = _values(runs)
  rows = []
  for (world, spec), mine in values.items():
    metric = metrics[spec]
    for (other_world, other_spec), theirs in values.items():
      probe = metrics[other_spec]
      if metric == probe or world != other_world:
        continue
      for quantity in catalog.metric_class(metric).correlated_quantities:
        for name in _numbers(probe):
          correlation = _correlated(mine, theirs, quantity, probe, name)
          if correlation is not None:
            rows.append(
              {
                'world': world,
                'measure': f'{other_spec}: {name}',
                f'{spec}: {quantity}': tables.joined(
                  tables.correlation(correlation), f'n={correlation.clusters}'
                ),
              }
            )
  if not rows:
    return None
  keys = ['world', 'measure']
  frame = pd.DataFrame(rows, dtype=object)
  frame = frame.groupby(keys, sort=False).first().reset_index()
  if frame['world'].nunique() == 1:
    frame = frame.drop(columns='world')
  note = (
    "Pearson's correlation over models, each trained and, where measured, "
    "untrained; in brackets Fisher's 95 % interval, n models."
  )
  return tables.Table('Across models', frame.fillna(''), note)


def _values(runs: Sequence[Run]) -> tuple[Values, dict[str, str]]:
  """All measured values, and the metric of each spec."""
  values: Values = {}
  metrics: dict[str, str] = {}
  for number, run in enumerate(runs):
    for entry in run.entries:
      if entry['value'] is None:
        continue
      spec = tables.spec(entry)
      metrics[spec] = entry['metric']
      mine = values.setdefault(_key(entry, spec), {})
      mine.setdefault(number, {})[entry['quantity']] = entry['value']
  return values, metrics


def _key(entry: Entry, spec: str) -> tuple[str, str]:
  return entry['world'], spec


def _numbers(metric: str) -> list[str]:
  """Names of what a metric's models are compared by."""
  declaration = catalog.metric_class(metric)
  return [*dict.fromkeys([*declaration.headline, *declaration.derived])]


def _correlated(
  mine: Mapping[int, Mapping[str, float]],
  theirs: Mapping[int, Mapping[str, float]],
  quantity: str,
  probe: str,
  name: str,
) -> comparisons.Correlation | None:
  """Of a quantity and a number of another metric, over all runs with both."""
  from wm.evaluation import comparisons  # Few reports need it.

  derived = catalog.metric_class(probe).derived.get(name)
  points = []
  for number, by in mine.items():
    for end in POINTS:
      measured = {
        key.removesuffix(end): value
        for key, value in theirs.get(number, {}).items()
        if key.endswith(end)
      }
      if quantity + end not in by:
        continue
      try:
        x = derived(measured) if derived else measured[name]
      except (KeyError, ZeroDivisionError):
        continue  # Not measured, or no number.
      if math.isfinite(x):
        points.append((x, by[quantity + end], number))
  if not points:
    return None
  columns = [np.array(column) for column in zip(*points, strict=True)]
  return comparisons.pearson_over_models(*columns)


NORMAL_95 = 1.96  # Half a 95 % interval, in standard deviations.


class WordingResult(NamedTuple):
  """One result by one telling.

  Attributes:
    said: the values of the fields that say how, such as wording and names.
    value: of the quantity.
    error: its standard deviation by its interval; NaN where it has none.
  """

  said: tuple[Any, ...]
  value: float
  error: float


class Spread(NamedTuple):
  """Results over tellings.

  Attributes:
    tellings: how many.
    mean: of their values.
    deviation: standard deviation of the values, of n - 1.
    least, greatest: of the values.
    by: the same deviation of the means over all tellings that share one field's
      value, for each field; NaN where the field has one value.
    chance: root of the mean square of the values' own errors: the deviation
      that trials alone would give, if each telling had its own.
  """

  tellings: int
  mean: float
  deviation: float
  least: float
  greatest: float
  by: tuple[float, ...]
  chance: float


def spread(results: Sequence[WordingResult]) -> Spread:
  """The spread of at least two results."""
  values = np.array([result.value for result in results])
  by = []
  for field in zip(*(result.said for result in results), strict=True):
    means = [
      values[[choice == kind for choice in field]].mean()
      for kind in dict.fromkeys(field)
    ]
    by.append(float(np.std(means, ddof=1)) if len(means) > 1 else math.nan)
  errors = np.array([result.error for result in results])
  return Spread(
    len(values),
    float(values.mean()),
    float(values.std(ddof=1)),
    float(values.min()),
    float(values.max()),
    tuple(by),
    float(np.sqrt((errors**2).mean())),
  )


def wording_table(runs: Sequence[Run]) -> tables.Table | None:
  """Tables headline quantities that have several tellings; None without."""
  by_measure: dict[tuple[str, ...], dict[tuple[Any, ...], WordingResult]] = {}
  heads: dict[tuple[str, ...], Sequence[str]] = {}
  for entry in (entry for run in runs for entry in run.entries):
    how = _wording(entry)
    if (
      how is None or not tables.headline(entry['metric'], entry['quantity'])[0]
    ):
      continue
    model, fields = how
    measure = f'{tables.spec(entry)}: {entry["quantity"]}'
    # Tellings are compared on the same trials, those of one seed.
    key = entry['world'], model, measure, str(entry['seed'])
    heads[key] = tuple(fields)
    result = WordingResult(
      tuple(fields.values()), entry['value'], _error(entry)
    )
    by_measure.setdefault(key, {})[result.said] = result
  seeds = len({seed for *_, seed in by_measure}) > 1
  rows = [
    _spread_row(key, heads[key], spread(list(results.values())), seeds)
    for key, results in by_measure.items()
    if len(results) > 1
  ]
  if not rows:
    return None
  note = (
    'Standard deviation over tellings of one world, and of the means over '
    'those that share a wording, or names and order. By chance: what trials '
    'alone would give, by the width of the intervals.'
  )
  return tables.Table('In other words', pd.DataFrame(rows).fillna('–'), note)


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


def _error(entry: Entry) -> float:
  if entry['low'] is None or entry['high'] is None:
    return math.nan
  return float(entry['high'] - entry['low']) / (2 * NORMAL_95)


def _spread_row(
  key: tuple[str, ...], fields: Sequence[str], spread: Spread, seeds: bool
) -> dict[str, str]:
  world, model, measure, seed = key
  row = {
    'world': world,
    'model': model,
    'measure': measure,
    **({'seed': seed} if seeds else {}),
    'tellings': str(spread.tellings),
    'mean': tables.number(spread.mean),
    'least to greatest': f'{tables.number(spread.least)} to '
    f'{tables.number(spread.greatest)}',
    'deviation': tables.number(spread.deviation),
  }
  for field, value in zip(fields, spread.by, strict=True):
    row[f'by {field}'] = '–' if math.isnan(value) else tables.number(value)
  row['by chance'] = (
    '–' if math.isnan(spread.chance) else tables.number(spread.chance)
  )
  return row
