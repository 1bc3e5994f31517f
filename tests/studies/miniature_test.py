"""Units of a miniature: made once, kept in files, and made again where due."""

import copy
import dataclasses
import json
import re

import pytest

import wm
from tests.launch import binaries
from tests.reporting.units_made_up import WALKS, finding, record
from wm import core
from wm.options.calls import Stages
from wm.reporting import units
from wm.runtime import files, provenance
from wm.studies import jobs
from wm.studies import miniature as miniature_lib
from wm.studies.rows import Row

WORLD = 'maps(rows=3, columns=3, max_moves=12)'
METRICS = ['next_token(num=20)', 'compression(trials=8, samples=2)']
GOOD = 'guess: uniform()'
BAD = f'none: ngram(order=2) on {WORLD} with data="nowhere", seeds=1'
FEW = wm.Sampling(num=100, num_heldout=20)


def made(out, *rows: str, **given) -> tuple[list[str], list[str]]:
  told: list[str] = []
  given = {'seeds': 1, 'sampling': FEW, 'results': out / 'tiny', **given}
  given = {'baselines': False, **given}
  failed = wm.miniature(
    rows, WORLD, METRICS, out / 'out', log=told.append, **given
  )
  return failed, told


@pytest.fixture(scope='module')
def done(tmp_path_factory):
  """A unit that ended and one that failed, and what was told."""
  out = tmp_path_factory.mktemp('miniature')
  return out, *made(out, GOOD, BAD, jobs=2)


def test_a_unit_is_kept_and_a_failure_is_named(done):
  out, failed, told = done
  assert told[0].endswith('tiny: 0 of 2 units cached')
  assert [line[:5] for line in told[1:]] == ['[1/2]', '[2/2]']
  assert len(failed) == 1
  assert failed[0].startswith('tiny/none-0: failed: no sequences at nowhere')
  found = units.read(out / 'tiny' / 'guess-0.json')
  assert (found.miniature, found.row, found.seed) == ('tiny', 'guess', 0)
  assert {e['spec'] for e in found.scores} == set(METRICS)
  for entry in found.scores:
    assert {*entry} >= {'quantity', 'value', 'low', 'high', 'n', 'clusters'}
  assert found.cost['cpu_seconds'] > 0
  assert 50 < found.cost['peak_mb'] < 20_000
  assert found.about['jax']
  assert found.about['processor']
  assert not list((out / 'tiny').glob('none*'))


def test_what_stands_is_not_made_again(done):
  out, _, _ = done
  before = (out / 'tiny' / 'guess-0.json').stat().st_mtime_ns
  failed, told = made(out, GOOD)
  assert failed == []
  assert told == [f'{out}/tiny: 1 of 1 units cached']
  assert (out / 'tiny' / 'guess-0.json').stat().st_mtime_ns == before
  _, told = made(out, GOOD, dry_run=True, seeds=2, overwrite=True)
  assert told[1].startswith('tiny/guess-0: 0.')
  assert told[2] == 'tiny/guess-1: not made'


def test_a_result_that_stands_gets_the_fields_that_came_since(done):
  out, _, _ = done
  path = out / 'tiny' / 'guess-0.json'
  before, found = path.read_text(), units.read(path)
  lost, _ = found.key['scored_in'].popitem()
  units.write(path.parent, found)
  made(out, GOOD, dry_run=True)
  assert lost not in units.read(path).key['scored_in']
  _, told = made(out, GOOD)
  assert told == [f'{out}/tiny: 1 of 1 units cached']
  assert path.read_text() == before


@pytest.fixture(scope='module')
def trained() -> miniature_lib.UnitSpec:
  return miniature_lib.UnitSpec(
    Row('a', 'transformer(layers=1)', WORLD, WORLD),
    0,
    Stages(FEW, num_samples=10),
    tuple(METRICS),
    'out',
    'results/tiny',
  )


def changed(unit: miniature_lib.UnitSpec, **change) -> miniature_lib.UnitSpec:
  """A unit with other fields, or with others of its stages."""
  names = {field.name for field in dataclasses.fields(Stages)}
  stages = {k: x for k, x in change.items() if k in names}
  fields = {k: x for k, x in change.items() if k not in names}
  new = dataclasses.replace(unit.stages, **stages)
  return dataclasses.replace(unit, stages=new, **fields)


