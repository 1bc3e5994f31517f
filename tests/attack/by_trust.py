"""Logs, Hugging Face folders, and providers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from tests.attack.bases import LOG
from tests.attack.by_folder import DEEP
from tests.attack.by_plugin import score
from tests.attack.case import (
  Action,
  Case,
  cut,
  drop,
  edit,
  fifo,
  folder,
  put,
  replace,
)

RAN = 'ran'  # What the code makes, where it is run.
HELD = f'logs/{LOG}'
READ_LOG = 'report', '--runs=logs', '--out=new'


def logs() -> Iterator[Case]:
  """Logs of Inspect, damaged."""
  ways: dict[str, tuple[Action, ...]] = {
    'cut': (cut(HELD, 0.7),),
    'empty': (put(HELD),),
    'deep': (put(HELD, DEEP),),
    'pipe': (fifo(HELD),),
    'a folder': (folder(HELD),),
    'samples gone': (drop(HELD, 'samples'),),
    'no samples': (edit(HELD, 'samples', to=[]),),
    'samples a text': (edit(HELD, 'samples', to='x'),),
    'task a number': (edit(HELD, 'eval', 'task', to=5),),
    'eval gone': (drop(HELD, 'eval'),),
    'status odd': (edit(HELD, 'status', to='lost'),),
    'world is none': (replace(HELD, 'maps(rows=3, columns=3)', 'nope()'),),
    'world cut': (replace(HELD, 'maps(rows=3, columns=3)', 'maps(('),),
    'metric is none': (replace(HELD, 'compression(', 'nope('),),
    'trial a list': (edit(HELD, 'samples', 0, 'metadata', to=[1]),),
    'no metadata': (edit(HELD, 'samples', 0, 'metadata', to={}),),
    'scores a text': (edit(HELD, 'samples', 0, 'scores', to='x'),),
  }
  for name, files in ways.items():
    yield Case(*('logs', name, READ_LOG, files, ('logs',)), needs='inspect_ai')
  for metric in ('probe()', 'nope()', 'exactness()', 'compression('):
    yield Case(
      *('logs', f'task of {metric}', lambda metric=metric: _task(metric)),
      needs='inspect_ai',
    )


def _task(metric: str) -> None:
  from wm.language import world_task

  world_task.world(world='maps(rows=3, columns=3)', metrics=metric)


GPT = {
  'model_type': 'gpt2',
  'architectures': ['GPT2LMHeadModel'],
  'n_layer': 1,
  'n_embd': 8,
  'n_head': 2,
  'n_positions': 64,
  'vocab_size': 32,
}


def _config(**fields: Any) -> Action:
  return put('hub/config.json', json.dumps({**GPT, **fields}))


def _tensors(header: bytes, data: bytes = b'') -> Action:
  size = len(header).to_bytes(8, 'little')
  return put('hub/model.safetensors', size + header + data)


def hugging() -> Iterator[Case]:
  """Folders of transformers that lack something."""
  custom = {'AutoModelForCausalLM': 'evil.Model', 'AutoConfig': 'evil.Config'}
  evil = put('hub/evil.py', f'open({RAN!r}, "w")\n')
  ways: dict[str, tuple[Action, ...]] = {
    'a file': (put('hub', 'x'),),
    'empty': (folder('hub'),),
    'config deep': (put('hub/config.json', DEEP),),
    'config a pipe': (fifo('hub/config.json'),),
    'weights cut': (_config(), _tensors(b'{"a": {"dtype": "F32", "sh')),
    'custom code': (_config(auto_map=custom), _tensors(b'{}'), evil),
  }
  for name, files in ways.items():
    run = score('huggingface(path="hub")')
    inert = RAN if name == 'custom code' else ''
    yield Case(
      *('Hugging Face', name, run, files), needs='transformers', inert=inert
    )
  for name, tokens in {
    'missing': (),
    'pipe': (fifo('t.json'),),
  }.items():
    run = score('huggingface(path="hub", tokens="t.json")')
    files = _config(), _tensors(b'{}'), *tokens
    yield Case(
      'Hugging Face', f'tokens {name}', run, files, needs='transformers'
    )


def _replies(status: int, body: str, key: str = 'x') -> None:
  """Scores by a provider on this machine that always says the same."""
  import http.server
  import threading

  class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
      self.rfile.read(int(self.headers.get('Content-Length') or 0))
      self.send_response(status)
      self.send_header('Content-Type', 'application/json')
      self.end_headers()
      self.wfile.write(body.encode())

    def log_message(self, *args: Any) -> None:
      """Says nothing."""

  class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *args: Any) -> None:
      """Says nothing, as where a client leaves."""

  server = Server(('127.0.0.1', 0), Handler)
  threading.Thread(target=server.serve_forever, daemon=True).start()
  _ask(f'http://127.0.0.1:{server.server_port}/v1', key)


def _ask(url: str, key: str = 'x') -> None:
  os.environ.pop('OPENAI_API_KEY', None)
  if key:
    os.environ['OPENAI_API_KEY'] = key
  import wm

  model = f'language(model="openai/x", base_url={url!r}, retries=0, timeout=5'
  model += ', answers="../kept")'
  metric = 'next_token(num=3)'
  wm.score(model, metric, 'maps(rows=3, columns=3)', out='new')


def providers() -> Iterator[Case]:
  """Providers that refuse, are not there, or say nonsense."""
  wrong_key = '{"error": {"message": "Incorrect API key", "code": "invalid"}}'
  for name, act in {
    'wrong key': lambda: _replies(401, wrong_key),
    'no such model': lambda: _replies(404, '{"error": {"message": "no x"}}'),
    'forbidden': lambda: _replies(403, '{"error": {"message": "no"}}'),
    'no key': lambda: _ask('http://127.0.0.1:9/v1', ''),
    'nobody there': lambda: _ask('http://127.0.0.1:9/v1'),
    'no address': lambda: _ask('nowhere'),
    'no host': lambda: _ask('http://host.invalid/v1'),
  }.items():
    yield Case('providers', name, act, needs='openai')


def all() -> Iterator[Case]:
  """Every case of this file."""
  yield from logs()
  yield from hugging()
  yield from providers()
