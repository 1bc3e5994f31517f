"""Result files: fields, rows, breakdowns, resuming, refusing."""

import dataclasses
import json
import os
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import wm
from tests import small
from tests.evaluation.counted import OTHER, WORLD, Counted
from tests.evaluation.counted import run as _run
from wm import core
from wm.core import registry
from wm.evaluation import results, scoring
from wm.metrics import compression, distinction
from wm.models.serving import oracles
from wm.runtime import provenance


@pytest.fixture(autouse=True)
def _fresh():
  Counted.calls.clear()
  Counted.interrupted.clear()


def test_fields(tmp_path):
  entries = _run(tmp_path, extra={'checkpoint': 'best'})
  assert entries == json.loads((tmp_path / 'scores.json').read_text())
  share, plain = entries
  expected = {
    'metric': 'counted',
    'spec': 'counted()',
    'quantity': 'share',
    'world': 'tiny()',
    'model': 'm',
    'n': 3,
    'clusters': 2,
    'unmeasured': {'empty': 1},
    'seed': 3,
    'accept': None,
    'counts': {'tries': 3},
    'metric_version': '7',
    'world_version': '1',
    'wm_version': wm.__version__,
    'checkpoint': 'best',
    'interval': 'korn-graubard',
    'least': 0.0,
    'most': 1.0,
  }
  assert {k: share[k] for k in expected} == expected
  assert share['value'] == pytest.approx(1.3 / 3)
  assert share['low'] < share['value'] < share['high']
  assert plain['value'] == 2.5
  assert plain['low'] is plain['least'] is plain['most'] is None
  assert set(share) == set(plain)
  assert 'commit' in share


def test_accept_is_named(tmp_path):
  metric = compression.Metric(trials=3, accept='top_k(2)')
  assert {e['accept'] for e in _run(tmp_path, metric)} == {'top_k(2)'}


def test_rows_open_in_one_call_and_give_the_scores_back(tmp_path):
  metrics = (
    compression.Metric(trials=20),
    distinction.Metric(trials=20),
    Counted(),
  )
  noisy = oracles.NoisyOracle(
    WORLD, illegal=0.1, wrong=0.2, by='prefix', seed=1
  )
  entries = _run(tmp_path, *metrics, predictor=noisy)
  rows = pd.read_parquet(tmp_path / 'rows.parquet')
  assert tuple(rows.columns[: len(results.COLUMNS)]) == results.COLUMNS
  assert {'state', 'moves', 'even', 'elements', 'kind'} <= set(rows.columns)
  for entry in entries:
    mine = rows[
      (rows['spec'] == entry['spec']) & (rows['quantity'] == entry['quantity'])
    ]
    measured = mine[mine['reason'] == '']
    assert len(measured) == entry['n']
    if entry['n']:
      mean = np.average(measured['value'], weights=measured['weight'])
      assert mean == pytest.approx(entry['value'], abs=1e-15)
    reasons = mine['reason'][mine['reason'] != '']
    missing = reasons.value_counts().to_dict()
    assert missing == entry['unmeasured']
  exact = rows[rows['quantity'] == 'share']
  # Some versions of pandas round the last bit of what is written.
  assert exact['value'].iloc[2] == pytest.approx(0.3, abs=1e-15)
  rows = pd.read_parquet(tmp_path / 'rows.parquet')
  assert 0.1 + 0.2 in rows.value.tolist()
  assert exact['group'].iloc[2] == 2**40


def test_breakdown(tmp_path):
  _run(tmp_path)
  parts, entries = (
    json.loads((tmp_path / name).read_text())
    for name in ('breakdown.json', 'scores.json')
  )
  assert not any('wm_version' in part for part in parts)  # As in scores.json.
  outcomes = results.whole(parts, entries)
  where = [e['where'] for e in outcomes if e['quantity'] == 'share']
  # The world's tags and what the metric names; `many` is neither.
  assert where == [
    {'even': False},
    {'even': True},
    {'kind': 'x'},
    {'kind': 'y'},
  ]
  x = outcomes[2]
  assert (x['n'], x['unmeasured']) == (2, {'empty': 1})
  assert x['value'] == pytest.approx(1.3 / 2)
  fields = json.loads((tmp_path / 'scores.json').read_text())[0]
  assert set(x) == {*fields, 'where'}


def test_killed_and_started_again_goes_on(tmp_path):
  first, second = Counted('a'), Counted('b')
  Counted.interrupted.add('b')
  with pytest.raises(KeyboardInterrupt):
    _run(tmp_path, first, second)
  assert not (tmp_path / 'scores.json').exists()
  Counted.interrupted.clear()
  entries = _run(tmp_path, first, second)
  assert Counted.calls == ['a', 'b']
  whole = tmp_path / 'whole'
  assert _run(whole, first, second) == entries
  for name in ('scores.json', 'rows.parquet', 'breakdown.json'):
    assert (whole / name).read_bytes() == (tmp_path / name).read_bytes()


@pytest.fixture
def registered(monkeypatch):
  """Counted is found by its name, as a metric of a file is."""
  find = registry.find

  def counted(kind, name):
    return Counted if name == 'counted' else find(kind, name)

  monkeypatch.setattr(registry, 'find', counted)


def test_scores_of_the_same_run_add_up(tmp_path, registered):
  _run(tmp_path, Counted('a'))
  entries = _run(tmp_path, Counted('b'))
  assert [e['spec'] for e in entries] == ["counted(label='b')"] * 2
  stored = json.loads((tmp_path / 'scores.json').read_text())
  assert [e['spec'] for e in stored] == [
    *["counted(label='b')"] * 2,
    *['counted()'] * 2,
  ]
  assert Counted.calls == ['a', 'b']
  assert len(pd.read_parquet(tmp_path / 'rows.parquet')) == 10


