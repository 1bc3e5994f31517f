"""An automaton that a model implies beside the world's own minimal automaton.

Both are followed together from the start, by tokens that are legal and
accepted. The pairs of states that are met name the differences:

    one state of the model with two of the world     merged
    one state of the world with two of the model     split
    a legal token that is not accepted in a pair     missing edge
    an accepted token that is not legal in a pair    extra edge

In pictures black arrows are legal and accepted, dashed grey ones are legal and
never accepted, red ones are accepted and illegal, as on the maps of implied
streets (Vafa et al. 2024, figure 3). States of one fill are one state for the
model; a state with a dashed ring is several. An automaton that is too large to
be drawn is a table of its differences.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import capabilities
from wm.core.predictor import Tokens
from wm.kernels import dfa
from wm.recon.learner import MooreMachine
from wm.worlds.base import diagram, svg

MOST = 1000  # States of a world that is compared state by state.
MEMBERS = 3  # Members that the name of a state of the world lists.


class Truth(NamedTuple):
  """The world's minimal automaton.

  Attributes:
    world: whose it is.
    automaton: its states in order of the shortest word that leads there.
    names: [S] of its states, several joined by ' = ' where they allow the same.
  """

  world: core.World
  automaton: MooreMachine
  names: list[str]


def truth(world: core.World) -> Truth:
  """The minimal automaton; InputError where there are more states than MOST."""
  states, delta = capabilities.enumerated(world, MOST)
  block = dfa.minimize(delta, np.zeros(len(delta), np.int32))
  first = np.unique(block, return_index=True)[1]
  written = capabilities.written(world, states)
  names = []
  for row in range(len(first)):
    members = written[block == row].tolist()
    more = [f'{len(members) - MEMBERS} more'] * (len(members) > MEMBERS)
    names.append(' = '.join([*members[:MEMBERS], *more]))
  heads = [
    {a + 1: int(block[row[a]]) for a in np.flatnonzero(row >= 0).tolist()}
    for row in delta[first]
  ]
  # States are numbered breadth first: one is reached before it is left.
  access: dict[int, Tokens] = {0: ()}
  for state in range(len(heads)):
    for token, head in heads[state].items():
      access.setdefault(head, (*access[state], token))
  words = [access[state] for state in range(len(heads))]
  return Truth(world, MooreMachine(words, [*map(tuple, heads)], heads), names)


class Separators:
  """The shortest suffixes that tell the states of an automaton apart.

  Attributes:
    lengths: [S, S] int32 tokens of such a suffix, the last of which is accepted
      from one state and not from the other; 0 where there is none.
  """

  def __init__(self, automaton: MooreMachine, vocab_size: int) -> None:
    self._table = automaton.table(vocab_size)
    legal = self._table != core.DEAD
    num = len(legal)
    self.lengths = np.zeros((num, num), np.int32)
    self._tokens = np.zeros((num, num), np.int32)
    for token in np.flatnonzero(legal.any(0)).tolist():
      self._note(legal[:, None, token] != legal[:, token], token, 1)
    for length in itertools.count(2):
      before = self.lengths > 0
      for token in np.flatnonzero(legal.any(0)).tolist():
        head = self._table[:, token]
        explored = head >= 0
        apart = before[head[:, None], head] & explored[:, None] & explored
        self._note(apart, token, length)
      if (before == (self.lengths > 0)).all():
        break

  def _note(self, apart: np.ndarray, token: int, length: int) -> None:
    new = apart & (self.lengths == 0)
    self.lengths[new], self._tokens[new] = length, token

  def suffix(self, first: int, second: int) -> Tokens:
    """The suffix of a pair; () where there is none."""
    tokens = []
    for _ in range(self.lengths[first, second]):
      tokens.append(int(self._tokens[first, second]))
      first, second = self._table[[first, second], tokens[-1]].tolist()
    return tuple(tokens)


def boundary_words(
  automaton: MooreMachine, separators: Separators
) -> list[Tokens]:
  """Words that lead to each state and over each edge, and what tells it apart.

  A model with no more states than the automaton, and the same answers to all of
  these, implies the same language (Chow 1978).
  """
  num = len(automaton.access)
  suffixes = {
    separators.suffix(first, second)[:-1]
    for first, second in itertools.combinations(range(num), 2)
  } | {()}
  reached = {
    word
    for access, edges in zip(automaton.access, automaton.heads, strict=True)
    for word in (access, *((*access, token) for token in edges))
  }
  words = {a + b for a, b in itertools.product(reached, suffixes)}
  return sorted(words, key=lambda word: (len(word), word))


@dataclasses.dataclass(frozen=True)
class DifferingEdge:
  """A difference at one token of a state of the world.

  Attributes:
    state: number in the world's automaton.
    token: id.
    kind: 'missing', legal and not accepted; or 'extra'.
    always: so in all states of the model that are met with this one.
    heads: of an extra edge, the world's states that the model takes it to lead
      to; () where it leads to none of these.
  """

  state: int
  token: int
  kind: str
  always: bool
  heads: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Differences:
  """See the head of the module.

  Attributes:
    pairs: state of the world -> states of the model that are met with it.
    edges: that differ.
    first: a shortest word after which accepted and legal tokens differ, None
      where they never do.
    told_apart: of the pairs of the world's states that the model reaches, how
      many it tells apart; and of how many.
    lengths: mean length of the shortest suffix that tells two states apart, in
      the world and in the model, over the pairs that both tell apart.
  """

  pairs: Mapping[int, tuple[int, ...]]
  edges: tuple[DifferingEdge, ...]
  first: Tokens | None
  told_apart: tuple[int, int]
  lengths: tuple[float, float] | None

  @property
  def merged(self) -> list[tuple[int, ...]]:
    """The world's states that share a state of the model, for each such one."""
    groups = [tails for tails in self.backwards().values() if len(tails) > 1]
    return sorted(set(groups))

  @property
  def split(self) -> dict[int, int]:
    """State of the world -> number of the model's, where these are several."""
    return {state: len(x) for state, x in self.pairs.items() if len(x) > 1}

  @property
  def distance(self) -> float:
    """2^-k, k the tokens before the first difference; 0 where none is met.

    The bisimulation distance of deterministic systems at a discount of 1/2.
    """
    return 0.0 if self.first is None else 0.5 ** len(self.first)

  def backwards(self) -> dict[int, tuple[int, ...]]:
    """State of the model -> the world's states that are met with it."""
    met: dict[int, list[int]] = {}
    for state, others in self.pairs.items():
      for other in others:
        met.setdefault(other, []).append(state)
    return {other: tuple(sorted(states)) for other, states in met.items()}


