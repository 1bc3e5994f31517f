"""Chooses the worst trials of each model, and draws them.

The worst trials have the lowest values of a headline quantity, below 1. Equal
values are ordered by a hash of the trials' states, so that every model shows
the same ones. A state is shown once; a second trial of it is shown only if
there are fewer states than trials to show, and then with another continuation.
"""

from __future__ import annotations

import functools
import hashlib
import math
import shlex
import urllib.parse
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from wm import core
from wm.core import basics, registry
from wm.reporting import catalog, collect, tables
from wm.reporting.collect import Run

MOST = 3  # Trials of each model, metric and quantity.
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


def groups(runs: Sequence[Run], most: int = MOST) -> list[list[Group]]:
  """Returns, for each run, the worst trials of each metric in its plainest
  spec.

  Quantities whose rows have neither prefix nor state are left out.

  Raises:
    InputError: a rows.csv is damaged.
  """
  return [_of_run(run, most) for run in runs]


def _of_run(run: Run, most: int) -> list[Group]:
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


# Links: between a page's trial and the explorer.


def anchor(run: Run, group: Group, trial: Trial) -> str:
  """The id of a trial on a page, the same in every report of the run."""
  text = repr((run.name, run.world, group.spec, group.quantity, trial))
  return f'trial-{hashlib.sha256(text.encode()).hexdigest()[:12]}'


def fragment(run: Run, group: Group, trial: Trial) -> str:
  """What restores a trial in the explorer, after the '#' of its address.

  Returns:
    '' where the trial has no prefix, as there is no way to its state.
  """
  if not trial.prefixes:
    return ''
  fields = {
    'tab': 'worst',
    'prefix': trial.prefixes[0],
    'other': ''.join(trial.prefixes[1:2]),
    'suffix': ' '.join(trial.suffix),
    'at': trial.wrong_at,
    'model': run.folder.name,
    'trial': anchor(run, group, trial),
  }
  return urllib.parse.urlencode({k: v for k, v in fields.items() if v})


def command(run: Run, opened: str) -> str:
  """The command that opens the explorer of a run at a `fragment`."""
  first = run.entries[0]
  flags = {'run': str(run.folder)}
  if first.get('checkpoint') == 'none':
    spec = first.get('model_spec') or run.name
    flags = {'world': run.world, 'model': spec, 'checkpoint': 'none'}
  flags['open'] = opened
  words = [f'--{name}={shlex.quote(value)}' for name, value in flags.items()]
  return ' '.join(['python launch/explore.py', *words])


# Pictures.


class Scene(NamedTuple):
  """One picture: SVG, and what it shows."""

  drawing: str
  caption: str


