"""Text with a sequence per line, e.g. `origin destination dir dir ... end`.

Tokens are of the world's vocabulary, separated by blanks. A sequence may hold
any tokens in any order, as generated ones do (Vafa et al. 2024, mapping/); this
module does not test their legality.

A line may also be JSON (JSONL): an object whose `tokens`, or else `moves`, ..
(games.FIELDS) are a text or a list of tokens, or such a list alone. Rows of a
file that ends in .parquet, as `Store.to_parquet` writes, are such objects. One
that ends in .csv has a header, and rows are read as objects of its columns:

    {"example_id": "cwm_7f", "moves": ["e2e4", "e7e5"], "result": "*"}
    {"moves": "e2e4 e7e5"}
    ["e2e4", "e7e5"]

A `target` (TARGETS) is the expected output of a model after each token, or
after the last: the written state there, or the next token. Rows are refused if
their targets disagree with the world. Other fields are ignored.

Files from other sources may have other words or ids for tokens, which a table
maps, or games in human notation, which the world parses (`games.Transcribed`:
SAN, numbered moves, written passes). Chess may also have the
numbers that Walker and Lyons 2026 publish: (from * 64 + to) * 5 + promotion
(none, q, r, b, n), squares from a1 along the ranks, with 20480 first:

    {"example_id": "cwm_random_00000", "moves": [20480, 3980, 16820]}

If every sequence of the world begins with the same token, such as <start> in
chess, lines may omit it.
"""

from __future__ import annotations

import csv
import functools
import importlib
import itertools
import json
import pathlib
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TextIO

import numpy as np

from wm import core
from wm.core import inputs, queries, schema
from wm.worlds.base import games
from wm.worlds.chess import notation

Path = pathlib.Path

MIN_TOKENS = 4  # Shorter lines are ill-formed in the published programs.


TARGETS = 'target', 'targets'
LONGEST = 1 << 23  # Characters of a line.


def _words(
  line: str, where: str, world: core.World, ids: bool
) -> tuple[list[str], list[str]]:
  """Words of a line, plain or JSON, and of its targets; raises InputError.

  ids: whether a list may hold numbers.
  """
  words = line.split()
  # A token of the world may begin with a bracket.
  if not line.lstrip().startswith(('{', '[')) or words[0] in world.vocab:
    return words, []
  value = schema.parse(line, dict | list, where)
  if isinstance(value, list):
    return _listed(value, where, world, ids), []
  target = next((value[name] for name in TARGETS if name in value), '')
  fields = games.field_of(value, where), target
  words, labels = (_listed(field, where, world, ids) for field in fields)
  return words, labels


def _listed(value: Any, where: str, world: core.World, ids: bool) -> list[str]:
  """Words of a text or a list."""
  if isinstance(value, str):
    return value.split()
  words = value if isinstance(value, list) else [value]
  if isinstance(world, games.RecordedGames) and {*map(type, words)} == {int}:
    return [*map(_move, words, [where] * len(words))]
  kinds = (str, int) if ids else (str,)
  for word in words:
    if type(word) not in kinds:
      raise core.InputError(
        f'{where} holds {word!r:.60}; expected a text of tokens, or a list '
        'of tokens as texts' + '; ids need tokens=FILE' * (type(word) is int)
      )
  return [*map(str, words)]


def _move(number: int, where: str) -> str:
  """The move in UCI, or the start token, of a published number."""
  if number == notation.PUBLISHED_START:
    return notation.START_TOKEN
  if not 0 <= number < notation.PACKED:
    raise core.InputError(
      f'{where} holds the number {number}; expected '
      f'{notation.PUBLISHED_START}, the start, or moves from 0 to '
      f'{notation.PACKED - 1}'
    )
  return notation.uci(number)