@pytest.mark.parametrize(
  'change',
  [
    {'seed': 1},
    {'row': Row('a', 'transformer(layers=2)', WORLD, WORLD)},
    {'row': Row('a', 'transformer(layers=1)', 'maps(rows=4)', WORLD)},
    {'row': Row('a', 'transformer(layers=1)', WORLD, 'maps(rows=4)')},
    {'sampling': wm.Sampling(num=101, num_heldout=20)},
    {'training': wm.Training(lr=2e-3)},
    {'reconstruction': wm.Reconstruction(max_degree=5)},
    {'num_samples': 11},
    {'metrics': ('next_token(num=21)', METRICS[1])},
    {'metrics': (METRICS[0],)},
    {'metrics': ('next_token(num=20, accept="top_k(3)")', METRICS[1])},
  ],
)
def test_a_unit_stands_for_its_own_key_alone(trained, change):
  other = changed(trained, **change)
  assert miniature_lib.same_inputs(trained.key, trained.key)
  assert not miniature_lib.same_inputs(trained.key, other.key)
  assert not miniature_lib.same_inputs(other.key, trained.key)
  same_run = {'metrics', 'reconstruction', 'num_samples'} & {*change}
  assert (other.folder == trained.folder) == bool(same_run)


def test_speed_and_later_fields_leave_a_result_as_it_is(trained):
  faster = changed(trained, training=wm.Training(save_every=7))
  assert miniature_lib.same_inputs(trained.key, faster.key)
  for place in ('training', 'model', 'scored_in', 'sampling'):
    old = copy.deepcopy(trained.key)
    name = list(old[place])[-1]
    del old[place][name]  # As written by a version that had no such field.
    assert miniature_lib.same_inputs(old, trained.key)
    old[place]['gone'] = 1  # One that it had, and nothing has now.
    assert not miniature_lib.same_inputs(old, trained.key)
  old = copy.deepcopy(trained.key)
  old['model']['version'] = '0'
  assert not miniature_lib.same_inputs(old, trained.key)


def test_data_that_are_not_at_hand_are_not_compared(trained, tmp_path):
  given = {'data': str(tmp_path)}
  one = changed(trained, training=wm.Training(**given))
  assert one.key['data'] is None
  here = []
  for text in ('{}', '[]'):
    for split in ('train', 'heldout'):
      (tmp_path / split).mkdir(exist_ok=True)
      (tmp_path / split / 'manifest.json').write_text(text)
    here.append(dataclasses.replace(one))
    assert here[-1].key['data']
    assert miniature_lib.same_inputs(one.key, here[-1].key)
    assert miniature_lib.same_inputs(here[-1].key, one.key)
  assert not miniature_lib.same_inputs(here[0].key, here[1].key)


def test_rows_that_train_on_the_same_share_their_data(trained):
  row = Row('b', 'transformer(layers=2)', WORLD, WORLD)
  other = changed(trained, row=row, training=wm.Training(lr=1.0))
  assert trained.shared == other.shared
  more = changed(trained, sampling=wm.Sampling(num=7))
  assert trained.shared != more.shared


def test_fresh_removes_results_and_runs_first(done, tmp_path, monkeypatch):
  out, _, _ = done
  result = out / 'tiny' / 'guess-0.json'
  text = result.read_text()
  seen = []

  def work(self, jobs, *rest):
    for job in jobs:
      left = {path.name for path in job.folder.iterdir()} - {'.lock'}
      seen.append((job.done(), left))

  monkeypatch.setattr('wm.studies.jobs.JobPool.work', work)
  failed, _ = made(out, GOOD, overwrite=True)
  assert seen == [(False, {'started.json'})]
  assert failed == ['tiny/guess-0: not made']
  result.write_text(text)


