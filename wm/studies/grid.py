"""The runs of a sweep: listed from a grid, read from their folders, and ranked.

Axes and settings come in; `runs` lists the runs, `read` says how each stands,
and `write` puts them into OUT/sweep.md, the best first. `sweep` starts them.

An axis is `NAME=VALUE|VALUE|...`: NAME is a flag, or 'flagfile', whose values
are files of flags. `LABEL: VALUE` names a value in tables and folders. A run
takes its settings from, each stronger than the one before:

    the defaults
    its flagfiles
    what the sweep itself is given
    the winner of an earlier sweep that it starts from: its place in that grid
    its place in the grid
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
import pathlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from wm import core
from wm.core import inputs, registry
from wm.options.training import Training
from wm.runtime import files

FILE = 'flagfile'
SEED = 'seed'  # Runs that differ in it alone make one candidate.
_PLAIN = (FILE, 'model', 'world')  # Axes whose labels need no 'NAME='.
MOST = 100_000  # Runs of a grid.
_LONGEST = 60  # Characters of a label made from a value.

Flags = dict[str, Any]
Grid = Mapping[str, Mapping[str, Any] | Sequence[Any]]
USUAL = Training.usual()


@dataclasses.dataclass(frozen=True)
class Choice:
  """One value of an axis.

  Attributes:
    label: unique on its axis.
    weak: settings of a flagfile.
    strong: the setting that the axis makes.
  """

  label: str
  weak: Flags
  strong: Flags


@dataclasses.dataclass(frozen=True)
class Axis:
  """What varies, in the order given."""

  name: str
  choices: tuple[Choice, ...]


@dataclasses.dataclass(frozen=True)
class GridRun:
  """A training run of a sweep.

  Attributes:
    labels: axis -> label.
    flags: all settings of the run, but its folder.
    chosen: those that the grid makes, which a second sweep keeps.
  """

  labels: dict[str, str]
  flags: Flags
  chosen: Flags

  @property
  def name(self) -> str:
    """The run's folder: its labels joined."""
    return _joined(self.labels, _PLAIN) or 'run'

  @property
  def title(self) -> str:
    """Its name where seeds are put together: 'slice_d128,human'."""
    labels = {key: x for key, x in self.labels.items() if key != SEED}
    joined = _joined(labels, (*_PLAIN, 'data'))
    return joined or registry.parse(self.flags['model'])[0]

  @property
  def training(self) -> Training:
    """How it is trained."""
    fields = {field.name for field in dataclasses.fields(Training)}
    return Training(**{k: x for k, x in self.flags.items() if k in fields})

  @property
  def identity(self) -> dict[str, Any]:
    """The settings that decide the result, as JSON values."""
    specs = {key: self.flags[key] for key in ('world', 'model')}
    return {**specs, **self.training.run()}


def _joined(labels: dict[str, str], plain: Sequence[str]) -> str:
  parts = [
    label if name in plain else f'{name}={label}'
    for name, label in labels.items()
  ]
  return ','.join(parts)


def parse_axis(
  text: str,
  value: Callable[[str, str], Any],
  read: Callable[[str], Flags],
) -> Axis:
  """An axis as written.

  Args:
    text: 'NAME=VALUE|VALUE|...'.
    value: (flag, text) -> its value.
    read: flags that a flagfile gives.

  Raises:
    InputError: it is not of this form.
  """
  name, equals, rest = text.partition('=')
  name, parts = name.strip(), [part.strip() for part in rest.split('|')]
  if not (equals and name and all(parts)):
    raise core.InputError(
      f"bad grid {text!r}: expected 'FLAG=VALUE|VALUE|...', each value "
      "perhaps as 'LABEL: VALUE'"
    )
  choices = []
  for part in parts:
    match = re.fullmatch(r'([\w.+-]+):\s+(.+)', part)
    label, written = match.groups() if match else (label_of(name, part), part)
    if name == FILE:
      choices.append(Choice(label, read(written), {}))
    else:
      choices.append(Choice(label, {}, {name: value(name, written)}))
  return Axis(name, tuple(choices))


