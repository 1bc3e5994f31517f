"""Law: the order of a vocabulary changes no number.

Each world is measured behind a permutation of its tokens, by models that treat
tokens alike. Where nothing is drawn the numbers are equal; where tokens are, in
order of id, intervals of both overlap.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest

from tests import every_world
from wm import core
from wm.core import registry
from wm.core.measure import lacks
from wm.evaluation import statistics


@dataclasses.dataclass(frozen=True)
class Permuted(core.Prefixed, core.Enumerable):
  """A world whose tokens, but for padding, have other ids."""

  inner: core.Prefixed
  seed: int

  @functools.cached_property
  def order(self) -> np.ndarray:
    """[V] id here of each token of the inner world; seed 0 changes none."""
    size = len(self.inner.vocab)
    rng = np.random.default_rng(self.seed)
    moved = rng.permutation(size - 1) if self.seed else np.arange(size - 1)
    return np.concatenate([[0], moved + 1]).astype(np.int32)

  @functools.cached_property
  def back(self) -> np.ndarray:
    return np.argsort(self.order).astype(np.int32)

  @property
  def vocab(self):
    return tuple(self.inner.vocab[token] for token in self.back)

  @property
  def end(self):
    end = self.inner.end
    return end if end == core.DEAD else int(self.order[end])

  @property
  def max_len(self):
    return self.inner.max_len

  @property
  def prompt_len(self):
    return self.inner.prompt_len

  @property
  def boundary_depth(self):
    return 2

  def init(self, batch):
    return self.inner.init(batch)

  def advance(self, states, tokens):
    return self.inner.advance(states, self.back[np.maximum(tokens, 0)])

  def legal(self, states):
    return self.inner.legal(states)[:, self.back]

  def state_id(self, states):
    return self.inner.state_id(states)

  def split_key(self, sequences):
    tokens = self.back[sequences.tokens]
    return self.inner.split_key(dataclasses.replace(sequences, tokens=tokens))

  def sample(self, num, seed, split='all'):
    sequences = self.inner.sample(num, seed, split)
    return dataclasses.replace(sequences, tokens=self.order[sequences.tokens])

  def sample_states(self, num, seed):
    return self.inner.sample_states(num, seed)

  def sample_others(self, states, seed):
    return self.inner.sample_others(states, seed)

  def prefix_moves(self, states):
    return self.inner.prefix_moves(states)

  def sample_prefixes(self, states, moves, seeds):
    prefixes = self.inner.sample_prefixes(states, moves, seeds)
    return prefixes._replace(tokens=self.order[prefixes.tokens])


MODELS = 'uniform()', 'oracle()'
# Nothing is drawn from the model.
EXACT = {
  'next_token': {'num': 12},
  'acceptance': {'num': 12},
  'excess_loss': {'num': 12},
  'distinction': {'trials': 8, 'samples': 0},
}
DRAWN = {
  'traversal': {'num': 40},
  'detour': {'num': 30, 'probabilities': (0.0, 0.5)},
  'compression': {'trials': 10, 'samples': 4},
}
SPECS = [
  spec
  for spec in every_world.SPECS
  if isinstance(every_world.WORLDS[spec], core.Prefixed)
  and len(every_world.WORLDS[spec].vocab) < 200
]
QUICK = ('lattice()', 'seating()', 'automaton()')


def measured(world, model, name, fields):
  metric = registry.find('metric', name)(**fields)
  if lacks(metric, core.Predictor, Permuted):
    return {}
  predictor = registry.make('model', model).predictor(world, 0)
  return {scores.quantity: scores for scores in metric(predictor, world, 3)}


@pytest.mark.parametrize('model', MODELS)
@pytest.mark.parametrize(
  'spec',
  [
    pytest.param(s, marks=() if s in QUICK else pytest.mark.slow) for s in SPECS
  ],
)
def test_the_order_of_tokens_changes_no_number(spec, model):
  worlds = [Permuted(every_world.WORLDS[spec], seed) for seed in (0, 1)]
  for name, fields in {**EXACT, **DRAWN}.items():
    plain, moved = (measured(w, model, name, fields) for w in worlds)
    assert plain.keys() == moved.keys()
    for quantity, scores in plain.items():
      other = moved[quantity]
      if name in EXACT:
        assert scores.reason.tolist() == other.reason.tolist()
        np.testing.assert_allclose(
          scores.value, other.value, atol=1e-6, err_msg=f'{name}: {quantity}'
        )
        continue
      first, second = (statistics.summarize(s, 0) for s in (scores, other))
      if first['low'] is not None and second['low'] is not None:
        overlap = min(first['high'], second['high']) - max(
          first['low'], second['low']
        )
        assert overlap >= 0, f'{name}: {quantity}: {first} {second}'
