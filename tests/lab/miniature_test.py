"""Units of a miniature: made once, kept in files, and made again where due."""

import copy
import dataclasses
import functools
import json
import re
import shutil

import pytest

import wm
from tests.lab.units_made_up import WALKS, finding, record
from wm import core
from wm.core import registry
from wm.lab import miniature as miniature_lib
from wm.lab import units
from wm.options.calls import Stages, Units
from wm.runtime import provenance

WORLD = 'maps(rows=3, columns=3, max_moves=12)'
OTHER = "maps(rows=3, columns=3, max_moves=12, traversal='shortest')"
METRICS = ['next_token(num=20)', 'compression(trials=8, samples=2)']
GOOD = 'guess: uniform()'
BAD = f'none: ngram(order=2) on {WORLD} with data="nowhere", seeds=1'
FEW = wm.Sampling(num=100, num_heldout=20)


def made(out, *rows: str, **arguments) -> tuple[list[str], list[str]]:
  lines: list[str] = []
  arguments = {
    'seeds': 1,
    'sampling': FEW,
    'results': out / 'tiny',
    **arguments,
  }
  arguments = {'baselines': False, **arguments}
  failed = wm.miniature(
    rows, WORLD, METRICS, out / 'out', log=lines.append, **arguments
  )
  return failed, lines


@pytest.fixture(scope='module')
def done(tmp_path_factory):
  """A unit that ended and one that failed, and what was told."""
  out = tmp_path_factory.mktemp('miniature')
  return out, *made(out, GOOD, BAD, jobs=2)


@pytest.mark.process
def test_a_unit_is_kept_and_a_failure_is_named(done):
  out, failed, lines = done
  assert lines[0].endswith('tiny: 0 of 2 units cached')
  assert [line[:5] for line in lines[1:]] == ['[1/2]', '[2/2]']
  assert len(failed) == 1
  assert failed[0].startswith('tiny/none-0: failed: no sequences at nowhere')
  result = units.read(out / 'tiny' / 'guess-0.json')
  assert (result.miniature, result.row, result.seed) == ('tiny', 'guess', 0)
  assert {e['spec'] for e in result.scores} == set(METRICS)
  for entry in result.scores:
    assert {*entry} >= {'quantity', 'value', 'low', 'high', 'n', 'clusters'}
  assert result.cost['cpu_seconds'] > 0
  assert 50 < result.cost['peak_mb'] < 20_000
  assert result.about['jax']
  assert result.about['processor']
  assert not list((out / 'tiny').glob('none*'))


@pytest.mark.process
def test_what_stands_is_not_made_again(done):
  out, _, _ = done
  before = (out / 'tiny' / 'guess-0.json').stat().st_mtime_ns
  failed, lines = made(out, GOOD)
  assert failed == []
  assert lines == [f'{out}/tiny: 1 of 1 units cached']
  assert (out / 'tiny' / 'guess-0.json').stat().st_mtime_ns == before
  _, lines = made(out, GOOD, dry_run=True, seeds=2)
  assert lines[1].startswith('tiny/guess-0: 0.')
  assert lines[2] == 'tiny/guess-1: not made'


TRAINED = f'a: transformer(layers=1) on {WORLD}'


def unit(row=TRAINED, metrics=METRICS, out='out', seed=0, **arguments):
  """The unit of a row and seed; given: stages, or fields of Units."""
  names = {field.name for field in dataclasses.fields(Stages)}
  stages = {k: x for k, x in arguments.items() if k in names}
  options = {k: x for k, x in arguments.items() if k not in names}
  options = {'results': 'results/tiny', 'first_seed': seed, **options}
  (made,) = miniature_lib._units(
    *([row], WORLD, wm_metrics(metrics), out, Units(seeds=1, **options)),
    Stages(**{'sampling': FEW, 'num_samples': 10, 'baselines': False} | stages),
    lambda line: None,
  )
  return made


def wm_metrics(specs) -> list[core.Metric]:
  return [registry.make('metric', spec) for spec in specs]


@pytest.fixture(scope='module')
def trained() -> miniature_lib.UnitRun:
  return unit()


