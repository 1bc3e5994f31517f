"""What a new user tries: it is answered, or refused in one line that helps."""

import pathlib
import re

import numpy as np
import pytest

import wm
from tests import small
from tests.launch import binaries

WORLD = 'maps(rows=3, columns=3, max_moves=6)'
LINE = 'lattice(length=8)'
QUICK = 'next_token(num=20)'
SIZE = len(wm.make('world', WORLD).vocab)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  """Where the user works: a trained run, scores of two worlds, odd files."""
  folder = tmp_path_factory.mktemp('user')
  wm.sample(WORLD, folder / 'run', num=200, num_heldout=20)
  wm.train(WORLD, 'ngram()', folder / 'run')
  wm.sample(WORLD, folder / 'sampled', num=20, num_heldout=5)
  wm.score('uniform()', QUICK, LINE, out=folder / 'line')
  wm.score('uniform()', QUICK, WORLD, out=folder / 'city')
  (folder / 'empty').mkdir()
  (folder / 'model.pt').write_bytes(b'PK')
  return folder


@pytest.fixture(autouse=True)
def _in_folder(folder, monkeypatch):
  monkeypatch.chdir(folder)


def score(source, metrics=QUICK, world=WORLD, **options):
  return small.scored(source, metrics, world, **options)


def logits(tokens):
  return np.zeros((*tokens.shape, SIZE))


def of(value):
  """A function that gives a value, whatever it is asked."""
  return lambda tokens: value


def filled(value, dtype=np.float32):
  """A function that gives logits which are all one value."""
  return lambda tokens: np.full((*tokens.shape, SIZE), value, dtype)


class Module:
  """A class, given where an object is expected."""

  def __call__(self, tokens):
    return logits(tokens)


