"""Audit: every state by hand, by formula, and the adversaries' verdicts."""

import warnings

import matplotlib.figure
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.stats

import wm
from tests import tiny
from tests.metrics import table
from wm import core
from wm.core import registry
from wm.metrics import audit
from wm.models.serving import oracles, process

X, Y, END = tiny.X, tiny.Y, tiny.END
CITY = 'maps(rows=5, columns=5)'


def run(predictor, world, **fields):
  return table.by_name(audit.Metric(**fields)(predictor, world, 0))


def test_by_hand():
  """Node 1 accepts y, which is illegal; node 3 refuses x, which is legal."""
  world = tiny.World()
  predictor = table.Table(
    world,
    {
      0: {X: 0.5, Y: 0.5},
      1: {X: 0.7, Y: 0.3},
      2: {X: 0.4, Y: 0.6},
      3: {END: 1.0},
    },
  )
  results = run(predictor, world, prefixes=3)
  exact = results['exact']
  assert exact.counts == {
    'states': 4,
    'complete': 1,
    'legal_tokens': 3 * 7,
    'false_tokens': 3,
    'missing_tokens': 3,
    # Moves without the end: x and y of 0, x of 1, x and y of 2, x of 3.
    'moves': 6,
    'false_moves': 1,
    'missing_moves': 1,
  }
  values = {name: table.mean(results[name]) for name in results}
  assert values['exact'] == 0.5
  assert values['false'] == values['missing'] == 0.25
  assert values['illegal_mass'] == pytest.approx(0.3 / 4)
  assert audit.wrong_moves(exact.measured_columns()) == [
    ('1', 'y', True, 1.0),
    ('3', 'x', False, 1.0),
  ]


def test_every_pair_of_a_city_is_visited_once():
  world = registry.make('world', CITY)
  graph = nx.DiGraph(
    (u, v) for u, row in enumerate(world.graph.delta) for v in row if v >= 0
  )
  oracle = registry.make('model', 'oracle()').predictor(world, 0)
  exact = run(oracle, world)['exact']
  num = graph.number_of_nodes()
  assert exact.counts['states'] == num * num
  assert exact.counts['moves'] == graph.number_of_edges()
  asked = {tuple(text.split(',')) for text in exact.columns['state']}
  names = world.vocab[-num:]
  assert asked == {(a, b) for a in names for b in names}


def test_states_that_no_move_enters_are_asked_after_the_prompt():
  world = registry.make('world', 'cognitive_graph()')
  oracle = registry.make('model', 'oracle()').predictor(world, 0)
  exact = run(oracle, world)['exact']
  assert exact.measured.all()
  assert exact.counts['complete'] == 1


def test_a_large_world_is_sampled_and_bounded():
  world = registry.make('world', 'othello(size=6)')
  oracle = registry.make('model', 'oracle()').predictor(world, 0)
  results = run(oracle, world, states=300, prefixes=1)
  assert results['exact'].counts['complete'] == 0
  assert set(results['exact_sampled'].reason) == {'states_are_drawn'}
  finding = wm.audit(
    'oracle()', world, metric='audit(states=300, prefixes=1)'
  ).summary
  states = finding.states
  assert 250 < states <= 300
  # None of n: the rule of three.
  assert finding.most_false == pytest.approx(3 / states, rel=0.01)


@pytest.mark.parametrize(('wrong', 'num'), [(0, 40), (3, 40), (40, 40)])
def test_the_bound_is_clopper_and_pearsons(wrong, num):
  bound = audit._upper_bound(wrong / num, num)
  interval = scipy.stats.binomtest(wrong, num).proportion_ci(0.9, 'exact')
  assert bound == pytest.approx(1 if wrong == num else interval.high)


@pytest.mark.parametrize(
  ('model', 'right', 'words'),
  [
    ('oracle()', True, 'exactly the legal tokens'),
    ('uniform()', False, 'a false token in 100.0%'),
    ('noisy_oracle(wrong=0.07)', False, 'a false token in 5'),
    ("noisy_oracle(wrong=0.07, by='prefix')", False, 'a false token in '),
    ('noisy_oracle(wrong=0, illegal=0.02)', False, 'token in 100.0%'),
    ("adversary(kind='leaky')", False, 'together have probability 0.38'),
    ("adversary(kind='peaked')", False, 'refuses a legal one in 9'),
    ("adversary(kind='deterministic')", False, 'refuses a legal one in 9'),
    ("adversary(kind='permuted')", False, 'false token in 2.'),
    ("adversary(kind='forgets', moves=5)", False, 'false token in '),
    ("adversary(kind='memoriser', num=100)", False, 'false token in '),
    ("null(kind='state', excess=0.02)", False, 'false token in '),
    ("null(kind='prefix', excess=0.02)", False, 'false token in '),
  ],
)
def test_the_sentence_says_which_map_a_model_has(model, right, words):
  finding = wm.audit(model, 'maps(rows=6, columns=6)').summary
  assert finding.is_right == right, finding
  assert words in finding.sentence('street')


