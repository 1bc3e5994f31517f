"""Walks and boundaries of worlds that JAX can trace, each as one program.

`steps` follows whole token sequences, `boundary` lists the suffixes that tell
two states apart; both give what the compiled kernels on the host give.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from wm import core
from wm.evaluation import device

# Pairs of one call, and room for nodes and suffixes at the first try.
PAIRS, NODES = 64, 1 << 12


def steps(
  world: core.TracedWorld,
  states: np.ndarray,
  tokens: np.ndarray,
  lengths: np.ndarray,
) -> np.ndarray:
  """[B] int32: tokens followed before the first illegal one.

  As `World.walk` from states [B, W] along tokens [B, K] of lengths [B].
  """
  if not len(states):
    return np.zeros(0, np.int32)
  rules, starts = world.traced(states)
  moves = device.move_of(rules, len(world.vocab))[tokens]
  rows, width = map(device.power, tokens.shape)
  moves = np.pad(moves, ((0, 0), (0, width - tokens.shape[1])))
  given = device.padded((starts, moves, lengths), rows)
  return np.asarray(_steps(rules, *given))[: len(states)]


@jax.jit
def _steps(
  rules: core.Rules, starts: Any, moves: jax.Array, lengths: jax.Array
) -> jax.Array:
  """[B] int32 by a scan over moves [B, K]."""

  def walk(position: Any, moves: jax.Array, length: jax.Array) -> jax.Array:
    """Of one sequence: a dead position has no way on, so none is revived."""

    def step(carry: tuple, x: tuple) -> tuple[tuple, None]:
      position, count, alive = carry
      k, move = x
      after = rules.advance(position, move)
      alive &= (k < length) & rules.alive(after)
      return (after, count + alive, alive), None

    start = position, jnp.int32(0), jnp.bool_(True)
    (_, count, _), _ = lax.scan(step, start, (jnp.arange(len(moves)), moves))
    return count

  return jax.vmap(walk)(starts, moves, lengths)


class Level(NamedTuple):
  """The search after some levels: common prefixes, and what was found.

  Attributes:
    num: nodes in use; more than there is room for: the search is void.
    pair: [N] int32 pair that a node is of.
    one, two: positions [N] after its path, from both states.
    path: [N, depth] int32 moves.
    found: suffixes in use, as `num`.
    out_pair: [E] int32.
    out_path: [E, depth] int32 moves.
    out_length: [E] int32.
  """

  num: jax.Array
  pair: jax.Array
  one: Any
  two: Any
  path: jax.Array
  found: jax.Array
  out_pair: jax.Array
  out_path: jax.Array
  out_length: jax.Array


def _chosen(
  mask: jax.Array, start: jax.Array, room: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Where mask [N, A] is set, row by row, as places start.. of `room`.

  Returns:
    node, move: [room] int32 of each place.
    mine: [room] bool, places that this mask takes.
  """
  place = jnp.where(mask.reshape(-1), start + jnp.cumsum(mask) - 1, room)
  numbers = jnp.arange(mask.size, dtype=jnp.int32)
  flat = jnp.zeros(room, jnp.int32).at[place].set(numbers, mode='drop')
  at = jnp.arange(room)
  mine = (at >= start) & (at < start + mask.sum())
  return flat // mask.shape[1], flat % mask.shape[1], mine


def _same(one: Any, two: Any) -> jax.Array:
  """[N] bool: positions that are equal in all their arrays."""
  equal = jax.tree.map(lambda a, b: a == b, one, two)
  return functools.reduce(jnp.logical_and, jax.tree.leaves(equal))


