"""Training's course: when in training does each measure appear?

The checkpoints of one run are scored one after the other, with the same trials,
and drawn over the steps beside the held-out loss.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import pandas as pd

from wm import core
from wm.core.measure import headline_quantities
from wm.library import calls, loading
from wm.library.calls import Log, no_log
from wm.options import takes
from wm.options.calls import Path, Scoring
from wm.reporting import charts
from wm.runtime import files
from wm.training import checkpoints, run_log

FOLDER = 'course'
LOSS = 'heldout_loss_moves'
_COLUMNS = ('step', 'metric', 'quantity', 'value', 'low', 'high', 'n')


@takes(scoring=(Scoring, 'seed', 'accept', 'metric_overrides', 'max_calls'))
def course(
  run: loading.Source,
  metrics: core.Metric | str | Sequence[core.Metric | str],
  world: core.World | str | None = None,
  *,
  out: Path | None = None,
  scoring: Scoring,
  log: Log = no_log,
) -> pd.DataFrame:
  """Scores all checkpoints of a run, and draws their values over the steps.

    run = wm.train(world, model, 'runs/city', wm.Training(keep='every:100'))
    table = wm.course(run, ['compression(trials=200)', 'audit()'])

  Args:
    run: a run or its folder. `wm.Training(keep='every:500')` keeps checkpoints
      beside the best and the last.
    metrics: what to measure.
    world: the truth; None is the world that the run was trained on.
    out: folder for course.csv, course.svg, and a folder of scores for each
      step; None is RUN/course. A call that was interrupted goes on there.
    scoring: fields of metrics, and the seed of their trials.
    log: gets the step and the lines of each score.

  Returns:
    A row for each step and quantity: `step`, `metric`, `quantity`, `value`,
    `low`, `high` (95 %) and `n`; and the held-out loss after the prompt, in
    nats a token, of each evaluation.

  Raises:
    InputError: `run` is no training run, or has no checkpoints.
  """
  folder = pathlib.Path(run.folder if isinstance(run, loading.Run) else run)
  steps = checkpoints.steps(folder)
  if not steps:
    checkpoints.model_of(folder)  # Says that it is no run.
    raise core.InputError(f'{folder} has no checkpoints by step to score')
  out = folder / FOLDER if out is None else pathlib.Path(out)
  asked = calls.metrics_of(metrics, scoring.accept, scoring.metric_overrides)
  rows: list[dict[str, Any]] = []
  for step in steps:
    log(f'== step {step:,} of {steps[-1]:,}')
    at = Scoring(
      metrics=asked,
      world=world,
      checkpoint=str(step),
      seed=scoring.seed,
      max_calls=scoring.max_calls,
    )
    entries = calls.entries_of(folder, at, out / f'step_{step:08d}', log=log)
    rows += [{**entry, 'step': step} for entry in entries]
  losses = run_log.read(folder / 'metrics.jsonl')
  rows += [
    {'step': row['step'], 'metric': 'training', 'quantity': LOSS}
    | {'value': row[LOSS]}
    for row in losses
    if LOSS in row
  ]
  table = pd.DataFrame(rows).reindex(columns=list(_COLUMNS))
  files.write_text(out / 'course.csv', table.to_csv(index=False))
  files.write_text(out / 'course.svg', _picture(table, asked).decode())
  log(f'written: {out}/course.csv, course.svg')
  return table


def _picture(table: pd.DataFrame, metrics: Sequence[core.Metric]) -> bytes:
  """SVG of the headline measures over the steps, below them the loss."""
  head = {
    (metric.name, name)
    for metric in metrics
    for name in headline_quantities(metric)
  }
  shown = [
    {**row, 'x': row['step'], 'model': f'{row["metric"]}: {row["quantity"]}'}
    for row in table.to_dict('records')
    if (row['metric'], row['quantity']) in head and row['value'] == row['value']
  ]
  losses = [
    {'x': row['step'], 'value': row['value'], 'model': 'held-out loss'}
    for row in table[table.quantity == LOSS].to_dict('records')
  ]
  looks = charts.palette(
    [*dict.fromkeys(row['model'] for row in (*shown, *losses))],
    ['held-out loss'],
  )
  panels = [
    charts.Panel('training steps', title, rows, y_scale={'zero': False})
    for title, rows in (('value', shown), ('nats a token', losses))
    if rows
  ]
  return charts.render(charts.lines(panels, looks, columns=2))
