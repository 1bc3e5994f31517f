"""The contrast of pairs q= and q!= at equal distances of their states."""

import itertools

import numpy as np
import pytest

from tests.metrics import table
from wm import core
from wm.core import adapting, registry
from wm.evaluation import coin_tasks, fewshot, statistics
from wm.metrics import inductive_bias
from wm.models import lookup
from wm.models.serving import oracles

LATTICE = registry.make('world', 'lattice(size=5, length=20)')
CONTRASTS = 'q_difference', 'q_difference_matched'


def correlation(distance):
  """Of the answers at two states; that of a Gaussian kernel is one."""
  return np.exp(-(distance**2) / 8)


class Smoother(oracles.Uniform, core.Adaptable):
  """Answers by the sign of a Gaussian field over the places of a line.

  Two places have different answers with probability arccos(r) / pi, where r is
  the correlation at their distance. What is legal makes no difference.
  """

  def __init__(self, world):
    super().__init__(len(world.vocab), world.end, world.max_len)
    self._world = world
    rows = np.arange(len(world.delta))
    self._root = np.linalg.cholesky(correlation(rows[:, None] - rows))

  def adapt(self, sets, asked, kind, steps, seed, tuning=adapting.FINE_TUNE):
    num, rows, places = asked.places.shape
    flat = asked.tokens.reshape(num * rows, -1)
    at = asked.places.reshape(num * rows, places)
    states = adapting.at_places(self._world, flat, at)[0].reshape(
      num, rows, places
    )
    draws = np.random.default_rng(seed).normal(size=(num, len(self._root)))
    fields = draws @ self._root.T
    score = fields[np.arange(num)[:, None, None], states][..., None]
    outputs = np.stack([score, -score], -1).astype(np.float32)
    return np.broadcast_to(outputs, (len(steps), *outputs.shape))


def run(learner, world=LATTICE, num=200, seed=1, **fields):
  sizes = {'num': num, 'examples': 30, 'states': 12, 'pool': 40}
  metric = inductive_bias.Metric(**{**sizes, **fields})
  return table.by_name(metric(learner, world, seed))


def interval(scores):
  summary = statistics.summarize(scores)
  return summary['low'], summary['high']


def test_near_from_far_alone_is_no_contrast_at_equal_distances():
  result = run(Smoother(LATTICE))
  pairs = [*itertools.combinations(range(5), 2)]
  apart = [
    2 * np.arccos(correlation(two - item)) / np.pi for item, two in pairs
  ]
  alike = [{*pair} <= {1, 2, 3} for pair in pairs]
  exact = np.mean(np.array(apart)[alike]) - np.mean(
    np.array(apart)[np.logical_not(alike)]
  )
  assert exact == pytest.approx(-0.21, abs=0.01)
  low, high = interval(result['q_difference'])
  assert low < exact < high < -0.1
  low, high = interval(result['q_difference_matched'])
  assert low < 0 < high
  assert high - low < 0.3


def test_a_learner_of_states_has_no_contrast_and_one_of_tokens_has_all():
  result = run(lookup.LookUp(LATTICE, 'state', True, 0))
  for name in CONTRASTS:
    low, high = interval(result[name])
    assert low < 0 < high, name
  result = run(lookup.LookUp(LATTICE, 'legal', True, 0))
  for name in CONTRASTS:
    assert interval(result[name])[1] < -0.7, name


@pytest.mark.parametrize('examples', [1, 4, 30])
def test_a_learner_of_states_is_as_consistent_from_any_number_of_labels(
  examples,
):
  """Unseen states get coins: labels are wrong then, R and D are as ever."""
  learner = lookup.LookUp(LATTICE, 'state', True, 0)
  result = run(learner, examples=examples)
  assert table.mean(result['r_ib']) == 1
  low, high = interval(result['d_ib'])
  assert low < 1 < high
  assert (table.mean(result['accuracy']) < 0.95) == (examples < 30)


