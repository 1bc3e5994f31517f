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

import dataclasses
import functools
import types
from collections.abc import Iterable
from typing import NamedTuple

import networkx as nx
import numpy as np

from wm.core import basics, fields
from wm.core.fields import field
from wm.language.papers import declared
from wm.runtime import pages
from wm.worlds.cognitive_graph import graphs, questions
from wm.worlds.cognitive_graph.graphs import Arc, Change, Graph
from wm.worlds.cognitive_graph.questions import (
  LARGE,
  AnsweredQuestion,
  Question,
)

TEXTS = pages.macros('wm.language.papers.cogeval', 'prompt.md.j2')


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


NEIGHBORS = (
  'Neighbors are those from before these changes, whichever way a step leads.'
)
OURS = 'audited'  # So logs call our words: those of August 2023 are alike.
PUBLISHED = 'published'  # And the authors' words so.
TURNS = ('two', 'one')


@fields.documented
@dataclasses.dataclass(frozen=True)
class DialogSettings:
  """Options of a conversation."""

  wording: str = field(
    OURS, "whose words: 'published' are of prompts=", choices=(OURS, PUBLISHED)
  )
  turns: str = field('two', 'see above', choices=TURNS)
  seed: int = field(0, "of names and order; 0 is CogEval's")

  def __post_init__(self) -> None:
    fields.check(self)


SETTINGS = [each.name for each in dataclasses.fields(DialogSettings)]


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
    domain = questions.full_domain(question.domain)
    most = questions.most_nodes(question.graph)
    self.node_names = dict(
      questions.node_names(question.graph, domain, most, self.seed)
    )
    self.words = domains()[domain]

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

  # Descriptions.

  def opening(self) -> str:
    """The first sentence; it tells no connection."""
    return self.words.opening.format(size=len(self.graph.nodes))

  def described(self) -> str:
    """The place, its connections, and nothing of rewards."""
    return ' '.join([self.opening(), *self._connections()])

  def rewards(self) -> str:
    """Sentences about the rewards."""
    sentences = [self.reward(*pair) for pair in self.graph.rewards]
    return ' '.join([*sentences, self.words.free] if sentences else [])

  def reward(self, node: int, value: int) -> str:
    """One reward."""
    return self.say(self.words.reward, value, a=node)

  def _connections(self) -> list[str]:
    if self.graph.directed:
      return self._journeys()
    if _is_tree(self.graph):
      return self._branches()
    sentences = [
      self.say(self.words.joined, a=node, b=heads)
      for node, heads in _rows(self.graph.edges).items()
    ]
    if not self.seed:
      return sentences
    order = np.argsort(basics.hash64(self.seed, np.arange(len(sentences))))
    return [sentences[k] for k in order]

  def _journeys(self) -> list[str]:
    """A one-way graph as journeys from its start, each arc once."""
    graph, words = self.graph, self.words
    start = graph.start
    heads = graph.after[start]
    sentences = [self.say(words.choices, a=start, b=heads)]
    seen = {start}
    for k, head in enumerate(heads):
      if k:
        sentences.append(self.say(words.back, a=start))
      sentences.append(self.say(words.enter, a=head))
      for node in nx.bfs_tree(nx.DiGraph(graph.arcs), head):
        if node not in seen and graph.after[node]:
          seen.add(node)
          heads_of = graph.after[node]
          sentences.append(self.say(words.leads, a=node, b=heads_of))
    return sentences

  def _branches(self) -> list[str]:
    """A tree from its start, with two branches at every node or none."""
    words = self.words
    tree = nx.Graph(self.graph.edges)
    sentences = [
      self.say(words.branches, a=node, b=left, c=right)
      for node, (left, right) in nx.bfs_successors(tree, self.graph.start)
    ]
    return [*sentences, words.both]

  # Changes.

  def changed(self, change: Change) -> str:
    """Sentences about a change."""
    words, one_way = self.words, self.graph.directed
    sentences = self._new_nodes(change)
    shut = words.closed_one_way if one_way else words.closed
    sentences += [self.say(shut, a=a, b=b) for a, b in change.closed]
    if change.chances:
      sentences += self._chances(change)
    else:
      phrase = f'now {words.leads if one_way else words.joined}'
      sentences += [
        self.say(phrase, a=a, b=self._to(a, heads))
        for a, heads in _rows(change.opened).items()
      ]
    sentences += [
      self.say(words.portal, a=a, b=self._to(a, heads, True))
      for a, heads in _rows(change.portals).items()
    ]
    sentences += [
      self.say(words.changed, value, a=node) for node, value in change.rewards
    ]
    if any('neighbor' in text for text in sentences):
      sentences.append(NEIGHBORS)
    return ' '.join(sentences)

  def _new_nodes(self, change: Change) -> list[str]:
    arcs = (*change.opened, *change.portals)
    new = {n for arc in arcs for n in arc} - set(self.graph.nodes)
    if not new:
      return []
    kind = self.words.kind if len(new) == 1 else self.words.kinds
    article = 'is a new' if len(new) == 1 else 'are new'
    return [f'There {article} {kind}: {self.nodes(sorted(new))}.']

  def _to(self, tail: int, heads: tuple[int, ...], portal: bool = False) -> str:
    """Heads of new arcs: by what they are next to, where they are its
    neighbours in the unchanged graph."""
    last = 'or' if portal else 'and'
    if len(heads) == 1:
      return self.node(heads[0])
    quantity = 'any' if portal else 'every'
    if set(heads) == set(self.graph.nodes) - {tail}:
      return f'{quantity} other {self.words.kind}'
    for node in self.graph.nodes:
      if set(self.graph.neighbours(node)) - {tail} == set(heads):
        return f'{quantity} neighbor of {self.node(node)}'
    return self.nodes(heads, last)

  def _chances(self, change: Change) -> list[str]:
    rows: dict[int, list[str]] = {}
    for a, b, chance in change.chances:
      target = f'{self.node(b)} with a probability of {chance:g}'
      rows.setdefault(a, []).append(target)
    phrase = f'now {self.words.leads}'
    return [
      self.say(phrase, a=a, b=listing(target)) for a, target in rows.items()
    ]