def test_overwrite_leaves_a_folder_that_is_in_use(done):
  out, _, _ = done
  (folder,) = (
    path.parent
    for path in (out / 'out').rglob('.lock')
    if path.parent.name.startswith('guess')
  )
  before = sorted(path.name for path in folder.iterdir())
  with (
    jobs.hold_lock(folder),
    pytest.raises(core.InputError, match='used by another process'),
  ):
    made(out, GOOD, overwrite=True)
  assert sorted(path.name for path in folder.iterdir()) == before
  assert (out / 'tiny' / 'guess-0.json').exists()


# Rules of findings.


def write_findings(folder, **changes) -> None:
  """A findings.json with one finding of the miniature `tiny`."""
  listed = [record({**WALKS, **changes}, miniature='tiny')]
  (folder / 'findings.json').write_text(json.dumps({'findings': listed}))


def test_a_unit_records_the_rules_of_its_start(tmp_path):
  write_findings(tmp_path)
  results = tmp_path / 'results' / 'tiny'
  more = {'results': results, 'allow_dirty': True}
  made(tmp_path, GOOD, **more)
  path = results / 'guess-0.json'
  rule_hash = finding(WALKS, miniature='tiny').rule_hash
  assert units.read(path).rules == {'f': rule_hash}
  # A changed rule makes no unit again, and the record stays.
  write_findings(tmp_path, margin=0.1)
  before = path.read_text()
  failed, told = made(tmp_path, GOOD, **more)
  assert failed == []
  assert told == [f'{results}: 1 of 1 units cached']
  assert path.read_text() == before
  # It is no part of the key, and an older file has none.
  body = json.loads(before)
  del body['rules']
  path.write_text(json.dumps(body))
  assert units.read(path).rules == {}
  assert made(tmp_path, GOOD, **more)[1] == told


@pytest.fixture
def begun(trained, tmp_path, monkeypatch) -> miniature_lib.UnitSpec:
  """A unit in a clean checkout, whose results a finding is judged by."""
  (tmp_path / 'results').mkdir()
  write_findings(tmp_path)
  monkeypatch.setattr(provenance, 'commit_outside', lambda *_: 'abc')
  return dataclasses.replace(
    trained,
    out=str(tmp_path / 'out'),
    results=str(tmp_path / 'results' / 'tiny'),
  )


def test_a_unit_that_goes_on_keeps_its_first_record(
  begun, tmp_path, monkeypatch
):
  first = miniature_lib._started(begun)
  assert first['commit'] == 'abc'
  assert first['rules'] == {'f': finding(WALKS, miniature='tiny').rule_hash}
  write_findings(tmp_path, margin=0.1)
  assert miniature_lib._started(begun) == first
  monkeypatch.setattr(provenance, 'commit_outside', lambda *_: 'def-dirty')
  assert miniature_lib._started(begun) == {**first, 'commit': 'def-dirty'}
  # Begun from changed code, it stays so.
  other = dataclasses.replace(begun, seed=1)
  assert miniature_lib._started(other)['commit'] == 'def-dirty'
  monkeypatch.setattr(provenance, 'commit_outside', lambda *_: 'abc')
  assert miniature_lib._started(other)['commit'] == 'def-dirty'


def result_of(unit: miniature_lib.UnitSpec, code: str, **rules: str) -> None:
  """Writes a result of a unit, of a commit and with rules."""
  about = {'commit': code}
  cost = {'cpu_seconds': 60, 'wall_seconds': 90, 'peak_mb': 700}
  key = json.loads(json.dumps(unit.key))
  row = 'tiny', unit.row.name, unit.seed
  made = units.Unit(*row, key, about, cost, {}, [], rules=rules)
  units.write(unit.results, made)


@pytest.mark.parametrize('change', [{}, {'training': wm.Training(lr=2e-3)}])
def test_what_is_made_again_keeps_the_rules_of_its_first_data(
  begun, tmp_path, change
):
  """By --overwrite, or by another recipe."""
  first = miniature_lib._started(begun)['rules']
  result_of(begun, 'abc', **first)
  write_findings(tmp_path, margin=0.1)
  again = changed(begun, **change)
  if not change:
    (begun.folder / 'params').mkdir()
    (begun.folder / 'unit.log').write_text('text')
    again.clear()
    again.path.unlink()
    assert [path.name for path in begun.folder.iterdir()] == ['started.json']
  assert miniature_lib._started(again) == {'commit': 'abc', 'rules': first}
  other = dataclasses.replace(again, seed=1)
  assert miniature_lib._started(other)['rules'] != first


