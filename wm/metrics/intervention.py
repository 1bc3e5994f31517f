"""Intervention: does the model use the state that a probe reads?

Li et al. 2023 (Othello-GPT, section 4) and Nanda et al. 2023: an activation is
moved to where a linear probe reads another state, and what the model then
expects is compared with what is legal there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import basics, registry
from wm.core.fields import field
from wm.evaluation import context, probing

# Streams of randomness under one seed.
PLACES, DRAWS, DIRECTIONS = 11, 12, 13
# Draws of a label and a value at a place before it is given up.
ATTEMPTS = 64
# Moves: none, along the probe's direction, in random ones.
BEFORE, ALONG, RANDOM = range(3)


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
  probe was fit on no state with the present value.

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
      mean activation of the old value to that of the new one.
    strength: how far. At 1 the probe is undecided between the two values, at 2
      as sure of the new one as it was of the old one ('means': at 2 the whole
      way).
    randoms: random directions of each edit.
    accept: the rule by which the model accepts a token.
    data: which split of the world's sequences.
    lr: Adam's learning rate for the probe.
    batch: positions in a step of the fit.
    epochs: passes over the positions trained on.

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
  }
  breakdown: ClassVar[tuple[str, ...]] = ('layer',)

  num: int = field(2000, least=1)
  layers: tuple[int, ...] = field((1,), least=-1, fewest=1, distinct=True)
  label: int = field(-1, least=-1)
  value: int = field(-1, least=-1)
  direction: str = field('probe', choices=('probe', 'means'))
  strength: float = field(2.0, above=0)
  randoms: int = field(1, least=1)
  accept: str = 'epsilon(0.01)'
  data: str = field('heldout', choices=probing.SPLITS)
  lr: float = field(0.01, above=0)
  batch: int = field(2048, least=1)
  epochs: int = field(100, least=1)

  def __post_init__(self) -> None:
    super().__post_init__()
    registry.make('accept', self.accept)

  def __call__(
    self, predictor: core.HiddenStates, world: core.Labelled, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per test sequence and layer, by task."""
    sizes = probing.sizes(world)
    self._check(world, sizes)
    sequences = world.sample(self.num, seed, split=self.data)
    points = probing.label(world, sequences)
    test = probing.by_task(points, world.split_key(sequences), seed)
    after = test & ~points.prompt
    if test.all() or not after.any():
      empty = 'no_test_points' if not after.any() else 'no_training_points'
      return _empty(empty)
    values = [np.unique(column) for column in points.label[~test].T]
    drawn = draw(
      *(world, sequences, points, after, values, seed),
      label=self.label,
      value=self.value,
    )
    fitted = Fitted(points, *probing.classes(points.label), ~test)
    seen = fitted.knows(drawn)
    use = np.flatnonzero(drawn.done & seen)
    group = context.clusters(world, sequences)[drawn.row]
    table = _EditScores(drawn, use, seen, group, {}, [])
    inputs, usable = (predictor, sequences, fitted), drawn.take(use)
    for layer in self.layers:
      table.add(layer, *self._moved(*inputs, usable, layer, seed))
    return table.scores()

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

  def _moved(
    self,
    predictor: core.HiddenStates,
    sequences: core.Sequences,
    fitted: Fitted,
    edits_U: Edits,
    layer: int,
    seed: int,
  ) -> tuple[Shifts, np.ndarray]:
    """Moves after a layer, and what is accepted then, see `_accepted`."""
    from wm.evaluation import linear_probe  # Deferred: it imports JAX.

    features = probing.activations(predictor, sequences, fitted.points, layer)
    probe = linear_probe.fit(
      features[fitted.train],
      fitted.target[fitted.train],
      np.array([len(values) for values in fitted.values]),
      lr=self.lr,
      batch=self.batch,
      epochs=self.epochs,
      seed=seed,
    )
    means = self.direction == 'means'
    moves = fitted.along(features, probe, edits_U, self.strength, means)
    random = moves.random(self.randoms, [seed, DIRECTIONS, layer + 1])
    every = np.stack([np.zeros_like(moves.by), moves.by, *random])
    accept = registry.make('accept', self.accept)
    return moves, _accepted(predictor, edits_U, layer, every, accept)


