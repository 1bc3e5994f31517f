"""Prompts, clusters and pictures of driven trials; games to their end."""

import functools

import numpy as np
import pytest

from tests import tiny
from tests.metrics import table
from wm import core
from wm.core import registry
from wm.evaluation import context, decoding
from wm.models.serving import oracles

GAME = registry.make('world', 'othello(size=6)')
ORACLE = oracles.Oracle(GAME)
X, Y, END = tiny.X, tiny.Y, tiny.END


@functools.cache
def noisy() -> core.Predictor:
  """It draws states, for which kernels are compiled: not while collecting."""
  return oracles.NoisyOracle(GAME, illegal=0.05, wrong=0.1, by='state', seed=1)


def _found(spec, predictor, world=GAME, seed=0):
  return table.by_name(registry.make('metric', spec)(predictor, world, seed))


def test_prompts_are_the_task_and_some_moves():
  world = table.Given(rows=((4, X, X, END), (6, Y, END)))
  rows = world.sample(2, 0)
  for moves, expected in (
    (0, [[4], [6]]),
    (1, [[4, X], [6, Y]]),
    # The last token of a sequence is left to the model.
    (2, [[4, X, X], [6, Y, 0]]),
    (9, [[4, X, X, 0], [6, Y, 0, 0]]),
  ):
    tokens, lengths = decoding.prompts(world, rows, moves)
    width = len(expected[0])
    assert tokens[:, :width].tolist() == expected
    assert not tokens[:, width:].any()
    assert lengths.tolist() == [(np.array(e) > 0).sum() for e in expected]


def test_a_game_without_a_task_starts_from_its_first_move():
  games = GAME.sample(200, 0, 'heldout')
  for moves, length in ((0, 1), (1, 1), (5, 5)):
    tokens, lengths = decoding.prompts(GAME, games, moves)
    assert set(lengths) == {length}
    np.testing.assert_array_equal(tokens[:, :length], games.tokens[:, :length])
  assert len(np.unique(decoding.prompts(GAME, games)[0])) == 4


def test_equal_prompts_are_one_cluster():
  tokens = np.array([[1, 2], [1, 3], [1, 2], [4, 0]])
  lengths = np.array([2, 2, 2, 1])
  group = decoding.merged((tokens, lengths), np.array([7, 8, 9, 6]))
  assert group[0] == group[2]
  assert len(set(group.tolist())) == 3


@pytest.mark.parametrize('spec', ['maps(rows=6, columns=6)', 'lattice'])
def test_clusters_of_tasks_stay_what_they_are(spec):
  world = registry.make('world', spec)
  rows = world.sample(100, 0, 'heldout')
  group = context.clusters(world, rows)
  if world.prompt_len:
    np.testing.assert_array_equal(
      decoding.merged(decoding.prompts(world, rows), group), group
    )


def test_games_are_driven_to_their_end():
  result = _found('traversal(num=60)', ORACLE)
  assert table.mean(result['valid']) == 1
  assert len(set(result['valid'].group.tolist())) == 4
  for prefix, suffix in zip(
    result['valid'].columns['prefix'],
    result['valid'].columns['suffix'],
    strict=True,
  ):
    state = GAME.parse(f'{prefix} {suffix}')
    assert GAME.over(state).all()


@pytest.mark.parametrize('kind', ['random', 'adversarial', 'second'])
def test_detours_on_games(kind):
  spec = (
    f'detour(num=40, kind={kind!r}, probabilities=(0.0, 0.01, 0.1, 0.25, 0.5))'
  )
  result = _found(spec, ORACLE)
  moves = result['valid_0'].columns['tokens'].mean() - 1
  for p in (0.0, 0.01, 0.1, 0.25, 0.5):
    assert table.mean(result[f'valid_{p:g}']) == 1
    made = table.mean(result[f'detours_{p:g}'])
    assert made == pytest.approx(p * moves, abs=2)
  assert len(set(result['valid_0'].group.tolist())) == 4
  # By chance of their detours, and of an oracle's moves, which are as likely.
  assert len(set(result['valid_0.5'].group.tolist())) == 40
  assert len(set(result['valid_0.5'].columns['suffix'].tolist())) == 40


def test_detours_from_prompts_of_some_moves():
  result = _found('detour(num=60, prompt=6, probabilities=(0.0,))', ORACLE)
  scores = result['valid_0']
  assert len(set(scores.group.tolist())) > 40
  assert {len(p.split()) for p in scores.columns['prefix']} == {6}


def test_what_went_wrong_can_be_pictured():
  scores = _found('detour(num=80, prompt=3)', noisy())['valid_0.1']
  assert 0 < table.mean(scores) < 1
  columns = scores.columns
  for n in range(80):
    prefix, suffix = (columns[c][n].split() for c in ('prefix', 'suffix'))
    place = columns['wrong_at'][n]
    assert (place > 0) == (scores.value[n] == 0)
    assert columns['state'][n] == ''.join(prefix)
    driven = prefix + suffix
    if place:
      assert place == len(suffix)
      with pytest.raises(core.InputError, match=f'ply {len(driven)}'):
        GAME.parse(' '.join(driven))
    else:
      GAME.parse(' '.join(driven))


def test_a_predictor_that_only_accepts_is_asked_by_its_own_rule():
  world = registry.make('world', 'seating')
  for spec, exact in (('solver', 1), ("solver(answer='yes')", 0)):
    predictor = registry.make('model', spec).predictor(world, 0)
    # By probability above a half, nothing at all would be accepted.
    result = _found(
      'next_token(num=30, accept="epsilon(0.5)")', predictor, world
    )
    assert table.mean(result['exact_set']) == exact
    assert table.mean(result['set_recall']) == 1


def test_a_prompt_that_leaves_no_room_is_not_valid():
  sequences = GAME.sample(4, 0)
  prompts = decoding.prompts(GAME, sequences, 6)
  for most, outcome in ((6, decoding.CAP), (7, decoding.VALID)):
    result = decoding.decode(ORACLE, GAME, prompts, decoding.Greedy(0), most)
    assert (result.outcome == outcome).all()
  # What is complete is valid, whatever room there is.
  whole = sequences.tokens, sequences.lengths
  size = int(sequences.lengths.min())
  result = decoding.decode(ORACLE, GAME, whole, decoding.Greedy(0), size)
  assert (result.outcome == decoding.VALID).all()
