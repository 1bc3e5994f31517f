"""Orbits against vectorised NumPy: two bodies, 500 points each, as bins."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.bench import harness
from wm.core import registry
from wm.kernels import orbits
from wm.worlds.orbits import systems

NUM, ROWS, BOX, BINS = 500, 1000, 50.0, 7000
# Systems at a time that NumPy is fastest with, of 4, 16, 64 and 500.
BLOCK = 16


def _numpy(several: orbits.Systems) -> np.ndarray:
  """[N, ROWS, 2] bins of systems of one planet, by Halley's iteration."""
  a, e, turn = several.axis, several.eccentricity, several.periapsis
  frames = np.arange(ROWS // 2)
  mean = several.mean + several.motion * several.step[:, None] * frames
  mean -= 2 * np.pi * np.floor(mean / (2 * np.pi) + 0.5)
  sine = np.sin(mean)
  x = mean + e * sine / (1 - np.sin(np.abs(mean) + e) + np.sin(np.abs(mean)))
  for _ in range(20):
    s, c = e * np.sin(x), 1 - e * np.cos(x)
    f = x - s - mean
    d = f / c
    d = f / (c - 0.5 * d * s)
    x -= d
    if np.abs(d).max() < 1e-9:
      break
  along, across = a * (np.cos(x) - e), a * np.sqrt(1 - e * e) * np.sin(x)
  ct, st = np.cos(turn), np.sin(turn)
  place = np.empty((len(a), ROWS // 2, 2, 2))
  place[:, :, 0, 0] = ct * along - st * across
  place[:, :, 0, 1] = st * along + ct * across
  share = several.mass[:, 0] / (several.mass[:, 0] + several.star)
  sun = several.centre[:, None] - share[:, None, None] * place[:, :, 0]
  place[:, :, 0] += sun
  place[:, :, 1] = sun
  place += BOX
  place *= BINS / (2 * BOX)
  result = np.floor(place, out=place).astype(np.int32)
  return np.clip(result, 0, BINS - 1).reshape(len(a), ROWS, 2)


def bench_orbits() -> Iterator[harness.Line]:
  """Bins of published two-body systems, elements given."""
  spec = "orbits(systems='exoplanets', steps=(0.0189, 0.486), centre=1.0)"
  world = registry.make('world', spec)
  sample = systems.draw(world, 1, np.arange(NUM))
  parts = [sample.take(slice(k, k + BLOCK)) for k in range(0, NUM, BLOCK)]

  def plain() -> np.ndarray:
    return np.concatenate([_numpy(part) for part in parts])

  def compiled() -> np.ndarray:
    return orbits.bins(sample, ROWS, BOX, BINS)[0]

  if (plain() != compiled()).mean() > 1e-6:
    raise AssertionError('NumPy and the kernel give other bins')
  timing, slow = harness.measure(compiled), harness.measure(plain)
  yield harness.compared(
    'orbits, two bodies, 500 points',
    NUM / timing.cpu,
    'systems/CPU-s',
    *(timing, slow, f'NumPy, {BLOCK} systems at a time'),
    target='4 x',
  )
