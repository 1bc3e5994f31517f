"""Scored answers as rows, and walks on the moves that steps show.

Rows have the columns of `COLUMNS`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import networkx as nx
import pandas as pd

from wm.language.papers.mango import score as scoring
from wm.language.papers.mango.score import MazeMove
from wm.worlds.text_game import maze as mazes

COLUMNS = [
  *('model', 'game', 'kind', 'key', 'easy', 'length', 'imputed'),
  *scoring.Score._fields,
]


def answer_row(
  model: str, asked: scoring.MazeQuestion, score: scoring.Score
) -> dict[str, Any]:
  """A scored answer with the columns of COLUMNS, and others."""
  return {'model': model, **asked._asdict(), **score._asdict()}


def answer_frame(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
  """A table of rows."""
  # Tuples take a fifth of the memory of mappings.
  values = [tuple(row[name] for name in COLUMNS) for row in rows]
  return pd.DataFrame(values, columns=COLUMNS)


def well_formed(rows: pd.DataFrame) -> pd.DataFrame:
  """The rows that the paper's scores are over."""
  return rows[rows.failure == '']


def corrected(rows: pd.DataFrame) -> float | None:
  """Success above chance, over what is above chance: 0 guesses, 1 is right."""
  if not len(rows):
    return None
  chance = rows.chance.mean()
  return float((rows.success.mean() - chance) / (1 - chance))


Moves = dict[str, dict[str, list[str]]]


def visible_moves(maze: mazes.Maze, step: int) -> Moves:
  """Place -> action -> places: the moves that steps 0..step show."""
  moves: Moves = {}
  words = [maze.words(edge) for edge in range(maze.edges.size)]
  shown = maze.edges.answerable.total <= step
  for source, action, target in itertools.compress(words, shown):
    moves.setdefault(source, {}).setdefault(action, []).append(target)
  return moves


def _follow(moves: Moves, start: str, actions: Sequence[str]) -> list[MazeMove]:
  """A path of the actions; an action that leads nowhere stays."""
  # Where each action may lead, from any of the places before it: place -> one
  # from which it is reached.
  came: list[dict[str, str]] = []
  places = [start]
  for action in actions:
    reached = {
      after: place
      for place in places
      for after in moves.get(place, {}).get(action, ())
    }
    came.append(reached or {place: place for place in places})
    places = list(came[-1])
  place, path = places[0], []
  for action, reached in zip(actions[::-1], came[::-1], strict=True):
    path.append(MazeMove(reached[place], action, place))
    place = reached[place]
  return path[::-1]


def _shortest(moves: Moves, start: str, end: str) -> list[MazeMove]:
  graph = nx.DiGraph()
  for place, ways in moves.items():
    for action, targets in ways.items():
      for after in targets:
        if not graph.has_edge(place, after):
          graph.add_edge(place, after, action=action)
  if not {start, end} <= {*graph} or not nx.has_path(graph, start, end):
    return []
  return [
    MazeMove(before, graph.edges[before, after]['action'], after)
    for before, after in itertools.pairwise(nx.shortest_path(graph, start, end))
  ]


def walk(
  moves: Moves, start: str, target: str, actions: Sequence[str]
) -> list[MazeMove]:
  """A path of the actions, or a shortest one where there are none."""
  if actions:
    return _follow(moves, start, actions)
  return _shortest(moves, start, target)
