"""Whatever takes more than the machine has is refused before it begins.

In a process of its own, which has limits on memory and on the processor's time.
"""

import dataclasses
import math

import numpy as np
import pytest

import wm
from tests import bounded, forked
from wm import core
from wm.core import registry, resources
from wm.kernels import dfa, othello
from wm.models.nn import network
from wm.options.training import Training
from wm.training import setup

LONGEST = 3600  # A process of the slow suite; its own limits are tighter.


def lines(kind: str, how: str) -> list[str]:
  env = {'JAX_PLATFORMS': 'cpu', 'OPENBLAS_NUM_THREADS': '1'}
  process = forked.Process('tests.bounded', kind, how, env=env)
  out, err = process.communicate(LONGEST)
  messages = out.splitlines()
  assert process.returncode == 0, (messages[-1:], err)
  assert messages[-1] == 'ended'
  return messages[:-1]


def failed(told: list[str]) -> list[str]:
  return [line for line in told if 'FAILED' in line]


@pytest.mark.process
@pytest.mark.parametrize('kind', registry.KINDS)
def test_an_integer_of_a_plug_in_is_refused_or_does_no_harm(kind):
  messages = lines(kind, 'make')
  assert not failed(messages)
  assert len(messages) == sum(1 for _ in bounded.cases(kind))
  # What the process may have is what there is.
  there = f' {bounded.MEMORY / 1e9:,.1f} GB are available'
  assert all(there in line for line in messages if 'are available' in line)


@pytest.mark.slow
@pytest.mark.parametrize('kind', registry.KINDS)
def test_what_is_not_refused_when_made_is_when_used(kind):
  assert not failed(lines(kind, 'use'))


TOLD = [
  (
    'world',
    'lattice(length=1000000000)',
    '256.0 GB of memory are needed, 20.0',
  ),
  ('world', 'orbits(bins=1000000000)', 'lower bins'),
  ('world', "othello(pool=1000000000, states='recurring')", 'lower pool'),
  ('model', 'transformer(layers=1000000000)', 'lower layers'),
  ('metric', 'probe(epochs=1000000000)', '12 days are needed at least, more'),
]


@pytest.mark.parametrize(('kind', 'spec', 'message'), TOLD)
def test_what_is_refused_is_one_line(
  monkeypatch, kind, spec, message, one_line
):
  monkeypatch.setattr(resources, 'memory', lambda: 20_000_000_000)
  with one_line() as error:
    registry.make(kind, spec)
  assert message in str(error.value), error.value


def test_what_the_world_says_counts_where_it_is_known(monkeypatch):
  monkeypatch.setattr(resources, 'memory', lambda: 20_000_000_000)
  world = registry.make('world', 'lattice()')
  model = registry.resolve('model', "user('none.py:none', rows=1000000000)")
  with pytest.raises(core.InputError, match='lower rows'):
    model.predictor(world, 0)
  for spec, output in (
    ('next_token(num=100000000)', 'lower num'),
    ('inductive_bias(examples=1000000000)', 'lower examples'),
  ):
    metric = registry.make('metric', spec)
    with pytest.raises(core.InputError, match=output):
      resources.require(metric, world)


@pytest.mark.parametrize('kind', ['world', 'model', 'metric'])
def test_a_number_that_is_none_is_refused(kind):
  tried = 0
  for name in registry.names(kind):
    cls = registry.find(kind, name)
    inputs = bounded.SMALL[kind] if name == 'language' else {}
    inputs = {key: inputs[key] for key in ('model',) if key in inputs}
    for field in dataclasses.fields(cls):
      value = field.default
      many = isinstance(value, tuple) and value and isinstance(value[0], float)
      if not (isinstance(value, float) or many):
        continue
      for number in (math.nan, math.inf, -math.inf):
        tried += 1
        with pytest.raises(core.InputError):
          cls(**inputs, **{field.name: (number,) if many else number})
  assert tried


def test_a_network_takes_no_less_than_it_states():
  for name in registry.names('model'):
    cls = registry.find('model', name)
    if not issubclass(cls, core.Trainable):
      continue
    made = bounded.small('model', cls)
    weights = 4 * network.NetworkSpec(made, 7, 10).num_params
    objects = made.layers * 20_000
    assert made.cost().memory <= weights + objects, name


class Store:
  """A store as far as a batch depends on it."""

  folder, manifest = 'runs/one/data/train', {'tokens': 10_000}

  def __len__(self) -> int:
    return 1000


@pytest.mark.parametrize(
  ('batch', 'message'),
  [
    (1001, r'batch=1001: runs/one/data/train holds 1,000 sequences; expected'),
    (10**9, r'batch=1000000000: runs/one/data/train holds 1,000 sequences'),
  ],
)
def test_a_batch_larger_than_the_data_is_refused(batch, message):
  world = registry.make('world', 'lattice()')
  setup.check_batch(Training(batch=1000), world, Store())
  with pytest.raises(core.InputError, match=message):
    setup.check_batch(Training(batch=batch), world, Store())


def test_a_batch_larger_than_memory_is_refused(monkeypatch):
  monkeypatch.setattr(resources, 'memory', lambda: 100_000)
  world = registry.make('world', 'lattice()')
  setup.check_batch(Training(batch=100), world, Store())
  with pytest.raises(core.InputError, match=r'batch=1000 .* memory are needed'):
    setup.check_batch(Training(batch=1000), world, Store())


def test_numbers_to_a_great_depth_are_refused(monkeypatch):
  monkeypatch.setattr(resources, 'memory', lambda: 20_000_000_000)
  with pytest.raises(core.InputError, match='numbers to depth=1000000000'):
    next(wm.count('lattice()', depth=10**9))
  with pytest.raises(core.InputError, match='numbers to depth=1000000000'):
    wm.boundary('lattice()', '0', '1', depth=10**9)


@pytest.mark.parametrize('spec', ['lattice()', 'othello(size=6)'])
def test_a_boundary_that_grows_beyond_memory_is_refused(monkeypatch, spec):
  for kernel in (dfa, othello):
    monkeypatch.setattr(kernel, 'NODES', 200)  # Between looks at memory.
  world = registry.make('world', spec)
  first = world.init(1)
  second = first
  for _ in range(2):
    token = world.legal(second)[0].nonzero()[0][-1:]
    second = world.advance(second, token)
  world.boundary(first, second, 2)
  monkeypatch.setattr(resources, 'memory', lambda: 20_000)
  with pytest.raises(core.InputError, match=r'suffixes of .* are available'):
    world.boundary(first, second, 8)


def test_suffixes_of_any_world_that_grow_beyond_memory_are_refused(monkeypatch):
  monkeypatch.setattr(resources, 'memory', lambda: 20_000)
  world = registry.make('world', 'connect4()')
  second = world.advance(world.init(1), np.array([1]))
  with pytest.raises(core.InputError, match=r'suffixes of \d tokens'):
    core.boundary.products(world, world.init(1), second, 12)
