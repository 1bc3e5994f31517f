"""The cross: which metrics agree over models, and which tells of a change?

A cross is a folder of miniatures, one for each world, with rows of the same
recipes in each. FOLDER/findings.json has its design under "registration":

    status        'draft' or 'registered'; a draft has no verdicts
    date          ISO day on which the design was fixed
    pending       the conditions that a draft waits for, a list of sentences
    worlds        names of miniatures; WORLD.flags has the last level
    families, sizes, data
                  a recipe is FAMILY_SIZE_DATA for one of each; rows are so
                  named, of an earlier level RECIPE_LEVEL in WORLD_early.flags
    levels        numbers of levels of training, ascending
    seeds         of each row
    first_seed    the first of them; default 0
    metrics       name -> measure, in the order of pages
    control       measure that is held constant: the excess loss
    criteria      measures that metrics should predict, the deciding one first
    rules         fields of `wm.lab.agreement.AgreementRules`
    hypotheses, exceptions, pilot, power
                  in words and numbers, for readers

A measure is

    metric, quantity, where   as in a finding
    also         another quantity of the metric: their harmonic mean counts
    floor        the value scaled to 0: 'untrained', which is the default and
                 means the row untrained_FAMILY_SIZE; a number; or a quantity of
                 the same unit
    ceiling      the value scaled to 1: a row such as 'bayes', or a number
    variants     label -> another metric, which is not analysed

FOLDER/prediction.json, where there is one, names two metrics of the design
("metrics", the second one last) and models that nobody had measured when it was
committed ("not_seen", each with worlds, size, levels and seeds). It predicts
that the metrics agree more in cells whose models have more of the second.

Results count if they are of committed code, and record the hash of this
registration and its flags (`wm.lab.findings`); others are refused, and so
is a unit of another version of a metric than most units are of. Here they are
read, scaled and analysed; `wm.lab.cross_page` shows them.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
import scipy.stats

from wm import core
from wm.core import inputs
from wm.lab import agreement, findings, units
from wm.lab.agreement import Added, AgreementRules, MetricAgreement
from wm.lab.findings import REGISTRATION, Quantity
from wm.lab.units import Unit
from wm.runtime import files

DRAFT, REGISTERED, INTERIM = 'draft', 'registered', 'interim'
UNTRAINED = 'untrained'
_NUMBER = int | float


class ScaledMeasure(NamedTuple):
  """A quantity that models are compared by; see the module.

  Attributes:
    parts: one quantity, or two whose harmonic mean counts.
    floor: UNTRAINED, a number, or a quantity of the same unit.
    ceiling: a row, or a number.
  """

  parts: tuple[Quantity, ...]
  floor: str | float | Quantity
  ceiling: str | float


@dataclasses.dataclass(frozen=True)
class Design:
  """A registration; see the module."""

  status: str
  date: str
  pending: Sequence[str]
  worlds: Sequence[str]
  families: Sequence[str]
  sizes: Sequence[str]
  data: Sequence[str]
  levels: Sequence[int]
  seeds: int
  first_seed: int
  metrics: Mapping[str, ScaledMeasure]
  control: str
  criteria: Sequence[str]
  rules: AgreementRules
  hash: str

  @property
  def compared(self) -> list[str]:
    """Metrics that are neither the control nor a criterion."""
    return [m for m in self.metrics if m not in (self.control, *self.criteria)]

  @property
  def recipes(self) -> dict[str, str]:
    """Recipe -> the row of its untrained model."""
    kinds = itertools.product(self.families, self.sizes, self.data)
    return {f'{f}_{s}_{d}': f'{UNTRAINED}_{f}_{s}' for f, s, d in kinds}

  def rows(self) -> dict[str, tuple[str, int, str]]:
    """Row -> its recipe, level, and what follows the world in its miniature."""
    last = self.levels[-1]
    return {
      recipe if level == last else f'{recipe}_{level}': (
        *(recipe, level),
        '' if level == last else '_early',
      )
      for recipe in self.recipes
      for level in self.levels
    }


_NEEDED = {
  **dict.fromkeys(('status', 'date', 'control'), str),
  **dict.fromkeys(('worlds', 'families', 'sizes', 'data', 'levels'), list),
  **{'metrics': dict, 'seeds': int, 'criteria': list},
}
_OPTIONAL = {
  **dict.fromkeys(('pending', 'hypotheses', 'exceptions'), list),
  **dict.fromkeys(('rules', 'pilot', 'power'), dict),
  'first_seed': int,
}


def load(folder: str | pathlib.Path) -> Design | None:
  """The registration of a folder; None without one.

  Raises:
    InputError: it is malformed; names the field.
  """
  path = pathlib.Path(folder, 'findings.json')
  body = files.read_record(path, {}, {REGISTRATION: dict}).get(REGISTRATION)
  if body is None:
    return None
  where = f'{path}: {REGISTRATION}'
  findings.check(body, where, _NEEDED, _OPTIONAL)
  text = f'{where}: no status {body["status"]!r:.40}'
  inputs.check_known(body['status'], (DRAFT, REGISTERED), text)
  measures = {
    name: _measure(record, f'{where}: {name}')
    for name, record in body['metrics'].items()
  }
  for role, name in (
    ('control', body['control']),
    *(('criterion', name) for name in body['criteria']),
  ):
    inputs.check_known(name, measures, f'{where}: no {role} {name!r:.40}')
  usual = {field.name: _NUMBER for field in dataclasses.fields(AgreementRules)}
  findings.check(body.get('rules', {}), f'{where}: rules', {}, usual)
  return Design(
    **{k: body[k] for k in _NEEDED if k != 'metrics'},
    pending=body.get('pending', []),
    first_seed=body.get('first_seed', 0),
    metrics=measures,
    rules=AgreementRules(**body.get('rules', {})),
    hash=findings.registration_hash(folder),
  )


def _measure(record: Any, where: str) -> ScaledMeasure:
  fields = {'where': dict, 'also': str, 'variants': dict}
  ends = {'floor': str | _NUMBER | dict, 'ceiling': str | _NUMBER}
  needed = {'metric': str, 'quantity': str}
  findings.check(record, where, needed, fields | ends)

  def parts(metric: str) -> tuple[Quantity, ...]:
    """Quantities of a metric: the measure's own, and `also`."""
    shared = {'metric': metric} | {
      key: record[key] for key in ('where',) if key in record
    }
    return tuple(
      findings.quantity({**shared, 'quantity': record[key]}, where)
      for key in ('quantity', 'also')
      if key in record
    )

  floor = record.get('floor', UNTRAINED)
  if isinstance(floor, dict):
    floor = findings.quantity(floor, f'{where}: floor')
  elif isinstance(floor, str) and floor != UNTRAINED:
    raise core.InputError(
      f'{where}: floor is {floor!r:.40}; expected {UNTRAINED!r}, a number or a '
      'quantity'
    )
  return ScaledMeasure(
    parts(record['metric']), floor, record.get('ceiling', 1.0)
  )


