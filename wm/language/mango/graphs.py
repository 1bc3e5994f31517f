"""The graph that judges answers: what an action does, and what a text means.

A graph knows the places and moves of one game. Texts of a model are compared
with its names by edit similarity. Source: Ding et al. 2024, section 2.3 and
appendix A.6.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from wm import core

try:
  from rapidfuzz.distance import Levenshtein
except ImportError as error:
  raise core.InputError(
    "edit distances need the extra 'language': pip install -e '.[language]'"
  ) from error

OPPOSITES = {
  'north': 'south',
  'east': 'west',
  'northeast': 'southwest',
  'northwest': 'southeast',
  'up': 'down',
}
OPPOSITES |= {back: there for there, back in OPPOSITES.items()}

# What players type for a direction.
SHORT = {
  'n': 'north',
  's': 'south',
  'e': 'east',
  'w': 'west',
  'ne': 'northeast',
  'nw': 'northwest',
  'se': 'southeast',
  'sw': 'southwest',
  'u': 'up',
  'd': 'down',
}
_VERB = re.compile(r'^(?:go|walk|move|head|run|travel)\s+(?:to the\s+|to\s+)?')
_ARTICLE = re.compile(r'^(?:the|a|an)\s+')
_PUNCTUATION = re.compile(r'[^\w\s]+')

# Answers remembered by one cache: what a model may invent has no bound.
_KEPT = 1 << 16


class Edge(NamedTuple):
  """A move: its action leads from one place to another."""

  source: str
  action: str
  target: str


class Facts(NamedTuple):
  """What a graph knows of one move of an answer.

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
class Rules:
  """How answers are judged; the defaults are the published programs'.

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
    for name, known in (
      ('graph', ('loose', 'strict')),
      ('scope', ('graph', 'node')),
    ):
      given = {'graph': self.graph, 'scope': self.scope}[name]
      if given not in known:
        raise core.InputError(
          f'no {name} {given!r}; available: {", ".join(known)}'
        )
    if not 0 <= self.reject <= 1:
      raise core.InputError(f'reject={self.reject} is not between 0 and 1')


def similarity(text: str, name: str) -> float:
  """1 - edit distance / length of the longer one, of lower-cased texts.

  Two empty texts have 0, as in the published programs.
  """
  if not text and not name:
    return 0.0
  return Levenshtein.normalized_similarity(text.lower(), name.lower())


@functools.lru_cache(_KEPT)
def plain(text: str) -> str:
  """A name without case, article, punctuation and surplus blanks."""
  words = ' '.join(_PUNCTUATION.sub(' ', text).split()).lower()
  return _ARTICLE.sub('', words)


def direction(text: str) -> str:
  """A move as the games know it: `n`, `go north`, `Northwards` is `north`."""
  words = _VERB.sub('', ' '.join(text.split()).lower().rstrip('.!'))
  words = SHORT.get(words, words)
  for ending in ('wards', 'ward'):
    if words.removesuffix(ending) in OPPOSITES:
      return words.removesuffix(ending)
  return words


def best(text: str, names: Sequence[str]) -> tuple[str, float]:
  """(the most similar name, its similarity); the first of equal ones.

  ('', 0.0) of no names.
  """
  lowered = text.lower()
  found, most = '', -1.0
  for name in names:
    close = Levenshtein.normalized_similarity(
      lowered, name.lower(), score_cutoff=max(most, 0.0)
    )
    if close > most:
      found, most = name, close
  return (found, most if text or found else 0.0) if names else ('', 0.0)


_Key = TypeVar('_Key')
_Value = TypeVar('_Value')


def _kept(
  cache: dict[_Key, _Value], key: _Key, make: Callable[[], _Value]
) -> _Value:
  """The value of a key, made once as long as the cache has room."""
  if key not in cache:
    if len(cache) >= _KEPT:
      cache.clear()
    cache[key] = make()
  return cache[key]


class Graph:
  """Places and moves of one game, as they judge answers.

  Attributes:
    rules: how.
    places: all names, sorted.
    actions: all actions of moves, sorted.
    moves: place -> action -> places that it leads to, sorted: several where
      an action has several outcomes.
    triples: all moves, in lower case.
    known: all places, in lower case.
  """

  def __init__(
    self, edges: Iterable[tuple[str, str, str]], rules: Rules | None = None
  ) -> None:
    """Takes (source, action, target) of each move."""
    self.rules = rules or Rules()
    found = {Edge(*edge) for edge in edges}
    if self.rules.graph == 'loose':
      found |= {
        Edge(edge.target, OPPOSITES[edge.action], edge.source)
        for edge in found
        if edge.action in OPPOSITES
      }
    moves: dict[str, dict[str, tuple[str, ...]]] = {}
    for edge in sorted(found):
      there = moves.setdefault(edge.source, {})
      there[edge.action] = (*there.get(edge.action, ()), edge.target)
    self.moves: Mapping[str, Mapping[str, tuple[str, ...]]] = moves
    self.edges = frozenset(found)
    self.places = sorted({p for e in found for p in (e.source, e.target)})
    self.actions = sorted({edge.action for edge in found})
    self.triples = {tuple(text.lower() for text in edge) for edge in found}
    self.known = {place.lower() for place in self.places}
    self._literal = {action.lower(): action for action in self.actions}
    self._closest: dict[tuple[str, str], str] = {}
    self._named: dict[str, str] = {}
    self._followed: dict[tuple[str, tuple[str, ...]], frozenset[str]] = {}
    self._chances: dict[frozenset[str], float] = {}
    self._facts: dict[tuple[str, str, str], Facts] = {}

  def literal(self, action: str) -> str:
    """The action that a text is, but for case and blanks; '' where none."""
    return self._literal.get(action.strip().lower(), '')

  def closest(self, action: str, place: str = '') -> str:
    """The action that a text is taken for, '' where there is none.

    The most similar one, by edit distance; of equal ones the first in
    alphabetical order.

    place: where it is done; asked for by scope 'node' alone.
    """
    scoped = place if self.rules.scope == 'node' else ''
    return _kept(
      self._closest, (action, scoped), lambda: self._find(action, scoped)
    )

  def _find(self, action: str, place: str) -> str:
    if self.rules.aliases:
      action = direction(action)
    names: Sequence[str] = self.actions
    if self.rules.scope == 'node':
      names = list(self.moves.get(place, ()))
    found, close = best(action, names)
    return found if close >= self.rules.reject else ''

  def facts(self, move: tuple[str, str, str]) -> Facts:
    """What is known of (before, action, after) of an answer."""
    found = self._facts.get(move)
    if found is None:
      found = _kept(self._facts, move, lambda: self._look(*move))
    return found

  def _look(self, before: str, action: str, after: str) -> Facts:
    literal = self.literal(action)
    taken = literal or self.closest(action, before)
    low, high = before.lower(), after.lower()
    return Facts(
      literal,
      taken,
      low,
      high,
      (low not in self.known) + (high not in self.known),
      (before, action, after) in self.edges,
      (low, literal.lower(), high) in self.triples,
      (low, taken.lower(), high) in self.triples,
    )

  def place(self, text: str) -> str:
    """The place whose name is most similar; the first of equal ones."""
    found = self._named.get(text)
    if found is None:
      found = _kept(self._named, text, lambda: best(text, self.places)[0])
    return found

  def step(self, places: Iterable[str], action: str) -> frozenset[str]:
    """Where one may be after an action, from any of the places."""
    none: Mapping[str, tuple[str, ...]] = {}
    return frozenset(
      target
      for place in places
      for target in self.moves.get(place, none).get(action, ())
    )

  def follow(self, start: str, actions: Iterable[str]) -> frozenset[str]:
    """Where one may be after the actions, taken literally; empty: nowhere."""
    key = start, tuple(actions)
    found = self._followed.get(key)
    if found is None:
      found = _kept(self._followed, key, lambda: self._follow(*key))
    return found

  def _follow(self, start: str, actions: tuple[str, ...]) -> frozenset[str]:
    places = frozenset([start])
    for action in actions:
      places = self.step(places, action)
    return places

  def route(self, start: str, actions: Iterable[str]) -> frozenset[str]:
    """Where one may be after a model's moves, each taken for an action."""
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

  def chance(self, truth: frozenset[str]) -> float:
    """Mean similarity of a place drawn at random with the best of the truth."""

    found = self._chances.get(truth)
    if found is None:
      found = _kept(self._chances, truth, lambda: self._chance(truth))
    return found

  def _chance(self, truth: frozenset[str]) -> float:
    if not truth:
      return 0.0
    close = (max(similarity(p, t) for t in truth) for p in self.places)
    return sum(close) / len(self.places)
