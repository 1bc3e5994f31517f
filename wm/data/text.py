"""Text with a sequence a line, as `origin destination dir dir ... end`.

Tokens are the world's vocabulary, separated by blanks. A sequence may hold
any tokens in any order, as generated ones do (Vafa et al. 2024, mapping/):
what it means is for the world to say.

A line may also be JSON (JSONL): an object whose `tokens`, or else `moves`, are
a text of tokens or a list of them, or such a list alone. Other fields are not
read. Moves of chess are written as UCI writes them:

    {"example_id": "cwm_7f", "moves": ["e2e4", "e7e5"], "result": "*"}
    {"moves": "e2e4 e7e5"}
    ["e2e4", "e7e5"]

or are numbers, as Walker and Lyons 2026 publish their games: (from * 64 + to) *
5 + promotion (none, q, r, b, n), squares from a1 along the ranks, led by 20480:

    {"example_id": "cwm_random_00000", "moves": [20480, 3980, 16820]}

Where every sequence of the world begins with the same token, such as <start>
of chess, lines may leave it out.
"""

from __future__ import annotations

import itertools
import json
import pathlib
from collections.abc import Iterable, Iterator

import numpy as np

from wm import core
from wm.core import inputs
from wm.runtime import files
from wm.worlds.base import games
from wm.worlds.chess import notation

Path = pathlib.Path

MIN_TOKENS = 4  # Shorter lines are ill-formed to the published programs.


FIELDS = 'tokens', 'moves'  # Of a line of JSON; the first that it has counts.


def _words(line: str, where: str, world: core.World) -> list[str]:
  """Tokens of a line, plain or JSON; raises InputError."""
  words = line.split()
  # A token of the world may begin with a bracket.
  if not line.lstrip().startswith(('{', '[')) or words[0] in world.vocab:
    return words
  with inputs.reading(where, 'JSON'):
    value = json.loads(line)
  if isinstance(value, dict):
    fields = [name for name in FIELDS if name in value]
    if not fields:
      raise core.InputError(
        f'{where} has no field {" or ".join(map(repr, FIELDS))}; available: '
        f'{", ".join(value) or "none"}'
      )
    value = value[fields[0]]
  if isinstance(value, str):
    return value.split()
  if isinstance(world, games.RecordedGames) and _is_numbers(value):
    return [*map(_move, value, [where] * len(value))]
  strange = [value]
  if isinstance(value, list):
    strange = [token for token in value if not isinstance(token, str)]
  if strange:
    raise core.InputError(
      f'{where} holds {strange[0]!r:.60}; expected a text of tokens, or a list '
      'of tokens as texts'
    )
  return list(value)


def _is_numbers(value: object) -> bool:
  return isinstance(value, list) and {*map(type, value)} == {int}


def _move(number: int, where: str) -> str:
  """A move as UCI writes it, or the start token, of its published number."""
  if number == notation.PUBLISHED_START:
    return notation.START_TOKEN
  if not 0 <= number < notation.PACKED:
    raise core.InputError(
      f'{where} holds the number {number}; expected '
      f'{notation.PUBLISHED_START}, the start, or moves from 0 to '
      f'{notation.PACKED - 1}'
    )
  return notation.uci(number)


def _encode(
  text: str, ids: dict[str, int], where: str, world: core.World
) -> list[int]:
  """Token ids of one line; raises InputError naming `where` it stands."""
  words = _words(text, where, world)
  try:
    return [ids[word] for word in words]
  except KeyError as error:
    near = [word for word in list(ids)[:9] if not word.isdigit()]
    raise core.InputError(
      f'{where}: unknown token {error.args[0]!r}; this world has '
      f'{len(ids)} tokens: {", ".join(near)} ...'
    ) from error


def read(path: str | Path, world: core.World) -> core.Sequences:
  """Reads a file of sequences in its order.

  Args:
    path: text file; a newline at its end is optional.
    world: gives the vocabulary.

  Returns:
    Sequences; `counts['ill_formed']` says how many lines have fewer than four
    tokens or another last token than the end, and `side['line']` [N] int64
    where each row stood, from 1. Lines without tokens are no rows.

  Raises:
    InputError: no such file, not text, no sequences in it, or an unknown
      token, with its line number.
  """
  sequences = parse(_lines(Path(path)), 1, path, world)
  if not len(sequences):
    raise core.InputError(f'{path} holds no sequences')
  return sequences


def characters(path: str | Path) -> int:
  """Characters of a file's lines with their ends, less two of each line.

  What Vafa et al. 2024, appendix B.2, print as the number of directions.
  """
  return sum(max(len(line) - 2, 0) for line in _lines(Path(path)))


def batches(path: str | Path, size: int) -> Iterator[tuple[int, list[str]]]:
  """Yields `size` lines at a time, and the number of their first."""
  lines, first = _lines(Path(path)), 1
  while batch := list(itertools.islice(lines, size)):
    yield first, batch
    first += len(batch)


def parse(
  lines: Iterable[str], first: int, path: str | Path, world: core.World
) -> core.Sequences:
  """Sequences of lines of a file that are numbered from `first`; see `read`."""
  ids = {token: k for k, token in enumerate(world.vocab) if k != core.PAD}
  starts = np.flatnonzero(world.legal(world.init(1))[0]).tolist()
  rows, numbers, count = [], [], 0
  for number, line in enumerate(lines, first):
    row = _encode(line, ids, f'{path}, line {number}', world)
    if row and len(starts) == 1 and row[0] != starts[0]:
      row = starts + row
    count += len(row) < MIN_TOKENS or row[-1] != world.end
    if row:
      rows.append(row)
      numbers.append(number)
  lengths = np.array([len(row) for row in rows], np.int32)
  tokens = np.zeros((len(rows), int(lengths.max(initial=0))), np.int32)
  if rows:
    tokens[np.arange(tokens.shape[1]) < lengths[:, None]] = np.concatenate(rows)
  side = {'line': np.array(numbers, np.int64)}
  return core.Sequences(tokens, lengths, side, {'ill_formed': count})


def _lines(path: Path) -> Iterator[str]:
  with (
    inputs.reading_file(path, 'UTF-8 text'),
    path.open(encoding='utf-8-sig') as file,
  ):
    yield from file


def write(
  path: str | Path, chunks: Iterable[core.Sequences], world: core.World
) -> int:
  """Writes sequences a line each, whole or not at all; returns their number."""
  total = 0
  with files.replacing(path) as name, open(name, 'w', encoding='utf-8') as out:
    for chunk in chunks:
      out.write(render(chunk, world))
      total += len(chunk)
  return total


def render(sequences: core.Sequences, world: core.World) -> str:
  """A line for each sequence."""
  vocab = np.array(world.vocab)
  rows = zip(sequences.tokens, sequences.lengths, strict=True)
  return ''.join(' '.join(vocab[row[:length]]) + '\n' for row, length in rows)
