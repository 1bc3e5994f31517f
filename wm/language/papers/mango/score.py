"""Answers to MANGO's questions: read as moves, and judged on a game's graph.

Source: Ding et al. 2024, section 2.3, appendices A.5 and A.6. Nothing of an
answer is ever run. A move that no game has is taken for the most similar action
of the graph, and the opposite of each move along a direction counts as a move,
whether or not the game allows it: so do the published programs.
"""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from wm.core import inputs
from wm.language.answers import grammar, replies, values
from wm.worlds.text_game import maze as mazes

with inputs.extra('language', 'an edit distance'):
  from rapidfuzz import process
  from rapidfuzz.distance import Levenshtein

# Answers remembered by one cache: what a model may invent has no bound.
_CACHED = 1 << 16


class MazeMove(NamedTuple):
  """An action leads from one place to another, in a game or in an answer."""

  before: str
  action: str
  after: str


class MoveFacts(NamedTuple):
  """One move of an answer, compared with the graph.

  Attributes:
    literal: the action that it is, but for case and blanks; '' where none.
    taken: that, or the action that it is taken for.
    before, after: its places in lower case.
    unknown: how many of its two places no game has.
    real: whether the graph has the move, but for case.
    walks: the same with the action that it is taken for.
  """

  literal: str
  taken: str
  before: str
  after: str
  unknown: int
  real: bool
  walks: bool


def similarity(text: str, name: str) -> float:
  """1 - edit distance / length of the longer one, of lower-cased texts.

  Two empty texts have 0, as in the published programs.
  """
  if not text and not name:
    return 0.0
  return Levenshtein.normalized_similarity(text.lower(), name.lower())


class JudgeGraph:
  """Places and moves of one game, as they judge answers.

  Attributes:
    places: all names, sorted.
    actions: all actions of moves, sorted.
    moves: place -> action -> places that it leads to, sorted: several where
      an action has several outcomes.
    triples: all moves, in lower case.
    known: all places, in lower case.
    facts, follow, chance: the methods _facts and so on, with a cache.
  """

  def __init__(self, edges: Iterable[tuple[str, str, str]]) -> None:
    """Takes (source, action, target) of each move."""
    self.edges = {MazeMove(*edge) for edge in edges}
    self.edges |= {
      MazeMove(after, mazes.OPPOSITE[action], before)
      for before, action, after in self.edges
      if action in mazes.OPPOSITE
    }
    self.moves: dict[str, dict[str, tuple[str, ...]]] = {}
    for before, action, after in sorted(self.edges):
      by_action = self.moves.setdefault(before, {})
      by_action[action] = (*by_action.get(action, ()), after)
    self.places = sorted({place for move in self.edges for place in move[::2]})
    self.actions = sorted({move.action for move in self.edges})
    self.triples = {tuple(text.lower() for text in move) for move in self.edges}
    self.known = {place.lower() for place in self.places}
    self._literal = {action.lower(): action for action in self.actions}
    # Answers repeat each other; a cache per graph ends with it.
    cached = functools.lru_cache(_CACHED)
    self.facts = cached(self._facts)
    self.follow = cached(self._follow)
    self.chance = cached(self._chance)

  def closest(self, action: str) -> str:
    """The most similar action, of equal ones the first; '' where none is."""
    scorer = Levenshtein.normalized_similarity
    match = process.extractOne(
      action, self.actions, scorer=scorer, processor=str.lower
    )
    return match[0] if match else ''

  def _facts(self, move: tuple[str, str, str]) -> MoveFacts:
    """Compares (before, action, after) of an answer with the graph."""
    before, action, after = move
    literal = self._literal.get(action.strip().lower(), '')
    taken = literal or self.closest(action)
    low, high = before.lower(), after.lower()
    return MoveFacts(
      literal,
      taken,
      low,
      high,
      (low not in self.known) + (high not in self.known),
      (low, literal.lower(), high) in self.triples,
      (low, taken.lower(), high) in self.triples,
    )

  def _follow(self, start: str, actions: tuple[str, ...]) -> frozenset[str]:
    """Places reachable by the literal actions; empty if there are none."""
    places = frozenset([start])
    for action in actions:
      places = frozenset(
        after
        for place in places
        for after in self.moves.get(place, {}).get(action, ())
      )
    return places

  def _chance(self, truth: frozenset[str]) -> float:
    """Mean similarity of a place drawn at random with the best of the truth."""
    if not truth:
      return 0.0
    close = (max(similarity(p, t) for t in truth) for p in self.places)
    return sum(close) / len(self.places)


# The names of the three values, as the prompts of the two generations have
# them: the camera-ready one, and that of July 2023.
KEYS = (
  ('location_before', 'action', 'location_after'),
  ('prev_node', 'action', 'node'),
)
_KEY_WORDS = (
  *(tuple(map(replies.key_words, keys)) for keys in KEYS),
  ('from', 'action', 'to'),
)

