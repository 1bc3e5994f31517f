"""Rows divided over processes: the same results to the bit.

In most tests a process is a thread, and a barrier stands for the network.
"""

import contextlib
import errno
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import wm
from tests.data.pgn_texts import pgn, random_games, url
from tests.evaluation.network_test import METRICS, WORLD, _predictor
from wm import core
from wm.core import adapting, registry
from wm.data import published, sampling, text
from wm.data import store as stores
from wm.evaluation import scoring
from wm.library import calls
from wm.models.serving import adaptation
from wm.recon import run as drawing
from wm.recon import run as recon
from wm.runtime import compute, exit_codes, files, remote

ROOT = pathlib.Path(__file__).parents[2]


def together(monkeypatch, num, work):
  """Results of `work()` in each of `num` processes, and bytes exchanged."""
  local, barrier = threading.local(), threading.Barrier(num, timeout=300)
  messages, results, errors = [None] * num, [None] * num, []

  def exchanged(message):
    messages[local.index] = message
    try:
      barrier.wait()
      everything = np.stack(messages)
      barrier.wait()
    except threading.BrokenBarrierError as error:
      raise exit_codes.Failed('another process has ended') from error
    return everything

  def run(index):
    local.index = index
    try:
      results[index] = work()
    except BaseException as error:
      errors.append(error)
      barrier.abort()

  monkeypatch.setattr(compute, 'num_processes', lambda: num)
  monkeypatch.setattr(compute, 'process_index', lambda: local.index)
  monkeypatch.setattr(compute, '_exchanged', exchanged)
  threads = [threading.Thread(target=run, args=(k,)) for k in range(num)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  if errors:
    raise errors[0]
  return results


@pytest.mark.parametrize('total', [0, 1, 2, 3, 7, 4000])
@pytest.mark.parametrize('num', [2, 4])
def test_rows_are_gathered_in_order(monkeypatch, num, total):
  rng = np.random.default_rng(0)
  arrays = (
    rng.normal(size=(total, 3)),
    rng.integers(-(2**62), 2**62, (total,)),
    rng.random((total, 2, 2)) < 0.5,
    np.zeros((total, 0), np.float32),
  )

  def work():
    own = compute.own_rows(total)
    return [compute.gathered(x[own].copy(), total) for x in arrays], own

  results = together(monkeypatch, num, work)
  for gathered, _ in results:
    for array, whole in zip(arrays, gathered, strict=True):
      assert whole.dtype == array.dtype
      np.testing.assert_array_equal(whole, array)
  counts = [own.stop - own.start for _, own in results]
  # Fewer rows than processes are computed by all.
  assert counts == [total] * num if total < num else sum(counts) == total
  assert max(counts) - min(counts) <= 1


def test_a_single_process_has_all_rows():
  assert compute.num_processes() == 1
  assert compute.process_index() == 0
  assert compute.own_rows(5) == slice(0, 5)


@pytest.mark.parametrize(
  'metric',
  METRICS,
  ids=lambda m: m.name,
)
def test_metrics_have_the_same_bits(monkeypatch, metric):
  alone = metric(_predictor(1), WORLD, 0)

  def work():
    return metric(_predictor(1).across_processes(), WORLD, 0)

  for rows in together(monkeypatch, 3, work):
    for first, other in zip(alone, rows, strict=True):
      np.testing.assert_array_equal(first.value, other.value)
      np.testing.assert_array_equal(first.reason, other.reason)


def test_whole_sequences_have_the_same_bits(monkeypatch):
  sequences = WORLD.sample(11, 3, 'train')
  read = sequences.tokens, sequences.lengths
  alone = _predictor(1)

  def work():
    shared = _predictor(1).across_processes()
    return shared.log_probs(*read), shared.untrained(4).hidden(*read, -1)

  for log_probs, hidden in together(monkeypatch, 2, work):
    assert log_probs.tobytes() == alone.log_probs(*read).tobytes()
    expected = alone.untrained(4).hidden(*read, -1)
    assert hidden.tobytes() == expected.tobytes()


@pytest.mark.parametrize('num', [2, 3])
def test_adapting_has_the_same_bits(monkeypatch, num):
  """Chunks are those of a single process, whoever tunes them."""
  rng = np.random.default_rng(0)
  tokens = rng.integers(1, len(WORLD.vocab), (5, 2, 6)).astype(np.int32)
  places = np.full((5, 2, 1), 5, np.int32)
  labels = rng.integers(0, 2, (5, 2, 1, 1))
  tasks = adapting.FewShotTasks(tokens, places, labels)
  queries = adapting.QueryPoints(tokens[:, :1], places[:, :1])
  asked = tasks, queries, adapting.Classes(2), (1, 2), 3
  config = adapting.FineTuneConfig(1e-2)

  def outputs(predictor):
    return predictor.adapt(*asked, config).tobytes()

  monkeypatch.setattr(adaptation, 'chunk_size', lambda *_: 2)
  expected = outputs(_predictor(1))

  def work():
    return outputs(_predictor(1).across_processes())

  assert together(monkeypatch, num, work) == [expected] * num


@pytest.mark.parametrize(
  'failure', [core.InputError('in use'), OSError(28, 'full')]
)
def test_all_end_where_process_0_cannot_write(monkeypatch, failure):
  """None waits for one that has gone; the others point at process 0."""

  def write():
    if compute.process_index() == 0:
      raise failure
    return 'memory'

  def work():
    with pytest.raises((core.InputError, OSError)) as caught:
      scoring._if_process_0_can(write)
    return str(caught.value)

  first, *others = together(monkeypatch, 3, work)
  assert first == str(failure)
  assert others == ['process 0 could not write to --out; it says why'] * 2
  assert together(
    monkeypatch, 2, lambda: scoring._if_process_0_can(lambda: 1)
  ) == [1, 1]


def test_messages_of_any_lengths_come_in_order(monkeypatch):
  def work():
    index = compute.process_index()
    return compute.exchanged(bytes([index]) * index * 5000)

  messages = [b'', b'\1' * 5000, b'\2' * 10_000]
  assert together(monkeypatch, 3, work) == [messages] * 3


FROG = f'{ROOT}/launch/examples/frog.py:World(stones=4)'
# Chunks of the second have sequences of others, which are dropped.
SAMPLED = FROG, "maps(rows=4, columns=4, traversal='shortest')"
SIZES = wm.Sampling(num=500, num_heldout=80)


def tree(folder):
  return {
    str(path.relative_to(folder)): path.read_bytes()
    for path in sorted(folder.rglob('*'))
    if path.is_file()
  }


def sampled(out, world=FROG):
  """Each process's own samples; process 0 alone has the lock."""
  stores = wm.sample(world, out, SIZES, log=lambda line: None)
  return {split: store.manifest for split, store in stores.items()}


@pytest.mark.parametrize(('world', 'num'), [*zip(SAMPLED, (3, 2), strict=True)])
def test_sampling_has_the_same_bytes(monkeypatch, tmp_path, world, num):
  monkeypatch.setattr(sampling, 'CHUNK', 70)
  alone = sampled(tmp_path / 'one', world)
  calls = []
  sample = sampling.sample_chunk

  def counted(**arguments):
    calls.append(compute.process_index())
    sample(**arguments)

  monkeypatch.setattr(sampling, 'sample_chunk', counted)

  def work():
    return sampled(tmp_path / 'several', world)

  assert together(monkeypatch, num, work) == [alone] * num
  assert tree(tmp_path / 'several') == tree(tmp_path / 'one')
  assert {*calls} == {*range(num)}
  del calls[:]
  assert together(monkeypatch, num, work) == [alone] * num
  assert not calls  # A complete data set is left as it is.


@pytest.mark.parametrize('dies', [0, 1])
def test_a_process_that_is_lost_costs_no_chunk(monkeypatch, tmp_path, dies):
  """The others end; the same commands go on, in another number of processes."""
  monkeypatch.setattr(sampling, 'CHUNK', 70)
  monkeypatch.setattr(stores, 'SHARD_TOKENS', 300)  # Some shards are whole.
  sampled(tmp_path / 'one')
  chunks, sample = [], sampling.sample_chunk

  def lost(**arguments):
    if compute.process_index() == dies and arguments['chunk'] > 3:
      raise KeyboardInterrupt
    chunks.append((arguments['split'], arguments['chunk']))
    sample(**arguments)

  with monkeypatch.context() as patch:
    patch.setattr(sampling, 'sample_chunk', lost)
    with pytest.raises((KeyboardInterrupt, exit_codes.Failed)):
      together(patch, 2, lambda: sampled(tmp_path / 'several'))
  assert ('train', 3) in chunks
  dies = None
  monkeypatch.setattr(sampling, 'sample_chunk', lost)
  together(monkeypatch, 3, lambda: sampled(tmp_path / 'several'))
  assert tree(tmp_path / 'several') == tree(tmp_path / 'one')
  assert len(chunks) < 8 + 8  # Chunks of shards that are whole stand.


@pytest.mark.parametrize('fails', [0, 2])
@pytest.mark.parametrize(
  'failure', [core.InputError('no path'), OSError(28, 'full', 'x')]
)
def test_a_task_that_fails_ends_all(monkeypatch, tmp_path, fails, failure):
  monkeypatch.setattr(sampling, 'CHUNK', 70)
  sample = sampling.sample_chunk

  def fail(**arguments):
    if compute.process_index() == fails:
      raise failure
    sample(**arguments)

  monkeypatch.setattr(sampling, 'sample_chunk', fail)

  def work():
    with pytest.raises((core.InputError, OSError)) as caught:
      sampled(tmp_path / 'r')
    return str(caught.value)

  first, *others = together(monkeypatch, 3, work)
  assert first == str(failure)
  assert others == ['process 0 has failed; it says why'] * 2
  assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize('workers', [{'jobs': 2}, {'cluster': 'tls://h:1'}])
def test_several_processes_take_no_workers(monkeypatch, tmp_path, workers):
  def work():
    with pytest.raises(core.InputError) as caught:
      wm.sample(FROG, tmp_path / 'r', **workers)
    return str(caught.value)

  first, _ = together(monkeypatch, 2, work)
  assert 'expected neither, as these processes divide the work' in first
  assert not [*tmp_path.iterdir()]


def test_a_mirror_is_on_one_machine(monkeypatch, tmp_path):
  monkeypatch.setattr(sampling, 'CHUNK', 70)
  monkeypatch.setattr(remote, 'MIRRORS', tmp_path.name)
  monkeypatch.setattr(remote, 'leased', lambda *_: contextlib.nullcontext())

  def work():
    with pytest.raises(core.InputError) as caught:
      calls.sample(FROG, tmp_path / 'r', SIZES)
    return str(caught.value)

  assert 'mirrored on this machine' in together(monkeypatch, 2, work)[0]


def test_routes_have_the_same_bytes(monkeypatch, tmp_path):
  """Of processes that are lost and started again, too."""
  monkeypatch.setattr(drawing, 'CHUNK', 8)
  monkeypatch.setattr(
    *(recon, '_write'),
    lambda *args: files.write_json(args[3] / 'summary.json', args[4]),
  )
  part, dies = drawing.Drawing.part, [None]
  calls = []

  def lost(self, first):
    calls.append((compute.process_index(), first))
    if len(calls) == dies[0]:
      raise KeyboardInterrupt
    return part(self, first)

  monkeypatch.setattr(drawing.Drawing, 'part', lost)

  def work(out):
    inputs = {'world': SAMPLED[1], 'num': 60}
    return wm.reconstruct('uniform()', tmp_path / out, **inputs)

  alone = work('one')
  assert together(monkeypatch, 3, lambda: work('three')) == [alone] * 3
  assert {index for index, _ in calls} == {0, 1, 2}
  dies[0] = len(calls) + 6
  with pytest.raises((KeyboardInterrupt, exit_codes.Failed)):
    together(monkeypatch, 2, lambda: work('cut'))
  kept = [*(tmp_path / 'cut' / 'samples.txt.parts').iterdir()]
  assert len(kept) >= 4
  num = len(calls)
  assert together(monkeypatch, 3, lambda: work('cut')) == [alone] * 3
  assert len(calls) == num + 8 - len(kept)
  assert tree(tmp_path / 'three') == tree(tmp_path / 'one')
  assert tree(tmp_path / 'cut') == tree(tmp_path / 'one')

  def refused():
    with pytest.raises(core.InputError) as caught:
      wm.reconstruct('uniform()', tmp_path / 'one', SAMPLED[1], num=61)
    return str(caught.value)

  first, other = together(monkeypatch, 2, refused)
  assert 'holds another reconstruct run: its num_samples is 60' in first
  assert other == 'process 0 has failed; it says why'


def test_lines_of_text_are_read_to_the_same_bytes(monkeypatch, tmp_path):
  """Of processes that are lost and started again, too; and a bad line."""
  monkeypatch.setattr(published, 'CHUNK', 30)
  monkeypatch.setattr(stores, 'SHARD_TOKENS', 300)
  frog = registry.resolve('world', FROG)
  lines = text.render(frog.sample(400, 0), frog).splitlines()
  held = tmp_path / 'held.txt'
  held.write_text(text.render(frog.sample(50, 0, split='heldout'), frog))
  path = tmp_path / 'lines.txt'
  path.write_text('\n'.join([*lines[:100], '', 'hop hop hop', *lines[100:]]))
  read, calls, dies = published.read_shard, [], [0]

  def lost(**arguments):
    calls.append(compute.process_index())
    read(**arguments)
    if len(calls) >= dies[0] > 0:
      raise KeyboardInterrupt

  monkeypatch.setattr(published, 'read_shard', lost)

  def work(out):
    made = wm.ingest_text(path, tmp_path / out, FROG, heldout=held)
    return {split: store.manifest for split, store in made.items()}

  alone = work('one')
  assert alone['train']['counts']['blank'] == 1
  assert together(monkeypatch, 3, lambda: work('three')) == [alone] * 3
  assert sorted(calls) == [0, 0, 1, 1, 2, 2]
  calls.clear()
  dies[0] = 3
  with pytest.raises((KeyboardInterrupt, exit_codes.Failed)):
    together(monkeypatch, 2, lambda: work('cut'))
  dies[0] = 0
  assert together(monkeypatch, 2, lambda: work('cut')) == [alone] * 2
  for out in ('three', 'cut'):
    assert tree(tmp_path / out) == tree(tmp_path / 'one')

  # The first of two bad lines, which another process comes to later.
  path.write_text('\n'.join([*lines[:130], 'bad', *lines[:40], 'worse']))

  def refused():
    with pytest.raises(core.InputError) as caught:
      work('bad')
    return str(caught.value)

  first, other = together(monkeypatch, 2, refused)
  assert "lines.txt, line 131: unknown token 'bad'" in first
  assert other == 'process 0 has failed; it says why'
  assert not (tmp_path / 'bad').exists()


@pytest.mark.slow
def test_games_are_read_to_the_same_bytes(monkeypatch, tmp_path):
  path = tmp_path / 'a.pgn'
  path.write_text(pgn(random_games(40), [url(n) for n in range(40)]))

  def work(out):
    made = wm.ingest(path, tmp_path / out)
    return {split: store.manifest for split, store in made.items()}

  alone = work('one')
  assert together(monkeypatch, 2, lambda: work('two')) == [alone] * 2
  assert tree(tmp_path / 'two') == tree(tmp_path / 'one')


def test_a_file_of_routes_is_read_by_process_0(monkeypatch, tmp_path):
  city, samples = registry.resolve('world', SAMPLED[1]), tmp_path / 'routes.txt'
  samples.write_text(text.render(city.sample(40, 0), city))

  def work(out):
    return wm.reconstruct(None, tmp_path / out, SAMPLED[1], samples=samples)

  monkeypatch.setattr(recon, '_write', lambda *args: None)
  alone = work('one')
  assert together(monkeypatch, 2, lambda: work('two')) == [alone] * 2


@pytest.mark.parametrize(
  'error',
  [
    exit_codes.ProcessLost('another of the 2 has ended: it was killed'),
    ValueError('UNKNOWN: Gloo AllGather failed: it was killed'),
    RuntimeError('UNKNOWN: Gloo all-reduce failed: it was killed'),
  ],
)
def test_the_rest_waits_for_no_process_that_is_lost(monkeypatch, capsys, error):
  monkeypatch.setattr(compute, 'num_processes', lambda: 2)
  monkeypatch.setattr(compute, 'process_index', lambda: 1)

  def leave(code):
    raise OSError(errno.EIO, f'left with {code}')

  monkeypatch.setattr(os, '_exit', leave)
  with (
    pytest.raises(OSError, match='left with 1'),
    exit_codes.exit_on_error(),
    compute.noticing_loss(),
  ):
    raise error
  lines = capsys.readouterr().err
  assert lines.startswith('error: another of the 2 ')
  assert 'it was killed' in lines
  assert lines.count('\n') == 1


def test_other_errors_go_on_as_they_are(monkeypatch):
  with pytest.raises(ValueError, match='UNKNOWN'), compute.noticing_loss():
    raise ValueError('UNKNOWN: Gloo of a single process')
  monkeypatch.setattr(compute, 'num_processes', lambda: 2)
  with pytest.raises(ValueError, match='a user'), compute.noticing_loss():
    raise ValueError('another of a user')


DEVICES = {'XLA_FLAGS': '--xla_force_host_platform_device_count=2'}
MODEL = '--model=transformer(layers=1, width=16)', '--checkpoint=none'


def start(binary, num, *flags):
  """So many processes of one program, of two devices each; 0: a plain one."""
  with socket.socket() as free:
    free.bind(('127.0.0.1', 0))
    port = free.getsockname()[1]
  joined = f'--coordinator=127.0.0.1:{port}', f'--num_processes={num}'
  return [
    subprocess.Popen(
      [
        *(sys.executable, f'launch/{binary}.py', *flags),
        *((*joined, f'--process_id={k}') if num else ()),
      ],
      cwd=ROOT,
      env={**os.environ, **(DEVICES if num else {})},
      stderr=subprocess.PIPE,
      text=True,
    )
    for k in range(num or 1)
  ]


def ended(*processes):
  for process in processes:
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors[-2000:]


@pytest.mark.slow
def test_sample_by_flags(tmp_path):
  """Whole processes; one is killed in the midst, and all start again."""
  flags = f'--world={SAMPLED[1]}', '--num=1000000', '--num_heldout=9'
  out = tmp_path / 'two'
  processes = start('sample', 2, *flags, f'--out={out}')
  chunks = out / 'data' / '.train.chunks'
  while not [*chunks.glob('*.npy')]:
    assert processes[0].poll() is None
    time.sleep(0.01)
  processes[1].kill()
  processes[1].communicate()
  _, errors = processes[0].communicate(timeout=60)
  assert processes[0].returncode == 1
  assert 'error: another of the 2 processes has ended' in errors
  ended(*start('sample', 2, *flags, f'--out={out}'))
  ended(*start('sample', 0, *flags, f'--out={tmp_path / "one"}'))
  assert tree(out) == tree(tmp_path / 'one')


@pytest.mark.slow
def test_reconstruct_by_flags(tmp_path):
  flags = f'--world={SAMPLED[1]}', '--num_samples=600', *MODEL
  ended(*start('reconstruct', 2, *flags, f'--out={tmp_path / "two"}'))
  ended(*start('reconstruct', 0, *flags, f'--out={tmp_path / "one"}'))
  for name in ('samples.txt', 'summary.json', 'edges.csv', 'map.html'):
    item, two = (tmp_path / out / name for out in ('one', 'two'))
    assert item.read_bytes() == two.read_bytes(), name


@pytest.mark.slow
@pytest.mark.parametrize('num', [2, 4])
def test_score_by_flags(tmp_path, num):
  """A result of an earlier run stands."""
  place = "--world=maps(rows=4, columns=4, max_moves=10, traversal='shortest')"

  def score(out, num, *flags):
    flags = place, *MODEL, *flags, f'--out={tmp_path / out}'
    ended(*start('score', num, *flags))

  sample = '--metric=next_token(num=20)'
  every = (
    *(sample, '--metric=compression(trials=20)'),
    *('--metric=distinction(trials=20)', '--metric=probe'),
  )
  score('several', 0, sample)
  score('one', 0, *every)
  score('several', num, *every)
  for name in ('rows.parquet', 'breakdown.json'):
    first, other = ((tmp_path / out / name) for out in ('one', 'several'))
    assert first.read_bytes() == other.read_bytes(), name
  first, other = (
    json.loads((tmp_path / out / 'scores.json').read_text())
    for out in ('one', 'several')
  )
  assert first == other
