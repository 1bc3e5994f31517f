"""The automaton that a model implies, compared with the world's minimal one.

Both are followed together from the start, by tokens that are legal and
accepted. The pairs of states that occur show the differences:

    one state of the model with two of the world     merged
    one state of the world with two of the model     split
    a legal token that is not accepted in a pair     missing edge
    an accepted token that is not legal in a pair    extra edge

`imply` learns the model's automaton, first along walks of the world. In a world
of at most MOST states it then learns the complete automaton, and tests it by
the world's boundaries and by walks of world and model.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import basics, capabilities
from wm.core.predictor import Tokens
from wm.evaluation.automaton_learner import (
  REJECTED,
  UNEXPLORED,
  Learner,
  MooreMachine,
  Teacher,
)
from wm.kernels import dfa
from wm.options.calls import Extraction
from wm.runtime import progress

MOST = 1000  # Most states of a world that is compared state by state.
ROUNDS = 50  # Most rounds of walks.
MEMBERS = 3  # Most equivalent states in the name of a class.


class Truth(NamedTuple):
  """The world's minimal automaton.

  Attributes:
    automaton: the automaton, its states in order of their shortest words.
    names: [S] names of its states; equivalent world states are joined by ' = '.
  """

  automaton: MooreMachine
  names: list[str]


def truth(world: core.World) -> Truth:
  """The minimal automaton; raises InputError above MOST states."""
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
  # States are numbered breadth first: a state is reached before it is left.
  access: dict[int, Tokens] = {0: ()}
  for state in range(len(heads)):
    for token, head in heads[state].items():
      access.setdefault(head, (*access[state], token))
  words = [access[state] for state in range(len(heads))]
  return Truth(MooreMachine(words, [*map(tuple, heads)], heads), names)


class Separators:
  """The shortest suffixes that separate the states of an automaton.

  Attributes:
    lengths: [S, S] int32 length of the suffix, whose last token is accepted
      from one state and not from the other; 0 if there is none.
  """

  def __init__(self, automaton: MooreMachine) -> None:
    num = len(automaton.heads)
    width = max(map(max, filter(None, automaton.heads)), default=0) + 1
    # [S, V] next states, DEAD for tokens that are not accepted.
    self._table = np.full((num, width), core.DEAD, np.int32)
    for state, edges in enumerate(automaton.heads):
      self._table[state, [*edges]] = [*edges.values()]
    legal = self._table != core.DEAD
    self.lengths = np.zeros((num, num), np.int32)
    self._tokens = np.zeros((num, num), np.int32)
    # Different sets of legal tokens separate states by one token.
    for token in np.flatnonzero(legal.any(0)).tolist():
      self._note(legal[:, None, token] != legal[:, token], token, 1)
    # Then states are separate if the same token leads to separate states.
    for length in itertools.count(2):
      before = self.lengths > 0
      for token in np.flatnonzero(legal.any(0)).tolist():
        explored = self._table[:, token] >= 0
        head = self._table[:, token].clip(0)
        apart = before[head[:, None], head] & explored[:, None] & explored
        self._note(apart, token, length)
      if (before == (self.lengths > 0)).all():
        break

  def _note(self, apart: np.ndarray, token: int, length: int) -> None:
    # Lengths ascend from call to call, so the first entry is the shortest.
    new = apart & (self.lengths == 0)
    self.lengths[new], self._tokens[new] = length, token

  def suffix(self, first: int, second: int) -> Tokens:
    """The suffix of a pair; () if there is none."""
    tokens = []
    for _ in range(self.lengths[first, second]):
      tokens.append(int(self._tokens[first, second]))
      first, second = self._table[[first, second], tokens[-1]].tolist()
    return tuple(tokens)


def boundary_words(automaton: MooreMachine, most: int) -> list[Tokens]:
  """Words to each state and over each edge, followed by separating suffixes.

  A model with no more states than the automaton, and the same answers to all of
  these words, implies the same language (Chow 1978).

  most: maximum number of words; the shortest come first, sorted within each
    length.
  """
  separators = Separators(automaton)
  # A suffix's last token is among the accepted tokens before it, or not.
  suffixes = {
    separators.suffix(first, second)[:-1]
    for first, second in itertools.combinations(range(len(automaton.access)), 2)
  } | {()}
  reached = {
    word
    for access, edges in zip(automaton.access, automaton.heads, strict=True)
    for word in (access, *((*access, token) for token in edges))
  }
  first, last = (
    {n: [*group] for n, group in itertools.groupby(sorted(x, key=len), len)}
    for x in (reached, suffixes)
  )
  words: list[Tokens] = []
  # A length at a time: there may be many more words than needed.
  for length in range(max(first) + max(last) + 1):
    if len(words) >= most:
      break
    words += sorted(
      {
        a + b
        for size, starts in first.items()
        for a, b in itertools.product(starts, last.get(length - size, ()))
      }
    )
  return words[:most]


@dataclasses.dataclass(frozen=True)
class Differences:
  """Differences of two automata; see the module.

  Attributes:
    pairs: state of the world -> states of the model that occur with it.
    edges: tokens at which a state of the world differs, by name: its `kind` is
      missing, legal and not accepted, or extra, accepted and not legal;
      `always` if it differs in all states of the model that occur with this
      state; `to` lists, of an extra edge, the world's states that the model
      treats as its head.
    first: a shortest word after which accepted and legal tokens differ, None
      if they never do.
    told_apart: number of pairs of the world's states that the model separates,
      and number of pairs that it reaches.
  """

  pairs: Mapping[int, tuple[int, ...]]
  edges: list[dict[str, Any]]
  first: Tokens | None
  told_apart: tuple[int, int]

  @property
  def merged(self) -> list[tuple[int, ...]]:
    """Groups of the world's states that share a state of the model."""
    groups = {x for x in backwards(self.pairs).values() if len(x) > 1}
    return sorted(groups)

  @property
  def split(self) -> dict[int, int]:
    """State of the world -> number of the model's states, if above 1."""
    return {state: len(x) for state, x in self.pairs.items() if len(x) > 1}

  @property
  def distance(self) -> float:
    """2^-k for k tokens before the first difference; 0 without a difference.

    It is the bisimulation distance of deterministic systems at a discount of
    1/2.
    """
    return 0.0 if self.first is None else 0.5 ** len(self.first)


