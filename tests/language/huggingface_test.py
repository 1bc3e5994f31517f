"""A folder of transformers as a model: against sums over pieces by hand."""

import json

import numpy as np
import pytest

from tests import small, tiny
from wm import core
from wm.core import adapting, registry

torch = pytest.importorskip('torch', reason='the extra torch is not installed')
hub = pytest.importorskip(
  'transformers', reason='transformers is not installed'
)

PIECES, CONTEXT, LAYERS = 24, 40, 2
# The vocabulary of `tiny.World` but padding, spelled in these ways.
WORDS = tiny.World().vocab[1:]
ALONE = {word: n + 3 for n, word in enumerate(WORDS)}
# '1' begins '10' and '100': 4 alone, 4 9, 4 9 10 and so on.
NESTED = {word: [4, *range(9, 9 + n)] for n, word in enumerate(WORDS)}
# Two pieces each, none the beginning of another.
PAIRS = {word: [5, 8 + n] for n, word in enumerate(WORDS)}


def saved(folder, family: str):
  torch.manual_seed(1)
  if family == 'gpt2':
    config = hub.GPT2Config(
      vocab_size=PIECES,
      n_positions=CONTEXT,
      n_embd=32,
      n_layer=LAYERS,
      n_head=4,
    )
    result = hub.GPT2LMHeadModel(config)
  else:
    config = hub.LlamaConfig(
      vocab_size=PIECES,
      max_position_embeddings=CONTEXT,
      hidden_size=32,
      intermediate_size=48,
      num_hidden_layers=LAYERS,
      num_attention_heads=4,
      num_key_value_heads=2,
    )
    result = hub.LlamaForCausalLM(config)
  with torch.no_grad():
    for parameter in result.parameters():
      if parameter.ndim > 1:
        parameter.copy_(0.4 * torch.randn_like(parameter))
  result.eval().save_pretrained(folder)
  return result


@pytest.fixture(scope='module', params=['gpt2', 'llama'])
def theirs(request, tmp_path_factory):
  folder = tmp_path_factory.mktemp(request.param)
  return folder, saved(folder, request.param)


def made(folder, table, **fields) -> core.Predictor:
  """table: token -> pieces, or the text of its file."""
  path = folder / 'tokens.json'
  path.write_text(table if isinstance(table, str) else json.dumps(table))
  fields = ''.join(f', {key}={value!r}' for key, value in fields.items())
  spec = f'huggingface(path={str(folder)!r}, tokens={str(path)!r}{fields})'
  return registry.make('model', spec).predictor(tiny.World(), 0)


def paths(table) -> list[list[int]]:
  return [[x] if isinstance(x, int) else x for x in table.values()]


def by_hand(network, table, tokens) -> np.ndarray:
  """[V - 1] probabilities of the next token, one text at a time."""
  spelled = paths(table)
  starts = sorted({path[0] for path in spelled})

  def after(pieces):
    with torch.no_grad():
      return network(torch.tensor([pieces])).logits[0, -1].softmax(-1).numpy()

  def is_open(path):
    return any(o[: len(path)] == path and o != path for o in spelled)

  text = [piece for token in tokens for piece in spelled[token - 1]]
  over = 1.0
  if is_open(spelled[tokens[-1] - 1]):
    over = after(text)[starts].sum()
  result = []
  for path in spelled:
    chance = 1 / over
    for n, piece in enumerate(path):
      chance *= after(text + path[:n])[piece]
    if is_open(path):
      chance *= after(text + path)[starts].sum()
    result.append(chance)
  return np.array(result)


def sequences():
  return tiny.World().sample(5, 3)


