"""A predictor by fitted orbits: known orbits, few rows, and its own errors."""

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.kernels import orbit_fits, orbits

FRAMES = 30


@pytest.fixture(scope='module')
def world() -> core.Latent:
  return registry.make('world', f'orbits(bins=256, rows={1 + 2 * FRAMES})')


@pytest.fixture(scope='module')
def model(world) -> core.Predictor:
  return made(world, 'orbit_fit()')


def made(world: core.World, spec: str) -> core.Predictor:
  return registry.make('model', spec).predictor(world, 0)


def system(e: float, mass: float, centre=(0.1, 0.2)) -> orbits.Systems:
  """One planet at 3 AU around a sun of one solar mass."""
  return orbits.Systems(
    planets=np.array([1]),
    axis=np.array([[3.0]]),
    eccentricity=np.array([[e]]),
    periapsis=np.array([[0.7]]),
    mean=np.array([[0.3]]),
    mass=np.array([[mass]]),
    star=np.array([1.0]),
    centre=np.array([centre]),
    step=np.array([0.1]),
    pinned=np.array([False]),
  )


def tokens_of(world: core.Latent, some: orbits.Systems) -> np.ndarray:
  place = orbits.positions(some, 2 * FRAMES)
  bins = world.coordinate_tokens(place).reshape(len(place), -1)
  return np.pad(bins, ((0, 0), (2, 0)), constant_values=1)


def logs_of(model: core.Predictor, tokens: np.ndarray) -> np.ndarray:
  return model.log_probs(tokens, np.full(len(tokens), tokens.shape[1]))


@pytest.mark.parametrize('e', [0.0, 0.3, 0.6])
@pytest.mark.parametrize('mass', [0.5, 1e-6])
def test_exact_positions_give_the_next_ones(e, mass):
  """A known answer: round and flat orbits, a sun that moves and one that not.

  Rows of positions that are not rounded, and what they say of the next row.
  """
  place = orbits.positions(system(e, mass), 2 * FRAMES)
  result = orbit_fits.ahead(place, np.array([0.1]), 1e-6)
  assert np.isnan(result[:, : orbit_fits.FIRST]).all()
  first = orbit_fits.FIRST + 2  # Four frames that are exact may be too few.
  np.testing.assert_allclose(result[:, first:], place[:, first:], atol=1e-6)
  whole = orbit_fits.ahead(place, np.array([0.1]), 1e-6, prefix=21)
  np.testing.assert_allclose(whole[:, 21:], place[:, 21:], atol=1e-6)


@pytest.mark.parametrize('e', [0.0, 0.6])
def test_the_next_bin_is_the_true_one(world, model, e):
  tokens = tokens_of(world, system(e, 0.3))
  logs = logs_of(model, tokens)
  output, true = logs.argmax(-1)[:, 40:-1], tokens[:, 41:]
  assert np.abs(output - true).max() <= 1
  assert (output == true).mean() > 0.8
  np.testing.assert_allclose(np.exp(logs).sum(-1), 1, atol=1e-5)


def test_a_sun_at_rest_stays_in_its_bin(world, model):
  centre = (world.width * 3.5, -world.width * 6.5)
  tokens = tokens_of(world, system(0.2, 1e-9, centre))
  sun = tokens[:, 2:].reshape(1, -1, 2, 2)[:, :, 1]
  assert len(np.unique(sun[..., 0])) == len(np.unique(sun[..., 1])) == 1
  logs = logs_of(model, tokens)
  mine = np.exp(logs[0, np.arange(60, 117, 4) + 3, sun[0, 0, 0]])
  assert mine.min() > 0.95


def test_its_errors_are_those_that_it_tells(world, model):
  """How often the likeliest bin is right is how likely it is."""
  tokens = world.sample(24, 5).tokens
  logs = logs_of(model, tokens)[:, 24:-1]
  hit = logs.argmax(-1) == tokens[:, 25:]
  assert np.exp(logs.max(-1)).mean() == pytest.approx(hit.mean(), abs=0.02)
  lines = -np.take_along_axis(logs, tokens[:, 25:, None], -1)
  assert lines.mean() < 0.5
  straight = logs_of(made(world, 'ballistic()'), tokens)[:, 24:-1]
  other = -np.take_along_axis(straight, tokens[:, 25:, None], -1)
  assert lines.mean() < other.mean() / 5


