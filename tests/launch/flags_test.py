"""Every flagfile parses, and every spec and command in it means something."""

import contextlib
import copy
import json
import pathlib
import re

import pytest

from tests.launch import binaries
from wm.core import registry
from wm.studies.rows import Row

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / 'launch' / 'flags'
FILES = sorted(str(p.relative_to(ROOT)) for p in FOLDER.rglob('*.flags'))


def parsed(*files: str) -> dict:
  """'found': file -> flags given and their values; 'names': of all flags.

  files: each is parsed by itself, or several joined by commas.
  """
  common, values_of = binaries.common(), {}
  for names in files:
    flags = copy.deepcopy(common.FLAGS)
    with contextlib.chdir(ROOT):
      rest = flags(['x', *(f'--flagfile={f}' for f in names.split(','))])
    assert len(rest) == 1, (names, rest)
    values = flags.flag_values_dict()
    set_ = [name for name in values if flags[name].present]
    values_of[names] = {name: values[name] for name in set_}
  # As JSON has them: lists for tuples.
  text = json.dumps({'found': values_of, 'names': sorted(common.FLAGS)})
  return json.loads(text)


@pytest.fixture(scope='module')
def flags() -> dict:
  return parsed(*FILES)


def header(file: str) -> str:
  """The comment at a flagfile's top, continued lines joined."""
  lines = []
  for line in (ROOT / file).read_text(encoding='utf-8').splitlines():
    if not line.startswith('#'):
      break
    lines.append(line[1:].strip())
  return '\n'.join(lines).replace('\\\n', '')


def bases() -> set[str]:
  """Flagfiles that others read."""
  result = set()
  for file in FILES:
    text = (ROOT / file).read_text(encoding='utf-8')
    result |= set(re.findall(r'^--flagfile=(\S+)', text, re.M))
  return result


def rows(flags: dict) -> list[tuple[str, list[str]]]:
  """(name, [model, then worlds to train and score on]) of study rows."""
  result = []
  for text in flags.get('row', []):
    row = Row.parse(text)
    specs = row.model, row.trained_on, row.scored_in
    result.append((row.name, [spec for spec in specs if spec]))
  return result


def test_there_are_flagfiles():
  assert len(FILES) > 5


@pytest.mark.parametrize('file', FILES)
def test_it_parses_and_says_something(flags, file):
  assert flags['found'][file]


@pytest.mark.parametrize('file', FILES)
def test_every_spec_in_it_is_valid(flags, file):
  inputs = flags['found'][file]
  for kind in ('world', 'model', 'accept'):
    if kind in inputs:
      registry.make(kind, inputs[kind])
  trained = {item.get('out') for item in flags['found'].values()}
  for _, specs in rows(inputs):
    for kind, spec in zip(('model', 'world', 'world'), specs, strict=False):
      if spec not in trained:  # Some rows are runs of other flagfiles.
        registry.make(kind, spec)
  made = [registry.make('metric', spec) for spec in inputs.get('metric', [])]
  for metric in made:
    for field in ('accept', 'sampler'):
      if getattr(metric, field, ''):
        registry.make('accept', getattr(metric, field))
  assert len(set(made)) == len(made), 'a metric is listed twice'


@pytest.mark.parametrize('file', sorted(bases()))
def test_base_files_hold_metrics_alone_or_none(flags, file):
  assert file in FILES
  assert set(flags['found'][file]) == {'metric'} or (
    'metric' not in flags['found'][file]
  )


@pytest.mark.parametrize('file', FILES)
def test_its_header_holds_a_command_that_exists(flags, file):
  text = header(file)
  commands = re.findall(r'(?:python|bash) (launch/\S+)(.*)', text)
  assert commands, 'no command in the header'
  assert all((ROOT / binary).is_file() for binary, _ in commands)
  named = {n for _, rest in commands for n in re.findall(r'--(\w+)', rest)}
  assert named <= {*flags['names'], 'flagfile'}
  for path in re.findall(r'launch/flags/[\w/]+\.flags', text):
    assert path in FILES, f'the header names {path}, which is not there'
  assert pathlib.Path(file).name in text or '.sh' in text or file in bases()


@pytest.mark.parametrize('file', FILES)
def test_a_header_says_how_long_and_what_to_expect(file):
  paper = re.search('/(vafa2024|chess2026|inductive2025)/', file)
  if paper and file not in bases():
    for word in ('Time:', 'Expect'):
      assert word in header(file), word