class CrossCells(NamedTuple):
  """The results of a cross.

  Attributes:
    models: a row for each world, row, seed and measure of a trained model:
      world, recipe, level, seed, metric, raw, value (scaled), ceiling, reason.
    refused: names of units that do not count, and why.
  """

  models: pd.DataFrame
  refused: Mapping[str, str]


_COLUMNS = (
  *('world', 'recipe', 'level', 'seed', 'metric', 'raw', 'value'),
  *('ceiling', 'reason'),
)


StudyUnits = Mapping[str, Mapping[str, Unit]]  # World -> name -> unit.


def read_units(folder: str | pathlib.Path, design: Design) -> StudyUnits:
  """All results of a folder, those of early levels too.

  Raises:
    InputError: a malformed result.
  """
  return {
    world: {
      f'{world}{suffix}/{unit.name}': unit
      for suffix in ('', '_early')
      for same in units.read_units(
        pathlib.Path(folder, 'results', world + suffix)
      ).values()
      for unit in same
    }
    for world in design.worlds
  }


def cells(every: StudyUnits, design: Design) -> CrossCells:
  """Values of the results that count under the design."""
  rows, refused = design.rows(), dict[str, str]()
  models: list[tuple] = []
  versions = _versions(every)
  for world, units_of in every.items():
    by_row: dict[str, list[Unit]] = {}
    for name, unit in units_of.items():
      if why := _refusal(unit, design, versions):
        refused[name] = why
      else:
        by_row.setdefault(unit.row, []).append(unit)
    for row, (recipe, level, _) in rows.items():
      bottom = by_row.get(design.recipes[recipe], ())
      measured = itertools.product(by_row.get(row, ()), design.metrics.items())
      for unit, (name, of) in measured:
        floor = _end(of.floor, of, unit, bottom)
        ceiling = _end(of.ceiling, of, unit, by_row.get(f'{of.ceiling}', ()))
        value, why = _value(unit, of.parts)
        scaled, why = _scaled(value, floor, ceiling, why)
        about = world, recipe, level, unit.seed, name
        models.append((*about, value, scaled, ceiling, why))
  return CrossCells(pd.DataFrame(models, columns=_COLUMNS), refused)


