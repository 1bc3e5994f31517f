"""The worst trials: which they are, what is drawn, and what the page says."""

import base64
import csv
import gzip
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from tests import every_world, page_text
from tests.marks import few
from wm import core
from wm.core import registry
from wm.evaluation import scoring
from wm.models.serving import oracles
from wm.reporting import collect, worst, write

COLUMNS = (
  *('metric', 'spec', 'quantity', 'row', 'value', 'reason', 'prefix'),
  *('other_prefix', 'state', 'other_state', 'suffix', 'wrong_at'),
)


def entry(metric='compression', quantity='precision', **more):
  return {
    **{'metric': metric, 'spec': f'{metric}()', 'quantity': quantity},
    **{'world': 'lattice()', 'model': 'm', 'n': 3, 'value': 0.5},
    **{'low': 0.0, 'high': 1.0, 'unmeasured': {}, 'seed': 0, **more},
  }


def run_of(folder, rows, entries=None) -> collect.Run:
  """A run with these rows, dicts that leave out what is usual."""
  folder.mkdir(exist_ok=True)
  (folder / 'scores.json').write_text(json.dumps(entries or [entry()]))
  usual = {'metric': 'compression', 'spec': 'compression()'}
  with open(folder / 'rows.csv', 'w', newline='') as file:
    writer = csv.DictWriter(file, COLUMNS, restval='')
    writer.writeheader()
    for number, row in enumerate(rows):
      known = {**usual, 'quantity': 'precision', 'row': number, **row}
      writer.writerow(known)
  return collect.load(folder)


def chosen(run, most=3) -> list[worst.Trial]:
  (group,) = worst.groups([run], most)[0]
  return list(group.trials)


# Which they are.


def test_lowest_values_come_first_and_perfect_ones_never(tmp_path):
  values = [1.0, 0.5, 0.25, 1.0, 0.75]
  rows = [{'value': v, 'state': str(n)} for n, v in enumerate(values)]
  run = run_of(tmp_path / 'a', rows)
  assert [trial.value for trial in chosen(run, 9)] == [0.25, 0.5, 0.75]
  assert [trial.value for trial in chosen(run, 2)] == [0.25, 0.5]
  (group,) = worst.groups([run])[0]
  assert (group.measured, group.short) == (5, 3)


def test_unmeasured_rows_are_no_failures(tmp_path):
  rows = [
    {'value': '', 'reason': 'vacuous', 'state': '0'},
    {'value': 0, 'state': '1'},
  ]
  run = run_of(tmp_path / 'a', rows)
  assert [trial.states for trial in chosen(run)] == [('1',)]
  assert worst.groups([run])[0][0].measured == 1


def test_ties_come_in_an_order_of_states_not_of_rows(tmp_path):
  states = [str(n) for n in range(40)]
  orders = [
    [
      trial.states
      for trial in chosen(
        run_of(tmp_path / name, [{'value': 0, 'state': s} for s in inputs]), 5
      )
    ]
    for name, inputs in (('a', states), ('b', states[::-1]))
  ]
  assert orders[0] == orders[1]
  assert orders[0] != [(s,) for s in states[:5]]


def test_no_state_twice_while_there_are_others(tmp_path):
  rows = [
    {'value': 0, 'state': str(n % 4), 'suffix': f'left {"stay " * n}'}
    for n in range(40)
  ]
  run = run_of(tmp_path / 'a', rows)
  assert len({trial.states for trial in chosen(run, 3)}) == 3
  six = chosen(run, 6)
  assert len({trial.states for trial in six}) == 4
  assert len({trial.suffix for trial in six}) == 6


def test_a_series_is_one_quantity_and_other_specs_are_left_out(tmp_path):
  entries = [
    entry('detour', 'valid_0'),
    entry('detour', 'valid_0.5', spec='detour(num=7)'),
  ]
  fixed = {'metric': 'detour', 'spec': 'detour()'}
  rows = [
    {**fixed, 'quantity': 'valid_0', 'value': 0, 'state': '0'},
    {**fixed, 'quantity': 'valid_0.5', 'value': 0, 'state': '1'},
    {**fixed, 'quantity': 'detours_0.5', 'value': 0, 'state': '2'},
    {**fixed, 'spec': 'detour(num=7)', 'value': 0, 'state': '3'},
  ]
  run = run_of(tmp_path / 'a', rows, entries)
  (group,) = worst.groups([run])[0]
  assert (group.quantity, group.measured) == ('valid', 2)
  assert {trial.states for trial in group.trials} == {('0',), ('1',)}


