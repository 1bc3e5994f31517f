"""Where the engine's loops over tokens run, chosen by a test."""

import contextlib
from unittest import mock

from wm.evaluation import engine


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
