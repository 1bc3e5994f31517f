"""An automaton that a model implies beside the world's own minimal automaton.

Both are followed together from the start, by tokens that are legal and
accepted. The pairs of states that are met name the differences:

    one state of the model with two of the world     merged
    one state of the world with two of the model     split
    a legal token that is not accepted in a pair     missing edge
    an accepted token that is not legal in a pair    extra edge
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
from wm.recon.learner import Automaton
from wm.worlds.base import exact

MOST = 1000  # States of a world that is compared state by state.
SHOWN = 3  # Members that the name of a state of the world lists.


class Truth(NamedTuple):
  """The world's minimal automaton.

  Attributes:
    automaton: its states in order of the shortest word that leads there.
    names: [S] of its states, several joined by ' = ' where they allow the same.
  """

  automaton: Automaton
  names: list[str]


def truth(world: core.World) -> Truth:
  """The minimal automaton; InputError where there are more states than MOST."""
  states, delta = exact.enumerated(world, MOST)
  block = dfa.minimize(delta, np.zeros(len(delta), np.int32))
  first = np.unique(block, return_index=True)[1]
  written = capabilities.written(world, states)
  names = []
  for row in range(len(first)):
    members = written[block == row].tolist()
    more = [f'{len(members) - SHOWN} more'] * (len(members) > SHOWN)
    names.append(' = '.join([*members[:SHOWN], *more]))
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
  return Truth(Automaton(words, [*map(tuple, heads)], heads), names)


class Separators:
  """The shortest suffixes that tell the states of an automaton apart.

  Attributes:
    lengths: [S, S] int32 tokens of such a suffix, the last of which is accepted
      from one state and not from the other; 0 where there is none.
  """

  def __init__(self, automaton: Automaton, vocab_size: int) -> None:
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
  automaton: Automaton, separators: Separators
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
class Edge:
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
class Comparison:
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
  edges: tuple[Edge, ...]
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
    """2^-k, k the tokens before the first difference; 0 where there is none.

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


def compare(model: Automaton, world: Automaton, vocab_size: int) -> Comparison:
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
  none = Comparison(pairs, (), first, (0, 0), None)
  edges = _edges(model, world, none)
  return dataclasses.replace(
    none, edges=edges, **_apart(model, world, pairs, vocab_size)
  )


def _edges(
  model: Automaton, world: Automaton, met: Comparison
) -> tuple[Edge, ...]:
  """The edges that differ, of the world's states that are met."""
  back = met.backwards()
  edges = []
  for state, others in met.pairs.items():
    legal = {*world.accepted[state]}
    sets = [{*model.accepted[other]} for other in others]
    for token in sorted(legal - set.intersection(*sets)):
      always = token not in set.union(*sets)
      edges.append(Edge(state, token, 'missing', always))
    for token in sorted(set.union(*sets) - legal):
      heads = {model.heads[other].get(token, core.DEAD) for other in others}
      known = {tail for head in heads for tail in back.get(head, ())}
      always = token in set.intersection(*sets)
      edges.append(Edge(state, token, 'extra', always, tuple(sorted(known))))
  return tuple(edges)


def _apart(
  model: Automaton,
  world: Automaton,
  pairs: Mapping[int, tuple[int, ...]],
  vocab_size: int,
) -> dict[str, object]:
  """`told_apart` and `lengths` of a Comparison."""
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
  return {'told_apart': (int(both.sum()), len(both)), 'lengths': lengths}
