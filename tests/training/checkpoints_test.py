"""Checkpoints: what is kept, and that no damage goes unnoticed."""

import errno
import gc
import json
import logging
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wm import core
from wm.training import checkpoints, state

SHAPES = {'a.kernel': (3, 40), 'b.bias': (5,), 'c.count': ()}


def a_state(seed: int) -> state.State:
  rng = np.random.default_rng(seed)
  params = {
    path: jnp.asarray(rng.standard_normal(shape), jnp.float32)
    for path, shape in SHAPES.items()
  }
  opt = ({'mu': jax.tree.map(jnp.square, params)}, jnp.int32(seed))
  return state.State(params, opt)


def abstract(of: state.State) -> state.State:
  sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
  return jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), of
  )


def book(step: int, best: int | None) -> dict:
  return {'step': step, 'best': None if best is None else {'step': best}}


@pytest.fixture
def kept(tmp_path):
  result = checkpoints.Checkpoints(tmp_path, read_only=False)
  yield result
  result.close()


def test_progress_is_that_of_the_moment_of_saving(kept):
  for step in range(1, 9):
    going_on = book(step, 1)
    kept.save(step, a_state(step), going_on)
    going_on['step'] += 1
    going_on['best']['step'] = 99
    kept.wait()
    assert kept.progress(step) == book(step, 1)


def test_best_and_last_are_kept_and_come_back(kept):
  for step, best in ((1, 1), (2, 2), (3, 2), (4, 2), (5, 2)):
    kept.save(step, a_state(step), book(step, best))
  kept.wait()
  assert kept.steps() == [2, 5]
  assert kept.last() == 5
  for step in (2, 5):
    result = kept.state(step, abstract(a_state(step)))
    for first, other in zip(
      jax.tree.leaves(result), jax.tree.leaves(a_state(step)), strict=True
    ):
      np.testing.assert_array_equal(first, other)
    assert kept.progress(step)['best'] == {'step': 2}


@pytest.mark.parametrize('killed', [False, True])
def test_after_training_the_last_alone_keeps_the_optimizer(
  kept, killed, monkeypatch, caplog
):
  for step in (2, 5):
    kept.save(step, a_state(step), book(step, 2))
  kept.wait()
  digest = kept.digest(2)
  with monkeypatch.context() as patch:
    if killed:
      patch.setattr(checkpoints.shutil, 'rmtree', lambda path: None)
    kept.finish()
  again = checkpoints.Checkpoints(kept.folder.parent, read_only=True)
  shapes = abstract(a_state(2))
  for step in (2, 5):
    params = again.params(step, shapes.params)
    for path, array in a_state(step).params.items():
      np.testing.assert_array_equal(params[path], array)
  again.state(5, shapes)
  assert again.digest(2) == digest
  assert len(list(kept.folder.glob('*tmp*'))) == killed
  with pytest.raises(core.InputError, match='2 has no state of the optimizer'):
    again.state(2, shapes)
  assert not caplog.records
  again.close()
  # The next that trains removes what a killed one left.
  kept.remove_old(5, book(5, 2))
  assert not list(kept.folder.glob('*tmp*'))
  # What is lost or added is damage as before.
  (kept.folder / '2' / 'params' / 'more').write_text('x')
  fresh = checkpoints.Checkpoints(kept.folder.parent, read_only=True)
  with pytest.raises(core.InputError, match=r'hash of params/more is wrong'):
    fresh.params(2, shapes.params)
  fresh.close()


def test_a_state_given_up_while_it_is_saved_is_saved_as_it_was(kept):
  step = jax.jit(lambda s: jax.tree.map(lambda x: x + 1, s), donate_argnums=0)
  now = a_state(0)
  kept.save(1, now, book(1, None))
  for _ in range(20):
    now = step(now)
  kept.wait()
  result = kept.params(1, abstract(a_state(0)).params)
  np.testing.assert_array_equal(
    result['a.kernel'], a_state(0).params['a.kernel']
  )


