"""A study over seeds and a grid: its rows, their folders, and the report."""

import json

import pytest

import wm
from tests import page_text
from tests.launch import binaries
from wm import core
from wm.studies import rows

WORLD = 'lattice(size=3, length=8)'
NET = 'transformer(layers=1, width=16)'
TEXTS = [
  f'net: {NET} on {WORLD} with lr=0.1',
  f'other: {NET} on {WORLD} with match="sequences"',
  f'third: {NET} on {WORLD} with match="steps"',
  'oracle: oracle()',
]


def crossed(axes, texts=TEXTS) -> list[rows.Row]:
  return rows.flat(rows.crossed(rows.rows_of(texts, WORLD), axes))


def test_trained_rows_are_at_every_place_and_others_once():
  several = crossed({'lr': [1e-3, 3e-3], 'seed': [4, 5]})
  names = [row.name for row in several]
  assert names[:4] == [
    *('net_lr_0_001_seed_4', 'net_lr_0_001_seed_5'),
    *('net_lr_0_003_seed_4', 'net_lr_0_003_seed_5'),
  ]
  assert len(names) == 13
  assert names[-1] == 'oracle'
  first = several[0]
  assert first.settings == {'lr': 1e-3, 'seed': 4}  # The grid is stronger.
  assert first.title == several[1].title == 'net, lr=0.001'
  assert first.data == several[1].data == 'net_lr_0_001'
  assert several[-1] == rows.rows_of(TEXTS, WORLD)[-1]


def test_matched_rows_stay_at_their_place():
  places = rows.crossed(rows.rows_of(TEXTS, WORLD), {'seed': [7, 8]})
  partners = [rows.partner_of(place).name for place in places]
  assert partners == ['net_seed_7', 'net_seed_8']


def test_a_seed_is_of_training_alone():
  stages = wm.Training(seed=2)
  row = crossed({'seed': [7]})[0]
  options = row.stages(rows.Stages(training=stages).replaced({'seed': 2}))
  seeds = [
    getattr(options, stage).seed
    for stage in ('sampling', 'training', 'reconstruction')
  ]
  assert seeds == [2, 7, 2]


@pytest.mark.parametrize(
  ('axes', 'message'),
  [
    ({'rate': [1]}, "the grid of a study has no setting 'rate'; available: "),
    ({'match': ['steps']}, "has no setting 'match'"),
    ({'lr': ['x']}, "lr='x' is not of the type of its default"),
    ({'steps': [0]}, 'steps=0: expected at least 1'),
    ({'seed': [-1]}, 'seed=-1: expected at least 0'),
  ],
)
def test_a_bad_grid_is_one_line_before_anything_is_made(
  tmp_path, axes, message
):
  with pytest.raises(core.InputError, match=message) as caught:
    wm.study(TEXTS, WORLD, 'next_token(num=5)', tmp_path / 'new', axes=axes)
  assert '\n' not in str(caught.value)
  assert not (tmp_path / 'new').exists()


def test_rows_that_cannot_be_crossed():
  with pytest.raises(core.InputError, match="expected one 'on WORLD'"):
    crossed({'seed': [1]}, TEXTS[-1:])
  with pytest.raises(core.InputError, match='seeds=2 is of a miniature'):
    crossed({}, [f'a: {NET} on {WORLD} with seeds=2'])
  two = [f'a: {NET} on {WORLD}', f'a_seed_1: {NET}']
  with pytest.raises(core.InputError, match="two rows are named 'a_seed_1'"):
    crossed({'seed': [1]}, two)


@pytest.fixture(scope='module')
def done(tmp_path_factory):
  """Folders of a study of two seeds: in this process, and in two."""
  folders = []
  for jobs in (1, 2):
    folders.append(tmp_path_factory.mktemp('crossed') / 'out')
    wm.study(
      [f'net: {NET} on {WORLD}', f'long: {NET} on {WORLD} with steps=40'],
      WORLD,
      ['next_token(num=40)', 'distinction(trials=20, samples=2)'],
      folders[-1],
      seeds=[1, 2],
      jobs=jobs,
      baselines=False,
      sampling=wm.Sampling(num=200, num_heldout=20),
      training=wm.Training(steps=3, batch=8, log_every=1, eval_every=20),
    )
  return folders


@pytest.mark.process
def test_seeds_share_data_and_trials_and_are_trained_apart(done):
  folder = done[0]
  assert not (folder / 'net_seed_1' / 'data').exists()
  runs = [
    json.loads((folder / name / 'train.run.json').read_text())
    for name in ('net_seed_1', 'net_seed_2')
  ]
  assert [run.pop('seed') for run in runs] == [1, 2]
  assert runs[0] == runs[1]  # Their data as well.
  first, second = (wm.rows(folder / f'net_seed_{n}') for n in (1, 2))
  keys = ['spec', 'trial_key']
  assert first[keys].equals(second[keys])
  assert not first.value.equals(second.value)


@pytest.mark.process
def test_processes_change_no_bit(done):
  here, there = done
  for name in ('net_seed_1', 'long_seed_2'):
    scores = [
      json.loads((out / name / 'scores.json').read_text()) for out in done
    ]
    assert scores[0] == scores[1]
  assert (here / 'net' / 'data' / 'train' / 'manifest.json').read_bytes() == (
    there / 'net' / 'data' / 'train' / 'manifest.json'
  ).read_bytes()


@pytest.mark.process
def test_the_report_has_a_line_for_all_seeds_and_tests_recipes(done):
  text = page_text.read(done[0] / 'report')
  table = text.partition('## The table')[2].partition('\n## ')[0]
  lines = [x for x in table.splitlines() if x.startswith(('| net', '| long'))]
  assert len(lines) == 2
  assert all('2 seeds' in line for line in lines)
  recipes = text.partition('## Differences between recipes, over seeds')[2]
  assert 'long − net' in recipes or 'net − long' in recipes
  assert 'p=' in recipes.partition('\n## ')[0]
  page = json.loads((done[0] / 'report' / 'scores.json').read_text())
  assert {e['model'] for e in page} == {'net', 'long'}


def test_flags_of_the_binary_make_the_same_rows(tmp_path):
  out = binaries.printed(
    'study',
    *(f'--row={TEXTS[0]}', f'--world={WORLD}', '--metric=next_token(num=5)'),
    *('--grid=lr=1e-3|slow: 1e-4', '--grid=seed=0', '--grid=seed=1'),
    *('--dry_run', '--nobaselines', f'--out={tmp_path / "new"}'),
  )
  assert [line.partition(':')[0] for line in out.splitlines()] == [
    *('net_lr_1e_3_seed_0', 'net_lr_1e_3_seed_1'),
    *('net_lr_slow_seed_0', 'net_lr_slow_seed_1'),
  ]


def test_a_dry_run_samples_nothing_for_a_row_that_has_data(tmp_path):
  lines: list[str] = []
  out, folder = tmp_path / 'new', str(tmp_path / 'data')
  options = {'dry_run': True, 'baselines': False, 'log': lines.append}
  texts, metric = [f'net: {NET} on {WORLD}'], 'next_token(num=5)'
  wm.study(texts, WORLD, metric, out, axes={'data': {'d': folder}}, **options)
  (line,) = lines
  assert line.startswith(f'net_data_d: train {NET} on {folder} for 1,000 steps')
