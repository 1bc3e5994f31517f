"""Verdicts on findings: their rules, on units made up for the purpose."""

import copy
import dataclasses
import json
import pathlib

import numpy as np
import pytest

import wm
from wm import core
from wm.core import registry
from wm.evaluation import seeds as seeds_lib
from wm.reporting import findings, miniatures, papers, units
from wm.reporting.findings import NOT_SHOWN, SHOWN, UNTESTED

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / 'launch' / 'flags' / 'miniatures'
SPEC = 'compression(trials=300)'


def entry(value, half=0.02, spec=SPEC, quantity='precision', **more) -> dict:
  known = value is not None
  return {
    **{'spec': spec, 'quantity': quantity, 'value': value},
    'low': max(value - half, 0) if known else None,
    'high': value + half if known else None,
    **{'n': 300, 'clusters': 100},
    **more,
  }


def unit(row: str, seed: int, *entries: dict, steps: int = 10) -> units.Unit:
  return units.Unit(
    *('maps', row, seed),
    {'seed': seed, 'training': {'seed': seed, 'steps': steps}},
    {'commit': 'abc', 'processor': 'P', 'cores': 2, 'jax': '1'},
    {'cpu_seconds': 60, 'wall_seconds': 90, 'peak_mb': 700, 'processes': 1},
    {},
    list(entries),
  )


def rows(**values) -> dict[str, list[units.Unit]]:
  """Row -> units with these values of compression, a seed each."""
  return {
    row: [unit(row, seed, entry(value)) for seed, value in enumerate(of)]
    for row, of in values.items()
  }


def finding(*claims: dict, **more) -> findings.Finding:
  usual = {'metric': 'compression', 'quantity': 'precision'}
  given = {
    **{'name': 'f', 'title': 'walks win', 'sentence': 'They do.'},
    **{'paper': 'A 2024', 'printed': 'table 1', 'miniature': 'maps'},
    'claims': [{**usual, **claim} for claim in claims],
    **more,
  }
  return findings._finding(given, 'here')


WALKS = {'rows': ['walks'], 'relation': 'above', 'than': ['paths']}
FAR, NEAR = (0.9, 0.91, 0.89), (0.5, 0.51, 0.49)


def verdict(claim: dict, **values) -> str:
  return findings.judge(finding(claim), rows(**values)).verdict


@pytest.mark.parametrize(
  ('values', 'expected'),
  [
    ({'walks': FAR, 'paths': NEAR}, SHOWN),
    ({'walks': NEAR, 'paths': FAR}, NOT_SHOWN),
    ({'walks': FAR, 'paths': FAR}, NOT_SHOWN),
    # Greater by far in every seed, but seeds differ as much.
    ({'walks': (0.9, 0.6, 0.95), 'paths': NEAR}, NOT_SHOWN),
    ({'walks': FAR[:2], 'paths': NEAR}, UNTESTED),
    ({'walks': FAR}, UNTESTED),
    ({'walks': FAR, 'paths': (0.5, 0.5, None)}, UNTESTED),
    ({}, UNTESTED),
  ],
)
def test_a_row_is_above_another_beyond_intervals(values, expected):
  assert verdict(WALKS, **values) == expected
  turned = {'rows': ['paths'], 'relation': 'below', 'than': ['walks']}
  assert verdict(turned, **values) == expected