def _deeper(rules: core.Rules, level: Level, k: jax.Array) -> Level:
  """One level of the product of two states, breadth first.

  Nodes are in order of pair and path, and stay so: a node's moves come in
  order of tokens, behind those of the nodes before it.
  """
  room, depth = level.path.shape
  used = (jnp.arange(room) < level.num)[:, None]
  first = jax.vmap(rules.legal)(level.one) & used
  second = jax.vmap(rules.legal)(level.two)
  node, move, mine = _chosen(first & ~second, level.found, len(level.out_pair))
  put = functools.partial(jnp.where, mine)
  level = level._replace(
    found=level.found + (first & ~second).sum(),
    out_pair=put(level.pair[node], level.out_pair),
    out_length=put(k + 1, level.out_length),
    out_path=jnp.where(
      mine[:, None], level.path[node].at[:, k].set(move), level.out_path
    ),
  )
  # Nothing tells equal positions apart; the last level is not gone through.
  both = first & second & ~_same(level.one, level.two)[:, None]
  both &= k + 1 < depth
  node, move, _ = _chosen(both, 0, room)
  one, two = (
    jax.vmap(rules.advance)(jax.tree.map(lambda x: x[node], some), move)
    for some in (level.one, level.two)
  )
  # Once void, a search stays void.
  num = jnp.maximum(both.sum(), jnp.where(level.num > room, level.num, 0))
  path = level.path[node].at[:, k].set(move)
  return level._replace(
    num=num, pair=level.pair[node], one=one, two=two, path=path
  )


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def search(
  depth: int,
  nodes: int,
  suffixes: int,
  rules: core.Rules,
  one: Any,
  two: Any,
  num: jax.Array,
) -> Level:
  """All levels from the first `num` of the pairs of positions [PAIRS]."""
  pair = jnp.arange(nodes, dtype=jnp.int32) % PAIRS
  start = Level(
    num,
    pair,
    jax.tree.map(lambda leaf: leaf[pair], one),
    jax.tree.map(lambda leaf: leaf[pair], two),
    jnp.zeros((nodes, depth), jnp.int32),
    jnp.int32(0),
    jnp.zeros(suffixes, jnp.int32),
    jnp.zeros((suffixes, depth), jnp.int32),
    jnp.zeros(suffixes, jnp.int32),
  )

  def deeper(level: Level, k: jax.Array) -> tuple[Level, None]:
    return _deeper(rules, level, k), None

  return lax.scan(deeper, start, jnp.arange(depth))[0]


def boundary(
  world: core.TracedWorld, first: np.ndarray, second: np.ndarray, depth: int
) -> core.Boundary:
  """Exact boundaries of pairs of states [T, W]; see `World.boundary`.

  A call that finds no room for its nodes or suffixes is made again with more.
  """
  rules, one = world.traced(first)
  _, two = world.traced(second)
  nodes = suffixes = NODES
  parts = [core.Boundary(np.zeros(1, np.int64), *_nothing(depth))]
  for start in range(0, len(first), PAIRS):
    num = min(PAIRS, len(first) - start)
    some = device.taken((one, two), slice(start, start + num))
    some = device.padded(some, PAIRS)
    while True:
      level = search(depth, nodes, suffixes, rules, *some, np.int32(num))
      most, found = int(level.num), int(level.found)
      if most <= nodes and found <= suffixes:
        break
      nodes = max(nodes, device.power(most))
      suffixes = max(suffixes, device.power(found))
    parts.append(_listed(rules, level, found, num))
  return core.joined(parts)


def _nothing(depth: int) -> tuple[np.ndarray, np.ndarray]:
  return np.zeros((0, depth), np.int32), np.zeros(0, np.int32)


def _listed(
  rules: core.Rules, level: Level, found: int, num: int
) -> core.Boundary:
  """Suffixes by pair; they come by length, then pair, then tokens."""
  pair, path, lengths = (
    np.asarray(array)[:found]
    for array in (level.out_pair, level.out_path, level.out_length)
  )
  order = np.argsort(pair, kind='stable')
  pair, path, lengths = pair[order], path[order], lengths[order]
  used = np.arange(path.shape[1]) < lengths[:, None]
  tokens = np.where(used, np.asarray(rules.tokens)[path], core.PAD)
  offsets = np.searchsorted(pair, np.arange(num + 1))
  return core.Boundary(offsets, tokens.astype(np.int32), lengths)
