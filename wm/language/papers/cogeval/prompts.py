"""CogEval's conversations: graphs, rewards and changes in words, by turn.

A conversation is a description and a first question, for the largest reward,
then a change and the question again. `turns` says what stands between them:

  two   the model's own answer to the first question
  one   nothing: description, change and question are one message

Questions about paths between two nodes, and about clusters, follow the first
question in the three small graphs, and stand alone in the others.

Descriptions are our own words, made from the graph and its names: what leads
where, passages left and right through trees, and connections, each told once.
Read literally, they are the graph. `task` asks in the authors' words from the
recorded conversations, where the user brings them.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

import networkx as nx
import numpy as np

from wm.core import basics
from wm.language.papers import declared
from wm.runtime import pages
from wm.worlds.cognitive_graph import graphs, questions
from wm.worlds.cognitive_graph.graphs import Change
from wm.worlds.cognitive_graph.questions import (
  LARGE,
  AnsweredQuestion,
  Question,
)

T = TypeVar('T')
TEMPLATE = 'wm.language.papers.cogeval', 'prompt.md.j2'
TURNS = ('two', 'one')


@functools.cache
def domains() -> dict[str, types.SimpleNamespace]:
  """Domain -> its phrases in domains.toml, as attributes."""
  table = dict(declared('cogeval', 'domains.toml'))
  default = table.pop('default')
  return {
    name: types.SimpleNamespace(**{**default, **phrases})
    for name, phrases in table.items()
  }


def listing(items: list[str], last: str = 'and') -> str:
  """'a', 'a and b', or 'a, b, and c'."""
  if len(items) < 3:
    return f' {last} '.join(items)
  return f'{", ".join(items[:-1])}, {last} {items[-1]}'


@functools.lru_cache(maxsize=4096)
def names_of(question: Question, seed: int = 0) -> dict[int, str]:
  """Node -> name, of a question's domain; seed: see `questions.node_names`."""
  most = questions.most_nodes(question.graph)
  return dict(questions.node_names(question.graph, question.domain, most, seed))


