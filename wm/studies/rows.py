"""Rows of a study: the models to train and score, and their settings.

`Row.parse` turns a line such as 'walks: MODEL on WORLD with steps=500' into a
`Row`. `rows_of` also builds the row's model and worlds. `study` runs rows.

The setting `match` equalizes a row with its partner, the first trained row
without a match. Values: 'sequences' (num becomes the partner's number of
distinct training sequences), 'steps' (of training), or 'sequences+steps'.
`resolve_matches` samples the partner's data first, with the same seed, and
replaces `match` by these numbers.

`crossed` copies every trained row to each grid point, such as each seed.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wm import core, options
from wm.core import inputs, registry
from wm.library import loading
from wm.options.calls import Matching, Sampling, Stages, Units
from wm.options.training import Training
from wm.studies.grid import SEED, Grid, Place, labelled, places

# Settings that a single row may override.
SETTINGS: dict[str, dataclasses.Field] = {
  **{name: field for name, (field, _) in options.declared(Sampling).items()},
  **{name: field for name, (field, _) in options.declared(Training).items()},
  **{name: field for name, (field, _) in options.declared(Matching).items()},
  'seeds': options.declared(Units)['seeds'][0],
}
for name in ('seed', 'distributed', 'coordinator', 'threads'):
  del SETTINGS[name]
# Settings of a row that a grid may vary.
VARIED = {
  **{k: x for k, x in SETTINGS.items() if k not in ('match', 'seeds')},
  SEED: options.declared(Training)[SEED][0],
}
# Value of `match` -> the setting that it determines.
DECIDES = {'sequences': 'num', 'steps': 'steps'}
_ROW = (
  r'\s*(\w+)\s*:\s*(.+?)'
  r'(?:\s+in\s+(.+?)|\s+on\s+(.+?)(?:\s+then\s+on\s+(.+?))?)?'
  r'(?:\s+with\s+(.+?))?\s*'
)


@dataclasses.dataclass(frozen=True)
class Row:
  """A model of a study.

  Attributes:
    name: of the run folder and the table row; letters, digits, underscores.
    model: spec or object. A study also takes a model trained before: a
      `wm.Run`, or the path of a run folder (a text with a slash).
    trained_on: training world; None scores the model without training.
    scored_in: world for scoring; None means `trained_on`, or else the study's
      world.
    settings: fields of Sampling and Training that only this row overrides;
      `match` (see `Matching`), and `seeds` of a miniature.
    title: name in tables; '' means `name`. Rows that share a title and differ
      only in the training seed share one table line.
    data: subfolder of the study for the sampled data, shared by all seeds; ''
      means the row's own folder.
  """

  name: str
  model: core.Model | str
  trained_on: core.World | str | None = None
  scored_in: core.World | str | None = None
  settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  title: str = ''
  data: str = ''

  @classmethod
  def parse(cls, text: str) -> Row:
    """'NAME: MODEL', '... in WORLD', '... on WORLD', '... then on WORLD'.

    '... with steps=500, lr=3e-3' may follow, or '... with match="sequences"'.

    Raises:
      InputError: the text has another form.
    """
    match = re.fullmatch(_ROW, text)
    if not match:
      expected = "expected 'NAME: MODEL' or 'NAME: MODEL on WORLD'"
      raise core.InputError(f'bad row {text!r}: {expected}')
    name, model, used_in, trained_on, after, settings = match.groups()
    _, bare, values = registry.parse(f'row({settings or ""})')
    for key, value in values.items():
      _check_setting(f'row {name!r}', key, value, SETTINGS)
    if bare:
      raise core.InputError(
        f"bad row {text!r}: expected 'with NAME=VALUE, ...'"
      )
    return cls(name, model, trained_on, used_in or after, values)

  @property
  def kinds(self) -> list[str]:
    """The parts of `match`: 'sequences', 'steps', both or none."""
    match = self.settings.get('match')
    return match.split('+') if match else []

  def stages(self, stages: Stages) -> Stages:
    """Options of all stages, with this row's settings.

    A seed is of training alone: data, trials and maps are those of all rows.
    """
    others = {name: x for name, x in self.settings.items() if name != SEED}
    replaced = stages.replaced(others)
    seed = self.settings.get(SEED, replaced.training.seed)
    training = dataclasses.replace(replaced.training, seed=seed)
    return dataclasses.replace(replaced, training=training)

  def specs(self) -> Row:
    """The row for another process: specs for objects, no settings."""
    return dataclasses.replace(
      self,
      model=spec_of(self.model),
      trained_on=self.trained_on and spec_of(self.trained_on),
      scored_in=self.scored_in and spec_of(self.scored_in),
      settings={},
    )


def _check_setting(
  where: str, name: str, value: Any, available: Mapping[str, dataclasses.Field]
) -> None:
  """Raises InputError for an unknown setting or an invalid value.

  where: source of the setting, for the message.
  """
  inputs.check_known(name, available, f'{where} has no setting {name!r}')
  what, field = f'{where}: {name}={value!r}', available[name]
  if not registry.accepts(value, field):
    expected = f'the type of its default {field.default!r}'
    raise core.InputError(f'{what} is not of {expected}')
  if wrong := options.unmet(value, options.details(field)):
    options.refuse(what, wrong)


def spec_of(plug_in: object) -> str:
  """The spec of a plug-in; text, such as a run's folder, stays as it is."""
  return plug_in if isinstance(plug_in, str) else registry.spec(plug_in)


