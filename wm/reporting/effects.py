"""Effects beside verdicts: how far apart what a finding compares is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from wm.evaluation import seeds as seeds_lib
from wm.reporting import amounts, ceilings, tables, units, verdicts
from wm.reporting.amounts import Amount, Rows
from wm.reporting.ceilings import BAYES, ORACLE, REPLANNING
from wm.reporting.findings import Claim
from wm.reporting.verdicts import Comparison, Judged

_CEILINGS = {**ceilings.NAMES, ORACLE: ORACLE}


def deciding(judged: Judged) -> str:
  """'D 0.39 [0.32, 0.46], stated: > 0.05', of the comparison that decides.

  Empty where the finding was not tested.
  """
  if judged.verdict == verdicts.UNTESTED:
    return ''
  each = judged.deciding
  return f'D {_interval(each.difference._asdict())}, stated: {_bound(each)}'


def rule(judged: Judged) -> str:
  """The rule's hash and date, and the p values that decide."""
  finding = judged.finding
  text = f'Rule {finding.rule_hash} of {finding.date}'
  if judged.verdict in (verdicts.UNTESTED, verdicts.ONE_SEED):
    return f'{text}.'
  num = len(judged.family)
  return (
    f'{text}; p {_p(judged.shown)} for shown, {_p(judged.absent)} for shown '
    f'absent, both adjusted for the {num} findings of {judged.finding.paper}.'
  )


def table(judged: Judged, rows: Rows) -> tables.Table:
  """A row for each comparison of a finding.

  Args:
    judged: the finding.
    rows: units of its miniature, among which are ceilings.
  """
  paper = f'{judged.finding.paper}, {judged.finding.printed}'
  note = (
    'Values are means over seeds [95 % interval], (each seed, or of more than '
    'five the least to the greatest), trials in clusters. D is the first value '
    'less the second, times its factor, with '
    'its 95 % interval and what the finding states of it. The p values are '
    'one-sided: that D is as stated, and that it is not (corrected by Holm for '
    'the comparisons of the finding). They are not yet corrected for the '
    f'{len(judged.family)} findings of the paper, which the table of verdicts '
    'names. Ceilings are of the world that the first row is scored in. '
    f'Paper: {paper}.'
  )
  listed = [_row(each, rows) for each in judged.comparisons]
  frame = pd.DataFrame(listed, dtype=object)
  return tables.Table('', frame, note)


def _row(each: Comparison, rows: Rows) -> dict[str, str]:
  claim, tested = each.claim, each.difference.low is not None
  value, other = _amount(each.amount), _amount(each.other_amount)
  times = '' if claim.times == 1 else f'{claim.times:g} × '
  if isinstance(each.other, float):
    second = f'{times}{each.other:g}'
  else:
    second = tables.headed(f'{times}{each.other}: ', other)
  paper = [
    f'{name} {claim.published[name]:g}'
    for name in (each.row, each.other)
    if isinstance(name, str) and name in claim.published
  ]
  return {
    'quantity': claim.label,
    'row': tables.headed(f'{each.row}: ', value),
    'compared with': second,
    'D': _interval(each.difference._asdict()),
    'stated': _bound(each),
    'margin': f'{claim.margin:g}',
    'seeds': _seeds(each),
    'p shown': _p(each.shown) if tested else '–',
    'p absent': _p(each.absent) if tested else '–',
    'ceiling': '; '.join(_ceilings(each.row, claim, rows)) or '–',
    'paper': ', '.join(paper) or '–',
  }


def _bound(each: Comparison) -> str:
  """'> 0.05', or '< -0.05' of 'below'."""
  margin = each.claim.margin
  if each.claim.relation == 'below':
    return f'< {-margin if margin else 0:g}'
  return f'> {margin:g}'


def _interval(entry: Mapping[str, Any]) -> tables.Cell:
  """'0.390 [0.320, 0.460]', or without an interval where there is none."""
  shown = tables.interval(dict(entry))
  return shown if entry['low'] is not None else tables.Cell(shown.pieces[0])


def _p(value: float) -> str:
  return f'{value:.2g}' if value >= 1e-4 else '< 0.0001'


def _seeds(each: Comparison) -> str:
  """'3', or '3 and 1' where they differ."""
  counts = [
    str(amount.seeds) for amount in (each.amount, each.other_amount) if amount
  ]
  return ' and '.join(dict.fromkeys(counts)) or '0'


def _amount(amount: Amount | None) -> tables.Cell:
  if amount is None:
    return tables.Cell('–')
  entry, values = amount.entry(), []
  if amount.seeds > seeds_lib.SHOWN:
    ends = map(tables.number, (min(amount.values), max(amount.values)))
    values = [f' ({" to ".join(ends)})']
  elif amount.seeds > 1:
    values = [f' ({", ".join(map(tables.number, amount.values))})']
  shown = tables.Cell(*_interval(entry).pieces, *values)
  return tables.joined(shown, f'n={tables.trials(entry)}')


def _ceilings(row: str, claim: Claim, rows: Rows) -> list[str]:
  """'Bayes 0.991 [0.985, 0.995]', of the world that a row is scored in."""
  if not rows.get(row):
    return []
  world = rows[row][0].key.get('scored_in')
  values = {}
  for name, of in rows.items():
    key = of[0].key
    model = units.described(key.get('model', {}))
    role = ceilings.role(name, model, 'training' in key, ())
    if role in _CEILINGS and key.get('scored_in') == world:
      values[role] = amounts.amount(of, claim.of)
  return [
    f'{_CEILINGS[role]} {_interval(amount.entry())}'
    for role in (BAYES, REPLANNING, ORACLE)
    if (amount := values.get(role))
  ]
