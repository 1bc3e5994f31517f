"""Every quantity of every adversary on a map, against an expectation.

Each row is a formula or a sum over states, from the rules of the map alone.
"""

import functools

import numpy as np
import pytest
from scipy.sparse import csgraph

from tests.metrics import table
from tests.models import adversaries
from tests.models.adversaries import (
  MAP,
  MOVES,
  NUM,
  SHARE,
  judged,
  model,
  other_goal,
  peer,
  run,
  state_of,
  trained,
)
from wm import core
from wm.core import basics, registry
from wm.core.measure import lacks
from wm.evaluation import context
from wm.metrics import excess_loss
from wm.models import adversary
from wm.models.serving.oracles import TILT
from wm.worlds.maps.navigation import END, NODE0

KINDS = 'oracle', *adversary.KINDS
ODDS = 0.0, 0.01, 0.1, 0.5, 0.75
DEPTH = 3  # Of the boundaries of the map.
SPECS = {
  'acceptance': f'acceptance(num={NUM})',
  'compression': 'compression(trials=40)',
  'detour': f'detour(num={NUM})',
  'distinction': f'distinction(trials=40, k={DEPTH}, samples=0)',
  'excess_loss': f'excess_loss(num={NUM})',
  'next_token': f'next_token(num={NUM})',
  'traversal': f'traversal(num={NUM})',
}
DELTA, LENGTHS = MAP.graph.delta, MAP.graph.length_m
ROWS = np.arange(len(DELTA))
HOPS = MAP.hops.astype(int)


def test_every_metric_that_can_be_asked_is_asked():
  types = type(MAP), type(model('map', 'leaky'))
  names = [
    name
    for name in registry.names('metric')
    if not lacks(registry.find('metric', name), *types)
  ]
  # Small tasks, the implied automaton and the audit have tests of their own.
  others = (
    'audit',
    'automaton',
    'coherence',
    'inductive_bias',
    'relearn',
    'state_recovery',
    'transfer',
  )
  assert names == sorted((*SPECS, *others))


def agree(
  scores: dict[str, core.Scores], expected: dict[str, np.ndarray | float]
) -> None:
  """All quantities, row by row, or as a mean; NaN is an unmeasured row."""
  assert scores.keys() == expected.keys()
  for quantity, target in expected.items():
    rows = scores[quantity]
    result = np.where(rows.measured, rows.value, np.nan)
    if not np.shape(target):
      result = table.mean(rows)
    np.testing.assert_allclose(
      result, target, rtol=1e-5, atol=2e-6, err_msg=quantity
    )


# Teacher forcing.


@pytest.mark.parametrize('kind', KINDS)
def test_next_token(kind):
  agree(
    run('map', kind, SPECS['next_token']), adversaries.next_token('map', kind)
  )


@pytest.mark.parametrize('kind', KINDS)
def test_acceptance(kind):
  expected = adversaries.acceptance('map', kind)
  agree(run('map', kind, SPECS['acceptance']), expected)


@functools.cache
def drawn() -> np.ndarray:
  """[P, V] how the map draws what follows, at the positions judged."""
  process, sample = MAP.data_distribution(), MAP.sample(NUM, 0, split='heldout')
  rows = []
  for tokens, size in zip(sample.tokens, sample.lengths, strict=True):
    memory = process.init(1)
    for k in range(size - 1):
      memory = process.advance(memory, tokens[k : k + 1])
      if k + 1 >= MAP.prompt_len:
        names, log_probs = process.next(memory)
        row = np.zeros(len(MAP.vocab))
        there = names[0] != core.DEAD
        row[names[0, there]] = np.exp(log_probs[0, there])
        rows.append(row)
  return np.array(rows)


@pytest.mark.parametrize('kind', KINDS)
def test_excess_loss(kind, monkeypatch):
  """Sums over what the map draws; infinite where a part has no probability."""
  row, probs, _ = judged('map', kind)
  true = drawn()
  with np.errstate(divide='ignore', invalid='ignore'):
    entropy = -np.where(true > 0, true * np.log(true), 0).sum(1)
    loss = -np.where(true > 0, true * np.log(probs), 0).sum(1)
  sums = [
    np.bincount(row, values) / np.bincount(row)
    for values in (loss - entropy, loss, entropy, np.isinf(loss))
  ]
  never = kind in ('deterministic', 'permuted')
  assert np.isinf(sums[1]).all() == np.isinf(sums[1]).any() == never
  monkeypatch.setattr(excess_loss, 'BIN', 100)  # One row for a sequence.
  scores = run.__wrapped__('map', kind, SPECS['excess_loss'])
  names = 'excess_loss', 'loss', 'entropy', 'impossible'
  values = [np.where(np.isinf(each), np.nan, each) for each in sums]
  agree(scores, dict(zip(names, values, strict=True)))
  assert set(scores['loss'].reason) == {'impossible' if never else ''}