def rows_of(
  rows: Sequence[Row | str], world: core.World | str, runs: bool = False
) -> list[Row]:
  """Builds the model and worlds of each row; InputError for a bad spec.

  runs: whether a model may be a run folder, which stays text.
  """
  resolved: list[Row] = []
  for entry in rows:
    row = Row.parse(entry) if isinstance(entry, str) else entry
    trained_on = row.trained_on
    if trained_on is not None:
      trained_on = registry.resolve('world', trained_on)
    scored_in = registry.resolve('world', row.scored_in or trained_on or world)
    model = _model(row, runs)
    if trained_on is not None:
      _check_trained(row.name, model, trained_on, scored_in)
    resolved.append(
      dataclasses.replace(
        row, model=model, trained_on=trained_on, scored_in=scored_in
      )
    )
  return _named_apart(resolved)


def _named_apart(rows: list[Row]) -> list[Row]:
  """Returns the rows; raises InputError if two share a name."""
  names = [row.name for row in rows]
  for name in names:
    if names.count(name) > 1:
      raise core.InputError(f'two rows are named {name!r}')
  return rows


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
  """The row's model, or the path of a run folder, unchanged."""
  text = row.model if isinstance(row.model, str) else ''
  if isinstance(row.model, os.PathLike):
    text = os.path.join(os.curdir, row.model)
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


def partner_of(rows: Sequence[Row]) -> Row | None:
  """The row that `match` refers to: the first trained row without a match.

  Raises:
    InputError: the `match` of a row cannot be resolved.
  """
  unmatched = [r for r in rows if r.trained_on is not None and not r.kinds]
  partner = unmatched[0] if unmatched else None
  for row in rows:
    if not row.kinds:
      continue
    what = f'row {row.name!r}: match={row.settings["match"]!r}'
    if row.trained_on is None:
      raise core.InputError(f"{what}: the row is not trained; add 'on WORLD'")
    if partner is None:
      raise core.InputError(
        f'{what}: expected another row that is trained here, without a match'
      )
    for kind in row.kinds:
      data = row.settings.get('data') if kind == 'sequences' else None
      if DECIDES[kind] in row.settings or data:
        raise core.InputError(
          f'{what} decides {DECIDES[kind]}, and {DECIDES[kind]}= or data= was '
          'given: expected one of the two'
        )
    for each in (row, partner):
      if 'steps' in row.kinds and not isinstance(each.model, core.Trainable):
        raise core.InputError(
          f'{what}: {each.name!r} is not trained by steps: '
          f'{spec_of(each.model)}'
        )
  return partner


def resolve_matches(
  rows: Sequence[Row],
  stages: Stages,
  distinct: Callable[[Row], int | None],
  log: Callable[[str], None],
) -> list[Row]:
  """Replaces each `match` by numbers; keeps the order of the rows.

  Args:
    rows: of one grid point, as `rows_of` makes them.
    stages: options of the grid point.
    distinct: samples a row's training sequences and counts the distinct ones;
      None (in a dry run without data) leaves `num` unchanged.
    log: gets the numbers of each match.

  Raises:
    InputError: see `partner_of`.
  """
  partner, resolved = partner_of(rows), []
  for row in rows:
    if row.kinds:
      assert partner is not None  # By `partner_of`.
      numbers: dict[str, Any] = {}
      if 'sequences' in row.kinds:
        numbers['num'] = distinct(partner)
      if 'steps' in row.kinds:
        numbers['steps'] = partner.stages(stages).training.steps
      numbers = {key: n for key, n in numbers.items() if n is not None}
      shown = ', '.join(f'{key}={n}' for key, n in numbers.items())
      log(
        f'{row.name}: matched to {partner.name}: {shown or "not sampled yet"}'
      )
      row = dataclasses.replace(row, settings={**row.settings, **numbers})
    resolved.append(row)
  return resolved


def crossed(rows: Sequence[Row], grid: Grid) -> list[list[Row]]:
  """All rows at each grid point; the last axis varies fastest.

  The grid point changes the name, title and settings of a trained row. Other
  rows are the same at every grid point.

  Raises:
    InputError: no row is trained, the grid names an unknown setting or an
      invalid value, two rows share a name, or a row sets seeds.
  """
  for row in rows:
    if 'seeds' in row.settings:
      raise core.InputError(
        f'row {row.name!r}: seeds={row.settings["seeds"]} is of a miniature; '
        'a study has the same seeds of every row'
      )
  axes = labelled(grid)
  for name, values in axes.items():
    for value in values.values():
      _check_setting('the grid of a study', name, value, VARIED)
  if axes and all(row.trained_on is None for row in rows):
    raise core.InputError(
      "a grid varies rows that are trained; expected one 'on WORLD'"
    )
  if not axes:
    return [[*rows]]
  several = [[_at(row, place) for row in rows] for place in places(axes)]
  _named_apart(flat(several))
  return several


def flat(crossed: Sequence[Sequence[Row]]) -> list[Row]:
  """Rows of all grid points; untrained rows appear once."""
  return [
    row
    for same in zip(*crossed, strict=True)
    for row in (same if same[0].trained_on is not None else same[:1])
  ]


def _at(row: Row, place: Place) -> Row:
  """A row at a grid point; see `crossed`."""
  if row.trained_on is None:
    return row
  varied = [f'{k}={x}' for k, x in place.labels.items() if k != SEED]
  return dataclasses.replace(
    row,
    name=row.name + re.sub(r'\W+', '_', f'_{place.name}'),
    settings={**row.settings, **place.chosen},
    title=', '.join([row.title or row.name, *varied]),
    data=re.sub(r'\W+', '_', '_'.join([row.name, *varied])),
  )
