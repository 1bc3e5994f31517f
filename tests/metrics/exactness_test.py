"""Exactness by hand: perfect, constant and known wrong readers of states."""

import numpy as np
import pytest

from tests import tiny
from wm import core
from wm.core import registry
from wm.core.measure import lacks
from wm.data import sampling
from wm.evaluation import results, statistics
from wm.metrics import exactness
from wm.models.serving import oracles
from wm.options.calls import Sampling

WORLD = tiny.World()


def scores(predictor, world=WORLD, /, **fields) -> dict[str, core.Scores]:
  outcomes = exactness.Metric(**{'num': 40, **fields})(predictor, world, 1)
  return {s.quantity: s for s in outcomes}


def value(rows: core.Scores) -> float:
  return statistics.summarize(rows)['value']


def make(name, world):
  return registry.make('model', name).predictor(world, 0)


def sequences(world=WORLD, num=40):
  return world.sample(num, 1, split='heldout')


def truth(world=WORLD, num=40):
  result = sequences(world, num)
  labels = world.sequence_labels(result.tokens, result.lengths)
  used = np.arange(labels.shape[1]) < result.lengths[:, None]
  return labels, used


@pytest.mark.parametrize('spec', ['chess(length=30)', 'maps()', 'othello()'])
def test_the_world_is_exact_everywhere(spec):
  world = registry.make('world', spec)
  outcomes = scores(make('oracle', world), world, num=30)
  expected = {'exact', 'labelwise', 'trajectory', 'changed', 'loss'}
  expected |= {f'exact_{name}' for name in world.heads.groups}
  assert expected <= set(outcomes)
  assert list(outcomes)[:3] == ['exact', 'labelwise', 'trajectory']
  for name, rows in outcomes.items():
    if not rows.measured.any():  # No such move in these games.
      assert set(rows.reason) == {'no_such_token'}
      continue
    assert (rows.value[rows.measured] == (name != 'loss')).all(), name
  assert value(outcomes['loss']) == 0


@pytest.mark.parametrize(
  'spec', ['tiny', 'lattice(length=25)', 'chess(length=30)']
)
def test_copying_the_start_scores_what_a_formula_says(spec):
  world = WORLD if spec == 'tiny' else registry.make('world', spec)
  labels, used = truth(world)
  head = world.prompt_len
  start = labels[:, head - 1] if head else np.zeros_like(labels[:, 0])
  right = labels == start[:, None]
  right[:, :head] = True
  result = scores(make('copy_start()', world), world)
  exact = right.all(-1)
  assert value(result['exact']) == pytest.approx(exact[used].mean())
  assert value(result['labelwise']) == pytest.approx(right[used].mean())
  whole = (exact | ~used).all(-1)
  assert value(result['trajectory']) == pytest.approx(whole.mean())
  for name, part in world.heads.groups.items():
    mean = right[..., part].all(-1)[used].mean()
    assert value(result[f'exact_{name}']) == pytest.approx(mean)
  first = world.labels(world.init(len(labels)))[:, None]
  before = np.concatenate([first, labels[:, :-1]], axis=1)
  edits = (labels != before) & used[..., None]
  assert value(result['changed']) == pytest.approx(right[edits].mean())
  assert set(result['loss'].reason) == {'no_probabilities'}


def test_bins_are_rows_and_steps_are_counted_from_the_first_token():
  world = registry.make('world', 'chess(length=45)')
  result = scores(make('copy_start', world), world, bins=20)['exact']
  games = sequences(world)
  steps = result.columns['step']
  assert set(steps) == {0, 20, 40}
  first = steps == 0
  # One state in the first twenty is the start, later none.
  np.testing.assert_allclose(result.value[first], 1 / result.weight[first])
  assert not result.value[~first].any()
  assert result.weight.sum() == games.lengths.sum()
  assert (result.weight[first] == np.minimum(games.lengths, 20)).all()
  assert len(np.unique(result.group)) == len(games)
  summary = statistics.summarize(result)
  assert summary['value'] == pytest.approx(40 / games.lengths.sum())
  assert summary['n'] == len(result.value)
  entries = list(
    results.breakdown(
      exactness.Metric(), result, world, seed=0, model_name='copy', extra={}
    )
  )
  assert [e['where'] for e in entries] == [
    {'step': 0},
    {'step': 20},
    {'step': 40},
  ]


