"""Rows of a study: what is trained and scored, and the settings of each.

A line such as 'walks: MODEL on WORLD with steps=500' comes in; a `Row` goes
out, by `rows_of` with its model and worlds made. `study` runs such rows.

The setting `match` names what a row has as much of as the first trained row
without a match: 'sequences' (num is the other's number of distinct training
sequences), 'steps' of training, or both, 'sequences+steps'. `resolve_matches`
puts numbers in its place, for which the other's data are sampled first, by the
same seed. A row is then trained as if the numbers had been written down.

`crossed` puts every trained row at each place of a grid, such as its seeds.
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

# What a row may have to itself.
SETTINGS: dict[str, dataclasses.Field] = {
  **{name: field for name, (field, _) in options.declared(Sampling).items()},
  **{name: field for name, (field, _) in options.declared(Training).items()},
  **{name: field for name, (field, _) in options.declared(Matching).items()},
  'seeds': options.declared(Units)['seeds'][0],
}
for name in ('seed', 'text', 'distributed', 'coordinator', 'threads'):
  del SETTINGS[name]
# What a grid may vary of a row.
VARIED = {
  **{k: x for k, x in SETTINGS.items() if k not in ('match', 'seeds')},
  SEED: options.declared(Training)[SEED][0],
}
# What is matched -> the setting that it decides.
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
    name: of its folder and its row in tables; letters, digits, underscores.
    model: spec or object; of a study also a `wm.Run` or path of one, or a text
      with a slash, which was trained before.
    trained_on: world that it is trained on first; None: scored as it is.
    scored_in: world that it is scored in; None is `trained_on`, or else the
      study's.
    settings: fields of Sampling and Training that this row has to itself;
      `match` (see `Matching`), and `seeds` of a miniature.
    title: what tables call it; '' is its name. Rows of one title that differ in
      their seed of training alone are a line together.
    data: folder of its sampled data in that of the study, which its seeds
      share; '' is its own folder.
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
      InputError: it is not of this form.
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
    """What it has as much of as another row."""
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
    """The row as another process is told it: specs, without settings."""
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
  """Raises InputError for a setting that rows lack, or a value it cannot have.

  where: what gives it, for the message.
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
  """Rows with objects for specs; raises InputError where one is bad.

  runs: may a model be the folder of a run? It stays text.
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
  """The rows; raises InputError where two have one name."""
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
  """The row's model, or the folder of a run as it is."""
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
  """The row that matched rows have as much as: the first trained one of others.

  Raises:
    InputError: a row that cannot be matched as it says.
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
  """Rows with the numbers that their matches come to, in the same order.

  Args:
    rows: those of one place, as `rows_of` makes them.
    stages: options of the place.
    distinct: counts the different training sequences of a row, which it samples
      first; None where they are not at hand, and the number then stays open.
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
  """All rows at each place of a grid, the last axis fastest.

  A row that is trained has a name, a title and settings by its place. Others
  are the same at every place.

  Raises:
    InputError: no row is trained, or has such a setting; a row has seeds.
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
  """Rows at all places, those that are not trained once."""
  return [
    row
    for same in zip(*crossed, strict=True)
    for row in (same if same[0].trained_on is not None else same[:1])
  ]


def _at(row: Row, place: Place) -> Row:
  """A row at a place of a grid; see `crossed`."""
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
