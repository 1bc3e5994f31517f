"""The cross: which metrics agree over models, and which tells of a change?

A cross is a folder of miniatures, one for each world, with rows of the same
recipes in each. FOLDER/findings.json has its design under "registration":

    status        'draft' or 'registered'; a draft has no verdicts
    date          ISO day on which the design was fixed
    pending       what a draft waits for, a list of sentences
    worlds        names of miniatures; WORLD.flags has the last level
    families, sizes, data
                  a recipe is FAMILY_SIZE_DATA for one of each; rows are so
                  named, of an earlier level RECIPE_LEVEL in WORLD_early.flags
    levels        numbers of levels of training, ascending
    seeds         of each row
    first_seed    the first of them; default 0
    metrics       name -> measure, in the order of pages
    control       measure that is held constant: the excess loss
    criteria      measures that metrics are to tell of, the deciding one first
    exclusions    {"measure": ..., "below" or "above": number}: models whose
                  value at the last level is so are left out, all levels
    rules         fields of `wm.evaluation.agreement.AgreementRules`
    hypotheses, exceptions, pilot, power
                  in words and numbers, for readers

A measure is

    metric, quantity, where   as in a finding
    also         another quantity of the metric: their harmonic mean counts
    floor        what is 0: 'untrained', the row untrained_FAMILY_SIZE, which is
                 the default; a number; or a quantity of the same unit
    ceiling      what is 1: a row such as 'bayes', or a number
    variants     label -> another metric, for the curve of specifications

Results count if they are of committed code, and record the hash of this
registration and its flags (`wm.reporting.findings`); others are refused.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
import scipy.stats

from wm import core
from wm.core import inputs
from wm.evaluation import agreement
from wm.evaluation.agreement import Added, AgreementRules, MetricAgreement
from wm.evaluation.comparisons import Difference
from wm.reporting import charts, findings, tables, units
from wm.reporting.charts import Picture
from wm.reporting.findings import REGISTRATION, Quantity
from wm.reporting.units import Unit
from wm.runtime import files, pages

DRAFT, REGISTERED, INTERIM = 'draft', 'registered', 'interim'
UNTRAINED = 'untrained'
_NUMBER = int | float
_TITLE = 'Which metrics of world models agree?'


class ScaledMeasure(NamedTuple):
  """A quantity that models are compared by; see the module.

  Attributes:
    parts: one quantity, or two whose harmonic mean counts.
    floor: UNTRAINED, a number, or a quantity of the same unit.
    ceiling: a row, or a number.
    variants: label -> the parts with another metric.
  """

  parts: tuple[Quantity, ...]
  floor: str | float | Quantity
  ceiling: str | float
  variants: Mapping[str, tuple[Quantity, ...]]


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
  exclusions: Sequence[Mapping[str, Any]]
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
  **dict.fromkeys(('pending', 'exclusions', 'hypotheses', 'exceptions'), list),
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
    exclusions=[
      _exclusion(each, where, measures) for each in body.get('exclusions', [])
    ],
    hash=findings.registration_hash(folder),
  )


def _exclusion(
  record: Any, where: str, measures: Iterable[str]
) -> dict[str, Any]:
  bounds = {'below': _NUMBER, 'above': _NUMBER}
  findings.check(record, f'{where}: exclusions', {'measure': str}, bounds)
  if record['measure'] not in measures or len(record) != 2:
    raise core.InputError(
      f'{where}: exclusions: expected a measure, and either `below` or `above`'
    )
  return record


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
  variants = {k: parts(x) for k, x in record.get('variants', {}).items()}
  return ScaledMeasure(
    parts(record['metric']), floor, record.get('ceiling', 1.0), variants
  )


class CrossCells(NamedTuple):
  """The results of a cross.

  Attributes:
    models: a row for each world, row, seed and measure of a trained model:
      world, recipe, level, seed, metric, raw, value (scaled), ceiling, reason.
    references: the same of all other rows, without a recipe.
    refused: names of units that do not count, and why.
  """

  models: pd.DataFrame
  references: pd.DataFrame
  refused: Mapping[str, str]


_COLUMNS = (
  *('world', 'recipe', 'level', 'seed', 'metric', 'raw', 'value'),
  *('ceiling', 'reason'),
)


def read(
  folder: str | pathlib.Path,
  design: Design,
  measures: Mapping[str, ScaledMeasure] | None = None,
) -> CrossCells:
  """Results of a folder that count under the design.

  measures: instead of the design's, for its specifications.
  """
  measures = measures or design.metrics
  rows, refused = design.rows(), dict[str, str]()
  models: list[tuple] = []
  others: list[tuple] = []
  for world in design.worlds:
    by_row: dict[str, list[Unit]] = {}
    for suffix in ('', '_early'):
      results = pathlib.Path(folder, 'results', world + suffix)
      for row, same in units.read_units(results).items():
        reasons = {u.seed: _refusal(u, design) for u in same}
        name = f'{world}{suffix}/{row}'
        refused |= {f'{name}-{s}': why for s, why in reasons.items() if why}
        by_row[row] = [u for u in same if not reasons[u.seed]]
    for row, same in by_row.items():
      recipe, level, _ = rows.get(row, (row, 0, ''))
      bottom = by_row.get(design.recipes.get(recipe, ''), ())
      lines = models if row in rows else others
      for unit, (name, of) in itertools.product(same, measures.items()):
        floor = _end(of.floor, of, unit, bottom)
        ceiling = _end(of.ceiling, of, unit, by_row.get(f'{of.ceiling}', ()))
        value, why = _value(unit, of.parts)
        scaled, why = _scaled(value, floor, ceiling, why)
        about = world, recipe, level, unit.seed, name
        lines.append((*about, value, scaled, ceiling, why))
  frame = pd.DataFrame(models, columns=_COLUMNS)
  references = pd.DataFrame(others, columns=_COLUMNS)
  return CrossCells(_kept(frame, design), references, refused)


def _refusal(unit: Unit, design: Design) -> str:
  """Why a unit does not count; '' if it does."""
  if not units.is_committed(unit):
    return 'of code that was not committed'
  if unit.rules.get(REGISTRATION) != design.hash:
    return 'of another registration'
  if not 0 <= unit.seed - design.first_seed < design.seeds:
    return 'of a seed that is not registered'
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


def _kept(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
  """Without the models that an exclusion leaves out."""
  keys = ['world', 'recipe', 'seed']
  last = frame[frame.level == design.levels[-1]]
  for exclusion in design.exclusions:
    of = last[last.metric == exclusion['measure']]
    below, above = exclusion.get('below'), exclusion.get('above')
    out = of[of.raw < below] if above is None else of[of.raw > above]
    gone = pd.MultiIndex.from_frame(out[keys])
    inside = pd.MultiIndex.from_frame(frame[keys]).isin(gone)
    frame.loc[inside, ['value', 'reason']] = None, 'excluded by the rule'
  return frame


class Analysis(NamedTuple):
  """What the cells say.

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


