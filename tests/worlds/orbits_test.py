"""Orbits: what samples show, what is hidden, statistics, bad input."""

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.kernels import orbits as kernel
from wm.worlds.orbits import systems

PUBLISHED = (
  "orbits(systems='exoplanets', planets=10, bins=7000, box=50.0, rows={}, "
  'steps=(0.0189, 0.486), centre=1.0)'
)


def made(spec: str) -> core.Latent:
  return registry.make('world', spec)


def published(rows: int = 60) -> core.Latent:
  return made(PUBLISHED.format(rows))


@pytest.fixture(scope='module')
def world() -> core.Latent:
  return made('orbits()')


@pytest.fixture(scope='module')
def sequences(world) -> core.Sequences:
  return world.sample(60, 1)


def test_tokens_are_the_bins_of_positions(world, sequences):
  motion = world.trajectory(sequences)
  rows = sequences.tokens.reshape(60, world.rows, 2)
  assert (rows[:, 0, 0] == rows[:, 0, 1]).all()
  np.testing.assert_array_equal(
    np.array(world.steps)[rows[:, 0, 0] - 1], motion.step
  )
  assert {*motion.step.tolist()} == {0.1, 0.2}
  seen = world.coordinates(rows[:, 1:])
  assert np.abs(seen - motion.position).max() <= world.width / 2 + 1e-12
  again = world.coordinate_tokens(motion.position)
  np.testing.assert_array_equal(again, rows[:, 1:])
  assert np.isnan(world.coordinates(np.array([0, 1, 2, 259]))).all()
  np.testing.assert_array_equal(world.coordinate_tokens([-99, 99]), [3, 258])


def test_the_state_is_seen_from_the_sun(world, sequences):
  motion = world.trajectory(sequences)
  planet, sun = motion.position[:, ::2], motion.position[:, 1::2]
  np.testing.assert_allclose(motion.state[:, ::2, :2], planet - sun, atol=1e-12)
  assert np.isnan(motion.state[:, 1::2]).all()
  np.testing.assert_array_equal(motion.body[0, :4], [0, 1, 0, 1])
  np.testing.assert_array_equal(motion.frame[0, :4], [0, 0, 1, 1])
  # What a planet pulls, its sun is pulled: the sun is seen to move by bins.
  ratio = motion.state[:, 0, 4] / motion.state[:, 0, 5]
  assert (ratio > 0.0999).all()
  assert (ratio < 0.5001).all()
  spread = np.ptp(sun, axis=1).max(-1) / world.width
  assert np.median(spread) > 5


def test_the_state_is_no_function_of_the_tokens(world, sequences):
  assert isinstance(world, core.Latent)
  states = world.hidden_states(sequences)
  assert states.shape == (60, world.max_len, 6)
  assert np.isnan(states[:, :2]).all()
  np.testing.assert_array_equal(states[:, 2], states[:, 3])
  bare = core.Sequences(sequences.tokens, sequences.lengths)
  with pytest.raises(core.InputError, match="side data 'planets'"):
    world.hidden_states(bare)
  same = world.walk(world.init(60), sequences.tokens, sequences.lengths)[1]
  assert len({*world.state_id(same).tolist()}) == 1
  assert len(np.unique(states[:, -4, 0])) == 60


def test_a_study_has_its_spread(world, sequences):
  drawn = kernel.Systems(*(sequences.side[n] for n in kernel.Systems._fields))
  assert drawn.eccentricity.max() > 0.5
  assert drawn.eccentricity.max() < 0.6
  mu = drawn.star + drawn.mass[:, 0]
  assert mu.max() / mu.min() > 8
  r = np.hypot(
    *np.moveaxis(world.trajectory(sequences).state[:, ::2, :2], -1, 0)
  )
  assert r.max() / r.min() > 5


