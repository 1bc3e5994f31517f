"""What users bring is refused exactly where it breaks the contract."""

import dataclasses
import json

import numpy as np
import pytest

import wm
from tests import small, tiny
from wm import core
from wm.core import basics, registry

MAPS = registry.resolve('world', "maps(rows=4, columns=4, traversal='random')")
SIZE = len(MAPS.vocab)


def honest(tokens):
  """Bigrams of a table: causal, by row, the same each time."""
  table = np.random.default_rng(0).normal(size=(SIZE, SIZE))
  table[:, core.PAD] = -9
  return table[tokens]


def exact(tokens):
  """The log-probabilities of the oracle."""
  oracle = registry.make('model', 'oracle()').predictor(MAPS, 0)
  lengths = np.full(len(tokens), tokens.shape[1])
  return np.maximum(oracle.log_probs(np.maximum(tokens, 0), lengths), -50)


def refuses(thing, match, world=MAPS):
  with pytest.raises(core.InputError, match=match) as error:
    wm.check(thing, world)
  assert '\n' not in str(error.value)


def test_an_honest_model_passes():
  assert wm.check(honest, MAPS) == ('honest', ('logits',), ())


# Outputs that are no logits.


def shares(tokens):
  weights = np.exp(honest(tokens))
  return weights / weights.sum(-1, keepdims=True)


OUTPUTS = {
  'probabilities, which add up to 1': shares,
  'percent, which add up to 100': lambda t: 100 * shares(t),
  'numbers from 0 to 1, as sigmoids': lambda t: 1 / (1 + np.exp(-honest(t))),
  'one-hot rows': lambda t: np.eye(SIZE, dtype=int)[honest(t).argmax(-1)],
  'and marks of legal tokens': lambda t: (honest(t) > 0).astype(int),
  'a logit of .*e.40; expected less than': lambda t: (
    1e39 * (1 + honest(t) ** 2)
  ),
  'masked array .* -inf where': lambda t: np.ma.masked_less(honest(t), 0),
}


@pytest.mark.parametrize('what', OUTPUTS)
def test_outputs_that_are_no_logits(what):
  refuses(OUTPUTS[what], what)


def test_probabilities_behind_a_token_map_are_seen():
  """They add up to less than 1 over the world's tokens alone."""
  ids = {name: k + 7 for k, name in enumerate(MAPS.vocab)}

  def wide(tokens):
    weights = np.random.default_rng(0).random((SIZE + 20, SIZE + 20)) ** 4
    return (weights / weights.sum(-1, keepdims=True))[tokens]

  with pytest.raises(core.InputError, match='add up to 1'):
    wm.wrap(wide, MAPS, tokens=ids)
  loaded = wm.wrap(lambda t: np.log(wide(t)), MAPS, tokens=ids)
  (caution,) = loaded.predictor.contract.cautions()
  assert caution.startswith('puts 0.')
  assert 'tokens= does not list' in caution


def test_probability_of_padding_is_taken_out():
  def padded(tokens):
    logits = exact(tokens)
    logits[..., core.PAD] = 2
    return logits

  entries = small.scored(padded, 'next_token(num=50)', MAPS)
  values = {e['quantity']: e['value'] for e in entries}
  assert values['validity'] == values['exact_set'] == 1
  assert values['valid_mass'] == pytest.approx(1)
  assert entries[0]['cautions'][0].startswith('puts 0.')
  assert '<pad>' in entries[0]['cautions'][0]
  assert entries[0]['checked'] == 'logits'
  assert entries[0]['drift'] == 0


def test_equal_logits_are_the_uniform_model():
  metrics = ['next_token(num=40)', 'traversal(num=30)', 'compression(trials=9)']
  zeros = wm.score(lambda t: np.zeros((*t.shape, SIZE)), metrics, MAPS)
  uniform = wm.score('uniform()', metrics, MAPS)
  assert zeros.value.equals(uniform.value)


# Sizes.


def test_a_small_vocabulary_and_a_short_context_are_told_apart():
  table = np.random.default_rng(0).normal(size=(SIZE - 3, SIZE))
  places = np.zeros((9, SIZE))
  refuses(lambda t: table[t], f'up to {SIZE - 4}, and the world .* {SIZE - 1};')

  def short(tokens):
    return honest(tokens) + places[np.arange(tokens.shape[1])]

  refuses(short, rf'of up to 9 tokens, .* up to {MAPS.max_len}; .*max_len=9')
  wm.wrap(short, MAPS, max_len=9)


