"""The engine: same results for any batch, decided trials are dropped."""

import numpy as np
import pytest

from tests import plain, tiny
from tests.metrics import hand
from wm import core
from wm.core import accept as rules
from wm.evaluation import context, engine, prefix_pairs
from wm.models.serving import oracles
from wm.runtime import progress

WORLD = tiny.World()
NOISY = oracles.NoisyOracle(WORLD, illegal=0.1, wrong=0.3, by='prefix', seed=3)
ACCEPT = rules.epsilon(0.05)


def _pairs(num=23, seed=0):
  states = WORLD.sample_states(num, seed)
  return prefix_pairs.prefix_pairs(
    WORLD, states, states, seed=seed, attempts=20
  )


def _trials(predictor=NOISY, pairs=None, accept=ACCEPT, sampler=None):
  pairs = _pairs() if pairs is None else pairs
  rules = accept, sampler or accept
  return context.Trials(predictor, WORLD, pairs, *rules, seed=7)


def _sampled(predictor=NOISY, num=8, limit=0, decide=False, **fields):
  trials = _trials(predictor, **fields)
  return engine.sample_and_check(trials, num, limit=limit, decide=decide)


@pytest.mark.parametrize('batch', [1, 2, 7, 100])
@pytest.mark.parametrize('decide', [False, True])
def test_batch_size_does_not_matter(batch, decide, monkeypatch):
  first = _sampled(decide=decide)
  monkeypatch.setattr(engine, 'BATCH', batch)
  other = _sampled(decide=decide)
  for name in engine.Continuations._fields:
    np.testing.assert_array_equal(getattr(first, name), getattr(other, name))


def test_agrees_with_plain_sampling_where_nothing_is_refused():
  pairs = _pairs()
  twice = pairs._replace(
    tokens=np.repeat(pairs.tokens[:, :1], 2, axis=1),
    lengths=np.repeat(pairs.lengths[:, :1], 2, axis=1),
  )
  trials = _trials(pairs=twice)
  result = engine.sample_and_check(trials, 6)
  whole = core.sample(
    NOISY,
    twice.tokens[:, 0],
    twice.lengths[:, 0],
    num=6,
    max_len=12,
    seeds=trials.keys(context.SAMPLES),
    accept=ACCEPT,
  )
  np.testing.assert_array_equal(result.tokens, whole.tokens)
  np.testing.assert_array_equal(result.lengths, whole.lengths)
  np.testing.assert_array_equal(result.status, whole.status)


def test_refusals_agree_with_teacher_forcing():
  pairs, result = _pairs(), _sampled()
  for side in range(2):
    steps = plain.accepted_steps(
      NOISY,
      pairs.tokens[:, side],
      pairs.lengths[:, side],
      result.tokens,
      result.lengths,
      ACCEPT,
    )
    refused = (result.status == core.REFUSED) & (side == 1)
    np.testing.assert_array_equal(steps, result.lengths - refused)
  assert (result.status == core.REFUSED).any()
  assert (result.status != 0).all()


def test_fewer_samples_are_the_first_of_more():
  few, many = _sampled(num=3), _sampled(num=8)
  np.testing.assert_array_equal(few.tokens, many.tokens[:, :3])
  np.testing.assert_array_equal(few.status, many.status[:, :3])


def test_limits():
  result = _sampled(limit=2)
  assert result.lengths.max() == 2
  whole = _sampled()
  np.testing.assert_array_equal(result.tokens, whole.tokens[..., :2])
  short = _sampled(hand.Ruled(hand.split, max_len=4))
  room = 4 - _pairs().lengths.max(1)
  assert (short.lengths <= np.maximum(room, 0)[:, None]).all()
  assert (short.status[room <= 0] == core.CAPPED).all()


class _Counting(core.Predictor):
  """Counts what its sessions are asked for."""

  def __init__(self, inner):
    self.inner, self.steps, self.restarts = inner, 0, 0
    self.vocab_size, self.end = inner.vocab_size, inner.end
    self.max_len = inner.max_len

  def log_probs(self, tokens, lengths):
    return self.inner.log_probs(tokens, lengths)

  def session(self, prefixes, lengths, num):
    session = self.inner.session(prefixes, lengths, num)
    advance, restart = session.advance, session.restart

    def counted(tokens):
      self.steps += 1
      advance(tokens)

    def restarted(rows, prefixes, lengths):
      self.restarts += len(rows)
      restart(rows, prefixes, lengths)

    session.advance, session.restart = counted, restarted
    return session


