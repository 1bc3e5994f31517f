"""Scores recorded answers of language models again, as published.

  python launch/recorded.py --paper=cogeval --data=FOLDER --out=runs/cogeval

writes OUT/report: report.html (one page, no network needed) and CSV files.

FOLDER is as the README of the recorded answers describes it.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call."""
  common.require('paper', 'data', 'out')
  import wm

  wm.recorded(FLAGS.paper, FLAGS.data, FLAGS.out, log=print)


if __name__ == '__main__':
  common.run(main, 'paper', 'data')
