"""Submodules of PyTorch as layers, and models that have other tokens."""

import numpy as np
import pytest

import wm
from tests import small
from wm.core import registry

torch = pytest.importorskip('torch')
nn = torch.nn

SPEC = 'lattice(size=4, length=12)'
WORLD = registry.make('world', SPEC)
SIZE = len(WORLD.vocab)


class Block(nn.Module):
  """A block that gives a tuple, as many do."""

  def __init__(self):
    super().__init__()
    self.lstm = nn.LSTM(8, 8, batch_first=True)

  def forward(self, x):
    return x + self.lstm(x)[0], None


class Network(nn.Module):
  def __init__(self, seed=0, size=SIZE):
    super().__init__()
    torch.manual_seed(seed)
    self.embed = nn.Embedding(size, 8)
    self.blocks = nn.ModuleList(Block() for _ in range(3))
    self.spare = nn.Linear(8, 8)
    self.head = nn.Linear(8, size)

  def forward(self, tokens):
    x = self.embed(tokens)
    for block in self.blocks:
      x, _ = block(x)
    return self.head(x), None


@pytest.fixture(scope='module')
def module():
  return Network()


def test_a_submodule_is_a_layer(module):
  loaded = wm.wrap(module, SPEC, layer='blocks.1')
  sequences = WORLD.sample(5, 0)
  tokens, lengths = sequences.tokens, sequences.lengths
  hidden = loaded.predictor.hidden(tokens, lengths, -1)
  with torch.no_grad():
    x = module.embed(torch.as_tensor(tokens).long())
    for block in module.blocks[:2]:
      x, _ = block(x)
  used = np.arange(tokens.shape[1]) < lengths[:, None]
  np.testing.assert_allclose(hidden[used], x.numpy()[used], atol=1e-6)
  assert {'activations'} <= {*loaded.predictor.contract.checked}
  # The module of the user has neither methods nor hooks.
  assert type(module) is Network
  assert not hasattr(module, 'hidden')
  assert not any(part._forward_hooks for part in module.modules())


def test_several_submodules_are_layers_in_turn(module):
  reader = wm.wrap(module, SPEC, layer=['embed', 'blocks.2']).predictor
  tokens, lengths = np.ones((2, 3), np.int32), np.full(2, 3)
  first, last = (reader.hidden(tokens, lengths, k) for k in (0, 1))
  np.testing.assert_array_equal(last, reader.hidden(tokens, lengths, -1))
  weights = module.embed.weight.detach().numpy()
  np.testing.assert_allclose(first, weights[tokens], atol=1e-6)
  with pytest.raises(wm.InputError, match=r'layer 2 .*0 \(embed\), 1 \(blocks'):
    reader.hidden(tokens, lengths, 2)


def test_patching_goes_on_from_other_activations(module):
  reader = wm.wrap(module, SPEC, layer='blocks.2').predictor
  tokens, lengths = np.ones((2, 3), np.int32), np.full(2, 3)
  other = np.random.default_rng(0).normal(size=(2, 3, 8)).astype(np.float32)
  result = reader.patched(tokens, lengths, -1, other)
  with torch.no_grad():
    logits = module.head(torch.as_tensor(other))
  logits[..., 0] = -torch.inf
  right = logits.log_softmax(-1).numpy()
  np.testing.assert_allclose(result, right, atol=1e-5)


@pytest.mark.parametrize(
  ('layer', 'line'),
  [
    ('blocks.3', "no submodule 'blocks.3'; .*available: embed, blocks"),
    ('spare', "does not call the submodule 'spare'"),
    ('blocks.0.lstm', 'hidden gave|patched|expected'),
  ],
)
def test_other_names_are_refused_in_one_line(module, layer, line, one_line):
  if layer.endswith('lstm'):  # Its output is a tuple: the first part counts.
    wm.wrap(module, SPEC, layer=layer)
    return
  with one_line(line):
    wm.wrap(module, SPEC, layer=layer)


def test_functions_have_no_submodules():
  with pytest.raises(wm.InputError, match='expected a PyTorch module'):
    wm.wrap(lambda tokens: np.zeros((*tokens.shape, SIZE)), SPEC, layer='a')


def test_probes_and_interventions_need_no_method(module):
  entries = small.scored(
    wm.wrap(module, SPEC, layer='blocks.1'),
    ['probe(num=40, epochs=2)', 'intervention(num=40, epochs=2)'],
    SPEC,
    untrained=wm.wrap(Network(1), SPEC, layer='blocks.1'),
  )
  values = {(e['metric'], e['quantity']): e['value'] for e in entries[::-1]}
  assert 0 < values['probe', 'accuracy'] <= 1
  assert 0 < values['probe', 'untrained'] <= 1
  assert not [e for e in entries if 'needs_hidden_states' in e['unmeasured']]
  assert any(metric == 'intervention' for metric, _ in values)


CITY = 'maps(rows=3, columns=3, max_moves=6)'


def test_tokens_that_no_sequence_has_may_be_missing():
  city = registry.make('world', CITY)
  used = np.unique(city.sample(1000, 0).tokens)
  names = [city.vocab[token] for token in used if token][::-1]
  small = Network(size=len(names))
  sizes = f'has {len(names)} tokens, the world {len(city.vocab)}: pass tokens='
  with pytest.raises(wm.InputError, match=sizes):
    wm.wrap(small, CITY)
  with pytest.raises(wm.InputError, match=sizes.replace(str(len(names)), '99')):
    wm.wrap(Network(size=99), CITY)
  reader = wm.wrap(small, CITY, tokens=names).predictor
  sequences = city.sample(4, 3)
  log_probs = reader.log_probs(sequences.tokens, sequences.lengths)
  missing = [n for n in range(len(city.vocab)) if n not in used]
  assert (log_probs[:, 0, missing] == -np.inf).all()
  assert np.exp(log_probs[:, 0]).sum(-1) == pytest.approx(1)
  with pytest.raises(wm.InputError, match="tokens= has no 'end' of the world"):
    wm.wrap(small, CITY, tokens=[name for name in names if name != 'end'])
