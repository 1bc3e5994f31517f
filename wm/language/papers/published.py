"""Prompts and recorded answers that papers published; the user brings them.

A folder of prompts has a file KIND.txt for each kind of prompt that a task has.
A value stands there as `{name}`; a file may also be a whole prompt, which holds
all its values as they are. Without a folder, macros of a template say the same
in our own words.
"""

from __future__ import annotations

import gzip
import pathlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from wm import core
from wm.core import inputs
from wm.runtime import files as run_files

HELP = "folder of the authors' prompts; '' asks in our own words"


def check(folder: str, needed: Iterable[str], files: Collection[str]) -> None:
  """Raises InputError where a folder lacks a file, or has an unknown text.

  files: all that are known.
  """
  place = pathlib.Path(folder)
  lacks = [f'no {name}' for name in needed if not (place / name).is_file()]
  texts = sorted(path.name for path in place.glob('*.txt'))
  faults = lacks + [f'unknown {name}' for name in texts if name not in files]
  if faults:
    raise core.InputError(
      f'prompts={folder}: {faults[0]}; expected {", ".join(files)}'
    )


def render(
  folder: str,
  kind: str,
  kinds: Collection[str],
  values: Mapping[str, str],
  macros: Any,
  **more: str,
) -> str:
  """A prompt, its values filled in.

  Args:
    folder: of the user; '' is our own words.
    kind: which prompt.
    kinds: all that the task has.
    values: name -> text, each of which a file must have a place for.
    macros: of our own words.
    **more: values that a file may do without.

  Raises:
    InputError: files are missing or unknown, or a value has no place.
  """
  every = {**values, **more}
  if not folder:
    return str(vars(macros)[kind](**every))
  check(folder, [f'{kind}.txt'], [f'{name}.txt' for name in kinds])
  path = pathlib.Path(folder) / f'{kind}.txt'
  with inputs.reading_file(path, 'a prompt') as file:
    text: str = file.read_bytes().decode()
  missing = [name for name in values if f'{{{name}}}' not in text]
  if len(missing) == len(values) and all(x in text for x in values.values()):
    return text
  if missing:
    raise core.InputError(
      f'{path} has no {{{missing[0]}}}; expected {{{"}, {".join(values)}}}'
    )
  return re.sub(r'{(\w+)}', lambda at: every.get(at[1], at[0]), text)


def read_lines(
  path: pathlib.Path, needed: Mapping[str, type]
) -> Iterator[dict[str, Any]]:
  """Objects of a packed JSON-lines file.

  needed: name -> `str` or `float`, what each object's value of it is.

  Raises:
    InputError: it is missing or damaged, or an object lacks such a value.
  """
  with (
    inputs.reading_file(path, 'a file of recorded answers'),
    gzip.open(path, 'rt', encoding='utf-8') as file,
  ):
    for number, line in enumerate(file, 1):
      record = inputs.parse_json(line)
      yield run_files.record(record, f'{path}, line {number}', dict(needed))
