"""Belief: known answers of readers whose activations are made up."""

import json
import urllib.parse

import numpy as np
import pytest

import wm
from tests import small
from wm import core
from wm.core import registry
from wm.evaluation import probing, statistics
from wm.metrics import belief
from wm.models.serving import oracles
from wm.reporting import write

MESS3 = registry.make('world', 'hmm(length=8)')
RRXOR = registry.make('world', "hmm(preset='rrxor', length=12)")
SMALL = belief.Metric(num=400)


@pytest.fixture(autouse=True)
def few(monkeypatch):
  monkeypatch.setattr(belief, 'HELDOUT', 150)
  monkeypatch.setattr(belief, 'DRAWN', 200)


each = pytest.mark.parametrize('world', [MESS3, RRXOR], ids=['mess3', 'rrxor'])


class Reader(oracles.Uniform, core.HiddenStates):
  """Activations are a function of the true beliefs [B, L, S]."""

  def __init__(self, world, function, untrained=None):
    super().__init__(len(world.vocab), world.end, world.max_len)
    self.law, self.function = world.data_distribution(), function
    self.other = untrained
    self.layers = []

  def hidden(self, tokens, lengths, layer):
    self.layers.append(layer)
    memory = self.law.after_each(tokens, lengths)
    return np.asarray(self.function(self.law.belief(memory)), np.float32)


class Network(Reader):
  """One that has random weights too."""

  def untrained(self, seed):
    return self.other


def values(predictor, world, metric=SMALL, seed=0):
  return {
    scores.quantity: statistics.summarize(scores)
    for scores in metric(predictor, world, seed)
  }


def noise(shape, seed=0):
  return np.random.default_rng(seed).normal(size=shape)


@each
@pytest.mark.parametrize('model', ['bayes()', 'oracle()'])
def test_whoever_holds_the_belief_has_1(world, model):
  result = values(registry.make('model', model).predictor(world, 0), world)
  assert result['r_squared']['value'] == pytest.approx(1, abs=1e-9)
  assert result['mse']['value'] == pytest.approx(0, abs=1e-9)
  assert result['distance']['value'] == pytest.approx(0, abs=1e-4)
  assert 'r_squared_untrained' not in result


@each
def test_a_linear_image_and_further_columns_do_not_matter(world):
  size = len(world.process.states)
  turn = noise((size, 9))

  def image(beliefs):
    more = noise((*beliefs.shape[:2], 4), seed=len(beliefs))
    return np.concatenate([beliefs @ turn + 5, 1e3 * more], -1)

  result = values(Reader(world, image), world)
  assert result['r_squared']['value'] > 0.9999


@each
def test_noise_alone_has_0_or_less(world):
  reader = Reader(world, lambda b: noise((*b.shape[:2], 20), len(b)))
  result = values(reader, world)['r_squared']
  assert -0.1 < result['value'] < 0.03
  assert result['low'] < 0


def test_a_constant_has_the_variance_as_its_error():
  result = values(Reader(MESS3, lambda b: np.ones((*b.shape[:2], 3))), MESS3)
  assert result['r_squared']['value'] == pytest.approx(0, abs=1e-9)
  test = MESS3.sample(150, 0, 'heldout')
  train = MESS3.sample(400, 0, 'train')
  law = MESS3.data_distribution()
  beliefs, others = (
    law.belief(law.after_each(x.tokens, x.lengths)) for x in (test, train)
  )
  error = ((beliefs - others.reshape(-1, 3).mean(0)) ** 2).mean()
  assert result['mse']['value'] == pytest.approx(error)


@each
def test_r_squared_is_that_of_all_positions_together(world):
  """Weighted rows come to 1 - sum of errors / sum of squares."""
  reader = Reader(world, lambda b: b + 0.3 * noise(b.shape, len(b)))
  train, test = world.sample(400, 0, 'train'), world.sample(150, 0, 'heldout')
  size = len(world.process.states)
  x, y = [], []
  for part in (train, test):
    memory = reader.law.after_each(part.tokens, part.lengths)
    y.append(reader.law.belief(memory).reshape(-1, size))
    hidden = reader.hidden(part.tokens, part.lengths, -1).reshape(-1, size)
    x.append(np.column_stack([hidden, np.ones(len(hidden))]))
  weights = np.linalg.lstsq(x[0], y[0], rcond=None)[0]
  error = ((x[1] @ weights - y[1]) ** 2).sum()
  expected = 1 - error / ((y[1] - y[0].mean(0)) ** 2).sum()
  result = values(reader, world)
  assert result['r_squared']['value'] == pytest.approx(expected, abs=1e-4)
  assert result['mse']['value'] == pytest.approx(error / y[1].size, rel=1e-3)


def test_next_tokens_fix_the_belief_in_mess3_and_not_in_rrxor():
  bayes = registry.make('model', 'bayes()')
  known, open_ = (
    values(bayes.predictor(world, 0), world)['r_squared_next_token']['value']
    for world in (MESS3, RRXOR)
  )
  assert known == pytest.approx(1, abs=1e-6)
  assert 0.1 < open_ < 0.5


@each
def test_an_untrained_model_is_read_the_same_way(world):
  other = Reader(world, lambda b: b[..., :1])
  reader = Network(world, lambda b: b, other)
  result = values(reader, world)
  alone = values(other, world)
  assert result['r_squared']['value'] == pytest.approx(1, abs=1e-6)
  assert result['r_squared_untrained'] == alone['r_squared']