@pytest.mark.parametrize('table', [ALONE, NESTED, PAIRS])
def test_probabilities_are_products_along_pieces(theirs, table):
  folder, network = theirs
  result = made(folder, table)
  sample = sequences()
  log_probs = result.log_probs(sample.tokens, sample.lengths)
  for row in (0, 3):
    for t in (0, 1, int(sample.lengths[row]) - 1):
      want = by_hand(network, table, sample.tokens[row, : t + 1])
      np.testing.assert_allclose(np.exp(log_probs[row, t, 1:]), want, rtol=1e-3)
  assert (log_probs[:, 0, 0] == -np.inf).all()
  alone = result.log_probs(sample.tokens[3:4], sample.lengths[3:4])
  inside = slice(0, int(sample.lengths[3]))
  np.testing.assert_allclose(alone[0, inside], log_probs[3, inside], atol=1e-4)


@pytest.mark.parametrize('table', [ALONE, NESTED])
def test_sessions_keep_what_was_read(theirs, table):
  """Advanced unevenly, and given new prefixes."""
  result, sample = made(theirs[0], table), sequences()

  def want(row, length):
    tokens = sample.tokens[row : row + 1, :length]
    return result.log_probs(tokens, np.array([length]))[0, length - 1]

  def check(session, rows):
    got = session.log_probs()
    for (b, m), (row, length) in rows.items():
      np.testing.assert_allclose(got[b, m], want(row, length), atol=1e-4)

  session = result.session(sample.tokens[:3, :2], np.array([2, 1, 2]), 2)
  check(session, {(0, 0): (0, 2), (1, 1): (1, 1), (2, 0): (2, 2)})
  more = np.array(
    [[sample.tokens[0, 2], -1], [-1, sample.tokens[1, 1]], [-1, -1]]
  )
  session.advance(more)
  check(session, {(0, 0): (0, 3), (0, 1): (0, 2), (1, 1): (1, 2)})
  session.restart(np.array([0]), sample.tokens[4:5], np.array([4]))
  check(session, {(0, 1): (4, 4), (1, 1): (1, 2), (2, 1): (2, 2)})


def test_activations_are_those_of_the_last_pieces(theirs):
  folder, network = theirs
  result, sample = made(folder, PAIRS), sequences()
  text = [piece for t in sample.tokens[1, :3] for piece in paths(PAIRS)[t - 1]]
  with torch.no_grad():
    layers = network(
      torch.tensor([text]), output_hidden_states=True
    ).hidden_states
  for layer in (0, 1, -1):
    hidden = result.hidden(sample.tokens, sample.lengths, layer)
    want = layers[layer][0, 1::2].numpy()
    np.testing.assert_allclose(hidden[1, :3], want, atol=1e-4)
  with pytest.raises(core.InputError, match=r'expected -1\.\.2'):
    result.hidden(sample.tokens, sample.lengths, 3)


def test_what_leaks_is_counted(theirs):
  result, sample = made(theirs[0], ALONE), sequences()
  (layout,) = result.diagnostics()
  assert 'nats a token' in layout
  log_probs = result.log_probs(sample.tokens, sample.lengths)
  inside = np.arange(sample.tokens.shape[1]) < sample.lengths[:, None]
  lost = 1 - np.exp(log_probs[inside]).sum(-1)
  _, line = result.diagnostics()
  assert line.startswith(f'{lost.mean():.3g} of the probability')
  assert f'at {inside.sum()} places); left out' in line
  whole = made(theirs[0], ALONE, renormalised=True)
  shares = np.exp(whole.log_probs(sample.tokens, sample.lengths)[inside])
  np.testing.assert_allclose(shares.sum(-1), 1, rtol=1e-5)


def test_it_is_scored_like_any_model(tmp_path, capsys):
  folder, table = tmp_path / 'model', tmp_path / 'tokens.json'
  theirs = saved(folder, 'gpt2')
  table.write_text(json.dumps(ALONE))
  spec = f'huggingface(path={str(folder)!r}, tokens={str(table)!r})'
  asked = ['compression(trials=6, samples=2)', 'probe(num=30)']

  def run() -> tuple[list[dict], str]:
    output: list[str] = []
    out = tmp_path / 'run'
    result = small.scored(spec, asked, tiny.World(), out=out, log=output.append)
    return result, capsys.readouterr().err + '\n'.join(output)

  first, output = run()
  entries = {(e['metric'], e['quantity']): e for e in first}
  assert entries['compression', 'precision']['n'] > 0
  assert entries['probe', 'accuracy']['value'] >= 0
  assert 'went to no token' in output
  again, output = run()
  assert repr(again) == repr(first)  # NaN is itself there.
  assert output.count(': cached') == 2
  with torch.no_grad():
    theirs.transformer.wte.weight.mul_(2)
  theirs.save_pretrained(folder)
  assert 'recomputed: ' in run()[1]


