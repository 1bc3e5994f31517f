"""Planted laws: is each named, and is there none where none is in reach?

  python -m tests.planted_laws
  python -m tests.planted_laws --seeds=10 --first_seed=200 --out=table.json

Fourteen rules give forces in 100 systems of 8 rows. Nine are formulas of the
search's grammar; three are not (a power of 2.5, a square root, a ripple); two
are noise, of each row and of each system. A cell is a rule at a noise: it
counts seeds of which the right law is named, of which there is said to be none,
and of which another law is named. Seeds below 200 were looked at while the
limits of `law_search` were chosen.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
from collections.abc import Callable, Mapping

import numpy as np

from wm.evaluation import law_search

Columns = Mapping[str, np.ndarray]
NOISES = 0.0, 0.01, 0.05, 0.1
SYSTEMS, ROWS = 100, 8
NAMED, NONE, WRONG = 'named', 'none', 'wrong'
LAWS: dict[str, Callable[[Columns], np.ndarray]] = {
  'm1 m2 / r^2': lambda c: c['m1'] * c['m2'] / c['r'] ** 2,
  'm1 m2 / r': lambda c: c['m1'] * c['m2'] / c['r'],
  'm2 / r^2': lambda c: c['m2'] / c['r'] ** 2,
  '(m1 + m2) / r^2': lambda c: (c['m1'] + c['m2']) / c['r'] ** 2,
  'm1 m2 exp(-r)': lambda c: c['m1'] * c['m2'] * np.exp(-c['r']),
  'm1 / r^2 + 0.5': lambda c: c['m1'] / c['r'] ** 2 + 0.5,
  'm1 m2 / (r^2 + 0.3)': lambda c: c['m1'] * c['m2'] / (c['r'] ** 2 + 0.3),
  'm2 exp(cos r)': lambda c: c['m2'] * np.exp(np.cos(c['r'])),
  'm1 r': lambda c: c['m1'] * c['r'],
}
OUT_OF_REACH: dict[str, Callable[[Columns], np.ndarray]] = {
  'm1 m2 / r^2.5': lambda c: c['m1'] * c['m2'] / c['r'] ** 2.5,
  'sqrt(m1 m2) / r': lambda c: np.sqrt(c['m1'] * c['m2']) / c['r'],
  'm1 m2 / r^2 (1 + 0.2 sin 3r)': lambda c: (
    c['m1'] * c['m2'] / c['r'] ** 2 * (1 + 0.2 * np.sin(3 * c['r']))
  ),
}
# The noise of a cell is on top of these.
WITHOUT_LAW = 'noise of rows', 'noise of systems'


def systems(seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
  """Quantities [n] of all rows, and the system of each."""
  rng = np.random.default_rng([1, seed])

  def drawn(low: float, high: float, *shape: int) -> np.ndarray:
    return np.exp(rng.uniform(np.log(low), np.log(high), shape))

  masses = drawn(0.03, 1.5, SYSTEMS), drawn(0.3, 3, SYSTEMS)
  first, second = (np.repeat(mass, ROWS) for mass in masses)
  columns = {'r': drawn(0.5, 5, SYSTEMS * ROWS), 'm1': first, 'm2': second}
  return columns, np.repeat(np.arange(SYSTEMS), ROWS)


def outcome(
  kind: str, noise: float, seed: int, size: int = 8
) -> tuple[str, str]:
  """What is said of one planted law, and the name with its reason."""
  columns, system = systems(seed)
  rng = np.random.default_rng([2, seed])
  rule = {**LAWS, **OUT_OF_REACH}.get(kind)
  if rule is not None:
    truth = rule(columns)
  elif kind == WITHOUT_LAW[0]:
    truth = np.exp(rng.normal(size=len(system)))
  else:
    truth = np.exp(rng.normal(size=SYSTEMS))[system]
  target = truth * np.exp(noise * rng.normal(size=len(system)))
  law = law_search.find_law(columns, target, system, size=size, seed=seed)
  text = f'{law.name} ({law.reason})' if law.reason else law.name
  if law.name == law_search.NONE:
    return NONE, text
  right = kind in LAWS and law_search.follows(law, truth, tolerance=0.05)
  return NAMED if right else WRONG, text


def table(seeds: range) -> dict[str, dict[str, dict[str, int]]]:
  """Rule -> noise -> outcome -> seeds."""
  cells = {}
  for kind in (*LAWS, *OUT_OF_REACH, *WITHOUT_LAW):
    cells[kind] = {
      f'{noise:g}': dict(
        collections.Counter(outcome(kind, noise, seed)[0] for seed in seeds)
      )
      for noise in NOISES
    }
    print(markdown({kind: cells[kind]}), flush=True)
  return cells


def markdown(cells: Mapping[str, Mapping[str, Mapping[str, int]]]) -> str:
  """A row for each rule: named / none / wrong at each noise."""
  return '\n'.join(
    f'| {kind} | '
    + ' | '.join(
      ' / '.join(str(cell.get(name, 0)) for name in (NAMED, NONE, WRONG))
      for cell in row.values()
    )
    + ' |'
    for kind, row in cells.items()
  )


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--seeds', type=int, default=10)
  parser.add_argument('--first_seed', type=int, default=200)
  parser.add_argument('--out', type=pathlib.Path, help='a JSON file')
  args = parser.parse_args()
  print('| rule | ' + ' | '.join(f'noise {noise:.0%}' for noise in NOISES))
  seeds = range(args.first_seed, args.first_seed + args.seeds)
  cells = table(seeds)
  if args.out:
    which = f'{seeds[0]} to {seeds[-1]}'
    args.out.write_text(json.dumps({'seeds': which, 'cells': cells}) + '\n')


if __name__ == '__main__':
  main()
