"""What may follow tokens of two bodies, by a particle filter.

    memory | count | step | alive | hash | bins seen | particles
    words  | 1     | 1    | 1     | 2    | 2 rows    | 16 each, as float64

Before a system's first bin its particles are draws of the world itself.
"""

from __future__ import annotations

import functools

import numpy as np

from wm import core
from wm.core import basics
from wm.kernels import orbits
from wm.kernels.orbits import particles
from wm.worlds.orbits import futures
from wm.worlds.orbits import systems as random_systems

COUNT, STEP, ALIVE, HASH, BINS = 0, 1, 2, slice(3, 5), 5
SEED = 0x5EED  # Of the draws that all start with.


def prior(options: random_systems.Options) -> particles.Prior:
  """The density of systems; raises InputError where it is not known."""
  kinds = {
    'binaries': (random_systems.SUNS, random_systems.RATIOS),
    'two_body': (random_systems.BOTH, random_systems.BOTH),
    'summary': ((0.5, 5.0), random_systems.LIGHT),
  }
  kind, planets = options.systems, options.planets
  if kind not in kinds or planets != 1 or not options.centre:
    raise core.InputError(
      f'orbits: systems={kind!r}, planets={planets}, centre={options.centre}: '
      'the particle filter knows the density of one planet, centre > 0, and '
      'systems ' + ', '.join(map(repr, kinds))
    )
  plain = kind == 'binaries'
  return particles.Prior(
    kind,
    random_systems.AXES[kind],
    random_systems.ROUNDEST if plain else 1.0,
    (1.0, 1.0) if plain else random_systems.BETA,
    *kinds[kind],
    options.centre,
  )


