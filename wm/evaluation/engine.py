"""The engine of sampled metrics: many trials over one session.

A trial has P prefixes with M continuations each, extended token by token. A
fixed number of slots is in flight. A decided trial leaves its slot at once, and
the next waiting trial takes it, so batches stay full:

  slot 0 | trial 0 ........x trial 5 ....x trial 7 ...
  slot 1 | trial 1 ...x trial 3 ..............x trial 8
           steps -->

Arrays of a step with R slots are indexed

  [slot]                             trials, ages
  [slot, continuation]               tokens drawn after one prefix, [R, M]
  [slot, prefix, continuation]       tokens to append, [R, P, M]
  [slot * P + prefix, continuation]  rows of the session, [R * P, M]:

    session row   0         1         2         3         ...
    belongs to    slot 0    slot 0    slot 1    slot 1
                  prefix 0  prefix 1  prefix 0  prefix 1

and arrays of results by trial. The result of a trial depends on its prefixes
and seed alone, so results are the same for any number of slots and of devices.

The engine also chooses whether it samples on the device, by the module
`device`, or on the host, and there by a session or by guesses (`guessing`).
Results are the same, except that ties between tokens may resolve differently.
On an accelerator, all that JAX can trace runs on the device, because a loop
with host code waits for a round trip at every token. On a CPU (see
`tests/bench`), sampling runs in one program if steps are cheap, as for tables
and small networks, and the samples are enough to pay for compilation; larger
networks run on the host.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import basics, traced
from wm.evaluation import guessing
from wm.evaluation.context import BATCH, SAMPLES, Trials
from wm.runtime import progress

# Fewest sampled tokens for which a program is compiled on a CPU: compilation
# takes 1.3 s, in which the host samples this many from a table.
WORTH = 1 << 18


def _sample_at_once(
  trials: Trials, rows: np.ndarray, num: int, budget: np.ndarray, decide: bool
) -> tuple[np.ndarray, ...] | None:
  """Results by guesses or on the device; None if it takes a session."""
  predictor, world = trials.predictor, trials.world
  if not len(rows):
    return None
  if predictor.by_sequence and world.end != core.DEAD:
    return guessing.Continuing(trials, rows, num).run(budget, decide)
  if not core.can(predictor, core.Predictor.machine):
    return None
  # Without an end token the program must follow the world to find out where it
  # is over.
  if world.end == core.DEAD and not core.can(world, core.Enumerable.traced):
    return None
  # Networks with expensive steps gain nothing from a program on a CPU.
  worth = predictor.prefers_device_loop and num * int(budget.sum()) >= WORTH
  if not worth and not _accelerated():
    return None
  from wm.evaluation import device  # Deferred: it imports JAX.

  try:
    return device.sample_and_check(trials, predictor, rows, num, budget, decide)
  except traced.Untraceable:
    return None


def _accelerated() -> bool:
  import jax  # Deferred: it takes half a second.

  return jax.default_backend() != 'cpu'


class Slots:
  """Trials in flight over one session; decided trials are replaced.

  >>> slots = Slots(predictor, prefixes, lengths, num)
  >>> while slots.live.any():
  ...   tokens, done = ...  # From slots.session, for slots.trials.
  ...   slots.advance(tokens, done)

  Attributes:
    session: [R * P, M] continuations; see the module.
    trials: [R] the trial in each slot.
    live: [R] bool, False for an idle slot, when no trial is waiting. The
      session still computes an idle slot's last trial; callers ignore it.
  """

  def __init__(
    self,
    predictor: core.Predictor,
    prefixes: np.ndarray,
    lengths: np.ndarray,
    num: int,
    rows: np.ndarray | None = None,
    *,
    batch: int | None = None,
  ) -> None:
    """Puts the first trials in flight.

    Args:
      predictor: model to score.
      prefixes: [T, P, L] int32, the prefixes of each trial.
      lengths: [T, P] int32.
      num: continuations of each prefix, M.
      rows: indices of the trials to run, in order; default: all.
      batch: maximum number of trials in flight, default BATCH; results do not
        depend on it.
    """
    self._prefixes, self._lengths, self._num = prefixes, lengths, num
    # Trials wait in this order; the first `_started` have had a slot.
    self._order = np.arange(len(lengths)) if rows is None else rows
    batch = batch or max(BATCH, predictor.in_flight)
    self._started = min(batch, len(self._order))
    self._decided = 0
    self.trials = self._order[: self._started].copy()
    self.live = np.ones(self._started, bool)
    if self._started:
      self.session = predictor.session(*self._flat(self.trials), num)

  def _flat(self, trials: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Prefixes [R * P, L] and lengths [R * P] of trials [R]."""
    tokens, lengths = self._prefixes[trials], self._lengths[trials]
    return tokens.reshape(-1, tokens.shape[-1]), lengths.reshape(-1)

  def advance(self, tokens: np.ndarray, done: np.ndarray) -> None:
    """Appends tokens, and replaces decided trials.

    Args:
      tokens: [R, P, M] int32, DEAD for none; ignored for decided trials.
      done: [R] bool, decided trials; ignored for idle slots.
    """
    done = np.flatnonzero(done & self.live)
    self.live[done] = False
    # Decided trials are not advanced: their rows are restarted below, or idle.
    tokens = np.where(self.live[:, None, None], tokens, core.DEAD)
    if (tokens != core.DEAD).any():
      self.session.advance(tokens.reshape(-1, self._num))
    # Free slots take the next trials in order.
    fresh = self._order[self._started : self._started + done.size]
    if fresh.size:
      places, paths = done[: fresh.size], self._lengths.shape[1]
      # Rows of the session: slot * P + prefix, see the module.
      rows = places[:, None] * paths + np.arange(paths)
      self.session.restart(rows.reshape(-1), *self._flat(fresh))
      self.trials[places], self.live[places] = fresh, True
    self._started += fresh.size
    if done.size:
      self._decided += done.size
      progress.report(self._decided, len(self._order))


