"""Held-out values of training stand beside tables 5 and 6 of a paper."""

import json

import pytest

from tests import page_text
from wm.reporting import collect, paper_comparison, write

BEST = {
  **{'best_step': 9, 'best_loss': 0.0625, 'best_exact': 0.25},
  **{'best_loss_board': 0.5, 'best_labelwise': 0.5, 'best_trajectory': 0.125},
}
SLICE = 'slice(layers=1, width=128)'


def run_of(tmp_path, name='slice_d128', model=SLICE, **training):
  trained = {'world': 'chess()', 'model': model, **BEST}
  entry = {
    **{'metric': 'exactness', 'spec': 'exactness()', 'quantity': 'exact'},
    **{'world': 'chess()', 'model': name, 'value': 0.5, 'low': 0.25},
    **{'high': 0.75, 'n': 4, 'unmeasured': {}, 'seed': 0},
  }
  return collect.Run(
    *(tmp_path, [entry], [], [], None), training, trained=trained
  )


def test_a_run_of_the_first_stage(tmp_path):
  run = run_of(tmp_path, steps=77736, batch=128)
  first, second = paper_comparison.search_tables([run])
  assert first.title.startswith('Beside the paper: table 5: ')
  assert first.heads == (
    *('measure', 'model', 'seed', 'here', 'paper', 'the paper has'),
  )
  assert {row[0]: row[3:] for row in first.rows} == {
    'loss': ('0.0625', '0.061826', ''),
    'exact': ('0.25000', '0.38650', ''),
    'labelwise': ('0.5000', '0.9803', ''),
    'trajectory': ('0.1250', '0.0070', ''),
    'lr': ('–', '0.001', ''),
    **{
      k: ('–', x, '') for k, x in {'warmup': '20000', 'beta2': '0.999'}.items()
    },
    'weight_decay': ('–', '0.01', ''),
  }
  rows = {row[0]: row[3:] for row in second.rows}
  assert rows['exact'] == ('0.25000', '0.41269', 'steps=310944')
  assert rows['floor'] == ('–', '0.1', 'steps=310944')


def test_seeds_and_models_that_differ_say_so(tmp_path):
  runs = [run_of(tmp_path, seed=seed, steps=9, batch=128) for seed in (0, 1)]
  runs.append(run_of(tmp_path, 'mamba3_d128', 'mamba3(layers=2, width=128)'))
  del runs[0].trained['best_trajectory']
  table = paper_comparison.search_tables(runs)[0]
  rows = {row[1:3]: row for row in table.rows if row[0] == 'trajectory'}
  assert [*rows] == [
    *(('slice_d128', '0'), ('slice_d128', '1'), ('mamba3_d128', '?')),
  ]
  assert rows['slice_d128', '0'][3] == '–'
  assert rows['mamba3_d128', '?'][-1] == '1 x 128, steps=77736, batch=128'


@pytest.mark.parametrize('name', ['slice', 'slice_d128,uniform'])
def test_a_model_that_is_not_printed_has_no_table(tmp_path, name):
  assert paper_comparison.search_tables([run_of(tmp_path, name)]) == []


def test_a_report_has_them(tmp_path):
  folder = tmp_path / 'run'
  folder.mkdir()
  run = run_of(tmp_path, steps=77736, batch=128)
  for file, content in (
    ('scores.json', run.entries),
    ('train.json', run.trained),
    ('train.run.json', run.training),
  ):
    (folder / file).write_text(json.dumps(content))
  write.report([folder], tmp_path / 'report')
  text = page_text.read(tmp_path / 'report')
  assert '| exact | slice_d128 | ? | 0.25000 | 0.38650 |' in text