class Posterior(core.SequenceProcess):
  """The distribution of sequences, as far as a number of particles tells."""

  def __init__(
    self, world: futures.Futures, count: int, sweeps: int, seed: int
  ) -> None:
    """count: particles; sweeps: see particles.observe; seed: of their moves."""
    if count < 16 or count % 2 or sweeps < 1:
      raise core.InputError(
        f'particles={count}, sweeps={sweeps} was given; expected an even '
        'number from 16 of particles, and at least one sweep'
      )
    self._world, self._num, self._sweeps = world, count, sweeps
    self._seed, self._prior = seed, prior(world.options)
    self._grid = particles.Grid(*world.grid)
    self._first = len(world.vocab) - world.grid[1]

  @functools.cached_property
  def _starts(self) -> tuple[np.ndarray, np.ndarray]:
    """Particles [steps, N, 8] before any bin, and shares of steps [steps]."""
    clouds = np.empty((self._first - 1, self._num, particles.NUMBERS))
    have, draws = np.zeros(len(clouds), np.int64), 0
    while have.min() < self._num:
      drawn = self._world.sample(4 * self._num, SEED + draws)
      names = orbits.Systems._fields
      systems = orbits.Systems(*(drawn.side[name] for name in names))
      for step in range(len(clouds)):
        mine = np.flatnonzero(drawn.tokens[:, 0] == step + 1)
        mine = mine[: self._num - min(have[step], self._num)]
        low, high = have[step], have[step] + len(mine)
        clouds[step, low:high] = particles.cloud(systems.take(mine))
        have[step] = high
      draws += 1
    tokens = self._world.sample(2000, SEED).tokens[:, 0]
    times = np.bincount(tokens, minlength=len(clouds) + 1)[1:]
    return clouds, times / times.sum()

  def init(self, batch: int) -> np.ndarray:
    """See core.SequenceProcess."""
    size = 2 * (self._world.rows - 1) + 2 * particles.NUMBERS * self._num
    memory = np.zeros((batch, BINS + size), np.int32)
    memory[:, ALIVE] = self._num
    memory[:, BINS : BINS + 2 * (self._world.rows - 1)] = core.DEAD
    return memory

  def advance(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.SequenceProcess; a bin that no particle is near is skipped."""
    memory, count = memory.copy(), memory[:, COUNT]
    word = np.ascontiguousarray(memory[:, HASH]).view(np.uint64)[:, 0]
    is_step = (tokens >= 1) & (tokens < self._first)
    is_bin = (tokens >= self._first) & (tokens < len(self._world.vocab))
    ok = (count == 0) & is_step
    ok |= (count == 1) & (tokens == memory[:, STEP])
    seen = (count >= 2) & (count < self._world.max_len) & is_bin
    first, second = np.flatnonzero(ok & (count == 0)), ok & (count == 1)
    memory[first, STEP] = tokens[first]
    cloud = self._clouds(memory)
    memory[second, cloud:] = self._packed(
      self._starts[0][memory[second, STEP] - 1]
    )
    rows = np.flatnonzero(seen)
    if rows.size:
      self._observe(memory, rows, tokens[rows], word[rows])
    memory[:, HASH] = basics.hash64(word, tokens)[:, None].view(np.int32)
    memory[:, COUNT] += 1
    memory[~(ok | seen)] = core.DEAD
    return memory

  def _clouds(self, memory: np.ndarray) -> int:
    """Where particles begin."""
    return memory.shape[1] - 2 * particles.NUMBERS * self._num

  def _packed(self, clouds: np.ndarray) -> np.ndarray:
    size = self._num * particles.NUMBERS
    return clouds.reshape(len(clouds), size).view(np.int32)

  def _opened(self, words: np.ndarray) -> np.ndarray:
    """Particles [R, N, 8] of memories [R, W], a copy."""
    packed = np.ascontiguousarray(words[:, self._clouds(words) :])
    shape = len(words), self._num, particles.NUMBERS
    return packed.view(np.float64).reshape(shape).copy()

  def _priors(self, steps: np.ndarray) -> np.ndarray:
    years = self._world.years
    return np.stack([self._prior.array(step) for step in years])[steps - 1]

  def _observe(
    self,
    memory: np.ndarray,
    rows: np.ndarray,
    tokens: np.ndarray,
    word: np.ndarray,
  ) -> None:
    """Takes in bins, in place."""
    place = memory[rows, COUNT].astype(np.int64) - 2
    seen = slice(BINS, self._clouds(memory))
    bins = memory[rows, seen]
    bins[np.arange(len(rows)), place] = tokens - self._first
    clouds = self._opened(memory[rows])
    alive = memory[rows, ALIVE].astype(np.int64)
    seeds = basics.hash64(self._seed, word, tokens) >> np.uint64(32)
    particles.observe(
      *(clouds, alive, bins, place, self._priors(memory[rows, STEP])),
      *(self._sweeps, self._grid, seeds.astype(np.uint32)),
    )
    memory[rows, seen], memory[rows, ALIVE] = bins, alive
    memory[rows, self._clouds(memory) :] = self._packed(clouds)

  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See core.SequenceProcess.

    A bin has the share of its particles, and of one more particle that is
    everywhere.
    """
    size, bins = len(self._world.vocab), self._grid.bins
    chance = np.zeros((len(memory), size))
    count = memory[:, COUNT]
    chance[count == 0, 1 : self._first] = self._starts[1]
    second = np.flatnonzero(count == 1)
    chance[second, memory[second, STEP]] = 1
    rows = np.flatnonzero((count >= 2) & (count < self._world.max_len))
    if rows.size:
      counts = particles.counts(
        self._opened(memory[rows]),
        memory[rows, ALIVE].astype(np.int64),
        count[rows].astype(np.int64) - 2,
        self._priors(memory[rows, STEP]),
        self._grid,
      )
      share = (counts + 1 / bins) / (counts.sum(1, keepdims=True) + 1)
      chance[rows, self._first :] = share
    tokens = np.where(chance > 0, np.arange(size), core.DEAD).astype(np.int32)
    with np.errstate(divide='ignore'):
      return tokens, np.log(chance)
