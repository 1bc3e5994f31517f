"""On Manhattan with the paper's settings, its values stand beside ours."""

from tests.reporting.beside_test import entry
from wm.reporting import collect, paper_comparison
from wm.runtime import files

PAPER_WALKS = {'steps': 236_059, 'batch': 384}


def made(tmp_path, one, training):
  """Tables of one entry."""
  run = collect.Run(tmp_path, [one], [], [], None, training)
  return paper_comparison.value_tables([run])


def shown(table) -> tuple[str, str]:
  """What is printed of the measured result, and what differs."""
  (row,) = (row for row in table.rows if row[2].startswith('0'))
  return row[3:5]


def test_manhattan_is_known_by_its_streets(tmp_path, manhattan):
  files = f"nodes='{manhattan}/nodes.csv', edges='{manhattan}/random/edges.csv'"
  result = entry('compression', 'precision_published', model='random_walks')
  result['model_spec'] = 'transformer(layers=48, width=1600)'
  there = {**result, 'world': f'maps({files})'}
  (table,) = made(tmp_path, there, PAPER_WALKS)
  assert shown(table) == ('0.50 ± 0.02', '')
  for changed, differs in (
    (result, 'Manhattan'),
    ({**there, 'world': f'maps({files}, max_moves=50)'}, 'max_moves=0'),
    ({**there, 'world': f"maps({files}, traversal='shortest')"}, 'traversal='),
    ({**there, 'world': "maps(nodes='no', edges='no')"}, 'Manhattan'),
  ):
    (table,) = made(tmp_path, changed, PAPER_WALKS)
    assert differs in shown(table)[1]
  (table,) = made(tmp_path, there, {'steps': 9, 'batch': 384})
  assert shown(table)[1] == 'steps=236059'


def mapped(tmp_path, place, training=PAPER_WALKS, **changed):
  """The table of a reconstruction with the paper's settings but for some."""
  summary = {
    **{'world': place, 'sequences': 6400, 'variant': 'program'},
    **{'control': 'none', 'order': '3'},
    **{'accept': 'top_k(k=50)', 'max_degree': 4, 'max_miles': 0.5},
    **{'model_spec': 'transformer(layers=48, width=1600)', 'failed': 2000},
    **changed,
  }
  entries = [entry('next_token', 'validity', model='random_walks')]
  run = collect.Run(tmp_path, entries, [], [], summary, training)
  return paper_comparison.map_table([run])


def test_reconstructions_are_compared_field_by_field(tmp_path, manhattan):
  world = f"maps(nodes='{manhattan}/nodes.csv', "
  world += f"edges='{manhattan}/random/edges.csv')"
  table = mapped(tmp_path, world)
  assert table.heads[-1] == 'failed in the paper'
  assert table.rows[0][-1] == '1987'
  assert mapped(tmp_path, world, max_degree=8).rows[0][-1] == '1491'
  assert mapped(tmp_path, world, max_miles=1.0).rows[0][-1] == '1905'
  for changed, differs in (
    ({'max_degree': 5}, 'max_degree=4'),
    ({'max_miles': 2.0}, 'max_miles=0.5'),
    ({'control': 'valid'}, "control='none'"),
    ({'sequences': 6399}, 'sequences=6400'),
    ({'variant': 'paper'}, "variant='program'"),
    ({'accept': 'epsilon()'}, "accept='top_k(k=50)'"),
    ({'order': 'file'}, 'shuffled'),
    ({'model_spec': 'transformer(layers=2, width=64)'}, '48 x 1600'),
    ({'world': 'maps()'}, 'Manhattan'),
  ):
    table = mapped(tmp_path, world, **changed)
    assert table.heads[-1] == 'the paper has'
    assert table.rows[0][-2:] == ('1987', differs)


def test_the_published_routes_are_known_by_their_bytes(tmp_path, manhattan):
  world = f"maps(nodes='{manhattan}/nodes.csv', "
  world += f"edges='{manhattan}/random/edges.csv')"
  inputs = {'accept': None, 'model_spec': None}
  path = manhattan / 'random' / 'samples.txt'
  table = mapped(
    *(tmp_path, world, {}), samples_sha256=files.sha256(path), **inputs
  )
  assert table.heads[-1] == 'failed in the paper'
  table = mapped(tmp_path, world, {}, samples_sha256='0', **inputs)
  for words in ("accept='top_k(k=50)'", '48 x 1600', 'steps=236059'):
    assert words in table.rows[0][-1]


def test_a_map_of_another_name_has_no_published_count(tmp_path):
  summary = {'sequences': 6400, 'world': 'maps()'}
  run = collect.Run(tmp_path, [entry('probe', 'accuracy')], [], [], summary)
  table = paper_comparison.map_table([run])
  assert table.heads == ('model', 'sequences')
  assert 'paper' not in table.note
  assert paper_comparison.map_table([]) is None
