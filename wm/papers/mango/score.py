"""Answers to MANGO's questions: read as moves, and judged on a game's graph.

Source: Ding et al. 2024, section 2.3, appendices A.5 and A.6. Nothing of an
answer is ever run. Where the paper and its two programs differ, each rule has a
name: 'paper', 'july2023', 'camera_ready'.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import functools
import itertools
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from wm import core
from wm.core import inputs
from wm.models.serving import replies, structures

with inputs.extra('language', 'an edit distance'):
  from rapidfuzz.distance import Levenshtein

OPPOSITES = {
  'north': 'south',
  'east': 'west',
  'northeast': 'southwest',
  'northwest': 'southeast',
  'up': 'down',
}
OPPOSITES |= {back: ahead for ahead, back in OPPOSITES.items()}

_ARTICLE = re.compile(r'^(?:the|a|an)\s+')
_PUNCTUATION = re.compile(r'[^\w\s]+')

# Answers remembered by one cache: what a model may invent has no bound.
_CACHED = 1 << 16


class Edge(NamedTuple):
  """A move: its action leads from one place to another."""

  source: str
  action: str
  target: str


class MoveFacts(NamedTuple):
  """One move of an answer, compared with the graph.

  Attributes:
    literal: the action that it is, but for case and blanks; '' where none.
    taken: that, or the action that it is taken for.
    before, after: its places in lower case.
    unknown: how many of its two places no game has.
    edge: whether the graph has the move, letter for letter.
    real: the same but for case.
    walks: the same with the action that it is taken for.
  """

  literal: str
  taken: str
  before: str
  after: str
  unknown: int
  edge: bool
  real: bool
  walks: bool


@dataclasses.dataclass(frozen=True)
class JudgeRules:
  """Options of judging; the defaults are the published programs'.

  Attributes:
    graph: 'loose' adds the opposite of each move along a direction, whether or
      not the game allows it; 'strict' has the moves of the data alone.
    scope: a move that is not understood is taken for the closest action of the
      whole 'graph', or for the closest one at its 'node'.
    aliases: `n` is north and `go north` is north, before the closest action is
      looked for.
    reject: least edit similarity at which a move is taken for an action; below
      it one stays where one is.
  """

  graph: str = 'loose'
  scope: str = 'graph'
  aliases: bool = False
  reject: float = 0.0

  def __post_init__(self) -> None:
    """Raises InputError where a field has no such value."""
    for name, value, available in (
      ('graph', self.graph, ('loose', 'strict')),
      ('scope', self.scope, ('graph', 'node')),
    ):
      inputs.check_known(value, available, f'no {name} {value!r}')
    if not 0 <= self.reject <= 1:
      raise core.InputError(f'reject={self.reject} is not between 0 and 1')


def similarity(text: str, name: str) -> float:
  """1 - edit distance / length of the longer one, of lower-cased texts.

  Two empty texts have 0, as in the published programs.
  """
  if not text and not name:
    return 0.0
  return Levenshtein.normalized_similarity(text.lower(), name.lower())


@functools.lru_cache(_CACHED)
def plain(text: str) -> str:
  """A name without case, article, punctuation and surplus blanks."""
  words = ' '.join(_PUNCTUATION.sub(' ', text).split()).lower()
  return _ARTICLE.sub('', words)


def direction(text: str) -> str:
  """A move as the games know it: `n`, `go north`, `Northwards` is `north`."""
  words = replies.unabridged(' '.join(text.split()).lower().rstrip('.!'))
  for ending in ('wards', 'ward'):
    if words.removesuffix(ending) in OPPOSITES:
      return words.removesuffix(ending)
  return words


def best(text: str, names: Sequence[str]) -> tuple[str, float]:
  """(the most similar name, its similarity); the first of equal ones.

  ('', 0.0) of no names.
  """
  lowered = text.lower()
  closest, most = '', -1.0
  for name in names:
    close = Levenshtein.normalized_similarity(
      lowered, name.lower(), score_cutoff=max(most, 0.0)
    )
    if close > most:
      closest, most = name, close
  return (closest, most if text or closest else 0.0) if names else ('', 0.0)


class JudgeGraph:
  """Places and moves of one game, as they judge answers.

  Attributes:
    rules: how.
    places: all names, sorted.
    actions: all actions of moves, sorted.
    moves: place -> action -> places that it leads to, sorted: several where
      an action has several outcomes.
    triples: all moves, in lower case.
    known: all places, in lower case.
    facts, place, follow, chance: the methods _facts and so on, with a cache.
  """

  def __init__(
    self, edges: Iterable[tuple[str, str, str]], rules: JudgeRules | None = None
  ) -> None:
    """Takes (source, action, target) of each move."""
    self.rules = rules or JudgeRules()
    moves_known = {Edge(*edge) for edge in edges}
    if self.rules.graph == 'loose':
      moves_known |= {
        Edge(edge.target, OPPOSITES[edge.action], edge.source)
        for edge in moves_known
        if edge.action in OPPOSITES
      }
    moves: dict[str, dict[str, tuple[str, ...]]] = {}
    for edge in sorted(moves_known):
      by_action = moves.setdefault(edge.source, {})
      by_action[edge.action] = (*by_action.get(edge.action, ()), edge.target)
    self.moves: Mapping[str, Mapping[str, tuple[str, ...]]] = moves
    self.edges = frozenset(moves_known)
    self.places = sorted({p for e in moves_known for p in (e.source, e.target)})
    self.actions = sorted({edge.action for edge in moves_known})
    self.triples = {
      tuple(text.lower() for text in edge) for edge in moves_known
    }
    self.known = {place.lower() for place in self.places}
    self._literal = {action.lower(): action for action in self.actions}
    # Answers repeat each other; a cache per graph ends with it.
    cached = functools.lru_cache(_CACHED)
    self._closest = cached(self._find)
    self.facts = cached(self._facts)
    self.place = cached(self._place)
    self.follow = cached(self._follow)
    self.chance = cached(self._chance)

  def literal(self, action: str) -> str:
    """The action that a text is, but for case and blanks; '' where none."""
    return self._literal.get(action.strip().lower(), '')

  def closest(self, action: str, place: str = '') -> str:
    """The action that a text is taken for, '' where there is none.

    The most similar one, by edit distance; of equal ones the first in
    alphabetical order.

    place: where it is done; asked for by scope 'node' alone.
    """
    return self._closest(action, place if self.rules.scope == 'node' else '')

  def _find(self, action: str, place: str) -> str:
    if self.rules.aliases:
      action = direction(action)
    names: Sequence[str] = self.actions
    if self.rules.scope == 'node':
      names = list(self.moves.get(place, ()))
    closest, close = best(action, names)
    return closest if close >= self.rules.reject else ''

  def _facts(self, move: tuple[str, str, str]) -> MoveFacts:
    """Compares (before, action, after) of an answer with the graph."""
    before, action, after = move
    literal = self.literal(action)
    taken = literal or self.closest(action, before)
    low, high = before.lower(), after.lower()
    return MoveFacts(
      literal,
      taken,
      low,
      high,
      (low not in self.known) + (high not in self.known),
      (before, action, after) in self.edges,
      (low, literal.lower(), high) in self.triples,
      (low, taken.lower(), high) in self.triples,
    )

  def _place(self, text: str) -> str:
    """The place whose name is most similar; the first of equal ones."""
    return best(text, self.places)[0]

  def step(self, places: Iterable[str], action: str) -> frozenset[str]:
    """Places reachable by an action from any of the places."""
    none: Mapping[str, tuple[str, ...]] = {}
    return frozenset(
      target
      for place in places
      for target in self.moves.get(place, none).get(action, ())
    )

  def _follow(self, start: str, actions: tuple[str, ...]) -> frozenset[str]:
    """Places reachable by the literal actions; empty if there are none."""
    places = frozenset([start])
    for action in actions:
      places = self.step(places, action)
    return places

  def route(self, start: str, actions: Iterable[str]) -> frozenset[str]:
    """Places reachable by a model's moves, each matched to an action."""
    places = frozenset([start])
    for action in actions:
      literal = self.literal(action)
      if literal or self.rules.scope == 'graph':
        taken = literal or self.closest(action)
        # A move that is taken for none is none.
        places = self.step(places, taken) if taken else places
      else:
        reached: set[str] = set()
        for place in places:
          taken = self.closest(action, place)
          reached |= self.step([place], taken) if taken else {place}
        places = frozenset(reached)
      if not places:
        break
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