class Broken(oracles.StateReader):
  """The truth, with one label wrong after the given tokens."""

  def __init__(self, world, label, wrong):
    def read(tokens, lengths):
      labels = world.sequence_labels(tokens, lengths).astype(int)
      labels[..., label] ^= wrong(tokens)
      return labels

    super().__init__(world, read)


def test_one_wrong_label_is_found_where_it_is():
  world = registry.make('world', 'chess(length=60)')
  games = sequences(world)
  used = np.arange(games.tokens.shape[1]) < games.lengths[:, None]
  third = np.arange(games.tokens.shape[1]) % 3 == 2
  model = Broken(world, 65, lambda tokens: third[: tokens.shape[1]])
  result = scores(model, world)
  wrong = (used & third).sum() / used.sum()
  assert value(result['exact']) == pytest.approx(1 - wrong)
  assert value(result['labelwise']) == pytest.approx(1 - wrong / 75)
  assert value(result['exact_board']) == 1
  assert value(result['exact_counters']) == 1
  assert value(result['exact_rules']) == pytest.approx(1 - wrong)
  assert value(result['trajectory']) == 0
  rows = result['trajectory']
  prefix = rows.columns['prefix']
  assert all(len(text.split()) == 3 for text in prefix)
  state = world.parse(' '.join(prefix[0].split()[1:]))
  assert world.format(state[0]) == rows.columns['state'][0]


def test_kinds_of_move_are_scored_apart():
  world = registry.make('world', 'chess(length=120)')
  games = sequences(world)
  tags = world.move_tags(games)['promotion']
  assert tags.any()

  def wrong(tokens):
    sample = core.Sequences(tokens, (tokens > 0).sum(-1))
    return world.move_tags(sample)['promotion']

  result = scores(Broken(world, 64, wrong), world)
  rows = result['exact_promotion']
  assert not rows.value[rows.measured].any()
  assert rows.weight.sum() == tags.sum()
  assert len(rows.value) == tags.any(-1).sum()
  assert value(result['exact']) == pytest.approx(
    1 - tags.sum() / games.lengths.sum()
  )
  # The side to move is one of some labels that a move changes.
  assert 0.5 < value(result['changed_promotion']) < 1
  other = result['exact_castling']
  assert (other.value[other.measured] == 1).all() or not other.measured.any()


def test_sequences_longer_than_the_model_are_said_to_be():
  model = make('oracle', WORLD)
  model.max_len = 6
  result, lengths = scores(model), sequences().lengths
  assert 0 < (lengths > 6).sum() < 40
  for name in ('exact', 'labelwise', 'trajectory', 'changed'):
    missing = result[name].reason == 'longer_than_model'
    assert missing.sum() == (lengths > 6).sum()
    assert (result[name].value[~missing] == 1).all()
  model.max_len = 0
  result = scores(model)
  assert set(result['trajectory'].reason) == {'longer_than_model'}


def test_stored_sequences_are_asked_about_instead(tmp_path):
  sampling.make_dataset(
    WORLD, tmp_path, Sampling(num=30, num_heldout=9, seed=0)
  )
  folder = str(tmp_path / 'data' / 'train')
  result = scores(make('oracle', WORLD), data=folder, num=20)
  assert len(result['trajectory'].value) == 20
  again = scores(make('oracle', WORLD), data=folder, num=100)
  assert len(again['trajectory'].value) == 30
  with pytest.raises(core.InputError, match='vocabulary'):
    scores(
      make('oracle', WORLD), registry.make('world', 'lattice()'), data=folder
    )
  with pytest.raises(core.InputError, match='no sequences'):
    scores(make('oracle', WORLD), data=str(tmp_path / 'none'))


