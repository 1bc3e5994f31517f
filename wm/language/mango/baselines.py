"""What answers without a language model score: chance, and readers of maps.

Each baseline answers as a model would, and is scored by the same program; that
of a place drawn at random is its mean.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.language.mango import questions, scoring
from wm.language.mango.graphs import OPPOSITES, Graph, Rules
from wm.language.mango.parsing import Answer, Move
from wm.worlds.text_game import maze as mazes

Moves = dict[str, dict[str, list[str]]]

BASELINES = {
  'uniform': 'a place drawn at random: the mean over all of them',
  'last': 'the last place of the walkthrough',
  'frequent': "the walkthrough's most frequent place",
  'random_walk': 'as many random moves on the visible map as the path has',
  'walked': 'the path on the map of walked moves; one that is missing stays',
  'reversed': 'the same, with the opposite of each walked direction',
}


class Seen(NamedTuple):
  """What a prefix shows of a game.

  Attributes:
    last, frequent: places.
    visible, walked, reverse: place -> action -> places; see BASELINES.
  """

  last: str
  frequent: str
  visible: Moves
  walked: Moves
  reverse: Moves


def seen(maze: mazes.Maze, step: int) -> Seen:
  """What the steps 0..step show; the last place is '' of a maze without any."""
  places = questions.trail(maze)[: step + 1] if maze.steps else []
  shown = [place for place in places if place]
  edges = maze.edges
  visible: Moves = {}
  walked: Moves = {}
  for edge in range(edges.source.size):
    source, action, target = maze.words(edge)
    for moves, known in (
      (visible, edges.answerable.total[edge]),
      (walked, edges.answerable.forward[edge]),
    ):
      if known <= step:
        moves.setdefault(source, {}).setdefault(action, []).append(target)
  back = {place: dict(out) for place, out in walked.items()}
  for source, out in walked.items():
    for action, targets in out.items():
      for target in targets if action in OPPOSITES else ():
        back.setdefault(target, {}).setdefault(OPPOSITES[action], [source])
  frequent = collections.Counter(shown).most_common(1)
  return Seen(
    shown[-1] if shown else '',
    frequent[0][0] if frequent else '',
    visible,
    walked,
    back,
  )


def _follow(moves: Moves, start: str, actions: Sequence[str]) -> list[Move]:
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
  here, path = places[0], []
  for action, reached in zip(actions[::-1], came[::-1], strict=True):
    path.append(Move(reached[here], action, here))
    here = reached[here]
  return path[::-1]


def _shortest(moves: Moves, start: str, end: str) -> list[Move]:
  came: dict[str, Move] = {}
  queue = collections.deque([start])
  while queue and end not in came:
    here = queue.popleft()
    for action, targets in moves.get(here, {}).items():
      for after in targets:
        if after != start and after not in came:
          came[after] = Move(here, action, after)
          queue.append(after)
  path: list[Move] = []
  while end in came:
    path.append(came[end])
    end = came[end].before
  return path[::-1]


def walk(
  moves: Moves, start: str, target: str, actions: Sequence[str]
) -> list[Move]:
  """A path of the actions, or a shortest one where there are none."""
  if actions:
    return _follow(moves, start, actions)
  return _shortest(moves, start, target)


def _random(moves: Moves, asked: questions.Asked, seed: int) -> list[Move]:
  here, path = asked.question.start, []
  draws = core.hash64(
    seed, int(asked.key[:15], 16), np.arange(max(asked.length, 1))
  )
  for draw in draws.tolist():
    out = [(a, v) for a, vs in moves.get(here, {}).items() for v in vs]
    if not out:
      break
    action, after = out[draw % len(out)]
    path.append(Move(here, action, after))
    here = after
  return path


def answer(
  name: str, asked: questions.Asked, known: Seen, seed: int = 0
) -> Answer:
  """The answer of a baseline but 'uniform'; an empty one is 'empty_list'."""
  start, target, actions = asked.question
  if name in ('last', 'frequent'):
    place = known.last if name == 'last' else known.frequent
    path = [Move(start, action, place) for action in actions or ('',)]
  elif name == 'random_walk':
    path = _random(known.visible, asked, seed)
  else:
    moves = known.walked if name == 'walked' else known.reverse
    path = walk(moves, start, target, actions)
  return Answer(tuple(path), '' if path else 'empty_list')


def scores(
  maze: mazes.Maze,
  kind: str,
  step: int = mazes.LAST,
  *,
  rule: str = 'some',
  rules: Rules | None = None,
  names: Sequence[str] = tuple(BASELINES),
  seed: int = 0,
) -> Iterator[tuple[str, questions.Asked, scoring.Score]]:
  """(baseline, question, score) of all questions of a kind about a game.

  Raises:
    InputError: there is no such kind, rule or baseline.
  """
  for name in names:
    if name not in BASELINES:
      raise core.InputError(
        f'no baseline {name!r}; available: {", ".join(BASELINES)}'
      )
  graph = questions.graph(maze, rules)
  known = seen(maze, step)
  judge = judged(kind)
  for asked in questions.listed(maze, kind, step, rule):
    for name in names:
      if name == 'uniform':
        yield name, asked, _uniform(graph, asked)
      else:
        found = answer(name, asked, known, seed)
        yield name, asked, judge(graph, asked.question, found)


def judged(
  kind: str,
) -> Callable[[Graph, scoring.Question, Answer], scoring.Score]:
  """What scores answers to questions of a kind."""
  if kind == questions.DESTINATION:
    return scoring.destination
  return scoring.route


def _uniform(graph: Graph, asked: questions.Asked) -> scoring.Score:
  """The mean over all places of a destination; of a route no move at all."""
  if asked.kind != questions.DESTINATION:
    return scoring.Score('empty_list')
  start, target, actions = asked.question
  truth = graph.follow(start, actions) or frozenset([target])
  share = len(truth) / len(graph.places)
  mean = graph.chance(truth)
  return scoring.Score('', mean, share, share, share, chance=mean)
