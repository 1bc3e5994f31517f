"""How many trials and seeds tell two models apart, from a pilot."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from wm import core
from wm.core import registry
from wm.evaluation import comparisons as lib
from wm.evaluation import results
from wm.library.calls import Log, silent
from wm.options.calls import Path
from wm.runtime import files

FILE = 'power.json'


def power(
  pilot: Path | Sequence[Path],
  difference: float,
  *,
  power: float = lib.POWER,
  log: Log = silent,
) -> list[dict[str, Any]]:
  """Trials and seeds of each of two models that tell them apart by so much.

  Two-sided at 5 %, for each headline quantity of the pilot's metrics.

  Args:
    pilot: folder that `score` wrote, or one for each training seed.
    difference: in units of the quantity, such as 0.05 of a share.
    power: chance that the difference is shown.
    log: gets a line for each quantity.

  Returns:
    A dict for each quantity: metric, spec, quantity, difference, power, value,
    n, clusters and design_effect of the first folder, and `trials` and `seeds`
    needed, None with a `reason` or of fewer than two seeds.

  Raises:
    InputError: a folder has no scores, or a number is out of range.
  """
  several = [pilot] if isinstance(pilot, str | pathlib.Path) else list(pilot)
  seeds = [_headline(pathlib.Path(folder)) for folder in several]
  entries = []
  for (spec, quantity), scores in seeds[0].items():
    alike = [seed[spec, quantity] for seed in seeds if (spec, quantity) in seed]
    sample = lib.trials_needed(scores, difference, power)
    entry = {
      'metric': registry.parse(spec)[0],
      'spec': spec,
      'quantity': quantity,
      'difference': difference,
      'power': power,
      **sample._asdict(),
      'seeds': lib.seeds_needed(_means(alike), difference, power),
    }
    entries.append(entry)
    log(_line(entry))
  return entries


def write(folder: Path, entries: Sequence[dict[str, Any]]) -> None:
  """Writes what `power` gave to FOLDER/power.json."""
  files.write_json(pathlib.Path(folder) / FILE, list(entries))


def _headline(folder: pathlib.Path) -> dict[tuple[str, str], core.Scores]:
  """Spec and quantity -> rows, of a folder's headline quantities."""
  rows = {}
  for path in results.paths(folder):
    try:
      part = results.read(path)
    except results.Unusable as error:
      raise core.InputError(f'{folder}: {error}') from error
    metric = registry.make('metric', part.spec)
    for scores in part.scores:
      if scores.quantity in metric.headline:
        rows[part.spec, scores.quantity] = scores
  if not rows:
    raise core.InputError(
      f'{folder} has no rows of a headline quantity; expected a folder that '
      'launch/score.py wrote'
    )
  return rows


def _means(several: Sequence[core.Scores]) -> list[float]:
  """The score of each that has one."""
  means = []
  for scores in several:
    rows = scores.measured & (scores.weight > 0)
    if rows.any():
      weights = scores.weight[rows]
      means.append(float(np.average(scores.value[rows], weights=weights)))
  return means


def _line(entry: dict[str, Any]) -> str:
  """What is needed, in a line."""
  needed = f'{entry["trials"]} trials of each model'
  if entry['trials'] is None:
    needed = f'unknown trials ({entry["reason"]})'
  if entry['seeds'] is not None:
    needed += f', {entry["seeds"]} seeds'
  effect = entry['design_effect']
  effect = '' if effect is None else f', design effect {effect:.2f}'
  return (
    f'{entry["metric"]} {entry["quantity"]}: a difference of '
    f'{entry["difference"]:g} takes {needed} at power {entry["power"]:g} '
    f'(pilot: n={entry["n"]}{effect})'
  )