def _entry(mean: Difference) -> tables.Cell:
  """A mean over worlds, and its interval if there are enough of them."""
  if mean.value is None:
    return tables.Cell('–')
  ends = mean.low, mean.high
  more = [] if None in ends else [' [{:.2f}, {:.2f}]'.format(*ends)]
  return tables.Cell(f'{mean.value:.2f}', *more)


def _verdict(design: Design, each: MetricAgreement) -> str:
  if design.status == DRAFT:
    return 'draft: none'
  return f'{"so far " * (design.status == INTERIM)}{each.verdict}'


def agreement_table(
  title: str, several: Sequence[MetricAgreement], design: Design
) -> tables.Table:
  """A row for each pair."""
  rows = [
    {
      'metrics': ', '.join(each.metrics),
      'mean correlation': _entry(each.mean),
      'bootstrap of recipes': '–'
      if each.bootstrap is None
      else '[{:.2f}, {:.2f}]'.format(*each.bootstrap),
      'worlds': str(len(each.by_world)),
      'p': f'{each.p:.2g}',
      'p within margin': f'{each.absent:.2g}',
      'verdict': _verdict(design, each),
    }
    for each in several
  ]
  note = (
    f'Spearman, given {design.control}, corrected for the noise of seeds; mean '
    'over worlds [95 % interval, t over worlds]. p values are adjusted by Holm '
    f'for {len(several)} pairs; the margin is {design.rules.margin:g}.'
  )
  return tables.Table(title, pd.DataFrame(rows, dtype=object), note)


def matrix(analysis: Analysis, design: Design) -> list[list[dict[str, str]]]:
  """Cells of the correlation matrix: text, link and percentages of colours."""
  by_pair = {frozenset(each.metrics): each for each in analysis.every}
  names = [*design.compared, *design.criteria]

  def cell(a: str, b: str) -> dict[str, str]:
    """Of two measures; '1' of one."""
    each = by_pair.get(frozenset((a, b)))
    if each is None:  # One metric, or two criteria.
      return {'text': '1' if a == b else '–', 'link': '', 'shade': '0 0'}
    value = each.mean.value or 0.0
    shade = f'{50 * max(value, 0):.0f} {50 * max(-value, 0):.0f}'
    return {
      'text': str(_entry(each.mean)),
      'link': _anchor(each),
      'shade': shade,
    }

  return [[cell(a, b) for b in names] for a in names]


