"""Adversaries: what reveals each, and what hides it."""

import pytest

from tests.models.adversaries import NUM, PAIRS, WORLDS, run, value
from wm.core import registry
from wm.core.measure import headline_quantities

each = pytest.mark.parametrize(('name', 'kind'), PAIRS)


# Boundaries of Myhill and Nerode.

TRIALS = 'trials=40'


# The verdict.

HEADLINES = (
  f'next_token(num={NUM})',
  f'acceptance(num={NUM})',
  f'traversal(num={NUM})',
  f'compression({TRIALS})',
  f'distinction({TRIALS})',
)
# A quantity that shows the fault of each kind, on the map.
REVEALED = {
  'leaky': (HEADLINES[0], 'valid_mass'),
  'peaked': (HEADLINES[4], 'recall'),
  'deterministic': (HEADLINES[4], 'recall'),
  'permuted': (HEADLINES[2], 'valid'),
  'memoriser': (HEADLINES[0], 'validity'),
  'forgets': (HEADLINES[0], 'validity'),
}


def headlines(name: str, kind: str) -> dict[tuple[str, str], float | None]:
  """All headline quantities, by metric."""
  return {
    (spec, quantity): value(name, kind, spec, quantity)
    for spec in HEADLINES
    for quantity in headline_quantities(registry.make('metric', spec))
  }


@each
def test_none_looks_coherent(name, kind):
  oracle, result = headlines(name, 'oracle'), headlines(name, kind)
  low = {
    key
    for key, number in result.items()
    if number is not None and number < 0.9 * oracle[key]
  }
  assert low, result
  if name == 'map':
    assert REVEALED[kind] in low


def test_a_leak_is_hidden_from_all_that_the_paper_measures():
  result = headlines('map', 'leaky')
  hidden = {key: number for key, number in result.items() if number == 1}
  assert {quantity for _, quantity in hidden} == {
    *('validity', 'valid', 'exact_greatest', 'precision', 'recall')
  }


@pytest.mark.parametrize('name', WORLDS)
def test_the_curve_shows_that_a_sure_model_has_the_map(name):
  """What distinction calls incoherent, on legal tokens alone."""
  spec = f'acceptance(num={NUM})'
  assert value(name, 'peaked', spec, 'exact_best') == 1
  usual = value(name, 'peaked', f'next_token(num={NUM})', 'exact_set')
  assert usual < 0.2
  for column in ('epsilon', 'k', 'p'):
    for kind in ('peaked', 'deterministic'):
      assert value(name, kind, spec, f'precision_by_{column}') == 1
  # At k=1 the planner takes one token, the oracle all that are as likely.
  oracle, planner = (
    run(name, kind, spec)['exact_by_k'] for kind in ('oracle', 'deterministic')
  )
  first = oracle.columns['k'] == 1
  assert (planner.value[first] <= oracle.value[first]).all()