class Speaker:
  """Says things of a question's graph, in its domain.

  Attributes:
    graph: before any change.
    node_names: node -> name.
    seed: of the order in which connections are told; 0 is the graph's own.
    words: phrases of the domain.
  """

  def __init__(self, question: Question, seed: int) -> None:
    self.seed = seed
    self.graph = graphs.graph(question.graph)
    self.node_names = names_of(question, seed)
    self.words = domains()[questions.full_domain(question.domain)]

  def node(self, node: int) -> str:
    """A node in words."""
    name = self.node_names[node]
    if name in self.words.entrances:
      return f'the {name}'
    text: str = self.words.node.format(name=name)
    return text

  def nodes(self, nodes: Iterable[int], last: str = 'and') -> str:
    """Nodes in words, as a list."""
    return listing([self.node(node) for node in nodes], last)

  def say(
    self, phrase: str, n: int = 0, **parts: int | Iterable[int] | str
  ) -> str:
    """A sentence of a phrase of the domain.

    n: its number; parts: nodes, lists of nodes, or words.
    """
    words = {}
    for name, part in parts.items():
      if isinstance(part, int):
        words[name] = self.node(part)
      else:
        words[name] = part if isinstance(part, str) else self.nodes(part)
    text = phrase.format(n=n, **words)
    return text[:1].upper() + text[1:]

  def ask(self, problem: AnsweredQuestion, question: Question) -> str:
    """The question itself."""
    return pages.sentences(
      *(*TEMPLATE, 'ask'), problem=problem, question=question, speaker=self
    )

  # Descriptions.

  def described(self, valued: bool) -> str:
    """The place and its connections; `valued`: and its rewards."""
    words = self.words
    connections = self._connections
    if self.graph.directed:
      connections = self._journeys
    elif len(self.graph.edges) == len(self.graph.nodes) - 1:
      connections = self._branches
    sentences = [words.opening.format(size=len(self.graph.nodes))]
    sentences += connections()
    if valued:
      sentences += [
        self.say(words.reward, n, a=a) for a, n in self.graph.rewards
      ]
      sentences.append(words.free)
    return ' '.join(sentences)

  def _connections(self) -> list[str]:
    sentences = [
      self.say(self.words.joined, a=node, b=heads)
      for node, heads in _rows(self.graph.edges).items()
    ]
    if not self.seed:
      return sentences
    order = np.argsort(basics.hash64(self.seed, np.arange(len(sentences))))
    return [sentences[k] for k in order]

  def _journeys(self) -> Iterator[str]:
    """A one-way graph as journeys from its start, each arc once."""
    graph, words = self.graph, self.words
    start = graph.start
    yield self.say(words.choices, a=start, b=graph.after[start])
    seen = {start}
    for k, head in enumerate(graph.after[start]):
      if k:
        yield self.say(words.back, a=start)
      yield self.say(words.enter, a=head)
      for node in nx.bfs_tree(nx.DiGraph(graph.arcs), head):
        if node not in seen and graph.after[node]:
          seen.add(node)
          yield self.say(words.leads, a=node, b=graph.after[node])

  def _branches(self) -> Iterator[str]:
    """A tree from its start, with two branches at every node or none."""
    tree = nx.Graph(self.graph.edges)
    for node, (left, right) in nx.bfs_successors(tree, self.graph.start):
      yield self.say(self.words.branches, a=node, b=left, c=right)
    yield self.words.both

  # Changes.

  def changed(self, change: Change) -> str:
    """Sentences about a change; '' where nothing changes."""
    words, one_way = self.words, self.graph.directed
    shut = words.closed_one_way if one_way else words.closed
    new = f'now {words.leads if one_way else words.joined}'
    sentences = [self.say(shut, a=a, b=b) for a, b in change.closed]
    heads = {a: self._to(a, b) for a, b in _rows(change.opened).items()}
    if change.chances:
      heads = {
        a: listing(
          [f'{self.node(b)} with a probability of {p:g}' for b, p in to]
        )
        for a, to in _rows((a, (b, p)) for a, b, p in change.chances).items()
      }
    sentences += [self.say(new, a=a, b=to) for a, to in heads.items()]
    sentences += [
      self.say(words.portal, a=a, b=self._to(a, heads, 'any', 'or'))
      for a, heads in _rows(change.portals).items()
    ]
    sentences += [self.say(words.changed, n, a=a) for a, n in change.rewards]
    arcs = (*change.opened, *change.portals)
    nodes = {node for arc in arcs for node in arc} - {*self.graph.nodes}
    return pages.sentences(
      *(*TEMPLATE, 'changed'),
      sentences=' '.join(sentences),
      nodes=sorted(nodes),
      speaker=self,
    )

  def _to(
    self,
    tail: int,
    heads: tuple[int, ...],
    quantity: str = 'every',
    last: str = 'and',
  ) -> str:
    """Heads of new arcs: by what they are next to, where they are its
    neighbours in the unchanged graph."""
    if len(heads) > 1:
      if {*heads} == {*self.graph.nodes} - {tail}:
        return f'{quantity} other {self.words.kind}'
      for node in self.graph.nodes:
        if {*self.graph.neighbours(node)} - {tail} == {*heads}:
          return f'{quantity} neighbor of {self.node(node)}'
    return self.nodes(heads, last)


def _rows(arcs: Iterable[tuple[int, T]]) -> dict[int, tuple[T, ...]]:
  """Tail -> heads, in the order of the arcs."""
  rows: dict[int, tuple[T, ...]] = {}
  for tail, head in arcs:
    rows[tail] = (*rows.get(tail, ()), head)
  return rows


class Dialog(NamedTuple):
  """A conversation that waits for the model.

  Attributes:
    system: what stands before all.
    first: user's first message, with a first question if there is a `second`.
    second: user's second message, '' for none.
    problem: what the last message asks.
    node_names: node -> name.
  """

  system: str
  first: str
  second: str
  problem: AnsweredQuestion
  node_names: dict[int, str]


@functools.lru_cache(maxsize=4096)
def dialog(question: Question, turns: str = 'two', seed: int = 0) -> Dialog:
  """The conversation in which a question is asked; raises InputError.

  turns: of TURNS; seed: of names and order, 0 is CogEval's.
  """
  problem, speaker = questions.problem(question), Speaker(question, seed)
  edit = graphs.of_condition(
    question.graph, question.condition.removesuffix('Shortest'), question.domain
  )
  changed = speaker.changed(graphs.change(question.graph, edit))
  second = f'{changed} {speaker.ask(problem, question)}'.lstrip()
  valued = question.goal is None and problem.kind != 'count'
  alone = question.graph in LARGE and not valued
  first = speaker.described(not alone)
  if alone or turns == 'one' or question.condition == 'valuePath':
    first, second = f'{first} {second}', ''
  else:
    value_of = Question(question.graph, 'valuePath', question.domain)
    first = f'{first} {speaker.ask(questions.problem(value_of), value_of)}'
  system = str(pages.macros(*TEMPLATE).system(problem.kind))
  return Dialog(system, first, second, problem, speaker.node_names)
