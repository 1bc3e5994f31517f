"""Every world and sampler: its law, or why it has none; who knows it has 1."""

import math

import pytest

from tests import every_world, small, tiny
from wm import core
from wm.core import registry

# A small world for each sampler.
SAMPLERS = (
  'maps(rows=3, columns=3, max_moves=8)',
  "maps(rows=3, columns=3, traversal='shortest', max_moves=6)",
  "maps(rows=3, columns=3, traversal='noisy', weightings=5, max_moves=6)",
  'othello(size=4)',
  "othello(size=4, policy='search', noise=0.3)",
  'chess(length=10, least=0)',
  "chess(length=12, lengths='human', least=0)",
  "chess(length=10, policy='promotions', least=0)",
  'connect4(rows=2, columns=3)',
  'lattice(size=3, length=12)',
  "groups(group='s3', tokens='generators', length=8)",
  'seating(people=3, length=4)',
  "automaton(preset='tomita3', length=12)",
  "automaton(preset='tomita3', length=12)",
  'mazes(length=10)',
  'text_game(length=10)',
  'cognitive_graph()',
  "cognitive_graph(walks='shortest')",
)
TRAFFIC = "maps(rows=4, columns=4, traversal='noisy', weightings=20)"
BAYES = 'bayes()', "bayes(off='replan')"
SUPPORTED = (
  "compression(trials=12, support='sampler')",
  "distinction(trials=12, support='sampler')",
  "detour(num=8, support='sampler')",
)
ASKED = 'precision', 'recall', 'valid_0.5', 'valid_0.75'
# One sampler of chess is enough by default: its rules take most of the time.
SLOW = [spec for spec in SAMPLERS if spec.startswith('chess')][1:]
each = pytest.mark.parametrize(
  'spec',
  [
    pytest.param(spec, marks=pytest.mark.slow if spec in SLOW else ())
    for spec in SAMPLERS
  ],
)


def has_law_or_reason(cls: type[core.World]) -> bool:
  return issubclass(cls, core.Generative) or '(core.Generative): ' in (
    core.capabilities.lacks_law(cls)
  )


def test_a_world_with_a_hidden_state_says_what_comes_near():
  line = core.capabilities.lacks_law(registry.find('world', 'orbits'))
  assert 'depends on a state that the tokens do not show' in line
  assert "'particle_filter()' comes near it by sampled states" in line


@pytest.mark.parametrize('name', registry.names('world'))
def test_every_world_has_a_law_or_says_why_not(name):
  cls = registry.find('world', name)
  assert has_law_or_reason(cls)
  # The metrics asked here draw states.
  if issubclass(cls, core.Generative) and issubclass(cls, core.Prefixed):
    assert any(spec.partition('(')[0] == name for spec in SAMPLERS) or (
      name == 'frog'  # It is added by a test, to see that it is complete.
    )


def test_a_world_without_either_is_seen():
  assert not has_law_or_reason(tiny.World)


@every_world.having(core.Generative)
def test_a_law_is_there_or_refused_in_one_line(world):
  for replan in (False, True):
    assert isinstance(
      world.data_distribution(replan=replan), core.SequenceProcess
    )


def values(model: str, metrics, world) -> dict[tuple[str, str], float]:
  return {
    (entry['spec'], entry['quantity']): entry['value']
    for entry in small.scored(model, list(metrics), world)
    if entry['quantity'] in ASKED
  }


@each
@pytest.mark.parametrize('model', BAYES)
def test_who_knows_rules_and_sampler_has_1_on_the_support(spec, model):
  results = values(model, SUPPORTED, spec)
  assert len(results) == 5
  assert all(x == 1 or math.isnan(x) for x in results.values()), results
  measured = [quantity for (_, quantity), x in results.items() if x == 1]
  assert {'precision', 'valid_0.5'} <= {*measured}


@each
def test_replanning_has_1_after_any_prefix_and_detour(spec):
  metrics = 'compression(trials=12)', 'detour(num=8)'
  result = values(BAYES[1], metrics, spec)
  assert {x for (_, quantity), x in result.items() if 'valid' in quantity} == {
    1
  }
  (precision,) = (x for (_, name), x in result.items() if name == 'precision')
  assert precision == 1 or math.isnan(precision)


def test_two_ways_to_one_place_tell_a_planner_in_traffic_different_things():
  result = values(BAYES[1], ['compression(trials=60)'], TRAFFIC)
  assert 0.5 < min(result.values()) < 1


@each
def test_a_uniform_guesser_tells_nothing_apart(spec):
  result = values('uniform()', SUPPORTED[:2], spec)
  by_name = {
    (metric.partition('(')[0], quantity): x
    for (metric, quantity), x in result.items()
  }
  compression = by_name['compression', 'precision']
  assert compression == 1 or math.isnan(compression)
  assert math.isnan(by_name['distinction', 'precision'])
  assert not by_name['distinction', 'recall'] > 0
