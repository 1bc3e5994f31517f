"""Writes a report of one or several runs: a page and the numbers.

The page begins with the question, an answer for each model (`sentences`) and
one picture of all headline measures (`overview`); the worlds in pictures and a
section for each metric follow. Large pictures are files beside the page, or
parts of a single-file page.
"""

from __future__ import annotations

import inspect
import itertools
import pathlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from wm import core
from wm.reporting import (
  catalog,
  cautions,
  ceilings,
  charts,
  collect,
  curves,
  model_comparison,
  overview,
  paper_comparison,
  sentences,
  tables,
)
from wm.reporting.charts import Picture
from wm.runtime import files, pages

STAGE = 'report'
_UNFINISHED = '.unfinished-'
_LIST = '.files.json'  # What a report wrote, for the next one to remove.


def report(
  folders: Sequence[str | pathlib.Path],
  out: str | pathlib.Path,
  *,
  wait: bool = False,
  notes: Sequence[str] = (),
  single_file: bool = False,
) -> dict[str, Any]:
  """Writes report.html and scores.json into `out`.

  Args:
    folders: runs that hold a scores.json each; rows come in this order, but for
      baselines and ceilings, see `ceilings.ordered`. Runs that differ only in
      their training seed are one row.
    out: folder of the report; made if need be.
    wait: for another process that writes there, instead of refusing.
    notes: lines on missing results, below the first table.
    single_file: make pictures part of the page, so that it can be mailed.

  Returns:
    The `page` written, the number of `results`, a line for each of `answers`,
    and lines on what is `left_out`.

  Raises:
    InputError: a run has no results or its files are damaged, or another
      process writes there.
  """
  runs = [collect.load(folder) for folder in folders]
  out = pathlib.Path(out)
  with files.stage_lock(out, STAGE, wait=wait):
    for stale in out.glob(f'{_UNFINISHED}*'):  # Of a process that was killed.
      shutil.rmtree(stale, ignore_errors=True)
    earlier = []
    if (out / _LIST).exists():
      earlier = files.read_record(out / _LIST, {'files': list})['files']
    # A file of a run may turn out damaged late: a report is whole or absent.
    with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=out) as name:
      unfinished = pathlib.Path(name)
      summary = _write(runs, unfinished, notes, single_file)
      paths = sorted(filter(pathlib.Path.is_file, unfinished.rglob('*')))
      written = [path.relative_to(unfinished) for path in paths]
      for path in written:
        files.rename(unfinished / path, out / path)
    names = {path.as_posix() for path in written}
    files.write_json(out / _LIST, {'files': sorted(names)})
    for name in {*map(str, earlier)} - names:
      # A list that somebody changed removes nothing elsewhere, and no folder.
      path = (out / name).resolve()
      if path.is_file() and path.is_relative_to(out.resolve()):
        path.unlink()
  return summary | {'page': out / 'report.html'}


def _write(
  runs: Sequence[collect.Run],
  unfinished: pathlib.Path,
  notes: Sequence[str],
  single_file: bool,
) -> dict[str, Any]:
  """Writes all files into the folder `unfinished`.

  Returns:
    See `report`.
  """
  entries = [entry for run in runs for entry in run.entries]
  files.write_json(unfinished / 'scores.json', entries)
  measured = _Measured(ceilings.ordered(runs))
  values = _values(measured, notes) | {
    'lead': _lead(entries),
    'sections': _sections(measured, unfinished),
    'maps': _maps(measured, unfinished),
    'words': catalog.glossary(entries),
  }
  page = pages.render(
    *('wm.reporting', 'report.html'),
    script=charts.script_tag(
      [p for each in values['sections'] for p in each.pictures],
      unfinished,
      embed=single_file,
    ),
    panels=_panels(measured, unfinished),
    seeds=measured.seeds,
    number=tables.number,
    embed=single_file,
    **values,
  )
  files.write_text(unfinished / 'report.html', page)
  return {
    'results': len(entries),
    'answers': [*map(str, values['answers'])],
    'left_out': catalog.left_out(entries),
  }


def _values(measured: _Measured, notes: Sequence[str]) -> dict[str, Any]:
  """The page's question, its answers, and all that qualifies them."""
  together, frame = measured.together, measured.frame
  answers = sentences.answers(frame)
  shown = {ceilings.TRAINED} & {each.role for each in answers}
  warned, of_baselines = cautions.cautions_of_runs(together)
  return {
    'title': sentences.question(frame),
    'answers': [each for each in answers if not shown or each.role in shown],
    'references': [
      each for each in answers if shown and each.role in overview.REFERENCES
    ],
    'thresholds': [*sentences.threshold_notes(measured.parts)],
    'cautions': [*cautions.cautions_of_worlds(together), *map(str, warned)],
    'baselines': of_baselines,
    'notes': [*dict.fromkeys([*notes, *ceilings.Against(together).missing()])],
  }


