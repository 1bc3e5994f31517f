"""A network and a data set that train in a second, for tests of training."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import nnx

from tests import tiny
from wm.data import sampling
from wm.models.base import family
from wm.models.nn import layers, network
from wm.options.calls import Sampling

WORLD, MODEL = 'tiny()', 'mean_mlp()'


class Network(network.Network):
  """Mean of the embeddings so far, and an MLP."""

  def __init__(
    self, model: Model, vocab_size: int, rngs: nnx.Rngs, outputs: int = 0
  ):
    self.rate = model.dropout
    self.embedding = layers.Embedding(vocab_size, model.width, rngs)
    self.mlp = layers.Mlp(model.width, 'gelu', rngs, bias=True, scale=0.1)
    self.final = layers.Norm(model.width, 'layer')
    shape = (model.width,), (outputs,)
    self.head = layers.Linear(*shape, rngs) if outputs else None

  def __call__(self, tokens_BL: jax.Array, key: Any = None) -> jax.Array:
    x_BLD = self.embedding.table[...][tokens_BL]
    count_L = jnp.arange(1, tokens_BL.shape[1] + 1, dtype=x_BLD.dtype)
    x_BLD += jnp.cumsum(x_BLD, 1) / count_L[None, :, None]
    x_BLD += layers.dropout(self.mlp(x_BLD), self.rate, key)
    if self.head is not None:
      return self.head(self.final(x_BLD))
    return self.final(x_BLD) @ self.embedding.table[...].T


@dataclasses.dataclass(frozen=True)
class Model(family.NetworkModel):
  """The toy network."""

  version: ClassVar[str] = '1'

  width: int = 16
  dropout: float = 0.1

  def build(
    self, vocab_size: int, max_len: int, rngs: nnx.Rngs, outputs: int = 0
  ) -> Network:
    del max_len
    return Network(self, vocab_size, rngs, outputs)


def install() -> None:
  """Makes the specs 'tiny()' and 'mean_mlp()' known."""
  sys.modules.setdefault('wm.worlds.tiny', tiny)
  sys.modules.setdefault('wm.models.mean_mlp', sys.modules[__name__])


def make_data(out: pathlib.Path, num: int = 400) -> None:
  """Writes OUT/data from the tiny world."""
  sampling.make_dataset(
    tiny.World(), out, Sampling(num=num, num_heldout=30, seed=0)
  )
