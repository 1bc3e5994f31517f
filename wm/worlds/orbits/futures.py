"""What follows from a state of a system, prefixes that reach it, and others."""

from __future__ import annotations

import abc

import numpy as np

from wm import core
from wm.kernels import orbits
from wm.worlds.orbits import known, states
from wm.worlds.orbits import systems as random_systems

ENOUGH = 500  # Systems of which one is to have a prefix.


class Futures(core.Latent, core.Enumerable):
  """Systems as states: of a drawn state the past and the future are exact.

  A prefix that reaches a state is the system as it was before, seen for some
  frames: at least as many as fix the next `ahead` ones within `tolerance` bins
  (`states.SIGMAS` standard deviations of the linear error, see `known`), and no
  two of one length differ. Another state to tell from it has the same bodies
  at the same places, and one planet with another velocity, so that their
  tokens part after 1, 2 to 5, or 6 to 20 frames, one of the three by chance.
  """

  rows: int
  tolerance: int
  ahead: int

  @property
  def boundary_depth(self) -> int:
    """The x and the y of a row: each token more triples what is listed."""
    return 2

  @property
  @abc.abstractmethod
  def options(self) -> random_systems.Options:
    """What systems are drawn."""

  def chosen(self, some: np.ndarray) -> states.Chosen:
    """The systems of states [N, W]."""
    return states.chosen(self.options, some, self.rows - 1)

  def sample_states(self, num: int, seed: int) -> np.ndarray:
    """See core.Prefixed: systems of `sample`, half of whose rows are seen.

    Those that have a prefix.

    Raises:
      InputError: almost none has.
    """
    asked = num
    while True:
      found = self.sample(asked, seed)
      rows = states.pivot(found.side['planets'], self.rows - 1)
      drawn = states.of(found.side['number'], seed, rows)
      drawn[:, states.WORD] = self.first_word
      least, most = self.prefix_moves(drawn).T
      kept = drawn[least <= most]
      if len(kept) >= num:
        return kept[:num]
      if asked > ENOUGH and len(kept) * ENOUGH < asked:
        raise core.InputError(
          f'orbits: of {asked} systems {len(kept)} show in half of '
          f'rows={self.rows} what fixes the next ahead={self.ahead} frames '
          f'within tolerance={self.tolerance}; expected more rows or larger '
          'bins'
        )
      asked += max((num - len(kept)) * asked // max(len(kept), 1), 16)
      asked = min(asked, 4 * len(drawn) + 64)

  @property
  @abc.abstractmethod
  def first_word(self) -> int:
    """The word of a state whose next token is an x."""

  def forecast(self, some: np.ndarray, num: int) -> core.Rollout:
    """See core.Latent.forecast: the bins of positions, exactly."""
    tokens = np.full((len(some), num), core.DEAD, np.int32)
    frame = np.zeros((len(some), num), np.int32)
    mine = np.flatnonzero(some[:, states.NUMBER] >= 0)
    mine = mine[some[mine, states.WORD] != core.DEAD]
    if not mine.size or not num:
      return core.Rollout(tokens, frame)
    found = self.chosen(some[mine])
    second = some[mine, states.WORD] != self.first_word
    tokens[mine], first = self._shown(found, found.row, second, num)
    place = np.arange(num)[None] + first[:, None]
    after = place // (2 * found.bodies[:, None])
    frame[mine] = after + (found.row % found.bodies == 0)[:, None]
    return core.Rollout(tokens, frame)

  def _shown(
    self, found: states.Chosen, row: np.ndarray, second: np.ndarray, num: int
  ) -> tuple[np.ndarray, np.ndarray]:
    """Tokens [N, num] from rows [N] on, and places of the first in its frame.

    second: [N] bool, begin with the row's second token.
    """
    bodies = found.bodies
    first = 2 * (row % bodies) + second
    rows = (num + int(first.max(initial=0)) + 1) // 2
    place = orbits.positions(found.at(row // bodies), rows)
    tokens = self.coordinate_tokens(place).reshape(len(row), -1)
    at = first[:, None] + np.arange(num)[None]
    return np.take_along_axis(tokens, at, axis=1), first

  def prefix_moves(self, some: np.ndarray) -> np.ndarray:
    """See core.Prefixed: frames. None where too few fix the next ones."""
    found = np.zeros((len(some), 2), np.int32)
    found[:, 1] = -1
    whole = some[:, states.WORD] == self.first_word
    mine = np.flatnonzero(whole & (some[:, states.NUMBER] >= 0))
    if not mine.size:
      return found
    systems = self.chosen(some[mine])
    row, bodies = systems.row, systems.bodies
    frames = np.minimum(row // bodies, (self.rows - 1) // bodies - 1)
    frames = np.where(row % bodies == 0, frames, 0)
    limit = (self.tolerance + 0.5) * self.width / states.SIGMAS
    for most in np.unique(frames[frames > 0]):
      here = np.flatnonzero(frames == most)
      part = states.Chosen(systems.systems, systems.place[here], row[here])
      seen = part.at(row[here] // part.bodies - most)
      error = known.spread(seen, int(most), self.ahead, self.width)
      # More frames never say less: the first that is enough is the least.
      least = (error > limit).sum(1) + 1
      found[mine[here], 0] = least
      found[mine[here], 1] = np.where(least <= most, most, -1)
    return found

  def sample_prefixes(
    self, some: np.ndarray, moves: np.ndarray, seeds: np.ndarray
  ) -> core.Prefixes:
    """See core.Prefixed; of the least number of frames up to moves[t]."""
    moves = np.asarray(moves, np.int64)
    bounds = self.prefix_moves(some)
    ok = (bounds[:, 0] <= moves) & (moves <= bounds[:, 1])
    tokens = np.zeros((len(some), self.max_len), np.int32)
    lengths = np.zeros(len(some), np.int32)
    mine = np.flatnonzero(ok)
    if mine.size:
      systems = self.chosen(some[mine])
      least = bounds[mine, 0].astype(np.int64)
      more = core.uniforms(seeds[mine]) * (moves[mine] - least + 1)
      frames = np.minimum(least + more.astype(np.int64), moves[mine])
      size = 2 * frames * systems.bodies
      shown, _ = self._shown(
        systems,
        systems.row - frames * systems.bodies,
        np.zeros(len(mine), bool),
        int(size.max()),
      )
      shown[np.arange(shown.shape[1]) >= size[:, None]] = core.PAD
      step = self.step_tokens(systems.systems.step[systems.place])
      tokens[mine, :2] = step[:, None]
      tokens[mine, 2 : 2 + shown.shape[1]] = shown
      lengths[mine] = 2 + size
    return core.Prefixes(tokens[:, : lengths.max(initial=0)], lengths, ok)

  @abc.abstractmethod
  def step_tokens(self, years: np.ndarray) -> np.ndarray:
    """int32 tokens of time steps."""

  def sample_others(self, some: np.ndarray, seed: int) -> np.ndarray:
    """See core.Prefixed; where no push is right, the state itself."""
    others, num = some.copy(), len(some)
    if not num:
      return others
    row = np.arange(num)
    turn = (core.hash64(seed, 1, row) % states.DIRECTIONS).astype(np.int64)
    low, high = states.BANDS[core.hash64(seed, 2, row) % len(states.BANDS)].T
    level = np.arange(states.LEVELS)
    tried = np.repeat(some, len(level), axis=0)
    nudge = 1 + turn[:, None] * len(level) + level
    tried[:, states.NUDGE] = nudge.reshape(-1)
    frames = self.parts_after(np.repeat(some, len(level), 0), tried)
    frames = np.where(self._stays(tried), frames, 0).reshape(num, -1)
    fits = (frames >= low[:, None]) & (frames <= high[:, None])
    # Of the pushes that fit, one by chance.
    order = np.where(fits, core.uniforms(seed, 3, row[:, None], level), 2)
    some_fit = fits.any(1)
    others[some_fit, states.NUDGE] = nudge[row, order.argmin(1)][some_fit]
    return others

  def _stays(self, some: np.ndarray) -> np.ndarray:
    """[N] bool: is it a system that `sample` would keep?"""
    found = self.chosen(some)
    systems = found.systems
    _, outside = orbits.bins(systems, self.rows - 1, *self.grid)
    there = np.arange(systems.mass.shape[1]) < systems.planets[:, None]
    slow = systems.period >= 2 * systems.step[:, None]
    return ((outside == 0) & (slow | ~there).all(1))[found.place]

  @property
  @abc.abstractmethod
  def years(self) -> tuple[float, ...]:
    """Time steps, in order of their tokens."""

  @property
  @abc.abstractmethod
  def grid(self) -> tuple[float, int]:
    """Half of the box's width in AU, and bins along an axis."""

  def parts_after(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """[N] frames until what follows the first is illegal from the second.

    0 where it is never, to the end of a sequence.
    """
    num = 2 * (self.rows - 1)
    one, two = (self.forecast(side, num) for side in (first, second))
    apart = np.abs(one.tokens - two.tokens) > self.tolerance
    frame = one.frame[np.arange(len(first)), apart.argmax(1)]
    return np.where(apart.any(1), frame, 0)