def _versions(every: StudyUnits) -> dict[str, str]:
  """Metric -> the version that most units were scored by."""
  counts: dict[str, collections.Counter[str]] = {}
  for units_of in every.values():
    for unit in units_of.values():
      for name, version in _metrics(unit):
        counts.setdefault(name, collections.Counter())[version] += 1
  return {name: of.most_common(1)[0][0] for name, of in counts.items()}


def _metrics(unit: Unit) -> set[tuple[str, str]]:
  """Metrics that a unit was scored by, each with its version."""
  described = unit.key.get('metrics', {}).values()
  return {(of['name'], of['version']) for of in described}


def _refusal(unit: Unit, design: Design, versions: Mapping[str, str]) -> str:
  """Why a unit does not count; '' if it does."""
  if not units.is_committed(unit):
    return 'of code that was not committed'
  if unit.rules.get(REGISTRATION) != design.hash:
    return 'of another registration'
  if not 0 <= unit.seed - design.first_seed < design.seeds:
    return 'of a seed that is not registered'
  for name, version in sorted(_metrics(unit)):
    if version != versions[name]:
      return f'of version {version} of {name}, where most have {versions[name]}'
  return ''


def _value(unit: Unit, parts: Sequence[Quantity]) -> tuple[float | None, str]:
  """A measure of a unit; None and why there is none."""
  entries = [units.entry_of(unit, part) for part in parts]
  values = [entry['value'] for entry in entries if entry]
  if 0 in values:  # Of a share that is 0 the other may not be defined.
    return 0.0, ''
  if len(values) == len(parts) and None not in values:
    value = values[0] if len(values) == 1 else scipy.stats.hmean(values)
    return float(value), ''
  names = {part.metric.partition('(')[0] for part in parts}
  for entry in unit.scores:
    if entry['spec'].partition('(')[0] in names and entry['value'] is None:
      reasons = entry.get('unmeasured', {})
      if reasons:
        return None, max(reasons, key=lambda key: reasons[key])
  return None, 'not asked for'


def _end(
  end: str | float | Quantity,
  of: ScaledMeasure,
  unit: Unit,
  row: Sequence[Unit],
) -> float | None:
  """The value that is scaled to 0, or to 1; None if it was not measured.

  end: a number, a quantity of the unit, or the name of a row, which stands for
    the mean over its units, `row`.
  """
  if isinstance(end, Quantity):
    return _value(unit, [end])[0]
  if not isinstance(end, str):
    return float(end)
  every = [_value(each, of.parts)[0] for each in row]
  values = [value for value in every if value is not None]
  return sum(values) / len(values) if values else None


def _scaled(
  value: float | None, floor: float | None, ceiling: float | None, why: str
) -> tuple[float | None, str]:
  if value is None or floor is None or ceiling is None:
    ends = 'no untrained value' if floor is None else 'no ceiling'
    return None, why or ends
  scaled = agreement.scaled(value, floor, ceiling)
  if scaled != scaled:
    return None, 'untrained models reach the ceiling'
  return scaled, ''


