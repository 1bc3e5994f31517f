"""Answers to CogEval's prompts by planners that know only what was told.

solver        a shortest path to the goal, or to the largest reward
old_map       the same, on the map and the rewards before the change
random_walk   steps at random, until the goal or a dead end
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.language.stand_ins import cogeval
from tests.language.stand_ins.asked import Asked
from tests.language.stand_ins.cogeval import Map

OPENING = 'You are an assistant that answers questions about places'
LONGEST = 60  # Steps of a walk.


def answer(asked: Asked) -> str | None:
  """An answer to a prompt of CogEval; None where it is none."""
  if not asked.text.startswith(OPENING):
    return None
  result = cogeval.read(asked.text)
  planner = PLANNERS.get(asked.knows)
  if result is None or planner is None:
    return None
  if result.kind == 'count':
    count = len(clusters(result)) if asked.knows in RIGHT else 1
    return f'Answer: there are {count} clusters'
  path = planner(result, asked.draws)
  if result.kind == 'choice' and path[1:]:
    path = path[1:2]
  return f'Answer: {", ".join(result.shown[node] for node in path)}'


def after(result: Map, node: str) -> list[str]:
  """Nodes that one step leads to, in the order told."""
  return [head for tail, head in result.arcs if tail == node]


def goals(result: Map) -> list[str]:
  """The goal, or all reachable nodes with the largest reward."""
  if result.kind == 'path':
    return [result.goal]
  reached = reach(result, result.start)
  known = {n: value for n, value in result.rewards.items() if n in reached}
  most = max(known.values(), default=0)
  return [node for node, value in known.items() if value == most]


def reach(result: Map, start: str) -> dict[str, str]:
  """Node -> the node before it on a shortest path from a start, nearest
  first; the start is its own."""
  before, queue = {start: start}, [start]
  for node in queue:
    for head in after(result, node):
      if head not in before:
        before[head] = node
        queue.append(head)
  return before


def best(result: Map, draws: random.Random) -> Sequence[str]:
  """A shortest path to the nearest goal; the start alone without one."""
  if result.chances:
    return [result.start, _likeliest(result)]
  ends, before = set(goals(result)), reach(result, result.start)
  node = next((node for node in before if node in ends), result.start)
  path = [node]
  while path[0] != result.start:
    path.insert(0, before[path[0]])
  return path


def old(result: Map, draws: random.Random) -> Sequence[str]:
  """The best path on the map as it was before it changed."""
  if result.before is None:
    return best(result, draws)
  before = result.before
  before.kind, before.start, before.goal = (
    result.kind,
    result.start,
    result.goal,
  )
  return best(before, draws)


def _likeliest(result: Map) -> str:
  """The first step with the largest probability of the largest reward."""
  most = max(result.rewards.values())
  chance = {n: float(result.rewards.get(n) == most) for n in result.everyone()}
  for _ in chance:
    for node in chance:
      heads = after(result, node)
      if (node, heads[0] if heads else '') in result.chances:
        chance[node] = sum(
          result.chances[node, head] * chance[head] for head in heads
        )
      elif heads and result.rewards.get(node) != most:
        chance[node] = max(chance[head] for head in heads)
  return max(after(result, result.start), key=lambda node: chance[node])


def walk(result: Map, draws: random.Random) -> Sequence[str]:
  """Uniform steps until a goal, a dead end, or LONGEST."""
  ends, path = set(goals(result)), [result.start]
  while (
    path[-1] not in ends and after(result, path[-1]) and len(path) < LONGEST
  ):
    path.append(draws.choice(after(result, path[-1])))
  return path


def leap(result: Map, draws: random.Random) -> Sequence[str]:
  """From the start to a goal in one step."""
  return [result.start, *goals(result)[:1]]


PLANNERS: dict[str, Callable[[Map, random.Random], Sequence[str]]] = {
  'solver': best,
  'old_map': old,
  'random': walk,
  'yes': leap,
}
RIGHT = ('solver', 'old_map')


def clusters(result: Map) -> list[set[str]]:
  """Groups of at least two nodes that sides of triangles join."""
  near = {node: set(result.neighbors(node)) for node in result.everyone()}
  groups: list[set[str]] = []
  for node in near:
    mine = {other for other in near[node] if near[other] & near[node]} | {node}
    joined = [group for group in groups if group & mine]
    groups = [group for group in groups if not group & mine]
    groups.append(mine.union(*joined))
  return [group for group in groups if len(group) > 1]
