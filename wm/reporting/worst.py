"""Which trials a report pictures: the worst ones of each metric.

Worst is the lowest measured value of a headline quantity, of those that fall
short of 1. Trials with one value come in the order of a hash of their states,
the same for every model. No state comes twice, unless there are fewer states
than trials to show; then no continuation does.
"""

from __future__ import annotations

import csv
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from wm import core
from wm.core import registry
from wm.reporting import collect, tables
from wm.reporting.collect import Run

MOST = 3  # Trials of each model, metric and quantity.
BEST = 1.0  # Headline quantities are shares; a trial with this is no failure.


class Trial(NamedTuple):
  """One trial as rows.csv has it; '' and () where a metric writes no such.

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
    measured: number of trials measured.
    short: those that fall short of BEST.
    trials: the worst.
  """

  metric: str
  spec: str
  quantity: str
  measured: int
  short: int
  trials: tuple[Trial, ...]


def groups(runs: Sequence[Run], most: int = MOST) -> list[list[Group]]:
  """For each run, the worst trials of the plainest spec of each metric in it.

  Quantities whose rows have neither prefix nor state are left out.

  Raises:
    InputError: a rows.csv is damaged.
  """
  return [_of_run(run, most) for run in runs]


def _of_run(run: Run, most: int) -> list[Group]:
  plain, path = tables.base_specs(run.entries), run.folder / 'rows.csv'
  if not path.is_file():
    return []
  pictured: dict[tuple[str, str], list[Trial]] = {}
  values: dict[tuple[str, str], list[float]] = {}
  with collect.reading(path) as file:
    for line, row in _rows(file, set(plain.values())):
      metric = row.get('metric', '')
      if metric not in plain or row['spec'] != plain[metric]:
        continue
      key = metric, _headline(metric, row.get('quantity', ''))
      if not key[1] or not row.get('value'):
        continue
      trial = _trial(row, f'{path}, line {line}')
      values.setdefault(key, []).append(trial.value)
      if trial.value < BEST and (trial.prefixes or trial.states):
        pictured.setdefault(key, []).append(trial)
  found = []
  for key, given in values.items():
    short = sum(value < BEST for value in given)
    shown = tuple(_worst(pictured.get(key, []), most))
    if shown or not short:
      sizes = len(given), short
      found.append(Group(key[0], plain[key[0]], key[1], *sizes, shown))
  return found


def _rows(
  file: Iterable[str], specs: Collection[str]
) -> Iterator[tuple[int, dict[str, str]]]:
  """(line, row) of these specs; files are long, and most rows are of others."""
  reader = csv.reader(file)
  heads = next(reader, [])
  place = heads.index('spec') if 'spec' in heads else len(heads)
  for line, cells in enumerate(reader, 2):
    if place < len(cells) and cells[place] in specs:
      yield line, dict(zip(heads, cells, strict=False))


def _headline(metric: str, quantity: str) -> str:
  """The headline quantity that this one is, or is of the series of, or ''."""
  wanted = registry.find('metric', metric).headline
  if quantity in wanted:
    return quantity
  name, _, tail = quantity.rpartition('_')
  return name if name in wanted and tables.is_number(tail) else ''


def _trial(row: dict[str, str], where: str) -> Trial:
  def given(*names: str) -> tuple[str, ...]:
    return tuple(row[name] for name in names if row.get(name))

  try:
    value, wrong_at = float(row['value']), int(row.get('wrong_at') or 0)
  except ValueError as error:
    raise core.InputError(f'{where}: {error}') from error
  return Trial(
    row.get('trial') or row.get('row') or '',
    value,
    given('prefix', 'other_prefix'),
    given('state', 'other_state'),
    tuple((row.get('suffix') or '').split()),
    wrong_at,
  )


def _worst(pictured: list[Trial], most: int) -> list[Trial]:
  """At most `most`, by value; a state again only where there are few."""

  def order(trial: Trial) -> tuple[float, int]:
    text = '|'.join(trial.states or trial.prefixes)
    return trial.value, int(core.hash64(zlib.crc32(text.encode())))

  ranked = sorted(pictured, key=order)
  states = {(t.states or t.prefixes)[0]: t for t in ranked[::-1]}
  fresh = sorted(states.values(), key=order)[:most]
  if len(fresh) < most:
    told = {trial.suffix: trial for trial in ranked[::-1] if trial.suffix}
    again = [told[suffix] for suffix in sorted(told)]
    seen = {trial.suffix for trial in fresh}
    again = [trial for trial in again if trial.suffix not in seen]
    fresh += sorted(again, key=order)[: most - len(fresh)]
  return sorted(fresh, key=order)
