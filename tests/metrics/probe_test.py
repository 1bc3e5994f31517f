"""Probe: hand-made activations with known answers."""

import functools

import numpy as np
import pytest

from tests import tiny
from tests.metrics import table
from wm import core
from wm.core import basics, registry
from wm.evaluation import linear_probe, probing
from wm.metrics import probe
from wm.models.serving import oracles
from wm.runtime import progress

QUICK = {'num': 100, 'epochs': 30}


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
  fit = functools.partial(linear_probe.fit, lr=0.1, batch=64)
  monkeypatch.setattr(linear_probe, 'fit', fit)


class Seeing(oracles.Oracle, core.HiddenStates):
  """Activations that hold the node in so many of the sequences, else none.

  share: of sequences whose activations say where they are.
  """

  def __init__(self, world, share=1.0):
    super().__init__(world)
    self.share = share

  def hidden(self, tokens, lengths, layer):
    result = np.zeros((*tokens.shape, 5), np.float32)
    states = self.world.init(len(tokens))
    for t in range(tokens.shape[1]):
      rows = np.flatnonzero(t < np.asarray(lengths))
      states[rows] = self.world.advance(states[rows], tokens[rows, t])
      node = np.maximum(states[rows, 0], 0)
      result[rows, t, node] = basics.uniforms(lengths[rows], 5) < self.share
    return result


class Remembering(Seeing):
  """Activations that hold the last token beside the node, but not at layer 0.

  share: as of Seeing, of the node.
  """

  def hidden(self, tokens, lengths, layer):
    node = super().hidden(tokens, lengths, layer)
    token = np.eye(self.vocab_size, dtype=np.float32)[tokens]
    return np.concatenate([node, token], -1) * np.float32(layer != 0)


class Knowing(Seeing, core.HiddenStates):
  """Has a control that knows nothing."""

  def untrained(self, seed):
    return Seeing(self.world, 0.0)


def test_a_model_without_a_control_is_probed_alone():
  result = _run(Seeing(tiny.World()), tiny.World())
  assert result['accuracy'].measured.any()
  assert result['majority'].measured.all()
  assert {*result['untrained'].reason} == {'no_untrained_model'}


def _run(predictor, world, seed=0, **fields):
  metric = probe.Metric(**{**QUICK, **fields})
  return table.by_name(metric(predictor, world, seed))


@pytest.mark.parametrize('world', table.WORLDS, ids=repr)
@pytest.mark.parametrize('split', ['sequence', 'token'])
def test_a_state_that_is_there_is_read(world, split):
  result = _run(Knowing(world), world, split=split)
  assert table.mean(result['accuracy']) == 1
  assert table.mean(result['accuracy_all']) == 1


def test_blank_activations_give_the_majority():
  world = tiny.World()
  result = _run(Knowing(world, 0.0), world)
  majority = table.mean(result['majority'])
  assert 0 < majority < 1
  assert table.mean(result['accuracy']) == pytest.approx(majority)
  np.testing.assert_array_equal(
    result['accuracy'].value, result['majority'].value
  )


def test_the_untrained_control_is_another_predictor():
  world = tiny.World()
  result = _run(Knowing(world), world)
  assert table.mean(result['accuracy']) == 1
  assert table.mean(result['untrained']) == pytest.approx(
    table.mean(result['majority'])
  )


def test_labels_by_hand():
  """at0 x x end: the origin is skipped as the last prompt token."""
  world = table.Given(rows=((4, tiny.X, tiny.X, tiny.END), (6, tiny.Y, 1)))
  points = probing.label(world, world.sample(2, 0))
  assert points.row.tolist() == [0, 0, 1]
  assert points.position.tolist() == [1, 2, 1]
  assert points.label.tolist() == [[1], [3], [3]]
  assert not points.prompt.any()


class _LongPrompt(tiny.World):
  """The origin and the first move count as the prompt."""

  @property
  def prompt_len(self):
    return 2


def test_prompt_tokens_are_scored_apart():
  world = _LongPrompt()
  points = probing.label(world, world.sample(50, 0))
  assert (points.position[points.prompt] == 0).all()
  assert not (points.position == 1).any()
  result = _run(Knowing(world), world)
  counts = {
    name: int(result[name].weight.sum())
    for name in ('accuracy', 'accuracy_prompt', 'accuracy_all')
  }
  assert counts['accuracy_prompt'] == len(result['accuracy_prompt'].value) > 0
  assert counts['accuracy_all'] == (
    counts['accuracy'] + counts['accuracy_prompt']
  )


