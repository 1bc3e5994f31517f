"""Predictors of moving bodies: straight lines, and orbits fitted to the bins.

They are processes (`process`) that extrapolate the position of each body of a
world of orbits. `wm.kernels.orbit_fits` fits the orbits.

The state of a `Track`, and of a `FittedTrack`, in int32 words:

  prompt | tokens of the last two frames, the latest last
  2      | 4 per body; PAD before the first frames

  `Track` | tokens so far | bins so far | theta    covariance
  10      | 1             | 2 per row   | 8        64, as float64
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
NUMBERS = 8  # Parameters of a fitted orbit.
# Limits of standard errors, in bins and in boxes; beyond these no digit
# changes.
SURE, LOST = 1e-6, 1.0


class Track(process.ProcessPredictor):
  """Predicts each coordinate near a guess from the body's last positions.

  The probability of a bin is a normal density around the guess, whose standard
  deviation is a bin. Without a guess, bins are uniform. Both tokens of the
  prompt name the time step.
  """

  def __init__(self, world: core.World, weights: tuple[int, ...]) -> None:
    """See the class.

    Args:
      world: the world of moving bodies.
      weights: of the last frame and of the one before; the guess is the
        weighted sum of the two, or the only frame so far.

    Raises:
      InputError: the world has no moving bodies, or their number varies.
    """
    if not core.can(world, core.Latent.trajectory):
      raise core.InputError(
        f'{registry.spec(world)} shows no moving bodies; expected a world that '
        'does (core.Latent.trajectory)'
      )
    # A token does not name its body. The body follows from the position, if all
    # systems have equally many bodies.
    sizes = np.unique(world.trajectory(world.sample(64, 0)).bodies)
    if len(sizes) != 1:
      raise core.InputError(
        f'{world.name}: systems of {sizes.min()} to {sizes.max()} bodies were '
        'drawn, which tokens do not tell apart; expected one number of bodies'
      )
    self.vocab_size, self.end = len(world.vocab), world.end
    self.max_len, self._prompt = world.max_len, world.prompt_len
    self.bodies = int(sizes[0])
    # A frame has x and y of each body: a coordinate recurs after 2 * bodies.
    self._lag, self._weights = 2 * self.bodies, weights
    meant = np.isfinite(world.coordinates(np.arange(self.vocab_size)))
    self._bins = np.flatnonzero(meant)

  @property
  def words(self) -> int:
    """Number of int32 words of a state."""
    return 2 + 2 * self._lag

  def init(self, batch: int) -> np.ndarray:
    """See core.SequenceProcess."""
    return np.zeros((batch, self.words), np.int32)

  def advance(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Shifts the frames; the first word counts the tokens of the prompt."""
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
    """See ProcessPredictor; one row per guess, which many states share."""
    # state  prompt | t-2n ... t-n-1 | t-n ... t-1     n = lag, tokens
    #                  before           last            of the next coordinate
    last, before = states[:, 2 + self._lag], states[:, 2]
    guess = last.copy()
    if len(self._weights) == 2:
      both = self._weights[0] * last + self._weights[1] * before
      guess = np.where(before == core.PAD, last, both)
    # A guess beyond the box is moved to its wall.
    guess = np.clip(guess, self._bins[0], self._bins[-1])
    guess = np.where(last == core.PAD, core.PAD, guess)
    first = (states[:, 0] > 0) & (states[:, 0] < self._prompt)
    # Within the prompt, the guess is the first time step. Before it and before
    # the first frame there is no guess.
    guess = np.where(first, -states[:, 1], guess)
    guess = np.where(states[:, 0] == 0, -self.vocab_size, guess)
    guesses, index = np.unique(guess, return_inverse=True)
    table = np.stack([self._row(guess) for guess in guesses.tolist()])
    return process.all_tokens(table), index.reshape(-1)

  def _row(self, guess: int) -> np.ndarray:
    """[V] log-probabilities.

    guess: a bin's token; PAD for any bin; minus a time step's token; minus the
      size of the vocabulary for any time step.
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
      # A normal density at the bins' centres, normalised below.
      falling = -0.5 * (self._bins - guess) ** 2
      row[self._bins] = falling - np.log(np.exp(falling).sum())
    return row


@dataclasses.dataclass(frozen=True)
class TrackModel(core.Model):
  """Predicts each coordinate near a weighted sum of the last two frames.

  Attributes:
    weights: of the last frame and of the one before, see `Track`.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Latent.trajectory,)
  gives: ClassVar[tuple[type, ...]] = (Track,)
  weights: ClassVar[tuple[int, ...]]

  def predictor(self, world: core.World, seed: int) -> Track:
    """See core.Model; raises InputError if the world has no moving bodies."""
    del seed
    return Track(world, self.weights)


