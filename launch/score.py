"""Scores a model by metrics, against the world's rules.

  python launch/score.py --world='maps()' --model='uniform()' \\
    --metric='compression(trials=100)' --metric=distinction --out=runs/uniform

Writes OUT/scores.json, rows.parquet and breakdown.json. Without --model, or if
it needs training, the training run in --out is scored, in --score_world if
given.

--model="language(model='openai/...')" is a language model. The calls that each
metric makes are counted first. A metric that makes more than --max_calls runs
fewer trials; without the flag, one that makes more than 1,000 is refused.

scores.json lists values, 95 % intervals, n, clusters of dependent trials, what
is unmeasured, cautions and a status: finished, partial (the model is still in
training) or nothing measured. rows.parquet has a row per trial. Results are
reused while their code, files and weights are unchanged. --strict exits with 1
unless all is finished; without it, only where nothing could be measured.

On several hosts, start the same command on each, as for train.py: rows are
divided. A network that is too large for a device is divided too.

--checkpoint=all scores every checkpoint of the run in --out (`train.py --keep`
keeps them), and draws the values over the steps: OUT/course/course.csv, .svg.
"""

import common

FLAGS = common.FLAGS
COURSE = 'metrics', 'seed', 'accept', 'metric_overrides', 'max_calls'


def main() -> None:
  """Flags in, one library call, a table out."""
  common.require('metric', 'out')
  import wm

  if FLAGS.checkpoint == 'all':
    asked = {
      k: x for k, x in common.keywords(common.Scoring).items() if k in COURSE
    }
    wm.course(FLAGS.out, world=FLAGS.score_world, **asked, log=print)
    return

  options = {**common.keywords(common.Scoring), **common.model_source()}
  world = FLAGS.score_world or FLAGS.world
  options |= {'world': world, 'out': FLAGS.out}
  entries = wm.score(**options, log=print)
  common.check_measured(entries)


if __name__ == '__main__':
  common.run(
    main,
    *('world', 'score_world', 'model', 'checkpoint', 'metric', 'accept'),
    *('metric_overrides', 'max_calls', 'name', 'strict'),
  )
