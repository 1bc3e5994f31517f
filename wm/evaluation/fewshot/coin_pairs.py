"""Pairs of points that answers tell apart, by what their states share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from wm import core
from wm.evaluation.fewshot.coin_tasks import Points
from wm.evaluation.fewshot.state_distances import APART, Distances
from wm.kernels import pairs

# Kinds of pairs, as `pairs.Counts` has them; ALL is of two states.
SAME, ALIKE, UNLIKE, ALL = range(4)


class Compared(NamedTuple):
  """Points at which the answers of data sets are compared.

  Attributes:
    scored: points [G or 1, M, P].
    plain: of these M rows, those that are all compared with each other.
    close: [G, K, 2] rows of pairs q= among the others; DEAD for none. K is 0
      where q= is compared among the plain rows too.
    distances: of the points' states; None where the world has none.
    twins: data sets of a group: 1 or 2.
  """

  scored: Points
  plain: int
  close: np.ndarray
  distances: Distances | None
  twins: int

  def shares(self, answers: np.ndarray) -> np.ndarray:
    """[D, 4] shares of pairs that answers [D, M, P] tell apart.

    Of SAME, ALIKE and UNLIKE pairs, and of all of different states; NaN where
    there is no such pair.
    """
    shares = np.full((len(answers), 4), np.nan)
    for g, rows in self._groups(len(answers)):
      states, legal = self._plain(g)
      there = states != core.DEAD
      mine = answers[rows, : self.plain].reshape(len(rows), -1)[:, there]
      apart, total = pairs.count(mine, states[there], legal[there])
      apart = np.append(apart, apart[:, ALIKE:].sum(1, keepdims=True), axis=1)
      total = np.append(total, total[ALIKE:].sum())
      if self.close.shape[1]:
        first, second = self._close(g)
        flat = answers[rows, :, 0]
        apart[:, ALIKE] = (flat[:, first] != flat[:, second]).sum(1)
        total[ALIKE] = len(first)
      known = total > 0
      shares[np.ix_(rows, known)] = apart[:, known] / total[known]
    return shares

  def matched(self, answers: np.ndarray) -> np.ndarray:
    """[D] share of pairs q= told apart less that of pairs q!=, as far apart.

    Differences at each distance that both kinds have count as often as pairs
    of the rarer kind; NaN where there is no such distance. States that no path
    joins have none.
    """
    differences = np.full(len(answers), np.nan)
    for g, rows in self._groups(len(answers)):
      if self.distances is None:
        break
      kinds = self._alike(g), self._unlike(g)
      far = [self.distances.between(g, *kind) for kind in kinds]
      at, place = np.unique(np.concatenate(far), return_inverse=True)
      stratum = np.split(place, [len(far[0])])
      total = np.stack([np.bincount(k, minlength=len(at)) for k in stratum])
      weight = np.where(at == APART, 0, total.min(0))
      if not weight.any():
        continue
      for d in rows:
        flat = answers[d].reshape(-1)
        apart = [
          np.bincount(k, flat[first] != flat[second], len(at))
          for k, (first, second) in zip(stratum, kinds, strict=True)
        ]
        alike, unlike = np.array(apart) / np.maximum(total, 1)
        differences[d] = np.average(alike - unlike, weights=weight)
    return differences

  @property
  def unmatched(self) -> str:
    """Why `matched` is NaN where there are pairs of both kinds."""
    if self.distances is None:
      return 'no_distance_of_states'
    return 'no_pairs_as_far_apart'

  def right(self, answers: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """[D] share of plain points with the right answer; NaN without a point."""
    there = self.scored.states[:, : self.plain] != core.DEAD
    if len(there) > 1:
      there = np.repeat(there, self.twins, axis=0)
    right = (answers == truth)[:, : self.plain] & there
    total = np.broadcast_to(there, right.shape).sum((1, 2))
    return np.where(total > 0, right.sum((1, 2)) / np.maximum(total, 1), np.nan)

  def _groups(self, num: int) -> Iterator[tuple[int, np.ndarray]]:
    """Each group of points, and which of D data sets are scored there."""
    groups, rows = len(self.scored.states), np.arange(num)
    for g in range(groups):
      yield g, rows[rows // self.twins == g] if groups > 1 else rows

  def _plain(self, g: int) -> tuple[np.ndarray, np.ndarray]:
    """States and legal sets of the plain points of a group, flat."""
    return (
      self.scored.states[g, : self.plain].reshape(-1),
      self.scored.legal[g, : self.plain].reshape(-1),
    )

  def _close(self, g: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the pairs q= of a group that are drawn apart."""
    first, second = self.close[g].T
    states = self.scored.states[g, :, 0]
    # Both have a prefix; what stands for no pair is the last row, and dropped.
    both = (first != core.DEAD) & (states[first] != core.DEAD)
    both &= states[second] != core.DEAD
    return first[both], second[both]

  def _alike(self, g: int) -> tuple[np.ndarray, np.ndarray]:
    """The same pairs as ALIKE in `shares`, as places in all flat points."""
    if self.close.shape[1]:
      return self._close(g)
    return self._listed(g, same=True)

  def _unlike(self, g: int) -> tuple[np.ndarray, np.ndarray]:
    """The same pairs as UNLIKE in `shares`, as places in all flat points."""
    return self._listed(g, same=False)

  def _listed(self, g: int, same: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of plain points in two states, of the same legal set or of two."""
    states, legal = self._plain(g)
    there = np.flatnonzero(states != core.DEAD)
    states, legal = states[there], legal[there]
    apart = states[:, None] != states
    apart &= (legal[:, None] == legal) == same
    first, second = np.nonzero(np.triu(apart, 1))
    return there[first], there[second]
