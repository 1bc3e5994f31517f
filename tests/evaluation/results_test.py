"""Parts: what is kept, what stands no more, what is damaged."""

import contextlib
import dataclasses
import json
import math
import pathlib
import tarfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import wm
from tests.evaluation.counted import OTHER, Counted
from tests.evaluation.counted import run as _run
from wm import core
from wm.core import registry
from wm.evaluation import results
from wm.runtime import files, provenance


@pytest.fixture(autouse=True)
def _fresh():
  Counted.calls.clear()
  Counted.interrupted.clear()


def _files(out) -> list:
  """The part's files: what says that it is there, and the rows."""
  (path,) = results.paths(out)
  return [path, path.with_suffix('.npz')]


def test_what_is_kept_is_said_and_not_measured(tmp_path):
  first = _run(tmp_path)
  before = (tmp_path / 'rows.parquet').read_bytes()
  output = []
  assert _run(tmp_path, log=output.append) == first
  assert output == ['counted(): cached']
  assert Counted.calls == ['a']
  assert (tmp_path / 'rows.parquet').read_bytes() == before


def test_what_the_model_is_made_from_has_changed(tmp_path):
  _run(tmp_path)
  output = []
  _run(tmp_path, origin=OTHER, log=output.append)
  assert output == ['counted(): recomputed: model changed']
  assert Counted.calls == ['a', 'a']


def test_without_an_origin_nothing_is_kept(tmp_path):
  for _ in range(2):
    output = []
    _run(tmp_path, origin=provenance.Origin({}, 'unknown'), log=output.append)
  assert output == ['unknown: all is recomputed each time']
  assert Counted.calls == ['a', 'a']
  # Nor is it used by a run that knows its own.
  _run(tmp_path)
  assert Counted.calls == ['a', 'a', 'a']


def test_a_stopped_run_leaves_no_stale_results(tmp_path):
  _run(tmp_path)
  Counted.interrupted.add('a')
  with pytest.raises(KeyboardInterrupt):
    _run(tmp_path, origin=OTHER)
  for name in results.JOINED:
    assert not (tmp_path / name).exists()


def test_a_metric_that_fails_claims_no_folder(tmp_path):
  Counted.interrupted.add('a')
  with pytest.raises(KeyboardInterrupt):
    _run(tmp_path / 'x')
  assert not (tmp_path / 'x').exists()


