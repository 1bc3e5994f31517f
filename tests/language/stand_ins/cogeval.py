"""CogEval's prompts read back: who leads where, what is had, what is asked.

A `Map` is made of the sentences of a prompt alone.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

Arc = tuple[str, str]

_SENTENCES = re.compile(r'(?<=[.?])\s+(?=[A-Z])')
_LIST = re.compile(r', (?:and |or )?| and | or ')
_CHANCE = re.compile(r'(.+?) with a probability of ([\d.]+)')


@dataclasses.dataclass
class Map:
  """What a prompt tells so far; nodes by name, in small letters.

  Attributes:
    arcs: steps that can be made, in the order told.
    rewards: node -> number.
    chances: (tail, head) -> probability.
    shown: node -> its name as the prompt writes it.
    before: the map before the first change, if there was one.
    kind: what is asked last: 'path', 'value', 'choice', 'count', or
      '' for nothing.
    start, goal: of the question.
  """

  arcs: dict[Arc, None] = dataclasses.field(default_factory=dict)
  rewards: dict[str, int] = dataclasses.field(default_factory=dict)
  chances: dict[Arc, float] = dataclasses.field(default_factory=dict)
  shown: dict[str, str] = dataclasses.field(default_factory=dict)
  before: Map | None = None
  kind: str = ''
  start: str = ''
  goal: str = ''

  def name(self, words: str) -> str:
    """The name in 'the rose field', 'Room 7', 'node K' and 'Amir'."""
    word = re.sub(r'^(?:the |room |node )+|(?: field)$', '', words, flags=re.I)
    self.shown.setdefault(word.lower(), word)
    return word.lower()

  def nodes(self, words: str) -> list[str]:
    """Names in a list."""
    return [self.name(word) for word in _LIST.split(words)]

  def neighbors(self, node: str) -> list[str]:
    """Whom a step joins to a node, whichever way it leads."""
    result = [b for a, b in self.arcs if a == node]
    return list(
      dict.fromkeys([*result, *(a for a, b in self.arcs if b == node)])
    )

  def everyone(self) -> list[str]:
    """All nodes that a step leads to or from."""
    return list(dict.fromkeys(node for arc in self.arcs for node in arc))

  def change(self) -> None:
    """Keeps the map as it is, as what was before; the first time only."""
    if self.before is None:
      kept = dict(self.arcs), dict(self.rewards), dict(self.chances)
      self.before = Map(*kept, self.shown)

  def add(self, tail: str, heads: list[str], *, back: bool) -> None:
    """New steps from a node to others, and back."""
    for head in heads:
      self.arcs[tail, head] = None
      if back:
        self.arcs[head, tail] = None

  def targets(self, tail: str, words: str) -> list[str]:
    """Nodes in a list, or 'any neighbor of X', or 'any other room'."""
    base = self.before or self
    near = re.fullmatch(r'(?:any|every) neighbor of (.+)', words)
    if near:
      return [n for n in base.neighbors(self.name(near[1])) if n != tail]
    if re.fullmatch(r'(?:any|every) other \w+', words):
      return [node for node in base.everyone() if node != tail]
    return self.nodes(words)


def _joined(outcome: Map, now: str, tail: str, heads: str) -> None:
  if now:
    outcome.change()
  node = outcome.name(tail)
  outcome.add(node, outcome.targets(node, heads), back=True)


def _leads(outcome: Map, now: str, tail: str, heads: str) -> None:
  if now:
    outcome.change()
  node = outcome.name(tail)
  if 'probability' not in heads:
    outcome.add(node, outcome.targets(node, heads), back=False)
    return
  for part in _LIST.split(heads):
    words, chance = _CHANCE.fullmatch(part).groups()  # type: ignore[union-attr]
    outcome.add(node, [outcome.name(words)], back=False)
    outcome.chances[node, outcome.name(words)] = float(chance)


def _branches(outcome: Map, tail: str, one: str, two: str) -> None:
  outcome.add(
    outcome.name(tail), [outcome.name(one), outcome.name(two)], back=True
  )


def _closed(outcome: Map, a: str, b: str) -> None:
  outcome.change()
  item, two = outcome.name(a), outcome.name(b)
  for arc in ((item, two), (two, item)):
    outcome.arcs.pop(arc, None)


def _portal(outcome: Map, tail: str, heads: str) -> None:
  outcome.change()
  node = outcome.name(tail)
  outcome.add(node, outcome.targets(node, heads), back=False)


def _reward(outcome: Map, now: str, number: str, node: str) -> None:
  if now:
    outcome.change()
  outcome.rewards[outcome.name(node)] = int(number)


def _donates(outcome: Map, now: str, node: str, number: str) -> None:
  _reward(outcome, now, number, node)


def _asks(kind: str) -> Callable[..., None]:
  def asked(outcome: Map, start: str = '', goal: str = '') -> None:
    outcome.kind = kind
    outcome.start = outcome.name(start) if start else ''
    outcome.goal = outcome.name(goal) if goal else ''

  return asked


# Whole sentences, the first that fits counts.
_READ: tuple[tuple[str, Callable[..., None]], ...] = (
  (
    r'find a shortest path between (.+), where you are, and (.+)',
    _asks('path'),
  ),
  (r'from (.+), what is the shortest path to the largest .*', _asks('value')),
  (r'which \w+ do you choose first from (.+?), (?:on|for) .*', _asks('choice')),
  (r'how many clusters of .*', _asks('count')),
  (
    r'from (.+), a passage on the left leads to (.+), and a passage on the '
    r'right leads to (.+)',
    _branches,
  ),
  (r'(.+) has two people who report to them: (.+) and (.+)', _branches),
  (r'two ways begin (?:in|at) (.+): (.+)', lambda m, *g: _leads(m, '', *g)),
  (
    r'the (?:door|path|way|edge) (?:between|from) (.+) (?:and|to) (.+) is '
    r'(?:locked|blocked|removed)',
    _closed,
  ),
  (r'(.+) and (.+) fell out and are no longer joined', _closed),
  (r'(.+) can no longer introduce you to (.+)', _closed),
  (
    r'there is a portal (?:in|at) .+, which leads one way, from (.+?) to (.+), '
    r'one at a time',
    _portal,
  ),
  (
    r'.+ has an instant connection portal, which leads one way, from (.+?) to '
    r'(.+), one at a time',
    _portal,
  ),
  (r'(now )?there is a chest with (\d+) dollars in (.+)', _reward),
  (r'(now )?you can get (\d+) flowers for free in (.+)', _reward),
  (r'(now )?there are (\d+) (?:coins|points) at (.+)', _reward),
  (r'(now )?(.+) is donating (\d+) books', _donates),
  (r'(now )?(.+?) is joined to (.+)', _joined),
  (r'(now )?(.+?) (?:leads to|can introduce you to) (.+)', _leads),
)
_COMPILED = tuple((re.compile(form, re.I), act) for form, act in _READ)


def read(text: str) -> Map | None:
  """The map that a prompt tells; None where it tells none, or asks nothing."""
  result = Map()
  for sentence in _SENTENCES.split(text.strip()):
    words = sentence.strip().removesuffix('.')
    for form, act in _COMPILED:
      match = form.fullmatch(words)
      if match:
        act(result, *match.groups(''))
        break
  return result if result.kind and result.arcs else None
