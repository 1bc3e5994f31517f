"""The loop over tokens as a compiled program.

`sample_and_check` runs the loop of `engine.sample_and_check` in one
`lax.while_loop`: the host transfers all trials, and reads the results at the
end. No token makes a round trip to the host.

A trial has M continuations of up to K' tokens. B trials are in flight, one in
each slot. A decided trial gives its slot to the next waiting one, as in the
engine:

  slot 0 | trial 0 ........x trial 5 ....x trial 7 ...
  slot 1 | trial 1 ...x trial 3 ..............x trial 8
           turns -->

  a turn of the loop    refill -> draw -> check -> decide -> advance
  by slot               trial, age [B]; what is drawn, fates [B, M]
  by trial, in place    tokens [T', M, K'], lengths, status [T', M]

T' and K' are the numbers of trials and tokens, rounded up to powers of two, so
that few programs are compiled. Rows from T on are padding. An idle slot has
trial T; its results are written to row T', which is out of range, and so
dropped.

A program returns after TURNS turns, to handle Ctrl-C and progress; only the
number of remaining trials is read then.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from wm import core
from wm.core import basics, traced
from wm.evaluation.context import SAMPLES, Trials
from wm.kernels.base import words
from wm.runtime import progress


def next_power(size: int) -> int:
  """The smallest power of two >= size."""
  return 1 << max(size - 1, 0).bit_length()


def taken(tree: Any, rows: np.ndarray | slice) -> Any:
  """Rows of the arrays of a tree."""
  return jax.tree.map(lambda leaf: np.asarray(leaf)[rows], tree)


def padded(tree: Any, rows: int) -> Any:
  """Arrays of a tree [N, ...] with copies of their first row, [rows, ...].

  Zeros might not be a valid state, prefix or budget.
  """
  num = len(jax.tree.leaves(tree)[0])
  return taken(tree, np.where(np.arange(rows) < num, np.arange(rows), 0))


# Turns of one call: a few seconds of a small model.
TURNS = 1024


class Fixed(NamedTuple):
  """Static arguments of a program.

  Attributes:
    num: continuations of a trial, M.
    end: id of the end token, or DEAD.
    turns: most turns of one call.
  """

  num: int
  end: int
  turns: int


class Followed(NamedTuple):
  """A world to follow, because no end token shows where it is over.

  Attributes:
    rules: the world's.
    moves: [V] int32 number of each token's move, DEAD for none.
    starts: positions [T'] that continuations start from.
  """

  rules: traced.Rules
  moves: jax.Array
  starts: Any


class Queue(NamedTuple):
  """Trials that wait for a slot.

  Attributes:
    total: number of trials, T.
    decide: bool, a trial is dropped at its first refused token.
    budget: [T'] int32 most tokens of a continuation, at least 1.
    seeds: [T'] words, `basics.hash64` of each trial's seed.
    followed: the world, or None where an end token tells that it is over.
  """

  total: jax.Array
  decide: jax.Array
  budget: jax.Array
  seeds: words.Word
  followed: Followed | None


class Carry(NamedTuple):
  """The carry of the loop; the last four are the results.

  Attributes:
    trial: [B] int32 trial in each slot; T where it is idle.
    age: [B] int32 tokens drawn so far.
    following: the next trial of the queue.
    state: of the machine.
    positions: [B, M] of the world that is followed, or None.
    tokens: [T', M, K'] int32, PAD where there is none.
    lengths: [T', M] int32.
    status: [T', M] int8, 0 while under way.
    vacuous: [T'] bool.
  """

  trial: jax.Array
  age: jax.Array
  following: jax.Array
  state: Any
  positions: Any
  tokens: jax.Array
  lengths: jax.Array
  status: jax.Array
  vacuous: jax.Array


def uniforms(seeds: words.Word, num: int, age: jax.Array) -> jax.Array:
  """[B, M] float32: `basics.uniforms(seed, continuation, age)` to the bit.

  `basics.hash64` mixes its words one by one, and the first of them, the seed,
  is mixed on the host once for all tokens.

  seeds: [B], hashed once already; age: [B].
  """
  branch = jnp.arange(num, dtype=jnp.uint32)[None]
  # Both numbers are below 2**32: they change the low half only. The high half
  # is brought to the shape [B, M].
  lane = words.splitmix(
    words.Word(seeds.lo[:, None] ^ branch, seeds.hi[:, None] | 0 * branch)
  )
  word = words.splitmix(
    words.Word(lane.lo ^ age[:, None].astype(jnp.uint32), lane.hi)
  )
  # The upper 24 bits of 64 are those that a float32 below 1 can hold.
  return (word.hi >> 8).astype(jnp.float32) * np.float32(2.0**-24)


def _along(chosen: jax.Array, chosen_tree: Any, other_tree: Any) -> Any:
  """Rows of `chosen_tree` where chosen [B] or [B, M], else of `other_tree`."""

  def pick(a: jax.Array, b: jax.Array) -> jax.Array:
    wide = chosen.reshape(chosen.shape + (1,) * (b.ndim - chosen.ndim))
    return jnp.where(wide, a, b)

  return jax.tree.map(pick, chosen_tree, other_tree)


def _clipped(trial: jax.Array, queue: Queue) -> jax.Array:
  """Valid trial numbers, also for idle slots, whose results are dropped."""
  return jnp.minimum(trial, queue.total - 1)


def _refill(machine: traced.Machine, queue: Queue, carry: Carry) -> Carry:
  """Idle slots take the next trials, in order."""
  # The first idle slot takes trial `following`, the second the one after it:
  #   trial          3  T  4  T  T       T = 7, following = 5
  #   idle so far    0  1  1  2  3       the running sum
  #   nth            -  5  -  6  7       7 is no trial: this slot stays idle
  idle = carry.trial >= queue.total
  nth = carry.following + jnp.cumsum(idle) - 1
  fresh = idle & (nth < queue.total)
  trial = jnp.where(fresh, nth, carry.trial)
  at, positions = _clipped(trial, queue), carry.positions
  if queue.followed is not None:
    # All M continuations of a trial start from one position.
    starts = jax.tree.map(lambda leaf: leaf[at][:, None], queue.followed.starts)
    positions = _along(fresh, starts, positions)
  return carry._replace(
    trial=trial,
    age=jnp.where(fresh, 0, carry.age),
    following=carry.following + fresh.sum(),
    state=machine.restart(carry.state, fresh, at),
    positions=positions,
  )


def _follow(
  world: Followed, positions: Any, tokens: jax.Array
) -> tuple[Any, jax.Array]:
  """Positions [B, M] after tokens, DEAD for none, and where it is over."""

  def follow(position: Any, token: jax.Array) -> tuple[Any, jax.Array]:
    move = jnp.where(token == core.DEAD, core.DEAD, world.moves[token])
    after = world.rules.advance(position, move)
    # A continuation that is illegal is never over: nothing is known of it.
    over = world.rules.alive(after) & ~world.rules.legal(after).any()
    return after, over

  after, over = jax.vmap(jax.vmap(follow))(positions, tokens)
  moved = tokens != core.DEAD
  return _along(moved, after, positions), over & moved


def _turn(
  fixed: Fixed, machine: traced.Machine, queue: Queue, carry: Carry
) -> Carry:
  """One token of every continuation under way."""
  carry = _refill(machine, queue, carry)
  live, at = carry.trial < queue.total, _clipped(carry.trial, queue)
  before = carry.status[at]  # [B, M] as all that follows.
  # Draw. A uniform number is a function of trial, continuation and age alone,
  # whichever slot the trial is in.
  seeds = jax.tree.map(lambda half: half[at], queue.seeds)
  drawn = machine.draw(carry.state, uniforms(seeds, fixed.num, carry.age))
  active = live[:, None] & (before == 0)
  tokens = jnp.where(active, drawn, core.DEAD)
  moved = tokens != core.DEAD
  over, positions = tokens == fixed.end, carry.positions
  if queue.followed is not None:
    positions, over = _follow(queue.followed, positions, tokens)
  # Check. The first case that holds is the new status of a continuation.
  last = carry.age + 1 >= queue.budget[at]
  cases = {
    core.STUCK: active & ~moved,
    core.REFUSED: moved & ~machine.accepted(carry.state, tokens),
    core.ENDED: moved & over,
    core.CAPPED: moved & last[:, None],
  }
  new_status = jnp.select([*cases.values()], [*cases], 0).astype(jnp.int8)
  status = jnp.where(before == 0, new_status, before)
  # Decide. A trial that is done leaves its slot before the next turn.
  done = (status != 0).all(1)
  done |= queue.decide & (status == core.REFUSED).any(1)
  going = (status == 0) & ~done[:, None]
  none = carry.vacuous[at]
  vacuous = machine.vacuous(carry.state).all(1)
  # An idle slot's trial is T, which may be a row of the filling: out of range,
  # it is dropped.
  row = jnp.where(live, carry.trial, len(carry.vacuous))
  return carry._replace(
    trial=jnp.where(done, queue.total, carry.trial),
    age=carry.age + 1,
    # The model's step is expensive: skipped if all trials are done.
    state=lax.cond(
      going.any(),
      machine.advance,
      lambda state, tokens: state,
      carry.state,
      jnp.where(going, tokens, core.DEAD),
    ),
    positions=positions,
    tokens=carry.tokens.at[row, :, carry.age].set(
      jnp.where(moved, tokens, core.PAD), mode='drop'
    ),
    lengths=carry.lengths.at[row].add(moved, mode='drop'),
    status=carry.status.at[row].set(status, mode='drop'),
    # A trial is vacuous by the tokens accepted right after its prefix alone.
    vacuous=carry.vacuous.at[row].set(
      jnp.where(carry.age == 0, vacuous, none), mode='drop'
    ),
  )


# Results are written in place: the carry of a call is donated.
@functools.partial(jax.jit, static_argnums=0, donate_argnames='carry')
def program(
  fixed: Fixed, machine: traced.Machine, queue: Queue, carry: Carry
) -> tuple[Carry, jax.Array]:
  """Runs up to `fixed.turns` turns; also returns the number of trials left."""

  def left(carry: Carry) -> jax.Array:
    waiting = queue.total - carry.following
    return waiting + (carry.trial < queue.total).sum()

  def more(turns: tuple[jax.Array, Carry]) -> jax.Array:
    return (turns[0] < fixed.turns) & (left(turns[1]) > 0)

  def turn(turns: tuple[jax.Array, Carry]) -> tuple[jax.Array, Carry]:
    return turns[0] + 1, _turn(fixed, machine, queue, turns[1])

  carry = lax.while_loop(more, turn, (jnp.int32(0), carry))[1]
  return carry, left(carry)


def move_of(rules: traced.Rules, vocab_size: int) -> np.ndarray:
  """[V] int32 number of each token's move; DEAD where it is none."""
  tokens = np.asarray(rules.tokens)
  moves = np.full(vocab_size, core.DEAD, np.int32)
  moves[tokens] = np.arange(len(tokens))
  return moves


def sample_and_check(
  trials: Trials,
  predictor: core.Predictor,
  rows: np.ndarray,
  num: int,
  budget: np.ndarray,
  decide: bool,
) -> tuple[np.ndarray, ...]:
  """Samples continuations of first prefixes and checks them after second ones.

  Args:
    trials: all trials.
    predictor: predictor of the trials.
    rows: [T] indices of the trials to run.
    num: continuations of each trial, M.
    budget: [T] maximum tokens of a continuation, at least 1.
    decide: drop a trial at its first refused token.

  Returns:
    Tokens, lengths, status and vacuous; see `engine.Continuations`.

  Raises:
    Untraceable: the predictor has no program for these trials.
  """
  room, parts = next_power(int(budget.max())), []
  # Each device gets consecutive trials, so that results join in order.
  dealt = np.array_split(np.arange(len(rows)), len(predictor.devices))
  for mine, device in zip(dealt, predictor.devices, strict=True):
    if mine.size:
      inputs = trials, predictor, rows[mine], num, budget[mine], decide, room
      parts.append((len(mine), *_start(*inputs, device)))
  # Devices have consecutive trials; fillings are left out.
  results = [
    [np.asarray(array)[:count] for array in carry[-4:]]
    for count, carry in _run(parts, len(rows))
  ]
  tokens, *others = map(np.concatenate, zip(*results, strict=True))
  # Back from K' to the tokens that were asked for.
  return tokens[..., : int(budget.max())], *others


def _start(
  trials: Trials,
  predictor: core.Predictor,
  rows: np.ndarray,
  num: int,
  budget: np.ndarray,
  decide: bool,
  room: int,
  device: jax.Device,
) -> tuple[Fixed, traced.Machine, Queue, Carry]:
  """Arguments of a device's first call; room: K'."""
  world, total = trials.world, np.int32(len(rows))
  size = next_power(len(rows))
  machine, slots = predictor.machine(
    padded(trials.tokens[rows], size),
    padded(trials.lengths[rows], size),
    num=num,
    room=room,
    accept=trials.accept,
    sampler=trials.sampler,
  )
  followed = None
  if world.end == core.DEAD:
    assert core.can(world, core.Enumerable.traced)  # By the engine.
    rules, starts = world.traced(trials.first[rows])
    # The world's rules number its moves; the predictor draws tokens.
    moves = jnp.asarray(move_of(rules, predictor.vocab_size))
    followed = Followed(rules, moves, padded(starts, size))
  queue = {
    'total': total,
    'decide': np.bool_(decide),
    'budget': padded(budget.astype(np.int32), size),
    'seeds': words.split(
      padded(basics.hash64(trials.keys(SAMPLES)[rows]), size)
    ),
    'followed': followed,
  }
  # Before the first turn all slots are idle, and all trials wait.
  carry = {
    'trial': np.full(slots, total),
    'age': np.zeros(slots, np.int32),
    'following': np.int32(0),
    'state': machine.blank(slots),
    'positions': jax.tree.map(
      lambda leaf: np.broadcast_to(leaf[0], (slots, num, *leaf.shape[1:])),
      followed and followed.starts,
    ),
    'tokens': np.zeros((size, num, room), np.int32),
    'lengths': np.zeros((size, num), np.int32),
    'status': np.zeros((size, num), np.int8),
    'vacuous': np.zeros(size, bool),
  }
  # One transfer; later only the number of trials left comes back.
  machine, queue, carry = jax.device_put((machine, queue, carry), device)
  fixed = Fixed(num, predictor.end, TURNS)
  return fixed, machine, Queue(**queue), Carry(**carry)


def _run(parts: list[tuple], total: int) -> list[tuple[int, Carry]]:
  """Calls programs until no trial is left; (trials, results) of each device."""
  waiting = total
  while waiting:
    # A call returns before it is done: devices work in parallel, until the
    # numbers of trials left are read.
    called = [program(*arguments) for _, *arguments in parts]
    parts = [
      (count, *arguments, carry)
      for (count, *arguments, _), (carry, _) in zip(parts, called, strict=True)
    ]
    waiting = sum(int(left) for _, left in called)
    progress.report(total - waiting, total)
  return [(count, carry) for count, *_, carry in parts]