def test_decided_trials_are_dropped_and_decide_the_same(monkeypatch):
  monkeypatch.setattr(engine, 'BATCH', 4)
  whole, early = _Counting(NOISY), _Counting(NOISY)
  full = _sampled(whole)
  quick = _sampled(early, decide=True)
  assert early.steps < whole.steps / 2
  assert whole.restarts == early.restarts == 2 * (23 - 4)
  np.testing.assert_array_equal(
    (full.status == core.REFUSED).any(1), (quick.status == core.REFUSED).any(1)
  )


def test_vacuous_is_told_apart():
  assert _sampled(accept=rules.epsilon(0.99)).vacuous.any()
  nothing = _sampled(oracles.Uniform(8, 1, 12), accept=rules.epsilon(0.5))
  assert nothing.vacuous.all()
  assert (nothing.status == core.STUCK).all()
  assert not _sampled(oracles.Oracle(WORLD)).vacuous.any()


def test_published_sampler_goes_on_where_nothing_is_accepted():
  result = _sampled(
    oracles.Uniform(8, 1, 12),
    accept=rules.epsilon(0.5),
    sampler=rules.published(0.01),
  )
  assert result.vacuous.all()
  assert (result.status == core.REFUSED).all()


@pytest.mark.parametrize('batch', [1, 3, 50])
def test_forced_agrees_with_one_by_one(batch, monkeypatch):
  monkeypatch.setattr(engine, 'BATCH', batch)
  pairs = _pairs(11)
  rng = np.random.default_rng(0)
  suffixes = rng.integers(1, 4, (11, 5, 4)).astype(np.int32)
  lengths = rng.integers(0, 5, (11, 5)).astype(np.int32)
  steps = engine.teacher_force(
    NOISY, pairs.tokens, pairs.lengths, suffixes, lengths, ACCEPT
  )
  one_by_one = [
    plain.accepted_steps(
      NOISY,
      pairs.tokens[:, side],
      pairs.lengths[:, side],
      suffixes,
      lengths,
      ACCEPT,
    )
    for side in range(2)
  ]
  np.testing.assert_array_equal(steps[:, 0], one_by_one[0])
  np.testing.assert_array_equal(steps[:, 1], np.minimum(*one_by_one))


def test_forced_without_suffixes():
  pairs = _pairs(4)
  empty = np.zeros((4, 3, 0), np.int32)
  steps = engine.teacher_force(
    NOISY, pairs.tokens, pairs.lengths, empty, np.zeros((4, 3), int), ACCEPT
  )
  assert not steps.any()


def test_no_trials():
  pairs = _pairs(3)
  none = engine.teacher_force(
    NOISY,
    pairs.tokens[:0],
    pairs.lengths[:0],
    np.zeros((0, 2, 1), np.int32),
    np.zeros((0, 2), np.int32),
    ACCEPT,
  )
  assert none.shape == (0, 2, 2)
  pairs.reason[:] = 'no_prefix'
  assert _sampled(pairs=pairs).tokens.shape == (0, 8, 0)


def test_only_trials_with_two_prefixes_are_run():
  whole, pairs = _sampled(), _pairs()
  pairs.reason[::3] = 'no_prefix'
  sample = _sampled(pairs=pairs)
  for name in engine.Continuations._fields:
    kept = getattr(whole, name)[pairs.reason == '']
    width = getattr(sample, name).shape[1:]
    np.testing.assert_array_equal(
      getattr(sample, name), kept[..., : width[-1]] if width else kept
    )


def test_progress_hears_of_every_trial(monkeypatch):
  heard = []
  monkeypatch.setattr(
    progress.Progress, 'reach', lambda self, *counts: heard.append(counts)
  )
  with progress.Progress('trials'):
    _sampled()
  assert heard[-1] == (23, 23)
  assert heard == sorted(heard)
  _sampled()  # Nothing is under way that would hear.
  assert heard[-1] == (23, 23)
  assert heard.count((23, 23)) == 1
