"""Writes a report of one or several runs: Markdown, HTML and the numbers."""

from __future__ import annotations

import csv
import itertools
import pathlib
import re
import shutil
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import markupsafe

from wm.core import inputs
from wm.reporting import (
  across,
  beside,
  breakdown,
  calibration,
  catalog,
  cautions,
  ceilings,
  collect,
  covered,
  declared,
  exposures,
  figures,
  main_table,
  mapped,
  retold,
  scaling,
  scaling_figures,
  searched,
  tables,
  worst,
)
from wm.runtime import files, locks, pages

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
  with locks.writer(out, STAGE, wait=wait):
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
  _merge_rows(
    [run.folder / 'rows.csv' for run in runs], unfinished / 'rows.csv'
  )
  runs = ceilings.ordered(runs)
  together = collect.pooled(runs)
  curves = breakdown.curves(together)
  groups = worst.groups(together)
  sized = scaling.panels(together)
  warned, of_baselines = cautions.of_runs(together)
  values: dict[str, Any] = {
    'title': TITLE,
    'lead': _lead(entries),
    'cautions': [*map(str, warned), *cautions.unchecked(together)],
    'baselines': of_baselines,
    'rules': cautions.rules(together),
    'tables': _tables(runs, together, curves, sized, out),
    'notes': [*dict.fromkeys([*notes, *ceilings.Against(together).missing()])],
    'pictures': _pictures(runs, together, curves, sized, unfinished),
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
    'left_out': declared.left_out(entries),
  }


def _tables(
  runs: Sequence[collect.Run],
  together: Sequence[collect.Run],
  curves: Sequence[breakdown.Curve],
  sized: Sequence[Sequence[scaling.Panel]],
  out: pathlib.Path,
) -> list[tables.Table]:
  """Returns all tables in order; `together` are the runs with seeds pooled."""
  from wm.reporting import paired  # Differences load SciPy.

  result = [
    main_table.table(together),
    paired.table(together),
    exposures.table(runs),
    *beside.paper_tables(together),
    *searched.search_tables(runs),
    covered.table([out.parent, out, *(run.folder for run in runs)]),
    *tables.settings_tables(together),
    *tables.series_tables(together),
    *(scaling.table(panels) for panels in sized),
    *(scaling.ablation_table(panels) for panels in sized),
    across.table(together),
    retold.table(runs),
    mapped.map_table(runs),
    *tables.quantity_tables(together),
    *breakdown.curve_tables(curves),
    breakdown.table(together, curves),
    tables.full_table(runs),
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


class Picture(NamedTuple):
  """A picture of the report.

  Attributes:
    name: of its file in the report's folder.
    caption: below it.
    png: its content.
    link: name of an interactive page, or ''.
  """

  name: str
  caption: str
  png: bytes
  link: str = ''

  @property
  def wide(self) -> bool:
    """Does it have several panels?"""
    # A PNG begins with 16 bytes of signature, length and type.
    return int.from_bytes(self.png[16:20], 'big') > 1000


def _pictures(
  runs: Sequence[collect.Run],
  together: Sequence[collect.Run],
  curves: Sequence[breakdown.Curve],
  sized: Sequence[Sequence[scaling.Panel]],
  out: pathlib.Path,
) -> list[Picture]:
  """Draws all pictures; each is also a file in the report's folder."""
  pictures: list[Picture] = []
  if curve := figures.training(runs):
    lines = ', a line for each seed' if together != runs else ''
    caption = f'By step of training{lines}'
    pictures.append(Picture('training.png', caption, curve))
  bands = 'bands are 95 % intervals'
  if any(run.seeds for run in together):
    bands += ', or from the least to the greatest of several seeds'
  for line in (curve for curve in curves if curve.measured):
    name = f'{line.metric}_{line.quantity}_by_{line.column}.png'
    caption = f'{line.metric}: {line.quantity} by {line.axis}'
    caption += f'; {bands}' if figures.banded(line) else ''
    if line.correlations and figures.banded(line):
      caption += f'; above is the correlation, {breakdown.CORRELATION}'
    pictures.append(Picture(name, caption, figures.curves(line)))
  for several in breakdown.panels(together):
    name = f'{several[0].metric}_rules.png'
    caption = (
      f'{several[0].metric}: {", ".join(line.quantity for line in several)}'
    )
    pictures.append(Picture(name, caption, figures.panels(several)))
  for calibrated in calibration.panels(together):
    name, caption = (
      f'{calibrated[0].metric}_calibration.png',
      'model over oracle',
    )
    caption = f'{calibrated[0].metric}: {caption}, by bins of pairs; {bands}'
    pictures.append(Picture(name, caption, calibration.drawn(calibrated)))
  for panels in sized:
    pictures += _scaled(panels)
  for field, points in figures.ablations(together).items():
    caption = f'Ablation over {field}; {bands}'
    drawn = figures.ablation(field, points)
    pictures.append(Picture(f'ablation_{field}.png', caption, drawn))
  taken: set[str] = set()
  roles = ceilings.roles(runs)
  for run, label, role in zip(runs, tables.labels(runs), roles, strict=True):
    # Beside trained models, the maps of baselines are lines of a table: a page
    # is too heavy with all of them.
    if role == ceilings.TRAINED or ceilings.TRAINED not in roles:
      pictures += _map_pictures(run, label, out, taken)
  written = []
  for picture in pictures:
    name = _file_name(picture.name.removesuffix('.png'), '.png', taken)
    (out / name).write_bytes(picture.png)
    written.append(picture._replace(name=name))
  return written


def _scaled(panels: Sequence[scaling.Panel]) -> list[Picture]:
  """Returns a quantity over parameters, and what variants lose."""
  metric, quantity = panels[0][:2]
  what, words = f'{metric}_{quantity}', f'{metric}: {quantity}'
  theirs = any(panel.printed for panel in panels)
  hollow = ', hollow: in the paper, whose training is its own' if theirs else ''
  caption = f'{words} against parameters{hollow}'
  drawn = scaling_figures.pareto(panels)
  pictures = [Picture(f'{what}_by_parameters.png', caption, drawn)]
  if lost := scaling_figures.arrows(panels):
    caption = f'{words} of less expressive variants{hollow}'
    pictures.append(Picture(f'{what}_of_variants.png', caption, lost))
  return pictures


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


def _merge_rows(sources: Sequence[pathlib.Path], target: pathlib.Path) -> None:
  """Writes one CSV with the union of the sources' columns."""
  present = [source for source in sources if source.is_file()]
  heads: dict[str, None] = {}
  for source in present:
    with collect.reading(source) as file:
      heads.update(dict.fromkeys(next(csv.reader(file), [])))
  with (
    files.replacing(target) as name,
    open(name, 'w', newline='', encoding='utf-8') as merged,
  ):
    writer = csv.writer(merged, lineterminator='\n')
    writer.writerow(heads)
    value = [*heads].index('value') if present else 0
    for source in present:
      with inputs.reading(source, 'a table of trials'):
        for row in collect.rows(source, [*heads]):
          float(row[value] or 0)  # Raises where it is no number.
          writer.writerow(row)
