"""Every printed cell is in published.json, read again from the papers' texts.

The texts, and notes that hold cells which an extraction lost, are beside the
real data; without them these tests are skipped.
"""

import json
import pathlib
import re

import pytest

from wm.reporting import papers

Rows = list[list[str]]
MODELS = {
  'Untrained transformer': 'untrained',
  'Shortest paths': 'shortest_paths',
  'Noisy shortest paths': 'noisy_shortest_paths',
  'Random walks': 'random_walks',
  'True world model': 'oracle',
  'Championship Othello': 'championship',
  'Synthetic Othello': 'synthetic',
}
FAMILIES = {
  'Transformer': 'transformer',
  'SLiCE': 'slice',
  'Mamba-3': 'mamba3',
  'Gated DeltaNet': 'deltanet',
}


def read(testdata: pathlib.Path, name: str) -> str:
  """A text beside the real data."""
  files = sorted(testdata.parent.glob(name))
  if not files:
    pytest.skip(f'no {name} beside {testdata}')
  return files[0].read_text(encoding='utf-8')


@pytest.fixture(scope='module')
def vafa(testdata) -> str:
  return read(testdata, 'papers/000_*.txt')


@pytest.fixture(scope='module')
def chess(testdata) -> str:
  return read(testdata, 'papers/003_*.txt')


def published(paper: str) -> dict:
  text = (papers.folder() / paper / 'published.json').read_text()
  return json.loads(text)['worlds']


def rows_above(text: str, caption: str) -> Rows:
  """Cells of the table, divided by tabs, above a caption."""
  lines = text[: text.index(caption)].rstrip().split('\n')
  rows: Rows = []
  for line in reversed(lines):
    if '\t' in line:
      rows.insert(0, [cell.strip() for cell in line.split('\t')])
    elif rows:
      break
  return rows


def numbers(cells: list[str]) -> list:
  """Values, [value, standard error] where both are printed; texts left out."""
  results = [
    re.fullmatch(r'([\d.]+)(?: \(([\d.]+)\))?', cell) for cell in cells
  ]
  return [
    [float(cell[1]), float(cell[2])] if cell[2] else float(cell[1])
    for cell in results
    if cell
  ]


def blocks(text: str, caption: str) -> list[dict[str, list]]:
  """Model -> numbers, of each block of a table's rows."""
  results: list[dict[str, list]] = [{}]
  for row in rows_above(text, caption):
    name = next((cell for cell in row[:2] if cell in MODELS), None)
    if row[0] and name != row[0]:
      results.append({})
    if name:
      results[-1][MODELS[name]] = numbers(row)
  return [block for block in results if block]


def column(table: dict) -> int:
  """Of compression, distinction's precision and its recall."""
  if table['metric'].startswith('compression'):
    return 0
  return 1 if table['quantities'][0].startswith('precision') else 2


@pytest.mark.parametrize(
  ('world', 'page', 'rules', 'models'),
  [
    ('maps', 5, 4, 3),
    ('maps', 6, 3, 3),
    ('maps', 7, 3, 3),
    ('othello', 3, 1, 4),
  ],
)
def test_metrics_by_rule(vafa, world, page, rules, models):
  results = blocks(vafa, f'Table {page}:')
  assert [len(block) for block in results] == [models] * rules
  tables = [
    table
    for table in published('vafa2024')[world]['tables']
    if table.get('in') == f'table {page}'
  ]
  assert sorted(map(column, tables)) == [0, 1, 2]
  for table in tables:
    assert table['values'] == {
      model: [block[model][column(table)] for block in results]
      for model in results[0]
    }


@pytest.mark.parametrize(('world', 'page'), [('maps', 2), ('othello', 4)])
def test_detours(vafa, world, page):
  result = blocks(vafa, f'Table {page}:')
  tables = [
    table
    for table in published('vafa2024')[world]['tables']
    if table.get('in') == f'table {page}'
  ]
  assert [table['metric'] for table in tables] == [
    f'detour(kind={kind!r})' for kind in ('random', 'adversarial')
  ]
  assert [table['values'] for table in tables] == result


