"""The Bayes predictor against all routes of small cities, one by one."""

import collections
import math

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.kernels.maps import paths
from wm.worlds.maps import DIRECTION0, END, MIN_MOVES, NODE0
from wm.worlds.maps import routes as maps_routes

WALKS = 'maps(rows=2, columns=3, max_moves=5)'
SHORTEST = "maps(rows=3, columns=3, traversal='shortest', max_moves=4)"
# More weightings than a word has bits.
NOISY = "maps(rows=3, columns=3, traversal='noisy', weightings=40)"

Law = dict[tuple[int, ...], float]


@pytest.fixture
def dead_ends(tmp_path) -> str:
  """Streets without exit, and one that nothing leads to: 1, 2, 3 | 4 | 5."""
  nodes, edges = tmp_path / 'nodes.csv', tmp_path / 'edges.csv'
  nodes.write_text(
    'osm_id,lat,lon\n'
    + ''.join(
      f'{n},{40 + n / 1000},{-73 + n % 2 / 1000}\n' for n in range(1, 6)
    )
  )
  streets = ((1, 'N', 2), (2, 'N', 3), (2, 'S', 1), (3, 'E', 1), (1, 'W', 4))
  streets = (*streets, (3, 'N', 4), (5, 'S', 4), (5, 'E', 1))
  edges.write_text(
    'node,direction,neighbor\n'
    + ''.join(f'{u},{label},{v}\n' for u, label, v in streets)
  )
  return f"maps(nodes='{nodes}', edges='{edges}', max_moves=6)"


def normal(masses: Law) -> Law:
  total = math.fsum(masses.values())
  return {route: mass / total for route, mass in masses.items()}


def walks(world: core.World) -> Law:
  """Every random walk, by the sampler's own steps."""
  delta, masses = world.graph.delta, collections.Counter()
  lengths = range(MIN_MOVES, world.moves + 1)

  def go(origin, row, labels, mass, wanted):
    ways = np.flatnonzero(delta[row] >= 0)
    if len(labels) < wanted and len(ways):
      for label in ways.tolist():
        step = delta[row, label], [*labels, label + DIRECTION0]
        go(origin, *step, mass / len(ways), wanted)
    elif len(labels) >= MIN_MOVES:
      masses[origin + NODE0, int(row) + NODE0, *labels, END] += mass

  for row in np.flatnonzero((delta >= 0).any(1)).tolist():
    for wanted in lengths:
      go(row, row, [], 1.0, wanted)
  return normal(masses)


def planned(world: core.World) -> Law:
  """Every shortest path of a pair under each weighting."""
  masses, size = collections.Counter(), len(world.graph)
  for lengths in world._roads.lengths:
    pairs = np.divmod(np.arange(size * size), size)
    result = paths.shortest_routes(world.graph.delta, lengths, *pairs, 20)
    for origin, goal, labels, moves in zip(*pairs, *result, strict=True):
      if MIN_MOVES <= moves <= world.moves:
        taken = (labels[:moves] + DIRECTION0).tolist()
        masses[origin + NODE0, goal + NODE0, *taken, END] += 1.0
  return normal(masses)


def law(world: core.World) -> Law:
  return walks(world) if world.traversal == 'random' else planned(world)


def rows(routes) -> core.Sequences:
  lengths = np.array([len(route) for route in routes], np.int32)
  tokens = np.zeros((len(routes), lengths.max()), np.int32)
  for n, route in enumerate(routes):
    tokens[n, : len(route)] = route
  return core.Sequences(tokens, lengths)


def predictor(world: core.World, spec: str = 'bayes()') -> core.Predictor:
  return registry.make('model', spec).predictor(world, 0)


def losses(outcome: core.Predictor, arguments: core.Sequences) -> np.ndarray:
  """[N, L] nats of each token after the first, 0 past the end."""
  log_probs = np.asarray(outcome.log_probs(arguments.tokens, arguments.lengths))
  after = np.take_along_axis(
    log_probs[:, :-1], arguments.tokens[:, 1:, None], 2
  )
  used = np.arange(1, arguments.tokens.shape[1]) < arguments.lengths[:, None]
  return np.where(used, -after[..., 0].astype(np.float64), 0)


def probabilities(outcome: core.Predictor, routes) -> np.ndarray:
  """Of whole routes, first token included."""
  inputs, none = rows(routes), np.zeros((1, 1), np.int32)
  first = outcome.session(none, np.zeros(1, np.int32), 1).log_probs()[0, 0]
  return np.exp(first[inputs.tokens[:, 0]] - losses(outcome, inputs).sum(1))


@pytest.mark.parametrize('spec', [WALKS, SHORTEST, NOISY])
def test_every_route_has_its_probability(spec):
  world = registry.make('world', spec)
  true = law(world)
  got = probabilities(predictor(world), list(true))
  np.testing.assert_allclose(got, list(true.values()), rtol=2e-6)
  assert got.sum() == pytest.approx(1, abs=1e-6)


def test_walks_that_meet_a_dead_end(dead_ends):
  test_every_route_has_its_probability(dead_ends)
  true = law(registry.make('world', dead_ends))
  sunk = [route for route in true if route[1] == NODE0 + 3]
  assert len({len(route) for route in sunk}) > 2  # Some of them early.