def backwards(
  pairs: Mapping[int, tuple[int, ...]],
) -> dict[int, tuple[int, ...]]:
  """State of the model -> the world's states that occur with it, ascending."""
  met: dict[int, tuple[int, ...]] = {}
  for state, others in sorted(pairs.items()):
    met |= {other: (*met.get(other, ()), state) for other in others}
  return met


def compare(
  model: MooreMachine, truth: Truth, vocab: Sequence[str]
) -> Differences:
  """Compares both, as far as the model's automaton is explored."""
  world = truth.automaton
  # Breadth first, so that the first difference is after a shortest word.
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
    # The model predicts nothing before the first token: its start does not
    # count as a class if another one occurs with the world's first state.
    pairs[0] = pairs[0][1:] or pairs[0]
  # Each pair of the world's states that occur counts once; all of them are
  # apart in the world, whose automaton is minimal.
  others = [pairs[state][0] for state in pairs]
  apart = Separators(model).lengths[np.ix_(others, others)] > 0
  rows, columns = np.triu_indices(len(pairs), 1)
  told_apart = int(apart[rows, columns].sum()), len(rows)
  return Differences(
    pairs, _edges(model, truth, pairs, vocab), first, told_apart
  )


def _edges(
  model: MooreMachine,
  truth: Truth,
  pairs: Mapping[int, tuple[int, ...]],
  vocab: Sequence[str],
) -> list[dict[str, Any]]:
  """`edges` of a Differences."""
  back, edges = backwards(pairs), []
  for state, others in pairs.items():
    legal = {*truth.automaton.accepted[state]}
    sets = [{*model.accepted[other]} for other in others]
    all_accept, any_accepts = sets[0].intersection(*sets), sets[0].union(*sets)
    missing, extra = sorted(legal - all_accept), sorted(any_accepts - legal)
    for token in (*missing, *extra):
      kind, always, tails = 'missing', token not in any_accepts, set[int]()
      if token not in legal:
        kind, always = 'extra', token in all_accept
        heads = {model.heads[other].get(token, core.DEAD) for other in others}
        # The world's states that the model treats as the edge's head.
        tails = {tail for head in heads for tail in back.get(head, ())}
      edges.append(
        {
          'state': truth.names[state],
          'token': vocab[token],
          'kind': kind,
          'always': always,
          'to': [truth.names[tail] for tail in sorted(tails)],
        }
      )
  return edges