def _rows(arcs: Iterable[Arc]) -> dict[int, tuple[int, ...]]:
  """Tail -> heads, in the order of the arcs."""
  rows: dict[int, tuple[int, ...]] = {}
  for tail, head in arcs:
    rows[tail] = (*rows.get(tail, ()), head)
  return rows


def _is_tree(graph: Graph) -> bool:
  """A tree whose nodes have two branches or none, seen from its start."""
  if len(graph.edges) != len(graph.nodes) - 1:
    return False
  degrees = {node: len(graph.after[node]) for node in graph.nodes}
  start = degrees.pop(graph.start, 0)
  return start == 2 and set(degrees.values()) <= {1, 3}


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


PLAIN, OF_AUTHORS = DialogSettings(), DialogSettings(PUBLISHED)


@functools.lru_cache(maxsize=4096)
def dialog(question: Question, settings: DialogSettings = PLAIN) -> Dialog:
  """The conversation in which a question is asked; raises InputError."""
  problem = questions.problem(question)
  speaker = Speaker(question, settings.seed)
  edit = graphs.of_condition(
    question.graph, question.condition.removesuffix('Shortest'), question.domain
  )
  change = graphs.change(question.graph, edit)
  asked = ask(speaker, problem, question)
  second = speaker.changed(change)
  second = f'{second} {asked}' if second else asked
  described = speaker.described()
  valued = question.condition not in (
    'nClusters',
    *questions.STEPS,
    'nstepPath',
  )
  if valued or question.graph not in LARGE:
    described = f'{described} {speaker.rewards()}'
  system = str(TEXTS.system(TEXTS.form(problem.kind)))
  called = speaker.node_names
  alone = question.graph in LARGE and not valued
  if alone or settings.turns == 'one' or question.condition == 'valuePath':
    return Dialog(system, f'{described} {second}', '', problem, called)
  value_of = Question(question.graph, 'valuePath', question.domain)
  before = questions.problem(value_of)
  first = f'{described} {ask(speaker, before, value_of)}'
  return Dialog(system, first, second, problem, called)


def ask(speaker: Speaker, problem: AnsweredQuestion, question: Question) -> str:
  """The question itself."""
  start, words = speaker.node(problem.start), speaker.words
  if problem.kind == 'count':
    return str(TEXTS.clusters(words.kinds))
  if problem.kind == 'choice' and problem.graph.chances:
    return str(TEXTS.likeliest_choice(words.kind, start))
  if problem.kind == 'choice':
    shortest = question.condition.endswith('Shortest')
    path = 'shortest path' if shortest else 'path'
    return str(TEXTS.choice(words.kind, start, path))
  name = speaker.node_names[problem.start]
  if question.goal is not None:
    goal = speaker.node(question.goal)
    return str(TEXTS.path(start, goal, words.items, name))
  return str(TEXTS.value(start, words.items, name))
