"""How many frames fix the next ones: what bins say of an orbit, to first order.

Around the true orbit, positions are linear in its elements, and a bin is a
measurement with the variance of a uniform number, width^2 / 12. The error of
positions to come follows from the inverse of the information that n frames
give (least squares, with the spread of the drawn systems as the prior).
"""

from __future__ import annotations

import numpy as np

from wm.kernels import orbits

STEP = 1e-5  # Of a derivative by central differences.
# Spreads of what is unknown before any frame: of each planet the logarithm of
# its axis, eccentricity along both axes, mean longitude, logarithm of its mass;
# then the logarithm of the sun's mass and the centre, AU.
PLANET, SYSTEM = (0.5, 0.4, 0.4, 2.0, 1.0), (1.0, 2.0, 2.0)


def spread(
  systems: orbits.Systems, frames: int, ahead: int, width: float
) -> np.ndarray:
  """Greatest error of a coordinate in the next frames, by frames seen.

  Args:
    systems: N of them, as of the first frame that may be seen.
    frames: F, the most that may be seen; the last ones of these are.
    ahead: frames after them that are judged.
    width: of a bin, AU.

  Returns:
    [N, F] float64 standard deviation in AU after 1..F frames.
  """
  total = int((frames + ahead) * (systems.planets.max(initial=0) + 1))
  slopes = _slopes(systems, total)  # [N, P, rows, 2].
  size, unknown = slopes.shape[:2]
  bodies = systems.planets + 1
  frame = np.arange(total)[None] // bodies[:, None]  # [N, rows].
  prior = np.tile(PLANET, systems.mass.shape[1])
  information = np.zeros((size, unknown, unknown))
  information[:] = np.diag(np.concatenate([prior, SYSTEM]) ** -2.0)
  coming = (frame >= frames) & (frame < frames + ahead)
  next_ = np.where(coming[:, None, :, None], slopes, 0)
  next_ = next_.reshape(size, unknown, -1)
  found = np.empty((size, frames))
  for seen in range(1, frames + 1):
    here = (frame == frames - seen)[:, None, :, None]
    part = np.where(here, slopes, 0).reshape(size, unknown, -1)
    information += part @ part.transpose(0, 2, 1) * (12 / width**2)
    error = np.linalg.solve(information, next_)
    square = (next_ * error).sum(1).max(-1)
    found[:, seen - 1] = np.sqrt(np.maximum(square, 0))
  return found


def _slopes(systems: orbits.Systems, rows: int) -> np.ndarray:
  """[N, P, rows, 2] derivatives of positions by all that is unknown."""
  found = []
  for planet in range(systems.mass.shape[1]):
    for which in range(len(PLANET)):
      pair = (_moved(systems, planet, which, sign) for sign in (STEP, -STEP))
      found.append([orbits.positions(some, rows) for some in pair])
  star = [
    systems._replace(star=systems.star * np.exp(sign)) for sign in (STEP, -STEP)
  ]
  found.append([orbits.positions(some, rows) for some in star])
  for axis in range(2):
    push = STEP * np.eye(2)[axis]
    pair = (systems._replace(centre=systems.centre + s * push) for s in (1, -1))
    found.append([orbits.positions(some, rows) for some in pair])
  both = np.array(found)  # [P, 2, N, rows, 2].
  return ((both[:, 0] - both[:, 1]) / (2 * STEP)).swapaxes(0, 1)


def _moved(
  systems: orbits.Systems, planet: int, which: int, by: float
) -> orbits.Systems:
  """Systems with one number of a planet's orbit changed."""
  axis, mass = systems.axis.copy(), systems.mass.copy()
  e, turn = systems.eccentricity[:, planet], systems.periapsis[:, planet]
  k, h = e * np.cos(turn), e * np.sin(turn)
  longitude = systems.mean[:, planet] + turn
  if which == 0:
    axis[:, planet] *= np.exp(by)
  elif which == 1:
    k = k + by
  elif which == 2:
    h = h + by
  elif which == 3:
    longitude = longitude + by
  else:
    mass[:, planet] *= np.exp(by)
  eccentricity, periapsis = (
    systems.eccentricity.copy(),
    systems.periapsis.copy(),
  )
  mean = systems.mean.copy()
  eccentricity[:, planet] = np.minimum(np.hypot(k, h), 1 - 1e-9)
  periapsis[:, planet] = np.arctan2(h, k)
  mean[:, planet] = longitude - periapsis[:, planet]
  return systems._replace(
    axis=axis,
    mass=mass,
    eccentricity=eccentricity,
    periapsis=periapsis,
    mean=mean,
  )
