"""The page of miniatures, and what of it is committed."""

import copy
import json
import pathlib

import pytest

import wm
from tests import page_text
from tests.lab.units_made_up import (
  FAR,
  NEAR,
  WALKS,
  entry,
  finding,
  record,
  unit,
)
from wm import core
from wm.core import registry
from wm.lab import findings, miniatures, units, verdicts
from wm.lab.verdicts import SHOWN
from wm.reporting import papers, tables

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / 'launch' / 'flags' / 'miniatures'


@pytest.fixture
def folder(tmp_path):
  """A folder of one miniature whose walks are above its paths."""
  place = tmp_path / 'minis'
  series = [
    entry(0.1 * k, spec='detour()', quantity=f'valid_{k / 10}')
    for k in range(3)
  ]
  steps = [entry(0.2 * k, where={'two_way': k}) for k in range(3)]
  for row, values in (('walks', FAR), ('paths', NEAR)):
    for seed, value in enumerate(values):
      made = unit(row, seed, entry(value), *series, *steps)
      units.write(place / 'results' / 'maps', made)
  (place / 'maps.flags').write_text('--row=walks: a()\n--row=paths: b()\n')
  units.write(place / 'results' / 'maps', unit('gone', 0, entry(0.3)))
  published = {'walks': 0.5}
  listed = [
    record({**WALKS, 'published': published}, name=name)
    for name in ('bars', 'lines', 'curve', 'grid', 'map')
  ]
  text = json.dumps({'findings': listed})
  (place / 'findings.json').write_text(text)
  return place


def test_the_page_has_each_finding_with_numbers(folder, tmp_path):
  lines = []
  judged = wm.findings(folder, tmp_path / 'out', log=lines.append)
  assert [item.verdict for item in judged] == [SHOWN] * 5
  decided = 'shown, after the data | 0.400 [0.377, 0.423], stated: > 0 |'
  assert lines[2:7] == [f'| A 2024 | walks win | {decided}'] * 5
  page = page_text.read(tmp_path / 'out' / 'report')
  family = f'are the findings of A 2024 (5): {"; ".join(["walks win"] * 5)}.'
  for text in (
    *('They do. ', 'A 2024', 'compression: precision: walks above paths'),
    *('shown, after the data', 'both adjusted for the 5 findings of A 2024.'),
    *(f'Rule {finding(WALKS).rule_hash} of 2026-01-31; p ', family),
    'corrected for the 5 findings of the paper, which the table',
    *(verdicts.verdict_note([]), '6 units, 0.1 processor hours; P, 2 cores'),
  ):
    assert text in page
  assert (
    '| walks: 0.900 [0.875, 0.925] (0.900, 0.910, 0.890) n=900 in 300 '
    'clusters | paths: 0.500' in page
  )
  assert '| 0.400 [0.377, 0.423] | > 0 | 0 | 3 |' in page
  assert '| – | walks 0.5 |' in page  # No ceiling; the paper's value.
  assert '| gone |' not in page


def test_findings_of_no_miniature_are_one_line(folder, tmp_path):
  path = folder / 'findings.json'
  good = json.loads(path.read_text())
  for change, message in (
    ({'miniature': 'mapps'}, "no miniature 'mapps'; available: maps"),
  ):
    bad = copy.deepcopy(good)
    bad['findings'][0].update(change)
    path.write_text(json.dumps(bad))
    with pytest.raises(core.InputError, match=message):
      wm.findings(folder, tmp_path / 'out')
  path.write_text(json.dumps({'findings': good['findings'][:1] * 2}))
  with pytest.raises(core.InputError, match="two findings are called 'bars'"):
    wm.findings(folder, tmp_path / 'out')
  with pytest.raises(core.InputError, match='has no flagfiles of miniatures'):
    wm.findings(tmp_path, tmp_path / 'out')


# What is committed.


def test_committed_findings_name_rows_of_their_flagfiles():
  for one in findings.load(FOLDER / 'findings.json'):
    rows = miniatures.rows_of(FOLDER / f'{one.miniature}.flags')
    ceilings = ('bayes', 'bayes_replanning')  # Rows that a study adds.
    listed = {*rows, *(f'{name}_{row}' for name in ceilings for row in rows)}
    for claim in one.claims:
      assert set(claim.row_names) <= listed, one.name
      assert set(claim.published) <= listed, one.name


def test_committed_numbers_are_those_that_papers_print():
  """Where published.json has the same quantity of the same row."""
  checked = 0
  for one_of in findings.load(FOLDER / 'findings.json'):
    rows = [
      row
      for papers_of in papers.papers().values()
      for paper in papers_of
      if paper.table.startswith(one_of.paper)
      for row in paper.rows
    ]
    for claim in one_of.claims:
      name, _, fields = registry.parse(claim.of.metric)
      for row, value in claim.published.items():
        printed = {
          item.values[papers.model_key(row)][0]
          for item in rows
          if (item.metric, item.fields) == (name, {**item.fields, **fields})
          and item.quantity.removesuffix('_published').removesuffix(
            '_definition'
          )
          == claim.of.quantity
          and papers.model_key(row) in item.values
        }
        assert not printed or value in printed, (one_of.name, row)
        checked += bool(printed)
  assert checked > 20


def test_committed_results_are_small_and_whole():
  for path in (FOLDER / 'results').rglob('*.*'):
    assert path.stat().st_size < 22_000, path
    if path.suffix == '.json':
      result = units.read(path)
      assert (result.miniature, result.name) == (path.parent.name, path.stem)


def test_both_readmes_say_what_the_results_say():
  judged, _ = miniatures.judged(FOLDER)
  pairs = [(each.finding.paper, each.verdict) for each in judged]
  rows = [
    {'paper': x} | {v: f'{pairs.count((x, v))}' for v in verdicts.VERDICTS}
    for x in dict.fromkeys(paper for paper, _ in pairs)
  ]
  counts = tables.of_rows('', rows).text()
  page = ROOT / 'launch' / 'docs' / 'pages' / 'papers.md'
  assert counts in page.read_text(encoding='utf-8')
  whole = miniatures.verdict_table(judged).text()
  assert whole in (FOLDER / 'README.md').read_text(encoding='utf-8')