class LineReader(NamedTuple):
  """Reads lines as sequences.

  Attributes:
    world: world that gives the vocabulary.
    aliases: word in the file -> token of the world; {} if the file has tokens.
    written: whether games may be in human notation; see `games.Transcribed`.
  """

  world: core.World
  aliases: Mapping[str, str] = types.MappingProxyType({})
  written: bool = False

  def parse(
    self, lines: Iterable[str], first: int, path: str | Path
  ) -> core.Sequences:
    """Sequences of lines of a file; the first line has the number `first`."""
    world, aliases = self.world, self.aliases
    transcribed = self.written and not aliases
    transcribed &= isinstance(world, games.Transcribed)
    ids = {token: k for k, token in enumerate(world.vocab) if k != core.PAD}
    rows: list[list[int]] = []
    numbers, texts, targets = [], [], {}
    short = 0
    for number, line in enumerate(lines, first):
      where = f'{path}, line {number}'
      if len(line) > LONGEST:
        raise core.InputError(
          f'{where} has more than {LONGEST:,} characters; expected a sequence '
          'a line'
        )
      words, labels = _words(line, where, world, bool(aliases) or transcribed)
      if not words:
        short += 1
        continue
      packed = transcribed and isinstance(world, games.RecordedGames)
      if packed and all(map(str.isdecimal, words)):
        words = [_move(int(word), where) for word in words]
      if labels:
        targets[len(rows)] = [aliases.get(word, word) for word in labels]
      numbers.append(number)
      texts.append(' '.join(words))
      tokens = [aliases.get(word, word) for word in words]
      rows.append(
        [] if transcribed else _ids(tokens, ids, where, bool(aliases))
      )
    notes: dict[str, int] = {}
    if transcribed and isinstance(world, games.Transcribed):
      rows, notes = _transcribed(world, texts, numbers, path)
    starts = np.flatnonzero(world.legal(world.init(1))[0]).tolist()
    if len(starts) == 1:
      rows = [row if row[0] == starts[0] else starts + row for row in rows]
    short += sum(len(r) < MIN_TOKENS or r[-1] != world.end for r in rows)
    sequences = core.Sequences(*queries.table(rows))
    sequences.side['line'] = np.array(numbers, np.int64)
    sequences.counts.update({'ill_formed': short} | notes)
    if targets:
      _check_targets(world, sequences, targets, path)
    return sequences


def _ids(
  tokens: list[str], ids: Mapping[str, int], where: str, named: bool
) -> list[int]:
  """Ids of tokens; raises InputError naming `where` they are."""
  try:
    return [ids[word] for word in tokens]
  except KeyError as error:
    near = [word for word in list(ids)[:9] if not word.isdigit()]
    hint = '' if named else '; tokens=FILE says what stands for each'
    raise core.InputError(
      f'{where}: unknown token {error.args[0]!r}; this world has '
      f'{len(ids)} tokens: {", ".join(near)} ...{hint}'
    ) from error


def _transcribed(
  world: games.Transcribed,
  texts: list[str],
  numbers: list[int],
  path: str | Path,
) -> tuple[list[list[int]], dict[str, int]]:
  """Tokens of games, PAD for an illegal move; and notes on their parsing."""
  transcripts, notes = world.transcribe(texts)
  rows = []
  for number, transcript in zip(numbers, transcripts, strict=True):
    if transcript.unreadable:
      raise core.InputError(
        f'{path}, line {number}: unreadable move {transcript.fault!r:.60} '
        f'after {len(transcript.tokens)}; expected games as people write them'
      )
    rows.append(transcript.tokens + [core.PAD] * bool(transcript.fault))
  return rows, notes


