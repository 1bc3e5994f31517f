"""Writes a report of one or several runs: Markdown, HTML and the numbers.

Cautions stand before the first table, by rules of the metrics. A rule judges
the interval of one quantity, in the plainest setting of its metric
(`core.Caution`). A model has one line, with all that holds of it. Of several
seeds each is judged by its own interval: an interval over two or three seeds is
so wide that it would hide what is clear of each of them.
"""

from __future__ import annotations

import csv
import inspect
import itertools
import pathlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import markupsafe
import pandas as pd

from wm import core
from wm.core import inputs, registry
from wm.evaluation import needs, results
from wm.reporting import (
  catalog,
  ceilings,
  charts,
  collect,
  curves,
  figures,
  model_comparison,
  paper_comparison,
  scaling,
  tables,
  worst,
)
from wm.reporting.charts import Picture
from wm.reporting.collect import Entry, Run
from wm.runtime import files, pages

STAGE = 'report'
TITLE = 'World models, measured'
_UNFINISHED = '.unfinished-'


def report(
  folders: Sequence[str | pathlib.Path],
  out: str | pathlib.Path,
  *,
  wait: bool = False,
  notes: Sequence[str] = (),
) -> dict[str, Any]:
  """Writes report.md, report.html, scores.json and rows.csv into `out`.

  Args:
    folders: runs that hold a scores.json each; rows come in this order, but
      for baselines and ceilings, see `ceilings.ordered`. Those that differ in
      their training seed alone are one row.
    out: folder of the report; made if need be.
    wait: for another process that writes there, instead of refusing.
    notes: lines on what is missing, below the first table.

  Returns:
    The paths written, by kind, the number of results, and lines on what is
    left out.

  Raises:
    InputError: a run has no results or its files are damaged, or another
      process writes there.
  """
  runs = [collect.load(folder) for folder in folders]
  out = pathlib.Path(out)
  with files.stage_lock(out, STAGE, wait=wait):
    for stale in out.glob(f'{_UNFINISHED}*'):  # Of a process that was killed.
      shutil.rmtree(stale, ignore_errors=True)
    # A file of a run may turn out damaged late: a report is whole or absent.
    with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=out) as name:
      unfinished = pathlib.Path(name)
      summary = _write(runs, out, unfinished, notes)
      for path in sorted(unfinished.iterdir()):
        files.rename(path, out / path.name)
  paths = {
    'markdown': 'report.md',
    'html': 'report.html',
    'scores': 'scores.json',
    'rows': 'rows.csv',
  }
  return summary | {kind: str(out / name) for kind, name in paths.items()}


def _write(
  runs: Sequence[collect.Run],
  out: pathlib.Path,
  unfinished: pathlib.Path,
  notes: Sequence[str],
) -> dict[str, Any]:
  """Writes all files into the folder `unfinished`; `out` has counts to table.

  Returns:
    The number of results, and lines on what is left out.
  """
  entries = [entry for run in runs for entry in run.entries]
  files.write_json(unfinished / 'scores.json', entries)
  _merge_rows(runs, unfinished / 'rows.csv')
  results.write_parquet(unfinished / 'rows.csv', unfinished / 'rows.parquet')
  measured = _measured(ceilings.ordered(runs))
  together = measured.together
  groups = worst.groups(together)
  warned, of_baselines = cautions_of_runs(together)
  values: dict[str, Any] = {
    'title': TITLE,
    'lead': _lead(entries),
    'cautions': [*map(str, warned), *unchecked_cautions(together)],
    'baselines': of_baselines,
    'rules': caution_rules(together),
    'tables': _tables(measured, out),
    'notes': [*dict.fromkeys([*notes, *ceilings.Against(together).missing()])],
    'pictures': _pictures(measured, unfinished),
    'words': catalog.glossary(entries),
  }
  text = pages.render(
    *('wm.reporting', 'report.md'),
    failures=any(group.trials for mine in groups for group in mine),
    **values,
  )
  files.write_text(unfinished / 'report.md', text)
  page = pages.render(
    *('wm.reporting', 'report.html'),
    script=charts.script_tag(values['pictures'], unfinished),
    galleries=worst.galleries(together, groups),
    most=worst.MOST,
    seeds=any(run.seeds for run in together),
    number=tables.number,
    lines=tables.lines,
    breakable=breakable,
    **values,
  )
  files.write_text(unfinished / 'report.html', page)
  return {
    'results': len(entries),
    'left_out': catalog.left_out(entries),
  }


