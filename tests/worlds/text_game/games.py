"""What tests of text games share: the published archives, read once."""

import functools
import json
import pathlib

import numpy as np
import pytest

from wm.worlds.text_game import readers

ARCHIVES = {
  'camera_ready': 'camera-ready-70.tar.gz',
  'paper': 'paper-2023-07.tar.gz',
  'annotation': 'annotation-full-2024-03.tar.gz',
}


def archive(testdata, generation='camera_ready') -> pathlib.Path:
  """Path of a generation's archive; skips where it is absent."""
  path = testdata / 'mango' / ARCHIVES[generation]
  if not path.is_file():
    pytest.skip(f'no MANGO data at {path}')
  return path


def read_all(folder):
  """Game -> its maze, of each game with a map."""
  mazes_read = {}
  for game in readers.games(folder):
    files = readers.texts(folder, game)
    if 'edges.json' in files or files.get('map.human', '').strip():
      mazes_read[game] = readers.read(folder, game)
  return mazes_read


def answered_at(questions, step):
  """Masks [Q] of the questions that a prefix answers: easy and hard ones."""
  easy = questions.easy <= step
  answerable = questions.answerable <= step
  return answerable & easy, answerable & ~easy


@functools.cache
def mazes(testdata, generation='camera_ready'):
  """Game -> maze, of the 53 games of the benchmark."""
  known = golden(testdata)
  result = read_all(archive(testdata, generation))
  return {game: maze for game, maze in result.items() if game in known}


@functools.cache
def golden(testdata):
  """Game -> published and recomputed counts."""
  return json.loads((testdata / 'mango' / 'golden.json').read_text())


def reached(maze, source, actions):
  """[S] bool: where actions lead to from a place; anywhere several fit."""
  here = np.zeros(len(maze.places), bool)
  here[source] = True
  edges = maze.edges
  for action in actions:
    on = (edges.action == action) & here[edges.source]
    here = np.zeros(len(maze.places), bool)
    here[edges.target[on]] = True
  return here
