"""Turns failures of reading users' files into errors of one line.

Files, folders, weights, modules, replies, logs and results are read inside
`reading`, or `reading_file` for one file. Callers then need no `except`.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import json
import math
import os
import pathlib
import re
import stat
import types
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple, NoReturn

from wm.core.basics import InputError, one_line

# Errors of the machine, not of the input: disk full, no file descriptor left.
_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)
# Ends of a process, a generator or a task; none is an Exception.
_ENDS = 'KeyboardInterrupt', 'SystemExit', 'GeneratorExit', 'CancelledError'
# Errors whose text alone tells little, such as a key.
_TERSE = (
  *(LookupError, AttributeError, TypeError, NameError),
  *(ArithmeticError, AssertionError),
)
# Special files, which may block `open` or never end.
_SPECIAL = {
  stat.S_IFIFO: 'a pipe',
  stat.S_IFSOCK: 'a socket',
  stat.S_IFCHR: 'a device',
  stat.S_IFBLK: 'a device',
}


def suggest(name: object, available: Iterable[object], most: int = 0) -> str:
  """'available: a, b; did you mean ...?', for an unknown name.

  most: maximum number of listed names; 0 lists all.
  """
  names = [str(other) for other in available]
  near = difflib.get_close_matches(str(name), names, n=1)
  hint = f'; did you mean {near[0]!r}?' if near else ''
  listed = [*names[:most], '...'] if 0 < most < len(names) else names
  return f'available: {", ".join(listed) or "none"}{hint}'


def check_known(
  name: object, available: Collection[object], text: str, most: int = 0
) -> None:
  """Raises InputError 'text; available: ...' for an unavailable name."""
  if name not in available:
    raise InputError(f'{text}; {suggest(name, available, most)}')


@contextlib.contextmanager
def extra(name: str, what: str) -> Iterator[None]:
  """Raises InputError with the install command if an import inside fails.

  name: name of the extra in setup.py. what: the feature that needs it.
  """
  try:
    yield
  except ImportError as error:
    raise InputError(
      f"{what} needs the extra {name!r}: pip install -e '.[{name}]' ({error})"
    ) from error


def passes(error: BaseException) -> bool:
  """Should an error pass unchanged?

  An InputError passes, a failure of the machine, a closed pipe, and the end of
  a process, a generator or a task. Ends are recognised by class name, because
  the class of a task's end may not be imported.
  """
  if isinstance(error, OSError) and error.errno in _MACHINE:
    return True
  if isinstance(error, Exception):
    return isinstance(error, InputError | BrokenPipeError)
  return any(base.__name__ in _ENDS for base in type(error).__mro__)


def text_of(error: BaseException) -> str:
  """Message of an error as one line; '' if its class fails to print it."""
  with contextlib.suppress(Exception):
    return one_line(error.msg if isinstance(error, SyntaxError) else str(error))
  return ''


def reason(error: BaseException) -> str:
  """Reason why reading failed, as one line that is never empty."""
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


LOST = 0.02  # Share of a file that may be dropped for one reason.


class Lost(NamedTuple):
  """Records of a file that were dropped for one reason.

  A file without, say, all its games with passes is a biased sample.

  Attributes:
    where: the file.
    cause: the reason.
    number: number of dropped records.
    total: number of records in the file.
    first: the first dropped record.
  """

  where: object
  cause: str
  number: int
  total: int
  first: object

  def check(self, most: float, hint: str = 'mend or remove these') -> None:
    """Raises InputError if the dropped share is above `most`.

    hint: the remedy that the error proposes.
    """
    if self.number > most * self.total:
      share = self.number / self.total
      raise InputError(
        f'{self.where} loses {self.number:,} of {self.total:,} '
        f'({share:.1%}) for one reason, {self.cause}; the first: {self.first}; '
        f'expected {most:.1%} at most, as what is left is a biased sample: '
        f'{hint}, or allow it by lost={math.ceil(share * 100) / 100}'
      )


class reading(contextlib.AbstractContextManager[Any]):
  """Turns any exception inside into an InputError of one line.

  An InputError, a full disk, a lack of file descriptors, a closed pipe and the
  end of a process pass unchanged.

  >>> with reading('map.json', 'JSON'):
  ...   json.loads(text)
  InputError: map.json is not JSON: Expecting value: line 1 column 1 (char 0)
  """

  def __init__(
    self, name: str | os.PathLike[str], what: str, hint: str = ''
  ) -> None:
    """Takes names for the error.

    Args:
      name: name of the input, such as a file's path.
      what: expected kind of input, with its article: 'JSON', 'a CSV file'.
      hint: remedy for the end of the line, or ''.
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
    """Raises InputError if reading failed."""
    if error is None or passes(error):
      return
    if isinstance(error, OSError) and error.errno is not None:
      self._system(error)
    line = f'{self.name} is not {self.what}: {reason(error)}'
    raise InputError(line + self._hint) from error

  def _system(self, error: OSError) -> NoReturn:
    """Raises InputError for a failed system call on a path."""
    path = self.name
    if error.filename and isinstance(error.filename, str):
      path = one_line(error.filename)
    if isinstance(error, FileNotFoundError):
      raise InputError(missing(path)) from error
    if isinstance(error, IsADirectoryError):
      raise InputError(f'{path} is a folder; expected {self.what}') from error
    raise InputError(f'{path}: {reason(error)}') from error


# Matches s3://bucket/folder, and s3:/bucket/folder as pathlib writes it.
URL = re.compile(r'([a-z][a-z0-9+.-]+):/{1,2}(.+)', re.S)


def missing(path: str) -> str:
  """Error text for a missing file, or for a URL in place of a file."""
  if match := URL.fullmatch(path):
    return (
      f'{match[1]}://{match[2]} is a URL; expected a file of this machine: an '
      'argument such as --out may be a URL, no file that a spec names'
    )
  return f'no such file: {path}'


class reading_file(reading):
  """`reading` for one regular file; special files that may hang are refused.

  >>> with reading_file(path, 'a CSV file') as path, path.open() as file:
  ...   rows = list(csv.reader(file))
  InputError: roads is a folder; expected a CSV file
  """

  def __init__(
    self, path: str | os.PathLike[str], what: str, hint: str = ''
  ) -> None:
    """Takes the file's path and its expected kind; see `reading`."""
    super().__init__(path, what, hint)
    self._path = path

  def __enter__(self) -> pathlib.Path:
    """Returns the path; raises InputError unless it is a regular file."""
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
  """The value of a JSON text; all its strings can be encoded in UTF-8.

  hooks: arguments of `json.loads`.

  Raises:
    ValueError: the text is not JSON, or has half a surrogate pair; inside
      `reading`, the error names the file.
  """
  value = json.loads(text, **hooks)
  if re.search(r'\\u[dD][89a-fA-F]', text):
    json.dumps(value, ensure_ascii=False).encode()
  return value


def read_json(path: str | os.PathLike[str]) -> Any:
  """The value in a JSON file; InputError names the file."""
  with reading_file(path, 'JSON') as file:
    return parse_json(file.read_text('utf-8'))
