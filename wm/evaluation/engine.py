"""The engine of sampled metrics: many trials over one session.

A trial is P prefixes whose continuations advance in lock-step, M side by
side. A fixed number of trials is in flight; one that is decided is dropped
at once and the next takes its rows, so batches stay full:

  rows   | trial 0 ........x trial 5 ....x trial 7 ...
         | trial 1 ...x trial 3 ..............x trial 8

What a trial gives depends on its own prefixes and seed alone, so results are
the same for any number in flight and any number of devices.
"""

from __future__ import annotations

import abc
import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.evaluation import endings as ends

# Beside core.ENDED, CAPPED, STUCK: a token that the second prefix refuses.
REFUSED = 4
# Trials in flight where a metric says nothing else.
BATCH = 16

Watch = Callable[[int, int], None]
_WATCH: contextvars.ContextVar[Watch | None] = contextvars.ContextVar(
  'watch', default=None
)


@contextlib.contextmanager
def watching(watch: Watch) -> Iterator[None]:
  """Calls watch(decided trials, all trials) as rollouts go on."""
  token = _WATCH.set(watch)
  try:
    yield
  finally:
    _WATCH.reset(token)


class Step(NamedTuple):
  """What a program does next; R trials in flight, P prefixes each.

  Attributes:
    tokens: [R, P, M] int32 to append, DEAD for none.
    done: [R] bool, trials that are decided.
    parents: [R, P, M] or None, see core.Session.advance.
  """

  tokens: np.ndarray
  done: np.ndarray
  parents: np.ndarray | None = None


class Program(abc.ABC):
  """What trials do; its arrays are indexed by trial."""

  @abc.abstractmethod
  def step(self, session: core.Session, trials: np.ndarray) -> Step:
    """One step of the trials [R] in flight; DEAD marks an idle place."""


def run(
  predictor: core.Predictor,
  prefixes: np.ndarray,
  lengths: np.ndarray,
  num: int,
  program: Program,
  batch: int = BATCH,
) -> None:
  """Runs every trial of a program until it is decided.

  Args:
    predictor: what to score.
    prefixes: [T, P, L] int32, the prefixes of each trial.
    lengths: [T, P] int32.
    num: continuations side by side, M.
    program: what to do at each step; holds the results.
    batch: most trials in flight; no effect on results.
  """
  total, paths = lengths.shape
  if batch < 1:
    raise core.InputError(f'batch={batch} trials in flight: expected >= 1')
  if not total:
    return
  trials = np.arange(min(batch, total))
  following, decided = len(trials), 0
  session = predictor.session(
    prefixes[trials].reshape(-1, prefixes.shape[-1]),
    lengths[trials].reshape(-1),
    num,
  )
  while True:
    step = program.step(session, trials)
    done = np.flatnonzero(step.done & (trials != core.DEAD))
    decided += done.size
    if done.size and (watch := _WATCH.get()):
      watch(decided, total)
    fresh = following + np.arange(min(done.size, total - following))
    following += fresh.size
    step.tokens[done] = core.DEAD
    trials[done] = core.DEAD
    if (step.tokens != core.DEAD).any():
      _advance(session, step, num)
    if fresh.size:
      places = done[: fresh.size]
      trials[places] = fresh
      rows = (places[:, None] * paths + np.arange(paths)).reshape(-1)
      session.restart(
        rows,
        prefixes[fresh].reshape(-1, prefixes.shape[-1]),
        lengths[fresh].reshape(-1),
      )
    if (trials == core.DEAD).all():
      return


def _advance(session: core.Session, step: Step, num: int) -> None:
  parents = step.parents
  session.advance(
    step.tokens.reshape(-1, num),
    None if parents is None else parents.reshape(-1, num),
  )


class _Renumbered(Program):
  """A program on the subset `rows` of its trials."""

  def __init__(self, program: Program, rows: np.ndarray) -> None:
    self.program, self.rows = program, rows

  def step(self, session: core.Session, trials: np.ndarray) -> Step:
    """See rollouts.Program."""
    live = trials != core.DEAD
    return self.program.step(
      session, np.where(live, self.rows[trials], core.DEAD)
    )


def run_rows(
  predictor: core.Predictor,
  prefixes: np.ndarray,
  lengths: np.ndarray,
  num: int,
  program: Program,
  rows: np.ndarray,
  *,
  batch: int = BATCH,
) -> None:
  """`run` on the given rows of the trials only; see there."""
  run(
    predictor,
    prefixes[rows],
    lengths[rows],
    num,
    _Renumbered(program, rows),
    batch,
  )


