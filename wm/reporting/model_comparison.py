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
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from wm import core
from wm.core import registry
from wm.evaluation import comparisons, results
from wm.reporting import catalog, ceilings, sentences, tables
from wm.reporting.collect import Entry, Run
from wm.runtime import files, pages

PAIRED_TITLE = 'Differences between trained models'
RECIPES_TITLE = 'Differences between recipes, over seeds'
MOST_PAIRED = 4  # Trained models of which each pair is compared.
_OTHER = 'not the same trials'
_MISSING = 'no trials kept'
_FEW, _ALIKE = 'too few clusters', 'the same in each of'
_SHOWN = 0.001  # Smaller p values are shown as smaller than this.

# A measure, and the places of two runs.
_Place = tuple[str, int, int]


def paired_table(
  runs: Sequence[Run], frame: pd.DataFrame, *, several_seeds: bool = False
) -> tables.Table | None:
  """Tables a row for each headline quantity, a column for each pair of models.

  Args:
    runs: all of a report.
    frame: their `tables.results`.
    several_seeds: compare those that stand for several seeds, whose means over
      seeds differ, and not those of one. A mean has the variance between its
      seeds, and no less than that of their trials; two means are compared by
      Welch's t test.

  Returns:
    The table; None where no two trained models have a quantity in common.
  """
  trained, pairs = _pairs(runs, several_seeds)
  differences: dict[_Place, comparisons.Difference | str] = {}
  shown = frame[(frame.headline != '') & frame.run.isin(trained)]
  for (metric, spec), of_spec in shown.groupby(['metric', 'spec'], sort=False):
    # Trials of one spec are held at a time.
    scores = {}
    if not several_seeds:
      scores = {place: _scores(runs[place], metric, spec) for place in trained}
    for quantity, rows in of_spec.groupby('quantity', sort=False):
      of = rows.drop_duplicates('run').set_index('run').entry
      if several_seeds:
        of = of[of.map(lambda entry: bool(entry['seed_values']))]
      for a, b in pairs:
        if a in of and b in of:
          differences[f'{spec}: {quantity}', a, b] = (
            comparisons.of_means(*map(_mean_over_seeds, (of[a], of[b])))
            if several_seeds
            else _difference(of[a], of[b], scores[a], scores[b])
          )
  if not differences:
    return None
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
  return tables.of_rows(title, rows, note, len(pairs) > 6)


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
  adjusted = comparisons.adjusted([*differences.values()])
  for (quantity, a, b), difference in zip(differences, adjusted, strict=True):
    blank = {'quantity': quantity, **dict.fromkeys(heads.values(), '')}
    row = table.setdefault(quantity, blank)
    row[heads[a, b]] = _difference_cell(difference)
  return [*table.values()]


def null_table(runs: Sequence[Run], frame: pd.DataFrame) -> tables.Table | None:
  """Tables trained models beside null models that err as much.

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
    if measure is not None and measure.likely:
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
        values = sorted({tables.number(entry['value']) for entry in nulls})
        ends += [end for entry in nulls for end in ceilings.ends(entry)]
        cells[f'errors of the {kind}'] = ' to '.join(
          dict.fromkeys((values[0], values[-1]))
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


_DRAWN = 'state', 'prefix', 'other_state', 'other_prefix'  # Of a trial.


def _drawn_alike(
  first: Mapping[str, core.Scores], second: Mapping[str, core.Scores]
) -> bool:
  """Do two results of a metric have the same states and prefixes?"""
  columns = [
    {
      (quantity, name): scores.columns[name]
      for quantity, scores in several.items()
      for name in _DRAWN
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
  small = f'p{"" if p < _SHOWN else "="}{_p_value(p)}'
  cell = tables.joined(shown, small, f'n={difference.n}')
  return cell if low <= 0 <= high else tables.Bold(*cell.pieces)


def _p_value(p: float) -> str:
  return f'<{_SHOWN}' if p < _SHOWN else f'{p:.3f}'


# The page of two runs.

_CUT = 28  # Characters of a state or prefix that a cell shows.
_SURE = 0.05  # A smaller adjusted p is a difference.


def write_page(
  runs: Sequence[Run],
  differences: pd.DataFrame,
  trials: pd.DataFrame,
  folder: pathlib.Path,
) -> pathlib.Path:
  """Writes compare.html: what `wm.compare` found, in words and tables.

  Args:
    runs: the two.
    differences, trials: see `wm.RunComparison`.
    folder: of the page.
  """
  labels = tables.labels(runs)
  of = {*map(sentences.noun, (run.world for run in runs))}
  noun = of.pop() if len(of) == 1 else sentences.THIS_WORLD
  # NaN is None, as in results.
  differences = differences.astype(object).where(differences.notna(), None)
  better = [_better(row, labels) for row in differences.itertuples()]
  page = pages.render(
    *('wm.reporting', 'compare.html'),
    title=f'Does {labels[0]} know {noun} better than {labels[1]}?',
    lead='; '.join(
      f'{label}: {run.folder}, {run.world}'
      for label, run in zip(labels, runs, strict=True)
    ),
    answer=_answer(labels, differences, better),
    differences=_difference_table(labels, differences, better),
    changed=_changed_table(labels, trials),
  )
  path = folder / 'compare.html'
  files.write_text(path, page)
  return path


def _better(row: Any, labels: Sequence[str]) -> str:
  """Which of two models a row of differences calls better, or ''."""
  direction = ceilings.better({'metric': row.metric, 'quantity': row.quantity})
  if not direction or row.p_holm is None or row.p_holm >= _SURE:
    return ''
  return labels[row.difference * direction < 0]


def _answer(
  labels: Sequence[str], differences: pd.DataFrame, better: Sequence[str]
) -> str:
  compared = int(differences.difference.notna().sum())
  counts = {label: better.count(label) for label in labels}
  why = ', '.join(dict.fromkeys(filter(None, differences.note)))
  return tables.note(
    'compared', counts=counts, num=compared, least=_SURE, why=why
  )


def _difference_table(
  labels: Sequence[str], differences: pd.DataFrame, better: Sequence[str]
) -> tables.Table:
  rows = []
  for row, sure in zip(differences.itertuples(), better, strict=True):
    n = f'{row.n}' + (f' in {row.clusters}' if row.clusters < row.n else '')
    values = map(tables.number, (row.value_a, row.value_b))
    ends = {'value': row.difference, 'low': row.low, 'high': row.high}
    kind = tables.Bold if sure else tables.Cell
    rows.append(
      {
        'measure': f'{row.spec}: {row.quantity}',
        **dict(zip(labels, values, strict=True)),
        'difference [95 %]': kind(*tables.interval(ends).pieces),
        'p': '' if row.p_holm is None else _p_value(row.p_holm),
        **{'trials in clusters': n, 'note': row.note or ''},
      }
    )
  frame = pd.DataFrame(rows, dtype=object)
  note = tables.note('differences', first=labels[0], second=labels[1])
  return tables.Table('Differences', frame.loc[:, (frame != '').any()], note)


def _changed_table(
  labels: Sequence[str], trials: pd.DataFrame
) -> tables.Table | None:
  """The shared trials whose values differ most; None of none."""
  texts = ['state', 'prefix', 'other_state', 'other_prefix']
  shown = trials.assign(measure=trials.spec + ': ' + trials.quantity)
  shown[texts] = shown[texts].map(cut)
  numbers = ['a', 'b', 'change']
  shown[numbers] = shown[numbers].map(tables.number)
  shown = shown[['measure', *texts, *numbers, 'trial_key']].astype(object)
  names = dict(zip('ab', labels, strict=True)) | {'trial_key': 'key'}
  names |= {name: name.replace('_', ' ') for name in texts}
  title, note = 'The trials that changed most', tables.note('changed')
  shown = shown.loc[:, (shown != '').any()].rename(columns=names)
  return tables.Table(title, shown, note) if len(shown) else None


def cut(text: str) -> str:
  """The end of a long text, all of it on demand; ends tell prefixes apart."""
  if len(text) <= _CUT:
    return text
  return tables.Cell('… ' + text[-_CUT:].partition(' ')[2], full=text)


# Ends of quantities that are of another point of the same model.
POINTS = ('', '_untrained')


def correlation_table(frame: pd.DataFrame) -> tables.Table | None:
  """Tables correlations; None where there are too few models, or no pair.

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


