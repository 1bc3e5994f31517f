"""Code that stands in data, logs, Hugging Face folders, and providers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from tests.attack.bases import LOG, WORLD
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

NET = 'transformer(layers=1, width=8, heads=2)'
RAN = 'ran'  # What the code makes, where it is run.
EVIL = put('dl/evil.py', f'open({RAN!r}, "w")\n')
HELD = f'logs/{LOG}'
READ_LOG = 'report', '--runs=logs', '--out=new'


def trust() -> Iterator[Case]:
  """Specs in data that name a file beside them."""
  report = 'report', '--runs=scored', '--out=new'
  load = 'score', f'--world={WORLD}', '--metric=next_token(num=5)'
  load += '--checkpoint=trained', '--out=new'
  train = 'train', f'--world={WORLD}', '--model=ngram()', '--out=new'
  train += ('--data=sampled/data',)
  sweep = 'sweep', '--grid=seed=1|2', '--out=new'
  sweep += '--winners_of=sweep', '--data=sweep/data'
  scores, run = 'scored/scores.json', 'trained/train.run.json'
  function = 'user("dl/evil.py:f")'
  for name, command, base, file, keys, value in (
    ('metric', report, 'scored', scores, (0, 'metric'), 'dl/evil.py:Metric'),
    ('metric spec', report, 'scored', scores, (0, 'spec'), 'dl/evil.py:M()'),
    ('world', report, 'scored', scores, (0, 'world'), 'dl/evil.py:World()'),
    ('model', report, 'scored', scores, (0, 'model_spec'), 'dl/evil.py:M()'),
    ('function', report, 'scored', scores, (0, 'model_spec'), function),
    ('rule', report, 'scored', scores, (0, 'accept'), 'dl/evil.py:A()'),
    ('run world', load, 'trained', run, ('world',), 'dl/evil.py:World()'),
    ('run model', load, 'trained', run, ('model',), 'dl/evil.py:Model()'),
    ('run function', load, 'trained', run, ('model',), function),
    (
      *('run shown', report, 'scored', 'scored/train.run.json'),
      *(('world',), 'dl/evil.py:World()'),
    ),
    (
      *('data world', train, 'sampled', 'sampled/data/train/manifest.json'),
      *(('world',), 'dl/evil.py:World()'),
    ),
  ):
    files = EVIL, edit(file, *keys, to=value)
    yield Case('code in data', name, command, files, (base,), inert=RAN)
  for kind, spec in (('model', NET), ('world', WORLD)):
    old, new = (f'"{kind}": "{x}' for x in (spec, 'dl/evil.py:Model()"'))
    files = EVIL, replace('sweep/sweep.json', f'{old}"', new)
    name = f'winner {kind}'
    yield Case('code in data', name, sweep, files, ('sweep',), inert=RAN)
  for name, old, new in (
    ('log world', '"maps(rows=3, columns=3)"', '"dl/evil.py:World()"'),
    ('log metric', 'compression(', 'dl/evil.py:Metric('),
  ):
    files = EVIL, replace(HELD, old, new)
    yield Case(
      *('code in data', name, READ_LOG, files, ('logs',)),
      inert=RAN,
      needs='inspect_ai',
    )


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
  bins = {'metadata': {}, 'weight_map': {'wte.weight': 'pytorch_model.bin'}}
  custom = {'AutoModelForCausalLM': 'evil.Model', 'AutoConfig': 'evil.Config'}
  evil = put('hub/evil.py', f'open({RAN!r}, "w")\n')
  ways: dict[str, tuple[Action, ...]] = {
    'a file': (put('hub', 'x'),),
    'empty': (folder('hub'),),
    'no weights': (_config(),),
    'config of words': (put('hub/config.json', 'model'),),
    'config a list': (put('hub/config.json', '[1]'),),
    'config deep': (put('hub/config.json', DEEP),),
    'config a pipe': (fifo('hub/config.json'),),
    'config of no type': (put('hub/config.json', '{}'),),
    'config of another type': (_config(model_type='bert'), _tensors(b'{}')),
    'config of no known type': (_config(model_type='nope'), _tensors(b'{}')),
    'layers of words': (_config(n_layer='two'), _tensors(b'{}')),
    'layers below zero': (_config(n_layer=-1), _tensors(b'{}')),
    'weights empty': (_config(), put('hub/model.safetensors')),
    'weights of nothing': (_config(), _tensors(b'{}')),
    'weights cut': (_config(), _tensors(b'{"a": {"dtype": "F32", "sh')),
    'weights noise': (_config(), put('hub/model.safetensors', b'\xff' * 99)),
    'weights a pipe': (_config(), fifo('hub/model.safetensors')),
    'weights a folder': (_config(), folder('hub/model.safetensors')),
    'weights a pickle': (_config(), put('hub/pytorch_model.bin', b'\x80\x04.')),
    'index of bin': (
      _config(),
      put('hub/model.safetensors.index.json', json.dumps(bins)),
      put('hub/pytorch_model.bin', b'\x80\x04.'),
    ),
    'index of words': (_config(), put('hub/model.safetensors.index.json', 'x')),
    'custom code': (_config(auto_map=custom), _tensors(b'{}'), evil),
    'quantised': (
      _config(quantization_config={'quant_method': 'gptq', 'bits': 4}),
      _tensors(b'{}'),
    ),
    'vocabulary of none': (_config(vocab_size=0), _tensors(b'{}')),
  }
  for name, files in ways.items():
    run = score('huggingface(path="hub")')
    inert = RAN if name == 'custom code' else ''
    yield Case(
      *('Hugging Face', name, run, files), needs='transformers', inert=inert
    )
  for name, tokens in {
    'missing': (),
    'words': (put('t.json', 'x'),),
    'list': (put('t.json', '[1]'),),
    'pipe': (fifo('t.json'),),
    'numbers': (put('t.json', '{"a": 1}'),),
    'folder': (folder('t.json'),),
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
  yield from trust()
  yield from logs()
  yield from hugging()
  yield from providers()
