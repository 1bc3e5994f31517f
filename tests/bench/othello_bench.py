"""Othello's kernels, against their plain reference and against peers.

Compiled kernels run on one core. JAX and pgx share a process and its cores,
and are compared by CPU seconds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from tests.bench import harness
from tests.kernels import othello_ref as ref
from wm import core
from wm.core import basics, registry
from wm.kernels import othello, othello_games

PLAIN = 'plain reference, same run'
BATCH = 4096
# Turns that cover a game of pgx, whose passes are actions of their own.
TURNS = 68


def positions(num: int) -> tuple[np.ndarray, ...]:
  """Positions of random games, at all plies alike."""
  tokens, lengths = othello_games.play(num, 1)
  plies = basics.hash64(2, np.arange(num)) % np.uint64(60)
  return othello.replay(tokens, np.minimum(lengths, plies))[1:]


def bench_othello_games() -> Iterator[harness.Line]:
  """Uniform games, and those of the policies."""
  for policy, depth, num, few in (
    ('uniform', 0, 100_000, 5),
    ('search', 2, 1_000, 1),
  ):
    kinds = {'seed': 0, 'policy': policy, 'noise': 0.1, 'depth': depth}
    yield harness.rated(
      f'othello {policy} games' + f', depth {depth}' * (depth > 0),
      'games',
      num,
      functools.partial(othello_games.play, num, **kinds),
      few,
      functools.partial(ref.play, few, **kinds),
      '80000 games/s' if policy == 'uniform' else '',
    )


def bench_othello_rules() -> Iterator[harness.Line]:
  """Legal-move sets, moves, and counting."""
  num, few = 200_000, 100
  many = positions(num)
  sample = [column[:few] for column in many]
  yield harness.rated(
    'othello legal-move sets',
    'sets',
    num,
    lambda: othello.legal(many),
    few,
    lambda: ref.legal(sample),
    '10 M sets/s',
  )
  full = 24_571_192
  timing = harness.measure(lambda: othello.count(othello.start(), 10), 3)
  plain = harness.measure(lambda: ref.count(othello.start(), 4), 1)
  yield harness.Line(
    name='othello openings to depth 10',
    value=timing.cpu,
    unit='CPU-s',
    baseline=f'{PLAIN}, per opening at depth 4',
    ratio=plain.cpu / 244 / (timing.cpu / full),
    compile_s=timing.compile_s,
    target='2 s',
  )


def bench_othello_orders() -> Iterator[harness.Line]:
  """Another move order to a position, by ply."""
  for ply, num, few in ((10, 2_000, 20), (30, 500, 1), (60, 300, 1)):
    tokens, lengths = othello_games.play(num, 3)
    lengths = np.minimum(lengths, ply)
    seeds = basics.hash64(4, np.arange(num))
    yield harness.rated(
      f'othello move orders at ply {ply}',
      'rows',
      num,
      functools.partial(othello_games.transpositions, tokens, lengths, seeds),
      few,
      functools.partial(
        ref.transpositions,
        tokens[:few],
        lengths[:few],
        seeds[:few],
        sweeps=1,
        window=3,
        opening=3,
      ),
      '1000 rows/s; the reference draws far narrower windows',
    )


def bench_othello_boundaries() -> Iterator[harness.Line]:
  """Exact boundaries of pairs of positions at one ply."""
  tokens, lengths = othello_games.play(400, 5)
  for depth, few in ((2, 10), (4, 1)):
    plies = np.minimum(lengths, 4 + np.arange(400) // 2 % 50)
    columns = othello.replay(tokens, plies)[1:]
    pairs = [
      [tuple(c[n : n + 1] for c in columns) for n in (m, m + 1)]
      for m in range(0, 400, 2)
    ]
    yield harness.rated(
      f'othello boundaries k={depth}',
      'pairs',
      len(pairs),
      lambda pairs=pairs, depth=depth: [
        othello.boundary(*pair, depth) for pair in pairs
      ],
      few,
      lambda pairs=pairs[:few], depth=depth: [
        ref.boundary(*pair, depth) for pair in pairs
      ],
      '',
    )


def bench_othello_labels() -> Iterator[harness.Line]:
  """State labels of a training batch, against the walk by NumPy."""
  world = registry.make('world', 'othello()')
  games = world.sample(256, 6)
  walk = functools.partial(core.Labelled.sequence_labels, world)
  assert (
    world.sequence_labels(games.tokens, games.lengths)
    == walk(games.tokens, games.lengths)
  ).all()
  timing = harness.measure(
    lambda: world.sequence_labels(games.tokens, games.lengths), 9
  )
  slow = harness.measure(lambda: walk(games.tokens, games.lengths), 3)
  yield harness.compared(
    'othello state labels of batches',
    games.lengths.sum() / timing.cpu,
    'moves/CPU-s',
    *(timing, slow, 'the walk by NumPy'),
  )


def _loop(start: Callable, step: Callable, turns: int) -> Callable:
  """Random play of a batch: key -> moves made, by one sampler for all.

  start() gives a batch; step(batch, actions) the next. A batch is (what the
  game keeps, [B, A] mask of legal actions, all False once it is over).
  """
  import jax
  import jax.numpy as jnp

  def turn(batch: tuple, key: jax.Array) -> tuple[tuple, jax.Array]:
    kept, mask = batch
    running = jnp.cumsum(mask, axis=1)
    place = jax.random.uniform(key, (BATCH,)) * running[:, -1]
    actions = (running > jnp.floor(place)[:, None]).argmax(1)
    # Actions from 64 on are passes, no moves; dead games have no legal ones.
    moved = mask.any(1) & (actions < 64)
    return step(kept, actions), moved.sum()

  @jax.jit
  def play(key: jax.Array) -> jax.Array:
    return jax.lax.scan(turn, start(), jax.random.split(key, turns))[1].sum()

  return play


def _ours() -> Callable:
  """Our rules in that loop; moves are numbered without the start's squares."""
  import jax

  from wm.kernels import device_rules

  rules = device_rules.othello_rules(othello.squares(), int(othello.mask(8)))

  def batch(game: device_rules.OthelloGame) -> tuple:
    return game, jax.vmap(rules.legal)(game)

  def start() -> tuple:
    return batch(device_rules.othello_games(*othello.start(BATCH), rules.board))

  def step(game: device_rules.OthelloGame, moves: np.ndarray) -> tuple:
    return batch(jax.vmap(rules.advance)(game, moves))

  return _loop(start, step, 60)


