"""Grids: the axes that vary, and the settings of each grid point (`Place`).

An axis is a name and a map of label -> value. The name is a flag, or
'flagfile', whose values are the flags of a file. A grid point combines these
settings; later ones override earlier ones:

    the defaults
    its flagfiles
    the flags of the sweep itself
    the grid point of an earlier sweep's winner, if the sweep starts from one
    its values on the axes
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
SEED = 'seed'  # Runs that differ only in the seed form one candidate.
_PLAIN = (FILE, 'model', 'world')  # Axes whose labels need no 'NAME='.
MOST = 100_000  # Grid points.
_LONGEST = 60  # Characters of a label made from a value.

Flags = dict[str, Any]
Axes = dict[str, dict[str, Any]]  # Name -> label -> value.
Grid = Mapping[str, Mapping[str, Any] | Sequence[Any]]


@dataclasses.dataclass(frozen=True)
class Place:
  """A grid point.

  Attributes:
    labels: axis -> label.
    flags: all settings.
    chosen: settings from the axes, which a second sweep keeps.
  """

  labels: dict[str, str]
  flags: Flags
  chosen: Flags

  @property
  def name(self) -> str:
    """The joined labels, as a folder name."""
    return _joined(self.labels, _PLAIN) or 'run'

  @property
  def title(self) -> str:
    """The name without the seed: 'slice_d128,human'."""
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
  """Parses axes; merges axes of the same name.

  Args:
    texts: 'NAME=VALUE|VALUE|...'; a value may be 'LABEL: VALUE'.
    value: (flag, text) -> the flag's value.
    read: path of a flagfile -> its flags.

  Raises:
    InputError: a text has another form, or two values share a label.
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
  """Turns a value into a part of a folder name."""
  if name == FILE:
    text = re.split(r'[/\\]', text)[-1].removesuffix('.flags')
  label = re.sub(r'[^\w.+=-]+', '_', text).strip('_.')
  if len(label) > _LONGEST or not label:
    label = label[:40] + hashlib.sha256(text.encode()).hexdigest()[:8]
  return label


def labelled(grid: Grid) -> Axes:
  """Axes of a grid; a value without a label gets its text as the label.

  Raises:
    InputError: two values of an axis share a label.
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
  """All grid points; the first axis varies slowest.

  Args:
    axes: name -> label -> value.
    settings: flags of the sweep itself.
    starts: base settings: the defaults, or winners of an earlier sweep.

  Raises:
    InputError: the grid has more than MOST points.
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