def test_streams_of_systems_are_independent():
  several = published()
  sample = systems.draw(several, 4, np.arange(400))
  again = systems.draw(several, 4, np.array([399, 7]))
  for whole, part in zip(sample, again, strict=True):
    np.testing.assert_array_equal(whole[[399, 7]], part)
  there = np.arange(10) < sample.planets[:, None]
  assert len(np.unique(sample.axis[there])) == there.sum()
  assert sample.planets.min() == 1
  assert sample.planets.max() == 10


def test_published_statistics():
  """Section 16's medians and shares, of 8,000 systems without rejection."""
  world = published(1000)
  sample = systems.draw(world, 0, np.arange(8_000))
  there = np.arange(10) < sample.planets[:, None]
  steps = sample.period / sample.step[:, None]
  short = (sample.step[:, None] < 0.1) & there
  long = (sample.step[:, None] > 0.1) & there
  assert np.median(steps[short]) == pytest.approx(3582, rel=0.05)
  assert np.median(steps[long]) == pytest.approx(139, rel=0.05)
  assert np.median(499 / steps[short]) == pytest.approx(0.139, rel=0.05)
  assert (steps[long] < 10).mean() == pytest.approx(0.08, abs=0.01)
  assert (steps[long] < 2).mean() == pytest.approx(0.02, abs=0.005)
  far = (sample.axis * (1 + sample.eccentricity))[there]
  assert (far > 50).mean() == pytest.approx(0.0048, abs=0.001)
  assert far.max() == pytest.approx(60, abs=4)
  assert (sample.mass[there] == 1e-3).mean() == pytest.approx(0.105, abs=0.005)


def test_what_leaves_the_box_is_counted():
  narrow = made('orbits(box=3.0, bins=64)')
  result = narrow.sample(20, 0)
  assert result.counts['left the box'] > 10
  assert (np.abs(narrow.trajectory(result).position) <= 3).all()
  slow = made('orbits(steps=(0.2, 0.7))').sample(40, 0)
  assert slow.counts['fewer than two samples a period'] > 0
  shown = kernel.Systems(*(slow.side[n] for n in kernel.Systems._fields))
  assert (shown.period[:, 0] >= 2 * shown.step).all()


@pytest.mark.parametrize(
  ('text', 'message'),
  [
    ("systems='stars'", 'available: binaries'),
    ('planets=0', 'expected at least 1'),
    ('planets=40', 'rows=81, planets=40; expected at least 83 rows'),
    ("systems='two_body', planets=2", 'expected 1'),
    ('steps=()', 'different values, each more than 0 years'),
    ('steps=(0.1, -1.0)', 'different values, each more than 0 years'),
    ('steps=(0.1, 0.1)', 'different values, each more than 0 years'),
    ('box=0.0', 'expected more than 0 AU'),
    ('bins=1', 'expected at least 2'),
  ],
)
def test_badoptions_are_told(text, message):
  with pytest.raises(core.InputError, match=message):
    made(f'orbits({text})')


@pytest.mark.parametrize('text', ['steps=(60.0,)', 'box=0.2'])
def test_a_world_without_systems_says_why(text):
  with pytest.raises(core.InputError, match='none stays'):
    made(f'orbits({text})').sample(2, 0)


def test_a_push_changes_the_velocity_and_nothing_else():
  """The new elements give the old place, and the velocity with the push."""
  world = made('orbits()')
  before = systems.draw(world, 0, np.arange(200))
  rng = np.random.default_rng(0)
  frame = rng.integers(1, 20, 200).astype(float)
  share, turn = np.full(200, 0.2), rng.uniform(0, 2 * np.pi, 200)
  after, ok = systems.pushed_systems(before, frame, share, turn)
  assert ok.mean() > 0.8
  old, new = (
    kernel.states(systems.moved_systems(drawn, frame), 1)[:, 0]
    for drawn in (before, after)
  )
  push = np.stack([np.cos(turn), np.sin(turn)], axis=1)
  push *= (share * np.hypot(old[:, 2], old[:, 3]))[:, None]
  expected = old.copy()
  expected[ok, 2:4] += push[ok]
  np.testing.assert_allclose(new[:, :4], expected[:, :4], rtol=1e-6, atol=1e-8)
