"""Runs the missing units of a miniature; a unit is a row with a seed.

  python launch/miniature.py --flagfile=launch/flags/miniatures/maps.flags

Rows are written as for study.py: 'NAME: MODEL on WORLD with steps=500, seeds=1'
has settings of its own, and 'with match="sequences+steps"' takes those of
another row of the same seed. Baselines and ceilings are rows as in a study.
Each unit is sampled, trained, scored and mapped in a process of its own, in
OUT/units. Its result is a small file, RESULTS/ROW-SEED.json. A unit whose file
has the same specs, recipe and versions is not run again. Rerunning the command
resumes. A unit that fails stops no other; it is named at the end, and the exit
code is 1.
`bash launch/miniatures.sh` runs all miniatures.

Results in FOLDER/results/NAME are judged by FOLDER/findings.json: findings of
papers as rules, each fixed on a day before its data. A unit records the hash of
each rule when it begins, and keeps it when it is made again; a finding of units
that were begun under another rule is marked 'after the data'. Such results are
made from committed files only: while files outside FOLDER/results are changed,
or plug-ins are not committed, it does not start (exit code 2), or with
--allow_dirty makes results that no finding is judged by. Without it, these are
listed as refused, and made again. A finding is

  {"name": "walks_compress", "title": "random walks compress better",
   "sentence": "A model of random walks has the higher compression.",
   "paper": "Vafa et al. 2024", "printed": "table 1",
   "miniature": "maps", "date": "2026-01-31", "seeds": 3,
   "claims": [
     {"metric": "compression", "quantity": "precision",
      "rows": ["random_walks"], "relation": "above",
      "than": ["shortest_paths"], "margin": 0.05}]}

It is shown, shown absent or undecided by tests over seeds, or not tested; see
help(wm.lab.findings) for all fields and help(wm.lab.verdicts).
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call."""
  common.require('world', 'row', 'metric', 'out')
  import wm
  from wm.runtime import exit_codes

  failed = wm.miniature(
    FLAGS.row,
    FLAGS.world,
    FLAGS.metric,
    FLAGS.out,
    **common.keywords(common.Units),
    **common.row_options(),
  )
  if failed:
    exit_codes.fail('; '.join(failed))


if __name__ == '__main__':
  common.run(
    main,
    *('world', 'row', 'metric', 'num', 'steps', 'batch', 'lr', 'warmup'),
    *common.names(common.Units),
    *common.names(common.Stages),
    *('metric_overrides', 'num_samples'),
  )
