"""Random binary labelings of states as few-shot tasks, and their scores.

Vafa et al. 2025 flip a fair coin for each state of a world, label one position
in each of a few sequences with the coin of its state, and ask a model adapted
to these labels about other positions. There are D data sets; a group of `twins`
data sets shares sequences and points and differs in its labels alone.

Scores count pairs of points with different answers, by the relation of their
states (`Compared`), also at equal distances of states (`Distances`). States
with the same legal next tokens may be nearer to each other than others: on a
line all states but the ends have the same. A model that separates near states
less, and ignores legal tokens, then seems to merge states by legal tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import scipy

from wm import core
from wm.core import adapting, basics, capabilities
from wm.evaluation import fewshot

# Streams of randomness under one seed.
TRAINED, PLACES, STATES, POOL, MOVES, PREFIXES, COINS, CHOSEN = range(11, 19)
# Draws of a new prefix of a state before it is left out.
ATTEMPTS = 8
# Most states of an automaton whose distances are found by search.
MOST_STATES = 2000
APART = np.iinfo(np.int32).max  # Distance of states without a path.
# Kinds of pairs, as in `PairCounts`; ALL: all pairs of two states.
SAME, ALIKE, UNLIKE, ALL = range(4)


class StatePoints(NamedTuple):
  """Positions of sequences, with their states and sets of legal tokens.

  Attributes:
    tokens: [G, M, L] int32.
    places: [G, M, P] int32 positions.
    states: [G, M, P] int64 state ids; DEAD for no point.
    legal: [G, M, P] uint64 hashes, equal for equal sets of legal tokens.
  """

  tokens: np.ndarray
  places: np.ndarray
  states: np.ndarray
  legal: np.ndarray


def points(
  world: core.World,
  tokens: np.ndarray,
  places: np.ndarray,
  legal: Callable[[np.ndarray], np.ndarray] | None = None,
) -> StatePoints:
  """Points [G, M, P] of sequences [G, M, L]; legal: see adapting.at_places."""
  # [G, M, L] -> [G * M, L], as a world follows rows, and back to [G, M, P].
  flat = tokens.reshape(-1, tokens.shape[2])
  arrays = adapting.at_places(world, flat, places.reshape(len(flat), -1), legal)
  states, sets = (array.reshape(places.shape) for array in arrays)
  return StatePoints(tokens, places, states, sets)


def labelled(
  world: core.World, groups: int, num: int, seed: int
) -> StatePoints:
  """`num` training sequences for each group, with one position each.

  Positions are uniform over those after the prompt and before the last token.

  Raises:
    InputError: the world has fewer sequences.
  """
  stream = basics.stream(seed, TRAINED)
  sequences = fewshot.sequences(world, groups * num, stream, 'train')
  # Not the last token, which no model of next tokens was trained to read.
  low = np.minimum(world.prompt_len, sequences.lengths - 1)
  high = np.maximum(sequences.lengths - 2, low)
  share = basics.uniforms(basics.stream(seed, PLACES), np.arange(groups * num))
  above = np.floor(share * (high - low + 1)).astype(np.int32)
  place = np.minimum(low + above, high).astype(np.int32)
  shape = groups, num
  tokens = sequences.tokens.reshape(*shape, -1)
  return points(world, tokens, place.reshape(*shape, 1))


def visited(
  world: core.World, num: int, most: int, first: int, seed: int
) -> StatePoints:
  """`most` random positions of `num` held-out sequences, as one group.

  As published, positions begin at the first token after the prompt, or at
  `first`, and end before the longest sequence's last token; the world is not
  over there. Other positions have state DEAD. In worlds with sides and
  `from_labels`, legal tokens are those of side 0 (black in Othello), even if
  the other side is to move.
  """
  stream = basics.stream(seed, TRAINED)
  sequences = fewshot.sequences(world, num, stream, 'heldout')
  last = min(int(sequences.lengths.max()), world.max_len - 1)
  places = np.arange(max(world.prompt_len, first), last)
  places = np.broadcast_to(places, (len(sequences), len(places))).astype(
    np.int32
  )
  valid = places < sequences.lengths[:, None]
  places = np.where(valid, places, core.DEAD)
  every = points(world, sequences.tokens[None], places[None])
  # The hash of the empty set: nothing is legal where a game is over.
  over = basics.hash64(*np.packbits(np.zeros(len(world.vocab), bool)))
  valid &= every.legal[0] != over
  rows = np.arange(len(sequences))[:, None]
  keys = basics.hash64(basics.stream(seed, CHOSEN), places, rows)
  # Chosen among the positions of all sequences together.
  chosen = basics.lowest(valid.reshape(-1), keys.reshape(-1), most)
  chosen = chosen.reshape(1, *valid.shape)
  places = np.where(chosen, every.places, core.DEAD)
  # Again, with the legal sets of side 0; `every` has those of the side to move,
  # which show where games are over.
  return points(world, every.tokens, places, _by_side_0(world))


def _by_side_0(world: core.World) -> Callable[[np.ndarray], np.ndarray] | None:
  """A function to the legal tokens with side 0 to move; None without sides.

  It changes only the label of the side to move.
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
) -> StatePoints:
  """Draws different prefixes that reach states [G, M, W].

  Returns:
    Points [G, M * prefixes, 1]; the points of a state are consecutive. A
    repeated or failed prefix is drawn again up to ATTEMPTS times.
  """
  groups, num, words = states.shape
  total = groups * num
  flat = states.reshape(total, words)
  low, high = world.prefix_moves(flat).T
  # States [T, W] with T = G * M; their prefixes [T, prefixes, L].
  tokens = np.zeros((total, prefixes, world.max_len), np.int32)
  lengths = np.zeros((total, prefixes), np.int32)
  # Pairs (state, number of its prefix) that have none yet.
  pending = np.argwhere(np.broadcast_to((low <= high)[:, None], lengths.shape))
  for attempt in range(ATTEMPTS):
    if not len(pending):
      break
    row, nth = pending.T
    words_ = basics.stream(seed, MOVES), row, nth, attempt
    above = np.floor(basics.uniforms(*words_) * (high - low + 1)[row])
    moves = np.minimum(low[row] + above.astype(np.int32), high[row])
    seeds = basics.hash64(basics.stream(seed, PREFIXES), row, nth, attempt)
    got = world.sample_prefixes(flat[row], moves, seeds)
    width = got.tokens.shape[1]
    tokens[row, nth] = 0
    tokens[row, nth, :width] = got.tokens
    lengths[row, nth] = np.where(got.ok, got.lengths, 0)
    # Compared with all prefixes of its state; only earlier ones count below.
    same = (tokens[row, :] == tokens[row, nth][:, None]).all(-1)
    same &= lengths[row] == lengths[row, nth][:, None]
    # A repeat of an earlier prefix is drawn again.
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
  # Equal hashes stand for equal sets of legal tokens.
  packed = np.packbits(world.legal(flat), axis=-1)
  legal = basics.hash64(*packed.T).reshape(groups, size)
  chosen_pairs = np.full((groups, num, 2), core.DEAD, np.int64)
  # All pairs at once: a pool has some hundred states.
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
    num: number of data sets, D.
    seed: seed of the coins.
    states: ascending ids of all states, if data sets go through all assignments
      of labels to them; None if coins are hashes.
    twins: 2 if pairs of data sets have complementary coins, else 1.
  """

  num: int
  seed: int
  states: np.ndarray | None
  twins: int

  def labels(self, ids: np.ndarray) -> np.ndarray:
    """[D, ...] int64 labels, 0 or 1, of state ids [G, ...]."""
    # Twins 2 g and 2 g + 1 have the coins of g, flipped in the second.
    of = np.arange(self.num) // self.twins
    shape = (self.num, *(1,) * (ids.ndim - 1))
    # Each group has its own ids, or all share one set.
    ids = ids[np.minimum(of, len(ids) - 1)]
    if self.states is None:
      words = self.seed, of.reshape(shape), ids
      # Any bit of a hash is a fair coin.
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
    """[D] the assignment of labels, if data sets go through all assignments.

    Each assignment is then a stratum, so that the choice of assignments adds no
    variance. They ascend by the number of states with the rarer label, so that
    neighbouring strata are similar.
    """
    if self.states is None:
      return None
    ones = self.labels(self.states[None]).sum(1)
    rarer = np.minimum(ones, len(self.states) - ones)
    turns = 2 ** (len(self.states) - 1)
    return rarer * turns + np.arange(self.num) // self.twins % turns

  @property
  def weight(self) -> np.ndarray:
    """[D] float64 weights that give every assignment the same total."""
    if self.states is None:
      return np.ones(self.num)
    of = np.arange(self.num) // self.twins % 2 ** (len(self.states) - 1)
    return self.twins / np.bincount(of)[of]


def coins(
  num: int, seed: int, ids: list[np.ndarray], stratified: bool
) -> Coins:
  """Coins of D data sets.

  Independent coins vary much: with five states, the ideal D-IB varies by .33
  from data set to data set (Vafa et al. 2025 use these). Stratified coins are
  complementary in data sets 0 and 1, 2 and 3, ...; if all assignments of labels
  to the states fit in D, data sets go through all of them.

  Args:
    num: number of data sets, D; even if stratified.
    seed: seed of the coins.
    ids: arrays of all state ids that will be labelled.
    stratified: stratified coins; False: independent coins.
  """
  seed = basics.stream(seed, COINS)
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

  The weighted mean of the parts is the ratio sum(w share) / sum(w ideal). Their
  spread is that of its linearised error, which gives a valid interval. A mean
  of ratios would have to leave out data sets whose true labels are all equal.

  share, ideal: [D] shares of pairs with different answers and with different
    true labels; NaN without pairs. Parts are NaN there, and everywhere if no
    pair has different labels.
  """
  # R = A / B has the first-order error (a_d - R b_d) / B in each data set d,
  # with A and B the means of share and ideal.
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


