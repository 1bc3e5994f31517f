"""Transfer: is a function of the state learned from few sequences?

Vafa et al. 2025, section 4 (What Has a Foundation Model Found?): a model is
tuned to name, after every move, a function of the state, such as who has more
discs; one that has the state should learn it sooner.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import adapting, basics, inputs, registry
from wm.core.fields import field
from wm.evaluation import context, fewshot

# Streams of randomness under one seed.
TRAINED, TESTED, CLOCK, ADAPTED, FRESH = range(31, 36)


@dataclasses.dataclass(frozen=True)
class Metric(fewshot.FewShotMetric):
  """Tunes a model to name functions of the state, each alone.

  Labels are at all places after the prompt; the last token of the longest
  sequences, which no model of next tokens was trained to read, has none.
  Quantities are means over the places of held-out sequences, of all functions
  and of each (accuracy_edges). A function that ends in _published is what the
  paper's program computes in place of it.

  Attributes:
    num: labelled sequences.
    tested: held-out sequences.
    functions: names; () is all that the world has.
    steps: numbers of steps after which to score; the last one's quantities
      have no number in their names. Published are 5,000.
    rates: learning rates; of several, the best by validation loss.
    held: further labelled sequences, for validation.
    part: 'all' weights are tuned, or the 'head' alone.
    keep: weights of the 'last' step, or the 'best' by validation loss.
    clock: further sequences that the entropy given the place is counted on.
    untrained: adapt random weights too, where there are such.
    stream: tune on `num` fresh sequences at each step, as published, in place
      of the same ones at all steps. Published are 128.

  Glossary:
    accuracy: Share of places at which the tuned model names the function's
      value. Far above accuracy_clock, the state is at hand.
    loss: Mean of minus the log-probability of the true value, in nats. Below
      entropy, more is known than how many moves were made.
    entropy: What loss is for the shares of values at each number of moves,
      counted on other sequences. A model that only counts moves has this.
    accuracy_clock: Share of places at which the commonest value of that number
      of moves is the right one. A model that only counts moves has this.
    accuracy_untrained: As accuracy, of the same network with random weights,
      tuned alike. What it has was learned from the labels.
    loss_untrained: As loss, of the same network with random weights, tuned
      alike. What it lacks beside loss was learned from sequences.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (
    core.Adaptable,
    core.Labelled.functions,
  )
  sized_by: ClassVar[tuple[str, ...]] = ('num', 'held', 'tested', 'clock')
  headline: ClassVar[tuple[str, ...]] = ('accuracy', 'loss')
  ideal: ClassVar[Mapping[str, str]] = {
    'accuracy': '1: learns functions of states',
  }
  less_is_better: ClassVar[tuple[str, ...]] = ('loss',)
  correlated_quantities: ClassVar[tuple[str, ...]] = ('accuracy', 'loss')

  num: int = field(128, least=1)
  tested: int = field(100, least=1)
  functions: tuple[str, ...] = ()
  steps: tuple[int, ...] = field((200,), **fewshot.STEPS)
  rates: tuple[float, ...] = field((6e-4,), **fewshot.RATES)
  held: int = field(0, least=0)
  part: str = field('all', choices=fewshot.PARTS)
  keep: str = field('last', choices=fewshot.KEEPS)
  clock: int = field(2000, least=1)
  untrained: bool = False
  stream: bool = False

  def passes(self) -> int:
    """See core.Metric: the model, and one with random weights."""
    return 1 + self.untrained

  def __call__(
    self, predictor: core.Adaptable, world: core.Labelled, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per held-out sequence, clustered by task."""
    task = self._task(world, seed)
    answer = functools.partial(self._answers, task, world, seed)
    rows = self.by_step(answer(predictor), task.scores) + task.of_clock()
    if self.untrained:
      rows += self.by_random_weights(
        predictor,
        basics.stream(seed, FRESH),
        answer,
        task.scores,
        ('accuracy', 'loss'),
      )
    return tuple(rows)

  def _task(self, world: core.Labelled, seed: int) -> FunctionTasks:
    names = [*world.functions(world.init(1))]
    chosen = [*(self.functions or names)]
    for name in chosen:
      text = f'transfer: {registry.spec(world)} has no function {name!r}'
      inputs.check_known(name, names, text)
    total = self.num + self.held
    trained, tested = (
      fewshot.sequences(self, world, num, basics.stream(seed, word), split)
      for num, word, split in (
        (total, TRAINED, 'train'),
        (self.tested, TESTED, 'heldout'),
      )
    )
    more = world.sample(self.clock, basics.stream(seed, CLOCK), split='train')
    return FunctionTasks(
      chosen,
      trained,
      _function_values(world, trained),
      tested,
      _function_values(world, tested),
      _function_values(world, more),
      context.clusters(world, tested),
    )

  def _answers(
    self,
    task: FunctionTasks,
    world: core.Labelled,
    seed: int,
    predictor: core.Adaptable,
  ) -> np.ndarray:
    """[S, F, M, L, k] scores of the classes."""
    sets, validation = self.with_validation(
      functools.partial(task.sets, task.trained, task.shown), self.num
    )

    def drawn(step: int) -> adapting.FewShotTasks:
      """Sequences of a step; the first ones are those of all without it."""
      if not step:
        return sets
      fresh = fewshot.sequences(
        self, world, self.num, basics.stream(seed, TRAINED, step), 'train'
      )
      return task.sets(fresh, _function_values(world, fresh), slice(None))

    num, mask = len(task.names), task.truth.valid
    asked = adapting.QueryPoints(
      _each(num, task.tested.tokens), _each(num, fewshot.every_place(mask))
    )
    return self.fine_tune(
      predictor,
      adapting.TaskStream(drawn) if self.stream else sets,
      asked,
      adapting.Classes(task.classes),
      basics.stream(seed, ADAPTED),
      validation=validation,
    )[..., 0, :]


def _each(num: int, array: np.ndarray) -> np.ndarray:
  """The same for each of `num` functions: [F, ...]."""
  return np.broadcast_to(array, (num, *array.shape))


class FunctionTasks(NamedTuple):
  """Functions, and sequences with their values.

  Attributes:
    names: [F] of the functions.
    trained, tested: sequences to tune on, held ones last, and to score.
    shown, truth: functions of these.
    more: functions of other sequences, for what the clock says.
    group: [M] cluster of each sequence that is scored.
  """

  names: list[str]
  trained: core.Sequences
  shown: FunctionValues
  tested: core.Sequences
  truth: FunctionValues
  more: FunctionValues
  group: np.ndarray

  def sets(
    self, sequences: core.Sequences, labels_of: FunctionValues, rows: slice
  ) -> adapting.FewShotTasks:
    """A data set for each function, of some of the given sequences."""
    num = len(self.names)
    values = np.stack([labels_of.values[name][rows] for name in self.names])
    # A value that is first seen in a fresh sequence has no class.
    fits = values < self.classes
    places = np.where(
      fits, fewshot.every_place(labels_of.valid[rows]), np.int32(core.DEAD)
    )
    labels = np.where(fits, values, 0)[..., None]
    return adapting.FewShotTasks(
      _each(num, sequences.tokens[rows]), places, labels
    )

  @property
  def classes(self) -> int:
    """Most classes that a function has."""
    return 1 + max(
      int(labels.values[name].max(initial=1))
      for labels in (self.shown, self.truth, self.more)
      for name in self.names
    )

  def scores(self, outputs: np.ndarray, end: str) -> list[core.Scores]:
    """Accuracy and loss by scores [F, M, L, k]; end: of their names."""
    values = np.stack([self.truth.values[name] for name in self.names])
    top = outputs.max(-1, keepdims=True)
    norm = np.log(np.exp(outputs - top).sum(-1)) + top[..., 0]
    right = outputs.argmax(-1) == values
    chosen = np.take_along_axis(outputs, values[..., None], -1)[..., 0]
    return self._rows('accuracy', right, end) + self._rows(
      'loss', norm - chosen, end
    )

  def of_clock(self) -> list[core.Scores]:
    """Scores of a predictor that only counts moves."""
    places = np.arange(self.truth.valid.shape[1])
    right, loss = [], []
    for name in self.names:
      values = self.truth.values[name]
      log_share = _clock(
        self.more.valid, self.more.values[name], self.classes
      ).at(places)
      right.append(log_share.argmax(-1) == values)
      chosen = np.take_along_axis(log_share[None], values[..., None], -1)
      loss.append(-chosen[..., 0])
    return self._rows('accuracy', np.stack(right), '_clock') + self._rows(
      'entropy', np.stack(loss), ''
    )

  def _rows(
    self, quantity: str, value: np.ndarray, end: str
  ) -> list[core.Scores]:
    """Means of all functions and of each, of values [F, M, L]."""
    valid = self.truth.valid
    num = valid.sum(1)
    total = (value * valid).sum(-1) / np.maximum(num, 1)
    seen = self.shown.valid
    varied = [
      len(np.unique(self.shown.values[name][seen])) > 1 for name in self.names
    ]
    empty = np.where(num > 0, '', 'no_places')

    def rows(name: str, value: np.ndarray, learned: bool) -> core.Scores:
      """Rows of sequences [M]; a reason where labels were all alike."""
      reason = empty if learned else np.full(len(num), 'one_label')
      return core.scores(
        name,
        value,
        reason=reason,
        group=self.group,
        weight=np.where(reason == '', num, 0),
        columns={'sequence': np.arange(len(num)), 'places': num},
        bounds=(0.0, None) if quantity in ('loss', 'entropy') else (0.0, 1.0),
      )

    mean = total[varied].mean(0) if any(varied) else total.mean(0)
    quantities = [rows(quantity + end, mean, any(varied))]
    for name, values, learned in zip(self.names, total, varied, strict=True):
      quantities.append(rows(f'{quantity}{end}_{name}', values, learned))
    return quantities


class FunctionValues(NamedTuple):
  """Functions of the states of N sequences.

  Attributes:
    valid: [N, L] bool, see `fewshot.labelled_places`.
    values: name -> [N, L] int64, 0 where there is none.
  """

  valid: np.ndarray
  values: dict[str, np.ndarray]


def _function_values(
  world: core.Labelled, sequences: core.Sequences
) -> FunctionValues:
  """All functions at all places."""
  tokens = sequences.tokens
  valid = fewshot.labelled_places(world, sequences)
  states = world.init(len(tokens))
  values = {
    name: np.zeros(tokens.shape, np.int64) for name in world.functions(states)
  }
  for t in range(tokens.shape[1]):
    rows = np.flatnonzero(t < sequences.lengths)
    states[rows] = world.advance(states[rows], tokens[rows, t])
    rows = rows[valid[rows, t]]
    if not rows.size:
      continue
    for name, column in world.functions(states[rows]).items():
      values[name][rows, t] = column
  return FunctionValues(valid, values)


class ClassShares(NamedTuple):
  """Shares of a function's classes by the number of the token alone.

  Attributes:
    log_share: [L, k] float64 log shares of the classes at each place, in nats.
  """

  log_share: np.ndarray

  def at(self, places: np.ndarray) -> np.ndarray:
    """[..., k] of places, those beyond the last known one as that one."""
    return self.log_share[np.minimum(places, len(self.log_share) - 1)]


def _clock(mask: np.ndarray, values: np.ndarray, classes: int) -> ClassShares:
  """Shares of the classes [N, L] at each place, each counted once more.

  So that a class that was not seen there is not impossible.
  """
  places = np.broadcast_to(np.arange(mask.shape[1]), mask.shape)
  counts = np.ones((mask.shape[1], classes))
  np.add.at(counts, (places[mask], values[mask]), 1)
  return ClassShares(np.log(counts / counts.sum(1, keepdims=True)))
