"""Particles against the exact distribution of what follows."""

import numpy as np
import pytest

from tests.kernels import orbits_ref as ref
from wm import core
from wm.core import registry
from wm.kernels import orbit_particles as particles
from wm.kernels import orbits
from wm.worlds import orbits as orbits_world
from wm.worlds.orbits import systems

TINY = "orbits(systems='{}', bins={}, box={}, rows=13, steps=({},), centre={})"
WORLDS = {
  'binaries': TINY.format('binaries', 8, 8.0, 0.3, 1.0),
  'two_body': TINY.format('two_body', 12, 60.0, 30.0, 20.0),
  'summary': TINY.format('summary', 8, 80.0, 3.0, 20.0),
}


def known(world, num: int) -> tuple[orbits.Systems, np.ndarray]:
  """Systems that the world keeps, and their bins."""
  drawn = systems.draw(world, 77, np.arange(num))
  result, outside = orbits.bins(drawn, world.rows - 1, *world.grid)
  keep = (outside == 0) & (drawn.period[:, 0] >= 2 * drawn.step)
  return drawn.take(keep), result[keep].reshape(keep.sum(), -1)


@pytest.mark.parametrize('kind', particles.DENSITIES)
def test_many_particles_are_near_the_exact_distribution(kind):
  world = registry.make('world', WORLDS[kind])
  num = world.bins
  _, bins = known(world, 40_000)
  filtered = world.posterior(4096, 6, 0)
  heads = bins[:4]
  errors = []
  for head in heads:
    memory = filtered.init(1)
    for token in (1, 1, *(head[:10] + world.first_bin)):
      seen = int(memory[0, orbits_world.SEEN_TOKENS]) - 2
      agree = bins[(bins[:, : max(seen, 0)] == head[: max(seen, 0)]).all(1)]
      if seen >= 0 and len(agree) > 800:
        exact = ref.following(agree[:9000], head[:seen], num)
        tokens, log_probs = filtered.next(memory)
        result = np.exp(log_probs[0, tokens[0] >= world.first_bin])
        share = exact / exact.sum()
        # What chance makes of so many systems, and of half the particles.
        variance = share * (1 - share) * (1 / exact.sum() + 1 / 2048)
        chance = np.sqrt(2 / np.pi * variance).sum()
        errors.append(np.abs(result - share).sum() / chance)
      memory = filtered.advance(memory, np.array([token]))
  assert len(errors) > 8
  assert np.mean(errors) < 2
  assert max(errors) < 5


