"""Several models on one world: trained, scored, mapped and reported together.

  python launch/study.py --flagfile=launch/flags/quickstart.flags

--row='NAME: MODEL' is scored on --world as it is; --row='NAME: MODEL on WORLD'
is first trained on WORLD and scored there; 'NAME: MODEL on WORLD then on WORLD'
is scored on the second; '... with steps=500, lr=3e-3' has settings of its own.
'... with match="sequences+steps"' has as many (distinct) training sequences and
steps as the first trained row without a match; match may be one of the two.
A MODEL that is the folder of a run, --row='net: runs/net', was trained before.
'NAME: MODEL in WORLD' scores MODEL in WORLD without training it.
--grid='lr=1e-3|3e-3' trains every row with each, and --grid='seed=0|1|2' by
each seed of training; a line of the report is the mean over seeds.
Baselines and ceilings that no row names are added as rows (--nobaselines leaves
them out). --nulls adds models without learning that err as much as each row.
The stages `sample`, `train`, `score` and `reconstruct` make each row in its
folder OUT/NAME, and read the other flags; --jobs=2 does two rows at a time, in
processes. The report is in OUT/report. Rerunning the command resumes. --dry_run
lists rows and stages, and does nothing.
"""

import common

FLAGS = common.FLAGS
READ = 'num', 'num_heldout', *common.names(common.Training)


def main() -> None:
  """Flags in, one library call."""
  common.require('world', 'row', 'metric', 'out')
  import wm

  wm.study(
    FLAGS.row,
    FLAGS.world,
    FLAGS.metric,
    FLAGS.out,
    seed=FLAGS.seed,
    axes=common.axes(FLAGS.grid, READ),
    **common.keywords(common.StudyJobs),
    **common.row_options(),
  )


if __name__ == '__main__':
  common.run(
    main,
    *('world', 'row', 'metric', 'num', 'steps', 'batch', 'lr', 'warmup'),
    *(
      'metric_overrides',
      'grid',
      'jobs',
      'dry_run',
      'nulls',
      'num_samples',
      'max_degree',
      'max_miles',
      'shuffles',
    ),
    *common.names(common.Stages),
  )
