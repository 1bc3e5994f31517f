"""One page over all miniatures: each finding, our numbers, and the verdict.

FOLDER/findings.json          see `wm.lab.findings`
FOLDER/NAME.flags             a miniature
FOLDER/results/NAME/*.json    its units, see `wm.lab.units`

The `picture` of a finding has a `kind`, perhaps `rows` in order, and

    bars      a panel for each claim's quantity, a bar for each row, the paper's
              value beside it
    series    a line for each row over the numbers that end the names of a
              `metric`'s quantities (valid_0.5), of which `quantity` is the
              beginning
    curve     a line for each row over the breakdown of `quantity` `by` a column
    grid      a panel for each task, of rows TASK_MODEL: a line for each model
              and a field for each place of the breakdown `by` a column
    map       the map that each row's routes imply, of its first seed

Lines may have `x`, a label, and `published`, row -> {number: value}.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wm import core
from wm.core import inputs
from wm.lab import findings, units, verdicts
from wm.lab.findings import Quantity
from wm.lab.units import Amount, Rows, Unit
from wm.lab.verdicts import Judged
from wm.reporting import ceilings, charts, tables
from wm.reporting.charts import Picture
from wm.runtime import files, pages

TITLE = 'What the papers found, in miniature'


class Section(NamedTuple):
  """A finding on the page.

  Attributes:
    judged: the finding and its verdict.
    rule: its hash and date, and p values.
    effect: the difference that decides.
    table: our numbers beside the paper's.
    pictures: figures in the paper's form.
  """

  judged: Judged
  rule: str
  effect: str
  table: tables.Table
  pictures: list[Picture]


def names(folder: str | pathlib.Path) -> list[str]:
  """Names of the miniatures in a folder; InputError if it has none."""
  stems = sorted(path.stem for path in pathlib.Path(folder).glob('*.flags'))
  if not stems:
    raise core.InputError(f'{folder} has no flagfiles of miniatures')
  return stems


def rows_of(flagfile: pathlib.Path) -> list[str]:
  """Names of a flagfile's rows, in order; results of others are old."""
  return re.findall(r'^--row=\s*(\w+)\s*:', flagfile.read_text(), re.M)


def first_seed(flagfile: pathlib.Path) -> int:
  """The first seed of a miniature, by which its findings are judged."""
  named = re.search(r'^--first_seed=(\d+)$', flagfile.read_text(), re.M)
  return int(named[1]) if named else 0


def _is_baseline(row: str, rows: Sequence[str]) -> bool:
  """Is this row a baseline, which `wm.miniature` adds to these rows?"""
  names = '|'.join((*ceilings.ROLES, 'bayes_replanning'))
  return row not in rows and any(
    re.fullmatch(rf'({names})(_{re.escape(name)})?', row) for name in rows
  )


def judged(folder: str | pathlib.Path) -> tuple[list[Judged], dict[str, Rows]]:
  """Verdicts on all findings, and the units of each miniature by row.

  Raises:
    InputError: bad findings or results, or a finding of no such miniature.
  """
  place = pathlib.Path(folder)
  read: dict[str, Rows] = {}
  results = {}
  for name in names(place):
    flags = place / f'{name}.flags'
    several = units.read_all(place / 'results' / name)
    first = first_seed(flags)
    since = units.one_recipe([x for x in several if x.seed >= first])
    # Rows that were made again are shown by the seeds that decide.
    every = {**units.one_recipe(several), **since}
    results[name] = units.of_committed_code(since, first)
    rows = rows_of(flags)
    beside = [row for row in every if _is_baseline(row, rows)]
    read[name] = {row: every[row] for row in (*rows, *beside) if row in every}
  listed = findings.load(place / 'findings.json')
  for finding in listed:
    if finding.miniature not in read:
      raise core.InputError(
        f'finding {finding.name!r} is of no miniature {finding.miniature!r}; '
        f'available: {", ".join(read)}'
      )
  return verdicts.judge(listed, results), read


