"""Trains every run of a grid over flags, tables them, and scores them.

  python launch/sweep.py --flagfile=launch/flags/chess2026/sweep_here.flags

--grid='lr=1e-3|3e-3' varies a flag of train.py, and --grid='flagfile=A|B' whole
files of flags; several grids are combined in every way. Other flags of the
sweep hold for every run; a flagfile of the grid overrides them. All runs train
on --data, or on the folders of --grid='data=LABEL: FOLDER|LABEL: FOLDER'.
OUT/sweep.md lists the runs with the lowest held-out loss, for each value of
--per; runs that differ in --seed alone count as one. --winners_of=OUT1 --top=2
combines the settings of the two best runs of another sweep with this grid. With
--metric, the runs (or the --keep_best=N best) are scored in --score_world, by
one --seed, and reported in OUT/report. A run that fails stops no other, but the
sweep exits with 1. Rerunning the command resumes; several processes share one.
"""

import common

FLAGS = common.FLAGS
READ = ('seed', 'world', 'model', *common.names(common.Training)[1:])
OWN = ('grid', *common.names(common.Sweeping), *common.names(common.Scoring))


def main() -> None:
  """Flags in, one library call: runs listed, or done and tabled."""
  common.require('grid', 'out')
  import wm
  from wm.runtime import exit_codes

  runs = wm.sweep(
    common.axes(FLAGS.grid, READ),
    FLAGS.out,
    common.given_flags(FLAGS, READ),
    scoring=common.values(common.Scoring) if FLAGS.metric else None,
    **common.keywords(common.Sweeping),
    log=print,
  )
  if not FLAGS.dry_run and (failed := sum(bool(run.error) for run in runs)):
    message = (
      f'{failed} of {len(runs)} runs failed; {FLAGS.out}/sweep.md says why'
    )
    exit_codes.fail(message)


if __name__ == '__main__':
  common.run(main, *READ, *OWN)
