"""Monte-Carlo suffix sampling as one compiled program.

What `engine.pairs` does on the host, token by token, `pairs` here does in one
`lax.while_loop`: the host hands over the trials, and reads the results at the
end. No token crosses to the host and back.

  slot       | trial 0 ........x trial 5 ....x trial 7 ...
             | trial 1 ...x trial 3 ..............x trial 8
  a turn     refill -> draw -> check -> decide -> advance
  positions  [B, M] of the world, where its end is not told by a token
  results    [T', M, K'] rows of trials, written in place; T', K' powers of two

A program comes back after TURNS turns, so that Ctrl-C and progress are heard;
all that is read then is one number, the trials left.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from wm import core
from wm.evaluation.context import SAMPLES, Trials
from wm.kernels.base import words
from wm.runtime import progress

# Turns of one call: a few seconds of a small model.
TURNS = 1024


class Fixed(NamedTuple):
  """What a program is compiled for.

  Attributes:
    num: continuations of a trial, M.
    slots: trials in flight, B.
    end: id of the end token, or DEAD.
    turns: most turns of one call.
  """

  num: int
  slots: int
  end: int
  turns: int


class Queue(NamedTuple):
  """Trials that wait for a slot; arrays are padded to T' rows.

  Attributes:
    total: number of trials, T.
    decide: bool, a trial is dropped at its first refused token.
    budget: [T'] int32 most tokens of a continuation, at least 1.
    seeds: [T'] words, `core.hash64` of each trial's seed.
    rules: the world's, or None where the end token tells the end.
    moves: [V] int32 number of each token's move, DEAD for none, or None.
    starts: positions [T'] that continuations start from, or None.
  """

  total: jax.Array
  decide: jax.Array
  budget: jax.Array
  seeds: words.Word
  rules: core.Rules | None
  moves: jax.Array | None
  starts: Any


class Carry(NamedTuple):
  """What goes from turn to turn.

  Attributes:
    trial: [B] int32 trial in each slot; T where it is idle.
    age: [B] int32 tokens drawn so far.
    following: the next trial of the queue.
    state: of the machine.
    positions: [B, M] of the world, or None.
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
  """[B, M] float32: `core.uniforms(seed, continuation, age)` to the bit.

  seeds: [B], hashed once already; age: [B].
  """
  branch = jnp.arange(num, dtype=jnp.uint32)[None]
  lane = words.splitmix(
    words.Word(seeds.lo[:, None] ^ branch, seeds.hi[:, None] | 0 * branch)
  )
  word = words.splitmix(
    words.Word(lane.lo ^ age[:, None].astype(jnp.uint32), lane.hi)
  )
  return (word.hi >> 8).astype(jnp.float32) * np.float32(2.0**-24)


def _along(chosen: jax.Array, one: Any, other: Any) -> Any:
  """Tree of arrays: rows of `one` where chosen [B] or [B, M], else `other`."""

  def pick(a: jax.Array, b: jax.Array) -> jax.Array:
    wide = chosen.reshape(chosen.shape + (1,) * (b.ndim - chosen.ndim))
    return jnp.where(wide, a, b)

  return jax.tree.map(pick, one, other)


def _refill(machine: core.Machine, queue: Queue, carry: Carry) -> Carry:
  """Idle slots take the next trials, in order."""
  nth = carry.following + jnp.cumsum(carry.trial >= queue.total) - 1
  fresh = (carry.trial >= queue.total) & (nth < queue.total)
  trial = jnp.where(fresh, nth, carry.trial)
  positions = carry.positions
  if queue.rules is not None:
    starts = jax.tree.map(
      lambda leaf: leaf[_clipped(trial, queue)][:, None], queue.starts
    )
    positions = _along(fresh, starts, positions)
  return carry._replace(
    trial=trial,
    age=jnp.where(fresh, 0, carry.age),
    following=carry.following + fresh.sum(),
    state=machine.restart(carry.state, fresh, _clipped(trial, queue)),
    positions=positions,
  )


def _clipped(trial: jax.Array, queue: Queue) -> jax.Array:
  """A trial for idle slots too, which compute what nobody keeps."""
  return jnp.minimum(trial, queue.total - 1)


def _follow(
  rules: core.Rules, moves: jax.Array, positions: Any, tokens: jax.Array
) -> tuple[Any, jax.Array]:
  """Positions [B, M] after tokens, DEAD for none, and where it is over."""

  def follow(position: Any, token: jax.Array) -> tuple[Any, jax.Array]:
    move = jnp.where(token == core.DEAD, core.DEAD, moves[token])
    after = rules.advance(position, move)
    return after, rules.alive(after) & ~rules.legal(after).any()

  after, over = jax.vmap(jax.vmap(follow))(positions, tokens)
  moved = tokens != core.DEAD
  return _along(moved, after, positions), over & moved


def _turn(
  fixed: Fixed, machine: core.Machine, queue: Queue, carry: Carry
) -> Carry:
  """One token of every continuation under way."""
  carry = _refill(machine, queue, carry)
  live, at = carry.trial < queue.total, _clipped(carry.trial, queue)
  before = carry.status[at]
  seeds = jax.tree.map(lambda half: half[at], queue.seeds)
  drawn = machine.draw(carry.state, uniforms(seeds, fixed.num, carry.age))
  active = live[:, None] & (before == 0)
  tokens = jnp.where(active, drawn, core.DEAD)
  moved = tokens != core.DEAD
  over, positions = tokens == fixed.end, carry.positions
  if queue.rules is not None:
    positions, over = _follow(queue.rules, queue.moves, positions, tokens)
  last = carry.age + 1 >= queue.budget[at]
  cases = {
    core.STUCK: active & ~moved,
    core.REFUSED: moved & ~machine.accepted(carry.state, tokens),
    core.ENDED: moved & over,
    core.CAPPED: moved & last[:, None],
  }
  fate = jnp.select([*cases.values()], [*cases], 0).astype(jnp.int8)
  status = jnp.where(before == 0, fate, before)
  done = (status != 0).all(1)
  done |= queue.decide & (status == core.REFUSED).any(1)
  going = (status == 0) & ~done[:, None]
  none = carry.vacuous[at]
  vacuous = machine.vacuous(carry.state).all(1)
  # An idle slot's trial is T, which may be a row of the padding.
  row = jnp.where(live, carry.trial, len(carry.vacuous))
  return carry._replace(
    trial=jnp.where(done, queue.total, carry.trial),
    age=carry.age + 1,
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
    vacuous=carry.vacuous.at[row].set(
      jnp.where(carry.age == 0, vacuous, none), mode='drop'
    ),
  )


@functools.partial(jax.jit, static_argnums=0, donate_argnames='carry')
def program(
  fixed: Fixed, machine: core.Machine, queue: Queue, carry: Carry
) -> tuple[Carry, jax.Array]:
  """Some turns, or fewer to the end; also the number of trials left."""

  def left(carry: Carry) -> jax.Array:
    waiting = queue.total - carry.following
    return waiting + (carry.trial < queue.total).sum()

  def more(turns: tuple[jax.Array, Carry]) -> jax.Array:
    return (turns[0] < fixed.turns) & (left(turns[1]) > 0)

  def turn(turns: tuple[jax.Array, Carry]) -> tuple[jax.Array, Carry]:
    return turns[0] + 1, _turn(fixed, machine, queue, turns[1])

  carry = lax.while_loop(more, turn, (jnp.int32(0), carry))[1]
  return carry, left(carry)


def power(size: int) -> int:
  """The least power of two that is not below: programs are made for few."""
  return 1 << max(size - 1, 0).bit_length()


def taken(tree: Any, rows: np.ndarray | slice) -> Any:
  """Rows of the arrays of a tree."""
  return jax.tree.map(lambda leaf: np.asarray(leaf)[rows], tree)


def padded(tree: Any, rows: int) -> Any:
  """Arrays of a tree with copies of their first row added, to `rows`."""
  num = len(jax.tree.leaves(tree)[0])
  return taken(tree, np.where(np.arange(rows) < num, np.arange(rows), 0))


def _carry(
  fixed: Fixed, machine: core.Machine, queue: Queue, room: int
) -> Carry:
  """Before the first turn: all slots idle, all trials waiting."""
  slots, num, total = fixed.slots, fixed.num, len(queue.budget)

  def spread(leaf: np.ndarray) -> np.ndarray:
    return np.broadcast_to(leaf[0], (slots, num, *leaf.shape[1:])).copy()

  return Carry(
    trial=np.full(slots, queue.total, np.int32),
    age=np.zeros(slots, np.int32),
    following=np.int32(0),
    state=machine.blank(slots),
    positions=jax.tree.map(spread, queue.starts),
    tokens=np.zeros((total, num, room), np.int32),
    lengths=np.zeros((total, num), np.int32),
    status=np.zeros((total, num), np.int8),
    vacuous=np.zeros(total, bool),
  )


def move_of(rules: core.Rules, vocab_size: int) -> np.ndarray:
  """[V] int32 number of each token's move; DEAD where it is none."""
  tokens = np.asarray(rules.tokens)
  moves = np.full(vocab_size, core.DEAD, np.int32)
  moves[tokens] = np.arange(len(tokens))
  return moves


def pairs(
  trials: Trials, rows: np.ndarray, num: int, budget: np.ndarray, decide: bool
) -> tuple[np.ndarray, ...]:
  """Samples continuations of first prefixes and checks them after second ones.

  Args:
    trials: what is run.
    rows: [T] which of the trials.
    num: continuations of each, M.
    budget: [T] most tokens of a continuation, at least 1.
    decide: drop a trial at its first refused token.

  Returns:
    Tokens, lengths, status and vacuous, as `engine.Pairs` has them.

  Raises:
    Untraceable: the predictor has no program for these trials.
  """
  total, room = len(rows), int(budget.max())
  found = (
    np.zeros((total, num, room), np.int32),
    np.zeros((total, num), np.int32),
    np.zeros((total, num), np.int8),
    np.zeros(total, bool),
  )
  running = []
  for mine, device in _dealt(total, trials.predictor.devices):
    given = _given(trials, rows[mine], num, budget[mine], decide, power(room))
    running.append((mine, given[0], *jax.device_put(given[1:], device)))
  for mine, carry in _run(running, total):
    for into, array in zip(found, carry[-4:], strict=True):
      array = np.asarray(array)[: len(mine)]
      into[mine] = array[..., :room] if array.ndim == 3 else array
  return found


def _given(
  trials: Trials,
  rows: np.ndarray,
  num: int,
  budget: np.ndarray,
  decide: bool,
  room: int,
) -> tuple[Fixed, core.Machine, Queue, Carry]:
  """What the program of one device is called with at first."""
  predictor, size = trials.predictor, power(len(rows))
  machine, slots = predictor.machine(
    padded(trials.tokens[rows], size),
    padded(trials.lengths[rows], size),
    num=num,
    room=room,
    accept=trials.accept,
    sampler=trials.sampler,
  )
  rules, moves, starts = None, None, None
  if trials.world.end == core.DEAD:
    rules, starts = trials.world.traced(trials.first[rows])
    starts, moves = padded(starts, size), move_of(rules, predictor.vocab_size)
  queue = Queue(
    np.int32(len(rows)),
    np.bool_(decide),
    padded(budget.astype(np.int32), size),
    words.split(padded(core.hash64(trials.keys(SAMPLES)[rows]), size)),
    rules,
    moves,
    starts,
  )
  fixed = Fixed(num, slots, predictor.end, TURNS)
  return fixed, machine, queue, _carry(fixed, machine, queue, room)


def _dealt(
  total: int, devices: Sequence[jax.Device]
) -> Iterator[tuple[np.ndarray, jax.Device]]:
  """Trials of each device that gets any."""
  parts = np.array_split(np.arange(total), len(devices))
  for rows, device in zip(parts, devices, strict=True):
    if rows.size:
      yield rows, device


def _run(
  running: list[tuple], total: int
) -> Iterator[tuple[np.ndarray, Carry]]:
  """Calls programs, all devices at once, until no trial is left."""
  while running:
    called = [
      (rows, fixed, machine, queue, program(fixed, machine, queue, carry))
      for rows, fixed, machine, queue, carry in running
    ]
    running, open_trials = [], 0
    for rows, fixed, machine, queue, (carry, left) in called:
      open_trials += int(left)
      if int(left):
        running.append((rows, fixed, machine, queue, carry))
      else:
        yield rows, carry
    progress.report(total - open_trials, total)
