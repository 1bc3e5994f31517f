"""Walks to a stated goal on a graph, as the table of an automaton.

    goal   start   node   node ... node   end
    n8     n1      n11    n2      n8      end
    reward n1      n11    n2      n8      end

A goal is a node, or `reward`: the nodes with the largest reward that an agent
can come to from the graph's start. A step is legal where an arc makes it and
the goal can still be reached; `end` is legal at the goal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.worlds.cognitive_graph import solver
from wm.worlds.cognitive_graph.graphs import Graph

END, REWARD, NODE0 = 1, 2, 3  # Token ids; nodes follow by number.
UNTOLD, ARRIVED = 'untold', 'over'  # Names of the first row and the last.
FAR = np.iinfo(np.int32).max


class Plans(NamedTuple):
  """The automaton of walks on a graph with N nodes, with R rows.

  Attributes:
    delta: [R, N + 2] int32 next rows, DEAD where illegal; column a is of the
      token a + 1.
    names: [R] of the rows.
    goals: the nodes that each row's goal stands for, () of the first row and
      the last; `reward` and the one node that it stands for are the same.
    nodes: [R] int32 node, DEAD where there is none yet.
    hops: [R] int32 steps to the goal, FAR where there is no node.
    near: token of a goal -> node -> steps to it, of nodes that come to it.
  """

  delta: np.ndarray
  names: tuple[str, ...]
  goals: tuple[tuple[int, ...], ...]
  nodes: np.ndarray
  hops: np.ndarray
  near: dict[int, dict[int, int]]


def rewarded(graph: Graph) -> tuple[int, ...]:
  """Nodes with the largest reward that can be reached from the start."""
  reached = solver.distances(graph, graph.start)
  rewards = {node: value for node, value in graph.rewards if node in reached}
  most = max(rewards.values(), default=0)
  return tuple(sorted(node for node, value in rewards.items() if value == most))


def steps_to(graph: Graph, goals: tuple[int, ...]) -> dict[int, int]:
  """Node -> steps to the nearest goal, of all nodes that come to one."""
  steps = {goal: 0 for goal in goals}
  queue = list(steps)
  for node in queue:
    for tail, head in graph.arcs:
      if head == node and tail not in steps:
        steps[tail] = steps[node] + 1
        queue.append(tail)
  return steps


def plans(graph: Graph, size: int) -> Plans:
  """The automaton of a graph whose nodes are below `size`.

  Rows: one before all, one for each goal that some other node comes to, one
  for each goal and node that comes to it, and one after the end.
  """
  ends: dict[int, tuple[int, ...]] = {REWARD: rewarded(graph)}
  ends |= {NODE0 + node: (node,) for node in graph.nodes}
  near = {token: steps_to(graph, nodes) for token, nodes in ends.items()}
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


class Trips(core.SequenceProcess):
  """Walks of some pairs of goal and start, each pair as likely.

  Each step is uniform over those after which the goal can be reached in the
  steps that are left, or over those that come nearer to it; at the goal a
  random walk goes on as often as it ends. Memory is (row, steps made, token of
  the goal).
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
    """Takes the automaton, and which walks.

    pairs: [P, 2] int32 tokens of goal and start.
    moves: most steps of a walk.
    shortest: only steps that come nearer.
    replan: mixed with a vanishing share of random legal tokens, which are left
      where no walk goes on.
    """
    self._made, self._moves, self._shortest = automaton, moves, shortest
    self._replan = replan
    size = automaton.delta.shape[1] + 1
    self._share = np.zeros((size, size))
    np.add.at(self._share, tuple(pairs.T), 1.0)

  def init(self, batch: int) -> np.ndarray:
    """See core.SequenceProcess."""
    return np.zeros((batch, 3), np.int32)

  def advance(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.SequenceProcess."""
    automaton = self._made
    labels = np.asarray(tokens) - 1
    valid = (
      (labels >= 0) & (labels < automaton.delta.shape[1]) & (memory[:, 0] >= 0)
    )
    rows = automaton.delta[memory[:, 0], np.where(valid, labels, 0)]
    rows = np.where(valid, rows, core.DEAD)
    steps = memory[:, 1] + (automaton.nodes[memory[:, 0]] >= 0)
    goals = np.where(memory[:, 0] == 0, tokens, memory[:, 2])
    return np.stack([rows, steps, goals], axis=-1).astype(np.int32)

  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See core.SequenceProcess; [B, V - 1] of all tokens but padding."""
    automaton, (rows, steps, goals) = self._made, memory.T
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
    total = np.maximum(mass.sum(1, keepdims=True), np.finfo(float).tiny)
    tokens = np.where(mass > 0, np.arange(1, mass.shape[1] + 1), core.DEAD)
    with np.errstate(divide='ignore'):
      return tokens.astype(np.int32), np.log(mass / total)

  def _steps(self, rows: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """[B, V - 1] masses of `end` and the next nodes."""
    automaton = self._made
    after = automaton.delta[rows]
    left = np.where(after >= 0, automaton.hops[after], FAR)
    left[:, END - 1] = FAR
    if self._shortest:
      mass = (left < automaton.hops[rows, None]).astype(float)
    else:
      mass = (left <= (self._moves - steps - 1)[:, None]).astype(float)
    ends = after[:, END - 1] >= 0
    # As likely as all steps together, or sure where there are none.
    mass[ends, END - 1] = np.maximum(mass[ends].sum(1), 1.0)
    return mass