def label_of(name: str, text: str) -> str:
  """A value as part of a folder's name."""
  if name == FILE:
    text = re.split(r'[/\\]', text)[-1].removesuffix('.flags')
  label = re.sub(r'[^\w.+=-]+', '_', text).strip('_.')
  if len(label) > _LONGEST or not label:
    label = label[:40] + hashlib.sha256(text.encode()).hexdigest()[:8]
  return label


def axes_of(grid: Grid | Sequence[Axis]) -> list[Axis]:
  """The axes of a grid; values have labels, or are labelled as written."""
  if not isinstance(grid, Mapping):
    return [*grid]
  return [_axis(name, values) for name, values in grid.items()]


def _axis(name: str, values: Mapping[str, Any] | Sequence[Any]) -> Axis:
  if not isinstance(values, Mapping):
    values = {label_of(name, str(value)): value for value in values}
  choices = [Choice(label, {}, {name: x}) for label, x in values.items()]
  return Axis(name, tuple(choices))


def runs(
  axes: Sequence[Axis],
  settings: Flags,
  defaults: Flags,
  winners: Sequence[GridRun] | None = None,
) -> list[GridRun]:
  """Every run of the grid, the first axis slowest.

  Args:
    axes: in order; axes of one name are put together.
    settings: those that the sweep itself was started with.
    defaults: all settings of a training run.
    winners: runs of an earlier sweep to start from; None is no such sweep.

  Raises:
    InputError: two values of an axis are called the same, or there are more
      than MOST runs.
  """
  by_name: dict[str, list[Choice]] = {}
  for axis in axes:
    by_name.setdefault(axis.name, []).extend(axis.choices)
  for name, choices in by_name.items():
    labels = [choice.label for choice in choices]
    if twice := [label for label in labels if labels.count(label) > 1]:
      raise core.InputError(
        f'grid {name!r}: two values are called {twice[0]!r}'
      )
  starts = [GridRun({}, defaults, {})] if winners is None else winners
  sizes = [len(starts), *map(len, by_name.values())]
  if math.prod(sizes) > MOST:
    raise core.InputError(
      f'a grid of {" x ".join(map(str, sizes[1:]))} values has '
      f'{math.prod(sizes):,} runs; expected at most {MOST:,}'
    )
  grid_runs = []
  places = itertools.product(*by_name.values())
  for start, place in itertools.product(starts, places):
    flags, chosen = dict(start.flags), dict(start.chosen)
    for choice in place:
      flags |= choice.weak
      chosen |= choice.strong
    names = dict(zip(by_name, (choice.label for choice in place), strict=True))
    grid_runs.append(
      GridRun(start.labels | names, {**flags, **settings, **chosen}, chosen)
    )
  return grid_runs


FOLDER = 'runs'  # OUT/runs/NAME is a run's.
TRAIN, SCORE = 'train', 'score'  # Stages of a run.
DONE, FAILED, RUNNING, WAITING = 'done', 'failed', 'running', 'waiting'
_KEPT = (
  *('parameters', 'step', 'best_loss', 'best_loss_moves', 'best_step'),
  'heldout_loss',
  *('skipped', 'tokens', 'seconds'),
)


@dataclasses.dataclass(frozen=True)
class Standing:
  """A run and what is known of it.

  Attributes:
    status: 'done', 'failed', 'running' or 'waiting'.
    summary: values of its train.json, empty until it is trained; they stay
      while it is scored, and if that fails.
    error: one line on why it failed, else ''.
  """

  run: GridRun
  status: str
  summary: dict[str, Any]
  error: str = ''

  @property
  def loss(self) -> float:
    """Best held-out loss after the prompt; infinite where there is none.

    Runs by earlier versions kept that of all tokens.
    """
    losses = map(self.summary.get, ('best_loss_moves', 'best_loss'))
    return next((loss for loss in losses if loss is not None), math.inf)


