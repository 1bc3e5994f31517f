"""Studies whose every folder is a URL, end to end: slow."""

import pathlib
import signal
import socket
import subprocess

import jax
import numpy as np
import pytest

import wm
from tests.runtime import remote_test, s3
from wm.core import registry
from wm.runtime import remote

WORLD = remote_test.WORLD
# Fixtures of the tests of single folders.
machine, server, fresh = (
  remote_test.machine,
  remote_test.server,
  remote_test.fresh,
)

RUN = f's3://{s3.BUCKET}/runs/city'
MAP = f'--world={WORLD}'
TRAIN = (
  *('train', MAP, '--model=transformer(layers=1, width=8)', '--batch=8'),
  *('--steps=400', '--eval_every=20', '--save_every=20', '--warmup=5'),
)
SAMPLE = 'sample', MAP, '--num=300', '--num_heldout=40'
SCORE = 'score', '--metric=compression(trials=10)', '--metric=next_token(num=9)'


def finish(root, env, *command: str) -> str:
  process = s3.binary(root, env, *command)
  out, err = process.communicate(timeout=900)
  assert process.returncode == 0, err
  return out


def arrays(folder: pathlib.Path) -> list[dict]:
  """Leaves of the last checkpoint of a run."""
  from wm.training import checkpoints

  held = checkpoints.Checkpoints(folder, read_only=True)
  return held._restore(
    held.last(),
    checkpoints.ocp.args.Composite(
      params=checkpoints.ocp.args.StandardRestore()
    ),
  )['params']


@pytest.mark.slow
@pytest.mark.parametrize('sign', [signal.SIGTERM, signal.SIGKILL])
def test_a_study_on_urls_alone(root, server, fresh, tmp_path, sign):
  """Sampled, trained, stopped, resumed elsewhere, scored, reported."""
  out = f'--out={RUN}{sign}'

  def env(number: int) -> dict[str, str]:
    kernels = str(tmp_path / 'kernels')  # Compiled code is no state.
    return {
      **s3.environment(server, tmp_path / f'home{number}'),
      'NUMBA_CACHE_DIR': kernels,
      'JAX_COMPILATION_CACHE_DIR': kernels,
    }

  fresh(server)
  fs, base = remote.at(out[6:]).fs, remote.at(out[6:]).path

  def steps() -> list[str]:
    fs.invalidate_cache()
    return fs.glob(f'{base}/checkpoints/*/sha256.json')

  finish(root, env(0), *SAMPLE, out)
  first = s3.binary(root, env(1), *TRAIN, out)
  s3.until(lambda: bool(steps()), first)
  first.send_signal(sign)
  code = first.wait()
  assert code == (75 if sign == signal.SIGTERM else -signal.SIGKILL)
  assert not fs.exists(f'{base}/train.json')
  finish(root, env(2), *TRAIN, out)
  finish(root, env(3), *SCORE, out)
  assert 'report: s3://' in finish(root, env(4), 'report', out)
  assert ' done ' in finish(
    root, env(5), 'list', f'--runs=s3://{s3.BUCKET}/runs'
  )
  plain = f'--out={tmp_path / "plain"}'
  for command in (SAMPLE, TRAIN, SCORE):
    finish(root, env(6), *command, plain)
  place = remote.local(out[6:])
  left = arrays(place), arrays(tmp_path / 'plain')
  jax.tree.map(np.testing.assert_array_equal, *left)
  for name in ('rows.parquet', 'data/train/manifest.json', 'exposure.json'):
    assert (place / name).read_bytes() == (
      tmp_path / 'plain' / name
    ).read_bytes()


def started(root, env, *command: str) -> list[subprocess.Popen]:
  """Two processes of one program; `env` gives the variables of each."""
  with socket.create_server(('127.0.0.1', 0)) as free:
    port = free.getsockname()[1]
  joined = f'--coordinator=127.0.0.1:{port}', '--num_processes=2'
  return [
    s3.binary(root, env(k), *command, *joined, f'--process_id={k}')
    for k in range(2)
  ]


@pytest.mark.slow
def test_several_machines_train_at_a_url(root, server, fresh, tmp_path):
  """Two processes with a cache each; both are killed, and others resume."""
  url = f's3://{s3.BUCKET}/runs/several'

  def env(number: int) -> dict[str, str]:
    return s3.environment(server, tmp_path / f'home{number}')

  def start(out: str, first: int) -> list[subprocess.Popen]:
    return started(root, lambda k: env(first + k), *TRAIN, out)

  fresh(server)
  fs, base = remote.at(url).fs, remote.at(url).path

  def saved() -> bool:
    fs.invalidate_cache()
    return bool(fs.glob(f'{base}/checkpoints/*/sha256.json'))

  plain = f'--out={tmp_path / "plain"}'
  for out in (f'--out={url}', plain):
    finish(root, env(0), *SAMPLE, out)
  killed = start(f'--out={url}', 1)
  s3.until(saved, killed[0])
  for process in killed:
    process.kill()
  for process in killed:
    process.communicate()
  assert not fs.exists(f'{base}/train.json')
  for process in (*start(f'--out={url}', 3), *start(plain, 5)):
    _, err = process.communicate(timeout=900)
    assert process.returncode == 0, err
  drawn = registry.make('world', WORLD).sample(20, 0)
  item, other = (
    wm.load_predictor(place).predictor.log_probs(drawn.tokens, drawn.lengths)
    for place in (remote.local(url), tmp_path / 'plain')
  )
  np.testing.assert_array_equal(item, other)