class _Measured(NamedTuple):
  """What tables and pictures show.

  Attributes:
    runs: all, in order; those of several seeds apart.
    together: runs with the seeds of a model pooled.
    single, frame: `tables.results` of these two.
    parts: `tables.results` of the breakdowns of `together`.
    by_place: results over a property of trials.
    sized: results over the number of parameters.
  """

  runs: Sequence[collect.Run]
  together: Sequence[collect.Run]
  single: pd.DataFrame
  frame: pd.DataFrame
  parts: pd.DataFrame
  by_place: Sequence[curves.Curve]
  sized: Sequence[Sequence[scaling.ScalingPanel]]


def _measured(runs: Sequence[collect.Run]) -> _Measured:
  together = collect.pooled(runs)
  frame = single = tables.results(together)
  if any(run.seeds for run in together):
    single = tables.results(runs)
  parts = tables.results(together, breakdown=True)
  by_place = curves.curves(together, parts)
  sized = scaling.panels(together)
  return _Measured(runs, together, single, frame, parts, by_place, sized)


def _tables(measured: _Measured, out: pathlib.Path) -> list[tables.Table]:
  """Returns all tables in order; `out` may have counts to table."""
  runs, together, frame = measured.runs, measured.together, measured.frame
  folders = [out.parent, out, *(run.folder for run in runs)]
  result = [
    tables.main_table(together, frame),
    model_comparison.paired_table(together, frame),
    tables.training_table(runs),
    *paper_comparison.value_tables(together),
    *paper_comparison.search_tables(runs),
    paper_comparison.coverage_table(folders),
    *tables.settings_tables(frame),
    *tables.series_tables(frame),
    *map(scaling.pareto_table, measured.sized),
    *map(scaling.ablation_table, measured.sized),
    model_comparison.correlation_table(frame),
    model_comparison.wording_table(measured.single),
    paper_comparison.map_table(runs),
    *tables.quantity_tables(frame),
    *curves.curve_tables(measured.by_place),
    curves.breakdown_table(measured.parts, measured.by_place),
    tables.full_table(measured.single),
  ]
  return [table for table in result if table is not None]


def breakable(head: str) -> markupsafe.Markup:
  """Lets the head of a column break after a sign, not only at a blank."""
  escaped = str(markupsafe.escape(head))
  return markupsafe.Markup(re.sub(r'([/,=_]+)(?=.)', r'\1<wbr>', escaped))


def _lead(entries: Sequence[collect.Entry]) -> str:
  def known(key: str) -> str:
    texts = {str(e[key]) for e in entries if e.get(key) is not None}
    return ', '.join(sorted(texts))

  commits = {e['commit'][:10] for e in entries if e.get('commit')}
  facts = {
    'worlds': known('world'),
    'seed': known('seed'),
    'training seeds': known('training_seed'),
    'wm': known('wm_version'),
    'commit': ', '.join(sorted(commits)),
  }
  return '; '.join(f'{key} {value}' for key, value in facts.items() if value)