def _pgx() -> tuple[str, Callable]:
  """Its version, and pgx's game in that loop."""
  import jax
  import pgx

  env = pgx.make('othello')

  def batch(state: pgx.State) -> tuple:
    return state, state.legal_action_mask & ~state.terminated[:, None]

  def start() -> tuple:
    keys = jax.random.split(jax.random.key(0), BATCH)
    return batch(jax.vmap(env.init)(keys))

  def step(state: pgx.State, actions: np.ndarray) -> tuple:
    return batch(jax.vmap(env.step)(state, actions))

  return pgx.__version__, _loop(start, step, TURNS)


def bench_othello_vmap() -> Iterator[harness.Line]:
  """Random play of a batch on the device, per move made."""
  import jax

  version, theirs = _pgx()
  key = jax.random.key(1)
  ours = _ours()
  peer = harness.measure(lambda: theirs(key).block_until_ready(), 3)
  rate = int(theirs(key)) / peer.cpu
  same = harness.measure(lambda: ours(key).block_until_ready(), 3)
  made = int(ours(key)) / same.cpu
  yield harness.Line(
    name='othello rules in JAX, same loop and sampler',
    value=made,
    unit='moves/CPU-s',
    baseline=f'pgx {version}, {rate:.3g} moves/CPU-s, same run',
    ratio=made / rate,
    compile_s=same.compile_s,
    target='at least pgx',
  )
