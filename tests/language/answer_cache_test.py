"""Answers are kept, whoever writes and however a process ends."""

import json
import threading

import pytest

from wm import core
from wm.language import answer_cache
from wm.language.answer_cache import AnswerCache, CallReply, key

ABOUT = {'model': 'house/of "cards"', 'temperature': 0.0}
REPLY = CallReply('yes \udcff', 'stop', 0.75, 12, 1)


def test_what_is_put_is_found_by_another(tmp_path):
  first, other = (AnswerCache(tmp_path, ABOUT) for _ in range(2))
  first.put(key('a\udc80'), REPLY)
  assert other.get(key('a\udc80')) is None
  other.refresh()
  assert other.get(key('a\udc80')) == REPLY
  assert len(AnswerCache(tmp_path, ABOUT)._known) == 1
  assert json.loads(first.path.read_text().splitlines()[0]) == ABOUT


def test_other_settings_have_other_answers(tmp_path):
  item = AnswerCache(tmp_path, ABOUT)
  item.put(key('a'), REPLY)
  warm = AnswerCache(tmp_path, ABOUT | {'temperature': 0.5})
  assert warm.path != item.path
  assert warm.get(key('a')) is None


def test_what_failed_is_not_kept(tmp_path):
  item = AnswerCache(tmp_path, ABOUT)
  item.put(key('a'), CallReply('', failure='timeout'))
  assert item.get(key('a')) is None
  assert not item.path.exists()


@pytest.mark.parametrize(
  'rest',
  [
    b'{"prompt": "ab", "rep',
    b'\xff\xfe\n',
    b'[1]\n',
    b'[' * 100_000 + b'\n',
    b'{"prompt": "ab", "repeat": 0, "text": 3}\n',
  ],
)
def test_what_a_killed_process_left_is_skipped(tmp_path, rest):
  first = AnswerCache(tmp_path, ABOUT)
  first.put(key('a'), REPLY)
  with open(first.path, 'ab') as file:
    file.write(rest)
  other = AnswerCache(tmp_path, ABOUT)
  other.put(key('b'), REPLY)
  assert len(AnswerCache(tmp_path, ABOUT)._known) == 2


def _write(folder, name):
  cache = AnswerCache(folder, ABOUT)
  for number in range(200):
    cache.put(key(f'{name} {number}'), REPLY._replace(text='x' * number))


def test_two_write_at_once(tmp_path):
  # Locks are of open files, so threads with one each meet as processes do.
  both = [threading.Thread(target=_write, args=(tmp_path, x)) for x in 'ab']
  for writer in both:
    writer.start()
  for writer in both:
    writer.join()
  result = AnswerCache(tmp_path, ABOUT)
  assert len(result._known) == 400
  assert result.get(key('b 7')).text == 'x' * 7


def test_the_folder_must_be_one(tmp_path):
  (tmp_path / 'file').touch()
  with pytest.raises(core.InputError, match='expected a folder'):
    AnswerCache(tmp_path / 'file', ABOUT)


def test_the_users_own_folder_is_the_default(monkeypatch, tmp_path):
  monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
  assert answer_cache.AnswerCache('', ABOUT).path.parents[2] == tmp_path
