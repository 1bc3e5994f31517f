"""What is compiled to adapt networks: C data sets, each with its own weights.

weights [C, ...]   tokens [C, n, P]        C data sets of a chunk
  set 0  ########    row 0..n-1  ####....   rows by length, in groups, each
  set 1  ########    row 0..n-1  #####...   cut behind its last place
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from wm import core
from wm.models.nn import layers, network
from wm.models.serving import adapted_rows

BETA1, BETA2, DECAY, CLIP = 0.9, 0.95, 0.1, 1.0

Arrays = dict[tuple[Any, ...], jax.Array]


class Task(NamedTuple):
  """What is static in compiled functions.

  Attributes:
    spec: the network with the new head.
    kind: what labels are.
    part: 'all' or 'head'.
  """

  spec: network.NetworkSpec
  kind: core.Kind
  part: str

  def tuned(self, path: tuple[Any, ...]) -> bool:
    """Does this parameter move?"""
    return self.part == 'all' or of_head(path)


def of_head(path: tuple[Any, ...]) -> bool:
  """Is this parameter one that a new head takes the place of?"""
  # So it does of the bias of logits that are tied.
  return 'head' in path or 'tied_bias' in path


def flat(params: nnx.State) -> Arrays:
  """Arrays of all parameters by their paths."""
  return {path: leaf[...] for path, leaf in nnx.to_flat_state(params)}


def _outputs(
  task: Task, params: Arrays, tokens_NL: jax.Array, places_NP: jax.Array
) -> jax.Array:
  """[N, P, H, k] scores or [N, P, d], float32."""
  spec, kind = task.spec, task.kind
  leaves = [
    (path, leaf.replace(params[path]))
    for path, leaf in nnx.to_flat_state(spec.abstract)
  ]
  net = nnx.merge(spec.graph, nnx.from_flat_state(leaves))
  found_NPO = net.at(tokens_NL, places_NP)
  if isinstance(kind, core.Classes):
    return found_NPO.reshape(*found_NPO.shape[:2], kind.heads, kind.k)
  return found_NPO


def _loss(
  task: Task, params: Arrays, groups: list[adapted_rows.Rows]
) -> jax.Array:
  """Mean over labels of one data set: nats, or squared error."""
  total = jnp.zeros(())
  for rows in groups:
    found = _outputs(task, params, rows.tokens, rows.places)
    if isinstance(task.kind, core.Classes):
      each = optax.softmax_cross_entropy_with_integer_labels(found, rows.labels)
    else:
      each = (found - rows.labels) ** 2
    total += (each.mean(-1) * rows.weight).sum()
  return total


def _each(call: Callable[..., Any], *given: Any) -> Any:
  """What a call gives for each of C data sets, of trees [C, ...]."""
  if len(jax.tree.leaves(given)[0]) > 1:
    return jax.vmap(call)(*given)
  # With a dimension of one more, Mamba takes up to six times as long on a CPU.
  found = call(*jax.tree.map(lambda leaf: leaf[0], given))
  return jax.tree.map(lambda leaf: leaf[None], found)


def _optimizer(task: Task) -> optax.GradientTransformation:
  """Updates before the learning rate; matrices alone decay."""

  def mask(params: Arrays) -> dict[tuple[Any, ...], bool]:
    return {path: layers.decays(path) for path in params}

  return optax.chain(
    optax.clip_by_global_norm(CLIP),
    optax.scale_by_adam(b1=BETA1, b2=BETA2),
    optax.add_decayed_weights(DECAY, mask),
  )


@functools.partial(jax.jit, static_argnums=0)
def begin(
  task: Task, body: Arrays, seeds_C: jax.Array
) -> tuple[Arrays, Arrays, Any]:
  """Weights that move [C, ...], those that do not, and optimizer states."""

  def fresh(seed: jax.Array) -> Arrays:
    built = task.spec.build(nnx.Rngs(jax.random.key(seed)))
    made = flat(nnx.split(built)[1])
    return {
      path: leaf if of_head(path) else body[path]
      for path, leaf in made.items()
      if task.tuned(path)
    }

  moving = jax.vmap(fresh)(seeds_C)
  still = {path: leaf for path, leaf in body.items() if not task.tuned(path)}
  return moving, still, jax.vmap(_optimizer(task).init)(moving)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=(2, 3))
def advance(
  task: Task,
  still: Arrays,
  moving: Arrays,
  state: Any,
  groups: list[adapted_rows.Rows],
  num: jax.Array,
  rate: jax.Array,
) -> tuple[Arrays, Any]:
  """Weights and optimizer states after `num` steps."""
  optimizer = _optimizer(task)

  def one_step(
    moving: Arrays, state: Any, groups: list[adapted_rows.Rows]
  ) -> tuple[Arrays, Any]:
    """Of one data set: weights [...] and optimizer state after a step."""

    def loss(moving: Arrays) -> jax.Array:
      return _loss(task, {**still, **moving}, groups)

    updates, state = optimizer.update(jax.grad(loss)(moving), state, moving)
    updates = jax.tree.map(lambda leaf: -rate * leaf, updates)
    return optax.apply_updates(moving, updates), state

  def of_one(
    moving: Arrays, state: Any, groups: list[adapted_rows.Rows]
  ) -> tuple[Arrays, Any]:
    """Of one data set, after all steps."""

    def body(_: jax.Array, carry: tuple[Arrays, Any]) -> tuple[Arrays, Any]:
      return one_step(*carry, groups)

    return jax.lax.fori_loop(0, num, body, (moving, state))

  return _each(of_one, moving, state, groups)


@functools.partial(jax.jit, static_argnums=0)
def answer(
  task: Task, still: Arrays, moving: Arrays, rows: adapted_rows.Rows
) -> jax.Array:
  """[C, n, P, H, k] or [C, n, P, d]."""

  def of_one(moving: Arrays, rows: adapted_rows.Rows) -> jax.Array:
    """[n, P, H, k] or [n, P, d], of one data set."""
    return _outputs(task, {**still, **moving}, rows.tokens, rows.places)

  return _each(of_one, moving, rows)


@functools.partial(jax.jit, static_argnums=0)
def losses(
  task: Task, still: Arrays, moving: Arrays, groups: list[adapted_rows.Rows]
) -> jax.Array:
  """[C] mean loss of each data set."""

  def of_one(moving: Arrays, groups: list[adapted_rows.Rows]) -> jax.Array:
    """[] mean loss of one data set."""
    return _loss(task, {**still, **moving}, groups)

  return _each(of_one, moving, groups)
