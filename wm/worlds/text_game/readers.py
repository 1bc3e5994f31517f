"""Games in the format of MANGO's data (Ding et al. 2024).

Games are files in a folder of folders, or in a packed archive of them:

    FOLDER/zork1/zork1.map.human        or       NAME.tar.gz with members
    FOLDER/zork1/zork1.walkthrough               NAME/zork1/zork1.map.human

Archives are not unpacked; members are read by name. A game of your own is one
file, GAME.map.human, with a line for each edge of the walkthrough and the
number of the first step that takes it. Walks start at the source of step 1:

    gate --> east --> yard, step 1
    yard --> west --> gate, step 2
    yard --> north --> hall, step 3

GAME.map.reversed has, in the same form, valid opposites that are not walked
(`imputed` counts them). Only prompts need GAME.walkthrough, the game's text:

    ==>STEP NUM: 0
    ==>ACT: Init
    ==>OBSERVATION: You are at the gate.
    ===========

Three published generations are read:

    annotation    the form above; all steps
    camera_ready  GAME.edges.json, a list of {"src_node", "action", "dst_node",
                  "seen_in_forward", ...}; GAME.locations.json and
                  GAME.actions.json, lists of names; 70 steps
    paper         the same with "prev_node", "node", "step_min_cutoff"
"""

from __future__ import annotations

import csv
import functools
import io
import json
import os
import pathlib
import re
import tarfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from wm import core
from wm.core import inputs, schema
from wm.worlds.text_game import maze as mazes

STEPS = (
  'seen_in_forward',
  'seen_in_reversed',
  'edge_min_step',
  'seen_in_forward_answerable',
  'seen_in_reversed_answerable',
  'edge_min_step_answerable',
)
ENDS = {
  'camera_ready': ('src_node', 'action', 'dst_node'),
  'paper': ('prev_node', 'action', 'node'),
}
MOVE = re.compile(
  r'(.+?) --> (.*?) --> (.+), step (\d{1,9})(?:, answerable (\d{1,9}))?'
  r'(?:, desc: .*)?'
)
MOST_ENTRIES = 100_000  # Limit of a list; the largest game has some 100 edges.
LONGEST = 1000  # Limit of characters of a line; published lines have 150.
RULE = '==========='  # Between the blocks of a walkthrough.
BLOCK = re.compile('^==>STEP NUM:(.*)$', re.MULTILINE)
SAID = re.compile('\n==>ACT:([^\n]*)\n==>OBSERVATION:(.*)', re.DOTALL)


def read(folder: str | os.PathLike[str], game: str) -> mazes.Maze:
  """The maze of one game.

  Args:
    folder: of games, or a packed archive of it.
    game: its name.

  Raises:
    InputError: a missing or damaged file, an edge with an unknown place, or a
      gap in the walkthrough.
  """
  files = texts(folder, game)
  where = f'{folder}: {game}'
  if 'map.human' in files:
    labelled = _annotation(files, game, where)
  elif 'edges.json' in files:
    labelled = _edges(files, game, where)
  else:
    raise core.InputError(
      f'{where} has neither {game}.edges.json nor {game}.map.human; found: '
      + ', '.join(sorted(files))
    )
  if 'walkthrough' in files:
    steps = walkthrough(files['walkthrough'], f'{where}.walkthrough')
    labelled = labelled._replace(steps=steps)
  if 'valid_moves.csv' in files:
    trail = _trail(
      files['valid_moves.csv'], labelled, f'{where}.valid_moves.csv'
    )
    labelled = labelled._replace(trail=trail)
  return labelled


