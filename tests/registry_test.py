"""Specs: parsing, checking, printing."""

import contextlib
import dataclasses
import subprocess
import sys
import types

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wm import core
from wm.core import accept, registry
from wm.metrics import compression


@pytest.mark.parametrize(
  ('text', 'expected'),
  [
    ('epsilon', accept.epsilon(0.01)),
    ('epsilon()', accept.epsilon(0.01)),
    (' epsilon( 0.1 ) ', accept.epsilon(0.1)),
    ('epsilon(threshold=0.1)', accept.epsilon(0.1)),
    ('top_k(2)', accept.top_k(2)),
    ('top_p(mass=1)', accept.top_p(1)),
  ],
)
def test_make(text, expected):
  assert registry.make('accept', text) == expected


def test_make_finds_modules():
  metric = registry.make('metric', "compression(k=2, suffixes='world')")
  assert metric == compression.Metric(k=2, suffixes='world')


@pytest.mark.parametrize(
  ('kind', 'text', 'message'),
  [
    ('accept', 'epsilom(0.1)', "no accept is named 'epsilom'.*mean 'epsilon'"),
    ('metric', 'compresion', "did you mean 'compression'"),
    ('metric', 'stats', "no metric is named 'stats'"),
    ('metric', 'os.path', 'bad spec'),
    ('world', 'frog.py', r'of a file frog\.py:CLASS\('),
    ('metric', 'compression(trails=3)', "no field 'trails'.*mean 'trials'"),
    ('metric', 'compression(trials="3")', 'not of the type of its default'),
    ('metric', 'compression(trials=3.5)', 'not of the type of its default'),
    ('metric', 'compression(trials=True)', 'not of the type of its default'),
    ('metric', 'compression(graded=1)', 'not of the type of its default'),
    ('metric', 'compression(trials=None)', 'not of the type of its default'),
    ('metric', 'compression(5, trials=3)', "sets 'trials' twice"),
    ('accept', 'top_k(1, 2)', '2 positional values'),
    ('accept', 'top_k(', 'bad spec'),
    ('accept', '', 'bad spec'),
    ('accept', 'top_k(k=open)', 'must be literals'),
    ('accept', '__import__("os").system("true")', 'bad spec'),
    ('accept', 'top_k(**{"k": 1})', 'bad spec'),
    ('accept', 'top_k(*[1])', 'bad spec'),
    ('accept', 'top_k(k=0)', 'k=0; expected at least 1'),
    ('accept', 'Accept', 'no accept is named'),
    ('accept', 'core', 'no accept is named'),
    ('world', 'maps(rows=3, rows=4)', "sets 'rows' twice"),
    ('world', 'maps(rows={[]:1})', 'values must be literals'),
    ('world', 'maps(rows={{}})', 'values must be literals'),
    ('world', r"maps(nodes='\x00')", r"a text holds '\\x00'"),
    ('world', r"maps(nodes='\ud800')", r"a text holds '\\ud800'"),
    ('world', 'maps(nodes="\ud800")', 'bad spec'),
    ('world', 'maps\x00()', 'bad spec'),
    ('world', '\ud800', 'bad spec'),
    ('world', f'maps(rows={"-" * 5_000}1)', 'bad spec'),
    ('world', f'maps(rows={"-" * 50_000}1)', 'at most 10000 characters'),
    ('world', f'maps(rows={"[" * 4_000})', 'bad spec'),
    ('world', f'maps(rows=a{".a" * 4_000})', 'bad spec'),
    ('world', f'maps(rows={"1+" * 4_000}1)', 'bad spec'),
    ('world', f'maps(rows={"9" * 5_000})', 'bad spec'),
    ('world', f'maps(rows={"9" * 4_000})', 'more than 64 bits'),
    ('world', 'maps(rows=[2**70])', 'must be literals'),
    ('world', f'maps(rows=({2**63},))', 'more than 64 bits'),
    ('world', 'maps(rows=10**9)', 'must be literals'),
    ('world', 'maps(rows=1e3)', 'not of the type of its default'),
    ('world', 'maps(rows=True)', 'not of the type of its default'),
    ('world', 'maps(rows=...)', 'of type ellipsis'),
    ('world', "maps(nodes=b'a')", 'of type bytes'),
    ('world', 'maps(rows={1})', 'of type set'),
    ('world', 'maps(rows=1+2j)', 'of type complex'),
    ('accept', 'epsilon(1e999)', 'inf is no finite number'),
    ('accept', 'epsilon(-1e999)', '-inf is no finite number'),
    ('accept', f'{"a" * 5_000}', 'no accept is named'),
    ('model', 'transformer(biases=3)', 'not of type bool | None'),
  ],
)
def test_bad_specs(kind, text, message):
  with pytest.raises(core.InputError, match=message) as error:
    registry.make(kind, text)
  output = str(error.value)
  assert '\n' not in output
  assert len(output) < 1000
  output.encode()  # Can be printed.


def test_a_fault_inside_a_plug_in_is_not_a_missing_plug_in(monkeypatch):
  def broken(name, *rest):
    if name == 'wm.metrics.compression':
      raise ModuleNotFoundError("No module named 'scipy'", name='scipy')
    return result(name, *rest)

  result = registry.importlib.import_module
  monkeypatch.setattr(registry.importlib, 'import_module', broken)
  with pytest.raises(ModuleNotFoundError, match='scipy'):
    registry.make('metric', 'compression')


