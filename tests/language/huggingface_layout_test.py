"""What is before a sequence for a folder of Hugging Face: as it was trained."""

import json

import numpy as np
import pytest

from tests import small
from wm.core import registry

torch = pytest.importorskip('torch', reason='the extra torch is not installed')
hub = pytest.importorskip('transformers')
tokenizers = pytest.importorskip('tokenizers')

WORLD = registry.make(
  'world', "maps(rows=3, columns=3, traversal='shortest', max_moves=8)"
)
WORDS = list(WORLD.vocab[1:])
PIECES = {
  '<s>': 0,
  '</s>': 1,
  '[UNK]': 2,
  **{w: n + 3 for n, w in enumerate(WORDS)},
}
BOS = (PIECES['<s>'],)


def folder_of(path, *, trained_after, adds_bos):
  """A small GPT-2, trained on sequences behind some ids, and its tokenizer."""
  torch.manual_seed(0)
  network = hub.GPT2LMHeadModel(
    hub.GPT2Config(
      vocab_size=len(PIECES), n_positions=40, n_embd=32, n_layer=1, n_head=2
    )
  )
  drawn = WORLD.sample(400, 1)
  ids = np.where(drawn.tokens > 0, drawn.tokens + 2, -100)
  before = np.broadcast_to(trained_after, (len(ids), len(trained_after)))
  labels = torch.as_tensor(np.concatenate([before, ids], 1).astype(np.int64))
  optimizer = torch.optim.AdamW(network.parameters(), 3e-3)
  for step in range(200):
    rows = labels[torch.arange(step * 50, step * 50 + 50) % len(labels)]
    network(rows.clamp(min=0), labels=rows).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
  network.save_pretrained(path)
  words = tokenizers.Tokenizer(
    tokenizers.models.WordLevel(PIECES, unk_token='[UNK]')
  )
  words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
  if adds_bos:
    words.post_processor = tokenizers.processors.TemplateProcessing(
      single='<s> $A </s>', special_tokens=[('<s>', 0), ('</s>', 1)]
    )
  hub.PreTrainedTokenizerFast(
    tokenizer_object=words, bos_token='<s>', eos_token='</s>'
  ).save_pretrained(path)
  table = {word: PIECES[word] for word in WORDS}
  (path / 'tokens.json').write_text(json.dumps(table))
  return path


@pytest.fixture(scope='module')
def folders(tmp_path_factory):
  place = tmp_path_factory.mktemp('folders')
  return {
    # A chat model's marker is in the tokenizer, and before no text.
    'bare': folder_of(place / 'bare', trained_after=(), adds_bos=False),
    'marked': folder_of(place / 'marked', trained_after=BOS, adds_bos=True),
  }


def scored(folder, **fields):
  """Validity, and the caution on the layout."""
  more = ''.join(f', {key}={value!r}' for key, value in fields.items())
  tokens = folder / 'tokens.json'
  spec = f'huggingface(path={str(folder)!r}, tokens={str(tokens)!r}{more})'
  entries = small.scored(
    spec, ['excess_loss(num=50)', 'next_token(num=50)'], WORLD
  )
  cautions = {c for e in entries for c in e['cautions'] if 'nats a token' in c}
  return {e['quantity']: e['value'] for e in entries}, cautions


def test_the_tokenizer_says_what_is_before_a_text(folders):
  for name, best in (('bare', 'none'), ('marked', 'bos')):
    values, cautions = scored(folders[name])
    assert not cautions
    assert values == scored(folders[name], before=best)[0]
    assert (
      values == scored(folders[name], before=BOS if best == 'bos' else ())[0]
    )


@pytest.mark.parametrize(
  ('name', 'before', 'better'),
  [
    ('bare', 'bos', 'before=()'),
    ('bare', (0, 0), 'before=()'),
    ('marked', 'none', f'before={BOS}'),
  ],
)
def test_another_layout_than_the_trained_one_is_a_caution(
  folders, name, before, better
):
  right, _ = scored(folders[name])
  values, (caution,) = scored(folders[name], before=before)
  assert caution.endswith(f'give {better}')
  assert values['excess_loss'] > right['excess_loss']


def test_a_text_is_behind_what_the_tokenizer_adds(folders):
  text = f'{WORDS[0]} {WORDS[1]}'
  ids = (*BOS, PIECES[WORDS[0]], PIECES[WORDS[1]])
  named = scored(folders['marked'], before=text)[0]
  assert named == scored(folders['marked'], before=ids)[0]


def test_the_file_of_tokens_may_name_what_is_before(folders):
  path = folders['bare'] / 'tokens.json'
  table = json.loads(path.read_text())
  path.write_text(json.dumps(table | {'<bos>': BOS[0]}))
  values, cautions = scored(folders['bare'])
  path.write_text(json.dumps(table))
  assert values == scored(folders['bare'], before='bos')[0]
  assert cautions


def test_ids_before_a_text_are_checked(folders, one_line):
  for before in ((99,), (-1,), (1.5,)):
    with one_line():
      scored(folders['bare'], before=before)
