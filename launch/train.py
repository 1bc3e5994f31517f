"""Trains a model on OUT/data; rerunning the command resumes.

  python launch/train.py --world='maps()' --model='transformer()' --out=runs/a

The model learns the next token or, with --objective=state, the whole state of
the world after each token (for the metric `exactness`). OUT/metrics.jsonl has
the curves, a row for every 10 steps: `pandas.read_json(path, lines=True)`.

On several hosts, start the same command on each, with --distributed=auto where
SLURM, Open MPI, Kubernetes or a TPU pod starts it, else with --coordinator,
--num_processes and --process_id. Rows of a batch and parameters are divided
over all devices; each process reads the rows of its own devices. OUT is a
folder that all hosts share, or a URL, of which each host keeps a local copy and
process 0 uploads its own.

The last bits of a loss depend on the number of threads, so a CPU computes with
--threads threads on any number of cores. A run then gives the same bits on one
core or two, resumed or not, alone or beside other jobs. OUT/train.run.json
records the number. Another number of devices adds in another order: losses then
agree to 1e-7, single parameters to .005.

More --steps continue a finished run; --start trains on from the best parameters
of another run, or from RUN/checkpoints/500. --keep=every:500 keeps checkpoints
for training's course, see score.py --checkpoint=all.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call, the summary out."""
  common.require('world', 'model', 'out')
  import wm

  options = common.values(common.Training)
  wm.train(FLAGS.world, FLAGS.model, FLAGS.out, options, log=print)


if __name__ == '__main__':
  common.run(main, 'world', 'model', *common.names(common.Training))