def runs() -> list[str]:
  """Flagfiles of whole runs and studies; the others add to one."""
  texts = {f: (ROOT / f).read_text(encoding='utf-8') for f in FILES}
  return [f for f in FILES if re.search(r'^--out=', texts[f], re.M)]


@pytest.mark.parametrize('run', runs())
def test_runs_write_to_folders_of_their_own(flags, run):
  if run in bases():
    return
  others = [f for f in FILES if f != run and 'out' in flags['found'][f]]
  assert flags['found'][run]['out'] not in [
    flags['found'][f]['out'] for f in others
  ]


def test_an_ablation_adds_metrics_to_a_run(flags):
  folder = 'launch/flags/vafa2024'
  run = f'{folder}/manhattan_random.flags'
  added = sorted(
    f
    for f in FILES
    if f.startswith(folder)
    and not f.endswith('district_metrics.flags')  # A whole run's.
    and f not in runs()
    and 'metric' in flags['found'][f]
  )
  assert len(added) >= 5
  result = parsed(run, *added, *(f'{run},{f}' for f in added))['found']
  for file in added:
    assert set(result[file]) - {'flagfile'} == {'metric'}, file
    both = result[f'{run},{file}']
    assert both['metric'] == result[run]['metric'] + result[file]['metric']
    assert both['out'] == result[run]['out']
    mine = {registry.make('metric', m) for m in result[run]['metric']}
    new = {registry.make('metric', m) for m in result[file]['metric']}
    assert not mine & new, f'{file} measures what the run measures itself'


def test_the_published_sizes_and_optimizer(flags):
  for name, layers, width in (
    ('shortest', 12, 768),
    ('noisy', 48, 1600),
    ('random', 48, 1600),
  ):
    inputs = flags['found'][f'launch/flags/vafa2024/manhattan_{name}.flags']
    model = registry.make('model', inputs['model'])
    assert (model.layers, model.width, model.context) == (layers, width, 1024)
    assert model.num_heads == width // 64
    assert model.dropout == 0.1
    assert (inputs['lr'], inputs['schedule'], inputs['batch']) == (
      1e-4,
      'constant',
      384,
    )
    assert (inputs['warmup'], inputs['clip'], inputs['weight_decay']) == (
      0,
      0,
      0.01,
    )
    assert inputs['decay_all'] is True
    assert registry.make('world', inputs['world']).traversal == name


SIZES = [f for f in FILES if '/chess2026/sizes/' in f]


def test_every_model_and_size_of_the_chess_paper_is_there():
  families = ('transformer', 'slice', 'mamba3', 'deltanet')
  less = ('slice_diagonal', 'mamba2', 'deltanet_positive')
  names = {pathlib.Path(file).stem for file in SIZES}
  assert names == {
    f'{family}_d{width}'
    for family in (*families, *less)
    for width in (128, 256, 384, 512)
  }


@pytest.mark.parametrize('file', SIZES)
def test_a_chess_model_has_the_parameters_its_header_says(flags, file):
  from wm.models.nn import network

  inputs = flags['found'][file]
  world = registry.make('world', inputs['world'])
  model = registry.make('model', inputs['model'])
  shape = network.NetworkSpec(
    model, len(world.vocab), world.max_len, sum(world.heads.sizes)
  )
  assert (len(world.vocab), shape.outputs) == (20_482, 1_878)
  assert f'# {shape.num_params:,} parameters.' in (ROOT / file).read_text()


def sweep(file: str) -> list[str]:
  """Names of the runs of a sweep."""
  code, out, err = binaries.run(
    'sweep', f'--flagfile={file}', '--dry_run', cwd=ROOT
  )
  assert code == 0, err[-2000:]
  return out.splitlines()[:-1]


def test_the_published_search_is_of_1728_runs_and_holds_its_winners(flags):
  runs = sweep('launch/flags/chess2026/stage1.flags')
  assert len(set(runs)) == len(runs) == 1_728
  axes = ('lr', 'warmup', 'beta2', 'weight_decay')
  results = set()
  for run in runs:
    name, *labels = run.split(',')
    assert tuple(label.split('=')[0] for label in labels) == axes
    results.add((name, *(float(label.split('=')[1]) for label in labels)))
  searched = {name for name, *_ in results}
  assert len(searched) == 16
  for file in SIZES:
    inputs, name = flags['found'][file], pathlib.Path(file).stem
    assert inputs['floor'] in (0.1, 0.01)
    if name in searched:
      assert (name, *(inputs[axis] for axis in axes)) in results


def test_a_sweep_for_two_cores_is_small():
  assert len(sweep('launch/flags/chess2026/sweep_here.flags')) <= 12