def brute(compared, answers, between):
  """[D] by loops over all pairs of points."""
  values = []
  for d, row in enumerate(answers):
    g = d // compared.twins if len(compared.scored.states) > 1 else 0
    states, legal = (
      array[g].reshape(-1)
      for array in (compared.scored.states, compared.scored.legal)
    )
    kinds = [{}, {}]
    width = compared.plain * compared.scored.states.shape[2]
    listed = [*itertools.combinations(range(width), 2)]
    if compared.close.shape[1]:
      listed = [p for p in listed if legal[p[0]] != legal[p[1]]]
      listed += compared.close[g].tolist()
    for first, two in listed:
      points = {states[first], states[two]}
      if first == core.DEAD or core.DEAD in points or len(points) == 1:
        continue
      other, far = (
        int(legal[first] != legal[two]),
        between(*states[[first, two]]),
      )
      if far != coin_tasks.APART:
        differ = row.flat[first] != row.flat[two]
        kinds[other].setdefault(far, []).append(differ)
    both = [
      (
        min(len(sample), len(kinds[1][far])),
        np.mean(sample),
        np.mean(kinds[1][far]),
      )
      for far, sample in kinds[0].items()
      if far in kinds[1]
    ]
    weight, alike, unlike = np.array(both or [(np.nan,) * 3]).T
    values.append(np.sum(weight * (alike - unlike)) / weight.sum())
  return np.array(values)


@pytest.mark.parametrize('joined', [True, False])
@pytest.mark.parametrize('apart', [True, False])
def test_the_contrast_is_what_loops_over_pairs_say(apart, joined):
  rng = np.random.default_rng(3)
  groups, rows, plain = (3, 14, 8) if apart else (1, 7, 7)
  states = rng.integers(-1, 5, (groups, rows, 1 if apart else 2))
  legal = np.where(states % 4 == 0, states, 9).astype(np.uint64)
  points = coin_tasks.StatePoints(states[..., None], states, states, legal)
  close = np.zeros((groups, 0, 2), int)
  if apart:  # The last pair of a group is none.
    close = np.full((groups, 4, 2), core.DEAD)
    states[:, plain:] = rng.permuted([1, 2, 3, 1, 3, 2])[:, None]
    points.legal[:, plain:] = 9
    close[:, :3] = np.arange(plain, rows).reshape(3, 2)
    close[:, :3][
      states[:, close[0, :3, 0], 0] == states[:, close[0, :3, 1], 0]
    ] = -1
  line = np.abs(np.arange(5)[:, None] - np.arange(5)).astype(np.int32)
  if not joined:  # No path leads to state 3, or from there.
    line[3, :3] = line[:3, 3] = line[3, 4] = line[4, 3] = coin_tasks.APART
  flat = np.maximum(states.reshape(groups, -1), 0)
  compared = coin_tasks.Compared(
    points, plain, close, coin_tasks.by_moves(line, flat), 2
  )
  answers = rng.integers(0, 2, (2 * groups, *states.shape[1:]))
  expected = brute(compared, answers, lambda one, two: line[one, two])
  np.testing.assert_allclose(compared.matched(answers), expected)
  assert np.isfinite(expected).any()


def visited(world, num=12, seed=2):
  return coin_tasks.visited(world, num, 60, 0, seed)


def shortest(world, points):
  """[n, n] moves between states of points, by Floyd's recurrence."""
  size = len(world.delta)
  far = np.where(np.eye(size, dtype=bool), 0.0, np.inf)
  for row, label in np.argwhere(world.delta >= 0):
    head = world.delta[row, label]
    far[row, head] = min(far[row, head], 1)
  for k in range(size):
    far = np.minimum(far, far[:, k, None] + far[k])
  rows = points.states.reshape(-1)
  far = np.minimum(far, far.T)[rows[:, None], rows]
  return np.where(np.isinf(far), coin_tasks.APART, far)


@pytest.mark.parametrize(
  'spec',
  [
    'lattice(size=5, length=20)',
    "automaton(preset='tomita3')",
    "automaton(preset='dyck_2_3', length=10)",
    "groups(group='s3', tokens='generators', length=9)",
  ],
)
def test_moves_are_the_lesser_of_both_directions(spec):
  world = registry.make('world', spec)
  points = visited(world)
  there = np.flatnonzero(points.states.reshape(-1) != core.DEAD)
  first, second = (there[side] for side in np.triu_indices(len(there), 1))
  result = coin_tasks.of_points(world, points)(0, first, second)
  np.testing.assert_array_equal(result, shortest(world, points)[first, second])


def test_a_state_that_leads_only_back_is_as_far_as_the_way_there():
  """a -> b -> c -> a: each is one move from both others, or they from it."""
  world = registry.make('world', "groups(group='z3', tokens='generators')")
  points = visited(world)
  there = np.flatnonzero(points.states.reshape(-1) != core.DEAD)
  pairs = np.meshgrid(there, there)
  result = coin_tasks.of_points(world, points)(0, *map(np.ravel, pairs))
  assert {*result} == {0, 1}


