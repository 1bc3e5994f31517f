"""Every table and figure of the papers is listed; flagfiles have results."""

import json
import pathlib
import re

import pytest

from tests import scripts
from wm.reporting import papers

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / 'launch' / 'flags'
RECORD = json.loads((FOLDER / 'papers.json').read_text(encoding='utf-8'))
# The file of each paper's text beside the data, and its tables and figures.
TEXTS = {'Vafa et al. 2024': '000', 'Ding et al. 2024': '001'}
TEXTS |= {'Walker and Lyons 2026': '003', 'Momennejad et al. 2023': '004'}
FILES = sorted(
  str(p.relative_to(FOLDER).with_suffix('')) for p in FOLDER.rglob('*.flags')
)


def numbers(item: str) -> set[tuple[str, int]]:
  """'tables 5 to 8' -> ('table', 5), ..., ('table', 8)."""
  match = re.fullmatch(r'(table|figure)s? (\d+)(?: (to|and) (\d+))?', item)
  if not match:
    return set()
  first, last = int(match[2]), int(match[4] or match[2])
  return {(match[1], number) for number in range(first, last + 1)}


@pytest.mark.parametrize('paper', TEXTS)
def test_every_table_and_figure_of_a_paper_is_listed(paper, testdata):
  texts = testdata.parent / 'papers'
  if not texts.is_dir():
    pytest.skip('the texts of the papers are not beside the data')
  (path,) = texts.glob(f'{TEXTS[paper]}_*.txt')
  text = path.read_text(encoding='utf-8')
  printed = {
    (kind.lower().replace('fig.', 'figure'), int(number))
    for kind, number in re.findall(r'\b(Table|Figure|Fig\.) (\d+)', text)
  }
  listed = set().union(*(numbers(item) for item in RECORD[paper]))
  assert printed <= listed, sorted(printed - listed)


def test_what_the_list_names_is_in_the_tree():
  for row in papers.contents():
    record = RECORD[row['paper']][row['item']]
    for status in ('recomputed', 'miniature', 'prepared'):
      for name in record.get(status, []):
        path = ROOT / name if name.endswith('.py') else FOLDER / f'{name}.flags'
        assert path.exists(), (row['item'], name)
    if row['status'] in ('recomputed', 'miniature'):
      assert all(recorded(name) for name in row['where']), row
    for name in record.get('prepared', []):
      assert not recorded(name), f'{name} has a result: it is not prepared only'


def recorded(name: str) -> bool:
  """Whether a flagfile has a result, or a test stands for it."""
  path = FOLDER / name
  results = path.parent / 'results' / path.name
  single = path.with_suffix('.json')
  return name.endswith('.py') or single.exists() or any(results.glob('*.json'))


@pytest.mark.parametrize('name', FILES)
def test_a_flagfile_has_a_result_or_says_what_it_takes(name):
  text = (FOLDER / f'{name}.flags').read_text(encoding='utf-8')
  head = text.partition('\n--')[0]
  planned = name.startswith('pods/')  # Its result is a plan, not a run.
  if 'Expect' in head and (planned or not recorded(name)):
    assert re.search(r'^# Not run: needs ', head, re.M), name


def test_costs_are_those_of_the_settings():
  tool = scripts.load('not_run')
  files = tool.files()
  assert len(files) > 50
  for path in files:
    text = path.read_text(encoding='utf-8')
    assert tool.written(path) == text, path
  # 6 N D at 40 % of 989e12: 2.4e6 parameters and 1.28e8 tokens.
  path = FOLDER / 'inductive2025/lattice_rnn.flags'
  hours, parameters, tokens = tool.hours(path)
  assert parameters == 2_368_516  # The paper's 2,366,979 and 1,537 more.
  assert tokens == 10_000 * 128 * 100
  assert hours == pytest.approx(6 * parameters * tokens / 3.956e14 / 3600)


def test_the_list_has_costs_and_words():
  text = papers.listed()
  assert 'table 1\n' in text
  assert 'H100-hours' in text
  rows = list(papers.contents())
  table = next(row for row in rows if row['item'] == 'table 1')
  assert table['status'] == 'miniature'
  assert 75 < table['hours'] < 95  # 1.1 + 52 + 30 of the three models.