def compare(
  model: MooreMachine, world: MooreMachine, vocab_size: int
) -> Differences:
  """Compares both, as far as the model's automaton is explored."""
  words: dict[tuple[int, int], Tokens] = {(0, 0): ()}
  first, queue = None, [*words]
  for state, other in queue:  # Grows by the pairs that are new.
    word = words[state, other]
    if first is None and model.accepted[other] != world.accepted[state]:
      first = word
    for token, head in world.heads[state].items():
      pair = head, model.heads[other].get(token, core.DEAD)
      if pair[1] >= 0 and pair not in words:
        words[pair] = (*word, token)
        queue.append(pair)
  pairs: dict[int, tuple[int, ...]] = {}
  for state, other in sorted(words):
    pairs[state] = (*pairs.get(state, ()), other)
  if not any(0 in edges.values() for edges in model.heads):
    # The model says nothing before the first token: its start is no class of
    # its own where it has another one for the world's first state.
    pairs[0] = pairs[0][1:] or pairs[0]
  met = Differences(pairs, (), first, (0, 0), None)
  edges = _edges(model, world, met)
  return Differences(
    pairs, edges, first, *_apart(model, world, pairs, vocab_size)
  )


def _edges(
  model: MooreMachine, world: MooreMachine, met: Differences
) -> tuple[DifferingEdge, ...]:
  """The edges that differ, of the world's states that are met."""
  back = met.backwards()
  edges = []
  for state, others in met.pairs.items():
    legal = {*world.accepted[state]}
    sets = [{*model.accepted[other]} for other in others]
    all_accept, any_accepts = sets[0].intersection(*sets), sets[0].union(*sets)
    for token in sorted(legal - all_accept):
      always = token not in any_accepts
      edges.append(DifferingEdge(state, token, 'missing', always))
    for token in sorted(any_accepts - legal):
      heads = {model.heads[other].get(token, core.DEAD) for other in others}
      tails = {tail for head in heads for tail in back.get(head, ())}
      always = token in all_accept
      edges.append(
        DifferingEdge(state, token, 'extra', always, tuple(sorted(tails)))
      )
  return tuple(edges)


