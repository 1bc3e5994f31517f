"""Many training runs, each in a process of its own, and a table of them.

Every run is trained and, where that is asked for, scored.

    OUT/sweep.json, sweep.md    how every run stands, rewritten as runs end
    OUT/runs/NAME/              a run: what `train` writes, and
      sweep.run.json            what it is, so that another is refused
      train.log, score.log      what its processes printed
      sweep.scored.json         what it has been scored by
      failed.json               how it ended, if it failed
      .lock                     held by the process that works on it

A sweep that was stopped is started again, and several sweeps share the work,
see `wm.tasks.pool`.
"""

from __future__ import annotations

import functools
import pathlib
import shutil
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from wm import core
from wm.runtime import files
from wm.tasks import grid, pool, standings
from wm.tasks.pool import Log

Command = Callable[[grid.Run, pathlib.Path], list[str]]


class _Stage(NamedTuple):
  """One thing that is done to every run: training or scoring.

  Attributes:
    name: 'train' or 'score'.
    command: (run, its folder) -> command line of the process that does it.
    mark: (run) -> content of the file that says it is done, written by the
      sweep; None where the process itself writes that file.
  """

  name: str
  command: Command
  mark: Callable[[grid.Run], Any] | None = None

  def path(self, place: pathlib.Path) -> pathlib.Path:
    """The file that says it is done."""
    return place / ('sweep.scored.json' if self.mark else 'train.json')

  def done(self, run: grid.Run, place: pathlib.Path) -> bool:
    """Whether it has been done, and with the same mark."""
    path = self.path(place)
    if not (self.mark and path.exists()):
      return path.exists()
    return files.read_json(path) == self.mark(run)

  def end(self, run: grid.Run, place: pathlib.Path) -> None:
    """Says that it is done, where the process itself does not."""
    if self.mark:
      files.write_json(self.path(place), self.mark(run))


class Sweep:
  """The runs of a sweep in a folder.

  Attributes:
    runs: what to do, in this order.
    per: axes; there is a best run for each of their values.
    command: (run, its folder) -> command line of the process that trains it.
    keep: how many of the best candidates, for each value of `per`, keep their
      checkpoints; 0 is all.
    devices: CUDA_VISIBLE_DEVICES of the jobs, in turn; empty leaves it alone.
  """

  def __init__(
    self,
    out: pathlib.Path,
    runs: Sequence[grid.Run],
    per: Sequence[str],
    command: Command,
    keep: int = 0,
    devices: Sequence[str] = (),
  ) -> None:
    self.out, self.runs, self.per = out, runs, per
    self.command, self.keep = command, keep
    self._pool = pool.Pool(devices)

  def check(self) -> None:
    """Raises InputError where a run lacks a setting or a folder is taken."""
    for run in self.runs:
      for name in ('world', 'model'):
        if not run.flags[name]:
          raise core.InputError(f'{run.name} has no --{name}')
    standings.groups(standings.read(self.out, self.runs), self.per)
    for run in self.runs:
      path = standings.folder(self.out, run)
      if (path / 'sweep.run.json').exists():
        files.claim(path, 'sweep', run.identity, grid.USUAL)

  def work(self, jobs: int, log: Log) -> list[standings.Standing]:
    """Trains the runs that are not done, `jobs` at a time.

    A run that failed before is tried again. A failure is recorded, and stops
    no other run. `log` gets a line on each run that ends.

    Raises:
      Stopped: this process was told to stop, and has told its runs; or one of
        its runs was told, and the others have been done.
    """
    self.check()
    self._all(_Stage(standings.TRAIN, self.command), self.runs, jobs, log)
    return self.table()

  def score(
    self,
    command: Command,
    mark: Callable[[grid.Run], Any],
    jobs: int,
    log: Log,
  ) -> list[pathlib.Path]:
    """Scores the runs that are trained, have a checkpoint and are not scored.

    Args:
      command: (run, its folder) -> command line of the process that scores it.
      mark: (run) -> JSON value of all that its scores depend on; a run whose
        mark is the one it was scored by is not scored again.
      jobs: runs at a time.
      log: gets a line on each run that ends.

    Returns:
      Folders of the runs that are scored, in order. Failures and signals are
      as in `work`.
    """
    stage = _Stage(standings.SCORE, command, mark)
    trained = self._with_checkpoints()
    todo = [run for run in self.runs if run.name in trained]
    self._all(stage, todo, jobs, log)
    places = {run.name: standings.folder(self.out, run) for run in todo}
    return [places[r.name] for r in todo if stage.done(r, places[r.name])]

  def _with_checkpoints(self) -> set[str]:
    ranked = standings.groups(self.table(), self.per).values()
    best = [group[: self.keep or None] for group in ranked]
    members = [m for group in best for c in group for m in c.members]
    return {member.run.name for member in members if member.found}

  def _all(
    self, stage: _Stage, runs: Sequence[grid.Run], jobs: int, log: Log
  ) -> None:
    self.table()
    by_name = {run.name: run for run in runs}
    self._pool.work(
      [self._job(stage, run) for run in runs],
      jobs,
      lambda job: self._line(stage, by_name[job.name]),
      log,
    )

  def _job(self, stage: _Stage, run: grid.Run) -> pool.Job:
    place, usual = standings.folder(self.out, run), grid.USUAL
    return pool.Job(
      run.name,
      stage.name,
      place,
      command=functools.partial(stage.command, run, place),
      done=functools.partial(stage.done, run, place),
      begin=lambda: files.claim(place, 'sweep', run.identity, usual),
      end=functools.partial(stage.end, run, place),
    )

  def table(self) -> list[standings.Standing]:
    """Reads how all runs stand, writes the table, and deletes checkpoints that
    `keep` does not keep."""
    now = standings.read(self.out, self.runs, self._pool.running)
    standings.write(self.out, now, self.per)
    if self.keep:
      for candidates in standings.groups(now, self.per).values():
        ended = [c for c in candidates if c.ended]
        for candidate in ended[self.keep :]:
          for member in candidate.members:
            place = standings.folder(self.out, member.run)
            shutil.rmtree(place / 'checkpoints', ignore_errors=True)
    return now

  def _line(self, stage: _Stage, run: grid.Run) -> str:
    row = next(s for s in self.table() if s.run.name == run.name)
    if row.error:
      return f'{run.name}: {row.status}, {row.error}'
    if not stage.done(run, standings.folder(self.out, run)):
      return f'{run.name}: was told to stop'
    if stage.name == standings.SCORE:
      return f'{run.name}: scored'
    return f'{run.name}: {row.status}, loss {row.loss:.6g}'