@dataclasses.dataclass(frozen=True)
class Candidate:
  """Runs that differ in their seed alone.

  Attributes:
    labels: axis -> label, without the seed's.
    members: one for each seed.
  """

  labels: dict[str, str]
  members: tuple[Standing, ...]

  @property
  def loss(self) -> float:
    """Mean over the seeds of the best held-out loss; infinite if one failed."""
    return sum(member.loss for member in self.members) / len(self.members)

  def best(self, name: str) -> float | None:
    """Mean over the seeds of what was evaluated; None where one lacks it."""
    values = [member.summary.get(f'best_{name}') for member in self.members]
    measured = [value for value in values if value is not None]
    return sum(measured) / len(measured) if measured == values else None

  @property
  def ended(self) -> bool:
    """Whether every seed is done or has failed."""
    return all(member.status in (DONE, FAILED) for member in self.members)


def folder(out: pathlib.Path, run: GridRun) -> pathlib.Path:
  """Folder of a run."""
  return out / FOLDER / run.name


def read(
  out: pathlib.Path, runs: Sequence[GridRun], running: Collection[str] = ()
) -> list[Standing]:
  """Reads how each run stands; `running` names those under way here."""
  rows = []
  for run in runs:
    where = folder(out, run)
    trained, failed = where / 'train.json', where / 'failed.json'
    summary = _kept(files.read_record(trained, {})) if trained.exists() else {}
    error = files.read_record(failed, {'error': str}) if failed.exists() else {}
    if run.name in running:
      rows.append(Standing(run, RUNNING, summary))
    elif error and error.get('stage', TRAIN) == (SCORE if summary else TRAIN):
      rows.append(Standing(run, FAILED, summary, error['error']))
    else:
      rows.append(Standing(run, DONE if summary else WAITING, summary))
  return rows


def _kept(summary: dict[str, Any]) -> dict[str, Any]:
  """What the table holds of a train.json."""
  best = {key: x for key, x in summary.items() if key.startswith('best_')}
  return {**{key: summary.get(key) for key in _KEPT}, **best}


def groups(
  standings: Sequence[Standing], per: Sequence[str]
) -> dict[tuple[str, ...], list[Candidate]]:
  """Candidates by their labels on the axes `per`, the best first.

  Raises:
    InputError: the grid has no such axis.
  """
  together: dict[tuple, list[Standing]] = {}
  for standing in standings:
    labels = standing.run.labels
    for name in per:
      text = f'--per={name}: no axis of the grid is called so'
      inputs.check_known(name, labels, text)
    key = tuple(item for item in labels.items() if item[0] != SEED)
    together.setdefault(key, []).append(standing)
  ranked: dict[tuple[str, ...], list[Candidate]] = {}
  for key, members in together.items():
    candidate = Candidate(dict(key), tuple(members))
    group = tuple(members[0].run.labels[name] for name in per)
    ranked.setdefault(group, []).append(candidate)
  return {
    group: sorted(candidates, key=lambda c: (not c.ended, c.loss))
    for group, candidates in ranked.items()
  }


def write(
  out: pathlib.Path, standings: Sequence[Standing], per: Sequence[str]
) -> None:
  """OUT/sweep.json and OUT/sweep.md."""
  rows = []
  for standing in standings:
    run = dataclasses.asdict(standing.run)
    about = {'status': standing.status, **standing.summary}
    error = {'error': standing.error} if standing.error else {}
    rows.append({'name': standing.run.name, **about, **error, **run})
  files.write_json(out / 'sweep.json', {'per': list(per), 'runs': rows})
  files.write_text(out / 'sweep.md', _page(standings, per))


def winners(path: str | pathlib.Path, top: int) -> list[GridRun]:
  """The `top` best candidates of each group of a sweep that has ended.

  Each comes as a run: its first seed's, without the seed.

  Raises:
    InputError: no such sweep, or some of its runs have not ended.
  """
  path = pathlib.Path(path) / 'sweep.json'
  book = files.read_json(path)
  with inputs.reading(path, 'the table of a sweep'):
    standings = [_standing(row, str(path)) for row in book['runs']]
    per = book['per']
    if not all(set(per) <= s.run.labels.keys() for s in standings):
      raise ValueError(f'per is {per}')
    open_ = sum(s.status not in (DONE, FAILED) for s in standings)
    if open_:
      raise core.InputError(
        f'{path}: {open_} of {len(standings)} runs have not ended; go on with '
        'that sweep first'
      )
    best_runs = []
    for group, candidates in groups(standings, per).items():
      best = [c for c in candidates if math.isfinite(c.loss)][:top]
      if not best:
        raise core.InputError(f'{path}: every run of {", ".join(group)} failed')
      best_runs += [_without_seed(candidate) for candidate in best]
    return best_runs


