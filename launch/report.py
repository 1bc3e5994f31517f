"""Writes a report of scored runs: tables, curves and maps.

  python launch/report.py --out=runs/manhattan_random
  python launch/report.py --runs=runs/a --runs=runs/b --out=runs/both

The report is in OUT/report: report.md, report.html (one page, no network
needed), scores.json and rows.csv (every trial).
"""

import pathlib

import common  # First: it makes the package importable.


def main(wait: bool = False) -> None:
  """Reports --runs, or --out itself; see `write.report`."""
  from wm.reporting import write

  common.need('out')
  flags = common.FLAGS
  folders = flags.runs or [flags.out]
  summary = write.report(folders, pathlib.Path(flags.out) / 'report', wait=wait)
  print(f'{summary["results"]} results of {len(folders)} runs')
  print(f'report: {summary["html"]}')
  print(f'        {summary["markdown"]}')


if __name__ == '__main__':
  common.run(main, 'runs')
