"""Intervention: does the model use the state that a probe reads?

Li et al. 2023 (Othello-GPT, section 4) and Nanda et al. 2023: an activation is
moved to where a linear probe reads another state, and what the model then
expects is compared with what is legal there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import basics, registry
from wm.evaluation import edits, fields, probing
from wm.evaluation.edits import Edits
from wm.evaluation.trials import context

# A stream of randomness under one seed; those of `edits` are others.
DIRECTIONS = 13
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

  version: ClassVar[str] = '1'
  needs: ClassVar[tuple[core.Need, ...]] = (
    core.HiddenStates.patched,
    core.Labelled.edited,
  )
  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  repeats: ClassVar[tuple[str, ...]] = ('epochs', 'randoms')
  headline: ClassVar[tuple[str, ...]] = ('edited', 'changed', 'changed_random')
  breakdown: ClassVar[tuple[str, ...]] = ('layer',)
  glossary: ClassVar[Mapping[str, str]] = basics.section(__doc__, 'Glossary')

  num: int = 2000
  layers: tuple[int, ...] = (1,)
  label: int = -1
  value: int = -1
  direction: str = 'probe'
  strength: float = 2.0
  randoms: int = 1
  accept: str = 'epsilon(0.01)'
  data: str = 'heldout'
  lr: float = 0.01
  batch: int = 2048
  epochs: int = 100

  def __post_init__(self) -> None:
    super().__post_init__()
    fields.one_of(
      self, direction=('probe', 'means'), data=('heldout', 'train', 'all')
    )
    fields.at_least(
      self, num=1, batch=1, epochs=1, label=-1, value=-1, randoms=1
    )
    fields.layers(self, self.layers, least=1)
    if not self.strength > 0:
      raise core.InputError(
        f'intervention: strength={self.strength} was given; expected more '
        'than 0'
      )
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
    drawn = edits.draw(
      *(world, sequences, points, after, values, seed),
      label=self.label,
      value=self.value,
    )
    fitted = edits.Fitted(points, *probing.classes(points.label), ~test)
    seen = fitted.knows(drawn)
    use = np.flatnonzero(drawn.done & seen)
    group = context.clusters(world, sequences)[drawn.row]
    table = _Table(drawn, use, seen, group, {}, [])
    given, some = (predictor, sequences, fitted), drawn.take(use)
    for layer in self.layers:
      table.add(layer, *self._moved(*given, some, layer, seed))
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
    fitted: edits.Fitted,
    some: Edits,
    layer: int,
    seed: int,
  ) -> tuple[edits.Moves, np.ndarray]:
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
    moves = fitted.along(features, probe, some, self.strength, means)
    random = moves.random(self.randoms, [seed, DIRECTIONS, layer + 1])
    every = np.stack([np.zeros_like(moves.by), moves.by, *random])
    accept = registry.make('accept', self.accept)
    return moves, _accepted(predictor, some, layer, every, accept)


def _accepted(
  predictor: core.HiddenStates,
  some: Edits,
  layer: int,
  every: np.ndarray,
  accept: rules.Accept,
) -> np.ndarray:
  """[M, T, V] bool: tokens accepted after moves [M, T, D] after a layer."""
  said = np.zeros((len(every), *some.legal.shape), bool)
  width = int(some.place.max(initial=0)) + 1
  for rows in core.predictor.chunks(len(some.row), width * some.legal.shape[1]):
    tokens, lengths = some.tokens[rows, :width], some.place[rows] + 1
    at = np.arange(len(lengths)), some.place[rows]
    hidden = predictor.hidden(tokens, lengths, layer)
    for move, by in enumerate(every):
      other = np.array(hidden)
      other[at] += by[rows]
      log_probs = predictor.patched(tokens, lengths, layer, other)
      said[move, rows] = accept.mask(np.asarray(log_probs)[at])
  return said


class _Table(NamedTuple):
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

  def add(self, layer: int, moved: edits.Moves, said: np.ndarray) -> None:
    """Rows of one layer: said [2 + R, U, V], before, moved, at random."""
    used = self.made.take(self.use)
    wanted, touched = used.wanted, used.wanted != used.legal
    right = said == wanted
    changed = (right & touched).sum(-1) / touched.sum(-1)
    overlap = (said & wanted).sum(-1) / (said | wanted).sum(-1)
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
      'right_before': (said[BEFORE] == used.legal).all(-1),
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
    made, num = self.made, len(self.layers)
    reason = np.where(made.done, '', 'no_edit').astype('<U12')
    reason[made.done & ~self.known] = 'unseen_value'
    columns = {
      'layer': np.repeat(self.layers, len(made.row)),
      'sequence': np.tile(made.row, num),
      'place': np.tile(made.place, num),
      'label': np.tile(made.label, num),
      'old': np.tile(made.old, num),
      'new': np.tile(made.new, num),
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
