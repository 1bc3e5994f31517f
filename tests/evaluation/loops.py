"""Where the engine's loops over tokens run, chosen by a test."""

import contextlib
from unittest import mock

import jax

from tests import tiny
from wm.core import registry
from wm.evaluation import engine
from wm.models.nn import network
from wm.models.serving import networks


def predictor(spec: str, scale: float = 4, devices: int = 1):
  """A network of the tiny world, of weights so large that no law is flat."""
  world, model = tiny.World(), registry.make('model', spec)
  size = len(world.vocab)
  params = network.init(network.NetworkSpec(model, size, world.max_len), 0)
  return networks.NetworkPredictor(
    *(model, jax.tree.map(lambda leaf: scale * leaf, params)),
    *(size, world.end, world.max_len),
    devices=tuple(jax.devices()[:devices]),
  )


@contextlib.contextmanager
def on(place: str):
  """'device' or 'host' for all that both can run; 'auto' is as it comes."""
  if place == 'auto':
    yield
    return
  with (
    mock.patch.object(engine, '_accelerated', return_value=place == 'device'),
    mock.patch.object(engine, 'WORTH', float('inf')),
  ):
    yield