def _apart(
  model: MooreMachine,
  world: MooreMachine,
  pairs: Mapping[int, tuple[int, ...]],
  vocab_size: int,
) -> tuple[tuple[int, int], tuple[float, float] | None]:
  """`told_apart` and `lengths` of a Differences."""
  states = [*pairs]
  others = [pairs[state][0] for state in states]
  rows, columns = np.triu_indices(len(states), 1)
  theirs = Separators(world, vocab_size).lengths[np.ix_(states, states)]
  mine = Separators(model, vocab_size).lengths[np.ix_(others, others)]
  theirs, mine = theirs[rows, columns], mine[rows, columns]
  both = (mine > 0) & (theirs > 0)
  lengths = None
  if both.any():
    lengths = float(theirs[both].mean()), float(mine[both].mean())
  return (int(both.sum()), len(both)), lengths


# Pictures.

RIGHT = diagram.Stroke(svg.INK)
MISSING = diagram.Stroke('#9aa1ab', ' stroke-dasharray="4 3"', svg.FAINT)
EXTRA = diagram.Stroke(svg.HERE, '', svg.HERE)
LOOKS = {'right': RIGHT, 'missing': MISSING, 'extra': EXTRA}
# Of states that are one for the model: yellow, blue, green, violet, orange.
FILLS = '#f6dc85', '#a9cdf0', '#b5dfb9', '#d9bfe8', '#f3c19d'
UNMET = svg.LINE  # Of a state that the model never gets to.
APART = 24  # Pixels between arrows of different kinds.
STUB = 46  # Pixels of an arrow that leads to none of the world's states.
LISTED = 20  # Lines of a table of differences.

# (tail, head, kind) -> token strings; head DEAD is none of the world's states.
Arrows = dict[tuple[int, int, str], list[str]]


def draw(truth: Truth, comparison: Differences, title: str) -> str:
  """SVG of the world's minimal automaton, and where the model's differs."""
  final = _final(truth)
  arrows = _arrows(truth, comparison, final)
  inside = tuple(
    dict.fromkeys((tail, head) for tail, head, _ in arrows if head >= 0)
  )
  states = [k for k in range(len(truth.names)) if k != final]
  place = {state: row for row, state in enumerate(states)}
  pairs = tuple((place[tail], place[head]) for tail, head in inside)
  at = diagram.places(len(states), pairs)
  if not at:
    return _table(truth, comparison, title)
  if any(t == h and kind != 'right' for t, h, kind in arrows):
    at = [(x, y + 2 * APART) for x, y in at]  # Room for higher loops.
  parts = [diagram.heads(diagram.PLAIN, *LOOKS.values()), diagram.start(at[0])]
  for (tail, head, kind), symbols in arrows.items():
    ends = place[tail], place.get(head, core.DEAD)
    parts += _arrow(at, ends, kind, symbols, pairs)
  fills = _fills(comparison, final)
  for state in states:
    parts += _circle(truth, comparison, at[place[state]], state, fills)
  width, height = (max(axis) + diagram.MARGIN for axis in zip(*at, strict=True))
  notes = _notes(truth, comparison, fills)
  parts.append(svg.text(10, height + 14, title, more=svg.BOLD))
  parts += [
    svg.text(10, height + 34 + 18 * k, note, size=12, fill=svg.FAINT)
    for k, note in enumerate(notes)
  ]
  wide = max([width, *(20 + 6.5 * len(note) for note in [*notes, title])])
  return svg.picture(wide, height + 26 + 18 * len(notes), parts, title)


def _final(truth: Truth) -> int:
  """The state that only the end token leads to; DEAD without one."""
  if truth.world.end != core.DEAD:
    for heads in truth.automaton.heads:
      if truth.world.end in heads:
        return heads[truth.world.end]
  return core.DEAD


def _arrows(truth: Truth, comparison: Differences, final: int) -> Arrows:
  """All arrows but those of the end token, which is a ring."""
  kinds = {(e.state, e.token): e for e in comparison.edges}
  arrows: Arrows = {}
  for state, heads in enumerate(truth.automaton.heads):
    for token, head in heads.items():
      edge = kinds.get((state, token))
      kind = 'missing' if edge and edge.always else 'right'
      if token != truth.world.end and head != final:
        key = state, head, kind
        arrows.setdefault(key, []).append(truth.world.vocab[token])
  for edge in comparison.edges:
    if edge.kind == 'extra' and edge.token != truth.world.end:
      inside = [head for head in edge.heads if head != final]
      # One of several that are one for the model: its own state, if it can be.
      inside = [edge.state] * (edge.state in inside) + inside
      key = edge.state, inside[0] if inside else core.DEAD, 'extra'
      arrows.setdefault(key, []).append(truth.world.vocab[edge.token])
  return arrows