def _anchor(each: MetricAgreement) -> str:
  return '-'.join(('pair', *each.metrics))


def _panels(
  frame: pd.DataFrame, columns: tuple[str, str, str], by: str, **more: Any
) -> list[charts.Panel]:
  """A panel of marks for each value of `by`.

  Args:
    frame: a row for each mark.
    columns: x, y, and what colours tell apart; x and y are titles too.
    by: column.
    **more: further keys of every mark; `about` names a column.
  """
  x, y, model = columns
  panels = []
  for name, of in frame.dropna(subset=[x, y]).groupby(by, sort=False):
    rows = of[[model, x, y]].set_axis(['model', 'x', 'value'], axis=1)
    rows = rows.assign(
      **{k: of[c] if k == 'about' else c for k, c in more.items()}
    )
    panels.append(charts.Panel(x, y, rows.to_dict('records'), str(name)))
  return panels


def _pair(each: MetricAgreement, models: pd.DataFrame) -> dict[str, Any] | None:
  """The trials behind a cell of the matrix: values of both metrics, world by
  world, as the `picture` and the `table` of an `anchor`.
  """
  first, second = each.metrics
  wide = models.pivot_table(
    index=['world', 'recipe', 'seed'], columns='metric', values='value'
  ).reindex(columns=[first, second])
  wide = wide.dropna().reset_index()
  if wide.empty:
    return None
  wide['about'] = 'seed ' + wide.seed.astype(str)
  columns = first, second, 'recipe'
  panels = _panels(wide, columns, 'world', joined=False, about='about')
  looks = charts.palette(wide.recipe)
  caption = f'{first} and {second}: a mark is a model, from untrained to Bayes'
  anchor = _anchor(each)
  rows = [(world, f'{r:.2f}', '') for world, r in each.by_world.items()]
  rows += [(world, '–', why) for world, why in each.missing.items()]
  frame = pd.DataFrame(rows, columns=['world', 'correlation', 'why not'])
  return {
    'anchor': anchor,
    'table': tables.Table(f'{first} and {second}', frame),
    'picture': charts.picture(anchor, caption, charts.lines(panels, looks)),
  }


def added_table(
  criterion: str, several: Sequence[Added], design: Design
) -> tables.Table:
  """A row for each metric."""
  rows = [
    {
      'metric': each.metric,
      'added R2': _entry(each.mean),
      'worlds': str(len(each.by_world)),
      'p': f'{each.p:.2g}',
    }
    for each in several
  ]
  note = (
    f'R2 for {criterion} in a world that was left out, of '
    f'{design.control} and the metric less that of {design.control} alone.'
  )
  title = f'What metrics add for {criterion}'
  return tables.Table(title, pd.DataFrame(rows, dtype=object), note)


def reliability_table(models: pd.DataFrame, design: Design) -> tables.Table:
  """How alike two seeds rank the recipes, by each metric in each world."""
  last = models[models.level == design.levels[-1]]
  rows = []
  for world, of in last.groupby('world', sort=False):
    cells = {m: agreement.reliability(of, m) for m in design.metrics}
    rows.append(
      {'world': str(world)}
      | {m: '–' if r != r else f'{r:.2f}, n={n}' for m, (r, n) in cells.items()}
    )
  note = (
    'Rank correlation between seeds over n recipes. Where it is '
    f'{design.rules.least_reliability:g} or less, or recipes are fewer than '
    f'{design.rules.fewest_recipes}, a world does not count.'
  )
  frame = pd.DataFrame(rows, dtype=object)
  return tables.Table('Do two seeds agree?', frame, note)


def reference_table(cells: CrossCells) -> tables.Table:
  """Oracles, ceilings, adversaries and n-grams, which agree by construction."""
  title = 'Known answers, which no correlation counts'
  if cells.references.empty:
    return tables.Table(title, pd.DataFrame({'row': []}))
  wide = cells.references.pivot_table(
    index=['world', 'recipe'], columns='metric', values='raw', sort=False
  ).reset_index()
  wide = wide.rename(columns={'recipe': 'row'})
  for name in wide.columns[2:]:
    wide[name] = [tables.number(x) if x == x else '–' for x in wide[name]]
  return tables.Table(title, wide.astype(object), '', True)


