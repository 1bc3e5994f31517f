"""Intervention: does the model use the state that a probe reads?

Li et al. 2023 (Othello-GPT, section 4) and Nanda et al. 2023 move an activation
so that a linear probe reads another state, and compare the model's next tokens
with those that are legal in that state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core.fields import field
from wm.evaluation import context, probing, state_edits

DIRECTIONS = 13  # Stream of randomness under a seed.
# Moves: none, along the probe's direction, random.
BEFORE, ALONG, RANDOM = range(3)
ACCEPT = rules.epsilon(0.01)  # The rule by which the model accepts a token.


@dataclasses.dataclass(frozen=True)
class Metric(probing.ProbeMetric):
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
  probe was fitted on no state with the present value).

  One token cannot distinguish a state from its set of legal next tokens. A low
  value along a probe's direction does not prove that a state is unused.

  Attributes:
    num: sequences; the probe is fitted on four fifths of them, and each of the
      others is edited once.
    layers: activations after each of these layers are edited; 0 is after the
      embedding. Each quantity includes rows of all these layers.
    direction: 'probe': the smallest move that exchanges the probe's logits of
      the two values and keeps those of other values; 'means': from the mean
      activation of the old value to that of the new value. After 'probe' the
      probe is as certain of the new value as it was of the old one.
    data: split of the world's sequences.
    epochs: passes over the training positions.

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
  }
  breakdown: ClassVar[tuple[str, ...]] = ('layer',)

  num: int = field(2000, least=1)
  layers: tuple[int, ...] = field((1,), least=-1, fewest=1, distinct=True)
  direction: str = field('probe', choices=('probe', 'means'))
  data: str = field('heldout', choices=probing.SPLITS)
  epochs: int = field(100, least=1)

  @property
  def quantities(self) -> tuple[str, ...]:
    """Names of the quantities."""
    return tuple(name for name in self.glossary if name not in self.breakdown)

  def __call__(
    self, predictor: core.HiddenStates, world: core.Labelled, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per test sequence and layer, by task."""
    probing.sizes(world)  # Refuses a world without labels that probes read.
    sequences = world.sample(self.num, seed, split=self.data)
    points = probing.label(world, sequences)
    test = probing.by_task(points, world.split_key(sequences), seed)
    after = test & ~points.prompt
    if test.all() or not after.any():
      return self._empty(
        'no_training_points' if after.any() else 'no_test_points'
      )
    values = [np.unique(column) for column in points.label[~test].T]
    drawn = state_edits.draw(world, sequences, points, after, values, seed)
    data = points, *probing.classes(points.label), ~test
    fitted = state_edits.ProbeData(*data)
    seen = fitted.knows(drawn)
    use = np.flatnonzero(drawn.done & seen)
    group = context.clusters(world, sequences)[drawn.row]
    table = _EditScores(self, drawn, use, seen, group, {}, [])
    study = _Study(self, sequences, fitted, drawn.take(use), seed)
    for layer in self.layers:
      moves = study.shifts(predictor, layer)
      table.add(layer, moves, study.accepted(predictor, layer, moves))
    return table.scores()

  def _empty(self, reason: str) -> tuple[core.Scores, ...]:
    """One unmeasured row for each quantity, with a reason."""
    rows = self.quantities
    return tuple(core.scores(n, [np.nan], reason=[reason]) for n in rows)


class _Study(NamedTuple):
  """Data of the edits, shared by all layers.

  Attributes:
    metric: the metric's settings.
    sequences: sequences of the world.
    fitted: data of probes.
    edits: [U] edits that are measured.
    seed: seed of all draws.
  """

  metric: Metric
  sequences: core.Sequences
  fitted: state_edits.ProbeData
  edits: state_edits.Edits
  seed: int

  def shifts(
    self, predictor: core.HiddenStates, layer: int
  ) -> state_edits.Shifts:
    """Moves of the edited positions' activations after a layer."""
    from wm.evaluation import linear_probe  # Deferred: it imports JAX.

    fitted = self.fitted
    features = probing.activations(
      predictor, self.sequences, fitted.points, layer
    )
    probe = linear_probe.fit(
      features[fitted.train],
      fitted.target[fitted.train],
      np.array([len(values) for values in fitted.values]),
      epochs=self.metric.epochs,
      seed=self.seed,
    )
    by = None
    if self.metric.direction == 'means':
      by = fitted.between_means(features, self.edits)
    return fitted.along(features, probe, self.edits, by)

  def accepted(
    self, predictor: core.HiddenStates, layer: int, moves: state_edits.Shifts
  ) -> np.ndarray:
    """[M, U, V] bool: tokens accepted after each of the moves, after a layer.

    Moves are BEFORE, none; ALONG the probe's direction; and RANDOM.
    """
    edits_T = self.edits
    random = moves.random([self.seed, DIRECTIONS, layer + 1])
    every = np.stack([np.zeros_like(moves.by), moves.by, random])
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
      'above_random': changed[ALONG] - changed[RANDOM],
      'overlap': overlap[ALONG],
      'overlap_random': overlap[RANDOM],
      'overlap_before': overlap[BEFORE],
      'right_before': (accepted[BEFORE] == used.legal).all(-1),
      'probe': moved.read,
      'probe_edited': moved.read_after,
    }
    self.layers.append(layer)
    for name, value in rates_by_name.items():
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
        reason=np.tile(reason, num),
        group=np.tile(self.group, num),
        columns=columns,
        bounds=(-1.0, 1.0) if 'above' in name else (0.0, 1.0),
      )
      for name in self.metric.quantities
    )
