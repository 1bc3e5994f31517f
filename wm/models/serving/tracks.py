"""Predictors of moving bodies that stay, or go on in straight lines.

They are processes (`process`) that extrapolate the position of each body of a
world of orbits.

The state of a `Track`, in int32 words:

  prompt | tokens of the last two frames, the latest last
  2      | 4 per body; PAD before the first frames
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import registry
from wm.models.serving import process


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
