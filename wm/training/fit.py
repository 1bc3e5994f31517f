"""Models that are counted, not trained by steps."""

from __future__ import annotations

import pathlib
import time
from typing import Any

import numpy as np

from wm import core
from wm.data import store as stores
from wm.training import books, config, writers

CHUNK = 256  # Held-out rows evaluated at a time.


def run(
  model: core.Fittable,
  world: core.World,
  data: tuple[stores.Store, stores.Store],
  out: pathlib.Path,
) -> dict[str, Any]:
  """Fits a model to the training sequences and keeps it; see loop.train."""
  start, path = time.perf_counter(), config.fitted(out)
  if path.exists():
    predictor = model.load(path, world)
  else:
    predictor = model.fit(data[0], world)
    predictor.save(path)
  tokens = int(data[0].manifest['tokens']) - len(data[0])
  seconds = time.perf_counter() - start
  found = books.means(evaluate(predictor, world, data[1]))
  metrics = writers.Metrics(out, -1)
  metrics.write(0, **{f'heldout_{key}': x for key, x in found.items()})
  metrics.close()
  return {
    'parameters': predictor.size,
    'step': 0,
    'heldout_loss': _finite(found['loss']),
    'heldout_loss_moves': _finite(found['loss_moves']),
    'best_step': 0,
    'best_loss': _finite(found['loss']),
    'tokens': tokens,
    'seconds': seconds,
    'tokens_per_s': tokens / seconds,
    'first_step_s': seconds,
  }


def _finite(value: float) -> float | None:
  """JSON has no infinity, which a token never seen may cost."""
  return value if np.isfinite(value) else None


def evaluate(
  predictor: core.Predictor, world: core.World, store: stores.Store
) -> np.ndarray:
  """[4] float64 held-out sums, see step.SUMS."""
  total = np.zeros(4)
  for rows in store.chunks(CHUNK):
    log_probs = predictor.log_probs(rows.tokens[:, :-1], rows.lengths - 1)
    target = rows.tokens[:, 1:]
    loss = -np.take_along_axis(log_probs, target[..., None], -1)[..., 0]
    place = np.arange(1, rows.tokens.shape[1])
    real = place < rows.lengths[:, None]
    for k, mask in enumerate((real, real & (place >= world.prompt_len()))):
      total[2 * k] += loss[mask].sum(dtype=np.float64)
      total[2 * k + 1] += mask.sum()
  return total
