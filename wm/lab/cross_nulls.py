"""Null models for the cross: how much of its agreement is geometry?

The cross correlates two metrics over the models of a cell, which is a world, a
size and a level. Models that err less have more of both, so that a correlation
need not reflect what they have learned. Here every model is replaced by
null models (`wm.models.null`) with its excess loss, whose errors are random: a
metric of a null is measured at a few losses of each world, and interpolated.

  python -m wm.lab.cross_nulls --out=launch/flags/cross/nulls.json
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats

from wm import core
from wm.core import registry
from wm.lab import agreement, cross, units
from wm.library import calls
from wm.options.calls import Scoring
from wm.runtime import files

# Label -> fields of a null: what its errors depend on, and how many tokens they
# make likely. Errors of the state alone leave compression at 1.
KINDS = {
  f'{kind}, {words}': f'kind={kind!r}, spread={spread}'
  for kind in ('prefix', 'recency')
  for words, spread in (('few', 3.0), ('many', 1.0))
}
LOSSES = 6  # Excess losses of a world at which nulls are measured.
_LEAST = 1e-3  # Smaller excess losses are taken for this, in nats a token.


def losses(models: pd.DataFrame, control: str) -> np.ndarray:
  """[LOSSES] excess losses that span those of a world's models.

  Evenly spaced quantiles, so that most are where most models are.
  """
  excess = models.raw[models.metric == control].dropna().clip(lower=_LEAST)
  return np.unique(excess.quantile(np.linspace(0, 1, LOSSES)).round(6))


def measured(
  world: str,
  kind: str,
  excess: float,
  measures: Sequence[cross.ScaledMeasure],
  seed: int,
) -> list[float]:
  """Values of both metrics of a null model; 0 where it has none.

  world: spec. kind: of KINDS. excess: of the null.
  """
  model = f'null({KINDS[kind]}, excess={excess!r})'
  specs = [of.parts[0].metric for of in measures]
  scoring = Scoring(metrics=specs, world=world, seed=seed)
  entries = calls.entries_of(model, scoring)
  values = []
  for of in measures:
    shares = [
      entry['value'] or 0.0
      for part in of.parts
      for entry in entries
      if entry['quantity'] == part.quantity
      and registry.parse(entry['spec'])[0] == registry.parse(part.metric)[0]
    ]
    values.append(float(scipy.stats.hmean(shares)) if min(shares) else 0.0)
  return values


def replaced(
  models: pd.DataFrame, nulls: pd.DataFrame, kind: str, control: str
) -> pd.DataFrame:
  """The raw values of both metrics, as null models of one kind have them.

  models: of `cross.CrossCells`. nulls: columns world, kind, excess, and the
    names of both metrics.
  """
  names = [name for name in nulls if name not in ('world', 'kind', 'excess')]
  parts = [models[~models.metric.isin(names)]]
  keys = ['world', 'recipe', 'level', 'seed']
  excess = models[models.metric == control].set_index(keys).raw.dropna()
  for world, of_world in excess.groupby(level='world'):
    mine = nulls[(nulls.world == world) & (nulls.kind == kind)]
    mine = mine.sort_values('excess')
    # Losses span orders of magnitude.
    at = np.log(of_world.clip(lower=_LEAST).to_numpy())
    for name in names:
      raw = np.interp(at, np.log(mine.excess), mine[name])
      lines = of_world.index.to_frame(index=False).assign(metric=name, raw=raw)
      parts.append(lines)
  return pd.concat(parts, ignore_index=True)


def rows(
  folder: str | pathlib.Path, log: Callable[[str], Any] = print
) -> list[list[Any]]:
  """The trends of trained models and of null ones, and all cells.

  Returns:
    [whose, cells, Spearman over cells, its p, worlds, Spearman over worlds, its
    p] of each kind of model; then [world, size, level, mean distinction, and
    the correlation of trained models and of each kind of null] of each cell.

  Raises:
    InputError: the folder has no registration or no prediction.
  """
  design = cross.load(folder)
  if design is None:
    raise core.InputError(f'{folder}: expected a registration')
  prediction = cross.load_prediction(folder, design)
  if prediction is None:
    raise core.InputError(f'{folder}: expected a prediction')
  every = cross.read_units(folder, design)
  models = cross.cells(every, design).models
  names = [prediction.first, prediction.second]
  measures = [_asked(every, design.metrics[name]) for name in names]
  lines = []
  for world in design.worlds:
    spec = _world(folder, world)
    for excess in losses(models[models.world == world], design.control):
      for kind in KINDS:
        about = f'{world} {kind} {excess:g}'
        try:
          values = measured(
            spec, kind, float(excess), measures, design.first_seed
          )
        except core.InputError as error:
          # Random errors may not cost so much; smaller losses stand for it.
          log(f'{about}: left out, {error}')
          continue
        lines.append((world, kind, excess, *values))
        log(f'{about}: {values[0]:.3f} {values[1]:.3f}')
  nulls = pd.DataFrame(lines, columns=['world', 'kind', 'excess', *names])
  several = {'trained': models} | {
    kind: replaced(models, nulls, kind, design.control) for kind in KINDS
  }
  cells = {
    whose: cross.predicted_cells(of, design, prediction)
    for whose, of in several.items()
  }
  return [*map(_trend, cells, cells.values()), *_side_by_side(cells)]


def _asked(
  every: cross.StudyUnits, of: cross.ScaledMeasure
) -> cross.ScaledMeasure:
  """The measure in the spec with which models of the cross were scored."""
  (spec, *_) = (
    entry['spec']
    for units_of in every.values()
    for unit in units_of.values()
    if (entry := units.entry_of(unit, of.parts[0]))
  )
  return of._replace(parts=tuple(x._replace(metric=spec) for x in of.parts))


def _world(folder: str | pathlib.Path, name: str) -> str:
  """The world that a miniature's flagfile names."""
  text = pathlib.Path(folder, f'{name}.flags').read_text()
  (line,) = (x for x in text.splitlines() if x.startswith('--world='))
  return line.removeprefix('--world=')


def _trend(whose: str, cells: pd.DataFrame) -> list[Any]:
  new = cells[cells.new].dropna()
  worlds = agreement.of_worlds(new)
  numbers = *agreement.trend(new), len(worlds), *agreement.trend(worlds)
  return [whose, len(new), *map(_rounded, numbers)]


def _side_by_side(cells: dict[str, pd.DataFrame]) -> list[list[Any]]:
  keys = [*cross.CELL, 'new']
  wide = pd.concat(
    {whose: of.set_index(keys).correlation for whose, of in cells.items()},
    axis=1,
  )
  mean = cells['trained'].set_index(keys)['mean']
  wide.insert(0, 'mean', mean)
  wide = wide.dropna(subset=['mean', 'trained']).sort_values('mean')
  return [
    [*map(str, key[:3]), *map(_rounded, row)]
    for key, row in zip(wide.index, wide.to_numpy(float), strict=True)
  ]


def _rounded(value: float) -> float | None:
  """Rounds to three digits; None for NaN, the value of a constant metric."""
  return None if value != value else round(float(value), 3)


def main() -> None:
  """Measures, and writes the result."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('--folder', default='launch/flags/cross')
  parser.add_argument('--out', required=True)
  asked = parser.parse_args()
  result = {'rows': rows(asked.folder)}
  files.write_json(pathlib.Path(asked.out), result)


if __name__ == '__main__':
  main()
