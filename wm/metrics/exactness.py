"""Exactness: is the state that a model predicts after each token the true one?

Walker and Lyons 2026, section 5 and appendix, with further quantities that
distinguish kinds of failure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import capabilities, registry
from wm.core.fields import field, field_error
from wm.data import sampling
from wm.evaluation import context


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Follows sequences and compares all labels of the state after each token.

  Quantities per token have a row for each bin of `bins` tokens of a sequence;
  `step` is the bin's first token. Quantities of one kind of move have a row for
  each sequence with such a move. A sequence whose loss is not finite is an
  unmeasured row.

  The first token counts (paper: the start token is step 0). `exact`, by `step`,
  is the paper's figure of 20-step bins.

  Attributes:
    num: sequences; 10,000 published.
    bins: tokens of a bin.
    data: folder of stored sequences, such as human games, to draw from; '' is
      the world's own held-out sequences.
    world: spec of a world with the same vocabulary and labels, whose held-out
      sequences and rules are used; '' is the scored world.

  Glossary:
    exact: Share of tokens after which every label of the state is right;
      exact_PART is for some of the labels, or after moves of one kind. One
      wrong square makes a board count 0.
    labelwise: Share of the labels that are right. Most labels do not change
      from move to move, so it is high for weak models too.
    trajectory: Share of sequences in which the state is exact after every
      token. One mistake makes a sequence count 0.
    loss: Mean cross-entropy of a label, in nats. It shows how certain the model
      is, also of right labels.
    changed: Share of right labels among those that a token changes;
      changed_KIND is for moves of one kind. Copying the previous state gets
      none of them right.
    step: tokens of the sequence so far
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Labelled, core.StatePredictor)
  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'exact': core.Measure(1, 'whole state is right', sized=True),
    'labelwise': core.Measure(1, 'each label is right'),
    'trajectory': core.Measure(1, 'right at every step'),
  }
  breakdown: ClassVar[tuple[str, ...]] = ('step',)

  num: int = field(1000, least=1)
  bins: int = field(20, least=1)
  data: str = ''
  world: str = ''

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.data and self.world:
      raise field_error(self, 'data world', 'one of them at most')

  def __call__(
    self, predictor: core.StatePredictor, world: core.Labelled, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; sequences of one task are one cluster."""
    world = self._asked(world)
    if self.data:
      sequences = sampling.stored(world, self.data, self.num, seed)
    else:
      sequences = world.sample(self.num, seed, split='heldout')
    first = np.zeros(len(sequences), np.int32)
    tally = _BinnedSums(world, sequences, self.bins, {}, {}, first)
    fits = sequences.lengths <= predictor.max_len
    rows = np.flatnonzero(fits)
    row_size = 4 * sequences.tokens.shape[1] * len(world.heads.sizes)
    for part in core.predictor.chunks(len(rows), row_size):
      tally.add(predictor, rows[part])
    pictured = _pictured(world, sequences, tally.first)
    reason = np.where(fits, '', 'longer_than_model')
    group = context.clusters(world, sequences)
    return _scores(tally, group, reason, pictured)

  def _asked(self, world: core.Labelled) -> core.Labelled:
    """The world whose rules are used; raises InputError if it does not fit."""
    if not self.world:
      return world
    other = registry.make('world', self.world)
    for what, mine, its in (
      ('tokens', world.vocab, other.vocab),
      ('state labels', *map(_sizes, (world, other))),
    ):
      if mine != its:
        raise core.InputError(
          f'exactness: world={self.world!r} has other {what} than '
          f'{registry.spec(world)}'
        )
    return other


def _sizes(world: core.World) -> tuple[int, ...]:
  return world.heads.sizes if isinstance(world, core.Labelled) else ()


class _ComparedLabels(NamedTuple):
  """Predicted labels of R sequences compared with true ones.

  Attributes:
    real: [R, L] bool, False for padding.
    right: [R, L, K] bool, labels that the model predicts correctly.
    changed: [R, L, K] bool, labels that the token changes.
    loss: [R, L] float32, or None.
  """

  real: np.ndarray
  right: np.ndarray
  changed: np.ndarray
  loss: np.ndarray | None


# (values [R, L] multiplied by weights, weights [R, L]).
_Values = tuple[np.ndarray, np.ndarray]


