"""Predictors that go on from where each body was: no physics.

state   prompt | tokens of the last two frames, the latest last
words   2      | 4 a body; PAD where there was none
"""

from __future__ import annotations

import numpy as np

from wm import core
from wm.core import registry
from wm.models.serving.state_session import Support
from wm.models.serving.tables import Tabulated


class Track(Tabulated):
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
    sizes = np.unique(world.trajectory(world.sample(64, 0)).bodies)
    if len(sizes) != 1:
      raise core.InputError(
        f'{world.name}: systems of {sizes.min()} to {sizes.max()} bodies were '
        'drawn, which tokens do not tell apart; expected one number of bodies'
      )
    self.vocab_size, self.end = len(world.vocab), world.end
    self.max_len, self._prompt = world.max_len, world.prompt_len
    self.bodies = int(sizes[0])
    self._lag, self._weights = 2 * self.bodies, weights
    meant = np.isfinite(world.coordinates(np.arange(self.vocab_size)))
    self._bins, self._spread = np.flatnonzero(meant), spread

  @property
  def words(self) -> int:
    """Words of a state."""
    return 2 + 2 * self._lag

  def enter(self, prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See Stateful."""
    states = np.zeros((len(lengths), self.words), np.int32)
    for t in range(int(np.max(lengths, initial=0))):
      rows = np.flatnonzero(t < lengths)
      states[rows] = self.follow(states[rows], prefixes[rows, t])
    return states

  def follow(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See Stateful; the first word counts the prompt, then stands still."""
    after, seen = states.copy(), states[:, 0] >= self._prompt
    after[~seen, 0] += 1
    after[~seen, 1] = tokens[~seen]
    after[seen, 2:-1] = states[seen, 3:]
    after[seen, -1] = tokens[seen]
    return after

  def known(self, states: np.ndarray) -> tuple[Support, np.ndarray]:
    """See Stateful."""
    last, before = states[:, 2 + self._lag], states[:, 2]
    guess = last.copy()
    if len(self._weights) == 2:
      both = self._weights[0] * last + self._weights[1] * before
      guess = np.where(before == core.PAD, last, both)
    guess = np.clip(guess, self._bins[0], self._bins[-1])
    guess = np.where(last == core.PAD, core.PAD, guess)
    first = (states[:, 0] > 0) & (states[:, 0] < self._prompt)
    # Of the prompt the step itself; before it, and before a frame, no guess.
    guess = np.where(first, -states[:, 1], guess)
    guess = np.where(states[:, 0] == 0, -self.vocab_size, guess)
    some, place = np.unique(guess, return_inverse=True)
    table = np.stack([self._row(int(one)) for one in some])
    tokens = np.broadcast_to(
      np.arange(self.vocab_size, dtype=np.int32), table.shape
    )
    return Support(tokens, table), place.reshape(-1)

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
      falling = -0.5 * ((self._bins - guess) / self._spread) ** 2
      row[self._bins] = falling - np.log(np.exp(falling).sum())
    return row