def test_it_is_the_baseline_of_trajectories(world, model):
  """Bins of the positions that an orbit through the rows before leads to."""
  result = world.sample(6, 2)
  seen = world.coordinates(result.tokens[:, 2:]).reshape(6, -1, 2)
  place = orbit_fits.ahead(seen, world.trajectory(result).step, world.width)
  good = np.isfinite(place[..., 0])
  assert good[:, 10:].mean() > 0.95
  output = logs_of(model, result.tokens)[:, 1:-1].argmax(-1).reshape(6, -1, 2)
  expected = world.coordinate_tokens(place)
  np.testing.assert_array_equal(output[good], expected[good])
  straight = logs_of(made(world, 'ballistic()'), result.tokens)[:, 1:-1]
  straight = straight.argmax(-1).reshape(6, -1, 2)
  np.testing.assert_array_equal(output[~good], straight[~good])


def test_too_few_rows_go_straight_on(world, model):
  tokens = world.sample(2, 2).tokens
  first = 2 + 2 * orbit_fits.FIRST
  short = logs_of(model, tokens[:, : first - 1])
  straight = logs_of(made(world, 'ballistic()'), tokens[:, : first - 1])
  np.testing.assert_array_equal(short, straight)


def test_what_is_no_orbit_goes_straight_on(world, model):
  """Bodies that jump, and a time step in the midst of the bins."""
  rng = np.random.default_rng(0)
  jumps = rng.integers(world.first_bin, len(world.vocab), (1, world.max_len))
  jumps[:, :2] = 1
  straight = made(world, 'ballistic()')
  np.testing.assert_array_equal(
    logs_of(model, jumps.astype(np.int32)),
    logs_of(straight, jumps.astype(np.int32)),
  )
  broken = world.sample(2, 2).tokens
  broken[:, 30] = 1
  logs = logs_of(model, broken)
  np.testing.assert_allclose(np.exp(logs).sum(-1), 1, atol=1e-5)
  output = logs[:, 60:-1].argmax(-1)
  assert np.abs(output - broken[:, 61:]).max() <= 3


def test_sessions_are_whole_sequences(world, model):
  tokens = world.sample(4, 7).tokens
  logs = logs_of(model, tokens)
  lengths = np.array([0, 13, 37, 60])
  session = model.session(tokens[:, :60], lengths, 2)
  for k in range(8):
    at = lengths + k
    result = session.log_probs()
    for row in range(1, 4):
      np.testing.assert_array_equal(result[row, 0], logs[row, at[row] - 1])
    next_ = tokens[np.arange(4), at]
    session.advance(np.stack([next_, np.full(4, core.DEAD)], axis=1))
  np.testing.assert_array_equal(
    result[1:, 1], logs[np.arange(1, 4), lengths[1:] - 1]
  )
  session.restart(np.array([2]), tokens[1:2, :50], np.array([50]))
  np.testing.assert_array_equal(session.log_probs()[2, 1], logs[1, 49])


@pytest.mark.parametrize(
  ('given', 'spec', 'said'),
  [
    ('lattice()', 'orbit_fit()', 'shows no moving bodies'),
    (
      "orbits(systems='exoplanets', planets=8, box=50.0)",
      'orbit_fit()',
      'bodies were drawn',
    ),
  ],
)
def test_what_cannot_be_fitted_is_told(given, spec, said):
  with pytest.raises(core.InputError, match=said) as error:
    made(registry.make('world', given), spec)
  assert '\n' not in str(error.value)


def test_of_too_few_rows_there_is_no_orbit():
  short = registry.make('world', 'orbits(rows=8)')
  sequences = short.sample(2, 0)
  asked = sequences.tokens, sequences.lengths
  result, straight = (
    made(short, spec).log_probs(*asked)
    for spec in ('orbit_fit()', 'ballistic()')
  )
  np.testing.assert_allclose(result, straight)