# What can be wrong with an answer, besides what `replies` finds.
FAILURES = {
  **replies.FAILURES,
  'empty_list': 'a list without moves',
  'not_a_dict': 'a list of something else than dicts',
  'missing_key': 'a move without one of the three values',
  'wrong_type': 'a move with a value that is no text',
  'not_allowed': 'an action of a minigame that is not on the list',
}

# What the published programs would read: longer texts are no answers.
_LONGEST = 1 << 16


class MovesAnswer(NamedTuple):
  """The moves of a reply, or why it has none.

  Attributes:
    moves: of a well-formed answer.
    failure: '' of a well-formed answer, else a key of FAILURES.
    reasoning: characters of reasoning before it, which were not read.
  """

  moves: tuple[MazeMove, ...] = ()
  failure: str = ''
  reasoning: int = 0


def parse(
  text: str, actions: Sequence[str] = (), *, published: bool = False
) -> MovesAnswer:
  """Reads the moves of a reply.

  Args:
    text: any string; its last list of moves counts, see `values.records`.
    actions: of the game. A move that is none, and is one in another spelling,
      such as 'go north' or 'north (to the hall)', becomes that.
    published: reads as the published programs do: all from the first '[' to the
      first ']', as a Python literal, with the keys as they ask for them.
  """
  if published:
    value, failure = _first_bracket(text)
    reading = replies.Reading(value, failure or ill_formed(value, exact=True))
  else:
    reading = values.records(text, ill_formed)
  if reading.failure:
    return MovesAnswer((), reading.failure, reading.reasoning)
  names = action_names(tuple(actions))
  moves = []
  for item in reading.value:
    before, action, after = _move_values(item, published) or ('', '', '')
    place = names.item(action)
    action = action if place is None else actions[place]
    moves.append(MazeMove(before, action, after))
  return MovesAnswer(tuple(moves), '', reading.reasoning)


@functools.lru_cache(maxsize=64)
def action_names(actions: tuple[str, ...]) -> grammar.Spellings:
  return grammar.Spellings({name: k for k, name in enumerate(actions)})


def ill_formed(value: Any, exact: bool = False) -> str:
  """Why a value is no list of moves, a key of FAILURES; '' of one.

  exact: keys must be spelled as the prompts spell them.
  """
  if not isinstance(value, list):
    return 'nothing'
  for item in value:
    if not isinstance(item, dict):
      return 'not_a_dict'
    values = _move_values(item, exact)
    if values is None:
      return 'missing_key'
    if not all(type(part) is str for part in values):
      return 'wrong_type'
  return '' if value else 'empty_list'


def _move_values(
  item: dict[Any, Any], exact: bool = False
) -> tuple[Any, ...] | None:
  """The three values of a move, by either set of keys; None without one."""
  if not exact:
    item = {replies.key_words(str(key)): part for key, part in item.items()}
  for before, action, after in KEYS if exact else _KEY_WORDS:
    if before in item and action in item and after in item:
      return item[before], item[action], item[after]
  return None


def _first_bracket(text: str) -> tuple[Any, str]:
  """(value, failure) of what the published programs read."""
  start, end = text.find('['), text.find(']')
  if start < 0:
    return None, 'nothing' if text.strip() else 'empty'
  if end < start:
    return None, 'truncated' if end < 0 else 'nothing'
  if end - start > _LONGEST:
    return None, 'too_long'
  try:
    with warnings.catch_warnings():
      warnings.simplefilter('ignore')  # Of backslashes that mean nothing.
      return ast.literal_eval(text[start : end + 1]), ''
  except (SyntaxError, ValueError, TypeError):
    return None, 'malformed'
  except (MemoryError, RecursionError):  # What nests too deep for the parser.
    return None, 'too_deep'


class MazeQuestion(NamedTuple):
  """A question and what is known of it.

  Attributes:
    start: the place where the moves begin.
    target: the place that is right, or asked for.
    actions: to be followed, of a destination question; () of a route question.
    game: its name.
    kind: 'destination' or 'route'.
    key: the published id, SHA-256 of its path or its places.
    easy: whether what it needs was walked by the step that it is asked at.
    length: moves of its path; of a route, of the shortest.
    imputed: moves of its path that are only imputed; of a route -1.
  """

  start: str
  target: str
  actions: tuple[str, ...] = ()
  game: str = ''
  kind: str = ''
  key: str = ''
  easy: bool = True
  length: int = 0
  imputed: int = -1