def test_a_class_is_no_object(tmp_path):
  file = tmp_path / 'mine.py'
  file.write_text(
    'class Net:\n  def __call__(self, tokens):\n    return tokens'
  )
  refuses(f'user(function="{file}:Net", files=())', "Net' is a class; .* Net")


# Activations.


class Net:
  """A honest model with activations."""

  def __call__(self, tokens):
    return honest(tokens)

  def hidden(self, tokens, layer):
    return np.eye(SIZE)[tokens].cumsum(1)


class Infinite(Net):
  def hidden(self, tokens, layer):
    return np.where(tokens[..., None] == 3, np.nan, super().hidden(tokens, 0))


class Mixed(Net):
  def hidden(self, tokens, layer):
    values = super().hidden(tokens, layer)
    return values - values.mean(0)


class Ahead(Net):
  def hidden(self, tokens, layer):
    values = super().hidden(tokens, layer)
    return np.concatenate([values[:, 1:], values[:, :1]], 1)


class Dropout(Net):
  rng = np.random.default_rng(0)

  def hidden(self, tokens, layer):
    values = super().hidden(tokens, layer)
    return values * (self.rng.random(values.shape) > 0.1)


class Layers(Net):
  """The last layer is honest, and the first is not."""

  def hidden(self, tokens, layer):
    values = super().hidden(tokens, layer)
    return values if layer == -1 else values - values.mean(0)


ACTIVATIONS = {
  'layer -1 of hidden gave NaN or infinity': Infinite,
  'another batch .* changes the activation of layer -1': Mixed,
  'another later token changes the activation of layer -1': Ahead,
  'again changes the activation of layer -1 .* dropout': Dropout,
}


@pytest.mark.parametrize('what', ACTIVATIONS)
def test_activations_are_checked_as_logits_are(what):
  refuses(ACTIVATIONS[what](), what)


def test_a_layer_is_checked_when_it_is_read():
  assert wm.check(Net(), MAPS).passed == ('logits', 'activations')
  loaded = wm.wrap(Layers(), MAPS)
  with pytest.raises(core.InputError, match='layer 0'):
    wm.score(loaded, 'probe(num=20, layers=(0,))')


class Going(Net):
  """Goes on from its activations, which are counts."""

  def __call__(self, tokens):
    return self.patched(tokens, -1, self.hidden(tokens, -1))

  def patched(self, tokens, layer, hidden):
    return np.tanh(hidden @ np.random.default_rng(1).normal(size=(SIZE, SIZE)))


class Deaf(Going):
  def patched(self, tokens, layer, hidden):
    return super().patched(tokens, layer, self.hidden(tokens, layer))


class Other(Going):
  def __call__(self, tokens):
    return -super().__call__(tokens)


def test_patched_goes_on_from_what_it_is_given():
  wm.check(Going(), MAPS)
  refuses(Deaf(), 'same logits whatever activations')
  refuses(Other(), 'that hidden gave changes a probability by')


# Answers, and drift.


class Says:
  """Yes to all sequences without a repeated token."""

  def answers(self, prefixes, suffixes):
    both = [(*p, *s) for p, s in zip(prefixes, suffixes, strict=True)]
    return [int((np.diff(row) != 0).all()) for row in both]


class InOrder(Says):
  def answers(self, prefixes, suffixes):
    return [k % 2 for k in range(len(prefixes))]


def test_answers_depend_on_their_question_only():
  assert wm.check(Says(), MAPS).passed == ('answers',)
  refuses(InOrder(), 'asked again in another order, it gives')


def counting(last):
  """A model that is honest for so many calls."""
  calls = []

  def logits(tokens):
    calls.append(1)
    return honest(tokens) * (1 if len(calls) <= last else -1)

  return logits


def test_a_model_that_counts_its_calls():
  refuses(counting(30), 'changes the prediction')
  with pytest.raises(core.InputError, match='now answers otherwise than it di'):
    wm.score(counting(60), 'next_token(num=300)', MAPS)
  (entry, *_) = small.scored(honest, 'next_token(num=300)', MAPS)
  assert entry['drift'] == 0


# Worlds.


@dataclasses.dataclass(frozen=True)
class Good(tiny.World):
  """The tests' world, which is not wm's own."""


class Late(Good):
  """A token is illegal a step before advance says so."""

  def legal(self, states):
    legal = super().legal(states)
    legal[:, -1] = False
    return legal


class Batched(Good):
  """Legal tokens depend on the batch."""

  def legal(self, states):
    return super().legal(states) & (np.arange(len(states)) < 3)[:, None]


