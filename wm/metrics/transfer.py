"""Transfer: does a model learn a function of the state from few sequences?

Vafa et al. 2025, section 4 (What Has a Foundation Model Found?) tune a model to
predict, after every move, a function of the state, such as the side with more
discs. A model that represents the state should learn it from fewer sequences.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import adapting, basics
from wm.core.fields import field
from wm.evaluation import context, fewshot

# Streams of randomness under one seed.
TRAINED, TESTED, CLOCK, ADAPTED, FRESH = range(31, 36)
# Further sequences, on which classes at each number of moves are counted.
MORE = 2000


@dataclasses.dataclass(frozen=True)
class Metric(fewshot.FewShotMetric):
  """Tunes a model to predict functions of the state, one at a time.

  Labels are at all positions after the prompt, except the last token of the
  longest sequences, which a next-token model was never trained to read.
  Quantities are means over positions of held-out sequences, for all functions
  together and for each (accuracy_edges). The suffix _published marks a function
  as the paper's program computes it.

  Attributes:
    num: labelled sequences.
    tested: held-out sequences.
    steps: ascending numbers of training steps to score after; quantities of the
      last have no number in their names. Published: 5,000.
    untrained: also adapt the model with random weights, if it has weights.

  Glossary:
    accuracy: Share of positions at which the tuned model predicts the
      function's value. Far above accuracy_clock, the model uses the state.
    loss: Mean negative log-probability of the true value, in nats. Below
      entropy, the model uses more than the number of moves.
    entropy: Loss of predicting by the frequencies of values at each number of
      moves, counted on other sequences. A model that only counts moves has
      this.
    accuracy_clock: Share of positions at which the most common value at that
      number of moves is right. A model that only counts moves has this.
    accuracy_untrained: As accuracy, for the same network with random weights,
      tuned in the same way. That much was learned from the labels.
    loss_untrained: As loss, for the same network with random weights, tuned in
      the same way. Its difference from loss was learned from sequences.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (
    core.Adaptable,
    core.Labelled.functions,
  )
  sized_by: ClassVar[tuple[str, ...]] = ('num', 'tested')
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'accuracy': core.Measure(1, 'learns functions of states', correlated=True),
    'loss': core.Measure(headline=True, less_is_better=True, correlated=True),
  }

  num: int = field(128, least=1)
  tested: int = field(100, least=1)
  steps: tuple[int, ...] = field((200,), **fewshot.STEPS)
  untrained: bool = False

  def __call__(
    self, predictor: core.Adaptable, world: core.Labelled, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per held-out sequence, clustered by task."""
    task = self._task(world, seed)
    answer = functools.partial(self._answers, task, seed)
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
    nums, streams = (self.num, self.tested), (TRAINED, TESTED)
    trained, tested = fewshot.both_splits(world, nums, seed, streams)
    more = world.sample(MORE, basics.stream(seed, CLOCK), split='train')
    return FunctionTasks(
      [*world.functions(world.init(1))],
      trained,
      _function_values(world, trained),
      tested,
      _function_values(world, tested),
      _function_values(world, more),
      context.clusters(world, tested),
    )

  def _answers(
    self, task: FunctionTasks, seed: int, predictor: core.Adaptable
  ) -> np.ndarray:
    """[S, F, M, L, k] scores of the classes."""
    num, mask = len(task.names), task.truth.valid
    asked = adapting.QueryPoints(
      _each(num, task.tested.tokens), _each(num, fewshot.every_place(mask))
    )
    return self.fine_tune(
      predictor,
      task.sets(),
      asked,
      adapting.Classes(task.classes),
      basics.stream(seed, ADAPTED),
    )[..., 0, :]


def _each(num: int, array: np.ndarray) -> np.ndarray:
  """Broadcasts an array to all `num` functions: [F, ...]."""
  return np.broadcast_to(array, (num, *array.shape))


class FunctionTasks(NamedTuple):
  """Functions of the state, and sequences with their values.

  Attributes:
    names: [F] names of the functions.
    trained, tested: sequences to tune on, and to score.
    shown, truth: values of the functions in `trained` and in `tested`.
    more: values in other sequences, for the baseline that counts moves.
    group: [M] cluster of each scored sequence.
  """

  names: list[str]
  trained: core.Sequences
  shown: FunctionValues
  tested: core.Sequences
  truth: FunctionValues
  more: FunctionValues
  group: np.ndarray

  def sets(self) -> adapting.FewShotTasks:
    """A data set for each function, with the sequences to tune on."""
    num = len(self.names)
    values = np.stack([self.shown.values[name] for name in self.names])
    places = _each(num, fewshot.every_place(self.shown.valid))
    tokens = _each(num, self.trained.tokens)
    return adapting.FewShotTasks(tokens, places, values[..., None])

  @property
  def classes(self) -> int:
    """Greatest number of classes of a function."""
    return 1 + max(
      int(labels.values[name].max(initial=1))
      for labels in (self.shown, self.truth, self.more)
      for name in self.names
    )

  def scores(self, outputs: np.ndarray, end: str) -> list[core.Scores]:
    """Accuracy and loss of outputs [F, M, L, k]; end: of their names."""
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
      log_share = _clock(self.more.valid, self.more.values[name], self.classes)
      log_share = log_share[np.minimum(places, len(log_share) - 1)]
      right.append(log_share.argmax(-1) == values)
      chosen = np.take_along_axis(log_share[None], values[..., None], -1)
      loss.append(-chosen[..., 0])
    return self._rows('accuracy', np.stack(right), '_clock') + self._rows(
      'entropy', np.stack(loss), ''
    )

  def _rows(
    self, quantity: str, value: np.ndarray, end: str
  ) -> list[core.Scores]:
    """Rows for all functions together and for each, of values [F, M, L]."""
    valid = self.truth.valid
    num = valid.sum(1)
    total = (value * valid).sum(-1) / np.maximum(num, 1)
    seen = self.shown.valid
    varied = [
      len(np.unique(self.shown.values[name][seen])) > 1 for name in self.names
    ]
    empty = np.where(num > 0, '', 'no_places')

    def rows(name: str, value: np.ndarray, learned: bool) -> core.Scores:
      """Rows of sequences [M]; unmeasured if all labels were equal."""
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
    values: name -> [N, L] int64, 0 where not valid.
  """

  valid: np.ndarray
  values: dict[str, np.ndarray]


def _function_values(
  world: core.Labelled, sequences: core.Sequences
) -> FunctionValues:
  """Values of all functions at all positions."""
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


def _clock(mask: np.ndarray, values: np.ndarray, classes: int) -> np.ndarray:
  """[L, k] logarithms of the shares of classes [N, L] at each position.

  Add-one smoothing: an unseen class is then not impossible.
  """
  places = np.broadcast_to(np.arange(mask.shape[1]), mask.shape)
  counts = np.ones((mask.shape[1], classes))
  np.add.at(counts, (places[mask], values[mask]), 1)
  return np.log(counts / counts.sum(1, keepdims=True))
