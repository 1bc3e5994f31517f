"""Traversal: outcomes and costs by hand, any number in flight."""

import numpy as np
import pytest

from tests import tiny
from tests.marks import few
from tests.metrics import table
from wm import core
from wm.core import registry
from wm.evaluation import decoding
from wm.metrics import traversal
from wm.models.serving import oracles
from wm.runtime import progress

X, Y, END = tiny.X, tiny.Y, tiny.END
ORIGINS = ((4, X, X, END), (5, X, END), (6, Y, END), (7, END))


def _run(predictor, world, **fields):
  metric = traversal.Metric(**{'num': 100, **fields})
  return table.by_name(metric(predictor, world, 0))


def _drive(world, probs):
  """Greedy from nodes 0 to 3; outcomes and tokens."""
  predictor = table.Table(world, probs)
  prompts = decoding.prompts(world, world.sample(4, 0))
  return decoding.decode(
    predictor, world, prompts, decoding.Greedy(0), world.max_len
  )


def test_outcomes_by_hand():
  world = table.Given(rows=ORIGINS)
  probs = {0: {X: 1}, 1: {Y: 1}, 2: {END: 1}, 3: {X: 0.4, END: 0.6}}
  decoded = _drive(world, probs)
  names = [decoding.OUTCOMES[code] for code in decoded.outcome]
  assert names == ['path_fail', 'path_fail', 'dest_fail', 'valid']
  assert decoded.lengths.tolist() == [3, 2, 2, 2]
  assert decoded.tokens[0, :4].tolist() == [4, X, Y, 0]
  result = _run(table.Table(world, probs), world)
  assert result['valid'].value.tolist() == [0, 0, 0, 1]
  assert result['path_fail'].value.tolist() == [1, 1, 0, 0]
  assert result['dest_fail'].value.tolist() == [0, 0, 1, 0]
  assert result['valid'].columns['outcome'].tolist() == names


def test_a_circle_runs_into_the_cap():
  world = table.Given(rows=ORIGINS)
  decoded = _drive(world, {0: {X: 1}, 1: {X: 1}, 2: {X: 1}, 3: {X: 1}})
  assert (decoded.outcome == decoding.CAP).all()
  assert decoded.lengths.tolist() == [world.max_len] * 4
  result = _run(
    table.Table(world, {0: {Y: 1}, 2: {X: 1}, 1: {X: 1}, 3: {END: 1}}), world
  )
  assert table.mean(result['cap']) == 0.5
  assert table.mean(result['valid']) == 0.5
  assert table.mean(result['valid_uncapped']) == 1
  assert result['valid_uncapped'].reason.tolist() == ['cap', '', 'cap', '']


def test_the_cap_counts_the_prompt():
  world = table.Given(rows=ORIGINS)
  model = oracles.Oracle(world)
  model.max_len = 3
  result = _run(model, world)
  # From node 0: prompt, two moves and `end` are four tokens.
  assert result['valid'].value.tolist() == [0, 1, 1, 1]
  model.max_len = 1
  assert _run(model, world)['cap'].value.all()


def test_no_possible_token_is_stuck():
  world = table.Given(rows=ORIGINS)
  decoded = _drive(world, {})
  assert (decoded.outcome == decoding.STUCK).all()
  assert decoded.lengths.tolist() == [1] * 4


def test_costs_by_hand():
  world = table.Given(rows=ORIGINS)
  predictor = table.Table(world, {0: {X: 1}, 1: {X: 1}, 2: {X: 1}, 3: {END: 1}})
  result = _run(predictor, world)
  # From node 2 by x: 2 0 1 3 is 3 moves where 1 would do.
  assert result['valid'].value.tolist() == [1, 1, 1, 1]
  assert result['optimal'].value.tolist() == [1, 1, 0, 1]
  assert result['within_50'].value.tolist() == [1, 1, 0, 1]
  assert result['optimal'].columns['cost'].tolist() == [2, 1, 3, 0]
  assert result['optimal'].columns['optimal_cost'].tolist() == [2, 1, 1, 0]


