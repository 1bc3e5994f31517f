"""A user's model is refused where it is none, and never where it is one."""

import functools

import numpy as np
import pytest

from tests import tiny
from wm import core
from wm.core import registry
from wm.models import user
from wm.models.serving import user_objects

MAPS = "maps(rows=4, columns=4, traversal='random')"
WORLDS = {'tiny': tiny.World(), 'maps': registry.resolve('world', MAPS)}


@pytest.fixture(params=WORLDS)
def world(request):
  return WORLDS[request.param]


@functools.cache
def parts(size, seed=0):
  """Weights of a small recurrence, [V, D], [D, D], [D, V]."""
  rng = np.random.default_rng(seed)
  return (
    rng.normal(size=(size, 24)),
    rng.normal(size=(24, 24)) / 6,
    rng.normal(size=(24, size)),
  )


def recurrence(size):
  """An honest model: h = tanh(h W + embedding), logits h V."""
  embed, step, head = parts(size)

  def logits(tokens):
    hidden, result = np.zeros((len(tokens), 24)), []
    for t in range(tokens.shape[1]):
      hidden = np.tanh(hidden @ step + embed[tokens[:, t]])
      result.append(hidden @ head)
    return np.stack(result, axis=1).astype(np.float32)

  return logits


def counts(world):
  """An honest model that knows something: bigrams of the world's sequences."""
  size = len(world.vocab)
  table = np.full((size, size), 0.01)
  sequences = world.sample(300, 7)
  for row, length in zip(sequences.tokens, sequences.lengths, strict=True):
    np.add.at(table, (row[: length - 1], row[1:length]), 1)
  return np.log(table / table.sum(1, keepdims=True))


def check(world, logits, **more):
  size, length = len(world.vocab), more.pop('max_len', world.max_len)
  predictor = user_objects.FromCallable(
    logits,
    vocab_size=size,
    end=world.end,
    max_len=length,
    rows=more.pop('rows', 16),
    label='m.py:f',
  )
  user.check(predictor, world, 'm.py:f', **more)


def refused(world, logits, message, **more):
  with pytest.raises(core.InputError, match=message) as caught:
    check(world, logits, **more)
  text = str(caught.value)
  assert 'm.py:f' in text
  assert '\n' not in text


# Faults. Each is a small change of the honest recurrence.


def ahead(size, share=0.01):
  honest = recurrence(size)

  def logits(tokens):  # The next token too, a little.
    result = honest(tokens)
    result[:, :-1] += share * np.eye(size)[tokens[:, 1:]]
    return result

  return logits


def far_ahead(size):
  honest = recurrence(size)

  def logits(tokens):  # The last token of the row, wherever it is.
    last = np.maximum((tokens > 0).sum(1) - 1, 0)
    lines = np.eye(size)[tokens[np.arange(len(tokens)), last]]
    return honest(tokens) + 0.1 * lines[:, None]

  return logits


def test_later_tokens(world):
  message = r'later token changes .* after token \d+ of \d+ by [\d.e-]+ nats'
  for fault in (ahead, far_ahead):
    refused(world, fault(len(world.vocab)), message)


def test_other_rows(world):
  honest = recurrence(len(world.vocab))

  def batch_norm(tokens):
    result = honest(tokens)
    return result - 0.01 * result * result.mean(0)

  refused(world, batch_norm, 'another batch around its row changes')
  check(world, lambda tokens: honest(tokens[:1]), rows=1)
  refused(
    world,
    lambda tokens: honest(np.roll(tokens, 1, axis=0)),
    'another batch around its row',
    rows=3,
  )


def test_padding(world):
  honest = recurrence(len(world.vocab))

  def by_token(tokens):  # Sees where the sequence ends.
    return honest(tokens) * (1 + 0.01 * (tokens == 0).sum(1)[:, None, None])

  def by_length(tokens):
    return honest(tokens) * (1 + 0.001 * tokens.shape[1])

  refused(world, by_token, 'another padding token|another batch')
  if world.max_len > 16:
    refused(world, by_length, r'padding to \d+ tokens, not 16, changes')
  else:
    check(world, by_length)  # All inputs have one length.


def test_padding_that_shows_at_the_end_only(world):
  honest = recurrence(len(world.vocab))

  def logits(tokens):
    result = honest(tokens)
    result[:, :-1] *= 1 + 0.1 * (tokens[:, 1:] == 0)[..., None]
    return result

  refused(world, logits, 'another padding token')


def test_repeated_calls(world):
  honest, rng = recurrence(len(world.vocab)), np.random.default_rng(0)

  def dropout(tokens):
    result = honest(tokens)
    return result * (rng.random(result.shape) > 0.1)

  refused(world, dropout, 'calling it again changes .*dropout')


WRONG = 'logits at position t must be of token t . 1'


