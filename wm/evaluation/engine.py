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

and arrays of results by trial. A session may have fewer lanes than a trial has
continuations: a continuation that ends leaves its lane to the next one of its
trial (`_Lanes`). The result of a trial depends on its prefixes and seed alone,
so results are the same for any number of slots, of lanes and of devices.

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
MORE = 4  # Times BATCH: most trials in flight if each has fewer lanes.


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

  def advance(
    self, tokens: np.ndarray, done: np.ndarray, again: np.ndarray | None = None
  ) -> np.ndarray:
    """Appends tokens, and replaces decided trials.

    Args:
      tokens: [R, P, M] int32, DEAD for none; ignored for decided trials.
      done: [R] bool, decided trials; ignored for idle slots.
      again: [R, M] bool, lanes that go back to their prefixes; default: none.

    Returns:
      Slots that have a new trial.
    """
    done = np.flatnonzero(done & self.live)
    self.live[done] = False
    # Decided trials are not advanced: their rows are restarted below, or idle.
    tokens = np.where(self.live[:, None, None], tokens, core.DEAD)
    if (tokens != core.DEAD).any():
      self.session.advance(tokens.reshape(-1, self._num))
    if again is not None and (again := again & self.live[:, None]).any():
      self.session.rewind(np.repeat(again, self._lengths.shape[1], axis=0))
    # Free slots take the next trials in order.
    fresh = self._order[self._started : self._started + done.size]
    places = done[: fresh.size]
    if fresh.size:
      paths = self._lengths.shape[1]
      # Rows of the session: slot * P + prefix, see the module.
      rows = places[:, None] * paths + np.arange(paths)
      self.session.restart(rows.reshape(-1), *self._flat(fresh))
      self.trials[places], self.live[places] = fresh, True
    self._started += fresh.size
    if done.size:
      self._decided += done.size
      progress.report(self._decided, len(self._order))
    return places


class _Lanes:
  """The continuation that each lane of each slot computes.

  Attributes:
    nth: [R, W] int64 number of the continuation within its trial; at least the
      trial's number of continuations for an idle lane.
    age: [R, W] int64 its tokens so far.
  """

  def __init__(self, slots: Slots, width: int) -> None:
    shape = len(slots.trials), width
    self.nth, self.age = np.zeros((2, *shape), np.int64)
    self._next = np.zeros(shape[0], np.int64)
    self.restart(np.arange(shape[0]))

  def restart(self, slots: np.ndarray) -> None:
    """The first continuations of the slots' new trials."""
    width = self.nth.shape[1]
    self.nth[slots], self.age[slots] = np.arange(width), 0
    self._next[slots] = width

  def replace(self, ended: np.ndarray) -> None:
    """Gives the lanes [R, W] bool to the next continuations."""
    if not ended.any():
      return
    place = self._next[:, None] + ended.cumsum(1) - 1
    self.nth = np.where(ended, place, self.nth)
    self.age[ended] = 0
    self._next += ended.sum(1)


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

  def note(
    self,
    trials: np.ndarray,
    lanes: _Lanes,
    going: np.ndarray,
    tokens: np.ndarray,
    status: np.ndarray,
  ) -> None:
    """Adds tokens and status [R, W] of lanes that are going; these age."""
    # Rows of the arrays [R * M, ...]: one index is faster than two.
    num, room = self.tokens.shape[1:]
    where = (trials[:, None] * num + lanes.nth)[going]
    token, age = tokens[going], lanes.age[going]
    moved = token != core.DEAD
    noted = np.where(moved, token, core.PAD)
    self.tokens.reshape(-1)[where * room + age] = noted
    self.lengths.reshape(-1)[where] = age + moved
    self.status.reshape(-1)[where] = status[going]
    lanes.age += going


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
  rows = np.flatnonzero(budget > 0)
  sampled = _sample_at_once(trials, rows, num, budget[rows], decide)
  # All trials have run.
  if sampled is not None:
    for into, array in zip(results, sampled, strict=True):
      into[rows] = array
    return results
  # A refusal that decides a trial is the earliest of all its continuations.
  width, batch = _width(trials.predictor, num, decide)
  prefixes = trials.tokens, trials.lengths
  slots = Slots(trials.predictor, *prefixes, width, rows, batch=batch)
  lanes = _Lanes(slots, width)
  endings = _Endings(trials, lanes.nth.shape)
  new = slots.live.copy()
  while slots.live.any():
    session, at, live = slots.session, slots.trials, slots.live
    # Uniforms [R, W] depend on trial, continuation and position alone.
    words = seeds[at][:, None], lanes.nth, lanes.age
    # A session draws after both prefixes; the second's draws are ignored.
    uniform = np.repeat(basics.uniforms(*words), 2, axis=0)
    drawn = np.asarray(session.draw(trials.sampler, uniform))[::2]
    if new.any():
      allowed = drawn
      if trials.sampler != trials.accept:
        allowed = np.asarray(session.draw(trials.accept, uniform))[::2]
      # No draw by the checking rule means that it accepts no token.
      results.vacuous[at[new]] = (allowed[new] == core.DEAD).all(1)
    going = live[:, None] & (lanes.nth < num)
    endings.start(going & (lanes.age == 0), at)
    tokens = np.where(going, drawn, core.DEAD)
    both = np.repeat(tokens[:, None], 2, axis=1)  # For both prefixes.
    agreed = session.accepted(trials.accept, both.reshape(-1, width))
    over = endings.follow(tokens)
    # Rows 1, 3, ... of `agreed` are the second prefixes.
    refused = ~np.asarray(agreed)[1::2]
    last = lanes.age + 1 >= budget[at][:, None]
    status = _status(tokens, refused, over, last)
    results.note(at, lanes, going, tokens, status)
    ended = going & (status != 0)
    lanes.replace(ended)
    # A trial is done if all of its continuations are, or if a refusal decides
    # it.
    decided = decide & (going & (status == core.REFUSED)).any(1)
    done = (lanes.nth >= num).all(1) | decided
    tokens = np.where((going & ~ended)[:, None], both, core.DEAD)
    begun = slots.advance(tokens, done, ended & (lanes.nth < num))
    lanes.restart(begun)
    new = np.zeros(len(at), bool)
    new[begun] = True
  return results


