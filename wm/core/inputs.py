"""Whatever fails while something of the user's is read becomes one line.

Files, folders, weights, modules, replies, logs and results are read inside
`reading`, or `reading_file` for one file, so that no call needs a catch.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import json
import os
import pathlib
import re
import stat
import types
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NoReturn

from wm.core.basics import InputError, one_line

# Of the machine, not of what is read: disk full, no file descriptor left.
_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)
# Ends of a process, a generator or a task; none is an Exception.
_ENDS = 'KeyboardInterrupt', 'SystemExit', 'GeneratorExit', 'CancelledError'
# Errors whose text alone tells little, such as a key.
_TERSE = (
  *(LookupError, AttributeError, TypeError, NameError),
  *(ArithmeticError, AssertionError),
)
# What `open` would wait for, or never come to the end of.
_SPECIAL = {
  stat.S_IFIFO: 'a pipe',
  stat.S_IFSOCK: 'a socket',
  stat.S_IFCHR: 'a device',
  stat.S_IFBLK: 'a device',
}


def suggest(name: object, available: Iterable[object], most: int = 0) -> str:
  """'available: a, b; did you mean ...?', for an unknown name.

  most: how many are listed at most; 0 is all.
  """
  names = [str(other) for other in available]
  near = difflib.get_close_matches(str(name), names, n=1)
  hint = f'; did you mean {near[0]!r}?' if near else ''
  listed = [*names[:most], '...'] if 0 < most < len(names) else names
  return f'available: {", ".join(listed) or "none"}{hint}'


def check_known(
  name: object, available: Collection[object], text: str, most: int = 0
) -> None:
  """Raises InputError 'text; available: ...' unless a name is one of these."""
  if name not in available:
    raise InputError(f'{text}; {suggest(name, available, most)}')


@contextlib.contextmanager
def extra(name: str, what: str) -> Iterator[None]:
  """Raises InputError where an import inside fails, with the command to run.

  name: of the extra in setup.py. what: that needs it.
  """
  try:
    yield
  except ImportError as error:
    raise InputError(
      f"{what} needs the extra {name!r}: pip install -e '.[{name}]' ({error})"
    ) from error


def passes(error: BaseException) -> bool:
  """Is an error one that says enough, or the machine's, or an end?

  Ends are those of a process, a generator or a task. No Exception, they are
  told by name, as a task's is not imported.
  """
  if isinstance(error, OSError) and error.errno in _MACHINE:
    return True
  if isinstance(error, Exception):
    return isinstance(error, InputError | BrokenPipeError)
  return any(base.__name__ in _ENDS for base in type(error).__mro__)


def text_of(error: BaseException) -> str:
  """What an error says, as one line; '' where its own class cannot say it."""
  with contextlib.suppress(Exception):
    return one_line(error.msg if isinstance(error, SyntaxError) else str(error))
  return ''


def reason(error: BaseException) -> str:
  """Why something cannot be read, as one line that is never empty."""
  if isinstance(error, RecursionError):
    return 'it nests too deep'
  if isinstance(error, MemoryError):
    return 'it takes more memory than there is'
  if isinstance(error, OSError) and error.strerror:
    return one_line(error.strerror)
  text, kind = text_of(error), type(error).__name__
  if text and not isinstance(error, _TERSE):
    return text
  return f'{kind}: {text}' if text else kind


class reading(contextlib.AbstractContextManager[Any]):
  """Turns whatever fails inside into an InputError of one line.

  An InputError, a full disk, a lack of file descriptors, a closed pipe and the
  end of a process pass as they are.

  >>> with reading('map.json', 'JSON'):
  ...   json.loads(text)
  InputError: map.json is not JSON: Expecting value: line 1 column 1 (char 0)
  """

  def __init__(
    self, name: str | os.PathLike[str], what: str, hint: str = ''
  ) -> None:
    """Names what is read.

    Args:
      name: of the thing, such as a file's path.
      what: it should be, with an article where it has one: 'JSON', 'a CSV
        file'.
      hint: what to do where it is not, for the end of the line.
    """
    self.name = one_line(os.fspath(name)) or "''"
    self.what = what
    self._hint = f'; {hint}' if hint else ''

  def __exit__(
    self,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: types.TracebackType | None,
  ) -> None:
    """Raises InputError where reading failed."""
    if error is None or passes(error):
      return
    if isinstance(error, OSError) and error.errno is not None:
      self._system(error)
    line = f'{self.name} is not {self.what}: {reason(error)}'
    raise InputError(line + self._hint) from error

  def _system(self, error: OSError) -> NoReturn:
    """Raises InputError for what a system call said of a path."""
    path = self.name
    if error.filename and isinstance(error.filename, str):
      path = one_line(error.filename)
    if isinstance(error, FileNotFoundError):
      raise InputError(missing(path)) from error
    if isinstance(error, IsADirectoryError):
      raise InputError(f'{path} is a folder; expected {self.what}') from error
    raise InputError(f'{path}: {reason(error)}') from error


# Of s3://bucket/folder, also where a path has made one slash of two.
URL = re.compile(r'([a-z][a-z0-9+.-]+):/{1,2}(.+)', re.S)


def missing(path: str) -> str:
  """Line for a file that is not there, or is at a URL that is not read."""
  if match := URL.fullmatch(path):
    return (
      f'{match[1]}://{match[2]} is a URL; expected a file of this machine: an '
      'argument such as --out may be a URL, no file that a spec names'
    )
  return f'no such file: {path}'


class reading_file(reading):
  """`reading` of one file, which is regular: nothing is opened that may hang.

  >>> with reading_file(path, 'a CSV file') as path, path.open() as file:
  ...   rows = list(csv.reader(file))
  InputError: roads is a folder; expected a CSV file
  """

  def __init__(
    self, path: str | os.PathLike[str], what: str, hint: str = ''
  ) -> None:
    """Takes the file's path, and what it should be; see `reading`."""
    super().__init__(path, what, hint)
    self._path = path

  def __enter__(self) -> pathlib.Path:
    """Gives the path; raises InputError where it is no regular file."""
    with reading(self._path, self.what):
      mode = os.stat(self._path).st_mode
    if stat.S_ISDIR(mode):
      raise InputError(f'{self.name} is a folder; expected {self.what}')
    if not stat.S_ISREG(mode):
      special = _SPECIAL.get(stat.S_IFMT(mode), 'no regular file')
      raise InputError(f'{self.name} is {special}; expected {self.what}')
    return pathlib.Path(self._path)


def read_text(path: str | os.PathLike[str], what: str = 'UTF-8 text') -> str:
  """Text of a file, without a byte order mark; InputError names the file."""
  with reading_file(path, what) as file:
    return file.read_text('utf-8-sig')


def parse_json(text: str, **hooks: Any) -> Any:
  """The value of a JSON text whose strings can be written again.

  hooks: of `json.loads`.

  Raises:
    ValueError: it is no JSON, or has half a surrogate pair; `reading` names
      the file.
  """
  value = json.loads(text, **hooks)
  if re.search(r'\\u[dD][89a-fA-F]', text):
    json.dumps(value, ensure_ascii=False).encode()
  return value


def read_json(path: str | os.PathLike[str]) -> Any:
  """The value in a JSON file; InputError names the file."""
  with reading_file(path, 'JSON') as file:
    return parse_json(file.read_text('utf-8'))
