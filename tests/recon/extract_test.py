"""Automata that models imply: known answers, a trusted peer, bad input."""

import json

import numpy as np
import pytest
import scipy.stats

import wm
from tests.launch import binaries
from wm import core
from wm.core import capabilities, registry
from wm.evaluation import automaton_learner as learner
from wm.evaluation import implied
from wm.models.serving import oracles
from wm.recon import extract

FINITE = (
  *(f"automaton(preset='tomita{k}')" for k in range(1, 8)),
  "automaton(preset='z5', length=16)",
  "automaton(preset='s3_generators', length=16)",
  "groups(group='s3', length=8)",
  'lattice(length=12)',
  'connect4(rows=3, columns=3)',
  'mazes(length=12)',
  'seating()',
  'cognitive_graph()',
)
# Two rooms with a door each, and the same rooms as one; d is legal in one.
ROOMS = {
  'none': {'a': 'one', 'c': 'two'},
  'one': {'b': 'none', 'd': 'one'},
  'two': {'b': 'none'},
}
MERGED = {'none': {'a': 'any', 'c': 'any'}, 'any': {'b': 'none', 'd': 'any'}}


def automaton_of(tmp_path, name, transitions):
  path = tmp_path / f'{name}.json'
  value = {
    'alphabet': ['a', 'b', 'c', 'd'],
    'start': 'none',
    'accepting': [*transitions],
    'transitions': transitions,
  }
  path.write_text(json.dumps(value))
  return registry.make('world', f'automaton(file={str(path)!r}, length=16)')


@pytest.mark.parametrize('world', FINITE)
def test_the_oracle_gives_the_minimal_automaton(world):
  result = wm.extract('oracle()', world, walks=20)
  assert result.summary['states'] == result.summary['world_states']
  assert result.summary['equal']
  assert not result.summary['edges']
  assert result.comparison.distance == 0
  assert not result.comparison.merged
  assert result.summary['agreement']['value'] == 1
  assert result.summary['told_apart'] == result.summary['pairs']
  # One state for each of the world's, and edges that agree.
  pairs = {state: other for state, (other,) in result.comparison.pairs.items()}
  theirs = result.truth.automaton.heads
  for state, other in pairs.items():
    heads = result.automaton.heads[other]
    assert heads == {k: pairs[head] for k, head in theirs[state].items()}


@pytest.mark.parametrize(
  ('world', 'states'),
  [
    ("groups(group='s3', length=8)", 1),
    ('seating()', 1),
    # An end token leads to one state more.
    ("automaton(preset='tomita4')", 2),
    # At the start of a lattice, of which a model says nothing, a token is
    # illegal.
    ('lattice(length=12)', 2),
  ],
)
def test_uniform_is_one_state(world, states):
  result = wm.extract('uniform()', world, walks=20)
  assert result.summary['states'] == states
  if len(result.truth.names) > 3:
    assert result.summary['told_apart'] < result.summary['pairs']
    (group, *_) = result.comparison.merged
    assert len(group) >= len(result.comparison.pairs) - 1


def test_faults_of_a_noisy_oracle_are_found():
  """Against the table of what it accepts, state by state."""
  world = registry.make('world', 'mazes(length=12)')
  model = registry.make('model', 'noisy_oracle(wrong=0.3, illegal=0.05)')
  predictor = model.predictor(world, 3)
  result = wm.extract(predictor, world, walks=50)
  states, delta = found_states(world)
  options = predictor.support(states, np.zeros(len(states), np.uint64))
  accepted = [{*row} - {core.DEAD} for row in options.tokens.tolist()]
  legal = [{*np.flatnonzero(row) + 1} for row in delta >= 0]
  names = [world.format(state) for state in states]
  wrong = {
    (names[k], world.vocab[token], kind)
    for k in range(1, len(states))  # Of the start it says nothing.
    for kind, tokens in (
      ('missing', legal[k] - accepted[k]),
      ('extra', accepted[k] - legal[k]),
    )
    for token in tokens
    if names[k] in {result.truth.names[s] for s in result.comparison.pairs}
  }
  edges = {
    (x['state'], x['token'], x['kind'])
    for x in result.summary['edges']
    if x['state'] != names[0]
  }
  assert edges == wrong
  assert len(wrong) > 3
  assert result.comparison.distance == 2.0 ** -len(result.comparison.first)