class Pairs(NamedTuple):
  """Continuations of a first prefix, checked after a second one.

  Attributes:
    tokens: [T, M, K] int32, padded with PAD; the refused token is included.
    lengths: [T, M] int32.
    status: [T, M] int8: ENDED (by the end token, or the world is over),
      CAPPED, STUCK, REFUSED, or 0 where the trial was decided before this
      continuation.
    vacuous: [T] bool, nothing at all is accepted after the first prefix.
  """

  tokens: np.ndarray
  lengths: np.ndarray
  status: np.ndarray
  vacuous: np.ndarray


class _Sampling(Program):
  """Samples after the first prefix, checks after the second."""

  def __init__(
    self,
    budget: np.ndarray,
    num: int,
    seeds: np.ndarray,
    end: int,
    accept: rules.Accept,
    sampler: rules.Accept,
    decide: bool,
    endings: ends.Endings | None,
  ) -> None:
    total, longest = len(budget), int(budget.max(initial=0))
    self.endings = endings
    self.budget, self.seeds, self.end = budget, seeds, end
    self.accept, self.sampler, self.decide = accept, sampler, decide
    self.age = np.zeros(total, np.int64)
    self.tokens = np.zeros((total, num, longest), np.int32)
    self.lengths = np.zeros((total, num), np.int32)
    self.status = np.zeros((total, num), np.int8)
    self.vacuous = np.zeros(total, bool)

  def step(self, session: core.Session, trials: np.ndarray) -> Step:
    """See rollouts.Program."""
    num = self.status.shape[1]
    live = trials != core.DEAD
    # Idle places compute what the last trial would; nothing is kept of it.
    at = np.where(live, trials, len(self.age) - 1)
    age = self.age[at]
    uniform = core.uniforms(
      self.seeds[at][:, None], np.arange(num), age[:, None]
    )
    drawn = self._draw(session, self.sampler, uniform)
    if (live & (age == 0)).any():
      new = at[live & (age == 0)]
      vacuous = drawn == core.DEAD
      if self.sampler != self.accept:
        vacuous = self._draw(session, self.accept, uniform) == core.DEAD
      self.vacuous[new] = vacuous.all(1)[live & (age == 0)]
    active = live[:, None] & (self.status[at] == 0)
    tokens = np.where(active, drawn, core.DEAD)
    both = np.repeat(tokens[:, None], 2, axis=1)
    agreed = session.accepted(self.accept, both.reshape(-1, num))
    over = tokens == self.end
    if self.endings is not None:
      over[live] = self.endings.follow(at[live], tokens[live])
    agreed = np.asarray(agreed)[1::2]
    status = self._judge(at, active, tokens, agreed, over)
    self._keep(at[live], age[live], tokens[live], status[live])
    done = (status != 0).all(1)
    if self.decide:
      done |= (status == REFUSED).any(1)
    if self.endings is not None:
      self.endings.forget(at[done & live])
    going = (status == 0)[:, None] & (both != core.DEAD)
    return Step(np.where(going, both, core.DEAD), done & live)

  def _draw(
    self, session: core.Session, rule: rules.Accept, uniform: np.ndarray
  ) -> np.ndarray:
    return np.asarray(session.draw(rule, np.repeat(uniform, 2, axis=0)))[::2]

  def _judge(
    self,
    at: np.ndarray,
    active: np.ndarray,
    tokens: np.ndarray,
    agreed: np.ndarray,
    over: np.ndarray,
  ) -> np.ndarray:
    """[R, M] status after these tokens."""
    status = self.status[at]
    last = self.age[at] + 1 >= self.budget[at]
    moved = tokens != core.DEAD
    cases = [
      (active & ~moved, core.STUCK),
      (moved & ~agreed, REFUSED),
      (moved & over, core.ENDED),
      (moved & last[:, None], core.CAPPED),
    ]
    for where, code in cases:
      status[where & (status == 0)] = code
    return status

  def _keep(
    self,
    at: np.ndarray,
    age: np.ndarray,
    tokens: np.ndarray,
    status: np.ndarray,
  ) -> None:
    moved = tokens != core.DEAD
    self.tokens[at, :, age] = np.where(moved, tokens, core.PAD)
    self.lengths[at] += moved
    self.status[at] = status
    self.age[at] += 1


