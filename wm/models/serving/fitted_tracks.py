"""A predictor that fits an orbit to the bins so far, and goes on along it.

memory | straight on | tokens so far | bins seen | theta    covariance
words  | 10          | 1             | 2 a row   | 8        64, as float64
"""

from __future__ import annotations

import numpy as np
from scipy import special

from wm import core
from wm.core.latent import ROW
from wm.kernels import orbits
from wm.models.serving.state_session import Stateful, Support, distinct
from wm.models.serving.tracks import Track

PAIR = 2  # Bodies of an orbit.
NUMBERS = 8  # Of a fitted orbit.
# Standard errors of less and of more, in bins and in boxes, change no digit.
SURE, LOST = 1e-6, 1.0


class FittedTrack(Stateful):
  """Each coordinate is near a fitted orbit of two bodies, by its own error.

  A bin's probability is the mass that a normal distribution has in it: its mean
  is where the orbit will be, and its variance follows from rounding to bins.
  An orbit is fitted to whole rows: y is told as x is, and does not know it.
  Until one can be fitted bodies go straight on, see `Track`.
  """

  def __init__(self, world: core.World, spread: float) -> None:
    """See above.

    Args:
      world: whose bodies are followed.
      spread: standard deviation around where straight lines lead, bins.

    Raises:
      InputError: as of `Track`, or there is more than one planet.
    """
    self._straight = Track(world, (2, -1), spread)
    assert core.can(world, core.Latent.trajectory)  # By the line before.
    bodies = self._straight.bodies
    if bodies != PAIR:
      raise core.InputError(
        f'{world.name}: systems of {bodies} bodies were drawn; expected 2, as '
        'an orbit is fitted to one planet and its sun'
      )
    self.vocab_size, self.end = len(world.vocab), world.end
    self.max_len, self._prompt = world.max_len, world.prompt_len
    self._world, self._width = world, world.width
    self._count = self._straight.words
    self._seen = self._count + 1
    self._orbit = self._seen + self.max_len - self._prompt
    self._turns = orbits.turns((self.max_len - self._prompt) // ROW)
    centres = world.coordinates(np.arange(self.vocab_size))
    self._bins = np.flatnonzero(np.isfinite(centres))
    centres = centres[self._bins]
    self._edges = np.append(centres, centres[-1] + self._width)
    self._edges -= self._width / 2

  def enter(self, prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See Stateful."""
    lengths = np.asarray(lengths)
    words = self._orbit + 2 * (NUMBERS + NUMBERS**2)
    states = np.zeros((len(lengths), words), np.int32)
    states[:, : self._count] = self._straight.enter(prefixes, lengths)
    states[:, self._count] = lengths
    room = self._orbit - self._seen
    seen = np.asarray(prefixes)[:, self._prompt :][:, :room]
    there = np.arange(seen.shape[1]) < lengths[:, None] - self._prompt
    places = slice(self._seen, self._seen + seen.shape[1])
    states[:, places] = np.where(there, seen, core.PAD)
    self._fit(states, np.arange(len(states)))
    return states

  def follow(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See Stateful; equal states are fitted once."""
    own = np.concatenate([states, np.asarray(tokens)[:, None]], axis=1)
    first, place = distinct(own)
    after, tokens = own[first, :-1], own[first, -1]
    straight = slice(0, self._count)
    after[:, straight] = self._straight.follow(after[:, straight], tokens)
    at = after[:, self._count] - self._prompt
    inside = np.flatnonzero((at >= 0) & (at < self._orbit - self._seen))
    after[inside, self._seen + at[inside]] = tokens[inside]
    after[:, self._count] += 1
    whole = (at[inside] + 1) % ROW == 0
    turn = np.isin((at[inside] + 1) // ROW, self._turns)
    self._fit(after, inside[whole & turn])
    return after[place]

  def _fit(self, states: np.ndarray, which: np.ndarray) -> None:
    """Orbits of some of the states, into them; NaN where there is none."""
    if not which.size:
      return
    states[which, self._orbit :] = _packed(
      np.full((len(which), NUMBERS + NUMBERS**2), np.nan)
    )
    rows = (states[which, self._count] - self._prompt) // ROW
    last = np.searchsorted(self._turns, rows, 'right') - 1
    known = np.where(last >= 0, self._turns[np.maximum(last, 0)], 0)
    tokens = states[which, self._seen : self._orbit]
    seen = self._world.coordinates(tokens).reshape(len(which), -1, ROW)
    seen[~np.isfinite(seen).all(-1)] = np.nan
    read = np.isfinite(seen[..., 0]) & (
      np.arange(seen.shape[1]) < known[:, None]
    )
    frames = (read[:, 0::2][:, : read.shape[1] // 2] & read[:, 1::2]).sum(1)
    use = np.flatnonzero(frames >= orbits.FEWEST)
    if not use.size:
      return
    # A frame is the unit of time: positions do not depend on it.
    fit = orbits.through(seen[use], known[use], np.ones(len(use)), self._width)
    found = np.concatenate(
      [fit.theta, fit.covariance.reshape(len(use), NUMBERS**2)], axis=1
    )
    found[~fit.good] = np.nan
    states[which[use], self._orbit :] = _packed(found)

  def known(self, states: np.ndarray) -> tuple[Support, np.ndarray]:
    """See Stateful."""
    first, place = distinct(states)
    some = states[first]
    found = self._straight.options(some[:, : self._count])
    packed = np.ascontiguousarray(some[:, self._orbit :])
    numbers = packed.view(np.float64)
    fitted = np.flatnonzero(np.isfinite(numbers).all(1))
    fitted = fitted[some[fitted, self._count] >= self._prompt]
    if fitted.size:
      theta, covariance = np.split(numbers[fitted], [NUMBERS], axis=1)
      at = some[fitted, self._count] - self._prompt
      mean, error = orbits.foretold(
        theta,
        covariance.reshape(-1, NUMBERS, NUMBERS),
        np.ones(len(fitted)),
        at[:, None] // ROW,
      )
      axis = np.arange(len(fitted)), 0, at % ROW
      found.log_probs[fitted] = -np.inf
      found.log_probs[fitted[:, None], self._bins] = self._masses(
        mean[axis], error[axis]
      )
    return found, place

  def _masses(self, mean: np.ndarray, error: np.ndarray) -> np.ndarray:
    """[R, bins] log masses of normal distributions, of 1 within the box."""
    low, high = SURE * self._width, LOST * np.ptp(self._edges)
    z = (self._edges - mean[:, None]) / np.clip(error, low, high)[:, None]
    # On the side of the lower tail, where differences are exact.
    upper = z[:, :-1] > 0
    near, far = (
      special.log_ndtr(np.where(upper, -a, b))
      for a, b in ((z[:, :-1], z[:, 1:]), (z[:, 1:], z[:, :-1]))
    )
    mass = near + np.log1p(-np.exp(far - near))
    return mass - special.logsumexp(mass, axis=1, keepdims=True)


def _packed(numbers: np.ndarray) -> np.ndarray:
  return np.ascontiguousarray(numbers).view(np.int32)