# Decoding. A state is a place and the number of moves so far: 'permuted' has
# another goal, 'forgets' knows nothing after MOVES of them, and the memoriser
# nothing at all of held-out pairs.


def tasks() -> tuple[np.ndarray, np.ndarray]:
  """Origins and goals of held-out routes, rows of the graph."""
  sample = MAP.sample(NUM, 0, split='heldout')
  assert not trained('map') & {tuple(row[:2]) for row in sample.tokens.tolist()}
  return sample.tokens[:, 0] - NODE0, sample.tokens[:, 1] - NODE0


def aim(kind: str, goal: int) -> int:
  return other_goal(goal + NODE0) - NODE0 if kind == 'permuted' else goal


def lost(kind: str, moves: int) -> bool:
  return kind == 'memoriser' or (kind == 'forgets' and moves > MOVES)


@functools.cache
def followed(kind: str, goal: int, moves: int) -> np.ndarray:
  """[S, 9] probabilities of `end` and of the directions, at every place."""
  if lost(kind, moves):
    return np.full((len(DELTA), 9), 1 / (len(MAP.vocab) - 1))
  goal = aim(kind, goal)
  legal = np.column_stack([goal == ROWS, DELTA >= 0])
  left = np.where(DELTA >= 0, HOPS[DELTA, goal], len(DELTA))
  soon = np.column_stack([goal == ROWS, left == left.min(1, keepdims=True)])
  soon[goal, 1:] = False
  mass = legal * (1 + TILT * soon)
  mass = mass / mass.sum(1, keepdims=True)
  best = np.arange(9) == mass.argmax(1)[:, None]
  others = np.maximum(legal.sum(1, keepdims=True) - 1, 1)
  if kind == 'leaky':
    leak = SHARE[kind]['map'] / (len(MAP.vocab) - 2 - others)
    return np.where(legal, mass * (1 - SHARE[kind]['map']), leak)
  if kind in ('peaked', 'deterministic'):
    share = np.where(legal.sum(1, keepdims=True) > 1, 0.009, 0)
    share = share * (kind == 'peaked')
    return np.where(best, 1 - share, legal * share / others)
  return mass


def choices(kind: str, goal: int, moves: int) -> np.ndarray:
  """[S, V - 1] bool: what is most likely at every place, ids from 1 on.

  One who is lost names any token: after the directions come nodes.
  """
  size = len(MAP.vocab) - 1
  mass = followed(kind, goal, moves)
  best = np.zeros((len(DELTA), size), bool)
  best[:, :9] = mass == mass.max(1, keepdims=True)
  return best | lost(kind, moves)


def route(kind: str, origin: int, goal: int, trial: int) -> tuple[str, float]:
  """How the greedy route of a trial ends, and its metres."""
  node, metres = origin, 0.0
  for moves in range(MAP.max_moves + 1):
    options = np.flatnonzero(choices(kind, goal, moves)[node])
    # Of what is as likely one is drawn, by trial and length.
    draw = basics.uniforms(0, context.TIES, trial, 2 + moves)
    token = options[int(float(draw) * len(options))]
    if not token:
      return ('valid' if node == goal else 'dest_fail'), metres
    if token > 8 or DELTA[node, token - 1] < 0:
      return 'path_fail', metres
    metres += LENGTHS[node, token - 1]
    node = DELTA[node, token - 1]
  return 'cap', metres


def shortest() -> np.ndarray:
  """[S, S] metres."""
  edges = np.full((len(DELTA),) * 2, np.inf)
  row, label = np.nonzero(DELTA >= 0)
  np.minimum.at(edges, (row, DELTA[row, label]), LENGTHS[row, label])
  return csgraph.shortest_path(np.where(np.isinf(edges), 0, edges))


