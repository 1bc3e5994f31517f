"""Maps of several models under several limits."""

import json

import pytest

import wm
from tests.launch import binaries
from wm import core
from wm.recon import sampling
from wm.studies import atlas

CITY = "maps(rows=4, columns=4, traversal='shortest')"
LIMITS = [(4, 0.5), (2, 1.0)]


@pytest.fixture(scope='module')
def run(tmp_path_factory) -> wm.Run:
  out = tmp_path_factory.mktemp('atlas') / 'run'
  wm.sample(CITY, out, wm.Sampling(num=150, num_heldout=10))
  return wm.train(CITY, 'ngram(order=3)', out)


def test_each_model_is_sampled_once_and_mapped_under_all_limits(
  run, tmp_path, monkeypatch
):
  chunks, made = [], sampling.Drawing.part
  monkeypatch.setattr(
    *(sampling.Drawing, 'part'),
    lambda drawing, first: chunks.append(first) or made(drawing, first),
  )
  wm.reconstruct('oracle()', tmp_path / 'one', CITY, num=30)
  rows = [
    f'random_walks: {run.folder}',
    'true: oracle()',
    f'file: {tmp_path}/one/samples.txt on {CITY}',
  ]
  given = {
    'limits': LIMITS,
    'num': 30,
    'options': wm.Reconstruction(shuffles=1),
  }
  chunks.clear()
  lines = []
  path = wm.atlas(rows, CITY, tmp_path / 'all', **given, log=lines.append)
  assert len(chunks) == 2
  summaries = {
    (cell, name): json.loads(
      (tmp_path / 'all' / cell / name / 'summary.json').read_text()
    )
    for cell in ('4_0.5mi', '2_1mi')
    for name in ('random_walks', 'true', 'file')
  }
  for (cell, name), summary in summaries.items():
    assert summary['sequences'] == 30
    limits = summary['max_degree'], summary['max_miles']
    assert limits == ((4, 0.5) if cell == '4_0.5mi' else (2, 1.0))
    assert summary['model'] == name
    if name != 'file':
      assert summary['accept'] == 'top_k(k=50)'
  head, _, *table = path.read_text().splitlines()[2:10]
  assert head.startswith('| model | max degree | max miles | sequences |')
  assert '| failed over orders |' in head
  # Of a model that the paper names so, with what differs from it in the head.
  assert 'failed in the paper (Manhattan' in head
  shown = [[c.strip() for c in row.split('|')[1:-1]] for row in table]
  assert [row[:3] for row in shown] == [
    [name, degree, miles]
    for name in ('random_walks', 'true', 'file')
    for degree, miles in (('4', '0.5'), ('2', '1.0'))
  ]
  fourth = head.split('|').index(' failed ') - 1
  assert [int(row[fourth]) for row in shown] == [
    summaries[cell, name]['failed']
    for name in ('random_walks', 'true', 'file')
    for cell in ('4_0.5mi', '2_1mi')
  ]
  chunks.clear()
  before = path.read_text()
  wm.atlas(rows, CITY, tmp_path / 'all', **given)
  assert not chunks
  assert path.read_text() == before


@pytest.mark.parametrize(
  ('rows', 'message'),
  [
    (['one'], "bad row 'one'"),
    (['a: oracle()', 'a: uniform()'], 'two rows have one name'),
    (['a: oracle()', 'b: runs/none'], 'runs/none'),
    (['a: oracle() on lattice(size=', 'b: oracle()'], 'lattice'),
  ],
)
def test_bad_rows_are_told_before_the_first_map(tmp_path, rows, message):
  with pytest.raises(core.InputError, match=message):
    wm.atlas(rows, CITY, tmp_path / 'all')
  assert not (tmp_path / 'all').exists()


def test_limits_are_two_numbers():
  assert atlas.parse_limits('8, .5') == (8, 0.5)
  assert atlas.parse_limits('4,1') == (4, 1.0)
  for text in ('4', '4 0.5', 'four, 0.5', '4, 0.5, 1', '-4, 1'):
    with pytest.raises(core.InputError, match='bad limits'):
      atlas.parse_limits(text)


def test_the_binary(tmp_path):
  flags = f'--world={CITY}', f'--out={tmp_path}/all', '--num_samples=20'
  code, out, err = binaries.run(
    'reconstruct', *flags, '--routes=true: oracle()', '--limits=4, 0.5'
  )
  assert code == 0, err
  assert out.startswith('== true: degree 4, 0.5 miles\n')
  assert (tmp_path / 'all' / '4_0.5mi' / 'true' / 'map.html').is_file()
  said = binaries.refused(
    'reconstruct', *flags, '--routes=true: oracle()', '--limits=4'
  )
  assert "bad limits '4'" in said
  said = binaries.refused('reconstruct', *flags, '--limits=4, .5')
  assert '--routes is required' in said
  routes = tmp_path / 'all' / '4_0.5mi' / 'true' / 'samples.txt'
  for source in (f'--samples={routes}', f'--routes=file: {routes}'):
    said = binaries.refused('reconstruct', *flags, source)
    assert "num=20, pairs='uniform' were given: expected no number" in said
