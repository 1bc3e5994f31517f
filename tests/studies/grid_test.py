"""The runs of a sweep: how axes are read, what flags a run gets."""

import hypothesis
import hypothesis.strategies as st
import pytest

from wm import core
from wm.studies import grid

DEFAULTS = {'lr': 1e-3, 'steps': 10, 'model': None, 'seed': 0, 'warmup': 5}
FILES = {
  'sizes/a.flags': {'model': 'toy(width=1)', 'lr': 0.5, 'steps': 99},
  'sizes/b.flags': {'model': 'toy(width=2)'},
}


START = [grid.Place({}, DEFAULTS, {})]


def parse(*texts: str) -> grid.Axes:
  return grid.parse(texts, lambda name, text: (name, text), FILES.get)


def numbers(*texts: str) -> grid.Axes:
  return grid.parse(texts, lambda name, text: float(text), FILES.get)


def test_values_are_divided_by_bars_and_may_hold_anything_else():
  axes = parse('model=toy(width=1, dropout=0.5) | toy()|big: toy(width=9)')
  assert [*axes['model']] == ['toy_width=1_dropout=0.5', 'toy', 'big']
  assert axes['model']['big'] == ('model', 'toy(width=9)')
  assert [*parse('lr=1e-4|3e-4')['lr']] == ['1e-4', '3e-4']
  # A colon inside a value names nothing.
  assert [*parse('coordinator=host:80')['coordinator']] == ['host_80']


def test_a_flagfile_is_called_by_its_stem():
  axes = parse('flagfile=sizes/a.flags|other: sizes/b.flags')
  assert [*axes['flagfile']] == ['a', 'other']
  assert axes['flagfile']['a'] == FILES['sizes/a.flags']


@pytest.mark.parametrize(
  ('text', 'message'),
  [
    ('lr', 'expected'),
    ('=1', 'expected'),
    ('lr=', 'expected'),
    ('lr=1||2', 'expected'),
  ],
)
def test_bad_axes_are_one_line(text, message):
  with pytest.raises(core.InputError, match=message) as caught:
    parse(text)
  assert '\n' not in str(caught.value)


@hypothesis.given(st.text(min_size=1).filter(lambda s: s.strip()))
def test_every_label_can_be_a_folder(text):
  label = grid.label_of('lr', text.strip())
  assert label
  assert len(label) <= 60
  assert not set(label) & set('/\\ \'"()|*?<>')
  assert not label.startswith('.')


def test_each_with_each_the_first_axis_slowest():
  made = grid.places(numbers('lr=1|2', 'seed=3|4|5'), {}, START)
  assert [run.name for run in made] == [
    f'lr={lr},seed={seed}' for lr in (1, 2) for seed in (3, 4, 5)
  ]
  assert made[4].flags == {**DEFAULTS, 'lr': 2.0, 'seed': 4.0}
  assert made[4].chosen == {'lr': 2.0, 'seed': 4.0}
  assert len({run.name for run in made}) == 6


def test_what_is_stronger_than_what():
  axes = {**parse('flagfile=sizes/a.flags|sizes/b.flags'), **numbers('lr=7')}
  first, second = grid.places(axes, {'steps': 20, 'lr': 3.0}, START)
  # Grid over sweep over flagfile over default.
  assert first.flags == {
    **DEFAULTS,
    'model': 'toy(width=1)',
    'steps': 20,
    'lr': 7.0,
  }
  assert second.flags['model'] == 'toy(width=2)'
  assert first.name == 'a,lr=7'
  assert first.chosen == {'lr': 7.0}


def test_a_second_sweep_keeps_what_the_first_found():
  axes = {**parse('flagfile=sizes/a.flags'), **numbers('lr=7', 'warmup=2')}
  winner = grid.places(axes, {'steps': 20}, START)
  after = grid.places(
    numbers('seed=1|2', 'warmup=9'), {'steps': 80, 'lr': 3.0}, winner
  )
  assert [run.name for run in after] == [
    'a,lr=7,warmup=9,seed=1',
    'a,lr=7,warmup=9,seed=2',
  ]
  # The winner's lr stands against the sweep's own, its steps do not, and an
  # axis of the new grid stands against everything.
  assert after[0].flags == {
    'model': 'toy(width=1)',
    'lr': 7.0,
    'steps': 80,
    'seed': 1.0,
    'warmup': 9.0,
  }
  assert after[0].chosen == {'lr': 7.0, 'warmup': 9.0, 'seed': 1.0}


def test_values_of_one_axis_may_stand_on_several_lines():
  made = numbers('lr=1', 'seed=5', 'lr=2|3')
  assert made == numbers('lr=1|2|3', 'seed=5')


@pytest.mark.parametrize(
  'lines', [['lr=1|1'], ['lr=1', 'lr=1'], ['model=toy(a=1)|toy[a=1]']]
)
def test_two_values_of_one_name_are_refused(lines):
  with pytest.raises(core.InputError, match='two values are called'):
    parse(*lines)


def test_values_without_labels_are_labelled_as_written():
  assert grid.labelled({'lr': [1e-3], 'model': {'m': 'toy()'}}) == {
    'lr': {'0.001': 1e-3},
    'model': {'m': 'toy()'},
  }
  with pytest.raises(core.InputError, match='two values are called'):
    grid.labelled({'lr': [1, 1]})


def test_tables_call_a_run_by_its_labels_without_the_seed():
  axes = parse('model=m: toy(width=1)', 'data=human: /a/b|/c')
  made = grid.places({**axes, **numbers('lr=1e-3', 'seed=0|1')}, {}, START)
  assert made[0].name == 'm,data=human,lr=1e-3,seed=0'
  assert [run.title for run in made] == [
    *('m,human,lr=1e-3', 'm,human,lr=1e-3', 'm,c,lr=1e-3', 'm,c,lr=1e-3')
  ]
  inputs = {'model': 'toy(width=1)'}
  (run,) = grid.places(numbers('seed=7'), inputs, START)
  assert (run.name, run.title) == ('seed=7', 'toy')


def test_a_grid_of_too_many_runs_is_refused():
  values = '|'.join(map(str, range(100)))
  axes = numbers(*(f'{name}={values}' for name in ('lr', 'seed', 'steps')))
  with pytest.raises(core.InputError, match='1,000,000 runs; expected at most'):
    grid.places(axes)
