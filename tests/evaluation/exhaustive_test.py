"""Boundaries that models imply, and languages that they recover."""

import itertools
import subprocess
import sys

import pytest

import wm
from tests.metrics import hand
from wm import core
from wm.core import registry
from wm.models.serving import oracles

BOARD = 'connect4(rows=2, columns=3)'


def noisy(world, **fields):
  fields = {'illegal': 0.0, 'wrong': 0.4, 'by': 'prefix', 'seed': 1, **fields}
  return oracles.NoisyOracle(world, **fields)


def languages(world, predictor, prefix, depth):
  """Suffixes legal after a legal prefix, and those accepted, by brute force."""
  rule = registry.make('accept', 'epsilon(0.01)')
  return [
    hand.language(item, prefix, depth, rule)
    for item in (oracles.Oracle(world), predictor)
  ]


@pytest.mark.parametrize('by', ['state', 'prefix'])
def test_a_models_boundary_is_that_of_brute_force(by):
  world = registry.make('world', BOARD)
  model, seen = noisy(world, by=by, illegal=0.1), 0
  for item, two in itertools.permutations([(1, 2), (2, 2), (3, 1)], 2):
    texts = [' '.join(map(str, prefix)) for prefix in (item, two)]
    result = wm.model_boundary(model, world, *texts, depth=3)
    assert result.prefixes == tuple(texts)
    legal1, accepted1 = languages(world, model, item, 3)
    legal2, accepted2 = languages(world, model, two, 3)
    own = hand.boundary(accepted1, accepted2)
    truth = hand.boundary(legal1, legal2)
    assert result.model == [' '.join(map(str, s)) for s in own]
    assert result.truth == [' '.join(map(str, s)) for s in truth]
    assert result.right.tolist() == [s in legal1 - legal2 for s in own]
    kept = accepted1 - accepted2
    assert result.recalled.tolist() == [s in kept for s in truth]
    for k, outer, inner in result.sizes:
      assert outer == sum(len(s) <= k for s in truth)
      assert inner == sum(len(s) <= k for s in own)
    seen += len(own)
  assert seen > 20


@pytest.mark.parametrize(
  ('world', 'first', 'second'),
  [
    ('maps()', '5,3', '7,3'),
    ('chess()', 'e4 e5', 'e4 c5'),
    ('othello()', 'd3', 'c4'),
    ('connect4()', '1,1,1,2,2,2,2', '3,1,1,2,2,2,2'),
  ],
)
def test_the_world_implies_its_own_boundary(world, first, second):
  result = wm.model_boundary('oracle()', world, first, second, depth=2)
  sizes = wm.boundary(world, first, second, 2).sizes
  assert [row[:2] for row in result.sizes] == [row[:2] for row in sizes]
  assert result.model == result.truth
  if result.truth:
    assert (result.precision, result.recall) == (1, 1)


def test_the_uniform_model_has_no_boundary():
  result = wm.model_boundary('uniform()', BOARD, '1 1', '2 2', depth=2)
  assert result.model == []
  assert result.truth == ['2', '3 2']
  assert result.lines(show=True) == [
    *('prefix 1 1', 'prefix 2 2'),
    "world's, not the model's: 2",
    "world's, not the model's: 3 2",
    *('1 1 0', '2 2 0'),
    'precision undefined: the boundary is empty (1 by definition)',
    'recall 0.000 (0 of 2)',
  ]


def command(root, name, *args):
  done = subprocess.run(
    [sys.executable, root / 'launch' / name, *args],
    capture_output=True,
    text=True,
    check=False,
  )
  return done.returncode, done.stdout, done.stderr


@pytest.mark.process
def test_from_the_command_line(root, tmp_path):
  asked = '--world=connect4(rows=2,columns=3)', '--depth=2'
  pair = *asked, '--first_state=1 1', '--second_state=2 2'
  code, out, _ = command(root, 'count.py', *pair, '--model=uniform()')
  assert (code, out.splitlines()[-1]) == (0, 'recall 0.000 (0 of 2)')
  code, out, _ = command(root, 'count.py', *pair, f'--out={tmp_path}/new')
  assert (code, out.splitlines()[:2]) == (0, ['1 1 1', '2 2 2'])
  drawn = (tmp_path / 'new' / 'boundary.svg').read_text()
  assert drawn.startswith('<svg')
  assert '>interior</text>' in drawn


@pytest.mark.parametrize(
  ('call', 'said'),
  [
    (
      lambda: wm.model_boundary('uniform()', BOARD, '1', '2', 6),
      '5 tokens fit',
    ),
    (
      lambda: wm.model_boundary('uniform()', BOARD, '1', '2', 4, most=3),
      'more than 3 continuations',
    ),
    (lambda: wm.model_boundary('uniform()', BOARD, 'x', '2'), "'x' is no"),
    (
      lambda: wm.model_boundary('uniform()', BOARD, '0,0,0', '2'),
      'no sequence is known',
    ),
  ],
)
def test_bad_input_is_told(call, said):
  with pytest.raises(core.InputError, match=said):
    call()


@pytest.mark.process
def test_a_model_that_was_never_trained_is_told(root):
  asked = '--world=lattice()', '--first_state=1', '--second_state=2'
  code, _, error = command(root, 'count.py', *asked, '--model=ngram()')
  assert (code, error) == (2, 'error: --out is required\n')