def _pictures(measured: _Measured, out: pathlib.Path) -> list[Picture]:
  """Draws all pictures; each is also a file in the report's folder."""
  runs, together = measured.runs, measured.together
  frame = measured.frame
  baselines = frame.model[frame.role != ceilings.TRAINED]
  looks = charts.palette(tables.labels(together), baselines)
  drawn: list[tuple[str, str, charts.Spec]] = []
  if curve := curves.draw_training(runs, looks):
    lines = ', a line for each seed' if together != runs else ''
    caption = f'Loss by step of training{lines}; lower is better'
    drawn.append(('training', caption, curve))
  bands = 'bands are 95 % intervals'
  if any(run.seeds for run in together):
    bands += ', or from the least to the greatest of several seeds'
  for line in (curve for curve in measured.by_place if curve.measured):
    name = f'{line.metric}_{line.quantity}_by_{line.column}'
    caption = f'{line.metric}: {line.quantity} by {line.axis}'
    caption += f'; {bands}' if curves.banded(line) else ''
    if line.correlations and curves.banded(line):
      caption += f'; above is the correlation, {curves.CORRELATION}'
    drawn.append((name, caption, curves.draw_curves(line, looks)))
  for several in curves.panel_curves(measured.parts):
    metric = several[0].metric
    caption = f'{metric}: {", ".join(line.quantity for line in several)}'
    spec = curves.draw_panels(several, looks)
    drawn.append((f'{metric}_rules', caption, spec))
  for calibrated in curves.calibrations(frame):
    metric = calibrated[0].metric
    caption = f'{metric}: model over oracle, by bins of pairs; {bands}'
    spec = curves.draw_calibrations(calibrated, looks)
    drawn.append((f'{metric}_calibration', caption, spec))
  for panels in measured.sized:
    drawn += _scaled(panels)
  for field, points in curves.ablations(frame).items():
    caption = f'Ablation over {field}; {bands}'
    spec = curves.draw_ablation(field, points, looks)
    drawn.append((f'ablation_{field}', caption, spec))
  pictures = [charts.picture(*chart) for chart in drawn]
  pictures += _of_metrics(together)
  taken: set[str] = set()
  roles = ceilings.roles(runs)
  for run, label, role in zip(runs, tables.labels(runs), roles, strict=True):
    # Beside trained models, the maps of baselines are lines of a table: a page
    # is too heavy with all of them.
    if role == ceilings.TRAINED or ceilings.TRAINED not in roles:
      pictures += _map_pictures(run, label, out, taken)
  written = []
  for picture in pictures:
    stem, dot, ending = picture.name.rpartition('.')
    name = _file_name(stem, dot + ending, taken)
    (out / name).write_bytes(picture.image)
    written.append(picture._replace(name=name))
  return written


_MOST = 8  # Models in a figure that a metric draws.


def _of_metrics(runs: Sequence[collect.Run]) -> Iterator[Picture]:
  """Yields the figures that metrics draw, one of each spec.

  Of seeds that are put together the first is drawn.
  """
  specs = {tables.spec(e): e['metric'] for run in runs for e in run.entries}
  for spec, metric in specs.items():
    draw = catalog.metric_class(metric).draw
    if draw is core.Metric.draw:
      continue
    rows = {
      label: _rows(run.folder / 'rows.csv', spec)
      for run, label in zip(runs[:_MOST], tables.labels(runs), strict=False)
    }
    figure, _ = figures.new_axes(1)
    figure.clear()
    if draw({label: x for label, x in rows.items() if x}, figure):
      words = ' '.join((inspect.getdoc(draw) or '').split())
      png = figures.to_png(figure)
      yield Picture(f'{spec}.png', f'{spec}: {words}', png)


def _rows(path: pathlib.Path, spec: str) -> list[dict[str, str]]:
  """Returns the rows of a metric's spec in a rows.csv."""
  if not path.is_file():
    return []
  with collect.reading(path) as file:
    return [row for row in csv.DictReader(file) if row['spec'] == spec]


def _scaled(
  panels: Sequence[scaling.ScalingPanel],
) -> list[tuple[str, str, charts.Spec]]:
  """Returns names, captions and charts of a quantity over parameters, and of
  what variants lose.
  """
  metric, quantity = panels[0][:2]
  what, words = f'{metric}_{quantity}', f'{metric}: {quantity}'
  theirs = any(panel.printed for panel in panels)
  hollow = ', hollow: in the paper, whose training is its own' if theirs else ''
  caption = f'{words} against parameters{hollow}'
  pareto = f'{what}_by_parameters', caption, scaling.draw_pareto(panels)
  if lost := scaling.draw_variants(panels):
    caption = f'{words} of less expressive variants{hollow}'
    return [pareto, (f'{what}_of_variants', caption, lost)]
  return [pareto]


