"""Objects of a user's: activations, a cache, or nothing but yes and no."""

import numpy as np
import pytest

from tests import small
from wm import core
from wm.core import registry
from wm.models.serving import user_objects

WORLD = 'lattice(size=4, length=12)'

# An honest recurrence, h = tanh(h W + embedding), in all the forms.
SOURCE = '''
import numpy as np

rng = np.random.default_rng(0)
embed, turn, head = (
  rng.normal(size=size) for size in ((4, 8), (8, 8), (8, 4)))
calls = {'whole': 0, 'start': 0, 'step': 0, 'tokens': 0}


def whole(tokens):
  hidden, found = np.zeros((len(tokens), 8)), []
  for column in tokens.T:
    hidden = np.tanh(hidden @ turn / 3 + embed[column])
    found.append(hidden)
  return np.stack(found, 1)


class Stepping:
  def start(self, tokens, lengths):
    calls['start'] += 1
    every = whole(tokens)
    states = [row[n - 1] for row, n in zip(every, lengths)]
    return states, np.array(states) @ head

  def step(self, states, tokens):
    calls['step'] += 1
    calls['tokens'] += len(tokens)
    after = np.tanh(np.array(states) @ turn / 3 + embed[tokens])
    return list(after), after @ head


class Whole(Stepping):
  def __call__(self, tokens):
    calls['whole'] += 1
    return whole(tokens) @ head

  def hidden(self, tokens, layer):
    return whole(tokens) if layer == -1 else embed[tokens]


class Going(Whole):
  def patched(self, tokens, layer, hidden):
    if layer == -1:
      return hidden @ head
    before, found = np.zeros((len(tokens), 8)), []
    for t in range(tokens.shape[1]):
      before = np.tanh(before @ turn / 3 + hidden[:, t])
      found.append(before)
    return np.stack(found, 1) @ head


class Cut(Going):
  def patched(self, tokens, layer, hidden):
    return super().patched(tokens, layer, hidden)[..., 1:]


class Off(Whole):
  def step(self, states, tokens):
    return super().step(states, np.roll(tokens, 1))


class Even(Whole):
  """Right where all rows are as long as each other."""

  def start(self, tokens, lengths):
    states = list(whole(tokens)[:, -1])
    return states, np.array(states) @ head


class Still(Whole):
  """Right where all rows go on together."""

  def step(self, states, tokens):
    every, logits = super().step(states, tokens)
    return every, logits if len(tokens) == 16 else logits[::-1]


class Changing(Whole):
  def step(self, states, tokens):
    after, logits = super().step(states, tokens)
    states[0][:] = after[0]
    return after, logits


class Short(Whole):
  def step(self, states, tokens):
    after, logits = super().step(states, tokens)
    return after[1:], logits


class Flat(Whole):
  def hidden(self, tokens, layer):
    return whole(tokens)[:, 0]


class Says:
  """Anything but standing still twice."""

  def answers(self, prefixes, suffixes):
    whole = [(*p, *s) for p, s in zip(prefixes, suffixes)]
    return [int((2, 2) not in zip(one, one[1:])) for one in whole]


function = Whole().__call__
stepping, model, off, changing = Stepping(), Whole(), Off(), Changing()
short, flat, says, nothing = Short(), Flat(), Says(), object()
going, cut, even, still = Going(), Cut(), Even(), Still()
'''


@pytest.fixture(scope='module')
def file(tmp_path_factory):
  path = tmp_path_factory.mktemp('user') / 'mine.py'
  path.write_text(SOURCE)
  return path


def made(file, name: str) -> core.Predictor:
  spec = f'user(function="{file}:{name}", files=())'
  world = registry.resolve('world', WORLD)
  return registry.resolve('model', spec).predictor(world, 0)


def test_each_object_gets_the_class_that_fits(file):
  model = made(file, 'model')
  assert isinstance(model, user_objects.Cached)
  assert isinstance(model, core.HiddenStates)
  assert not isinstance(made(file, 'stepping'), core.HiddenStates)
  assert not isinstance(made(file, 'function'), user_objects.Cached)
  assert isinstance(made(file, 'says'), core.QueryModel)