def test_metrics_without_prefix_and_state_are_left_out(tmp_path):
  run = run_of(tmp_path / 'a', [{'value': 0.25}, {'value': 1}])
  assert worst.groups([run]) == [[]]
  assert worst.galleries([run], [[]]) == []


def test_a_damaged_row_is_named(tmp_path):
  run = run_of(tmp_path / 'a', [{'value': 0}, {'value': 'much'}])
  with pytest.raises(core.InputError, match=r'rows\.csv.*much'):
    worst.groups([run])


def test_no_rows_no_trials(tmp_path):
  run = run_of(tmp_path / 'a', [])
  (run.folder / 'rows.csv').unlink()
  assert worst.groups([run]) == [[]]


# What is drawn.


def trial(**fields) -> worst.Trial:
  blank = worst.Trial('0', 0.0, (), (), (), 0)
  return blank._replace(**fields)


def captions(spec: str, **fields) -> list[str]:
  return [x.caption for x in worst.Painter(spec).scenes(trial(**fields))]


def test_one_state_of_two_prefixes_is_drawn_once():
  assert captions(
    'lattice()', prefixes=('right', 'right stay'), states=('1', '1')
  ) == ['After either prefix']


def test_the_place_and_what_is_legal_there():
  result = captions(
    'lattice()',
    prefixes=('right', 'right right'),
    suffix=('right', 'left', 'left', 'left'),
    wrong_at=3,
  )
  on = 'and 2 tokens of the continuation: left is legal here'
  assert result == [
    *(f'After the first prefix {on}', f'After the other prefix {on}'),
  ]


def test_a_wrong_first_token_is_of_the_states_of_the_prefixes():
  assert captions(
    'lattice()', states=('0', '2'), suffix=('left',), wrong_at=1
  ) == [
    'After the first prefix: left is illegal here',
    'After the other prefix: left is legal here',
  ]


def test_a_continuation_that_leaves_the_world_before():
  result = captions(
    'lattice()', states=('1',), suffix=('left', 'left', 'stay'), wrong_at=3
  )
  assert result == [
    'After the prefix and 1 token of the continuation: '
    'left is illegal here already',
  ]


def test_the_picture_is_that_of_the_state_there():
  painter = worst.Painter('connect4()')
  (result,) = painter.scenes(
    trial(prefixes=('1 1',), suffix=('2', '3', '4'), wrong_at=3)
  )
  world = painter.world
  assert result.drawing == world.render(world.parse('2,1,1,0,0,0,0')[0])


@pytest.mark.parametrize(
  'fields',
  [
    {},
    {'states': ('99',)},
    {'prefixes': ('up up',)},
    {'prefixes': ('left',)},
    {'prefixes': ('left',), 'states': ('99',)},
  ],
)
def test_what_the_world_does_not_know_is_not_drawn(fields):
  assert captions('lattice()', **fields) == []


@pytest.mark.parametrize('wrong_at', [0, 3, 9])
def test_an_unknown_place_is_not_drawn(wrong_at):
  result = captions(
    'lattice()', states=('0',), suffix=('up', 'left'), wrong_at=wrong_at
  )
  assert result == ['After the prefix']


def test_prefixes_are_preferred_and_states_serve_without_them():
  painter = worst.Painter('lattice()')
  ((result, _),) = painter.scenes(trial(prefixes=('right',), states=('3',)))
  assert result == painter.world.render(np.array([1], np.int32))
  ((result, _),) = painter.scenes(trial(prefixes=('left',), states=('3',)))
  assert result == painter.world.render(np.array([3], np.int32))


# What the page says.


def drawings(page: str) -> list[ElementTree.Element]:
  """Of each image of a page of one file, which has each drawing once."""
  packed = re.search(r'id="drawings">([^<]+)<', page)
  if not packed:
    return []
  named = json.loads(gzip.decompress(base64.b64decode(packed[1])))
  shown = re.findall(r'data-drawing="([^"]+)"', page)
  assert set(shown) == set(named)
  return [ElementTree.fromstring(named[name]) for name in shown]


