"""CogEval's graphs, changes and answers: sizes, laws, a trusted peer."""

import networkx
import pytest

from wm.worlds.cognitive_graph import graphs, questions

EDITED = [
  (name, edit) for name in graphs.GRAPHS for edit in graphs.CHANGES[name]
]


def peer(graph):
  result = networkx.DiGraph()
  result.add_edges_from(graph.arcs)
  return result


@pytest.mark.parametrize(
  ('name', 'nodes', 'edges', 'degrees', 'diameter'),
  [
    ('n7line', 7, 6, {1, 2}, 3),
    ('n7tree', 7, 6, {1, 2, 3}, 4),
    ('n13line', 13, 12, {1, 2}, 6),
    ('n15star', 15, 30, {4}, 4),
    ('n16cluster', 16, 32, {4}, 4),
    ('n21star', 21, 63, {6}, 4),
  ],
)
def test_the_six_graphs_are_the_papers(name, nodes, edges, degrees, diameter):
  graph = graphs.graph(name)
  assert (len(graph.nodes), len(graph.edges)) == (nodes, edges)
  assert {len(graph.neighbours(node)) for node in graph.nodes} == degrees
  lengths = dict(networkx.all_pairs_shortest_path_length(peer(graph)))
  assert max(max(x.values()) for x in lengths.values()) == diameter
  assert graph.directed == name.endswith('line')
  assert graph == graphs.graph('ABCDEF'[list(graphs.GRAPHS).index(name)])


@pytest.mark.parametrize(('name', 'edit'), EDITED)
def test_a_change_changes_the_best_answer(name, edit):
  before, after = graphs.graph(name), graphs.edited(name, edit)
  if after.chances:
    # Verbal for keeping: the best choice is the same in the audited texts.
    assert graphs.best_choices(after) == graphs.best_choices(before)
    return
  assert graphs.best_paths(before) != graphs.best_paths(after)
  assert graphs.best_paths(after)


@pytest.mark.parametrize(
  'graph',
  [
    *graphs.GRAPHS.values(),
    graphs.edited('n15star', 'teleDetour'),
    graphs.edited('n7tree', 'transReval'),
  ],
)
def test_shortest_paths_are_a_trusted_peers(graph):
  trusted = peer(graph)
  trusted.add_nodes_from(graph.nodes)
  for start in graph.nodes:
    for goal in graph.nodes:
      results = graphs.shortest_paths(graph, start, goal)
      if not networkx.has_path(trusted, start, goal):
        assert not results
        continue
      expected = networkx.all_shortest_paths(trusted, start, goal)
      assert list(results) == sorted(map(tuple, expected))


def test_where_doors_lead_by_chance_the_likelier_side_is_chosen():
  graph = graphs.edited('n13line', 'transRevalStochastic')
  assert graphs.best_choices(graph) == (2,)
  swapped = graphs.Change(
    opened=((3, 6), (4, 5)),
    chances=((3, 5, 0.1), (3, 6, 0.9), (4, 6, 0.1), (4, 5, 0.9)),
  )
  other = graphs.changed(graphs.graph('n13line'), swapped)
  assert graphs.best_choices(other) == (1,)


def test_of_equal_rewards_the_nearest_counts():
  graph = graphs.Graph(graphs.chain(0, 1, 2, 3), 0, ((1, 5), (3, 9), (2, 9)))
  assert graphs.best_paths(graph) == ((0, 1, 2),)
  assert not graphs.best_paths(graphs.Graph(((0, 1),), 0))


def test_clusters_are_what_triangles_hold_together():
  sizes = {
    name: sorted(map(len, graphs.clusters(graph)))
    for name, graph in graphs.GRAPHS.items()
  }
  assert sizes == {
    'n7line': [],
    'n7tree': [],
    'n13line': [],
    'n15star': [5, 5, 5],
    'n16cluster': [4, 4, 4, 4],
    'n21star': [7, 7, 7],
  }


@pytest.mark.parametrize('name', graphs.GRAPHS)
def test_every_condition_has_an_answer(name):
  assert len(questions.conditions(name)) >= 8
  letter = dict(zip(graphs.GRAPHS, graphs.LETTERS, strict=True))[name]
  for condition in questions.conditions(name):
    steps = questions.distance(name, condition)
    assert questions.distance(letter, condition) == steps
    ends = [(None, None)]
    if steps:
      ends = graphs.pairs_at(graphs.graph(name), steps)
    for start, goal in ends:
      for domain in questions.DOMAINS:
        asked = questions.Question(name, condition, domain, start, goal)
        assert questions.problem(asked).optimal


@pytest.mark.parametrize('domain', questions.DOMAINS)
@pytest.mark.parametrize('name', graphs.GRAPHS)
def test_names_are_different_words(name, domain):
  lines = [questions.node_names(name, domain, 22, seed) for seed in (0, 1, 2)]
  for known in lines:
    assert len({word.lower() for word in known.values()}) == len(known) >= 22
    assert all(word.split() == [word] for word in known.values())
  assert lines[0] != lines[1] != lines[2]


@pytest.mark.parametrize(
  ('call', 'message'),
  [
    (lambda: graphs.graph('n8'), "unknown graph 'n8'; available: n7line"),
    (lambda: graphs.edited('n7line', 'policyReval'), "unknown edit 'policy"),
    (
      lambda: questions.full_domain('rome'),
      "unknown domain 'rome'; available: ordRooms",
    ),
    (
      lambda: questions.problem(questions.Question('n7line', '3stepPath')),
      "unknown condition '3stepPath' of n7line; available: valuePath",
    ),
    (
      lambda: questions.problem(questions.Question('n7line', '1stepPath')),
      '1stepPath takes a start and a goal',
    ),
    (
      lambda: questions.problem(
        questions.Question('n7line', '1stepPath', start=5, goal=1)
      ),
      'n7line: no path leads from 5 to 1',
    ),
  ],
)
def test_bad_input_is_named_in_one_line(call, message, one_line):
  with one_line() as error:
    call()
  assert message in str(error.value)
