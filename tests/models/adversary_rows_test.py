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
  model,
  other_goal,
  run,
  trained,
)
from wm import core
from wm.core import basics, registry
from wm.core.measure import lacks
from wm.evaluation import context
from wm.models import adversary
from wm.models.serving.oracles import TILT
from wm.worlds.maps.navigation import NODE0

KINDS = 'oracle', *adversary.KINDS
ODDS = 0.0, 0.01, 0.1, 0.5, 0.75
SPECS = {
  'acceptance': f'acceptance(num={NUM})',
  'detour': f'detour(num={NUM})',
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
  # These have tests of their own.
  others = (
    'audit',
    'automaton',
    'coherence',
    'compression',
    'distinction',
    'excess_loss',
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
