"""One command: from a checkout, and from the package as it is installed."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*words, cwd, path, code=0):
  """What a command prints, of wm in a folder."""
  done = subprocess.run(
    [sys.executable, *words],
    cwd=cwd,
    env={**os.environ, 'PYTHONPATH': str(path)},
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == code, done.stderr
  return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope='module')
def installed(tmp_path_factory):
  """The package as a wheel has it."""
  folder = tmp_path_factory.mktemp('wheel')
  for part in ('wm', 'launch'):
    shutil.copytree(ROOT / part, folder / 'source' / part)
  for part in ('setup.py', 'README.md'):
    shutil.copy(ROOT / part, folder / 'source')
  build = 'setup.py', '-q', 'build_py', '--build-lib', str(folder / 'lib')
  run(*build, cwd=folder / 'source', path='')
  return folder / 'lib'


@pytest.mark.process
def test_a_wheel_does_what_a_checkout_does(installed, tmp_path):
  where = {'cwd': tmp_path, 'path': installed}
  assert str(installed) in run('-c', 'import wm; print(wm.__file__)', **where)
  text = run('-m', 'wm', **where)
  names = {path.stem for path in (ROOT / 'launch').glob('*.py')} - {'common'}
  assert {line.split()[0] for line in text.splitlines()[-len(names) :]} == names
  assert 'table 1' in run('-m', 'wm', 'list', '--papers', **where)
  study = '-m', 'wm', 'study', '--flagfile=vafa2024/tables', '--dry_run'
  assert 'random_walks: sample' in run(*study, **where)
  score = '-m', 'wm', 'score', '--world=maps(rows=4, columns=4)', '--out=run'
  score += '--model=uniform()', '--metric=compression(trials=5)'
  run(*score, **where)
  run('-m', 'wm', 'report', '--out=run', **where)
  assert list((tmp_path / 'run').rglob('report.html'))


@pytest.mark.process
def test_an_unknown_subcommand_and_flagfile_are_one_line(tmp_path):
  where = {'cwd': tmp_path, 'path': ROOT, 'code': 2}
  text = run('-m', 'wm', 'scores', **where)
  assert text.startswith("error: no subcommand 'scores'; available: ask, ")
  text = run('-m', 'wm', 'score', '--flagfile=vafa2024/nothing', **where)
  assert text == (
    "error: --flagfile: No such file or directory: 'vafa2024/nothing'\n"
  )