def test_of_a_damaged_result_no_rule_is_known(begun, tmp_path):
  begun.path.parent.mkdir(parents=True)
  begun.path.write_text('{')
  begun.clear()
  begun.path.unlink()
  assert miniature_lib._started(begun)['rules'] == {}


@pytest.mark.parametrize('code', ['abc-dirty', None])
def test_a_result_of_changed_code_is_refused_and_made_again(
  begun, tmp_path, monkeypatch, code
):
  result_of(begun, 'abc')
  assert (begun.is_cached(), begun.is_refused()) == (True, False)
  result_of(begun, code)
  assert (begun.is_cached(), begun.is_refused()) == (False, True)
  line = 'tiny/a-0: refused: made by code that was not committed'
  assert begun.status() == line
  # Whoever asks for such results has them, and where no finding is judged.
  free = dataclasses.replace(begun, allow_dirty=True)
  assert (free.is_cached(), free.is_refused()) == (True, False)
  # Its run is not gone on with, and what it recorded of rules stays.
  record = {'commit': code, 'rules': {'f': 'old'}}
  files.write_json(begun.folder / 'started.json', record)
  (begun.folder / 'params').write_text('x')
  (begun.folder / '.lock').write_text('')
  free.begin()
  assert (begun.folder / 'params').exists()
  (begun.folder / 'unit.run.json').unlink()
  begun.begin()
  names = ['.lock', 'started.json', 'unit.run.json']
  assert sorted(path.name for path in begun.folder.iterdir()) == names
  again = {'commit': 'abc', 'rules': {'f': 'old'}}
  assert miniature_lib._started(begun) == again
  (tmp_path / 'findings.json').unlink()
  assert begun.is_cached()


def test_refused_units_are_counted_and_named(tmp_path, monkeypatch):
  results = tmp_path / 'results' / 'tiny'
  write_findings(tmp_path)
  monkeypatch.setattr(provenance, 'uncommitted', lambda *_: [])
  made(tmp_path, GOOD, results=results, allow_dirty=True)
  path = results / 'guess-0.json'
  body = json.loads(path.read_text())
  body['about']['commit'] = 'abc-dirty'
  path.write_text(json.dumps(body))
  count = '0 of 1 units cached, 1 refused, made by code that was not committed'
  line = 'tiny/guess-0: refused: made by code that was not committed'
  _, told = made(tmp_path, GOOD, results=results, dry_run=True)
  assert told == [f'{results}: {count}', line]
  asked = []

  def work(self, jobs, *rest):
    asked.extend(job.name for job in jobs if not job.done())

  monkeypatch.setattr('wm.studies.jobs.JobPool.work', work)
  failed, told = made(tmp_path, GOOD, results=results)
  assert (failed, told, asked) == (
    *([line], [f'{results}: {count}']),
    ['guess-0'],
  )


def test_a_plug_in_that_is_not_committed_is_refused(tmp_path):
  """From a file that this checkout does not hold."""
  write_findings(tmp_path)
  (tmp_path / 'my_world.py').write_text('from tests.tiny import World\n')
  world = f'{tmp_path}/my_world.py:World()'
  with pytest.raises(core.InputError, match='not committed') as caught:
    wm.miniature(
      [GOOD],
      world,
      'next_token(num=5)',
      tmp_path / 'out',
      results=tmp_path / 'results' / 'tiny',
    )
  assert 'World' not in str(caught.value)


def test_a_run_that_is_older_than_rules_has_none(begun):
  files.write_json(begun.folder / 'spent.json', {})
  assert miniature_lib._started(begun) == {'commit': None, 'rules': {}}