class Prediction(NamedTuple):
  """When two metrics should agree; see the module.

  Attributes:
    date: on which it was committed.
    first, second: metrics.
    not_seen: models that test it, each record a world, size, level and seed.
  """

  date: str
  first: str
  second: str
  not_seen: pd.DataFrame


_PREDICTION = {
  **dict.fromkeys(('date', 'question', 'seen', 'prediction', 'rule'), str),
  **{'metrics': dict, 'not_seen': list},
}
_CELLS = {'worlds': list, 'size': str, 'levels': list, 'seeds': list}
CELL = 'world', 'size', 'level'


def load_prediction(
  folder: str | pathlib.Path, design: Design
) -> Prediction | None:
  """The prediction of a folder; None without one.

  Raises:
    InputError: it is malformed; names the field.
  """
  path = pathlib.Path(folder, 'prediction.json')
  if not path.exists():
    return None
  body = files.read_record(path, {})
  findings.check(body, str(path), _PREDICTION, {})
  for name in body['metrics']:
    inputs.check_known(name, design.metrics, f'{path}: no metric {name!r:.40}')
  rows: list[tuple] = []
  for each in body['not_seen']:
    findings.check(each, f'{path}: not_seen', _CELLS, {})
    sizes = [each['size']]
    rows += itertools.product(
      each['worlds'], sizes, each['levels'], each['seeds']
    )
  not_seen = pd.DataFrame(rows, columns=[*CELL, 'seed'])
  first, second = body['metrics']
  return Prediction(body['date'], first, second, not_seen)


def predicted_cells(
  models: pd.DataFrame, design: Design, prediction: Prediction
) -> pd.DataFrame:
  """Agreement of the two metrics in each cell, see `agreement.by_cell`.

  The second metric is 0 where it could not be measured. Columns besides: new,
  whether its models test the prediction; planned, the number of models that the
  design has in it.
  """
  sizes = {
    f'{f}_{s}_{d}': s
    for f, s, d in itertools.product(design.families, design.sizes, design.data)
  }
  raw = models.pivot_table(
    index=['world', 'recipe', 'level', 'seed'],
    columns='metric',
    values='raw',
    sort=False,
  ).reindex(columns=[prediction.first, prediction.second])
  raw.columns = ['first', 'second']
  raw = raw.fillna({'second': 0.0}).reset_index()
  raw['size'] = raw.recipe.map(sizes)
  planned = len(design.families) * len(design.data)
  seeds = prediction.not_seen.groupby([*CELL]).seed.nunique() * planned
  raw = raw.merge(prediction.not_seen.assign(new=True), 'left')
  raw['new'] = raw.new.eq(True)
  cells = agreement.by_cell(raw, [*CELL, 'new'])
  # Cells without a model yet are planned as well.
  due = seeds.rename('planned').reset_index().assign(new=True)
  cells = cells.merge(due, 'outer').fillna({'models': 0, 'planned': 0})
  return cells.sort_values('mean', kind='stable')


class Analysis(NamedTuple):
  """The agreement of metrics over all cells.

  Attributes:
    pairs: of metrics, given the control.
    criteria: criterion -> its agreement with each metric, given the control.
    added: criterion -> R2 of each metric beyond the control.
  """

  pairs: list[MetricAgreement]
  criteria: Mapping[str, list[MetricAgreement]]
  added: Mapping[str, list[Added]]

  @property
  def every(self) -> list[MetricAgreement]:
    """All agreements."""
    return [*self.pairs, *itertools.chain(*self.criteria.values())]


def analyse(models: pd.DataFrame, design: Design) -> Analysis:
  """Agreement at the last level, by the registered rules."""
  last = models[models.level == design.levels[-1]]
  fixed = design.control, design.rules
  metrics = design.compared
  return Analysis(
    agreement.agreements(last, agreement.pairs_of(metrics), *fixed),
    {
      of: agreement.agreements(last, [(of, m) for m in metrics], *fixed)
      for of in design.criteria
    },
    {
      of: agreement.added(last, metrics, design.control, of, design.rules)
      for of in design.criteria
    },
  )
