"""Writes a report of scored runs: tables, curves and maps.

  python launch/report.py --out=runs/manhattan_random
  python launch/report.py --runs=runs/a --runs=runs/b --out=runs/both

The report is in OUT/report: report.md, report.html (one page, no network
needed), scores.json and rows.csv (every trial).
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call."""
  common.need('out')
  import wm

  wm.report(FLAGS.runs or [FLAGS.out], FLAGS.out, tell=print)


if __name__ == '__main__':
  common.run(main, 'runs')
