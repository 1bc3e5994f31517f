"""The page of a cross: what came out, in words, tables and pictures.

`wm.lab.cross` says what a cross is, and has the numbers.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from wm.lab import agreement, cross, miniatures
from wm.lab.agreement import Added, MetricAgreement
from wm.lab.cross import (
  DRAFT,
  INTERIM,
  REGISTERED,
  Analysis,
  CrossCells,
  Design,
  Prediction,
  Specifications,
)
from wm.lab.findings import Quantity
from wm.lab.verdicts import Judged
from wm.library.report import report_folder
from wm.options.calls import Path
from wm.reporting import charts, tables
from wm.reporting.charts import Picture
from wm.runtime import files, pages

_TITLE = 'Which metrics of world models agree?'


def _verdict(design: Design, each: MetricAgreement) -> str:
  if design.status == DRAFT:
    return 'draft: none'
  return f'{"so far " * (design.status == INTERIM)}{each.verdict}'


def measures_table(design: Design) -> tables.Table:
  """Each measure, its part in the design, and what its ends are."""
  parts = dict.fromkeys(design.compared, 'metric')
  parts |= {design.control: 'held constant'}
  parts |= dict.fromkeys(design.criteria, 'criterion')

  def end(value: str | float | Quantity) -> str:
    """In words."""
    if value == cross.UNTRAINED:
      return 'untrained weights'
    return f'{value:g}' if isinstance(value, int | float) else str(value)

  rows = [
    {
      'measure': name,
      'part': parts[name],
      'metric and quantity': tables.joined(
        str(of.parts[0]), *(part.quantity for part in of.parts[1:])
      ),
      '0 is': end(of.floor),
      '1 is': end(of.ceiling),
    }
    for name, of in design.metrics.items()
  ]
  return tables.of_rows('', rows, tables.note('measures'))


def agreement_table(
  title: str, several: Sequence[MetricAgreement], design: Design
) -> tables.Table:
  """A row for each pair."""
  rows = [
    {
      'metrics': ', '.join(each.metrics),
      'mean correlation': tables.rounded(each.mean),
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
  note = tables.note('agreement', design=design, pairs=len(several))
  return tables.of_rows(title, rows, note)


Pairs = dict[tuple[str, str], MetricAgreement]


def _either_way(several: Sequence[MetricAgreement]) -> Pairs:
  """Agreements by their measures, in both orders."""
  return {
    metrics: each
    for each in several
    for metrics in (each.metrics, each.metrics[::-1])
  }


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


def _pictures(
  name: str,
  caption: str,
  draw: Callable[..., charts.Spec],
  panels: Sequence[charts.Panel],
  looks: Mapping[str, charts.Look],
) -> list[Picture]:
  """The picture of these panels; [] where there are none."""
  if not panels:
    return []
  return [charts.picture(name, caption, draw(panels, looks))]


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
  caption = tables.note('pair_picture', first=first, second=second)
  anchor = _anchor(each)
  rows = [(world, f'{r:.2f}', '') for world, r in each.by_world.items()]
  rows += [(world, '–', why) for world, why in each.missing.items()]
  frame = pd.DataFrame(rows, columns=['world', 'correlation', 'why not'])
  return {
    'anchor': anchor,
    'title': f'{first} and {second}',
    'table': tables.Table('', frame),
    'picture': charts.picture(anchor, caption, charts.lines(panels, looks)),
  }


def added_table(
  criterion: str, several: Sequence[Added], design: Design
) -> tables.Table:
  """A row for each metric."""
  rows = [
    {
      'metric': each.metric,
      'added R2': tables.rounded(each.mean),
      'worlds': str(len(each.by_world)),
      'p': f'{each.p:.2g}',
    }
    for each in several
  ]
  note = tables.note('added', criterion=criterion, control=design.control)
  title = f'What metrics add to {design.control} for {criterion}'
  return tables.of_rows(title, rows, note)


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
  return tables.of_rows(
    '', rows, tables.note('reliability', rules=design.rules)
  )


def reference_table(cells: CrossCells) -> tables.Table:
  """Oracles, ceilings, adversaries and n-grams, which agree by construction."""
  note = tables.note('references')
  if cells.references.empty:
    return tables.Table('', pd.DataFrame({'row': []}), note)
  wide = cells.references.pivot_table(
    index=['world', 'recipe'], columns='metric', values='raw', sort=False
  ).reset_index()
  wide = wide.rename(columns={'recipe': 'row'})
  for name in wide.columns[2:]:
    wide[name] = [tables.number(x) if x == x else '–' for x in wide[name]]
  return tables.Table('', wide.astype(object), note)


def missing_table(models: pd.DataFrame) -> tables.Table:
  """Cells without a value, and why."""
  lacking = models[models.reason.fillna('') != '']
  counts = lacking.groupby(['world', 'metric', 'reason']).size().reset_index()
  counts.columns = ['world', 'metric', 'why', 'models']
  return tables.Table('', counts.astype(str).astype(object))


# A value is said to fall where it ends so far below its best.
_FALL = 0.05


def levels_table(models: pd.DataFrame, design: Design) -> tables.Table:
  """Each measure at all levels: means over worlds, and models that fall."""
  values = agreement.courses(models, [*design.metrics])
  rows = []
  for name, of in values.groupby('metric', sort=False):
    falls = of.max(axis=1) - of[of.columns[-1]] > _FALL
    by_world = of.groupby('world').mean()
    means = {
      f'level {level}': tables.rounded(agreement.over_worlds(dict(column), 2))
      for level, column in by_world.items()
    }
    counts = {'models': str(len(of)), 'worlds': str(len(by_world))}
    share = {'falls': tables.number(float(falls.mean()))}
    rows.append({'measure': str(name)} | means | share | counts)
  return tables.of_rows('', rows, tables.note('levels', fall=_FALL))


def levels_picture(models: pd.DataFrame, design: Design) -> list[Picture]:
  """Measures over the levels of training, a panel for each world."""
  values = agreement.courses(models, [*design.metrics])
  means = values.groupby(['world', 'metric'], sort=False).mean()
  rows = means.stack().rename('scaled value').reset_index()
  panels = _panels(rows, ('level', 'scaled value', 'metric'), 'world')
  looks = charts.palette(map(str, rows.metric.unique()))
  caption = tables.note('levels_picture')
  return _pictures('levels', caption, charts.lines, panels, looks)


def curve_picture(several: Specifications) -> list[Picture]:
  """The specification curve, from the least correlation to the greatest."""
  rows: list[dict[str, Any]] = [
    {
      **{'model': name, 'x': f'{name}: {label}', 'value': each.mean.value},
      **{'low': each.mean.low, 'high': each.mean.high},
    }
    for name, label, each in several
    if each.mean.value is not None
  ]
  rows.sort(key=lambda row: float(row['value']))
  panel = charts.Panel('correlation with the criterion', '', rows)
  looks = charts.palette([str(row['model']) for row in rows])
  name, caption = 'specifications', tables.note('specifications_picture')
  drawn = charts.dots([panel], looks, apart=False) if rows else {}
  return [charts.picture(name, caption, drawn)] if rows else []


class PagePart(NamedTuple):
  """A part of the page.

  Attributes:
    title: its head, and its line of the contents.
    tables: above its pictures; the first one may go without a title.
    pictures: in order.
    folded: whether it is shown on demand.
  """

  title: str
  tables: Sequence[tables.Table] = ()
  pictures: Sequence[Picture] = ()
  folded: bool = False


_PART = {True: 'tests the prediction', False: 'is no part of the test'}


def prediction_answer(cells: pd.DataFrame, prediction: Prediction) -> str:
  """Whether a prediction holds in the cells that had not been seen."""
  new = cells[cells.new]
  tested = new.dropna()
  worlds = agreement.of_worlds(new)
  return tables.note(
    'prediction_answer',
    prediction=prediction,
    worlds=len(worlds),
    of_worlds=agreement.trend(worlds),
    done=int(new.models.fillna(0).sum()),
    of=int(new.planned.sum()),
    tested=agreement.trend(new),
    cells=len(tested),
    right=int(((tested['mean'] > 0.5) == (tested.correlation > 0)).sum()),
  )


def prediction_part(
  cells: pd.DataFrame, design: Design, prediction: Prediction
) -> PagePart:
  """When two metrics agree; cells: from `cross.predicted_cells`."""
  first, second = prediction.first, prediction.second
  rows = [
    {
      **{'world': of['world'], 'size': of['size'], 'level': str(of['level'])},
      'models': f'{of["models"]:.0f}',
      f'mean {second}': tables.number(of['mean'], 2),
      'correlation': f'{of["correlation"]:.2f}'.replace('nan', '–'),
      'cell': _PART[of['new']],
    }
    for of in cells.to_dict('records')
  ]
  x, y = f'mean {second}', 'correlation'
  drawn = cells.dropna(subset=[y]).rename(columns={'mean': x})
  drawn = drawn.assign(
    part=drawn.new.map(_PART),
    about=drawn.world
    + ', '
    + drawn['size']
    + ', level '
    + drawn.level.map(str),
  )
  panels = _panels(drawn, (x, y, 'world'), 'part', joined=False, about='about')
  seen = cells[~cells.new].dropna()
  caption = tables.note(
    'prediction',
    prediction=prediction,
    seen=agreement.trend(seen)[0],
    before=len(seen),
  )
  looks = charts.palette(design.worlds)
  return PagePart(
    f'When do {first} and {second} agree?',
    [tables.of_rows('The cells', rows, folded=True)],
    _pictures('prediction', caption, charts.lines, panels, looks),
  )


def page_parts(
  cells: CrossCells,
  analysis: Analysis,
  design: Design,
  curve: Specifications,
) -> list[PagePart]:
  """Parts of the page between the matrix and the pairs."""
  return [
    PagePart('What is measured', [measures_table(design)]),
    PagePart('Pairs of metrics', [agreement_table('', analysis.pairs, design)]),
    *(
      PagePart(
        f'The criterion {of}',
        [
          agreement_table('', analysis.criteria[of], design),
          added_table(of, analysis.added[of], design),
        ],
      )
      for of in design.criteria
    ),
    PagePart('Do two seeds agree?', [reliability_table(cells.models, design)]),
    PagePart('Other settings of a metric', (), curve_picture(curve)),
    PagePart(
      'The course of training',
      [levels_table(cells.models, design)],
      levels_picture(cells.models, design),
    ),
    PagePart('Known answers', [reference_table(cells)], folded=True),
    PagePart(
      'Cells that do not apply', [missing_table(cells.models)], folded=True
    ),
  ]


def write(folder: str | pathlib.Path, out: str | pathlib.Path) -> bool:
  """Writes cross.html and its pictures into `out`; False without a design.

  Raises:
    InputError: a malformed registration or result.
  """
  design = cross.load(folder)
  if design is None:
    return False
  place = pathlib.Path(out)
  every = cross.read_units(folder, design)
  cells = cross.cells(every, design)
  analysis = cross.analyse(cells.models, design)
  last = cells.models[cells.models.level == design.levels[-1]]
  of = len(design.worlds) * len(design.recipes) * design.seeds
  if design.status == REGISTERED and len(last) < of * len(design.metrics):
    design = dataclasses.replace(design, status=INTERIM)
  pairs = [pair for each in analysis.every if (pair := _pair(each, last))]
  curve = cross.specifications(every, design)
  parts = page_parts(cells, analysis, design, curve)
  answers = answer(analysis, design)
  if prediction := cross.load_prediction(folder, design):
    predicted = cross.predicted_cells(cells.models, design, prediction)
    parts.insert(0, prediction_part(predicted, design, prediction))
    answers.append(prediction_answer(predicted, prediction))
  parts = [part for part in parts if part.tables or part.pictures]
  with files.stage_lock(place, 'report'):
    drawn = [picture for part in parts for picture in part.pictures]
    drawn += [pair['picture'] for pair in pairs]
    for picture in drawn:
      (place / picture.name).write_bytes(picture.image)
    text = pages.render(
      *('wm.reporting', 'cross.html'),
      script=charts.script_tag(drawn, place),
      title=_TITLE,
      lead=_lead(cells, design),
      design=design,
      answer=answers,
      registered=_either_way(analysis.every),
      plain=_either_way(analysis.plain),
      rounded=tables.rounded,
      sections=parts,
      pairs=pairs,
      refused=cells.refused,
    )
    files.write_text(place / 'cross.html', text)
  return True


def answer(analysis: Analysis, design: Design) -> list[str]:
  """What came out, in sentences by fixed rules; [] of a draft."""
  if design.status == DRAFT:
    return []
  shared: dict[str, Any] = {'design': design, 'rounded': tables.rounded}
  lines = [tables.note('interim')] if design.status == INTERIM else []
  named = {f'metrics with {of}': x for of, x in analysis.criteria.items()}
  for title, several in ({'pairs of metrics': analysis.pairs} | named).items():
    strongest = sorted(several, key=lambda each: -abs(each.mean.value or 0))
    lines.append(tables.note('answer', title=title, pairs=strongest, **shared))
  for of, gains in analysis.added.items():
    better = [each for each in gains if each.p <= 2 * agreement.ALPHA]
    tested = any(each.mean.p is not None for each in gains)
    values = {'criterion': of, 'better': better, 'tested': tested, **shared}
    lines.append(tables.note('answer_added', **values))
  return lines


def _lead(cells: CrossCells, design: Design) -> str:
  models = cells.models[['world', 'recipe', 'level', 'seed']]
  return tables.note(
    'cross',
    done=len(models.drop_duplicates()),
    of=len(design.worlds) * len(design.rows()) * design.seeds,
    refused=len(cells.refused),
    design=design,
  )


def findings(
  folder: Path,
  out: Path,
  *,
  log: Callable[[str], None] = lambda line: None,
) -> list[Judged]:
  """Judges the findings of papers by units of miniatures, on one page.

  A folder with a registration has a second page, cross.html
  (`wm.lab.cross`).

  Args:
    folder: of findings.json, flagfiles and results/NAME/ROW-SEED.json, such as
      launch/flags/miniatures.
    out: folder in which to make report/, or one that is called report.
    log: gets the lines of verdicts, and the files.

  Returns:
    Each finding with its verdict and comparisons, see `wm.lab.verdicts`.

  Raises:
    InputError: findings or results that are damaged or do not fit.
  """
  place = report_folder(out, [])
  judged = miniatures.write(folder, place)
  for line in miniatures.verdict_table(judged).text().splitlines():
    log(line)
  log(f'report: {place}/report.html')
  if write(folder, place):
    log(f'        {place}/cross.html')
  return judged