# What works: title -> call, and what is true of what it gives.
ANSWERED = {
  'a run by its folder': (
    lambda: small.scored('run', QUICK),
    lambda entries: entries[0]['world'] == WORLD,
  ),
  'a run as a path': (
    lambda: small.scored(pathlib.Path('run'), QUICK),
    lambda entries: entries[0]['model'] == 'ngram',
  ),
  'names without brackets': (
    lambda: score('uniform', 'probe', 'maps'),
    lambda entries: entries[0]['unmeasured'],
  ),
  'objects for strings': (
    lambda: score(*map(wm.make, ('model', 'metric'), ('uniform()', QUICK))),
    lambda entries: entries == score('uniform()'),
  ),
  'a function': (lambda: score(logits), lambda entries: len(entries) == 5),
  'an object': (lambda: score(Module()), lambda entries: len(entries) == 5),
  'logits of 16 bits': (
    lambda: score(filled(0, np.float16)),
    lambda entries: entries[0]['n'] == 20,
  ),
  'logits in lists': (
    lambda: score(lambda tokens: logits(tokens).tolist()),
    lambda entries: entries[0]['n'] == 20,
  ),
  'two settings of a metric': (
    lambda: score('uniform()', [QUICK, 'next_token(num=30)']),
    lambda entries: {entry['n'] for entry in entries} == {20, 30},
  ),
  'one metric twice': (
    lambda: score('uniform()', [QUICK, QUICK]),
    lambda entries: len(entries) == 5,
  ),
}
# What does not: title -> call, and a part of its line.
REFUSED = {
  'no folder to sample into': (
    lambda: wm.sample(WORLD, num=5),
    "sample: missing a required argument: 'out'; it needs world, out",
  ),
  'steps without anything': (
    lambda: wm.train(steps=10),
    "missing a required argument: 'world'; it needs world, model, out",
  ),
  'a keyword that is misspelt': (
    lambda: wm.train(WORLD, 'ngram()', 'new', step=5),
    "train takes no 'step'; available: .*; did you mean 'steps'",
  ),
  'no sequences yet': (
    lambda: wm.train(WORLD, 'transformer()', 'new', steps=10),
    'no sequences at new/data/train .*; make them with',
  ),
  'an oracle to train': (
    lambda: wm.train(WORLD, 'oracle()', 'run'),
    "model 'oracle\\(\\)' has nothing to train",
  ),
  'a module to train': (
    lambda: wm.train(WORLD, Module(), 'run'),
    'is of type Module; expected core.Model',
  ),
  'metrics in one string': (
    lambda: score('uniform()', 'next_token(), probe()'),
    'expected name.*, one; several are flags or a list of them',
  ),
  'metric and world changed about': (
    lambda: small.scored('uniform()', WORLD, QUICK),
    "no metric is named 'maps'; it is a world; available",
  ),
  'no world': (
    lambda: small.scored('uniform()', QUICK),
    "world is needed to use uniform\\(\\) in, such as 'maps\\(\\)'; available",
  ),
  'a class': (lambda: score(Module), 'is a class; expected'),
  'a dictionary of weights': (
    lambda: score({'weight': np.zeros(3)}),
    'is of type dict; expected .* PyTorch or Flax module',
  ),
  'a file of weights': (
    lambda: score('model.pt'),
    'model.pt: there is no such run; .*in a call the module itself',
  ),
  'a model of the hub': (
    lambda: score('openai-community/gpt2'),
    "there is no such run; .*huggingface\\(path='FOLDER'\\)",
  ),
  'a language model without provider': (
    lambda: score("language(model='gpt-4')"),
    "expected 'provider/model'|needs the extra 'language'",
  ),
  'a vocabulary that is too small': (
    lambda: score(lambda tokens: logits(tokens)[..., 1:]),
    rf'gave float64 of shape \(16, \d+, {SIZE - 1}\) .* = \(16, \d+, {SIZE}\)',
  ),
  'complex numbers': (
    lambda: score(filled(0, np.complex128)),
    'gave complex128 of shape .*expected floats',
  ),
  'probabilities': (
    lambda: score(filled(1 / SIZE)),
    'gave probabilities, which add up to 1; expected logits',
  ),
  'a function of two arguments': (
    lambda: score(lambda tokens, mask: logits(tokens)),
    'new_user_test.py:.*missing 1 required positional argument',
  ),
  'a function of a list': (
    lambda: score(of([0.0] * SIZE)),
    rf'gave float64 of shape \({SIZE},\) for tokens \(16, .*\[rows, length',
  ),
  'a model that looks ahead': (
    lambda: score(lambda tokens: 5 * np.eye(SIZE)[np.roll(tokens, -1, 1)]),
    'another later token changes the prediction',
  ),
  'a run that is gone': (
    lambda: wm.load_predictor('/no/such/run'),
    '/no/such/run: there is no such run',
  ),
  'a run in another folder': (
    lambda: wm.load_predictor('my_run'),
    "no model is named 'my_run'",
  ),
  'a folder that is no run': (
    lambda: wm.load_predictor('empty'),
    'empty holds no training run .*train one',
  ),
  'a checkpoint that has no name': (
    lambda: wm.load_predictor('run', checkpoint='first'),
    "no checkpoint is called 'first'; available: best, last, or a number",
  ),
  'a run in another world': (
    lambda: wm.load_predictor('run', 'maps(rows=4)'),
    'was trained on the vocabulary of maps\\(rows=3',
  ),
  'rows of a run without scores': (
    lambda: wm.rows('run'),
    'run has no results; run wm.score',
  ),
  'a report of an empty folder': (
    lambda: wm.report('empty'),
    'empty has no scores.json; run launch/score.py',
  ),
  'a folder with other scores': (
    lambda: score('oracle()', out='city'),
    "its model is 'uniform', not 'oracle'; choose another --out",
  ),
  'a map of no city': (
    lambda: wm.reconstruct('uniform()', 'new', LINE),
    'has no street map to reconstruct; expected maps',
  ),
  'a world without its kind': (
    lambda: wm.make('maps()', 'world'),
    "no kind is called 'maps\\(\\)'; available: world",
  ),
}
CITY = f'--world={WORLD}'
LINES = {
  ('score', CITY, '--model=uniform()', '--out=a'): '--metric is required',
  ('score', '--metric=probe()', '--model=uniform()', '--out=a'): (
    '--world is required'
  ),
  ('score', f'--metric={QUICK}', '--out=gone'): 'gone: there is no such run',
  ('score', CITY, 'uniform()'): "unexpected argument 'uniform.*--FLAG=VALUE",
  ('score', CITY, '--modle=uniform()'): "'modle'. Did you mean: model",
  ('score', CITY, '--seed=-1'): '--seed=-1: -1 is not an integer in the range',
  ('train', CITY, '--steps=0'): '--steps=0: 0 is not a positive integer',
  ('train', CITY, '--steps=5', '--out=a'): '--model is required',
  ('sample', CITY, '--num=1e5'): "--num=1e5: invalid literal for int.*'1e5'",
  ('list', 'maps'): "unexpected argument 'maps'; expected --FLAG=VALUE",
  ('list', '--worlds'): "'worlds'. Did you mean: world",
  (
    'report',
    '--out=sampled',
  ): 'sampled has no scores.json; run launch/score.py',
  ('report', '--out=gone'): 'gone has no scores.json',
  (
    'sample',
    '--flagfile=gone.flags',
  ): "No such file or directory: 'gone.flags'",
  ('ingest', '--out=a', '--text_file=w.txt', '--pgn=b'): (
    'and --text_file were given: expected one of the two'
  ),
  ('ingest', '--out=a', '--pgn=b', '--tokens=c'): (
    'tokens=c and --pgn were given: expected one of the two'
  ),
  ('count', CITY, '--show'): '--first_state is required',
  ('sweep', CITY, '--out=a', '--grid=learning_rate=1|2'): (
    "no flag of a run is called 'learning_rate'; available"
  ),
}