NORMAL_95 = 1.96  # Half a 95 % interval, in standard deviations.


def wording_table(frame: pd.DataFrame) -> tables.Table | None:
  """Tables headline quantities that have several wordings; None without.

  frame: `tables.results` of all runs of a report.
  """
  by_measure: dict[tuple, dict[tuple, tuple[Entry, Mapping]]] = {}
  shown = frame[(frame.headline != '') & frame.value.notna()]
  specs = [entry.get('model_spec') or '' for entry in shown.entry]
  wordings = {spec: _wording(spec) for spec in dict.fromkeys(specs)}
  for row, spec in zip(shown.itertuples(), specs, strict=True):
    if worded := wordings[spec]:
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
  frame = pd.DataFrame(rows).fillna('–')
  return tables.Table('In other words', frame, tables.note('wordings'))


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


def _wording(spec: str) -> tuple[str, Mapping[str, Any]] | None:
  """The model without the fields that say how, and these with values."""
  name = spec.partition('(')[0]
  if name not in registry.names('model'):
    return None
  cls = registry.find('model', name)
  arguments = registry.parse(spec)[2]
  usual = {field.name: field.default for field in dataclasses.fields(cls)}
  fields = {
    field: arguments.get(field, usual[field]) for field in cls.paraphrases
  }
  if not fields:
    return None
  rest = ', '.join(
    f'{key}={value!r}' for key, value in arguments.items() if key not in fields
  )
  return f'{name}({rest})', fields


def automaton_table(runs: Sequence[Run]) -> tables.Table | None:
  """Tables the automata that models imply beside the world's; None if no run
  has one.
  """
  rows = []
  for run, label in zip(runs, tables.labels(runs), strict=True):
    if (about := run.extraction) is None:
      continue
    row = {
      'model': label,
      'states': f'{about["states"]}' + '+' * bool(about['stopped']),
      'of the world': str(about.get('world_states', '')),
      'agrees on sequences': '{value:.3f} [{low:.3f}, {high:.3f}]'.format(
        **about['agreement']
      ),
      'walks of the world wrong': _bound(about['world_walks']),
      'walks of the model wrong': _bound(about['model_walks']),
    }
    if 'world_states' in about:
      kinds = [edge.get('kind') for edge in about['edges']]
      row |= {
        'distance': f'{about["distance"]:.3g}',
        'pairs told apart': f'{about["told_apart"]} of {about["pairs"]}',
        'merged': str(len(about['merged'])),
        'split': str(len(about['split'])),
        'missing': str(kinds.count('missing')),
        'extra': str(kinds.count('extra')),
      }
    rows.append(row)
  note = tables.note('automata')
  return tables.of_rows('Implied automata', rows, note) if rows else None


def _bound(walks: Mapping[str, Any]) -> str:
  """Walks that differ from an automaton, and at most how many of all do."""
  return f'{walks["differ"]} of {walks["n"]} (at most {walks["at_most"]:.2%})'
