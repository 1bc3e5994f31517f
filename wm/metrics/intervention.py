"""Intervention: does the model use the state that a probe reads?

Li et al. 2023 (Othello-GPT, section 4) and Nanda et al. 2023 move an activation
so that a linear probe reads another state, and compare the model's next tokens
with those that are legal in that state. A state also determines later tokens:
with a `horizon`, edits are judged by suffixes that separate the two states.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import basics
from wm.core.fields import field
from wm.evaluation import boundaries, context, probing, state_edits

# Streams of randomness under one seed.
DIRECTIONS, PLAYS = 13, 15
# Moves: none, along the probe's direction, random; the last is a swap.
BEFORE, ALONG, RANDOM = range(3)
SWAPPED = 'changed_swapped'
ACCEPT = rules.epsilon(0.01)  # The rule by which the model accepts a token.
# Adam's learning rate, and positions in a step, of the fit of the probe; and of
# both the probe and the subspace of 'das', which has DIMS dimensions.
FIT, FIT_DAS = (0.01, 2048), (0.03, 64)
DIMS = 8
NO_SUFFIX = 'no_suffix'  # Reason: no drawn suffix separates the states.
# Quantity of later tokens -> reason if it is not measured.
FUTURE = {
  'future': NO_SUFFIX,
  'future_random': NO_SUFFIX,
  'future_before': NO_SUFFIX,
  'future_above_random': NO_SUFFIX,
  'future_recall': 'nothing_gained',
  'future_precision': 'none_accepted',
  'future_swapped': 'no_source',
  'future_untrained': 'no_untrained_model',
}
# Further quantities of edits with the same next tokens.
ALIKE = 'right_before', 'probe', 'probe_edited'


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Moves activations along a probe's direction, and asks what is legal then.

  In each test sequence the metric draws a position after a move, a label of the
  state there, such as a square of a board, and a new value of the label:
  uniformly among values that the world allows and that change which tokens are
  legal. Only the activation of that position after one layer is moved. The
  tokens that the model then accepts are compared with the legal tokens of the
  edited state. Activations of earlier positions stay, and later layers read
  them.

  Random directions of the same length are the control: their effect is not due
  to the state that the probe reads. Reasons of unmeasured rows: no_edit (64
  draws gave no legal edited state with other legal tokens), unseen_value (the
  probe was fitted on no state with the present value), no_memory (the network
  has no recurrent state), no_suffix (no suffix that separates the two states
  was drawn; future only).

  One token cannot distinguish a state from its set of legal next tokens. With a
  `horizon` of k tokens the model continues after the edit with up to 64
  suffixes of at most k tokens that are legal from the edited state and not from
  the true one, and as many vice versa: the Myhill-Nerode boundary between the
  two. Both states then have the same next tokens, and only suffixes separate
  them. Later positions read the unchanged tokens too: if
  `future_swapped` is low, the model does not use the edited position for them,
  and no edit there can have an effect.

  A low value along a probe's direction does not prove that a state is unused.
  In recurrent models with edited memory, that direction changed .00 to .49 of
  the following suffixes, while moves between means changed .94 to 1
  (launch/flags/edits).

  With site='memory' the recurrent state is edited instead of the residual
  stream between blocks, and the change persists. The next token is predicted
  before the edit, so this requires a horizon of 2 or more.

  Attributes:
    num: sequences; the probe is fitted on four fifths of them, and each of the
      others is edited once.
    layers: activations after each of these layers are edited; 0 is after the
      embedding. Each quantity includes rows of all these layers.
    direction: 'probe': the smallest move that exchanges the probe's logits of
      the two values and keeps those of other values; 'means': from the mean
      activation of the old value to that of the new value; 'das': to the
      activation of a position with the new value, within a subspace trained
      for this on the probe's sequences (Geiger et al. 2023), in worlds of one
      label. After 'probe' the probe is as certain of the new value as it was
      of the old one.
    data: split of the world's sequences.
    epochs: passes over the training positions.
    horizon: tokens after an edit that are judged; 1 is only the next token, and
      edits change which tokens are legal next. From 2 on edits change only
      which tokens are legal later, within the horizon.
    site: place of the edit: the 'stream' between layers, or the recurrent
      'memory' of layers 1, 2, ...; layer -1 edits that of all layers.
    whole: the edited state is the state of another position, and all different
      labels are moved at once; 'means' adds up over labels. With one edited
      label the state is often unreachable, and no swap shows how much of the
      edit is possible.

  Glossary:
    edited: Share of edits after which the model accepts exactly the legal
      tokens of the edited state. A model that reads its state in the probe's
      direction has 1.
    edited_random: As edited, after moves of the same length in random
      directions. The edited state's tokens are then accepted by chance.
    changed: Of the tokens that are legal in only one of the two states, mean
      share that is accepted or refused as in the edited state. A model that was
      right before and ignores the edit has 0.
    changed_random: As changed, after moves of the same length in random
      directions. A move that only disturbs the model scores here too.
    changed_before: As changed, without any move. Above 0, the model was wrong
      before.
    changed_swapped: As changed, with the whole activation replaced by that of
      another position in the edited state. No edit at this position can be
      expected to reach more.
    above_random: Difference of changed and changed_random in the same edits.
      Above 0, the model reads the state from the probe's direction.
    overlap: Number of tokens that are both accepted and legal in the edited
      state, divided by the number that are either; mean over edits. It also
      counts tokens that the edit does not affect.
    overlap_random: As overlap, after moves of the same length in random
      directions. Far below overlap_before, the moves break the model.
    overlap_before: As overlap, without any move. It is the overlap that the two
      states have anyway.
    right_before: Share of positions at which the model accepts exactly the
      legal tokens of the true state. Edits cannot be expected to do better.
    probe: Share of edits whose old value the probe reads before the edit. A
      value that the probe does not read cannot be moved.
    probe_edited: Share of edits after which the probe reads the new value. Far
      above edited, the model reads its state from other directions than the
      probe.
    future: Of the suffixes that separate the two states, share that is accepted
      or refused as in the edited state, mean of both directions. A model that
      ignores the edit has 0, a model that accepts all or none .5.
    future_random: As future, after moves of the same length in random
      directions. It is the effect of any edit of this size.
    future_before: As future, without any move. Above 0, the model was wrong
      before.
    future_above_random: Difference of future and future_random in the same
      edits. Above 0, the probe's direction affects later tokens.
    future_recall: Of the suffixes that are legal only from the edited state,
      share that the model accepts after the edit. A model that accepts
      everything has 1.
    future_precision: Of the separating suffixes that the model accepts after
      the edit, share that is legal from the edited state. A model that accepts
      everything has their share among all, about .5.
    future_swapped: As future, with the whole activation replaced by that of
      another position in the edited state. No edit at this position can be
      expected to reach more.
    future_untrained: As future, for the same model with random weights and its
      own probe. It is the effect of the architecture alone.
    layer: layer whose activations are edited
  """

  needs: ClassVar[tuple[core.Need, ...]] = (
    core.HiddenStates.patched,
    core.Labelled.edited,
  )
  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'edited': core.Measure(1, 'edits change its moves'),
    'changed': core.Measure(1, 'edits change its moves'),
    'changed_random': core.Measure(0, 'random edits change nothing'),
    'future': core.Measure(1, 'edits change its futures'),
  }
  breakdown: ClassVar[tuple[str, ...]] = ('layer',)

  num: int = field(2000, least=1)
  layers: tuple[int, ...] = field((1,), least=-1, fewest=1, distinct=True)
  direction: str = field('probe', choices=('probe', 'means', 'das'))
  data: str = field('heldout', choices=probing.SPLITS)
  epochs: int = field(100, least=1)
  horizon: int = field(1, least=1)
  whole: bool = False
  site: str = field('stream', choices=('stream', 'memory'))

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded; an epoch takes a millisecond at least."""
    cost = super().cost(world)
    fields = (*cost.fields, 'epochs')
    return cost._replace(seconds=1e-3 * self.epochs, fields=fields)

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.whole and self.direction == 'das':
      raise core.InputError(
        'intervention: whole=True edits all labels at once; expected '
        "direction='probe' or 'means'"
      )
    if self.site == 'memory' and self.horizon == 1:
      raise core.InputError(
        "intervention: site='memory' was given with horizon=1; the next token "
        'is predicted before: expected a horizon of 2 or more'
      )

  @property
  def quantities(self) -> tuple[str, ...]:
    """Names of the quantities with these settings."""
    if self.horizon > 1:
      return (*ALIKE, *FUTURE)
    lacking = {'layer', *FUTURE, *([] if self.whole else [SWAPPED])}
    return tuple(name for name in self.glossary if name not in lacking)

  @property
  def _choice(self) -> state_edits.EditFilter:
    return state_edits.EditFilter(self.horizon, self.whole)

  def __call__(
    self, predictor: core.HiddenStates, world: core.Labelled, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per test sequence and layer, by task."""
    sizes = probing.sizes(world)
    self._check(world, sizes)
    if self.site == 'memory':
      memory = None
      if core.can(predictor, core.HiddenStates.memory):
        memory = predictor.memory()
      if memory is None:
        return self._empty('no_memory')
      predictor = memory
    sequences = world.sample(self.num, seed, split=self.data)
    points = probing.label(world, sequences)
    test = probing.by_task(points, world.split_key(sequences), seed)
    after = test & ~points.prompt
    if test.all() or not after.any():
      return self._empty(
        'no_training_points' if after.any() else 'no_test_points'
      )
    das = self.direction == 'das'
    if das and not core.can(predictor, core.HiddenStates.patched_gradient):
      return self._empty('no_gradient')
    values = [np.unique(column) for column in points.label[~test].T]
    places = world, sequences, points
    drawn = state_edits.draw(*places, after, values, seed, self._choice)
    data = points, *probing.classes(points.label), ~test
    fitted = state_edits.ProbeData(*data)
    seen = fitted.knows(drawn)
    use = np.flatnonzero(drawn.done & seen)
    group = context.clusters(world, sequences)[drawn.row]
    table = _EditScores(self, drawn, use, seen, group, {}, [])
    lessons = None
    if das:
      trained = ~test & ~points.prompt
      lessons = state_edits.draw(
        *places, trained, values, seed + 1, self._choice
      )
      lessons = lessons.take(np.flatnonzero(lessons.done))
      if not len(lessons.row):
        return self._empty('no_training_points')
    study = _Study(
      *(self, world, sequences, fitted, drawn.take(use), seed, lessons)
    )
    for layer in self.layers:
      moves, features = study.shifts(predictor, layer)
      swap = study.swap(features)
      table.add(layer, moves, study.accepted(predictor, layer, moves, swap))
      if self.horizon > 1:
        table.note(study.futures(predictor, layer, moves, swap))
    return table.scores()

  def _empty(self, reason: str) -> tuple[core.Scores, ...]:
    """One unmeasured row for each quantity, with a reason."""
    rows = self.quantities
    return tuple(core.scores(n, [np.nan], reason=[reason]) for n in rows)

  def _check(self, world: core.Labelled, sizes: tuple[int, ...]) -> None:
    """Raises InputError if 'das' would have to find several labels."""
    if self.direction == 'das' and len(sizes) > 1:
      raise core.InputError(
        "intervention: direction='das' finds a subspace of one label, and a "
        f"probe reads {len(sizes)} of {world.name}; expected 'probe' or 'means'"
      )


