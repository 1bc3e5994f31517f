"""What cannot fit is refused in one line, and nothing is left of it."""

import functools

import pytest

from wm import core
from wm.core import registry, resources
from wm.data import sampling
from wm.options.calls import Sampling
from wm.runtime import exit_codes

HUGE = 10**23


def refused(call, *message):
  """The one line that a call is refused by."""
  with pytest.raises(core.InputError) as error:
    call()
  text = str(error.value)
  assert '\n' not in text
  assert all(word in text for word in (*message, 'needed', 'available')), text


def test_what_is_needed_and_available_is_said(monkeypatch, tmp_path):
  monkeypatch.setattr(resources, 'memory', lambda: 2_500_000_000)
  resources.require_memory(2_500_000_000, 'this')
  with pytest.raises(core.InputError) as error:
    resources.require_memory(3_000_000_000, 'this')
  assert str(error.value) == (
    'this: 3.0 GB of memory are needed, 2.5 GB are available'
  )
  resources.require_disk(tmp_path / 'not' / 'yet', 1, 'this')
  refused(
    lambda: resources.require_disk(tmp_path / 'a', HUGE, 'this'), 'disk at'
  )


def test_a_control_group_limits_memory(monkeypatch, tmp_path):
  whole = resources.memory()
  limit = tmp_path / 'memory.max'
  monkeypatch.setattr(
    resources, '_LIMITS', (str(limit), str(tmp_path / 'none'))
  )
  limit.write_text('max\n')
  assert resources.memory() >= whole
  limit.write_text('1000\n')
  assert resources.memory() == 1000


def test_sequences_that_no_disk_holds(tmp_path):
  world = registry.make('world', 'maps(rows=4, columns=4)')
  sizes = {'num': HUGE, 'num_heldout': 10, 'seed': 0}
  options = Sampling(**sizes)
  out = tmp_path / 'out'
  call = functools.partial(sampling.make_dataset, world, out, options)
  refused(call, 'sequences', 'disk')
  assert not list(tmp_path.iterdir())


def test_a_device_without_memory_is_one_line(capsys):
  with pytest.raises(SystemExit) as ended, exit_codes.exit_on_error():
    raise RuntimeError('INTERNAL: Out of memory allocating 5 bytes.\nmore')
  assert ended.value.code == 1
  output = capsys.readouterr().err
  assert output == 'error: INTERNAL: Out of memory allocating 5 bytes.\n'
  with pytest.raises(RuntimeError, match='other'), exit_codes.exit_on_error():
    raise RuntimeError('something other')
