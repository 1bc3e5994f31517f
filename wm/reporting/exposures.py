"""Tables what trained models have seen, and how well they fit it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from wm.reporting import tables
from wm.reporting.collect import Run

TITLE = 'Training data and training'
_NOTE = (
  'Tokens seen are those that training steps predicted, epochs these over all '
  'that the data predict. The checkpoint scored is the best one by held-out '
  'loss; losses are in nats a token after the prompt, the training loss is of '
  'the batches of the last 200 steps up to the checkpoint. Prefixes shown: of '
  'the prefixes of held-out sequences, of every length, the share that some '
  'training sequence begins with. States shown: of the distinct states that '
  'held-out sequences visit, the share that some training sequence visits.'
)


def table(runs: Sequence[Run]) -> tables.Table | None:
  """Tables a row for each run that was trained; None if none was.

  Cells are blank where a run, of an earlier version, does not say.
  """
  trained = [
    (run, label)
    for run, label in zip(runs, tables.labels(runs), strict=True)
    if run.trained
  ]
  if not trained:
    return None
  rows = [{'model': label, **_cells(run)} for run, label in trained]
  note, cut = _NOTE, [label for run, label in trained if _cut(run)]
  if cut:
    note += (
      ' Of large data, shares are by the first sequences alone, as the cell '
      'says.'
    )
  return tables.Table(TITLE, pd.DataFrame(rows), note)


def _cut(run: Run) -> bool:
  seen = run.exposure
  return bool(seen) and seen.get('compared') != seen.get('sequences')


def _cells(run: Run) -> dict[str, str]:
  seen, trained = run.exposure, run.trained
  of = f', of the first {_count(seen.get("compared"))}' if _cut(run) else ''

  def share(key: str) -> str:
    value = seen.get(key)
    return '' if value is None else f'{value:.3f}{of}'

  return {
    'training sequences': _count(seen.get('sequences')),
    'distinct': _count(seen.get('distinct')),
    'tokens in the data': _count(seen.get('tokens')),
    'tokens seen': _count(trained.get('tokens')),
    'epochs': _number(seen.get('epochs'), 1),
    'steps': _count(trained.get('step')),
    'parameters': _count(trained.get('parameters')),
    'step scored': _count(trained.get('best_step')),
    'training loss': _number(seen.get('training_loss')),
    'held-out loss': _number(trained.get('best_loss_moves')),
    'prefixes shown': share('prefixes_shown'),
    'states shown': share('states_shown'),
  }


def _count(value: Any) -> str:
  return '' if value is None else f'{value:,}'


def _number(value: float | None, decimals: int = 3) -> str:
  return '' if value is None else tables.number(value, decimals)