def found_states(world):
  """The world's states and table."""
  return capabilities.enumerated(world, 100)


def test_a_model_that_merged_two_states_is_shown_to_have(tmp_path):
  world = automaton_of(tmp_path, 'rooms', ROOMS)
  model = oracles.Oracle(automaton_of(tmp_path, 'merged', MERGED))
  result = wm.extract(model, world, walks=50)
  (merged,) = result.summary['merged']
  assert merged == {'states': ['one', 'two'], 'told_apart_by': 'd'}
  assert result.summary['split'] == {}
  assert ('two', 'd', 'extra') in {
    (x['state'], x['token'], x['kind']) for x in result.summary['edges']
  }
  line = '  {"states": ["one", "two"], "told_apart_by": "d"}'
  assert f'merged  1\n{line}' in str(result)


def test_a_model_that_counts_tokens_splits_states(tmp_path):
  ring = {
    'none': {'a': 'one', 'b': 'none'},
    'one': {'a': 'two'},
    'two': {'a': 'none', 'b': 'none'},
  }
  loop = {'none': {'a': 'none', 'b': 'none'}}
  model = oracles.Oracle(automaton_of(tmp_path, 'ring', ring))
  result = wm.extract(model, automaton_of(tmp_path, 'loop', loop), walks=50)
  assert result.summary['split'] == {'none': 3}
  assert result.summary['distance'] == 0.5**1


def test_a_peer_learns_the_same_automaton():
  """AALpy's L* with Rivest-Schapire, a query at a time."""
  pytest.importorskip('aalpy')
  from aalpy import base, learning_algs
  from aalpy import oracles as equivalence

  world = registry.make('world', "automaton(preset='tomita7', length=20)")
  predictor = registry.make('model', 'noisy_oracle(wrong=0.5)').predictor(
    world, 1
  )
  result = wm.extract(predictor, world, walks=100)
  teacher = _teacher(predictor, world)

  class Model(base.SUL):
    def pre(self):
      self.word = ()

    def post(self):
      pass

    def step(self, letter):
      if letter is not None:
        self.word = (*self.word, letter)
      (answer,) = teacher.answers([self.word])
      return str(answer)

  letters = [*range(1, len(world.vocab))]
  sul = Model()
  walks = equivalence.RandomWordEqOracle(
    letters, sul, num_walks=200, min_walk_len=2, max_walk_len=12
  )
  theirs = learning_algs.run_Lstar(
    letters, sul, walks, 'moore', cex_processing='rs', print_level=0
  )
  # It has a state more, for words that are not in the language.
  assert len(theirs.states) == len(result.automaton.access) + 1
  rng = np.random.default_rng(0)
  for word in rng.integers(1, len(world.vocab), (200, 12)).tolist():
    theirs.reset_to_initial()
    states = result.automaton.follow(tuple(word))
    for size, letter in enumerate(word, 1):
      output = theirs.step(letter)
      state = states[size] if size < len(states) else core.DEAD
      accepted = (
        result.automaton.accepted[state] if state >= 0 else (core.DEAD,)
      )
      assert output == str(accepted)


def _teacher(predictor, world, depth=20, budget=10_000):
  accept = registry.make('accept', 'epsilon(0.01)')
  return learner.Teacher(predictor, world, accept, depth=depth, budget=budget)


def test_answers_are_those_of_the_model_and_asked_once():
  world = registry.make('world', "automaton(preset='tomita3', length=20)")
  teacher = _teacher(
    registry.make('model', 'oracle()').predictor(world, 0), world
  )
  assert teacher.answers([(2, 3, 2), (2, 3), (2,)])[0] is not None
  assert teacher.queries == 1  # The longest answers for its beginnings.
  assert teacher.answers([(2, 3), ()]) == [teacher.known((2, 3)), (1, 2, 3)]
  assert teacher.queries == 1
  assert teacher.answers([(1, 2)]) == [learner.REJECTED]  # After the end.
  assert teacher.known((1,)) == ()
  teacher.budget = teacher.queries
  assert teacher.answers([(3, 3, 3, 3)]) == [None]
  assert teacher.answers([(2,) * 20]) == [None]  # As long as the depth.


def test_an_automaton_may_have_one_state():
  only = wm.extract('uniform()', 'lattice()', depth=3, most=1)
  assert only.summary['states'] == 1
  with pytest.raises(core.InputError, match='expected source=None'):
    wm.reconstruct('oracle()', 'new', 'maps()', samples='a.txt')