class Continuations(NamedTuple):
  """Continuations of a first prefix, checked after a second one.

  Attributes:
    tokens: [R, M, K] int32, padded with PAD; the refused token is included.
    lengths: [R, M] int32.
    status: [R, M] int8: ENDED (by the end token, or the world is over),
      CAPPED, STUCK, REFUSED, or 0 where the trial was decided before this
      continuation.
    vacuous: [R] bool, no token is accepted after the first prefix.
  """

  tokens: np.ndarray
  lengths: np.ndarray
  status: np.ndarray
  vacuous: np.ndarray

  @classmethod
  def blank(cls, budget: np.ndarray, num: int) -> Continuations:
    """Empty continuations; budget: [R] maximum tokens of each trial."""
    capped = np.where(budget > 0, 0, core.CAPPED).astype(np.int8)
    return cls(
      np.zeros((len(budget), num, int(budget.max(initial=0))), np.int32),
      np.zeros((len(budget), num), np.int32),
      np.repeat(capped[:, None], num, axis=1),
      np.zeros(len(budget), bool),
    )


def sample_and_check(
  trials: Trials, num: int, *, limit: int = 0, decide: bool = False
) -> Continuations:
  """Samples continuations of first prefixes and checks them after second ones.

  A continuation stops at its end token, at the first token that is not
  accepted after the second prefix, at its budget, or, in a world without an
  end token, where the world is over.

  Args:
    trials: trials to run.
    num: continuations of each trial, M.
    limit: maximum tokens of a continuation; 0 is no limit.
    decide: drop a trial at its first refused token, which decides a 0/1 score.
  """
  # No sequence may outgrow the model or the world.
  budget = np.minimum(trials.room, limit) if limit else trials.room
  results, seeds = Continuations.blank(budget, num), trials.keys(SAMPLES)
  age, rows = np.zeros(len(budget), np.int64), np.flatnonzero(budget > 0)
  sampled = _sample_at_once(trials, rows, num, budget[rows], decide)
  # All trials have run.
  if sampled is not None:
    for into, array in zip(results, sampled, strict=True):
      into[rows] = array
    return results
  slots = Slots(trials.predictor, trials.tokens, trials.lengths, num, rows)
  endings = _Endings(trials, (len(slots.trials), num))
  while slots.live.any():
    session, at, live = slots.session, slots.trials, slots.live
    # Uniforms [R, M] depend on trial, continuation and position alone.
    words = seeds[at][:, None], np.arange(num), age[at][:, None]
    # A session draws after both prefixes; the second's draws are ignored.
    uniform = np.repeat(basics.uniforms(*words), 2, axis=0)
    drawn = np.asarray(session.draw(trials.sampler, uniform))[::2]
    new = live & (age[at] == 0)
    if new.any():
      endings.start(new, at)
      # No draw by the checking rule means that it accepts no token.
      allowed = drawn
      if trials.sampler != trials.accept:
        allowed = np.asarray(session.draw(trials.accept, uniform))[::2]
      results.vacuous[at[new]] = (allowed[new] == core.DEAD).all(1)
    # Running continuations in slots that are not idle, [R, M].
    going = live[:, None] & (results.status[at] == 0)
    tokens = np.where(going, drawn, core.DEAD)
    both = np.repeat(tokens[:, None], 2, axis=1)  # For both prefixes.
    agreed = np.asarray(session.accepted(trials.accept, both.reshape(-1, num)))
    over = endings.follow(tokens)
    last = (age[at] + 1 >= budget[at])[:, None]
    # The first case that holds is the new status of a continuation; rows 1, 3,
    # ... of `agreed` are the second prefixes.
    cases = {
      core.STUCK: tokens == core.DEAD,
      core.REFUSED: ~agreed[1::2],
      core.ENDED: over,
      core.CAPPED: np.broadcast_to(last, tokens.shape),
    }
    new_status = np.select([*cases.values()], [*cases], 0).astype(np.int8)
    status = np.where(going, new_status, results.status[at])
    # Idle slots hold decided trials, whose results stay.
    running, moved = at[live], tokens[live] != core.DEAD
    noted = np.where(moved, tokens[live], core.PAD)
    results.tokens[running, :, age[running]] = noted
    results.lengths[running] += moved
    results.status[running] = status[live]
    age[running] += 1
    # A trial is done if all of its continuations are, or if a refusal decides
    # it.
    done = (status != 0).all(1) | (decide & (status == core.REFUSED).any(1))
    slots.advance(np.where((status == 0)[:, None], both, core.DEAD), done)
  return results


