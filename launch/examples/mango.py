"""MANGO's questions (Ding et al. 2024), asked of a model of walks in a maze.

A language model answers them in words. A model of actions has no words for
places: a linear readout of its activations, fit on walks, names them. What the
model is told of the start of a question is a way there.

Destination finding: it reads the actions, and the readout names the place.
Route finding: a breadth-first search tries the actions that the model accepts,
until the readout names the destination. Answers are judged on the maze.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from wm import core
from wm.core import registry
from wm.language.papers.mango import questions
from wm.worlds.text_game import MazeWorld

RIDGE = 1e-3  # Of the readout.


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Asks all questions that the whole walkthrough answers.

  Attributes:
    num: walks that the readout is fit on.
    moves: most actions of a route.
    accept: rule of the actions that the search tries.
  """

  version = '1'
  needs: ClassVar[tuple[core.Need, ...]] = (
    core.HiddenStates,
    core.Predictor,
    MazeWorld,
  )
  measures: ClassVar[dict[str, core.Measure]] = {
    'destination': core.Measure(1, 'knows where ways lead'),
    'route': core.Measure(1, 'finds a way'),
  }
  glossary: ClassVar[dict[str, str]] = {
    'destination': 'Share of destination questions whose place is named.',
    'route': 'Share of pairs of places between which a right way is given.',
  }

  num: int = 500
  moves: int = 8
  accept: str = 'epsilon(0.01)'

  def __call__(
    self, predictor: Any, world: MazeWorld, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; a row per question, clustered by its start."""
    accept = registry.make('accept', self.accept)
    walker = Walker(predictor, world, accept, self.num, seed)
    starts = ways(world.delta)
    place = {name: number for number, name in enumerate(world.names)}
    style = core.PromptStyle()
    token = {name: k for k, name in enumerate(world.token_names(style))}
    asked = questions.questions(world.maze, questions.DESTINATION)
    actions = [[token[action] for action in x.actions] for x in asked]
    origin = np.array([place[x.start] for x in asked])
    walks = [[*starts[x], *y] for x, y in zip(origin, actions, strict=True)]
    answers = walker.places(walks)
    right = [place[x.target] == y for x, y in zip(asked, answers, strict=True)]
    destination = core.scores('destination', right, group=origin)
    asked = questions.questions(world.maze, questions.ROUTE)
    pairs = [(place[x.start], place[x.target]) for x in asked]
    routes = {k: walker.routes(way, self.moves) for k, way in starts.items()}
    right = [
      end(world.delta, x, routes[x].get(goal, ())) == goal for x, goal in pairs
    ]
    origin = np.array([x for x, _ in pairs])
    return destination, core.scores('route', right, group=origin)


def ways(delta: np.ndarray) -> dict[int, list[int]]:
  """A shortest way to each place from the first, of one action or more."""
  paths: dict[int, list[int]] = {}
  queue: list[list[int]] = [[]]
  for way in queue:
    for action, place in enumerate(delta[end(delta, 0, way)].tolist(), 1):
      if place >= 0 and place not in paths:
        paths[place] = [*way, action]
        queue.append(paths[place])
  return paths


def end(delta: np.ndarray, place: int, actions: Sequence[int]) -> int:
  """Where actions lead; DEAD if one of them is impossible."""
  for action in actions:
    place = int(delta[place, action - 1]) if place >= 0 else core.DEAD
  return place


class Walker:
  """A model that walks, and a readout of where it takes itself to be."""

  def __init__(
    self, predictor: Any, world: MazeWorld, accept: Any, num: int, seed: int
  ) -> None:
    """Fits the readout.

    Args:
      predictor: with probabilities and activations.
      world: that it walks in.
      accept: rule of the actions that a search tries.
      num: walks that the readout is fit on.
      seed: of these.
    """
    self.predictor, self.accept, self.max_len = predictor, accept, world.max_len
    walks = world.sample(num, seed, split='train').tokens
    state = np.zeros(num, int)
    labels = np.zeros(walks.shape, int)
    for step in range(walks.shape[1]):
      state = world.delta[state, walks[:, step] - 1]
      labels[:, step] = state
    lengths = np.full(num, walks.shape[1])
    rows = self._features(walks, lengths).reshape(walks.size, -1)
    right = np.eye(len(world.delta))[labels.ravel()]
    square = rows.T @ rows + RIDGE * len(rows) * np.eye(rows.shape[1])
    self._readout = np.linalg.solve(square, rows.T @ right)

  def _features(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    hidden = np.asarray(self.predictor.hidden(tokens, lengths, -1))
    ones = np.ones((*hidden.shape[:2], 1))
    return np.concatenate([hidden.astype(np.float64), ones], axis=2)

  def _padded(self, walks: Sequence[Sequence[int]]) -> tuple[np.ndarray, ...]:
    tokens = np.zeros((len(walks), self.max_len), np.int32)
    for row, walk in enumerate(walks):
      tokens[row, : len(walk)] = walk
    return tokens, np.array([len(walk) for walk in walks])

  def places(self, walks: Sequence[Sequence[int]]) -> np.ndarray:
    """[N] the place that is read after each of N walks."""
    tokens, lengths = self._padded(walks)
    last = self._features(tokens, lengths)[np.arange(len(walks)), lengths - 1]
    return np.argmax(last @ self._readout, axis=1)

  def routes(self, way: Sequence[int], moves: int) -> dict[int, list[int]]:
    """Place -> the first route there from the end of a way, as it is read."""
    routes: dict[int, list[int]] = {int(self.places([way])[0]): []}
    level: list[list[int]] = [[]]
    for _ in range(moves):
      tokens, lengths = self._padded([[*way, *route] for route in level])
      log_probs = self.predictor.log_probs(tokens, lengths)
      after = log_probs[np.arange(len(level)), lengths - 1]
      tried = np.asarray(self.accept.mask(after))
      longer = [
        [*route, int(action)]
        for route, mask in zip(level, tried, strict=True)
        for action in np.flatnonzero(mask)
      ]
      level = []
      read = self.places([[*way, *route] for route in longer]) if longer else ()
      for route, place in zip(longer, read, strict=True):
        if int(place) not in routes:
          routes[int(place)] = route
          level.append(route)
      if not level:
        break
    return routes
