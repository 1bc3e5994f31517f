"""Published answers about forces, scored again beside who could answer."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wm import core
from wm.language import rescored
from wm.language.forces import (
  baselines,
  laws,
  picture,
  reading,
  scoring,
  systems,
)
from wm.language.forces.systems import System
from wm.reporting import tables, write

ANSWERS = 'llm-predictions'
NODES = 8  # Size of the largest formulas: that of Newton's law.
TITLE = 'Forces on planets, as language models say'
FITTED = 'Newton with the sun fitted knows what the prompt shows, and no more.'
FALSE = 'The prompts have the sun at the origin, where it is not.'


def load(
  folder: pathlib.Path, shown: Sequence[System]
) -> dict[str, list[reading.Said]]:
  """Model -> its `reading.Said` of each system, from `folder`.

  Raises:
    InputError: there is no model, or an answer is missing or no JSON object.
  """
  models = sorted(
    path.name for path in (folder / ANSWERS).glob('*') if path.is_dir()
  )
  if not models:
    raise core.InputError(
      f'{folder}: no folder of a model in {ANSWERS}; expected '
      f'{ANSWERS}/MODEL/0.json and so on'
    )
  return {
    model: [
      reading.load(
        folder / ANSWERS / model / f'{one.name}.json', len(one.force)
      )
      for one in shown
    ]
    for model in models
  }


def rescore(
  folder: str | pathlib.Path, *, nodes: int = NODES
) -> rescored.Rescored:
  """Scores recorded answers, baselines beside them, and fits laws to both.

  Args:
    folder: with 'llm-prompts' and 'llm-predictions', as published.
    nodes: size of the largest formulas that are sought; 0 is no search.

  Raises:
    InputError: see `systems.load` and `load`.
  """
  folder = pathlib.Path(folder)
  shown = systems.load(folder)
  answers = load(folder, shown)
  said = {
    model: [one.force for one in found] for model, found in answers.items()
  }
  return page(shown, said, nodes=nodes, remark=FALSE)


def page(
  shown: Sequence[System],
  said: Mapping[str, Sequence[np.ndarray]],
  *,
  nodes: int = NODES,
  remark: str = '',
) -> rescored.Rescored:
  """The page of what models say of systems: name -> forces [T] of each.

  nodes: see `rescore`; remark: a sentence on the prompts.
  """
  beside = {
    name: [baselines.said(name, one) for one in shown]
    for name in baselines.BASELINES
    if any(len(one.told) for one in shown)
  }
  speakers = {**said, **beside}
  rows = [
    {'speaker': name, 'system': one.name, **scoring.scores(force, one)}
    for name, forces in speakers.items()
    for one, force in zip(shown, forces, strict=True)
  ]
  truth = [one.force for one in shown]
  found = laws.laws(shown, {'truth': truth, **speakers}, nodes)
  pictures = [
    write.Picture(
      'forces.png',
      'Forces against time: true in grey, told as dots, said in red; what is '
      'far off is beyond the panel',
      picture.grid(shown, said),
    )
  ]
  many = f'{len(beside)} baselines' if beside else 'no baseline (none is told)'
  lead = (
    f'{len(said)} models and {many} on {len(shown)} systems. {remark}'.rstrip()
  )
  return rescored.Rescored(
    TITLE,
    lead,
    _tables(rows, found, shown),
    pictures,
    scoring.SCORES,
    {'forces': rows, 'laws': _law_rows(found)},
  )


def _by_system(
  rows: Sequence[rescored.Row],
  shown: Sequence[System],
  title: str,
  note: str,
  *quantities: str,
) -> tables.Table:
  """A row for each speaker, a column for each system."""
  by = {(row['speaker'], row['system']): row for row in rows}
  lines = [
    {
      'speaker': name,
      **{
        f'system {one.name}': ', '.join(
          _short(by[name, one.name][quantity]) for quantity in quantities
        )
        for one in shown
      },
    }
    for name in dict.fromkeys(row['speaker'] for row in rows)
  ]
  return rescored.table(title, lines, note)


def _tables(
  rows: Sequence[rescored.Row],
  found: Mapping[str, laws.Law],
  shown: Sequence[System],
) -> list[tables.Table]:
  names = {row['speaker'] for row in rows}
  wide = functools.partial(_by_system, rows, shown)
  return [
    wide(
      'Error over the true force, correlation, different numbers',
      FITTED * ('newton_fitted' in names),
      *('error', 'r', 'distinct'),
    ),
    wide(
      'Where no force was told: error, correlation, and correlation with time',
      'A dash: what is said there is one number. A correlation of 1 or -1 with '
      'time is a straight line, whatever the truth is.',
      *('error_unknown', 'r_unknown', 'r_time'),
    ),
    rescored.table(
      'Laws over all systems',
      _law_rows(found),
      'Masses, and nearly forces, are constant in a system: whoever repeats '
      'the told forces of each system seems to know the law. Intervals are '
      'clustered by system; force_law judges from ten systems on.',
    ),
    rescored.table(
      'Exponent of the distance within each system, and r squared',
      [
        {
          'speaker': name,
          **{
            f'system {key}': ', '.join(map(_short, pair))
            for key, pair in law.within.items()
          },
        }
        for name, law in found.items()
      ],
      "Newton's is -2. A dash: one number, or numbers that have no logarithm.",
    ),
  ]


def _short(value: float) -> str:
  if value != value:
    return '–'
  if value == int(value):
    return str(int(value))
  return f'{value:.4f}'


def _law_rows(found: Mapping[str, laws.Law]) -> list[dict[str, Any]]:
  """A row for each speaker; formulas only where some were sought."""
  sought = any(law.formulas for law in found.values())
  rows = []
  for name, law in found.items():
    row: dict[str, Any] = {'speaker': name}
    for key in ('r', 'm1', 'm2'):
      row[f'exponent of {key}'] = law.reason
      if law.exponents:
        low, high = law.intervals[key]
        row[f'exponent of {key}'] = (
          f'{law.exponents[key]:.3f} [{low:.3f}, {high:.3f}]'
        )
    if sought:
      for loss in laws.LOSSES:
        row[f'formula ({loss})'] = law.formulas.get(loss, '–')
      row["Newton's"] = ', '.join(law.newton) or 'no'
    rows.append({**row, 'force_law': law.judged})
  return rows
