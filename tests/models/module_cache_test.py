"""Caches that PyTorch modules return: found, checked and used."""

import numpy as np
import pytest

import wm
from tests import small
from wm.core import registry

torch = pytest.importorskip('torch')
nn = torch.nn

WORLD = registry.make('world', 'maps(rows=4, columns=4, max_moves=10)')
SIZE = len(WORLD.vocab)


class Transformer(nn.Module):
  """One block of attention, with a cache of keys and values."""

  def __init__(self, shift=0, width=16, size=SIZE, longest=32):
    super().__init__()
    self.embed = nn.Embedding(size, width)
    self.place = nn.Embedding(longest, width)
    self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, size)
    self.shift, self.tokens = shift, 0

  def forward(self, tokens, cache=None):
    self.tokens += tokens.numel()
    start = cache['keys'].shape[1] + self.shift if cache else 0
    places = torch.arange(start, start + tokens.shape[1])
    x = self.embed(tokens) + self.place(places)
    q, k, v = self.qkv(x).chunk(3, -1)
    if cache:
      k = torch.cat([cache['keys'], k], 1)
      v = torch.cat([cache['values'], v], 1)
    size = tokens.shape[1], k.shape[1]
    seen = torch.ones(size, dtype=torch.bool).tril(size[1] - size[0])
    mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    return 4 * self.out(x + mixed), {'keys': k, 'values': v}


class Recurrent(nn.Module):
  """An LSTM, whose state has the layer before the row."""

  def __init__(self):
    super().__init__()
    self.embed, self.out = nn.Embedding(SIZE, 16), nn.Linear(16, SIZE)
    self.lstm = nn.LSTM(16, 16, num_layers=2, batch_first=True)
    self.tokens = 0

  def forward(self, tokens, state=None):
    self.tokens += tokens.numel()
    x, state = self.lstm(self.embed(tokens), state)
    return 4 * self.out(x), state, torch.zeros(())  # A loss comes last.


class Alone(nn.Module):
  """The same function without a cache."""

  def __init__(self, inner):
    super().__init__()
    self.inner = inner

  def forward(self, tokens):
    return self.inner(tokens)[0]


@pytest.mark.parametrize('make', [Transformer, Recurrent])
def test_a_cache_gives_the_same_rows_from_a_fraction_of_the_tokens(make):
  torch.manual_seed(0)
  model = make()
  with_cache, alone = wm.wrap(model, WORLD), wm.wrap(Alone(model), WORLD)
  metrics = ['compression(trials=40)', 'distinction(trials=40)']
  values, tokens = [], []
  for predictor in (with_cache, alone):
    model.tokens = 0
    entries = small.scored(predictor, metrics, WORLD)
    values.append([(entry['quantity'], entry['value']) for entry in entries])
    tokens.append(model.tokens)
  assert values[0] == values[1]
  assert tokens[0] < tokens[1] / 3
  with_cache = with_cache.predictor
  sequences = WORLD.sample(6, 3)
  whole = with_cache.log_probs(sequences.tokens, sequences.lengths)
  session = with_cache.session(sequences.tokens[:, :3], np.full(6, 3), 2)
  session.advance(np.repeat(sequences.tokens[:, 3:4], 2, 1))
  np.testing.assert_allclose(session.log_probs()[:, 1], whole[:, 3], atol=1e-4)


def test_a_cache_that_disagrees_is_left_alone():
  """Places that are off by one after the cache: whole sequences are read."""
  torch.manual_seed(0)
  model, right = Transformer(shift=1), Transformer()
  right.load_state_dict(model.state_dict())
  entries = [
    small.scored(each, 'compression(trials=20)', WORLD)
    for each in (model, right)
  ]
  assert [x['value'] for x in entries[0]] == [x['value'] for x in entries[1]]


def test_an_argument_of_that_name_may_be_another():
  """A module that cannot use what it returned, or counts with the argument."""

  class Counts(nn.Module):
    def __init__(self):
      super().__init__()
      self.out = nn.Embedding(SIZE, SIZE)

    def forward(self, tokens, past=None):
      return self.out(tokens) + (0 if past is None else past + 1), 'text'

  entries = small.scored(Counts(), 'compression(trials=5)', WORLD)
  assert entries[0]['n'] + sum(entries[0]['unmeasured'].values()) == 5


def test_names_of_tokens_go_before_the_cache():
  torch.manual_seed(0)
  model = Transformer()
  names = list(WORLD.vocab)
  order = np.random.default_rng(0).permutation(SIZE)
  moved = Transformer()
  moved.load_state_dict(model.state_dict())
  with torch.no_grad():  # Token k of the one is token order[k] of the other.
    moved.embed.weight[order] = model.embed.weight
    moved.out.weight[order] = model.out.weight
    moved.out.bias[order] = model.out.bias
  table = {name: int(order[k]) for k, name in enumerate(names)}
  plain = small.scored(model, 'compression(trials=20)', WORLD)
  mapped = wm.wrap(moved, WORLD, tokens=table)
  moved.tokens = 0
  again = small.scored(mapped, 'compression(trials=20)', WORLD)
  assert [x['value'] for x in plain] == [x['value'] for x in again]
  assert moved.tokens < 20_000