def test_logits_of_what_was_read():
  world = WORLDS['maps']
  table, size = counts(world), len(world.vocab)

  def unshifted(tokens):  # Trained to say what it reads.
    return table[tokens] + 12 * np.eye(size)[tokens]

  refused(world, unshifted, f'token just read a probability of .*{WRONG}')
  check(world, unshifted, copies=True)


def test_logits_of_one_token_before(world):
  """In the tiny world moves are too much alike: no evidence, no refusal."""
  table = counts(world)

  def rolled(tokens):
    return np.insert(table[tokens[:, :-1]], 0, 0, axis=1)

  if world is WORLDS['maps']:
    refused(world, rolled, f'does not depend on token t, .*{WRONG}')
    refused(world, lambda t: np.roll(table[t], 1, axis=1), 'later token')
  else:
    check(world, rolled)


# Honest models.


def uniform(world):
  return lambda tokens: np.zeros((*tokens.shape, len(world.vocab)))


def by_place(world):
  """Knows nothing of tokens, and how likely each is at each place."""
  size = len(world.vocab)
  return lambda tokens: np.broadcast_to(
    np.linspace(-3, 3, size) + np.arange(tokens.shape[1])[:, None] % 3,
    (*tokens.shape, size),
  )


def often(world):
  """Knows how often each token comes; nothing of those before."""
  sequences = world.sample(300, 7)
  seen = np.bincount(sequences.tokens.ravel(), minlength=len(world.vocab))
  return lambda tokens: np.broadcast_to(
    np.log(seen + 0.1), (*tokens.shape, len(world.vocab))
  )


def repeats(world):
  """The example's, which says the last token again half of the time."""
  size = len(world.vocab)
  probs = 0.5 * np.eye(size) + 0.5 / size
  return lambda tokens: np.log(probs)[tokens]


def bigrams(world):
  table = counts(world)
  return lambda tokens: table[tokens]


def rnn(world):
  return recurrence(len(world.vocab))


def tied(world):
  """Untrained, its outputs the embedding: it favours what it has just read."""
  embed = parts(len(world.vocab))[0] * 0.2
  return lambda tokens: embed[tokens] @ embed.T


def before_last(world):
  """Predicts the next token from the one before the last only."""
  table = counts(world)

  def logits(tokens):
    read = np.concatenate([tokens[:, :1], tokens[:, :-1]], axis=1)
    return np.log(np.exp(table) @ np.exp(table))[read]

  return logits


def impossible(world):
  """-inf for what it excludes, and a number for masks that large."""
  table = counts(world)
  table[table < np.log(0.02)] = -np.inf
  table[:, 0] = -1e9
  table[:, -1] = 0
  return lambda tokens: table[tokens] + 1000


HONEST = (
  *(uniform, by_place, often, repeats, bigrams, rnn, tied, before_last),
  impossible,
)


@pytest.mark.parametrize('make', HONEST)
@pytest.mark.parametrize('name', WORLDS)
def test_honest_models_pass(make, name):
  check(WORLDS[name], make(WORLDS[name]))
  check(WORLDS[name], make(WORLDS[name]), max_len=5, rows=5)


def noisy(world, size=0.02):
  """Rounded otherwise for every shape, as by matrix products of 8 bits."""
  honest = rnn(world)

  def logits(tokens):
    result = honest(tokens)
    noise = np.random.default_rng(tokens.shape[1]).random(result.shape[1:])
    return result * (1 + size * (noise - 0.5))

  return logits


def test_low_precision():
  import ml_dtypes  # Comes with JAX.

  world = WORLDS['maps']
  refused(world, noisy(world), 'expected at most .*tolerance')
  check(world, noisy(world), tolerance=0.1)

  def narrow(tokens):
    return noisy(world)(tokens).astype(ml_dtypes.bfloat16)

  check(world, narrow)
  seer = ahead(len(world.vocab), 1.0)  # Sees all of the next token.
  refused(world, lambda t: seer(t).astype(np.float16), 'later token')


@pytest.mark.parametrize('shorter', [5, 0])
def test_nothing_is_asked_beyond_what_model_and_world_have(world, shorter):
  """A longer sequence could not be one of the world's, or of the model's."""
  asked = []
  predictor = registry.resolve('model', 'uniform()').predictor(world, 0)
  log_probs = predictor.log_probs

  def noted(tokens, lengths):
    asked.append(int(np.max(lengths, initial=0)))
    return log_probs(tokens, lengths)

  predictor.log_probs = noted
  predictor.max_len = world.max_len - shorter
  user.check(predictor, world, 'm')
  assert max(asked) <= predictor.max_len


def test_tolerance_is_a_number_above_zero():
  refused(tiny.World(), uniform(tiny.World()), 'tolerance=0', tolerance=0)


def test_checks_cost_a_few_calls(world):
  calls, honest = [], rnn(world)

  def logits(tokens):
    calls.append(tokens.shape)
    return honest(tokens)

  check(world, logits)
  assert len(calls) <= 16
  assert {rows for rows, _ in calls} == {16}
