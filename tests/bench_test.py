"""Benchmarks: what their lines say, and that none quotes another run."""

import ast
import os
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

from tests.bench import harness

BENCH = pathlib.Path(__file__).parent / 'bench'


def test_a_ratio_names_its_baseline():
  assert harness.Line('walks', 1.0, 'walks/s').ratio is None
  harness.Line('walks', 1.0, 'walks/s', 'NumPy, same run', 2.0)
  for baseline, ratio in (('NumPy, same run', None), ('', 2.0)):
    with pytest.raises(ValueError, match='walks: a ratio and its baseline'):
      harness.Line('walks', 1.0, 'walks/s', baseline, ratio)


@pytest.mark.parametrize(
  'path', sorted(BENCH.glob('*.py')), ids=lambda path: path.stem
)
def test_no_figure_of_another_run_is_kept(path):
  """A rate of another machine would be a number named for who reached it."""
  tree = ast.parse(path.read_text())
  names = {
    node.id
    for node in ast.walk(tree)
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
  }
  assert not names & {'PUBLISHED', 'THEIRS', 'BASELINE'}
  assert 'another machine' not in path.read_text()


@pytest.mark.process
def test_names_are_listed_without_any_extra(root):
  code = (
    'import sys\n'
    'class Bare:\n'
    '  def find_spec(self, name, path=None, target=None):\n'
    '    if name.partition(".")[0] in ("jax", "numba", "torch", "chess"):\n'
    '      raise ModuleNotFoundError(name)\n'
    'sys.meta_path.insert(0, Bare())\n'
    'from tests.bench import __main__\n'
    'sys.exit(__main__.main(["--list"]))'
  )
  done = subprocess.run(
    [sys.executable, '-c', code],
    cwd=root,
    capture_output=True,
    text=True,
    check=True,
  )
  names = done.stdout.split()
  assert len(names) > 50
  assert not done.stderr
  from tests.bench import train_bench

  functions = [name for name in vars(train_bench) if name[:6] == 'bench_']
  assert {name.removeprefix('bench_') for name in functions} <= {*names}


@pytest.mark.process
def test_what_is_measured_is_compiled_as_users_have_it(root):
  """Tests compile fast and badly, by flags that nothing here may set."""
  code = (
    'import importlib, os; before = dict(os.environ); '
    'from tests.bench import __main__; '
    '[importlib.import_module(m) for m in {*__main__.benches().values()}]; '
    'print(sorted(k for k, x in os.environ.items() if before.get(k) != x))'
  )
  plain = {k: x for k, x in os.environ.items() if k[:4] not in ('XLA_', 'JAX_')}
  done = subprocess.run(
    [sys.executable, '-c', code],
    cwd=root,
    env=plain,
    capture_output=True,
    text=True,
    check=True,
  )
  assert not [
    name for name in ast.literal_eval(done.stdout) if name[:3] in ('XLA', 'JAX')
  ]


def test_a_suite_is_of_benchmarks_that_are_there(capsys):
  from tests.bench import __main__ as bench

  for names in bench.SUITES.values():
    assert {*names} <= {*bench.benches()}
  assert bench.main(['--suite=nope']) == 2
  assert '--suite=users' in capsys.readouterr().err


def test_the_readme_has_no_ratio_to_a_figure_from_elsewhere():
  text = (BENCH.parents[1] / 'README.md').read_text()
  for words in ('(the published code:', '(the published engine:'):
    assert words not in text


@pytest.mark.parametrize('name', ['Transformer', 'SLiCE b=8'])
def test_the_peer_is_the_same_function(name):
  """Loss and gradients of PyTorch's module with our weights."""
  torch = pytest.importorskip('torch')
  from flax import nnx

  from tests.bench import models_bench, peers
  from wm.core import registry
  from wm.models.nn import network
  from wm.options.training import Training
  from wm.training import loss as loss_lib
  from wm.training import state

  world, spec = models_bench.world_of(12), models_bench.FAMILIES[name]
  aim = loss_lib.make(Training(objective='state'), world)
  model = registry.make('model', spec)
  shape = network.NetworkSpec(
    model, len(world.vocab), world.max_len, aim.outputs
  )
  params = network.flatten(nnx.split(shape.build(nnx.Rngs(0)))[1])
  games = world.sample(3, 0).tokens[:, :12]
  lengths = np.full(3, 12)
  labels = world.sequence_labels(games, lengths)

  def loss(params):
    judged = aim.per_token_loss(state.merge(shape, params), None, games, labels)
    return aim.mean(judged, lengths)

  value, slopes = jax.jit(jax.value_and_grad(loss))(params)
  kind = peers.Transformer if name == 'Transformer' else peers.Slice
  peer = kind(len(world.vocab), world.heads.sizes).eval()
  peers.load(peer, {path: np.asarray(x) for path, x in params.items()})
  result = peer(*(torch.from_numpy(x).long() for x in (games, labels)))
  result.backward()
  assert result.item() == pytest.approx(float(value), rel=1e-5)
  want = {k: x.grad.clone() for k, x in peer.named_parameters()}
  peers.load(peer, {path: np.asarray(x) for path, x in slopes.items()})
  for path, slope in peer.named_parameters():
    torch.testing.assert_close(want[path], slope.detach(), atol=1e-6, rtol=2e-4)