@pytest.mark.parametrize(
  ('more', 'expected'),
  [
    ({'than': 0.8}, SHOWN),
    ({'than': 0.88}, NOT_SHOWN),
    ({'than': 0.88, 'beyond': False}, SHOWN),
    ({'than': 0.9, 'beyond': False}, SHOWN),
    ({'than': 0.91, 'beyond': False}, NOT_SHOWN),
    ({'than': ['paths'], 'times': 1.5}, SHOWN),
    ({'than': ['paths'], 'times': 1.8}, NOT_SHOWN),
    ({'than': ['paths', 'none']}, UNTESTED),
    ({'rows': ['walks', 'paths'], 'than': 0.8}, NOT_SHOWN),
    ({'rows': ['walks', 'paths'], 'than': 0.8, 'some': True}, SHOWN),
    ({'rows': ['none', 'walks'], 'than': 0.8, 'some': True}, SHOWN),
    ({'rows': ['none', 'paths'], 'than': 0.8, 'some': True}, UNTESTED),
    ({'rows': ['none', 'paths'], 'than': 0.8}, NOT_SHOWN),
    ({'rows': ['walks', 'paths'], 'than': 0.95, 'some': True}, NOT_SHOWN),
    ({'relation': 'below', 'than': 0.95}, SHOWN),
    ({'relation': 'below', 'than': 0.9, 'beyond': False}, SHOWN),
  ],
)
def test_numbers_factors_and_some(more, expected):
  assert verdict({**WALKS, **more}, walks=FAR, paths=NEAR) == expected


@pytest.mark.parametrize(
  ('order', 'expected'),
  [
    (('walks', 'paths', 'least'), SHOWN),
    (('walks', 'least'), SHOWN),
    (('paths', 'walks', 'least'), NOT_SHOWN),
    (('walks', 'none', 'least'), UNTESTED),
    (('least', 'walks', 'none'), NOT_SHOWN),
  ],
)
def test_an_order_holds_for_each_two_neighbours(order, expected):
  claim = {'rows': list(order), 'relation': 'ordered'}
  found = {'walks': FAR, 'paths': NEAR, 'least': (0.1, 0.11, 0.09)}
  assert verdict(claim, **found) == expected


def test_a_finding_is_all_of_its_claims_and_fewer_seeds_may_do():
  good, bad = WALKS, {**WALKS, 'than': 0.95}
  lacks = {**WALKS, 'than': ['none']}
  found = rows(walks=FAR, paths=NEAR)
  for claims, expected in (
    ((good, good), SHOWN),
    ((good, bad), NOT_SHOWN),
    ((good, lacks), UNTESTED),
    ((lacks, bad, good), NOT_SHOWN),
  ):
    assert findings.judge(finding(*claims), found).verdict == expected
  one = rows(walks=FAR[:1], paths=NEAR)
  assert findings.judge(finding(good), one).verdict == UNTESTED
  judged = findings.judge(finding(good, seeds=1), one)
  assert judged.verdict == SHOWN
  assert judged.amounts[0]['walks'].low == pytest.approx(0.88)  # Its own.
  judged = findings.judge(finding(lacks), one)
  assert judged.claims == (
    (UNTESTED, 'walks: 1 of 3 seeds; none: 0 of 3 seeds'),
  )
  assert judged.amounts[0].keys() == {'walks'}


def test_the_shortest_spec_that_has_the_fields_is_meant():
  found = unit(
    'a',
    0,
    entry(0.1, spec='compression(trials=300, k=1)'),
    entry(0.2),
    entry(0.3, where={'two_way': 2}),
    entry(0.4, quantity='precision_published'),
  )

  def value(metric: str, **where) -> float | None:
    one = findings.entries_of(found, metric, 'precision', where)
    return one and one['value']

  assert value('compression') == 0.2
  assert value('compression(k=1)') == 0.1
  assert value('compression(k=0)') == 0.2
  assert value('compression', two_way=2) == 0.3
  assert value('compression(k=2)') is None
  assert value('detour') is None


def test_counts_of_maps_have_intervals_over_seeds_alone():
  found = {}
  for row, counts in (('walks', (50, 56, 53)), ('paths', (2, 0, 4))):
    counted = [{'new_edges': n, 'sequences': 1000} for n in counts]
    found[row] = [
      dataclasses.replace(unit(row, seed), map=of)
      for seed, of in enumerate(counted)
    ]
  base = {'metric': 'map', 'quantity': 'new_edges', 'relation': 'above'}
  for rows_, than, expected in (
    (['walks'], ['paths'], SHOWN),
    (['walks'], 0, SHOWN),
    (['paths'], 0, NOT_SHOWN),
    (['walks'], ['none'], UNTESTED),
  ):
    claim = {**base, 'rows': rows_, 'than': than}
    judged = findings.judge(finding(claim), found)
    assert judged.verdict == expected
  one = findings.amount(found['paths'], 'map', 'new_edges', {})
  assert one.value == 2
  assert one.high - 2 == pytest.approx(4.303 * 2 / 3**0.5, rel=1e-3)
  bare = {**found, 'paths': [unit('paths', 0)]}
  assert findings.amount(bare['paths'], 'map', 'new_edges', {}) is None


