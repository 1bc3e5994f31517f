"""Grids: what varies, and the settings of each place.

An axis is a name and its values by label. The name is a flag, or 'flagfile',
whose values are flags of a file. A place takes its settings from, each stronger
than the one before:

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from wm import core
from wm.core import registry

FILE = 'flagfile'
SEED = 'seed'  # Runs that differ in it alone make one candidate.
_PLAIN = (FILE, 'model', 'world')  # Axes whose labels need no 'NAME='.
MOST = 100_000  # Places of a grid.
_LONGEST = 60  # Characters of a label made from a value.

Flags = dict[str, Any]
Axes = dict[str, dict[str, Any]]  # Name -> label -> value.
Grid = Mapping[str, Mapping[str, Any] | Sequence[Any]]


@dataclasses.dataclass(frozen=True)
class Place:
  """A place of a grid.

  Attributes:
    labels: axis -> label.
    flags: all settings.
    chosen: those that the grid makes, which a second sweep keeps.
  """

  labels: dict[str, str]
  flags: Flags
  chosen: Flags

  @property
  def name(self) -> str:
    """Its labels joined, for a folder."""
    return _joined(self.labels, _PLAIN) or 'run'

  @property
  def title(self) -> str:
    """Its name where seeds are put together: 'slice_d128,human'."""
    labels = {key: x for key, x in self.labels.items() if key != SEED}
    joined = _joined(labels, (*_PLAIN, 'data'))
    return joined or registry.parse(self.flags['model'])[0]


def _joined(labels: dict[str, str], plain: Sequence[str]) -> str:
  parts = [
    label if name in plain else f'{name}={label}'
    for name, label in labels.items()
  ]
  return ','.join(parts)


def parse(
  texts: Iterable[str],
  value: Callable[[str, str], Any],
  read: Callable[[str], Flags],
) -> Axes:
  """Axes as written; those of one name are put together.

  Args:
    texts: 'NAME=VALUE|VALUE|...'; a value may be 'LABEL: VALUE'.
    value: (flag, text) -> its value.
    read: flags that a flagfile gives.

  Raises:
    InputError: one is not of this form, or two values have one label.
  """
  axes: Axes = {}
  for text in texts:
    name, equals, rest = text.partition('=')
    name, parts = name.strip(), [part.strip() for part in rest.split('|')]
    if not (equals and name and all(parts)):
      raise core.InputError(
        f"bad grid {text!r}: expected 'FLAG=VALUE|VALUE|...', each value "
        "perhaps as 'LABEL: VALUE'"
      )
    for part in parts:
      match = re.fullmatch(r'([\w.+-]+):\s+(.+)', part)
      label, written = match.groups() if match else (label_of(name, part), part)
      parsed = read(written) if name == FILE else value(name, written)
      _add(axes, name, label, parsed)
  return axes


def label_of(name: str, text: str) -> str:
  """A value as part of a folder's name."""
  if name == FILE:
    text = re.split(r'[/\\]', text)[-1].removesuffix('.flags')
  label = re.sub(r'[^\w.+=-]+', '_', text).strip('_.')
  if len(label) > _LONGEST or not label:
    label = label[:40] + hashlib.sha256(text.encode()).hexdigest()[:8]
  return label


def labelled(grid: Grid) -> Axes:
  """Axes of a grid; values that have no label are labelled as written.

  Raises:
    InputError: two values of an axis are called the same.
  """
  axes: Axes = {}
  for name, values in grid.items():
    axes[name] = {}
    if isinstance(values, Mapping):
      axes[name] |= values
      continue
    for value in values:
      _add(axes, name, label_of(name, str(value)), value)
  return axes


def _add(axes: Axes, name: str, label: str, value: Any) -> None:
  values = axes.setdefault(name, {})
  if label in values:
    raise core.InputError(f'grid {name!r}: two values are called {label!r}')
  values[label] = value


def places(
  axes: Axes,
  settings: Flags | None = None,
  starts: Sequence[Place] = (Place({}, {}, {}),),
) -> list[Place]:
  """Every place of a grid, the first axis slowest.

  Args:
    axes: what varies.
    settings: those that the sweep itself was started with.
    starts: where to start from: the defaults, or winners of an earlier sweep.

  Raises:
    InputError: there are more than MOST.
  """
  sizes = [len(starts), *map(len, axes.values())]
  if math.prod(sizes) > MOST:
    raise core.InputError(
      f'a grid of {" x ".join(map(str, sizes[1:]))} values has '
      f'{math.prod(sizes):,} runs; expected at most {MOST:,}'
    )
  several = []
  at = itertools.product(*axes.values())
  for start, labels in itertools.product(starts, at):
    flags, chosen = dict(start.flags), dict(start.chosen)
    for (name, values), label in zip(axes.items(), labels, strict=True):
      if name == FILE:
        flags |= values[label]
      else:
        chosen[name] = values[label]
    names = dict(zip(axes, labels, strict=True))
    whole = {**flags, **(settings or {}), **chosen}
    several.append(Place(start.labels | names, whole, chosen))
  return several