def test_what_is_not_asked_for_and_stands_no_more_is_left_out(
  tmp_path, registered
):
  _run(tmp_path, Counted('a'))
  output = []
  entries = _run(tmp_path, Counted('b'), origin=OTHER, log=output.append)
  assert [e['spec'] for e in entries] == ["counted(label='b')"] * 2
  assert output == [
    'counted(): left out, name the metric to recompute it: model changed'
  ]
  # Its rows stay: once the model is again what it was, they stand again.
  _run(tmp_path, Counted('a'), log=output.append)
  assert output[1] == 'counted(): cached'


@pytest.mark.parametrize(
  'other', [{'seed': 4}, {'model_name': 'n'}, {'extra': {'step': 2}}]
)
def test_another_run_is_refused(tmp_path, other):
  _run(tmp_path)
  before = (tmp_path / 'scores.json').read_bytes()
  with pytest.raises(core.InputError, match='another score run'):
    _run(tmp_path, **other)
  assert (tmp_path / 'scores.json').read_bytes() == before


def test_another_vocabulary_is_refused_before_anything_is_written(tmp_path):
  with pytest.raises(core.InputError, match='knows 5 tokens'):
    _run(tmp_path / 'x', predictor=oracles.Uniform(5, 1, 12))
  assert not (tmp_path / 'x').exists()


def test_nothing_temporary_is_left(tmp_path):
  _run(tmp_path, Counted(), compression.Metric(trials=5))
  names = [name for _, _, outcomes in os.walk(tmp_path) for name in outcomes]
  assert not [name for name in names if name.startswith('.')]
  assert {'scores.json', 'rows.parquet', 'breakdown.json'} <= set(names)


def test_what_is_missing_is_a_row_that_says_so(tmp_path):
  @dataclasses.dataclass(frozen=True)
  class Needy(Counted):
    needs: ClassVar[tuple[core.Need, ...]] = (
      core.HiddenStates,
      core.Verbal.questions,
    )

  (entry,) = _run(tmp_path, Needy())
  assert entry['unmeasured'] == {'needs_hidden_states': 1}
  assert entry['value'] is None
  assert not Counted.calls


@pytest.mark.parametrize('value', [2.0, -0.1, np.nan])
def test_a_value_that_no_interval_could_hold_is_refused(tmp_path, value):
  class Wild(Counted):
    def __call__(self, predictor, world, seed):
      return (core.scores('wild', [0.5, value]),)

  with pytest.raises(core.InputError, match=r"'wild' has .* expected 0 to 1"):
    _run(tmp_path, Wild())
  assert not list(tmp_path.rglob('*.json'))


@pytest.mark.parametrize(
  ('name', 'inputs'),
  [
    ('group', {'group': np.array([1])}),
    ('weight', {'weight': np.ones((2, 1))}),
    ('kind', {'columns': {'kind': np.array([1, 2, 3])}}),
  ],
)
def test_what_is_not_one_for_each_value_is_refused(tmp_path, name, inputs):
  class Ragged(Counted):
    def __call__(self, predictor, world, seed):
      return (core.scores('ragged', [0.5, 1.0], **inputs),)

  message = rf"'ragged' has {name} of shape .*; expected \(2,\)"
  with pytest.raises(core.InputError, match=message):
    _run(tmp_path, Ragged())
  assert not list(tmp_path.rglob('*.json'))


def test_commit_is_of_this_checkout(root):
  result = provenance.commit()
  if (root / '.git').exists():
    assert result
    assert len(result.removesuffix('-dirty')) == 40
  else:
    assert result is None


def test_table_shows_every_entry(tmp_path):
  text = scoring.table(_run(tmp_path))
  assert len(text.splitlines()) == 2
  assert 'share' in text
  assert 'n=3 clusters=2 {"empty": 1}' in text


@pytest.mark.parametrize(
  ('bounds', 'low', 'high'),
  [((-np.inf, 1), -np.inf, 1.0), ((0, np.inf), 0.0, np.inf)],
)
def test_bounds_may_be_infinite_on_either_side(tmp_path, bounds, low, high):
  value = np.tile([0.9, 0.8, 1.0, 0.1, 0.9], 2)

  @dataclasses.dataclass(frozen=True)
  class Bounded(Counted):
    def __call__(self, predictor, world, seed):
      return (core.scores('r2', value, bounds=bounds),)

  (entry,) = _run(tmp_path, Bounded())
  assert entry['value'] == pytest.approx(value.mean())
  assert low <= entry['low'] < entry['value'] < entry['high'] <= high
  (path,) = results.paths(tmp_path)
  (scores,) = results.read(path).scores
  assert scores.limits == (low, high)


@pytest.mark.parametrize('bounds', [(1.0, 0.0), (0.5, 0.5), (np.nan, 1.0)])
def test_bounds_that_hold_nothing_are_refused(tmp_path, bounds):
  class Wild(Counted):
    def __call__(self, predictor, world, seed):
      return (core.scores('wild', [0.5], bounds=bounds),)

  with pytest.raises(core.InputError, match="'wild' has bounds"):
    _run(tmp_path, Wild())


def test_a_world_without_held_out_sequences_says_why_there_is_no_value():
  for entry in small.scored(
    'oracle()', 'next_token(num=2)', 'lattice(size=2, length=2)'
  ):
    assert (entry['n'], entry['value']) == (0, None)
    assert entry['unmeasured'] == {'no_trials': 1}
