"""Toys: one behaviour, and what each metric of activations has of them."""

import functools

import numpy as np
import pytest

from tests import every_world
from tests.metrics import table
from wm import core
from wm.core import registry
from wm.core.measure import lacks
from wm.evaluation import probing
from wm.metrics import intervention
from wm.models import toy

LINE = 'lattice(size=5, length=12)'
S3 = "automaton(preset='s3_generators', length=20)"
MAP = 'maps(rows=3, columns=3, max_moves=8)'
FIT = "epochs=60, data='all'"
AHEAD = 'horizon=4'
# All metrics that a line and its toys can be asked for, but for adaptation.
BEHAVIOUR = (
  *('acceptance(num=10)', 'compression(trials=10)', 'detour(num=10)'),
  'distinction(trials=10)',
  *('excess_loss(num=10)', 'next_token(num=10)', 'traversal(num=10)'),
)
# The rows of `intervention` with the next token the same (its future after the
# least move of a probe, between means, by a subspace that is searched for, and
# by the whole activation of another place), and with another one (what is
# edited between means). A guess accepts all: half of the future is right.
EXPECTED = {
  'used': (1, 1, 1, 1, 1),
  'ignored': (0, 0, 0, 0, 0),
  'decoy': (0, 0, 1, 1, 0),
  'fragile': (0.5, 0.5, 0.9, 1, None),
  'legal_only': (0, 0, 0, 0, 1),
}
# Worlds of more states than toys list.
LARGE = (
  *('chess', 'connect4()', 'hmm()', 'maps', 'othello'),
  'seating(people=5)',
)
each = pytest.mark.parametrize('kind', toy.KINDS)


@pytest.fixture(autouse=True)
def fast(monkeypatch):
  """Few data are fitted in few steps; five places have five dimensions."""
  monkeypatch.setattr(intervention, 'FIT', (0.1, 64))
  monkeypatch.setattr(intervention, 'FIT_DAS', (0.1, 64))
  monkeypatch.setattr(intervention, 'DIMS', 5)


@functools.cache
def world(spec: str) -> core.World:
  return registry.make('world', spec)


@functools.cache
def model(kind: str, spec: str = LINE) -> toy.Toy:
  return toy.Model(kind=kind).predictor(world(spec), 0)


@functools.cache
def run(kind: str, metric: str, spec: str = LINE) -> dict[str, core.Scores]:
  scored = registry.make('metric', metric)
  return table.by_name(scored(model(kind, spec), world(spec), 0))


def edits(kind: str, how: str, quantity: str, spec: str = LINE) -> float:
  num = 100 if spec == LINE else 60
  scores = run(kind, f'intervention(num={num}, {FIT}, {how})', spec)[quantity]
  assert scores.measured.sum() >= 8
  return table.mean(scores)


# The table.


@each
def test_edits_of_states_with_the_same_next_tokens(kind):
  probe, means, das, swapped, _ = EXPECTED[kind]
  by_probe = functools.partial(edits, kind, AHEAD)
  assert by_probe('future') == pytest.approx(probe, abs=0.02)
  assert by_probe('future_swapped') == swapped
  assert by_probe('future_before') == 0
  assert by_probe('future_random') < 0.4
  assert by_probe('right_before') == 1
  between = f"{AHEAD}, direction='means'"
  assert edits(kind, between, 'future') == pytest.approx(means, abs=0.02)
  searched = f"{AHEAD}, direction='das'"
  assert edits(kind, searched, 'future') == pytest.approx(das, abs=0.1)


@pytest.mark.parametrize('kind', ['used', 'ignored', 'legal_only'])
def test_the_memory_of_a_toy_is_what_its_edits_move(kind):
  probe, _, _, swapped, _ = EXPECTED[kind]
  memory = f"{AHEAD}, site='memory'"
  assert edits(kind, memory, 'future') == pytest.approx(probe, abs=0.02)
  assert edits(kind, memory, 'future_swapped') == swapped


