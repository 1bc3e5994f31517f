"""What README and --help tell a user to type exists, and small parts run."""

import ast
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

from tests.launch import binaries

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = (ROOT / 'README.md').read_text(encoding='utf-8')
# What README links to, for those who read on.
PAGES = README + ''.join(
  path.read_text(encoding='utf-8')
  for path in sorted((ROOT / 'launch' / 'docs' / 'pages').glob('*.md'))
)


def commands(text: str) -> list[str]:
  """Lines of a text's indented blocks, continued lines joined."""
  block = '\n'.join(re.findall(r'^ {2,}(.*)$', text, re.M))
  lines = block.replace('\\\n', ' ').splitlines()
  return [line for line in lines if re.match(r'[\w./]+ |[\w./]+$', line)]


def helps() -> list[str]:
  """What each binary says of itself."""
  paths = sorted((ROOT / 'launch').glob('*.py'))
  return [ast.get_docstring(ast.parse(p.read_text())) or '' for p in paths]


def typed() -> list[list[str]]:
  """Words of each `python launch/...` command of README and --help, without
  its comment.
  """
  return [
    shlex.split(line, comments=True)[1:]
    for text in (PAGES, *helps())
    for line in commands(text)
    if line.startswith('python launch/')
  ]


def of(name: str, flag: str = '') -> list[list[str]]:
  """Commands of one binary, those with some flag in them."""
  return [
    words
    for words in typed()
    if words[0] == f'launch/{name}.py' and flag in ' '.join(words)
  ]


def run(words: list[str], folder: pathlib.Path) -> str:
  """Runs a command as written, but in this process and in another folder."""
  binary = pathlib.Path(words[0]).stem
  code, out, err = binaries.run(binary, *words[1:], cwd=folder)
  assert code == 0, (words, err[-3000:])
  return out


def test_programs_that_are_named_exist():
  named = set(re.findall(r'launch/\w+\.(?:py|sh)', README))
  assert {'launch/quickstart.sh', 'launch/train.py'} <= named
  for path in named:
    assert (ROOT / path).is_file(), path


def test_folders_and_flagfiles_that_are_named_exist():
  for path in set(re.findall(r'(?:launch|third_party)/[\w/.]*\w', PAGES)):
    assert (ROOT / path).exists(), path


def helped(binary: str) -> str:
  """What --help prints, in a process that knows no other binary's flags."""
  done = subprocess.run(
    [sys.executable, str(ROOT / binary), '--help'],
    capture_output=True,
    text=True,
  )
  assert done.returncode == 0, done.stderr
  return done.stdout


@pytest.mark.process
def test_every_flag_is_one_that_the_program_reads():
  seen = set()
  for binary in {words[0] for words in typed()}:
    text = helped(binary)
    known = set(re.findall(r'^\s+--(?:\[no\])?(\w+)', text, re.M))
    for words in of(pathlib.Path(binary).stem):
      inputs = {w[2:].split('=')[0] for w in words[1:] if w.startswith('--')}
      assert inputs <= {*known, 'flagfile'}, (binary, inputs - known)
      seen |= inputs
  assert {'world', 'flagfile', 'samples', 'osm_place'} <= seen


def test_every_spec_means_something(monkeypatch):
  from wm.core import registry

  monkeypatch.chdir(ROOT)
  made = 0
  for words in typed():
    for word in words:
      flag, _, spec = word.removeprefix('--').partition('=')
      if flag in registry.KINDS:
        registry.resolve(flag, spec)
        made += 1
  assert made > 5


def test_it_is_short_and_begins_with_what_to_type():
  lines = README.splitlines()
  assert len(lines) <= 150
  assert sum(line.startswith('    ') for line in lines[:22]) == 3


def test_boundaries_and_counts_run_as_written(tmp_path):
  commands = of('count')[:4]
  connect4, chess, othello, figure = of('count')[4:]
  sizes = [line.split() for line in run(connect4, tmp_path).splitlines()]
  assert [int(k) for k, *_ in sizes] == list(range(1, 7))
  assert all(int(size) > 0 for size in sizes[-1])
  *_, outer, inner = run(chess, tmp_path).split()
  assert int(outer) > 0
  assert int(inner) == 0  # White moves in one, black in the other.
  lines = run(othello, tmp_path).splitlines()
  assert len(lines) == int(lines[-1].split()[1]) + 4
  assert len(run(figure, tmp_path).splitlines()) == 30
  counts = [
    [int(line.split()[1]) for line in run(words, tmp_path).splitlines()]
    for words in commands
  ]
  # From the middle of the line each token is legal; from its ends two are.
  assert counts[0][:3] == [3, 9, 25]
  assert counts[1] == [20, 400, 8902, 197281, 4865609]
  assert counts[2][0] == 6
  assert counts[3][-1] == 24571192


def test_scoring_runs_as_written(tmp_path):
  (tmp_path / 'launch').symlink_to(ROOT / 'launch')
  (words,) = of('score', 'frog.py')
  assert 'compression' in run(words, tmp_path)
  assert (tmp_path / 'runs' / 'frog' / 'scores.json').is_file()
  assert (tmp_path / 'runs' / 'frog' / 'rows.parquet').is_file()


def test_a_model_of_your_own_runs_as_written(tmp_path):
  pytest.importorskip('torch')
  (tmp_path / 'launch').symlink_to(ROOT / 'launch')
  words = of('score', '--model=user(')[0]
  assert 'validity' in run(words, tmp_path)
  assert (tmp_path / 'runs' / 'mine' / 'scores.json').is_file()


@pytest.mark.process
def test_the_notebook_lines_run_as_written():
  (source,) = re.findall(r'```python\n(.*?)```', README, re.S)
  shown = subprocess.run(
    [sys.executable, '-c', source],
    capture_output=True,
    text=True,
    check=True,
    cwd=ROOT,
  )
  lines = shown.stdout.splitlines()
  assert lines[0].split()[-4:] == ['value', 'low', 'high', 'n']
  assert any(' precision 0.' in ' '.join(line.split()) for line in lines)
  assert any(' validity 0.' in ' '.join(line.split()) for line in lines)


def test_commands_in_helps_keep_their_line_breaks():
  for path in sorted((ROOT / 'launch').glob('*.py')):
    text = ast.get_docstring(ast.parse(path.read_text(encoding='utf-8')))
    assert not re.search(r'\S {2,}-', text or ''), path.name
