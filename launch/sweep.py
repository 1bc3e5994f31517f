"""Trains every run of a grid over flags, and tables them as they end.

  python launch/sweep.py --flagfile=launch/flags/chess2026/sweep_here.flags

--grid='lr=1e-3|3e-3' varies a flag of train.py, --grid='flagfile=A|B' whole
files of them; several, each with each. Flags given to the sweep are those of
every run; the ones of its flagfiles come after these. All train on --data.
OUT/sweep.md holds the best by held-out loss, of each value of --per; runs that
differ in --seed alone count as one. --winners_of=OUT1 --top=2 starts from the
two best of another sweep instead: their places in its grid, and this grid.
Killed and started again, a sweep goes on; started twice, it is shared.
"""

import pathlib
import signal
import sys

import common
import train
from absl import app

FLAGS = common.FLAGS
READ = ('seed', *train.READ)
OWN = (
  *('grid', 'per', 'jobs', 'device', 'keep', 'winners_of', 'top', 'dry_run'),
)


def command(run, folder: pathlib.Path) -> list[str]:
  """The process that trains a run."""
  set_ = {key: x for key, x in run.flags.items() if x != FLAGS[key].default}
  flags = [f'--{key}={value}' for key, value in set_.items()]
  binary = str(pathlib.Path(__file__).with_name('train.py'))
  return [sys.executable, binary, *flags, f'--out={folder}']


def runs() -> list:
  """The runs that the flags describe."""
  from wm.train import grid, standings

  given = common.given(FLAGS, READ)
  given['data'] = str(pathlib.Path(FLAGS.data or f'{FLAGS.out}/data').resolve())
  axes = [
    grid.parse_axis(
      text,
      lambda name, text: common.parsed(name, text, READ),
      lambda path: common.flags_in(path, READ),
    )
    for text in FLAGS.grid
  ]
  defaults = {name: FLAGS[name].default for name in READ}
  before = FLAGS.winners_of and standings.winners(FLAGS.winners_of, FLAGS.top)
  found = grid.runs(axes, given, defaults, before)
  for run in found:
    for name in ('world', 'model'):
      if not run.flags[name]:
        raise app.UsageError(f'{run.name} has no --{name}')
  return found


def main() -> None:
  """Runs listed, or done and tabled."""
  common.need('grid', 'out')
  from wm.train import sweep

  out, todo = pathlib.Path(FLAGS.out), runs()
  made = sweep.Sweep(out, todo, FLAGS.per, command, FLAGS.keep, FLAGS.device)
  made.check()
  if FLAGS.dry_run:
    print('\n'.join(run.name for run in todo))
    print(f'{len(todo)} runs')
    return
  signal.signal(signal.SIGTERM, signal.default_int_handler)
  ended = made.work(FLAGS.jobs, lambda line: print(line, flush=True))
  print(f'{out}/sweep.md: {len(ended)} runs')


if __name__ == '__main__':
  common.run(main, *READ, *OWN)
