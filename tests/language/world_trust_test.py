"""A log of Inspect is data: the code that it names is not run."""

import json
import os
import pathlib
import shutil

import inspect_ai
import pytest

from tests.launch import binaries
from wm import core
from wm.core import plugins
from wm.language import world_task

WORLD = 'maps(rows=3, columns=3)'
EVIL = """
import dataclasses
import pathlib

pathlib.Path(__file__).with_name('ran').write_text('')

from wm.metrics import next_token
from wm.worlds import maps


@dataclasses.dataclass(frozen=True)
class World(maps.World):
  version = maps.World.version


@dataclasses.dataclass(frozen=True)
class Metric(next_token.Metric):
  version = '1'
"""


@pytest.fixture(scope='module')
def log(tmp_path_factory):
  """Path of a log of a few questions."""
  folder = tmp_path_factory.mktemp('logs')
  (made,) = inspect_ai.eval(
    world_task.world(world=WORLD, metrics="next_token(states='drawn', num=2)"),
    model='wm/solver',
    log_dir=str(folder),
    log_format='json',
    display='none',
    score_display=False,
  )
  assert made.status == 'success'
  (path,) = folder.glob('*.json')
  return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """The current folder, with dl2/evil.py, which no process has run."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(plugins, '_trusted', set())
  (tmp_path / 'dl2').mkdir()
  (tmp_path / 'dl2' / 'evil.py').write_text(EVIL)
  return tmp_path


@pytest.mark.parametrize(
  'values',
  [
    {'world': 'dl2/evil.py:World(rows=3, columns=3)'},
    {'before': 'dl2/evil.py:World(rows=3, columns=3)'},
    {'metrics': ["dl2/evil.py:Metric(states='drawn', num=2)"]},
    {'metrics': ["exactness(world='dl2/evil.py:World()')"]},
  ],
)
def test_a_report_of_a_log(folder, log, values):
  held = json.loads(log.read_text())
  for sample in held['samples']:
    sample['metadata'].update(values)
  pathlib.Path('logs').mkdir()
  shutil.copy(log, f'logs/{log.name}')
  pathlib.Path('logs', log.name).write_text(json.dumps(held))
  line = binaries.refused('report', '--runs=logs', '--out=out')
  assert '--trust=dl2/evil.py ' in line
  assert not pathlib.Path('dl2', 'ran').exists()
  flags = '--runs=logs', '--out=out', '--trust=dl2'
  binaries.printed('report', *flags)
  assert pathlib.Path('dl2', 'ran').exists()


def test_a_world_that_is_asked_about_is_trusted(folder):
  world_task.world(
    world='dl2/evil.py:World(rows=3, columns=3)',
    metrics="next_token(states='drawn', num=2)",
  )
  assert pathlib.Path('dl2', 'ran').exists()


def test_the_environment_trusts(folder, monkeypatch):
  with pytest.raises(core.InputError, match=r'--trust=dl2/evil\.py '):
    plugins.check_allowed('dl2/evil.py', 'world')
  monkeypatch.setenv(plugins.TRUST_VARIABLE, f'dl{os.pathsep}dl2')
  plugins.check_allowed('dl2/evil.py', 'world')
