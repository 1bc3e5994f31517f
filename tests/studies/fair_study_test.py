"""A study of matched rows: what they have seen, their maps and differences."""

import json
import re

import pytest

import wm
from tests import page_text
from wm.runtime import files

WALKS = 'maps(rows=3, columns=3, max_moves=12)'
PATHS = f"{WALKS[:-1]}, traversal='shortest')"
NET = 'transformer(layers=1, width=16)'
ROWS = [
  f'paths: {NET} on {PATHS} with steps=2',
  f'walks: {NET} on {WALKS} with match="sequences+steps"',
  f'counts: ngram(order=2) on {WALKS}',
]


@pytest.fixture(scope='module')
def done(tmp_path_factory):
  """The folder of a study that was done, and the text of its report."""
  out = tmp_path_factory.mktemp('fair')
  wm.study(
    ROWS,
    WALKS,
    ['next_token(num=80)', 'compression(trials=20, samples=3)'],
    out,
    sampling=wm.Sampling(num=300, num_heldout=20),
    training=wm.Training(steps=4, batch=8, log_every=1),
    num_samples=40,
  )
  page = out / 'report' / 'report.html'
  return out, page_text.read(page), page.read_text()


def test_a_dry_run_lists_what_is_left_and_makes_nothing(done, tmp_path):
  metrics = ['next_token(num=80)', 'compression(trials=20, samples=3)']
  options = {
    'sampling': wm.Sampling(num=300, num_heldout=20),
    'training': wm.Training(steps=4, batch=8, log_every=1),
    'dry_run': True,
  }
  paths = wm.spec(wm.make('world', PATHS))
  lines: list[str] = []
  wm.study(ROWS, WALKS, metrics, tmp_path / 'a', log=lines.append, **options)
  assert not (tmp_path / 'a').exists()
  assert [line.partition(':')[0] for line in lines[:3]] == [
    *('paths', 'walks', 'counts')
  ]
  assert lines[0].endswith(f'for 2 steps; score 2 metrics in {paths}')
  assert 'matched by sequences+steps' in lines[1]
  assert any(line.startswith('oracle: score 2 metrics') for line in lines)
  lines.clear()
  wm.study(ROWS, WALKS, metrics, done[0], log=lines.append, **options)
  assert 'paths: done' in lines
  assert 'oracle: done' in lines


def test_matched_rows_have_the_numbers_of_the_other(done):
  out, _, _ = done
  lines = {
    name: [
      files.read_json(out / name / 'data/train/manifest.json')['rows'],
      files.read_json(out / name / 'train.json')['step'],
    ]
    for name in ('paths', 'walks')
  }
  assert lines['paths'] == lines['walks']
  assert lines['paths'][1] == 2
  assert lines['paths'][0] < 300


def test_each_trained_model_has_a_row_of_what_it_has_seen(done):
  out, text, _ = done
  heads, *rows = page_text.table(text, 'Training data and training')
  assert [row[0] for row in rows] == ['paths', 'walks', 'counts']
  for row in rows:
    cells = dict(zip(heads, row, strict=True))
    seen = files.read_json(out / row[0] / 'exposure.json')
    assert cells['training sequences'] == str(seen['sequences'])
    assert cells['distinct'] == str(seen['distinct'])
    assert cells['states shown'] == f'{seen["states_shown"]:.3f}'
    assert 0 < seen['prefixes_shown'] < 1
    assert (seen['training_loss'] is None) == (row[0] == 'counts')
  assert files.read_json(out / 'counts' / 'exposure.json')['epochs'] == 1


def test_a_run_of_an_earlier_version_has_blanks(done, tmp_path):
  out, _, _ = done
  seen = out / 'walks' / 'exposure.json'
  text = seen.read_text()
  seen.unlink()
  page = wm.report(out / 'walks', tmp_path)
  heads, row = page_text.table(
    page_text.read(page), 'Training data and training'
  )
  cells = dict(zip(heads, row, strict=True))
  assert (cells['distinct'], cells['steps']) == ('', '2')
  seen.write_text(text)


def test_what_stands_beside_trained_rows_is_mapped_too(done):
  out, text, _ = done
  heads, *rows = page_text.table(text, 'Reconstructed maps')
  names = {'paths', 'walks', 'counts', 'untrained', 'uniform'}
  ceilings = {
    *('bayes_paths', 'bayes_walks'),
    *('bayes_replanning_paths', 'bayes_replanning_walks'),
  }
  assert {row[0] for row in rows} == names | ceilings
  for row in rows:
    cells = dict(zip(heads, row, strict=True))
    if row[0] in ceilings:
      assert cells['new edges'] == '0'
      assert cells['illegal directions [95 %]'].startswith('0.000 [0.000, ')
  summary = json.loads((out / 'walks' / 'summary.json').read_text())
  assert 0 < summary['illegal_directions']['value'] <= 1


def test_models_are_compared_where_their_trials_are_the_same(done):
  _, text, page = done
  heads, *rows = page_text.table(text, 'Differences between trained models')
  assert heads == [
    *('quantity', 'paths − walks', 'paths − counts', 'walks − counts')
  ]
  cells = {row[0]: row[1:] for row in rows}
  validity = cells['next_token(num=80): validity']
  assert validity[:2] == ['not the same trials'] * 2
  assert re.fullmatch(
    r'-0\.\d+ \[-?\d\.\d+, -?\d\.\d+\] p[=<]0\.\d{3} n=80', validity[2]
  )
  cells_of_pairs = ' '.join(cell for row in rows for cell in row[1:])
  ends = re.findall(r'\[(-?[\d.]+), (-?[\d.]+)\]', cells_of_pairs)
  clear = [low for low, high in ends if not float(low) <= 0 <= float(high)]
  assert page.count('<td class="bold">') == len(clear) > 0
