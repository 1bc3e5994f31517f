"""Writes a report of one or several runs: Markdown, HTML and the numbers."""

from __future__ import annotations

import csv
import pathlib
import re
import shutil
from collections.abc import Sequence
from typing import Any

from wm.reporting import (
  beside,
  breakdown,
  collect,
  figures,
  gallery,
  page,
  seeds,
  settings,
  tables,
  terms,
  worst,
)
from wm.runtime import files, locks

STAGE = 'report'


def report(
  folders: Sequence[str | pathlib.Path],
  out: str | pathlib.Path,
  *,
  wait: bool = False,
) -> dict[str, Any]:
  """Writes report.md, report.html, scores.json and rows.csv into `out`.

  Args:
    folders: runs that hold a scores.json each; rows come in this order. Those
      that differ in their training seed alone are one row.
    out: folder of the report; made if need be.
    wait: for another process that writes there, instead of refusing.

  Returns:
    The paths written, by kind, and the number of results.

  Raises:
    InputError: a run has no results or its files are damaged, or another
      process writes there.
  """
  runs = [collect.load(folder) for folder in folders]
  with locks.writer(out, STAGE, wait=wait):
    return _write(runs, pathlib.Path(out))


def _write(runs: Sequence[collect.Run], out: pathlib.Path) -> dict[str, Any]:
  entries = [entry for run in runs for entry in run.entries]
  files.write_json(out / 'scores.json', entries)
  _merge_rows([run.folder / 'rows.csv' for run in runs], out / 'rows.csv')
  together = seeds.pooled(runs)
  curves = breakdown.curves(together)
  parts = _tables(runs, together, curves)
  pictures = _pictures(runs, together, curves, out)
  lead = _lead(entries)
  words = terms.glossary(entries)
  groups = worst.groups(together)
  text = _markdown(lead, parts, pictures, words, gallery.markdown(groups))
  files.write_text(out / 'report.md', text)
  trials = gallery.section(together, groups)
  text = _html(lead, parts, pictures, out, words, trials)
  files.write_text(out / 'report.html', text)
  return {
    'results': len(entries),
    'markdown': str(out / 'report.md'),
    'html': str(out / 'report.html'),
    'scores': str(out / 'scores.json'),
    'rows': str(out / 'rows.csv'),
  }


def _tables(
  runs: Sequence[collect.Run],
  together: Sequence[collect.Run],
  curves: Sequence[breakdown.Curves],
) -> list[tables.Table]:
  """All of them, in order; `together` are the runs with seeds put together."""
  made = [
    tables.main_table(together),
    *beside.paper_tables(together),
    *settings.compared(together),
    *tables.series_tables(together),
    beside.map_table(runs),
    *settings.quantities(together),
    *breakdown.along(curves),
    breakdown.table(together, curves),
    tables.full_table(runs),
  ]
  return [table for table in made if table is not None]


def _lead(entries: Sequence[collect.Entry]) -> str:
  def known(key: str) -> str:
    found = {str(e[key]) for e in entries if e.get(key) is not None}
    return ', '.join(sorted(found))

  commits = {e['commit'][:10] for e in entries if e.get('commit')}
  facts = {
    'worlds': known('world'),
    'seed': known('seed'),
    'training seeds': known('training_seed'),
    'wm': known('wm_version'),
    'commit': ', '.join(sorted(commits)),
  }
  return '; '.join(f'{key} {value}' for key, value in facts.items() if value)


# (file name inside the report, caption, link to an interactive page or None)
Picture = tuple[str, str, str | None]