def missing_table(models: pd.DataFrame) -> tables.Table:
  """Cells without a value, and why."""
  lacking = models[models.reason.fillna('') != '']
  counts = lacking.groupby(['world', 'metric', 'reason']).size().reset_index()
  counts.columns = ['world', 'metric', 'why', 'models']
  title = 'Cells that do not apply'
  return tables.Table(title, counts.astype(str).astype(object), '', True)


def pictures(cells: CrossCells, design: Design) -> list[Picture]:
  """Values against ceilings, criteria against metrics, and training."""
  last = cells.models[cells.models.level == design.levels[-1]]
  if last.empty:
    return []
  keys = ['world', 'recipe', 'seed']
  wide = last.pivot_table(index=keys, columns='metric', values='value')
  wide = wide.reindex(columns=[*design.metrics]).reset_index()
  against: list[charts.Panel] = []
  outside: dict[str, list[charts.Panel]] = {of: [] for of in design.criteria}
  for name in design.metrics:
    of = last[last.metric == name].rename(columns={'raw': name})
    columns = 'ceiling', name, 'world'
    against += _panels(of.assign(metric=name), columns, 'metric', joined=False)
    for criterion in design.criteria if name in design.compared else ():
      columns = name, criterion, 'world'
      of = wide.assign(metric=name)
      outside[criterion] += _panels(of, columns, 'metric', joined=False)
  looks = charts.palette(design.worlds)
  drawn = {
    ('ceilings', 'value and Bayes ceiling, by sampler'): against,
    **{
      (f'criterion-{of}', f'{of} and each metric, by world'): panels
      for of, panels in outside.items()
    },
  }
  return [
    *(
      charts.picture(name, caption, charts.lines(panels, looks))
      for (name, caption), panels in drawn.items()
      if panels
    ),
    *_course(cells.models, design),
  ]


def _course(models: pd.DataFrame, design: Design) -> list[Picture]:
  """Levels of each recipe: a metric over the control, which is a loss."""
  keys = ['world', 'recipe', 'level']
  raw, wide = (
    models.pivot_table(index=keys, columns='metric', values=column)
    for column in ('raw', 'value')
  )
  loss, drawn = f'held-out {design.control}', []
  for name in (*design.compared, *design.criteria):
    if name not in wide or design.control not in raw:
      continue
    both = pd.DataFrame({loss: raw[design.control], name: wide[name]})
    both = both.reset_index().assign(about=lambda of: of.level.astype(str))
    columns = loss, name, 'recipe'
    panels = [
      panel._replace(x_scale=charts.log_scale([r['x'] for r in panel.rows], 10))
      for panel in _panels(both, columns, 'world', about='about')
    ]
    if panels:
      caption = f'{name} over training: a line is a recipe at its levels'
      spec = charts.lines(panels, charts.palette(design.recipes))
      drawn.append(charts.picture(f'course-{name}', caption, spec))
  return drawn


def specifications(
  folder: str | pathlib.Path, design: Design
) -> list[tuple[str, str, MetricAgreement]]:
  """Metric, variant, and its agreement with the deciding criterion.

  Of the registered measures, and with each variant of one of them; a variant of
  the criterion changes its agreement with all metrics.
  """
  results, first = [], design.criteria[0]
  varied = [('', 'registered', ())] + [
    (name, label, parts)
    for name, measure in design.metrics.items()
    for label, parts in measure.variants.items()
  ]
  for name, label, parts in varied:
    measures = dict(design.metrics)
    if name:
      measures[name] = measures[name]._replace(parts=parts)
    models = read(folder, design, measures).models
    several = agreement.agreements(
      models[models.level == design.levels[-1]],
      [(first, m) for m in design.compared if name in ('', m, first)],
      *(design.control, design.rules),
    )
    results += [(each.metrics[1], label, each) for each in several]
  return results


def _curve(
  several: Sequence[tuple[str, str, MetricAgreement]],
) -> list[Picture]:
  """The specification curve, from the least correlation to the greatest."""
  rows: list[dict[str, Any]] = [
    {
      **{'model': name, 'x': f'{name}: {label}', 'value': each.mean.value},
      **{'low': each.mean.low, 'high': each.mean.high},
    }
    for name, label, each in several
    if each.mean.value is not None
  ]
  if not rows:
    return []
  rows.sort(key=lambda row: float(row['value']))
  panel = charts.Panel('correlation with the criterion', '', rows)
  looks = charts.palette([str(row['model']) for row in rows])
  spec = charts.dots([panel], looks, apart=False)
  return [charts.picture('specifications', 'specification curve', spec)]