def walkthrough(
  text: str, where: str = 'the walkthrough'
) -> tuple[mazes.WalkthroughStep, ...]:
  """Steps of a walkthrough; observations are stripped.

  Raises:
    InputError: no steps, a step without action or observation, or a gap in
      their numbers.
  """
  _, *parts = BLOCK.split(text)
  steps: list[mazes.WalkthroughStep] = []
  for number, body in zip(parts[::2], parts[1::2], strict=True):
    if number.strip() != str(len(steps)):
      raise core.InputError(
        f'{where}: step {number.strip()[:20]!r} comes after {len(steps) - 1}; '
        f'expected {len(steps)}'
      )
    match = SAID.fullmatch(body)
    if not match:
      raise core.InputError(
        f'{where}: step {len(steps)} lacks ==>ACT: or ==>OBSERVATION:'
      )
    action, observation = match.groups()
    observation = observation.rstrip().removesuffix(RULE).strip()
    steps.append(mazes.WalkthroughStep(len(steps), action.strip(), observation))
  if not steps:
    raise core.InputError(f'{where} has no step; expected ==>STEP NUM: 0')
  return tuple(steps)


_ENTRIES = {
  'camera_ready': schema.Object(
    dict.fromkeys(ENDS['camera_ready'], str) | dict.fromkeys(STEPS, int)
  ),
  'paper': schema.Object(
    dict.fromkeys(ENDS['paper'], str)
    | {'step_min_cutoff': int, 'seen_in_forward': bool}
  ),
}


def _json(
  files: Mapping[str, str], kind: str, where: str, item: schema.Shape
) -> list[Any]:
  """The list in a JSON file."""
  if kind not in files:
    raise core.InputError(f'{where}.{kind} is missing')
  shape = schema.List(item, most=MOST_ENTRIES)
  return list(schema.parse(files[kind], shape, f'{where}.{kind}'))


def _edges(files: Mapping[str, str], game: str, where: str) -> mazes.Maze:
  """A maze of the first two generations."""
  rows = _json(files, 'edges.json', where, dict)
  generation = 'paper' if rows and 'prev_node' in rows[0] else 'camera_ready'
  of = f'{where}.edges.json'
  schema.check(rows, schema.List(_ENTRIES[generation]), of)
  triples = [tuple(row[key] for key in ENDS[generation]) for row in rows]
  stamps = []
  for row in rows:
    if generation == 'paper':
      forward = 0 if row['seen_in_forward'] else mazes.NEVER
      stamps.append([forward, mazes.NEVER, row['step_min_cutoff']] * 2)
    else:
      stamps.append([row[key] for key in STEPS])
  names = (
    _json(files, 'locations.json', where, str),
    _json(files, 'actions.json', where, str),
  )
  return mazes.made(game, generation, names, triples, stamps, of)


def _annotation(files: Mapping[str, str], game: str, where: str) -> mazes.Maze:
  """A maze of the full annotation; names in lower case, as the others are."""
  stamps_of: dict[tuple[str, str, str], list[int]] = {}
  for kind, column in (('map.human', 0), ('map.reversed', 1)):
    for row, line in enumerate(files.get(kind, '').splitlines()):
      if not line.strip():
        continue
      # In a long line of arrows, the pattern would try all pairs.
      parts = len(line) <= LONGEST and MOVE.fullmatch(line.strip())
      if not parts:
        raise core.InputError(
          f'{where}.{kind}, line {row + 1}: {line[:80]!r}; expected A --> '
          'action --> B, step N'
        )
      source, action, target, step, answerable = parts.groups()
      u, a, v = (name.strip().lower() for name in (source, action, target))
      stamp = stamps_of.setdefault((u, a, v), [mazes.NEVER] * 4)
      both = int(step), int(answerable or step)
      for at, new in zip((column, column + 2), both, strict=True):
        stamp[at] = min(stamp[at], new)
  triples = list(stamps_of)
  stamps = [
    [f, r, min(f, r), fa, ra, min(fa, ra)]
    for f, r, fa, ra in stamps_of.values()
  ]
  places = dict.fromkeys(name for u, _, v in triples for name in (u, v))
  actions = dict.fromkeys(action for _, action, _ in triples)
  names = list(places), list(actions)
  of = f'{where}.map.human'
  return mazes.made(game, 'annotation', names, triples, stamps, of)