def _map_pictures(
  run: collect.Run, label: str, out: pathlib.Path, taken: set[str]
) -> list[Picture]:
  """Returns the maps of a reconstruction; copies its interactive page."""
  pictures: list[Picture] = []
  interactive, link = run.folder / 'map.html', ''
  if interactive.is_file():
    link = _file_name(f'map_{run.name}', '.html', taken)
    shutil.copyfile(interactive, out / link)
  for source in sorted(
    filter(pathlib.Path.is_file, run.folder.glob('map*.png'))
  ):
    view = source.stem.removeprefix('map').strip('_') or 'whole'
    caption = f'Map implied by {label}, {view} view'
    name = f'{source.stem}_{run.name}.png'
    pictures.append(Picture(name, caption, source.read_bytes(), link))
  return pictures


_LONGEST = 120  # Characters of a file's name.


def _file_name(stem: str, suffix: str, taken: set[str]) -> str:
  """Returns a file's name after a text of any characters, numbered where it is
  taken, and takes it.
  """
  plain = re.sub(r'[^\w.+=-]+', '_', stem)[:_LONGEST]
  numbered = (f'{plain}_{number}' for number in itertools.count(2))
  for name in itertools.chain([plain], numbered):
    # To some file systems letters of either case are the same.
    if (name + suffix).lower() not in taken:
      break
  taken.add((name + suffix).lower())
  return name + suffix


def _merge_rows(runs: Sequence[collect.Run], target: pathlib.Path) -> None:
  """Writes one CSV of all runs with the union of their columns, and `run`.

  Files of earlier versions have no model, world and seed: their entries do.
  """
  present = [run for run in runs if (run.folder / 'rows.csv').is_file()]
  heads: dict[str, None] = dict.fromkeys(('run', 'model', 'world', 'seed'))
  for run in present:
    with collect.reading(run.folder / 'rows.csv') as file:
      heads.update(dict.fromkeys(next(csv.reader(file), [])))
  with (
    files.replacing(target) as name,
    open(name, 'w', newline='', encoding='utf-8') as merged,
  ):
    writer = csv.writer(merged, lineterminator='\n')
    writer.writerow(heads)
    value = [*heads].index('value') if present else 0
    for run in present:
      source = run.folder / 'rows.csv'
      entry = run.entries[0] if run.entries else {}
      first = [str(run.folder), *map(entry.get, ('model', 'world', 'seed'))]
      with inputs.reading(source, 'a table of trials'):
        for row in collect.rows(source, [*heads]):
          float(row[value] or 0)  # Raises where it is no number.
          pairs = zip(row, first, strict=False)
          writer.writerow([*(a or b for a, b in pairs), *row[len(first) :]])


_FIELD = re.compile(r'{(\w+)}')  # Of a rule's text.
_BASELINES = ceilings.UNTRAINED, ceilings.UNIFORM
# The one reason of this form that is the model's own.
_SILENT = 'no_answer'


class Warned(NamedTuple):
  """What rules say of one model.

  Attributes:
    label: of the model.
    text: that goes on from the label.
    role: one of `ceilings.ROLES`.
  """

  label: str
  text: str
  role: str

  def __str__(self) -> str:
    """As a report shows it."""
    return f'{self.label} {self.text}.'


def cautions_of_runs(runs: Sequence[Run]) -> tuple[list[Warned], list[Warned]]:
  """Lines on models, trained ones first, and lines on baselines.

  What must be bad, such as a uniform guesser, hides nobody whom a reader has to
  be warned of. Where nothing but baselines is reported they are models.
  """
  against, every = ceilings.Against(runs), []
  labels = tables.labels(runs)
  for place, (run, label) in enumerate(zip(runs, labels, strict=True)):
    clauses = [
      text
      for seeds in _plain(run)
      for rule in _rules(seeds)
      if (text := _clause(rule, seeds, against, place))
    ]
    if clauses:
      text = '; '.join(dict.fromkeys(clauses))
      every.append(Warned(label, text, against.roles[place]))
  every.sort(key=lambda line: line.role != ceilings.TRAINED)
  if all(role in _BASELINES for role in against.roles):
    return every, []
  return (
    [line for line in every if line.role not in _BASELINES],
    [line for line in every if line.role in _BASELINES],
  )


def caution_rules(runs: Sequence[Run]) -> list[str]:
  """Returns each rule of what was measured, in words."""
  metrics = dict.fromkeys(e['metric'] for run in runs for e in run.entries)
  return [
    f'{name}: {rule.quantity} {_limit(rule)}: "{_FIELD.sub("…", rule.text)}"'
    for name in metrics
    for rule in catalog.metric_class(name).cautions
  ]


