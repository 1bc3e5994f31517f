"""Trajectory: how far is a predicted position from the body's true one?

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

BASELINES = ('previous', 'mean', 'ballistic')
# The published program's unit in AU: it takes 7,003 bins for a box of +-1.5,
# but its bins are 1/70 AU wide.
PUBLISHED = 70 * 3 / 7003


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Compares predicted positions with true ones, and with baselines.

  Each predicted coordinate is its most likely token. The y coordinate follows
  the true x under teacher forcing, and the predicted x in a roll-out (paper: x
  and y at once). `one_step` is teacher-forced and covers every row, of all
  bodies, from the third frame on. `one_step_expected` uses the mean of each
  coordinate's distribution instead. `ahead_H` is rolled out: after `prefix`
  rows the model continues from its own predictions, and its row H is judged.
  Baselines see the same bins.

  Root mean squares are over rows and both axes of one sequence; sequences are
  then averaged. Quantities that end in `published` are mean squares as in the
  paper's table. They compare predicted with true bins in a unit of .029987 AU,
  because the published program takes its bins for those of another box; its
  mean is over the whole sequence, with all bodies and future rows.

  Reasons of unmeasured rows: longer_than_model, past_the_end (the sequence has
  no such row), short_prefix (the prefix has fewer than two frames),
  no_distribution (no coordinate has a probability).

  Attributes:
    num: held-out sequences.
    prefix: rows before a roll-out; 0 is half of the rows (paper: 500 of 1,000).
    ahead: rows H after the prefix that are judged.

  Glossary:
    one_step: Root mean square error of the next position after true positions,
      in AU per coordinate. A predictor of the right bin has the width of a bin
      divided by the root of 12.
    one_step_bins: As one_step, in widths of a bin. A predictor of the right bin
      has 0.29.
    one_step_published: Mean square difference of predicted and true bins, in
      the unit of the paper's table. The paper's transformer has 1.9e-8, and a
      predictor of the right bin 0.
    one_step_previous_published: As one_step_published, for the position in the
      previous frame. The paper has 1.16e-4.
    one_step_mean_published: As one_step_published, for the mean of the whole
      sequence. The paper has 7.53e-2.
    one_step_expected: As one_step, for the mean of the model's distribution
      instead of its most likely position. The mean has the least expected
      square error under the model's distribution.
    one_step_previous: As one_step, for the body's position in the previous
      frame. This baseline uses no physics.
    one_step_mean: As one_step, for the mean of the body's positions so far.
      This baseline uses only the place of the orbit.
    one_step_ballistic: As one_step, for bodies that continue in a straight
      line. This baseline uses no force.
    ahead: Root mean square error of a row some rows after the prefix, in AU per
      coordinate, if the model continues from its own predictions. Errors add up
      from row to row.
    ahead_bins: As ahead, in widths of a bin. A predictor of the right bin has
      0.29.
    ahead_published: Mean square difference of predicted and true bins, in the
      unit of the paper's table. The unit is 0.03 AU.
    ahead_previous_published: As ahead_published, for bodies that stay at their
      last observed positions. This baseline uses no physics.
    ahead_mean_published: As ahead_published, for the mean of the whole
      sequence. This baseline sees future rows.
    ahead_previous: As ahead, for bodies that stay at their last observed
      positions. This baseline uses no physics.
    ahead_mean: As ahead, for the mean of each body's observed positions. This
      baseline uses only the place of the orbit.
    ahead_ballistic: As ahead, for bodies that continue in a straight line. This
      baseline uses no force.
    years: years from frame to frame
  """

  version: ClassVar[str] = '2'
  needs: ClassVar[tuple[core.Need, ...]] = (
    core.Predictor,
    core.Latent.trajectory,
  )
  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'one_step': core.Measure(0, 'next position is exact', likely=True),
    'ahead': core.Measure(0, 'later positions are exact', likely=True),
  }
  breakdown: ClassVar[tuple[str, ...]] = ('years',)

  num: int = field(300, least=1)
  prefix: int = field(0, least=0)
  ahead: tuple[int, ...] = field((1, 5, 100), least=1, fewest=1)

  def __call__(
    self, predictor: core.Predictor, world: core.Latent, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per sequence; of `ahead` also per horizon."""
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
    true, seen: [N, R, 2] AU, exact positions and centres of their bins.
    bodies: [N] rows of a frame.
    step: [N] years from frame to frame.
    width: width of a bin, AU.
  """

  true: np.ndarray
  seen: np.ndarray
  bodies: np.ndarray
  step: np.ndarray
  width: float

  @classmethod
  def of(cls, world: core.Latent, sequences: core.Sequences) -> _Tracks:
    """The positions in sampled sequences."""
    motion, seen = world.trajectory(sequences), paths.seen(world, sequences)
    return cls(motion.position, seen, motion.bodies, motion.step, world.width)

  def guess(self, name: str, prefix: int | None = None) -> np.ndarray:
    """[N, R, 2] positions that a baseline predicts; NaN if it has none.

    prefix: number of rows that it sees; None: all rows before each row.
    """
    row, bodies = np.arange(self.seen.shape[1])[None], self.bodies[:, None]
    last_row = row if prefix is None else np.minimum(row, prefix)
    # Frames back to the last observation of the same body, at least one.
    back = np.maximum(-((last_row - row - 1) // bodies), 1)
    last = row - back * bodies
    if name == 'previous':
      return self._at(last)
    if name == 'ballistic':
      now, before = self._at(last), self._at(last - bodies)
      return now + back[..., None] * (now - before)
    # Cumulative sums over a body's rows, frame by frame.
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

  def _at(self, row: np.ndarray) -> np.ndarray:
    positions = np.take_along_axis(
      self.seen, np.maximum(row, 0)[..., None], axis=1
    )
    return np.where((row >= 0)[..., None], positions, np.nan)


class _TrackScores(NamedTuple):
  """Collects scores by `add`."""

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
    """Adds errors of positions [N, R, 2] over judged rows [N, R]."""
    tracks = self.tracks

    def mean_square(positions: np.ndarray, truth: np.ndarray) -> np.ndarray:
      square = ((positions - truth) ** 2).mean(-1)
      count = np.maximum(judged.sum(1), 1)
      return np.where(judged, square, 0).sum(1) / count

    root = np.sqrt(mean_square(guess, tracks.true))
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
