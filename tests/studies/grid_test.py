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


def axis(text: str) -> grid.Axis:
  return grid.parse_axis(text, lambda name, text: (name, text), FILES.get)


def number(text: str) -> grid.Axis:
  return grid.parse_axis(text, lambda name, text: float(text), FILES.get)


def test_values_are_divided_by_bars_and_may_hold_anything_else():
  found = axis('model=toy(width=1, dropout=0.5) | toy()|big: toy(width=9)')
  assert found.name == 'model'
  assert [choice.label for choice in found.choices] == [
    'toy_width=1_dropout=0.5',
    'toy',
    'big',
  ]
  assert found.choices[2].strong == {'model': ('model', 'toy(width=9)')}
  assert found.choices[2].weak == {}
  labels = [choice.label for choice in axis('lr=1e-4|3e-4').choices]
  assert labels == ['1e-4', '3e-4']
  # A colon inside a value names nothing.
  assert axis('coordinator=host:80').choices[0].label == 'host_80'


def test_a_flagfile_is_called_by_its_stem():
  found = axis('flagfile=sizes/a.flags|other: sizes/b.flags')
  assert [choice.label for choice in found.choices] == ['a', 'other']
  assert found.choices[0].weak == FILES['sizes/a.flags']
  assert found.choices[0].strong == {}


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
    axis(text)
  assert '\n' not in str(caught.value)


@hypothesis.given(st.text(min_size=1).filter(lambda s: s.strip()))
def test_every_label_can_be_a_folder(text):
  label = grid.label_of('lr', text.strip())
  assert label
  assert len(label) <= 60
  assert not set(label) & set('/\\ \'"()|*?<>')
  assert not label.startswith('.')


def test_each_with_each_the_first_axis_slowest():
  made = grid.runs([number('lr=1|2'), number('seed=3|4|5')], {}, DEFAULTS)
  assert [run.name for run in made] == [
    f'lr={lr},seed={seed}' for lr in (1, 2) for seed in (3, 4, 5)
  ]
  assert made[4].flags == {**DEFAULTS, 'lr': 2.0, 'seed': 4.0}
  assert made[4].chosen == {'lr': 2.0, 'seed': 4.0}
  assert len({run.name for run in made}) == 6


def test_what_is_stronger_than_what():
  axes = [axis('flagfile=sizes/a.flags|sizes/b.flags'), number('lr=7')]
  first, second = grid.runs(axes, {'steps': 20, 'lr': 3.0}, DEFAULTS)
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
  axes = [axis('flagfile=sizes/a.flags'), number('lr=7'), number('warmup=2')]
  winner = grid.runs(axes, {'steps': 20}, DEFAULTS)
  after = grid.runs(
    [number('seed=1|2'), number('warmup=9')],
    {'steps': 80, 'lr': 3.0},
    {'lr': 'not looked at'},
    winner,
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
  lines = [number('lr=1'), number('seed=5'), number('lr=2|3')]
  made = grid.runs(lines, {}, DEFAULTS)
  assert made == grid.runs([number('lr=1|2|3'), number('seed=5')], {}, DEFAULTS)


@pytest.mark.parametrize(
  'lines', [['lr=1|1'], ['lr=1', 'lr=1'], ['model=toy(a=1)|toy[a=1]']]
)
def test_two_values_of_one_name_are_refused(lines):
  with pytest.raises(core.InputError, match='two values are called'):
    grid.runs([axis(line) for line in lines], {}, DEFAULTS)


def test_where_and_how_to_run_is_not_what_a_run_is():
  flags = {'world': 'w()', 'model': 'm()', 'lr': 1.0, 'data': 'x'}
  one, other = (
    grid.GridRun({}, {**flags, 'save_every': n}, {}).identity for n in (1, 2)
  )
  assert one == other
  assert one['lr'] == 1.0
  assert 'data' not in one
  assert 'save_every' not in one


def test_tables_call_a_run_by_its_labels_without_the_seed():
  axes = [axis('model=m: toy(width=1)'), axis('data=human: /a/b|/c')]
  axes += [number('lr=1e-3'), number('seed=0|1')]
  found = grid.runs(axes, {}, {**DEFAULTS, 'data': None})
  assert found[0].name == 'm,data=human,lr=1e-3,seed=0'
  assert [run.title for run in found] == [
    'm,human,lr=1e-3',
    'm,human,lr=1e-3',
    'm,c,lr=1e-3',
    'm,c,lr=1e-3',
  ]
  given = {'model': 'toy(width=1)'}
  (run,) = grid.runs([number('seed=7')], given, DEFAULTS)
  assert (run.name, run.title) == ('seed=7', 'toy')


def test_a_page_says_how_often_loss_and_exactness_choose_the_same(tmp_path):
  """Two of three sizes: in the third the best loss is not the most exact."""
  axes = [number('width=1|2|3'), number('lr=1|2'), number('seed=0|1')]
  runs = grid.runs(axes, {}, {**DEFAULTS, 'width': None})
  standings = []
  for run in runs:
    width, lr = float(run.labels['width']), float(run.labels['lr'])
    exact = lr / 10 if width == 3 else 1 - lr / 10
    exact += int(run.labels['seed']) / 100
    best = {'best_loss': lr, 'best_exact': exact, 'best_step': 1}
    best |= {'seconds': 1.0, 'best_labelwise': None if width == 2 else exact}
    standings.append(grid.Standing(run, grid.DONE, best))
  grid.write(tmp_path, standings, ['width'])
  page = (tmp_path / 'sweep.md').read_text()
  assert 'The best by loss is the best by exact in 2 of 3.' in page
  assert 'The best by loss is the best by labelwise in 1 of 2.' in page
  assert '| 1 | 1 | 2/2 | 1 | 0 | 0.905 | 0.905 |' in page


def test_a_grid_of_too_many_runs_is_refused():
  numbers = '|'.join(map(str, range(100)))
  axes = [number(f'{name}={numbers}') for name in ('lr', 'seed', 'steps')]
  with pytest.raises(core.InputError, match='1,000,000 runs; expected at most'):
    grid.runs(axes, {}, DEFAULTS)
