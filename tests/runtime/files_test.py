"""File systems that lack something, and processes that may open few files."""

import errno
import os

import pytest

from wm.data import store
from wm.runtime import exit_codes, files
from wm.training import checkpoints


def fails(number: int):
  def fail(*_: object) -> None:
    raise OSError(number, os.strerror(number))

  return fail


@pytest.mark.parametrize('number', [errno.EINVAL, errno.ENOSYS])
def test_without_fsync_the_work_goes_on_and_says_so_once(
  tmp_path, monkeypatch, capsys, number
):
  monkeypatch.setattr(os, 'fsync', fails(number))
  files.write_json(tmp_path / 'a.json', 1)
  files.write_json(tmp_path / 'b.json', 2)
  shard = store.HashedFile(tmp_path / 'c.tokens')
  shard.close()
  assert files.read_json(tmp_path / 'b.json') == 2
  assert capsys.readouterr().err == (
    f'{tmp_path}: this file system has no fsync ({os.strerror(number)}); files '
    'that a power cut comes soon after may be lost\n'
  )


@pytest.mark.parametrize('number', [errno.EXDEV, errno.ENOSYS, errno.EINVAL])
def test_without_rename_it_is_bad_input_that_names_the_file(
  tmp_path, monkeypatch, capsys, number
):
  monkeypatch.setattr(os, 'replace', fails(number))
  with (
    pytest.raises(SystemExit) as ended,
    exit_codes.exit_on_error(str(tmp_path)),
  ):
    files.write_json(tmp_path / 'a.json', 1)
  assert ended.value.code == 2
  line = f'error: {tmp_path}/a.json: this file system cannot rename '
  assert capsys.readouterr().err.startswith(line)
  assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize('call', ['fsync', 'flock'])
def test_a_broken_disk_is_a_line_that_names_the_place(
  tmp_path, monkeypatch, capsys, call
):
  monkeypatch.setattr(os if call == 'fsync' else files.fcntl, call, fails(5))
  with (
    pytest.raises(SystemExit) as ended,
    exit_codes.exit_on_error(),
    files.stage_lock(tmp_path, 'train'),
  ):
    files.write_json(tmp_path / 'a.json', 1)
  assert ended.value.code == 1
  assert f': {tmp_path}' in (output := capsys.readouterr().err)
  assert output.startswith('error: Input/output error: ')
  assert len(output.splitlines()) == 1


@pytest.mark.parametrize('number', [errno.EMFILE, errno.ENFILE])
def test_few_open_files_are_not_a_full_disk(capsys, number):
  with pytest.raises(SystemExit) as ended, exit_codes.exit_on_error('runs/a'):
    fails(number)()
  assert ended.value.code == 1
  assert capsys.readouterr().err == (
    f'error: {os.strerror(number)} (`ulimit -n` says how many may be): runs/a\n'
  )


def test_checkpoints_say_how_many_files_they_need(tmp_path, monkeypatch):
  kept = checkpoints.Checkpoints(tmp_path, read_only=False)
  output = 'RESOURCE_EXHAUSTED: ... [OS error 24: Too many open files]'

  def fail() -> None:
    raise ValueError(output)

  with monkeypatch.context() as patch:
    patch.setattr(kept._manager, 'restore', lambda *_, **__: fail())
    for act in (lambda: kept._write(fail), lambda: kept._restore(1, None)):
      with pytest.raises(OSError, match='Too many open files') as raised:
        act()
      assert raised.value.errno == errno.EMFILE
  kept.close()
  monkeypatch.setattr(checkpoints, '_limit', lambda name: 40)
  with pytest.raises(OSError, match='need 128, this process may have 40'):
    checkpoints.Checkpoints(tmp_path, read_only=True)