def _pictures(
  runs: Sequence[collect.Run],
  together: Sequence[collect.Run],
  curves: Sequence[breakdown.Curves],
  out: pathlib.Path,
) -> list[Picture]:
  """Draws or copies every picture into the report's folder."""
  made: list[Picture] = []
  curve = figures.training(runs)
  if curve:
    (out / 'training.png').write_bytes(curve)
    lines = ', a line for each seed' if together != runs else ''
    made.append(('training.png', f'By step of training{lines}', None))
  bands = 'bands are 95 % intervals'
  if any(run.seeds for run in together):
    bands += ', or from the least to the greatest of several seeds'
  for one in curves:
    name = f'{one.metric}_{one.quantity}_by_{one.column}.png'
    (out / name).write_bytes(figures.curves(one))
    caption = f'{one.metric}: {one.quantity} by {one.axis}'
    caption += f'; {bands}' if figures.banded(one) else ''
    made.append((name, caption, None))
  for field, points in figures.ablations(together).items():
    name = f'ablation_{field}.png'
    (out / name).write_bytes(figures.ablation(field, points))
    made.append((name, f'Ablation over {field}; {bands}', None))
  for run in runs:
    made += _map_pictures(run, out)
  return made


def _map_pictures(run: collect.Run, out: pathlib.Path) -> list[Picture]:
  made: list[Picture] = []
  interactive = run.folder / 'map.html'
  plain = re.sub(r'[^\w.+=-]+', '_', run.name)  # Of a file, it holds a path.
  link = f'map_{plain}.html' if interactive.is_file() else None
  if link:
    shutil.copyfile(interactive, out / link)
  for source in sorted(run.folder.glob('map*.png')):
    name = f'{source.stem}_{plain}.png'
    shutil.copyfile(source, out / name)
    view = source.stem.removeprefix('map').strip('_') or 'whole'
    made.append((name, f'Map implied by {run.name}, {view} view', link))
  return made


def _merge_rows(sources: Sequence[pathlib.Path], target: pathlib.Path) -> None:
  """One CSV with the union of the sources' columns, rows streamed."""
  heads: dict[str, None] = {}
  present = [source for source in sources if source.is_file()]
  first = set()
  for source in present:
    with collect.reading(source) as file:
      first.add(file.readline())
      file.seek(0)
      heads.update(dict.fromkeys(next(csv.reader(file), [])))
  if len(first) == 1:
    _append(present, target)
    return
  with (
    files.replacing(target) as name,
    open(name, 'w', newline='', encoding='utf-8') as merged,
  ):
    writer = csv.DictWriter(merged, list(heads), restval='')
    writer.writeheader()
    for source in present:
      with collect.reading(source) as file:
        writer.writerows(csv.DictReader(file))


def _append(sources: Sequence[pathlib.Path], target: pathlib.Path) -> None:
  """Files of the same columns: as they are, which is faster."""
  with files.replacing(target) as name, open(name, 'wb') as merged:
    for number, source in enumerate(sources):
      with open(source, 'rb') as file:
        head = file.readline()
        if not number:
          merged.write(head)
        shutil.copyfileobj(file, merged)


def _markdown(
  lead: str,
  parts: Sequence[tables.Table],
  pictures: Sequence[Picture],
  words: dict[str, str],
  trials: str,
) -> str:
  shown = [f'# {_TITLE}', '', lead, '']
  shown += [part.markdown() for part in parts if not part.folded]
  for name, caption, link in pictures:
    shown += [f'![{caption}]({name})', '']
    if link:
      shown += [f'[{caption}: interactive]({link})', '']
  shown += [trials] if trials else []
  shown += [part.markdown() for part in parts if part.folded]
  shown += ['## What is measured', '']
  shown += [f'- `{term}`: {text}' for term, text in words.items()]
  return '\n'.join([*shown, ''])


def _html(
  lead: str,
  parts: Sequence[tables.Table],
  pictures: Sequence[Picture],
  out: pathlib.Path,
  words: dict[str, str],
  trials: str,
) -> str:
  images = [
    page.figure((out / name).read_bytes(), caption, link)
    for name, caption, link in pictures
  ]
  body = [page.table(part) for part in parts if not part.folded]
  if images:
    body += ['<h2>Pictures</h2>', *images]
  body += [trials, page.definitions(words)]
  body += [page.table(part) for part in parts if part.folded]
  return page.page(_TITLE, lead, body)


_TITLE = 'World models, measured'
