"""Learners that look an answer up: by state, by what is legal, by last token.

They bracket what a network makes of small data sets (Vafa et al. 2025). Two
points with the same key get the same answer; a key that no label of a data set
says anything of gets a coin of its own, a hash.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wm import core

KEYS = ('state', 'legal', 'last_token', 'prefix', 'nothing')


def keys(
  world: core.World, by: str, tokens: np.ndarray, places: np.ndarray
) -> np.ndarray:
  """[D, R, P] uint64 keys of places [D, R, P] of sequences [D, R, L]."""
  if by not in KEYS:
    raise core.InputError(f'by={by!r} was given; available: {", ".join(KEYS)}')
  num, rows, width = places.shape
  if num > 1 and tokens.strides[0] == places.strides[0] == 0:
    # All data sets are asked the same: followed once.
    once = keys(world, by, tokens[:1], places[:1])
    return np.broadcast_to(once, places.shape)
  flat, at = tokens.reshape(num * rows, -1), places.reshape(num * rows, width)
  if by == 'nothing':
    found = np.zeros(at.shape, np.uint64)
  elif by == 'last_token':
    found = np.take_along_axis(flat, np.maximum(at, 0), 1).astype(np.uint64)
  elif by == 'prefix':
    found = np.zeros(at.shape, np.uint64)
    mixed = np.zeros(len(flat), np.uint64)
    for t in range(int(at.max(initial=core.DEAD)) + 1):
      mixed = core.hash64(mixed, flat[:, t])
      found = np.where(at == t, mixed[:, None], found)
  else:
    states, legal = core.at_places(world, flat, at)
    found = states.astype(np.uint64) if by == 'state' else legal
  return found.reshape(places.shape)


class LooksUp(core.Adaptable):
  """Adapts to labels by a look-up.

  Attributes:
    world: whose states are looked up.
    by: what shares an answer, one of KEYS.
    learned: False leaves all labels out: each key has its coin; for real labels
      0.
  """

  world: core.World
  by: str = 'state'
  learned: bool = True

  def coins(self, seed: int) -> int:
    """Seed of the coins of `adapt` with a seed."""
    return seed

  def adapt(
    self,
    sets: core.Sets | core.Stream,
    asked: core.Asked,
    kind: core.Kind,
    steps: tuple[int, ...],
    seed: int,
    tuning: core.Tuning = core.TUNING,
  ) -> core.Adapted:
    """See core.Adaptable: the commonest class, or the mean, of a key's labels.

    Scores are log numbers of labels, each half of one more, so that they are
    log shares but for a constant; a hashed class has half of one more again, so
    that it settles ties and stands where there is no label. Unseen keys of real
    labels get the mean of the data set. Steps make no difference, but for a
    stream: of that all sequences up to the step are looked up.
    """
    core.check_adapting(sets, asked, kind, steps, tuning)
    seed = self.coins(seed)
    wanted = keys(self.world, self.by, asked.tokens, asked.places)
    many = range(len(wanted))
    notes = [_NOTES[type(kind)](wanted[d], kind, seed, d) for d in many]
    answers, done = [], 0
    for step in steps if isinstance(sets, core.Stream) else (1,):
      for number in range(done, step if self.learned else done):
        given = sets
        if isinstance(sets, core.Stream):
          given = sets.batch(number, kind)
        assert isinstance(given, core.Sets)  # One or the other.
        known = keys(self.world, self.by, given.tokens, given.places)
        for note, key, place, labels in zip(
          notes, known, *given[1:], strict=True
        ):
          there = place != core.DEAD
          note.add(key[there], labels[there])
      answers.append(np.stack([note.answers() for note in notes]))
      done = step
    found = np.stack(answers).astype(np.float32)
    outputs = np.broadcast_to(found, (len(steps), *found.shape[1:]))
    return core.Adapted(outputs, np.full(len(steps), np.nan))


class _Votes:
  """Labels by class, of the keys that are asked about."""

  def __init__(
    self, wanted: np.ndarray, kind: core.Classes, seed: int, d: int
  ) -> None:
    """wanted: [...] keys; seed, d: of coins."""
    self._seen, self._back = np.unique(wanted, return_inverse=True)
    self._shape = (*wanted.shape, kind.heads, kind.k)
    heads = np.arange(kind.heads)
    coins = core.hash64(seed, d, self._seen[:, None], heads)
    self._coin = (coins % np.uint64(kind.k)).astype(np.int64)
    self._votes = np.zeros((len(self._seen), kind.heads, kind.k))

  def add(self, known: np.ndarray, labels: np.ndarray) -> None:
    """Labels [T, H] of keys [T]."""
    place, some = _found(self._seen, known)
    heads = np.arange(labels.shape[1])
    np.add.at(self._votes, (place[:, None], heads, labels[some]), 1)

  def answers(self) -> np.ndarray:
    """[..., H, k] of the wanted keys."""
    votes = self._votes + 0.5
    rows, heads = np.indices(self._coin.shape)
    votes[rows, heads, self._coin] += 0.5
    return np.log(votes)[self._back].reshape(self._shape)


class _Means:
  """Means of labels, of the keys that are asked about."""

  def __init__(
    self, wanted: np.ndarray, kind: core.Real, seed: int, d: int
  ) -> None:
    """wanted: [...] keys; seed, d: not used, there are no coins."""
    self._seen, self._back = np.unique(wanted, return_inverse=True)
    self._shape = (*wanted.shape, kind.d)
    self._total = np.zeros((len(self._seen), kind.d))
    self._num = np.zeros((len(self._seen), 1))
    self._all, self._count = np.zeros(kind.d), 0

  def add(self, known: np.ndarray, labels: np.ndarray) -> None:
    """Labels [T, d] of keys [T]."""
    place, some = _found(self._seen, known)
    np.add.at(self._total, place, labels[some])
    np.add.at(self._num, place, 1)
    self._all += labels.sum(0, dtype=np.float64)
    self._count += len(labels)

  def answers(self) -> np.ndarray:
    """[..., d] of the wanted keys; the mean of all where none has a label."""
    found = self._total / np.maximum(self._num, 1)
    found = np.where(self._num > 0, found, self._all / max(self._count, 1))
    return found[self._back].reshape(self._shape)


_NOTES: dict[type, Any] = {core.Classes: _Votes, core.Real: _Means}


def _found(
  seen: np.ndarray, known: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Places in `seen`, ascending, of the keys [T] that are there; and which."""
  place = np.minimum(np.searchsorted(seen, known), max(len(seen) - 1, 0))
  some = seen[place] == known if len(seen) else np.zeros(len(known), bool)
  return place[some], some