@pytest.mark.parametrize(
  'change',
  [
    {'seed': 1},
    {'row': TRAINED.replace('layers=1', 'layers=2')},
    {'row': f'a: transformer(layers=1) on {OTHER}'},
    {'row': f'a: transformer(layers=1) on {OTHER} then on {WORLD}'},
    {'row': f'a: transformer(layers=1) on {WORLD} then on {OTHER}'},
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
  other = unit(**change)
  assert miniature_lib.same_inputs(trained.key, trained.key)
  assert not miniature_lib.same_inputs(trained.key, other.key)
  assert not miniature_lib.same_inputs(other.key, trained.key)
  same_run = {'metrics', 'reconstruction', 'num_samples'} & {*change}
  assert (other.folder == trained.folder) == bool(same_run)


def test_speed_alone_leaves_a_result_as_it_is(trained):
  faster = unit(training=wm.Training(save_every=7))
  assert miniature_lib.same_inputs(trained.key, faster.key)
  for place in ('training', 'model', 'scored_in', 'sampling'):
    old = copy.deepcopy(trained.key)
    old[place]['gone'] = 1  # One that it had, and nothing has now.
    assert not miniature_lib.same_inputs(old, trained.key)
  old = copy.deepcopy(trained.key)
  old['model']['version'] = '0'
  assert not miniature_lib.same_inputs(old, trained.key)


# Of defaults that a key leaves out: whoever changes one counts DEFAULTS up.
_USUAL = {
  'sampling': (wm.Sampling, {'num': 100_000, 'num_heldout': 1000}),
  'reconstruction': (
    wm.Reconstruction,
    {'max_degree': 4, 'max_miles': 0.5, 'variant': 'program', 'order': 'file'},
  ),
  'training': (
    wm.Training,
    {
      **{'objective': 'next', 'loss': 'token', 'steps': 1000, 'batch': 64},
      **{'batching': 'buckets', 'optimizer': 'auto', 'matrix_lr': 0.02},
      **{'lr': 3e-3, 'schedule': 'cosine', 'floor': 0.0, 'warmup': 100},
      **{'beta2': 0.999, 'weight_decay': 0.01, 'clip': 1.0, 'average': 0.0},
      **{'eval_every': 200, 'save_every': 200, 'skips': 0},
    },
  ),
}


@pytest.mark.parametrize('stage', _USUAL)
def test_defaults_are_those_of_this_version_of_keys(stage):
  options, usual = _USUAL[stage]
  now = dataclasses.asdict(options())
  assert {name: now[name] for name in usual} == usual
  assert miniature_lib.DEFAULTS == 1


def test_data_that_are_not_at_hand_are_not_compared(tmp_path):
  inputs = {'data': str(tmp_path)}
  item = unit(training=wm.Training(**inputs))
  assert item.key['data'] is None
  here = []
  for shard, file in (('a', 'x.pgn'), ('a', 'x.pgn.zst'), ('b', 'x.pgn')):
    for split in ('train', 'heldout'):
      (tmp_path / split).mkdir(exist_ok=True)
      manifest = {'shards': [shard], 'ingest': {'files': [file]}}
      text = json.dumps(manifest)
      (tmp_path / split / 'manifest.json').write_text(text)
    here.append(unit(training=wm.Training(**inputs)))
    assert here[-1].key['data']
    assert miniature_lib.same_inputs(item.key, here[-1].key)
    assert miniature_lib.same_inputs(here[-1].key, item.key)
  assert miniature_lib.same_inputs(here[0].key, here[1].key)
  assert not miniature_lib.same_inputs(here[0].key, here[2].key)


def test_rows_that_train_on_the_same_share_their_data(trained):
  row = f'b: transformer(layers=2) on {WORLD}'
  other = unit(row, training=wm.Training(lr=1.0))
  assert trained.shared == other.shared
  more = unit(sampling=wm.Sampling(num=7))
  assert trained.shared != more.shared


# Rules of findings.


def write_findings(folder, **changes) -> None:
  """A findings.json with one finding of the miniature `tiny`."""
  listed = [record({**WALKS, **changes}, miniature='tiny')]
  (folder / 'findings.json').write_text(json.dumps({'findings': listed}))


@pytest.mark.process
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
  failed, lines = made(tmp_path, GOOD, **more)
  assert failed == []
  assert lines == [f'{results}: 1 of 1 units cached']
  assert path.read_text() == before
  # It is no part of the key, and an older file has none.
  body = json.loads(before)
  del body['rules']
  path.write_text(json.dumps(body))
  assert units.read(path).rules == {}
  assert made(tmp_path, GOOD, **more)[1] == lines


@pytest.fixture
def judged(tmp_path, monkeypatch):
  """Makes units in a clean checkout, whose results a finding is judged by."""
  (tmp_path / 'results').mkdir()
  write_findings(tmp_path)
  monkeypatch.setattr(provenance, 'commit_outside', lambda *_: 'abc')
  places = {'out': tmp_path / 'out', 'results': tmp_path / 'results' / 'tiny'}
  return functools.partial(unit, **places)


def test_a_result_of_code_that_may_be_changed_says_so(judged, tmp_path):
  clean, free = judged(), judged(allow_dirty=True)
  assert (clean._commit(), free._commit()) == ('abc', 'abc-dirty')
  assert clean.folder != free.folder  # Neither goes on with the other's run.
  (tmp_path / 'findings.json').unlink()
  assert free._commit() == 'abc'


def result_of(unit: miniature_lib.UnitRun, code: str, **rules: str) -> None:
  """Writes a result of a unit, of a commit and with rules."""
  about = {'commit': code}
  cost = {'cpu_seconds': 60, 'wall_seconds': 90, 'peak_mb': 700}
  key = json.loads(json.dumps(unit.key))
  row = 'tiny', unit.row.name, unit.seed
  made = units.Unit(*row, key, about, cost, {}, [], rules=rules)
  units.write(unit.results, made)


@pytest.mark.parametrize(
  'change', [{}, {'training': wm.Training(lr=2e-3)}, {'allow_dirty': True}]
)
@pytest.mark.parametrize('has_result', [True, False])
def test_what_is_made_again_keeps_the_rules_of_its_first_data(
  judged, tmp_path, change, has_result
):
  rules = judged().rules()
  assert rules == {'f': finding(WALKS, miniature='tiny').rule_hash}
  write_findings(tmp_path, margin=0.1)
  if has_result:  # The runs may be gone then.
    result_of(judged(), 'abc', **rules)
    shutil.rmtree(tmp_path / 'out')
  assert judged(**change).rules() == rules
  assert judged(seed=1, **change).rules() != rules


@pytest.mark.parametrize('code', ['abc-dirty', None])
def test_a_result_of_changed_code_is_refused_and_made_again(
  judged, tmp_path, code
):
  result_of(judged(), 'abc')
  assert (judged().done(), judged().is_refused()) == (True, False)
  result_of(judged(), code)
  assert (judged().done(), judged().is_refused()) == (False, True)
  line = 'tiny/a-0: refused: made by code that was not committed'
  assert judged().status() == line
  # Whoever asks for such results has them, and where no finding is judged.
  free = judged(allow_dirty=True)
  assert (free.done(), free.is_refused()) == (True, False)
  (tmp_path / 'findings.json').unlink()
  assert judged().done()


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


def test_bad_findings_are_refused_before_the_first_unit(tmp_path):
  write_findings(tmp_path, margin=-1)
  with pytest.raises(core.InputError, match='margin is -1; expected 0 or more'):
    made(tmp_path, GOOD, results=tmp_path / 'results' / 'tiny')
  assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize(
  ('rows', 'arguments', 'message'),
  [
    ([GOOD, GOOD], {}, "two rows are named 'guess'"),
    ([f'{GOOD} with step=3'], {}, "row 'guess' has no setting 'step'; avail"),
    ([f'{GOOD} with steps="3"'], {}, "steps='3' is not of the type of its"),
    ([f'{GOOD} with 3'], {}, "expected 'with NAME=VALUE, ...'"),
    ([f'{GOOD} with steps=0'], {}, 'steps=0: expected at least 1'),
    ([f'{GOOD} with steps=3+'], {}, 'bad spec'),
  ],
)
def test_bad_rows_are_one_line(tmp_path, rows, arguments, message, one_line):
  with one_line(message):
    made(tmp_path, *rows, **arguments)
  assert not (tmp_path / 'out').exists()


@pytest.mark.process
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
  result = units.read(good)
  assert units.read(units.write(tmp_path, result)) == result
  for line, message in (
    ('["exact_set", 1]', 'is no list of'),
    (
      '["exact_set", "1", 0, 1, 20, 12]',
      "value: expected a number or null, has '1'",
    ),
    ('["exact_set", 1, 0, 1, 20, 12, 3]', 'more: expected an object'),
  ):
    text = re.sub(r'\["exact_set".*\]', line, good.read_text(), count=1)
    path.write_text(text)
    with pytest.raises(core.InputError, match=message):
      units.read(path)
