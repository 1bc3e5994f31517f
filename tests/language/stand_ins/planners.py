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
  found = cogeval.read(asked.text)
  planner = PLANNERS.get(asked.knows)
  if found is None or planner is None:
    return None
  if found.kind == 'count':
    count = len(clusters(found)) if asked.knows in RIGHT else 1
    return f'Answer: there are {count} clusters'
  path = planner(found, asked.draws)
  if found.kind == 'choice' and path[1:]:
    path = path[1:2]
  return f'Answer: {", ".join(found.shown[node] for node in path)}'


def after(found: Map, node: str) -> list[str]:
  """Nodes that one step leads to, in the order told."""
  return [head for tail, head in found.arcs if tail == node]


def goals(found: Map) -> list[str]:
  """The goal, or all reachable nodes with the largest reward."""
  if found.kind == 'path':
    return [found.goal]
  reached = reach(found, found.start)
  known = {n: value for n, value in found.rewards.items() if n in reached}
  most = max(known.values(), default=0)
  return [node for node, value in known.items() if value == most]


def reach(found: Map, start: str) -> dict[str, str]:
  """Node -> the node before it on a shortest path from a start, nearest
  first; the start is its own."""
  before, queue = {start: start}, [start]
  for node in queue:
    for head in after(found, node):
      if head not in before:
        before[head] = node
        queue.append(head)
  return before


def best(found: Map, draws: random.Random) -> Sequence[str]:
  """A shortest path to the nearest goal; the start alone without one."""
  if found.chances:
    return [found.start, _likeliest(found)]
  ends, before = set(goals(found)), reach(found, found.start)
  node = next((node for node in before if node in ends), found.start)
  path = [node]
  while path[0] != found.start:
    path.insert(0, before[path[0]])
  return path


def old(found: Map, draws: random.Random) -> Sequence[str]:
  """The best path on the map as it was before it changed."""
  if found.before is None:
    return best(found, draws)
  before = found.before
  before.kind, before.start, before.goal = found.kind, found.start, found.goal
  return best(before, draws)


def _likeliest(found: Map) -> str:
  """The first step with the largest probability of the largest reward."""
  most = max(found.rewards.values())
  chance = {n: float(found.rewards.get(n) == most) for n in found.everyone()}
  for _ in chance:
    for node in chance:
      heads = after(found, node)
      if (node, heads[0] if heads else '') in found.chances:
        chance[node] = sum(
          found.chances[node, head] * chance[head] for head in heads
        )
      elif heads and found.rewards.get(node) != most:
        chance[node] = max(chance[head] for head in heads)
  return max(after(found, found.start), key=lambda node: chance[node])


def walk(found: Map, draws: random.Random) -> Sequence[str]:
  """Uniform steps until a goal, a dead end, or LONGEST."""
  ends, path = set(goals(found)), [found.start]
  while path[-1] not in ends and after(found, path[-1]) and len(path) < LONGEST:
    path.append(draws.choice(after(found, path[-1])))
  return path


def leap(found: Map, draws: random.Random) -> Sequence[str]:
  """From the start to a goal in one step."""
  return [found.start, *goals(found)[:1]]


PLANNERS: dict[str, Callable[[Map, random.Random], Sequence[str]]] = {
  'solver': best,
  'old_map': old,
  'random': walk,
  'yes': leap,
}
RIGHT = ('solver', 'old_map')


def clusters(found: Map) -> list[set[str]]:
  """Groups of at least two nodes that sides of triangles join."""
  near = {node: set(found.neighbors(node)) for node in found.everyone()}
  groups: list[set[str]] = []
  for node in near:
    mine = {other for other in near[node] if near[other] & near[node]} | {node}
    joined = [group for group in groups if group & mine]
    groups = [group for group in groups if not group & mine]
    groups.append(mine.union(*joined))
  return [group for group in groups if len(group) > 1]