# How a list is found in a text.
BALANCED, FIRST_BRACKET = READINGS = 'balanced', 'first_bracket'

# What can be wrong with an answer, beside what `replies` finds.
FAILURES = {
  **replies.FAILURES,
  'empty_list': 'a list without moves',
  'not_a_dict': 'a list of something else than dicts',
  'missing_key': 'a move without one of the three values',
  'wrong_type': 'a move with a value that is no text',
}

# What the published programs would read: longer texts are no answers.
_LONGEST = 1 << 16


class AnswerMove(NamedTuple):
  """One move of an answer; texts are as the model wrote them."""

  before: str
  action: str
  after: str


class MovesAnswer(NamedTuple):
  """The moves of a reply, or why it has none.

  Attributes:
    moves: of a well-formed answer.
    failure: '' of a well-formed answer, else a key of FAILURES.
    reasoning: characters of reasoning before it, which were not read.
  """

  moves: tuple[AnswerMove, ...] = ()
  failure: str = ''
  reasoning: int = 0


def parse(
  text: str, rule: str = BALANCED, actions: Sequence[str] = ()
) -> MovesAnswer:
  """Reads the moves of a reply.

  Args:
    text: any string.
    rule: 'balanced' reads the last list of moves, see `structures.records`.
      'first_bracket' is the published programs': all from the first '[' to the
      first ']', as a Python literal.
    actions: of the game. A move that is none, and is one in another spelling,
      such as 'go north' or 'north (to the hall)', becomes that.

  Raises:
    InputError: there is no such rule.
  """
  text_of_rule = f'no rule {rule!r} for reading answers'
  inputs.check_known(rule, READINGS, text_of_rule)
  if rule == FIRST_BRACKET:
    value, failure = _first_bracket(text)
    reading = replies.Reading(value, failure or ill_formed(value))
  else:
    reading = structures.records(text, ill_formed)
  if reading.failure:
    return MovesAnswer((), reading.failure, reading.reasoning)
  names = action_names(tuple(actions))
  moves = []
  for item in reading.value:
    before, action, after = _move_values(item) or ('', '', '')
    place = names.item(action)
    action = action if place is None else actions[place]
    moves.append(AnswerMove(before, action, after))
  return MovesAnswer(tuple(moves), '', reading.reasoning)