class Score(NamedTuple):
  """Scores of one answer; all are 0 where it is ill-formed.

  Attributes:
    failure: '' where the answer is well-formed, else why not.
    success: what the paper reports: of a destination, the edit similarity with
      the right place; of a route, whether the place asked for is reached.
    exact: the same place, letter for letter but for case; of a route, reached
      without a repaired move.
    reasoning: whether the moves are right one by one, by the paper's rule.
    chance: `success` that a place drawn at random has; of a route 0.
    moves: of the answer.
    repaired: moves that are no action of the game.
    places: of the moves that no game has, of 2 * moves.
    edges: moves between places, that the graph does not have, of `moves`.
  """

  failure: str = ''
  success: float = 0.0
  exact: float = 0.0
  reasoning: float = 0.0
  chance: float = 0.0
  moves: int = 0
  repaired: int = 0
  places: int = 0
  edges: int = 0


def judge(graph: JudgeGraph, asked: MazeQuestion, answer: MovesAnswer) -> Score:
  """Scores 'where are you now?' of a question with actions, else a route.

  Right is each place that the actions lead to, or that of the question where
  the graph cannot follow them. The moves of a route are made one after the
  other.
  """
  truth = frozenset[str]()
  if asked.actions:
    reached = graph.follow(asked.start, asked.actions)
    truth = reached or frozenset([asked.target])
  chance = graph.chance(truth)
  if answer.failure:
    return Score(answer.failure, chance=chance)
  seen = [graph.facts(move) for move in answer.moves]
  unknown = [move.unknown for move in seen if not move.real]
  last = answer.moves[-1].after
  ends = [asked.start.lower(), *(move.after for move in seen)]
  linked = [move.before for move in seen] == ends[:-1]
  taken = tuple(move.taken for move in seen)
  success: float
  if asked.actions:
    exact = last.strip().lower() in {place.lower() for place in truth}
    success = exact or max(similarity(last, place) for place in truth)
    walked = taken == asked.actions and all(move.walks for move in seen)
  else:
    literal = tuple(move.literal for move in seen)
    exact = asked.target in graph.follow(asked.start, literal)
    success = asked.target in graph.follow(asked.start, taken)
    arrives = last.lower() == asked.target.lower()
    walked = arrives and all(move.real for move in seen)
  return Score(
    success=float(success),
    exact=float(exact),
    reasoning=float(linked and walked),
    chance=chance,
    moves=len(seen),
    repaired=sum(not move.literal for move in seen),
    places=sum(unknown),
    edges=unknown.count(0),
  )


# Scored answers as rows, and walks on the moves that steps show.

COLUMNS = [
  *('model', 'game', 'kind', 'key', 'easy', 'length', 'imputed'),
  *Score._fields,
]


def answer_row(model: str, asked: MazeQuestion, score: Score) -> dict[str, Any]:
  """A scored answer with the columns of COLUMNS, and others."""
  return {'model': model, **asked._asdict(), **score._asdict()}


def answer_frame(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
  """A table of rows; `failed` are ill-formed, `ends` places of their moves."""
  # Tuples take a fifth of the memory of mappings.
  values = [tuple(row[name] for name in COLUMNS) for row in rows]
  frame = pd.DataFrame(values, columns=COLUMNS)
  return frame.assign(failed=frame.failure != '', ends=2 * frame.moves)


def corrected(rows: pd.DataFrame) -> float | None:
  """Success above chance, over what is above chance: 0 guesses, 1 is right."""
  if not len(rows):
    return None
  chance = rows.chance.mean()
  return float((rows.success.mean() - chance) / (1 - chance))


# Place -> its moves: (action, place that it leads to).
Moves = dict[str, list[tuple[str, str]]]


def visible_moves(maze: mazes.Maze, step: int) -> Moves:
  """The moves that steps 0..step show."""
  moves: Moves = {place: [] for place in maze.places}
  for edge in np.flatnonzero(maze.edges.answerable.total <= step).tolist():
    source, action, target = maze.words(edge)
    moves[source].append((action, target))
  return moves


def walk(
  moves: Moves, start: str, target: str, actions: Sequence[str]
) -> list[MazeMove]:
  """A path of the actions, or a shortest one where there are none.

  An action that leads nowhere stays; [] where no path leads to the target.
  """
  paths: dict[str, list[MazeMove]] = {start: []}
  for name in actions:
    longer = {
      after: [*path, MazeMove(place, name, after)]
      for place, path in paths.items()
      for action, after in moves[place]
      if action == name
    }
    paths = longer or {
      place: [*path, MazeMove(place, name, place)]
      for place, path in paths.items()
    }
  if actions:
    return next(iter(paths.values()))
  places = [start]
  for place in places:  # It grows: breadth first.
    for action, after in moves[place]:
      if after not in paths:
        paths[after] = [*paths[place], MazeMove(place, action, after)]
        places.append(after)
  return paths.get(target, [])
