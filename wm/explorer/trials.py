"""The trials that a page jumps to: the worst of a run's results."""

from __future__ import annotations

import pathlib
from typing import Any

from wm import core
from wm.reporting import collect, worst

MOST = 6  # Trials of each metric and quantity.


def of_run(name: str, folder: pathlib.Path, world: core.World) -> list[Any]:
  """The worst trials of a run's metrics whose prefixes this world can read.

  Args:
    name: of the model, as the page calls it.
    folder: of the run; one without results has none.
    world: of the page.

  Returns:
    An object a metric and quantity: model, metric, quantity, tells (the trial's
    continuation in words), measured, short (of 1), trials: [value, prefixes,
    suffix], in tokens' ids.

  Raises:
    InputError: results are damaged.
  """
  if not (folder / 'scores.json').is_file():
    return []
  ids = {word: n for n, word in enumerate(world.vocab)}
  (groups,) = worst.groups([collect.load(folder)], MOST)
  views = []
  for group in groups:
    trials = [
      [trial.value, prefixes, [ids[w] for w in trial.suffix if w in ids]]
      for trial in group.trials
      if (prefixes := _prefixes(trial, ids))
    ]
    if trials:
      views.append(
        {
          'model': name,
          'metric': group.spec,
          'quantity': group.quantity,
          'tells': group.tells,
          'measured': group.measured,
          'short': group.short,
          'trials': trials,
        }
      )
  return views


def _prefixes(trial: worst.Trial, ids: dict[str, int]) -> list[list[int]]:
  """Prefixes of a trial as ids; none where this world has not all tokens."""
  words = [prefix.split() for prefix in trial.prefixes]
  if not all(word in ids for prefix in words for word in prefix):
    return []
  return [[ids[word] for word in prefix] for prefix in words]