def test_the_sampler_draws_walks_as_often_as_it_says(dead_ends):
  for spec in (WALKS, dead_ends):
    world = registry.make('world', spec)
    true, num = law(world), 200_000
    drawn = world.sample(num, 5)
    counts = collections.Counter(
      tuple(row[:length].tolist())
      for row, length in zip(drawn.tokens, drawn.lengths, strict=True)
    )
    assert counts.keys() <= true.keys()
    expected = num * np.array(list(true.values()))
    often = np.array([counts[route] for route in true])
    large = expected >= 5
    chi = ((often - expected) ** 2 / expected)[large].sum()
    freedom = large.sum() - large.all()
    assert abs(chi - freedom) < 4 * math.sqrt(2 * freedom)


def test_one_noisy_route_is_drawn_as_often_as_it_says():
  spec = "maps(rows=2, columns=3, traversal='noisy', weightings=3)"
  world = registry.make('world', spec)
  true, num = law(world), 1_000
  assert len(set(true.values())) > 1
  counts = collections.Counter()
  for seed in range(num):
    item = world.sample(1, seed)
    counts[tuple(item.tokens[0, : item.lengths[0]].tolist())] += 1
  expected = num * np.array(list(true.values()))
  often = np.array([counts[route] for route in true])
  assert often.sum() == num
  chi = ((often - expected) ** 2 / np.maximum(expected, 1)).sum()
  assert chi < len(true) + 4 * math.sqrt(2 * len(true))


def test_sessions_give_what_whole_routes_give(dead_ends):
  for spec in (WALKS, SHORTEST, NOISY, dead_ends):
    world = registry.make('world', spec)
    result, inputs = predictor(world), world.sample(12, 0)
    whole = result.log_probs(inputs.tokens, inputs.lengths)
    session = result.session(inputs.tokens, np.ones(12, np.int32), 2)
    for t in range(inputs.tokens.shape[1] - 1):
      on = np.flatnonzero(t < inputs.lengths)
      for branch in range(2):
        seen = session.log_probs()[on, branch]
        np.testing.assert_array_equal(seen, whole[on, t])
      step = np.where(
        t + 1 < inputs.lengths, inputs.tokens[:, t + 1], core.DEAD
      )
      session.advance(np.repeat(step[:, None], 2, axis=1))


def test_nothing_follows_what_is_never_sampled():
  walked = registry.make('world', WALKS)
  there = walked.sample(200, 0)
  longest = there.take(there.lengths == walked.max_len)
  full = predictor(walked).log_probs(longest.tokens, longest.lengths)
  row = full[0, walked.max_len - 2]
  assert np.flatnonzero(row > -np.inf).tolist() == [END]
  assert np.isneginf(full[0, walked.max_len - 1]).all()  # It is over.
  planned_one = registry.make('world', SHORTEST)
  routes, delta = planned_one.sample(50, 0), planned_one.graph.delta
  ways = delta[routes.tokens[:, 0] - NODE0]
  route = routes.take(np.flatnonzero((ways >= 0).sum(1) > 1)[:1])
  wrong = np.array(route.tokens)
  others = np.flatnonzero(delta[int(wrong[0, 0]) - NODE0] >= 0) + DIRECTION0
  wrong[0, 2] = others[others != route.tokens[0, 2]][0]
  result = predictor(planned_one).log_probs(wrong, route.lengths)
  assert (result[0, 1] > -np.inf).sum() == 1
  assert np.isneginf(result[0, 2:]).all()


def test_tables_that_are_dropped_are_made_again(monkeypatch):
  for spec in (WALKS, NOISY):
    world = registry.make('world', spec)
    inputs = world.sample(6, 2)
    kept = predictor(world).log_probs(inputs.tokens, inputs.lengths)
    with monkeypatch.context() as patch:
      patch.setattr(maps_routes, 'BUDGET', 1)
      result = predictor(world)
      for row in range(6):
        item = slice(row, row + 1)
        alone = result.log_probs(inputs.tokens[item], inputs.lengths[item])
        used = inputs.lengths[row]
        np.testing.assert_allclose(alone[0, :used], kept[row, :used], rtol=1e-6)


def test_trips_say_which_pairs_there_are(tmp_path):
  city = registry.make('world', SHORTEST).graph
  pairs, header = [(0, 5), (0, 8), (3, 8)], 'pickup_latitude,pickup_longitude,'
  header += 'dropoff_latitude,dropoff_longitude\n'
  lines = [
    ','.join(f'{x:.7f}' for r in pair for x in (city.lat[r], city.lon[r]))
    for pair in pairs
  ]
  (tmp_path / 'trips.csv').write_text(header + '\n'.join(lines) + '\n')
  spec = "maps(rows=3, columns=3, traversal='shortest', "
  world = registry.make('world', f"{spec}trips='{tmp_path}/trips.csv')")
  drawn = world.sample(100, 0)
  routes = [
    tuple(row[:length].tolist())
    for row, length in zip(drawn.tokens, drawn.lengths, strict=True)
  ]
  assert {(r[0] - NODE0, r[1] - NODE0) for r in routes} <= set(pairs)
  got = probabilities(predictor(world), routes)
  np.testing.assert_allclose(got, 1 / len(routes), rtol=2e-6)


@pytest.mark.parametrize(
  ('world', 'model', 'message'),
  [
    ('orbits()', 'bayes()', "orbits does not say how .*available: 'oracle"),
    (WALKS, "bayes(off='on')", "off='on'; available: nothing, rep"),
  ],
)
def test_what_there_is_no_law_of_is_one_line(world, model, message, one_line):
  with one_line(message):
    predictor(registry.make('world', world), model)
