"""Few-shot tasks, and readers that can be adapted to them.

Vafa et al. 2025 adapt a foundation model to many small tasks; its answers show
its inductive bias. Shape letters: D data sets, N labelled sequences of each, M
query sequences of each, P positions in a sequence, S step counts, H labels of
a position, k classes of a label.
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
    tokens: [D, M, L] int32; tokens after a row's last position are not read.
    places: [D, M, P] int32 positions; an answer follows the token there.
  """

  tokens: np.ndarray
  places: np.ndarray


class FewShotTasks(NamedTuple):
  """D data sets of N sequences with labels at some of their positions.

  Attributes:
    tokens: [D, N, L] int32; tokens after a row's last position are not read.
    places: [D, N, P] int32 positions; a label holds after the token there; DEAD
      for no label.
    labels: [D, N, P, H] integers, or [D, N, P, d] float32.
  """

  tokens: np.ndarray
  places: np.ndarray
  labels: np.ndarray

  def batch(self, step: int, kind: LabelSpec) -> FewShotTasks:
    """The sequences of a training step; all steps have the same."""
    del step, kind
    return self


@dataclasses.dataclass(frozen=True)
class TaskStream:
  """D data sets with new sequences at each training step.

  Attributes:
    draw: function from the step, from 0, to the sequences of that step. They
      must depend on the step alone and have the same shapes at all steps.
      Broadcast an array to D if all data sets share it.
  """

  draw: Callable[[int], FewShotTasks]

  def batch(self, step: int, kind: LabelSpec) -> FewShotTasks:
    """The sequences of a training step.

    Raises:
      InputError: `draw` returns malformed data sets, or labels of another kind.
    """
    tasks = self.draw(step)
    _check_sets(f'step {step}', tasks, kind)
    return tasks


@dataclasses.dataclass(frozen=True)
class Classes:
  """Each label is one of k classes; an answer is k scores, argmax the label.

  Attributes:
    k: classes of a label.
    heads: labels of a position, H.
  """

  k: int = 2
  heads: int = 1

  @property
  def shape(self) -> tuple[int, ...]:
    """Shape of the answer at one position."""
    return self.heads, self.k

  @property
  def outputs(self) -> int:
    """Number of model outputs at one position."""
    return self.k * self.heads


@dataclasses.dataclass(frozen=True)
class Real:
  """A label is a vector of d real numbers, and so is an answer."""

  d: int = 1

  @property
  def shape(self) -> tuple[int, ...]:
    """Shape of the answer at one position."""
    return (self.d,)

  @property
  def outputs(self) -> int:
    """Number of model outputs at one position."""
    return self.d


LabelSpec = Classes | Real


@dataclasses.dataclass(frozen=True)
class FineTuneConfig:
  """How a network is fine-tuned; look-up tables ignore it.

  Attributes:
    rate: learning rate.
    one_head: share one random head initialisation across data sets (as
      published); else each has its own.
  """

  rate: float = fields.field(6e-4, above=0)
  one_head: bool = False

  def __post_init__(self) -> None:
    fields.check(self)


FINE_TUNE = FineTuneConfig()  # As published.


class TaskSpec(NamedTuple):
  """Settings of one few-shot task.

  Attributes:
    kind: type of the labels: `Classes(k, heads)` or `Real(d)`.
    steps: number of gradient steps, for learners that take any.
    rate: learning rate of these steps.
    seed: seed of all randomness.
  """

  kind: LabelSpec
  steps: int
  rate: float
  seed: int


class Adaptation(NamedTuple):
  """The arguments of `Adaptable.adapt`, checked."""

  tasks: FewShotTasks | TaskStream
  queries: QueryPoints
  kind: LabelSpec
  steps: tuple[int, ...]
  seed: int
  config: FineTuneConfig


class Adaptable(TokenReader):
  """A reader that can be adapted to new tasks, each with a small data set."""

  @abc.abstractmethod
  def adapt_to(self, data: Adaptation) -> np.ndarray:
    """See `adapt`; raises InputError if the reader cannot adapt to the data."""

  def adapt(
    self,
    tasks: FewShotTasks | TaskStream,
    queries: QueryPoints,
    kind: LabelSpec,
    steps: tuple[int, ...],
    seed: int,
    config: FineTuneConfig = FINE_TUNE,
  ) -> np.ndarray:
    """Adapts to each of D data sets separately and answers its queries.

    Args:
      tasks: labelled sequences, or a stream with new sequences at each step.
      queries: positions to answer at, for each data set.
      kind: type of the labels.
      steps: ascending numbers of training steps; answers follow each.
      seed: seed of new weights and of random draws.
      config: see FineTuneConfig.

    Returns:
      [S, D, M, P, H, k] float32 scores for `Classes`; [S, D, M, P, d] values
      for `Real`.

    Raises:
      InputError: see `check_adapting`; or the reader cannot adapt to the data.
    """
    check_adapting(tasks, queries, kind, steps)
    return self.adapt_to(Adaptation(tasks, queries, kind, steps, seed, config))


def check_adapting(
  tasks: FewShotTasks | TaskStream,
  queries: QueryPoints,
  kind: LabelSpec,
  steps: tuple[int, ...],
) -> None:
  """Raises InputError if tasks, queries or steps are malformed.

  For a stream, only the sequences of the first step are checked.
  """
  if isinstance(tasks, TaskStream):
    tasks = tasks.batch(0, kind)
  else:
    _check_sets('tasks', tasks, kind)
  _check_places('queries', queries.tokens, queries.places)
  if len(tasks.tokens) != len(queries.tokens):
    raise InputError(
      f'{len(tasks.tokens)} data sets and queries for {len(queries.tokens)} '
      'were given; expected equal numbers'
    )
  if not steps or min(steps) < 1 or list(steps) != sorted(set(steps)):
    raise InputError(
      f'steps={steps} were given; expected numbers from 1, ascending'
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


def _check_sets(name: str, sets: FewShotTasks, kind: LabelSpec) -> None:
  _check_places(name, sets.tokens, sets.places)
  none = (sets.places == DEAD).all((1, 2))
  if none.any():
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
  start = '' if name == 'tasks' else f'{name}: '
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
  """States at positions of sequences, and their sets of legal tokens.

  Args:
    world: world that the sequences are of.
    tokens: [R, L] int32.
    places: [R, P] int32 positions; DEAD for no position.
    legal: function from states [B, W] to [B, V] bool; default: world.legal.

  Returns:
    states: [R, P] int64 state ids after the token at each position; DEAD for no
      position, or if a token up to there is illegal.
    legal: [R, P] uint64 hashes, equal for equal sets of legal tokens.
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