def page_of(run, tmp_path) -> str:
  """The page of a report of one run."""
  write.report([run.folder], tmp_path / 'report', single_file=True)
  return (tmp_path / 'report' / 'report.html').read_text()


def test_the_page_marks_the_token_and_escapes(tmp_path):
  rows = [
    {
      **{'value': 0, 'state': '0', 'prefix': 'stay', 'other_prefix': '<b>'},
      **{'suffix': 'stay left stay <i>', 'wrong_at': 2},
    }
  ]
  page = page_of(run_of(tmp_path / 'a', rows), tmp_path)
  assert 'stay <mark>left</mark> <span class="after">stay &lt;i&gt;' in page
  assert '<code>&lt;b&gt;</code>' in page
  assert '1 of 1 trials below 1, lowest 0.000' in page
  assert 'In the pictures: The line around the current state' in page
  shown = drawings(page)
  assert len(shown) == 2, 'of the trial, which is the example of its metric'


@pytest.mark.parametrize(
  ('wrong_at', 'words'),
  [
    (0, 'left stay'),
    (1, '<mark>left</mark> <span class="after">stay</span>'),
    (2, 'left <mark>stay</mark>'),
    (3, 'left stay'),
  ],
)
def test_the_token_is_marked_where_it_is_known(tmp_path, wrong_at, words):
  row = {'value': 0, 'state': '0', 'suffix': 'left stay', 'wrong_at': wrong_at}
  page = page_of(run_of(tmp_path / 'a', [row]), tmp_path)
  assert f'<dd><code>{words}</code></dd>' in page


def test_a_continuation_is_what_the_metric_declares(tmp_path):
  run = run_of(tmp_path / 'a', [{'value': 0, 'state': '0', 'suffix': 'left'}])
  (group,) = worst.groups([run])[0]
  declared = registry.find('metric', 'compression').measures
  assert group.tells == declared['precision'].picture


def test_perfect_models_are_named(tmp_path):
  run = run_of(tmp_path / 'a', [{'value': 1, 'state': '0'}] * 4)
  (gallery,) = worst.galleries([run], worst.groups([run]))
  assert gallery.perfect == ['compression(): precision (4)']
  assert gallery.groups == []


def test_without_the_world_there_is_text(tmp_path):
  world = "maps(nodes='gone.csv', edges='gone.csv')"
  rows = [{'value': 0, 'state': '1,2', 'prefix': '1 2 N', 'suffix': 'S'}]
  run = run_of(tmp_path / 'a', rows, [entry(world=world)])
  page = page_of(run, tmp_path)
  assert 'No pictures: no such file: gone.csv' in page
  assert '1 2 N' in page
  assert not drawings(page)


# Every world, from scores to page.

METRICS = (
  'next_token(num=6)',
  'traversal(num=6)',
  'compression(trials=6, samples=4)',
  'distinction(trials=6, samples=4)',
  'detour(num=4, probabilities=(0.1,))',
)


@pytest.mark.parametrize('name', few(5, every_world.names(core.Prefixed)))
def test_every_world_is_pictured(name, tmp_path):
  world = registry.make('world', f'{name}()')
  bad = oracles.NoisyOracle(world, illegal=0.0, wrong=0.4, by='prefix', seed=2)
  metrics = [registry.make('metric', text) for text in METRICS]
  loaded = scoring.Loaded(bad, world, 'bad')
  scoring.run(loaded, metrics, seed=1, out=tmp_path / 'a')
  write.report([tmp_path / 'a'], tmp_path / 'report', single_file=True)
  page = (tmp_path / 'report' / 'report.html').read_text()
  results = drawings(page)
  if world.legal(world.sample_states(50, 0))[:, 1:].all():
    assert not results, 'where everything is legal nothing can fail'
    return
  if isinstance(world, core.Latent):
    assert not results, 'of 256 bins alike the rule accepts none'
    return
  assert results, 'there are failures and so there are pictures'
  assert all(root.tag.endswith('svg') for root in results)
  assert 'is illegal here' in page
  assert not re.search(r'(src|href)="(?:https?:)?//', page)
  text = page_text.read(tmp_path / 'report')
  assert '## The worst trials' in text