@pytest.mark.parametrize('spec', ['othello(size=4)', 'connect4(rows=3)'])
def test_boards_are_as_far_apart_as_their_labels_differ(spec):
  world = registry.make('world', spec)
  points = visited(world, 6)
  result = coin_tasks.of_points(world, points)
  boards = {}
  for tokens, places in zip(points.tokens[0], points.places[0], strict=True):
    states = world.init(1)
    for t in range(places.max() + 1):
      states = world.advance(states, tokens[t : t + 1])
      boards[int(world.state_id(states)[0])] = world.labels(states)[0]
  flat = points.states.reshape(-1)
  there = np.flatnonzero(flat != core.DEAD)
  first, second = there[:-1], there[1:]
  expected = [
    (boards[flat[item]] != boards[flat[two]]).sum()
    for item, two in zip(first, second, strict=True)
  ]
  np.testing.assert_array_equal(result(0, first, second), expected)
  assert max(expected) > 2


def test_where_states_are_too_many_and_have_one_label_it_is_a_reason(
  monkeypatch,
):
  monkeypatch.setattr(coin_tasks, 'MOST_STATES', 4)
  assert coin_tasks.of_points(LATTICE, visited(LATTICE)) is None
  result = run(lookup.LookUp(LATTICE, 'state', True, 0), num=4)
  assert {*result['q_difference_matched'].reason} == {'no_distance_of_states'}
  assert result['q_difference'].measured.all()


def test_two_states_of_a_map_with_two_destinations_have_no_distance():
  """Pairs q= mostly have two: they are not matched with others that do."""
  world = registry.make('world', 'maps(rows=4, columns=4)')
  sizes = {'num': 4, 'examples': 5, 'states': 32, 'pool': 200}
  learner = lookup.LookUp(world, 'legal', True, 0)
  scores = run(learner, world, seed=0, **sizes)
  compared = inductive_bias.Metric(**sizes)._task(world, 0).compared
  distances = [compared.distances(g, *compared._close(g)) for g in range(2)]
  assert {*np.concatenate(distances)} == {coin_tasks.APART}
  assert scores['q_difference'].measured.all()
  assert {*scores['q_difference_matched'].reason} == {'no_pairs_as_far_apart'}


@pytest.mark.parametrize(
  ('spec', 'measured'),
  [
    ('maps(rows=7, columns=7)', False),  # 2,402 states: a place and a goal.
    ('maps(rows=4, columns=4)', True),
    ('othello(size=4)', True),
    ('connect4(rows=3)', True),
    ('chess()', True),
    ("automaton(preset='random_12_6_3_1')", True),
  ],
)
def test_labels_that_differ_are_a_distance_on_boards_alone(spec, measured):
  world = registry.make('world', spec)
  distances = coin_tasks.of_points(world, visited(world, 4))
  assert (distances is not None) == measured


def test_where_no_two_pairs_are_as_far_apart_it_is_a_reason():
  """Of states 0, 1, 2, 3 only 1 and 2 share tokens; 0 and 3 alone go in."""
  line = np.array([[0, 1, 9], [1, 0, 9], [9, 9, 0]], np.int32)
  states = np.array([[[0], [1], [2]]])
  legal = np.array([[[5], [5], [6]]], np.uint64)
  points = coin_tasks.StatePoints(states, states, states, legal)
  none = np.zeros((1, 0, 2), int)
  far = coin_tasks.by_moves(line, states[..., 0])
  compared = coin_tasks.Compared(points, 3, none, far, 2)
  assert np.isnan(compared.matched(np.zeros((2, 3, 1), int))).all()


def test_random_weights_have_the_values_of_their_own_run():
  world = registry.make('world', 'lattice(size=4, length=8)')
  model = registry.make('model', 'rnn(layers=1, width=8)')
  sizes = {'num': 4, 'examples': 8, 'states': 8, 'pool': 30, 'steps': (5,)}
  reader = model.predictor(world, 0)
  result = run(reader, world, untrained=True, **sizes)
  mine = run(fewshot.twin(reader, 1), world, **sizes)
  for name in inductive_bias.UNTRAINED:
    twin = result[f'{name}_untrained']
    np.testing.assert_array_equal(twin.value, mine[name].value)
    assert twin.measured.any(), name