@pytest.mark.parametrize('kind', KINDS)
def test_traversal(kind):
  origins, goals = tasks()
  trials = range(len(origins))
  routes = [*map(functools.partial(route, kind), origins, goals, trials)]
  ends = np.array([end for end, _ in routes])
  valid = ends == 'valid'
  metres = np.where(valid, [metres for _, metres in routes], np.inf)
  least = shortest()[origins, goals]
  expected = {
    'valid': valid,
    'valid_uncapped': np.where(ends == 'cap', np.nan, valid),
    **{
      name: ends == name for name in ('path_fail', 'dest_fail', 'cap', 'stuck')
    },
  }
  for name, most in {
    **{'optimal': 1, 'within_1': 1.01, 'within_5': 1.05},
    **{'within_10': 1.1, 'within_50': 1.5},
  }.items():
    expected[name] = metres <= least * most * (1 + 1e-9)
    expected[f'{name}_of_valid'] = np.where(valid, expected[name], np.nan)
  scores = dict(run('map', kind, SPECS['traversal']))
  near(scores.pop('sampled_legal').value, *legal_chance(kind))
  agree(scores, expected)
  # Who takes another goal for its own; others know where they go, or are lost.
  if kind not in ('memoriser', 'forgets'):
    assert valid.mean() == (kind != 'permuted')


