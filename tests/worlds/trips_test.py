import numpy as np
import pytest

from wm import core
from wm.worlds import maps
from wm.worlds.maps import streets

HEAD = {
  2014: 'vendor_id, pickup_longitude, pickup_latitude, rate_code, '
  'dropoff_longitude, dropoff_latitude, fare_amount\r\n\r\n',
  2016: 'VendorID,pickup_longitude,pickup_latitude,RatecodeID,'
  'dropoff_longitude,dropoff_latitude,fare_amount\n',
}


@pytest.fixture(scope='module')
def graph():
  return maps.generate(6, 6, 0)


def row(graph, a, b, shift=0.0):
  return (
    f'CMT,{graph.lon[a] + shift},{graph.lat[a]},1,{graph.lon[b]},'
    f'{graph.lat[b] + shift},5\n'
  )


@pytest.mark.parametrize('year', [2014, 2016])
def test_trips_go_to_the_nearest_node_and_drops_have_a_cause(
  tmp_path, graph, year
):
  path = tmp_path / 'trips.csv'
  path.write_text(
    HEAD[year]
    + row(graph, 3, 17)
    + row(graph, 5, 0, 1e-4)
    + 'CMT,0,0,1,0,0,5\n'
    + f'CMT,{graph.lon[0]},{graph.lat[0]},1,0.0,0.0,5\n'
    + row(graph, 3, 17, 1.0)
    + row(graph, 8, 8)
    + 'CMT,x,40.7,1,-73.9,40.7,5\n'
    + 'CMT,,40.7,1,-73.9,40.7,5\n'
    + 'CMT,nan,40.7,1,-73.9,40.7,5\n'
    + 'CMT,-190,40.7,1,-73.9,40.7,5\n'
    + 'CMT,-73.9\n'
  )
  result = maps.load_trips(path, graph)
  assert result.pairs.tolist() == [[3, 17], [5, 0]]
  assert result.counts == {
    'trips': 11,
    'used': 2,
    'unreadable': 5,
    'zero': 2,
    'outside': 1,
    'same_node': 1,
  }


def test_parquet_gives_the_same(tmp_path, graph):
  pa = pytest.importorskip('pyarrow')
  from pyarrow import parquet

  text = HEAD[2016] + row(graph, 3, 17) + row(graph, 9, 2) + row(graph, 4, 4)
  (tmp_path / 'trips.csv').write_text(text)
  lines = [line.split(',') for line in text.splitlines()]
  columns = list(zip(*lines[1:], strict=True))
  table = {
    name: list(column) if name == 'VendorID' else [*map(float, column)]
    for name, column in zip(lines[0], columns, strict=True)
  }
  table['pickup_longitude'][2] = None
  parquet.write_table(pa.table(table), tmp_path / 'trips.parquet')
  text = text.replace(
    row(graph, 4, 4), row(graph, 4, 4).replace('CMT,', 'CMT,?')
  )
  (tmp_path / 'trips.csv').write_text(text)
  item = maps.load_trips(tmp_path / 'trips.csv', graph)
  two = maps.load_trips(tmp_path / 'trips.parquet', graph)
  assert item.pairs.tolist() == two.pairs.tolist() == [[3, 17], [9, 2]]
  assert item.counts == two.counts
  assert item.counts['unreadable'] == 1


def test_chunks_do_not_change_the_result(tmp_path, graph, monkeypatch):
  path = tmp_path / 'trips.csv'
  path.write_text(HEAD[2016] + ''.join(row(graph, a, a + 1) for a in range(9)))
  whole = maps.load_trips(path, graph)
  monkeypatch.setattr(maps, 'TRIP_ROWS', 4)
  pieces = maps.load_trips(path, graph)
  np.testing.assert_array_equal(pieces.pairs, whole.pairs)
  assert pieces.counts == whole.counts


def test_the_nearest_node_is_nearest_in_metres(graph):
  find = maps._nearest(graph, 'metres')
  rng = np.random.default_rng(0)
  lat = rng.uniform(graph.lat.min(), graph.lat.max(), 200)
  lon = rng.uniform(graph.lon.min(), graph.lon.max(), 200)
  metres, rows = find(lat, lon)
  every = streets.great_circle(lat[:, None], lon[:, None], graph.lat, graph.lon)
  np.testing.assert_array_equal(rows, every.argmin(1))
  np.testing.assert_allclose(metres, every.min(1), rtol=1e-3)
  # As published, a degree east counts as much as one north.
  metres, others = maps._nearest(graph, 'degrees')(lat, lon)
  apart = np.hypot(lat[:, None] - graph.lat, lon[:, None] - graph.lon)
  np.testing.assert_array_equal(others, apart.argmin(1))
  np.testing.assert_allclose(metres, every[range(200), others], rtol=1e-3)
  assert 0 < (rows != others).sum() < 100


def test_rules_are_compared_and_a_folder_is_read_in_order(tmp_path, graph):
  rng = np.random.default_rng(1)
  low, high = graph.lat.min(), graph.lat.max()
  west, east = graph.lon.min(), graph.lon.max()
  ends = rng.uniform([west, low] * 2, [east, high] * 2, (60, 4))
  lines = [f'CMT,{a},{b},1,{c},{d},5\n' for a, b, c, d in ends]
  for name, sample in (('b.csv', lines[:20]), ('a.csv', lines[20:])):
    (tmp_path / name).write_text(HEAD[2016] + ''.join(sample))
  (tmp_path / 'notes.txt').write_text('none')
  result = {
    rule: maps.load_trips(tmp_path, graph, rule) for rule in maps.NEAREST
  }
  item, two = (result[rule] for rule in maps.NEAREST)
  assert item.counts['trips'] == 60
  alone = [
    maps.load_trips(tmp_path / name, graph).pairs for name in ('a.csv', 'b.csv')
  ]
  np.testing.assert_array_equal(item.pairs, np.concatenate(alone))
  lon, lat = ends.reshape(-1, 2, 2).transpose(2, 0, 1)
  placed = [maps._nearest(graph, rule)(lat, lon) for rule in maps.NEAREST]
  for counted, (metres, mine) in zip((item, two), placed, strict=True):
    used = (mine[:, 0] != mine[:, 1]) & (metres <= maps.OUTSIDE_M).all(1)
    assert counted.counts['used'] == used.sum()
  world = maps.World(
    rows=6, columns=6, traversal='shortest', trips=str(tmp_path)
  )
  assert world.stats()['trips: used'] == item.counts['used']
  (tmp_path / 'empty').mkdir()
  with pytest.raises(core.InputError, match=r'no file that ends in \.csv or'):
    maps.load_trips(tmp_path / 'empty', graph)
  with pytest.raises(core.InputError, match='available: metres, degrees'):
    maps.World(nearest='miles')


@pytest.mark.parametrize(
  ('name', 'content', 'message'),
  [
    ('a.csv', b'PULocationID,DOLocationID\n1,2\n', "no column 'pickup_lat"),
    ('a.csv', b'', "no column 'pickup_latitude'"),
    ('a.csv', b'\xff\xfe\x00', 'not a CSV file'),
    ('a.parquet', b'no parquet', 'not a readable Parquet file'),
    ('b.csv', None, 'no such file'),
  ],
)
def test_bad_files_are_one_line(
  tmp_path, graph, name, content, message, one_line
):
  if content is not None:
    (tmp_path / name).write_bytes(content)
  with one_line() as error:
    maps.load_trips(tmp_path / name, graph)
  assert message in str(error.value)
