"""Modules of the user's own that fail, end the process or give nonsense."""

from __future__ import annotations

from collections.abc import Iterator

from tests.attack.bases import LINE
from tests.attack.case import NOBODY, Case, closed, fifo, folder, put

RAISED = (
  *('SystemExit(0)', 'BaseException(1)', 'KeyboardInterrupt()'),
  *('MyError("a\\nb")', 'StopIteration', 'OSError(2, "no such", "w.pt")'),
  *('ExceptionGroup("g", [ValueError("a\\nb")])', 'Silent()', 'Unspeakable()'),
  'core.InputError("a\\nb")',
)
HEAD = """import dataclasses, os, sys
import numpy as np
from wm import core
from wm.worlds.base import table

class MyError(Exception): pass
class Silent(BaseException): pass
class Unspeakable(Exception):
  def __str__(self): raise ValueError('no words')
"""
MODEL = HEAD + '\ndef logits(x):\n  {body}\n'
WORLD = (
  HEAD
  + """
@dataclasses.dataclass(frozen=True)
class World(table.TableWorld):
  version = '1'
  vocab = ('<pad>', 'a', 'b')
  max_len = 9
  {more}
  @property
  def delta(self):
    {body}
"""
)
METRIC = (
  HEAD
  + """
@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  version = '1'
  def __call__(self, predictor, world, seed):
    {body}
"""
)
TABLE = 'return np.array([[1, -1], [0, 1]], np.int32)'
USUAL = {'more': '', 'body': TABLE}
LOGITS = (  # More of shapes and values in tests/core/contract_test.py.
  *('return None', 'return [[1], []]', 'return {}', 'x +* 1'),
  *('return np.zeros((*x.shape, 4), object)', 'return logits(x)'),
  *('sys.setrecursionlimit(9)', 'os.chdir("/nowhere")', 'return open("w.pt")'),
)


def score(
  model: str = 'uniform()', world: str = LINE, metric: str = ''
) -> tuple:
  """Scores a little in ./new."""
  metric = metric or 'next_token(num=5)'
  return (
    *('score', f'--world={world}', f'--model={model}', f'--metric={metric}'),
    '--out=new',
  )


def models() -> Iterator[Case]:
  """Functions and objects that should give logits."""
  kind = 'models of the user'
  run = score('user("m.py:logits")')
  for body in (*LOGITS, *(f'raise {error}' for error in RAISED)):
    says = 'm.py' if 'return' not in body and 'core.' not in body else ''
    yield Case(
      kind, body, run, (put('m.py', MODEL.format(body=body)),), says=says
    )
  for error in RAISED:
    text = f'{HEAD}\nraise {error}\n'
    says = '' if 'core.' in error else 'm.py'
    yield Case(kind, f'import: {error}', run, (put('m.py', text),), says=says)
  for name, text in {
    'of no arguments': 'def logits(): return 1',
    'generator': 'def logits(x): yield 1',
    'coroutine': 'async def logits(x): return 1',
    'attribute raises': 'def __getattr__(name): raise BaseException(name)',
    'answers of words': 'class L:\n  def answers(self, p, s): return ["y"]\n'
    'logits = L()',
    'hidden raises': 'class L:\n  def __call__(self, x):\n'
    '    return np.zeros((*x.shape, 4))\n'
    '  def hidden(self, x, layer): raise Silent()\n'
    'logits = L()',
    'end of process': 'sys.exit()',
    'warning': 'import warnings\nwarnings.simplefilter("error")\n'
    'warnings.warn("old")\n',
  }.items():
    metric = 'probe(num=9)' if name == 'hidden raises' else ''
    run_it = score('user("m.py:logits")', metric=metric)
    yield Case(kind, name, run_it, (put('m.py', f'{HEAD}\n{text}\n'),))
  for name, files in {
    'missing': (),
    'pipe': (fifo('m.py'),),
    'nul': (put('m.py', 'x = 1\0'),),
    'encoding': (put('m.py', '# coding: latin-99\nx = 1\n'),),
    'deep': (put('m.py', '(' * 5000),),
  }.items():
    yield Case(kind, f'file {name}', run, files)
  shut = put('m.py', 'x = 1'), closed('m.py')
  yield Case(kind, 'file closed', run, shut, user=NOBODY)
  for spec in USERS:
    files = (put('m.py', MODEL.format(body='return np.zeros((*x.shape, 4))')),)
    yield Case(kind, spec, score(spec), (*files, folder('w')))


USERS = (
  *('user()', 'user("m.py")', 'user(":logits")', 'user("m.py:nope")'),
  *('user("nope:logits")', 'user("m.py:logits", rows=1000000000)'),
  *('user("m.py:logits", tolerance=float("nan"))', 'user(5)'),
  *('user("m.py:logits", files=("gone",))', 'user("m.py:logits", copies=3)'),
  *('user("\\0:x")', f'user("{"x" * 3000}.py:f")', 'user("..m:logits")'),
)


# Part of a world -> what it cannot be; tests/core has more of tables.
WRONG: dict[str, tuple[str, ...]] = {
  'body': ('return None', *(f'raise {error}' for error in RAISED)),
  'more': (
    'version = 1',
    'def init(self, batch): return None',
    'def init(self, batch): return np.zeros(batch, np.int32)',
    'def legal(self, states): return np.ones((len(states), 9), bool)',
    'def legal(self, states): raise BaseException("x")',
    'def advance(self, states, tokens): return states[:1]',
    'def advance(self, states, tokens): raise SystemExit(0)',
    'def state_id(self, states): return states',
    'def sample(self, num, seed, split="all"): raise BaseException(1)',
    'def __post_init__(self): raise BaseException("no")',
    'names: dict = dataclasses.field(default_factory=dict)',
    'no_type = other',
  ),
}


def worlds() -> Iterator[Case]:
  """Worlds of the user's, as counting, sampling and scoring read them."""
  kind = 'worlds of the user'
  sample = 'sample', '--world=w.py:World()', '--num=20', '--num_heldout=9'
  for field, values in WRONG.items():
    for value in values:
      text = WORLD.format(**{**USUAL, field: value})
      files = (put('w.py', text),)
      yield Case(kind, f'{field} {value}', (*sample, '--out=new'), files)
  plain = put('w.py', WORLD.format(**USUAL))
  for spec in (
    *('w.py:Nope()', 'w.py:HEAD()', 'w.py:World(a=1)', 'w.py:World(1)'),
    *('w.py:MyError()', 'w.py:core()', 'w.py:np.array()', 'gone.py:World()'),
  ):
    run = sample[0], f'--world={spec}', '--out=new'
    yield Case(kind, spec, run, (plain,))


def metrics() -> Iterator[Case]:
  """Metrics of the user's."""
  kind = 'metrics of the user'
  run = score(metric='q.py:Metric()')
  for body in (
    *('return None', 'return (1,)', 'return (core.scores("", [0.5]),)'),
    'return (core.scores("a", ["x"]),)',
    'return (core.scores("a", [0.5]), core.scores("a", [0.6]))',
    'return (core.scores("a", [2.0, -3.0]),)',
    'return (core.scores("a", [float("inf"), 1.0]),)',
    'return (core.scores("a", [1.0, 0.5], groups=[1]),)',
    'return iter([1])',
    'return world.advance(None, None)',
    *(f'raise {error}' for error in RAISED),
  ):
    files = (put('q.py', METRIC.format(body=body)),)
    says = '' if 'core.Input' in body else 'q.py'
    yield Case(kind, body, run, files, says=says)


def all() -> Iterator[Case]:
  """Every case of this file."""
  yield from models()
  yield from worlds()
  yield from metrics()
