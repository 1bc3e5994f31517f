"""What is known of a game at a step: the statistics of tables 3 and 5 to 8.

Also the variables of table 2. Source: Ding et al. 2024, section 3.3 and
appendix B.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from rapidfuzz.distance import Levenshtein

from wm.language.mango import questions
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game import skeletons


class Facts(NamedTuple):
  """Numbers of one game.

  Attributes:
    game: its name.
    steps: the last step of its walkthrough; 0 where there is none.
    cut: the last step that counts.
    locations: places with an edge.
    explicit: edges that are walked.
    imputed: edges that are only imputed.
    confusion: sum over places of how similar, in words, the most similar other
      name is: 1 - edit distance / length of the longer one.
    length: mean edges of a simple path; NaN without any.
    length_easy, length_hard: the same of the easy and of the hard ones.
    imputed_hard: mean of the imputed edges in a hard path.
    scene: mean words of an observation; NaN without a walkthrough.
    df_easy, df_hard, rf_easy, rf_hard: questions.
  """

  game: str
  steps: int
  cut: int
  locations: int
  explicit: int
  imputed: int
  confusion: float
  length: float
  length_easy: float
  length_hard: float
  imputed_hard: float
  scene: float
  df_easy: int
  df_hard: int
  rf_easy: int
  rf_hard: int


def confusion(names: Sequence[str]) -> float:
  """Sum over names of the similarity, in words, with the most similar other.

  The paper prints the edit distance itself over the longer length, and says
  that it finds similar names; the authors' program has one minus that.
  """
  words = [name.lower().split() for name in names]
  return float(
    sum(
      max(
        (
          Levenshtein.normalized_similarity(one, other)
          for k, other in enumerate(words)
          if k != number
        ),
        default=0.0,
      )
      for number, one in enumerate(words)
    )
  )


def of(maze: mazes.Maze, step: int = mazes.LAST, rule: str = 'some') -> Facts:
  """The numbers of a game at a step; see questions.listed for the rule."""
  some = mazes.prefix(maze, step)
  edges = some.edges
  walked = edges.answerable.forward <= step
  found = skeletons.destinations(some)
  easy = found.easy <= step
  sizes = found.paths.length
  unwalked = np.concatenate([[0], np.cumsum(~walked[found.paths.edges])])
  offsets = found.paths.offsets
  imputed = unwalked[offsets[1:]] - unwalked[offsets[:-1]]
  seen = mazes.seen(some)
  names = [name for name, here in zip(some.places, seen, strict=True) if here]
  words = [len(one.observation.split()) for one in some.steps]
  routes = [one.easy for one in questions.listed(maze, 'route', step, rule)]
  return Facts(
    maze.game,
    maze.steps[-1].number if maze.steps else 0,
    step,
    len(names),
    int(walked.sum()),
    int((~walked).sum()),
    confusion(names),
    _mean(sizes),
    _mean(sizes[easy]),
    _mean(sizes[~easy]),
    _mean(imputed[~easy]),
    _mean(words),
    int(easy.sum()),
    int((~easy).sum()),
    sum(routes),
    len(routes) - sum(routes),
  )


def _mean(values: Sequence[int] | np.ndarray) -> float:
  return float(np.mean(values)) if len(values) else float('nan')


def table(
  known: Iterable[mazes.Maze],
  cuts: Mapping[str, int] | None = None,
  rule: str = 'some',
) -> list[Facts]:
  """The numbers of games, each at its own step; default the map's last.

  cuts: game -> step, as of a model's prefixes (tables 5, 7 and 8).
  """
  return [
    of(maze, (cuts or {}).get(maze.game, mazes.LAST), rule) for maze in known
  ]