def verdict_table(judged: Sequence[Judged]) -> tables.Table:
  """A row for each finding, by paper, with the difference that decides."""
  papers = [each.finding.paper for each in judged]
  ordered = sorted(judged, key=lambda each: papers.index(each.finding.paper))
  rows = [
    {
      'paper': each.finding.paper,
      'finding': each.finding.title,
      'verdict': each.label,
      'deciding difference D': verdicts.deciding_effect(each)[len('D ') :],
    }
    for each in ordered
  ]
  return tables.of_rows('', rows)


def write(folder: str | pathlib.Path, out: str | pathlib.Path) -> list[Judged]:
  """Writes report.html and the pictures into `out`."""
  place, out = pathlib.Path(folder), pathlib.Path(out)
  judgements, read = judged(place)
  with files.stage_lock(out, 'report'):
    sections = [section(each, read, place, out) for each in judgements]
    drawn = [picture for section in sections for picture in section.pictures]
    text = pages.render(
      *('wm.reporting', 'miniatures.html'),
      script=charts.script_tag(drawn, out),
      title=TITLE,
      lead=_lead(read),
      note=verdicts.verdict_note(judgements),
      sections=sections,
    )
    files.write_text(out / 'report.html', text)
  return judgements


def section(
  judged: Judged,
  read: Mapping[str, Rows],
  place: pathlib.Path,
  out: pathlib.Path,
) -> Section:
  """A finding as a page shows it; its pictures are written into `out`.

  Args:
    judged, read: see the function `judged`.
    place: folder of the miniatures.
    out: folder of the page.
  """
  finding = judged.finding
  rows = units.of_committed_code(read[finding.miniature]).rows
  results = place / 'results' / finding.miniature
  pictures = []
  caption = f'{finding.title}: {_legend(judged)}'
  for number, drawn in enumerate(draw_finding(judged, rows, results)):
    name = f'{finding.name}-{number}'
    picture = (
      Picture(f'{name}.png', caption, drawn)
      if isinstance(drawn, bytes)
      else charts.picture(name, caption, drawn)
    )
    (out / picture.name).write_bytes(picture.image)
    pictures.append(picture)
  return Section(
    judged,
    verdicts.rule_text(judged),
    verdicts.deciding_effect(judged),
    verdicts.comparison_table(judged, rows),
    pictures,
  )


def _legend(judged: Judged) -> str:
  legends = {'map': 'the map that routes imply', 'grid': 'means over seeds'}
  usual = 'with 95 % intervals over seeds; hollow: the paper'
  return legends.get(judged.finding.picture.get('kind', ''), usual)


def _lead(read: Mapping[str, Rows]) -> str:
  every = [u for rows in read.values() for row in rows.values() for u in row]
  if not every:
    return 'No units have been made.'

  def known(key: str) -> str:
    return ', '.join(sorted({str(unit.about.get(key)) for unit in every}))

  commits = {str(unit.about.get('commit'))[:10] for unit in every}
  return tables.note(
    'units',
    num=len(every),
    changed=sum(not units.is_committed(unit) for unit in every),
    hours=sum(unit.cost['cpu_seconds'] for unit in every) / 3600,
    commits=sorted(commits),
    **{key: known(key) for key in ('processor', 'cores', 'jax')},
  )


KINDS = 'bars', 'series', 'curve', 'grid', 'map'
Points = list[tuple[float, Amount]]


