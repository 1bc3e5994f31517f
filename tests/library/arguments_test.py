"""Calls of the library refuse what they are not annotated for, in a line."""

import dataclasses
import inspect
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import networkx as nx
import numpy as np
import pytest

import wm
from tests import small
from wm import core, options
from wm.library import arguments
from wm.options import Option

SHORT = {
  'world': 'lattice(size=3, length=6)',
  'source': 'uniform()',
  'metrics': 'next_token(num=5)',
}


@pytest.mark.parametrize(
  ('value', 'hint', 'fits'),
  [
    (3, int, True),
    (np.int64(3), int, True),
    (True, int, False),
    (3, float, True),
    (np.float32(3), float, True),
    ('3', float, False),
    (None, int | None, True),
    ('ab', Sequence[str], False),
    (['a', 'b'], Sequence[str], True),
    (('a', 5), Sequence[str], False),
    ((4, 0.5), tuple[int, float], True),
    ((4, 0.5, 1), tuple[int, float], False),
    ({'a': 1}, Mapping[str, int], True),
    ({'a': 'b'}, Mapping[str, int], False),
    (print, Callable[[str], None], True),
    (5, Callable[[str], None], False),
    (pathlib.Path('x'), str | pathlib.Path, True),
    (5, Annotated[int, Option('', least=1)], True),
    (object(), Any, True),
  ],
)
def test_what_fits_a_type(value, hint, fits):
  assert options.fits(value, hint) == fits


