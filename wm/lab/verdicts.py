"""Verdicts on findings, from results and the rules of findings alone.

A claim is a set of comparisons. Each is the difference D between a row and its
counterpart (times a factor). With a margin M, 'above' is
shown by D > M and shown to fail by D < M; 'below' by D < -M and D > -M. Both
have a one-sided p value by Student's t over training seeds (Welch's test
between rows, the one-sample test against a number, the same of differences
within seeds against another quantity of the row). Unless a claim says that the
seeds' own variance counts, it is taken to be no less than that of their trials:
that errs to the safe side, and hides differences where a seed has few clusters
and so a wide interval. A row that is not trained and has one seed has the
variance of its trials.

A t test takes seeds to be of one mode. Where a row's seeds fall in two groups,
such as models that grok and models that do not, rows are compared by an exact
permutation test, and a comparison with a number decides nothing: the finding is
marked as bimodal. A share that is stated to be nearer to 1 than a number is
also has to pass a test for distances from a bound (`comparisons.nearer`). A row
whose seeds all fall in one group may still have a second mode: three seeds miss
a mode that a fifth of trainings end in with probability one half.

A finding is the conjunction of its comparisons. It is shown if each of them is,
so its p value is the largest (the intersection-union test, Berger 1982,
Technometrics 24). It is shown absent if one of them is shown to fail, so that p
value is the smallest, corrected by Holm for the number of comparisons. Over all
findings of the same paper both are corrected by Holm again; those that could
not be tested count in. Each of the two is tested at .025, together at .05.

    shown            the finding holds
    shown absent     it does not
    undecided        neither is shown
    bimodal          undecided, and the seeds of a row fall in two groups
    one seed         a trained row has a single seed, which decides nothing
    not tested here  a row, or some of its seeds, is missing or was refused

A finding that was judged before, by fewer seeds or under another rule, pays for
it: each earlier judgement doubles its p values, so that all judgements together
err at most twice as often as one, and the page names the earlier verdicts. A
finding whose units record neither its present rule nor an earlier one was
fixed, or changed, after the data.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wm.evaluation import comparisons, statistics
from wm.evaluation.comparisons import Difference
from wm.lab import units
from wm.lab.findings import Claim, Finding, Quantity
from wm.lab.units import Amount, Results, Rows, Unit
from wm.reporting import ceilings, tables
from wm.reporting.ceilings import BAYES, ORACLE, REPLANNING

SHOWN, ABSENT, UNDECIDED, BIMODAL, ONE_SEED, UNTESTED = VERDICTS = (
  *('shown', 'shown absent', 'undecided', 'bimodal', 'one seed'),
  'not tested here',
)
AFTER = 'after the data'
ALPHA = 0.025  # One-sided.
_NONE = Difference(None, None, None, None, 0, 0)


class Comparison(NamedTuple):
  """The comparison of a row with another row, a quantity or a number.

  Attributes:
    claim: the claim to which it belongs.
    row, other: the two sides.
    amount, other_amount: their amounts; None if not measured, or for a number.
    difference: the first amount less the second, times the factor.
    shown, absent: one-sided p values; absent is corrected by Holm for the
      comparisons of the finding. 1 where there is no interval.
  """

  claim: Claim
  row: str
  other: str | float | Quantity
  amount: Amount | None
  other_amount: Amount | None
  difference: Difference
  shown: float
  absent: float

  @property
  def bimodal(self) -> bool:
    """Do the seeds of a trained row fall in two groups?"""
    sides = self.amount, self.other_amount
    return any(side.trained and side.bimodal for side in sides if side)

  @property
  def verdict(self) -> str:
    """Verdict on this comparison alone, without corrections."""
    if min(self.shown, self.absent) <= ALPHA:
      return SHOWN if self.shown <= ALPHA else ABSENT
    return BIMODAL if self.bimodal else UNDECIDED


@dataclasses.dataclass(frozen=True)
class Judged:
  """A finding and its verdict.

  Attributes:
    finding: the finding.
    verdict: one of VERDICTS.
    after: whether a unit does not record the finding's present rule.
    comparisons: of its claims, in order.
    shown, absent: p values, corrected for the findings of the paper.
    reasons: missing rows or seeds, and refused units.
    family: titles of the findings that p values are corrected for, its own
      among them.
  """

  finding: Finding
  verdict: str
  after: bool
  comparisons: tuple[Comparison, ...]
  shown: float
  absent: float
  reasons: tuple[str, ...] = ()
  family: tuple[str, ...] = ()

  @property
  def label(self) -> str:
    """The verdict as tables show it: 'shown, after the data'."""
    return f'{self.verdict}, {AFTER}' if self.after else self.verdict

  @property
  def deciding(self) -> Comparison:
    """The weakest comparison; for a finding shown absent, the failed one."""
    if self.verdict == ABSENT:
      return min(self.comparisons, key=lambda each: each.absent)
    return max(self.comparisons, key=lambda each: each.shown)

  def amounts_of(self, claim: Claim) -> dict[str, Amount]:
    """Row -> its amount, of the rows that a claim compares."""
    measured: dict[str, Amount | None] = {}
    for each in self.comparisons:
      if each.claim is claim:
        # A quantity or a number is no row's name.
        measured |= {each.row: each.amount, str(each.other): each.other_amount}
    amounts = {row: measured.get(row) for row in claim.row_names}
    return {row: amount for row, amount in amounts.items() if amount}


def judge(
  several: Sequence[Finding], results: Mapping[str, Results]
) -> list[Judged]:
  """Judges all findings of a file.

  Args:
    several: findings of one or more papers, all of each.
    results: miniature -> its units.

  Returns:
    A verdict for each finding, in order.
  """
  judged = [
    _compare(finding, results.get(finding.miniature, Results({})))
    for finding in several
  ]
  for paper in dict.fromkeys(finding.paper for finding in several):
    family = [n for n, each in enumerate(judged) if each.finding.paper == paper]
    costs = [judged[n].finding.cost for n in family]
    shown, absent = (
      comparisons.holm(
        [min(p * times, 1.0) for p, times in zip(side, costs, strict=True)]
      )
      for side in (
        [judged[n].shown for n in family],
        [judged[n].absent for n in family],
      )
    )
    titles = tuple(judged[n].finding.title for n in family)
    for n, p_shown, p_absent in zip(family, shown, absent, strict=True):
      verdict = judged[n].verdict
      if verdict == UNDECIDED and min(p_shown, p_absent) <= ALPHA:
        verdict = ABSENT if p_absent <= ALPHA else SHOWN
      elif verdict == UNDECIDED and any(
        x.bimodal for x in judged[n].comparisons
      ):
        verdict = BIMODAL
      judged[n] = dataclasses.replace(
        judged[n],
        verdict=verdict,
        family=titles,
        shown=p_shown,
        absent=p_absent,
      )
  return judged


def verdict_note(several: Sequence[Judged]) -> str:
  """Explains the verdicts, and the correction over findings of a paper."""
  papers = {each.finding.paper: each.family for each in several}
  return tables.note('verdicts', alpha=ALPHA, papers=papers)


def _compare(finding: Finding, results: Results) -> Judged:
  """All comparisons, and the verdict as far as p values do not decide it."""
  reasons: list[str] = []
  compared: list[Comparison] = []
  used: list[Unit] = []
  alone = False
  for claim in finding.claims:
    rows = {
      name: [
        unit
        for unit in results.rows.get(name, ())
        if unit.seed >= results.first
      ][: finding.seeds]
      for name in claim.row_names
    }
    used += [unit for row in rows.values() for unit in row]
    compared += [_comparison(claim, rows, *pair) for pair in claim.pairs]
    for name in claim.row_names:
      reason, is_alone = _lacking(finding, claim, name, rows[name], results)
      alone |= is_alone
      reasons += [reason] if reason else []
  verdict = UNTESTED if reasons else ONE_SEED if alone else UNDECIDED
  fails = comparisons.holm([each.absent for each in compared])
  compared = [
    each._replace(absent=p) for each, p in zip(compared, fails, strict=True)
  ]
  changed = any(
    unit.rules.get(finding.name) not in finding.rule_hashes for unit in used
  )
  tested = verdict == UNDECIDED
  return Judged(
    finding,
    verdict,
    changed and verdict != UNTESTED,
    tuple(compared),
    max(each.shown for each in compared) if tested else 1.0,
    min(fails) if tested else 1.0,
    tuple(dict.fromkeys((*reasons, *_left_out(finding, results)))),
  )


def _lacking(
  finding: Finding,
  claim: Claim,
  name: str,
  row: Sequence[Unit],
  results: Results,
) -> tuple[str, bool]:
  """What a row lacks for a test, or ''; and whether it has a single seed."""
  amount = units.amount(row, claim.of)
  seeds = amount.seeds if amount else 0
  if isinstance(claim.than, Quantity) and amount:
    seeds = len(_within_seeds(claim, row, claim.than))
  trained = any('training' in unit.key for unit in row)
  needed = finding.seeds if trained or not row else 1
  if seeds >= needed:
    single = seeds == 1 and amount and amount.mean().variance is None
    return (f'{name}: one seed without an interval' if single else ''), False
  if seeds == 1 and name not in results.refused:
    return '', True
  of = '' if name in results.refused else f' of {claim.of}'
  return f'{name}: {seeds} of {needed} seeds{of}', False


def _left_out(finding: Finding, results: Results) -> list[str]:
  """A line on the units of each row that were refused."""
  names = dict.fromkeys(n for claim in finding.claims for n in claim.row_names)
  return [
    f'{name}: {len(units)} left out, of code that was not committed: '
    f'{", ".join(units)}'
    for name in names
    if (units := results.refused.get(name, ()))
  ]


def _comparison(
  claim: Claim,
  rows: Mapping[str, Sequence[Unit]],
  row: str,
  other: str | float | Quantity,
) -> Comparison:
  """Compares a row; p values of 1 where that cannot be done."""
  amount = units.amount(rows[row], claim.of)
  difference, other_amount = _NONE, None
  if isinstance(other, float):
    number = comparisons.number(claim.times * other)
    if amount:
      mean = amount.mean(variance=claim.variance)
      difference = comparisons.of_means(mean, number)
  elif isinstance(other, str):
    other_amount = units.amount(rows[other], claim.of)
    if amount and other_amount:
      difference = comparisons.of_means(
        amount.mean(variance=claim.variance),
        other_amount.mean(claim.times, claim.variance),
      )
  else:
    other_amount = units.amount(rows[row], other)
    if pairs := _within_seeds(claim, rows[row], other):
      difference = comparisons.of_means(
        _mean_of_pairs(pairs, claim), comparisons.number(0.0)
      )
  way = -1 if claim.relation == 'below' else 1
  plain = Comparison(
    *(claim, row, other, amount, other_amount, difference),
    comparisons.beyond(difference, claim.margin, way),
    comparisons.beyond(difference, -claim.margin, -way),
  )
  return _robust(plain, way)


def _robust(plain: Comparison, way: int) -> Comparison:
  """p values that hold for seeds of two modes, and near the bound of shares."""
  claim, amount, other = plain.claim, plain.amount, plain.other_amount
  if plain.bimodal:
    p_values = 1.0, 1.0
    if isinstance(plain.other, str) and amount and other:
      both = amount.values, [claim.times * x for x in other.values]
      p_values = (
        comparisons.permuted(*both, claim.margin, way),
        comparisons.permuted(*both, -claim.margin, -way),
      )
    return plain._replace(shown=p_values[0], absent=p_values[1])
  if isinstance(plain.other, float) and amount and amount.trained and way > 0:
    number = claim.times * plain.other + claim.margin
    values = amount.values
    share = 0 <= min(values) <= max(values) <= 1
    if share and len(values) > 1 and 0.5 <= number < 1:
      near = comparisons.nearer(values, number, 1.0)
      return plain._replace(shown=max(plain.shown, near))
  return plain


def _within_seeds(
  claim: Claim, row: Sequence[Unit], other: Quantity
) -> list[tuple[Amount, Amount]]:
  """Both quantities of each seed that has measured both."""
  both = [
    (units.amount([unit], claim.of), units.amount([unit], other))
    for unit in row
  ]
  return [(first, two) for first, two in both if first and two]


def _mean_of_pairs(
  pairs: Sequence[tuple[Amount, Amount]], claim: Claim
) -> comparisons.Mean:
  """The mean over seeds of a quantity less another, times the claim's factor.

  Trials of both are taken to be independent, which errs to the safe side where
  they are alike.
  """
  return Amount(
    *(0.0, None, None, 0),
    min(min(first.clusters, two.clusters) for first, two in pairs),
    tuple(first.value - claim.times * two.value for first, two in pairs),
    tuple(
      first.variances[0] + claim.times**2 * two.variances[0]
      for first, two in pairs
      if first.variances and two.variances
    ),
    pairs[0][0].trained,
  ).mean(variance=claim.variance)


_CEILINGS = {**ceilings.NAMES, ORACLE: ORACLE}


def deciding_effect(judged: Judged) -> str:
  """'D 0.39 [0.32, 0.46], stated: > 0.05', of the comparison that decides.

  For an undecided finding it adds the least effect that could have been shown,
  and the number of seeds that would decide at the same D. Empty if the finding
  was not tested.
  """
  if judged.verdict == UNTESTED:
    return ''
  each = judged.deciding
  text = f'D {_interval(each.difference._asdict())}, stated: {_bound(each)}'
  return text + (_power(judged) if judged.verdict == UNDECIDED else '')


_MOST_SEEDS = 100  # More are not worth naming.


def _power(judged: Judged) -> str:
  """The effect that the deciding comparison could have shown at power .8.

  At the level that is left for a finding that was judged before, and is the
  least of its family by Holm.
  """
  each = judged.deciding
  difference = each.difference
  level = ALPHA / judged.finding.cost / max(len(judged.family), 1)
  if not difference.error or difference.degrees is None:
    return ''
  way = -1 if each.claim.relation == 'below' else 1
  margin = each.claim.margin
  errors = comparisons.detectable_errors(level, difference.degrees)
  least = way * (margin + errors * difference.error)
  sign = '<' if way < 0 else '>'
  text = f'; could show {sign} {least:.2g}'
  gap = abs(way * (difference.value or 0.0) - margin)
  sides = (each.amount, each.other_amount)
  seeds = [side.seeds for side in sides if side and side.trained]
  if seeds and gap:
    num = min(seeds)
    needed = [
      n
      for n in range(num + 1, _MOST_SEEDS + 1)
      if comparisons.detectable_errors(
        level, difference.degrees * (n - 1) / max(num - 1, 1)
      )
      * difference.error
      * math.sqrt(num / n)
      <= gap
    ]
    number = needed[0] if needed else f'more than {_MOST_SEEDS}'
    text += f', decides at {number} seeds'
  return text


def rule_text(judged: Judged) -> str:
  """The rule's hash and date, and the p values that decide."""
  return tables.note(
    'rule',
    finding=judged.finding,
    tested=judged.verdict not in (UNTESTED, ONE_SEED),
    shown=_p(judged.shown),
    absent=_p(judged.absent),
    num=len(judged.family),
  )