def test_results_of_changed_files_are_refused_for_findings(
  tmp_path, monkeypatch
):
  seen = []

  def changed(outside, code) -> list[str]:
    seen.append((outside, code))
    return ['wm/a.py', 'wm/b.py']

  monkeypatch.setattr(provenance, 'uncommitted', changed)
  monkeypatch.setattr('wm.studies.jobs.JobPool.work', lambda *given: None)
  flags = [f'--world={WORLD}', f'--metric={METRICS[0]}', f'--row={GOOD}']
  flags += ['--nobaselines', f'--out={tmp_path}/out', '--seeds=1']
  flags.append(f'--results={tmp_path}/results/tiny')
  write_findings(tmp_path)
  (tmp_path / 'results').mkdir()
  line = binaries.refused('miniature', *flags)
  assert 'wm/a.py is not committed' in line
  assert seen == [(tmp_path / 'results', [])]
  code, out, err = binaries.run('miniature', *flags, '--dry_run')
  assert (code, err) == (0, '')
  assert 'tiny/guess-0: not made' in out
  for free in ([*flags, '--allow_dirty'], flags):
    code, out, err = binaries.run('miniature', *free)
    assert (code, '0 of 1 units cached' in out) == (1, True)
    assert 'tiny/guess-0: not made' in err
    (tmp_path / 'findings.json').unlink(missing_ok=True)  # None judges them.


def test_bad_findings_are_refused_before_the_first_unit(tmp_path):
  write_findings(tmp_path, margin=-1)
  with pytest.raises(core.InputError, match='margin is -1; expected 0 or more'):
    made(tmp_path, GOOD, results=tmp_path / 'results' / 'tiny')
  assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize(
  ('rows', 'given', 'message'),
  [
    ([GOOD, GOOD], {}, "two rows are named 'guess'"),
    ([GOOD], {'row_names': ['gess']}, "'gess'; available: guess; did you mean"),
    ([f'{GOOD} with step=3'], {}, "row 'guess' has no setting 'step'; avail"),
    ([f'{GOOD} with steps="3"'], {}, "steps='3' is not of the type of its"),
    ([f'{GOOD} with 3'], {}, "expected 'with NAME=VALUE, ...'"),
    ([f'{GOOD} with steps=0'], {}, 'steps=0: expected at least 1'),
    ([f'{GOOD} with steps=3+'], {}, 'bad spec'),
  ],
)
def test_bad_rows_are_one_line(tmp_path, rows, given, message):
  with pytest.raises(core.InputError, match=message) as caught:
    made(tmp_path, *rows, **given)
  assert '\n' not in str(caught.value)
  assert not (tmp_path / 'out').exists()


def test_a_damaged_result_is_named(done, tmp_path):
  for text, message in (
    ('{', 'is not JSON'),
    ('{}', 'lacks format'),
    ('{"format": 2}', 'expected format 1'),
    ('{"format": 1}', 'lacks miniature'),
  ):
    path = tmp_path / 'guess-0.json'
    path.write_text(text)
    with pytest.raises(core.InputError, match=message):
      units.read(path)
  good = done[0] / 'tiny' / 'guess-0.json'
  found = units.read(good)
  assert units.read(units.write(tmp_path, found)) == found
  for line, message in (
    ('["exact_set", 1]', 'is no list of'),
    ('["exact_set", "1", 0, 1, 20, 12]', "value is '1'; expected"),
    ('["exact_set", 1, 0, 1, 20, 12, 3]', 'more is 3; expected dict'),
  ):
    text = re.sub(r'\["exact_set".*\]', line, good.read_text(), count=1)
    path.write_text(text)
    with pytest.raises(core.InputError, match=message):
      units.read(path)


def test_costs_add_up_over_processes_that_were_killed(tmp_path):
  path = tmp_path / 'spent.json'
  files.write_json(
    path,
    {'processes': 2, 'cpu_seconds': 50, 'wall_seconds': 90, 'peak_mb': 10**6},
  )
  with jobs.CostMeter(path) as meter:
    assert files.read_json(path)['processes'] == 3
  assert meter.totals()['wall_seconds'] in (90, 91)
  assert meter.totals()['cpu_seconds'] > 50
  assert files.read_json(path)['peak_mb'] == 10**6
