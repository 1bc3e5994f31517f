"""Films of orbits, as predictors say them that are known."""

import dataclasses
import json
import os
import re
import shutil
import subprocess

import numpy as np
import pytest

import wm
from tests.launch import binaries
from wm import core
from wm.core import adapting, registry
from wm.library import film as library
from wm.library import loading
from wm.models.serving import stateless
from wm.reporting import film
from wm.runtime import provenance

SPEC = 'orbits(rows=21)'
SOLAR = "orbits(systems='solar', box=3.2, steps=(0.02, 0.04), rows=21)"


class Knowing(stateless.Stateless):
  """Knows the sequences of a sample."""

  def __init__(self, world: core.Latent, known: np.ndarray) -> None:
    self.vocab_size, self.end = len(world.vocab), world.end
    self.max_len, self._known = world.max_len, known

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    out = np.full((*tokens.shape, self.vocab_size), -50.0, np.float32)
    for b, row in enumerate(tokens):
      size = int(lengths[b])
      (same,) = (self._known[:, :6] == row[:6]).all(1).nonzero()
      following = self._known[same[0]][1 : size + 1]
      out[b, np.arange(len(following)), following] = -0.1
    return out


class Telling(Knowing, core.Adaptable):
  """Tells, of whatever it is tuned to, half of a vector for each token."""

  calls = 0

  def adapt_to(self, data):
    sets, asked, _, steps, *_ = data
    self.calls += 1
    assert np.abs(sets.labels).max() > 0
    one = np.stack([0.5 * asked.places, -0.5 * asked.places], axis=-1)
    outputs = np.broadcast_to(one, (len(steps), *one.shape))
    return adapting.Adapted(outputs.astype(np.float32), np.zeros(len(steps)))


def read(path) -> list[dict]:
  """The data of a page."""
  text = path.read_text(encoding='utf-8')
  (found,) = re.findall(r'id="data">(.*?)</script>', text, re.S)
  return json.loads(found)


@pytest.fixture(scope='module')
def world() -> core.Latent:
  return registry.make('world', SPEC)


@pytest.fixture(scope='module')
def page(world, tmp_path_factory):
  known = world.sample(3, 0, split='heldout').tokens
  out = tmp_path_factory.mktemp('film')
  return wm.film(Knowing(world, known), out, world, systems=3)


def test_who_knows_the_bins_is_where_they_are_seen(world, page):
  takes = read(page)
  assert len(takes) == 3
  motion = world.trajectory(world.sample(3, 0, split='heldout'))
  for n, take in enumerate(takes):
    assert take['start'] == 5  # Half of ten frames of two bodies.
    assert take['years'] == motion.step[n]
    np.testing.assert_allclose(
      np.array(take['true']).reshape(20, 2), motion.position[n], atol=1e-6
    )
    assert take['one_step'] == take['seen']
    assert take['alone'][:5] == [[[None] * 2] * 2] * 5
    assert take['alone'][5:] == take['seen'][5:]


def test_the_page_needs_no_network_and_says_what_is_off(page):
  text = page.read_text(encoding='utf-8')
  assert not re.search(r'(src|href)\s*=|https?:|@import', text)
  assert SPEC in text
  rows = re.findall(r'<td>(\d\.\d\d)</td><td>(\d\.\d\d)</td>', text)
  # Who says the right bin is off by rounding: 1 / sqrt(12).
  assert len(rows) == 3
  for row in np.array(rows, float):
    np.testing.assert_allclose(row, 12**-0.5, atol=0.08)


def tuned(world, source, out):
  spec = "force_law(num=1, examples=2, targets=('force_vector',), steps=(1,))"
  return wm.film(source, out, world, systems=3, forces=spec)


def test_forces_are_those_that_are_told_beside_true_ones(world, tmp_path):
  sample = world.sample(3, 0, split='heldout')
  path = tuned(world, Telling(world, sample.tokens), tmp_path)
  motion = world.trajectory(sample)
  for n, take in enumerate(read(path)):
    true, told = (
      np.array(take['force'], float),
      np.array(take['told_force'], float),
    )
    assert np.isnan(true[:, 1]).all()  # The sun's.
    assert np.isnan(told[:, 1]).all()
    x, y, _, _, planet, sun = motion.state[n, ::2].T
    size = library.GRAVITY * planet * sun / np.hypot(x, y) ** 3
    wanted = -np.stack([x, y], axis=1) * size[:, None]
    largest = np.hypot(*wanted.T).max()
    np.testing.assert_allclose(true[:, 0], wanted / largest, atol=2e-6)
    # After both tokens of a planet's row; frames have four tokens.
    places = 3 + 4 * np.arange(10)
    slope = told[1:, 0] / places[1:, None]
    np.testing.assert_allclose(slope, slope[:1].repeat(9, 0), rtol=1e-3)
    assert (slope[:, 0] == -slope[:, 1]).all()
  text = path.read_text(encoding='utf-8')
  assert 'tuned to tell the\n  force, after 1 steps on 2 systems' in text
  assert 'id="forces"' in text


