"""A predictor from a table of states, and worlds with fixed sequences."""

from __future__ import annotations

import dataclasses
from unittest import mock

import numpy as np

from tests import tiny
from wm import core
from wm.core import registry
from wm.models.serving import oracles, process


@dataclasses.dataclass(frozen=True)
class Given(tiny.World):
  """The tiny world, whose held-out sequences are the given rows."""

  rows: tuple[tuple[int, ...], ...] = ()

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    rows = self.rows[:num]
    tokens = np.zeros((len(rows), self.max_len), np.int32)
    for n, row in enumerate(rows):
      tokens[n, : len(row)] = row
    return core.Sequences(
      tokens, np.array([len(row) for row in rows], np.int32)
    )


class Table(oracles.WorldPredictor):
  """Probabilities by node: {node: {token: probability}}."""

  def __init__(self, world: core.World, probs: dict[int, dict[int, float]]):
    super().__init__(world)
    self.probs = probs

  def support(self, states, history):
    out = np.zeros((len(states), self.vocab_size))
    for row, node in enumerate(states[:, 0].tolist()):
      for token, mass in self.probs.get(node, {}).items():
        out[row, token] = mass
    with np.errstate(divide='ignore'):
      return process.all_tokens(np.log(out).astype(np.float32))


def mean(scores: core.Scores) -> float:
  """Weighted mean over measured rows."""
  use = scores.measured
  return float(np.average(scores.value[use], weights=scores.weight[use]))


def by_name(result: tuple[core.Scores, ...]) -> dict[str, core.Scores]:
  """Quantity -> scores."""
  names = [scores.quantity for scores in result]
  assert len(set(names)) == len(names)
  return dict(zip(names, result, strict=True))


def tuned(metric: type[core.Metric], **fields) -> dict[str, core.Scores]:
  """What is found of a network that 40 steps tune on a lattice, and its twin.

  metric: one that tunes a model, and random weights besides.
  """
  world = registry.make('world', 'lattice(size=2, length=8)')
  model = registry.make('model', 'rnn(layers=1, width=8)')
  made = metric(num=16, tested=8, steps=(1, 40), untrained=True, **fields)
  with mock.patch.object(metric, 'rate', 0.05):
    return by_name(made(model.predictor(world, 0), world, 0))


def same(first: tuple[core.Scores, ...], second: tuple[core.Scores, ...]):
  """Asserts that two results are equal, bit for bit."""
  assert len(first) == len(second)
  for item, other in zip(first, second, strict=True):
    assert item.quantity == other.quantity
    np.testing.assert_array_equal(item.value, other.value)
    np.testing.assert_array_equal(item.reason, other.reason)
    np.testing.assert_array_equal(item.weight, other.weight)
    np.testing.assert_array_equal(item.group, other.group)


WORLDS = (
  tiny.World(),
  tiny.World(ending=False),
  tiny.World(placed=False),
  tiny.World(ending=False, placed=False),
)
