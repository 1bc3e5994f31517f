"""Interventions: activations that are the state, and a model without use."""

import dataclasses
import itertools

import numpy as np
import pytest

from tests.metrics import table
from wm import core
from wm.core import registry
from wm.core.measure import headline_quantities
from wm.evaluation import probing, results, state_edits
from wm.metrics import intervention
from wm.models.serving import oracles
from wm.reporting import charts, collect, curves, tables

QUICK = {'num': 60, 'epochs': 60, 'data': 'all'}
LATTICE = 'lattice(size=5, length=12)'
MAP = 'maps(rows=3, columns=3, max_moves=8)'
OTHELLO = 'othello(size=4)'


@pytest.fixture(autouse=True)
def fast(monkeypatch):
  """Few data are fitted in few steps."""
  monkeypatch.setattr(intervention, 'FIT', (0.1, 64))
  monkeypatch.setattr(intervention, 'FIT_DAS', (0.1, 64))


class Holding(oracles.Oracle, core.HiddenStates):
  """Its activations are the labels that probes read, one-hot, and no more.

  deaf: it goes on as if they had not been changed.
  """

  def __init__(self, world, deaf=False):
    super().__init__(world)
    self.deaf, self.sizes = deaf, probing.sizes(world)
    self.cuts = np.cumsum((0, *self.sizes))

  def _states(self, tokens, lengths):
    start = self.world.init(len(tokens))
    return self.world.walk(start, tokens, lengths)[1]

  def hidden(self, tokens, lengths, layer):
    result = np.zeros((*tokens.shape, self.cuts[-1]), np.float32)
    for t in range(tokens.shape[1]):
      rows = np.flatnonzero(t < np.asarray(lengths))
      states = self._states(tokens[rows], np.full(len(rows), t + 1))
      labels = probing.targets(self.world, states)
      row, k = np.nonzero(labels != core.DEAD)
      result[rows[row], t, self.cuts[k] + labels[row, k]] = 1
    return result

  def patched(self, tokens, lengths, layer, hidden):
    rows, last = np.arange(len(tokens)), np.asarray(lengths) - 1
    states = self._states(tokens, lengths)
    labels = probing.targets(self.world, states)
    for k in range(0 if self.deaf else len(self.sizes)):
      held = hidden[rows, last, self.cuts[k] : self.cuts[k + 1]].argmax(-1)
      new = np.flatnonzero(held != labels[:, k])
      inputs = states[new], np.full(len(new), k), held[new]
      states[new] = state_edits.changed(self.world, *inputs)
    legal = self.world.legal(states)
    result = np.full((*tokens.shape, self.vocab_size), -np.inf, np.float32)
    share = -np.log(np.maximum(legal.sum(-1, keepdims=True), 1))
    result[rows, last] = np.where(legal, share, -np.inf)
    return result


def run(predictor, world, seed=0, **fields):
  metric = intervention.Metric(**{**QUICK, **fields})
  return table.by_name(metric(predictor, world, seed))


@pytest.fixture(scope='module', params=[LATTICE, MAP, OTHELLO])
def world(request):
  return registry.make('world', request.param)


@pytest.mark.parametrize('direction', ['probe', 'means'])
def test_a_model_whose_activations_are_the_state_follows_every_edit(
  world, direction
):
  result = run(Holding(world), world, direction=direction)
  assert result['edited'].measured.sum() >= 10
  for name in ('edited', 'changed', 'overlap', 'right_before', 'probe_edited'):
    assert table.mean(result[name]) == 1, name
  assert table.mean(result['changed_before']) == 0
  assert table.mean(result['edited_random']) < 0.5
  assert table.mean(result['above_random']) == pytest.approx(
    1 - table.mean(result['changed_random'])
  )


