"""The page of a cross: its results in sentences and a table.

`wm.lab.cross` defines a cross, and computes the numbers.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from wm.lab import agreement, cross, miniatures
from wm.lab.agreement import MetricAgreement
from wm.lab.cross import (
  DRAFT,
  INTERIM,
  REGISTERED,
  Analysis,
  CrossCells,
  Design,
  Prediction,
)
from wm.lab.verdicts import Judged
from wm.library.report import report_folder
from wm.options.calls import Path
from wm.reporting import tables
from wm.runtime import files, pages

_TITLE = 'Which metrics of world models agree?'


def _verdict(design: Design, each: MetricAgreement) -> str:
  if design.status == DRAFT:
    return 'draft: none'
  return f'{"so far " * (design.status == INTERIM)}{each.verdict}'


def agreement_table(
  several: Sequence[MetricAgreement], design: Design
) -> tables.Table:
  """A row for each pair."""
  rows = [
    {
      'metrics': ', '.join(each.metrics),
      'mean correlation': tables.rounded(each.mean),
      'bootstrap of recipes': '–'
      if each.bootstrap is None
      else '[{:.2f}, {:.2f}]'.format(*each.bootstrap),
      'worlds': str(len(each.by_world)),
      'p': f'{each.p:.2g}',
      'p within margin': f'{each.absent:.2g}',
      'verdict': _verdict(design, each),
    }
    for each in several
  ]
  return tables.of_rows('', rows, tables.note('agreement', design=design))


def prediction_answer(cells: pd.DataFrame, prediction: Prediction) -> str:
  """Whether a prediction holds in the cells that had not been seen."""
  new = cells[cells.new]
  tested = new.dropna()
  worlds = agreement.of_worlds(new)
  return tables.note(
    'prediction_answer',
    prediction=prediction,
    worlds=len(worlds),
    of_worlds=agreement.trend(worlds),
    done=int(new.models.fillna(0).sum()),
    of=int(new.planned.sum()),
    tested=agreement.trend(new),
    cells=len(tested),
    right=int(((tested['mean'] > 0.5) == (tested.correlation > 0)).sum()),
  )


def write(folder: str | pathlib.Path, out: str | pathlib.Path) -> bool:
  """Writes cross.html into `out`; False without a design.

  Raises:
    InputError: a malformed registration or result.
  """
  design = cross.load(folder)
  if design is None:
    return False
  place = pathlib.Path(out)
  cells = cross.cells(cross.read_units(folder, design), design)
  analysis = cross.analyse(cells.models, design)
  last = cells.models[cells.models.level == design.levels[-1]]
  of = len(design.worlds) * len(design.recipes) * design.seeds
  if design.status == REGISTERED and len(last) < of * len(design.metrics):
    design = dataclasses.replace(design, status=INTERIM)
  answers = answer(analysis, design)
  if prediction := cross.load_prediction(folder, design):
    predicted = cross.predicted_cells(cells.models, design, prediction)
    answers.append(prediction_answer(predicted, prediction))
  with files.stage_lock(place, 'report'):
    text = pages.render(
      *('wm.reporting', 'cross.html'),
      title=_TITLE,
      lead=_lead(cells, design),
      design=design,
      answer=answers,
      pairs=agreement_table(analysis.every, design),
      refused=cells.refused,
    )
    files.write_text(place / 'cross.html', text)
  return True


def answer(analysis: Analysis, design: Design) -> list[str]:
  """The results in sentences by fixed rules; [] for a draft."""
  if design.status == DRAFT:
    return []
  shared: dict[str, Any] = {'design': design, 'rounded': tables.rounded}
  lines = [tables.note('interim')] if design.status == INTERIM else []
  named = {f'metrics with {of}': x for of, x in analysis.criteria.items()}
  for title, several in ({'pairs of metrics': analysis.pairs} | named).items():
    strongest = sorted(several, key=lambda each: -abs(each.mean.value or 0))
    lines.append(tables.note('answer', title=title, pairs=strongest, **shared))
  for of, gains in analysis.added.items():
    better = [each for each in gains if each.p <= 2 * agreement.ALPHA]
    tested = any(each.mean.p is not None for each in gains)
    values = {'criterion': of, 'better': better, 'tested': tested, **shared}
    lines.append(tables.note('answer_added', **values))
  return lines


def _lead(cells: CrossCells, design: Design) -> str:
  models = cells.models[['world', 'recipe', 'level', 'seed']]
  return tables.note(
    'cross',
    done=len(models.drop_duplicates()),
    of=len(design.worlds) * len(design.rows()) * design.seeds,
    refused=len(cells.refused),
    design=design,
  )


def findings(
  folder: Path, out: Path, *, log: Callable[[str], None] = lambda line: None
) -> list[Judged]:
  """Judges the findings of papers by units of miniatures, on one page.

  A folder with a registration has a second page, cross.html
  (`wm.lab.cross`).

  Args:
    folder: of findings.json, flagfiles and results/NAME/ROW-SEED.json, such as
      launch/flags/miniatures.
    out: folder in which to make report/, or one that is called report.
    log: gets the lines of verdicts, and the files.

  Returns:
    Each finding with its verdict and comparisons, see `wm.lab.verdicts`.

  Raises:
    InputError: findings or results that are damaged or do not fit.
  """
  place = report_folder(out, [])
  judged = miniatures.write(folder, place)
  for line in miniatures.verdict_table(judged).text().splitlines():
    log(line)
  log(f'report: {place}/report.html')
  if write(folder, place):
    log(f'        {place}/cross.html')
  return judged
