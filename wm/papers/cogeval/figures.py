"""CogEval's figures: graphs, shares of right answers, and answers drawn."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from wm.papers.cogeval import answers
from wm.papers.cogeval import score as scoring
from wm.reporting import figures
from wm.reporting.write import Picture
from wm.worlds.cognitive_graph import questions
from wm.worlds.cognitive_graph.graphs import Graph
from wm.worlds.cognitive_graph.questions import AnsweredQuestion, Question

_GREY, _GOOD, _BAD, _NEW, _GOAL = (
  *('#b8bec6', '#2a7f3f', '#c8102e', '#2f6fb3', '#f2b705'),
)
# Classes that figure 3 shows, and how many answers of each.
SHOWN = ('hallucinated_edge', 'too_long', 'loop')
_EACH = 2


@functools.lru_cache(maxsize=64)
def layout(graph: Graph) -> Mapping[int, tuple[float, float]]:
  """Node -> place: chains and trees from the start down, others by springs."""
  import networkx as nx

  drawn: Any = nx.Graph(graph.edges)
  if not nx.is_tree(drawn):
    apart = nx.spring_layout(drawn, seed=1, iterations=300)
    placed = nx.kamada_kawai_layout(drawn, pos=apart)
    return {node: (float(x), float(y)) for node, (x, y) in placed.items()}
  depth = nx.single_source_shortest_path_length(drawn, graph.start)
  across = {node: 0.0 for node in drawn if drawn.degree(node) == 1}
  order = [n for n in nx.dfs_preorder_nodes(drawn, graph.start) if n in across]
  across |= {leaf: float(k) for k, leaf in enumerate(order)}
  for node in sorted(drawn, key=lambda n: -depth[n]):
    below = [across[n] for n in drawn[node] if depth[n] > depth[node]]
    if below:
      across[node] = sum(below) / len(below)
  return {node: (across[node], -float(depth[node])) for node in drawn}


def places(problem: AnsweredQuestion) -> dict[int, tuple[float, float]]:
  """Positions of nodes; new ones stand beside those that lead to them."""
  at = dict(layout(problem.before))
  middle = np.mean(list(at.values()), 0)
  for node in problem.graph.nodes:
    if node not in at:
      near = [at[n] for n in problem.graph.neighbours(node) if n in at]
      spot = np.mean(near, 0) if near else middle
      away = spot - middle + np.array([0.31, 0.17])
      at[node] = tuple(spot + 0.35 * away / max(np.hypot(*away), 1e-9))
  return at


def draw(
  axis: Any, problem: AnsweredQuestion, nodes: Sequence[int], title: str
) -> None:
  """Draws a path on a graph: steps that are there, and those that are not.

  Closed edges are dashed and opened ones blue; the start has a green ring,
  goals are yellow, and what an answer invents is red.
  """
  at, graph, before = places(problem), problem.graph, problem.before
  unknown = [node for node in nodes if node not in at]
  low = min(y for _, y in at.values())
  for k, node in enumerate(dict.fromkeys(unknown)):
    at[node] = (min(x for x, _ in at.values()) + 0.4 * k, low - 0.5)
  now = {frozenset(arc) for arc in graph.arcs}
  then = {frozenset(arc) for arc in before.arcs}
  for edge in now | then:
    a, b = sorted(edge)
    colour = _NEW if edge not in then else _GREY
    style = '--' if edge not in now else '-'
    xs, ys = zip(at[a], at[b], strict=True)
    axis.plot(xs, ys, style, color=colour, linewidth=1.1, zorder=1)
  for k, (tail, head) in enumerate(itertools.pairwise(nodes)):
    colour = _GOOD if (tail, head) in graph.known else _BAD
    _arrow(axis, at[tail], at[head], colour, k)
  for node, spot in at.items():
    fill = _GOAL if node in problem.goals else 'white'
    ring = _GOOD if node == problem.start else '#444444'
    ring = _BAD if node in unknown else ring
    axis.scatter(
      *spot, s=190, color=fill, edgecolors=ring, linewidths=1.6, zorder=3
    )
    label = '?' if node in unknown else str(node)
    axis.text(*spot, label, ha='center', va='center', fontsize=7, zorder=4)
  axis.set_title(title, fontsize=9)
  axis.set_axis_off()
  axis.margins(0.1)


def _arrow(
  axis: Any,
  tail: tuple[float, float],
  head: tuple[float, float],
  colour: str,
  number: int,
) -> None:
  """A step; those that are there and back do not cover each other."""
  axis.annotate(
    '',
    head,
    tail,
    arrowprops={
      'arrowstyle': '-|>',
      'color': colour,
      'linewidth': 1.8,
      'shrinkA': 7,
      'shrinkB': 7,
      'connectionstyle': 'arc3,rad=0.12',
    },
    zorder=2,
  )
  x, y = 0.6 * np.array(tail) + 0.4 * np.array(head)
  axis.text(x, y, str(number + 1), color=colour, fontsize=7, zorder=5)


def problem_of(row: Mapping[str, Any]) -> AnsweredQuestion:
  """The problem that an answer, a row of a table, is about."""
  graph, condition, domain = (
    str(row[name]) for name in ('graph', 'condition', 'domain')
  )
  start, goal = (_node(row[name]) for name in ('start', 'goal'))
  return questions.problem(Question(graph, condition, domain, start, goal))


def _node(value: Any) -> int | None:
  return None if pd.isna(value) else int(value)


def six(frame: pd.DataFrame, score: str, model: str) -> Picture:
  """Figure 1: the graphs, and how often a model is right on each."""
  figure, axes = figures.new_axes(6, across=3, size=(3.6, 3.0))
  scored = frame[(frame['model'] == model) & frame[score].notna()]
  for axis, name in zip(axes, answers.LETTERS, strict=True):
    cell = scored[scored['graph'] == name]
    title = f'{answers.LETTERS[name]} ({name})'
    if len(cell):
      mean = answers.mean(cell, score)
      title += f': {mean.value:.2f} [{mean.low:.2f}, {mean.high:.2f}]'
    draw(axis, questions.problem(Question(name, 'valuePath')), (), title)
  caption = (
    'Figure 1: the six graphs; green is the start, yellow the largest reward; '
    f'above, how often {answers.label(model)} is right'
  )
  return Picture('figure1.png', caption, figures.to_png(figure))


def bars(frame: pd.DataFrame, score: str) -> Picture:
  """Figure 2: means of each model by graph and by group of conditions."""
  figure, axes = figures.new_axes(2, across=1, size=(11.0, 3.2))
  models = answers.models_of(frame[frame[score].notna()])
  panels = {
    'graph': list(answers.LETTERS),
    'group': [g for g in questions.GROUPS if g in set(frame['group'])],
  }
  for axis, (by, values) in zip(axes, panels.items(), strict=True):
    for k, model in enumerate(models):
      scored = frame[(frame['model'] == model) & frame[score].notna()]
      cells = [(n, scored[scored[by] == v]) for n, v in enumerate(values)]
      means = [(n, answers.mean(s, score)) for n, s in cells if len(s)]
      width = 0.84 / len(models)
      spots = [n - 0.42 + width * (k + 0.5) for n, _ in means]
      height = np.array([mean.value for _, mean in means])
      low = height - [mean.low for _, mean in means]
      high = [mean.high for _, mean in means] - height
      axis.bar(spots, height, width, label=answers.label(model))
      axis.errorbar(
        spots, height, [low, high], fmt='none', ecolor='#333333', linewidth=0.7
      )
    names = [answers.LETTERS.get(value, value) for value in values]
    axis.set_xticks(range(len(values)), names)
    axis.set_ylabel(f'mean score ({score})')
    axis.set_ylim(0, 1)
  axes[0].legend(fontsize=7, ncols=min(len(models), 5), loc='upper right')
  caption = (
    'Figure 2: mean scores by graph and by group of conditions; lines are 95 % '
    'intervals by questions'
  )
  return Picture('figure2.png', caption, figures.to_png(figure))


def wrong_answers(frame: pd.DataFrame, model: str) -> Picture | None:
  """Figure 3: the most frequent wrong answers of a model, on their graphs."""
  large = frame[
    (frame['model'] == model)
    & frame['graph'].isin(['n15star', 'n16cluster', 'n21star'])
    & frame['nodes'].notna()
  ]
  keys = ['graph', 'condition', 'domain', 'start', 'goal', 'nodes']
  chosen: list[tuple[dict[str, Any], int]] = []
  for kind in SHOWN:
    failed = large[large['outcome'] == kind]
    count = failed.groupby(keys, observed=True, dropna=False).size()
    count = count.sort_values(ascending=False, kind='stable')
    seen: list[object] = []
    for place, number in count.items():
      row = dict(zip(keys, place, strict=True)) | {'outcome': kind}
      if row['graph'] not in seen and len(seen) < _EACH:
        seen.append(row['graph'])
        chosen.append((row, int(number)))
  if not chosen:
    return None
  figure, axes = figures.new_axes(len(chosen), across=3, size=(4.2, 3.6))
  for axis, (row, number) in zip(axes, chosen, strict=True):
    problem = problem_of(row)
    nodes = scoring.whole(problem, answers.parse_nodes(row['nodes']))
    title = (
      f'{row["outcome"].replace("_", " ")}, n={number}: '
      f'{answers.LETTERS[row["graph"]]}, {row["condition"]}'
    )
    draw(axis, problem, nodes, title)
  caption = (
    f'Figure 3: the most frequent wrong answers of {answers.label(model)}, on '
    'their graphs. Red steps are not there; closed edges are dashed, opened '
    'ones blue; yellow is the goal'
  )
  return Picture('figure3.png', caption, figures.to_png(figure))


def pictures(frame: pd.DataFrame, score: str) -> list[Picture]:
  """The three figures; graphs and answers are those of the first model."""
  model = answers.models_of(frame)[0]
  drawings = [
    six(frame, score, model),
    bars(frame, score),
    wrong_answers(frame, model),
  ]
  return [picture for picture in drawings if picture is not None]
