"""Verdicts on findings, from results and the rules of findings alone.

A claim is a set of comparisons, each of which is a difference D between a row
and what it is compared with (times its factor). With a margin M, 'above' is
shown by D > M and shown to fail by D < M; 'below' by D < -M and D > -M. Both
have a one-sided p value by Student's t over training seeds (Welch's test
between rows, the one-sample test against a number, the same of differences
within seeds against another quantity of the row). The variance between seeds
is taken to be no less than that of their trials; a row that is not trained and
has one seed has the variance of its trials.

A finding is the conjunction of its comparisons. It is shown if each of them is,
so its p value is the largest (the intersection-union test, Berger 1982,
Technometrics 24). It is shown absent if one of them is shown to fail, so that p
value is the smallest, corrected by Holm for the number of comparisons. Over all
findings of the same paper both are corrected by Holm again; those that could
not be tested count in. Each of the two is tested at .025, together at .05.

    shown            the finding holds
    shown absent     it does not
    undecided        neither is shown
    one seed         a trained row has a single seed, which decides nothing
    not tested here  a row, or some of its seeds, is missing or was refused, or
                     lacks a quantity by which the rule excludes seeds

A finding whose units do not record its present rule was fixed, or changed,
after the data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wm.evaluation import comparisons
from wm.evaluation.comparisons import Difference
from wm.reporting import amounts
from wm.reporting.amounts import Amount, Results
from wm.reporting.findings import Claim, Finding, Quantity
from wm.reporting.units import Unit

SHOWN, ABSENT, UNDECIDED, ONE_SEED, UNTESTED = VERDICTS = (
  *('shown', 'shown absent', 'undecided', 'one seed', 'not tested here'),
)
AFTER = 'after the data'
ALPHA = 0.025  # One-sided.
NOTE = (
  'A finding is shown if every comparison is, and shown absent if one is shown '
  f'to fail, each by one-sided tests over seeds at {ALPHA:g}, so that both '
  'together err in 5 % of cases at most. The p values of a finding are '
  'corrected (Holm) for the number of findings of the same paper. After the '
  'data: the first data of a row and seed were made under no rule, or another '
  'one, of this finding.'
)
_NONE = Difference(None, None, None, None, 0, 0)


class Comparison(NamedTuple):
  """A row and what it is compared with.

  Attributes:
    claim: that it is part of.
    row, other: what is compared.
    amount, other_amount: of both; None where not measured, or of a number.
    difference: the row's less the other's, times its factor.
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