def _standing(row: Any, where: str) -> Standing:
  """A row of the table; raises InputError."""
  kinds = {'labels': dict, 'flags': dict, 'chosen': dict, 'status': str}
  files.record(row, where, kinds, dict.fromkeys(_KEPT, int | float | None))
  run = GridRun(row['labels'], row['flags'], row['chosen'])
  return Standing(run, row['status'], _kept(row))


def _without_seed(candidate: Candidate) -> GridRun:
  run = candidate.members[0].run
  chosen = {key: x for key, x in run.chosen.items() if key != SEED}
  return GridRun(candidate.labels, run.flags, chosen)


def _page(standings: Sequence[Standing], per: Sequence[str]) -> str:
  counts = [
    f'{sum(s.status == status for s in standings)} {status}'
    for status in (DONE, FAILED, RUNNING, WAITING)
  ]
  lines = [
    *(f'# Sweep: {len(standings)} runs; {", ".join(counts)}', ''),
    *('Losses are held-out, in nats, at the best evaluation of a run.', ''),
  ]
  ranked = groups(standings, per)
  axes = [name for name in standings[0].run.labels if name != SEED]
  more = _more(standings)
  head = [*axes, 'runs', 'loss', 'spread', *more]
  head += ['step', 'seconds', 'status']
  best = [c[0] for c in ranked.values() if c[0].ended]
  lines += [f'## Best{" per " + ", ".join(per) if per else ""}', '']
  lines += _table(head, [_cells(candidate, axes, more) for candidate in best])
  lines += [_shared_winners(ranked, name) for name in more]
  lines += ['' * bool(more), '## All, the best first', '']
  cells = [_cells(c, axes, more) for group in ranked.values() for c in group]
  return '\n'.join(lines + _table(head, cells))


def _shared_winners(
  ranked: Mapping[tuple[str, ...], Sequence[Candidate]], name: str
) -> str:
  """In how many groups the best by loss is the best by a share, too.

  Walker and Lyons 2026, appendix C.
  """
  shared = groups = 0
  for candidates in ranked.values():
    # best first: the winner by loss is candidates[0].
    values = [candidate.best(name) for candidate in candidates]
    measured = [value for value in values if value is not None]
    if len(measured) == len(values) > 1:
      groups += 1
      shared += measured[0] == max(measured)
  return f'The best by loss is the best by {name} in {shared} of {groups}.'


def _more(standings: Sequence[Standing]) -> list[str]:
  """Names of what was evaluated besides losses and their parts."""
  keys = {key: None for standing in standings for key in standing.summary}
  names = [key.removeprefix('best_') for key in keys if 'best_' in key]
  return [n for n in names if n != 'step' and not n.startswith('loss')]


def _cells(
  candidate: Candidate, axes: Sequence[str], more: Sequence[str]
) -> list[str]:
  done = [m for m in candidate.members if m.summary]
  losses = [member.loss for member in done]
  errors = [m.error for m in candidate.members if m.error]
  statuses = sorted({member.status for member in candidate.members})
  several = len(losses) > 1
  return [
    *(candidate.labels[name] for name in axes),
    f'{len(done)}/{len(candidate.members)}',
    f'{sum(losses) / len(losses):.6g}' if losses else '',
    f'{max(losses) - min(losses):.2g}' if several else '',
    *(_written(Candidate({}, tuple(done)).best(name)) for name in more),
    ', '.join(str(m.summary['best_step']) for m in done),
    f'{sum(m.summary["seconds"] or 0 for m in done):.0f}' if done else '',
    ', '.join(statuses) + (f': {errors[0]}' if errors else ''),
  ]


def _written(value: float | None) -> str:
  return '' if value is None else f'{value:.4g}'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
  lines = [head, ['---'] * len(head), *rows]
  cells = [[text.replace('|', r'\|') for text in line] for line in lines]
  return [*('| ' + ' | '.join(line) + ' |' for line in cells), '']
