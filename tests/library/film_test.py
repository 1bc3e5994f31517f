"""Films of orbits, as predictors say them that are known."""

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
from wm.core import registry
from wm.library import film as library
from wm.models.serving import stateless
from wm.reporting import film

SPEC = 'orbits(rows=21)'
SOLAR = "orbits(systems='solar', box=3.2, steps=(0.02, 0.04), rows=21)"


class Knowing(stateless.Stateless):
  """Knows the sequences of a sample."""

  def __init__(self, world: core.Moving, known: np.ndarray) -> None:
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


def read(path) -> list[dict]:
  """The data of a page."""
  text = path.read_text(encoding='utf-8')
  (found,) = re.findall(r'id="data">(.*?)</script>', text, re.S)
  return json.loads(found)


@pytest.fixture(scope='module')
def world() -> core.Moving:
  return registry.make('world', SPEC)


@pytest.fixture(scope='module')
def page(world, tmp_path_factory):
  known = world.sample(3, 0, split='heldout').tokens
  out = tmp_path_factory.mktemp('film')
  return wm.film(Knowing(world, known), out, world, systems=3)


def test_who_knows_the_bins_is_where_they_are_seen(world, page):
  takes = read(page)
  assert len(takes) == 3
  motion = world.motion(world.sample(3, 0, split='heldout'))
  for n, take in enumerate(takes):
    assert take['start'] == 5  # Half of ten frames of two bodies.
    assert take['years'] == motion.step[n]
    np.testing.assert_allclose(
      np.array(take['true']).reshape(20, 2), motion.position[n], atol=1e-6
    )
    assert take['said'] == take['seen']
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
    timeout=120,
    env={**os.environ, 'HOME': str(tmp_path)},
  )
  assert re.search(r'frame 7, \d\.\d\d years, by itself', done.stdout)