def test_all_forms_of_a_model_say_the_same(file):
  world = registry.resolve('world', WORLD)
  sample = world.sample(6, 1)
  forms = [made(file, name) for name in ('function', 'stepping', 'model')]
  want = forms[0].log_probs(sample.tokens, sample.lengths)
  for form in forms[1:]:
    result = form.log_probs(sample.tokens, sample.lengths)
    np.testing.assert_allclose(result, want, atol=1e-5)
  for form in forms:
    session = form.session(
      sample.tokens[:, :4], np.array([4, 2, 4, 4, 3, 4]), 2
    )
    result = session.log_probs()
    np.testing.assert_allclose(result[1, 1], want[1, 1], atol=1e-5)
    session.advance(np.where([[1, 0]], sample.tokens[:, 4:5], -1))
    result = session.log_probs()
    np.testing.assert_allclose(result[0, 0], want[0, 4], atol=1e-5)
    np.testing.assert_allclose(result[0, 1], want[0, 3], atol=1e-5)
    session.restart(np.array([0]), sample.tokens[5:6], np.array([7]))
    result = session.log_probs()
    np.testing.assert_allclose(result[0, 1], want[5, 6], atol=1e-5)
    np.testing.assert_allclose(result[2, 0], want[2, 4], atol=1e-5)


def test_a_cache_reads_every_token_once(file):
  result = made(file, 'model')
  calls = result._object.step.__globals__['calls']
  before = dict(calls)
  sample = registry.resolve('world', WORLD).sample(3, 2)
  session = result.session(sample.tokens[:, :2], np.full(3, 2), 4)
  for t in range(2, 8):
    session.advance(np.repeat(sample.tokens[:, t : t + 1], 4, 1))
  after = {key: calls[key] - before[key] for key in calls}
  assert after == {'whole': 0, 'start': 1, 'step': 6, 'tokens': 6 * 3 * 4}


@pytest.mark.parametrize(
  ('name', 'message'),
  [
    ('off', r'after token \d+ a continuation .* gives a probability'),
    ('even', r'after token \d+ a continuation .* gives a probability'),
    ('still', r'after token \d+ a continuation .* gives a probability'),
    ('changing', 'must not change the state that it goes on from'),
    ('short', r'gave 15 states and logits of shape \(16, 4\) for 16 rows'),
    ('flat', r'expected floats \[rows'),
    ('nothing', 'of type object; expected a function of tokens, or an object'),
  ],
)
def test_faults_of_objects(file, name, message, one_line):
  with one_line(message):
    made(file, name)


def test_an_object_may_go_on_from_activations(file):
  going, world = made(file, 'going'), registry.resolve('world', WORLD)
  assert core.can(going, core.HiddenStates.patched)
  assert not core.can(made(file, 'model'), core.HiddenStates.patched)
  sample = world.sample(20, 1)
  want = going.log_probs(sample.tokens, sample.lengths)
  for layer in (-1, 0):
    hidden = going.hidden(sample.tokens, sample.lengths, layer)
    result = going.patched(sample.tokens, sample.lengths, layer, hidden)
    np.testing.assert_allclose(result, want, atol=1e-5)
    hidden[:, 5] += 1
    result = going.patched(sample.tokens, sample.lengths, layer, hidden)
    np.testing.assert_allclose(result[:, :5], want[:, :5], atol=1e-5)
    assert (abs(result - want)[:, 5] > 1e-3).any(-1).all()
  spec = f'user(function="{file}:going", files=())'
  entries = small.scored(spec, 'intervention(num=40, layers=(0, -1))', WORLD)
  assert entries[0]['n'] > 0
  with pytest.raises(core.InputError, match=r'patched gave logits of shape'):
    made(file, 'cut').patched(sample.tokens, sample.lengths, 0, hidden)


@pytest.mark.parametrize('spec', ['oracle()', 'uniform()'])
def test_what_cannot_be_patched_is_a_row_with_a_reason(spec):
  (entry,) = small.scored(spec, 'intervention(num=10)', WORLD)
  assert entry['unmeasured'] == {'needs_patched': 1}
