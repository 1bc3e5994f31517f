"""Tables differences between trained models on the same trials."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from wm import core
from wm.evaluation import comparisons, results
from wm.reporting import ceilings, tables
from wm.reporting.collect import Entry, Run

TITLE = 'Differences between trained models'
MOST = 4  # Trained models of which each pair is compared.
_OTHER = 'not the same trials'
_MISSING = 'no trials kept'
_FEW, _ALIKE = 'too few clusters', 'the same in each of'
# What two results must share for their trials to be the same.
_SAME = 'world', 'seed', 'spec', 'metric_version', 'world_version'
_SHOWN = 0.001  # Smaller p values are shown as smaller than this.


class _Rows(NamedTuple):
  """A result and its trials; None where they are not kept."""

  entry: Entry
  scores: core.Scores | None


def table(runs: Sequence[Run]) -> tables.Table | None:
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
  if len(trained) > MOST:
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
        _cell(difference, adjusted.get((k, n)))
        for n, difference in enumerate(cells)
      ),
    ]
    for k, (head, cells) in enumerate(compared)
  ]
  frame = pd.DataFrame(rows, columns=['quantity', *names], dtype=object)
  note = _note(len(adjusted), frame, len(trained))
  return tables.Table(TITLE, frame, note, folded=len(pairs) > 6)


def _note(num: int, frame: pd.DataFrame, models: int) -> str:
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
  if models > MOST:
    note += ' Of more than four models, each is compared with the first.'
  return note


def _quantities(
  runs: Sequence[Run],
) -> Iterator[tuple[str, list[_Rows | None]]]:
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
          _rows(run, part, spec, quantity)
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


def _rows(
  run: Run, part: dict[str, core.Scores], spec: str, quantity: str
) -> _Rows | None:
  for entry in run.entries:
    if (tables.spec(entry), entry['quantity']) == (spec, quantity):
      return _Rows(entry, part.get(quantity))
  return None


def _difference(
  first: _Rows | None, second: _Rows | None
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


def _cell(difference: comparisons.Difference | str, p: float | None) -> str:
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