def test_words_are_cut_by_the_folders_tokenizer(tmp_path):
  tokenizers = pytest.importorskip('tokenizers')
  saved(tmp_path, 'gpt2')
  pieces = {'[UNK]': 0, '[END]': 1, **{w: n + 2 for n, w in enumerate(WORDS)}}
  cut = tokenizers.Tokenizer(tokenizers.models.WordLevel(pieces, '[UNK]'))
  cut.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
  whole = hub.PreTrainedTokenizerFast(
    tokenizer_object=cut, unk_token='[UNK]', eos_token='[END]'
  )
  whole.save_pretrained(tmp_path)
  world = tiny.World()
  model = registry.make('model', f'huggingface(path={str(tmp_path)!r})')
  result = model.predictor(world, 0)
  want = [(), *((n + 2,) for n in range(len(WORDS)))]
  if world.end != core.DEAD:
    want[world.end] = (1,)
  assert list(result.spelled.paths) == want


@pytest.mark.parametrize(
  ('table', 'message'),
  [
    ({}, r'spells 0 tokens, not'),
    (ALONE | {WORDS[0]: ALONE[WORDS[1]]}, 'are spelled alike'),
    (ALONE | {WORDS[0]: []}, 'expected a text, the id'),
    (ALONE | {WORDS[0]: 99}, r'has piece 99; expected 0\.\.23'),
    (ALONE | {WORDS[0]: 'a'}, 'has no tokenizer'),
    (ALONE | {WORDS[0]: [ALONE[WORDS[1]], 3]}, None),
    ({w: [4 + n % 2] * (n + 1) for n, w in enumerate(WORDS)}, 'goes on and'),
    ([1], 'holds a list'),
    (ALONE | {WORDS[0]: list(range(21))}, 'leave no room for two tokens'),
    (ALONE | {'x': 1.5}, r'is spelled 1\.5'),
    (ALONE | {'x': [1, 'a']}, r'is spelled \[1'),
    (ALONE | {'x': 10**40}, r'expected 0\.\.23'),
    ('{"x": 1, "x": 2}', "has 'x' twice"),
  ],
)
def test_bad_tables(tmp_path, table, message, one_line):
  saved(tmp_path, 'gpt2')
  if message is None:
    made(tmp_path, table)
    return
  with one_line(message):
    made(tmp_path, table)


@pytest.mark.parametrize('table', [ALONE, NESTED, PAIRS])
def test_a_folder_learns_what_the_last_token_is(theirs, table):
  """Labels sit at the last piece of a token, whatever its spelling."""
  model = made(theirs[0], table)
  rng = np.random.default_rng(0)
  tokens = rng.integers(1, len(table) + 1, (1, 16, 6)).astype(np.int32)
  places = rng.integers(0, 6, (1, 16, 1))
  last = np.take_along_axis(tokens, places, 2)[..., None]
  shown = adapting.FewShotTasks(tokens, places, (last <= 2).astype(np.int64))
  asked = adapting.QueryPoints(tokens[:, ::2], places[:, ::2])
  before = model.log_probs(tokens[0], np.full(16, 6))
  config = adapting.FineTuneConfig(rate=0.03)
  outputs = model.adapt(shown, asked, adapting.Classes(2), (8,), 0, config)
  assert (outputs[0].argmax(-1) == shown.labels[:, ::2]).mean() > 0.8
  after = model.log_probs(tokens[0], np.full(16, 6))
  np.testing.assert_array_equal(before, after)
