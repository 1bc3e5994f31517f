"""Planning on CogEval's graphs: walks to a goal, before and after a change.

A model learns a graph from walks (`cognitive_graph(name='n15star')`), then
sees short walks through what an edit has changed, and must plan with both.
Tokens and rules are those of `planning`, edits those of `changes`.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics, resources
from wm.core.fields import field, field_error
from wm.worlds.base import sampling, table, verbal
from wm.worlds.cognitive_graph import drawing, graphs, names, planning
from wm.worlds.cognitive_graph.graphs import Graph
from wm.worlds.cognitive_graph.planning import END, NODE0, REWARD

HELD = 5  # One pair of goal and start in so many is held out.
NEVER = np.iinfo(np.int64).max  # Tokens to an end that is not reached.


TEXTS = verbal.Texts(__file__)


class VerbalGraph(table.NamedTableWorld, core.Verbal):
  """A graph and walks to a goal, told in words."""

  wordings: ClassVar[tuple[str, ...]] = ('places', 'pairs')

  @property
  @abc.abstractmethod
  def graph(self) -> Graph:
    """The graph."""

  def token_names(self, telling: core.PromptStyle) -> tuple[str, ...]:
    """'end' and 'reward' as they are; nodes by number, or by new names."""
    core.verbal.wording_of(self, telling)
    if not telling.seed:
      return self.vocab
    new = core.verbal.new_names(len(self.vocab) - planning.NODE0, telling)
    return (*self.vocab[: planning.NODE0], *new)

  def rules(self, telling: core.PromptStyle) -> str:
    """See core.Verbal: every step, place by place or as pairs."""
    wording = core.verbal.wording_of(self, telling)
    spoken = self.token_names(telling)[planning.NODE0 :]
    nodes = np.array(self.graph.nodes)
    order = nodes[core.verbal.shuffled(len(nodes), telling)]
    adjacency = [
      (spoken[node], [spoken[head] for head in self.graph.after[node]])
      for node in order.tolist()
    ]
    if wording == 'places':
      lines = [
        f'From {tail}, a step leads to {" or to ".join(heads)}.'
        for tail, heads in adjacency
        if heads
      ]
    else:
      pairs = [
        f'({tail}, {head})' for tail, heads in adjacency for head in heads
      ]
      lines = [', '.join(verbal.in_order(pairs, telling)) + '.']
    text = TEXTS.render(
      wording,
      num=len(nodes),
      names=', '.join(spoken[node] for node in order),
      body='\n'.join(lines),
    )
    best = planning.rewarded(self.graph)
    called = ', '.join(spoken[node] for node in best)
    goal = TEXTS.render('goal', rewarded=called)
    return f'{text}\n{goal}'


@dataclasses.dataclass(frozen=True)
class World(VerbalGraph, core.Costed):
  """A graph, one of its changes, and walks on it.

  Attributes:
    name: name of a graph, or its letter in the paper: n7line (A), n7tree (B),
      n13line (C), n15star (D), n16cluster (E), n21star (F).
    edit: change of the graph: '' for none, or a condition of CogEval, such as
      'transReval' or 'nonteleDetour'.
    part: walks that are sampled: 'all', between all pairs of goal and start, a
      fifth of which are held out; 'changed', of an edit, shortest walks along
      each new step, from where a step is gone to where it led, and into the
      largest reward where that is another one. Held out are then all other
      pairs whose shortest walks are others than before the edit.
  """

  version: ClassVar[str] = '1'

  name: str = 'n7line'
  edit: str = ''
  part: str = field('all', choices=('all', 'changed'))
  walks: str = field('random', 'kind of walks', choices=('random', 'shortest'))
  moves: int = field(20, 'most steps of a walk')

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded."""
    del world
    return resources.sequences_cost(self.moves, 'moves')

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.graph.chances:
      raise field_error(self, 'edit', 'an edit without random steps')
    if self.part == 'changed' and not self.edit:
      raise field_error(self, 'part edit', 'an edit whose changes are walked')
    far = int(self.plans.hops[self.plans.nodes >= 0].max())
    if self.moves < far:
      raise field_error(self, 'moves', f'at least {far} steps')

  @functools.cached_property
  def before(self) -> Graph:
    """The graph before the edit."""
    return graphs.graph(self.name)

  @functools.cached_property
  def graph(self) -> Graph:
    """The graph; raises InputError where there is no such graph or edit."""
    return graphs.edited(self.name, self.edit)

  @property
  def size(self) -> int:
    """Nodes of the graph and of all its changes: tokens are the same."""
    return names.most_nodes(self.name) + 1

  @functools.cached_property
  def plans(self) -> planning.Plans:
    """The automaton."""
    return planning.plans(self.graph, self.size)

  @property
  def delta(self) -> np.ndarray:
    """[R, V - 1] int32."""
    return self.plans.delta

  @property
  def names(self) -> tuple[str, ...]:
    """'untold', goals, such as 'n3>n8' node and goal, and 'over'."""
    return self.plans.names

  @functools.cached_property
  def vocab(self) -> tuple[str, ...]:
    """'<pad>', 'end', 'reward', then 'n0', 'n1', ..."""
    nodes = (f'n{node}' for node in range(self.size))
    return ('<pad>', 'end', 'reward', *nodes)

  @property
  def end(self) -> int:
    """Id of 'end'."""
    return END

  @property
  def prompt_len(self) -> int:
    """Goal and start."""
    return 2

  @property
  def max_len(self) -> int:
    """Goal, start, steps and `end`."""
    return self.moves + 3

  # Pairs of goal and start.

  def _shortest(self, graph: Graph) -> dict[tuple[int, int], frozenset]:
    """(token of goal, start) -> first steps of all shortest walks, of pairs
    that are apart, each with the steps that follow."""
    near = planning.plans(graph, self.size).near
    hops = {
      (goal, node): steps
      for goal, nodes in near.items()
      for node, steps in nodes.items()
    }
    steps_after: dict[tuple[int, int], frozenset] = {}
    for pair in sorted(hops, key=hops.__getitem__):
      goal, node = pair
      steps_after[pair] = frozenset(
        (head, steps_after[goal, head])
        for head in graph.after[node]
        if hops.get((goal, head)) == hops[pair] - 1
      )
    return {pair: ways for pair, ways in steps_after.items() if hops[pair]}

  @functools.cached_property
  def _pairs(self) -> dict[str, np.ndarray]:
    """Split -> [P, 2] int32 tokens of goal and start."""
    ways = self._shortest(self.graph)
    if self.part == 'all':
      every = sorted(ways)
      order = np.argsort(basics.hash64(np.arange(len(every))))
      number = -(-len(every) // HELD)
      held = sorted(every[k] for k in order[:number])
      train = sorted(every[k] for k in order[number:])
    else:
      local = self._local()
      train = [pair for pair in local if pair in ways]
      old = self._shortest(self.before)
      held = [
        pair
        for pair in sorted(ways)
        if pair not in local and old.get(pair) != ways[pair]
      ]
    by_split = {'train': train, 'heldout': held, 'all': sorted([*train, *held])}
    return {
      split: np.array(pairs, np.int32).reshape(-1, 2)
      + np.array([0, NODE0], np.int32)
      for split, pairs in by_split.items()
    }

  def _local(self) -> list[tuple[int, int]]:
    """(token of goal, start) of walks through what has changed."""
    change = graphs.change(self.name, self.edit)
    new = self.graph.known - self.before.known
    gone = self.before.known - self.graph.known
    pairs = {(NODE0 + head, tail) for tail, head in new | gone}
    best = planning.rewarded(self.graph)
    if change.rewards or best != planning.rewarded(self.before):
      pairs |= {(REWARD, a) for a, b in self.graph.arcs if b in best}
    return sorted(pairs)

  def split_key(self, sequences: core.Sequences) -> np.ndarray:
    """[N] uint64 of goal and start."""
    ends = sequences.tokens[:, :2].astype(np.int64)
    return basics.hash64(ends[:, 0], ends[:, 1])

  # Sequences.

  def data_distribution(
    self, split: str = 'all', distinct: bool = False, replan: bool = False
  ) -> planning.Trips:
    """See core.Generative; walks may repeat."""
    sampling.check_split(split)
    if distinct:
      raise core.InputError(
        'cognitive_graph: distinct=True; walks are drawn with repeats'
      )
    return planning.Trips(
      self.plans,
      self._pairs[split],
      self.moves,
      shortest=self.walks == 'shortest' or self.part == 'changed',
      replan=replan,
    )

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    """Walks between pairs of a split; see `planning.Trips`."""
    drawn = self.data_distribution(split)
    tokens = np.zeros((num, self.max_len), np.int32)
    memory, going = drawn.init(num), np.ones(num, bool)
    for k in range(self.max_len):
      options, log_probs = drawn.next(memory)
      shares = np.cumsum(np.exp(log_probs), axis=1)
      going &= shares[:, -1] > 0
      if not going.any():
        break
      mark = basics.uniforms(seed, np.arange(num), k) * shares[:, -1]
      pick = (shares > mark[:, None]).argmax(1)
      tokens[going, k] = options[np.arange(num), pick][going]
      memory = drawn.advance(memory, tokens[:, k])
    return core.Sequences(tokens, (tokens != 0).sum(-1).astype(np.int32))

  # Trials.

  @functools.cached_property
  def _reached(self) -> np.ndarray:
    """Rows of goals and nodes that some prefix reaches."""
    rows = np.flatnonzero(self.plans.nodes >= 0)
    least, most = self.prefix_moves(rows[:, None]).T
    return rows[least <= most]

  @functools.cached_property
  def _twice(self) -> np.ndarray:
    """Those that two prefixes of one length reach; all, where none is."""
    heads = [row[row >= 0] for row in self.delta]
    count = np.zeros(len(self.delta), np.int64)
    count[0] = 1
    twice = np.zeros(len(self.delta), bool)
    for k in range(1, self.max_len):
      after = np.zeros_like(count)
      for row in np.flatnonzero(count):
        np.add.at(after, heads[row], count[row])
      count = np.minimum(after, 2)
      twice |= (count > 1) & (k > self.prompt_len)
    rows = self._reached[twice[self._reached]]
    return rows if len(rows) else self._reached

  def sample_states(self, num: int, seed: int) -> np.ndarray:
    """Uniform over goals and nodes that two prefixes of one length reach.

    On a one-way line, most nodes are reached by one: over all, if there is no
    other.
    """
    return self._drawn(self._twice, num, seed)

  def sample_others(self, states: np.ndarray, seed: int) -> np.ndarray:
    """Uniform over all goals and nodes that a prefix reaches."""
    return self._drawn(self._reached, len(states), seed)

  def _drawn(self, rows: np.ndarray, num: int, seed: int) -> np.ndarray:
    pick = basics.hash64(seed, np.arange(num)) % np.uint64(len(rows))
    return rows[pick.astype(np.int64)].astype(np.int32)[:, None]

  def prefix_moves(self, states: np.ndarray) -> np.ndarray:
    """[T, 2] int32 steps behind goal and start."""
    rows = np.maximum(states[:, 0], 0)
    placed = (states[:, 0] >= 0) & (self.plans.nodes[rows] >= 0)
    # A prefix of one token more than needed has at least one step.
    reached = self._arrivals[3:, rows] & placed
    least = reached.argmax(0) + 1
    most = np.where(reached.any(0), len(reached) - reached[::-1].argmax(0), 0)
    return np.stack([least, most], axis=-1).astype(np.int32)

  def sample_prefixes(
    self, states: np.ndarray, moves: np.ndarray, seeds: np.ndarray
  ) -> core.Prefixes:
    """Uniform over all walks of moves[t] steps that end in states[t]."""
    return super().sample_prefixes(states, np.asarray(moves) + 2, seeds)

  # What else is known of states and sequences.

  def distance_to_end(
    self, states: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """See core.Enumerable; [B, V - 1] of all tokens but padding."""
    rows = np.maximum(states[:, 0], 0)
    after = np.where(states >= 0, self.delta[rows], core.DEAD)
    tokens = np.where(after >= 0, np.arange(1, len(self.vocab)), core.DEAD)
    hops = self.plans.hops[after].astype(np.int64)
    placed = self.plans.nodes[after] >= 0
    # After a step: itself, the steps to come, and `end`. After a goal: itself,
    # a start, one step at least, and `end`.
    needed = np.where(placed, hops + 2, 4)
    needed = np.where(after == len(self.delta) - 1, 1, needed)
    needed = np.where(after >= 0, needed, NEVER)
    return tokens.astype(np.int32), needed

  def costs(self, sequences: core.Sequences) -> core.Costs:
    """Steps of walks, and of the shortest ones from start to goal."""
    tokens, lengths = sequences.tokens, np.asarray(sequences.lengths)
    num = len(tokens)
    first = np.minimum(lengths, 2)
    _, placed = self.walk(self.init(num), tokens, first)
    steps, _ = self.walk(self.init(num), tokens, lengths)
    rows = placed[:, 0]
    placed_pair = (lengths >= 2) & (self.plans.nodes[rows] >= 0)
    ends = tokens[np.arange(num), np.maximum(lengths - 1, 0)] == END
    cost = np.where(
      placed_pair & (steps == lengths), lengths - 2.0 - ends, np.nan
    )
    least = np.where(placed_pair, self.plans.hops[rows].astype(float), np.nan)
    return core.Costs(cost[None], least[None])

  def functions(self, states: np.ndarray) -> dict[str, np.ndarray]:
    """'hops' to the goal, 0 where it or the start is not told yet."""
    hops = self.plans.hops[states[:, 0]].astype(np.int64)
    return {'hops': np.where(hops == planning.FAR, 0, hops)}

  def render(self, state: np.ndarray) -> str:
    """The graph, with the node and the goal."""
    row = int(state[0])
    goals = self.plans.goals[row] if row >= 0 else ()
    node = int(self.plans.nodes[row]) if row >= 0 else core.DEAD
    current = node if node >= 0 else None
    return drawing.picture(self.graph, current, goals, self.format(state))