def test_split_by_sequence_shares_no_task():
  world = tiny.World()
  sequences = world.sample(300, 0)
  points, key = probing.label(world, sequences), world.split_key(sequences)
  test = probe._SPLITS['sequence'](points, key, 0)
  assert not set(key[points.row[test]]) & set(key[points.row[~test]])
  tasks = len(set(key.tolist()))
  tested = len(set(key[points.row[test]].tolist()))
  assert tested <= -(-tasks // 5)
  by_token = probe._SPLITS['token'](points, key, 0)
  assert set(key[points.row[by_token]]) & set(key[points.row[~by_token]])
  assert by_token.mean() == pytest.approx(0.2, abs=0.05)


def test_unseen_classes_are_errors_and_counted():
  rows = ((7, tiny.X, tiny.Y, tiny.Y, tiny.END), (7, tiny.X, tiny.X, tiny.X, 1))
  world = table.Given(rows=rows)  # The first visits node 2, the second node 1.
  result = _run(Knowing(world), world)
  assert result['accuracy'].value.tolist() == [pytest.approx(2 / 3)]
  assert result['accuracy'].counts == {'points_of_unseen_class': 1}


def test_points_without_any_to_fit_are_a_reason():
  alone = table.Given(rows=((4, 2, 2, 1),) * 5)
  result = _run(Knowing(alone), alone)
  assert result['accuracy'].reason.tolist() == ['no_training_points']


def test_fit_finds_the_regression_optimum():
  """Two classes, one feature: the fit must match the exact frequencies."""
  features = np.repeat([[0.0], [1.0]], 100, axis=0).astype(np.float32)
  target = np.concatenate([np.arange(100) < 30, np.arange(100) < 80]).astype(
    int
  )
  weights, bias = linear_probe.fit(
    features,
    target[:, None],
    np.array([2]),
    lr=0.05,
    batch=200,
    epochs=400,
    seed=0,
  )
  logits = np.array([[0.0], [1.0]]) @ weights[:, 0] + bias[0]
  odds = logits[:, 1] - logits[:, 0]
  np.testing.assert_allclose(
    odds, [np.log(30 / 70), np.log(80 / 20)], atol=0.02
  )


def test_a_last_batch_may_be_short():
  rng = np.random.default_rng(0)
  features = np.eye(3, dtype=np.float32)[rng.integers(0, 3, 101)]
  target = features.argmax(-1)[:, None]
  fit = linear_probe.fit(
    features, target, np.array([3]), lr=0.1, batch=50, epochs=100, seed=0
  )
  assert (linear_probe.named(features, *fit) == target).all()


def test_several_classifiers_are_each_fit_alone():
  rng = np.random.default_rng(1)
  features = rng.normal(size=(400, 6)).astype(np.float32)
  classes = np.array([2, 3, 5])
  target = np.stack([rng.integers(0, c, 400) for c in classes], axis=-1)
  fields = {'lr': 0.05, 'batch': 400, 'epochs': 400}
  together = linear_probe.fit(features, target, classes, **fields, seed=0)
  for k in range(3):
    alone = linear_probe.fit(
      features, target[:, k : k + 1], classes[k : k + 1], **fields, seed=9
    )
    size = classes[k]
    # Other initial weights: the optimum of a convex loss is the same.
    logits = [
      features @ weights[:, at, :size] + biases[at, :size]
      for (weights, biases), at in ((together, k), (alone, 0))
    ]
    gaps = [a - a.mean(-1, keepdims=True) for a in logits]
    np.testing.assert_allclose(*gaps, atol=0.02)
  named = linear_probe.named(features, *together)
  assert (named < classes).all()


class _Board(tiny.World):
  """Three labels of a state: the node, whether it is even, and a constant."""

  @property
  def heads(self):
    return core.Heads((5, 2, 8), probe=slice(0, 3))

  def labels(self, states):
    node = super().labels(states)[:, 0]
    return np.stack([node, node % 2, np.full_like(node, 7)], axis=-1)


def test_a_board_is_read_square_by_square():
  board, plain = _Board(), tiny.World()
  result, alone = _run(Knowing(board), board), _run(Knowing(plain), plain)
  assert table.mean(result['accuracy']) == 1
  np.testing.assert_array_equal(
    result['accuracy'].group, alone['accuracy'].group
  )
  np.testing.assert_array_equal(
    result['accuracy'].weight, alone['accuracy'].weight
  )
  blank = _run(Knowing(board, 0.0), board)
  # The constant is always right; of a node one knows the commonest.
  assert 1 / 3 < table.mean(blank['majority']) < 1
  np.testing.assert_allclose(blank['accuracy'].value, blank['majority'].value)


def test_squares_of_games_are_labelled_where_somebody_is_to_move():
  game = registry.make('world', 'othello(size=4)')
  sequences = game.sample(20, 0)
  points = probing.label(game, sequences)
  assert points.label.shape == (len(points.row), 16)
  assert points.label.dtype == np.int8
  assert set(np.unique(points.label)) == {0, 1, 2}
  # After the last move of a whole game nobody is.
  last = points.position == sequences.lengths[points.row] - 1
  assert not last.any()
  assert len(points.row) >= 20 * 3


def test_unseen_classes_of_a_board_are_counted_label_by_label():
  rows = ((7, tiny.X, tiny.Y, tiny.Y, tiny.END), (7, tiny.X, tiny.X, tiny.X, 1))

  class Given(_Board, table.Given):
    pass

  world = Given(rows=rows)
  result = _run(Knowing(world), world)
  assert result['accuracy'].counts['points_of_unseen_class'] in (1, 2)
  assert 0.5 < table.mean(result['accuracy']) < 1


def test_a_control_task_is_learned_from_the_tokens_that_fix_it():
  world = tiny.World()
  result = _run(Remembering(world, 0.0), world, control=1)
  assert table.mean(result['control']) == 1
  assert table.mean(result['selectivity']) < 0
  np.testing.assert_allclose(
    result['selectivity'].value,
    result['accuracy'].value - result['control'].value,
  )
  assert result['selectivity'].bounds == (-1, 1)


def test_a_state_that_is_there_is_selective_against_longer_windows():
  world = tiny.World()
  result = _run(Seeing(world), world, control=3)
  assert table.mean(result['accuracy']) == 1
  assert table.mean(result['control']) < 0.9
  assert 'selectivity' not in _run(Seeing(world), world)


def test_control_labels_are_functions_of_the_last_tokens():
  world = tiny.World()
  sequences = world.sample(200, 0)
  points = probing.label(world, sequences)
  for num in (1, 2):
    label = probe._control(points, sequences, num, 0)[:, 0]
    assert set(label) <= set(points.label[:, 0])
    at, windows = (points.row, points.position), {}
    for row, place, first in zip(*at, label, strict=True):
      tokens = sequences.tokens[row, max(place - num + 1, 0) : place + 1]
      assert windows.setdefault(tuple(tokens), first) == first
  other = probe._control(points, sequences, 2, 1)[:, 0]
  assert (other != label).any()


def test_several_layers_are_rows_beside_each_other():
  world = tiny.World()
  fields = {'control': 1}
  result = _run(Remembering(world), world, layers=(0, 1), **fields)
  for name, scores in result.items():
    layer, parts = scores.columns.get('layer'), []
    if name == 'untrained':
      assert len(scores.value) == 2
      continue
    for k in (0, 1):
      alone = _run(Remembering(world), world, layers=(k,), **fields)[name]
      parts.append(scores.value[layer == k])
      np.testing.assert_array_equal(parts[-1], alone.value)
      np.testing.assert_array_equal(scores.group[layer == k], alone.group)
  blank, seen = np.split(result['accuracy'].value, 2)
  assert seen.mean() == 1 > blank.mean()


@pytest.mark.parametrize('name', ['othello(size=4)', 'chess()'])
def test_pieces_are_mine_and_theirs_or_by_colour(name):
  game = registry.make('world', name)
  states = game.sample_states(20, 0)
  labels, turn = game.labels(states), game.heads.turn
  truth, black = labels[:, :turn], labels[:, turn] == 1
  assert 0 < black.sum() < 20
  kinds = (game.heads.sizes[0] - 1) // 2
  mine = probing.targets(game, states, mine=True)
  np.testing.assert_array_equal(mine[~black], truth[~black])
  turned = np.where(truth > kinds, truth - kinds, truth + kinds) * (truth > 0)
  np.testing.assert_array_equal(mine[black], turned[black])
  colours = probing.targets(game, states, mine=False)
  np.testing.assert_array_equal(colours, truth)


@pytest.mark.parametrize(
  ('spec', 'message'),
  [
    ('probe(control=-1)', 'at least 0'),
    ('probe(layers=(0, 0))', 'different values'),
    ("probe(split='position')", 'sequence, token'),
    ("probe(data='test')", 'heldout, train, all'),
    ('probe(epochs=0)', 'at least 1'),
    ('probe(layers=(-2,))', 'at least -1'),
  ],
)
def test_bad_fields(spec, message):
  with pytest.raises(core.InputError, match=message):
    registry.make('metric', spec)


@pytest.mark.parametrize('name', ['next_token', 'acceptance'])
def test_positions_of_sequences_are_progress(name):
  world = tiny.World()
  metric = registry.make('metric', f'{name}(num=20)')
  with progress.Progress(name, unit='trials') as work:
    metric(Seeing(world), world, 0)
  assert (work.done, work.total) == (20, 20)