@dataclasses.dataclass(frozen=True)
class Implied:
  """The automaton that a model implies, and the world's.

  Attributes:
    world: world of the tokens.
    teacher: the model's answers.
    learner: learner with the automaton.
    truth: the world's minimal automaton; None if it is too large.
    too_large: reason why truth is None, or ''.
    stopped: the budget that was used up, '200 states' or 'queries', or ''.
    rounds: number of rounds of walks.
  """

  world: core.World
  teacher: Teacher
  learner: Learner
  truth: Truth | None
  too_large: str
  stopped: str
  rounds: int

  @property
  def automaton(self) -> MooreMachine:
    """The model's automaton."""
    return self.learner.automaton

  def compare(self) -> Differences | None:
    """All differences; None without truth."""
    if self.truth is None:
      return None
    return compare(self.automaton, self.truth, self.world.vocab)

  def places(self, words: Sequence[Tokens]) -> Places:
    """Compares accepted with legal tokens at positions of the world's words.

    The positions are those of next_token with a legal token: from the last
    token of the prompt on. The model is asked as far as the budget allows.
    """
    self.teacher.answers(words)
    self.learner.explore(words)
    world, parts = self.world, list[tuple[int, ...]]()
    # The world advances all sequences together; the automaton whole sequences.
    follows = [self.automaton.follow(word) for word in words]
    states = world.init(len(words))
    for k in range(max(map(len, words), default=0) + 1):
      rows = [row for row, word in enumerate(words) if len(word) >= k]
      if k:
        tokens = np.array([words[row][k - 1] for row in rows], np.int32)
        states[rows] = world.advance(states[rows], tokens)
      # Positions start at the end of the prompt, or after the first token.
      if k < max(world.prompt_len, 1):
        continue
      for row, legal in zip(rows, world.legal(states[rows]), strict=True):
        truth = tuple(np.flatnonzero(legal).tolist())
        if not truth:
          continue
        # A walk that left the automaton stays outside, where no token is
        # accepted, not even the end.
        state = follows[row][min(k, len(follows[row]) - 1)]
        accepted = self.automaton.accepted[state] if state >= 0 else REJECTED
        answer = self.teacher.known(words[row][:k])
        unlike = -1 if answer is None else int(accepted != answer)
        if state == UNEXPLORED:
          unlike = -1
        parts.append((row, k, state, accepted != truth, unlike))
    return Places(*np.array(parts, np.int64).reshape(-1, 5).T)


class Places(NamedTuple):
  """Positions of sequences, in order of their length.

  Attributes:
    row: [P] number of the sequence.
    length: [P] tokens before the position.
    state: [P] state of the automaton; UNEXPLORED, or DEAD if it rejects the
      sequence.
    wrong: [P] 1 if the automaton accepts other tokens than the legal ones.
    unlike: [P] 1 if automaton and model accept different tokens; -1: unknown.
  """

  row: np.ndarray
  length: np.ndarray
  state: np.ndarray
  wrong: np.ndarray
  unlike: np.ndarray