@pytest.mark.parametrize('which', [0, 1])
@pytest.mark.parametrize('harm', ['cut', 'empty', 'flipped', 'gone'])
def test_a_damaged_part_is_measured_anew(tmp_path, which, harm):
  first = _run(tmp_path)
  path = _files(tmp_path)[which]
  held = bytearray(path.read_bytes())
  held[len(held) // 2] ^= 1
  if harm == 'gone':
    path.unlink()
  else:
    path.write_bytes({'cut': held[:100], 'empty': b''}.get(harm, held))
  output = []
  assert _run(tmp_path, log=output.append) == first
  assert Counted.calls == ['a', 'a']
  if which or harm != 'gone':
    (line,) = output
    assert path.name in line
    assert line.startswith('counted(): recomputed: scores/counted-')
    assert 'is damaged' in line
  assert len(pd.read_parquet(tmp_path / 'rows.parquet')) == 5


def _reads_alike(changed: bytes, held: bytes) -> bool:
  """Is it the same JSON? The 17th digit of a number may mean nothing."""
  with contextlib.suppress(ValueError):
    return json.loads(changed) == json.loads(held)
  return False


def test_any_changed_byte_is_found_out(tmp_path):
  _run(tmp_path)
  for path in _files(tmp_path):
    held = path.read_bytes()
    for place in range(0, len(held), 1 + len(held) // 500):
      changed = bytearray(held)
      changed[place] ^= 1 << place % 8
      path.write_bytes(changed)
      if _reads_alike(changed, held):
        continue
      with pytest.raises(results.Unusable):
        results.read(_files(tmp_path)[0])
    path.write_bytes(held)
  assert results.read(_files(tmp_path)[0]).spec == 'counted()'


def test_a_part_of_the_version_before_is_told_by_its_version(tmp_path):
  _run(tmp_path)
  (path,) = results.paths(tmp_path)
  entries = results.read(path).entries
  results.remove(path)
  old = path.with_name('counted-0123456789ab.json')
  old.write_text(json.dumps({'entries': entries, 'breakdown': []}))
  old.with_suffix('.csv').write_text('metric,spec\n')
  output = []
  _run(tmp_path, log=output.append)
  assert output == [
    f'counted(): recomputed: scores/{old.name} was written by wm '
    f'{wm.__version__} in a format that does not say what it was measured from'
  ]
  assert sorted((tmp_path / results.FOLDER).iterdir()) == sorted(
    _files(tmp_path)
  )


def test_summaries_of_an_earlier_format_are_read_from_the_json_file(tmp_path):
  _run(tmp_path)
  (path,) = results.paths(tmp_path)
  part = results.read(path)
  with np.load(path.with_suffix('.npz')) as stored:
    summaries = json.loads(stored['summaries'].tobytes())
  body = json.loads(path.read_text()) | summaries
  del body['sha256'], body['format']
  marks = {'format': results.EARLIER, 'sha256': files.json_hash(body)}
  path.write_text(json.dumps({**marks, **body}))
  assert results.read(path).entries == part.entries


@pytest.mark.parametrize('text', [None, 'x', '[1, 2]', '{"entries": []}'])
def test_rows_without_summaries_are_measured_anew(tmp_path, text):
  _run(tmp_path)
  (path,) = results.paths(tmp_path)
  rows, body = path.with_suffix('.npz'), json.loads(path.read_text())
  with np.load(rows) as stored:
    columns = dict(stored)
  del columns['summaries'], body['sha256'], body['format']
  if text:
    columns['summaries'] = np.frombuffer(text.encode(), np.uint8)
  np.savez_compressed(rows, **columns)
  body['rows_sha256'] = files.sha256(rows)  # As of one who knows the format.
  marks = {'format': results.FORMAT, 'sha256': files.json_hash(body)}
  path.write_text(json.dumps({**marks, **body}))
  with pytest.raises(results.Unusable, match='damaged: it has no summaries'):
    results.read(path)
  output = []
  _run(tmp_path, log=output.append)
  assert 'recomputed' in output[0]
  assert results.read(path).entries


def test_parts_of_the_version_before_are_measured_anew(tmp_path):
  archive = pathlib.Path(__file__).parents[1] / 'golden' / 'scored.tar.xz'
  with tarfile.open(archive) as tar:
    tar.extractall(tmp_path, filter='data')
  outcomes = results.paths(tmp_path / 'scored')
  assert outcomes
  for path in outcomes:
    with pytest.raises(results.Unusable, match='written by wm 0') as error:
      results.read(path)
    assert registry.make('metric', error.value.spec)
    results.remove(path)
  assert not list((tmp_path / 'scored' / results.FOLDER).iterdir())


WORDS = st.text(
  st.characters(exclude_characters='\0', codec='utf-8'), max_size=5
)
BOUNDS = None, (0.0, 1.0), (0.0, None), (-math.inf, 1.0), (-math.inf, None)
columns = st.one_of(
  arrays(st.sampled_from(['f4', 'f8', 'i1', 'i4', 'i8', 'u8', '?']), 3),
  arrays('U5', 3, elements=WORDS),
)


@settings(max_examples=30, deadline=None)
@given(
  value=arrays('f8', 3),
  reason=arrays('U5', 3, elements=st.text('abc', max_size=5)),
  group=arrays('i8', 3),
  weight=arrays('f8', 3, elements=st.floats(0)),
  side=st.dictionaries(st.text(), columns, max_size=3),
  counts=st.dictionaries(st.text(), st.integers(), max_size=2),
  bounds=st.sampled_from(BOUNDS),
)
def test_rows_are_read_back_exactly(
  tmp_path_factory, value, reason, group, weight, side, counts, bounds
):
  path = tmp_path_factory.mktemp('part') / 'part.json'
  scores = core.Scores(
    'share', value, reason, group, weight, side, counts, bounds
  )
  part = results.Result('m()', {'a': 'b'}, '', {'seed': 1}, [], [], (scores,))
  results.write(path, part)
  read = results.read(path)
  (result,) = read.scores
  assert dataclasses.replace(read, scores=(scores,)) == part
  assert (result.quantity, result.counts, result.bounds) == (
    'share',
    counts,
    bounds,
  )
  assert list(result.columns) == list(side)
  kept = [result.value, result.reason, result.group, result.weight]
  for mine, its in zip(
    [*kept, *result.columns.values()],
    [value, reason, group, weight, *side.values()],
    strict=True,
  ):
    assert mine.dtype == its.dtype
    assert mine.tobytes() == its.tobytes()
