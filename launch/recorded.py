"""Scores recorded answers of language models again, as published.

  python launch/recorded.py --paper=cogeval --data=FOLDER --out=runs/cogeval

writes OUT/report: report.html (one page, no network needed), scores.json and
CSV files. With --logs also OUT/logs: the answers as logs of Inspect, which
`inspect view --log-dir=OUT/logs` shows and `inspect score` scores.

FOLDER is as the README of the recorded answers describes it.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call."""
  common.require('paper', 'data', 'out')
  import wm

  arguments = {'logs': FLAGS.logs, 'log': print}
  wm.recorded(FLAGS.paper, FLAGS.data, FLAGS.out, **arguments)


if __name__ == '__main__':
  common.run(main, 'paper', 'data', 'logs')