def test_units_of_another_recipe_are_left_out(tmp_path):
  for seed, steps in enumerate((10, 20, 20)):
    units.write(tmp_path, unit('a', seed, entry(0.5), steps=steps))
  found = findings.read_units(tmp_path)
  assert [one.seed for one in found['a']] == [1, 2]
  assert findings.read_units(tmp_path / 'none') == {}


# Intervals over seeds.


def covered(between: float, within: float, seeds: int, runs: int) -> float:
  """Share of intervals that hold the mean over all seeds, 10."""
  rng = np.random.default_rng(1)
  truth = 10 + between * rng.standard_normal((runs, seeds))
  value = truth + within * rng.standard_normal((runs, seeds))
  half = 1.96 * within
  hits = 0
  for row in value:
    _, low, high = seeds_lib.over_seeds(row, row - half, row + half)
    hits += low <= 10 <= high
  return hits / runs


@pytest.mark.parametrize('seeds', [2, 3, 5])
@pytest.mark.parametrize(('between', 'within'), [(0, 1), (1, 0.01), (1, 1)])
def test_intervals_over_seeds_hold_the_mean(between, within, seeds):
  """Of 2,000 intervals of coverage .95, fewer than .937 is 3 errors away."""
  assert covered(between, within, seeds, 2000) > 0.937


def test_an_interval_over_seeds_has_clusters_inside():
  assert seeds_lib.over_seeds([0.5], [0.4], [0.7]) == (0.5, 0.4, 0.7)
  mean, low, high = seeds_lib.over_seeds([0.5] * 4, [0.4] * 4, [0.7] * 4)
  assert (mean, low, high) == pytest.approx((0.5, 0.45, 0.6))
  _, low, high = seeds_lib.over_seeds([0.99, 0.8], [0.9, 0.7], [1.0, 0.9])
  assert (low, high) == (0.0, 1.0)  # Within bounds.
  _, low, high = seeds_lib.over_seeds([9.9, 8], [9, 7], [10, 9])
  assert low < 0
  assert high > 10
  assert seeds_lib.over_seeds([1, 2], [None, 1], [1, 3]) == (1.5, None, None)


# Files and pages.


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'titel': 'x'}, "unknown 'titel'"),
    ({'claims': []}, 'has no claims'),
    ({'seeds': 'three'}, "seeds is 'three'; expected int"),
    ({'title': None}, 'title is None'),
  ],
)
def test_bad_findings_are_one_line(change, message):
  with pytest.raises(core.InputError, match=message):
    finding(WALKS, **change)


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'relation': 'over'}, "no relation 'over'; available: above"),
    ({'than': []}, 'expected rows or a number'),
    ({'rows': []}, 'expected two rows or more'),
    ({'relation': 'ordered'}, 'expected two rows or more and no `than`'),
    ({'metric': 'compresion'}, 'compresion'),
    ({'tan': 1}, "unknown 'tan'"),
    ({'than': 'paths'}, "than is 'paths'"),
  ],
)
def test_bad_claims_are_one_line(change, message):
  with pytest.raises(core.InputError, match=message):
    finding({**WALKS, **change})


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
    dataclasses.asdict(finding({**WALKS, 'published': published}, **more))
    for more in (
      {'name': 'bars', 'picture': {'kind': 'bars'}},
      {
        'name': 'lines',
        'picture': {
          **{'kind': 'series', 'metric': 'detour', 'quantity': 'valid'},
          'published': {'walks': {'0': 0.9}},
        },
      },
      {
        'name': 'curve',
        'picture': {
          **{'kind': 'curve', 'metric': 'compression', 'by': 'two_way'},
          'quantity': 'precision',
        },
      },
      {
        'name': 'grid',
        'picture': {
          **{'kind': 'grid', 'metric': 'compression', 'by': 'two_way'},
          'quantity': 'precision',
        },
      },
      {'name': 'map', 'picture': {'kind': 'map'}},
    )
  ]
  text = json.dumps({'findings': listed})
  (place / 'findings.json').write_text(text)
  return place


