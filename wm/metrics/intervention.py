"""Intervention: does the model use the state that a probe reads?

Li et al. 2023 (Othello-GPT, section 4) and Nanda et al. 2023: an activation is
moved to where a linear probe reads another state, and what the model then
expects is compared with what is legal there. A state also says what is legal
later: with a `horizon`, edits are judged by what tells the two states apart.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import basics, registry
from wm.core.fields import field
from wm.evaluation import boundaries, context, probing, state_edits

# Streams of randomness under one seed.
DIRECTIONS, PLAYS = 13, 15
# Moves: none, along the probe's direction, in random ones; the last is a swap.
BEFORE, ALONG, RANDOM = range(3)
SWAPPED = 'changed_swapped'
NO_SUFFIX = 'no_suffix'  # None was drawn that tells the two states apart.
# Quantities of more than the next token -> why one is not measured.
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
# Those that edits with the same next tokens have besides.
ALIKE = 'right_before', 'probe', 'probe_edited'


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Moves activations along a probe's direction, and asks what is legal then.

  In each test sequence one place after a move is drawn, one label of the state
  there, such as a square of a board, and another value of it: uniform over
  those that the world allows, and that change which tokens are legal. The
  activation of that place after a layer is moved, no other; the model goes on
  from there, and the tokens that it accepts next are compared with the tokens
  that are legal in the edited state. Places before it still say what was
  there, to later layers as well.

  Random directions of the same length are the control: whatever they do is no
  work of what the probe reads. Reasons of unmeasured rows: no_edit, no legal
  edited state with other legal tokens was found in 64 draws; unseen_value, the
  probe was fit on no state with the present value; no_memory, nothing recurs;
  no_suffix, none was drawn that tells the two states apart (future only).

  One token does not tell a state from the set of tokens that are legal next.
  With a `horizon` of k tokens the model goes on behind the edit, by up to 64
  suffixes of at most k tokens that are legal from the edited state and not from
  the true one, and as many the other way round: the boundary of Myhill and
  Nerode between the two. With pairs='same_next' both states have the same next
  tokens, and suffixes alone tell them apart. Later places are read from tokens
  as before: where `future_swapped` is low, the model does not read them from
  the edited place, and no edit there can be followed.

  A low value along a probe's direction is no proof that a state is not used. In
  recurrent models whose memory was edited, that direction moved .00 to .49 of
  what follows where moves between means moved .94 to 1 (launch/flags/edits).

  With site='memory' the state of a recurrence is edited in place of the stream
  between its blocks, and what was changed goes on with it. The next token is
  predicted before, so that this needs pairs='same_next'.

  Attributes:
    num: sequences; the probe is fit on four fifths of them, and each of the
      others is edited once.
    layers: activations after each of these layers are edited; 0 is after the
      embedding. Rows of all of them count in each quantity.
    label: the label that is edited, of those that a probe reads; -1 draws it.
    value: the value that it gets, as the probe reads it (0 an empty square, 1
      mine, 2 theirs); -1 draws it.
    direction: 'probe', the least move by which the probe's logits of the two
      values change places, while those of other values stay; 'means', from the
      mean activation of the old value to that of the new one; 'das', to that of
      a place with the new value, within a subspace that is trained for it on
      the sequences of the probe (Geiger et al. 2023), for one label.
    strength: how far. At 1 the probe is undecided between the two values, at 2
      as sure of the new one as it was of the old one ('means' and 'das': at 2
      the whole way).
    randoms: random directions of each edit.
    accept: the rule by which the model accepts a token.
    data: which split of the world's sequences.
    lr: Adam's learning rate for the probe.
    batch: positions in a step of the fit.
    epochs: passes over the positions trained on.
    horizon: tokens behind an edit that are judged; 1 is the next one alone.
    pairs: 'other_next', edits change which tokens are legal next; 'same_next',
      they change only what is legal later, within the horizon.
    onward: the same move at all later places too, for models that read each
      place from the tokens.
    dims: of the subspace of 'das'; at most the width.
    site: what is edited: the 'stream' between layers, or the 'memory' of a
      recurrence: of layers 1, 2, ..., or of all where a layer is -1.
    whole: the edited state is that of another place, and all labels that differ
      are moved at once; means are sums over labels. With one label edited, the
      state is often none that a sequence leads to, and nothing says how much of
      the edit is within reach.

  Glossary:
    edited: Share of edits after which the model accepts exactly the tokens that
      are legal in the edited state. A model that reads its state where the
      probe does has 1.
    edited_random: As edited, after moves of the same length in random
      directions. The edited state's tokens then come by chance.
    changed: Mean share, of the tokens that are legal in just one of the two
      states, of those that come out as in the edited state. A model that
      ignores the edit has 0, as far as it was right before.
    changed_random: As changed, after moves of the same length in random
      directions. A model that is merely confused scores here too.
    changed_before: As changed, without any move. Above 0 the model was wrong
      before.
    changed_swapped: As changed, with the whole activation of another place that
      is in the edited state. It is what any edit at this place can reach.
    above_random: What changed is above changed_random in the same edits. Above
      0, the probe's direction is one that the model reads the state from.
    overlap: Mean of the tokens both accepted and legal in the edited state over
      those that are either. It counts tokens that the edit leaves alone too.
    overlap_random: As overlap, after moves of the same length in random
      directions. Far below overlap_before, the moves break the model.
    overlap_before: As overlap, without any move. This is what two states have
      in common anyway.
    right_before: Share of the places at which the model accepts exactly the
      tokens legal in the true state. Edits cannot do better than that.
    probe: Share of the edits whose old value the probe reads before. What it
      does not read it cannot move.
    probe_edited: Share of edits after which the probe reads the new value. Far
      above edited, the model reads its state elsewhere than the probe.
    future: Share of suffixes that come out as in the edited state, of those
      that tell it from the true one: mean of both directions. A model that
      ignores the edit has 0, one that accepts everything or nothing .5.
    future_random: As future, after moves of the same length in random
      directions. What an edit of this size does, whatever it says.
    future_before: As future, without any move. Above 0 the model was wrong
      before.
    future_above_random: What future is above future_random in the same edits.
      Above 0, the probe's direction carries what comes later.
    future_recall: Share of the suffixes legal from the edited state alone that
      the model accepts after the edit. A model that accepts everything has 1.
    future_precision: Share of the suffixes accepted after the edit that are
      legal from the edited state, of those that tell the two apart. A model
      that accepts everything has the share that there are, about .5.
    future_swapped: As future, with the whole activation of another place that
      is in the edited state. It is what any edit at this place can reach.
    future_untrained: As future, of the same model with random weights, edited
      by a probe of its own. What the architecture alone gives.
    layer: layer whose activations are edited
  """

  needs: ClassVar[tuple[core.Need, ...]] = (
    core.HiddenStates.patched,
    core.Labelled.edited,
  )
  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  repeats: ClassVar[tuple[str, ...]] = ('epochs', 'randoms')
  ideal: ClassVar[Mapping[str, str]] = {
    'edited': '1: edits change its moves',
    'changed': '1: edits change its moves',
    'changed_random': '0: random edits change nothing',
    'future': '1: edits change its futures',
  }
  breakdown: ClassVar[tuple[str, ...]] = ('layer',)

  num: int = field(2000, least=1)
  layers: tuple[int, ...] = field((1,), least=-1, fewest=1, distinct=True)
  label: int = field(-1, least=-1)
  value: int = field(-1, least=-1)
  direction: str = field('probe', choices=('probe', 'means', 'das'))
  strength: float = field(2.0, above=0)
  randoms: int = field(1, least=1)
  accept: str = 'epsilon(0.01)'
  data: str = field('heldout', choices=probing.SPLITS)
  lr: float = field(0.01, above=0)
  batch: int = field(2048, least=1)
  epochs: int = field(100, least=1)
  horizon: int = field(1, least=1)
  pairs: str = field('other_next', choices=('other_next', 'same_next'))
  onward: bool = False
  dims: int = field(8, least=1)
  whole: bool = False
  site: str = field('stream', choices=('stream', 'memory'))

  def __post_init__(self) -> None:
    super().__post_init__()
    registry.make('accept', self.accept)
    if self.pairs == 'same_next' and self.horizon == 1:
      raise core.InputError(
        "intervention: pairs='same_next' was given with horizon=1; states with "
        'the same next tokens differ later: expected a horizon of 2 or more'
      )

    if self.whole and (
      max(self.label, self.value) >= 0 or self.direction == 'das'
    ):
      raise core.InputError(
        'intervention: whole=True edits all labels at once; expected label=-1, '
        "value=-1 and direction='probe' or 'means'"
      )
    if self.site == 'memory' and self.pairs != 'same_next':
      raise core.InputError(
        f"intervention: site='memory' was given with pairs={self.pairs!r}; the "
        "next token is predicted before: expected pairs='same_next'"
      )

  @property
  def quantities(self) -> tuple[str, ...]:
    """Those that these settings have."""
    names = [name for name in self.glossary if name != 'layer']
    if self.pairs == 'same_next':
      return (*ALIKE, *FUTURE)
    if not self.whole:
      names.remove(SWAPPED)
    return tuple(n for n in names if self.horizon > 1 or n not in FUTURE)

  @property
  def _choice(self) -> state_edits.EditFilter:
    return state_edits.EditFilter(
      self.label, self.value, self.horizon, self.pairs, self.whole
    )

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
    """One row for each quantity, which says why."""
    rows = self.quantities
    return tuple(core.scores(n, [np.nan], reason=[reason]) for n in rows)

  def _check(self, world: core.Labelled, sizes: tuple[int, ...]) -> None:
    """Raises InputError where there is no such label, or no such value."""
    if self.label >= len(sizes):
      raise core.InputError(
        f'intervention: label={self.label} was given; a probe reads labels 0 '
        f'to {len(sizes) - 1} of {world.name}'
      )
    most = max(sizes) if self.label < 0 else sizes[self.label]
    if self.value >= most:
      raise core.InputError(
        f'intervention: value={self.value} was given; this label of '
        f'{world.name} has values 0 to {most - 1}'
      )
    if self.direction == 'das' and self.label < 0 and len(sizes) > 1:
      raise core.InputError(
        "intervention: direction='das' finds a subspace of one label, and a "
        f'probe reads {len(sizes)} of {world.name}; expected label=0 to '
        f'{len(sizes) - 1}'
      )