def test_no_forces_no_arrows(page):
  assert 'id="forces"' not in page.read_text(encoding='utf-8')
  assert all('force' not in take for take in read(page))


def test_a_film_is_tuned_once(world, tmp_path):
  model = Telling(world, world.sample(3, 0, split='heldout').tokens)
  known = provenance.Origin({'weights': 'one'})
  loaded = loading.Loaded(model, world, 'telling', {}, known)
  first = read(tuned(world, loaded, tmp_path))
  assert read(tuned(world, loaded, tmp_path)) == first
  assert model.calls == 1
  changed = provenance.Origin({'weights': 'another'})
  other = dataclasses.replace(loaded, origin=changed)
  tuned(world, other, tmp_path)
  assert model.calls == 2
  (tmp_path / library.FORCES_FILE).write_bytes(b'no archive')
  assert read(tuned(world, other, tmp_path)) == first
  assert model.calls == 3
  tuned(world, model, tmp_path)  # What it is made of is not known.
  tuned(world, model, tmp_path)
  assert model.calls == 5


def test_angles_and_sizes_of_forces():
  paths = {name: np.zeros((3, 2, 2)) for name in ('true', 'seen', 'one_step')}
  take = film.Take('two', 0.1, 2, 0.01, **paths, alone=np.zeros((3, 2, 2)))
  assert np.isnan(take.off).all()
  true = np.full((6, 2), np.nan)
  true[::2] = [[1.0, 0.0], [0.0, -1.0], [-1.0, 0.01]]
  turned = 2 * np.stack([-true[:, 1], true[:, 0]], axis=1)
  assert take.with_forces(true, turned).off == pytest.approx((90, 2))
  # Across the cut of the angle.
  flipped = true * [1.0, -1.0]
  angle, ratio = take.with_forces(true, flipped).off
  assert (angle, ratio) == pytest.approx((np.degrees(2 * np.arctan(0.01)), 1))


def test_errors_by_hand():
  true = np.zeros((4, 1, 2))
  path = true.copy()
  path[0], path[2] = np.nan, [3.0, 4.0]
  assert film.error(path, true, 2) == pytest.approx(2.5)


def test_the_earth_is_known_by_its_orbit(tmp_path):
  path = wm.film('uniform()', tmp_path, SOLAR, systems=8, prefix=4)
  names = [take['name'] for take in read(path)]
  assert any(name.startswith('1 AU (e 0.017)') for name in names)
  assert {take['start'] for take in read(path)} == {4}


def test_an_orbit_is_known_by_its_state():
  speed = (library.GRAVITY * 2 * 1.5 / (2 * 0.5)) ** 0.5  # At the periapsis.
  name = library._orbit(0, 1.0, -speed, 0, 0.5, 1.5)
  assert name == '2 AU (e 0.5) of 0.5 and 1.5 suns'
  states = np.tile([1.0, 0, 0, 2 * np.pi, 0, 1], (2, 1))
  name = library._name(states, 3, 0.25)
  assert name == '2 planets, 1 AU (e 0), 1 AU (e 0); every 0.25 years'


@pytest.mark.parametrize(
  ('flags', 'says'),
  [
    (('--world=lattice()', '--model=uniform()'), 'has no moving bodies'),
    ((f'--world={SPEC}', '--model=uniform()', '--prefix=10'), '2 to 9'),
    ((f'--world={SPEC}', '--model=uniform()', '--prefix=1'), '2 to 9'),
    ((f'--world={SPEC}', '--model=uniform()', '--systems=0'), 'systems'),
    (
      (f'--world={SPEC}', '--model=ballistic()', '--forces=force_vector'),
      'ballistic cannot be tuned to tell forces',
    ),
    (
      (f'--world={SPEC}', '--model=uniform()', '--forces=log_force'),
      'forces=log_force was given; expected acceleration_vector or',
    ),
    (
      (f'--world={SPEC}', '--model=uniform()', '--forces=force_law(num=2)'),
      'expected acceleration_vector or force_vector, or a force_law(num=1',
    ),
  ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, flags, says):
  out = tmp_path / 'out'
  assert says in binaries.refused('film', *flags, f'--out={out}')
  assert not (out / 'film.html').exists()


@pytest.mark.slow
def test_a_browser_plays_it(page, tmp_path):
  browser = shutil.which('chromium') or shutil.which('chromium-browser')
  if not browser:
    pytest.skip('no Chromium on this machine')
  done = subprocess.run(
    [
      *(browser, '--headless', '--no-sandbox', '--disable-gpu', '--dump-dom'),
      *('--no-first-run', '--disable-background-networking'),
      f'--user-data-dir={tmp_path / "profile"}',
      f'{page.as_uri()}#1,7',
    ],
    check=True,
    capture_output=True,
    text=True,
    timeout=600,
    env={**os.environ, 'HOME': str(tmp_path)},
  )
  assert re.search(r'frame 7, \d\.\d\d years, by itself', done.stdout)
