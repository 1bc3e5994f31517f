"""Matrix products of a training step, and the rate that they reach alone.

FLOPs by one formula for every implementation: two for each multiply-add of
the matrix products that our forward pass is traced to, times three for the
backward pass. Products with a vector are no matrix products.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable
from typing import Any

import numpy as np

# (batch, rows, inner, columns) -> how often.
Products = collections.Counter


def traced(forward: Callable[..., Any], *inputs: Any) -> Products:
  """The products of a function of arrays, those in its loops as often."""
  import jax

  result = Products()
  _collect(jax.make_jaxpr(forward)(*inputs).jaxpr, 1, result)
  return result


def _collect(jaxpr: Any, times: int, outcome: Products) -> None:
  for equation in jaxpr.eqns:
    if equation.primitive.name == 'dot_general':
      shape = _shape(equation)
      if min(shape[1:]) > 1:
        outcome[shape] += times
    again = equation.params.get('length', 1)
    for value in equation.params.values():
      inner = getattr(value, 'jaxpr', value)
      if hasattr(inner, 'eqns'):
        _collect(inner, times * again, outcome)


def _shape(equation: Any) -> tuple[int, int, int, int]:
  """(batch, rows, inner, columns) of a dot_general."""
  (inner, _), (batch, _) = equation.params['dimension_numbers']
  left, right = (value.aval.shape for value in equation.invars)
  batches = math.prod(left[axis] for axis in batch)
  inners = math.prod(left[axis] for axis in inner)
  rows = math.prod(left) // (batches * inners)
  return batches, rows, inners, math.prod(right) // (batches * inners)


def flops(outcome: Products) -> float:
  """Of a training step."""
  return 3.0 * sum(2 * math.prod(shape) * n for shape, n in outcome.items())


def alone(outcome: Products) -> Callable[[], None]:
  """Runs the products of a training step by `jnp.matmul`, and nothing else.

  Of each the three that a step has: x w, and the gradients to x and to w.
  """
  import jax
  import jax.numpy as jnp

  rng, runs = np.random.default_rng(0), []
  product = jax.jit(jnp.matmul)
  to_x = jax.jit(lambda g, w: jnp.matmul(g, w.swapaxes(-1, -2)))
  to_w = jax.jit(lambda x, g: jnp.matmul(x.swapaxes(-1, -2), g))
  for (batch, rows, inner, columns), times in outcome.items():
    x, w, g = (
      jnp.asarray(rng.normal(size=(batch, *size)[batch == 1 :]), jnp.float32)
      for size in ((rows, inner), (inner, columns), (rows, columns))
    )
    runs += [(product, x, w), (to_x, g, w), (to_w, x, g)] * times

  def run() -> None:
    for function, first, other in runs:
      jax.block_until_ready(function(first, other))

  return run


def share(
  outcome: Products, spent: float, bare: float, large: Products | None = None
) -> str:
  """In words: the rate of a step, and its share of what products reach.

  bare: seconds of these products alone, or of `large` ones where those of a
    step are so small that calls would be measured.
  """
  rate, top = flops(outcome) / spent, flops(large or outcome) / bare
  which = 'large matrix products' if large else 'its matrix products alone'
  return (
    f'{rate / 1e9:.0f} GFLOP/CPU-s, {rate / top:.2f} of the {top / 1e9:.0f} '
    f'of {which}'
  )