class Painter:
  """Draws trials of one world."""

  def __init__(self, spec: str):
    """Args: spec: of the world. Raises InputError where it cannot be had."""
    self.world = registry.make('world', spec)
    self.ids = {word: n for n, word in enumerate(self.world.vocab)}
    # Models fall short in the same states and after the same prefixes.
    self._drawings: dict[bytes, str] = {}
    self._reached = functools.cache(self._reach)

  def _render(self, state: np.ndarray) -> str:
    """The drawing of a state [W]."""
    key = state.tobytes()
    if key not in self._drawings:
      self._drawings[key] = self.world.render(state)
    return self._drawings[key]

  def scenes(self, trial: Trial) -> list[Scene]:
    """Draws, for each prefix, the state where model and world part; that which
    the prefix reaches where no such place is known.

    Two prefixes of one state give one picture. There are none if the world
    knows neither prefix nor state.
    """
    if not isinstance(self.world, core.Written):
      return []
    states = self._states(trial)
    names = ['the first prefix', 'the other prefix']
    if len(states) == 1:
      names = ['the prefix']
    elif states and len(np.unique(self.world.state_id(np.stack(states)))) == 1:
      names, states = ['either prefix'], states[:1]
    result = []
    for name, state in zip(names, states, strict=False):
      steps, parted, verdict = self._parting(state, trial)
      on = f'{steps} token{"s" * (steps > 1)} of the continuation'
      where = f'After {name}' + (f' and {on}' if steps else '')
      caption = f'{where}: {verdict}' if verdict else where
      result.append(Scene(self._render(parted), caption))
    return result

  def _states(self, trial: Trial) -> list[np.ndarray]:
    """Returns the state [W] of every prefix; [] if one is unknown."""
    prefixes, written = trial.prefixes, trial.states
    if not prefixes or (written and len(written) != len(prefixes)):
      prefixes = ('',) * len(written)
    if not written:
      written = ('',) * len(prefixes)
    pairs = zip(prefixes, written, strict=True)
    states: list[Any] = [self._reached(*pair) for pair in pairs]
    return [] if any(state is None for state in states) else states

  def _reach(self, prefix: str, written: str) -> np.ndarray | None:
    """Returns the state [W] after a prefix, else the one that is written.

    The state after a prefix is preferred: it knows the last move.

    prefix: tokens joined by blanks, or ''. written: the state, or ''.
    """
    tokens = self._tokens(prefix.split())
    if prefix and tokens is not None:
      steps, state = self._walk(self.world.init(1)[0], tokens)
      if steps == len(tokens):
        return state
    if not written:
      return None
    try:
      return self.world.parse(written)[0]
    except core.InputError:
      return None  # Written by another version of the world.

  def _tokens(self, words: Sequence[str]) -> np.ndarray | None:
    if not all(word in self.ids for word in words):
      return None
    return np.array([self.ids[word] for word in words], np.int32)

  def _walk(
    self, state: np.ndarray, tokens: np.ndarray
  ) -> tuple[int, np.ndarray]:
    """Follows tokens from a state [W]: how many are legal, and the state
    there.
    """
    length = np.array([len(tokens)], np.int32)
    steps, states = self.world.walk(state[None], tokens[None], length)
    return int(steps[0]), states[0]

  def _parting(
    self, state: np.ndarray, trial: Trial
  ) -> tuple[int, np.ndarray, str]:
    """Returns the tokens before `wrong_at`, the state there, and a verdict on
    the token: legal, illegal, or '' if the place is unknown.
    """
    tokens = self._tokens(trial.suffix)
    if tokens is None or not 1 <= trial.wrong_at <= len(tokens):
      return 0, state, ''
    before = trial.wrong_at - 1
    steps, parted = self._walk(state, tokens[:before])
    legal = self.world.legal(parted[None])[0, tokens[steps]]
    verdict = 'legal' if legal else 'illegal'
    early = ' already' if steps < before else ''
    return steps, parted, f'{trial.suffix[steps]} is {verdict} here{early}'


class Gallery(NamedTuple):
  """The worst trials of a run, as a page shows them.

  Attributes:
    run: whose.
    legend: what the pictures show; '' where there are none.
    missing: why there are none; '' where there are, or nothing is to be shown.
    perfect: 'metric: quantity (n)' of each without a trial below 1.
    groups: those with such trials, each with its trials and their pictures,
      see `Painter.scenes`.
  """

  run: Run
  legend: str
  missing: str
  perfect: list[str]
  groups: list[tuple[Group, list[tuple[Trial, list[Scene]]]]]


def galleries(
  runs: Sequence[Run], groups: Sequence[list[Group]]
) -> list[Gallery]:
  """Makes a gallery for each run that has groups of trials."""
  pairs = zip(runs, groups, strict=True)
  painter_of = functools.cache(Painter)  # One for each world.
  return [_gallery(run, mine, painter_of) for run, mine in pairs if mine]


def _gallery(
  run: Run, mine: Sequence[Group], painter_of: Callable[[str], Painter]
) -> Gallery:
  shown = [group for group in mine if group.trials]
  painter, legend, missing = None, '', ''
  if shown:
    try:
      painter = painter_of(run.world)
      legend = catalog.picture(run.world)
    except core.InputError as error:
      missing = str(error)
  return Gallery(
    run,
    legend,
    missing,
    [f'{g.spec}: {g.quantity} ({g.measured})' for g in mine if not g.short],
    [
      (group, [(t, painter.scenes(t) if painter else []) for t in group.trials])
      for group in shown
    ],
  )