def _limit(rule: core.Caution) -> str:
  if rule.unmeasured:
    return f'not measured in any trial, as {rule.unmeasured}'
  limit = f'below {rule.below}' if rule.above is None else f'above {rule.above}'
  more = ' of that of the Bayes predictor' if rule.of_best else ''
  return f'{limit}{more}'


def _plain(run: Run) -> Iterator[list[Mapping[str, Entry]]]:
  """Yields quantity -> entry of each seed, for the plainest setting of each
  metric.
  """
  for metric, spec in tables.plainest(run.entries).items():
    yield [
      {
        entry['quantity']: entry
        for entry in each.entries
        if entry['metric'] == metric and tables.spec(entry) == spec
      }
      for each in run.each or (run,)
    ]


def _rules(seeds: Sequence[Mapping[str, Entry]]) -> tuple[core.Caution, ...]:
  metrics = [entry['metric'] for values in seeds for entry in values.values()]
  return catalog.metric_class(metrics[0]).cautions


def _clause(
  rule: core.Caution,
  seeds: Sequence[Mapping[str, Entry]],
  against: ceilings.Against,
  place: int,
) -> str:
  """Returns the rule's text with values, means over the seeds that it holds of;
  '' where there are none.
  """
  best = _best_value(rule, seeds, against, place)
  held = [values for values in seeds if _holds(rule, values, best)]
  if not held:
    return ''
  # Results of older versions may lack a quantity.
  numbers: dict[str, float | None] = {
    name: _mean_value([values.get(name) for values in held]) for name in held[0]
  }
  value = numbers[rule.quantity]
  rest = None if value is None else 1 - value
  numbers |= {'value': value, 'rest': rest, 'best': best}
  shown = {name: tables.number(number, 2) for name, number in numbers.items()}
  text = _FIELD.sub(lambda field: shown.get(field[1], '–'), rule.text)
  if len(seeds) == 1:
    return text
  every = 'each' if len(held) == len(seeds) else str(len(held))
  return f'{text}, in {every} of {len(seeds)} seeds'


def _mean_value(entries: Sequence[Entry | None]) -> float | None:
  values = [e['value'] for e in entries if e and e['value'] is not None]
  return sum(values) / len(values) if values else None


def _best_value(
  rule: core.Caution,
  seeds: Sequence[Mapping[str, Entry]],
  against: ceilings.Against,
  place: int,
) -> float | None:
  """What a limit is a share of; None where that is not measured."""
  if not rule.of_best:
    return 1.0
  for values in seeds:
    if entry := values.get(rule.quantity):
      ceiling = against.ceiling(place, entry)
      return ceiling[1]['value'] if ceiling else None
  return None


def _holds(
  rule: core.Caution, values: Mapping[str, Entry], best: float | None
) -> bool:
  """Does a rule hold of one seed?"""
  entry = values.get(rule.quantity)
  if entry is None or best is None:
    return False  # The best predictor there is may have less than 1.
  if entry['value'] is None:
    causes = [
      cause
      for cause in entry['unmeasured']
      if not cause.startswith('no_') or cause == _SILENT
    ]
    return bool(rule.unmeasured) and causes == [rule.unmeasured]
  low, high = ceilings.ends(entry)
  below = rule.below is not None and high < rule.below * best
  return below or (rule.above is not None and low > rule.above)


def unchecked_cautions(runs: Sequence[Run]) -> list[str]:
  """Returns a line on metrics that have rules and were not measured."""
  measured = {entry['metric'] for run in runs for entry in run.entries}
  worlds = [
    registry.find('world', kind)
    for kind in dict.fromkeys(run.world.partition('(')[0] for run in runs)
    if kind and catalog.is_known(kind)
  ]
  if not any(catalog.metric_class(name).cautions for name in measured):
    return []
  names = [
    name
    for name in registry.names('metric')
    if name not in measured
    and (cls := registry.find('metric', name)).cautions
    and any(not needs.lacks(cls, world) for world in worlds)
  ]
  if not names:
    return []
  return [
    'Cautions not checked, because these metrics were not measured: '
    f'{", ".join(names)}.'
  ]