def test_names():
  assert registry.names('accept') == [
    *('calibrated', 'epsilon', 'published', 'top_k', 'top_p')
  ]
  metrics = registry.names('metric')
  assert {'compression', 'distinction'} <= set(metrics)
  assert not {'stats', 'rollouts', 'scoring', 'search', 'trials'} & set(metrics)
  assert metrics == sorted(metrics)


@pytest.mark.process
def test_calls_names_and_a_wrong_name_import_nothing_heavy():
  code = """
import sys
import wm
from wm import core
from wm.core import registry
try:
  registry.make('metric', 'transformer')
except core.InputError as error:
  assert 'it is a model; available: acceptance,' in str(error), error
assert wm.sample and wm.score and wm.reconstruct
heavy = {'jax', 'flax', 'numba', 'pandas', 'scipy.stats', 'scipy.sparse'}
print(heavy & {*sys.modules})
"""
  words = [sys.executable, '-c', code]
  done = subprocess.run(words, capture_output=True, text=True, check=True)
  assert done.stdout == 'set()\n'


def test_a_new_file_is_a_new_plug_in(tmp_path, monkeypatch):
  (tmp_path / 'brand_new.py').write_text(
    'import dataclasses\n'
    'from wm import core\n'
    '@dataclasses.dataclass(frozen=True)\n'
    'class Metric(core.Metric):\n'
    '  version = "1"\n'
    '  share: float = 0.5\n'
    '  def __call__(self, predictor, world, seed):\n'
    '    return (core.scores("share", [self.share]),)\n'
  )
  import wm.metrics

  monkeypatch.setattr(
    wm.metrics, '__path__', [*wm.metrics.__path__, str(tmp_path)]
  )
  monkeypatch.delitem(sys.modules, 'wm.metrics.brand_new', raising=False)
  assert 'brand_new' in registry.names('metric')
  metric = registry.make('metric', 'brand_new(share=1)')
  assert metric(None, None, 0)[0].value == [1.0]
  assert registry.spec(metric) == 'brand_new(share=1)'
  sys.modules.pop('wm.metrics.brand_new')


@pytest.mark.parametrize('kind', ['accept', 'metric', 'model'])
def test_every_plug_in_with_defaults_prints_its_name_alone(kind):
  for name in registry.names(kind):
    needed = [
      field
      for field in dataclasses.fields(registry.find(kind, name))
      if field.default is field.default_factory is dataclasses.MISSING
    ]
    if not needed and name != 'user':
      assert registry.spec(registry.make(kind, name)) == f'{name}()'


@given(
  trials=st.integers(1, 10**6),
  k=st.integers(0, 50),
  accept_spec=st.sampled_from(['top_k(2)', 'top_p(0.9)', 'epsilon(1e-06)']),
  graded=st.booleans(),
)
def test_spec_and_make_are_inverse(trials, k, accept_spec, graded):
  metric = compression.Metric(
    trials=trials, k=k, accept=accept_spec, graded=graded
  )
  text = registry.spec(metric)
  assert registry.make('metric', text) == metric


LITERALS = st.recursive(
  st.none()
  | st.booleans()
  | st.integers()
  | st.floats()
  | st.text()
  | st.binary()
  | st.complex_numbers(),
  lambda inner: (
    st.lists(inner)
    | st.tuples(inner)
    | st.dictionaries(st.text() | st.integers(), inner)
  ),
  max_leaves=6,
)
PIECES = st.sampled_from(
  [
    *('maps', 'top_k', 'user', 'a.py:B', 'x.py', '(', ')', '=', ',', ':', '.'),
    *('rows', 'k', 'function', '[', ']', '{', '}', '-', '+', '*', '**', ' '),
    *('1', '1e999', '9' * 5_000, "'", '"', 'f"', "b'", '\\', '\x00', '\n'),
    *('lambda:', 'not ', ' if ', ' else ', 'None', 'True', '...', '\ud800'),
    *('-' * 9_000, '(' * 3_000, '[' * 90 + ']' * 90, '.a' * 4_000, 'é', '\t'),
  ]
)


@settings(deadline=None)  # The first of a kind imports its modules.
@given(
  st.sampled_from(sorted(registry.KINDS)),
  st.text(max_size=30)
  | st.text('top_k(=1,)', max_size=12)
  | st.lists(PIECES, max_size=12).map(''.join)
  | st.builds('top_k(k={!r})'.format, LITERALS)
  | st.builds('maps(nodes={!r}, rows={!r})'.format, LITERALS, LITERALS),
)
def test_any_text_gives_an_object_or_an_input_error(kind, text):
  # Anything but an InputError fails the test.
  with contextlib.suppress(core.InputError):
    registry.parse(text)
    registry.make(kind, text)


@pytest.mark.parametrize(
  ('text', 'name'),
  [
    ('a.py:B', 'a.py:B'),
    (' plugins/a b.py:B ()', 'plugins/a b.py:B'),
    ("../a.py:B(1, x='c.py:D(2)')", '../a.py:B'),
    ("user(function='a.py:b')", 'user'),
    ("user(function='a.py:b()')", 'user'),
  ],
)
def test_names_of_plug_ins_in_files(text, name):
  assert registry.parse(text)[0] == name
  assert registry.is_file(name) == (name != 'user')


def test_required_fields_are_named(monkeypatch):
  @dataclasses.dataclass(frozen=True)
  class World:
    path: str
    size: int = 3

  module = types.ModuleType('wm.worlds.invented')
  module.World = World
  monkeypatch.setitem(sys.modules, 'wm.worlds.invented', module)
  with pytest.raises(core.InputError, match='needs a value for path'):
    registry.make('world', 'invented(size=2)')
  assert registry.make('world', "invented('x')") == World('x')
