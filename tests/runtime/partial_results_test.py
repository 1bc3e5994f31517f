"""Work that is killed goes on with the parts that it has."""

import multiprocessing
import os
import signal

import numpy as np
import pytest

from tests import tiny
from tests.evaluation import counted
from wm.core import adapting, registry
from wm.evaluation import results
from wm.models.serving import adaptation
from wm.runtime import files, provenance

WORLD = registry.make('world', 'lattice(size=2, length=8)')
MODEL = registry.make('model', 'rnn(layers=1, width=8)')
METRIC = registry.make(
  'metric',
  'inductive_bias(num=8, examples=4, states=4, pool=4, steps=(2,))',
)
CHUNK = 2  # Data sets side by side: four parts.


def score(out) -> dict[str, float]:
  origin = provenance.Reader().of(MODEL)._replace(unknown='')
  predictor = MODEL.predictor(WORLD, 0)
  entries = counted.silent(predictor, WORLD, METRIC, out, origin=origin)
  return {e['quantity']: e['value'] for e in entries}


def killed(out: str) -> None:
  """Scores until two parts are there; then it is killed."""
  made, whole = [], adaptation._AdaptRun.chunk

  def chunk(self, rows):
    if len(made) == 2:
      os.kill(os.getpid(), signal.SIGKILL)
    made.append(rows)
    return whole(self, rows)

  adaptation._AdaptRun.chunk = chunk
  adaptation.chunk_size = lambda *given: CHUNK
  # One program at a time, so that it is known which parts are there.
  adaptation.max_parallel = lambda device: 1
  score(out)


@pytest.mark.process
def test_a_killed_probe_goes_on_with_the_data_sets_it_has(
  tmp_path, monkeypatch
):
  context = multiprocessing.get_context('spawn')
  process = context.Process(target=killed, args=(str(tmp_path / 'out'),))
  process.start()
  process.join(120)
  assert process.exitcode == -signal.SIGKILL
  folder = tmp_path / 'out' / results.UNFINISHED
  assert len([*folder.glob('*.npz')]) == 2
  made, whole = [], adaptation._AdaptRun.chunk

  def chunk(self, rows):
    made.append(rows.tolist())
    return whole(self, rows)

  monkeypatch.setattr(adaptation._AdaptRun, 'chunk', chunk)
  monkeypatch.setattr(adaptation, 'chunk_size', lambda *given: CHUNK)
  monkeypatch.setattr(adaptation, 'max_parallel', lambda device: 1)
  result = score(tmp_path / 'out')
  assert made == [[4, 5], [6, 7]]
  assert not folder.exists()
  assert result == score(tmp_path / 'whole')
  assert len(made) == 2 + 4


def arrays(value):
  return (np.full(3, value), np.zeros((2, 0), np.float32))


def test_parts_are_found_by_all_that_they_depend_on(tmp_path):
  made = []

  def make(value):
    made.append(value)
    return arrays(value)

  def asked(name, mark='v1', value=1):
    result = []

    def stopped():
      with files.partial_results(tmp_path / 'parts', mark):
        result.extend(files.cached_arrays(name, lambda: make(value)))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
      stopped()
    assert result[1].shape == (2, 0)
    return int(result[0][0])

  assert asked('a') == asked('a', value=2) == 1
  assert asked('b', value=3) == 3
  assert asked('a', mark='v2', value=4) == 4
  assert made == [1, 3, 4]
  for path in (tmp_path / 'parts').iterdir():
    path.write_bytes(path.read_bytes()[:40])
  assert asked('a', value=5) == 5
  with files.partial_results(tmp_path / 'parts', 'v1'):
    assert files.caches_arrays()
  assert not (tmp_path / 'parts').exists()
  assert not files.caches_arrays()
  assert files.cached_arrays('a', lambda: make(6))[0][0] == 6


def test_hashes_tell_types_shapes_and_values_apart():
  zero = np.zeros((2, 3), np.int32)
  things = [
    [zero],
    [zero.T],
    [zero.astype(np.float32)],
    [zero + 1],
    [zero, zero],
    ['a', 'b'],
    ['ab'],
    [adapting.Classes(2)],
    [adapting.Real(2)],
  ]
  assert len({files.hash_of(sample) for sample in things}) == len(things)


def test_what_is_not_known_whole_keeps_nothing(tmp_path):
  """A user's model may be another one the next time."""
  world = tiny.World()
  parts = results.ResultCache(
    *(tmp_path, {}, world, provenance.UNKNOWN, {}, lambda line: None)
  )
  with parts.unfinished(METRIC):
    assert not files.caches_arrays()