@pytest.mark.parametrize('title', ANSWERED)
def test_it_is_answered(title):
  call, holds = ANSWERED[title]
  assert holds(call())


@pytest.mark.parametrize('title', REFUSED)
def test_it_is_refused_in_one_line(title, one_line):
  call, line = REFUSED[title]
  before = sorted(pathlib.Path().rglob('*'))
  with one_line(line):
    call()
  assert sorted(pathlib.Path().rglob('*')) == before


@pytest.mark.parametrize('flags', LINES, ids=' '.join)
def test_a_command_is_refused_in_one_line(flags):
  before = sorted(pathlib.Path().rglob('*'))
  line = binaries.refused(*flags)
  assert line.startswith('error: ')
  assert re.search(LINES[flags], line), line
  assert sorted(pathlib.Path().rglob('*')) == before


def test_a_run_is_scored_by_its_folder_alone():
  code, out, err = binaries.run(
    'score', f'--metric={QUICK}', '--out=run', '--name=mine'
  )
  assert code == 0, err
  assert 'next_token: validity' in out


def test_a_misspelt_name_of_wm_is_told_with_the_nearest():
  with pytest.raises(AttributeError, match="no attribute 'scores'") as error:
    dir(wm.scores)
  assert (error.value.name, error.value.obj) == ('scores', wm)


def test_a_jax_function_is_scored():
  jax = pytest.importorskip('jax')
  entries = score(jax.jit(lambda x: jax.numpy.zeros((*x.shape, SIZE))))
  assert entries[0]['n'] == 20


def test_modules_of_pytorch():
  torch = pytest.importorskip('torch')
  whole = torch.nn.Sequential(
    torch.nn.Embedding(SIZE, 8), torch.nn.Linear(8, SIZE)
  )
  small = torch.nn.Sequential(torch.nn.Embedding(5, 8), torch.nn.Linear(8, 5))
  assert score(whole)[0]['n'] == 20
  with pytest.raises(
    wm.core.InputError, match=f'has 5 tokens, the world {SIZE}: pass'
  ):
    score(small)
  with pytest.raises(wm.core.InputError, match=r'expected .* module'):
    score(whole.state_dict())


