"""Predictors of moving bodies: straight lines, and orbits fitted to the bins.

A world of orbits comes in; a process goes out (`process`), which guesses where
each body is next. `wm.kernels.orbit_fits` fits the orbits.

The state of a `Track`, and of a `FittedTrack`, in int32 words:

  prompt | tokens of the last two frames, the latest last
  2      | 4 a body; PAD where there was none

  straight on | tokens so far | bins seen | theta    covariance
  10          | 1             | 2 a row   | 8        64, as float64
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import scipy

from wm import core
from wm.core import basics, registry
from wm.core.capabilities import ROW
from wm.kernels import orbit_fits
from wm.models.serving import process

PAIR = 2  # Bodies of an orbit.
NUMBERS = 8  # Of a fitted orbit.
# Standard errors of less and of more, in bins and in boxes, change no digit.
SURE, LOST = 1e-6, 1.0


class Track(process.ProcessPredictor):
  """Each coordinate is near a guess from that of the same body before.

  The logarithm of a bin's probability falls with the square of its distance
  from the guess, in bins. Without a guess all bins are alike. The time step is
  named twice.
  """

  def __init__(
    self, world: core.World, weights: tuple[int, ...], spread: float
  ) -> None:
    """See above.

    Args:
      world: whose bodies are followed.
      weights: of the frame before and of the one before that; the guess is
        their sum, and where only one frame was seen, what it shows.
      spread: standard deviation of a coordinate around the guess, bins.

    Raises:
      InputError: the world shows no bodies, their number differs, or spread
        is not above 0.
    """
    if not core.can(world, core.Latent.trajectory):
      raise core.InputError(
        f'{registry.spec(world)} shows no moving bodies; expected a world that '
        'does (core.Latent.trajectory)'
      )
    if not 0 < spread < np.inf:
      raise core.InputError(f'spread={spread} was given; expected bins > 0')
    # A token does not say whose coordinate it is: that follows from its place,
    # if all systems have as many bodies.
    sizes = np.unique(world.trajectory(world.sample(64, 0)).bodies)
    if len(sizes) != 1:
      raise core.InputError(
        f'{world.name}: systems of {sizes.min()} to {sizes.max()} bodies were '
        'drawn, which tokens do not tell apart; expected one number of bodies'
      )
    self.vocab_size, self.end = len(world.vocab), world.end
    self.max_len, self._prompt = world.max_len, world.prompt_len
    self.bodies = int(sizes[0])
    # A frame has x and y of each body: the same coordinate is 2 bodies back.
    self._lag, self._weights = 2 * self.bodies, weights
    meant = np.isfinite(world.coordinates(np.arange(self.vocab_size)))
    self._bins, self._spread = np.flatnonzero(meant), spread

  @property
  def words(self) -> int:
    """Words of a state."""
    return 2 + 2 * self._lag

  def init(self, batch: int) -> np.ndarray:
    """See core.SequenceProcess."""
    return np.zeros((batch, self.words), np.int32)

  def advance(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Shifts the frames; the first word counts the prompt, then stands."""
    after, seen = states.copy(), states[:, 0] >= self._prompt
    after[~seen, 0] += 1
    after[~seen, 1] = tokens[~seen]
    after[seen, 2:-1] = states[seen, 3:]
    after[seen, -1] = tokens[seen]
    return after

  def next(self, states: np.ndarray) -> process.NextTokens:
    """See core.SequenceProcess."""
    options, index = self.lookup(states)
    return options.take(index)

  def lookup(self, states: np.ndarray) -> tuple[process.NextTokens, np.ndarray]:
    """See ProcessPredictor; one for each guess, which many states share."""
    # state  prompt | t-2n ... t-n-1 | t-n ... t-1     n = lag, tokens
    #                  before           last            of the coordinate next
    last, before = states[:, 2 + self._lag], states[:, 2]
    guess = last.copy()
    if len(self._weights) == 2:
      both = self._weights[0] * last + self._weights[1] * before
      guess = np.where(before == core.PAD, last, both)
    # A body that leaves the box is guessed at its wall.
    guess = np.clip(guess, self._bins[0], self._bins[-1])
    guess = np.where(last == core.PAD, core.PAD, guess)
    first = (states[:, 0] > 0) & (states[:, 0] < self._prompt)
    # Of the prompt the step itself; before it, and before a frame, no guess.
    guess = np.where(first, -states[:, 1], guess)
    guess = np.where(states[:, 0] == 0, -self.vocab_size, guess)
    guesses, index = np.unique(guess, return_inverse=True)
    table = np.stack([self._row(guess) for guess in guesses.tolist()])
    return process.all_tokens(table), index.reshape(-1)

  def _row(self, guess: int) -> np.ndarray:
    """[V] log-probabilities.

    guess: a bin's token, PAD where any bin may be, minus a time step's token,
      and minus the size of the vocabulary where any time step may be.
    """
    row = np.full(self.vocab_size, -np.inf, np.float32)
    if guess == -self.vocab_size:
      steps = np.arange(1, self._bins[0])
      row[steps] = -np.log(len(steps))
    elif guess < 0:
      row[-guess] = 0
    elif guess == core.PAD:
      row[self._bins] = -np.log(len(self._bins))
    else:
      # A normal density at the bins' centres, made to add up to 1 below.
      falling = -0.5 * ((self._bins - guess) / self._spread) ** 2
      row[self._bins] = falling - np.log(np.exp(falling).sum())
    return row


