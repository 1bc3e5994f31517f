"""Trains every run of a grid over flags, tables them, and scores them.

  python launch/sweep.py --flagfile=launch/flags/chess2026/sweep_here.flags

--grid='lr=1e-3|3e-3' varies a flag of train.py, --grid='flagfile=A|B' whole
files of them; several, each with each. Flags of the sweep's own are those of
every run; its flagfiles' come after these. All train on --data, or on the ones
of --grid='data=LABEL: FOLDER|LABEL: FOLDER'. OUT/sweep.md holds the best by
held-out loss, of each value of --per; runs that differ in --seed alone count as
one. --winners_of=OUT1 --top=2 starts from the two best of another sweep
instead: their places in its grid, and this grid. With --metric, runs (with
--keep, the best) are then scored in --score_world, by one --seed, and reported
in OUT/report with those of --runs. A run that fails stops no other; the sweep
exits with 1. Started again, it goes on; started twice, it is shared.
"""

import functools
import pathlib

import common
import report
import score
import train

FLAGS = common.FLAGS
READ = ('seed', *train.READ)
SCORE = ('seed', 'checkpoint', 'metric', 'accept')
OWN = (
  *('grid', 'per', 'jobs', 'device', 'keep', 'winners_of', 'top', 'dry_run'),
  *('score_world', 'runs', *SCORE),
)


def scored_by(run) -> dict:
  """Flags that a run is scored by; all have the sweep's --seed."""
  world = FLAGS.score_world or run.flags['world']
  where = {'world': world, 'name': run.title}
  return {**where, **{key: FLAGS[key].value for key in SCORE}}


def runs() -> list:
  """The runs that the flags describe."""
  from wm.tasks import grid, standings

  given = common.given(FLAGS, READ)
  given['data'] = str(pathlib.Path(FLAGS.data or f'{FLAGS.out}/data').resolve())
  axes = [common.axis(text, READ) for text in FLAGS.grid]
  defaults = {name: FLAGS[name].default for name in READ}
  before = FLAGS.winners_of and standings.winners(FLAGS.winners_of, FLAGS.top)
  return grid.runs(axes, given, defaults, before)


def main() -> None:
  """Runs listed, or done and tabled."""
  common.need('grid', 'out')
  from wm.runtime import ending
  from wm.tasks import standings, sweep

  out, todo = pathlib.Path(FLAGS.out), runs()
  job = common.process('train', lambda run: run.flags)
  made = sweep.Sweep(out, todo, FLAGS.per, job, FLAGS.keep, FLAGS.device)
  made.check()
  if FLAGS.metric:  # What is bad of these stops here, not after the training.
    score.asked(FLAGS.score_world or todo[0].flags['world'])
  if FLAGS.dry_run:
    print(*(run.name for run in todo), f'{len(todo)} runs', sep='\n')
    return
  tell = functools.partial(print, flush=True)
  print(f'{out}/sweep.md: {len(made.work(FLAGS.jobs, tell))} runs')
  if FLAGS.metric:
    job, mark = common.process('score', scored_by), score.marked(scored_by, out)
    FLAGS.runs = made.score(job, mark, FLAGS.jobs, tell) + FLAGS.runs
    if FLAGS.runs:
      report.main(wait=True)  # Who shares the sweep may be at it.
  if failed := sum(run.status == standings.FAILED for run in made.table()):
    ending.fail(f'{failed} of {len(todo)} runs failed; {out}/sweep.md says why')


if __name__ == '__main__':
  common.run(main, *READ, *OWN)