@each
def test_edits_that_change_the_next_tokens(kind):
  """The legal set alone is enough for these."""
  expected = EXPECTED[kind][-1]
  edited = edits(kind, "direction='means'", 'edited')
  if expected is not None:
    assert edited == expected
    return
  # A guess accepts all three moves, which are legal in the middle.
  scores = run(kind, f"intervention(num=100, {FIT}, direction='means')")
  new = scores['edited'].columns['new'][scores['edited'].measured]
  assert edited == np.isin(new, (1, 2, 3)).mean()


@pytest.mark.parametrize('kind', ['used', 'decoy', 'legal_only'])
def test_precision_and_recall_are_those_of_the_boundary(kind):
  for quantity in ('future_precision', 'future_recall'):
    for how, expected in zip(
      (AHEAD, f"{AHEAD}, direction='means'"), EXPECTED[kind], strict=False
    ):
      assert edits(kind, how, quantity) == expected


def test_a_guess_accepts_all_and_has_the_precision_of_the_two_sizes():
  scores = run('fragile', f'intervention(num=100, {FIT}, {AHEAD})')
  assert table.mean(scores['future_recall']) == 1
  measured, columns = scores['future'].measured, scores['future'].columns
  old, new, place = (columns[x][measured] for x in ('old', 'new', 'place'))
  precision = []
  for a, b, at in zip(old, new, place, strict=True):
    pair = np.array([[[b]], [[a]]], np.int32)
    depth = min(4, 11 - at)  # As far as there is room.
    sizes = [
      world(LINE).boundary(*states, depth).sizes[0]
      for states in (pair, pair[::-1])
    ]
    precision.append(sizes[0] / sum(sizes))
  np.testing.assert_allclose(
    scores['future_precision'].value[measured], precision
  )


@pytest.mark.parametrize('kind', ['used', 'ignored', 'decoy', 'legal_only'])
def test_an_automaton_has_the_same_table(kind):
  probe, means, _, swapped, edited = EXPECTED[kind]
  between = f"{AHEAD}, direction='means'"
  assert edits(kind, between, 'future', S3) == means
  assert edits(kind, between, 'future_swapped', S3) == swapped
  assert edits(kind, "direction='means'", 'edited', S3) == edited
  if kind != 'legal_only':
    assert edits(kind, AHEAD, 'future', S3) == probe


@each
def test_no_probe_tells_apart_what_reads_the_same_activations(
  kind, monkeypatch
):
  monkeypatch.setattr(probing, 'RATE', 0.1)
  monkeypatch.setattr(probing, 'BATCH', 64)
  spec = "probe(num=40, epochs=60, data='all')"
  accuracy = table.mean(run(kind, spec)['accuracy'])
  if kind == 'legal_only':
    # One of three states in the middle is read, and all of the others.
    assert 0.3 < accuracy < 0.9
    return
  assert accuracy == 1
  np.testing.assert_array_equal(
    run(kind, spec)['accuracy'].value, run('used', spec)['accuracy'].value
  )


def test_every_metric_that_can_be_asked_is_asked():
  types = type(world(LINE)), toy.Toy
  asked = [
    name
    for name in registry.names('metric')
    if not lacks(registry.find('metric', name), *types[::-1])
  ]
  tested = {spec.partition('(')[0] for spec in BEHAVIOUR}
  # They learn small tasks by their states, as the oracle does.
  adapting = {'inductive_bias', 'relearn', 'state_recovery', 'transfer'}
  others = {'audit', 'automaton', 'coherence', 'probe', 'intervention'}
  assert {*asked} == tested | adapting | others


@each
def test_small_tasks_are_learned_by_what_it_holds(kind):
  place = world(LINE)
  tokens = place.sample(20, 0).tokens[:, :6]
  places = np.tile(np.arange(6), (len(tokens), 1))
  keys = model(kind, LINE).keys(tokens, places)
  lengths = np.full(len(tokens), 6)
  states = model('used', LINE).after_each(tokens, lengths).reshape(120, -1)
  held = place.legal(states) if kind == 'legal_only' else states
  same = (held[:, None] == held[None]).all(-1)
  flat = keys.reshape(-1)
  np.testing.assert_array_equal(flat[:, None] == flat[None], same)


