"""Scores a model by metrics, against the world's rules.

  python launch/score.py --world='maps()' --model='uniform()' \\
    --metric='compression(trials=100)' --metric=distinction --out=runs/uniform

Writes OUT/scores.json, OUT/rows.csv and OUT/breakdown.json. Without --model,
or where the model needs training, the training run in --out is scored, in
--score_world if that is given: its sequences may be longer than --world's.

--model="language(model='openai/...')" is a language model. The calls that each
metric makes are counted first. A metric that makes more than --max_calls runs
fewer trials; without the flag, one that makes more than 1,000 is refused.
Its field per_prompt=10 puts several questions into a prompt, see ask.py.

scores.json lists `metric`, `quantity`, `world`, `model`, `n`, `clusters` (of
trials that depend on each other), `value`, `low`, `high` (95 %), `interval`
(its method, or why there is none), `unmeasured` (cause -> count) and `seed`; of
exponents and r2 also `median`, `median_low`, `median_high` and `outliers`.
rows.csv has a row per trial. When the command is run again, a metric keeps its
results if all code, files and weights behind its trials are the same; otherwise
it is recomputed, and the reason is printed.

--trials=asked.csv instead of --model and --out writes what the metrics ask, to
be answered by any other program. --judge=answered.csv instead of --model scores
its answers; the file has columns `key` and `answer`, see wm.judge.

On several hosts, start the same command on each, with --distributed or
--coordinator as for train.py: rows are divided, results have the same bits.
--shards divides a network that is too large for a device.

--power=.05 also prints how many trials tell two models apart by .05 in each
headline quantity (two-sided 5 %, power .8), and writes OUT/power.json.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call, a table out."""
  common.require('metric')
  if FLAGS.trials is not None or FLAGS.judge is not None:
    return ask_or_judge()
  common.require('out')
  import wm

  leads = common.join_processes()
  options = {**common.keywords(common.Scoring), **common.model_source()}
  world = FLAGS.score_world or FLAGS.world
  wm.score(**{**options, 'world': world, 'out': FLAGS.out}, log=print)
  if FLAGS.power and leads:
    wm.power(FLAGS.out, FLAGS.power, out=FLAGS.out, log=print)


def ask_or_judge() -> None:
  """Questions for another program, or scores of its answers."""
  common.require('world' if FLAGS.score_world is None else 'score_world')
  import wm

  taken = 'metrics', 'accept', 'loop', 'metric_overrides', 'seed'
  asked = {
    k: x for k, x in common.keywords(common.Scoring).items() if k in taken
  }
  asked |= {'world': FLAGS.score_world or FLAGS.world, 'form': FLAGS.form}
  if FLAGS.trials is not None:
    common.require('trials')
    wm.trials(**asked, answers=FLAGS.judge, path=FLAGS.trials, log=print)
    return
  common.require('judge', 'out')
  wm.judge(FLAGS.judge, **asked, out=FLAGS.out, name=FLAGS.name, log=print)


if __name__ == '__main__':
  common.run(
    main,
    *('world', 'score_world', 'model', 'checkpoint', 'metric', 'accept'),
    *('loop', 'metric_overrides', 'max_calls', 'name', 'power', 'shards'),
    *('trials', 'judge', 'form', *common.PROCESSES),
  )