@dataclasses.dataclass(frozen=True)
class TrackModel(core.Model):
  """Each coordinate is near a weighted sum of those of the last frames.

  Attributes:
    weights: of the frame before and of the one before that, see `Track`.
    spread: standard deviation of a coordinate around the guess, bins.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Latent.trajectory,)
  gives: ClassVar[tuple[type, ...]] = (Track,)
  weights: ClassVar[tuple[int, ...]]

  spread: float = 1.0

  def predictor(self, world: core.World, seed: int) -> Track:
    """See core.Model; raises InputError where the world shows no bodies."""
    del seed
    return Track(world, self.weights, self.spread)


class FittedTrack(process.ProcessPredictor):
  """Each coordinate is near a fitted orbit of two bodies, by its own error.

  A bin's probability is the mass that a normal distribution has in it: its mean
  is where the orbit will be, and its variance follows from rounding to bins.
  An orbit is fitted to whole rows: y is told as x is, and does not know it.
  Until one can be fitted bodies go straight on, see `Track`.
  """

  many_states = True  # The bins seen are part of a state.

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
    # Offsets of the parts of a state, see the module's docstring.
    self._count = self._straight.words
    self._seen = self._count + 1
    self._orbit = self._seen + self.max_len - self._prompt
    # Numbers of rows at which an orbit is fitted anew.
    self._turns = orbit_fits.turns((self.max_len - self._prompt) // ROW)
    centres = world.coordinates(np.arange(self.vocab_size))
    self._bins = np.flatnonzero(np.isfinite(centres))
    centres = centres[self._bins]
    # bins + 1 edges, half a bin below each centre.
    self._edges = np.append(centres, centres[-1] + self._width)
    self._edges -= self._width / 2

  def init(self, batch: int) -> np.ndarray:
    """See core.SequenceProcess."""
    return self.read(np.zeros((batch, 0), np.int32), np.zeros(batch, np.int32))

  def read(self, prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See ProcessPredictor; an orbit is fitted once, to the whole prefix."""
    lengths = np.asarray(lengths)
    words = self._orbit + 2 * (NUMBERS + NUMBERS**2)
    states = np.zeros((len(lengths), words), np.int32)
    states[:, : self._count] = self._straight.read(prefixes, lengths)
    states[:, self._count] = lengths
    room = self._orbit - self._seen
    seen = np.asarray(prefixes)[:, self._prompt :][:, :room]
    inside = np.arange(seen.shape[1]) < lengths[:, None] - self._prompt
    places = slice(self._seen, self._seen + seen.shape[1])
    states[:, places] = np.where(inside, seen, core.PAD)
    self._fit(states, np.arange(len(states)))
    return states

  def advance(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.SequenceProcess; equal states are fitted once."""
    both = np.concatenate([states, np.asarray(tokens)[:, None]], axis=1)
    first, index = basics.distinct(both)
    after, tokens = both[first, :-1], both[first, -1]
    straight = slice(0, self._count)
    after[:, straight] = self._straight.advance(after[:, straight], tokens)
    # Tokens past the longest sequence have no place, and change no fit.
    at = after[:, self._count] - self._prompt
    inside = np.flatnonzero((at >= 0) & (at < self._orbit - self._seen))
    after[inside, self._seen + at[inside]] = tokens[inside]
    after[:, self._count] += 1
    whole = (at[inside] + 1) % ROW == 0
    turn = np.isin((at[inside] + 1) // ROW, self._turns)
    self._fit(after, inside[whole & turn])
    return after[index]

  def _fit(self, states: np.ndarray, which: np.ndarray) -> None:
    """Orbits of some of the states, into them; NaN where there is none."""
    if not which.size:
      return
    states[which, self._orbit :] = _packed(
      np.full((len(which), NUMBERS + NUMBERS**2), np.nan)
    )
    # A state has the fit of the last turn: it depends on the tokens alone, not
    # on how they were appended.
    rows = (states[which, self._count] - self._prompt) // ROW
    # Before the first turn, which a short world may not have, there is no fit.
    turns = np.append(0, self._turns)
    num_rows = turns[np.searchsorted(self._turns, rows, 'right')]
    tokens = states[which, self._seen : self._orbit]
    seen = self._world.coordinates(tokens).reshape(len(which), -1, ROW)
    seen[~np.isfinite(seen).all(-1)] = np.nan
    read = np.isfinite(seen[..., 0]) & (
      np.arange(seen.shape[1]) < num_rows[:, None]
    )
    frames = (read[:, 0::2][:, : read.shape[1] // 2] & read[:, 1::2]).sum(1)
    use = np.flatnonzero(frames >= orbit_fits.FEWEST)
    if not use.size:
      return
    # A frame is the unit of time: positions do not depend on it.
    fit = orbit_fits.through(
      seen[use], num_rows[use], np.ones(len(use)), self._width
    )
    numbers = np.concatenate(
      [fit.theta, fit.covariance.reshape(len(use), NUMBERS**2)], axis=1
    )
    numbers[~fit.good] = np.nan
    states[which[use], self._orbit :] = _packed(numbers)

  def next(self, states: np.ndarray) -> process.NextTokens:
    """See core.SequenceProcess."""
    options = self._straight.next(states[:, : self._count])
    packed = np.ascontiguousarray(states[:, self._orbit :])
    numbers = packed.view(np.float64)
    # States without an orbit keep the straight line's prediction.
    fitted = np.flatnonzero(np.isfinite(numbers).all(1))
    fitted = fitted[states[fitted, self._count] >= self._prompt]
    if fitted.size:
      theta, covariance = np.split(numbers[fitted], [NUMBERS], axis=1)
      at = states[fitted, self._count] - self._prompt
      mean, error = orbit_fits.foretold(
        theta,
        covariance.reshape(-1, NUMBERS, NUMBERS),
        np.ones(len(fitted)),
        at[:, None] // ROW,
      )
      # Of a row's coordinates, the one that the next token is.
      axis = np.arange(len(fitted)), 0, at % ROW
      options.log_probs[fitted] = -np.inf
      options.log_probs[fitted[:, None], self._bins] = self._masses(
        mean[axis], error[axis]
      )
    return options

  def _masses(self, mean: np.ndarray, error: np.ndarray) -> np.ndarray:
    """[R, bins] log masses of normal distributions, of 1 within the box."""
    low, high = SURE * self._width, LOST * np.ptp(self._edges)
    z = (self._edges - mean[:, None]) / np.clip(error, low, high)[:, None]
    # On the side of the lower tail, where differences are exact.
    upper = z[:, :-1] > 0
    near, far = (
      scipy.special.log_ndtr(np.where(upper, -a, b))
      for a, b in ((z[:, :-1], z[:, 1:]), (z[:, 1:], z[:, :-1]))
    )
    mass = near + np.log1p(-np.exp(far - near))
    return mass - scipy.special.logsumexp(mass, axis=1, keepdims=True)


def _packed(numbers: np.ndarray) -> np.ndarray:
  return np.ascontiguousarray(numbers).view(np.int32)
