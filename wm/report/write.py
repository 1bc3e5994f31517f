"""Writes a report of one or several runs: Markdown, HTML and the numbers."""

from __future__ import annotations

import csv
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any

from wm import files, registry
from wm.report import collect, figures, gallery, page, tables, worst


def report(
  folders: Sequence[str | pathlib.Path], out: str | pathlib.Path
) -> dict[str, Any]:
  """Writes report.md, report.html, scores.json and rows.csv into `out`.

  Args:
    folders: runs that hold a scores.json each; rows come in this order.
    out: folder of the report; made if need be.

  Returns:
    The paths written, by kind, and the number of results.

  Raises:
    InputError: a run has no results or its files are damaged.
  """
  runs = [collect.load(folder) for folder in folders]
  out = pathlib.Path(out)
  out.mkdir(parents=True, exist_ok=True)
  entries = [entry for run in runs for entry in run.entries]
  files.write_json(out / 'scores.json', entries)
  _merge_rows([run.folder / 'rows.csv' for run in runs], out / 'rows.csv')
  parts = _tables(runs)
  pictures = _pictures(runs, out)
  lead = _lead(entries)
  terms = _definitions(entries)
  groups = worst.groups(runs)
  text = _markdown(lead, parts, pictures, terms, gallery.markdown(groups))
  files.write_text(out / 'report.md', text)
  trials = gallery.section(runs, groups)
  text = _html(lead, parts, pictures, out, terms, trials)
  files.write_text(out / 'report.html', text)
  return {
    'results': len(entries),
    'markdown': str(out / 'report.md'),
    'html': str(out / 'report.html'),
    'scores': str(out / 'scores.json'),
    'rows': str(out / 'rows.csv'),
  }


def _tables(runs: Sequence[collect.Run]) -> list[tables.Table]:
  made = [
    tables.main_table(runs),
    *tables.paper_tables(runs),
    *tables.series_tables(runs),
    tables.map_table(runs),
    tables.breakdown_table(runs),
    tables.full_table(runs),
  ]
  return [table for table in made if table is not None]


def _lead(entries: Sequence[collect.Entry]) -> str:
  def known(key: str) -> str:
    return ', '.join(sorted({str(e[key]) for e in entries if e.get(key)}))

  commits = {e['commit'][:10] for e in entries if e.get('commit')}
  facts = {
    'worlds': known('world'),
    'seed': ', '.join(sorted({str(entry['seed']) for entry in entries})),
    'wm': known('wm_version'),
    'commit': ', '.join(sorted(commits)),
  }
  return '; '.join(f'{key} {value}' for key, value in facts.items() if value)


def _definitions(entries: Sequence[collect.Entry]) -> dict[str, str]:
  """First paragraph of each metric's docstring."""
  names = dict.fromkeys(entry['metric'] for entry in entries)
  return {
    name: ' '.join(
      (registry.find('metric', name).__doc__ or '').split('\n\n')[0].split()
    )
    for name in names
  }


# (file name inside the report, caption, link to an interactive page or None)
Picture = tuple[str, str, str | None]


def _pictures(runs: Sequence[collect.Run], out: pathlib.Path) -> list[Picture]:
  """Draws or copies every picture into the report's folder."""
  made: list[Picture] = []
  curve = figures.training(runs)
  if curve:
    (out / 'training.png').write_bytes(curve)
    made.append(('training.png', 'Training and held-out loss', None))
  for field, points in figures.ablations(runs).items():
    name = f'ablation_{field}.png'
    (out / name).write_bytes(figures.ablation(field, points))
    made.append(
      (name, f'Ablation over {field}; bands are 95 % intervals', None)
    )
  for run in runs:
    made += _map_pictures(run, out)
  return made


def _map_pictures(run: collect.Run, out: pathlib.Path) -> list[Picture]:
  made: list[Picture] = []
  interactive = run.folder / 'map.html'
  link = f'map_{run.name}.html' if interactive.is_file() else None
  if link:
    shutil.copyfile(interactive, out / link)
  for source in sorted(run.folder.glob('map*.png')):
    name = f'{source.stem}_{run.name}.png'
    shutil.copyfile(source, out / name)
    view = source.stem.removeprefix('map').strip('_') or 'whole'
    made.append((name, f'Map implied by {run.name}, {view} view', link))
  return made


def _merge_rows(sources: Sequence[pathlib.Path], target: pathlib.Path) -> None:
  """One CSV with the union of the sources' columns, rows streamed."""
  heads: dict[str, None] = {}
  present = [source for source in sources if source.is_file()]
  for source in present:
    with open(source, newline='', encoding='utf-8') as file:
      heads.update(dict.fromkeys(next(csv.reader(file), [])))
  with (
    files.replacing(target) as name,
    open(name, 'w', newline='', encoding='utf-8') as merged,
  ):
    writer = csv.DictWriter(merged, list(heads), restval='')
    writer.writeheader()
    for source in present:
      with open(source, newline='', encoding='utf-8') as file:
        writer.writerows(csv.DictReader(file))


def _markdown(
  lead: str,
  parts: Sequence[tables.Table],
  pictures: Sequence[Picture],
  terms: dict[str, str],
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
  shown += [f'- `{term}`: {text}' for term, text in terms.items()]
  return '\n'.join([*shown, ''])


def _html(
  lead: str,
  parts: Sequence[tables.Table],
  pictures: Sequence[Picture],
  out: pathlib.Path,
  terms: dict[str, str],
  trials: str,
) -> str:
  images = [
    page.figure((out / name).read_bytes(), caption, link)
    for name, caption, link in pictures
  ]
  body = [page.table(part) for part in parts if not part.folded]
  if images:
    body += ['<h2>Pictures</h2>', *images]
  body += [trials, page.definitions(terms)]
  body += [page.table(part) for part in parts if part.folded]
  return page.page(_TITLE, lead, body)


_TITLE = 'World models, measured'
