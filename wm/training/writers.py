"""Where training reports: metrics.jsonl and TensorBoard.

metrics.jsonl holds nothing that depends on the clock, so a run that was
killed and taken up again writes the same bytes as an unbroken one.
"""

from __future__ import annotations

import json
import math
import pathlib
from typing import Any

from wm.runtime import files


def read_metrics(path: str | pathlib.Path) -> list[dict[str, Any]]:
  """The lines of a metrics file up to the first torn one."""
  path = pathlib.Path(path)
  rows = []
  if path.exists():
    for line in path.read_bytes().splitlines():
      try:
        rows.append(json.loads(line))
      except ValueError:  # Killed while it was written.
        break
  return rows


class Metrics:
  """Appends rows to metrics.jsonl and TensorBoard; one process writes.

  On start both are cut back to `step`, from where the run goes on.
  """

  def __init__(self, out: pathlib.Path, step: int) -> None:
    self._path = out / 'metrics.jsonl'
    self._board_folder = out / 'tensorboard'
    self._board = None
    self._step = step
    rows = [row for row in read_metrics(self._path) if row['step'] <= step]
    files.write_text(
      self._path, ''.join(json.dumps(row) + '\n' for row in rows)
    )
    self._file = open(self._path, 'a', encoding='utf-8')  # noqa: SIM115

  def write(self, step: int, **values: float) -> None:
    """One row; values that are not finite are left out."""
    values = {key: x for key, x in values.items() if math.isfinite(x)}
    self._file.write(json.dumps({'step': step, **values}) + '\n')
    self._file.flush()
    self.chart(step, **values)

  def chart(self, step: int, **values: float) -> None:
    """TensorBoard only, for values that depend on the clock."""
    if self._board is None:
      import tensorboardX  # Takes a second; the first step need not wait.

      self._board = tensorboardX.SummaryWriter(
        str(self._board_folder), purge_step=self._step + 1
      )
    for key, value in values.items():
      self._board.add_scalar(key, value, step)

  def close(self) -> None:
    """Flushes and closes both."""
    self._file.close()
    if self._board is not None:
      self._board.close()