class _Study(NamedTuple):
  """Data of the edits, shared by all layers.

  Attributes:
    metric: the metric's settings.
    world: the world that is scored.
    sequences: sequences of the world.
    fitted: data of probes.
    edits: [U] edits that are measured.
    seed: seed of all draws.
    lessons: edits to train the subspace of 'das' on, if any.
  """

  metric: Metric
  world: core.Labelled
  sequences: core.Sequences
  fitted: state_edits.ProbeData
  edits: state_edits.Edits
  seed: int
  lessons: state_edits.Edits | None = None

  def shifts(
    self, predictor: core.HiddenStates, layer: int
  ) -> tuple[state_edits.Shifts, np.ndarray]:
    """Moves of a layer, and activations [P, D] of all points."""
    from wm.evaluation import linear_probe  # Deferred: it imports JAX.

    fitted, metric = self.fitted, self.metric
    features = probing.activations(
      predictor, self.sequences, fitted.points, layer
    )
    lr, batch = FIT_DAS if metric.direction == 'das' else FIT
    fit: dict[str, Any] = {'lr': lr, 'batch': batch}
    fit |= {'epochs': metric.epochs, 'seed': self.seed}
    probe = linear_probe.fit(
      features[fitted.train],
      fitted.target[fitted.train],
      np.array([len(values) for values in fitted.values]),
      **fit,
    )
    by = None
    if metric.whole:
      return self._whole(features, probe), features
    if metric.direction == 'means':
      by = fitted.between_means(features, self.edits)
    if self.lessons is not None:
      axes = linear_probe.fit_subspace(
        functools.partial(self._slope, predictor, layer, self.lessons),
        fitted.between_places(features, self.lessons, self.seed),
        min(DIMS, features.shape[1]),
        **fit,
      )
      by = fitted.between_places(features, self.edits, self.seed)
      by = by @ axes @ axes.T
    moves = fitted.along(features, probe, self.edits, by)
    return moves, features

  def _whole(
    self, features: np.ndarray, probe: tuple[np.ndarray, np.ndarray]
  ) -> state_edits.Shifts:
    """Moves of all labels at once."""
    fitted, by = self.fitted, None
    at = fitted.at(self.edits)
    labels = probing.targets(self.world, self.edits.edited)
    both = zip(fitted.values, labels.T, strict=True)
    new = np.stack([np.searchsorted(of, column) for of, column in both], -1)
    old = fitted.target[at]
    if self.metric.direction == 'means':
      by = fitted.between_states(features, old, new)
    return fitted.along_all(features[at], probe, old, new, by)

  def swap(self, features: np.ndarray) -> np.ndarray:
    """[U, D] moves to the activation of a position in the edited state.

    NaN if there is no such position.
    """
    source = self.fitted.in_states(
      self.world, self.sequences, self.edits.edited, self.seed
    )
    by = features[source] - features[self.fitted.at(self.edits)]
    by[source == core.DEAD] = np.nan
    return by

  def accepted(
    self,
    predictor: core.HiddenStates,
    layer: int,
    moves: state_edits.Shifts,
    swap: np.ndarray,
  ) -> np.ndarray:
    """Tokens accepted next; see `_accepted`. The last move is the swap."""
    every = self._every(moves, layer)
    if self.metric.whole:
      every = np.concatenate([every, np.nan_to_num(swap)[None]])
    return _accepted(predictor, self.edits, layer, every)

  def _every(self, moves: state_edits.Shifts, layer: int) -> np.ndarray:
    """[3, U, D] moves: none, along the direction, random."""
    seed = [self.seed, DIRECTIONS, layer + 1]
    return np.stack([np.zeros_like(moves.by), moves.by, moves.random(seed)])

  def futures(
    self,
    predictor: core.HiddenStates,
    layer: int,
    moves: state_edits.Shifts,
    swap: np.ndarray,
  ) -> dict[str, np.ndarray]:
    """Quantity -> [U] values, NaN if not measured; swap: see `swap`."""
    edits, no_source = self.edits, np.isnan(swap).any(-1)
    every = np.stack([*self._every(moves, layer), np.nan_to_num(swap)])
    both = [self._suffixes(states) for states in (edits.both, edits.both[::-1])]
    gained, lost = (
      self._kept(predictor, layer, every, suffixes) for suffixes in both
    )
    future = _future(gained, lost)
    # Suffixes that are accepted after the edit, of either state.
    right, wrong = (
      np.nan_to_num(rates[ALONG]) * suffixes.sizes
      for rates, suffixes in zip((gained, lost), both, strict=True)
    )
    total = np.where(right + wrong > 0, right + wrong, np.nan)
    random = future[RANDOM]
    untrained = np.full(len(edits.row), np.nan)
    if core.can(predictor, core.HiddenStates.untrained):
      twin = predictor.untrained(self.seed)
      by = self.shifts(twin, layer)[0].by[None]
      rates = (self._kept(twin, layer, by, suffixes) for suffixes in both)
      untrained = _future(*rates)[0]
    return {
      'future': future[ALONG],
      'future_random': random,
      'future_before': future[BEFORE],
      'future_above_random': future[ALONG] - random,
      'future_recall': gained[ALONG],
      'future_precision': right / total,
      'future_swapped': np.where(no_source, np.nan, future[-1]),
      'future_untrained': untrained,
    }

  def _suffixes(self, states: np.ndarray) -> core.Boundary:
    """Suffixes legal from states[0] and not from states[1], [2, U, W]."""
    room = self.world.max_len - 1 - self.edits.place
    horizon = self.metric.horizon
    return boundaries.futures(self.world, states, horizon, room, self.seed)

  def _slope(
    self,
    predictor: core.HiddenStates,
    layer: int,
    lessons: state_edits.Edits,
    rows: np.ndarray,
    by: np.ndarray,
  ) -> np.ndarray:
    """[B, D] gradient of the loss of lessons [B] by moves [B, D].

    The loss is the cross-entropy to the uniform distribution over legal tokens,
    in the edited state and after random legal continuations of it.
    """
    edits = lessons.take(rows)
    tokens, lengths, weights = self._played(edits)
    hidden = np.asarray(predictor.hidden(tokens, lengths, layer))
    moved = _moved_at(hidden, edits.place, by)
    slope = predictor.patched_gradient(
      *(tokens, lengths, layer, moved, weights / len(rows))
    )
    return np.asarray(slope)[np.arange(len(rows)), edits.place]

  def _played(
    self, edits: state_edits.Edits
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens [B, L], lengths [B] and loss weights [B, L, V] of lessons.

    Random legal tokens follow the edited states, up to the horizon.
    """
    tokens, lengths = np.array(edits.tokens), edits.place + 1
    weights = np.zeros((*tokens.shape, edits.legal.shape[1]), np.float32)
    states, on = np.array(edits.edited), np.arange(len(tokens))
    for k in range(self.metric.horizon):
      legal = self.world.legal(states[on])
      on, legal = on[legal.any(-1)], legal[legal.any(-1)]
      share = legal / legal.sum(-1, keepdims=True)
      weights[on, lengths[on] - 1] = -share
      fits = lengths[on] < tokens.shape[1]
      on, legal = on[fits], legal[fits]
      if k + 1 == self.metric.horizon or not len(on):
        break
      uniform = basics.uniforms(self.seed, PLAYS, edits.row[on], k)
      token = boundaries.choice(legal, uniform)
      tokens[on, lengths[on]] = token
      states[on] = self.world.advance(states[on], token)
      lengths[on] += 1
    longest = int(lengths.max())
    return tokens[:, :longest], lengths, weights[:, :longest]

  def _kept(
    self,
    predictor: core.HiddenStates,
    layer: int,
    every: np.ndarray,
    suffixes: core.Boundary,
  ) -> np.ndarray:
    """[M, U] share of each edit's suffixes accepted after moves [M, U, D]."""
    pair, edits = suffixes.pair_ids, self.edits
    lengths = edits.place[pair] + 1 + suffixes.lengths
    longest, width = (
      int(x.max(initial=1)) for x in (suffixes.lengths, lengths)
    )
    tokens = np.zeros((len(pair), width), np.int32)
    tokens[:, : edits.tokens.shape[1]] = edits.tokens[pair, :width]
    row, k = np.nonzero(np.arange(longest) < suffixes.lengths[:, None])
    # Where each token of a suffix is predicted.
    at = edits.place[pair[row]] + k
    tokens[row, at + 1] = suffixes.tokens[row, k]
    missed = np.zeros((len(every), len(pair)))
    for rows in core.predictor.chunks(len(pair), width * edits.legal.shape[1]):
      inside = (row >= rows.start) & (row < rows.stop)
      judged = row[inside] - rows.start, at[inside]
      token = tokens[row[inside], at[inside] + 1]
      batch = tokens[rows], lengths[rows], layer
      hidden, place = (
        np.asarray(predictor.hidden(*batch)),
        edits.place[pair[rows]],
      )
      for move, by in enumerate(every):
        moved = _moved_at(hidden, place, by[pair[rows]])
        log_probs = np.asarray(predictor.patched(*batch, moved))
        accepted = ACCEPT.mask(log_probs[judged])[np.arange(len(token)), token]
        missed[move, rows] = np.bincount(judged[0], ~accepted, len(place))
    total = [np.bincount(pair, each == 0, len(every[0])) for each in missed]
    with np.errstate(invalid='ignore'):
      return np.stack(total) / suffixes.sizes


def _future(gained: np.ndarray, lost: np.ndarray) -> np.ndarray:
  """[M, U] mean of `gained` and 1 - `lost` [M, U], without NaNs.

  NaN if both are NaN.
  """
  sides = np.stack([gained, 1 - lost])
  listed = ~np.isnan(sides)
  count = np.where(listed.any(0), listed.sum(0), np.nan)
  return np.where(listed, sides, 0).sum(0) / count


def _moved_at(
  hidden: np.ndarray, place: np.ndarray, by: np.ndarray
) -> np.ndarray:
  """Activations [B, L, D] after moves [B, D] at positions [B]."""
  moved = np.array(hidden)
  moved[np.arange(len(place)), place] += by.astype(moved.dtype)
  return moved


def _accepted(
  predictor: core.HiddenStates,
  edits_T: state_edits.Edits,
  layer: int,
  every: np.ndarray,
) -> np.ndarray:
  """[M, T, V] bool: tokens accepted after moves [M, T, D] after a layer."""
  accepted = np.zeros((len(every), *edits_T.legal.shape), bool)
  width = int(edits_T.place.max(initial=0)) + 1
  for rows in core.predictor.chunks(
    len(edits_T.row), width * edits_T.legal.shape[1]
  ):
    tokens, lengths = edits_T.tokens[rows, :width], edits_T.place[rows] + 1
    at = np.arange(len(lengths)), edits_T.place[rows]
    hidden = predictor.hidden(tokens, lengths, layer)
    for move, by in enumerate(every):
      other = np.array(hidden)
      other[at] += by[rows]
      log_probs = predictor.patched(tokens, lengths, layer, other)
      accepted[move, rows] = ACCEPT.mask(np.asarray(log_probs)[at])
  return accepted


class _EditScores(NamedTuple):
  """Collects values; `values` and `layers` grow by layer.

  Attributes:
    metric: the metric's settings.
    edits: all edits.
    use: [U] indices of measured edits.
    seen: [T] bool, the old value occurs in the probe's training data.
    group: [T] clusters.
    values: quantity -> [T] of each layer so far.
    layers: layers so far.
  """

  metric: Metric
  edits: state_edits.Edits
  use: np.ndarray
  seen: np.ndarray
  group: np.ndarray
  values: dict[str, list[np.ndarray]]
  layers: list[int]

  def add(
    self, layer: int, moved: state_edits.Shifts, accepted: np.ndarray
  ) -> None:
    """Adds one layer; accepted: [M, U, V], see `_Study.accepted`."""
    used = self.edits.take(self.use)
    target, touched = used.legal_after, used.legal_after != used.legal
    right = accepted == target
    changed = (right & touched).sum(-1) / np.maximum(touched.sum(-1), 1)
    overlap = (accepted & target).sum(-1) / (accepted | target).sum(-1)
    edited = right.all(-1)
    rates_by_name = {
      'edited': edited[ALONG],
      'edited_random': edited[RANDOM],
      'changed': changed[ALONG],
      'changed_random': changed[RANDOM],
      'changed_before': changed[BEFORE],
      SWAPPED: changed[-1],
      'above_random': changed[ALONG] - changed[RANDOM],
      'overlap': overlap[ALONG],
      'overlap_random': overlap[RANDOM],
      'overlap_before': overlap[BEFORE],
      'right_before': (accepted[BEFORE] == used.legal).all(-1),
      'probe': moved.read,
      'probe_edited': moved.read_after,
    }
    self.layers.append(layer)
    self.note(rates_by_name)

  def note(self, rates_by_name: Mapping[str, np.ndarray]) -> None:
    """Adds values [U] of the quantities with these settings."""
    for name in rates_by_name.keys() & {*self.metric.quantities}:
      value = rates_by_name[name]
      whole = np.full(len(self.edits.row), np.nan)
      whole[self.use] = value
      self.values.setdefault(name, []).append(whole)

  def scores(self) -> tuple[core.Scores, ...]:
    """A row for each edit and layer."""
    edits_T, num = self.edits, len(self.layers)
    reason = np.where(edits_T.done, '', 'no_edit').astype('<U18')
    reason[edits_T.done & ~self.seen] = 'unseen_value'
    columns = {
      'layer': np.repeat(self.layers, len(edits_T.row)),
      'sequence': np.tile(edits_T.row, num),
      'place': np.tile(edits_T.place, num),
      'label': np.tile(edits_T.label, num),
      'old': np.tile(edits_T.old, num),
      'new': np.tile(edits_T.new, num),
    }
    return tuple(
      core.scores(
        name,
        np.concatenate(self.values[name]),
        reason=self._reasons(name, np.tile(reason, num)),
        group=np.tile(self.group, num),
        columns=columns,
        bounds=(-1.0, 1.0) if 'above' in name else (0.0, 1.0),
      )
      for name in self.metric.quantities
    )

  def _reasons(self, name: str, reason: np.ndarray) -> np.ndarray:
    """Reasons of unmeasured rows that depend on the quantity."""
    missing = np.isnan(np.concatenate(self.values[name])) & (reason == '')
    if name not in FUTURE:
      return reason
    # Without a suffix no other reason counts.
    none = np.isnan(np.concatenate(self.values['future']))
    why = np.where(none, NO_SUFFIX, FUTURE[name])
    return np.where(missing, why, reason)