def test_states_and_queries_are_budgeted():
  world = 'connect4(rows=3, columns=3)'
  few = wm.extract('oracle()', world, most=10, walks=20)
  assert few.summary['states'] == 10
  assert few.summary['stopped'] == 'the budget of 10 states is used up'
  assert not few.summary['equal']
  assert few.summary['world_walks']['differ']
  short = wm.extract('oracle()', world, queries=100, walks=500)
  assert short.summary['queries'] <= 100
  assert 'queries' in short.summary['stopped']
  # As many fresh walks as the budget reads: a part of them is no sample.
  assert {short.summary[name]['n'] for name in extract.WALKS} == {25}
  assert not short.summary['equal']


def test_bounds_are_those_of_clopper_and_pearson():
  result = wm.extract('oracle()', 'lattice(length=12)', walks=500)
  bound = result.summary['world_walks']
  assert (bound['n'], bound['differ']) == (500, 0)
  assert bound['at_most'] == pytest.approx(1 - 0.05 ** (1 / 500))
  few = wm.extract('oracle()', 'connect4(rows=3, columns=3)', most=10, walks=20)
  bound = few.summary['world_walks']
  right = scipy.stats.binomtest(bound['differ'], 20, alternative='less')
  assert bound['at_most'] == pytest.approx(right.proportion_ci(0.95).high)


def test_files_read_back_and_a_killed_run_is_begun_anew(tmp_path, monkeypatch):
  world, model = "automaton(preset='tomita5')", 'noisy_oracle(wrong=0.5)'
  out, lines = tmp_path / 'run', []
  whole = wm.extract(model, world, tmp_path / 'whole', walks=50)
  asked, real = [], learner.Teacher._masks

  def killed(self, tokens, lengths):
    asked.append(len(tokens))
    if len(asked) == 3:
      raise KeyboardInterrupt
    return real(self, tokens, lengths)

  monkeypatch.setattr(learner.Teacher, '_masks', killed)
  with pytest.raises(KeyboardInterrupt):
    wm.extract(model, world, out, walks=50)
  assert [path.name for path in out.glob('*.json')] == ['extract.run.json']
  wm.extract(model, world, out, walks=50, log=lines.append)
  for name in (extract.FILE, extract.MACHINE):
    assert (out / name).read_bytes() == (tmp_path / 'whole' / name).read_bytes()
  monkeypatch.setattr(learner.Teacher, '_masks', real)
  assert sorted(path.name for path in out.iterdir()) == [
    *('automaton.json', 'extract.run.json', 'extraction.json')
  ]
  assert lines == [*whole.lines(), lines[-1]]
  with pytest.raises(core.InputError, match='holds another extract run'):
    wm.extract('uniform()', world, out)
  # The implied automaton is a world.
  spec = f'automaton(file={str(out / "automaton.json")!r}, length=32)'
  again = wm.extract('oracle()', spec, walks=50)
  assert again.summary['equal']


def test_bad_input_is_one_line(tmp_path):
  world = "automaton(preset='tomita1')"
  for keywords, words in (
    ({'depth': 1}, 'depth=1: expected 2 to 32 tokens'),
    ({'queries': 5}, 'queries=5: expected at least 100'),
  ):
    with pytest.raises(core.InputError, match=words):
      wm.extract('oracle()', world, tmp_path / 'out', **keywords)
  assert not (tmp_path / 'out').exists()
  binaries.refused('extract', '--world=lattice()')


def test_a_world_too_large_is_compared_along_walks_alone(monkeypatch):
  monkeypatch.setattr(implied, 'MOST', 3)
  result = wm.extract('oracle()', 'lattice(length=12)', walks=20)
  assert result.truth is None
  assert 'too many' in result.summary['not_compared']
  assert result.summary['agreement']['value'] == 1
  assert 'too many' in str(result)


@pytest.mark.parametrize('text', ['{"states', '[]', '{"states": "two"}'])
def test_a_damaged_result_is_not_overwritten(tmp_path, text):
  path = tmp_path / extract.FILE
  path.write_text(text)
  with pytest.raises(core.InputError, match=r'extraction\.json'):
    wm.extract('uniform()', 'lattice(length=5)', tmp_path)
  assert [*tmp_path.iterdir()] == [path]
  assert path.read_text() == text