def draw_finding(
  judged: Judged, rows: Rows, results: pathlib.Path
) -> Sequence[bytes | charts.Spec]:
  """Charts of a finding, or PNG images of maps; [] where there is nothing to
  draw.

  Args:
    judged: the finding.
    rows: units of its miniature, by row.
    results: folder of their files, which holds the maps.

  Raises:
    InputError: no such kind of picture.
  """
  picture = judged.finding.picture
  if not picture:
    return []
  kind = picture.get('kind', '')
  where = f'finding {judged.finding.name!r}'
  inputs.check_known(kind, KINDS, f'{where}: no picture {kind!r}')
  names = picture.get('rows') or list(rows)
  if kind == 'map':
    paths = [
      results / f'{units.name(name, rows[name][0].seed)}.png'
      for name in names
      if name in rows
    ]
    return [path.read_bytes() for path in paths if path.is_file()]
  if kind == 'bars':
    return _draw_bars(judged)
  lines = {name: _points(rows.get(name, ()), picture) for name in names}
  lines = {name: points for name, points in lines.items() if points}
  if not lines:
    return []
  draw = _draw_grid if kind == 'grid' else _draw_lines
  return [draw(lines, picture)]


def _printed(name: str, x: Any, value: float) -> dict[str, Any]:
  """A row of a chart with the value that a paper prints."""
  looks = {'pale': True, 'joined': False}
  return {'model': name, 'x': x, 'value': value, 'about': 'the paper', **looks}


def _draw_bars(judged: Judged) -> list[charts.Spec]:
  panels: dict[str, tuple[dict, dict]] = {}
  for claim in judged.finding.claims:  # Those of one quantity share a panel.
    if measured := judged.amounts_of(claim):
      ours, theirs = panels.setdefault(str(claim.of), ({}, {}))
      ours |= {
        name: charts.mark(name, name, x.entry()) for name, x in measured.items()
      }
      theirs |= {
        name: _printed(name, name, claim.published[name])
        for name in measured
        if name in claim.published
      }
  if not panels:
    return []
  names = dict.fromkeys(name for ours, _ in panels.values() for name in ours)
  drawn = [
    charts.Panel('', '', [*ours.values(), *theirs.values()], label)
    for label, (ours, theirs) in panels.items()
  ]
  return [charts.dots(drawn, charts.palette(names))]


def _points(row: Sequence[Unit], picture: Mapping[str, Any]) -> Points:
  """Amounts of a breakdown `by` a column, or of quantities that end in
  numbers.
  """
  metric, quantity = picture['metric'], picture['quantity']
  of: dict[float, Quantity] = {}
  for entry in (entry for unit in row for entry in unit.scores):
    start, _, tail = entry['quantity'].rpartition('_')
    where = entry.get('where', {})
    if 'by' in picture:
      if list(where) == [picture['by']]:
        of[where[picture['by']]] = Quantity(metric, quantity, where)
    elif start == quantity and tail.replace('.', '', 1).isdigit():
      of[float(tail)] = Quantity(metric, entry['quantity'])
  points = [(at, units.amount(row, of[at])) for at in sorted(of)]
  return [(at, amount) for at, amount in points if amount is not None]


def _draw_lines(
  lines: Mapping[str, Points], picture: Mapping[str, Any]
) -> charts.Spec:
  rows = [
    charts.mark(name, at, amount.entry())
    for name, points in lines.items()
    for at, amount in points
  ]
  rows += [
    _printed(name, float(at), value)
    for name in lines
    for at, value in picture.get('published', {}).get(name, {}).items()
  ]
  labels = picture.get('x', ''), picture['quantity']
  panel = charts.Panel(*labels, rows, width=460, height=280)
  return charts.lines([panel], charts.palette(lines))


def _draw_grid(
  lines: Mapping[str, Points], picture: Mapping[str, Any]
) -> charts.Spec:
  panels = []
  for task in dict.fromkeys(name.partition('_')[0] for name in lines):
    rows = [
      charts.mark(name.partition('_')[2], at, amount.entry())
      for name, points in lines.items()
      for at, amount in points
      if name.partition('_')[0] == task
    ]
    width = 32 * len({row['x'] for row in rows})
    label = picture.get('x', picture['by'])
    panels.append(charts.Panel(label, '', rows, task, width=width))
  return charts.heat(panels)
