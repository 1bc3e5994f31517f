"""The world of CogEval's graphs: walks, goals, pairs held out, changes."""

import dataclasses
import itertools

import numpy as np
import pytest

from wm.core import registry
from wm.worlds.cognitive_graph import END, NODE0, REWARD, World, graphs

# An edit of each kind, on graphs of each kind.
EDITED = [
  World('n7line', 'transReval'),
  World('n7tree', 'rewardReval'),
  World('n13line', 'teleShortcut'),
  World('n15star', 'nonteleDetour'),
  World('n16cluster', 'policyReval'),
  World('n21star', 'teleDetourAnywhere'),
]


def every(name):
  """A graph's worlds: without an edit, and with each that is no chance."""
  known = graphs.CHANGES[name].items()
  edits = [edit for edit, change in known if not change.chances]
  return [World(name, edit) for edit in ('', *edits)]


def walks_of(world, num=80, split='all'):
  """Tokens of walks as lists."""
  result = world.sample(num, 3, split)
  return [
    row[:size].tolist()
    for row, size in zip(result.tokens, result.lengths, strict=True)
  ]


@pytest.mark.parametrize('world', EDITED, ids=lambda world: world.name)
def test_walks_take_arcs_to_their_goal(world):
  best = graphs.rewarded(world.graph)
  for goal, start, *steps, last in walks_of(world):
    nodes = [token - NODE0 for token in (start, *steps)]
    goals = best if goal == REWARD else (goal - NODE0,)
    assert set(itertools.pairwise(nodes)) <= world.graph.known
    assert nodes[0] not in goals
    assert nodes[-1] in goals
    assert (last, len(steps) >= 1) == (END, True)


@pytest.mark.parametrize('world', EDITED, ids=lambda world: world.name)
def test_shortest_walks_cost_the_least_and_are_the_solvers(world):
  short = dataclasses.replace(world, walks='shortest')
  result = short.sample(300, 1)
  costs = short.costs(result)
  np.testing.assert_array_equal(costs.cost, costs.least)
  walked = {tuple(row) for row in walks_of(short, 2000)}
  goal, start = max(walked)[:2]
  expected = graphs.shortest_paths(world.graph, start - NODE0, goal - NODE0)
  sample = {row[1:-1] for row in walked if row[:2] == (goal, start)}
  assert sample <= {tuple(node + NODE0 for node in path) for path in expected}
  wandering = world.costs(world.sample(300, 1))
  assert (wandering.cost >= wandering.least).all()
  # On a line there is one way only.
  longer = (wandering.cost > wandering.least).any()
  assert longer == (world.name != 'n7line')


def test_steps_to_the_goal_are_the_solvers():
  world = World('n21star', 'transReval')
  for row in np.flatnonzero(world.plans.nodes >= 0):
    node, ends = world.plans.nodes[row], world.plans.goals[row]
    near = graphs.distances(world.graph, int(node))
    assert world.plans.hops[row] == min(near[end] for end in ends)


def test_a_step_is_legal_where_the_goal_can_still_be_reached():
  world = World('n7line')
  tokens = [[REWARD, NODE0, NODE0 + 2], [NODE0 + 5, NODE0, NODE0 + 2]]
  steps, _ = world.walk(world.init(2), np.array(tokens), np.array([3, 3]))
  # The largest reward is behind node 2, node 5 is not.
  assert steps.tolist() == [3, 2]


@pytest.mark.parametrize('name', graphs.GRAPHS)
def test_what_an_edit_changes_is_walked_through_and_the_rest_held_out(name):
  plain = World(name)
  best = {graphs.best_paths(plain.graph)}
  for world in every(name):
    assert world.vocab == plain.vocab
    if not world.edit:
      continue
    assert graphs.best_paths(world.graph) not in best
    part = dataclasses.replace(world, part='changed')
    local = {tuple(row[:2]) for row in walks_of(part, 100, 'train')}
    held = {tuple(row[:2]) for row in walks_of(part, 100, 'heldout')}
    assert local
    assert held
    assert not local & held
    new = part.graph.known - part.before.known
    for row in walks_of(part, 50, 'train'):
      nodes = [token - NODE0 for token in row[1:-1]]
      arcs = set(itertools.pairwise(nodes))
      gone = (nodes[0], row[0] - NODE0) in part.before.known
      assert arcs & new or gone or row[0] == REWARD


def test_a_fifth_of_the_pairs_is_held_out():
  world = World('n16cluster')
  train, held = (
    {tuple(row[:2]) for row in walks_of(world, 3000, split)}
    for split in ('train', 'heldout')
  )
  assert not train & held
  assert len(held) == 51
  assert len(train) == 204


def test_a_spec_keeps_the_name_of_its_graph():
  text = "cognitive_graph(name='n15star', edit='transReval')"
  world = registry.make('world', text)
  assert registry.spec(world) == text
  assert registry.make('world', "cognitive_graph(name='D')").graph == (
    graphs.graph('n15star')
  )


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'name': 'G'}, "unknown graph 'G'; available: n7line"),
    (
      {'edit': 'policyReval'},
      "unknown edit 'policyReval' of n7line; available",
    ),
    (
      {'name': 'C', 'edit': 'transRevalStochastic'},
      'expected an edit without random steps',
    ),
    ({'part': 'changed'}, "part='changed', edit=''; expected an edit"),
    ({'part': 'some'}, "part='some'; available: all, changed"),
    ({'name': 'C', 'moves': 3}, 'moves=3; expected at least 6 steps'),
  ],
)
def test_bad_fields_are_refused_in_a_line(fields, message, one_line):
  with one_line() as error:
    World(**fields)
  assert message in str(error.value)


def test_the_picture_shows_node_and_goal():
  world = World('n15star')
  text = world.render(world.parse('n1>n8')[0])
  assert 'n1&gt;n8' in text
  assert 'leads to' in text