def _panels(
  measured: _Measured, out: pathlib.Path
) -> list[overview.MeasurePanel]:
  """The panels of the first picture, which is also a file beside the page."""
  panels = overview.panels(measured.together, measured.frame)
  if panels:
    first = overview.picture(panels, measured.frame)
    (out / first.name).write_bytes(first.image)
  return panels


class _Measured:
  """The results that tables and pictures show.

  Attributes:
    runs: all runs in order, one for each seed.
    together, seeds: runs with the seeds of a model pooled; are there several?
    single, frame: `tables.results` of these two.
    every: `single` below the means over seeds.
    parts: `tables.results` of the breakdowns of `together`.
    by_place: results over a property of trials.
    sized: results over the number of parameters.
  """

  def __init__(self, runs: Sequence[collect.Run]) -> None:
    self.runs, self.together = runs, collect.pooled(runs)
    self.seeds = any(run.seeds for run in self.together)
    self.frame = tables.results(self.together)
    self.single = tables.results(runs) if self.seeds else self.frame
    pooled = self.frame[self.frame.seeds != '']
    self.every = pd.concat([pooled, self.single])
    self.parts = tables.results(self.together, breakdown=True)
    self.by_place = curves.curves(self.parts)
    self.sized = curves.sizes(self.together)


class PageSection(NamedTuple):
  """A part of the page.

  Attributes:
    key: its anchor.
    title: in the contents and above it.
    about: (term, sentences on it), a term is a quantity or ''.
    tables, pictures: in order.
    metric: its metric, or ''.
  """

  key: str
  title: str
  about: Sequence[tuple[str, str]] = ()
  tables: Sequence[tables.Table] = ()
  pictures: Sequence[Picture] = ()
  metric: str = ''


def _metric_section(
  measured: _Measured, metric: str, part: Callable[..., PageSection]
) -> PageSection:
  """Returns the part of the page on one metric; `part` of `_sections`."""
  mine = measured.frame[measured.frame.metric == metric]
  parts = measured.parts[measured.parts.metric == metric]
  section = part(
    f'metric-{metric}',
    metric.replace('_', ' '),
    *tables.settings_tables(mine),
    *tables.series_tables(mine),
    curves.breakdown_table(parts),
  )
  about = [('', catalog.glossary([*mine.entry][:1]).get(metric, ''))]
  about += [
    (name.replace('_', ' '), catalog.quantity(metric, name))
    for name in catalog.headline(metric, mine.quantity)
  ]
  return section._replace(about=about, metric=metric)


def _sections(
  measured: _Measured, unfinished: pathlib.Path
) -> list[PageSection]:
  """Returns the parts of the page in order.

  Pictures are written to `unfinished`.
  """
  runs, together, frame = measured.runs, measured.together, measured.frame
  pictures = [*_pictures(measured, unfinished)]

  def part(key: str, title: str, *several: tables.Table | None) -> PageSection:
    shown = [table for table in several if table is not None]
    mine = [picture for picture in pictures if picture.part == key]
    return PageSection(key, title, (), shown, mine)

  sections = [
    part(
      'table',
      'The table',
      tables.main_table(together, frame),
      *model_comparison.paired_tables(together, frame),
      *model_comparison.paired_tables(together, frame, several_seeds=True),
      model_comparison.null_table(together, frame),
    ),
    part('maps', 'Maps', paper_comparison.map_table(runs)),
  ]
  for metric in dict.fromkeys(frame.metric):
    sections.append(_metric_section(measured, metric, part))
  sections += [
    part(
      'sizes', 'Sizes and models', model_comparison.correlation_table(frame)
    ),
    part(
      'papers', 'Beside the paper', *paper_comparison.value_tables(together)
    ),
    part('training', 'Training', tables.training_table(runs)),
    part('results', 'All results', tables.full_table(measured.every)),
  ]
  return [x for x in sections if x.metric or x.tables or x.pictures]


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
  of_metrics = [*_of_metrics(measured.together)]  # First: may be refused.
  drawn = *_charts(measured), *of_metrics
  taken: set[str] = set()
  written = []
  for picture in drawn:
    stem, dot, ending = picture.name.rpartition('.')
    name = _file_name(stem, dot + ending, taken)
    (out / name).write_bytes(picture.image)
    written.append(picture._replace(name=name))
  return written


