"""A Dask scheduler and its workers, as processes of this machine."""

import os
import pathlib
import socket
import subprocess
import sys
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parent.parent

# A worker that is silent for so long counts as lost.
TTL = {'DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL': '5s'}


def _free_port() -> int:
  with socket.socket() as free:
    free.bind(('127.0.0.1', 0))
    return free.getsockname()[1]


class Cluster:
  """A context; all that it started is killed at its end.

  Attributes:
    address: of the scheduler, which keeps it when it is started again.
    scheduler, workers: processes.
  """

  def __init__(
    self,
    place: pathlib.Path,
    host: Sequence[str] = ('--host', '127.0.0.1'),
    scheme: str = 'tcp',
    **variables: str,
  ) -> None:
    """host: flags of the scheduler; variables: of Dask's configuration."""
    self.place, self.host, self.port = place, host, _free_port()
    self.address = f'{scheme}://127.0.0.1:{self.port}'
    paths = [str(ROOT), *filter(None, [os.environ.get('PYTHONPATH')])]
    path = {'PYTHONPATH': os.pathsep.join(paths)}
    self.environment = {**os.environ, **TTL, **variables, **path}
    self.workers: list[subprocess.Popen] = []
    self.restart()

  def _start(self, *words: str) -> subprocess.Popen:
    with open(self.place / f'{words[0]}.log', 'ab') as log:
      return subprocess.Popen(
        [sys.executable, '-m', 'dask', *words, '--no-dashboard'],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=self.environment,
        cwd=self.place,
      )

  def restart(self) -> None:
    """Starts the scheduler."""
    port = '--port', str(self.port)
    self.scheduler = self._start('scheduler', *self.host, *port)

  def work(self, num: int = 1, *flags: str) -> None:
    """Starts workers."""
    item = '--nthreads', '1', '--no-nanny', '--host', '127.0.0.1', *flags
    for _ in range(num):
      self.workers.append(self._start('worker', self.address, *item))

  def stop(self) -> None:
    """Kills everything."""
    for process in (*self.workers, self.scheduler):
      process.kill()
      process.wait()
    self.workers.clear()

  def __enter__(self) -> 'Cluster':
    return self

  def __exit__(self, *error: object) -> None:
    self.stop()
