"""Planners that answer CogEval's questions on the graphs themselves.

solver        a shortest path to the goal, or to the largest reward
old_map       the same, on the graph and the rewards before the change
random        steps at random, until the goal or a dead end
random_path   the same without coming to a node twice
greedy        at every step the largest reward in sight, else any new node,
              until there is a reward
yes           from the start to a goal in one step
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from wm.worlds.cognitive_graph.graphs import Graph
from wm.worlds.cognitive_graph.questions import Problem
from wm.worlds.cognitive_graph.solver import best_paths

LONGEST = 60  # Steps of a random walk.

Planner = Callable[[Problem, random.Random], Sequence[int]]


def best(problem: Problem, draws: random.Random) -> Sequence[int]:
  """A right answer; a choice follows the start."""
  del draws
  first = problem.optimal[0]
  return first if problem.kind == 'path' else (problem.start, *first)


def old(problem: Problem, draws: random.Random) -> Sequence[int]:
  """A right answer before the change; the start alone where there is none."""
  if problem.graph == problem.before:
    return best(problem, draws)
  paths = best_paths(problem.before)
  return paths[0] if paths else (problem.start,)


def walk(
  problem: Problem, draws: random.Random, *, anew: bool = False
) -> Sequence[int]:
  """Uniform steps until a goal, a dead end, or LONGEST; anew: to new nodes."""
  path = [problem.start]
  while path[-1] not in problem.goals and len(path) < LONGEST:
    heads = _heads(problem.graph, path, anew)
    if not heads:
      break
    path.append(draws.choice(heads))
  return path


def simple(problem: Problem, draws: random.Random) -> Sequence[int]:
  """Uniform steps to new nodes until a goal or a dead end."""
  return walk(problem, draws, anew=True)


def greedy(problem: Problem, draws: random.Random) -> Sequence[int]:
  """To the largest reward in sight, else to any new node."""
  path = [problem.start]
  rewards = dict(problem.graph.rewards)
  while path[-1] not in rewards:
    heads = _heads(problem.graph, path, anew=True)
    if not heads:
      break
    seen = [head for head in heads if head in rewards]
    path.append(
      max(seen, key=lambda head: rewards[head]) if seen else draws.choice(heads)
    )
  return path


def leap(problem: Problem, draws: random.Random) -> Sequence[int]:
  """From the start to a goal in one step."""
  del draws
  return [problem.start, *problem.goals[:1]]


def _heads(graph: Graph, path: Sequence[int], anew: bool) -> list[int]:
  """Nodes that a step leads to; anew: those that are not on the path."""
  return [head for head in graph.after[path[-1]] if not (anew and head in path)]


PLANNERS: dict[str, Planner] = {
  'solver': best,
  'old_map': old,
  'random': walk,
  'yes': leap,
  'random_path': simple,
  'greedy': greedy,
}


def edges(graph: Graph, names: dict[int, str], check: str) -> str | None:
  """All connections, as pairs or as lines; None where none were told."""
  if check == 'contamination':
    return None
  if check == 'edges':
    pairs = {frozenset(arc): arc for arc in reversed(graph.arcs)}
    listed = (f'({names[a]}, {names[b]})' for a, b in pairs.values())
    return f'Answer: {", ".join(listed)}'
  lines = (
    f'{names[node]}: {", ".join(names[head] for head in graph.after[node])}'
    for node in graph.nodes
    if graph.after[node]
  )
  return 'Answer:\n' + '\n'.join(lines)