def write(folder: str | pathlib.Path, out: str | pathlib.Path) -> bool:
  """Writes cross.html and its pictures into `out`; False without a design.

  Raises:
    InputError: a malformed registration or result.
  """
  design = load(folder)
  if design is None:
    return False
  place = pathlib.Path(out)
  cells = read(folder, design)
  analysis = analyse(cells.models, design)
  last = cells.models[cells.models.level == design.levels[-1]]
  of = len(design.worlds) * len(design.recipes) * design.seeds
  if design.status == REGISTERED and len(last) < of * len(design.metrics):
    design = dataclasses.replace(design, status=INTERIM)
  pairs = [pair for each in analysis.every if (pair := _pair(each, last))]
  drawn = [*pictures(cells, design), *_curve(specifications(folder, design))]
  with files.stage_lock(place, 'report'):
    every = [*drawn, *(pair['picture'] for pair in pairs)]
    for picture in every:
      (place / picture.name).write_bytes(picture.image)
    text = pages.render(
      *('wm.reporting', 'cross.html'),
      script=charts.script_tag(every, place),
      title=_TITLE,
      lead=_lead(cells, design),
      design=design,
      names=[*design.compared, *design.criteria],
      answer=answer(analysis, design),
      matrix=matrix(analysis, design),
      tables=[
        agreement_table('Pairs of metrics', analysis.pairs, design),
        *(
          agreement_table(f'The criterion {of}', several, design)
          for of, several in analysis.criteria.items()
        ),
        *(
          added_table(of, several, design)
          for of, several in analysis.added.items()
        ),
        reliability_table(cells.models, design),
        *(reference_table(cells), missing_table(cells.models)),
      ],
      pictures=drawn,
      pairs=pairs,
      refused=cells.refused,
    )
    files.write_text(place / 'cross.html', text)
  return True


def answer(analysis: Analysis, design: Design) -> list[str]:
  """What came out, in sentences by fixed rules; [] of a draft."""
  if design.status == DRAFT:
    return []
  sentences = []
  if design.status == INTERIM:
    sentences.append('Not all models are made: what follows is interim.')

  def names(several: Sequence[MetricAgreement], verdict: str) -> str:
    """The pairs with a verdict, the strongest first."""
    of = [each for each in several if each.verdict == verdict]
    of.sort(key=lambda each: -abs(each.mean.value or 0))
    texts = [f'{" and ".join(e.metrics)} {_entry(e.mean)}' for e in of]
    return f'{len(of)}' + (f' ({"; ".join(texts)})' if of else '')

  for title, several in (
    ('pairs of metrics', analysis.pairs),
    *((f'metrics with {of}', x) for of, x in analysis.criteria.items()),
  ):
    tested = [each for each in several if each.mean.p is not None]
    sentences.append(
      f'Of {len(several)} {title}, given {design.control}, '
      f'{names(several, agreement.RELATED)} are related, '
      f'{names(several, agreement.UNRELATED)} are unrelated within '
      f'{design.rules.margin:g}, and {len(several) - len(tested)} are measured '
      f'in fewer than {design.rules.fewest_worlds} worlds; all others are '
      'undecided.'
    )
  for of, gains in analysis.added.items():
    better = [x for x in gains if x.p <= 2 * agreement.ALPHA]
    tells = [f'{x.metric} {_entry(x.mean)}' for x in better]
    untested = all(x.mean.p is None for x in gains)
    what = f'R2 for {of} in a world that was left out'
    sentences.append(
      f'What adds to {what} is not tested yet.'
      if untested
      else f'Beyond {design.control}, {", ".join(tells) or "no metric"} is '
      f'shown to add to {what}.'
    )
  return sentences


def _lead(cells: CrossCells, design: Design) -> str:
  of = len(design.worlds) * len(design.rows()) * design.seeds
  models = cells.models
  done = len(models[['world', 'recipe', 'level', 'seed']].drop_duplicates())
  state = {
    DRAFT: 'a draft, which has no verdicts',
    REGISTERED: 'fixed',
    INTERIM: 'fixed, and interim until all models of the last level are made',
  }[design.status]
  return (
    f'{done} of {of} trained models at their levels; {len(cells.refused)} '
    f'units refused. Registration {design.hash} of {design.date}: {state}.'
  )
