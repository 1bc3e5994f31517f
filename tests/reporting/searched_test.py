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
    *('model', 'loss', 'exact', 'labelwise', 'trajectory'),
    *('paper: loss', 'paper: exact', 'paper: labelwise', 'paper: trajectory'),
    *('paper: lr', 'paper: warmup', 'paper: beta2', 'paper: weight_decay'),
    'the paper has',
  )
  ours = 'slice_d128', '0.0625', '0.25000'
  recipe = '0.001', '20000', '0.999', '0.01'
  printed = '0.061826', '0.38650', '0.9803', '0.0070', *recipe
  assert first.rows == ((*ours, '0.5000', '0.1250', *printed, ''),)
  assert second.heads[5:-1] == (
    *('paper: loss', 'paper: exact', 'paper: labelwise', 'paper: floor'),
    *('paper: other_floor', 'paper: other_loss'),
  )
  printed = '0.054437', '0.41269', '0.982439', '0.1', '0.01', '0.055932'
  rest = '0.500000', '0.1250', *printed, 'steps=310944'
  assert second.rows == ((*ours, *rest),)


def test_seeds_and_models_that_differ_say_so(tmp_path):
  runs = [run_of(tmp_path, seed=seed, steps=9, batch=128) for seed in (0, 1)]
  runs.append(run_of(tmp_path, 'mamba3_d128', 'mamba3(layers=2, width=128)'))
  del runs[0].trained['best_trajectory']
  table = paper_comparison.search_tables(runs)[0]
  assert [row[0] for row in table.rows] == [
    *('slice_d128, seed 0', 'slice_d128, seed 1', 'mamba3_d128, seed ?'),
  ]
  assert table.rows[0][4] == '–'
  assert table.rows[2][-1] == '1 x 128, steps=77736, batch=128'


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
  assert '| slice_d128 | 0.0625 | 0.25000 | 0.5000 | 0.1250 |' in text
