"""Keeps the answers of a language model on disk: nothing is asked twice.

A reply comes in with the hash of its prompt (`key`); the same reply comes out,
in later runs too. The answers of a model and its settings have a file,
FOLDER/<model>-<hash>.jsonl. Its first line says which; each other line is one
answer:

  {"prompt": hash, "repeat": 0, "text": "yes", "stop": "stop", ...}

of a question.
A line is appended in one write under the file's lock, so several processes may
write, and what a killed one left of a line is skipped by readers.

Answers are not read from Inspect's logs. An evaluation of 1,500 questions took
6.5 times the processor time of their calls, and its log 12 times the space of
such a file (inspect_ai 0.3.285). A log is safe from a kill only if it is
written whole after each answer, or with a buffer in another folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import re
import typing
from collections.abc import Mapping
from typing import Any, NamedTuple

from wm.core import inputs
from wm.runtime import compute, files

try:
  import fcntl
except ImportError:  # Not a Unix.
  fcntl = None  # type: ignore[assignment]  # It is asked for before use.


class CallReply(NamedTuple):
  """The reply to one call.

  Attributes:
    text: the model's text; the error of a call that failed.
    stop: why it stopped, in Inspect's words: 'stop', 'max_tokens', ...
    probability: of yes, against no, by its first word; None unknown.
    tokens_in, tokens_out: as the provider counts them, read from its cache or
      not; 0 unknown.
    reasoning: characters of reasoning that came apart from the text.
    thinking: tokens of reasoning, which are among tokens_out.
    failure: why nothing came, such as 'timeout'; such replies are not kept.
  """

  text: str
  stop: str = 'stop'
  probability: float | None = None
  tokens_in: int = 0
  tokens_out: int = 0
  reasoning: int = 0
  thinking: int = 0
  failure: str = ''


# Fields of a reply and their types: lines without them are no answers. Failures
# are not written.
_TYPES = typing.get_type_hints(CallReply)
del _TYPES['failure']


def folder() -> pathlib.Path:
  """The default folder of answers, in the user's cache folder."""
  return compute.cache_folder().parent / 'answers'


def key(prompt: str) -> str:
  """The key of an answer among those of a model and its settings."""
  # Prompts may hold lone surrogates, which UTF-8 has no bytes for.
  data = prompt.encode('utf-8', 'surrogatepass')
  return hashlib.sha256(data).hexdigest()[:32]


class AnswerCache:
  """The answers of one model by one set of settings."""

  def __init__(
    self, where: str | os.PathLike, about: Mapping[str, Any]
  ) -> None:
    """Opens the file of a model and its settings.

    Args:
      where: folder of all answers; '' is the user's own.
      about: model and settings that an answer depends on, as JSON values.

    Raises:
      InputError: `where` can be no folder.
    """
    self._about = json.dumps(about, sort_keys=True)
    # Other settings, another file: their answers are never mixed.
    mark = hashlib.sha256(self._about.encode()).hexdigest()[:16]
    name = re.sub(r'[^\w.-]+', '-', str(about.get('model', '')))[:60]
    self.path = pathlib.Path(where or folder()) / f'{name}-{mark}.jsonl'
    if where:
      files.check_folder('answers', str(where))
    # A line a reply, after one line of settings:
    #   {"model": ..., "temperature": ...}
    #   {"prompt": hash, "repeat": 0, "text": ..., "stop": ...}
    self._known: dict[str, CallReply] = {}
    self._read = 0
    self.refresh()

  def make_folder(self) -> None:
    """Makes the folder; InputError where none can be."""
    with inputs.reading(self.path.parent, 'a folder'):
      self.path.parent.mkdir(parents=True, exist_ok=True)

  def get(self, key: str) -> CallReply | None:
    """The stored reply, or None."""
    return self._known.get(key)

  def refresh(self) -> None:
    """Reads answers that other processes have added."""
    with contextlib.suppress(FileNotFoundError), open(self.path, 'rb') as file:
      # From where the last reading ended: files grow, and are never rewritten.
      file.seek(self._read)
      for line in file:
        if not line.endswith(b'\n'):
          break  # It is being written, or was never finished.
        self._read += len(line)
        if entry := _parsed(line):
          self._known.setdefault(*entry)

  def put(self, key: str, reply: CallReply) -> None:
    """Stores a reply, for other processes too; failed ones are not stored."""
    if reply.failure or key in self._known:
      return
    self._known[key] = reply
    fields = {k: x for k, x in reply._asdict().items() if k in _TYPES}
    line = json.dumps({'prompt': key, 'repeat': 0, **fields})
    self.make_folder()
    # Closing writes what is buffered, and gives up the lock after that.
    with open(self.path, 'ab+') as file:
      if fcntl is not None:
        with contextlib.suppress(OSError):  # A file system without locks.
          fcntl.flock(file, fcntl.LOCK_EX)
      size = file.seek(0, os.SEEK_END)
      file.seek(max(size - 1, 0))
      # A killed process may have left a line without its end.
      head = '' if file.read(1) == b'\n' else '\n'
      file.write(f'{head if size else self._about + head}{line}\n'.encode())


def _parsed(line: bytes) -> tuple[str, CallReply] | None:
  """The question and the reply of a line; None where it is no answer."""
  try:
    value = json.loads(line)
  except (ValueError, RecursionError):
    return None
  if not isinstance(value, dict):
    return None
  prompt: Any = value.get('prompt')
  value = {'thinking': 0, **value}  # Which older lines do not have.
  fields: dict[str, Any] = {name: value.get(name) for name in _TYPES}
  # A line of another version, or an edited one, is asked again.
  fits = all(isinstance(fields[k], kind) for k, kind in _TYPES.items())
  # Earlier versions asked a question again, in lines of other numbers, or
  # several questions in one prompt, in lines of a list of prompts.
  fits &= value.get('repeat') == 0 and isinstance(prompt, str)
  return (prompt, CallReply(**fields)) if fits else None
