"""Rows of a study: what is trained and scored, and the settings of each."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from wm import core, options
from wm.core import registry
from wm.library import loading
from wm.options.calls import Matching, Units
from wm.options.sampling import Sampling
from wm.options.training import Training

# What a row may have to itself.
SETTINGS: dict[str, dataclasses.Field] = {
  **{name: field for name, (field, _) in options.declared(Sampling).items()},
  **{name: field for name, (field, _) in options.declared(Training).items()},
  **{name: field for name, (field, _) in options.declared(Matching).items()},
  'seeds': options.declared(Units)['seeds'][0],
}
for name in ('seed', 'text', 'coordinator', 'threads'):
  del SETTINGS[name]
_ROW = (
  r'\s*(\w+)\s*:\s*(.+?)'
  r'(?:\s+in\s+(.+?)|\s+on\s+(.+?)(?:\s+then\s+on\s+(.+?))?)?'
  r'(?:\s+with\s+(.+?))?\s*'
)


@dataclasses.dataclass(frozen=True)
class Row:
  """A model of a study.

  Attributes:
    name: of its folder and its row in tables; letters, digits, underscores.
    model: spec or object; of a study also the folder of a run, with a slash,
      which was trained before.
    trained_on: world that it is trained on first; None: scored as it is.
    scored_in: world that it is scored in; None is `trained_on`, or else the
      study's.
    settings: fields of Sampling and Training that this row has to itself;
      `match` and `to` (see `Matching`), and `seeds` of a miniature.
  """

  name: str
  model: core.Model | str
  trained_on: core.World | str | None = None
  scored_in: core.World | str | None = None
  settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  @classmethod
  def parse(cls, text: str) -> Row:
    """'NAME: MODEL', '... in WORLD', '... on WORLD', '... then on WORLD'.

    '... with steps=500, lr=3e-3' may follow, or '... with match="sequences"',
    which takes the number of sequences from another row (see `Matching`).

    Raises:
      InputError: it is not of this form.
    """
    match = re.fullmatch(_ROW, text)
    if not match:
      expected = "expected 'NAME: MODEL' or 'NAME: MODEL on WORLD'"
      raise core.InputError(f'bad row {text!r}: {expected}')
    name, model, used_in, trained_on, after, settings = match.groups()
    _, bare, values = registry.parse(f'row({settings or ""})')
    for key, value in values.items():
      if key not in SETTINGS:
        available = registry.suggest(key, [*SETTINGS])
        raise core.InputError(
          f'row {name!r} has no setting {key!r}; {available}'
        )
      if not registry.accepts(value, SETTINGS[key]):
        default = SETTINGS[key].default
        expected = f'the type of its default {default!r}'
        raise core.InputError(
          f'row {name!r}: {key}={value!r} is not of {expected}'
        )
      if wrong := options.unmet(value, options.details(SETTINGS[key])):
        options.refuse(f'row {name!r}: {key}={value!r}', wrong)
    if bare:
      raise core.InputError(
        f"bad row {text!r}: expected 'with NAME=VALUE, ...'"
      )
    return cls(name, model, trained_on, used_in or after, values)

  def own(self, stage: Any) -> Any:
    """Options of a stage, with this row's settings."""
    field_names = {field.name for field in dataclasses.fields(stage)}
    mine = {k: x for k, x in self.settings.items() if k in field_names}
    return dataclasses.replace(stage, **mine)


def rows_of(
  rows: Sequence[Row | str], world: core.World | str, runs: bool = False
) -> list[Row]:
  """Rows with objects for specs; raises InputError where one is bad.

  runs: may a model be the folder of a run? It stays text.
  """
  resolved: list[Row] = []
  for entry in rows:
    row = Row.parse(entry) if isinstance(entry, str) else entry
    if row.name in [other.name for other in resolved]:
      raise core.InputError(f'two rows are named {row.name!r}')
    trained_on = row.trained_on
    if trained_on is not None:
      trained_on = registry.resolve('world', trained_on)
    scored_in = registry.resolve('world', row.scored_in or trained_on or world)
    model = _model(row, runs)
    if trained_on is not None:
      _check_trained(row.name, model, trained_on, scored_in)
    resolved.append(Row(row.name, model, trained_on, scored_in, row.settings))
  return resolved


def _check_trained(
  name: str,
  model: core.Model | str,
  trained_on: core.World,
  scored_in: core.World,
) -> None:
  """Raises InputError where a row cannot be trained and then scored."""
  if not loading.is_trained(model):
    raise core.InputError(
      f'row {name!r}: there is nothing to train in {registry.spec(model)}; '
      "leave out 'on WORLD'"
    )
  if trained_on.vocab != scored_in.vocab:
    raise core.InputError(
      f'row {name!r}: {registry.spec(scored_in)} has another vocabulary than '
      f'{registry.spec(trained_on)}, on which it is trained'
    )


def _model(row: Row, runs: bool) -> core.Model | str:
  """The row's model, or the folder of a run as it is."""
  text = row.model if isinstance(row.model, str) else ''
  if not re.fullmatch(r'[^()]*/[^()]*', text) or registry.is_file(text):
    return registry.resolve('model', row.model)
  if not runs or row.trained_on is not None:
    raise core.InputError(
      f'row {row.name!r}: {text} is a folder; expected a model, as what was '
      "trained before is a row of a study, and 'on WORLD' trains anew"
    )
  if not os.path.isdir(text):
    raise core.InputError(
      f'row {row.name!r}: there is no run in {text}; train it first'
    )
  return text
