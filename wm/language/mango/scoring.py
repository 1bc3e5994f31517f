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
  lowered = said.strip().lower()
  repaired, places, edges = _made_up(graph, moves)
  taken = [graph.literal(m.action) or graph.closest(m.action) for m in moves]
  given = list(asked.actions)
  walks = _walks(graph, asked.start, moves, taken)
  return Score(
    '',
    max(similarity(said, place) for place in truth),
    float(any(lowered == place.lower() for place in truth)),
    float(any(plain(said) == plain(place) for place in truth)),
    float(graph.place(said) in truth),
    float(walks and taken == given),
    float([m.action for m in moves] == given and _edges(graph, moves)),
    float(said in truth and _linked(moves) and _edges(graph, moves)),
    chance,
    len(moves),
    repaired,
    places,
    edges,
    answer.reasoning,
  )


def route(graph: Graph, asked: Question, answer: Answer) -> Score:
  """Scores 'can you find a path?': the moves are made one after the other."""
  if answer.failure:
    return Score(answer.failure, reasoned=answer.reasoning)
  moves = answer.moves
  actions = [move.action for move in moves]
  reached, _ = graph.route(asked.start, actions)
  literal = graph.follow(asked.start, [graph.literal(a) for a in actions])
  repaired, places, edges = _made_up(graph, moves)
  success = float(asked.target in reached)
  exact_edges = _edges(graph, moves)
  ends = moves[0].before == asked.start and moves[-1].after == asked.target
  taken = [graph.literal(action) or action for action in actions]
  walks = _walks(graph, asked.start, moves, taken)
  return Score(
    '',
    success,
    float(asked.target in literal),
    success,
    max((similarity(place, asked.target) for place in reached), default=0.0),
    float(walks and moves[-1].after.lower() == asked.target.lower()),
    float(ends and exact_edges),
    float(ends and exact_edges and _linked(moves)),
    0.0,
    len(moves),
    repaired,
    places,
    edges,
    answer.reasoning,
  )


def _edges(graph: Graph, moves: Sequence[Move]) -> bool:
  """Whether all moves are of the graph, letter for letter."""
  return all(move in graph.edges for move in moves)


def _linked(moves: Sequence[Move]) -> bool:
  """Whether each move begins where the last one ended."""
  pairs = itertools.pairwise(moves)
  return all(last.after == move.before for last, move in pairs)


def _walks(
  graph: Graph, start: str, moves: Sequence[Move], taken: Sequence[str]
) -> bool:
  """Whether moves make a path from the start, but for case.

  taken: what the actions of the moves are taken for.
  """
  here = start.lower()
  for move, action in zip(moves, taken, strict=True):
    after = move.after.lower()
    if move.before.lower() != here:
      return False
    if (here, action.lower(), after) not in graph.triples:
      return False
    here = after
  return True


def _made_up(graph: Graph, moves: Sequence[Move]) -> tuple[int, int, int]:
  """(moves repaired, places that no game has, moves that the graph has not)."""
  repaired = places = edges = 0
  for before, action, after in moves:
    known = before.lower() in graph.known
    places += not known
    there = after.lower() in graph.known
    places += not there
    literal = graph.literal(action)
    repaired += not literal
    if known and there:
      triple = before.lower(), literal.lower(), after.lower()
      edges += triple not in graph.triples
  return repaired, places, edges