class Carrying(Holding):
  """Goes on from the state that is held at the first place that was changed."""

  def patched(self, tokens, lengths, layer, hidden):
    own = self.hidden(tokens, lengths, layer)
    log_probs = np.full((*tokens.shape, self.vocab_size), -np.inf, np.float32)
    for n, length in enumerate(np.asarray(lengths)):
      states = self.world.init(1)
      for t in range(length):
        states = self.world.advance(states, tokens[n, t : t + 1])
        if not np.array_equal(hidden[n, t], own[n, t]) and not self.deaf:
          for k, (low, high) in enumerate(itertools.pairwise(self.cuts)):
            if not np.array_equal(hidden[n, t, low:high], own[n, t, low:high]):
              value = np.array([hidden[n, t, low:high].argmax()])
              edit = states, np.array([k]), value
              states = state_edits.changed(self.world, *edit)
        legal = self.world.legal(states)[0]
        log_probs[n, t] = np.where(legal, -np.log(max(legal.sum(), 1)), -np.inf)
    return log_probs


@pytest.mark.parametrize('direction', ['probe', 'means'])
def test_a_model_that_carries_its_state_has_the_future_of_each_edit(direction):
  world = registry.make('world', LATTICE)
  fields = {'horizon': 3, 'num': 120, 'direction': direction}
  scores = run(Carrying(world), world, **fields)
  assert scores['future'].measured.sum() >= 5
  assert table.mean(scores['future']) == 1
  assert table.mean(scores['future_before']) < 1
  deaf = run(Carrying(world, deaf=True), world, **fields)
  assert table.mean(deaf['future']) == table.mean(deaf['future_before'])


def test_a_model_that_ignores_its_activations_follows_none(world):
  result = run(Holding(world, deaf=True), world)
  for name in ('edited', 'changed', 'changed_random', 'above_random'):
    assert table.mean(result[name]) == 0, name
  assert table.mean(result['right_before']) == 1
  assert table.mean(result['probe_edited']) == 1
  np.testing.assert_array_equal(
    result['overlap'].value, result['overlap_before'].value
  )


def test_rows_are_edits_by_layer_and_random_lengths_are_equal():
  world = registry.make('world', LATTICE)
  result = run(Holding(world), world, layers=(0, 3, 1))['edited']
  edited = len(result.value) // 3
  assert (
    result.columns['layer'].tolist()
    == [0] * edited + [3] * edited + [1] * edited
  )
  for name in ('sequence', 'place', 'label', 'old', 'new'):
    parts = result.columns[name].reshape(3, -1)
    np.testing.assert_array_equal(parts[0], parts[1])
  np.testing.assert_array_equal(
    result.group[:edited], result.group[edited:][:edited]
  )
  by = state_edits.Shifts(
    np.random.default_rng(0).normal(size=(7, 5)), *[None] * 2
  )
  random = by.random([1, 2])
  np.testing.assert_allclose(
    np.linalg.norm(random, axis=-1), np.linalg.norm(by.by, axis=-1)
  )


def test_a_report_draws_it_by_layer(tmp_path):
  world = registry.make('world', LATTICE)
  metric = intervention.Metric(**{**QUICK, 'epochs': 2}, layers=(0, 1, 2))
  result = metric(Holding(world), world, 0)
  about = {'seed': 0, 'model_name': 'm', 'extra': {}}
  parts = results.summarize(metric, result, world, **about)
  drawn = curves.curves(
    tables.results([collect.Run(tmp_path, *parts, [], None)], breakdown=True)
  )
  quantities = [item.quantity for item in drawn]
  assert quantities == [
    n for n in headline_quantities(metric) if n in metric.quantities
  ]
  assert {item.axis for item in drawn} == {'layer whose activations are edited'}
  assert drawn[0].points.place.tolist() == [0, 1, 2]
  spec = curves.draw_curves(drawn[0], charts.palette(['m'], set()))
  assert charts.render(spec).startswith(b'<svg')


def _drawn(world, **only):
  sequences = world.sample(40, 0)
  points = probing.label(world, sequences)
  values = [np.unique(column) for column in points.label.T]
  every = ~points.prompt
  return sequences, state_edits.draw(
    *(world, sequences, points, every, values, 3),
    state_edits.EditFilter(**only),
  )


