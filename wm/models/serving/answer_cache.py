"""Answers of language models on disk, so that nothing is asked twice.

A file for each model and its settings, FOLDER/<model>-<hash>.jsonl. Its first
line says which; each other line is one answer:

  {"prompt": hash, "repeat": 0, "text": "yes", "stop": "stop", ...}

A line is appended in one write under the file's lock, so several processes may
write, and what a killed one left of a line is skipped by readers.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from wm import core
from wm.runtime import compile_cache, files

try:
  import fcntl
except ImportError:  # Not a Unix.
  fcntl = None  # type: ignore[assignment]  # It is asked for before use.

# Fields of a reply and their types: lines without them are no answers.
_TYPES = {
  'text': str,
  'stop': str,
  'probability': float | None,
  'tokens_in': int,
  'tokens_out': int,
  'reasoning': int,
}


class Reply(NamedTuple):
  """What came back of one call.

  Attributes:
    text: what the model wrote; of a call that failed, what went wrong.
    stop: why it stopped, in Inspect's words: 'stop', 'max_tokens', ...
    probability: of yes, against no, by its first word; None unknown.
    tokens_in, tokens_out: what the provider counted; 0 unknown.
    reasoning: characters of reasoning that came apart from the text.
    failure: why nothing came, such as 'timeout'; such replies are not kept.
  """

  text: str
  stop: str = 'stop'
  probability: float | None = None
  tokens_in: int = 0
  tokens_out: int = 0
  reasoning: int = 0
  failure: str = ''


Key = tuple[str, int]  # Hash of the prompt, number of the repeat.


def folder() -> pathlib.Path:
  """Where answers are kept, unless told otherwise: the user's cache folder."""
  return compile_cache.folder().parent / 'answers'


def key(prompt: str, repeat: int) -> Key:
  """What an answer is found by, besides its model and settings."""
  data = prompt.encode('utf-8', 'surrogatepass')
  return hashlib.sha256(data).hexdigest()[:32], repeat


class AnswerCache:
  """The answers of one model by one set of settings."""

  def __init__(
    self, where: str | os.PathLike, about: Mapping[str, Any]
  ) -> None:
    """Reads what is known.

    Args:
      where: folder of all answers; '' is the user's own.
      about: model and settings that an answer depends on, as JSON values.

    Raises:
      InputError: `where` can be no folder.
    """
    self._about = json.dumps(about, sort_keys=True)
    mark = hashlib.sha256(self._about.encode()).hexdigest()[:16]
    name = re.sub(r'[^\w.-]+', '-', str(about.get('model', '')))[:60]
    self.path = pathlib.Path(where or folder()) / f'{name}-{mark}.jsonl'
    if where:
      files.check_folder('answers', str(where))
    with core.reading(self.path.parent, 'a folder'):
      self.path.parent.mkdir(parents=True, exist_ok=True)
    self._known: dict[Key, Reply] = {}
    self._read = 0
    self._refresh()

  def __len__(self) -> int:
    return len(self._known)

  def get(self, key: Key) -> Reply | None:
    """The reply that is known, or None."""
    return self._known.get(key)

  def refresh(self) -> None:
    """Reads what other processes have added."""
    self._refresh()

  def put(self, key: Key, reply: Reply) -> None:
    """Keeps a reply, for other processes too; one that failed is not kept."""
    if reply.failure or key in self._known:
      return
    self._known[key] = reply
    kept = {k: x for k, x in reply._asdict().items() if k in _TYPES}
    line = json.dumps({'prompt': key[0], 'repeat': key[1], **kept})
    with self._locked() as file:
      size = os.lseek(file, 0, os.SEEK_END)
      head = '' if size else self._about + '\n'
      # A killed process may have left a line without its end.
      if size and os.pread(file, 1, size - 1) != b'\n':
        head = '\n'
      _write(file, f'{head}{line}\n'.encode())

  @contextlib.contextmanager
  def _locked(self) -> Iterator[int]:
    file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
      if fcntl is not None:
        with contextlib.suppress(OSError):  # A file system without locks.
          fcntl.flock(file, fcntl.LOCK_EX)
      yield file
    finally:
      os.close(file)

  def _refresh(self) -> None:
    with contextlib.suppress(FileNotFoundError), open(self.path, 'rb') as file:
      file.seek(self._read)
      for line in file:
        if not line.endswith(b'\n'):
          break  # It is being written, or was never finished.
        self._read += len(line)
        if found := _parsed(line):
          self._known.setdefault(*found)


def _write(file: int, data: bytes) -> None:
  """Writes all of it; os.write may take a part."""
  while data:
    data = data[os.write(file, data) :]


def _parsed(line: bytes) -> tuple[Key, Reply] | None:
  """The answer of a line; None where it is none."""
  try:
    value = json.loads(line)
  except (ValueError, RecursionError):
    return None
  if not isinstance(value, dict):
    return None
  prompt, repeat = value.get('prompt'), value.get('repeat')
  fields: dict[str, Any] = {name: value.get(name) for name in _TYPES}
  fits = all(isinstance(fields[k], kind) for k, kind in _TYPES.items())
  if not (fits and isinstance(prompt, str) and isinstance(repeat, int)):
    return None
  return (prompt, repeat), Reply(**fields)
