"""Learners that look an answer up: by state, by what is legal, by last token.

They bracket what a network makes of small data sets (Vafa et al. 2025). Two
points with the same key get the same answer; a key that no label of a data set
says anything of gets a coin of its own, a hash.
"""

from __future__ import annotations

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
    sets: core.Sets,
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
    labels get the mean of the data set. Steps make no difference.
    """
    core.check_adapting(sets, asked, kind, steps, tuning)
    seed = self.coins(seed)
    of_asked = keys(self.world, self.by, asked.tokens, asked.places)
    of_sets = None
    if self.learned:
      of_sets = keys(self.world, self.by, sets.tokens, sets.places)
    shape = of_asked.shape[1:]
    answers = []
    for d in range(len(of_asked)):
      known = np.zeros(0, np.uint64)
      labels = sets.labels[d][:0, 0]
      if of_sets is not None:
        there = sets.places[d] != core.DEAD
        known, labels = of_sets[d][there], sets.labels[d][there]
      wanted = of_asked[d].reshape(-1)
      if isinstance(kind, core.Classes):
        coins = core.hash64(seed, d, wanted[:, None], np.arange(kind.heads))
        found = np.log(0.5 + _votes(known, labels, wanted, coins, kind))
      else:
        found = _means(known, labels, wanted)
      answers.append(found.reshape(*shape, *found.shape[1:]))
    once = np.stack(answers).astype(np.float32)
    outputs = np.broadcast_to(once, (len(steps), *once.shape))
    return core.Adapted(outputs, np.full(len(steps), np.nan))


def _votes(
  known: np.ndarray,
  labels: np.ndarray,
  wanted: np.ndarray,
  coins: np.ndarray,
  kind: core.Classes,
) -> np.ndarray:
  """[Q, H, k] labels [T, H] of keys [T] by class, for wanted keys [Q]."""
  seen, back = np.unique(known, return_inverse=True)
  votes = np.zeros((len(seen) + 1, kind.heads, kind.k))
  heads = np.arange(kind.heads)
  np.add.at(votes, (back[:, None], heads, labels), 1)
  # The last row is that of keys without a label.
  found = votes[_place(seen, wanted)]
  chosen = (coins % np.uint64(kind.k)).astype(np.int64)
  found[np.arange(len(wanted))[:, None], heads, chosen] += 0.5
  return found


def _means(
  known: np.ndarray, labels: np.ndarray, wanted: np.ndarray
) -> np.ndarray:
  """[Q, d] mean of labels [T, d] of keys [T], for wanted keys [Q]."""
  seen, back = np.unique(known, return_inverse=True)
  total = np.zeros((len(seen) + 1, labels.shape[1]))
  np.add.at(total, back, labels)
  total[:-1] /= np.bincount(back, minlength=len(seen))[:, None]
  total[-1] = labels.mean(0) if len(labels) else 0
  return total[_place(seen, wanted)]


def _place(seen: np.ndarray, wanted: np.ndarray) -> np.ndarray:
  """[Q] place of wanted keys among ascending ones; their number if none."""
  if not len(seen):
    return np.zeros(len(wanted), np.int64)
  place = np.minimum(np.searchsorted(seen, wanted), len(seen) - 1)
  return np.where(seen[place] == wanted, place, len(seen))
