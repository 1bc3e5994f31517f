"""What is adapted to small labelled data sets, and how it is asked then.

Vafa et al. 2025: a foundation model is given many small tasks, and what it
makes of each says which assumptions it brings along. Shape letters: D data
sets, N sequences of one, M sequences asked about, P places in a sequence,
S numbers of steps; H labels of a place, k classes of each.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from wm.core.basics import DEAD, InputError, hash64
from wm.core.predictor import TokenReader
from wm.core.world import World


class Asked(NamedTuple):
  """Where answers are wanted.

  Attributes:
    tokens: [D, M, L] int32; what follows the last place of a row is not read.
    places: [D, M, P] int32: the token after which to answer.
  """

  tokens: np.ndarray
  places: np.ndarray


class Sets(NamedTuple):
  """D data sets of N sequences with labels at some of their places.

  Attributes:
    tokens: [D, N, L] int32; what follows the last place of a row is not read.
    places: [D, N, P] int32: the token after which the label holds; DEAD where
      there is none.
    labels: [D, N, P, H] integers, or [D, N, P, d] float32.
  """

  tokens: np.ndarray
  places: np.ndarray
  labels: np.ndarray


@dataclasses.dataclass(frozen=True)
class Stream:
  """D data sets without end: other sequences at each step.

  Attributes:
    draw: number of the step, from 0 -> the sequences of that step. They depend
      on the number alone, and have the same shapes at all steps. An array that
      all data sets share is best broadcast to D.
  """

  draw: Callable[[int], Sets]

  def batch(self, step: int, kind: Kind) -> Sets:
    """The sequences of a step.

    Raises:
      InputError: they are no data sets, or their labels are of another kind.
    """
    found = self.draw(step)
    _check_sets(f'step {step}', found, kind)
    return found


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
  def outputs(self) -> int:
    """Numbers that answer for one place."""
    return self.k * self.heads


@dataclasses.dataclass(frozen=True)
class Real:
  """A label is a vector of d real numbers, and so is an answer."""

  d: int = 1

  @property
  def outputs(self) -> int:
    """Numbers that answer for one place."""
    return self.d


Kind = Classes | Real


@dataclasses.dataclass(frozen=True)
class Tuning:
  """How what has weights is tuned; a look-up has nothing to tune.

  Attributes:
    rates: learning rates. Where there are several, that of the least mean loss
      on `held` labels is taken, for each number of steps.
    part: 'all' weights, or those of the new 'head' alone.
    keep: the 'last' weights, or of all numbers of steps so far those that are
      'best' on the data set's `held` labels.
    one_head: all data sets begin with the same random head, as published;
      else each has its own.
    held: labels that choose, and are not scored; D data sets.
  """

  rates: tuple[float, ...] = (6e-4,)
  part: str = 'all'
  keep: str = 'last'
  one_head: bool = False
  held: Sets | None = None


TUNING = Tuning()  # As published.


class Adapted(NamedTuple):
  """Answers of D adapted predictors.

  Attributes:
    outputs: [S, D, M, P, H, k] float32 scores, or [S, D, M, P, d].
    rates: [S] float64, the learning rate that was taken; NaN without one.
  """

  outputs: np.ndarray
  rates: np.ndarray


class Adaptable(TokenReader):
  """A reader that can be adapted to new tasks, each by a small data set."""

  @abc.abstractmethod
  def adapt(
    self,
    sets: Sets | Stream,
    asked: Asked,
    kind: Kind,
    steps: tuple[int, ...],
    seed: int,
    tuning: Tuning = TUNING,
  ) -> Adapted:
    """Adapts to each of D data sets alone, and answers.

    Args:
      sets: the labelled sequences; or a stream of them, of which each step
        reads the next ones.
      asked: where to answer, for each data set.
      kind: what labels are.
      steps: numbers of steps after which to answer, ascending.
      seed: of new weights, and of coins.
      tuning: see Tuning.

    Raises:
      InputError: see `check_adapting`, or it cannot be adapted so.
    """


def check_adapting(
  sets: Sets | Stream,
  asked: Asked,
  kind: Kind,
  steps: tuple[int, ...],
  tuning: Tuning,
) -> None:
  """Raises InputError where what is given makes no data sets or questions.

  Of a stream the first step's sequences are checked.
  """
  if isinstance(sets, Stream):
    sets = sets.batch(0, kind)
  else:
    _check_sets('sets', sets, kind)
  _check_places('asked', asked.tokens, asked.places)
  if len(sets.tokens) != len(asked.tokens):
    raise InputError(
      f'{len(sets.tokens)} data sets and questions of {len(asked.tokens)} were '
      'given; expected as many'
    )
  if not steps or min(steps) < 1 or list(steps) != sorted(set(steps)):
    raise InputError(
      f'steps={steps} were given; expected numbers from 1, ascending'
    )
  if not tuning.rates or not all(rate > 0 for rate in tuning.rates):
    raise InputError(
      f'rates={tuning.rates} were given; expected learning rates above 0'
    )
  for name, known in (('part', ('all', 'head')), ('keep', ('last', 'best'))):
    if getattr(tuning, name) not in known:
      raise InputError(
        f'{name}={getattr(tuning, name)!r} was given; available: '
        + ', '.join(known)
      )
  if tuning.held is not None:
    _check_sets('held', tuning.held, kind, bare=True)
  elif len(tuning.rates) > 1 or tuning.keep == 'best':
    raise InputError(
      f'rates={tuning.rates}, keep={tuning.keep!r} were given without held '
      "labels to choose by; expected some, or one rate and keep='last'"
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


def _check_sets(name: str, sets: Sets, kind: Kind, bare: bool = False) -> None:
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
  start = '' if name in ('sets', 'held') else f'{name}: '
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
  sets = np.zeros(places.shape, np.uint64)
  rows, states = np.arange(len(tokens)), world.init(len(tokens))
  last = places.max(-1, initial=DEAD)
  for t in range(int(last.max(initial=DEAD)) + 1):
    going = t <= last[rows]
    rows, states = rows[going], states[going]
    states = world.advance(states, tokens[rows, t])
    here, place = np.nonzero(places[rows] == t)
    if here.size:
      found = states[here]
      ids[rows[here], place] = world.state_id(found)
      packed = np.packbits(legal(found), axis=-1)
      sets[rows[here], place] = hash64(*packed.T)
  return ids, sets
