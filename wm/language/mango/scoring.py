"""Scores of one answer: success, reasoning, and what it makes up.

Source: Ding et al. 2024, section 2.3 and appendix A.6. Where the paper and its
two programs differ, each rule has a name: 'paper', 'july2023', 'camera_ready'.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from wm.language.mango.graphs import Graph, plain, similarity
from wm.language.mango.parsing import Answer, Move


class Question(NamedTuple):
  """What was asked.

  Attributes:
    start: the place where the moves begin.
    target: the place that is right, or asked for.
    actions: to be followed, of a destination question; () of a route question.
  """

  start: str
  target: str
  actions: tuple[str, ...] = ()


class Score(NamedTuple):
  """Scores of one answer; all are 0 where it is ill-formed.

  Attributes:
    failure: '' where the answer is well-formed, else why not.
    success: what the paper reports: of a destination, the edit similarity with
      the right place; of a route, whether the place asked for is reached.
    exact: the same place, letter for letter but for case; of a route, reached
      without a repaired move.
    plain: the same place, but for case, article, punctuation and blanks; of a
      route as `success`.
    nearest: whether the place with the most similar name is the right one; of
      a route the similarity of the best place reached with the one asked for,
      which the camera-ready program calls success.
    reasoning: whether the moves are right one by one, by the paper's rule.
    july2023, camera_ready: the same by the two programs' rules.
    chance: `success` that a place drawn at random has; of a route 0.
    moves: of the answer.
    repaired: moves that are no action of the game.
    places: of the moves that no game has, of 2 * moves.
    edges: moves between places, that the graph does not have, of `moves`.
    reasoned: characters of reasoning.
  """

  failure: str = ''
  success: float = 0.0
  exact: float = 0.0
  plain: float = 0.0
  nearest: float = 0.0
  reasoning: float = 0.0
  july2023: float = 0.0
  camera_ready: float = 0.0
  chance: float = 0.0
  moves: int = 0
  repaired: int = 0
  places: int = 0
  edges: int = 0
  reasoned: int = 0


class _Seen(NamedTuple):
  """What a graph makes of an answer's moves.

  Attributes:
    linked: whether they begin at the start, each where the last one ended, but
      for case.
    edges: whether the graph has them all, letter for letter.
    real: the same but for case.
    walks: the same with the actions that they are taken for.
    taken: these actions.
    literal: actions as the game has them; '' where it has none.
    counts: moves, repaired, places of no game, moves that the graph has not.
  """

  linked: bool
  edges: bool
  real: bool
  walks: bool
  taken: list[str]
  literal: list[str]
  counts: tuple[int, int, int, int]


def _look(graph: Graph, start: str, moves: Sequence[Move]) -> _Seen:
  here = start.lower()
  linked = edges = reals = walks = True
  places = strange = 0
  takens, literals = [], []
  for move in moves:
    literal, taken, before, after, unknown, edge, real, walk = graph.facts(move)
    linked = linked and before == here
    here = after
    takens.append(taken)
    literals.append(literal)
    edges = edges and edge
    walks = walks and walk
    if not real:
      reals = False
      places += unknown
      strange += not unknown
  num = len(moves)
  counts = num, literals.count(''), places, strange
  return _Seen(linked, edges, reals, walks, takens, literals, counts)


def destination(graph: Graph, asked: Question, answer: Answer) -> Score:
  """Scores 'where are you now?'; right is each place that actions lead to.

  That is the place of the question where the graph cannot follow its actions.
  """
  truth = graph.follow(asked.start, asked.actions) or frozenset([asked.target])
  chance = graph.chance(truth)
  if answer.failure:
    return Score(answer.failure, chance=chance, reasoned=answer.reasoning)
  moves = answer.moves
  said = moves[-1].after
  seen = _look(graph, asked.start, moves)
  hit = said in truth
  exact = hit or said.strip().lower() in {place.lower() for place in truth}
  walks = seen.linked and seen.walks
  given = list(asked.actions)
  return Score(
    '',
    1.0 if exact else max(similarity(said, place) for place in truth),
    float(exact),
    float(exact or plain(said) in {plain(place) for place in truth}),
    float(hit or graph.place(said) in truth),
    float(walks and seen.taken == given),
    float(seen.edges and [move.action for move in moves] == given),
    float(seen.edges and hit and _linked(moves)),
    chance,
    *seen.counts,
    answer.reasoning,
  )


def route(graph: Graph, asked: Question, answer: Answer) -> Score:
  """Scores 'can you find a path?': the moves are made one after the other."""
  if answer.failure:
    return Score(answer.failure, reasoned=answer.reasoning)
  moves = answer.moves
  seen = _look(graph, asked.start, moves)
  reached = graph.route(asked.start, [move.action for move in moves])
  success = float(asked.target in reached)
  literal = graph.follow(asked.start, seen.literal)
  ends = moves[0].before == asked.start and moves[-1].after == asked.target
  there = moves[-1].after.lower() == asked.target.lower()
  return Score(
    '',
    success,
    float(asked.target in literal),
    success,
    max((similarity(place, asked.target) for place in reached), default=0.0),
    float(seen.linked and seen.real and there),
    float(seen.edges and ends),
    float(seen.edges and ends and _linked(moves)),
    0.0,
    *seen.counts,
    answer.reasoning,
  )


def _linked(moves: Sequence[Move]) -> bool:
  """Whether each move begins where the last one ended, letter for letter."""
  pairs = itertools.pairwise(moves)
  return all(last.after == move.before for last, move in pairs)
