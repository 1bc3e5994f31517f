"""What the heads of flagfiles say to expect is in a recorded result beside."""

import json
import pathlib
import re

import pytest

from wm.reporting import papers

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / 'launch' / 'flags'
FILES = sorted(str(p.relative_to(FOLDER)) for p in FOLDER.rglob('*.flags'))
SIZES = [file for file in FILES if file.startswith('chess2026/sizes/')]
# A number by itself: not part of a name, a spec or a word.
NUMBER = re.compile(
  r'(?<![\w.(=/])(?:(?<=\s\()|(?<!\())'
  r'(-?(?:\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?|\.\d+))(e-?\d+)?(?![\w(=/]|\.\d)'
)


def head(file: str) -> list[str]:
  """Lines of the comment at the top, without the sign."""
  lines = (FOLDER / file).read_text(encoding='utf-8').splitlines()
  size = next(n for n, line in enumerate(lines) if not line.startswith('#'))
  return [line[1:] for line in lines[:size]]


def numbers(text: str) -> list[float]:
  """Every number of a text, in order; '6.5-6.8' is two."""
  text = re.sub(r'(?<=\d)-(?=[\d.])', ' ', text.replace('e-', 'e~'))
  text = re.sub(r'(?<=[\s\[])\((?=[\d.])', ' ', text).replace('e~', 'e-')
  return [
    float(mantissa.replace(',', '') + exponent)
    for mantissa, exponent in NUMBER.findall(text)
  ]


def expected(file: str) -> tuple[list[list], list[float]]:
  """Rows of the tables after 'Expect', as [label, numbers...], and numbers of
  the text where there is no table.
  """
  lines = head(file)
  starts = [n for n, line in enumerate(lines) if line.startswith(' Expect')]
  if not starts:
    return [], []
  lines = lines[starts[0] :]
  table = [line.strip() for line in lines if line.startswith('   ')]
  rows = []
  for line in table:
    label = re.split(r'\s{2,}|\s(?=\d+%)', line)[0]
    label = '' if NUMBER.fullmatch(label) else label
    result = numbers(' ' + line.removeprefix(label))
    if result:
      rows.append([label, *result])
  if rows:
    return rows, []
  end = lines.index('') if '' in lines else len(lines)
  return [], numbers(' '.join(lines[:end]))


def recorded(file: str) -> dict:
  """The result beside a flagfile; the papers' are one file a folder."""
  mine = (FOLDER / file).with_suffix('.json')
  if mine.exists():
    return json.loads(mine.read_text(encoding='utf-8'))
  folder = FOLDER / pathlib.Path(file).parts[0]
  if file in SIZES:
    return {'rows': chess_rows(pathlib.Path(file).stem)}
  result = json.loads((folder / 'published.json').read_text(encoding='utf-8'))
  return result['files'][str((FOLDER / file).relative_to(folder))]


def chess_rows(model: str) -> list[list]:
  """[games, loss, per cent of labels, states and games] as a head says it."""
  result = {'human': [], 'uniform': []}
  for row in papers.papers()['chess'][0].rows:
    if row.where:
      continue
    kind = 'human' if row.fields['data'] else 'uniform'
    value, _ = row.values[papers.model_key(model)]
    unit = 1 if row.quantity == 'loss' else 100
    result[kind].append(round(value * unit, 9))
  return [[kind, *numbers] for kind, numbers in result.items()]


EXPECTING = [file for file in FILES if any(expected(file))]


def test_most_flagfiles_say_what_to_expect():
  assert len(EXPECTING) > 45
  assert numbers(
    '6.5-6.8  (.00)  1,513 1e-2 .42 [.38, .45], top_k(4) d128'
  ) == [*(6.5, 6.8, 0, 1513, 0.01, 0.42, 0.38, 0.45)]


@pytest.mark.parametrize('file', FILES)
def test_it_has_one_head(file):
  lines = (FOLDER / file).read_text(encoding='utf-8').splitlines()
  rest = lines[len(head(file)) :]
  assert not any(line.startswith('#') for line in rest)
  assert not re.search('TODO|FIXME|XXX', '\n'.join(lines))
  assert sum(line.startswith(' Expect') for line in head(file)) <= 1
  names = [line.split('=')[0] for line in rest if line.startswith('--')]
  several = ('--flagfile', '--metric', '--grid', '--per', '--row')
  assert not {n for n in names if names.count(n) > 1} - set(several)


@pytest.mark.parametrize('file', EXPECTING)
def test_what_it_says_to_expect_is_recorded(file):
  rows, output = expected(file)
  result = recorded(file)
  assert result.get('rows', []) == rows
  assert result.get('said', []) == output


@pytest.mark.parametrize('file', EXPECTING)
def test_a_result_says_where_it_is_from(file):
  mine = (FOLDER / file).with_suffix('.json')
  if mine.exists():
    result = recorded(file)
    assert set(result) <= {
      *('command', 'commit', 'date', 'machine', 'source'),
      *('columns', 'rows', 'said'),
    }
    assert re.fullmatch(r'[0-9a-f]{7}', result['commit'])
    assert re.fullmatch(r'[\d-]{10}', result['date'])
    assert result['machine']
    assert result['source']
    assert ' '.join(result['command']) in ' '.join(head(file))
  else:
    assert 'paper' in ' '.join(head(file))


def test_no_result_is_of_a_flagfile_that_is_gone():
  for path in FOLDER.rglob('*.json'):
    if path.parts[len(FOLDER.parts)] in ('cross', 'miniatures', 'papers.json'):
      continue  # Rules and results of units, which have tests of their own.
    if path.name == 'published.json':
      files = json.loads(path.read_text(encoding='utf-8'))['files']
      assert all((path.parent / file).exists() for file in files)
      assert set(files) <= {
        str((FOLDER / file).relative_to(path.parent))
        for file in EXPECTING
        if (FOLDER / file).is_relative_to(path.parent)
      }
    else:
      assert path.with_suffix('.flags').exists()