def files_of(kept, step):
  folder = kept.folder / str(step)
  return sorted(
    path for path in folder.rglob('*') if path.is_file() and path.stat().st_size
  )


def damage(path, how):
  data = bytearray(path.read_bytes())
  if how == 'cut':
    data = data[: len(data) // 2]
  elif how == 'flip':
    data[len(data) // 2] ^= 0x10
  path.write_bytes(bytes(data))
  if how == 'gone':
    path.unlink()


def refused(out) -> str:
  """What is said of checkpoint 7, '' if it comes back as it was."""
  kept = checkpoints.Checkpoints(out, read_only=True)
  try:
    result = kept.state(7, abstract(a_state(7)))
  except core.InputError as error:
    return str(error)
  finally:
    kept.close()
  for first, other in zip(
    jax.tree.leaves(result), jax.tree.leaves(a_state(7)), strict=True
  ):
    np.testing.assert_array_equal(first, other)
  return ''


@pytest.fixture(scope='module')
def saved(tmp_path_factory):
  out = tmp_path_factory.mktemp('damage')
  kept = checkpoints.Checkpoints(out, read_only=False)
  kept.save(7, a_state(7), book(7, 7))
  kept.close()
  assert refused(out) == ''
  return out, kept


def test_reading_warns_of_nothing_and_leaves_all_as_it_is(saved, caplog):
  out, kept = saved
  unfinished = kept.folder / '8.orbax-checkpoint-tmp'
  unfinished.mkdir()
  try:
    assert refused(out) == ''
    assert unfinished.is_dir()
  finally:
    unfinished.rmdir()
  absent = out / 'absent'
  checkpoints.Checkpoints(absent, read_only=True).close()
  assert not absent.exists()
  assert not caplog.records


@pytest.mark.parametrize('how', ['cut', 'flip', 'gone'])
def test_damage_to_any_file_is_an_input_error(saved, how):
  out, kept = saved
  for path in files_of(kept, 7):
    if path.parent.name == '7' and path.name in checkpoints._DATED:
      continue
    whole = path.read_bytes()
    damage(path, how)
    message = refused(out)
    path.write_bytes(whole)
    assert str(kept.folder / '7') in message, path
    assert '\n' not in message
  assert refused(out) == ''


@pytest.mark.parametrize('how', ['cut', 'flip', 'gone'])
def test_damage_to_dates_does_no_harm(saved, how):
  out, kept = saved
  for name in checkpoints._DATED:
    path = kept.folder / '7' / name
    whole = path.read_bytes()
    damage(path, how)
    message = refused(out)
    path.write_bytes(whole)
    assert message == '' or str(kept.folder / '7') in message


def test_a_model_that_does_not_fit_is_named(kept):
  kept.save(1, a_state(1), book(1, None))
  kept.wait()
  wrong = abstract(a_state(1)).params
  wrong['a.kernel'] = jax.ShapeDtypeStruct(
    (3, 41), np.float32, sharding=wrong['a.kernel'].sharding
  )
  with pytest.raises(core.InputError, match=r'a\.kernel is \(3, 40\) there'):
    kept.params(1, wrong)
  del wrong['a.kernel']
  with pytest.raises(core.InputError, match='the model has nothing'):
    kept.params(1, wrong)


def test_a_full_disk_is_told_before_anything_is_written(kept, monkeypatch):
  class Usage:
    free = 100

  monkeypatch.setattr(checkpoints.shutil, 'disk_usage', lambda path: Usage)
  with pytest.raises(OSError, match='No space left on device') as caught:
    kept.save(1, a_state(1), book(1, None))
  assert caught.value.errno == errno.ENOSPC
  assert not list(kept.folder.iterdir())


def test_a_disk_that_fills_up_while_writing_leaves_nothing(kept, monkeypatch):
  def full(*args, **kwargs):
    (kept.folder / '1.orbax-checkpoint-tmp').mkdir()
    raise ValueError('RESOURCE_EXHAUSTED: Error writing "a" in OCDBT')

  monkeypatch.setattr(kept._manager, 'save', full)
  with pytest.raises(OSError, match='No space left on device'):
    kept.save(1, a_state(1), book(1, None))
  assert not list(kept.folder.iterdir())


@pytest.mark.parametrize('number', [errno.EIO, errno.EXDEV])
def test_a_refused_rename_is_one_line_and_leaves_nothing(
  kept, monkeypatch, caplog, number
):
  rename = os.rename

  def refuse(source, target):
    if 'progress' in os.path.basename(source):
      raise OSError(number, os.strerror(number), source)
    rename(source, target)

  with monkeypatch.context() as patch:
    patch.setattr(os, 'rename', refuse)
    kept.save(1, a_state(1), book(1, None))
    with pytest.raises(OSError, match='the same command goes on') as caught:
      kept.wait()
  assert caught.value.errno == number
  assert caught.value.filename == str(kept.folder)
  assert not [x for x in caplog.records if x.levelno >= logging.WARNING]
  assert not list(kept.folder.iterdir())
  kept.save(1, a_state(1), book(1, None))
  kept.wait()
  assert kept.steps() == [1]


def test_an_error_of_tensorstore_names_what_the_system_said(kept, monkeypatch):
  def broken(*args, **kwargs):
    raise ValueError("INTERNAL: Error writing [os_error_code='5']")

  monkeypatch.setattr(kept._manager, 'save', broken)
  with pytest.raises(OSError, match=os.strerror(errno.EIO)):
    kept.save(1, a_state(1), book(1, None))


def spoil(folder, name, change):
  """Changes a file of checkpoint 1, and its hash as well."""
  place = folder / 'checkpoints' / '1'
  path = place / name
  path.write_text(change(path.read_text()))
  hashes = checkpoints._hashes(place)
  (place / checkpoints.HASHES).write_text(json.dumps(hashes))


@pytest.mark.parametrize(
  ('name', 'change', 'says'),
  [
    ('progress/metadata', lambda t: '{"a": 1}', 'progress lacks best'),
    ('progress/metadata', lambda t: '[1]', 'progress: expected an object'),
    ('progress/metadata', lambda t: '{"best": "x"}', 'best: expected an obj'),
    (
      'progress/metadata',
      lambda t: '{"best": {"step": "x"}}',
      r'best\.step: expected a whole number',
    ),
    ('progress/metadata', lambda t: '{junk', 'is not whole'),
    (
      'params/_METADATA',
      lambda t: t.replace(
        '"skip_deserialize": false', '"skip_deserialize": true'
      ),
      'is not whole',
    ),
    ('params/array_metadatas/process_0', lambda t: '[]', 'is not whole'),
    ('_CHECKPOINT_METADATA', lambda t: '[]', 'no|not a folder of checkpoints'),
  ],
)
def test_damage_with_right_hashes_is_one_line(
  tmp_path, capfd, name, change, says
):
  with_one = checkpoints.Checkpoints(tmp_path, read_only=False)
  with_one.save(1, a_state(1), book(1, 1))
  with_one.close()
  spoil(tmp_path, name, change)

  def read():
    opened = checkpoints.Checkpoints(tmp_path, read_only=True)
    opened.chosen('best')
    opened.state(1, abstract(a_state(1)))

  with pytest.raises(core.InputError, match=says):
    read()
  gc.collect()
  assert capfd.readouterr().err == ''


@pytest.mark.parametrize('threads', [0, -1, 10**6, 2**70, 'x', 1.5])
def test_threads_of_a_run_are_within_bounds(tmp_path, threads):
  about = {'max_len': 9, 'model': 'm()', 'vocab_sha256': '0', 'world': 'w()'}
  path = tmp_path / 'train.run.json'
  path.write_text(json.dumps({**about, 'threads': threads}))
  with pytest.raises(core.InputError, match='threads: expected a whole number'):
    checkpoints.world_of(tmp_path)