def _check_targets(
  world: core.World,
  sequences: core.Sequences,
  targets: Mapping[int, list[str]],
  path: str | Path,
) -> None:
  """Raises InputError for a target that disagrees with the world.

  Targets are the written state after each token, or after the last, or the next
  token.
  """
  if not isinstance(world, core.Written):
    raise core.InputError(
      f'{path} has targets; no state of this world is written: leave them out'
    )
  rows = sequences.take(np.array([*targets]))
  states = world.init(len(rows))
  name = functools.cache(lambda x: world.format(np.frombuffer(x, np.int32)))
  written: list[list[str]] = [[] for _ in targets]
  for k, column in enumerate(rows.tokens.T):
    states = np.asarray(world.advance(states, column), np.int32)
    for n in np.flatnonzero(k < rows.lengths).tolist():
      written[n].append(name(states[n].tobytes()))
  for n, target in enumerate(targets.values()):
    length = int(rows.lengths[n])
    follows = [world.vocab[t] for t in rows.tokens[n, 1:length]]
    shifted = len(target) in (length - 1, length)
    if shifted and target[: len(follows)] == follows:
      continue
    pairs = [*zip(target, written[n][-len(target) :], strict=False)]
    wrong = [k for k, (label, state) in enumerate(pairs) if label != state]
    where = f'{path}, line {rows.side["line"][n]}'
    if wrong:
      label, state = pairs[wrong[0]]
      raise core.InputError(
        f'{where}: target {wrong[0] + 1} is {label!r:.60}; the world says '
        f'{state!r:.60}'
      )
    if len(target) > length:
      raise core.InputError(f'{where}: {len(target)} targets, {length} tokens')


def read(path: str | Path, world: core.World) -> core.Sequences:
  """Reads a file of sequences in its order.

  Args:
    path: text file; a newline at its end is optional.
    world: world that gives the vocabulary.

  Returns:
    Sequences. `counts['ill_formed']` is the number of lines with fewer than
    four tokens or without the end token; `side['line']` [N] int64 is the line
    number of each row, from 1. Lines without tokens are left out.

  Raises:
    InputError: no such file, not text, no sequences in it, or an unknown
      token, with its line number.
  """
  sequences = LineReader(world).parse(_lines(Path(path)), 1, path)
  if not len(sequences):
    raise core.InputError(f'{path} holds no sequences')
  return sequences


def characters(path: str | Path) -> int:
  """Characters of a file's lines, newlines included, minus two per line.

  Vafa et al. 2024, appendix B.2, print this as the number of directions.
  """
  return sum(max(len(line) - 2, 0) for line in _lines(Path(path)))


def batches(path: str | Path, size: int) -> Iterator[tuple[int, list[str]]]:
  """Yields (number of the first line, lines), `size` lines at a time."""
  lines, first = _lines(Path(path)), 1 + (Path(path).suffix == '.csv')
  while batch := list(itertools.islice(lines, size)):
    yield first, batch
    first += len(batch)


def _rows(file: TextIO) -> Iterator[str]:
  """Yields rows of a CSV file as JSON, blank rows as ''."""
  for row in csv.DictReader(file, restkey='', strict=True):
    filled = any(value for value in row.values())
    yield json.dumps(row) if filled else ''


def _lines(path: Path) -> Iterator[str]:
  if path.suffix == '.parquet':
    parquet: Any = importlib.import_module('pyarrow.parquet')
    with inputs.reading_file(path, 'a Parquet file'):
      for batch in parquet.ParquetFile(path).iter_batches():
        yield from map(json.dumps, batch.to_pylist())
    return
  table = path.suffix == '.csv'
  with (
    inputs.reading_file(path, 'UTF-8 text'),
    path.open(encoding='utf-8-sig', newline='' if table else None) as file,
  ):
    if table:
      yield from _rows(file)
    # In pieces, so that a file without newlines takes no more memory.
    while line := file.readline(LONGEST + 1):
      yield line


def render(sequences: core.Sequences, world: core.World) -> str:
  """The sequences as text, one per line."""
  vocab = np.array(world.vocab)
  rows = zip(sequences.tokens, sequences.lengths, strict=True)
  return ''.join(' '.join(vocab[row[:length]]) + '\n' for row, length in rows)