class FalseStreet(oracles.WorldPredictor):
  """The legal tokens alike, and a false street in 7 of 100 states."""

  TOKEN = 2

  def has(self, states):
    return (core.basics.hash64(self.world.state_id(states)) % 100 < 7) & (
      ~self.world.legal(states)[:, self.TOKEN]
    )

  def support(self, states, history):
    accepted = self.world.legal(states)
    accepted[self.has(states), self.TOKEN] = True
    total = np.maximum(accepted.sum(-1, keepdims=True), 1)
    with np.errstate(divide='ignore'):
      return process.all_tokens(np.log(accepted / total).astype(np.float32))


def test_a_false_street_in_seven_of_a_hundred_states_is_no_yes():
  world = registry.make('world', CITY)
  predictor = FalseStreet(world)
  places = np.arange(len(world.graph), dtype=np.int32)
  pairs = np.stack(np.meshgrid(places, places), -1).reshape(-1, 2)
  exact = run(predictor, world, prefixes=1)['exact']
  assert exact.counts['false_tokens'] == predictor.has(pairs).sum() > 20
  finding = wm.audit(predictor, world).summary
  assert not finding.is_right
  assert finding.missing == 0
  moves = audit.wrong_moves(exact.measured_columns())
  assert all(move.false for move in moves)
  assert {move.token for move in moves} == {world.vocab[predictor.TOKEN]}


def test_visits_are_those_of_the_sampler():
  """Weights of the sampled quantities: shares of positions."""
  world = tiny.World()
  asked = audit.questions(world, 100, 2, 0)
  sampled = world.sample(audit.SEQUENCES, core.basics.stream(0, 2))
  counts = np.zeros(4)
  for row, length in zip(sampled.tokens, sampled.lengths, strict=True):
    states = world.init(1)
    for token in row[:length]:
      states = world.advance(states, np.array([token]))
      if states[0, 0] >= 0:
        counts[states[0, 0]] += 1
  visits = np.bincount(asked.states[:, 0], asked.visits)
  np.testing.assert_allclose(visits, counts)


def test_a_model_that_is_too_short_is_not_asked():
  world = registry.make('world', CITY)
  oracle = registry.make('model', 'oracle()').predictor(world, 0)
  oracle.max_len = 20
  exact = run(oracle, world)['exact']
  assert {*exact.reason} == {'', 'longer_than_model'}
  assert exact.counts['complete'] == 0


def test_other_metrics_and_worlds_are_refused_in_a_line():
  with pytest.raises(wm.InputError, match=r'expected audit\('):
    wm.audit('oracle()', CITY, metric='probe()')
  with pytest.raises(wm.InputError, match='draws no states'):
    wm.audit('uniform()', 'hmm()')


def test_tokens_that_look_like_numbers_stay_text(tmp_path):
  """Names of a city's intersections are numbers, and most cells are empty."""
  wm.score('uniform()', 'audit()', 'maps(rows=3, columns=3)', out=tmp_path)
  with warnings.catch_warnings():
    warnings.simplefilter('error')
    rows = wm.rows(tmp_path)
  first = rows[rows.quantity == 'exact'].iloc[0]
  assert isinstance(first.location, str)
  assert first.location in first.state
  assert set(rows.false_tokens.dropna().map(type)) == {str}


def test_moves_that_are_added_or_lacking_are_named_by_their_share():
  columns = {
    'location': ['1', '1', '1', '2'],
    'false_tokens': ['N E', 'N', '', ''],
    'missing_tokens': ['', 'W', '', 'S'],
  }
  assert audit.wrong_moves(columns) == [
    ('2', 'S', False, 1.0),
    ('1', 'N', True, pytest.approx(2 / 3)),
    ('1', 'E', True, pytest.approx(1 / 3)),
    ('1', 'W', False, pytest.approx(1 / 3)),
  ]
  rows = pd.DataFrame(
    {
      'quantity': 'exact',
      'reason': ['', np.nan, '', 'no_prefix', ''],
      'location': ['1', '1', '1', '1', '2'],
      'false_tokens': ['N E', 'N', '', 'S', np.nan],
      'missing_tokens': ['', 'W', np.nan, 'W', 'S'],
    }
  )
  figure = matplotlib.figure.Figure()
  assert audit.Metric.draw({'a $ b': rows}, figure)
  (axis,) = figure.axes
  assert next(text.get_text() for text in axis.get_yticklabels()) == '2 S'
  assert not audit.Metric.draw({'right': rows[:0]}, matplotlib.figure.Figure())