def test_table_1(vafa):
  (result,) = blocks(vafa, 'Table 1:')
  tables = published('vafa2024')['maps']['tables'][:5]
  assert {table['in'] for table in tables} == {'table 1'}
  for model, values in result.items():
    printed = [table['values'].get(model) for table in tables]
    # The rules have no probe.
    assert [x for (x,) in filter(None, printed)] == values


def test_table_8(vafa):
  rows = [numbers(row) for row in rows_above(vafa, 'Table 8:')]
  results = [row for row in rows if row]
  tables = [
    table
    for table in published('vafa2024')['maps']['tables']
    if table.get('in') == 'table 8'
  ]
  for place, table in enumerate(tables, 1):
    assert table['each'] == {'samples': [row[0] for row in results]}
    values = [row[place] for row in results]
    assert table['values'] == {'shortest_paths': values}


def test_figure_4(vafa):
  results = {}
  for row in rows_above(vafa, 'Figure 4: On the left'):
    if len(values := numbers(row)) == 3:
      results[papers.model_key(row[0]).replace('instruct', '')] = values
  assert len(results) == 9
  results['oracle'] = results['perfect'] = results.pop('trueworldmodel')
  tables = published('vafa2024')['seating']['tables']
  for place, table in enumerate(tables):
    assert {
      papers.model_key(name): value
      for name, (value,) in table['values'].items()
    } == {name: values[place] for name, values in results.items()}
  assert tables[0]['values']['Qwen1.5-72B'] == [[0.88, 0.02]]


def piped(text: str, head: str) -> Rows:
  """Cells of a Markdown table."""
  lines = text[text.index(head) :].split('\n')[2:]
  rows: Rows = []
  for line in lines:
    if not line.startswith('|'):
      return rows
    rows.append([cell.strip() for cell in line.strip().strip('|').split('|')])
  return rows


def model_of(row: list[str]) -> str:
  return f'{FAMILIES[row[0]]}_{row[1].partition("/")[0]}'


def test_chess_table_5(chess):
  search, _ = published('chess2026')['chess']['searches']
  results = piped(chess, '| Model | Size | Val. loss')
  assert {model_of(row): [*map(float, row[2:])] for row in results} == {
    name: pytest.approx([x[0], *(100 * share for share in x[1:4]), *x[4:]])
    for name, x in search['values'].items()
  }


def test_chess_table_6(chess):
  _, search = published('chess2026')['chess']['searches']
  results = piped(chess, '| Model | Size | Best floor')
  assert len(results) == len(search['values']) == 16
  for row in results:
    cells = [float(cell) for cell in row[2:] if cell]
    loss, exact, labels, floor, other, other_loss = search['values'][
      model_of(row)
    ]
    # Of large models the text has lost both losses; notes have the better one.
    losses = [] if other_loss is None else [loss, other_loss]
    if losses:
      cells[1], cells[2] = cells[2], cells[1]
    expected = [floor, other, *losses, 100 * exact, 100 * labels]
    assert cells == pytest.approx(expected)


def test_losses_that_a_text_lost_are_in_the_notes(testdata):
  notes = read(testdata, 'specs/chess-world-model.md')
  start = notes.index('Table 6 (stage 2')
  text = notes[start : notes.index('Tables 8', start)]
  pairs = re.findall(r'(\d*\.\d+(?:e-\d)?)/(\d+\.\d+)', text)
  _, search = published('chess2026')['chess']['searches']
  assert [[float(loss), float(exact)] for loss, exact in pairs] == [
    pytest.approx([x[0], 100 * x[1]]) for x in search['values'].values()
  ]


def test_reconstructions_are_those_of_the_notes(testdata):
  notes = read(testdata, 'specs/world-model-evaluation.md')
  result = published('vafa2024')['maps']['reconstructions']['models']
  for name, head in {
    'shortest_paths': 'shortest',
    'noisy_shortest_paths': 'noisy',
    'random_walks': 'random walks',
  }.items():
    counts = [count for *_, count in result[name]['failed']]
    assert f'| {head} | {" | ".join(map(str, counts))} |' in notes