def test_particles_move_as_bodies_do():
  world = registry.make('world', 'orbits()')
  drawn, _ = known(world, 40)
  prior = orbits_world.prior(world).array(0.1)
  cloud, orbit = particles.cloud(drawn), np.empty(10)
  places = orbits.positions(drawn, 12)
  for n in range(5):
    assert np.isfinite(particles.density(cloud[n], prior, orbit))
    for token in range(24):
      x = particles.coordinate(orbit, drawn.step[n], token)
      true = places[n, token // 2, token % 2]
      assert x == pytest.approx(true, abs=1e-9)
    years = 4 * drawn.step[n]
    for which in range(4) if n < 2 else ():
      slow = ref.coordinate(cloud[n], years, which)
      assert slow == pytest.approx(places[n, 8 + which // 2, which % 2], 1e-6)


@pytest.mark.parametrize('kind', particles.DENSITIES)
def test_the_density_is_that_of_the_elements(kind):
  """Times how coordinates stretch as elements change, by differences."""
  world = registry.make('world', WORLDS[kind])
  drawn, _ = known(world, 60)
  prior, orbit = orbits_world.prior(world), np.empty(10)
  sample, array = drawn.take(slice(20)), drawn.axis[:20, 0]
  tilt = prior.array(drawn.step[0])
  names = 'axis', 'eccentricity', 'periapsis', 'mean', 'mass', 'star'
  slopes = []
  for name in (*names, 0, 1):
    pair = []
    for by in (1e-6, -1e-6):
      if isinstance(name, int):
        moved = sample._replace(centre=sample.centre + by * np.eye(2)[name])
      else:
        value = getattr(sample, name)
        moved = sample._replace(**{name: value + by * value})
      pair.append(particles.cloud(moved))
    width = np.full(20, 2e-6)
    if not isinstance(name, int):
      width *= getattr(sample, name).reshape(20)
    slopes.append((pair[0] - pair[1]) / width[:, None])
  stretch = np.linalg.slogdet(np.array(slopes).swapaxes(0, 1))[1]
  result = [particles.density(z, tilt, orbit) for z in particles.cloud(sample)]
  e = sample.eccentricity[:, 0]
  expected = -(sample.centre**2).sum(1) / 2 / prior.centre**2
  if kind == 'binaries':  # Masses and the axis by their logarithms.
    expected -= np.log(array * sample.star * sample.mass[:, 0])
  else:
    first, second = prior.beta
    expected += (first - 1) * np.log(e) + (second - 1) * np.log(1 - e)
    expected -= np.log(sample.mass[:, 0]) if kind == 'summary' else 0
  off = np.array(result) + stretch - expected
  np.testing.assert_allclose(off, off[0], atol=1e-3)


def test_what_no_system_is_has_no_density():
  world = registry.make('world', 'orbits()')
  drawn, _ = known(world, 9)
  prior = orbits_world.prior(world).array(0.1)
  good, orbit = particles.cloud(drawn)[0], np.empty(10)
  for at, by in ((4, 90.0), (6, 3.0), (7, 4.0), (7, -4.0)):
    bad = good.copy()
    bad[at] += by
    assert particles.density(bad, prior, orbit) == -np.inf
  mirrored = good * np.array([1, 1, 1, 1, -1, -1, 1, 1])
  assert particles.density(mirrored, prior, orbit) == -np.inf


def test_rows_of_clouds_do_not_depend_on_each_other():
  world = registry.make('world', 'orbits(bins=64)')
  filtered = world.posterior(32, 2, 0)
  sequences = world.sample(4, 1)

  def after(rows: list[int]) -> np.ndarray:
    memory = filtered.init(len(rows))
    for t in range(14):
      memory = filtered.advance(memory, sequences.tokens[rows, t])
    return memory

  whole = after([0, 1, 2, 3])
  np.testing.assert_array_equal(after([2, 0]), whole[[2, 0]])
  dead = filtered.advance(whole, np.zeros(4, np.int64))
  assert np.isneginf(filtered.next(dead)[1]).all()


def test_a_bin_that_no_orbit_reaches_is_passed_over():
  world = registry.make('world', 'orbits(bins=64)')
  filtered = world.posterior(128, 4, 0)
  sequences = world.sample(1, 1)
  memory = filtered.init(1)
  for t in range(18):
    token = sequences.tokens[:, t].copy()
    if t == 12:  # The other end of the box.
      token = world.first_bin + 63 - (token - world.first_bin) // 8
    memory = filtered.advance(memory, token)
  seen = memory[0, orbits_world.BINS : orbits_world.BINS + 16]
  assert seen[10] == -1
  assert (np.delete(seen, 10) >= 0).all()
  chance = np.exp(filtered.next(memory)[1][0])
  near = int(sequences.tokens[0, 18])
  assert chance[near - 2 : near + 3].sum() > 0.5


@pytest.mark.parametrize(
  ('spec', 'fields', 'message'),
  [
    ("orbits(systems='exoplanets')", {}, "systems 'binaries', 'two_body'"),
    ('orbits(planets=2)', {}, 'one planet'),
    ('orbits(centre=0.0)', {}, 'centre > 0'),
    ('orbits()', {'particles': 15}, 'even number from 16'),
    ('orbits()', {'sweeps': 0}, 'at least one sweep'),
  ],
)
def test_what_cannot_be_filtered_is_told(spec, fields, message):
  inputs = {'particles': 64, 'sweeps': 2, 'seed': 0, **fields}
  with pytest.raises(core.InputError, match=message):
    registry.make('world', spec).posterior(**inputs)
