"""Scores a model by metrics, against the world's rules.

  python launch/score.py --world='maps()' --model='uniform()' \\
    --metric='compression(trials=100)' --metric=distinction --out=runs/uniform

Writes OUT/scores.json, OUT/rows.csv and OUT/breakdown.json. Without --model,
or where the model needs training, the training run in --out is scored, in
--score_world if that is given: its sequences may be longer than --world's.

--model="language(model='openai/...')" is a language model. The calls that each
metric makes are counted first. A metric that makes more than --max_calls runs
fewer trials; without the flag, one that makes more than 1,000 is refused.

scores.json lists `metric`, `quantity`, `world`, `model`, `n`, `clusters` (of
trials that depend on each other), `value`, `low`, `high` (95 %), `interval`
(the method: `korn-graubard` between bounds, else `bootstrap-t` or `hall`; or
why there is none), `unmeasured` (cause -> count) and `seed`; of exponents and
r2 also `median`, `median_low`, `median_high` (95 %) and `outliers` (clusters
far out). rows.csv has a row per trial. When the command is run again, a metric
keeps its results if all code, files and weights behind its trials are the same;
otherwise it is measured anew, and the reason is printed.

--power=.05 also prints how many trials tell two models apart by .05 in each
headline quantity (two-sided 5 %, power .8), and writes OUT/power.json.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call, a table out."""
  common.need('metric', 'out')
  import wm

  given = {
    **common.keywords(common.Scoring),
    'world': FLAGS.score_world or FLAGS.world,
    'out': FLAGS.out,
    'name': FLAGS.name,
    **common.source(),
  }
  wm.score(**given, log=print)
  if FLAGS.power:
    wm.power(FLAGS.out, FLAGS.power, out=FLAGS.out, log=print)


if __name__ == '__main__':
  common.run(
    main,
    *('world', 'score_world', 'model', 'checkpoint'),
    *(
      'metric',
      'accept',
      'loop',
      'metric_overrides',
      'max_calls',
      'name',
      'power',
    ),
  )