@pytest.mark.parametrize('metric', BEHAVIOUR)
def test_behaviour_is_the_oracle_s(metric):
  truth = registry.make('model', 'oracle').predictor(world(LINE), 0)
  scored = registry.make('metric', metric)
  table.same(
    tuple(run('legal_only', metric).values()), scored(truth, world(LINE), 0)
  )


# What they are made of.


@each
@pytest.mark.parametrize('spec', [LINE, S3, MAP])
def test_its_own_activations_change_nothing_and_others_are_read(kind, spec):
  sequences = world(spec).sample(30, 0)
  tokens, lengths = sequences.tokens, np.minimum(sequences.lengths, 6)
  made = model(kind, spec)
  truth = registry.make('model', 'oracle').predictor(world(spec), 0)
  hidden = made.hidden(tokens, lengths, 1)
  log_probs = made.log_probs(tokens, lengths)
  np.testing.assert_array_equal(log_probs, truth.log_probs(tokens, lengths))
  np.testing.assert_array_equal(
    made.patched(tokens, lengths, 1, hidden), log_probs
  )
  last = np.arange(30), lengths - 1
  other = hidden.copy()
  other[last] = np.roll(hidden[last], 1, axis=0)
  probs = np.exp(made.patched(tokens, lengths, 1, other)[last])
  expected = np.exp(log_probs[last])
  if kind != 'ignored':
    expected = np.roll(expected, 1, axis=0)
  np.testing.assert_allclose(probs, expected, atol=1e-3)


@pytest.mark.parametrize('kind', ['used', 'decoy', 'fragile', 'legal_only'])
def test_gradients_are_differences(kind, monkeypatch):
  monkeypatch.setattr(toy, 'SHARP', 3.0)  # Far from steps.
  monkeypatch.setattr(toy, 'LEAST', 1e-12)
  sequences, made = world(LINE).sample(4, 0), model(kind)
  tokens, lengths = sequences.tokens[:, :7], np.full(4, 7)
  rng, hidden = np.random.default_rng(0), made.hidden(tokens, lengths, 0)
  hidden = hidden.astype(np.float64)
  hidden[:, 3] += 0.3 * rng.normal(size=hidden[:, 3].shape)
  weights = rng.random((*tokens.shape, made.vocab_size))
  weights[..., 0] = 0  # Padding has no probability.
  way, step = np.zeros_like(hidden), 1e-5
  way[:, 3] = rng.normal(size=way[:, 3].shape)
  before, after = (
    made._follow(tokens, hidden + k * way - made.hidden(tokens, lengths, 0))
    for k in (-step, step)
  )
  change = sum(
    (weights[:, t] * np.log((b.probs + 1e-12) / (a.probs + 1e-12))).sum()
    for t, (a, b) in enumerate(zip(before, after, strict=True))
  )
  slope = made.patched_gradient(tokens, lengths, 0, hidden, weights)
  assert (slope * way).sum() == pytest.approx(change / (2 * step), rel=1e-3)


@pytest.mark.parametrize(
  'spec', [spec for spec in every_world.SPECS if not spec.startswith('orbits')]
)
def test_every_world_of_few_states_has_them(spec):
  truth = every_world.WORLDS[spec]
  if spec.startswith(LARGE):
    with pytest.raises(core.InputError, match='more than 4,096 states'):
      toy.Model().predictor(truth, 0)
    return
  sequences = truth.sample(3, 0)
  made = toy.Model().predictor(truth, 0)
  hidden = made.hidden(sequences.tokens, sequences.lengths, 1)
  assert hidden.dtype == np.float32
  assert np.isfinite(hidden).all()


def test_a_kind_that_is_not_there():
  with pytest.raises(core.InputError, match='legal_only'):
    toy.Model(kind='unused')
