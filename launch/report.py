"""Writes a report of scored runs: tables, curves and maps.

  python launch/report.py --out=runs/manhattan_random
  python launch/report.py --runs=runs/a --runs=runs/b --out=runs/both
  python launch/report.py --runs=runs/quickstart --out=runs/quickstart
  python launch/report.py --runs=logs --out=runs/papers
  python launch/report.py --compare=runs/a,runs/b
  python launch/report.py --miniatures=launch/flags/miniatures --out=runs/minis
  python launch/report.py --paper=cogeval --data=FOLDER --out=runs/cogeval

The report is in OUT, if that is a new folder, and else in OUT/report, as where
OUT is a run or holds runs: report.html (one page, no network needed),
and scores.json; each run has its trials in rows.parquet. The terminal has a
line for each model. A paper's printed values stand beside runs of its settings.
A folder of runs, as a study leaves it, stands for all of its runs that are
scored. Runs may also be logs of Inspect, or folders of such logs; logs of a
paper's tasks give the paper's tables.

--compare prints the differences of two runs on the same trials, with intervals.
--miniatures reports on the findings of papers, and says for each whether the
results of units show it.
--paper scores recorded answers of language models again, as published: FOLDER
is as the README of the recorded answers describes it. Each chart is also an SVG
file beside the page, in a style that journals take.
--single_file puts all pictures into the page, to be mailed.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call."""
  import wm
  from wm import core

  if FLAGS.miniatures:
    common.refuse_together('miniatures', 'runs', 'compare')
    common.require('out')
    wm.findings(FLAGS.miniatures, FLAGS.out, log=print)
    return
  if FLAGS.paper is not None:
    common.refuse_together('paper', 'runs', 'compare', 'single_file')
    common.require('paper', 'data', 'out')
    wm.recorded(FLAGS.paper, FLAGS.data, FLAGS.out, log=print)
    return
  if FLAGS.compare:
    common.refuse_together('compare', 'runs')
    if len(FLAGS.compare) != 2:
      raise core.InputError(
        f'--compare={",".join(FLAGS.compare)}: expected two folders, as in A,B'
      )
    wm.compare(*FLAGS.compare, log=print)
    return
  common.require('out')
  runs = FLAGS.runs or [FLAGS.out]
  wm.report(runs, FLAGS.out, single_file=FLAGS.single_file, log=print)


if __name__ == '__main__':
  common.run(
    main, *('runs', 'compare', 'miniatures', 'paper', 'data', 'single_file')
  )
