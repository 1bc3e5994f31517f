"""Plug-ins in a user's own files: found, named, checked, and blamed."""

import dataclasses
import os
import pathlib
import re
import shutil
import signal
import sys

import numpy as np
import pytest

from wm import core
from wm.core import plugins, registry
from wm.core.measure import lacks
from wm.runtime import stopping

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / 'launch/examples'
BODY = """
import dataclasses

import numpy as np

from wm.worlds.base import table


@dataclasses.dataclass(frozen=True)
class Stones(table.TableWorld):
  version = '1'
  vocab = ('<pad>', 'back', 'hop')
  max_len = 8

  stones: int = 4

  @property
  def delta(self):
    return {delta}
"""
DELTA = 'np.array([[-1, 1], [0, 2], [1, -1]], np.int32)'


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """The current folder, with the three example plug-ins in it."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(sys, 'path', [*sys.path])
  for name in ('frog', 'repeats', 'wander'):
    shutil.copy(EXAMPLES / f'{name}.py', tmp_path)
  return tmp_path


def make(folder, body, spec='stones.py:Stones()', kind='world'):
  (folder / 'stones.py').write_text(body)
  return registry.resolve(kind, spec)


def refused(folder, body, message, **more):
  with pytest.raises(core.InputError, match=message) as caught:
    make(folder, body, **more)
  assert '\n' not in str(caught.value)
  return str(caught.value)


def test_a_world_a_model_and_a_metric_of_files(folder):
  world = registry.resolve('world', 'frog.py:World(stones=3)')
  model = registry.resolve('model', 'repeats.py:Model()').predictor(world, 0)
  metric = registry.resolve('metric', 'wander.py:Metric(num=20)')
  (scores,) = metric(model, world, 0)
  assert scores.quantity == 'legal'
  assert len(scores.value) == 20
  for kind, thing in (('world', world), ('metric', metric)):
    again = registry.resolve(kind, registry.spec(thing))
    assert again == thing
    assert type(again) is type(thing)  # The file is not run again.
    assert registry.find(kind, thing.name) is type(thing)
  assert registry.spec(world) == 'frog.py:World(stones=3)'
  assert registry.spec(metric) == 'wander.py:Metric(num=20)'


def test_paths_are_kept_as_they_were_given(folder):
  (folder / 'a b').mkdir()
  (folder / 'frog.py').rename(folder / 'a b' / 'frog.py')
  for path in ('a b/frog.py', str(folder / 'a b' / 'frog.py'), './a b/frog.py'):
    world = registry.resolve('world', f'{path}:World()')
    assert registry.spec(world) == f'{path}:World()'


def test_another_folder_is_said_in_one_line(folder, monkeypatch, tmp_path):
  registry.resolve('world', 'frog.py:World()')
  (tmp_path / 'elsewhere').mkdir()
  monkeypatch.chdir(tmp_path / 'elsewhere')
  message = "world 'frog.py:World': no file 'frog.py' in .*elsewhere"
  with pytest.raises(core.InputError, match=message):
    registry.resolve('world', 'frog.py:World()')


def test_an_edited_file_is_run_again(folder):
  first = make(folder, BODY.format(delta=DELTA))
  second = make(folder, BODY.format(delta=DELTA).replace('= 4', '= 5'))
  assert (first.stones, second.stones) == (4, 5)
  assert first != second


def test_neighbours_can_be_imported_now_and_later(folder):
  (folder / 'inner').mkdir()
  (folder / 'inner' / 'wm_test_early.py').write_text('HOP = 1')
  (folder / 'inner' / 'wm_test_late.py').write_text('WORD = "hop"')
  body = BODY.format(delta=DELTA).replace('hop', 'go')
  body = 'import wm_test_early\n' + body
  body += '\n  def word(self):\n    import wm_test_late as late\n'
  body += '    return late.WORD * wm_test_early.HOP\n'
  (folder / 'inner' / 'stones.py').write_text(body)
  world = registry.resolve('world', 'inner/stones.py:Stones()')
  assert world.word() == 'hop'


def test_annotations_that_are_text_are_understood(folder):
  body = 'from __future__ import annotations\n' + BODY.format(delta=DELTA)
  assert make(folder, body, 'stones.py:Stones(stones=2)').stones == 2
  refused(folder, body, 'not of the type', spec='stones.py:Stones(stones="2")')


@pytest.mark.parametrize(
  ('spec', 'kind', 'message'),
  [
    ('none.py:World()', 'world', "no file 'none.py'"),
    (f'{"a" * 5_000}.py:World()', 'world', 'no file'),
    ('frog.py:Worlt()', 'world', "no world 'Worlt'.*did you mean 'World'"),
    ('frog.py:np()', 'world', "no world 'np'"),
    ('frog.py:World()', 'model', "no model 'World'.*available: none"),
    ('frog.py:World(stons=1)', 'world', "did you mean 'stones'"),
    ('frog.py:World(stones=1, stones=2)', 'world', "sets 'stones' twice"),
    ('frog.py:World(', 'world', 'bad spec'),
    ('frog.py:World()', 'accept', 'no accept is named'),
    ('frog.py', 'world', 'bad spec'),
    ('.py:World', 'world', "no file '.py'"),
  ],
)
def test_bad_specs(folder, spec, kind, message, one_line):
  with one_line(message) as caught:
    registry.resolve(kind, spec)
  assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
  ('old', 'new', 'message'),
  [
    ('@dataclasses.dataclass(frozen=True)', '', 'no frozen dataclass'),
    ('(frozen=True)', '', 'no frozen dataclass'),
    ('(table.TableWorld)', '', "no world 'Stones'"),
    ("('<pad>', 'back', 'hop')", "('<pad>', 'back')", '2 columns and vocab 2'),
    (", 'hop')", ", 'hop', 'leap')", '2 columns and vocab 4 tokens.*, 3$'),
    (", 'hop')", ", 'back')", 'a word twice'),
    (", 'hop')", ", 'hop on')", "vocab has 'hop on'"),
    ("('<pad>', ", "('', ", 'expected a tuple'),
    ('max_len = 8', 'max_len = 0', 'max_len=0'),
    ('max_len = 8', 'max_len = 8\n  end = 3', 'end=3 is no token of vocab'),
    ('max_len = 8', '', r'Stones.*max_len'),
    ('np.int32', 'float', 'delta is float64 of shape'),
    ('np.array([[-1, 1], [0, 2], [1, -1]], np.int32)', '[1]', r'shape \(1,\)'),
    ('[0, 2]', '[0, 3]', r"delta\[1, 1\] is 3, for token 'hop'; .* 0..2"),
    ('[0, 2]', '[-2, 2]', r"delta\[1, 0\] is -2, for token 'back'"),
    ('[-1, 1]', '[-1, -1]', 'no token is legal in the first state'),
    ('[0, 2]', '[0, 2/0]', r'^stones.py:19: ZeroDivisionError: .*Stones'),
    ('int = 4', 'int = four', r'^stones.py:15: NameError'),
    ('import numpy as np', 'import numpyy', r'^stones.py:4: ModuleNotFoundE'),
    ('class Stones(', 'class Stones((', r'^stones.py:\d+: SyntaxError'),
  ],
)
def test_bad_worlds(folder, old, new, message):
  body = BODY.format(delta=DELTA)
  assert old in body
  refused(folder, body.replace(old, new, 1), message)


def test_a_class_that_is_imported_is_named_where_it_is(folder):
  body = 'from wm.worlds.lattice import World'
  message = 'stones.py:World is World of wm.worlds.lattice'
  refused(folder, body, message, spec='stones.py:World()')


def test_a_table_is_checked_wherever_the_world_comes_from():
  from wm.worlds import lattice

  class Narrow(lattice.World):
    vocab = ('<pad>', 'left')

  with pytest.raises(core.InputError, match='3 columns and vocab 2 tokens'):
    Narrow().sample(1, 0)


@pytest.mark.parametrize(
  ('method', 'inputs', 'message'),
  [
    ('legal', '(self, states): return np.ones((1, 2), bool)', r'\(1, 2\) .* 3'),
    ('legal', '(self, states): return np.ones((1, 3), bool)', 'padding is leg'),
    ('legal', '(self, states): return np.eye(3)[:1]', 'legal gives float64'),
    ('init', '(self, batch): return np.zeros(batch, np.int32)', 'init gives'),
    ('advance', '(self, states, tokens): return states[0]', 'advance gives'),
    (
      'advance',
      '(self, states, tokens): return states - 1',
      "'hop', .* not -1",
    ),
    ('state_id', '(self, states): return states', 'state_id gives'),
    ('vocab', '= "abc"', 'expected a tuple'),
  ],
)
def test_any_world_is_asked_for_a_first_step(folder, method, inputs, message):
  define = f'def {method}{inputs}' if inputs[0] == '(' else f'{method} {inputs}'
  body = BODY.format(delta=DELTA)
  if method == 'init':  # The table's own methods would fail first.
    define += '\n  def legal(self, s): return np.array([[False, True, True]])'
    define += '\n  def advance(self, states, tokens): return states[:, None]'
  refused(folder, f'{body}\n  {define}\n', message)


PLAIN = (
  BODY.partition('from wm.worlds')[0]
  + """
