"""Makes the units of a miniature that are missing: a row and a seed each.

  python launch/miniature.py --flagfile=launch/flags/miniatures/maps.flags

Rows are those of study.py; 'NAME: MODEL on WORLD with steps=500, seeds=1' has
settings of its own; baselines and ceilings are rows as in a study. A unit is
sampled for, trained, scored and mapped in a process of its own, in OUT/units.
Its result is a small file, RESULTS/ROW-SEED.json, and as long as that is of the
same specs, recipe and versions the unit is not made again; --fresh makes all
again. What was stopped goes on. A unit that fails stops no other, is named at
the end, and the exit code is 1. `bash launch/miniatures.sh` does all
miniatures.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call."""
  common.need('world', 'row', 'metric', 'out')
  import wm
  from wm.runtime import ending

  failed = wm.miniature(
    FLAGS.row,
    FLAGS.world,
    FLAGS.metric,
    FLAGS.out,
    **common.keywords(common.Units),
    jobs=FLAGS.jobs,
    dry_run=FLAGS.dry_run,
    **common.rows(),
  )
  if failed:
    ending.fail('; '.join(failed))


if __name__ == '__main__':
  common.run(
    main,
    *('world', 'row', 'metric', 'num', 'steps', 'batch', 'lr', 'warmup'),
    *common.names(common.Units),
    *common.names(common.Baselines),
    *('fields', 'jobs', 'dry_run', 'num_samples'),
  )
