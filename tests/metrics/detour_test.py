"""Detours: which, how many, coupled across probabilities."""

import numpy as np
import pytest

from tests import plain, tiny
from tests.metrics import table
from wm import core
from wm.core import registry
from wm.evaluation import decoding
from wm.metrics import detour
from wm.models.serving import oracles
from wm.worlds import maps

X, Y, END = tiny.X, tiny.Y, tiny.END
KINDS = ('random', 'adversarial', 'second')
ALWAYS = {'probabilities': (1.0,)}


def _run(predictor, world, seed=0, **fields):
  return table.by_name(detour.Metric(**fields)(predictor, world, seed))


def _noisy(world, by='prefix'):
  return oracles.NoisyOracle(world, illegal=0.1, wrong=0.4, by=by, seed=3)


def test_without_detours_it_is_traversal():
  world = tiny.World()
  predictor = _noisy(world)
  metric = registry.make('metric', 'traversal(num=60)')
  plain = table.by_name(metric(predictor, world, 5))
  result = _run(predictor, world, seed=5, num=60, probabilities=(0.0,))
  np.testing.assert_array_equal(result['valid_0'].value, plain['valid'].value)
  assert 0 < table.mean(result['valid_0']) < 1


def test_always_forced_by_hand():
  """Forced at every step from node 0; x has .9 and y .1 everywhere."""
  world = table.Given(rows=((4, X, X, END),))
  probs = {0: {X: 0.9, Y: 0.1}, 1: {X: 1}, 2: {X: 0.9, Y: 0.1}, 3: {END: 1}}
  predictor = table.Table(world, probs)
  # Least likely: 0 -y-> 2 -y-> 3, where it is left to end.
  result = _run(predictor, world, kind='adversarial', **ALWAYS)
  assert result['valid_1'].value.tolist() == [1]
  assert result['detours_1'].value.tolist() == [2]
  assert result['valid_1'].columns['tokens'].tolist() == [4]
  # The other than the model's own is y as well.
  result = _run(predictor, world, kind='second', **ALWAYS)
  assert result['valid_1'].columns['tokens'].tolist() == [4]
  # Alone, the model goes by x x.
  result = _run(predictor, world, probabilities=(0.0,))
  assert result['detours_0'].value.tolist() == [0]


def test_second_choice_counts_options_of_probability_zero():
  """At node 0 the model knows only x; the second choice is y all the same."""
  world = table.Given(rows=((4, X, X, END),))
  probs = {0: {X: 1}, 1: {X: 1}, 2: {Y: 1}, 3: {END: 1}}
  result = _run(table.Table(world, probs), world, kind='second', **ALWAYS)
  # 0 -y-> 2 -x-> 0 -y-> 2 ... until only y can still complete.
  assert result['valid_1'].value.tolist() == [1]
  assert result['valid_1'].columns['tokens'].tolist() == [world.max_len]


def test_an_illegal_choice_of_the_model_ends_the_trial():
  world = table.Given(rows=((5, X, END),) * 3)
  predictor = table.Table(world, {1: {Y: 1}, 3: {END: 1}})
  result = _run(predictor, world, probabilities=(0.0, 1.0))
  assert table.mean(result['valid_0']) == 0
  assert set(result['valid_0'].columns['outcome']) == {'path_fail'}
  assert table.mean(result['valid_1']) == 1  # The forced move is the right one.


def test_options_keep_the_goal_within_reach():
  """With four tokens in all, only the ways straight to node 3 are options."""
  world = table.Given(rows=((4, X, X, END), (6, Y, END)) * 20)
  model = oracles.Oracle(world)
  model.max_len = 4
  result = _run(model, world, num=40, **ALWAYS)
  assert table.mean(result['valid_1']) == 1
  lengths = result['valid_1'].columns['tokens']
  assert lengths[::2].tolist() == [4] * 20
  # From node 2 by x and back would be 2 0 1 3: too long.
  assert lengths[1::2].tolist() == [3] * 20


