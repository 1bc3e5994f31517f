"""Planets and their suns, seen at equal steps of time, in bins.

    t0 t0 | x y | x y | x y | x y | ...      t0 names the time step
            planet  sun  planet  sun

A world whose state is not a function of its tokens: bins fix neither the
velocity nor the masses. After tokens every bin may follow; what follows is
physics, which `sample` carries as side data (the orbits of the inductive-bias
probes, Vafa et al. 2025, section 3). States that are drawn know it too: from
these the bins of the orbit are legal, and those near them; see `futures`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np

from wm import core
from wm.core import basics, resources
from wm.core.fields import field, field_error
from wm.kernels import orbits
from wm.worlds.base import sampling
from wm.worlds.orbits import futures, posterior
from wm.worlds.orbits import systems as random_systems

# Published as they are, where they differ from what is right.
QUIRKS = {
  'clipped': 'systems that leave the box or have too few samples stay, and '
  'their bins are clipped',
  'first_sun': 'states are measured from where the sun was at first',
  'pinned_sun': 'the sun of several planets stands still',
  'radial_velocity': "the radial part of states' velocity has the wrong sign",
  'shared_streams': 'planets 6..10 of a system are those 1..5 of the next',
}
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
ENOUGH = 4000  # Systems of a time step of which some must stay.


@dataclasses.dataclass(frozen=True)
class World(futures.Futures):
  """Systems of a sun and planets on Kepler orbits around it.

  Planets do not pull each other. The centre of mass rests, and the sun moves.
  A system that leaves the box, or has fewer than two samples a period of one of
  its planets, is left out and counted.

  The published sizes: orbits(systems='exoplanets', planets=10, bins=7000,
  box=50.0, rows=1000, steps=(0.0189, 0.486), centre=1.0), and with
  systems='two_body', planets=1 its two-body variant.

  Attributes:
    planets: most planets of a system, whose number is uniform; of 'solar', 8
      are all of them, and 1 is any of them.
    steps: time steps in years; each system has one of them.
    centre: standard deviation of the centre of mass along each axis, AU.
    table: CSV file of exoplanets to fit masses to, with columns
      planet_solar_mass and star_solar_mass; '' is the built-in fit.
    tolerance: bins along each axis by which a token may be off the orbit, and
      still be legal from a drawn state.
  """

  version: ClassVar[str] = '1'

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
  quirks: tuple[str, ...] = field(
    (), 'errors of the published program to keep', choices=QUIRKS
  )
  table: str = ''
  tolerance: int = field(1, least=0)
  ahead: int = field(
    4, 'frames that a prefix of a drawn state is long enough to fix', least=1
  )

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded."""
    del world
    rows = 2 * (self.rows + self.ahead), 'rows', 'ahead', 'bins'
    return resources.sequences_cost(*rows, vocab=self.bins)

  def __post_init__(self) -> None:
    super().__post_init__()
    planets = {'solar': (1, len(random_systems.SOLAR)), 'two_body': (1,)}
    available = planets.get(self.systems, (self.planets,))
    if self.planets not in available:
      expected = ' or '.join(map(str, available))
      raise field_error(self, 'planets systems', f'{expected} planets')
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
    """[batch, W]: which kind of token is next, of no system; see `states`."""
    states = np.full((batch, futures.WORDS), core.DEAD, np.int32)
    states[:, futures.WORD] = START
    return states

  def advance(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.World; a step is named twice, then x and y take turns."""
    word, drawn = states[:, futures.WORD], states[:, futures.NUMBER] >= 0
    is_step = (tokens >= 1) & (tokens < self.first_bin)
    is_bin = (tokens >= self.first_bin) & (tokens < len(self.vocab))
    if drawn.any():
      is_bin &= ~drawn | self._near(states, tokens)
    after = states.copy()
    after[:, futures.WORD] = np.select(
      [
        (word == START) & is_step,
        (word > START) & (tokens == word),
        (word == X) & is_bin,
        (word == Y) & is_bin,
      ],
      [tokens, X, Y, X],
      core.DEAD,
    )
    after[:, futures.ROW] += drawn & (word == Y)
    after[after[:, futures.WORD] == core.DEAD] = core.DEAD
    return after

  def legal(self, states: np.ndarray) -> np.ndarray:
    """See core.World: every bin, but of a system those near its orbit."""
    word = states[:, futures.WORD]
    legal = np.zeros((len(states), len(self.vocab)), bool)
    legal[:, self.first_bin :] = np.isin(word, (X, Y))[:, None]
    for token in range(1, self.first_bin):
      legal[:, token] = (word == START) | (word == token)
    drawn = np.flatnonzero(states[:, futures.NUMBER] >= 0)
    if drawn.size:
      bins = np.arange(len(self.vocab))[None]
      center = self.forecast(states[drawn], 1).tokens
      legal[drawn] &= np.abs(bins - center) <= self.tolerance
    return legal

  def _near(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """[B] bool: is a token within tolerance of the orbit of its system?"""
    center = self.forecast(states, 1).tokens[:, 0]
    return np.abs(tokens - center) <= self.tolerance

  def state_id(self, states: np.ndarray) -> np.ndarray:
    """The word, or of a system a hash; see core.World."""
    ids = states[:, futures.WORD].astype(np.int64)
    drawn = np.flatnonzero(states[:, futures.NUMBER] >= 0)
    if drawn.size:
      hashed = basics.hash64(*states[drawn].T) >> np.uint64(1)
      ids[drawn] = hashed.astype(np.int64)
    return ids

  # Systems.

  @functools.cached_property
  def options(self) -> random_systems.Options:
    """What systems are drawn."""
    return random_systems.Options(
      self.systems,
      self.planets,
      self.steps,
      self.centre,
      random_systems.fitted(self.table),
      'shared_streams' in self.quirks,
      'pinned_sun' in self.quirks,
    )

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    """See core.World; side data are the fields of orbits.Systems.

    Raises:
      InputError: too few systems of a time step stay in the box with two
        samples a period.
    """
    rate = {'heldout': 1 / sampling.HELDOUT}.get(split, 1.0)
    batches: list[core.Sequences] = []
    have = first = 0
    tally = _Tally(self)
    sampling.check_split(split)
    while have < num or not batches:
      asked = int((num - have) / rate * 1.1) + 8
      asked = min(asked, max(CHUNK // self.rows, 1))
      numbers = np.arange(first, first + asked)
      drawn = random_systems.draw(self.options, seed, numbers)
      batch = self._made(drawn, numbers)
      used = tally.used(batch)
      batch = batch.take(used)
      rows = sampling.in_split(self.split_key(batch), split)
      batches.append(batch.take(rows))
      have, first = have + int(rows.sum()), first + asked
    side = {
      name: np.concatenate([part.side[name] for part in batches])[:num]
      for name in batches[0].side
    }
    tokens = np.concatenate([part.tokens for part in batches])[:num]
    lengths = np.full(len(tokens), self.max_len, np.int32)
    return core.Sequences(tokens, lengths, side, tally.counts)

  def _made(self, drawn: orbits.Systems, numbers: np.ndarray) -> core.Sequences:
    """Sequences of systems, with the rows `outside` the box as side data."""
    binned, outside = orbits.bins(drawn, self.rows - 1, *self.grid)
    tokens = np.empty((len(binned), self.rows, 2), np.int32)
    tokens[:, 0] = self.step_tokens(drawn.step)[:, None]
    tokens[:, 1:] = binned + self.first_bin
    side = {**drawn._asdict(), 'number': numbers, 'outside': outside}
    lengths = np.full(len(binned), self.max_len, np.int32)
    return core.Sequences(tokens.reshape(-1, self.max_len), lengths, side)

  def posterior(
    self, particles: int, sweeps: int, seed: int
  ) -> posterior.Posterior:
    """See core.Latent: of one planet, and systems of a known density."""
    return posterior.Posterior(self, particles, sweeps, seed)

  # The hidden state.

  def hidden_states(self, sequences: core.Sequences) -> np.ndarray:
    """[N, L, 6] of the row of each token; NaN of the sun and the time step."""
    rows = self.trajectory(sequences).state
    none = np.full((len(rows), 1, len(COLUMNS)), np.nan)
    return np.repeat(np.concatenate([none, rows], axis=1), 2, axis=1)

  def step_tokens(self, years: np.ndarray) -> np.ndarray:
    """int32 tokens of time steps."""
    place = np.searchsorted(np.sort(self.steps), years)
    return 1 + np.argsort(self.steps)[place].astype(np.int32)

  @property
  def years(self) -> tuple[float, ...]:
    """Time steps, in order of their tokens."""
    return self.steps

  @property
  def first_word(self) -> int:
    """The word of a state whose next token is an x."""
    return X

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

  def trajectory(self, sequences: core.Sequences) -> core.latent.Trajectory:
    """See core.Latent; `first_sun` and `radial_velocity` change states only."""
    drawn = self._drawn(sequences)
    rows = self.rows - 1
    bodies = drawn.planets[:, None] + 1
    frame, body = np.divmod(np.arange(rows)[None], bodies)
    place, seen = orbits.positions(drawn, rows), orbits.states(drawn, rows)
    planet = body < bodies - 1
    mass = np.take_along_axis(drawn.mass, np.where(planet, body, 0), axis=1)
    both = np.stack([mass, np.broadcast_to(drawn.star[:, None], mass.shape)], 2)
    state = np.concatenate([seen, np.where(planet[..., None], both, np.nan)], 2)
    if 'first_sun' in self.quirks:
      first = place[np.arange(len(place)), drawn.planets][:, None]
      state[..., :2] = np.where(planet[..., None], place - first, np.nan)
    if 'radial_velocity' in self.quirks:
      unit = seen[..., :2] / np.linalg.norm(seen[..., :2], axis=-1)[..., None]
      radial = (state[..., 2:4] * unit).sum(-1, keepdims=True)
      state[..., 2:4] -= 2 * radial * unit
    return core.latent.Trajectory(
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
    return orbits.Systems(*(sequences.side[name] for name in names))


class _Tally:
  """Counts systems that are left out, by cause.

  Attributes:
    counts: cause -> systems; of a world of clipped ones, what is there.
  """

  def __init__(self, world: World) -> None:
    self._world = world
    self.counts: dict[str, int] = {}
    self._seen = dict.fromkeys(world.steps, 0)
    self._kept = dict.fromkeys(world.steps, 0)

  def used(self, sequences: core.Sequences) -> np.ndarray:
    """[N] bool: does each system count? All do where they are clipped."""
    side: dict[str, Any] = sequences.side
    drawn = orbits.Systems(*(side[name] for name in orbits.Systems._fields))
    exists = np.arange(drawn.mass.shape[1]) < drawn.planets[:, None]
    few = ((drawn.period < 2 * drawn.step[:, None]) & exists).any(1)
    outside = side['outside'] > 0
    for cause, rows in (
      ('left the box', outside),
      ('fewer than two samples a period', few),
    ):
      if rows.any():
        self.counts[cause] = self.counts.get(cause, 0) + int(rows.sum())
    if 'clipped' in self._world.quirks:
      return np.ones(len(outside), bool)
    used = ~outside & ~few
    for step in self._world.steps:
      mine = drawn.step == step
      self._seen[step] += int(mine.sum())
      self._kept[step] += int((mine & used).sum())
      if self._seen[step] >= ENOUGH and not self._kept[step]:
        causes = ', '.join(f'{n} {cause}' for cause, n in self.counts.items())
        raise core.InputError(
          f'orbits: of {self._seen[step]} systems of step {step} years none '
          f'stays (of all: {causes}); expected a larger box or a shorter step'
        )
    return used