def imply(
  predictor: core.Predictor,
  world: core.World,
  accept: rules.Accept,
  options: Extraction,
  seed: int,
) -> Implied:
  """Learns the automaton of the tokens that a model accepts.

  At least half of the queries are left for later questions.

  Raises:
    InputError: the model only answers yes or no, or `depth` is out of range.
  """
  if isinstance(predictor, core.QueryModel):
    raise core.InputError(
      'the model only answers yes or no; expected one that gives the '
      'probabilities of all next tokens'
    )
  least = max(world.prompt_len, 1) + 1
  longest = min(world.max_len, predictor.max_len)
  depth = options.depth or longest
  if not least <= depth <= longest:
    raise core.InputError(
      f'depth={depth}: expected {least} to {longest} tokens'
    )
  # The other half is for the sequences that judge the automaton.
  budget = options.queries // 2
  teacher = Teacher(predictor, world, accept, depth=depth, budget=budget)
  why = ''
  try:
    truth_or_none: Truth | None = truth(world)
  except core.InputError as error:
    truth_or_none, why = None, str(error)
  walker = Walker(world, options.walks, depth - 1, seed)
  with progress.Progress('automaton', budget, 'queries'):
    learner = Learner(teacher, options.most)
    rounds = _learn(learner, teacher, truth_or_none, walker)
  stopped = 'queries' if teacher.queries >= budget else ''
  if learner.blocked:
    stopped = f'{options.most} states'
  teacher.budget = options.queries
  return Implied(world, teacher, learner, truth_or_none, why, stopped, rounds)


def _learn(
  learner: Learner, teacher: Teacher, truth: Truth | None, walker: Walker
) -> int:
  """Learns until a round of walks shows nothing wrong; returns the rounds."""
  numbers = iter(range(ROUNDS))
  rounds = 0

  def until_right(draw: Callable[[int], list[Tokens]]) -> None:
    nonlocal rounds
    for number in numbers:
      if teacher.queries >= teacher.budget:
        break
      rounds += 1
      if not learner.learn(draw(number)):
        break

  # Sequences of the world come first, as they need the budgets most.
  until_right(walker.legal)
  if truth is not None:
    # A model with no more states that passes all boundaries equals the world.
    learner.complete()
    learner.learn(boundary_words(truth.automaton, teacher.budget // 4))
    until_right(
      lambda number: [
        *walker.legal(number),
        *walker.accepted(number, learner.automaton),
      ]
    )
  return rounds


class Walker(NamedTuple):
  """Draws random walks.

  Attributes:
    world: world of the sequences.
    num: walks of each kind in a round.
    room: maximum tokens of a walk.
    seed: seed of all walks.
  """

  world: core.World
  num: int
  room: int
  seed: int

  def legal(self, number: int) -> list[Tokens]:
    """Sequences of the world for round `number`."""
    seed = int(basics.hash64(self.seed, number) % (1 << 31))
    sequences = self.world.sample(self.num, seed)
    lengths = np.minimum(sequences.lengths, self.room)
    return core.predictor.histories(sequences.tokens, lengths)

  def accepted(self, number: int, automaton: MooreMachine) -> list[Tokens]:
    """Walks of a hypothesis, uniform over the accepted tokens of each state.

    Up to the first difference of hypothesis and model they are walks of the
    model.
    """
    places = np.arange(self.num)[:, None], np.arange(self.room)
    draws = basics.uniforms(self.seed, number, *places).tolist()
    words = []
    for row in draws:
      state, word = 0, list[int]()
      for draw in row:
        if state < 0 or not (accepted := automaton.accepted[state]):
          break
        word.append(accepted[int(draw * len(accepted))])
        state = automaton.heads[state][word[-1]]
      words.append(tuple(word))
    return words
