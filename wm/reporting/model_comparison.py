"""Compares models: differences and correlations.

Differences are between trained models on the same trials, and a grid counts
the measures in which one is better. Correlations are over models (Vafa et al.
2025 correlate inductive biases with transfer over ten models: five families,
trained and not).
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from wm import core
from wm.evaluation import comparisons, results
from wm.reporting import catalog, ceilings, tables
from wm.reporting.collect import Entry, Run

PAIRED_TITLE = 'Differences between trained models'
WINS_TITLE = 'Which model is better, by how many measures'
RECIPES_TITLE = 'Differences between recipes, over seeds'
ALPHA = 0.05  # Of corrected p values.
MOST_PAIRED = 4  # Trained models of which each pair is compared.
_OTHER = 'not the same trials'
_MISSING = 'no trials kept'
_FEW, _ALIKE = 'too few clusters', 'the same in each of'
_SHOWN = 0.001  # Smaller p values are shown as smaller than this.

# A measure, and the places of two runs.
_Place = tuple[str, int, int]


def paired_tables(
  runs: Sequence[Run], frame: pd.DataFrame, *, several_seeds: bool = False
) -> list[tables.Table]:
  """Tables a row for each headline quantity, a column for each pair of models.

  With three or four models the first table counts, for each pair, the
  quantities in which one is better.

  Args:
    runs: all of a report.
    frame: their `tables.results`.
    several_seeds: compare models with several seeds by their means, and not
      models with one. A mean has the variance between its seeds, and no less
      than that of their trials; two means are compared by Welch's t test.

  Returns:
    The tables; none where no two trained models have a quantity in common.
  """
  trained, pairs = _pairs(runs, several_seeds)
  differences: dict[_Place, comparisons.Difference | str] = {}
  measures: dict[str, core.Measure | None] = {}
  shown = frame[(frame.headline != '') & frame.run.isin(trained)]
  for (metric, spec), of_spec in shown.groupby(['metric', 'spec'], sort=False):
    # Trials of one spec are held at a time.
    scores = {}
    if not several_seeds:
      scores = {
        place: scores_of(runs[place], metric, spec) for place in trained
      }
    for quantity, rows in of_spec.groupby('quantity', sort=False):
      of = rows.drop_duplicates('run').set_index('run').entry
      measures[f'{spec}: {quantity}'] = catalog.measure(metric, quantity)
      if several_seeds:
        of = of[of.map(lambda entry: bool(entry['seed_values']))]
      for a, b in pairs:
        if a in of and b in of:
          differences[f'{spec}: {quantity}', a, b] = (
            comparisons.of_means(*map(_mean_over_seeds, (of[a], of[b])))
            if several_seeds
            else difference_of(of[a], of[b], scores[a], scores[b])
          )
  if not differences:
    return []
  corrected = comparisons.adjusted([*differences.values()])
  differences = dict(zip(differences, corrected, strict=True))
  title = RECIPES_TITLE if several_seeds else PAIRED_TITLE
  rows = _rows_of_pairs(runs, pairs, differences)
  cells = ' '.join(cell for row in rows for cell in row.values())
  p_values = [comparisons.p_value(each) for each in differences.values()]
  note = tables.note(
    'recipes' if several_seeds else 'paired',
    num=sum(p is not None for p in p_values),
    few=f'({_FEW})' in cells,
    alike=f'({_ALIKE} ' in cells,
    other=_OTHER in cells,
    missing=_MISSING in cells,
    least=comparisons.FEWEST_PAIRED,
    many=len(trained) > MOST_PAIRED,
  )
  table = tables.of_rows(title, rows, note, len(pairs) > 6)
  if not 2 < len(trained) <= MOST_PAIRED:
    return [table]
  wins = _wins(runs, trained, differences, measures)
  return [tables.of_rows(WINS_TITLE, wins, tables.note('wins')), table]


def _wins(
  runs: Sequence[Run],
  places: Sequence[int],
  differences: Mapping[_Place, comparisons.Difference | str],
  measures: Mapping[str, core.Measure | None],
) -> list[dict[str, str]]:
  """A row and a column for each model: quantities in which the row's is better.

  differences: with corrected p values. measures: of their quantities.
  """
  labels = tables.labels(runs)
  counts = collections.Counter[tuple[int, int]]()
  compared = collections.Counter[tuple[int, int]]()
  for (quantity, a, b), difference in differences.items():
    measure = measures[quantity]
    if measure is None or measure.best is None or isinstance(difference, str):
      continue
    if difference.value is None or difference.p is None:
      continue
    compared.update([(a, b), (b, a)])
    less = measure.less_is_better or measure.best == 0
    if difference.p < ALPHA:
      counts[(a, b) if (difference.value > 0) != less else (b, a)] += 1
  cells = {
    (a, b): f'{counts[a, b]} of {compared[a, b]}' if compared[a, b] else '–'
    for a, b in itertools.permutations(places, 2)
  }
  return [
    {'better than': labels[a]}
    | {labels[b]: cells.get((a, b), '') for b in places}
    for a in places
  ]


def _mean_over_seeds(entry: Entry) -> comparisons.Mean:
  """The mean of a pooled entry."""
  values = entry['seed_values']
  clusters = entry['clusters'] // entry['seeds'][1]
  ends = zip(values, entry['seed_lows'], entry['seed_highs'], strict=True)
  within = [comparisons.variance(*each, clusters) for each in ends]
  return comparisons.mean(values, [x for x in within if x is not None])


def _pairs(
  runs: Sequence[Run], several_seeds: bool
) -> tuple[list[int], list[tuple[int, int]]]:
  """Places of trained models of one seed, or of several, and pairs of these."""
  trained = [
    place
    for place, run in enumerate(runs)
    if ceilings.is_trained(run) and bool(run.seeds) == several_seeds
  ]
  if len(trained) > MOST_PAIRED:
    return trained, [(trained[0], other) for other in trained[1:]]
  return trained, [*itertools.combinations(trained, 2)]


def _rows_of_pairs(
  runs: Sequence[Run],
  pairs: Sequence[tuple[int, int]],
  differences: Mapping[_Place, comparisons.Difference | str],
) -> list[dict[str, str]]:
  """A row for each quantity, a cell for each pair."""
  labels = tables.labels(runs)
  heads = {(a, b): f'{labels[a]} − {labels[b]}' for a, b in pairs}
  table: dict[str, dict[str, str]] = {}
  for (quantity, a, b), difference in differences.items():
    blank = {'quantity': quantity, **dict.fromkeys(heads.values(), '')}
    row = table.setdefault(quantity, blank)
    row[heads[a, b]] = _difference_cell(difference)
  return [*table.values()]


def null_table(runs: Sequence[Run], frame: pd.DataFrame) -> tables.Table | None:
  """Tables trained models beside null models of equal loss.

  Args:
    runs: all of a report.
    frame: their `tables.results`.

  Returns:
    A row for each headline quantity and trained model; None without null
    models.
  """
  places: dict[str, int] = {run.folder.name: n for n, run in enumerate(runs)}
  shown = frame[(frame.headline != '') & frame.value.notna()]
  entries = {
    (row.run, row.spec, row.quantity): row.entry for row in shown.itertuples()
  }
  rows = []
  for row in shown[shown.role == ceilings.TRAINED].itertuples():
    measure = catalog.measure(row.metric, row.quantity)
    if measure is not None and (measure.likely or measure.side == 'mass'):
      continue  # Null models are made to be equal in these.
    run = runs[row.run]
    cells, ends = {}, list[float]()
    for kind in ceilings.NULLS:
      nulls = [
        entry
        for each in run.each or (run,)
        if (place := places.get(ceilings.null_name(each.folder.name, kind)))
        is not None
        and (entry := entries.get((place, row.spec, row.quantity)))
      ]
      if nulls:
        values = [entry['value'] for entry in nulls]
        ends += [end for entry in nulls for end in ceilings.ends(entry)]
        cells[f'errors of the {kind}'] = ' to '.join(
          dict.fromkeys(map(tables.number, (min(values), max(values))))
        )
    if cells:
      low, high = ceilings.ends(row.entry)
      beside = 'as random errors'
      if low > max(ends) or high < min(ends):
        beside = 'above both' if low > max(ends) else 'below both'
      about = {'quantity': f'{row.spec}: {row.quantity}', 'model': row.model}
      value = {'value': tables.interval(row.entry)}
      rows.append({**about, **value, **cells, 'beside these': beside})
  if not rows:
    return None
  rows.sort(key=operator.itemgetter('quantity'))
  return tables.of_rows('Beside null models', rows, tables.note('nulls'))


def scores_of(run: Run, metric: str, spec: str) -> dict[str, core.Scores]:
  """Trials of a run by quantity; {} without a usable file of trials."""
  path = results.path(run.folder, metric, spec)
  if not path.is_file():
    return {}
  try:
    return {scores.quantity: scores for scores in results.read(path).scores}
  except results.Unusable:
    return {}


def difference_of(
  first: Entry,
  second: Entry,
  first_scores: Mapping[str, core.Scores],
  second_scores: Mapping[str, core.Scores],
) -> comparisons.Difference | str:
  """The difference of two results on their trials, or the reason for none."""
  unlike = [k for k in results.SAME if first.get(k) != second.get(k)]
  rules = {entry.get('rules') for entry in (first, second)}
  if unlike and (unlike != ['world'] or len(rules) > 1 or None in rules):
    return _OTHER
  measured = first_scores.get(first['quantity'])
  other = second_scores.get(first['quantity'])
  if measured is None or other is None:
    return _MISSING
  same = np.array_equal(measured.group, other.group)
  # Samplers of worlds with the same rules may draw other trials.
  if unlike:
    same &= _drawn_alike(first_scores, second_scores)
  return comparisons.paired(measured, other) if same else _OTHER


def _drawn_alike(
  first: Mapping[str, core.Scores], second: Mapping[str, core.Scores]
) -> bool:
  """Do two results of a metric have the same states and prefixes?"""
  columns = [
    {
      (quantity, name): scores.columns[name]
      for quantity, scores in several.items()
      for name in results.SHARED
      if name in scores.columns
    }
    for several in (first, second)
  ]
  mine, theirs = columns
  return bool(mine) and all(
    key in theirs and np.array_equal(x, theirs[key]) for key, x in mine.items()
  )


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
  """Tables correlations; None if models are too few, or without a pair.

  frame: `tables.results` of all runs of a report.
  """
  values = {
    key: {
      run: dict(zip(rows.quantity, rows.value, strict=True))
      for run, rows in of_spec.groupby('run', sort=False)
    }
    for key, of_spec in frame[frame.value.notna()].groupby(
      ['world', 'metric', 'spec'], sort=False
    )
  }
  cells: dict[tuple[str, str], dict[str, str]] = {}
  for first, second in itertools.permutations(values, 2):
    (world, metric, spec), (other_world, probe, other_spec) = first, second
    if metric == probe or world != other_world:
      continue
    declared = catalog.metric_class(probe).measures
    names = [k for k, x in declared.items() if x.is_headline or x.derived]
    others = catalog.metric_class(metric).measures
    quantities = [k for k, x in others.items() if x.correlated]
    for quantity, name in itertools.product(quantities, names):
      derived = declared[name].derived or operator.itemgetter(name)
      points = [*_points(values[first], values[second], quantity, derived)]
      columns = [np.array(column) for column in zip(*points, strict=True)]
      between = columns and comparisons.pearson_over_models(*columns)
      if between:
        row = cells.setdefault((world, f'{other_spec}: {name}'), {})
        row[f'{spec}: {quantity}'] = tables.joined(
          tables.rounded(between), f'n={between.clusters}'
        )
  if not cells:
    return None
  table = pd.DataFrame(
    [{'world': w, 'measure': m, **row} for (w, m), row in cells.items()],
    dtype=object,
  ).fillna('')
  if table['world'].nunique() == 1:
    table = table.drop(columns='world')
  return tables.Table('Across models', table, tables.note('across'))


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
