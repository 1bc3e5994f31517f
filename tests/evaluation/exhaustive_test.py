"""Boundaries that models imply, and languages that they recover."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

import wm
from tests.marks import few
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


def brute(world, predictor, depth):
  """(exact, recovered) of each legal sequence, from both languages."""
  result, start = [], max(world.prompt_len, 1)
  for token in np.flatnonzero(world.legal(world.init(1))[0]).tolist():
    rests = languages(world, predictor, (token,), depth - 2)[0]
    for prefix in [(token,), *((token, *rest) for rest in rests)]:
      if len(prefix) < start or prefix[-1] == world.end:
        continue
      left = depth - len(prefix)
      legal, accepted = languages(world, predictor, prefix, left)
      item = [
        {s for s in sample if len(s) == 1} for sample in (legal, accepted)
      ]
      result.append((item[0] == item[1], legal == accepted))
  return result


@pytest.mark.parametrize('spec', few(1, [BOARD, 'maps(rows=2, columns=2)']))
def test_both_definitions_hold_or_fail_together(spec):
  world, outcomes = registry.make('world', spec), set()
  models = [
    oracles.Oracle(world),
    oracles.Uniform(len(world.vocab), world.end, world.max_len),
    *(
      noisy(world, by=by, wrong=wrong, illegal=illegal)
      for by in ('state', 'prefix')
      for wrong, illegal in ((0.02, 0.0), (0.3, 0.0), (0.0, 0.1))
    ),
  ]
  for model in models:
    result = wm.recovery(model, world, depth=4)
    assert result.agree
    expected = sorted(brute(world, model, 4))
    pairs = zip(result.exact.tolist(), result.recovered.tolist(), strict=True)
    assert sorted(pairs) == expected
    # After no sequence is the language right where a next token is wrong.
    assert not (result.recovered & ~result.exact).any()
    outcomes.add(bool(result.recovered.all()))
    assert (result.first == '') == result.exact.all()
  assert outcomes == {True, False}


def test_a_trained_model_recovers_what_it_can_see(tmp_path):
  """An n-gram that sees all tokens, and one that sees one, of a lattice."""
  world, result = 'lattice(size=3)', {}
  for order in (2, 5):
    out = tmp_path / f'n{order}'
    wm.sample(world, out, wm.Sampling(num=400, num_heldout=20))
    run = wm.train(world, f'ngram(order={order})', out)
    result[order] = wm.recovery(run, depth=4)
  assert result[5].recovered.all()
  assert not result[2].recovered.all()
  assert not result[2].exact.all()


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
  code, out, _ = command(root, 'count.py', *asked, '--model=uniform()')
  assert (code, out) == (
    0,
    'sequences of fewer than 2 tokens 3\nexact next tokens after 3\n'
    'language recovered after 3\n'
    'exact everywhere: yes; language recovered: yes\n',
  )


@pytest.mark.parametrize(
  ('call', 'said'),
  [
    (lambda: wm.recovery('uniform()', BOARD, 9), 'expected 2 to 6 tokens'),
    (lambda: wm.recovery('uniform()', BOARD, 4, most=9), 'more than 9 seq'),
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