def pairs(
  predictor: core.Predictor,
  prefixes: np.ndarray,
  lengths: np.ndarray,
  *,
  num: int,
  max_len: int,
  seeds: np.ndarray,
  accept: rules.Accept,
  sampler: rules.Accept | None = None,
  limit: int = 0,
  decide: bool = False,
  endings: ends.Endings | None = None,
  batch: int = BATCH,
) -> Pairs:
  """Samples continuations of first prefixes and checks them after second ones.

  A continuation stops at its end token, at the first token that is not
  accepted after the second prefix, at its budget, or, by `endings`, where the
  world is over.

  Args:
    predictor: what to score.
    prefixes: [T, 2, L] int32.
    lengths: [T, 2] int32.
    num: continuations of each trial, M.
    max_len: total tokens, the longer prefix included, that cap it.
    seeds: [T] integers; trial t depends on seeds[t] alone.
    accept: the rule that checks.
    sampler: the rule that tokens are drawn by; default: the one that checks.
    limit: most tokens of a continuation; 0 is no limit.
    decide: drop a trial at its first refused token (a 0/1 score is decided).
    endings: of the world, from the states of the first prefixes [T, W].
    batch: trials in flight; no effect on results.
  """
  budget = np.maximum(max_len - lengths.max(1), 0).astype(np.int64)
  if limit:
    budget = np.minimum(budget, limit)
  sampler = sampler or accept
  program = _Sampling(
    budget, num, seeds, predictor.end, accept, sampler, decide, endings
  )
  program.status[budget <= 0] = core.CAPPED
  rows = np.flatnonzero(budget > 0)
  run_rows(predictor, prefixes, lengths, num, program, rows, batch=batch)
  return Pairs(program.tokens, program.lengths, program.status, program.vacuous)


class _Forcing(Program):
  """Follows given suffixes after each prefix while they are accepted."""

  def __init__(
    self,
    suffixes: np.ndarray,
    suffix_lengths: np.ndarray,
    paths: int,
    accept: rules.Accept,
  ) -> None:
    total, num, _ = suffixes.shape
    self.suffixes, self.suffix_lengths = suffixes, suffix_lengths
    self.accept = accept
    self.age = np.zeros(total, np.int64)
    self.steps = np.zeros((total, paths, num), np.int32)
    self.alive = np.repeat((suffix_lengths > 0)[:, None], paths, axis=1)

  def step(self, session: core.Session, trials: np.ndarray) -> Step:
    """See rollouts.Program."""
    live = trials != core.DEAD
    at = np.where(live, trials, 0)
    num, longest = self.suffixes.shape[1:]
    age = np.minimum(self.age[at], longest - 1)
    alive = self.alive[at] & live[:, None, None]
    tokens = np.take_along_axis(
      self.suffixes[at], age[:, None, None], axis=2
    ).transpose(0, 2, 1)
    tokens = np.where(alive, tokens, core.DEAD)
    agreed = session.accepted(self.accept, tokens.reshape(-1, num))
    alive &= np.asarray(agreed).reshape(alive.shape)
    # A suffix that the first prefix refuses is decided.
    alive &= alive[:, :1]
    more = age[:, None] + 1 < self.suffix_lengths[at]
    kept = np.flatnonzero(live)
    self.steps[at[kept]] += alive[kept]
    alive &= more[:, None]
    self.alive[at[kept]] = alive[kept]
    self.age[at[kept]] += 1
    return Step(np.where(alive, tokens, core.DEAD), ~alive.any((1, 2)) & live)


def forced(
  predictor: core.Predictor,
  prefixes: np.ndarray,
  lengths: np.ndarray,
  suffixes: np.ndarray,
  suffix_lengths: np.ndarray,
  accept: rules.Accept,
  batch: int = BATCH,
) -> np.ndarray:
  """[T, P, M] int32: tokens of each suffix accepted after each prefix.

  Counts up to the first refusal; where the first prefix refuses a suffix, the
  other counts stop with it.

  prefixes: [T, P, L], lengths: [T, P], suffixes: [T, M, K] int32,
  suffix_lengths: [T, M].
  """
  program = _Forcing(suffixes, suffix_lengths, lengths.shape[1], accept)
  if suffixes.shape[2]:
    run(predictor, prefixes, lengths, suffixes.shape[1], program, batch)
  return program.steps
