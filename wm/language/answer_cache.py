"""Keeps the answers of a language model on disk: nothing is asked twice.

A reply comes in with the hash of its prompt (`key`); the same reply comes out,
in later runs too. The answers of a model and its settings have a file,
FOLDER/<model>-<hash>.jsonl. Its first line says which; each other line is one
answer:

  {"prompt": hash, "repeat": 0, "text": "yes", "stop": "stop", ...}

of a question, or of several ([hash, hash, ...]) that were asked in one prompt.
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
from collections.abc import Iterable, Mapping, Sequence
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
    items, item: questions that this answers, and the place of one of them from
      0; items is 0 where it answers a single one.
  """

  text: str
  stop: str = 'stop'
  probability: float | None = None
  tokens_in: int = 0
  tokens_out: int = 0
  reasoning: int = 0
  thinking: int = 0
  failure: str = ''
  items: int = 0
  item: int = 0


# Fields of a reply and their types: lines without them are no answers. Failures
# are not written, and lines that answer several questions list their prompts.
_TYPES = typing.get_type_hints(CallReply)
for _unwritten in ('failure', 'items', 'item'):
  del _TYPES[_unwritten]


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
        for entry in _parsed(line):
          self._known.setdefault(*entry)

  def put(self, key: str, reply: CallReply, *more: str) -> None:
    """Stores a reply, for other processes too; failed ones are not stored.

    more: other questions that it answers too.
    """
    if reply.failure or key in self._known:
      return
    self._known |= _items([key, *more], reply)
    fields = {k: x for k, x in reply._asdict().items() if k in _TYPES}
    about = {'prompt': [key, *more] if more else key, 'repeat': 0}
    line = json.dumps({**about, **fields})
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


def _items(keys: Sequence[str], reply: CallReply) -> dict[str, CallReply]:
  """The reply by question; of several each has its place in it."""
  if len(keys) == 1:
    return {keys[0]: reply}
  return {
    key: reply._replace(items=len(keys), item=item)
    for item, key in enumerate(keys)
  }


def _parsed(line: bytes) -> Iterable[tuple[str, CallReply]]:
  """The answers of a line; () where it is none."""
  try:
    value = json.loads(line)
  except (ValueError, RecursionError):
    return ()
  if not isinstance(value, dict):
    return ()
  # A text, or a list of several that were asked in one prompt.
  prompts: Any = value.get('prompt')
  value = {'thinking': 0, **value}  # Which older lines do not have.
  fields: dict[str, Any] = {name: value.get(name) for name in _TYPES}
  # A line of another version, or an edited one, is asked again.
  fits = all(isinstance(fields[k], kind) for k, kind in _TYPES.items())
  prompts = prompts if isinstance(prompts, list) else [prompts]
  keys = [mark for mark in prompts if isinstance(mark, str)]
  # Earlier versions asked a question again, in lines of other numbers.
  fits &= value.get('repeat') == 0 and len(keys) == len(prompts) > 0
  return _items(keys, CallReply(**fields)).items() if fits else ()