def _arrow(
  at: diagram.Places,
  ends: tuple[int, int],
  kind: str,
  symbols: list[str],
  pairs: tuple[tuple[int, int], ...],
) -> list[str]:
  (tail, head), look = ends, LOOKS[kind]
  if head == core.DEAD:
    x, y = at[tail]
    low, below = y + diagram.RADIUS, y + diagram.RADIUS + STUB
    return [
      diagram.path(f'M{x + 8:g} {low:g}L{x + 22:g} {below:g}', look),
      diagram.label((x + 30, below + 4), symbols, look),
    ]
  back = tail != head and (head, tail) in pairs
  bend = [*LOOKS].index(kind) * APART + diagram.BEND * back
  middle = diagram.label_place(at, tail, head, bend)
  return [
    diagram.arrow(at, tail, head, bend, look),
    diagram.label(middle, symbols, look),
  ]


def _circle(
  truth: Truth,
  comparison: Differences,
  place: tuple[float, float],
  state: int,
  fills: Mapping[int, str],
) -> list[str]:
  """A state: its ring is that of the end token, by what the model accepts."""
  edges = {(e.state, e.token): e for e in comparison.edges}
  edge = edges.get((state, truth.world.end))
  ring = ''
  if edge is not None and (edge.always or edge.kind == 'extra'):
    look = LOOKS[edge.kind]
    ring = f'stroke="{look.color}" stroke-width="1.8"{look.more}'
  elif truth.world.end in truth.automaton.heads[state]:
    ring = f'stroke="{svg.INK}"'
  fill = fills.get(state, svg.PAPER)
  parts = diagram.circle(place, truth.names[state], fill, svg.INK, ring)
  if state in comparison.split:
    dashes = f'stroke="{svg.HERE}" stroke-dasharray="3 3"'
    parts.append(svg.circle(*place, diagram.RADIUS + 4, 'none', dashes))
  return parts


def _fills(comparison: Differences, final: int) -> dict[int, str]:
  """Fill of each state that is merged with another, or never met."""
  fills: dict[int, str] = {}
  for number, group in enumerate(comparison.merged):
    inside = [state for state in group if state != final]
    for state in inside if len(inside) > 1 else ():
      fills.setdefault(state, FILLS[number % len(FILLS)])
  return fills


def _notes(
  truth: Truth,
  comparison: Differences,
  fills: Mapping[int, str],
) -> list[str]:
  """What the picture does not say by itself, a line each."""
  names = truth.names
  ends = {e.kind for e in comparison.edges if e.token == truth.world.end}
  rings = {'extra': 'red', 'missing': 'dashed'}
  end = truth.world.vocab[truth.world.end]
  notes = [f'a {rings[k]} inner ring: {end!r} is {k}' for k in sorted(ends)]
  for edge in comparison.edges:
    if edge.kind == 'missing' and not edge.always:
      notes.append(f'from {names[edge.state]} a token is missing in some words')
  notes += [
    f'{names[state]} is {number} states for the model'
    for state, number in comparison.split.items()
  ]
  if fills:
    notes.append('states of one colour are one state for the model')
  lost = len(names) - len(comparison.pairs)
  if lost:
    notes.append(f'{lost} states are never reached by accepted tokens')
  return [*dict.fromkeys(notes)][:LISTED]


def _table(truth: Truth, comparison: Differences, title: str) -> str:
  """The differences of an automaton that is too large to be drawn."""
  names = truth.names

  def row(edge: DifferingEdge) -> tuple[str, str, str, str]:
    heads = ' | '.join(names[head] for head in edge.heads[:2])
    return edge.kind, names[edge.state], truth.world.vocab[edge.token], heads

  rows = [row(edge) for edge in comparison.edges]
  rows += [
    ('merged', ' | '.join(names[k] for k in group[:3]), '', '')
    for group in comparison.merged
  ]
  rows += [
    ('split', names[k], '', f'{number} states')
    for k, number in comparison.split.items()
  ]
  if not rows:
    return svg.card(['no difference'], title)
  more = [f'and {len(rows) - LISTED} more'] * (len(rows) > LISTED)
  heads = ('difference', 'state', 'token', 'leads to')
  return svg.table(heads, rows[:LISTED], title, notes=more)
