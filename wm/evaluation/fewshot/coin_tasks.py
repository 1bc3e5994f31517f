"""Random binary labellings of states as few-shot tasks, with query points.

Vafa et al. 2025 give each state of a world a fair coin, label a few sequences
with the coins of the states at one place each, and ask a model that was
adapted to these labels about other places. D data sets; a group of `twins` of
them shares sequences and points and differs by its labels alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import adapting, basics, registry

# Streams of randomness under one seed.
TRAINED, PLACES, STATES, POOL, MOVES, PREFIXES, COINS, CHOSEN = range(11, 19)
# Draws of a prefix that a state has already, before it goes without.
ATTEMPTS = 8


def stream(seed: int, *words: int) -> int:
  """A non-negative integer seed for one use of randomness."""
  return int(basics.hash64(seed, *words) >> np.uint64(2))


class Points(NamedTuple):
  """Places of sequences, and the state and what is legal there.

  Attributes:
    tokens: [G, M, L] int32.
    places: [G, M, P] int32.
    states: [G, M, P] int64; DEAD where there is no point.
    legal: [G, M, P] uint64, equal where the same tokens are legal.
  """

  tokens: np.ndarray
  places: np.ndarray
  states: np.ndarray
  legal: np.ndarray

  def rows(self, part: slice) -> Points:
    """Some of the M sequences."""
    return Points(*(array[:, part] for array in self))


def points(
  world: core.World,
  tokens: np.ndarray,
  places: np.ndarray,
  legal: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Points:
  """Points [G, M, P] of sequences [G, M, L]; legal: see adapting.at_places."""
  flat = tokens.reshape(-1, tokens.shape[2])
  found = adapting.at_places(world, flat, places.reshape(len(flat), -1), legal)
  states, sets = (array.reshape(places.shape) for array in found)
  return Points(tokens, places, states, sets)


def labelled(world: core.World, groups: int, num: int, seed: int) -> Points:
  """`num` training sequences for each group, with one place each.

  Places are uniform on those after the prompt and before the last token.

  Raises:
    InputError: the world has fewer sequences.
  """
  sequences = world.sample(groups * num, stream(seed, TRAINED), split='train')
  if len(sequences) < groups * num:
    raise core.InputError(
      f'{registry.spec(world)} gave {len(sequences)} training sequences; '
      f'expected {groups * num}, for {groups} groups of data sets of {num}'
    )
  low = np.minimum(world.prompt_len, sequences.lengths - 1)
  high = np.maximum(sequences.lengths - 2, low)
  share = basics.uniforms(stream(seed, PLACES), np.arange(groups * num))
  above = np.floor(share * (high - low + 1)).astype(np.int32)
  place = np.minimum(low + above, high).astype(np.int32)
  shape = groups, num
  tokens = sequences.tokens.reshape(*shape, -1)
  return points(world, tokens, place.reshape(*shape, 1))


def visited(
  world: core.World, num: int, most: int, first: int, seed: int
) -> Points:
  """`most` random places of `num` held-out sequences, as one group.

  As published, places begin at the first token after the prompt, or at `first`,
  and end before the longest sequence's last token; nothing is over there. The
  places that are not chosen have state DEAD. What is legal is what side 0 may
  do (black in Othello), whoever is to move, where labels with another side make
  a state.
  """
  sequences = world.sample(num, stream(seed, TRAINED), split='heldout')
  if not len(sequences):
    raise core.InputError(f'{registry.spec(world)} gave no held-out sequence')
  last = min(int(sequences.lengths.max()), world.max_len - 1)
  places = np.arange(max(world.prompt_len, first), last)
  places = np.broadcast_to(places, (len(sequences), len(places))).astype(
    np.int32
  )
  valid = places < sequences.lengths[:, None]
  places = np.where(valid, places, core.DEAD)
  every = points(world, sequences.tokens[None], places[None])
  over = basics.hash64(*np.packbits(np.zeros(len(world.vocab), bool)))
  valid &= every.legal[0] != over
  rows = np.arange(len(sequences))[:, None]
  order = np.argsort(
    np.where(
      valid,
      basics.hash64(stream(seed, CHOSEN), places, rows) >> np.uint64(1),
      np.uint64(2**63),
    ),
    axis=None,
    kind='stable',
  )
  chosen = np.zeros(valid.size, bool)
  chosen[order[: min(most, int(valid.sum()))]] = True
  chosen = (chosen.reshape(valid.shape) & valid)[None]
  places = np.where(chosen, every.places, core.DEAD)
  return points(world, every.tokens, places, _by_side_0(world))


def _by_side_0(world: core.World) -> Callable[[np.ndarray], np.ndarray] | None:
  """What is legal in states if side 0 is to move; None: the world has no such.

  Other labels stay, so that what moved there may be of the other side.
  """
  if not core.can(world, core.Labelled.from_labels) or world.heads.turn is None:
    return None
  turn = world.heads.turn

  def legal(states: np.ndarray) -> np.ndarray:
    """[B, V] bool."""
    labels = world.labels(states)
    labels[:, turn] = 0
    return world.legal(world.from_labels(labels))

  return legal


def reached(
  world: core.Prefixed, states: np.ndarray, prefixes: int, seed: int
) -> Points:
  """Different prefixes that reach given states [G, M, W].

  Returns:
    Points [G, M * prefixes, 1], those of one state one after another. A prefix
    that the state has already, or cannot have, is drawn anew ATTEMPTS times.
  """
  groups, num, words = states.shape
  total = groups * num
  flat = states.reshape(total, words)
  low, high = world.prefix_moves(flat).T
  tokens = np.zeros((total, prefixes, world.max_len), np.int32)
  lengths = np.zeros((total, prefixes), np.int32)
  pending = np.argwhere(np.broadcast_to((low <= high)[:, None], lengths.shape))
  for attempt in range(ATTEMPTS):
    if not len(pending):
      break
    row, nth = pending.T
    words_ = stream(seed, MOVES), row, nth, attempt
    above = np.floor(basics.uniforms(*words_) * (high - low + 1)[row])
    moves = np.minimum(low[row] + above.astype(np.int32), high[row])
    seeds = basics.hash64(stream(seed, PREFIXES), row, nth, attempt)
    got = world.sample_prefixes(flat[row], moves, seeds)
    width = got.tokens.shape[1]
    tokens[row, nth] = 0
    tokens[row, nth, :width] = got.tokens
    lengths[row, nth] = np.where(got.ok, got.lengths, 0)
    same = (tokens[row, :] == tokens[row, nth][:, None]).all(-1)
    same &= lengths[row] == lengths[row, nth][:, None]
    # One with the same prefix before it is drawn again; the first one stays.
    again = (same & (np.arange(prefixes) < nth[:, None])).any(1)
    lengths[row[again], nth[again]] = 0
    pending = pending[lengths[row, nth] == 0]
  shape = groups, num * prefixes
  places = (lengths - 1).reshape(*shape, 1)  # DEAD where there is no prefix.
  return points(world, tokens.reshape(*shape, -1), places)


def alike(
  world: core.World, states: np.ndarray, num: int, seed: int
) -> np.ndarray:
  """Pairs of different states with the same legal tokens.

  states: [G, M, W], drawn independently.

  Returns:
    [G, num, 2] int64 places among the M states, uniform over all such pairs,
    without replacement; DEAD where there are no more.
  """
  groups, size, words = states.shape
  flat = states.reshape(-1, words)
  ids = world.state_id(flat).reshape(groups, size)
  packed = np.packbits(world.legal(flat), axis=-1)
  legal = basics.hash64(*packed.T).reshape(groups, size)
  chosen_pairs = np.full((groups, num, 2), core.DEAD, np.int64)
  first, second = np.triu_indices(size, 1)
  for g in range(groups):
    same = legal[g][first] == legal[g][second]
    pairs = np.flatnonzero(same & (ids[g][first] != ids[g][second]))
    order = np.argsort(basics.hash64(seed, g, pairs), kind='stable')
    selected = pairs[order[:num]]
    chosen_pairs[g, : len(selected)] = np.stack(
      [first[selected], second[selected]], -1
    )
  return chosen_pairs


class Coins(NamedTuple):
  """A coin for each state in each of D data sets.

  Attributes:
    num: D.
    seed: of the coins.
    states: ascending ids of all states, where each assignment of labels to
      them comes in turn; None where coins are hashes.
    twins: data sets whose coins are each other's complements: 1 or 2.
  """

  num: int
  seed: int
  states: np.ndarray | None
  twins: int

  def labels(self, ids: np.ndarray) -> np.ndarray:
    """[D, ...] int64 labels, 0 or 1, of state ids [G, ...]."""
    of = np.arange(self.num) // self.twins
    shape = (self.num, *(1,) * (ids.ndim - 1))
    # A group of data sets of its own each, or one that all share.
    ids = ids[np.minimum(of, len(ids) - 1)]
    if self.states is None:
      words = self.seed, of.reshape(shape), ids
      coins = (basics.hash64(*words) >> np.uint64(17)) & np.uint64(1)
    else:
      place = np.searchsorted(self.states, ids)
      place = np.minimum(place, len(self.states) - 1)
      # Half of the assignments: the other half are complements.
      turn = (of % 2 ** (len(self.states) - 1)).astype(np.uint64)
      coins = (turn.reshape(shape) >> place.astype(np.uint64)) & np.uint64(1)
    flip = (np.arange(self.num) % self.twins).reshape(shape)
    return coins.astype(np.int64) ^ flip

  @property
  def strata(self) -> np.ndarray | None:
    """[D] the assignment of labels, where they come in turn.

    Each is then drawn as often as it is among all, and the chance of drawing
    one with few pairs to tell apart makes no difference. They ascend by how
    many states have the rarer label, so that neighbours are alike.
    """
    if self.states is None:
      return None
    ones = self.labels(self.states[None]).sum(1)
    rarer = np.minimum(ones, len(self.states) - ones)
    turns = 2 ** (len(self.states) - 1)
    return rarer * turns + np.arange(self.num) // self.twins % turns

  @property
  def weight(self) -> np.ndarray:
    """[D] float64, so that each assignment that comes in turn counts alike."""
    if self.states is None:
      return np.ones(self.num)
    of = np.arange(self.num) // self.twins % 2 ** (len(self.states) - 1)
    return self.twins / np.bincount(of)[of]


def coins(
  num: int, seed: int, ids: list[np.ndarray], stratified: bool
) -> Coins:
  """Coins of D data sets.

  Independent coins leave much to chance: of five states, D data sets' ideal
  D-IB varies by .33 from one to the next (Vafa et al. 2025 have these).
  Stratified ones come as complements, data sets 0 and 1, 2 and 3, ...; where
  all assignments of labels to the states fit in D, as all of them in turn.

  Args:
    num: D; even where stratified.
    seed: of the coins.
    ids: arrays of all state ids that will be labelled.
    stratified: or each state's coin in each data set is its own.
  """
  seed = stream(seed, COINS)
  if not stratified:
    return Coins(num, seed, None, 1)
  states = np.unique(np.concatenate([array.reshape(-1) for array in ids]))
  states = states[states != core.DEAD]
  few = 0 < len(states) < 63 and 2 ** len(states) <= num
  return Coins(num, seed, states if few else None, 2)


def ratio_parts(
  share: np.ndarray, ideal: np.ndarray, weight: np.ndarray
) -> np.ndarray:
  """[D] parts of each data set in the ratio of two weighted means.

  The weighted mean of the parts is the ratio sum(w share) / sum(w ideal), and
  their spread that of its linearised error, so that it has an honest interval.
  A mean of ratios would have to leave out data sets whose true labels are all
  the same, and with them whatever the answers tell apart there.

  share, ideal: [D] of pairs told apart by answers and by true labels; NaN where
    there is no such pair, as are the parts; all are where nothing is apart.
  """
  measured = np.isfinite(share) & np.isfinite(ideal) & (weight > 0)
  mean = (
    np.average(ideal[measured], weights=weight[measured])
    if measured.any()
    else 0
  )
  if not mean:
    return np.full(len(share), np.nan)
  ratio = np.average(share[measured], weights=weight[measured]) / mean
  return np.where(measured, ratio + (share - ratio * ideal) / mean, np.nan)
