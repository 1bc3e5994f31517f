"""Learns the minimal automaton of a model's accepted tokens, by queries.

A word is in the model's language if each of its tokens is accepted after those
before it. One forward pass of a word therefore answers all of its beginnings,
and all next tokens of each at once: the automaton is learned as a Moore machine
whose output is the set of accepted next tokens, and a query is a word.

Words are told apart by their answers to suffixes, in a discrimination tree
(Kearns and Vazirani 1994); a counterexample gives one suffix more (Rivest and
Schapire 1993). All queries of a level of the tree go through the model
together.

    ''            accepted after the word itself
     +- {a, b}    state 0
     +- {end}     'a'       what is accepted after the word and 'a'
                   +- {b}   state 1
                   +- {}    state 2
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import queries
from wm.core.predictor import Tokens
from wm.runtime import progress

BATCH = 512  # Words of a forward pass, and of each stored part of answers.
# Outputs are ascending tokens; this is the output of a rejected word.
REJECTED: Tokens = (core.DEAD,)
# Head of an edge that was not asked for.
UNEXPLORED = -2
# A word's answers on its path down the tree.
Key = tuple[Any, ...]


class MooreMachine(NamedTuple):
  """A Moore machine over accepted next tokens, state 0 first.

  Attributes:
    access: a word that leads to each state.
    accepted: the tokens accepted in each state, ascending.
    heads: accepted token -> next state, or UNEXPLORED.
  """

  access: list[Tokens]
  accepted: list[Tokens]
  heads: list[dict[int, int]]

  def into(self, head: int) -> list[tuple[int, int]]:
    """(state, token) of each edge that leads to a state, or is UNEXPLORED."""
    return [
      (state, token)
      for state, edges in enumerate(self.heads)
      for token, after in edges.items()
      if after == head
    ]

  def follow(self, word: Tokens) -> list[int]:
    """States of a word from state 0 on, up to DEAD or UNEXPLORED."""
    states = [0]
    for token in word:
      states.append(self.heads[states[-1]].get(token, core.DEAD))
      if states[-1] < 0:
        break
    return states


class Teacher:
  """Answers which tokens a model accepts after words; caches every answer.

  Tokens up to the prompt's end, or the first token, are accepted by the world's
  rules, because models do not predict them. No token is accepted after the end
  of a sequence.

  Attributes:
    depth: longest word; the tokens accepted after it are not asked for.
    budget: maximum number of queries.
    queries: number of words that the model has read.
  """

  def __init__(
    self,
    predictor: core.Predictor,
    world: core.World,
    accept: rules.Accept,
    *,
    depth: int,
    budget: int,
  ) -> None:
    """accept: rule by which a token is accepted."""
    self._predictor, self._world, self._accept = predictor, world, accept
    self._start = max(world.prompt_len, 1)
    self.depth, self.budget, self.queries = depth, budget, 0
    # None of words of `depth` tokens that are not over.
    self._answers: dict[Tokens, Tokens | None] = {}
    first = world.legal(world.init(1))[0]
    self._answers[()] = tuple(np.flatnonzero(first).tolist())

  def known(self, word: Tokens) -> Tokens | None:
    """Tokens accepted after a word, or REJECTED; None if unknown."""
    answer = self._answers.get(word)
    if answer is not None:
      return answer
    # A word is rejected as soon as one of its beginnings is.
    for size in range(len(word)):
      before = self._answers.get(word[:size])
      if before is None:
        break
      if word[size] not in before:
        return self._answers.setdefault(word, REJECTED)
    return None

  def _settle(self, words: Iterable[Tokens]) -> None:
    """Records which words of full length are over by the world's rules."""
    whole = {w[: self.depth] for w in words if len(w) >= self.depth}
    new = [
      word
      for word in whole - self._answers.keys()
      if word[-1] in (self._answers.get(word[:-1]) or ())
    ]
    ended = [word[-1] == self._world.end for word in new]
    if new and self._world.end == core.DEAD:
      steps, states = self._world.walk(
        self._world.init(len(new)), np.array(new), np.full(len(new), self.depth)
      )
      ended = ((steps == self.depth) & self._world.over(states)).tolist()
    for word, over in zip(new, ended, strict=True):
      self._answers[word] = () if over else None

  def answers(self, words: Iterable[Tokens]) -> list[Tokens | None]:
    """`known` of each word, after asking as far as depth and budget allow."""
    words = [*words]
    # The word without its last token shows whether a full word is accepted.
    beginnings = {w[: self.depth - 1] for w in words if self.known(w) is None}
    asked = sorted(word for word in beginnings if self.known(word) is None)
    # A longest word answers for all of its beginnings.
    asked = [
      word
      for word, after in itertools.pairwise([*asked, ()])
      if after[: len(word)] != word
    ][: max(self.budget - self.queries, 0)]
    for start in range(0, len(asked), BATCH):
      self._ask(asked[start : start + BATCH])
      progress.report(self.queries, self.budget)
    self._settle(words)
    return [self.known(word) for word in words]

  def _ask(self, words: Sequence[Tokens]) -> None:
    """One forward pass of some words."""
    tokens, lengths = queries.table(words)
    self.queries += len(words)
    packed = self._masks(tokens, lengths)
    # Few sets differ: each is listed once.
    sets, which = np.unique(
      packed.reshape(-1, packed.shape[-1]), axis=0, return_inverse=True
    )
    bits = np.unpackbits(sets, axis=1, count=len(self._world.vocab))
    listed = [tuple(np.flatnonzero(row).tolist()) for row in bits]
    rows: Any = which.reshape(tokens.shape).tolist()
    for word, numbers in zip(words, rows, strict=True):
      for size in range(1, len(word) + 1):
        if word[size - 1] not in (self._answers[word[: size - 1]] or ()):
          break  # `known` rejects the rest.
        self._answers.setdefault(word[:size], listed[numbers[size - 1]])

  def _masks(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[R, L, V / 8] uint8 packed sets accepted after each token."""
    world = self._world
    masks = np.zeros((*tokens.shape, len(world.vocab)), bool)
    for rows, log_probs in core.predictor.log_probs_by_rows(
      self._predictor, tokens, lengths
    ):
      array = np.asarray(log_probs)
      masks[rows, : array.shape[1]] = self._accept.mask(array)
    states, over = world.init(len(tokens)), np.zeros(len(tokens), bool)
    for k in range(tokens.shape[1]):
      states = world.advance(states, tokens[:, k])
      if world.end == core.DEAD:
        over = world.over(states)
      else:
        over |= tokens[:, k] == world.end
      masks[over, k] = False
      if k + 1 < self._start:
        masks[:, k] = world.legal(states)
    masks[..., core.PAD] = False
    return np.packbits(masks, axis=-1)


class Learner:
  """A hypothesis: each edge leads to a state, or is unexplored.

  At first it is explored along words alone, which suits automata of more states
  than can be listed; `complete` explores all of it.

  Attributes:
    most: maximum number of states; edges to further ones are unexplored.
    automaton: the hypothesis.
    blocked: whether a further state was needed.
  """

  def __init__(self, teacher: Teacher, most: int) -> None:
    self._teacher, self.most = teacher, most
    # Inner node of the tree -> suffix, and leaf -> state.
    self._suffixes: dict[Key, Tokens] = {(): ()}
    self._states: dict[Key, int] = {}
    self._whole = False  # New states are left by all of their edges.
    self.automaton, self.blocked = MooreMachine([], [], []), False
    (start,) = self._keys([()])
    assert start is not None
    self._add(start, ())

  def _keys(self, words: Sequence[Tokens]) -> list[Key | None]:
    """The leaf of each word; None without an answer of the teacher."""
    keys: list[Key | None] = [()] * len(words)
    rows = [*range(len(words))]
    # All words go down by one level at a time: one batch of queries for each.
    while rows:
      inner = [(row, key) for row in rows if (key := keys[row]) is not None]
      asked = [words[row] + self._suffixes[key] for row, key in inner]
      answers = self._teacher.answers(asked)
      for (row, key), answer in zip(inner, answers, strict=True):
        keys[row] = None if answer is None else (*key, answer)
      rows = [row for row in rows if keys[row] in self._suffixes]
    return keys

  def complete(self) -> None:
    """Finds the heads of all edges, as far as the budgets allow."""
    self._whole = True
    self._close(self.automaton.into(UNEXPLORED))

  def explore(self, words: Iterable[Tokens]) -> None:
    """Finds the heads of edges along words, as far as budgets allow."""
    tried = set[tuple[int, int]]()
    # Each pass advances all words by an edge, with one batch of queries.
    while True:
      ends = {word: self.automaton.follow(word) for word in words}
      words = [word for word, end in ends.items() if end[-1] == UNEXPLORED]
      edges = {(ends[word][-2], word[len(ends[word]) - 2]) for word in words}
      # An edge that was tried has met a budget.
      if edges <= tried:
        break
      self._close(sorted(edges - tried))
      tried |= edges

  def _has_room(self) -> bool:
    """May another state be added? If not, sets `blocked`."""
    self.blocked |= len(self._states) >= self.most
    return len(self._states) < self.most

  def _close(self, edges: list[tuple[int, int]]) -> None:
    """Finds the heads of edges (state, token)."""
    access, accepted, heads = self.automaton
    while edges:
      words = [(*access[state], token) for state, token in edges]
      new: list[tuple[int, int]] = []
      for edge, word, key in zip(edges, words, self._keys(words), strict=True):
        if key is None:
          # The suffix that would decide it is too long, or a budget is spent.
          head = self._similar(word)
        elif key in self._states or not self._has_room():
          head = self._states.get(key, UNEXPLORED)
        else:
          head = self._add(key, word)
          if self._whole:
            new += [(head, after) for after in accepted[head]]
        heads[edge[0]][edge[1]] = head
      edges = new

  def _similar(self, word: Tokens) -> int:
    """The first state that no answer within the depth separates from a word.

    Words whose suffixes do not fit are merged if possible (cover automata,
    Campeanu et al. 2001); UNEXPLORED if there is none, or no budget.
    """
    if self._teacher.queries >= self._teacher.budget:
      return UNEXPLORED
    states = ((state, key) for key, state in self._states.items())
    for state, key in sorted(states, key=lambda item: item[0]):
      if all(
        self._teacher.known(word + self._suffixes[key[:size]]) in (None, answer)
        for size, answer in enumerate(key)
      ):
        return state
    return UNEXPLORED

  def _add(self, key: Key, word: Tokens) -> int:
    """Adds the state to which a word leads."""
    accepted = self._teacher.known(word)
    assert accepted is not None  # Every key begins with this answer.
    self.automaton.access.append(word)
    self.automaton.accepted.append(accepted)
    self.automaton.heads.append(dict.fromkeys(accepted, UNEXPLORED))
    return self._states.setdefault(key, len(self._states))

  def wrong_at(self, word: Tokens) -> int | None:
    """Number of tokens before the first wrong answer on a word, or None."""
    accepted = self.automaton.accepted
    for size, state in enumerate(self.automaton.follow(word)):
      if state < 0:
        return None  # Not accepted by both, or unexplored.
      answer = self._teacher.known(word[:size])
      if answer is None:
        return None
      if answer != accepted[state]:
        return size
    return None

  def is_wrong(self, word: Tokens) -> bool:
    """Is the hypothesis wrong about a word, or is the word unexplored?"""
    unexplored = self.automaton.follow(word)[-1] == UNEXPLORED
    return unexplored or self.wrong_at(word) is not None

  def learn(self, words: Sequence[Tokens]) -> bool:
    """Splits states until all words are right; returns if any was wrong."""
    self._teacher.answers(words)
    learned, again = False, True
    # A split leaves edges unexplored, after which a word may be wrong again.
    while again:
      self.explore(words)
      again = False
      for word in words:
        while (size := self.wrong_at(word)) and self.refine(word[:size]):
          learned = again = True
    return learned

  def refine(self, word: Tokens) -> bool:
    """Splits a state by a word after which the hypothesis is wrong.

    Returns:
      False if no further state is allowed, or if no answer within the depth
      shows which state to split.
    """
    if not self._has_room():
      return False
    states, access = self.automaton.follow(word), self.automaton.access
    # Answers to the rest of the word after the access word of each state on its
    # path: they change where a state is wrong.
    answers = self._teacher.answers(
      access[state] + word[size:] for size, state in enumerate(states)
    )
    for size in range(len(word) - 1, -1, -1):
      if None in (pair := answers[size : size + 2]) or pair[0] == pair[1]:
        continue
      # The edge between these states leads to a state of its own.
      tail, head = states[size : size + 2]
      leaf = next(key for key, state in self._states.items() if state == head)
      self._suffixes[leaf] = word[size + 1 :]
      del self._states[leaf]
      self._states[(*leaf, pair[1])] = head
      again = self.automaton.into(head)
      new = self._add((*leaf, pair[0]), (*access[tail], word[size]))
      # Every edge into the old state may now lead to the new one; in complete
      # exploration, the new state's edges are explored too.
      ways = self.automaton.accepted[new] if self._whole else ()
      self._close([*again, *((new, token) for token in ways)])
      return True
    return False