def test_sequences_of_another_world_are_asked_about_instead():
  # Its states have more words and its sequences more tokens.
  world = registry.make('world', 'chess(length=30)')
  spec = "chess(policy='promotions', length=90, lengths='human')"
  other = registry.make('world', spec)
  model = make('naive', other)
  asked, mine = scores(model, world, world=spec), scores(model, other)
  assert list(asked) == list(mine)
  for name, rows in mine.items():
    np.testing.assert_array_equal(rows.value, asked[name].value)
    np.testing.assert_array_equal(rows.group, asked[name].group)
    for column in rows.columns:
      np.testing.assert_array_equal(
        rows.columns[column], asked[name].columns[column]
      )
  # A model of the scored world takes what is short enough for it.
  result = scores(make('oracle', world), world, world=spec)
  short = other.sample(40, 1, split='heldout').lengths <= 31
  rows = result['trajectory']
  np.testing.assert_array_equal(rows.reason == '', short)
  assert (rows.value[short] == 1).all()


def test_the_truth_is_the_other_worlds():
  world = registry.make('world', 'chess(length=60)')
  result = scores(
    make('oracle', world), world, world="chess(ep='legal', length=60)"
  )
  assert value(result['exact_board']) == 1
  assert value(result['exact_rules']) < 1


@pytest.mark.parametrize(
  ('spec', 'message'),
  [
    ("chess(vocabulary='packed')", 'has other tokens than chess'),
    ('lattice()', 'has other tokens'),
    ('ches()', 'did you mean'),
  ],
)
def test_another_world_must_be_like_it(spec, message):
  world = registry.make('world', 'chess(length=30)')
  with pytest.raises(core.InputError, match=message):
    scores(make('copy_start', world), world, world=spec)


def test_labels_of_another_world_must_be_alike(monkeypatch):
  world = registry.make('world', 'chess(length=30)')
  heads = property(lambda self: core.Heads((2,) * self.length))
  monkeypatch.setattr(type(world), 'heads', heads)
  with pytest.raises(core.InputError, match='other state labels than chess'):
    scores(make('copy_start', world), world, world='chess(length=40)')


def test_stored_sequences_and_another_world_are_too_much(one_line):
  with one_line('expected one of them'):
    exactness.Metric(data='x', world='y()')


class Diverging(Broken, core.StatePredictor):
  """Gives no finite loss of the first and the third sequence it is asked."""

  def state_loss(self, tokens, lengths, labels):
    loss = np.full(tokens.shape, 0.5, np.float32)
    loss[0, 3], loss[2, 1] = np.inf, np.nan
    loss[np.arange(tokens.shape[1]) >= lengths[:, None]] = np.nan
    return self.states(tokens, lengths), loss


def test_a_loss_that_is_not_finite_is_counted():
  model = Diverging(WORLD, 0, lambda tokens: tokens < 0)
  result = scores(model, bins=4)
  rows = result['loss']
  lost = rows.reason == 'not_finite'
  assert lost.sum() == 2
  assert (rows.value[~lost] == 0.5).all()
  summary = statistics.summarize(rows)
  assert summary['value'] == 0.5
  assert (
    rows.weight[~lost].sum() == np.delete(sequences().lengths, [0, 2]).sum()
  )
  assert summary['unmeasured'] == {'not_finite': 2}
  for name in ('exact', 'labelwise', 'trajectory', 'changed'):
    assert value(result[name]) == 1
    assert result[name].measured.all()


def test_models_that_name_no_states_lack_something():
  metric = exactness.Metric()
  uniform, start = (type(make(m, WORLD)) for m in ('uniform', 'copy_start'))
  assert lacks(metric, uniform, type(WORLD)) == [core.StatePredictor]
  assert lacks(metric, start, type(WORLD)) == []


def test_the_naive_reader_needs_a_naive_world():
  with pytest.raises(core.InputError, match='copy_start'):
    make('naive', registry.make('world', 'lattice()'))
  world = registry.make('world', 'chess(length=60)')
  result = scores(make('naive', world), world)
  games = sequences(world)
  labels = world.surface_labels(games.tokens, games.lengths)
  real = world.sequence_labels(games.tokens, games.lengths)
  used = np.arange(games.tokens.shape[1]) < games.lengths[:, None]
  right = (labels == real)[used]
  assert value(result['labelwise']) == pytest.approx(right.mean())
  assert value(result['exact_board']) == pytest.approx(
    right[:, :64].all(-1).mean()
  )
  copied = scores(make('copy_start', world), world)
  for name in ('exact', 'labelwise', 'exact_board', 'changed'):
    assert value(result[name]) > value(copied[name]), name
