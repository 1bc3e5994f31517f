"""Verdicts on what speakers say of planets, as scores.

A speaker is the model that was tuned, or one who could know; see the metric
force_law.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from wm import core
from wm.evaluation.forces import force_tasks, newton


class Judged(NamedTuple):
  """Verdicts of one data set and target, by speaker.

  Attributes:
    target: one of force_tasks.TARGETS.
    data_set: its number.
    verdicts: speaker -> what it says.
    sought: speaker -> formulas; None where none are sought.
  """

  target: str
  data_set: int
  verdicts: dict[str, newton.Verdict]
  sought: Mapping[str, newton.Sought] | None

  def rows(self, who: str) -> Iterator[tuple[str, float, str, str]]:
    """Quantity, value, reason and formula of all that a speaker is told by."""
    verdict, tokens = self.verdicts[who], self.verdicts['_tokens']
    reason = verdict.reason
    if not reason and not who and not tokens.newton:
      reason = tokens.reason or 'tokens_do_not_tell'
    yield 'newton', float(verdict.newton), reason, ''
    for name in force_tasks.columns(self.target, np.ones((1, 4))):
      exponent = verdict.exponents.get(name, np.nan)
      yield f'exponent_{name}', exponent, verdict.reason, ''
    silent = ''
    if not np.isfinite(verdict.size).any():
      silent = verdict.reason or 'no_orbit'
    yield 'r2', verdict.r2, silent, ''
    if self.target in ('acceleration', 'force'):
      yield 'positive', verdict.positive, silent, ''
    if self.target.endswith('_vector'):
      yield 'angle', verdict.angle, silent, ''
    if self.sought is not None:
      found = self.sought[who]
      yield 'formula', float(found.right), found.reason, found.law

  def laws(self, who: str) -> Iterator[tuple[float, str, str, int]]:
    """Error, reason, text and length of each law of a speaker's front."""
    found = self.sought[who] if self.sought is not None else None
    if found and found.reason:
      yield np.nan, found.reason, '', 0
    for law in found.front if found else ():
      yield law.error, '', law.text, law.size


# What bounds quantities; others have no bounds.
BOUNDS: dict[str, tuple[float, float | None]] = {
  'newton': (0.0, 1.0),
  'positive': (0.0, 1.0),
  'formula': (0.0, 1.0),
  'angle': (0.0, 180.0),
  'r2': (-math.inf, 1.0),
}


def scores(judged: list[Judged], who: str, end: str) -> Iterator[core.Scores]:
  """All quantities of a speaker; end: of their names."""
  yield from _fronts(judged, who, end)
  table: dict[str, list[tuple[float, str, str, Judged]]] = {}
  for one in judged:
    for name, value, reason, law in one.rows(who):
      # A target that is the same on all rows has no variance.
      reason = reason or ('constant' if np.isnan(value) else '')
      table.setdefault(name, []).append((value, reason, law, one))
  for name, rows in table.items():
    values, reasons, laws, whose = zip(*rows, strict=True)
    sets = np.array([one.data_set for one in whose])
    columns = {
      'data_set': sets,
      'target': np.array([one.target for one in whose]),
    }
    if name == 'formula':
      columns['law'] = np.array(laws)
    yield core.scores(
      f'{name}{who}{end}',
      np.where(np.array(reasons) == '', values, np.nan),
      reason=reasons,
      group=sets,
      columns=columns,
      bounds=BOUNDS.get(name),
      outliers=name.startswith('exponent') or name == 'r2',
    )


def _fronts(judged: list[Judged], who: str, end: str) -> Iterator[core.Scores]:
  """Errors of all laws that were found, a row for each."""
  laws = [(*law, one) for one in judged for law in one.laws(who)]
  if not laws:
    return
  errors, reasons, texts, lengths, whose = zip(*laws, strict=True)
  sets = np.array([one.data_set for one in whose])
  yield core.scores(
    f'law_error{who}{end}',
    errors,
    reason=reasons,
    group=sets,
    columns={
      'data_set': sets,
      'target': np.array([one.target for one in whose]),
      'law': np.array(texts),
      'length': np.array(lengths),
    },
    bounds=(0.0, None),
  )
