"""Verdicts on findings: their rules, on units made up for the purpose."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from tests.lab.units_made_up import (
  FAR,
  NEAR,
  WALKS,
  entry,
  finding,
  judged,
  rows,
  unit,
)
from wm.evaluation import comparisons
from wm.lab import verdicts
from wm.lab.units import Results
from wm.lab.verdicts import (
  ABSENT,
  BIMODAL,
  ONE_SEED,
  SHOWN,
  UNDECIDED,
  UNTESTED,
)


def verdict(claim: dict, **values) -> str:
  return judged(finding(claim), rows(**values)).verdict


@pytest.mark.parametrize(
  ('values', 'expected'),
  [
    ({'walks': FAR, 'paths': NEAR}, SHOWN),
    ({'walks': NEAR, 'paths': FAR}, ABSENT),
    ({'walks': FAR, 'paths': FAR}, UNDECIDED),
    # Greater by far in every seed, but seeds differ as much.
    ({'walks': (0.9, 0.6, 0.95), 'paths': NEAR}, UNDECIDED),
    ({'walks': FAR[:2], 'paths': NEAR}, UNTESTED),
    ({'walks': FAR[:1], 'paths': NEAR}, ONE_SEED),
    ({'walks': FAR, 'paths': NEAR[:1]}, ONE_SEED),
    ({'walks': FAR}, UNTESTED),
    ({'walks': FAR[:1]}, UNTESTED),
    ({'walks': FAR, 'paths': (0.5, 0.5, None)}, UNTESTED),
    ({}, UNTESTED),
  ],
)
def test_a_row_is_above_another(values, expected):
  assert verdict(WALKS, **values) == expected
  turned = {'rows': ['paths'], 'relation': 'below', 'than': ['walks']}
  assert verdict(turned, **values) == expected


@pytest.mark.parametrize(
  ('more', 'expected'),
  [
    ({'than': 0.8}, SHOWN),
    ({'than': 0.9}, UNDECIDED),
    ({'than': 1.0}, ABSENT),
    ({'than': 0.8, 'margin': 0.05}, SHOWN),
    ({'than': 0.8, 'margin': 0.1}, UNDECIDED),
    ({'than': 0.8, 'margin': 0.2}, ABSENT),
    ({'margin': 0.3}, SHOWN),
    ({'margin': 0.4}, UNDECIDED),
    # An effect that is there, and smaller than what counts.
    ({'margin': 0.5}, ABSENT),
    ({'times': 1.6}, SHOWN),
    ({'times': 1.8}, UNDECIDED),
    ({'times': 2}, ABSENT),
    ({'than': ['paths', 'none']}, UNTESTED),
    ({'rows': ['walks', 'paths'], 'than': 0.8}, ABSENT),
    ({'relation': 'below', 'than': 1.0}, SHOWN),
    ({'relation': 'below', 'than': 1.0, 'margin': 0.05}, SHOWN),
    ({'relation': 'below', 'than': 1.0, 'margin': 0.1}, UNDECIDED),
    ({'relation': 'below', 'than': 1.0, 'margin': 0.2}, ABSENT),
    ({'relation': 'below', 'than': 0.5, 'times': 2}, SHOWN),
  ],
)
def test_numbers_factors_and_margins(more, expected):
  assert verdict({**WALKS, **more}, walks=FAR, paths=NEAR) == expected


@pytest.mark.parametrize(
  ('order', 'expected'),
  [
    (('walks', 'paths', 'least'), SHOWN),
    (('walks', 'least'), SHOWN),
    (('paths', 'walks', 'least'), ABSENT),
    (('walks', 'again', 'least'), UNDECIDED),
    (('walks', 'none', 'least'), UNTESTED),
  ],
)
def test_an_order_holds_for_each_two_neighbours(order, expected):
  claim = {'rows': list(order), 'relation': 'ordered'}
  values = {'walks': FAR, 'again': FAR, 'paths': NEAR, 'least': (0, 0.01, 0.02)}
  assert verdict(claim, **values) == expected


def test_p_values_are_those_of_scipy():
  values = {'walks': (0.9, 0.7, 0.8), 'paths': (0.5, 0.65, 0.41)}
  by_row = rows(**values)
  (each,) = judged(finding(WALKS), by_row).comparisons
  peer = stats.ttest_ind(*values.values(), equal_var=False)
  assert each.shown == pytest.approx(peer.pvalue / 2)
  assert each.absent == pytest.approx(1 - peer.pvalue / 2)
  ends = peer.confidence_interval()
  shown = each.difference
  assert (shown.low, shown.high) == pytest.approx((ends.low, ends.high))
  claim = {**WALKS, 'than': 0.3, 'margin': 0.1}
  (each,) = judged(finding(claim), by_row).comparisons
  peer = stats.ttest_1samp(values['walks'], 0.4, alternative='greater')
  assert each.shown == pytest.approx(peer.pvalue)
  assert each.difference.value == pytest.approx(0.5)


def test_a_finding_is_shown_as_its_weakest_comparison():
  """And shown absent as the one that fails most clearly, by Holm."""
  by_row = rows(walks=FAR, paths=NEAR, near=(0.8, 0.7, 0.75))
  both = finding({**WALKS, 'than': ['paths', 'near']})
  result = judged(both, by_row)
  alone = [
    judged(finding({**WALKS, 'than': [name]}), by_row).shown
    for name in ('paths', 'near')
  ]
  assert result.shown == max(alone) == alone[1]
  assert result.deciding.other == 'near'
  turned = finding({'rows': ['paths'], 'relation': 'above', 'than': ['walks']})
  several = finding(*[{**WALKS, 'relation': 'below'}] * 3, WALKS)
  failing = judged(several, by_row)
  assert failing.absent == pytest.approx(4 * judged(turned, by_row).absent)
  assert failing.verdict == ABSENT
  assert failing.shown > 0.9
  assert failing.deciding.claim.relation == 'below'


def test_a_finding_that_lacks_data_is_not_decided_by_the_rest():
  fails = {'rows': ['paths'], 'relation': 'above', 'than': ['walks']}
  for lacking, expected in ((['none'], UNTESTED), (['single'], ONE_SEED)):
    result = judged(
      finding(fails, {**WALKS, 'than': lacking}),
      rows(walks=FAR, paths=NEAR, single=NEAR[:1]),
    )
    assert result.verdict == expected
    assert (result.shown, result.absent) == (1, 1)
  assert result.reasons == ()
  result = judged(finding({**WALKS, 'than': ['none']}), rows(walks=FAR[:2]))
  assert result.reasons == (
    'walks: 2 of 3 seeds of compression: precision',
    'none: 0 of 3 seeds of compression: precision',
  )


def test_seeds_beyond_those_of_the_rule_decide_nothing():
  values = {'walks': (*FAR, 0.2, 0.3), 'paths': NEAR}
  result = judged(finding(WALKS), rows(**values))
  assert result.verdict == SHOWN
  assert result.comparisons[0].amount.values == FAR
  assert judged(finding(WALKS, seeds=5), rows(**values)).verdict == UNTESTED
  few = rows(walks=FAR[:2], paths=NEAR)
  assert judged(finding(WALKS, seeds=2), few).verdict != UNTESTED


def test_seeds_on_which_no_rule_was_fixed_decide():
  values = {'walks': (0.1, 0.2, *FAR), 'paths': (0.8, 0.9, *NEAR)}
  (result,) = verdicts.judge(
    [finding(WALKS)], {'maps': Results(rows(**values), first=2)}
  )
  assert result.verdict == SHOWN
  assert result.comparisons[0].amount.values == FAR


def test_one_seed_decides_nothing_however_many_trials_it_has():
  exact = {
    row: [unit(row, 0, entry(value, half=1e-9))]
    for row, value in (('walks', 1.0), ('paths', 0.0))
  }
  for claim in (WALKS, {**WALKS, 'relation': 'below'}, {**WALKS, 'than': 0.5}):
    result = judged(finding(claim, seeds=2), exact)
    assert result.verdict == ONE_SEED
    assert result.comparisons[0].difference.low is None


def test_a_row_without_training_has_the_interval_of_its_trials():
  oracle = {'oracle': [unit('oracle', 0, entry(0.6, half=0.02), trained=False)]}
  claim = {**WALKS, 'than': ['oracle']}
  result = judged(finding(claim), {**rows(walks=FAR), **oracle})
  assert result.verdict == SHOWN
  error = 0.02 / stats.t.ppf(0.975, 99) * (1 / 3 + 1) ** 0.5
  assert result.comparisons[0].difference.error == pytest.approx(error)
  alone = {'rows': ['oracle'], 'relation': 'above', 'than': 0.5}
  assert judged(finding(alone), oracle).verdict == SHOWN
  bare = {**entry(0.6), 'low': None, 'high': None}
  oracle = {'oracle': [unit('oracle', 0, bare, trained=False)]}
  result = judged(finding(alone), oracle)
  assert result.verdict == UNTESTED
  assert result.reasons == ('oracle: one seed without an interval',)


def test_seeds_that_agree_are_no_surer_than_their_trials():
  claim = {**WALKS, 'than': 0.88}
  assert verdict(claim, walks=(0.9, 0.9, 0.9)) == UNDECIDED
  by_row = {
    'walks': [unit('walks', n, entry(0.9, half=0.002)) for n in range(3)]
  }
  assert judged(finding(claim), by_row).verdict == SHOWN


def _both(values: dict[str, tuple], steps: tuple = (1, 2)) -> list:
  return [
    unit(
      'walks',
      seed,
      *(
        entry(value, half=0.001, where={'step': step})
        for step, value in zip(steps, pair, strict=True)
      ),
    )
    for seed, pair in enumerate(values)
  ]


def test_another_quantity_is_compared_within_seeds():
  """Seeds differ far more than both quantities of a seed do."""
  other = {'metric': 'compression', 'quantity': 'precision'}
  claim = {
    **{'rows': ['walks'], 'relation': 'above', 'where': {'step': 1}},
    'than': {**other, 'where': {'step': 2}},
  }
  by_row = {'walks': _both([(0.9, 0.8), (0.5, 0.41), (0.2, 0.09)])}
  result = judged(finding(claim), by_row)
  assert result.verdict == SHOWN
  (each,) = result.comparisons
  peer = stats.ttest_1samp([0.1, 0.09, 0.11], 0, alternative='greater')
  assert each.shown == pytest.approx(peer.pvalue)
  assert each.other_amount.values == (0.8, 0.41, 0.09)
  twice = judged(finding({**claim, 'times': 2}), by_row).comparisons[0]
  assert twice.difference.value == pytest.approx(np.mean([-0.7, -0.32, 0.02]))
  one_lacks = {'walks': [*by_row['walks'][:2], unit('walks', 2, entry(0.5))]}
  assert judged(finding(claim), one_lacks).verdict == UNTESTED
  single = {'walks': by_row['walks'][:1]}
  assert judged(finding(claim), single).verdict == ONE_SEED


def test_counts_of_maps_have_the_variance_between_seeds():
  by_row = {
    row: [
      unit(row, seed, map={'new_edges': n, 'sequences': 1000})
      for seed, n in enumerate(counts)
    ]
    for row, counts in (('walks', (50, 56, 53)), ('paths', (2, 0, 4)))
  }
  base = {'metric': 'map', 'quantity': 'new_edges', 'relation': 'above'}
  for names, than, expected in (
    (['walks'], ['paths'], SHOWN),
    (['walks'], 0, SHOWN),
    (['paths'], 0, UNDECIDED),
    (['walks'], ['none'], UNTESTED),
  ):
    claim = {**base, 'rows': names, 'than': than}
    assert judged(finding(claim), by_row).verdict == expected


# After the data, and refused.


def test_a_rule_that_units_do_not_record_is_after_the_data():
  claim = finding(WALKS)
  now = {claim.name: claim.rule_hash}
  good = {
    row: [
      dataclasses.replace(each, rules=now)
      for each in rows(**{row: values})[row]
    ]
    for row, values in (('walks', FAR), ('paths', NEAR))
  }
  result = judged(claim, good)
  assert (result.after, result.label) == (False, 'shown')
  # One unit of an earlier rule, of another finding's, or of none.
  for rules in ({'f': '0' * 12}, {'g': claim.rule_hash}, {}):
    old = dataclasses.replace(good['paths'][1], rules=rules)
    several = [good['paths'][0], old, good['paths'][2]]
    result = judged(claim, {**good, 'paths': several})
    assert result.label == 'shown, after the data'
  changed = judged(finding({**WALKS, 'margin': 0.01}), good)
  assert changed.label == 'shown, after the data'
  unused = {**good, 'others': rows(others=FAR)['others']}
  assert not judged(claim, unused).after
  assert judged(finding(WALKS, title='other words'), good).label == 'shown'


def test_refused_units_are_named():
  refused = {'walks': ['walks-1', 'walks-2'], 'others': ['others-0']}
  result = judged(finding(WALKS), rows(walks=FAR[:1], paths=NEAR), refused)
  assert result.verdict == UNTESTED  # Not one seed: there were three.
  assert result.reasons == (
    'walks: 1 of 3 seeds',
    'walks: 2 left out, of code that was not committed: walks-1, walks-2',
  )
  enough = judged(finding(WALKS), rows(walks=FAR, paths=NEAR), refused)
  assert enough.verdict == SHOWN
  assert len(enough.reasons) == 1


# Several findings.


def test_findings_of_a_paper_are_corrected_together():
  values = {'walks': (0.8, 0.7, 0.75), 'paths': (0.6, 0.55, 0.5)}
  p = judged(finding(WALKS), rows(**values)).shown
  assert 0.003 < p < 0.01
  results = {'maps': Results(rows(**values))}
  for num, expected in ((1, SHOWN), (2, SHOWN), (9, UNDECIDED)):
    several = [finding(WALKS, name=str(n)) for n in range(num)]
    together = verdicts.judge(several, results)
    assert [each.verdict for each in together] == [expected] * num
    assert together[0].shown == pytest.approx(num * p)
  # Those that are not tested count in; those of another paper do not.
  missing = finding({**WALKS, 'than': ['none']}, name='missing')
  other = finding(WALKS, name='other', paper='B 2025')
  first, second, third = verdicts.judge(
    [finding(WALKS), missing, other], results
  )
  assert first.shown == pytest.approx(2 * p)
  assert (second.verdict, second.shown) == (UNTESTED, 1)
  assert third.shown == pytest.approx(p)
  assert first.family == second.family == ('walks win',) * 2
  assert verdicts.verdict_note([first, second, third]).endswith(
    ' Corrected together, whether they could be tested or not, are the '
    'findings of A 2024 (2): walks win; walks win. Those of B 2025 (1): '
    'walks win.'
  )


def test_the_order_of_findings_does_not_matter():
  results = {
    'maps': Results(rows(walks=(0.8, 0.7, 0.75), paths=(0.6, 0.55, 0.5)))
  }
  several = [
    finding({**WALKS, 'margin': margin}, name=str(margin))
    for margin in (0.0, 0.1, 0.2, 0.6)
  ]
  forth = verdicts.judge(several, results)
  assert verdicts.judge(several[::-1], results) == forth[::-1]
  assert {each.verdict for each in forth} == {SHOWN, UNDECIDED, ABSENT}


# Seeds of two modes, shares near 1, findings that were judged before.

GROKS, FAILS_TO = (0.99, 0.98, 0.3), (0.31, 0.29, 0.3)


def test_seeds_of_two_modes_decide_nothing_about_a_number():
  result = judged(finding({**WALKS, 'than': 0.2}), rows(walks=GROKS))
  assert result.verdict == BIMODAL
  (each,) = result.comparisons
  assert (each.shown, each.absent, each.verdict) == (1, 1, BIMODAL)
  cells = verdicts.comparison_table(result, {}).frame.iloc[0]
  assert '(0.990, 0.980, 0.300)' in str(cells['row'])
  assert cells['alone'] == BIMODAL


def test_rows_of_two_modes_are_compared_by_all_permutations():
  walks, paths = (*GROKS, 0.97, 0.98), (*FAILS_TO, 0.28, 0.27)
  result = judged(finding(WALKS, seeds=5), rows(walks=walks, paths=paths))
  (each,) = result.comparisons
  peer = stats.permutation_test(
    (walks, paths),
    lambda x, y, axis: x.mean(axis) - y.mean(axis),
    alternative='greater',
    vectorized=True,
  )
  assert each.bimodal
  assert each.shown == pytest.approx(peer.pvalue)
  # No seed of the one is below any of the other, but for one tie.
  assert each.shown < verdicts.ALPHA
  assert result.verdict == SHOWN
  margin = comparisons.permuted(walks, paths, 0.8, 1)
  assert margin > 0.5


def test_a_finding_pays_for_each_time_that_it_was_judged():
  values = {'walks': (0.56, 0.57, 0.55), 'paths': (0.5, 0.51, 0.52)}
  look = {'date': '2026-01-01', 'rule': 'abc', 'verdict': 'undecided'}
  once = judged(finding(WALKS), rows(**values))
  twice = judged(finding(WALKS, earlier=[look]), rows(**values))
  assert twice.shown == pytest.approx(2 * once.shown)
  assert twice.finding.rule_hash != once.finding.rule_hash
  assert '2 times' in verdicts.rule_text(twice)
  assert 'undecided' in verdicts.rule_text(twice)
  thrice = judged(finding(WALKS, earlier=[look, look]), rows(**values))
  assert thrice.shown == pytest.approx(4 * once.shown)
  begun = {
    'walks': [
      unit('walks', n, entry(x), rules={'f': rule})
      for n, (x, rule) in enumerate(
        zip(
          FAR,
          ('abc', once.finding.rule_hash, twice.finding.rule_hash),
          strict=True,
        )
      )
    ],
    'paths': [
      unit('paths', n, entry(x), rules={'f': 'abc'}) for n, x in enumerate(NEAR)
    ],
  }
  assert judged(finding(WALKS, earlier=[look]), begun).label == SHOWN
  assert judged(finding(WALKS), begun).label == 'shown, after the data'


def test_an_undecided_finding_says_what_it_could_have_shown():
  values = {'walks': (0.6, 0.5, 0.55), 'paths': (0.5, 0.55, 0.45)}
  result = judged(finding({**WALKS, 'margin': 0.01}), rows(**values))
  text = verdicts.deciding_effect(result)
  error = np.hypot(0.05, 0.05) / 3**0.5
  # stats: t of 4 degrees at .975 and .8, and the normal distribution's.
  least = 0.01 + (stats.t.ppf([0.975, 0.8], 4)).sum() * error
  # With n seeds of each row there are 2 (n - 1) degrees of freedom.
  seeds = next(
    n
    for n in range(4, 101)
    if stats.t.ppf([0.975, 0.8], 2 * (n - 1)).sum() * error * (3 / n) ** 0.5
    <= 0.04
  )
  assert text.endswith(f'; could show > {least:.2g}, decides at {seeds} seeds')
  shown = judged(finding(WALKS), rows(walks=FAR, paths=NEAR))
  assert 'could show' not in verdicts.deciding_effect(shown)
