"""Continuations by whole sequences are those of sessions, in fewer calls."""

import numpy as np
import pytest

from wm import core
from wm.core import accept as rules
from wm.core import registry
from wm.evaluation import engine, prefix_pairs
from wm.models import user
from wm.models.serving import user_objects

CITY = registry.make('world', 'maps(rows=4, columns=4, max_moves=12)')
LATTICE = registry.make('world', 'lattice(size=4, length=12)')


def table(world, seed=0, sharp=2.0):
  """[V, V, V] logits after two tokens: no function of the world's state."""
  size = len(world.vocab)
  return np.random.default_rng(seed).normal(0, sharp, (size, size, size))


class Counted:
  """Logits by the last two tokens, half of the time those of the rules."""

  def __init__(self, world, legal=0.0):
    self.table, self.world, self.calls = table(world), world, 0
    self.legal = legal

  def __call__(self, tokens):
    self.calls += 1
    before = np.pad(tokens, ((0, 0), (1, 0)))[:, :-1]
    logits = self.table[before, tokens] * (0.2 if self.legal else 1)
    if not self.legal:
      return logits
    states = self.world.init(len(tokens))
    for t in range(tokens.shape[1]):
      states = self.world.advance(states, tokens[:, t])
      logits[:, t] += self.legal * self.world.legal(states)
    return logits


def trials_of(world, function, **settings):
  reader = user_objects.FromCallable(
    function, vocab_size=len(world.vocab), end=world.end, max_len=world.max_len
  )
  metric = registry.make('metric', 'compression(trials=30)')
  drawn = prefix_pairs.draw(metric, reader, world, 0, two_states=False)
  return reader, drawn


@pytest.mark.parametrize('decide', [False, True])
@pytest.mark.parametrize('world', [CITY, LATTICE], ids=['maps', 'lattice'])
@pytest.mark.parametrize('legal', [0.0, 9.0])
def test_continuations_are_those_of_a_session(world, decide, legal):
  function = Counted(world, legal)
  reader, trials = trials_of(world, function)
  before = function.calls
  whole = engine.sample_and_check(trials, 8, decide=decide)
  calls = function.calls - before
  reader.by_sequence, before = False, function.calls
  stepped = engine.sample_and_check(trials, 8, decide=decide)
  for name in engine.Continuations._fields:
    np.testing.assert_array_equal(getattr(whole, name), getattr(stepped, name))
  assert (whole.status == core.REFUSED).any() or legal
  if legal and world.end != core.DEAD:  # Guesses are right.
    assert calls < (function.calls - before) / 2


@pytest.mark.parametrize(
  'rule', ['epsilon(0.2)', 'top_k(2)', 'top_p(0.5)', 'epsilon(0.7)']
)
def test_any_rules_of_drawing_and_accepting(rule):
  for sampler in (rule, 'published(0.01)'):
    reader, trials = trials_of(CITY, Counted(CITY, 1.0))
    trials = type(trials)(
      reader,
      CITY,
      trials.prefixes,
      registry.make('accept', rule),
      registry.make('accept', sampler),
    )
    for limit in (0, 3):
      reader.by_sequence = True
      whole = engine.sample_and_check(trials, 5, limit=limit)
      reader.by_sequence = False
      stepped = engine.sample_and_check(trials, 5, limit=limit)
      for name in engine.Continuations._fields:
        pair = getattr(whole, name), getattr(stepped, name)
        np.testing.assert_array_equal(*pair)


def test_suffixes_are_forced_by_whole_sequences():
  reader, trials = trials_of(CITY, Counted(CITY, 1.0))
  rng = np.random.default_rng(0)
  size = len(trials.lengths)
  suffixes = rng.integers(1, 10, (size, 5, 4)).astype(np.int32)
  lengths = rng.integers(0, 5, (size, 5)).astype(np.int32)
  inputs = trials.tokens, trials.lengths, suffixes, lengths, rules.epsilon(0.05)
  whole = engine.teacher_force(reader, *inputs)
  reader.by_sequence = False
  np.testing.assert_array_equal(whole, engine.teacher_force(reader, *inputs))
  assert whole.max() > 0


def test_a_world_without_an_end_token_needs_a_session():
  world = registry.make('world', 'othello(size=4)')
  assert world.end == core.DEAD
  _, trials = trials_of(world, Counted(world))
  result = engine.sample_and_check(trials, 3)
  assert (result.status != 0).all()


def test_a_module_takes_more_rows_and_one_thread():
  torch = pytest.importorskip('torch')
  seen = []

  class Module(torch.nn.Module):
    def __init__(self):
      super().__init__()
      size = len(CITY.vocab)
      self.embed = torch.nn.Embedding(size, size)

    def forward(self, tokens):
      seen.append((len(tokens), torch.get_num_threads()))
      return self.embed(tokens)

  before = torch.get_num_threads()
  torch.set_num_threads(2)
  reader = user.checked_predictor(Module(), CITY, 'm')
  tokens = np.ones((300, 8), np.int32)
  reader.log_probs(tokens, np.full(300, 8))
  assert seen[-1] == (300, 1)
  assert torch.get_num_threads() == 2
  torch.set_num_threads(before)
  # The user's number of rows is kept.
  reader = user.checked_predictor(Module(), CITY, 'm', rows=4)
  reader.log_probs(tokens, np.full(300, 8))
  assert seen[-1][0] == 4