def test_an_edit_changes_one_label_and_what_is_legal(world):
  sequences, result = _drawn(world)
  assert len(np.unique(result.row)) == len(result.row)
  assert result.done.mean() > 0.7
  several = result.take(np.flatnonzero(result.done))
  assert (several.old != several.new).all()
  assert (several.legal != several.legal_after).any(-1).all()
  assert several.legal_after.any(-1).all()
  tokens = sequences.tokens[several.row]
  start = world.init(len(tokens))
  states = world.walk(start, tokens, several.place + 1)[1]
  np.testing.assert_array_equal(world.legal(states), several.legal)
  labels = probing.targets(world, states)
  rows = np.arange(len(tokens))
  np.testing.assert_array_equal(labels[rows, several.label], several.old)
  edited = state_edits.changed(world, states, several.label, several.new)
  after = probing.targets(world, edited)
  np.testing.assert_array_equal(after[rows, several.label], several.new)
  assert ((after != labels).sum(-1) == 1).all()


def test_where_all_tokens_are_legal_there_is_no_edit():
  world = registry.make('world', 'groups(length=6)')
  result = run(Holding(world), world)
  for scores in result.values():
    assert set(scores.reason) == {'no_edit'}


def test_one_task_leaves_nothing_to_fit():
  world = registry.make('world', LATTICE)
  item = world.sample(1, 0)

  class Same(type(world)):
    def sample(self, num, seed, split='all'):
      return item

  same = Same(
    **{f.name: getattr(world, f.name) for f in dataclasses.fields(world)}
  )
  result = run(Holding(world), same)
  assert {*result} == {*intervention.Metric().quantities}
  assert {*result} < {*intervention.Metric.glossary}
  assert all(
    s.reason.tolist() == ['no_training_points'] for s in result.values()
  )


def test_a_network_goes_on_from_its_own_activations_as_it_was():
  world = registry.make('world', LATTICE)
  model = registry.make('model', 'transformer(layers=1, width=32)')
  predictor = model.predictor(world, 0)
  result = run(predictor, world, layers=(0, -1), num=30, epochs=2)
  assert result['edited'].measured.all()
  for name in ('changed_before', 'overlap_before', 'right_before'):
    np.testing.assert_array_equal(*result[name].value.reshape(2, -1))


@pytest.mark.parametrize(
  ('spec', 'message'),
  [
    ('intervention(layers=())', '1 or more different values'),
    ('intervention(layers=(1, 1))', 'different values'),
    ('intervention(layers=(-2,))', 'each at least -1'),
    ("intervention(direction='pca')", 'available: probe, means, das'),
  ],
)
def test_bad_fields(spec, message):
  with pytest.raises(core.InputError, match=message):
    registry.make('metric', spec)


def test_a_layer_that_is_not_there():
  world = registry.make('world', LATTICE)
  model = registry.make('model', 'transformer(layers=1, width=32)')
  with pytest.raises(core.InputError, match=r'layer 2 of .*: -1 to 1'):
    run(model.predictor(world, 0), world, layers=(2,), num=30)


def test_a_network_is_searched_and_has_random_weights_beside_it():
  world = registry.make('world', LATTICE)
  model = registry.make('model', 'rnn(layers=2, width=8)')
  result = run(
    *(model.predictor(world, 0), world),
    **{'direction': 'das', 'horizon': 3},
    **{'num': 30, 'epochs': 2},
  )
  assert {*result} == {*intervention.ALIKE, *intervention.FUTURE}
  measured = result['probe'].measured
  assert measured.any()
  for name in ('future', 'future_untrained', 'future_above_random'):
    np.testing.assert_array_equal(result[name].measured, measured)
  before = result['future_before'].value[measured]
  assert ((before >= 0) & (before <= 1)).all()


def test_the_gradient_of_a_network_is_a_difference():
  world = registry.make('world', LATTICE)
  model = registry.make('model', 'rnn(layers=2, width=8)')
  predictor, sequences = model.predictor(world, 0), world.sample(3, 0)
  batch = sequences.tokens, sequences.lengths, 1
  rng, hidden = np.random.default_rng(0), np.array(predictor.hidden(*batch))
  weights = rng.random((*sequences.tokens.shape, predictor.vocab_size))
  way = rng.normal(size=hidden.shape)
  below, above = (
    (weights * predictor.patched(*batch, hidden + k * way)).sum()
    for k in (-0.01, 0.01)
  )
  slope = predictor.patched_gradient(*batch, hidden, weights)
  assert (slope * way).sum() == pytest.approx((above - below) / 0.02, rel=0.01)