@pytest.mark.parametrize(
  ('call', 'taken', 'message'),
  [
    (
      wm.score,
      {'world': 5},
      r'score: world=5 is of type int; expected core\.W',
    ),
    (wm.score, {'source': np.eye(9)}, 'array.* is of type ndarray; expected'),
    (wm.score, {'metrics': []}, r'score: metrics=\[\] is empty'),
    (wm.score, {'source': len}, 'len gave int64 of shape'),
    (wm.score, {'seed': -1}, 'score: seed=-1: expected at least 0'),
    (wm.score, {'seed': 1.5}, 'score: seed=1.5 is of type float; expected int'),
    (wm.score, {'name': 'a\nb'}, 'expected a line of text'),
    (wm.score, {'out': ''}, 'out is empty'),
    (wm.score, {'out': 'a\0b'}, 'holds NUL'),
    (wm.score, {'checkpoint': 'last but one'}, 'of an untrained model'),
    (
      wm.score,
      {'source': np.sin, 'checkpoint': 'last but one'},
      'of an untrained model',
    ),
    (wm.score, {'model': 'lstm()'}, 'is no training run of it'),
    (wm.score, {'model': 'lstm()', 'source': np.sin}, 'is no training run of'),
    (wm.score, {'source': np.sin, 'world': None}, r"to use <ufunc 'sin'> in"),
    (wm.score, {'metrics': '9' * 500}, 'bad spec'),
  ],
)
def test_what_a_call_refuses(call, taken, message, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  with pytest.raises(core.InputError, match=message) as caught:
    call(**{**SHORT, 'out': 'new', **taken})
  assert '\n' not in str(caught.value)
  assert len(str(caught.value)) < 400
  assert not [*tmp_path.iterdir()]


def test_numbers_of_numpy_are_numbers(tmp_path):
  five, folder = np.int64(5), tmp_path / 'a'
  wm.sample(SHORT['world'], folder, num=five, num_heldout=five, seed=five)
  inputs = wm.Sampling(num=five, num_heldout=five, seed=five)
  wm.sample(SHORT['world'], folder, inputs)  # The same run.
  world = dataclasses.replace(
    wm.make('world', SHORT['world']), size=np.int64(3)
  )
  assert wm.spec(world) == SHORT['world']
  graph = nx.cycle_graph(4)
  assert wm.from_graph(graph, folder / 'map', max_moves=five).max_moves == 5
  entries = small.scored(**SHORT, seed=np.int64(1))
  assert entries == small.scored(**SHORT, seed=1)
  options = wm.Training(steps=five, lr=np.float32(0.5), floor=1)
  assert repr((options.steps, options.lr, options.floor)) == '(5, 0.5, 1.0)'


def test_a_run_is_a_path_wherever_one_is_expected(tmp_path):
  run = wm.Run(tmp_path / 'run', {})
  wm.sample(SHORT['world'], run, num=5, num_heldout=5)
  training = wm.Training(data=tmp_path / 'run' / 'data')
  assert training.data == str(tmp_path / 'run' / 'data')
  wm.train(SHORT['world'], 'ngram()', tmp_path / 'b', data=training.data)
  wm.score(wm.Run(tmp_path / 'b', {}), SHORT['metrics'])
  row = wm.Row('trained', wm.Run(tmp_path / 'b', {}))
  scores = wm.study([row], SHORT['world'], SHORT['metrics'], tmp_path / 'c')
  assert str(tmp_path / 'c' / 'trained') in set(scores['run'])
  for call in (wm.report, lambda run: wm.report([run])):
    assert call(wm.Run(tmp_path / 'b', {})).is_file()


def test_trust_takes_several_paths(tmp_path, monkeypatch):
  monkeypatch.setattr('wm.core.plugins._trusted', set())
  wm.trust(tmp_path, str(tmp_path))
  with pytest.raises(core.InputError, match='trust: paths='):
    wm.trust(5)


def test_a_graph_takes_fields_of_its_world(tmp_path):
  square = nx.cycle_graph(4)
  world = wm.from_graph(square, tmp_path / 'a', traversal='shortest')
  assert world.traversal == 'shortest'
  with pytest.raises(core.InputError, match="no field 'traversl'"):
    wm.from_graph(square, tmp_path / 'b', traversl='shortest')


def test_a_text_has_no_spec():
  with pytest.raises(core.InputError, match="'maps' is of type str; exp"):
    wm.spec('maps')


@pytest.mark.parametrize('name', wm.__all__)
def test_a_checked_call_is_called_and_documented_as_before(name):
  thing = getattr(wm, name)
  assert thing is getattr(wm, name)
  if inspect.isfunction(thing):
    inner = thing.__wrapped__  # The call without its checks.
    assert inspect.signature(thing) == inspect.signature(inner)
    assert thing.__doc__ == inner.__doc__
    arguments._hints(inner)  # All are known where the call is made.


@pytest.mark.parametrize(
  ('cls', 'fields', 'message'),
  [
    (wm.Training, {'steps': '5'}, "steps='5' is of type str; expected int"),
    (wm.Training, {'lr': None}, 'lr=None is of type NoneType'),
    (wm.Training, {'log_every': 0}, 'log_every=0: expected at least 1'),
    (wm.Sampling, {'num': 2.5}, 'num=2.5 is of type float'),
    (wm.Reconstruction, {'shuffles': 'x'}, 'expected int'),
  ],
)
def test_options_are_of_their_types(cls, fields, message):
  with pytest.raises(core.InputError, match=message):
    cls(**fields)


ROWS = 'lattice(size=3, length=6)'


@pytest.mark.parametrize(
  ('row', 'message'),
  [
    ('report: uniform()', "no row can be named 'report'"),
    (f'a: uniform() on {ROWS}', 'there is nothing to train in uniform'),
    (f'a: ngram() on {ROWS} then on connect4()', 'another voc'),
    (f'a: ngram() on {ROWS} with steps=0', "row 'a': steps=0: expected at"),
  ],
)
def test_a_study_refuses_rows_before_any_is_done(row, message, tmp_path):
  with pytest.raises(core.InputError, match=message):
    wm.study([row], ROWS, 'next_token(num=5)', tmp_path / 'new')
  assert not (tmp_path / 'new').exists()


@pytest.mark.parametrize(
  ('taken', 'message'),
  [
    ({'model': 'nope()'}, "no model is named 'nope'"),
    ({'world': 'nope()'}, "no world is named 'nope'"),
    ({'lr': float('nan')}, 'lr=nan: expected a finite number'),
  ],
)
def test_a_sweep_refuses_settings_before_any_is_trained(
  taken, message, tmp_path
):
  usual = {'world': ROWS, 'model': 'ngram()'}
  with pytest.raises(core.InputError, match=message):
    wm.sweep({'seed': [1, 2]}, tmp_path / 'new', {**usual, **taken})
  assert not (tmp_path / 'new').exists()
