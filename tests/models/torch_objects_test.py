"""PyTorch modules, and programs made of them: read alike, left as they were."""

import copy
import hashlib

import numpy as np
import pytest

import wm
from tests import small
from wm.core import registry

torch = pytest.importorskip('torch')
nn = torch.nn

WORLD = registry.make('world', 'lattice(size=4, length=12)')
SIZE = len(WORLD.vocab)
METRICS = ['next_token(num=20)', 'compression(trials=4)']


class Network(nn.Module):
  """An LSTM with all that a call may change."""

  def __init__(self):
    super().__init__()
    self.embed = nn.Embedding(SIZE, 8)
    self.lstm = nn.LSTM(8, 8, batch_first=True)
    self.norm = nn.BatchNorm1d(8)
    self.drop = nn.Dropout(0.5)
    self.frozen = nn.Sequential(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)))
    self.frozen[0].requires_grad_(False)
    self.out = nn.Linear(8, SIZE)
    self.register_buffer('calls', torch.zeros((), dtype=torch.long))
    self.register_buffer('newest', torch.zeros(1))

  def forward(self, tokens, targets=None):
    self.calls += 1  # In place.
    self.newest = torch.ones(3) * tokens.shape[1]  # Another tensor.
    x = self.lstm(self.embed(tokens))[0]
    x = self.norm(x.transpose(1, 2)).transpose(1, 2)
    torch.rand(1)
    return self.out(self.frozen(self.drop(x))), None


def network():
  torch.manual_seed(0)
  model = Network().train()
  model.frozen.eval()  # A user freezes a part, and trains the rest.
  return model


def everything(model):
  """Hash of modes, flags, buffers, weights and random numbers."""
  state = [
    [(name, part.training) for name, part in model.named_modules()],
    [(name, x.requires_grad, x.grad) for name, x in model.named_parameters()],
    [
      (name, str(x.dtype), x.detach().numpy().tobytes())
      for name, x in model.state_dict().items()
    ],
    torch.get_rng_state().numpy().tobytes(),
  ]
  return hashlib.sha256(repr(state).encode()).hexdigest()


def values(model, **options):
  entries = small.scored(wm.wrap(model, WORLD, **options), METRICS, WORLD)
  return [entry['value'] for entry in entries]


def test_scoring_leaves_a_module_as_it_was():
  model = network()
  before, calls = everything(model), model.calls
  first = values(model)
  wm.score(
    wm.wrap(model, WORLD),
    ['inductive_bias(num=2, examples=10, states=8, pool=50, steps=(1,))'],
    WORLD,
  )
  assert everything(model) == before
  assert model.calls is calls
  assert sum(part.training for part in model.modules()) == 6
  assert values(copy.deepcopy(model).eval()) == first


def test_a_module_that_fails_is_left_as_it_was():
  class Failing(Network):
    def forward(self, tokens):
      super().forward(tokens)
      raise ValueError('out of memory')

  model = Failing().train()
  model.frozen.eval()
  before = everything(model)
  with pytest.raises(wm.InputError, match='out of memory'):
    wm.wrap(model, WORLD)
  assert everything(model) == before


def test_a_compiled_module_is_left_as_it_was():
  model = network()
  before = everything(model)
  assert values(torch.compile(model, backend='eager')) == values(model)
  assert everything(model) == before


def test_a_module_that_always_draws_is_refused():
  class Noisy(nn.Module):
    def forward(self, tokens):
      return torch.randn(*tokens.shape, SIZE)

  with pytest.raises(wm.InputError, match='dropout'):
    wm.wrap(Noisy(), WORLD)


class Plain(nn.Module):
  def __init__(self):
    super().__init__()
    self.embed = nn.Embedding(SIZE, 8)
    self.lstm = nn.LSTM(8, SIZE, batch_first=True)

  def forward(self, tokens):
    return self.lstm(self.embed(tokens))[0]


@pytest.fixture(scope='module')
def plain():
  torch.manual_seed(1)
  return Plain().eval()


def test_an_exported_program_is_the_module(plain):
  """Its shapes are fixed: rows and length are filled."""
  program = torch.export.export(plain, (torch.ones(16, 12, dtype=torch.long),))
  assert values(program) == pytest.approx(values(plain), abs=1e-6)


def test_an_exported_program_may_have_free_shapes():
  torch.manual_seed(2)
  bigrams = nn.Sequential(nn.Embedding(SIZE, 8), nn.Linear(8, SIZE)).eval()
  free = {0: torch.export.Dim('rows'), 1: torch.export.Dim('length')}
  example = torch.ones(4, 6, dtype=torch.long)
  program = torch.export.export(bigrams, (example,), dynamic_shapes=(free,))
  assert values(program) == pytest.approx(values(bigrams), abs=1e-6)


def test_an_onnx_session_is_the_module(plain, tmp_path):
  onnx = pytest.importorskip('onnx')
  onnxruntime = pytest.importorskip('onnxruntime')
  table = np.random.default_rng(0).normal(size=(SIZE, SIZE)).astype(np.float32)
  helper = onnx.helper
  graph = helper.make_graph(
    [helper.make_node('Gather', ['table', 'tokens'], ['logits'])],
    'bigrams',
    [
      helper.make_tensor_value_info(
        'tokens', onnx.TensorProto.INT64, ['rows', 12]
      )
    ],
    [helper.make_tensor_value_info('logits', onnx.TensorProto.FLOAT, None)],
    [onnx.numpy_helper.from_array(table, 'table')],
  )
  model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 13)])
  model.ir_version = 8
  session = onnxruntime.InferenceSession(model.SerializeToString())
  assert values(session) == values(lambda tokens: table[tokens])


@pytest.mark.parametrize('tokens', [False, True])
def test_a_model_of_hugging_face_uses_its_cache(tokens):
  """The same values as without, in fewer calls; it stays as it was."""
  hub = pytest.importorskip('transformers')
  torch.manual_seed(0)
  more = 5 if tokens else 0
  config = hub.GPT2Config(
    vocab_size=SIZE + more, n_positions=40, n_embd=16, n_layer=2, n_head=2
  )
  model = hub.GPT2LMHeadModel(config).train()
  table = {word: token + 3 for token, word in enumerate(WORLD.vocab)}
  options = {'tokens': table | {'<bos>': 1}} if tokens else {}
  calls, forward = [], model.forward

  def counted(*arguments, **named):
    calls.append(1)
    return forward(*arguments, **named)

  model.forward = counted
  before = everything(model)
  cached = values(model, **options)
  with_cache = len(calls)
  assert everything(model) == before

  def plain(ids):
    with torch.no_grad():
      return forward(torch.as_tensor(ids).long()).logits

  model.eval()
  calls.clear()
  model.forward = forward
  whole = values(plain, **options)
  assert cached == pytest.approx(whole, abs=1e-4)
  loaded = wm.wrap(model, WORLD, **options)
  assert 'continuations' in loaded.predictor.contract.checked
  assert with_cache < 400
  # Activations and small tasks are those of the model, too.
  sequences = WORLD.sample(3, 0)
  hidden = loaded.predictor.hidden(sequences.tokens, sequences.lengths, -1)
  assert hidden.shape[2] == 16