@pytest.mark.parametrize('variant', ['paper', 'published'])
def test_random_variants(variant):
  """The model prefers x at node 0; the program never takes that itself."""
  world = table.Given(rows=((4, X, X, END),) * 200, ending=True)
  probs = {0: {X: 0.9, Y: 0.1}, 1: {X: 1}, 2: {Y: 1}, 3: {END: 1}}
  predictor = table.Table(world, probs)
  metric = detour.Metric(num=200, variant=variant, **ALWAYS)
  step = decoding.DecodingStep(
    trial=np.arange(200),
    length=np.ones(200, np.int32),
    states=np.zeros((200, 1), np.int32),
    log_probs=plain.dense(predictor, np.zeros((200, 1), np.int32), None),
  )
  policy = detour._Detours(metric, world, 0, 200, 12, np.zeros(200, np.int64))
  share = (policy(step) == Y).mean()
  assert share == 1 if variant == 'published' else 0.4 < share < 0.6


@pytest.mark.parametrize('kind', KINDS)
def test_published_detours_keep_three_tokens_free(kind):
  """A head h hops away is an option at token i where h + 2 <= 97 - i."""
  world, goal = maps.World(rows=6, columns=6), 20
  delta = world.graph.delta
  hops = np.where(delta >= 0, world.hops[delta, goal].astype(int), 255)
  near, middle, far, *_ = np.sort(hops, axis=1).T
  fork = np.flatnonzero((near < middle) & (middle < far) & (far < 200))[0]
  near, middle, far = near[fork], middle[fork], far[fork]
  everywhere = np.full((300, len(world.vocab)), -9.0, np.float32)

  def taken(variant, length):
    """Hops from the heads of the detours that 300 trials make."""
    metric = detour.Metric(kind=kind, variant=variant, **ALWAYS)
    _, reach = metric.limits(oracles.Oracle(world), world)
    states = np.tile([fork, goal], (300, 1)).astype(np.int32)
    step = decoding.DecodingStep(
      np.arange(300), np.full(300, length), states, everywhere
    )
    made = np.zeros(300, np.int64)
    chosen = detour._Detours(metric, world, 0, 300, reach, made)(step)
    return set(hops[fork, chosen[made > 0] - maps.DIRECTION0].tolist())

  assert taken('published', 95 - near) == {near}
  assert taken('published', 96 - near) == set()
  if kind == 'random':
    assert far in taken('published', 95 - far)
    assert taken('published', 96 - far) == {near, middle}
    assert far in taken('paper', world.max_len - far - 2)
    assert far not in taken('paper', world.max_len - far - 1)


def test_published_detours_end_at_100_tokens():
  predictor = oracles.Oracle(maps.World(rows=3, columns=3))
  assert predictor.max_len > 100

  def limits(model, variant='published'):
    metric = detour.Metric(variant=variant)
    return metric.limits(model, model.world)

  assert limits(predictor) == (100, 97)
  assert limits(predictor, 'paper') == (102, 102)
  short = oracles.Oracle(tiny.World())
  assert limits(short) == (short.max_len,) * 2


@pytest.mark.parametrize('kind', KINDS)
def test_probabilities_are_coupled(kind):
  """A prompt run alone at one probability gives what it gives among all."""
  world = tiny.World()
  together = _run(_noisy(world), world, kind=kind, num=50)
  for p in (0.1, 0.75):
    alone = _run(_noisy(world), world, kind=kind, num=50, probabilities=(p,))
    for name in (f'valid_{p}', f'detours_{p}'):
      np.testing.assert_array_equal(alone[name].value, together[name].value)


def test_detours_at_a_smaller_probability_are_a_subset():
  """Without an end token the oracle's trials all make the same steps."""
  world = tiny.World(ending=False)
  result = _run(oracles.Oracle(world), world, probabilities=(0.2, 0.5, 0.9))
  made = [result[f'detours_{p}'].value for p in (0.2, 0.5, 0.9)]
  assert (made[0] <= made[1]).all()
  assert (made[1] <= made[2]).all()
  np.testing.assert_allclose(
    [m.mean() / 7 for m in made], [0.2, 0.5, 0.9], atol=0.06
  )


@pytest.mark.parametrize(
  ('spec', 'message'),
  [
    ("detour(kind='cruel')", 'random, adversarial, second'),
    ("detour(variant='exact')", 'paper, published'),
    ("detour(variant='program')", 'available: paper, published'),
    ('detour(probabilities=(0.1, 1.5))', '0 to 1'),
    ('detour(probabilities=())', '1 or more'),
    ("detour(probabilities=('a',))", 'expected numbers'),
    ('detour(num=0)', 'at least 1'),
  ],
)
def test_bad_fields(spec, message):
  with pytest.raises(core.InputError, match=message):
    registry.make('metric', spec)