def test_the_page_has_each_finding_with_numbers_and_pictures(folder, tmp_path):
  told = []
  judged = wm.findings(folder, tmp_path / 'out', tell=told.append)
  assert [one.verdict for one in judged] == [SHOWN] * 5
  assert told[2] == '| maps | ' + '; '.join(['walks win'] * 5) + ' |  |  |'
  page = (tmp_path / 'out' / 'report' / 'report.md').read_text()
  html = (tmp_path / 'out' / 'report' / 'report.html').read_text()
  for text in (page, html):
    assert 'They do. ' in text
    assert 'A 2024' in text
    assert 'compression: precision: walks above paths: shown' in text
    assert '6 units, 0.1 processor hours; P, 2 cores; jax 1' in text
  assert '| walks | 0.900 (0.5) [0.875, 0.925], n=900 in 300 clusters,' in page
  assert '| maps | 2 | 6 | 6 | 9 | 1.5 | 700 |' in page
  assert '| walks | 0.900 [0.875, 0.925] | 0.000 [0.000, 0.012] |' in page
  rows_of_all = page[page.index('All rows: maps') :]
  assert rows_of_all.index('| walks |') < rows_of_all.index('| paths |')
  assert '| gone |' not in page
  assert html.count('<img ') == 4
  assert page.count('![walks win: ') == 4


def test_findings_of_no_miniature_or_picture_are_one_line(folder, tmp_path):
  path = folder / 'findings.json'
  good = json.loads(path.read_text())
  for change, message in (
    ({'miniature': 'mapps'}, "no miniature 'mapps'; available: maps"),
    ({'picture': {'kind': 'bar'}}, "no picture 'bar'; available: bars"),
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
    listed = set(miniatures.rows_of(FOLDER / f'{one.miniature}.flags'))
    for claim in one.claims:
      assert set(claim.named) <= listed, one.name
      assert set(claim.published) <= listed, one.name
    assert set(one.picture.get('rows', ())) <= listed, one.name


def test_committed_numbers_are_those_that_papers_print():
  """Where published.json has the same quantity of the same row."""
  checked = 0
  for finding in findings.load(FOLDER / 'findings.json'):
    rows = [
      row
      for papers_of in papers.papers().values()
      for paper in papers_of
      if paper.table.startswith(finding.paper)
      for row in paper.rows
    ]
    for claim in finding.claims:
      name, _, fields = registry.parse(claim.metric)
      for row, value in claim.published.items():
        printed = {
          one.values[papers.model_key(row)][0]
          for one in rows
          if (one.metric, one.fields) == (name, {**one.fields, **fields})
          and one.quantity.removesuffix('_published').removesuffix(
            '_definition'
          )
          == claim.quantity
          and papers.model_key(row) in one.values
        }
        assert not printed or value in printed, (finding.name, row)
        checked += bool(printed)
  assert checked > 20


def test_committed_results_are_small_and_whole():
  for path in (FOLDER / 'results').rglob('*.*'):
    assert path.stat().st_size < 20_000, path
    if path.suffix == '.json':
      found = units.read(path)
      assert (found.miniature, found.name) == (path.parent.name, path.stem)


def test_the_readme_says_what_the_results_say():
  judged, _ = miniatures.judged(FOLDER)
  readme = (ROOT / 'README.md').read_text(encoding='utf-8').splitlines()
  lines = miniatures.brief(judged)
  assert len(lines) <= 10
  start = readme.index(lines[0])
  assert readme[start : start + len(lines)] == lines
