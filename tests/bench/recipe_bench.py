"""Recipes of training: CPU seconds to the loss that the published one reaches.

A recipe is a set of options; each is a run of its own, with the schedule of
its own length. The targets are what two of them have reached at their end: the
published recipe, cut to a laptop's time, and AdamW, tuned by as many trials as
Muon (learning rates 1e-3 to 1e-2).

Time is this process's in training steps, the first of which (it compiles) is
left out; evaluations are too. Losses are of held-out sequences; on maps after
the prompt, where the Bayes predictor's is known.
"""

from __future__ import annotations

import pathlib
import tempfile
import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from tests.bench import harness

BASELINES = ('published', 'adamw')
EVALUATIONS = 20  # In a run: how finely the time to a target is known.


class Task(NamedTuple):
  """What is learned.

  Attributes:
    world, model: specs.
    num, num_heldout: sequences.
    options: of every recipe.
    recipes: name -> options of its own; the first is the published one.
  """

  world: str
  model: str
  num: int
  num_heldout: int
  options: dict[str, Any]
  recipes: dict[str, dict[str, Any]]


# Vafa et al. 2024, appendix D: launch/flags/vafa2024/published.flags.
PUBLISHED_MAPS = {
  'optimizer': 'adamw',
  'lr': 1e-4,
  'schedule': 'constant',
  'warmup': 0,
  'batch': 384,
  'batching': 'random',
  'decay_all': True,
  'clip': 0.0,
  'steps': 800,
}
ADAMW = {'optimizer': 'adamw', 'lr': 3e-3, 'warmup': 100}
MUON = {'optimizer': 'muon', 'lr': 3e-3, 'warmup': 50}
AVERAGE = {'average': 0.05}
WALKS = {
  'published': PUBLISHED_MAPS,
  'adamw': {**ADAMW, 'steps': 1500},
  'adamw, average': {**ADAMW, **AVERAGE, 'steps': 1500},
  'muon': {**MUON, 'steps': 500},
  'muon, average': {**MUON, **AVERAGE, 'steps': 500},
  'muon, batch of 32': {**MUON, 'batch': 32, 'steps': 800},
}
CITY = 'maps(rows=8, columns=8, city_seed=1, max_moves=16, heldout=0.55)'
# Walker and Lyons 2026, appendix: launch/flags/chess2026/published.flags.
PUBLISHED_CHESS = {
  'optimizer': 'adamw',
  'lr': 1e-3,
  'batch': 128,
  'batching': 'random',
  'decay_all': True,
  'floor': 0.1,
  'warmup': 20,
  'steps': 200,
}
STATES = {
  'published': PUBLISHED_CHESS,
  'adamw': {**ADAMW, 'lr': 1e-2, 'batch': 32, 'steps': 400},
  'adamw, rate of 3e-3': {**ADAMW, 'batch': 32, 'steps': 400},
  'muon': {**MUON, 'batch': 32, 'steps': 250},
  'muon, rate of 1e-2': {**MUON, 'lr': 1e-2, 'batch': 32, 'steps': 400},
  'muon, average': {**MUON, **AVERAGE, 'batch': 32, 'steps': 250},
}
TASKS = {
  'walks, transformer 2 x 64': Task(
    CITY, 'transformer(layers=2, width=64)', 200_000, 1000, {}, WALKS
  ),
  'walks, transformer 3 x 128': Task(
    CITY, 'transformer(layers=3, width=128)', 200_000, 1000, {}, WALKS
  ),
  'chess states, slice 1 x 128': Task(
    'chess(length=60)',
    'slice(layers=1, width=128, block_size=8, scale=0.1, init_std=0.1)',
    20_000,
    200,
    {'objective': 'state'},
    STATES,
  ),
  'chess states, transformer 1 x 128': Task(
    'chess(length=60)',
    "transformer(layers=1, width=128, positions='rotary')",
    20_000,
    200,
    {'objective': 'state'},
    STATES,
  ),
}


class Curve(NamedTuple):
  """CPU seconds of training and held-out loss at each evaluation."""

  seconds: list[float]
  losses: np.ndarray


def curve(
  task: Task, recipe: dict[str, Any], data: pathlib.Path, out: pathlib.Path
) -> Curve:
  """Trains by a recipe."""
  from wm.options.training import Training
  from wm.training import loop, run_log

  every = max(recipe['steps'] // EVALUATIONS, 1)
  options = Training(
    data=str(data), eval_every=every, save_every=10**9, **task.options, **recipe
  )
  clock: list[float] = []  # When training stopped and went on, in turn.
  evaluate, step = loop.Trainer.evaluate, loop.run_log.RunLog.dispatched

  def timed(self: Any, params: Any) -> np.ndarray:
    clock.append(time.process_time())
    result = evaluate(self, params)
    clock.append(time.process_time())
    return result

  def first(self: Any, report: Any) -> None:
    if not clock:  # What came before was compiling.
      np.asarray(report)
      clock.append(time.process_time())
    step(self, report)

  with (
    mock.patch.object(loop.Trainer, 'evaluate', timed),
    mock.patch.object(run_log.RunLog, 'dispatched', first),
  ):
    loop.train(task.world, task.model, out, options)
  pauses = np.array(clock[:-1]).reshape(-1, 2)
  name = 'heldout_loss' if task.options else 'heldout_loss_moves'
  rows = [row for row in run_log.read(out / 'metrics.jsonl') if name in row]
  seconds = np.cumsum(pauses[:, 1] - pauses[:, 0]).tolist()
  return Curve(seconds, np.array([row[name] for row in rows]))


def bench_recipe() -> Iterator[harness.Line]:
  """Seconds to the published recipe's loss, by task and recipe."""
  import wm

  for title, task in TASKS.items():
    with tempfile.TemporaryDirectory() as folder:
      place = pathlib.Path(folder)
      inputs = wm.Sampling(num=task.num, num_heldout=task.num_heldout)
      wm.sample(task.world, place, inputs)
      result: dict[str, Curve] = {}
      for name, recipe in task.recipes.items():
        out = place / name.replace(', ', '_').replace(' ', '_')
        result[name] = curve(task, recipe, place / 'data', out)
        for base in BASELINES:
          if base in result and (name not in BASELINES or base == BASELINES[0]):
            yield _line(f'{title}: {name}', result[name], base, result[base])


def _line(
  name: str, outcome: Curve, base: str, baseline: Curve
) -> harness.Line:
  """Against one baseline; without a ratio where its loss is not reached."""
  name = f'recipe, {name}, at last {outcome.losses[-1]:.3f}'
  target = baseline.losses[-1]
  there = np.flatnonzero(outcome.losses <= target)
  unit = f'CPU-s to the {target:.3f} nats of {base!r}'
  if not len(there):
    return harness.Line(name, outcome.seconds[-1], f'{unit}, not reached')
  value = outcome.seconds[there[0]]
  return harness.Line(
    name,
    value,
    unit,
    f'{base!r}, same run',
    baseline.seconds[-1] / value,
    target='3' if base == BASELINES[0] else '',
  )
