"""Planning on CogEval's graphs: walks to a goal, before and after a change.

A model learns a graph from walks (`cognitive_graph(name='n15star')`), then sees
short walks through the edited part of the graph, and must plan with both. The
edits are those of `graphs`. A walk begins with its goal and its start:

    goal   start   node   node ... node   end
    n8     n1      n11    n2      n8      end
    reward n1      n11    n2      n8      end

A goal is a node, or `reward`: the nodes with the largest reward that can be
reached from the graph's start. A step is legal if the graph has the arc and the
goal can still be reached; `end` is legal at the goal. The rules are the table
of an automaton; see `Plans`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import basics, resources
from wm.core.fields import field, field_error
from wm.kernels import dfa
from wm.worlds.base import sampling, table, verbal
from wm.worlds.cognitive_graph import graphs, questions

END, REWARD, NODE0 = 1, 2, 3  # Token ids; nodes follow by number.
FAR = np.iinfo(np.int32).max
HELD = 5  # One in HELD pairs of goal and start is held out.
NEVER = np.iinfo(np.int64).max  # Number of tokens to an unreachable end.
TEXTS = verbal.Texts(__file__)


@dataclasses.dataclass(frozen=True)
class World(table.NamedTableWorld, core.Verbal, core.Described):
  """A graph, possibly with an edit, and walks on it.

  Attributes:
    name: name of a graph, or its letter in the paper: n7line (A), n7tree (B),
      n13line (C), n15star (D), n16cluster (E), n21star (F).
    edit: edit of the graph: '' for none, or a condition of CogEval, such as
      'transReval' or 'nonteleDetour'.
    part: sampled walks: 'all': between all pairs of goal and start, a fifth of
      which are held out; 'changed': shortest walks that show the edit: along
      each new arc, between the ends of each removed arc, and to the largest
      reward if the edit moves it. All other pairs whose shortest walks the edit
      changes are then held out.
  """

  noun: ClassVar[str] = 'this graph'

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
  def before(self) -> graphs.Graph:
    """The graph before the edit."""
    return graphs.graph(self.name)

  @functools.cached_property
  def graph(self) -> graphs.Graph:
    """The graph; raises InputError for an unknown graph or edit."""
    return graphs.edited(self.name, self.edit)

  @property
  def size(self) -> int:
    """Nodes of the graph and of all its edits, so that they share tokens."""
    return questions.most_nodes(self.name) + 1

  @functools.cached_property
  def plans(self) -> Plans:
    """The automaton."""
    return make_plans(self.graph, self.size)

  @property
  def delta(self) -> np.ndarray:
    """[R, V - 1] int32."""
    return self.plans.delta

  @property
  def names(self) -> tuple[str, ...]:
    """'untold', goals, pairs of node and goal such as 'n3>n8', and 'over'."""
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

  def _shortest(self, graph: graphs.Graph) -> dict[tuple[int, int], frozenset]:
    """(token of goal, start) -> steps of all shortest walks, for goals other
    than the start."""
    near = make_plans(graph, self.size).near
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
    """(token of goal, start) of walks through the edited part."""
    change = graphs.change(self.name, self.edit)
    new = self.graph.known - self.before.known
    gone = self.before.known - self.graph.known
    pairs = {(NODE0 + head, tail) for tail, head in new | gone}
    best = graphs.rewarded(self.graph)
    if change.rewards or best != graphs.rewarded(self.before):
      pairs |= {(REWARD, a) for a, b in self.graph.arcs if b in best}
    return sorted(pairs)

  def split_key(self, sequences: core.Sequences) -> np.ndarray:
    """[N] uint64 of goal and start."""
    ends = sequences.tokens[:, :2].astype(np.int64)
    return basics.hash64(ends[:, 0], ends[:, 1])

  # Sequences.

  def data_distribution(self, replan: bool = False) -> GoalWalkProcess:
    """See core.Generative; walks may repeat."""
    return self._walks('all', replan)

  def _walks(self, split: str, replan: bool) -> GoalWalkProcess:
    return GoalWalkProcess(
      self.plans,
      self._pairs[split],
      self.moves,
      shortest=self.walks == 'shortest' or self.part == 'changed',
      replan=replan,
    )

  def sample(self, num: int, seed: int, split: str = 'all') -> core.Sequences:
    """Walks between pairs of a split; see `GoalWalkProcess`."""
    sampling.check_split(split)
    drawn = self._walks(split, replan=False)
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
    """Rows that two prefixes of one length reach; or all, if there is none."""
    heads = [row[row >= 0] for row in self.delta]
    count = np.zeros(len(self.delta), np.int64)
    count[0] = 1
    twice = np.zeros(len(self.delta), bool)
    for k in range(1, self.max_len):
      after = np.zeros_like(count)
      for row in np.flatnonzero(count):
        np.add.at(after, heads[row], count[row])
      count = np.minimum(after, 2)  # Capped: only one, two or more matters.
      twice |= (count > 1) & (k > self.prompt_len)
    rows = self._reached[twice[self._reached]]
    return rows if len(rows) else self._reached

  def sample_states(self, num: int, seed: int) -> np.ndarray:
    """Uniform over goals and nodes that two prefixes of one length reach.

    Without such rows, as on a one-way line, uniform over all rows.
    """
    return self._drawn(self._twice, num, seed)

  def num_states(self) -> int:
    """See core.Prefixed."""
    return len(self._twice)

  def sample_others(self, states: np.ndarray, seed: int) -> np.ndarray:
    """Uniform over all goals and nodes that a prefix reaches."""
    return self._drawn(self._reached, len(states), seed)

  def _drawn(self, rows: np.ndarray, num: int, seed: int) -> np.ndarray:
    pick = sampling.picks(seed, num, len(rows))
    return rows[pick].astype(np.int32)[:, None]

  def prefix_moves(self, states: np.ndarray) -> np.ndarray:
    """[T, 2] int32 steps after goal and start."""
    rows = np.maximum(states[:, 0], 0)
    placed = (states[:, 0] >= 0) & (self.plans.nodes[rows] >= 0)
    # A prefix of one token more than needed has at least one step.
    return table.first_and_last(self._arrivals[3:, rows] & placed)

  def sample_prefixes(
    self, states: np.ndarray, moves: np.ndarray, seeds: np.ndarray
  ) -> core.Prefixes:
    """Uniform over all walks of moves[t] steps that end in states[t]."""
    return super().sample_prefixes(states, np.asarray(moves) + 2, seeds)

  # Distances and costs.

  def distance_to_end(
    self, states: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """See core.Enumerable; [B, V - 1] of all tokens but padding."""
    rows = np.maximum(states[:, 0], 0)
    after = np.where(states >= 0, self.delta[rows], core.DEAD)
    tokens = np.where(after >= 0, np.arange(1, len(self.vocab)), core.DEAD)
    hops = self.plans.hops[after].astype(np.int64)
    placed = self.plans.nodes[after] >= 0
    # After a step: the step, the remaining steps, and `end`. After a goal: the
    # goal, a start, at least one step, and `end`.
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
    """'hops' to the goal, 0 before the goal and the start."""
    hops = self.plans.hops[states[:, 0]].astype(np.int64)
    return {'hops': np.where(hops == FAR, 0, hops)}

  # In words.

  def token_names(self, style: core.PromptStyle) -> tuple[str, ...]:
    """'end' and 'reward' unchanged; nodes by number, or by new names."""
    if not style.seed:
      return self.vocab
    new = core.verbal.new_names(len(self.vocab) - NODE0, style)
    return (*self.vocab[:NODE0], *new)

  def rules(self, style: core.PromptStyle) -> str:
    """See core.Verbal: every step, place by place."""
    spoken = self.token_names(style)[NODE0:]
    nodes = np.array(self.graph.nodes)
    order = nodes[core.verbal.shuffled(len(nodes), style)]
    adjacency = [
      (spoken[node], [spoken[head] for head in self.graph.after[node]])
      for node in order.tolist()
    ]
    lines = [
      f'From {tail}, a step leads to {" or to ".join(heads)}.'
      for tail, heads in adjacency
      if heads
    ]
    text = TEXTS.render(
      'places',
      num=len(nodes),
      names=', '.join(spoken[node] for node in order),
      body='\n'.join(lines),
    )
    best = graphs.rewarded(self.graph)
    called = ', '.join(spoken[node] for node in best)
    goal = TEXTS.render('goal', rewarded=called)
    return f'{text}\n{goal}'


UNTOLD, ARRIVED = 'untold', 'over'  # Names of the first row and the last.


class Plans(NamedTuple):
  """The automaton of walks on a graph with N nodes, with R rows.

  Attributes:
    delta: [R, N + 2] int32 next rows, DEAD if illegal; column a belongs to
      token a + 1.
    names: [R] names of the rows.
    goals: goal nodes of each row, () for the first and the last row; `reward`
      equals its node if there is only one.
    nodes: [R] int32 node, DEAD before the start.
    hops: [R] int32 steps to the goal, FAR without a node.
    near: token of a goal -> node -> steps to the goal, for nodes with a path.
  """

  delta: np.ndarray
  names: tuple[str, ...]
  goals: tuple[tuple[int, ...], ...]
  nodes: np.ndarray
  hops: np.ndarray
  near: dict[int, dict[int, int]]


def make_plans(graph: graphs.Graph, size: int) -> Plans:
  """The automaton of a graph whose nodes are below `size`.

  Rows: the first; one for each goal that another node can reach; one for each
  goal and each node that can reach the goal; and one after the end.
  """
  ends: dict[int, tuple[int, ...]] = {REWARD: graphs.rewarded(graph)}
  ends |= {NODE0 + node: (node,) for node in graph.nodes}
  reached = {node: graphs.distances(graph, node) for node in graph.nodes}
  near = {
    token: {
      node: min(steps[goal] for goal in goals if goal in steps)
      for node, steps in reached.items()
      if not steps.keys().isdisjoint(goals)
    }
    for token, goals in ends.items()
  }
  near = {token: hops for token, hops in near.items() if any(hops.values())}
  hops_to = {ends[token]: hops for token, hops in near.items()}
  goals = sorted(hops_to)
  places = [(goal, node) for goal in goals for node in sorted(hops_to[goal])]
  rows = {place: 1 + len(goals) + k for k, place in enumerate(places)}
  over = 1 + len(goals) + len(rows)
  delta = np.full((over + 1, size + 2), core.DEAD, np.int32)
  for token in near:
    delta[0, token - 1] = 1 + goals.index(ends[token])
  for (goal, node), row in rows.items():
    hops = hops_to[goal]
    if hops[node]:
      delta[1 + goals.index(goal), NODE0 + node - 1] = row
    else:
      delta[row, END - 1] = over
    for head in graph.after[node]:
      if head in hops:
        delta[row, NODE0 + head - 1] = rows[goal, head]
  first = [core.DEAD] * (1 + len(goals))
  nodes = [*first, *(node for _, node in places), core.DEAD]
  hops_of = [hops_to[goal][node] for goal, node in places]
  called = {goal: '+'.join(f'n{node}' for node in goal) for goal in goals}
  words = [UNTOLD, *called.values()]
  words += [f'n{node}>{called[goal]}' for goal, node in places]
  return Plans(
    delta,
    (*words, ARRIVED),
    ((), *goals, *(goal for goal, _ in places), ()),
    np.array(nodes, np.int32),
    np.array([FAR] * len(first) + hops_of + [FAR], np.int32),
    near,
  )


class GoalWalkProcess(core.SequenceProcess):
  """Walks of some pairs of goal and start, with equal probabilities.

  Each step of a random walk is uniform over those after which the goal can be
  reached in the remaining steps; at the goal it ends with probability 1/2. Each
  step of a shortest walk is uniform over those that come nearer to the goal.
  Memory is (row, steps so far, token of the goal).
  """

  def __init__(
    self,
    automaton: Plans,
    pairs: np.ndarray,
    moves: int,
    *,
    shortest: bool,
    replan: bool = False,
  ) -> None:
    """Takes the automaton and the kind of walks.

    pairs: [P, 2] int32 tokens of goal and start.
    moves: limit of steps of a walk.
    shortest: only steps that come nearer.
    replan: mix with a vanishing share of random legal tokens, which remain
      where no walk continues.
    """
    self._automaton, self._moves, self._shortest = automaton, moves, shortest
    self._replan = replan
    size = automaton.delta.shape[1] + 1
    self._share = np.zeros((size, size))
    np.add.at(self._share, tuple(pairs.T), 1.0)

  def init(self, batch: int) -> np.ndarray:
    """See core.SequenceProcess."""
    return np.zeros((batch, 3), np.int32)

  def advance(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.SequenceProcess."""
    automaton = self._automaton
    labels = np.asarray(tokens) - 1
    rows = dfa.advance(automaton.delta, memory[:, 0], labels)
    steps = memory[:, 1] + (automaton.nodes[memory[:, 0]] >= 0)
    goals = np.where(memory[:, 0] == 0, tokens, memory[:, 2])
    return np.stack([rows, steps, goals], axis=-1).astype(np.int32)

  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See core.SequenceProcess; [B, V - 1] of all tokens but padding."""
    automaton, (rows, steps, goals) = self._automaton, memory.T
    mass = np.zeros((len(rows), automaton.delta.shape[1]))
    nodes = automaton.nodes[rows]
    mass[rows == 0] = self._share.sum(1)[1:]
    asks = (rows > 0) & (rows < len(automaton.delta) - 1) & (nodes < 0)
    mass[asks] = self._share[goals[asks], 1:]
    walking = np.flatnonzero((nodes >= 0) & (rows >= 0))
    mass[walking] = self._steps(rows[walking], steps[walking])
    mass[rows < 0] = 0.0
    if self._replan:
      lost = (rows >= 0) & ~mass.any(1)
      mass[lost] = automaton.delta[rows[lost]] >= 0
    return sampling.normalised(mass, np.arange(1, mass.shape[1] + 1))

  def _steps(self, rows: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """[B, V - 1] masses of `end` and the next nodes."""
    automaton = self._automaton
    after = automaton.delta[rows]
    left = np.where(after >= 0, automaton.hops[after], FAR)
    left[:, END - 1] = FAR
    if self._shortest:
      mass = (left < automaton.hops[rows, None]).astype(float)
    else:
      mass = (left <= (self._moves - steps - 1)[:, None]).astype(float)
    ends = after[:, END - 1] >= 0
    # As likely as all steps together, or certain if there is no step.
    mass[ends, END - 1] = np.maximum(mass[ends].sum(1), 1.0)
    return mass
