"""One page over all miniatures: each finding, our numbers, and the verdict.

FOLDER/findings.json          see `wm.lab.findings`
FOLDER/NAME.flags             a miniature
FOLDER/results/NAME/*.json    its units, see `wm.lab.units`
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wm import core
from wm.lab import findings, units, verdicts
from wm.lab.units import Rows
from wm.lab.verdicts import Judged
from wm.reporting import ceilings, tables
from wm.runtime import files, pages

TITLE = 'What the papers found, in miniature'


class Section(NamedTuple):
  """A finding on the page.

  Attributes:
    judged: the finding and its verdict.
    rule: its hash and date, and p values.
    effect: that decides.
    table: our numbers beside the paper's.
  """

  judged: Judged
  rule: str
  effect: str
  table: tables.Table


def names(folder: str | pathlib.Path) -> list[str]:
  """Miniatures of a folder; InputError where there are none."""
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
  """Is it one that `wm.miniature` adds to these rows?"""
  names = '|'.join((*ceilings.ROLES, 'bayes_replanning'))
  return row not in rows and any(
    re.fullmatch(rf'({names})(_{re.escape(name)})?', row) for name in rows
  )


def judged(
  folder: str | pathlib.Path,
) -> tuple[list[Judged], dict[str, Rows]]:
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
  """Writes report.html into `out`."""
  place, out = pathlib.Path(folder), pathlib.Path(out)
  judgements, read = judged(place)
  with files.stage_lock(out, 'report'):
    sections = [section(each, read) for each in judgements]
    text = pages.render(
      *('wm.reporting', 'miniatures.html'),
      script='',
      title=TITLE,
      lead=_lead(read),
      note=verdicts.verdict_note(judgements),
      sections=sections,
    )
    files.write_text(out / 'report.html', text)
  return judgements


def section(judged: Judged, read: Mapping[str, Rows]) -> Section:
  """A finding as a page shows it; see the function `judged`."""
  rows = units.of_committed_code(read[judged.finding.miniature]).rows
  return Section(
    judged,
    verdicts.rule_text(judged),
    verdicts.deciding_effect(judged),
    verdicts.comparison_table(judged, rows),
  )


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