@functools.lru_cache(maxsize=64)
def action_names(actions: tuple[str, ...]) -> replies.Spellings:
  return replies.Spellings({name: k for k, name in enumerate(actions)})


def ill_formed(value: Any) -> str:
  """Why a value is no list of moves, a key of FAILURES; '' of one."""
  if not isinstance(value, list):
    return 'nothing'
  for item in value:
    if not isinstance(item, dict):
      return 'not_a_dict'
    values = _move_values(item)
    if values is None:
      return 'missing_key'
    if not all(type(part) is str for part in values):
      return 'wrong_type'
  return '' if value else 'empty_list'


def _move_values(item: dict[Any, Any]) -> tuple[Any, ...] | None:
  """The three values of a move, by either set of keys; None without one."""
  for keys in KEYS:
    if all(key in item for key in keys):
      return tuple(item[key] for key in keys)
  return None


def _first_bracket(text: str) -> tuple[Any, str]:
  """(value, failure) of what the published programs read."""
  start, end = text.find('['), text.find(']')
  if start < 0:
    return None, 'nothing' if text.strip() else 'empty'
  if end < 0:
    return None, 'truncated'
  if end < start:
    return None, 'nothing'
  if end - start > _LONGEST:
    return None, 'too_long'
  try:
    return _literal(text[start : end + 1]), ''
  except (SyntaxError, ValueError, TypeError):
    return None, 'malformed'
  except (MemoryError, RecursionError):  # What nests too deep for the parser.
    return None, 'too_deep'