# A group of points, and places first [K] and second [K] among its n -> [K]
# int32 distances of their states: moves on the shortest path, the lesser of
# both directions, APART where there is none; or the number of labels that
# differ.
Distances = Callable[[int, np.ndarray, np.ndarray], np.ndarray]


def by_moves(moves: np.ndarray, rows: np.ndarray) -> Distances:
  """Distances by moves [S, S]; rows: [G, n] of the points' states."""
  return lambda group, first, second: moves[
    rows[group][first], rows[group][second]
  ]


def _by_labels(world: core.Labelled, points: StatePoints) -> Distances:
  """Distances by the number of labels that differ."""
  group, row, place = np.nonzero(points.states != core.DEAD)
  lengths = points.places[group, row, place] + 1
  start = world.init(len(group))
  _, states = world.walk(start, points.tokens[group, row], lengths)
  values = world.labels(states)
  # [G, M * P, K], 0 where there is no point.
  labels = np.zeros((*points.states.shape, values.shape[1]), values.dtype)
  labels[group, row, place] = values
  labels = labels.reshape(len(labels), -1, values.shape[1])

  def between(g: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    differ = np.zeros(len(first), np.int32)
    for label in labels[g].T:  # One at a time bounds memory.
      differ += label[first] != label[second]
    return differ

  return between


def of_points(world: core.World, points: StatePoints) -> Distances | None:
  """Distances between the states of points [G, M, P], n = M * P.

  They are numbers of moves if the world is a finite automaton of at most
  MOST_STATES states. Otherwise they are numbers of different labels, if the
  state is a board. Other worlds give None.
  """
  ids = points.states.reshape(len(points.states), -1)
  if isinstance(world, core.Finite):
    used = np.unique(ids[ids != core.DEAD])
    moves = _moves(world, used)
    if moves is not None:
      # Points without a state (DEAD) get an arbitrary row, which is unused.
      rows = np.searchsorted(used, ids)
      return by_moves(moves, np.minimum(rows, len(used) - 1))
  if isinstance(world, core.Labelled) and _is_board(world.heads):
    return _by_labels(world, points)
  return None


def _is_board(heads: core.Heads) -> bool:
  """Is a state read as several labels of one kind, such as squares?

  E.g. a state of a map has two labels, place and destination, whose differences
  do not measure the distance between two states.
  """
  read = heads.sizes if heads.probe is None else heads.sizes[heads.probe]
  return len(read) > 1 and len({*read}) == 1


def _moves(world: core.Finite, used: np.ndarray) -> np.ndarray | None:
  """[S, S] int32 moves between states of ids [S], all reachable.

  None where more than MOST_STATES states are reachable.
  """
  try:
    states, delta = capabilities.enumerated(world, MOST_STATES)
  except core.InputError:
    return None
  # Tokens are edges.
  tails, tokens = np.nonzero(delta != core.DEAD)
  ends, shape = (tails, delta[tails, tokens]), (len(states), len(states))
  graph = scipy.sparse.coo_array((np.ones(len(tails)), ends), shape)
  ids = world.state_id(states)
  order = np.argsort(ids)
  chosen = order[np.searchsorted(ids, used, sorter=order)]
  steps = scipy.sparse.csgraph.dijkstra(
    graph.tocsr(), indices=chosen, unweighted=True
  )
  steps = steps[:, chosen]
  # Streets may be one-way: the shorter of both directions counts.
  steps = np.minimum(steps, steps.T)
  return np.where(np.isfinite(steps), steps, APART).astype(np.int32)


class PairCounts(NamedTuple):
  """Unordered pairs of distinct points, and those whose D answers differ.

  Kinds of pairs, the last axis, are SAME, ALIKE and UNLIKE.

  Attributes:
    apart: [D, 3] int64 pairs with different answers.
    pairs: [3] int64 all pairs.
  """

  apart: np.ndarray
  pairs: np.ndarray


def count_pairs(
  answers: np.ndarray, states: np.ndarray, legal: np.ndarray
) -> PairCounts:
  """Counts exactly the pairs of points whose answers differ.

  Vafa et al. 2025 average over these pairs, whose number is quadratic in the
  points. In a group with n_c points of answer c, sum_c n_c (n_c - 1) / 2 pairs
  agree, so that counts by state and answer suffice: O(D n) time.

  Args:
    answers: [D, n] classes: D answers to each point.
    states: [n] integers, equal where two points are in one state.
    legal: [n] integers, equal where two points have the same legal tokens, as
      all points of a state have.
  """

  def equal(groups: np.ndarray) -> int:
    """Pairs of points [n] with equal numbers, from 0."""
    size = np.bincount(groups).astype(np.int64)
    return int((size * (size - 1) // 2).sum())

  state, group = (
    np.unique(ids, return_inverse=True)[1] for ids in (states, legal)
  )
  # Within states, within legal sets, all: each includes the one before.
  kinds = state, group, np.zeros_like(state)
  classes = int(answers.max(initial=0)) + 1
  pairs = np.array([equal(kind) for kind in kinds])
  agree = [[equal(kind * classes + row) for kind in kinds] for row in answers]
  apart = pairs - np.reshape(agree, (-1, 3)).astype(np.int64)
  return PairCounts(
    np.diff(apart, axis=-1, prepend=0), np.diff(pairs, prepend=0)
  )


class Compared(NamedTuple):
  """Points at which the answers of data sets are compared.

  Attributes:
    scored: points [G or 1, M, P].
    plain: slice of the M rows that are all compared with each other.
    close: [G, K, 2] rows of pairs q= among the others; DEAD for none. K is 0
      if pairs q= are compared among the plain rows too.
    distances: distances of the points' states; None if the world has none.
    twins: data sets of a group: 1 or 2.
  """

  scored: StatePoints
  plain: int
  close: np.ndarray
  distances: Distances | None
  twins: int

  def shares(self, answers: np.ndarray) -> np.ndarray:
    """[D, 4] shares of pairs with different answers [D, M, P].

    Columns are SAME, ALIKE and UNLIKE pairs, and all pairs of different states;
    NaN without such pairs.
    """
    shares = np.full((len(answers), 4), np.nan)
    for g, rows in self._groups(len(answers)):
      states, legal = self._plain(g)
      valid = states != core.DEAD
      mine = answers[rows, : self.plain].reshape(len(rows), -1)[:, valid]
      apart, total = count_pairs(mine, states[valid], legal[valid])
      # A fourth column ALL: the pairs of two states, whatever is legal.
      apart = np.append(apart, apart[:, ALIKE:].sum(1, keepdims=True), axis=1)
      total = np.append(total, total[ALIKE:].sum())
      if self.close.shape[1]:
        # Independent states rarely share a legal set, so pairs q= were drawn
        # separately and replace the pairs among independent states.
        first, second = self._close(g)
        flat = answers[rows, :, 0]
        apart[:, ALIKE] = (flat[:, first] != flat[:, second]).sum(1)
        total[ALIKE] = len(first)
      counted = total > 0
      shares[np.ix_(rows, counted)] = apart[:, counted] / total[counted]
    return shares

  def matched(self, answers: np.ndarray) -> np.ndarray:
    """[D] difference of `shares` of pairs q= and q!= at equal distances.

    Each distance that both kinds have is weighted by the pairs of the rarer
    kind; NaN without such a distance. Pairs of states without a path are left
    out.
    """
    differences = np.full(len(answers), np.nan)
    for g, rows in self._groups(len(answers)):
      if self.distances is None:
        break
      kinds = self._alike(g), self._listed(g, same=False)
      far = [self.distances(g, *kind) for kind in kinds]
      # One stratum for each distance; `stratum` has that of each pair of a
      # kind.
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
        # Shares with different answers in each stratum; empty ones weigh 0.
        alike, unlike = np.array(apart) / np.maximum(total, 1)
        differences[d] = np.average(alike - unlike, weights=weight)
    return differences

  @property
  def unmatched(self) -> str:
    """Reason why `matched` is NaN in spite of pairs of both kinds."""
    if self.distances is None:
      return 'no_distance_of_states'
    return 'no_pairs_as_far_apart'

  def right(self, answers: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """[D] share of plain points with the right answer; NaN without a point."""
    valid = self.scored.states[:, : self.plain] != core.DEAD
    if len(valid) > 1:
      valid = np.repeat(valid, self.twins, axis=0)
    right = (answers == truth)[:, : self.plain] & valid
    total = np.broadcast_to(valid, right.shape).sum((1, 2))
    return np.where(total > 0, right.sum((1, 2)) / np.maximum(total, 1), np.nan)

  def _groups(self, num: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yields each group of points, and the data sets that are scored there."""
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
    """Rows of the separately drawn pairs q= of a group."""
    first, second = self.close[g].T
    states = self.scored.states[g, :, 0]
    # Both have a prefix; DEAD, for no pair, indexes the last row: dropped.
    both = (first != core.DEAD) & (states[first] != core.DEAD)
    both &= states[second] != core.DEAD
    return first[both], second[both]

  def _alike(self, g: int) -> tuple[np.ndarray, np.ndarray]:
    """The same pairs as ALIKE in `shares`, as places in all flat points."""
    if self.close.shape[1]:
      return self._close(g)
    return self._listed(g, same=True)

  def _listed(self, g: int, same: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of plain points in two states, of the same legal set or of two."""
    states, legal = self._plain(g)
    valid = np.flatnonzero(states != core.DEAD)
    states, legal = states[valid], legal[valid]
    # [n, n] over points; the upper triangle has each pair once.
    apart = states[:, None] != states
    apart &= (legal[:, None] == legal) == same
    first, second = np.nonzero(np.triu(apart, 1))
    return valid[first], valid[second]
