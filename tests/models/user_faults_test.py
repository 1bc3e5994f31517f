"""A user's model that fails is one line, with its file and line first."""

import sys

import pytest

from tests import tiny
from wm import core
from wm.core import registry
from wm.models import user

FAULTY = {
  'zero': ('return 1 / 0', '^faulty.py:5: ZeroDivisionError: division by zero'),
  'ragged': ('return [[1], [1, 2]]', '^faulty.py:4: ValueError: .*inhomogen'),
  'none': ('return None', '^faulty.py:4: user model .* gave object of shape'),
  'nan': ('return np.full((*x.shape, 8), np.nan)', '^faulty.py:4: .*gave NaN'),
  'log': ('return np.log(np.zeros((*x.shape, 8)))', 'no finite logit'),
  'deep': ('return f(x)', '^faulty.py:5: RecursionError'),
  'parse': ('return (', '^faulty.py:5: SyntaxError'),
  'name': ('return y', "^faulty.py:5: NameError: name 'y' is not defined"),
  'end': ('raise SystemExit(0)', '^faulty.py:5: SystemExit: 0'),
  'interrupt': ('raise KeyboardInterrupt', '^faulty.py:5: KeyboardInterrupt'),
  'base': ('raise BaseException("a\\nb")', '^faulty.py:5: BaseException: a b'),
  'close': ('raise GeneratorExit', '^faulty.py:5: GeneratorExit'),
  'memory': ('raise MemoryError("x")', '^faulty.py:5: MemoryError: x'),
  'mute': (
    'raise type("E", (Exception,), {"__str__": None})',
    r'^faulty.py:5: E: +\(user',
  ),
  'late': ('import nothing_here', '^faulty.py:5: ModuleNotFoundError'),
}


@pytest.mark.parametrize('name', FAULTY)
@pytest.mark.parametrize('function', ['faulty.py:f', 'faulty:f'])
def test_models_that_fail(name, function, tmp_path, monkeypatch, one_line):
  line, message = FAULTY[name]
  (tmp_path / 'faulty.py').write_text(
    f'"""A model."""\nimport numpy as np\n\ndef f(x):\n  {line}\n'
  )
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(sys, 'path', [*sys.path])
  model = registry.resolve('model', f'user(function={function!r})')
  with one_line(message) as caught:
    model.predictor(tiny.World(), 0)
  assert repr(function) in str(caught.value)
  sys.modules.pop('faulty', None)


@pytest.mark.parametrize(
  'line',
  [
    *('import nothing_here', 'x = 1 / 0', 'x = (', 'x = "\\ud800".encode()'),
    *('raise KeyboardInterrupt', 'raise BaseException', 'raise SystemExit'),
  ],
)
@pytest.mark.parametrize('function', ['faulty.py:f', 'faulty:f'])
def test_modules_that_fail(line, function, tmp_path, monkeypatch):
  (tmp_path / 'faulty.py').write_text(f'"""A model."""\n\n{line}\n')
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(sys, 'path', [*sys.path])
  with pytest.raises(core.InputError, match=r'^faulty.py:3: \w+: '):
    user.load(function)
  assert not {'faulty', 'faulty.py'} & set(sys.modules)


@pytest.mark.parametrize(
  'body',
  [
    'class f:\n  __slots__ = ()\nf = f()',
    'class f:\n  def __getattr__(self, name): 1 / 0\nf = f()',
    'class f:\n  def __getattr__(self, name): raise KeyboardInterrupt\nf = f()',
    'class f:\n  @property\n  def g(self): raise BaseException("x")\nf = f()',
  ],
)
def test_things_whose_attributes_fail(body, tmp_path, monkeypatch):
  (tmp_path / 'faulty.py').write_text(body + '\n')
  monkeypatch.chdir(tmp_path)
  with pytest.raises(core.InputError, match=r'faulty\.py'):
    user.load('faulty.py:f.g')


def test_lengths_are_not_below_zero():
  with pytest.raises(core.InputError, match='max_len=-1'):
    registry.resolve('model', "user(function='m.py:f', max_len=-1)")