def test_layers_are_put_side_by_side():
  class Halves(Reader):
    """The first layer has one half of the belief, the second the other."""

    def hidden(self, tokens, lengths, layer):
      whole = super().hidden(tokens, lengths, layer)
      return whole[..., :2] if layer == 1 else whole[..., 2:]

  reader = Halves(RRXOR, lambda b: b)
  item, two, both = (
    values(reader, RRXOR, belief.Metric(400, layers))['r_squared']['value']
    for layers in ((1,), (2,), (1, 2))
  )
  assert max(item, two) < 0.99
  assert both == pytest.approx(1, abs=1e-6)
  assert set(reader.layers) == {1, 2}


def test_sequences_are_the_clusters_and_points_carry_beliefs():
  rows = SMALL(Reader(MESS3, lambda b: b), MESS3, 0)
  by_name = {scores.quantity: scores for scores in rows}
  assert len(by_name['mse'].value) == 150
  assert len(set(by_name['mse'].group)) <= 150
  points = by_name['distance']
  assert len(points.value) == 200
  true, read = (
    np.array([x.split() for x in points.columns[name]], float)
    for name in ('belief_true', 'belief_read')
  )
  np.testing.assert_allclose(true.sum(1), 1, atol=2e-4)
  np.testing.assert_allclose(true, read, atol=2e-4)
  assert 'belief_untrained' not in points.columns


@pytest.mark.parametrize('penalty', [1e-9, 0.5, 100.0])
def test_ridge_is_the_minimum_of_its_objective(penalty):
  x, y = noise((50, 4)) * [1, 10, 100, 0] + 3, noise((50, 2), 1)
  fitted = probing.ridge(x, y, penalty)
  z = (x[:, :3] - x[:, :3].mean(0)) / x[:, :3].std(0)

  def objective(weights):
    error = z @ weights + y.mean(0) - y
    return (error**2).sum() / len(z) + penalty * (weights**2).sum()

  best = np.linalg.lstsq(z, fitted(x) - y.mean(0), rcond=None)[0]
  for step in noise((6, 3, 2), 2):
    assert objective(best) <= objective(best + 1e-3 * step)
  assert fitted(x[:7]).shape == (7, 2)


def test_worlds_and_models_without_are_a_reason():
  for model, world, why in (
    ('bayes()', 'lattice()', 'needs_hidden_states'),
    ('uniform()', 'hmm()', 'needs_hidden_states'),
    ('transformer(layers=1, width=8)', 'lattice()', 'needs_latent'),
    ('transformer(layers=1, width=8)', 'orbits()', 'needs_generative'),
  ):
    (entry,) = small.scored(model, ['belief()'], world)
    assert entry['unmeasured'] == {why: 1}


def test_a_world_whose_process_has_no_belief_is_a_reason():
  class Silent(type(MESS3)):
    def sequence_process(self, replan):
      return registry.make('world', 'lattice()').data_distribution()

  reader = Reader(MESS3, lambda b: b)
  (scores,) = SMALL(reader, Silent(length=8), 0)
  assert scores.reason.tolist() == ['no_beliefs']


@each
def test_a_figure_has_a_row_for_each_model_in_a_report(world, tmp_path):
  spec = registry.spec(world)
  folders = [tmp_path / name for name in ('bayes', 'net')]
  models = 'bayes()', 'transformer(layers=1, width=8)'
  for folder, model in zip(folders, models, strict=True):
    wm.score(model, ['belief(num=60)'], spec, out=folder)
  made = write.report(folders, tmp_path / 'report')
  page = (tmp_path / 'report/report.html').read_text()
  pictures = [*(tmp_path / 'report').glob('belief*.png')]
  assert len(pictures) == 1
  assert pictures[0].read_bytes().startswith(b'\x89PNG')
  assert f'src="{urllib.parse.quote(pictures[0].name)}"' in page
  assert 'Each point has the colour of the true belief.' in page
  assert made['results'] == 9


def of_matrices(folder, **parts):
  path = folder / 'process.json'
  path.write_text(json.dumps(parts))
  return registry.make('world', f"hmm(file='{path}', length=8)")


def test_a_token_may_be_possible_in_held_out_sequences_alone(
  tmp_path, monkeypatch
):
  monkeypatch.setattr(belief, 'HELDOUT', 200)
  rare = {
    'w': [[0.495, 0], [0, 0]],
    'x': [[0.495, 0], [0, 0]],
    'y': [[0, 0.01], [0, 0]],
    'z': [[0, 0], [0, 1]],
  }
  world = of_matrices(tmp_path, matrices=rare, start=[1, 0])
  fit = world.sample(3, 1, 'train').tokens
  assert 3 not in fit, 'z can come next where there was a y'
  model = registry.make('model', 'bayes()').predictor(world, 0)
  result = values(model, world, belief.Metric(num=3), seed=1)
  assert result['r_squared_next_token']['value'] is not None


def test_of_one_belief_there_is_no_share(tmp_path):
  world = of_matrices(tmp_path, matrices={'x': [[0.5]], 'y': [[0.5]]})
  model = registry.make('model', 'bayes()').predictor(world, 0)
  result = values(model, world, belief.Metric(num=5))
  for name in ('r_squared', 'r_squared_next_token'):
    assert result[name]['n'] == 0
    assert result[name]['unmeasured'] == {'no_variation': 150}
