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
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import networkx as nx
import numpy as np

from wm.core import basics
from wm.language.papers import declared
from wm.runtime import pages
from wm.worlds.cognitive_graph import graphs, questions
from wm.worlds.cognitive_graph.graphs import Arc, Change
from wm.worlds.cognitive_graph.questions import (
  LARGE,
  AnsweredQuestion,
  Question,
)

T = TypeVar('T')
TEMPLATE = 'wm.language.papers.cogeval', 'prompt.md.j2'
TURNS = ('two', 'one')


# Domain -> phrases; those of 'default' where it has none of its own.
DOMAINS = declared('cogeval', 'domains.toml')


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
  """Says things of a question's graph, in its domain, by macros of TEMPLATE.

  Attributes:
    graph: before any change.
    node_names: node -> name.
    seed: of the order in which connections are told; 0 is the graph's own.
    words: phrases of the domain.
  """

  def __init__(self, question: Question, seed: int) -> None:
    domain = questions.full_domain(question.domain)
    self.seed, self.graph = seed, graphs.graph(question.graph)
    self.node_names = names_of(question, seed)
    self.words = {**DOMAINS['default'], **DOMAINS[domain]}

  def tell(self, macro: str, **values: Any) -> str:
    """What a macro says: 'described', 'changed' or 'ask'."""
    return pages.sentences(*TEMPLATE, macro, speaker=self, **values)

  def node(self, node: int) -> str:
    """A node in words."""
    name = self.node_names[node]
    if name in self.words['entrances']:
      return f'the {name}'
    text: str = self.words['node'].format(name=name)
    return text

  def nodes(self, nodes: int | Iterable[int] | str, last: str = 'and') -> str:
    """A node in words, or nodes as a list; words stay."""
    if isinstance(nodes, str):
      return nodes
    if isinstance(nodes, int):
      return self.node(nodes)
    return listing([self.node(node) for node in nodes], last)

  def say(
    self, phrase: str, n: int = 0, **parts: int | Iterable[int] | str
  ) -> str:
    """A sentence of a phrase of the domain.

    n: its number; parts: nodes, lists of nodes, or words.
    """
    words = {name: self.nodes(part) for name, part in parts.items()}
    text = phrase.format(n=n, **words)
    return text[:1].upper() + text[1:]

  def connections(self) -> list[tuple[int, tuple[int, ...]]]:
    """Each node and whom the text joins it to, in the order of the seed."""
    rows = [*_rows(self.graph.edges).items()]
    if not self.seed:
      return rows
    order = np.argsort(basics.hash64(self.seed, np.arange(len(rows))))
    return [rows[k] for k in order]

  def journeys(self) -> Iterator[tuple[int, list[int]]]:
    """Of a one-way graph: first steps, and the nodes that each leads on to."""
    after, seen = self.graph.after, {self.graph.start}
    for head in after[self.graph.start]:
      reached = nx.bfs_tree(nx.DiGraph(self.graph.arcs), head)
      nodes = [node for node in reached if after[node] and node not in seen]
      seen |= {*nodes}
      yield head, nodes

  def branches(self) -> Iterator[tuple[int, list[int]]]:
    """Of a tree: each node and its two branches, from the start on."""
    return nx.bfs_successors(nx.Graph(self.graph.edges), self.graph.start)

  def ways(self, arcs: Iterable[Arc], *how: str) -> dict[int, str]:
    """Where new arcs of each node lead; how: see `to`."""
    rows = _rows(arcs).items()
    return {tail: self.to(tail, heads, *how) for tail, heads in rows}

  def chances(self, change: Change) -> dict[int, str]:
    """Where steps by chance lead."""
    rows = _rows(
      (tail, f'{self.node(head)} with a probability of {chance:g}')
      for tail, head, chance in change.chances
    )
    return {tail: listing([*heads]) for tail, heads in rows.items()}

  def new(self, change: Change) -> list[int]:
    """Nodes that only the change brings."""
    arcs = (*change.opened, *change.portals)
    return sorted({node for arc in arcs for node in arc} - {*self.graph.nodes})

  def to(
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
        return f'{quantity} other {self.words["kind"]}'
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
  change = graphs.change(question.graph, edit)
  asked = speaker.tell('ask', problem=problem, question=question)
  second = f'{speaker.tell("changed", change=change)} {asked}'.lstrip()
  valued = question.goal is None and problem.kind != 'count'
  alone = question.graph in LARGE and not valued
  first = speaker.tell('described', valued=not alone)
  if alone or turns == 'one' or question.condition == 'valuePath':
    first, second = f'{first} {second}', ''
  else:
    value_of = Question(question.graph, 'valuePath', question.domain)
    before = questions.problem(value_of)
    asked = speaker.tell('ask', problem=before, question=value_of)
    first = f'{first} {asked}'
  system = str(pages.macros(*TEMPLATE).system(problem.kind))
  return Dialog(system, first, second, problem, speaker.node_names)