@dataclasses.dataclass(frozen=True)
class Judged:
  """A finding, and what the units say of it.

  Attributes:
    finding: what was judged.
    verdict: one of VERDICTS.
    after: whether a unit does not record the finding's present rule.
    comparisons: of its claims, in order.
    shown, absent: p values, corrected for the findings of the paper.
    reasons: what is missing or was left out.
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
    """The weakest comparison, or of a finding shown absent the one it fails."""
    if self.verdict == ABSENT:
      return min(self.comparisons, key=lambda each: each.absent)
    return max(self.comparisons, key=lambda each: each.shown)

  def amounts_of(self, claim: Claim) -> dict[str, Amount]:
    """Row -> its amount, of the rows that a claim compares."""
    measured: dict[str, Amount | None] = {}
    for each in self.comparisons:
      if each.claim is claim:
        measured[each.row] = each.amount
        if isinstance(each.other, str):
          measured[each.other] = each.other_amount
    return {
      row: amount
      for row in claim.row_names
      if (amount := measured.get(row)) is not None
    }


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
    shown = comparisons.holm([judged[n].shown for n in family])
    absent = comparisons.holm([judged[n].absent for n in family])
    titles = tuple(judged[n].finding.title for n in family)
    for n, *p_values in zip(family, shown, absent, strict=True):
      with_family = dataclasses.replace(judged[n], family=titles)
      judged[n] = _decide(with_family, *p_values)
  return judged


def families(several: Sequence[Judged]) -> str:
  """Says which findings p values are corrected for together; '' of none."""
  if not several:
    return ''
  by_paper = {finding.finding.paper: finding.family for finding in several}
  listed = [
    f'{paper} ({len(titles)}): {"; ".join(titles)}'
    for paper, titles in by_paper.items()
  ]
  return (
    'Corrected together, whether they could be tested or not, are the findings '
    f'of {". Those of ".join(listed)}.'
  )


def _decide(judged: Judged, shown: float, absent: float) -> Judged:
  """The verdict, by p values that are corrected for the paper's findings."""
  verdict = judged.verdict
  if verdict == UNDECIDED and absent <= ALPHA:
    verdict = ABSENT
  elif verdict == UNDECIDED and shown <= ALPHA:
    verdict = SHOWN
  return dataclasses.replace(
    judged, verdict=verdict, shown=shown, absent=absent
  )


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
        and not amounts.excluded(unit, claim.exclusions)
      ][: finding.seeds]
      for name in claim.row_names
    }
    used += [unit for row in rows.values() for unit in row]
    compared += [_comparison(claim, rows, *pair) for pair in claim.pairs]
    for name in claim.row_names:
      reason, is_alone = _lacking(finding, claim, name, rows[name], results)
      alone |= is_alone
      reasons += [reason] if reason else []
      reasons += _unknown(claim, name, rows[name])
  verdict = UNTESTED if reasons else ONE_SEED if alone else UNDECIDED
  fails = comparisons.holm([each.absent for each in compared])
  compared = [
    each._replace(absent=p) for each, p in zip(compared, fails, strict=True)
  ]
  changed = any(
    unit.rules.get(finding.name) != finding.rule_hash for unit in used
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
  """What a row lacks to be tested, '' is nothing; and is its seed alone?"""
  amount = amounts.amount(row, claim.of)
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
  excluded = len(results.rows.get(name, ())) - len(row)
  why = f', {excluded} excluded by the rule' if excluded else ''
  of = '' if name in results.refused else f' of {claim.label}'
  return f'{name}: {seeds} of {needed} seeds{of}{why}', False


def _unknown(claim: Claim, name: str, row: Sequence[Unit]) -> list[str]:
  """A line on each quantity without which the rule cannot exclude seeds."""
  seeds: dict[str, list[str]] = {}
  for unit in row:
    for of in amounts.lacking(unit, claim.exclusions):
      seeds.setdefault(str(of), []).append(str(unit.seed))
  return [
    f'{name}: lacks {of}, by which the rule excludes seeds (of seed '
    f'{", ".join(numbers)})'
    for of, numbers in seeds.items()
  ]


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
  amount = amounts.amount(rows[row], claim.of)
  difference, other_amount = _NONE, None
  if isinstance(other, float):
    number = comparisons.number(claim.times * other)
    if amount:
      difference = comparisons.of_means(amount.mean(), number)
  elif isinstance(other, str):
    other_amount = amounts.amount(rows[other], claim.of)
    if amount and other_amount:
      difference = comparisons.of_means(
        amount.mean(), other_amount.mean(claim.times)
      )
  else:
    other_amount = amounts.amount(rows[row], other)
    if pairs := _within_seeds(claim, rows[row], other):
      difference = comparisons.of_means(
        _mean_of_pairs(pairs, claim.times), comparisons.number(0.0)
      )
  way = -1 if claim.relation == 'below' else 1
  return Comparison(
    *(claim, row, other, amount, other_amount, difference),
    comparisons.beyond(difference, claim.margin, way),
    comparisons.beyond(difference, -claim.margin, -way),
  )


def _within_seeds(
  claim: Claim, row: Sequence[Unit], other: Quantity
) -> list[tuple[Amount, Amount]]:
  """Both quantities of each seed that has measured both."""
  both = [
    (amounts.amount([unit], claim.of), amounts.amount([unit], other))
    for unit in row
  ]
  return [(first, two) for first, two in both if first and two]


def _mean_of_pairs(
  pairs: Sequence[tuple[Amount, Amount]], times: float
) -> comparisons.Mean:
  """The mean over seeds of a quantity less another, times a factor.

  Trials of both are taken to be independent, which errs to the safe side where
  they are alike.
  """
  return Amount(
    *(0.0, None, None, 0),
    min(min(first.clusters, two.clusters) for first, two in pairs),
    tuple(first.value - times * two.value for first, two in pairs),
    tuple(
      first.variances[0] + times**2 * two.variances[0]
      for first, two in pairs
      if first.variances and two.variances
    ),
    pairs[0][0].trained,
  ).mean()