class _BinnedSums(NamedTuple):
  """Sums over the tokens of N sequences.

  Attributes:
    world, sequences: the sequences that are scored.
    bins: tokens of a bin.
    sums: quantity -> [N, S, 2]: sum of values and of weights in each of the S
      bins of tokens.
    kinds: quantity -> [N, 1, 2]: the same over tokens of one kind.
    first: [N] tokens up to the first wrong state; 0 if all states are right.
  """

  world: core.Labelled
  sequences: core.Sequences
  bins: int
  sums: dict[str, np.ndarray]
  kinds: dict[str, np.ndarray]
  first: np.ndarray

  def add(self, predictor: core.StatePredictor, rows: np.ndarray) -> None:
    """Adds the model's results on some of the sequences."""
    chosen = self.sequences.take(rows)
    truth = self.world.sequence_labels(chosen.tokens, chosen.lengths)
    if core.can(predictor, core.StatePredictor.state_loss):
      named, loss = predictor.state_loss(chosen.tokens, chosen.lengths, truth)
    else:
      named, loss = predictor.states(chosen.tokens, chosen.lengths), None
    # Labels before each token: the initial state's, then the true ones.
    start = self.world.labels(self.world.init(len(rows)))[:, None]
    before = np.concatenate([start, truth[:, :-1]], axis=1)
    real = np.arange(truth.shape[1]) < chosen.lengths[:, None]
    results = _ComparedLabels(real, named == truth, truth != before, loss)
    # Nothing past a sequence's length counts as right or as wrong.
    wrong = real & ~results.right.all(-1)
    self.first[rows] = np.where(wrong.any(1), wrong.argmax(1) + 1, 0)
    for name, values in _quantities(self.world, results).items():
      self._note(self.sums, name, rows, values, self.bins)
    kinds = {}
    if core.can(self.world, core.Described.move_tags):
      kinds = self.world.move_tags(chosen)
    for kind, mask in kinds.items():
      for name, values in _edits(results, mask & real).items():
        size = truth.shape[1]
        self._note(self.kinds, f'{name}_{kind}', rows, values, size)

  def _note(
    self,
    sums: dict[str, np.ndarray],
    name: str,
    rows: np.ndarray,
    values: _Values,
    size: int,
  ) -> None:
    starts = np.arange(0, values[0].shape[1], size)
    blank = np.zeros((len(self.sequences), len(starts), 2))
    total = sums.setdefault(name, blank)
    for k, value in enumerate(values):
      each = value.astype(np.float64)
      total[rows, :, k] = np.add.reduceat(each, starts, axis=1)


def _quantities(
  world: core.Labelled, compared: _ComparedLabels
) -> dict[str, _Values]:
  """All quantities per token, in the order of reports."""
  real, edits = compared.real, _edits(compared, compared.real)
  values = {
    'exact': edits['exact'],
    'labelwise': (np.where(real, compared.right.mean(-1), 0), real),
  }
  if compared.loss is not None:
    values['loss'] = (np.where(real, compared.loss, 0), real)
  for name, part in world.heads.groups.items():
    right = compared.right[..., part].all(-1)
    values[f'exact_{name}'] = (right & real, real)
  return {**values, 'changed': edits['changed']}


def _edits(compared: _ComparedLabels, mask: np.ndarray) -> dict[str, _Values]:
  """'exact' and 'changed' after the tokens [R, L] of a mask."""
  changed = compared.changed & mask[..., None]
  return {
    'exact': (compared.right.all(-1) & mask, mask),
    'changed': ((compared.right & changed).sum(-1), changed.sum(-1)),
  }


def _pictured(
  world: core.World, sequences: core.Sequences, first: np.ndarray
) -> dict[str, np.ndarray]:
  """Side columns: the `prefix` up to the first wrong state, and that `state`.

  Both are '' if no state is wrong.
  """
  _, reached = world.walk(world.init(len(first)), sequences.tokens, first)
  return {
    'prefix': context.token_texts(world, sequences.tokens, first),
    'state': np.where(first > 0, capabilities.written(world, reached), ''),
  }


def _scores(
  tally: _BinnedSums,
  group: np.ndarray,
  reason: np.ndarray,
  pictured: dict[str, np.ndarray],
) -> tuple[core.Scores, ...]:
  quantities = [
    _by_bin(name, sums, group, reason, tally.bins)
    for name, sums in tally.sums.items()
  ]
  if 'loss' not in tally.sums:
    quantities.append(
      core.scores('loss', [np.nan], reason=['no_probabilities'])
    )
  whole = core.scores(
    'trajectory',
    tally.first == 0,
    reason=reason,
    group=group,
    columns={'tokens': tally.sequences.lengths, **pictured},
  )
  quantities.insert(2, whole)
  kinds = [
    _by_bin(name, sums, group, reason, 0) for name, sums in tally.kinds.items()
  ]
  return tuple(quantities + kinds)


def _by_bin(
  name: str, sums: np.ndarray, group: np.ndarray, reason: np.ndarray, size: int
) -> core.Scores:
  """Rows of sequences and bins of `size` tokens with nonzero weight.

  Measured sequences come first, with a row for each bin. Every other sequence
  has one row with its reason.

  sums: [N, S, 2] values and weights; reason: [N].
  """
  # A loss may overflow: then no bin of its sequence is measured.
  lost = ~np.isfinite(sums).all((1, 2))
  sums = np.where(lost[:, None, None], 0, sums)
  reason = np.where(lost & (reason == ''), 'not_finite', reason)
  missing = np.flatnonzero(reason != '')
  row, place = np.nonzero(sums[..., 1] > 0)
  total, weight = sums[row, place].T
  why = np.concatenate([np.full(len(row), ''), reason[missing]])
  if not len(why):
    return core.scores(name, [np.nan], reason=['no_such_token'])
  blank = np.zeros(len(missing))
  return core.scores(
    name,
    np.concatenate([total / weight, blank]),
    reason=why,
    group=group[np.concatenate([row, missing])],
    weight=np.concatenate([weight, blank + 1]),
    columns={'step': np.concatenate([place * size, missing * 0])},
    bounds=(0.0, None if name == 'loss' else 1.0),
  )
