"""Imported GPT-2 weights give the logits of the class they come from."""

import dataclasses
import zipfile

import numpy as np
import pytest

from tests import tiny
from wm import core
from wm.core import registry
from wm.models import transformer
from wm.models.nn import network
from wm.models.serving import networks
from wm.runtime import files
from wm.training import checkpoints, import_checkpoint

torch = pytest.importorskip('torch', reason='the extra torch is not installed')

V, CONTEXT = 8, 24


def peer(**fields):
  """A small GPT-2 with large random weights, which show small mistakes."""
  hub = pytest.importorskip(
    'transformers', reason='transformers is not installed'
  )
  torch.manual_seed(0)
  config = hub.GPT2Config(
    vocab_size=V,
    n_positions=CONTEXT,
    n_embd=96,
    n_layer=3,
    n_head=4,
    **fields,
  )
  result = hub.GPT2LMHeadModel(config).eval()
  with torch.no_grad():
    for parameter in result.parameters():
      parameter.copy_(0.5 * torch.randn_like(parameter))
  return result


@pytest.mark.parametrize('tied', [True, False])
def test_logits_are_those_of_the_peer(tied, tmp_path):
  theirs = peer(tie_word_embeddings=tied)
  path = tmp_path / 'state.pt'
  torch.save(theirs.state_dict(), path)
  checkpoint = import_checkpoint.read(path)
  model = checkpoint.model(CONTEXT)
  assert model == transformer.Model(
    layers=3, width=96, context=CONTEXT, tied=tied
  )
  model = dataclasses.replace(model, heads=4)
  shape = network.NetworkSpec(model, V, CONTEXT)
  params = import_checkpoint.params(checkpoint, shape, np.arange(V))
  tokens = np.random.default_rng(0).integers(0, V, (5, CONTEXT))
  with torch.no_grad():
    want = theirs(torch.from_numpy(tokens)).logits
    want = torch.log_softmax(want, -1).numpy()
  ours = networks.NetworkPredictor(model, params, V, 1, CONTEXT)
  result = ours.log_probs(tokens.astype(np.int32), np.full(5, CONTEXT))
  assert np.ptp(want) > 5
  np.testing.assert_allclose(result, want, atol=1e-4)


def test_the_published_files_words_are_put_in_our_order(tmp_path):
  theirs = peer()
  world = tiny.World()
  words = ['<pad>', *sorted(world.vocab[1:], reverse=True)]
  # As Lightning writes it: under 'state_dict', names led by 'model.'.
  state = {f'model.{k}': v for k, v in theirs.state_dict().items()}
  state['model.transformer.h.0.attn.masked_bias'] = torch.tensor(-1e4)
  path = tmp_path / 'model.ckpt'
  torch.save({'state_dict': state, 'epoch': 3}, path)
  checkpoint = import_checkpoint.read(path)
  ids = import_checkpoint.order(world.vocab, checkpoint.layout.words(world))
  assert [words[place] for place in ids] == list(world.vocab)
  model = dataclasses.replace(checkpoint.model(CONTEXT), heads=4)
  shape = network.NetworkSpec(model, V, CONTEXT)
  params = import_checkpoint.params(checkpoint, shape, ids)
  ours = networks.NetworkPredictor(model, params, V, 1, CONTEXT)
  tokens = world.sample(6, 0)
  result = ours.log_probs(tokens.tokens, tokens.lengths)
  with torch.no_grad():
    want = theirs(torch.from_numpy(ids[tokens.tokens])).logits
    want = torch.log_softmax(want, -1).numpy()[..., ids]
  for row, length in enumerate(tokens.lengths):
    np.testing.assert_allclose(
      result[row, :length], want[row, :length], atol=1e-4
    )