def _charts(measured: _Measured) -> Iterator[Picture]:
  """Yields the charts of training, metrics, sizes and settings."""
  frame = measured.frame
  looks = overview.looks(frame)
  if curve := curves.draw_training(measured.runs, looks):
    lines = ', a line for each seed' if measured.seeds else ''
    caption = f'Loss by step of training{lines}; lower is better'
    yield charts.picture('training', caption, curve, 'training')
  bands = 'bands are 95 % intervals'
  if measured.seeds:
    bands += ', or from the least to the greatest of several seeds'
  for line in (curve for curve in measured.by_place if curve.measured):
    name = f'{line.metric}_{line.quantity}_by_{line.column}'
    caption = f'{line.metric}: {line.quantity} by {line.axis}'
    caption += f'; {bands}' if curves.banded(line) else ''
    spec = curves.draw_curves(line, looks)
    yield charts.picture(name, caption, spec, f'metric-{line.metric}')
  for several in curves.panel_curves(measured.parts):
    metric = several[0].metric
    caption = f'{metric}: {", ".join(line.quantity for line in several)}'
    spec, part = curves.draw_panels(several, looks), f'metric-{metric}'
    yield charts.picture(f'{metric}_rules', caption, spec, part)
  for calibrated in curves.calibrations(frame):
    metric = calibrated[0].metric
    caption = f'{metric}: model over oracle, by bins of pairs; {bands}'
    spec, part = curves.draw_calibrations(calibrated, looks), f'metric-{metric}'
    yield charts.picture(f'{metric}_calibration', caption, spec, part)
  for panels in measured.sized:
    metric, quantity = panels[0][:2]
    caption = f'{metric}: {quantity} against parameters'
    spec, name = curves.draw_sizes(panels), f'{metric}_{quantity}'
    yield charts.picture(f'{name}_by_parameters', caption, spec, 'sizes')


_MOST = 8  # Models in a figure that a metric draws.


def _of_metrics(runs: Sequence[collect.Run]) -> Iterator[Picture]:
  """Yields the figures that metrics draw, one of each spec.

  Of pooled seeds the first is drawn.
  """
  specs = {tables.spec(e): e['metric'] for run in runs for e in run.entries}
  few = f'; the first {_MOST} of {len(runs)} models' * (len(runs) > _MOST)
  for spec, metric in specs.items():
    draw = catalog.metric_class(metric).draw
    if draw is core.Metric.draw:
      continue
    rows = {}
    for run, label in zip(runs[:_MOST], tables.labels(runs), strict=False):
      trials = collect.trials(run)
      if len(mine := trials[trials.spec == spec]):
        rows[label] = mine
    figure = charts.new_figure()
    if draw(rows, figure):
      words = ' '.join((inspect.getdoc(draw) or '').split())
      png = charts.to_png(figure)
      part = f'metric-{metric}'
      yield Picture(f'{spec}.png', f'{spec}: {words}{few}', png, part=part)


def _maps(measured: _Measured, out: pathlib.Path) -> list[dict[str, str]]:
  """Copies the interactive maps of trained models, or else of all.

  Returns:
    For each the `label` of the model, the `name` of the file beside the report,
    and its content, a `page`.
  """
  runs = measured.runs
  roles, taken = ceilings.roles(runs), set[str]()
  result: list[dict[str, str]] = []
  for run, label, role in zip(runs, tables.labels(runs), roles, strict=True):
    source = run.folder / 'map.html'
    shown = role == ceilings.TRAINED or ceilings.TRAINED not in roles
    if shown and source.is_file():
      name = _file_name(f'map_{run.name}', '.html', taken)
      shutil.copyfile(source, out / name)
      page = source.read_text('utf-8', 'replace')
      result.append({'label': label, 'name': name, 'page': page})
  return result


_LONGEST = 120  # Characters of a file's name.


def _file_name(stem: str, suffix: str, taken: set[str]) -> str:
  """Returns a file's name after a text of any characters, numbered where it is
  taken, and takes it.
  """
  plain = re.sub(r'[^\w.+=-]+', '_', stem)[:_LONGEST]
  numbers = itertools.chain([''], (f'_{n}' for n in itertools.count(2)))
  names = (plain + number + suffix for number in numbers)
  # To some file systems letters of either case are the same.
  name = next(name for name in names if name.lower() not in taken)
  taken.add(name.lower())
  return name
