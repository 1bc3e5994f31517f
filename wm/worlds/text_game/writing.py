"""Writes a maze in the format of MANGO's camera-ready data."""

from __future__ import annotations

import csv
import io
import json
import os
import pathlib
import shutil

from wm import core
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game import readers


def write(
  maze: mazes.Maze, folder: str | os.PathLike[str], game: str = ''
) -> pathlib.Path:
  """Writes GAME.edges.json, .locations.json, .actions.json and .walkthrough.

  GAME.valid_moves.csv has the place after each step, where it is known. What
  `readers.read` makes of the folder is the same maze.

  Args:
    maze: with at least one edge.
    folder: of games; made where it does not exist.
    game: name to write it by; '' is its own.

  Returns:
    The game's folder.

  Raises:
    InputError: that folder is there already, or the name cannot be one.
  """
  game = game or maze.game
  if not game or pathlib.PurePath(game).name != game or game.startswith('.'):
    raise core.InputError(f'{game!r} is no name of a game')
  place = pathlib.Path(folder) / game
  if place.exists():
    raise core.InputError(f'{place} is there already; expected a new game')
  unfinished = place.with_name(f'.{game}.{os.getpid()}.tmp')
  shutil.rmtree(unfinished, ignore_errors=True)
  unfinished.mkdir(parents=True)
  try:
    for kind, text in _texts(maze).items():
      path = unfinished / f'{game}.{kind}'
      path.write_text(text, encoding='utf-8', newline='')
    unfinished.rename(place)
  finally:
    shutil.rmtree(unfinished, ignore_errors=True)
  return place


def _texts(maze: mazes.Maze) -> dict[str, str]:
  """Kind -> content of each file."""
  edges = maze.edges
  stamps = _columns(edges)
  rows = [
    dict(zip(readers.ENDS['camera_ready'], maze.words(e), strict=True))
    | dict(zip(readers.STEPS, stamps[e], strict=True))
    for e in range(edges.size)
  ]
  found = {
    'edges.json': _json(rows),
    'locations.json': _json(list(maze.places)),
    'actions.json': _json(list(maze.actions)),
  }
  if maze.steps:
    blocks = [
      f'==>STEP NUM: {step.number}\n==>ACT: {step.action}\n'
      f'==>OBSERVATION: {step.observation}\n\n'
      for step in maze.steps
    ]
    rule = f'{readers.RULE}\n'
    found['walkthrough'] = rule + rule.join(blocks) + rule
  if maze.trail.size:
    found['valid_moves.csv'] = _moves(maze)
  return found


def _columns(edges: mazes.Edges) -> list[list[int]]:
  """[E][6] steps of each edge in the order of readers.STEPS."""
  columns = (*edges.played, *edges.answerable)
  return [list(row) for row in zip(*(c.tolist() for c in columns), strict=True)]


def _json(value: object) -> str:
  return json.dumps(value, indent=1, ensure_ascii=False) + '\n'


def _moves(maze: mazes.Maze) -> str:
  """Places before and after each step that moves; a line a step."""
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