def _lines(text: str, where: str) -> list[list[str]]:
  """Lines of a CSV file without its header."""
  with inputs.reading(where, 'a CSV file'):
    return list(csv.reader(text.splitlines()[1:]))


def _trail(text: str, labelled: mazes.Maze, where: str) -> np.ndarray:
  """Places after each step of the annotators' list of moves."""
  # The annotators' names have capitals, those of the map have not.
  place = {name.lower(): k for k, name in enumerate(labelled.places)}
  place |= {name: k for k, name in enumerate(labelled.places)}
  place_now = core.DEAD
  trail: list[int] = []
  for number, row in enumerate(_lines(text, where), 1):
    if [*row[:1]] != [str(number)] or len(row) < 3:
      raise core.InputError(
        f'{where}: row {number} starts with {row[:1]}; expected [{number}]'
      )
    before, after = (
      place.get(name, place.get(name.lower(), core.DEAD))
      for name in map(str.strip, row[1:3])
    )
    if row[1].strip() or row[2].strip():
      if core.DEAD in (before, after):
        raise core.InputError(f'{where}: row {number} has an unknown place')
      trail += [before] * (number - len(trail))
      place_now = after
    if trail:
      trail.append(place_now)
  return np.array(trail, np.int32)


LARGEST = 50_000_000  # Limit of bytes per file; walkthroughs have 350,000.
MOST = 500_000_000  # Limit of bytes per archive; published ones have 5 M.
SHOWN = 5  # Number of names listed in an error.


def games(folder: str | os.PathLike[str]) -> tuple[str, ...]:
  """Names of the games in a folder or an archive, sorted.

  Raises:
    InputError: a missing folder, or a folder without games.
  """
  return tuple(sorted({game for game, _ in _files(folder)}))


def texts(folder: str | os.PathLike[str], game: str) -> Mapping[str, str]:
  """Kind -> text of the files of one game, e.g. 'edges.json'.

  Raises:
    InputError: an unknown game, or a file that is damaged or not UTF-8 text.
  """
  files = {
    kind: data for (g, kind), data in _files(folder).items() if g == game
  }
  if not files:
    available = inputs.suggest(game, games(folder), SHOWN)
    raise core.InputError(f'{folder} has no game {game!r}; {available}')
  return {
    kind: _text(data, f'{folder}: {game}.{kind}')
    for kind, data in files.items()
  }


def _text(data: bytes | pathlib.Path, where: str) -> str:
  with inputs.reading(where, 'UTF-8 text'):
    if isinstance(data, pathlib.Path):
      with inputs.reading_file(data, 'UTF-8 text') as path:
        if path.stat().st_size > LARGEST:
          raise core.InputError(f'{where} has more than {LARGEST:,} bytes')
        data = path.read_bytes()
    return data.decode('utf-8-sig')


def _files(
  folder: str | os.PathLike[str],
) -> Mapping[tuple[str, str], bytes | pathlib.Path]:
  """(game, kind) -> the file, or its bytes."""
  path = pathlib.Path(folder)
  with inputs.reading(path, 'a folder of games'):
    if path.is_file():
      status = path.stat()
      return _packed(str(path), status.st_mtime_ns, status.st_size)
    if not path.is_dir():
      raise core.InputError(
        f'no such folder of games: {folder}; expected one, or a .tar.gz of it'
      )
    files = {
      (child.name, file.name.removeprefix(f'{child.name}.')): file
      for child in sorted(path.iterdir())
      if child.is_dir()
      for file in sorted(child.iterdir())
      if file.name.startswith(f'{child.name}.')
    }
  return _some(files, folder)