def test_the_memory_of_a_network_is_edited():
  """A whole state of another prefix is more than the stream can carry."""
  world = registry.make('world', LATTICE)
  fields = {'horizon': 3, 'site': 'memory'}
  fields |= {'num': 30, 'epochs': 2, 'layers': (-1, 1)}
  model = registry.make('model', 'lstm(layers=2, width=8)')
  scores = run(model.predictor(world, 0), world, **fields)
  assert {*scores} == {*intervention.ALIKE, *intervention.FUTURE}
  assert scores['future_swapped'].measured.any()
  attention = registry.make('model', 'transformer(layers=1, width=8, heads=1)')
  (reason,) = run(attention.predictor(world, 0), world, **fields)[
    'future'
  ].reason
  assert reason == 'no_memory'


def test_the_next_token_is_predicted_before_the_memory():
  with pytest.raises(core.InputError, match='expected a horizon of 2 or more'):
    intervention.Metric(site='memory')


def test_a_subspace_is_of_one_label():
  world = registry.make('world', OTHELLO)
  model = registry.make('model', 'rnn(layers=1, width=8)')
  with pytest.raises(core.InputError, match="expected 'probe' or 'means'"):
    run(model.predictor(world, 0), world, direction='das', num=10)


@pytest.mark.parametrize('direction', ['probe', 'means'])
def test_a_whole_state_is_moved_at_once(direction):
  metric = intervention.Metric(
    num=300, epochs=60, whole=True, direction=direction
  )
  world = registry.make('world', 'lattice(size=5, length=20)')
  values = {
    kind: {
      scores.quantity: float(np.nanmean(scores.value))
      for scores in metric(
        registry.make('model', f'toy(kind={kind!r})').predictor(world, 0),
        world,
        0,
      )
    }
    for kind in ('used', 'ignored')
  }
  assert values['used']['changed'] > 0.95
  assert values['used']['changed_swapped'] == 1
  assert values['used']['changed_random'] < 0.3
  assert values['used']['probe_edited'] == 1
  assert values['ignored']['changed'] == values['ignored']['edited'] == 0
  assert values['ignored']['changed_swapped'] == 0
  assert values['ignored']['probe_edited'] == 1


def test_whole_edits_are_states_of_other_places():
  world = registry.make('world', 'othello(size=4)')
  sequences = world.sample(60, 0)
  points = probing.label(world, sequences)
  values = [np.unique(column) for column in points.label.T]
  every = np.ones(len(points.row), bool)
  edits = state_edits.draw(
    *(world, sequences, points, every, values, 0),
    state_edits.EditFilter(whole=True),
  )
  edits = edits.take(np.flatnonzero(edits.done))
  assert len(edits.row) > 50
  assert (edits.label == -1).all()
  assert (edits.legal != edits.legal_after).any(-1).all()
  np.testing.assert_array_equal(world.legal(edits.edited), edits.legal_after)
  np.testing.assert_array_equal(world.legal(edits.true), edits.legal)
  states = state_edits.states_at(world, sequences, points)
  ids = world.state_id(states)
  for number, state in enumerate(world.state_id(edits.edited)):
    equal = ids == state
    assert (points.position[equal] == edits.place[number]).any()


def test_whole_edits_have_no_subspace():
  with pytest.raises(core.InputError, match='whole=True edits all labels'):
    registry.make('metric', "intervention(whole=True, direction='das')")


def test_edits_that_no_suffix_tells_apart_have_no_future(monkeypatch):
  world = registry.make('world', LATTICE)
  model = registry.make('model', 'lstm(layers=1, width=8)')

  def none(study, states):
    num = states.shape[1]
    blank = np.zeros((0, 1), np.int32), np.zeros(0, np.int32)
    return core.Boundary(np.zeros(num + 1, np.int64), *blank)

  monkeypatch.setattr(intervention._Study, '_suffixes', none)
  fields = {'horizon': 3, 'num': 30, 'epochs': 1}
  scores = run(model.predictor(world, 0), world, **fields)
  for name in intervention.FUTURE:
    assert 'no_suffix' in scores[name].reason
    assert {*scores[name].reason} <= {'no_suffix', 'no_edit'}