class _Study(NamedTuple):
  """What edits are made of, in all layers.

  Attributes:
    metric: its fields.
    world: whose states.
    sequences: of the world.
    fitted: data of probes.
    edits: [U] those that are measured.
    seed: of all draws.
    lessons: edits that a subspace is trained on, where one is.
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
    fit: dict[str, Any] = {'lr': metric.lr, 'batch': metric.batch}
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
        min(metric.dims, features.shape[1]),
        **fit,
      )
      by = fitted.between_places(features, self.edits, self.seed)
      by = by @ axes @ axes.T
    moves = fitted.along(features, probe, self.edits, metric.strength, by)
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
    strength = self.metric.strength
    return fitted.along_all(features[at], probe, old, new, strength, by)

  def swap(self, features: np.ndarray) -> np.ndarray:
    """[U, D] to the activation of a place in the edited state; NaN if none."""
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
    """What is accepted next, see `_accepted`; the last move is the swap."""
    accept = registry.make('accept', self.metric.accept)
    every = self._every(moves, layer)
    if self.metric.whole:
      every = np.concatenate([every, np.nan_to_num(swap)[None]])
    return _accepted(predictor, self.edits, layer, every, accept)

  def _every(self, moves: state_edits.Shifts, layer: int) -> np.ndarray:
    """[2 + R, U, D] no move, along, and at random."""
    seed = [self.seed, DIRECTIONS, layer + 1]
    random = moves.random(self.metric.randoms, seed)
    return np.stack([np.zeros_like(moves.by), moves.by, *random])

  def futures(
    self,
    predictor: core.HiddenStates,
    layer: int,
    moves: state_edits.Shifts,
    swap: np.ndarray,
  ) -> dict[str, np.ndarray]:
    """Quantity -> [U], NaN where it is not measured; see `swap`."""
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
    random = future[RANDOM:-1].mean(0)
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
    """Of the edits, legal from the first [U, W] of states [2, U, W] alone."""
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
    """[B, D] gradient, by moves [B, D], of the loss of some lessons [B].

    The loss is the cross-entropy of tokens that are equally likely where they
    are legal, in the edited state and behind random legal tokens.
    """
    edits, onward = lessons.take(rows), self.metric.onward
    tokens, lengths, weights = self._played(edits)
    hidden = np.asarray(predictor.hidden(tokens, lengths, layer))
    moved = _moved_at(hidden, edits.place, by, onward)
    slope = predictor.patched_gradient(
      *(tokens, lengths, layer, moved, weights / len(rows))
    )
    places = _places(slope.shape[1], edits.place, onward)
    return (np.asarray(slope) * places[..., None]).sum(1)

  def _played(
    self, edits: state_edits.Edits
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens [B, L] and lengths [B] behind edits; weights [B, L, V] of losses.

    Random legal tokens of the edited states, up to the horizon.
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
    """[M, U] shares of each edit's suffixes accepted after moves [M, U, D]."""
    pair, edits = suffixes.pair_ids, self.edits
    accept = registry.make('accept', self.metric.accept)
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
        moved = _moved_at(hidden, place, by[pair[rows]], self.metric.onward)
        log_probs = np.asarray(predictor.patched(*batch, moved))
        accepted = accept.mask(log_probs[judged])[np.arange(len(token)), token]
        missed[move, rows] = np.bincount(judged[0], ~accepted, len(place))
    total = [np.bincount(pair, each == 0, len(every[0])) for each in missed]
    with np.errstate(invalid='ignore'):
      return np.stack(total) / suffixes.sizes