def _status(
  tokens: np.ndarray, refused: np.ndarray, over: np.ndarray, last: np.ndarray
) -> np.ndarray:
  """[R, W] int8 status after these tokens, of the first case that holds."""
  cases = {
    core.STUCK: tokens == core.DEAD,
    core.REFUSED: refused,
    core.ENDED: over,
    core.CAPPED: last,
  }
  return np.select([*cases.values()], [*cases], 0).astype(np.int8)


def _width(
  predictor: core.Predictor, num: int, decide: bool = False
) -> tuple[int, int | None]:
  """Lanes of a trial with `num` continuations, and trials in flight."""
  width = predictor.session_lanes
  if decide or not 0 < width < num:
    return num, None
  return width, BATCH * min(-(-num // width), MORE)


class _Endings:
  """Finds continuations that are over, by an end token or by the world's rules.

  A game may end with a legal move and no end token; tokens after that are not
  sampled. An illegal continuation is never over, as it has no state.
  """

  def __init__(self, trials: Trials, shape: tuple[int, ...]) -> None:
    """shape: slots R and lanes M, whose states [R, M, W] it tracks."""
    self._world, self._end = trials.world, trials.predictor.end
    self._by_token = trials.world.end != core.DEAD
    if not self._by_token:
      self._starts = trials.first
      self._states = np.zeros((*shape, self._starts.shape[1]), np.int32)

  def start(self, lanes: np.ndarray, trials: np.ndarray) -> None:
    """Starts continuations of trials [R] in lanes [R, M] bool."""
    if not self._by_token:
      self._states[lanes] = self._starts[trials[np.nonzero(lanes)[0]]]

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
  # Suffixes of length 0 behind the last other one are none.
  todo = num - (suffix_lengths[:, ::-1] > 0).argmax(1)
  todo[~(suffix_lengths > 0).any(1)] = 0
  width, batch = _width(predictor, num)
  slots = Slots(predictor, prefixes, lengths, width, batch=batch)
  lanes = _Lanes(slots, width)
  alive = np.ones((len(slots.trials), paths, width), bool)
  while slots.live.any():
    at, live = slots.trials, slots.live
    asked = live[:, None] & (lanes.nth < todo[at][:, None])  # [R, W]
    # Lanes without a suffix stay at some last token; `asked` excludes them.
    which = at[:, None], np.minimum(lanes.nth, num - 1)
    now = np.minimum(lanes.age, longest - 1)
    left = suffix_lengths[which] - lanes.age
    going = alive & (asked & (left > 0))[:, None]
    # All prefixes of a trial get the same suffixes: [R, 1, W] -> [R, P, W].
    tokens = np.where(going, suffixes[(*which, now)][:, None], core.DEAD)
    agreed = slots.session.accepted(accept, tokens.reshape(-1, width))
    going &= np.asarray(agreed).reshape(going.shape)
    going &= going[:, :1]  # A suffix that the first prefix refuses is decided.
    # Counts stop at the first refusal, because `going` is then False.
    steps[at[np.nonzero(asked)[0]], :, lanes.nth[asked]] += np.moveaxis(
      going, 1, 2
    )[asked]
    # A suffix at its end is decided too.
    going &= (left > 1)[:, None]
    lanes.age[asked] += 1
    ended = asked & ~going.any(1)
    lanes.replace(ended)
    more = lanes.nth < todo[at][:, None]
    begun = slots.advance(
      np.where(going, tokens, core.DEAD), ~more.any(1), ended & more
    )
    lanes.restart(begun)
    alive = going | (lanes.age == 0)[:, None]  # New suffixes have age 0.
  return steps
