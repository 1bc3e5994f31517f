"""Chooses the worst trials of each model, which the explorer lists.

The worst trials have the lowest values of a headline quantity, below 1. Equal
values are ordered by a hash of the trials' states, so that every model shows
the same ones. A state is shown once; a second trial of it is shown only if
there are fewer states than trials to show, and then with another continuation.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from wm.core import basics
from wm.reporting import catalog, collect, tables
from wm.reporting.collect import Run

BEST = 1.0  # Headline quantities are shares; a trial with this is no failure.

# What is read of rows.csv.
_COLUMNS = (
  *('metric', 'spec', 'quantity', 'row', 'trial'),
  *('suffix', 'prefix', 'other_prefix', 'state', 'other_state'),
)


class Trial(NamedTuple):
  """One trial, as rows.csv has it; '' and () where a metric writes no such
  column.

  Attributes:
    number: of its row.
    value: measured.
    prefixes: one prefix or two, tokens joined by blanks.
    states: what they reach, in the world's written form.
    suffix: tokens of the continuation that tells.
    wrong_at: place in it, from 1, where model and world part; 0 is unknown.
  """

  number: str
  value: float
  prefixes: tuple[str, ...]
  states: tuple[str, ...]
  suffix: tuple[str, ...]
  wrong_at: int


class Group(NamedTuple):
  """The worst trials of one quantity of one run.

  Attributes:
    metric: name.
    spec: canonical spec of the metric.
    quantity: headline quantity; a series NAME_0.5 counts as NAME.
    tells: what the continuation of a trial is, as declared, or ''.
    measured: number of trials measured.
    short: those that fall short of BEST.
    trials: the worst.
  """

  metric: str
  spec: str
  quantity: str
  tells: str
  measured: int
  short: int
  trials: tuple[Trial, ...]


def groups(run: Run, most: int) -> list[Group]:
  """Returns the worst trials of each metric of a run, in its plainest spec.

  Quantities whose rows have neither prefix nor state are left out.

  Raises:
    InputError: a rows.csv is damaged.
  """
  specs = {
    name: spec
    for name, spec in tables.plainest(run.entries).items()
    if catalog.is_known(name)
  }
  by = ['metric', 'quantity']
  values = collect.trials(run, [*by, 'spec'], ['value'])
  plain = values.metric.isin(specs) & values.spec.isin(specs.values())
  values = values[plain & values.value.notna()]
  several: dict[tuple[str, str], list[pd.Series]] = {}
  for (metric, quantity), rows in values.groupby(by, sort=False, observed=True):
    if name := tables.headline(metric, quantity)[0]:
      several.setdefault((metric, name), []).append(rows.value)
  measured = {key: pd.concat(parts) for key, parts in several.items()}
  short = {  # Values are shown with three digits.
    key: value[value < BEST - 0.0005].sort_index()
    for key, value in measured.items()
  }
  at = np.concatenate([value.index for value in short.values()] or [[]])
  table = collect.trials(run, _COLUMNS, ('value', 'wrong_at'), at.astype(int))
  cells = {name: table[name].to_numpy(object) for name in table}
  result, end = [], 0
  for (metric, quantity), value in measured.items():
    begin, end = end, end + len(short[metric, quantity])
    rows = {name: column[begin:end] for name, column in cells.items()}
    shown = tuple(_trial(rows, k) for k in _worst(rows, most))
    if shown or begin == end:
      measure = catalog.measure(metric, quantity)
      tells = measure.picture if measure else ''
      about = quantity, tells, len(value), end - begin
      result.append(Group(metric, specs[metric], *about, shown))
  return result


def _trial(rows: Mapping[str, np.ndarray], k: int) -> Trial:
  row = {name: column[k] for name, column in rows.items()}
  trial = row['trial']
  number = row['row'] if pd.isna(trial) or trial == '' else trial
  prefixes, states = (
    tuple(filter(None, (row[name], row[f'other_{name}'])))
    for name in ('prefix', 'state')
  )
  at = 0 if math.isnan(row['wrong_at']) else int(row['wrong_at'])
  suffix = tuple(row['suffix'].split())
  return Trial(f'{number}', row['value'], prefixes, states, suffix, at)


def _worst(rows: Mapping[str, np.ndarray], most: int) -> list[int]:
  """Chooses at most `most` of the rows, see the module's docstring."""
  names = 'state', 'other_state', 'prefix', 'other_prefix'
  several = zip(*(rows[name] for name in names), strict=True)
  keys = [
    tuple(filter(None, cells[:2])) or tuple(filter(None, cells[2:]))
    for cells in several
  ]
  codes = [zlib.crc32('|'.join(key).encode()) for key in keys]
  hashes = basics.hash64(np.array(codes, np.int64))
  order = [*zip(rows['value'].tolist(), hashes.tolist(), strict=True)]
  ranked = np.lexsort((hashes, rows['value'].astype(float)))[::-1].tolist()
  states = {keys[k][0]: k for k in ranked if keys[k]}  # The first is kept.
  fresh = sorted(states.values(), key=order.__getitem__)[:most]
  if len(fresh) < most:
    suffix = rows['suffix']
    by_suffix = {suffix[k]: k for k in ranked if suffix[k] and keys[k]}
    again = [by_suffix[text] for text in sorted(by_suffix)]
    seen = {suffix[k] for k in fresh}
    again = [k for k in again if suffix[k] not in seen]
    fresh += sorted(again, key=order.__getitem__)[: most - len(fresh)]
  return sorted(fresh, key=order.__getitem__)