def test_an_import_is_a_run_that_can_be_restored(tmp_path):
  world = registry.make('world', 'lattice(size=4)')
  size = len(world.vocab)
  model = transformer.Model(layers=1, width=32, heads=2, context=world.max_len)
  shape = network.NetworkSpec(model, size, world.max_len)
  table = torch.randn(size, 32)
  state = {
    'wte.weight': table,
    'wpe.weight': torch.randn(world.max_len, 32),
    'lm_head.weight': table,
  }
  for path in network_paths(shape):
    state.setdefault(path[0], torch.randn(path[1]))
  torch.save(state, tmp_path / 'state.pt')
  words = tmp_path / 'words.txt'
  words.write_text('\n'.join(world.vocab))
  summary = import_checkpoint.import_gpt2(
    tmp_path / 'state.pt',
    'lattice(size=4)',
    tmp_path / 'run',
    model=f'transformer(layers=1, width=32, heads=2, context={world.max_len})',
    vocab=words,
  )
  assert summary['parameters'] == shape.num_params
  result, info = checkpoints.load(tmp_path / 'run')
  assert info['step'] == 0
  checkpoint = import_checkpoint.read(tmp_path / 'state.pt')
  params = import_checkpoint.params(checkpoint, shape, np.arange(size))
  want = networks.NetworkPredictor(
    model, params, size, world.end, world.max_len
  )
  rows = world.sample(4, 0)
  np.testing.assert_array_equal(
    result.log_probs(rows.tokens, rows.lengths),
    want.log_probs(rows.tokens, rows.lengths),
  )
  with pytest.raises(core.InputError, match='another train run'):
    files.claim(tmp_path / 'run', 'train', {'model': 'ngram()'})


def network_paths(
  shape: network.NetworkSpec,
) -> list[tuple[str, tuple[int, ...]]]:
  """Their names and shapes of a network's weights, by our own table."""
  from flax import nnx

  source = import_checkpoint.LAYOUTS[0].source
  return [
    (source(path)[1][0], leaf.shape)
    for path, leaf in nnx.to_flat_state(shape.abstract)
  ]


class Thing:
  """Something that is no weight."""


def test_objects_are_never_loaded(tmp_path):
  path = tmp_path / 'model.ckpt'
  torch.save({'state_dict': {}, 'hyper_parameters': Thing()}, path)
  with pytest.raises(core.InputError, match='holds more than weights'):
    import_checkpoint.read(path)


def test_files_that_are_no_checkpoint(tmp_path):
  with pytest.raises(core.InputError, match='no such file'):
    import_checkpoint.read(tmp_path / 'none.pt')
  text = tmp_path / 'text.pt'
  text.write_text('no weights here')
  with pytest.raises(core.InputError, match='is no PyTorch file'):
    import_checkpoint.read(text)
  archive = tmp_path / 'other.pt'
  with zipfile.ZipFile(archive, 'w') as file:
    file.writestr('a', 'b')
  with pytest.raises(core.InputError, match='is not a PyTorch file'):
    import_checkpoint.read(archive)
  other = tmp_path / 'list.pt'
  torch.save([1, 2], other)
  with pytest.raises(core.InputError, match='no state dict'):
    import_checkpoint.read(other)
  torch.save({'conv.weight': torch.zeros(2)}, other)
  with pytest.raises(core.InputError, match='is of no layout'):
    import_checkpoint.read(other)


def test_a_model_that_does_not_fit_is_named():
  model = transformer.Model(layers=1, width=32, heads=2, context=10)
  shape = network.NetworkSpec(model, V, 10)
  layout = import_checkpoint.LAYOUTS[0]
  arrays = {
    name: np.zeros(size, np.float32) for name, size in network_paths(shape)
  }
  ids = np.arange(V)

  def convert(shape, ids=ids, **more):
    weights = import_checkpoint.Weights(arrays | more)
    checkpoint = import_checkpoint.Checkpoint(layout, weights, {})
    return import_checkpoint.params(checkpoint, shape, ids)

  convert(shape)
  deep = network.NetworkSpec(dataclasses.replace(model, layers=2), V, 10)
  with pytest.raises(core.InputError, match=r'lacks h\.1\.'):
    convert(deep)
  with pytest.raises(core.InputError, match='has no place for h'):
    convert(shape, **{'h.1.x': np.zeros(1)})
  wide = network.NetworkSpec(dataclasses.replace(model, width=64), V, 10)
  with pytest.raises(core.InputError, match='takes'):
    convert(wide)
  odd = dataclasses.replace(model, mlp='swiglu', ratio=4)
  with pytest.raises(
    core.InputError, match=r'nothing for blocks\.0\.mlp\.gate'
  ):
    convert(network.NetworkSpec(odd, V, 10))
  shape = network.NetworkSpec(model, 9, 10)
  with pytest.raises(core.InputError, match='the checkpoint has 8'):
    convert(shape, np.arange(9))
  with pytest.raises(core.InputError, match="such as 'z'"):
    import_checkpoint.order(['<pad>', 'z'], ['<pad>', 'a'])