def test_an_own_gpt_on_a_grid(tmp_path):
  """An own PyTorch module is scored in few passes, and left as it was."""
  torch = pytest.importorskip('torch')
  networkx = pytest.importorskip('networkx')
  nn, passes = torch.nn, []

  class GPT(nn.Module):
    def __init__(self, vocab, length, width=96, layers=3):
      super().__init__()
      self.tokens = nn.Embedding(vocab, width)
      self.places = nn.Embedding(length, width)
      layer = nn.TransformerEncoderLayer(
        width, 4, 4 * width, 0.0, batch_first=True, norm_first=True
      )
      self.blocks = nn.TransformerEncoder(layer, layers)
      self.head = nn.Linear(width, vocab)

    def forward(self, tokens):
      passes.append(tokens.shape)
      size = tokens.shape[1]
      x = self.tokens(tokens) + self.places(torch.arange(size))
      mask = nn.Transformer.generate_square_subsequent_mask(size)
      return self.head(self.blocks(x, mask=mask, is_causal=True))

  torch.manual_seed(0)
  world = wm.from_graph(networkx.grid_2d_graph(6, 6), tmp_path, max_moves=20)
  model = GPT(len(world.vocab), world.max_len)
  optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
  for step in range(30):
    tokens = torch.as_tensor(world.sample(32, 100 + step).tokens).long()
    logits = model(tokens[:, :-1]).transpose(1, 2)
    nn.functional.cross_entropy(
      logits, tokens[:, 1:], ignore_index=0
    ).backward()
    optimizer.step()
    optimizer.zero_grad()
  passes.clear()
  entries = small.scored(model, 'compression(trials=200)', world)
  values = {entry['quantity']: entry['value'] for entry in entries}
  assert 0 <= values['precision'] <= 1
  assert len(passes) <= 600
  # Its second block is probed without a method.
  loaded = wm.wrap(model, world, layer='blocks.layers.1')
  probed = small.scored(loaded, 'probe(num=40, epochs=1)', world)
  assert {entry['n'] for entry in probed if entry['quantity'] == 'accuracy'}


def test_plain_functions_on_a_graph_of_their_own(tmp_path):
  """A model of NumPy alone, on a labelled graph, with tokens of its own."""
  networkx = pytest.importorskip('networkx')
  town = networkx.DiGraph()
  for at in range(8):  # A ring road, with a shortcut through the park.
    town.add_edge(f'gate{at}', f'gate{(at + 1) % 8}', label='NESW'[at % 4])
  town.add_edge('gate0', 'gate4', label='SE')
  town.add_edge('gate4', 'gate0', label='NW')
  world = wm.from_graph(town, tmp_path, max_moves=8)
  sequences = world.sample(1000, 0)
  names = sorted({world.vocab[k] for k in np.unique(sequences.tokens) if k})
  number = np.array([names.index(n) if n in names else 0 for n in world.vocab])
  counts = np.full((len(names), len(names)), 0.01)
  for row, length in zip(sequences.tokens, sequences.lengths, strict=True):
    np.add.at(counts, (number[row[: length - 1]], number[row[1:length]]), 1)
  table = np.log(counts / counts.sum(1, keepdims=True))

  def bigrams(tokens):
    return table[tokens]

  loaded = wm.wrap(bigrams, world, tokens=names)
  entries = small.scored(loaded, ['next_token(num=50)', 'compression()'], world)
  values = {(e['metric'], e['quantity']): e['value'] for e in entries}
  assert 0 < values['next_token', 'valid_mass'] < 1
  assert 0 <= values['compression', 'precision'] <= 1
