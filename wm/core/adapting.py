"""Few-shot tasks, and readers that are adapted to them.

Vafa et al. 2025: a foundation model is adapted to many small tasks, and its
answers on each show which assumptions it has. Shape letters: D data
sets, N sequences of one, M sequences asked about, P places in a sequence,
S numbers of steps; H labels of a place, k classes of each.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from wm.core import fields
from wm.core.basics import DEAD, InputError, hash64
from wm.core.predictor import TokenReader
from wm.core.world import World


class QueryPoints(NamedTuple):
  """Positions at which an adapted predictor answers.

  Attributes:
    tokens: [D, M, L] int32; tokens after the last place of a row are not read.
    places: [D, M, P] int32: the token after which to answer.
  """

  tokens: np.ndarray
  places: np.ndarray


class FewShotTasks(NamedTuple):
  """D data sets of N sequences with labels at some of their places.

  Attributes:
    tokens: [D, N, L] int32; tokens after the last place of a row are not read.
    places: [D, N, P] int32: the token after which the label holds; DEAD where
      there is none.
    labels: [D, N, P, H] integers, or [D, N, P, d] float32.
  """

  tokens: np.ndarray
  places: np.ndarray
  labels: np.ndarray

  def batch(self, step: int, kind: LabelSpec) -> FewShotTasks:
    """The sequences of a step, as of a `TaskStream`: the same at each."""
    del step, kind
    return self


@dataclasses.dataclass(frozen=True)
class TaskStream:
  """D data sets that give new sequences at each step.

  Attributes:
    draw: number of the step, from 0 -> the sequences of that step. They depend
      on the number alone, and have the same shapes at all steps. An array that
      all data sets share is best broadcast to D.
  """

  draw: Callable[[int], FewShotTasks]

  def batch(self, step: int, kind: LabelSpec) -> FewShotTasks:
    """The sequences of a step.

    Raises:
      InputError: they are no data sets, or their labels are of another kind.
    """
    tasks = self.draw(step)
    _check_sets(f'step {step}', tasks, kind)
    return tasks


@dataclasses.dataclass(frozen=True)
class Classes:
  """Each label is one of k classes; answers are k scores, the highest wins.

  Attributes:
    k: classes of a label.
    heads: labels of a place, H.
  """

  k: int = 2
  heads: int = 1

  @property
  def shape(self) -> tuple[int, ...]:
    """Shape of the answer for one place."""
    return self.heads, self.k

  @property
  def outputs(self) -> int:
    """Numbers that answer for one place."""
    return self.k * self.heads


@dataclasses.dataclass(frozen=True)
class Real:
  """A label is a vector of d real numbers, and so is an answer."""

  d: int = 1

  @property
  def shape(self) -> tuple[int, ...]:
    """Shape of the answer for one place."""
    return (self.d,)

  @property
  def outputs(self) -> int:
    """Numbers that answer for one place."""
    return self.d


LabelSpec = Classes | Real


@dataclasses.dataclass(frozen=True)
class FineTuneConfig:
  """How a network is fine-tuned; a look-up table has no weights to tune.

  Attributes:
    rates: learning rates. Of several, the one with the least mean validation
      loss is taken, for each number of steps.
    trainable: 'all' weights, or those of the new 'head' alone.
    select: the 'last' weights, or the 'best' of all numbers of steps so far by
      the data set's validation loss.
    one_head: share one random head initialisation across data sets (as
      published); else each has its own.
    validation: labels that choose, and are not scored; D data sets.
  """

  rates: tuple[float, ...] = fields.field((6e-4,), above=0, fewest=1)
  trainable: str = fields.field('all', choices=('all', 'head'))
  select: str = fields.field('last', choices=('last', 'best'))
  one_head: bool = False
  validation: FewShotTasks | None = None

  def __post_init__(self) -> None:
    fields.check(self)


FINE_TUNE = FineTuneConfig()  # As published.


class TaskSpec(NamedTuple):
  """What a learner is told of one data set, besides its labels.

  A user's own `adapt` gets it, see `wm.models.serving.user_objects`.

  Attributes:
    kind: what labels are: `Classes(k, heads)` or `Real(d)`.
    steps: of gradient descent, for learners that take any.
    rate: their learning rate.
    trainable: 'all' weights, or those of the new 'head' alone.
    seed: of all randomness.
  """

  kind: LabelSpec
  steps: int
  rate: float
  trainable: str
  seed: int


class Adapted(NamedTuple):
  """Answers of D adapted predictors.

  Attributes:
    outputs: [S, D, M, P, H, k] float32 scores, or [S, D, M, P, d].
    rates: [S] float64, the learning rate that was taken; NaN without one.
  """

  outputs: np.ndarray
  rates: np.ndarray


class Adaptation(NamedTuple):
  """The arguments of `Adaptable.adapt`, checked."""

  tasks: FewShotTasks | TaskStream
  queries: QueryPoints
  kind: LabelSpec
  steps: tuple[int, ...]
  seed: int
  config: FineTuneConfig


class Adaptable(TokenReader):
  """A reader that can be adapted to new tasks, each by a small data set."""

  @abc.abstractmethod
  def adapt_to(self, data: Adaptation) -> Adapted:
    """See `adapt`; raises InputError where it cannot be adapted so."""

  def adapt(
    self,
    tasks: FewShotTasks | TaskStream,
    queries: QueryPoints,
    kind: LabelSpec,
    steps: tuple[int, ...],
    seed: int,
    config: FineTuneConfig = FINE_TUNE,
  ) -> Adapted:
    """Adapts to each of D data sets alone, and answers.

    Args:
      tasks: the labelled sequences; or a stream of them, of which each step
        reads the next ones.
      queries: where to answer, for each data set.
      kind: what labels are.
      steps: numbers of steps after which to answer, ascending.
      seed: of new weights, and of coins.
      config: see FineTuneConfig.

    Raises:
      InputError: see `check_adapting`, or it cannot be adapted so.
    """
    check_adapting(tasks, queries, kind, steps, config)
    return self.adapt_to(Adaptation(tasks, queries, kind, steps, seed, config))


def select(
  outputs: np.ndarray, losses: np.ndarray, config: FineTuneConfig
) -> Adapted:
  """Selects among outputs [R, S, D, ...] of R rates by losses [R, S, D]."""
  # NaN is worst: a rate that diverges is never taken.
  losses = np.where(np.isnan(losses), np.inf, losses)
  if config.select == 'best':
    for s in range(1, losses.shape[1]):
      # As early stopping: of more steps only those that help are taken.
      worse = losses[:, s] >= losses[:, s - 1]
      outputs[:, s] = np.where(
        worse.reshape(*worse.shape, *(1,) * (outputs.ndim - 3)),
        outputs[:, s - 1],
        outputs[:, s],
      )
      losses[:, s] = np.minimum(losses[:, s], losses[:, s - 1])
  # [R, S] -> [S]: one rate for all data sets, chosen at each step.
  best = losses.mean(-1).argmin(0)
  taken = outputs[best, np.arange(len(best))]
  return Adapted(taken, np.array(config.rates, np.float64)[best])


def check_adapting(
  tasks: FewShotTasks | TaskStream,
  queries: QueryPoints,
  kind: LabelSpec,
  steps: tuple[int, ...],
  config: FineTuneConfig,
) -> None:
  """Raises InputError where the tasks, queries or configuration are malformed.

  Of a stream the first step's sequences are checked.
  """
  if isinstance(tasks, TaskStream):
    tasks = tasks.batch(0, kind)
  else:
    _check_sets('tasks', tasks, kind)
  _check_places('queries', queries.tokens, queries.places)
  if len(tasks.tokens) != len(queries.tokens):
    raise InputError(
      f'{len(tasks.tokens)} data sets and queries of {len(queries.tokens)} '
      'were given; expected as many'
    )
  if not steps or min(steps) < 1 or list(steps) != sorted(set(steps)):
    raise InputError(
      f'steps={steps} were given; expected numbers from 1, ascending'
    )
  if config.validation is not None:
    _check_sets('validation', config.validation, kind, bare=True)
  elif len(config.rates) > 1 or config.select == 'best':
    raise InputError(
      f'rates={config.rates}, select={config.select!r} were given without '
      "validation labels; expected some, or one rate and select='last'"
    )


def _check_places(name: str, tokens: np.ndarray, places: np.ndarray) -> None:
  if tokens.ndim != 3 or places.shape[:2] != tokens.shape[:2]:
    raise InputError(
      f'{name}: tokens have shape {tokens.shape}, places {places.shape}; '
      'expected [D, N, L] and [D, N, P]'
    )
  least, most = places.min(initial=0), places.max(initial=0)
  if least < DEAD or most >= tokens.shape[2]:
    raise InputError(
      f'{name}: places from {least} to {most} were given for {tokens.shape[2]} '
      f'tokens; expected 0 to {tokens.shape[2] - 1}, or {DEAD} for none'
    )


def _check_sets(
  name: str, sets: FewShotTasks, kind: LabelSpec, bare: bool = False
) -> None:
  """bare: data sets may have no label."""
  _check_places(name, sets.tokens, sets.places)
  none = (sets.places == DEAD).all((1, 2))
  if none.any() and not bare:
    raise InputError(f'{name}: data set {int(none.argmax())} has no label')
  labels, width = sets.labels, kind.outputs
  if isinstance(kind, Classes):
    width = kind.heads
  if labels.shape != (*sets.places.shape, width):
    raise InputError(
      f'labels have shape {labels.shape}; expected '
      f'{(*sets.places.shape, width)}'
    )
  used = labels[sets.places != DEAD]
  start = '' if name in ('tasks', 'validation') else f'{name}: '
  if isinstance(kind, Classes):
    wrong = used[(used < 0) | (used >= kind.k)]
    expected = f'0 to {kind.k - 1}'
  else:
    wrong, expected = used[~np.isfinite(used)], 'finite numbers'
  if wrong.size:
    raise InputError(f'{start}label {wrong[0]} was given; expected {expected}')


def at_places(
  world: World,
  tokens: np.ndarray,
  places: np.ndarray,
  legal: Callable[[np.ndarray], np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
  """The states at places of sequences, and what is legal there.

  Args:
    world: the truth.
    tokens: [R, L] int32.
    places: [R, P] int32; DEAD is none.
    legal: states [B, W] -> [B, V] bool; default: the world's.

  Returns:
    states: [R, P] int64 state ids after these tokens; DEAD where none, or
      where a token before is illegal.
    legal: [R, P] uint64, equal where the same tokens are legal.
  """
  legal = legal or world.legal
  ids = np.full(places.shape, DEAD, np.int64)
  legal_sets = np.zeros(places.shape, np.uint64)
  rows, states = np.arange(len(tokens)), world.init(len(tokens))
  last = places.max(-1, initial=DEAD)
  for t in range(int(last.max(initial=DEAD)) + 1):
    going = t <= last[rows]
    rows, states = rows[going], states[going]
    states = world.advance(states, tokens[rows, t])
    row, column = np.nonzero(places[rows] == t)
    if row.size:
      reached = states[row]
      ids[rows[row], column] = world.state_id(reached)
      packed = np.packbits(legal(reached), axis=-1)
      legal_sets[rows[row], column] = hash64(*packed.T)
  return ids, legal_sets
