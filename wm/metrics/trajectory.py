"""Trajectory: how far from where a body is does the model say that it is?

Vafa et al. 2025 (inductive bias probes), the table of next positions. Errors
are measured against positions that are not rounded to bins.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core.fields import field
from wm.evaluation import context, membership, paths
from wm.kernels import orbit_fits

BASELINES = ('previous', 'mean', 'ballistic', 'orbit')
# The published program reads bins as 7,003 of a box of +-1.5, where they are
# 1/70 AU wide: an AU is so many of its units.
PUBLISHED = 70 * 3 / 7003


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Compares the most likely positions with true ones, beside baselines.

  Each coordinate is the most likely one of its tokens; of teacher forcing y
  follows the true x, of a roll-out the model's own (paper: x and y at once).
  `one_step` is teacher-forced: every row, after the true ones before it, of all
  bodies, from the third frame on. `one_step_expected` is the same of the mean
  of each coordinate's distribution. `ahead_H` is rolled out: after `prefix`
  rows the model goes on from what it said, and its row number H is judged.
  Baselines see the same bins.

  A root of a mean square is over rows and both axes of one sequence; sequences
  are then averaged. Quantities that end in `published` are mean squares as in
  the paper's table: predicted bins are compared with true bins, in a unit of
  .029987 AU, as the published program takes its bins for those of another box;
  its mean is over the whole sequence, all bodies and what is to come.

  Reasons of unmeasured rows: longer_than_model; past_the_end, the row that is
  asked for is none of the sequence; short_prefix, the prefix has fewer than
  two frames; no_distribution, no coordinate has a probability;
  several_planets, an orbit of two bodies is not fitted.

  Attributes:
    num: held-out sequences that are followed.
    prefix: rows before a roll-out; 0 is half of them (paper: 500 of 1,000).
    ahead: rows H after the prefix that are judged.

  Glossary:
    one_step: Root mean square error of the next position, in AU a coordinate,
      after the true ones. A predictor of the right bin has the width of a bin
      by the root of 12.
    one_step_bins: The same in widths of a bin. The right bin is 0.29 of them
      off.
    one_step_published: Mean square of bins less true bins, in the unit of the
      paper's table. Its transformer has 1.9e-8 there, and the right bin 0.
    one_step_previous_published: The same of the position in the frame before.
      The paper has 1.16e-4.
    one_step_mean_published: The same of the mean of the whole sequence. The
      paper has 7.53e-2.
    one_step_expected: The same error of the mean of the model's distribution,
      in AU, instead of its most likely position. Of all positions it has the
      least expected square, by what the model believes.
    one_step_previous: The same error of a predictor that says where the body
      was in the frame before. It needs no physics.
    one_step_mean: The same error of a predictor that says the mean of where the
      body was so far. It knows the orbit's place alone.
    one_step_ballistic: The same error of a predictor that lets each body go on
      straight. It knows no force.
    one_step_orbit: The same error of an orbit of two bodies that is fitted to
      the bins so far, by least squares. It knows the law, and tokens only.
    ahead: Root mean square error of a row some rows after the prefix, in AU a
      coordinate, where the model goes on from its own positions. Errors add up
      on the way.
    ahead_bins: The same in widths of a bin. The right bin is 0.29 of them off.
    ahead_published: Mean square of bins less true bins, in the unit of the
      paper's table. An AU is 0.03 of it.
    ahead_previous_published: The same where each body stays where it was seen
      last. It needs no physics.
    ahead_mean_published: The same of the mean of the whole sequence. It has
      seen what is to come.
    ahead_previous: The same error where each body stays where it was seen last.
      It needs no physics.
    ahead_mean: The same error where each body is said to be at the mean of
      where it was seen. It knows the orbit's place alone.
    ahead_ballistic: The same error where each body goes on straight. It knows
      no force.
    ahead_orbit: The same error of an orbit of two bodies that is fitted to the
      bins of the prefix. It knows the law, and tokens only.
    years: years from frame to frame
  """

  version: ClassVar[str] = '2'
  needs: ClassVar[tuple[core.Need, ...]] = (
    core.Predictor,
    core.Latent.trajectory,
  )
  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  ideal: ClassVar[Mapping[str, str]] = {
    'one_step': '0: next position is exact',
    'ahead': '0: later positions are exact',
  }
  of_likelihood: ClassVar[tuple[str, ...]] = ('one_step', 'ahead')
  less_is_better: ClassVar[tuple[str, ...]] = ('one_step', 'ahead')
  breakdown: ClassVar[tuple[str, ...]] = ('years',)

  num: int = field(300, least=1)
  prefix: int = field(0, least=0)
  ahead: tuple[int, ...] = field((1, 5, 100), least=1, fewest=1)

  def __call__(
    self, predictor: core.Predictor, world: core.Latent, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per sequence, and of `ahead` and horizon."""
    sequences = world.sample(self.num, seed, split='heldout')
    tracks = _Tracks.of(world, sequences)
    fits = membership.fits(predictor, sequences.lengths)
    rows = np.flatnonzero(fits)
    predicted = np.full(tracks.seen.shape, np.nan)
    expected = predicted.copy()
    predicted[rows], expected[rows] = paths.forced(
      predictor, world, sequences.take(rows)
    )
    prefix = self.prefix or tracks.seen.shape[1] // 2
    table = _TrackScores(tracks, context.clusters(world, sequences), [])
    first = 2 * tracks.bodies
    judged = np.arange(tracks.seen.shape[1]) >= first[:, None]
    why = np.where(fits, '', 'longer_than_model').astype('<U17')
    names = ('', *(f'_{name}' for name in BASELINES))
    guesses = [predicted, *(tracks.guess(name) for name in BASELINES)]
    for name, guess in zip(names, guesses, strict=True):
      table.add('one_step', name, '', guess, judged, why)
    silent = (np.isnan(expected).any(-1) & judged).any(1) & fits
    unsaid = np.where(silent, 'no_distribution', why)
    table.add('one_step', '_expected', '', expected, judged, unsaid)
    last = tracks.seen.shape[1]
    start = min(prefix, last)
    steps = max([h for h in self.ahead if start + h <= last], default=0)
    predicted[rows, start : start + steps] = paths.rolled(
      predictor, world, sequences.take(rows), start, steps
    )
    guesses = [predicted, *(tracks.guess(name, start) for name in BASELINES)]
    short = prefix < 2 * tracks.bodies
    for h in self.ahead:
      row = prefix + h - 1
      none = np.where(short, 'short_prefix', why)
      if row >= last:
        none = np.full(len(why), 'past_the_end')
      judged = np.broadcast_to(np.arange(last) == row, predicted.shape[:2])
      for name, guess in zip(names, guesses, strict=True):
        table.add('ahead', name, f'_{h}', guess, judged, none)
    return tuple(table.scores)


class _Tracks(NamedTuple):
  """Positions of bodies in N sequences of R rows.

  Attributes:
    true, seen: [N, R, 2] AU, as they are and as centres of bins.
    bodies: [N] rows of a frame.
    step: [N] years.
    width: of a bin, AU.
  """

  true: np.ndarray
  seen: np.ndarray
  bodies: np.ndarray
  step: np.ndarray
  width: float

  @classmethod
  def of(cls, world: core.Latent, sequences: core.Sequences) -> _Tracks:
    """Those of sampled sequences."""
    motion, seen = world.trajectory(sequences), paths.seen(world, sequences)
    return cls(motion.position, seen, motion.bodies, motion.step, world.width)

  def guess(self, name: str, prefix: int | None = None) -> np.ndarray:
    """[N, R, 2] what a baseline says of each row; NaN where it cannot.

    prefix: rows that it sees; None is all before the row.
    """
    row, bodies = np.arange(self.seen.shape[1])[None], self.bodies[:, None]
    last_row = row if prefix is None else np.minimum(row, prefix)
    # Frames back to where the same body was seen last, at least one.
    back = np.maximum(-((last_row - row - 1) // bodies), 1)
    last = row - back * bodies
    if name == 'previous':
      return self._at(last)
    if name in ('ballistic', 'orbit'):
      now, before = self._at(last), self._at(last - bodies)
      straight = now + back[..., None] * (now - before)
      return straight if name == 'ballistic' else self._orbit(straight, prefix)
    # Sums of a body's rows, a frame after the other.
    total = self.seen.copy()
    for n, size in enumerate(self.bodies):
      for start in range(size):
        part = total[n, start::size]
        total[n, start::size] = np.cumsum(part, axis=0)
    count = last // bodies + 1
    sums = np.where(
      (last >= 0)[..., None],
      np.take_along_axis(total, np.maximum(last, 0)[..., None], axis=1),
      np.nan,
    )
    return sums / np.maximum(count, 1)[..., None]

  def _orbit(self, otherwise: np.ndarray, prefix: int | None) -> np.ndarray:
    """[N, R, 2] by fitted orbits; `otherwise` where none can be read yet."""
    pairs = self.bodies == 2
    observations = self.seen[pairs], self.step[pairs], self.width
    ahead = orbit_fits.ahead(*observations, prefix)
    positions = np.full(self.seen.shape, np.nan)
    positions[pairs] = np.where(np.isnan(ahead), otherwise[pairs], ahead)
    return positions

  def _at(self, row: np.ndarray) -> np.ndarray:
    positions = np.take_along_axis(
      self.seen, np.maximum(row, 0)[..., None], axis=1
    )
    return np.where((row >= 0)[..., None], positions, np.nan)


class _TrackScores(NamedTuple):
  """Scores so far, to which `add` adds."""

  tracks: _Tracks
  group: np.ndarray
  scores: list[core.Scores]

  def add(
    self,
    name: str,
    whose: str,
    horizon: str,
    guess: np.ndarray,
    judged: np.ndarray,
    reason: np.ndarray,
  ) -> None:
    """Errors of positions [N, R, 2], over the rows [N, R] that are judged."""
    tracks = self.tracks

    def mean_square(positions: np.ndarray, truth: np.ndarray) -> np.ndarray:
      square = ((positions - truth) ** 2).mean(-1)
      count = np.maximum(judged.sum(1), 1)
      return np.where(judged, square, 0).sum(1) / count

    root = np.sqrt(mean_square(guess, tracks.true))
    if whose == '_orbit':
      many = (self.tracks.bodies != 2) & (reason == '')
      reason = np.where(many, 'several_planets', reason)
    kinds = {whose: root}
    if not whose:
      kinds['_bins'] = root / tracks.width
    if whose in ('', '_previous', '_mean'):
      binned = guess
      if whose == '_mean':
        binned = tracks.seen.mean(1, keepdims=True)
      square = mean_square(binned, tracks.seen)
      kinds[f'{whose}_published'] = square * PUBLISHED**2
    for kind, value in kinds.items():
      scores = core.scores(
        f'{name}{kind}{horizon}',
        np.where(reason == '', value, np.nan),
        reason=reason,
        group=self.group,
        columns={'years': self.tracks.step},
        bounds=(0.0, None),
      )
      self.scores.append(scores)