from wm import core


@dataclasses.dataclass(frozen=True)
class Stones(core.World):
  version = '1'
  vocab = ('<pad>', 'hop')
  max_len = 8

  def init(self, batch):
    return np.zeros((batch, 1), np.int32)

  def legal(self, states):
    return np.repeat([[False, True]], len(states), 0) & (states >= 0)

  def advance(self, states, tokens):
    return np.where(tokens[:, None] == 1, states, -1).astype(np.int32)

  def state_id(self, states):
    return states[:, 0].astype(np.int64)

  def sample(self, num, seed, split='all'):
    tokens = np.ones((num, 8), np.int32)
    return core.Sequences(tokens, np.full(num, 8, np.int32))
"""
)
SPEAKS = """
  def parse(self, text):
    return self.init(1)

  def format(self, state):
    return 'stone'
"""
COUNTS = """
  heads = core.Heads((2, 2))

  def labels(self, states):
    return np.zeros((len(states), 1), np.uint8)
"""


def test_a_world_of_the_14_members_is_measured_by_what_asks_for_no_more(folder):
  world = make(folder, PLAIN)
  oracle = registry.resolve('model', 'oracle()').predictor(world, 0)
  for metric in ('next_token(num=4)', 'traversal(num=4)', 'detour(num=4)'):
    result = registry.resolve('metric', metric)(oracle, world, 0)
    assert result[0].value.tolist() == [1, 1, 1, 1]
  for name in ('compression', 'distinction', 'capability', 'exactness'):
    metric = registry.find('metric', name)
    assert lacks(metric, type(oracle), type(world))


def test_an_ability_is_inherited(folder):
  message = r'has format, parse and does not inherit core\.Written; add it to'
  refused(folder, PLAIN + SPEAKS, message)
  body = PLAIN.replace('(core.World)', '(core.Labelled)') + COUNTS
  refused(folder, body, r'labels gives shape \(2, 1\) .* 2 labels')


def test_a_run_of_files_goes_on_from_the_same_folder_only(folder, monkeypatch):
  from wm.data import sampling
  from wm.options.calls import Sampling
  from wm.training import checkpoints, loop

  (folder / 'grams.py').write_text(
    'import dataclasses\n'
    'from wm.models import ngram\n'
    '@dataclasses.dataclass(frozen=True)\n'
    'class Pairs(ngram.Model):\n'
    '  order: int = 2\n'
  )
  world = registry.resolve('world', 'frog.py:World(stones=4)')
  out = folder / 'run'
  made = sampling.make_dataset(
    world, out, Sampling(num=50, num_heldout=20, seed=0)
  )
  assert made['train']['world'] == 'frog.py:World(stones=4)'
  specs = 'frog.py:World(stones=4)', 'grams.py:Pairs()'
  asked = *specs, out, loop.Training()
  summary = loop.train(*asked)
  assert summary['model'] == 'grams.py:Pairs()'
  again = loop.train(*asked)
  assert again['heldout_loss'] == summary['heldout_loss']
  trained, info = checkpoints.load(out)
  assert trained.vocab_size == 4
  assert info['run']['world'] == 'frog.py:World(stones=4)'
  monkeypatch.chdir(out)
  with pytest.raises(core.InputError, match=r'--trust=grams\.py'):
    checkpoints.load(out)
  message = f"no file 'frog.py' in {out}"
  with pytest.raises(core.InputError, match=message):
    loop.train(*asked)


# Whom an error is blamed on.


def test_what_comes_through_a_file_of_the_users_is_blamed_on_its_line():
  def thrown(error):
    raise error

  here = re.escape(f'{pathlib.Path(__file__).name}:')
  with (
    pytest.raises(core.InputError, match=rf'{here}\d+: KeyError: .*there'),
    plugins.user_code(),
  ):
    thrown(KeyError('not there\nat all'))
  with (
    pytest.raises(core.InputError, match=r"ValueError: .*\(metric 'm'\)"),
    plugins.user_code("metric 'm'"),
  ):
    np.array([[1], [1, 2]])


def thrown_by_ours(error):
  (_ for _ in ()).throw(error)  # No line of this file has a `raise`.


def interrupted():
  signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
  ('kind', 'function'),
  [
    (KeyboardInterrupt, interrupted),
    (stopping.Stopped, lambda: thrown_by_ours(stopping.Stopped())),
    (MemoryError, lambda: bytearray(1 << 62)),
    (
      BrokenPipeError,
      lambda: thrown_by_ours(BrokenPipeError(32, 'Broken pipe')),
    ),
    (core.InputError, lambda: thrown_by_ours(core.InputError('said'))),
    (OSError, lambda: thrown_by_ours(OSError(28, 'No space left on device'))),
  ],
)
def test_what_is_not_the_codes_fault_passes(kind, function):
  old = signal.signal(signal.SIGINT, signal.default_int_handler)
  try:
    with pytest.raises(kind) as caught, plugins.user_code('model'):
      function()
  finally:
    signal.signal(signal.SIGINT, old)
  assert type(caught.value) is kind


def test_ending_the_program_is_blamed_too():
  with (
    pytest.raises(core.InputError, match=r'plugins_test.py:\d+: SystemExit: 0'),
    plugins.user_code('model'),
  ):
    sys.exit(0)


def test_a_fault_of_our_own_keeps_its_trace():
  assert not plugins.is_own(plugins.__file__)
  assert not plugins.is_own(dataclasses.__file__)
  assert not plugins.is_own(np.__file__)
  assert not plugins.is_own('<string>')
  assert plugins.is_own(__file__)


def test_what_a_process_trusts_is_said_once(monkeypatch, tmp_path):
  (tmp_path / 'mine.py').touch()
  monkeypatch.setattr(plugins, '_trusted', {tmp_path / 'mine.py'})
  monkeypatch.setenv(plugins.TRUST_VARIABLE, str(tmp_path))
  once = plugins.trust_environment()
  listed = once[plugins.TRUST_VARIABLE].split(os.pathsep)
  assert listed == [str(tmp_path), str(tmp_path / 'mine.py')]
  monkeypatch.setenv(*once.popitem())
  again = plugins.trust_environment()[plugins.TRUST_VARIABLE]
  assert again.split(os.pathsep) == listed
