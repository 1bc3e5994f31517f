"""Interventions: activations that are the state, and a model without use."""

import dataclasses
import functools

import numpy as np
import pytest

from tests.metrics import table
from wm import core
from wm.core import registry
from wm.core.measure import headline_quantities
from wm.evaluation import linear_probe, probing, results, state_edits
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
  fit = functools.partial(linear_probe.fit, lr=0.1, batch=64)
  monkeypatch.setattr(linear_probe, 'fit', fit)


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


def _drawn(world):
  sequences = world.sample(40, 0)
  points = probing.label(world, sequences)
  values = [np.unique(column) for column in points.label.T]
  every = ~points.prompt
  return sequences, state_edits.draw(world, sequences, points, every, values, 3)


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
    ("intervention(direction='pca')", 'available: probe, means'),
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
