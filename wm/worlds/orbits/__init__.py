"""Planets and their suns, seen at equal steps of time, in bins.

    t0 t0 | x y | x y | x y | x y | ...      t0 names the time step
            planet  sun  planet  sun

The state is not a function of the tokens: bins determine neither the velocity
nor the masses. After tokens alone every bin is legal. The hidden state, which
determines the orbit, is side data of `sample` (the orbits of the inductive-bias
probes, Vafa et al. 2025, section 3). Sampled states have it too: from them only
the bins of the orbit are legal, and bins near them; see `systems`.

`Posterior` is the distribution of sequences of two bodies, by a particle
filter. Before a system's first bin, its particles are sampled from the world.

    memory | count | step | alive | hash | bins seen | particles
    words  | 1     | 1    | 1     | 2    | 2 rows    | 16 each, as float64
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from wm import core
from wm.core import basics, resources
from wm.core.capabilities import Rollout, Trajectory
from wm.core.fields import field, field_error
from wm.kernels import orbit_particles as particles
from wm.kernels import orbits
from wm.worlds.base import sampling
from wm.worlds.orbits import systems as random_systems
from wm.worlds.orbits.systems import NUDGE, NUMBER, ROW, WORD, ChosenSystems

COLUMNS = (
  'x from the sun, AU',
  'y from the sun, AU',
  'vx from the sun, AU/year',
  'vy from the sun, AU/year',
  'mass of the planet, solar masses',
  'mass of the sun, solar masses',
)
START, X, Y = 0, -2, -3  # Words of states; 1.. after the first step token.
CHUNK = 1 << 21  # Rows of positions that are drawn at a time.
# Greatest distance in bins, along each axis, of a legal token from the orbit of
# a sampled state.
TOLERANCE = 1
AHEAD = 4  # Frames that a prefix of a drawn state is long enough to fix.
ENOUGH = 4000  # Systems of a time step of which some must stay.


@dataclasses.dataclass(frozen=True)
class World(core.Latent, core.Enumerable):
  """Systems of a sun and planets on Kepler orbits around it.

  Planets do not attract each other. The centre of mass rests, and the sun
  moves. A system is dropped and counted if it leaves the box, or has fewer than
  two samples per period of one of its planets.

  The published sizes: orbits(systems='exoplanets', planets=10, bins=7000,
  box=50.0, rows=1000, steps=(0.0189, 0.486), centre=1.0), and with
  systems='two_body', planets=1 its two-body variant.

  Attributes:
    planets: most planets of a system; their number is uniform.
    steps: time steps in years; each system has one of them.
    centre: standard deviation of the centre of mass along each axis, AU.
  """

  noun: ClassVar[str] = 'planetary orbits'

  systems: str = field(
    'binaries', 'kind of systems, see `systems`', choices=random_systems.KINDS
  )
  planets: int = field(1, least=1)
  bins: int = field(256, 'number of bins along each axis', least=2)
  box: float = field(8.0, "half of the box's width, AU", above=0, unit='AU')
  rows: int = field(81, 'positions of a sequence, and the row of its time step')
  steps: tuple[float, ...] = field(
    (0.1, 0.2), above=0, distinct=True, fewest=1, unit='years'
  )
  centre: float = field(0.5, least=0, unit='AU')

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded."""
    del world
    rows = 2 * (self.rows + AHEAD), 'rows', 'bins'
    return resources.sequences_cost(*rows, vocab=self.bins)

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.systems == 'two_body' and self.planets != 1:
      raise field_error(self, 'planets systems', '1 planet')
    least = 1 + 2 * (self.planets + 1)
    if self.rows < least:
      raise field_error(self, 'rows planets', f'at least {least} rows')

  # Tokens.

  @functools.cached_property
  def vocab(self) -> tuple[str, ...]:
    """'<pad>', time steps 't0', .., and bins '0', .., of both axes."""
    steps = (f't{k}' for k in range(len(self.steps)))
    return ('<pad>', *steps, *map(str, range(self.bins)))

  @property
  def first_bin(self) -> int:
    """Token of bin 0."""
    return 1 + len(self.steps)

  @property
  def max_len(self) -> int:
    """The length of every sequence."""
    return 2 * self.rows

  @property
  def prompt_len(self) -> int:
    """The row of the time step."""
    return 2

  def init(self, batch: int) -> np.ndarray:
    """[batch, W]: the kind of the next token, without a system."""
    states = np.full((batch, random_systems.WORDS), core.DEAD, np.int32)
    states[:, WORD] = START
    return states

  def advance(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.World; two tokens for the time step, then x and y in turn."""
    word, drawn = states[:, WORD], states[:, NUMBER] >= 0
    is_step = (tokens >= 1) & (tokens < self.first_bin)
    is_bin = (tokens >= self.first_bin) & (tokens < len(self.vocab))
    if drawn.any():
      is_bin &= ~drawn | self._near(states, tokens)
    after = states.copy()
    after[:, WORD] = np.select(
      [
        (word == START) & is_step,
        (word > START) & (tokens == word),
        (word == X) & is_bin,
        (word == Y) & is_bin,
      ],
      [tokens, X, Y, X],
      core.DEAD,
    )
    after[:, ROW] += drawn & (word == Y)
    after[after[:, WORD] == core.DEAD] = core.DEAD
    return after

  def legal(self, states: np.ndarray) -> np.ndarray:
    """See core.World: all bins; for a sampled state, bins near its orbit."""
    word = states[:, WORD]
    legal = np.zeros((len(states), len(self.vocab)), bool)
    legal[:, self.first_bin :] = np.isin(word, (X, Y))[:, None]
    for token in range(1, self.first_bin):
      legal[:, token] = (word == START) | (word == token)
    drawn = np.flatnonzero(states[:, NUMBER] >= 0)
    if drawn.size:
      bins = np.arange(len(self.vocab))[None]
      center = self.forecast(states[drawn], 1).tokens
      legal[drawn] &= np.abs(bins - center) <= TOLERANCE
    return legal

  def _near(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """[B] bool: True if a token is within tolerance of its system's orbit."""
    center = self.forecast(states, 1).tokens[:, 0]
    return np.abs(tokens - center) <= TOLERANCE

  def state_id(self, states: np.ndarray) -> np.ndarray:
    """The word, or a hash of the system; see core.World."""
    ids = states[:, WORD].astype(np.int64)
    drawn = np.flatnonzero(states[:, NUMBER] >= 0)
    if drawn.size:
      hashed = basics.hash64(*states[drawn].T) >> np.uint64(1)
      ids[drawn] = hashed.astype(np.int64)
    return ids

  # Systems.

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    """See core.World; side data are the fields of orbits.Systems.

    Raises:
      InputError: too few systems of a time step stay in the box with two
        samples a period.
    """
    # Nearly all drawn systems belong to 'train'.
    rate = {'heldout': 1 / sampling.HELDOUT}.get(split, 1.0)
    batches: list[core.Sequences] = []
    have = first = 0
    counts: dict[str, int] = {}
    tally = np.zeros((len(self.steps), 2), int)
    sampling.check_split(split)
    while have < num or not batches:
      asked = int((num - have) / rate * 1.1) + 8
      asked = min(asked, max(CHUNK // self.rows, 1))
      numbers = np.arange(first, first + asked)
      drawn = random_systems.draw(self, seed, numbers)
      batch = self._in_bins(drawn, numbers)
      # Counts systems of both splits.
      batch = batch.take(self._used(batch, counts, tally))
      rows = sampling.in_split(self.split_key(batch), split)
      batches.append(batch.take(rows))
      have, first = have + int(rows.sum()), first + asked
    return dataclasses.replace(sampling.joined(batches, num), counts=counts)

  def _used(
    self, sequences: core.Sequences, counts: dict[str, int], tally: np.ndarray
  ) -> np.ndarray:
    """[N] bool: is each system used?

    Adds to `counts` of dropped systems by cause, and to `tally` [steps, 2],
    systems of each time step and those of them that are used.
    """
    drawn = _systems_of(sequences.side)
    faults = _faults(drawn, sequences.side['outside'])
    for cause, rows in faults.items():
      if rows.any():
        counts[cause] = counts.get(cause, 0) + int(rows.sum())
    used = ~np.logical_or(*faults.values())
    for step, numbers in zip(self.steps, tally, strict=True):
      mine = drawn.step == step
      numbers += mine.sum(), (mine & used).sum()
      if numbers[0] >= ENOUGH and not numbers[1]:
        causes = ', '.join(f'{n} {cause}' for cause, n in counts.items())
        raise core.InputError(
          f'orbits: of {numbers[0]} systems of step {step} years none '
          f'stays (of all: {causes}); expected a larger box or a shorter step'
        )
    return used

  def _in_bins(
    self, drawn: orbits.Systems, numbers: np.ndarray
  ) -> core.Sequences:
    """Sequences of systems, with the rows `outside` the box as side data."""
    binned, outside = orbits.bins(drawn, self.rows - 1, *self.grid)
    tokens = np.empty((len(binned), self.rows, 2), np.int32)
    tokens[:, 0] = self.step_tokens(drawn.step)[:, None]
    tokens[:, 1:] = binned + self.first_bin
    side = {**drawn._asdict(), 'number': numbers, 'outside': outside}
    lengths = np.full(len(binned), self.max_len, np.int32)
    return core.Sequences(tokens.reshape(-1, self.max_len), lengths, side)

  def posterior(self, particles: int, sweeps: int, seed: int) -> Posterior:
    """See core.Latent: for one planet, and systems of a known density."""
    return Posterior(self, particles, sweeps, seed)

  # The hidden state.

  def hidden_states(self, sequences: core.Sequences) -> np.ndarray:
    """[N, L, 6] states of each token's row; NaN for suns and time steps."""
    rows = self.trajectory(sequences).state
    none = np.full((len(rows), 1, len(COLUMNS)), np.nan)
    return np.repeat(np.concatenate([none, rows], axis=1), 2, axis=1)

  def step_tokens(self, years: np.ndarray) -> np.ndarray:
    """int32 tokens of time steps."""
    place = np.searchsorted(np.sort(self.steps), years)
    return 1 + np.argsort(self.steps)[place].astype(np.int32)

  @property
  def grid(self) -> tuple[float, int]:
    """Half of the box's width in AU, and bins along an axis."""
    return self.box, self.bins

  @property
  def width(self) -> float:
    """Width of a bin, AU."""
    return 2 * self.box / self.bins

  def coordinates(self, tokens: np.ndarray) -> np.ndarray:
    """Centres of bins, AU; see core.Latent.trajectory."""
    place = np.asarray(tokens) - self.first_bin
    centre = -self.box + (place + 0.5) * self.width
    return np.where((place >= 0) & (place < self.bins), centre, np.nan)

  def coordinate_tokens(self, places: np.ndarray) -> np.ndarray:
    """Tokens of the bins that hold coordinates; see core.Latent.trajectory."""
    place = np.floor((np.asarray(places) + self.box) / self.width)
    place = np.clip(np.nan_to_num(place), 0, self.bins - 1)
    return (place + self.first_bin).astype(np.int32)

  def trajectory(self, sequences: core.Sequences) -> Trajectory:
    """See core.Latent."""
    drawn = self._drawn(sequences)
    rows = self.rows - 1
    bodies = drawn.planets[:, None] + 1
    frame, body = np.divmod(np.arange(rows)[None], bodies)
    place, seen = orbits.positions(drawn, rows), orbits.states(drawn, rows)
    planet = body < bodies - 1
    mass = np.take_along_axis(drawn.mass, np.where(planet, body, 0), axis=1)
    both = np.stack([mass, np.broadcast_to(drawn.star[:, None], mass.shape)], 2)
    state = np.concatenate([seen, np.where(planet[..., None], both, np.nan)], 2)
    return Trajectory(
      place,
      body.astype(np.int32),
      frame.astype(np.int32),
      bodies[:, 0].astype(np.int32),
      drawn.step,
      state,
    )

  def _drawn(self, sequences: core.Sequences) -> orbits.Systems:
    names = orbits.Systems._fields
    if missing := [name for name in names if name not in sequences.side]:
      raise core.InputError(
        f'{self.name}: sequences without side data {missing[0]!r}; expected '
        'those of its sample, as stored ones have none'
      )
    return _systems_of(sequences.side)

  # Trials. The past and the future of a sampled state are exact. A prefix that
  # reaches it is the system's past, observed for some frames: at least as many
  # as determine the next AHEAD frames within TOLERANCE bins
  # (`systems.SIGMAS` standard deviations of the linear error). All prefixes of
  # one length are equal. The state to compare with has the same bodies at the
  # same places, and one planet with another velocity, so that their tokens
  # differ after 1, 2 to 5, or 6 to 20 frames, at random.

  @property
  def boundary_depth(self) -> int:
    """The x and the y of a row; a further token would triple the suffixes."""
    return 2

  def chosen(self, states: np.ndarray) -> ChosenSystems:
    """The systems of states [N, W]."""
    return random_systems.chosen_systems(self, states)

  def sample_states(self, num: int, seed: int) -> np.ndarray:
    """See core.Prefixed: systems of `sample` after half of their rows.

    Only systems with a prefix are returned.

    Raises:
      InputError: almost no system has a prefix.
    """
    asked = num
    while True:
      drawn_systems = self.sample(asked, seed)
      rows = random_systems.pivot(drawn_systems.side['planets'], self.rows - 1)
      drawn = random_systems.states_of(drawn_systems.side['number'], seed, rows)
      drawn[:, WORD] = X
      least, most = self.prefix_moves(drawn).T
      usable = drawn[least <= most]
      if len(usable) >= num:
        return usable[:num]
      if (
        asked > random_systems.ENOUGH
        and len(usable) * random_systems.ENOUGH < asked
      ):
        raise core.InputError(
          f'orbits: of {asked} systems {len(usable)} show in half of '
          f'rows={self.rows} what fixes the next {AHEAD} frames '
          f'within {TOLERANCE} bin; expected more rows or larger '
          'bins'
        )
      asked += max((num - len(usable)) * asked // max(len(usable), 1), 16)
      asked = min(asked, 4 * len(drawn) + 64)

  def forecast(self, states: np.ndarray, num: int) -> Rollout:
    """See core.Latent.forecast: the bins of positions, exactly."""
    tokens = np.full((len(states), num), core.DEAD, np.int32)
    frame = np.zeros((len(states), num), np.int32)
    mine = np.flatnonzero(states[:, NUMBER] >= 0)
    mine = mine[states[mine, WORD] != core.DEAD]
    if not mine.size or not num:
      return Rollout(tokens, frame)
    systems = self.chosen(states[mine])
    second = states[mine, WORD] != X
    tokens[mine], first = self._shown(systems, systems.row, second, num)
    place = np.arange(num)[None] + first[:, None]
    after = place // (2 * systems.bodies[:, None])
    frame[mine] = after + (systems.row % systems.bodies == 0)[:, None]
    return Rollout(tokens, frame)

  def _shown(
    self, systems: ChosenSystems, row: np.ndarray, second: np.ndarray, num: int
  ) -> tuple[np.ndarray, np.ndarray]:
    """Tokens [N, num] from rows [N] on, and places of the first in its frame.

    second: [N] bool, begin with the row's second token.
    """
    bodies = systems.bodies
    first = 2 * (row % bodies) + second
    rows = (num + int(first.max(initial=0)) + 1) // 2
    place = orbits.positions(systems.at(row // bodies), rows)
    tokens = self.coordinate_tokens(place).reshape(len(row), -1)
    at = first[:, None] + np.arange(num)[None]
    return np.take_along_axis(tokens, at, axis=1), first

  def prefix_moves(self, states: np.ndarray) -> np.ndarray:
    """See core.Prefixed: numbers of frames that determine the next ones."""
    bounds = np.zeros((len(states), 2), np.int32)
    bounds[:, 1] = -1
    whole = states[:, WORD] == X
    mine = np.flatnonzero(whole & (states[:, NUMBER] >= 0))
    if not mine.size:
      return bounds
    systems = self.chosen(states[mine])
    row, bodies = systems.row, systems.bodies
    frames = np.minimum(row // bodies, (self.rows - 1) // bodies - 1)
    frames = np.where(row % bodies == 0, frames, 0)
    limit = (TOLERANCE + 0.5) * self.width / random_systems.SIGMAS
    for most in np.unique(frames[frames > 0]):
      alike = np.flatnonzero(frames == most)
      part = ChosenSystems(systems.systems, systems.place[alike], row[alike])
      seen = part.at(row[alike] // part.bodies - most)
      error = random_systems.spread(seen, int(most), AHEAD, self.width)
      # More frames never determine less, so the first enough is the fewest.
      least = (error > limit).sum(1) + 1
      bounds[mine[alike], 0] = least
      bounds[mine[alike], 1] = np.where(least <= most, most, -1)
    return bounds

  def sample_prefixes(
    self, states: np.ndarray, moves: np.ndarray, seeds: np.ndarray
  ) -> core.Prefixes:
    """See core.Prefixed; of the least number of frames up to moves[t]."""
    moves = np.asarray(moves, np.int64)
    bounds = self.prefix_moves(states)
    ok = (bounds[:, 0] <= moves) & (moves <= bounds[:, 1])
    tokens = np.zeros((len(states), self.max_len), np.int32)
    lengths = np.zeros(len(states), np.int32)
    mine = np.flatnonzero(ok)
    if mine.size:
      systems = self.chosen(states[mine])
      least = bounds[mine, 0].astype(np.int64)
      more = basics.uniforms(seeds[mine]) * (moves[mine] - least + 1)
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

  def sample_others(self, states: np.ndarray, seed: int) -> np.ndarray:
    """See core.Prefixed; the state itself if no change of velocity fits."""
    others, num = states.copy(), len(states)
    if not num:
      return others
    row = np.arange(num)
    turn = (basics.hash64(seed, 1, row) % random_systems.DIRECTIONS).astype(
      np.int64
    )
    low, high = random_systems.BANDS[
      basics.hash64(seed, 2, row) % len(random_systems.BANDS)
    ].T
    level = np.arange(random_systems.LEVELS)
    tried = np.repeat(states, len(level), axis=0)
    nudge = 1 + turn[:, None] * len(level) + level
    tried[:, NUDGE] = nudge.reshape(-1)
    frames = self.parts_after(np.repeat(states, len(level), 0), tried)
    frames = np.where(self._stays(tried), frames, 0).reshape(num, -1)
    fits = (frames >= low[:, None]) & (frames <= high[:, None])
    # A random one of the fitting changes.
    order = np.where(fits, basics.uniforms(seed, 3, row[:, None], level), 2)
    some_fit = fits.any(1)
    others[some_fit, NUDGE] = nudge[row, order.argmin(1)][some_fit]
    return others

  def _stays(self, states: np.ndarray) -> np.ndarray:
    """[N] bool: would `sample` keep each system?"""
    chosen = self.chosen(states)
    _, outside = orbits.bins(chosen.systems, self.rows - 1, *self.grid)
    faults = _faults(chosen.systems, outside)
    return ~np.logical_or(*faults.values())[chosen.place]

  def parts_after(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """[N] frames until the first state's tokens are illegal from the second.

    0 if they stay legal to the end of a sequence.
    """
    num = 2 * (self.rows - 1)
    left, right = (self.forecast(side, num) for side in (first, second))
    apart = np.abs(left.tokens - right.tokens) > TOLERANCE
    frame = left.frame[np.arange(len(first)), apart.argmax(1)]
    return np.where(apart.any(1), frame, 0)


def _faults(systems: orbits.Systems, outside: np.ndarray) -> dict[str, Any]:
  """Cause -> [N] bool, True for systems that are dropped for it.

  outside: [N] rows outside the box.
  """
  exists = np.arange(systems.mass.shape[1]) < systems.planets[:, None]
  few = (systems.period < 2 * systems.step[:, None]) & exists
  return {
    'left the box': outside > 0,
    'fewer than two samples a period': few.any(1),
  }


SEEN_TOKENS, STEP_TOKEN, ALIVE, HASH, BINS = 0, 1, 2, slice(3, 5), 5
PRIOR_SEED = 0x5EED  # Seed of the initial particles.


def _systems_of(side: Mapping[str, np.ndarray]) -> orbits.Systems:
  """The systems in the side data of sequences."""
  return orbits.Systems(*(side[name] for name in orbits.Systems._fields))


def prior(world: World) -> particles.Prior:
  """The density of systems; raises InputError if it is unknown."""
  kinds = {
    'binaries': (random_systems.SUNS, random_systems.RATIOS),
    'two_body': (random_systems.BOTH, random_systems.BOTH),
    'summary': ((0.5, 5.0), random_systems.LIGHT),
  }
  kind, planets, centre = world.systems, world.planets, world.centre
  if kind not in kinds or planets != 1 or not centre:
    raise core.InputError(
      f'orbits: systems={kind!r}, planets={planets}, {centre=}: '
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
    centre,
  )


class Posterior(core.SequenceProcess):
  """The distribution of sequences, approximated by particles."""

  def __init__(self, world: World, count: int, sweeps: int, seed: int) -> None:
    """count: particles; sweeps: see particles.observe; seed: of their moves."""
    if count < 16 or count % 2 or sweeps < 1:
      raise core.InputError(
        f'particles={count}, sweeps={sweeps} was given; expected an even '
        'number from 16 of particles, and at least one sweep'
      )
    self._world, self._num, self._sweeps = world, count, sweeps
    self._seed, self._prior = seed, prior(world)
    self._grid = particles.BinGrid(*world.grid)
    self._first = len(world.vocab) - world.grid[1]

  @functools.cached_property
  def _starts(self) -> tuple[np.ndarray, np.ndarray]:
    """Particles [steps, N, 8] before any bin, and shares of steps [steps]."""
    clouds = np.empty((self._first - 1, self._num, particles.NUMBERS))
    have, draws = np.zeros(len(clouds), np.int64), 0
    while have.min() < self._num:
      drawn = self._world.sample(4 * self._num, PRIOR_SEED + draws)
      systems = _systems_of(drawn.side)
      for step in range(len(clouds)):
        mine = np.flatnonzero(drawn.tokens[:, 0] == step + 1)
        mine = mine[: self._num - min(have[step], self._num)]
        low, high = have[step], have[step] + len(mine)
        clouds[step, low:high] = particles.cloud(systems.take(mine))
        have[step] = high
      draws += 1
    tokens = self._world.sample(2000, PRIOR_SEED).tokens[:, 0]
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
    """See core.SequenceProcess; a bin far from all particles is ignored."""
    memory, count = memory.copy(), memory[:, SEEN_TOKENS]
    word = np.ascontiguousarray(memory[:, HASH]).view(np.uint64)[:, 0]
    is_step = (tokens >= 1) & (tokens < self._first)
    is_bin = (tokens >= self._first) & (tokens < len(self._world.vocab))
    ok = (count == 0) & is_step
    ok |= (count == 1) & (tokens == memory[:, STEP_TOKEN])
    seen = (count >= 2) & (count < self._world.max_len) & is_bin
    first, second = np.flatnonzero(ok & (count == 0)), ok & (count == 1)
    memory[first, STEP_TOKEN] = tokens[first]
    cloud = self._clouds(memory)
    memory[second, cloud:] = self._packed(
      self._starts[0][memory[second, STEP_TOKEN] - 1]
    )
    rows = np.flatnonzero(seen)
    if rows.size:
      self._observe(memory, rows, tokens[rows], word[rows])
    memory[:, HASH] = basics.hash64(word, tokens)[:, None].view(np.int32)
    memory[:, SEEN_TOKENS] += 1
    memory[~(ok | seen)] = core.DEAD
    return memory

  def _clouds(self, memory: np.ndarray) -> int:
    """First word of the particles."""
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
    years = self._world.steps
    return np.stack([self._prior.array(step) for step in years])[steps - 1]

  def _observe(
    self,
    memory: np.ndarray,
    rows: np.ndarray,
    tokens: np.ndarray,
    word: np.ndarray,
  ) -> None:
    """Updates particles by new bins, in place."""
    place = memory[rows, SEEN_TOKENS].astype(np.int64) - 2
    seen = slice(BINS, self._clouds(memory))
    bins = memory[rows, seen]
    bins[np.arange(len(rows)), place] = tokens - self._first
    clouds = self._opened(memory[rows])
    alive = memory[rows, ALIVE].astype(np.int64)
    seeds = basics.hash64(self._seed, word, tokens) >> np.uint64(32)
    particles.observe(
      *(clouds, alive, bins, place, self._priors(memory[rows, STEP_TOKEN])),
      *(self._sweeps, self._grid, seeds.astype(np.uint32)),
    )
    memory[rows, seen], memory[rows, ALIVE] = bins, alive
    memory[rows, self._clouds(memory) :] = self._packed(clouds)

  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See core.SequenceProcess.

    The mass of a bin is its share of the particles, plus that of one particle
    spread over all bins.
    """
    size, bins = len(self._world.vocab), self._grid.bins
    chance = np.zeros((len(memory), size))
    count = memory[:, SEEN_TOKENS]
    chance[count == 0, 1 : self._first] = self._starts[1]
    second = np.flatnonzero(count == 1)
    chance[second, memory[second, STEP_TOKEN]] = 1
    rows = np.flatnonzero((count >= 2) & (count < self._world.max_len))
    if rows.size:
      counts = particles.counts(
        self._opened(memory[rows]),
        memory[rows, ALIVE].astype(np.int64),
        count[rows].astype(np.int64) - 2,
        self._priors(memory[rows, STEP_TOKEN]),
        self._grid,
      )
      share = (counts + 1 / bins) / (counts.sum(1, keepdims=True) + 1)
      chance[rows, self._first :] = share
    tokens = np.where(chance > 0, np.arange(size), core.DEAD).astype(np.int32)
    with np.errstate(divide='ignore'):
      return tokens, np.log(chance)
