"""Run folders made by an earlier commit open, go on and say the same."""

import json
import pathlib
import tarfile

import numpy as np
import pytest

from tests import page_text
from tests.launch import binaries
from wm.reporting import collect
from wm.reporting import write as reports
from wm.studies import sweep

FOLDER = pathlib.Path(__file__).parent / 'golden'
KINDS = ('sampled', 'trained', 'half', 'scored', 'reconstructed')

WORLD = '--world=maps(rows=3, columns=3, max_moves=12)'
MODEL = '--model=transformer(layers=1, width=8, heads=2)'
TRAIN = (
  *('--steps=8', '--batch=8', '--eval_every=4', '--save_every=4'),
  *('--warmup=2', '--optimizer=adamw', '--lr=1e-3'),
)


@pytest.fixture(scope='module')
def folders(tmp_path_factory) -> pathlib.Path:
  """All golden folders, unpacked."""
  return unpacked(tmp_path_factory.mktemp('golden'))


def unpacked(out: pathlib.Path) -> pathlib.Path:
  for path in sorted(FOLDER.glob('*.tar.xz')):
    with tarfile.open(path) as tar:
      tar.extractall(out, filter='data')
  return out


def contents(folder: pathlib.Path) -> dict[str, bytes]:
  """Name -> bytes of the files that a stage must not change."""
  return {
    str(path.relative_to(folder)): path.read_bytes()
    for part in ('data', 'checkpoints')
    for path in sorted((folder / part).rglob('*'))
    if path.is_file()
  }


def results(folder: pathlib.Path) -> dict[tuple[str, str], tuple]:
  """(spec, quantity) -> what was measured, without intervals."""
  return {
    (e['spec'], e['quantity']): (e['n'], e['value'], e['unmeasured'])
    for e in json.loads((folder / 'scores.json').read_text())
  }


@pytest.fixture(scope='module')
def again(folders) -> dict[str, dict]:
  """What the folders held before each stage was run again in them."""
  before = {
    'data': contents(folders / 'sampled'),
    'trained': contents(folders / 'trained'),
    'train': json.loads((folders / 'trained/train.json').read_text()),
    'scores': results(folders / 'scored'),
    'recon': json.loads((folders / 'reconstructed/summary.json').read_text()),
  }
  specs = list(dict.fromkeys(spec for spec, _ in before['scores']))
  common = (WORLD, '--seed=1')
  lines = [
    ('sample', *common, '--num=200', '--num_heldout=40'),
    ('train', *common, MODEL, *TRAIN),
    ('train', *common, MODEL, *TRAIN),
    ('score', *common, *(f'--metric={spec}' for spec in specs)),
    ('reconstruct', *common, '--num_samples=50', '--shuffles=1'),
  ]
  for line, kind in zip(lines, KINDS, strict=True):
    binaries.printed(*line, f'--out={folders / kind}')
  return before


def test_a_sampled_folder_is_complete(folders, again):
  assert contents(folders / 'sampled') == again['data']


def test_a_trained_run_is_not_trained_again(folders, again):
  assert contents(folders / 'trained') == again['trained']
  assert json.loads((folders / 'trained/train.json').read_text())['step'] == 8


def test_half_a_run_goes_on_to_the_same_loss(folders, again):
  summary = json.loads((folders / 'half/train.json').read_text())
  assert summary['step'] == 8
  for key in ('heldout_loss', 'best_loss', 'heldout_loss_moves'):
    np.testing.assert_allclose(summary[key], again['train'][key], rtol=1e-5)


def test_a_scored_run_is_scored_the_same(folders, again):
  outcomes = results(folders / 'scored')
  assert set(again['scores']) <= set(outcomes)
  for key, (n, value, unmeasured) in again['scores'].items():
    assert outcomes[key][0] == n, key
    assert outcomes[key][2] == unmeasured, key
    if value is None:
      assert outcomes[key][1] is None, key
    else:
      np.testing.assert_allclose(
        outcomes[key][1], value, rtol=1e-6, err_msg=key
      )


def test_a_reconstruction_is_the_same(folders, again):
  summary = json.loads((folders / 'reconstructed/summary.json').read_text())
  for key in ('routes', 'failed', 'classes', 'failure_reasons', 'ill_formed'):
    assert summary[key] == again['recon'][key], key


def test_a_study_is_reported_with_its_numbers(folders, tmp_path):
  rows = [folders / 'study' / n for n in ('uniform', 'random_walks', 'oracle')]
  reports.report(rows, tmp_path)
  reported = json.loads((tmp_path / 'scores.json').read_text())
  assert reported == [e for row in rows for e in collect.load(row).entries]
  page = page_text.read(tmp_path)
  assert all(name in page for name in ('uniform', 'random_walks', 'oracle'))


def test_every_scored_folder_is_reported_and_others_say_why_not(tmp_path):
  folders, reported = unpacked(tmp_path / 'golden'), set()
  for folder in sorted({path.parent for path in folders.rglob('*.json')}):
    name = str(folder.relative_to(folders))
    out = tmp_path / 'reports' / name
    flags = 'report', f'--runs={folder}', f'--out={out}'
    if (folder / 'scores.json').exists():
      binaries.printed(*flags)
      assert (out / 'report.html').is_file()
      reported.add(name)
    else:
      assert 'has no scores.json' in binaries.refused(*flags)
  study = {'study/oracle', 'study/random_walks', 'study/uniform'}
  assert reported > {'scored', *study}
  assert len(reported) == 8  # With the runs of the sweep.


def test_a_sweep_is_read_with_its_winner(folders):
  (best,) = sweep.winners(folders / 'sweep', 1)
  assert best.flags['lr'] == 1e-2
