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
from wm.evaluation.trials import device, shapes

# Pairs of one call, and room for nodes and suffixes at the first try.
PAIRS, NODES = 64, 1 << 12


def steps(
  world: core.Enumerable,
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
  rows, width = map(shapes.power, tokens.shape)
  moves = np.pad(moves, ((0, 0), (0, width - tokens.shape[1])))
  given = shapes.padded((starts, moves, lengths), rows)
  return np.asarray(_steps(rules, *given))[: len(states)]


@jax.jit
def _steps(
  rules: core.Rules, starts: Any, moves: jax.Array, lengths: jax.Array
) -> jax.Array:
  """[B] int32 by a scan over moves [B, K]."""

  def walk(position: Any, moves: jax.Array, length: jax.Array) -> jax.Array:
    """Of one sequence: a dead position has no way on, so none is revived."""

    def step(position: Any, x: tuple) -> tuple[Any, jax.Array]:
      k, move = x
      after = rules.advance(position, move)
      return after, (k < length) & rules.alive(after)

    return lax.scan(step, position, (jnp.arange(len(moves)), moves))[1].sum()

  return jax.vmap(walk)(starts, moves, lengths)


class Level(NamedTuple):
  """The search after some levels: common prefixes, and what was found.

  A compiled program has arrays of fixed size: N nodes and E suffixes. What no
  longer fits is counted all the same, so that the caller knows how much room to
  give the next time.

  Attributes:
    num: nodes in use; more than there is room for: the search is void.
    pair: [N] int32 pair that a node is of.
    positions: [2, N] after its path, from both states of the pair.
    path: [N, depth] int32 moves.
    found: suffixes in use, as `num`.
    out_pair: [E] int32.
    out_path: [E, depth] int32 moves.
    out_length: [E] int32.
  """

  num: jax.Array
  pair: jax.Array
  positions: Any
  path: jax.Array
  found: jax.Array
  out_pair: jax.Array
  out_path: jax.Array
  out_length: jax.Array


def _chosen(
  mask: jax.Array, start: jax.Array | int, room: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Where mask [N, A] is set, row by row, as places start.. of `room`.

  A list of unknown length in an array of a known one:

    mask            | 0 1 0 | 1 1 0 |        N = 2, A = 3, start = 2
    running sum     | 0 1 1 | 2 3 3 |
    place           | - 2 - | 3 4 - |        start + sum - 1 where it is set
    node, move      | ? ? 01 10 11 ? ... |   of places 0 .. room - 1
    mine            | 0 0 1  1  1  0 ... |

  Returns:
    node, move: [room] int32 of each place.
    mine: [room] bool, places that this mask takes.
  """
  place = jnp.where(mask.reshape(-1), start + jnp.cumsum(mask) - 1, room)
  numbers = jnp.arange(mask.size, dtype=jnp.int32)
  # Place `room`, where nothing is set or nothing fits any more, is dropped.
  flat = jnp.zeros(room, jnp.int32).at[place].set(numbers, mode='drop')
  at = jnp.arange(room)
  mine = (at >= start) & (at < start + mask.sum())
  return flat // mask.shape[1], flat % mask.shape[1], mine


def _same(positions: Any) -> jax.Array:
  """[N] bool: both of the positions [2, N] are equal in all their arrays."""
  equal = [leaf[0] == leaf[1] for leaf in jax.tree.leaves(positions)]
  return functools.reduce(jnp.logical_and, equal)


def _deeper(rules: core.Rules, level: Level, k: jax.Array) -> Level:
  """One level of the product of two states, breadth first.

  A move that both states of a node allow leads to a node of the next level; one
  that only the first allows ends a suffix. Nodes are in order of pair and path,
  and stay so: a node's moves come in order of tokens, behind those of the nodes
  before it.
  """
  room, depth = level.path.shape
  used = (jnp.arange(room) < level.num)[:, None]
  first, second = jax.vmap(jax.vmap(rules.legal))(level.positions)  # [N, A].
  ends = first & ~second & used
  node, move, mine = _chosen(ends, level.found, len(level.out_pair))
  longer = level.path[node].at[:, k].set(move)
  level = level._replace(
    found=level.found + ends.sum(),
    out_pair=jnp.where(mine, level.pair[node], level.out_pair),
    out_length=jnp.where(mine, k + 1, level.out_length),
    out_path=jnp.where(mine[:, None], longer, level.out_path),
  )
  # Nothing tells equal positions apart; the last level is not gone through.
  both = first & second & used & ~_same(level.positions)[:, None]
  both &= k + 1 < depth
  node, move, _ = _chosen(both, 0, room)
  positions = jax.tree.map(lambda leaf: leaf[:, node], level.positions)
  follow = jax.vmap(jax.vmap(rules.advance), (0, None))
  return level._replace(
    # Once void, a search stays void.
    num=jnp.maximum(both.sum(), jnp.where(level.num > room, level.num, 0)),
    pair=level.pair[node],
    positions=follow(positions, move),
    path=level.path[node].at[:, k].set(move),
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
    num=num,
    pair=pair,
    positions=jax.tree.map(lambda *both: jnp.stack(both)[:, pair], one, two),
    path=jnp.zeros((nodes, depth), jnp.int32),
    found=jnp.int32(0),
    out_pair=jnp.zeros(suffixes, jnp.int32),
    out_path=jnp.zeros((suffixes, depth), jnp.int32),
    out_length=jnp.zeros(suffixes, jnp.int32),
  )

  def deeper(level: Level, k: jax.Array) -> tuple[Level, None]:
    return _deeper(rules, level, k), None

  return lax.scan(deeper, start, jnp.arange(depth))[0]


def boundary(
  world: core.Enumerable, first: np.ndarray, second: np.ndarray, depth: int
) -> core.Boundary:
  """Exact boundaries of pairs of states [T, W]; see `World.boundary`.

  A call that finds no room for its nodes or suffixes is made again with more.
  """
  rules, one = world.traced(first)
  _, two = world.traced(second)
  nodes = suffixes = NODES
  parts = []
  for start in range(0, len(first), PAIRS):
    num = min(PAIRS, len(first) - start)
    some = shapes.taken((one, two), slice(start, start + num))
    some = shapes.padded(some, PAIRS)
    while True:
      level = search(depth, nodes, suffixes, rules, *some, np.int32(num))
      most, found = int(level.num), int(level.found)
      if most <= nodes and found <= suffixes:
        break
      nodes = max(nodes, shapes.power(most))
      suffixes = max(suffixes, shapes.power(found))
    parts.append(_listed(rules, level, found, num))
  return core.joined(parts)


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
