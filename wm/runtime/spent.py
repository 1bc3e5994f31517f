"""What some work has cost, over all processes that took part in it."""

from __future__ import annotations

import pathlib
import resource
import sys
import threading
import time
from typing import Any

from wm.runtime import files, stopping

EVERY = 15.0  # Seconds between notes: what a kill may lose.


class Meter:
  """A context that adds what this process spends to a file.

  The file holds `processes`, `cpu_seconds` and `wall_seconds` (sums), and
  `peak_mb` (the most that one of them held, MiB). It is written every
  `EVERY` seconds, and when a signal ends the process.
  """

  def __init__(self, path: str | pathlib.Path) -> None:
    self.path = pathlib.Path(path)
    self._before: dict[str, Any] = {}
    if self.path.exists():
      self._before = files.read_record(self.path, {})
    self._start = time.monotonic()
    self._ended, self._alone = threading.Event(), threading.Lock()

  def spent(self) -> dict[str, Any]:
    """The sums so far."""
    before = self._before
    # Linux counts kibibytes, macOS bytes.
    unit = 2**20 if sys.platform == 'darwin' else 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    wall = time.monotonic() - self._start
    return {
      'processes': before.get('processes', 0) + 1,
      'cpu_seconds': round(before.get('cpu_seconds', 0) + time.process_time()),
      'wall_seconds': round(before.get('wall_seconds', 0) + wall),
      'peak_mb': round(max(before.get('peak_mb', 0), peak)),
    }

  def note(self) -> None:
    """Writes the file."""
    with self._alone:
      files.write_json(self.path, self.spent())

  def _run(self) -> None:
    while not self._ended.wait(EVERY):
      self.note()

  def __enter__(self) -> Meter:
    self.note()
    stopping.at_end(self.note)
    threading.Thread(target=self._run, name='spent', daemon=True).start()
    return self

  def __exit__(self, *error: object) -> None:
    self._ended.set()
    self.note()