def comparison_table(judged: Judged, rows: Rows) -> tables.Table:
  """A row for each comparison of a finding.

  Args:
    judged: the finding.
    rows: units of its miniature, among which are ceilings.
  """
  listed = [_comparison_row(each, rows) for each in judged.comparisons]
  num = len(judged.family)
  note = tables.note('comparisons', finding=judged.finding, num=num)
  return tables.of_rows('', listed, note)


def _comparison_row(each: Comparison, rows: Rows) -> dict[str, str]:
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
    'quantity': str(claim.of),
    'row': tables.headed(f'{each.row}: ', value),
    'compared with': second,
    'D': _interval(each.difference._asdict()),
    'stated': _bound(each),
    'margin': f'{claim.margin:g}',
    'seeds': _seeds(each),
    'p shown': _p(each.shown) if tested else '–',
    'p absent': _p(each.absent) if tested else '–',
    'alone': each.verdict if tested else '–',
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
  """'0.390 [0.320, 0.460]', or the value alone without an interval."""
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
  entry, values, sign = amount.entry(), amount.values, ', '
  if amount.seeds > statistics.SHOWN:
    values, sign = (min(values), max(values)), ' to '
  several = [f' ({sign.join(map(tables.number, values))})'] * (len(values) > 1)
  shown = tables.Cell(*_interval(entry).pieces, *several)
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
      values[role] = units.amount(of, claim.of)
  return [
    f'{_CEILINGS[role]} {_interval(amount.entry())}'
    for role in (BAYES, REPLANNING, ORACLE)
    if (amount := values.get(role))
  ]