@functools.lru_cache(maxsize=4)
def _packed(
  path: str, modified: int, size: int
) -> Mapping[tuple[str, str], bytes | pathlib.Path]:
  """As `_files`, for an archive; modified, size: identify its version."""
  files: dict[tuple[str, str], bytes | pathlib.Path] = {}
  total = 0
  with (
    inputs.reading(path, 'a readable archive'),
    tarfile.open(path) as archive,
  ):
    for member in archive:
      *_, game, name = ['', '', *member.name.split('/')]
      if not member.isfile() or not name.startswith(f'{game}.'):
        continue
      total += member.size
      if member.size > LARGEST or total > MOST:
        raise core.InputError(
          f'{path}: {member.name} has {member.size:,} bytes, all files to it '
          f'{total:,}; expected at most {LARGEST:,} and {MOST:,}'
        )
      file = archive.extractfile(member)
      if file is not None:
        key = game, name.removeprefix(f'{game}.')
        if key in files:
          raise core.InputError(
            f'{path} has {game}/{name} in two places; expected each game once'
          )
        files[key] = file.read()
  return _some(files, path)


def _some(
  files: Mapping[tuple[str, str], bytes | pathlib.Path],
  folder: str | os.PathLike[str],
) -> Mapping[tuple[str, str], bytes | pathlib.Path]:
  if not files:
    raise core.InputError(
      f'{folder} has no game; expected files GAME/GAME.edges.json, or '
      'GAME/GAME.map.human'
    )
  return files


def write(
  maze: mazes.Maze, folder: str | os.PathLike[str], game: str = ''
) -> pathlib.Path:
  """Writes GAME.edges.json, .locations.json, .actions.json and .walkthrough.

  GAME.valid_moves.csv has the place after each step, if known. `readers.read`
  reads the same maze from the folder.

  Args:
    maze: with at least one edge.
    folder: of games; created if missing.
    game: name in the folder; '' takes the maze's.

  Returns:
    The game's folder.

  Raises:
    InputError: the game's folder exists.
  """
  game = game or maze.game
  place = pathlib.Path(folder) / game
  if place.exists():
    raise core.InputError(f'{place} is there already; expected a new game')
  place.mkdir(parents=True)
  for kind, text in _texts(maze).items():
    path = place / f'{game}.{kind}'
    path.write_text(text, encoding='utf-8', newline='')
  return place


def _texts(maze: mazes.Maze) -> dict[str, str]:
  """Kind -> content of each file."""
  edges = maze.edges
  stamps = _columns(edges)
  rows = [
    dict(zip(ENDS['camera_ready'], maze.words(e), strict=True))
    | dict(zip(STEPS, stamps[e], strict=True))
    for e in range(edges.size)
  ]
  files = {
    'edges.json': _json_text(rows),
    'locations.json': _json_text(list(maze.places)),
    'actions.json': _json_text(list(maze.actions)),
  }
  if maze.steps:
    blocks = [
      f'==>STEP NUM: {step.number}\n==>ACT: {step.action}\n'
      f'==>OBSERVATION: {step.observation}\n\n'
      for step in maze.steps
    ]
    rule = f'{RULE}\n'
    files['walkthrough'] = rule + rule.join(blocks) + rule
  if maze.trail.size:
    files['valid_moves.csv'] = _moves(maze)
  return files


def _columns(edges: mazes.MazeEdges) -> list[list[int]]:
  """[E][6] steps of each edge in the order of readers.STEPS."""
  columns = (*edges.played, *edges.answerable)
  return [list(row) for row in zip(*(c.tolist() for c in columns), strict=True)]


def _json_text(value: object) -> str:
  return json.dumps(value, indent=1, ensure_ascii=False) + '\n'


def _moves(maze: mazes.Maze) -> str:
  """Places before and after each step that moves, one line per step."""
  out = io.StringIO()
  lines = csv.writer(out, lineterminator='\n')
  lines.writerow(
    ('Step Num', 'Location Before', 'Location After', 'taken_action')
  )
  pairs = zip(maze.trail[:-1].tolist(), maze.trail[1:].tolist(), strict=True)
  for number, (before, after) in enumerate(pairs, 1):
    names = (maze.places[before], maze.places[after])
    action = maze.steps[number].action if number < len(maze.steps) else ''
    moved = number == 1 or before != after
    lines.writerow((number, *(names if moved else ('', '')), action))
  return out.getvalue()