class FittedTrack(process.ProcessPredictor):
  """Predicts each coordinate near a fitted two-body orbit.

  The probability of a bin is the mass of a normal distribution in the bin,
  whose mean is on the orbit and whose variance follows from rounding to bins.
  Orbits are fitted to whole rows: the prediction of y does not depend on its x.
  Without a fitted orbit, bodies move in straight lines, see `Track`.
  """

  many_states = True  # All bins so far are part of a state.

  def __init__(self, world: core.World) -> None:
    """See the class.

    Args:
      world: the world of moving bodies.

    Raises:
      InputError: see `Track`, or there is more than one planet.
    """
    self._straight = Track(world, (2, -1))
    assert core.can(world, core.Latent.trajectory)  # `Track` has checked.
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
    # Numbers of rows after which an orbit is fitted again.
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
    """See ProcessPredictor; the orbit is fitted once, to the whole prefix."""
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
    # Tokens beyond the longest sequence are ignored.
    at = after[:, self._count] - self._prompt
    inside = np.flatnonzero((at >= 0) & (at < self._orbit - self._seen))
    after[inside, self._seen + at[inside]] = tokens[inside]
    after[:, self._count] += 1
    whole = (at[inside] + 1) % ROW == 0
    turn = np.isin((at[inside] + 1) // ROW, self._turns)
    self._fit(after, inside[whole & turn])
    return after[index]

  def _fit(self, states: np.ndarray, which: np.ndarray) -> None:
    """Writes fitted orbits into some states; NaN where no orbit fits."""
    if not which.size:
      return
    states[which, self._orbit :] = _packed(
      np.full((len(which), NUMBERS + NUMBERS**2), np.nan)
    )
    # A state has the fit of the last scheduled row: it depends only on the
    # tokens, not on the calls that appended them.
    rows = (states[which, self._count] - self._prompt) // ROW
    # There is no fit before the first scheduled row.
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
    # The unit of time is a frame; positions do not depend on the unit.
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
    # States without an orbit keep the straight-line prediction.
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
      # Selects the coordinate of the next token in its row.
      axis = np.arange(len(fitted)), 0, at % ROW
      options.log_probs[fitted] = -np.inf
      options.log_probs[fitted[:, None], self._bins] = self._masses(
        mean[axis], error[axis]
      )
    return options

  def _masses(self, mean: np.ndarray, error: np.ndarray) -> np.ndarray:
    """[R, bins] log masses of normal distributions restricted to the box."""
    low, high = SURE * self._width, LOST * np.ptp(self._edges)
    z = (self._edges - mean[:, None]) / np.clip(error, low, high)[:, None]
    # Computed in the lower tail, where differences are exact.
    upper = z[:, :-1] > 0
    near, far = (
      scipy.special.log_ndtr(np.where(upper, -a, b))
      for a, b in ((z[:, :-1], z[:, 1:]), (z[:, 1:], z[:, :-1]))
    )
    mass = near + np.log1p(-np.exp(far - near))
    return mass - scipy.special.logsumexp(mass, axis=1, keepdims=True)


def _packed(numbers: np.ndarray) -> np.ndarray:
  return np.ascontiguousarray(numbers).view(np.int32)
