"""The runs of a sweep: a grid over the settings of a training run.

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
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wm import core
from wm.core import registry
from wm.options.training import Training

FILE = 'flagfile'
SEED = 'seed'  # Runs that differ in it alone make one candidate.
_PLAIN = (FILE, 'model', 'world')  # Axes whose labels need no 'NAME='.
MOST = 100_000  # Runs of a grid.
_LONGEST = 60  # Characters of a label made from a value.

Flags = dict[str, Any]
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
class Run:
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


def axis(name: str, values: Mapping[str, Any] | Sequence[Any]) -> Axis:
  """An axis over values, by label, or labelled as they are written."""
  if not isinstance(values, Mapping):
    values = {label_of(name, str(value)): value for value in values}
  choices = [Choice(label, {}, {name: x}) for label, x in values.items()]
  return Axis(name, tuple(choices))


def joined(axes: Sequence[Axis]) -> list[Axis]:
  """Axes of different names; the values of axes of one name are put together.

  Raises:
    InputError: two values of an axis are called the same.
  """
  by_name: dict[str, list[Choice]] = {}
  for axis in axes:
    by_name.setdefault(axis.name, []).extend(axis.choices)
  for name, choices in by_name.items():
    labels = [choice.label for choice in choices]
    twice = [label for label in labels if labels.count(label) > 1]
    if twice:
      raise core.InputError(
        f'grid {name!r}: two values are called {twice[0]!r}'
      )
  return [Axis(name, tuple(choices)) for name, choices in by_name.items()]


def runs(
  axes: Sequence[Axis],
  settings: Flags,
  defaults: Flags,
  winners: Sequence[Run] | None = None,
) -> list[Run]:
  """Every run of the grid, the first axis slowest.

  Args:
    axes: in order; axes of one name are put together.
    given: settings that the sweep itself is given.
    defaults: all settings of a training run.
    winners: runs of an earlier sweep to start from; None is no such sweep.

  Raises:
    InputError: two values of an axis are called the same, or there are more
      than MOST runs.
  """
  axes = joined(axes)
  starts = [Run({}, defaults, {})] if winners is None else winners
  sizes = [len(starts), *(len(axis.choices) for axis in axes)]
  if math.prod(sizes) > MOST:
    raise core.InputError(
      f'a grid of {" x ".join(map(str, sizes[1:]))} values has '
      f'{math.prod(sizes):,} runs; expected at most {MOST:,}'
    )
  return [
    _run(start, axes, choices, settings)
    for start in starts
    for choices in itertools.product(*(axis.choices for axis in axes))
  ]


def _run(
  start: Run,
  axes: Sequence[Axis],
  choices: tuple[Choice, ...],
  settings: Flags,
) -> Run:
  weak, strong = dict(start.flags), {}
  for choice in choices:
    weak.update(choice.weak)
    strong.update(choice.strong)
  chosen = {**start.chosen, **strong}
  labels = {a.name: c.label for a, c in zip(axes, choices, strict=True)}
  return Run({**start.labels, **labels}, {**weak, **settings, **chosen}, chosen)