def _accepted(
  predictor: core.HiddenStates,
  edits_T: Edits,
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
    made: all edits.
    use: [U] those that are measured.
    known: [T] bool, the fit has seen the old value.
    group: [T] clusters.
    values: quantity -> [T] of each layer so far.
    layers: so far.
  """

  made: Edits
  use: np.ndarray
  known: np.ndarray
  group: np.ndarray
  values: dict[str, list[np.ndarray]]
  layers: list[int]

  def add(self, layer: int, moved: Shifts, accepted: np.ndarray) -> None:
    """Rows of one layer: accepted [2 + R, U, V], before, moved, at random."""
    used = self.made.take(self.use)
    target, touched = used.wanted, used.wanted != used.legal
    right = accepted == target
    changed = (right & touched).sum(-1) / touched.sum(-1)
    overlap = (accepted & target).sum(-1) / (accepted | target).sum(-1)
    edited = right.all(-1)
    rates_by_name = {
      'edited': edited[ALONG],
      'edited_random': edited[RANDOM:].mean(0),
      'changed': changed[ALONG],
      'changed_random': changed[RANDOM:].mean(0),
      'changed_before': changed[BEFORE],
      'above_random': changed[ALONG] - changed[RANDOM:].mean(0),
      'overlap': overlap[ALONG],
      'overlap_random': overlap[RANDOM:].mean(0),
      'overlap_before': overlap[BEFORE],
      'right_before': (accepted[BEFORE] == used.legal).all(-1),
      'probe': moved.read,
      'probe_edited': moved.read_after,
    }
    self.layers.append(layer)
    for name, value in rates_by_name.items():
      whole = np.full(len(self.made.row), np.nan)
      whole[self.use] = value
      self.values.setdefault(name, []).append(whole)

  def scores(self) -> tuple[core.Scores, ...]:
    """A row for each edit and layer."""
    edits_T, num = self.made, len(self.layers)
    reason = np.where(edits_T.done, '', 'no_edit').astype('<U12')
    reason[edits_T.done & ~self.known] = 'unseen_value'
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
        np.concatenate(value),
        reason=np.tile(reason, num),
        group=np.tile(self.group, num),
        columns=columns,
        bounds=(-1.0, 1.0) if name == 'above_random' else (0.0, 1.0),
      )
      for name, value in self.values.items()
    )


def _empty(reason: str) -> tuple[core.Scores, ...]:
  """One row for each quantity, which says why."""
  names = [name for name in Metric.glossary if name != 'layer']
  return tuple(core.scores(n, [np.nan], reason=[reason]) for n in names)


class Edits(NamedTuple):
  """One place in each of T sequences, and what is changed there.

  Attributes:
    row: [T] sequence.
    tokens: [T, L] int32.
    place: [T] the token after which the state is edited.
    label: [T] which of the labels that a probe reads.
    old, new: [T] its values, as a probe reads them.
    legal: [T, V] bool, tokens that are legal.
    wanted: [T, V] bool, tokens that are legal in the edited state.
    done: [T] bool, is there an edit?
  """

  row: np.ndarray
  tokens: np.ndarray
  place: np.ndarray
  label: np.ndarray
  old: np.ndarray
  new: np.ndarray
  legal: np.ndarray
  wanted: np.ndarray
  done: np.ndarray

  def take(self, rows: np.ndarray) -> Edits:
    """Some of them, in order."""
    return Edits(*(array[rows] for array in self))


def draw(
  world: core.Labelled,
  sequences: core.Sequences,
  points: probing.LabelledPoints,
  chosen: np.ndarray,
  values: Sequence[np.ndarray],
  seed: int,
  *,
  label: int = -1,
  value: int = -1,
) -> Edits:
  """One edit of each sequence that has chosen points.

  The place is uniform over these points; label and value are uniform over
  those that give a state with other legal tokens.

  Args:
    world: whose states.
    sequences: of the world.
    points: labelled places of them.
    chosen: [P] bool, points that may be edited.
    values: ascending, those that each of the K labels may get.
    seed: of all draws; each sequence has its own.
    label, value: the only ones, where they are not -1.
  """
  at = _one_a_row(points, chosen, seed)
  row, place = points.row[at], points.position[at]
  tokens = sequences.tokens[row]
  states = world.walk(world.init(len(at)), tokens, place + 1)[1]
  legal, none = world.legal(states), np.zeros(len(at), np.int64)
  edits = Edits(
    *(row, tokens, place, none, none.copy(), none.copy()),
    *(legal, legal.copy(), np.zeros(len(at), bool)),
  )
  counts = np.array([len(options) for options in values])
  for attempt in range(ATTEMPTS):
    left = np.flatnonzero(~edits.done)
    if not left.size:
      break
    # A label and a value of it: uniform over all pairs of both.
    first, second = (
      basics.uniforms(seed, DRAWS, row[left], attempt, k) for k in range(2)
    )
    pick = np.searchsorted(np.cumsum(counts), first * counts.sum(), 'right')
    label_T = np.full(len(left), label) if label >= 0 else pick
    place_T = (second * counts[label_T]).astype(np.int64)
    drawn = [values[k][v] for k, v in zip(label_T, place_T, strict=True)]
    new = np.full(len(left), value) if value >= 0 else np.array(drawn)
    old = points.label[at[left], label_T].astype(np.int64)
    edited = _edited(world, states[left], label_T, new)
    legal_after = world.legal(edited)
    may = [n in values[k] for k, n in zip(label_T, new, strict=True)]
    good = (
      np.array(may, bool) & (new != old) & (world.state_id(edited) != core.DEAD)
    )
    good &= legal_after.any(-1) & (legal_after != legal[left]).any(-1)
    rows = left[good]
    edits.label[rows], edits.wanted[rows] = label_T[good], legal_after[good]
    edits.old[rows], edits.new[rows] = old[good], new[good]
    edits.done[rows] = True
  return edits


def _one_a_row(
  points: probing.LabelledPoints, chosen: np.ndarray, seed: int
) -> np.ndarray:
  """[T] one of the chosen points of each sequence, by row."""
  rows = np.flatnonzero(chosen)
  keys = basics.hash64(seed, PLACES, points.row[rows], points.position[rows])
  rows = rows[np.lexsort((keys, points.row[rows]))]
  return rows[np.unique(points.row[rows], return_index=True)[1]]


def _edited(
  world: core.Labelled, states: np.ndarray, label: np.ndarray, new: np.ndarray
) -> np.ndarray:
  """States with another value, as a probe reads it, of its label `label`."""
  heads = world.heads
  first = heads.probe.start if heads.probe is not None else 0
  if heads.turn is not None and heads.mine:
    turn = world.labels(states)[:, heads.turn].astype(np.int64)
    new = probing.by_mover(new, turn, heads.sizes[first])
  return world.edited(states, first + label, new)


class Shifts(NamedTuple):
  """Moves of T activations.

  Attributes:
    by: [T, D] what is added.
    read, read_after: [T] bool, the probe reads the old value before, the new
      one after.
  """

  by: np.ndarray
  read: np.ndarray
  read_after: np.ndarray

  def random(self, num: int, seed: list[int]) -> np.ndarray:
    """[num, T, D] of the same lengths, in any direction."""
    directions = np.random.default_rng(seed).normal(size=(num, *self.by.shape))
    length = np.linalg.norm(self.by, axis=-1, keepdims=True)
    return directions * (
      length / np.linalg.norm(directions, axis=-1, keepdims=True)
    )


class Fitted(NamedTuple):
  """The data that a probe is fit on.

  Attributes:
    points: all labelled places.
    target: [P, K] their labels, as classes of each column.
    values: the label that each class of a column is, ascending.
    train: [P] bool, the points that it is fit on.
  """

  points: probing.LabelledPoints
  target: np.ndarray
  values: list[np.ndarray]
  train: np.ndarray

  def knows(self, edits: Edits) -> np.ndarray:
    """[T] bool: has the fit seen the old value?"""
    seen = [np.unique(column) for column in self.points.label[self.train].T]
    pairs = zip(edits.label, edits.old, strict=True)
    return np.array([old in seen[k] for k, old in pairs], bool)

  def along(
    self,
    features: np.ndarray,
    probe: tuple[np.ndarray, np.ndarray],
    edits: Edits,
    strength: float,
    means: bool,
  ) -> Shifts:
    """Moves of the edited places' activations.

    Args:
      features: [P, D] activations of all points.
      probe: weights [D, K, C] and biases [K, C].
      edits: where, and to which values.
      strength: the log-odds of the new value against the old one become so
        many times what those of the old one were, less once.
      means: move by the difference of the means of both values, at strength 2
        all of it, instead of where the probe says.
    """
    x = features[self._at(edits)]
    w, bias = probe[0][:, edits.label], probe[1][edits.label]  # [D, T, C].
    old, new = self._classes(edits, edits.old), self._classes(edits, edits.new)
    logits = np.einsum('td,dtc->tc', x, w) + bias
    rows = np.arange(len(x))
    if means:
      first, second = (
        self._means(features, edits, value) for value in (edits.old, edits.new)
      )
      by = strength / 2 * (second - first)
    else:
      odds = logits[rows, old] - logits[rows, new]
      far = odds + (strength - 1) * np.abs(odds)
      by = self._way(probe[0], edits.label, old, new) * far[:, None]
    after = logits + np.einsum('td,dtc->tc', by, w)
    return Shifts(by, logits.argmax(-1) == old, after.argmax(-1) == new)

  def _way(
    self,
    weights: np.ndarray,
    label: np.ndarray,
    old: np.ndarray,
    new: np.ndarray,
  ) -> np.ndarray:
    """[T, D] least moves by which the new value gains 1 on the old one.

    Each gives half, and the logits of all other values stay as they are; in
    the sense of least squares where there are more values than dimensions.
    """
    moves = np.zeros((len(label), len(weights)))
    for k in np.unique(label):
      rows, count = np.flatnonzero(label == k), len(self.values[k])
      w = weights[:, k, :count].astype(np.float64)
      # What all logits have in common says nothing.
      back = np.linalg.pinv(w - w.mean(1, keepdims=True))  # [C, D].
      moves[rows] = (back[new[rows]] - back[old[rows]]) / 2
    return moves

  def _at(self, edits: Edits) -> np.ndarray:
    """[T] the points that are edited; points are in order."""
    size = self.points.position.max(initial=0) + 1
    keys = self.points.row * size + self.points.position
    return np.searchsorted(keys, edits.row * size + edits.place)

  def _classes(self, edits: Edits, value: np.ndarray) -> np.ndarray:
    """[T] classes that values [T] of the edited labels are."""
    pairs = zip(edits.label, value, strict=True)
    indices = [np.searchsorted(self.values[k], value_t) for k, value_t in pairs]
    return np.array(indices, np.int64)

  def _means(
    self, features: np.ndarray, edits: Edits, value: np.ndarray
  ) -> np.ndarray:
    """[T, D] mean activations where the edited labels have values [T]."""
    means = np.zeros((len(value), features.shape[1]))
    inputs, labels = features[self.train], self.points.label[self.train]
    pairs = np.stack([edits.label, value], -1)
    for k, value_of in np.unique(pairs, axis=0):
      mean = inputs[labels[:, k] == value_of].mean(0)
      means[(pairs == (k, value_of)).all(-1)] = mean
    return means