def _literal(text: str) -> Any:
  if '\\' not in text:
    return ast.literal_eval(text)
  with warnings.catch_warnings():
    warnings.simplefilter('ignore')  # Of backslashes that mean nothing.
    return ast.literal_eval(text)


def failures(read_answers: Iterable[MovesAnswer]) -> dict[str, int]:
  """Counts of failed answers by cause, a key of FAILURES, sorted by name."""
  counted = collections.Counter(a.failure for a in read_answers if a.failure)
  return dict(sorted(counted.items()))


class QuestionWords(NamedTuple):
  """The words of a question.

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


class _MovesSeen(NamedTuple):
  """An answer's moves, compared with the graph.

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


def _look(
  graph: JudgeGraph, start: str, moves: Sequence[AnswerMove]
) -> _MovesSeen:
  seen = [graph.facts(move) for move in moves]
  places = [start.lower(), *(move.after for move in seen[:-1])]
  literal = [move.literal for move in seen]
  unknown = [move.unknown for move in seen if not move.real]
  return _MovesSeen(
    [move.before for move in seen] == places,
    all(move.edge for move in seen),
    not unknown,
    all(move.walks for move in seen),
    [move.taken for move in seen],
    literal,
    (len(seen), literal.count(''), sum(unknown), unknown.count(0)),
  )


def destination(
  graph: JudgeGraph, asked: QuestionWords, answer: MovesAnswer
) -> Score:
  """Scores 'where are you now?'; right is each place that actions lead to.

  That is the place of the question where the graph cannot follow its actions.
  """
  truth = graph.follow(asked.start, asked.actions) or frozenset([asked.target])
  chance = graph.chance(truth)
  if answer.failure:
    return Score(answer.failure, chance=chance, reasoned=answer.reasoning)
  moves = answer.moves
  answered = moves[-1].after
  seen = _look(graph, asked.start, moves)
  hit = answered in truth
  exact = hit or answered.strip().lower() in {place.lower() for place in truth}
  walks = seen.linked and seen.walks
  actions = list(asked.actions)
  return Score(
    '',
    1.0 if exact else max(similarity(answered, place) for place in truth),
    float(exact),
    float(exact or plain(answered) in {plain(place) for place in truth}),
    float(hit or graph.place(answered) in truth),
    float(walks and seen.taken == actions),
    float(seen.edges and [move.action for move in moves] == actions),
    float(seen.edges and hit and _linked(moves)),
    chance,
    *seen.counts,
    answer.reasoning,
  )


def route(
  graph: JudgeGraph, asked: QuestionWords, answer: MovesAnswer
) -> Score:
  """Scores 'can you find a path?': the moves are made one after the other."""
  if answer.failure:
    return Score(answer.failure, reasoned=answer.reasoning)
  moves = answer.moves
  seen = _look(graph, asked.start, moves)
  reached = graph.route(asked.start, [move.action for move in moves])
  success = float(asked.target in reached)
  literal = graph.follow(asked.start, tuple(seen.literal))
  ends = moves[0].before == asked.start and moves[-1].after == asked.target
  arrives = moves[-1].after.lower() == asked.target.lower()
  return Score(
    '',
    success,
    float(asked.target in literal),
    success,
    max((similarity(place, asked.target) for place in reached), default=0.0),
    float(seen.linked and seen.real and arrives),
    float(seen.edges and ends),
    float(seen.edges and ends and _linked(moves)),
    0.0,
    *seen.counts,
    answer.reasoning,
  )


def _linked(moves: Sequence[AnswerMove]) -> bool:
  """Whether each move begins where the last one ended, letter for letter."""
  pairs = itertools.pairwise(moves)
  return all(last.after == move.before for last, move in pairs)