class Lists(Good):
  def sample(self, num, seed, split='all'):
    sequences = super().sample(num, seed, split)
    return dataclasses.replace(sequences, tokens=sequences.tokens.tolist())


class Fickle(Good):
  def sample(self, num, seed, split='all'):
    return super().sample(num, np.random.default_rng().integers(99), split)


class Long(Good):
  def sample(self, num, seed, split='all'):
    sequences = super().sample(num, seed, split)
    return dataclasses.replace(sequences, lengths=sequences.lengths + 9)


class Alike(Good):
  """All states have one id."""

  def state_id(self, states):
    return np.minimum(super().state_id(states), 0)


WORLDS = {
  'is illegal|legal says that token': Late,
  'in another batch': Batched,
  'of type list; expected an array of int32': Lists,
  'when called again': Fickle,
  'gives lengths from': Long,
  'state_id is the same for two states': Alike,
}


class Unlikely(core.SequenceProcess):
  """Gives less than all probability to the legal tokens of a world."""

  def __init__(self, world, share):
    self.world, self.share = world, share

  def init(self, batch):
    return self.world.init(batch)

  def advance(self, memory, tokens):
    return self.world.advance(memory, tokens)

  def next(self, memory):
    legal = self.world.legal(memory)
    tokens = basics.listed(legal)
    odds = self.share / np.maximum(legal.sum(1), 1)[:, None]
    return tokens, np.log(np.where(tokens >= 0, odds, 1e-300))


class Sampled(Good, core.Generative):
  share = 1.0

  def data_distribution(self):
    return Unlikely(self, self.share)


class Short(Sampled):
  share = 0.9


def test_the_law_of_a_world_adds_up():
  assert 'sample' in wm.check(Sampled()).passed
  with pytest.raises(core.InputError, match='add up to 0'):
    wm.check(Short())


def test_a_good_world_passes():
  assert 'oracle' in wm.check(Good()).passed


@pytest.mark.parametrize('what', WORLDS)
def test_broken_worlds(what, one_line):
  with one_line(what):
    wm.check(WORLDS[what]())
  with pytest.raises(core.InputError, match=what):
    wm.score('oracle()', 'next_token(num=9)', WORLDS[what]())


# What goes into the files.


def test_pieces_of_a_score_stay_together(tmp_path):
  for metric in ('next_token(num=20)', 'traversal(num=20)'):
    wm.score(honest, metric, MAPS, out=tmp_path)
  held = json.loads((tmp_path / 'scores.json').read_text())
  assert {e['metric'] for e in held} == {'next_token', 'traversal'}
  # Another model of this name takes its place.

  def other(tokens):
    return honest(tokens)[..., ::-1]

  other.__name__ = 'honest'
  wm.score(other, 'next_token(num=20)', MAPS, out=tmp_path)
  held = json.loads((tmp_path / 'scores.json').read_text())
  assert {e['metric'] for e in held} == {'next_token'}


def test_changed_scores_are_refused(tmp_path):
  wm.score(honest, 'next_token(num=20)', MAPS, out=tmp_path)
  path = tmp_path / 'scores.json'
  held = json.loads(path.read_text())
  for change, match in (
    ({'value': 5.0, 'low': 4.0, 'high': 6.0}, 'outside its bounds, 0.0 to 1.0'),
    ({'low': 0.9, 'high': 0.1}, 'low=0.9 is above high=0.1'),
    (
      {'value': 0.123},
      'has value 0.123 of next_token: validity, and its trials',
    ),
  ):
    path.write_text(json.dumps([{**held[0], **change}, *held[1:]]))
    with pytest.raises(core.InputError, match=match):
      wm.report(tmp_path)


def test_sums_are_cut_to_their_bounds():
  entries = small.scored(
    "adversary(kind='peaked')", 'next_token(num=400)', MAPS
  )
  assert all(0 <= entry['value'] <= 1 for entry in entries)
  (mass,) = (e for e in entries if e['quantity'] == 'valid_mass')
  assert mass['low'] > 0.5


def test_a_status_stands_in_every_entry(tmp_path):
  entries = small.scored(honest, ['next_token(num=9)', 'probe(num=9)'], MAPS)
  assert {e['status'] for e in entries if e['metric'] == 'probe'} == {
    'nothing measured'
  }
  assert {e['status'] for e in entries if e['metric'] != 'probe'} == {
    'finished'
  }


class Raises(Good):
  def legal(self, states):
    raise KeyError('no such place')


def test_what_a_world_raises_is_one_line():
  with pytest.raises(core.InputError, match=r'KeyError: .*no such place'):
    wm.check(Raises())