class _Priced(table.Given):
  """Costs 1, 1.04, 1.3 and 2 for the four origins; the optimum is 1."""

  def costs(self, sequences):
    prices = np.array([1 + 1e-9, 1.04, 1.3, 2])
    cost = prices[sequences.tokens[:, 0] - tiny.AT]
    return core.Costs(cost[None], np.ones((1, len(sequences))))


def test_within_percent_and_both_denominators():
  world = _Priced(rows=ORIGINS)
  good = oracles.Oracle(world)
  result = _run(good, world)
  assert result['optimal'].value.tolist() == [1, 0, 0, 0]
  assert result['within_1'].value.tolist() == [1, 0, 0, 0]
  assert result['within_5'].value.tolist() == [1, 1, 0, 0]
  assert result['within_10'].value.tolist() == [1, 1, 0, 0]
  assert result['within_50'].value.tolist() == [1, 1, 1, 0]
  # Node 1 now fails, and node 0, which passes it.
  bad = table.Table(world, {0: {X: 1}, 1: {Y: 1}, 2: {Y: 1}, 3: {END: 1}})
  result = _run(bad, world)
  assert table.mean(result['within_50']) == 1 / 4
  assert table.mean(result['within_50_of_valid']) == 1 / 2
  reasons = result['within_50_of_valid'].reason.tolist()
  assert reasons == ['path_fail', 'path_fail', '', '']


@pytest.mark.parametrize('world', few(2, table.WORLDS), ids=repr)
def test_uniform_by_formula(world):
  """It names each of seven tokens by chance, until one is illegal."""
  predictor = registry.make('model', 'uniform').predictor(world, 0)
  result = _run(predictor, world, num=1000)
  sequences = world.sample(1000, 0, split='heldout')
  size = max(world.prompt_len, 1)
  starts = world.walk(
    world.init(1000), sequences.tokens, np.full(1000, size, np.int32)
  )[1]

  def chance(state, length):
    """That what is named from a state on is legal to the end."""
    if world.end == core.DEAD and length == world.max_len:
      return 1.0
    total = 0.0
    for token in np.flatnonzero(world.legal(state)[0]):
      after = world.advance(state, np.array([token]))
      over = token == world.end
      cut = length + 1 >= world.max_len and world.end != core.DEAD
      total += over or (0 if cut else chance(after, length + 1))
    return total / 7

  each = {tuple(s): chance(s[None], size) for s in np.unique(starts, axis=0)}
  expected = np.mean([each[tuple(state)] for state in starts])
  error = 4 * np.sqrt(expected / 1000)
  assert table.mean(result['valid']) == pytest.approx(expected, abs=error)


def test_progress_is_told():
  with progress.Progress('traversal') as shown:
    _run(oracles.Oracle(tiny.World()), tiny.World(), num=20)
  assert (shown.done, shown.total) == (20, 20)


def test_bad_fields():
  with pytest.raises(core.InputError, match='expected'):
    traversal.Metric(num=0)


def test_sampled_tokens_have_the_model_s_probabilities():
  """One step decides: from node 3, `end` with 0.3, x on to nothing else."""
  world = table.Given(rows=((7, END),) * 400)
  predictor = table.Table(world, {3: {END: 0.3, Y: 0.7}})
  assert not _run(predictor, world, num=400)['valid'].value.any()  # Greedy: y.
  result = _run(predictor, world, num=400)['sampled_legal']
  share = result.value.mean()
  assert share == pytest.approx(0.3, abs=4 * (0.21 / 400) ** 0.5)
  assert len(set(result.group)) == 1  # All of one task.
  again = _run(predictor, world, num=100)['sampled_legal'].value
  np.testing.assert_array_equal(again, result.value[:100])
