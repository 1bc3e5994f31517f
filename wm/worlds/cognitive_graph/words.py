"""Graphs of steps and walks to a goal in words."""

from __future__ import annotations

import abc
from typing import ClassVar

import numpy as np

from wm import core
from wm.worlds.base import in_words, table
from wm.worlds.cognitive_graph import planning
from wm.worlds.cognitive_graph.graphs import Graph

_TEXT = {
  'places': (
    'There are {num} places: {names}.\n{body}\nNo other step is possible.\n'
  ),
  'pairs': (
    'These pairs are all steps between {num} places, each from the first of a '
    'pair to the second:\n{body}\n'
  ),
}
_REWARD = (
  'The goal may also be called reward: then any of these is one: {rewarded}.\n'
)
_WALKS = (
  'A sequence is a walk: first the name of its goal, then the place where it '
  'starts, then the place that each step comes to, and at last the word end. '
  'A walk starts at another place than its goal. '
  'A place can come next only if the goal can still be reached from it. The '
  'word end can come next exactly when the walk is at its goal; after it '
  'nothing can come. A walk may pass its goal and go on.'
)


class InWords(table.NamedTableWorld, core.Verbal):
  """A graph and walks to a goal, told in words."""

  wordings: ClassVar[tuple[str, ...]] = tuple(_TEXT)

  @property
  @abc.abstractmethod
  def graph(self) -> Graph:
    """The graph."""

  def token_names(self, telling: core.PromptStyle) -> tuple[str, ...]:
    """'end' and 'reward' as they are; nodes by number, or by new names."""
    core.wording_of(self, telling)
    if not telling.seed:
      return self.vocab
    new = core.new_names(len(self.vocab) - planning.NODE0, telling)
    return (*self.vocab[: planning.NODE0], *new)

  def rules(self, telling: core.PromptStyle) -> str:
    """See core.Verbal: every step, place by place or as pairs."""
    wording = core.wording_of(self, telling)
    spoken = self.token_names(telling)[planning.NODE0 :]
    nodes = np.array(self.graph.nodes)
    order = nodes[core.shuffled(len(nodes), telling)]
    told = [
      (spoken[node], [spoken[head] for head in self.graph.after[node]])
      for node in order.tolist()
    ]
    if wording == 'places':
      lines = [
        f'From {here}, a step leads to {" or to ".join(heads)}.'
        for here, heads in told
        if heads
      ]
    else:
      pairs = [f'({here}, {head})' for here, heads in told for head in heads]
      lines = [', '.join(in_words.in_order(pairs, telling)) + '.']
    text = _TEXT[wording].format(
      num=len(nodes),
      names=', '.join(spoken[node] for node in order),
      body='\n'.join(lines),
    )
    best = planning.rewarded(self.graph)
    called = ', '.join(spoken[node] for node in best)
    return text + _REWARD.format(rewarded=called) + _WALKS