class _Endings:
  """Finds continuations that are over, by an end token or by the world's rules.

  A game may end with a legal move and no end token; tokens after that are not
  sampled. An illegal continuation is never over, as it has no state.
  """

  def __init__(self, trials: Trials, shape: tuple[int, int]) -> None:
    """shape: slots R and continuations M, whose states [R, M, W] it tracks."""
    self._world, self._end = trials.world, trials.predictor.end
    self._by_token = trials.world.end != core.DEAD
    if not self._by_token:
      self._starts = trials.first
      self._states = np.zeros((*shape, self._starts.shape[1]), np.int32)

  def start(self, slots: np.ndarray, trials: np.ndarray) -> None:
    """Starts trials [R] in the slots where `slots` [R] is True."""
    if not self._by_token:
      self._states[slots] = self._starts[trials[slots], None]

  def follow(self, tokens: np.ndarray) -> np.ndarray:
    """[R, M] bool: is a continuation over after its token? DEAD for none."""
    if self._by_token:
      return tokens == self._end
    # Only continuations that got a token can have ended.
    over, moved = np.zeros(tokens.shape, bool), tokens != core.DEAD
    self._states[moved] = self._world.advance(
      self._states[moved], tokens[moved]
    )
    over[moved] = self._world.over(self._states[moved])
    return over


def teacher_force(
  predictor: core.Predictor,
  prefixes: np.ndarray,
  lengths: np.ndarray,
  suffixes: np.ndarray,
  suffix_lengths: np.ndarray,
  accept: rules.Accept,
) -> np.ndarray:
  """Follows suffixes after each prefix while their tokens are accepted.

  Args:
    predictor: model to score.
    prefixes: [T, P, L] int32.
    lengths: [T, P] int32.
    suffixes: [T, M, K] int32, the same after all prefixes of a trial.
    suffix_lengths: [T, M].
    accept: rule by which a token is accepted.

  Returns:
    [T, P, M] int32 number of leading tokens of each suffix that are accepted
    after each prefix. If the first prefix refuses a token, the counts of all
    prefixes stop there.
  """
  (total, num, longest), paths = suffixes.shape, lengths.shape[1]
  if predictor.by_sequence:
    question = prefixes, lengths, suffixes, suffix_lengths, accept
    return guessing.teacher_force(predictor, *question)
  steps = np.zeros((total, paths, num), np.int32)
  if not longest:
    return steps
  alive = np.repeat((suffix_lengths > 0)[:, None], paths, axis=1)  # [T, P, M]
  age = np.zeros(total, np.int64)
  slots = Slots(predictor, prefixes, lengths, num)
  while slots.live.any():
    at, live = slots.trials, slots.live
    # Idle slots stay at their last token; `going` excludes them.
    now = np.minimum(age[at], longest - 1)
    tokens = np.take_along_axis(suffixes[at], now[:, None, None], axis=2)
    going = alive[at] & live[:, None, None]
    # [R, M, 1] -> [R, 1, M] -> [R, P, M]: all prefixes of a trial get the same
    # suffixes.
    tokens = np.where(going, tokens.transpose(0, 2, 1), core.DEAD)
    agreed = slots.session.accepted(accept, tokens.reshape(-1, num))
    going &= np.asarray(agreed).reshape(going.shape)
    going &= going[:, :1]  # A suffix that the first prefix refuses is decided.
    # Counts stop at the first refusal, because `going` is then False.
    steps[at[live]] += going[live]
    # A suffix at its end is decided too.
    going &= (age[at][:, None] + 1 < suffix_lengths[at])[:, None]
    alive[at[live]] = going[live]
    age[at[live]] += 1
    slots.advance(np.where(going, tokens, core.DEAD), going.sum((1, 2)) == 0)
  return steps