def near(values: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> None:
  """Whether independent values are within four errors of what is expected."""
  error = np.sqrt(np.sum(variance)) / len(values)
  assert abs(np.mean(values) - np.mean(mean)) <= 4 * error + 1e-9


def legal_chance(kind: str) -> tuple[np.ndarray, np.ndarray]:
  """[N] chance of tasks that no sampled token is illegal, and variance."""
  chance = sampled(kind, 1.0)
  return chance, chance * (1 - chance)


def sampled(kind: str, capped: float) -> np.ndarray:
  """[N] as `completed`, of the origins of tasks."""
  pairs = zip(*tasks(), strict=True)
  return np.array([completed(kind, goal, capped)[n] for n, goal in pairs])


def completed(kind: str, goal: int, capped: float) -> np.ndarray:
  """[S] chance of ending well; capped: what a route at the cap counts."""
  ahead = np.full(len(DELTA), capped)
  for moves in reversed(range(MAP.max_moves + 1)):
    mass = followed(kind, goal, moves)
    on = np.where(DELTA >= 0, mass[:, 1:] * ahead[DELTA], 0).sum(1)
    ahead = on + mass[:, 0] * (goal == ROWS)
  return ahead


@pytest.mark.parametrize('kind', KINDS)
def test_sampled_routes(kind):
  scores = run('map', kind, SPECS['traversal'])
  near(scores['sampled_legal'].value, *legal_chance(kind))
  if kind == 'leaky':  # The same by the same seed.
    again = run.__wrapped__('map', kind, SPECS['traversal'])
    np.testing.assert_array_equal(
      scores['sampled_legal'].value, again['sampled_legal'].value
    )


@functools.cache
def detours(kind: str, goal: int, odds: float) -> np.ndarray:
  """[3, S] chance of ending well; mean detours, and mean of their square."""
  beyond = np.zeros((3, len(DELTA)))
  for moves in reversed(range(MAP.max_moves + 1)):
    share = choices(kind, goal, moves)
    share = share[:, :9] / share.sum(1, keepdims=True)
    ended = np.stack([goal == ROWS, 0 * ROWS, 0 * ROWS])
    on = np.where(DELTA >= 0, share[:, 1:] * beyond[:, DELTA], 0).sum(-1)
    free = share[:, 0] * ended + on
    # After a detour and the move that it is, the goal and `end` still fit.
    open_ = (DELTA >= 0) & (HOPS[DELTA, goal] < MAP.max_moves - moves)
    open_ &= (goal != ROWS)[:, None]
    count = np.maximum(open_.sum(1), 1)
    valid, once, twice = (
      np.where(open_, each[DELTA], 0).sum(1) / count for each in beyond
    )
    forced = np.stack([valid, 1 + once, 1 + 2 * once + twice])
    share = odds * open_.any(1)
    beyond = share * forced + (1 - share) * free
  return beyond


@pytest.mark.parametrize('kind', KINDS)
def test_detours(kind):
  """Sums over places and moves; whoever knows the goal always gets there."""
  origins, goals = tasks()
  scores = run('map', kind, SPECS['detour'])
  names = [f'{what}_{odds:g}' for odds in ODDS for what in ('valid', 'detours')]
  assert [*scores] == names
  knows = kind not in ('permuted', 'memoriser', 'forgets')
  going = 'oracle' if knows else kind  # Their greedy choices are the oracle's.
  for odds in ODDS:
    valid, mean, square = np.array(
      [
        detours(going, goal, odds)[:, origin]
        for origin, goal in zip(origins, goals, strict=True)
      ]
    ).T
    if knows or kind == 'permuted':
      np.testing.assert_allclose(valid, knows, atol=1e-12)
    near(scores[f'valid_{odds:g}'].value, valid, valid * (1 - valid))
    near(scores[f'detours_{odds:g}'].value, mean, square - mean**2)


# Boundaries of Myhill and Nerode.


def pairs(scores: core.Scores) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
  """Tokens of both prefixes of all trials."""
  place = {word: token for token, word in enumerate(MAP.vocab)}
  columns = scores.columns['prefix'], scores.columns['other_prefix']
  return [
    tuple(tuple(place[word] for word in text.split()) for text in both)
    for both in zip(*columns, strict=True)
  ]


def boundary(
  first: tuple[int, ...], second: tuple[int, ...], depth: int
) -> list[list[int]]:
  """The map's boundary after two prefixes."""
  result = MAP.boundary(state_of(MAP, first), state_of(MAP, second), depth)
  return [
    row[:size].tolist()
    for row, size in zip(result.tokens, result.lengths, strict=True)
  ]


def accepts(kind: str, history: tuple[int, ...], element: list[int]) -> bool:
  """Does the peer accept all tokens of a continuation?"""
  for token in element:
    if peer('map', kind, history)[token] <= 0.01:
      return False
    history = (*history, token)
  return True


def refused(
  kind: str, first: tuple[int, ...], second: tuple[int, ...], depth: int
) -> tuple[list[list[int]], list[float]]:
  """The peer's boundary: accepted after the first, cut where the second is.

  And the probability of each element, of accepted tokens alone.
  """
  elements, shares, layer = [], [], [([], 1.0)]
  for _ in range(depth):
    longer = []
    for suffix, share in layer:
      item, other = (peer('map', kind, (*x, *suffix)) for x in (first, second))
      total = item[item > 0.01].sum()
      for token in np.flatnonzero(item > 0.01).tolist():
        path = [*suffix, token], share * item[token] / total
        if other[token] <= 0.01:
          elements.append(path[0])
          shares.append(path[1])
        elif token != END:
          longer.append(path)
    layer = longer
  return elements, shares


@pytest.mark.parametrize('kind', KINDS)
def test_compression(kind):
  """1: equal states, after as many moves, predict the same.

  Memorised prefixes do not; all others of the memoriser accept all.
  """
  scores = run('map', kind, SPECS['compression'])
  truth = run('map', 'oracle', SPECS['compression'])['precision']
  if kind == 'memoriser':
    known = [{*both} & trained('map') for both in pairs(scores['precision'])]
    assert not any(known)
  names = ('precision', 'precision_definition', 'precision_published')
  assert (*scores,) == names
  for item in scores.values():
    np.testing.assert_array_equal(item.reason, truth.reason)
    assert item.measured.sum() >= 30
    assert (item.value[item.measured] == 1).all()


@pytest.mark.parametrize('kind', KINDS)
def test_distinction(kind):
  """Elements of the map's boundary, asked of the peer one by one."""
  scores = run('map', kind, SPECS['distinction'])
  names = ('recall', 'recall_by_length')
  rows = {name: [] for name in names}
  for first, second in pairs(scores['recall']):
    room = MAP.max_len - max(len(first), len(second))
    true = boundary(first, second, DEPTH)
    fits = [element for element in true if len(element) <= room]
    lengths = np.array([len(element) for element in fits])
    good = np.array(
      [accepts(kind, first, e) and not accepts(kind, second, e) for e in fits]
    )
    rows['recall'].append(good.mean() if fits else np.nan)
    level = [good[lengths == size].mean() for size in np.unique(lengths)]
    rows['recall_by_length'].append(np.mean(level) if fits else np.nan)
  expected = {name: np.array(values) for name, values in rows.items()}
  # Nothing tells two states apart: that recalls as much.
  none = scores['recall'].reason == 'empty'
  expected['recall_definition'] = np.where(none, 1, expected['recall'])
  agree(scores, expected)
  assert scores['recall'].measured.sum() >= 30