def _future(gained: np.ndarray, lost: np.ndarray) -> np.ndarray:
  """[M, U] means of both, of what is gained and lost [M, U], where there is.

  NaN where there is neither.
  """
  sides = np.stack([gained, 1 - lost])
  listed = ~np.isnan(sides)
  count = np.where(listed.any(0), listed.sum(0), np.nan)
  return np.where(listed, sides, 0).sum(0) / count


def _places(length: int, place: np.ndarray, onward: bool) -> np.ndarray:
  """[B, L] bool: places that an edit at one of them [B] moves."""
  at = np.arange(length)
  return at >= place[:, None] if onward else at == place[:, None]


def _moved_at(
  hidden: np.ndarray, place: np.ndarray, by: np.ndarray, onward: bool
) -> np.ndarray:
  """Activations [B, L, D] after moves [B, D] of a place [B]; see Metric."""
  places = _places(hidden.shape[1], place, onward)
  return hidden + (places[..., None] * by[:, None]).astype(hidden.dtype)


def _accepted(
  predictor: core.HiddenStates,
  edits_T: state_edits.Edits,
  layer: int,
  every: np.ndarray,
  accept: rules.Accept,
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
      accepted[move, rows] = accept.mask(np.asarray(log_probs)[at])
  return accepted


class _EditScores(NamedTuple):
  """Values so far; `values` and `layers` grow.

  Attributes:
    metric: which quantities there are.
    edits: all edits.
    use: [U] those that are measured.
    seen: [T] bool, the fit has seen the old value.
    group: [T] clusters.
    values: quantity -> [T] of each layer so far.
    layers: so far.
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
    """Rows of one layer: accepted [M, U, V], see `_Study.accepted`."""
    random = slice(RANDOM, RANDOM + self.metric.randoms)
    used = self.edits.take(self.use)
    target, touched = used.legal_after, used.legal_after != used.legal
    right = accepted == target
    changed = (right & touched).sum(-1) / np.maximum(touched.sum(-1), 1)
    overlap = (accepted & target).sum(-1) / (accepted | target).sum(-1)
    edited = right.all(-1)
    rates_by_name = {
      'edited': edited[ALONG],
      'edited_random': edited[random].mean(0),
      'changed': changed[ALONG],
      'changed_random': changed[random].mean(0),
      'changed_before': changed[BEFORE],
      SWAPPED: changed[-1],
      'above_random': changed[ALONG] - changed[random].mean(0),
      'overlap': overlap[ALONG],
      'overlap_random': overlap[random].mean(0),
      'overlap_before': overlap[BEFORE],
      'right_before': (accepted[BEFORE] == used.legal).all(-1),
      'probe': moved.read,
      'probe_edited': moved.read_after,
    }
    self.layers.append(layer)
    self.note(rates_by_name)

  def note(self, rates_by_name: Mapping[str, np.ndarray]) -> None:
    """Values [U] of the quantities that there are."""
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
    """Why rows are not measured, where an edit alone does not say so."""
    missing = np.isnan(np.concatenate(self.values[name])) & (reason == '')
    if name not in FUTURE:
      return reason
    # Without a suffix there is nothing else to ask for.
    none = np.isnan(np.concatenate(self.values['future']))
    why = np.where(none, NO_SUFFIX, FUTURE[name])
    return np.where(missing, why, reason)
