"""The seating puzzle: n people, n seats in a row, and statements about them.

A token is a statement. It is legal if an arrangement satisfies it and all
statements before it. The state is the set of remaining arrangements (Vafa et
al. 2024, section 4.2). For people P and Q, a seat i and d from 1 to n - 1, the
statements are:

    P@i     P is in seat i
    P-Q=d   P is d seats away from Q

`World` gives rules, sequences, states and pictures, also in words; the Inspect
task `wm/world` asks language models about it as in the paper.

State word: a row of the table of all sets of arrangements that statements can
leave, in order of discovery. Row 0 is all arrangements. The written form of a
row is the first of the shortest lists of statements that leave its set.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import basics
from wm.core.capabilities import Box
from wm.core.fields import field
from wm.kernels import dfa
from wm.worlds.base import sampling, svg, table, verbal

PEOPLE = 'ABCDE'
# Streams of uniform numbers, separate from those of other draws.
NUMBER, STATEMENT, PERSON, LAST = 1, 2, 3, 4


class _Space(NamedTuple):
  """Sets as bit sets of arrangements, their first parents, and the table."""

  sets: tuple[int, ...]
  parents: tuple[tuple[int, int], ...]  # (row, label) that first led here.
  delta: np.ndarray


TEXTS = verbal.Texts(__file__)


@dataclasses.dataclass(frozen=True)
class World(
  table.TableWorld,
  core.Verbal,
  core.Described,
  words={'left': 'arrangements left'},
):
  """People who take seats in a row, and statements about them.

  Attributes:
    length: statements of a sequence of random play, one more than in the
      longest prefix.
    least: fewest random valid statements that lead to a trial's state.
    most: most of these statements; their number is uniform from `least` to
      `most` (published: 1 and 2).
  """

  noun: ClassVar[str] = 'this seating puzzle'
  boundary_depth: ClassVar[int] = 1

  people: int = field(3, 'n, the number of people', least=3, most=len(PEOPLE))
  length: int = 6
  least: int = field(1, least=1, most='most')
  most: int = field(2, below='length')

  @property
  def names(self) -> tuple[str, ...]:
    """'A', 'B', ..."""
    return tuple(PEOPLE[: self.people])

  @functools.cached_property
  def vocab(self) -> tuple[str, ...]:
    """'<pad>', 'A@1', ..., 'A-B=1', ..."""
    seats = range(1, self.people + 1)
    pairs = itertools.permutations(self.names, 2)
    return (
      '<pad>',
      *(f'{p}@{i}' for p in self.names for i in seats),
      *(f'{p}-{q}={d}' for p, q in pairs for d in seats[:-1]),
    )

  @functools.cached_property
  def seatings(self) -> np.ndarray:
    """[n!, n] int32: seat, from 1, of each person in each arrangement."""
    seats = range(1, self.people + 1)
    return np.array(list(itertools.permutations(seats)), np.int32)

  @functools.cached_property
  def meanings(self) -> np.ndarray:
    """[A, n!] bool: arrangements that make each statement true."""
    seat, seats = self.seatings, range(1, self.people + 1)
    people = range(self.people)
    return np.array(
      [seat[:, p] == i for p in people for i in seats]
      + [
        abs(seat[:, p] - seat[:, q]) == d
        for p, q in itertools.permutations(people, 2)
        for d in seats[:-1]
      ]
    )

  @functools.cached_property
  def _space(self) -> _Space:
    places = range(len(self.seatings))
    bits = [
      sum(1 << k for k in places if row[k]) for row in self.meanings.tolist()
    ]
    sets, parents = [(1 << len(places)) - 1], [(core.DEAD, core.DEAD)]
    rows, delta = {0: core.DEAD, sets[0]: 0}, []
    for number, members in enumerate(sets):  # The list grows during the loop.
      heads = []
      for label, meaning in enumerate(bits):
        left = members & meaning
        if left not in rows:
          rows[left] = len(sets)
          sets.append(left)
          parents.append((number, label))
        heads.append(rows[left])
      delta.append(heads)
    return _Space(tuple(sets), tuple(parents), np.array(delta, np.int32))

  @property
  def delta(self) -> np.ndarray:
    """[S, A] int32; S is 19, 221 and 4,666 for 3, 4 and 5 people."""
    return self._space.delta

  def arrangements(self, state: np.ndarray) -> np.ndarray:
    """[K, n] int32 arrangements left in one state [W]: seats from 1."""
    if state[0] < 0:
      return self.seatings[:0]
    left = self._space.sets[int(state[0])]
    in_set = [left >> k & 1 for k in range(len(self.seatings))]
    return self.seatings[np.array(in_set, bool)]

  def sample_states(self, num: int, seed: int) -> np.ndarray:
    """After `least` to `most` random valid statements, uniform each."""
    trial = np.arange(num)
    share = basics.uniforms(seed, trial, NUMBER)
    span = self.most - self.least + 1
    count = self.least + np.minimum((share * span).astype(int), span - 1)
    states = self.init(num)
    for k in range(self.most):
      rows = np.flatnonzero(k < count)
      states[rows] = self._stated(states[rows], seed, rows, k)[0]
    return states

  def _stated(
    self, states: np.ndarray, seed: int, trial: np.ndarray, k: int
  ) -> tuple[np.ndarray, np.ndarray]:
    """States [R, W] after one random valid statement [R] each."""
    uniform = basics.uniforms(seed, trial, STATEMENT, k)
    tokens = sampling.drawn(self.legal(states), uniform)
    return self.advance(states, tokens), tokens

  def questions(self, num: int, seed: int) -> core.Sequences:
    """Random valid statements that leave one arrangement: where sits a person?

    The paper's test of capability. Question n depends on (seed, n) alone; its
    choices are the person's seats, in order.
    """
    trial, states = np.arange(num), self.init(num)
    columns: list[np.ndarray] = []
    single = np.array(
      [members.bit_count() == 1 for members in self._space.sets]
    )
    while not single[states[:, 0]].all():
      rows = np.flatnonzero(~single[states[:, 0]])
      column = np.zeros(num, np.int32)
      states[rows], column[rows] = self._stated(
        states[rows], seed, rows, len(columns)
      )
      columns.append(column)
    tokens = np.stack(columns, -1) if columns else np.zeros((num, 0), np.int32)
    person = basics.hash64(seed, trial, PERSON) % np.uint64(self.people)
    person = person.astype(np.int32)
    seats = [
      self.arrangements(s)[0, p] for s, p in zip(states, person, strict=True)
    ]
    first = person * self.people  # 'P@1' is the token after it.
    choices = first[:, None] + np.arange(1, self.people + 1, dtype=np.int32)
    side = {'choices': choices, 'answer': first + np.array(seats, np.int32)}
    lengths = (tokens != core.PAD).sum(-1).astype(np.int32)
    return core.Sequences(tokens, lengths, side)

  @functools.cached_property
  def _arrivals(self) -> np.ndarray:
    """[max_len, S] bool: True if statement k can first reach a set."""
    reached = np.zeros((self.max_len, len(self.delta)), bool)
    sources, labels = np.nonzero(self.delta >= 0)
    heads = self.delta[sources, labels]
    new = heads != sources
    for k in range(1, self.max_len):
      reached[k, heads[new & (self._ways[k - 1, sources] > 0)]] = True
    return reached

  def sample_prefixes(
    self, states: np.ndarray, moves: np.ndarray, seeds: np.ndarray
  ) -> core.Prefixes:
    """Uniform over the lists of moves[t] statements whose last one is needed.

    The published program draws statements that hold in the state until only
    the state is left; lists of one length are equally likely there too.
    """
    moves, seeds = np.asarray(moves), np.asarray(seeds)
    ok = (states[:, 0] >= 0) & (moves >= 1) & (moves < self.max_len)
    ok[ok] = self._arrivals[moves[ok], states[ok, 0]]
    before, last = np.full_like(states, core.DEAD), np.zeros_like(moves)
    for t in np.flatnonzero(ok):
      before[t], last[t] = self._arrival(states[t, 0], moves[t], seeds[t])
    head = super().sample_prefixes(before, moves - 1, seeds)
    width = int(np.max(moves, initial=0))
    tokens = np.zeros((len(states), width), np.int32)
    tokens[:, : head.tokens.shape[1]] = head.tokens
    tokens[ok, moves[ok] - 1] = last[ok]
    return core.Prefixes(tokens, np.where(ok, moves, 0).astype(np.int32), ok)

  @functools.cached_property
  def _edges(self) -> dfa.Predecessors:
    return dfa.predecessors(self.delta)

  def _arrival(self, row: int, moves: int, seed: np.ndarray) -> tuple[int, int]:
    """Row and token of the step into `row` that a random prefix ends with."""
    into = slice(self._edges.indptr[row], self._edges.indptr[row + 1])
    sources = self._edges.sources[into]
    mass = np.where(sources != row, self._ways[moves - 1, sources], 0.0)
    total = np.cumsum(mass)
    uniform = basics.uniforms(seed, LAST, 0)
    pick = np.searchsorted(total, uniform * total[-1], side='right')
    pick = min(pick, np.flatnonzero(mass)[-1])
    return sources[pick], self._edges.labels[into][pick] + 1

  def parse(self, text: str) -> np.ndarray:
    """Statements, 'A@1,B-C=2'; 'start' for none, 'dead' for a contradiction."""
    words = re.split(r'[\s,]+', text.strip())
    if words in (['start'], ['dead']):
      row = core.DEAD if words == ['dead'] else 0
      return np.array([[row]], np.int32)
    state = self.init(1)
    for number, word in enumerate(words, 1):
      if word not in self.vocab[1:]:
        raise core.InputError(
          f'{text!r} is no state: statement {number}, {word!r}, is unknown; '
          f"expected 'start', 'dead' or statements of {self.vocab[1]} to "
          f'{self.vocab[-1]}, separated by commas'
        )
      state = self.advance(state, np.array([self.vocab.index(word)]))
      if state[0, 0] < 0:
        raise core.InputError(
          f'{text!r} is no state: statement {number}, {word!r}, contradicts '
          "those before it (the dead state is written 'dead')"
        )
    return state

  def format(self, state: np.ndarray) -> str:
    """As `parse` reads it: a shortest list of statements."""
    if state[0] <= 0:
      return 'dead' if state[0] < 0 else 'start'
    statements, row = [], int(state[0])
    while row:
      row, label = self._space.parents[row]
      statements.append(self.vocab[label + 1])
    return ','.join(reversed(statements))

  def tags(self, states: np.ndarray) -> dict[str, np.ndarray]:
    """Number of remaining arrangements."""
    sizes = [members.bit_count() for members in self._space.sets]
    return {'left': np.array([*sizes, 0])[states[:, 0]]}

  def render(self, state: np.ndarray) -> str:
    """The remaining arrangements, if they are few."""
    lines = _legend(self.names, self.arrangements(state))
    return svg.card(lines, self.format(state))

  def token_boxes(
    self, state: np.ndarray, tokens: Iterable[int]
  ) -> dict[int, list[Box]]:
    """See core.Written: arrangements are no tokens."""
    del state, tokens
    return {}

  # In words.

  def _called(self, style: core.PromptStyle) -> dict[str, str]:
    """Names of people."""
    names = self.names
    if style.seed:
      names = core.verbal.new_names(len(names), style)
    return dict(zip(self.names, names, strict=True))

  def token_names(self, style: core.PromptStyle) -> tuple[str, ...]:
    """Statements as sentences, without a full stop."""
    called = self._called(style)
    sentences = ['<pad>']
    for token in self.vocab[1:]:
      if '@' in token:
        person, seat = token.split('@')
        text = TEXTS.render('seats_seat', person=called[person], seat=seat)
      else:
        pair, seats = token.split('=')
        person, other = (called[name] for name in pair.split('-'))
        text = TEXTS.render(
          'seats_apart', person=person, other=other, seats=seats
        )
      sentences.append(text)
    return tuple(sentences)

  def rules(self, style: core.PromptStyle) -> str:
    """See core.Verbal; people have new names, or another order."""
    names = verbal.in_order(list(self._called(style).values()), style)
    return TEXTS.render(
      'seats',
      num=len(names),
      names=f'{", ".join(names[:-1])} and {names[-1]}',
      rules='\n'.join(TEXTS.lines('seats_rules', style)),
    )


# Limit of arrangements in a picture, and number per line.
LISTED, BESIDE = 24, 5


def _legend(names: Sequence[str], left: np.ndarray) -> list[str]:
  if not len(left):
    return ['contradiction: nobody can be seated']
  lines = [f'{len(left)} arrangement{"s" if len(left) > 1 else ""} left']
  if 1 < len(left) <= LISTED:
    rows = [' '.join(names[p] for p in row) for row in left.argsort(1)]
    lines += [
      '   '.join(rows[k : k + BESIDE]) for k in range(0, len(rows), BESIDE)
    ]
  return lines
