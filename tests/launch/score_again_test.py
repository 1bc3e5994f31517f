"""A folder that is scored again: what stands is kept, what does not is not."""

import json
import os
import pathlib
import sys

import numpy as np
import pytest

from tests.launch import binaries

METRIC = '--metric=next_token(num=20)'

MODEL = """
import helper

def logits(tokens):
  return helper.flat(tokens)
"""

HELPER = """
import numpy as np

def flat(tokens):
  return np.zeros((*tokens.shape, {size}))
"""

# Says `left` after anything.
SKEWED = """
import numpy as np

def flat(tokens):
  return np.log(np.where(np.arange({size}) == 1, .9, .1 / {size})
                + np.zeros((*tokens.shape, 1)))
"""


@pytest.fixture
def score(tmp_path, monkeypatch):
  """(flags...) -> (quantity -> value, what it said but for the table)."""
  monkeypatch.chdir(tmp_path)

  def run(*flags: str) -> tuple[dict, list[str]]:
    sys.modules.pop('helper', None)  # As a process of its own would find it.
    output = binaries.printed('score', METRIC, '--out=out', *flags).splitlines()
    entries = json.loads(pathlib.Path('out', 'scores.json').read_text())
    values = {e['quantity']: e['value'] for e in entries}
    return values, [line for line in output if line.startswith('next_token(')]

  return run


def write(name: str, text: str, **values) -> None:
  path = pathlib.Path(name)
  path.write_text(text.format(**values) if values else text)
  # Bytecode is matched by whole seconds and size.
  made = path.stat().st_mtime + len(text)
  os.utime(path, (made, made))


def user(**fields) -> tuple[str, str]:
  inputs = ', '.join(f'{k}={v!r}' for k, v in fields.items())
  return '--world=lattice()', f"--model=user('m.py:logits', {inputs})"


def test_an_edited_function_or_what_it_imports_is_measured_anew(score):
  write('m.py', MODEL)
  write('helper.py', HELPER, size=4)
  flags = user(files=())
  first, output = score(*flags)
  assert output == []
  assert score(*flags) == (first, ['next_token(num=20): cached'])
  write('helper.py', SKEWED, size=4)
  second, output = score(*flags)
  assert output == ['next_token(num=20): recomputed: helper.py changed']
  assert second != first
  write('m.py', MODEL.replace('(tokens)\n', '(tokens) * 0\n', 2))
  third, output = score(*flags)
  assert output == ['next_token(num=20): recomputed: m.py changed']
  assert third == first
  assert score(*flags)[1] == ['next_token(num=20): cached']


def test_a_declared_file_is_part_of_the_model(score):
  write(
    'm.py',
    'import numpy as np\n'
    'def logits(tokens):\n'
    "  return np.load('w.npy') + np.zeros((*tokens.shape, 1))\n",
  )
  np.save('w.npy', np.zeros(4))
  flags = user(files=('w.npy',))
  first, _ = score(*flags)
  assert score(*flags)[1] == ['next_token(num=20): cached']
  np.save('w.npy', np.log([0.001, 0.9, 0.001, 0.001]))
  second, output = score(*flags)
  assert output == ['next_token(num=20): recomputed: w.npy changed']
  assert second != first


def test_a_user_model_that_declares_nothing_is_measured_each_time(score):
  write('m.py', MODEL)
  write('helper.py', HELPER, size=4)
  first, _ = score(*user())
  before = pathlib.Path('out/rows.parquet').stat().st_mtime_ns
  calls = pathlib.Path('calls')
  write('m.py', "print('called', file=open('calls', 'a'))\n" + MODEL)
  output = binaries.printed('score', METRIC, '--out=out', *user())
  assert calls.exists()
  assert output.count('does not say what files it reads') == 1
  assert "files=('weights.pt',)" in output
  assert 'kept' not in output
  assert pathlib.Path('out/rows.parquet').stat().st_mtime_ns != before
  # Verbal what it reads, it is the same model, and no other run.
  assert score(*user(files=()))[0] == first
  assert score(*user(files=()))[1] == ['next_token(num=20): cached']


PLUG_INS = {
  'my_world.py': """
import dataclasses
import numpy as np
import stones
from wm.worlds.base import table

@dataclasses.dataclass(frozen=True)
class World(table.TableWorld):
  version = '1'
  vocab = ('<pad>', 'back', 'hop')
  max_len = 12

  @property
  def delta(self):
    return stones.delta()
""",
  'stones.py': """
import numpy as np

def delta():
  stone = np.arange(4, dtype=np.int32)[:, None]
  after = stone + np.array([-1, 1], np.int32)
  return np.where(after < 4, after, -1)
""",
  'my_metric.py': """
import dataclasses
from wm import core

@dataclasses.dataclass(frozen=True)
class Mine(core.Metric):
  version = '1'

  def __call__(self, predictor, world, seed):
    return (core.scores('share', [0.5, 0.25]),)
""",
}


def test_edited_plug_ins_of_a_user_are_measured_anew(score):
  for name, text in PLUG_INS.items():
    write(name, text)
  flags = '--world=my_world.py:World()', '--model=oracle()'
  mine = '--metric=my_metric.py:Mine()'
  asked = 'next_token(num=20)'
  first, output = score(*flags, mine)
  assert output == []
  write('stones.py', PLUG_INS['stones.py'].replace('[-1, 1]', '[-1, 2]'))
  sys.modules.pop('stones')
  _, output = score(*flags)
  assert output == [f'{asked}: recomputed: stones.py changed']
  _, output = score(*flags, mine)
  assert output == [f'{asked}: cached']
  write('my_metric.py', PLUG_INS['my_metric.py'].replace('0.25', '0.75'))
  second, output = score(*flags, mine)
  assert output == [f'{asked}: cached']
  assert (first['share'], second['share']) == (0.375, 0.625)


def test_another_checkpoint_of_the_same_run_is_measured_anew(score):
  world = '--world=lattice()'
  binaries.printed('sample', world, '--num=60', '--num_heldout=10', '--out=out')
  binaries.printed('train', world, '--model=ngram(order=2)', '--out=out')
  first, _ = score(world)
  assert score(world)[1] == ['next_token(num=20): cached']
  path = pathlib.Path('out/checkpoints/fitted.npz')
  with np.load(path) as kept:
    arrays = dict(kept)
  arrays['counts'] = arrays['counts'][::-1].copy()
  np.savez(path, **arrays)
  second, output = score(world)
  assert output == ['next_token(num=20): recomputed: checkpoint changed']
  assert score(world) == (second, ['next_token(num=20): cached'])
  assert second != first
