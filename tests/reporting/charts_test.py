"""Charts hold the numbers of tables; tables of a page are copied as text."""

import json
import re
import shutil

import pandas as pd
import pytest

from tests.reporting import chart_specs
from wm.language import pages
from wm.reporting import charts, collect, curves, tables
from wm.reporting.charts import Panel

HOSTILE = '</script><script>alert(1)</script>${7*7}"\'&'
NAMES = 'net', HOSTILE, 'oracle'


def entry(model: str, value: float | None, **more) -> dict:
  ends = (None, None) if value is None else (value - 0.1, value + 0.1)
  return {
    **{'metric': 'compression', 'quantity': 'precision'},
    **{'spec': 'compression()', 'world': 'maps()', 'model': model, 'n': 9},
    **{'value': value, 'low': ends[0], 'high': ends[1], 'unmeasured': {}},
    **{'seed': 0, **more},
  }


@pytest.fixture
def parts(tmp_path):
  """The frame of breakdowns of three models, one value not measured."""
  runs = [
    collect.Run(
      tmp_path,
      [entry(name, 0.5)],
      [
        entry(name, (k + n) / 9 if k + n else None, where={'two_way': n})
        for n in range(4)
      ],
      [],
      None,
    )
    for k, name in enumerate(NAMES)
  ]
  frame = tables.results(runs, breakdown=True)
  (curve,) = curves.curves(frame)
  return frame, curve


def rows_of_categories() -> list[dict]:
  return [
    {'model': name, 'x': x, 'value': 0.5, 'low': 0.4, 'high': 0.6}
    for name in NAMES
    for x in ('a', 'b')
  ]


def every_kind(curve) -> dict[str, dict]:
  """A chart of each kind, with a hostile name."""
  looks = charts.palette(NAMES, ['oracle'])
  rows = rows_of_categories()
  entry = {'value': 0.1, 'low': None, 'high': None, 'model': HOSTILE}
  points = [(name, 10**n, entry) for n in range(1, 4) for name in NAMES]
  panel = curves.Sizes('compression', 'precision', 'compression()', points)
  return {
    'lines': curves.draw_curves(curve, looks),
    'sizes': curves.draw_sizes([panel]),
    'dots': charts.dots([Panel('share', HOSTILE, rows, HOSTILE)] * 2, looks),
    'heat': charts.heat(
      [Panel('k', '', [row | {'x': len(row['x'])} for row in rows])]
    ),
  }


def test_a_chart_holds_the_values_of_the_frame(parts):
  frame, curve = parts
  rows = chart_specs.rows(curves.draw_curves(curve, {}))
  measured = frame[frame.value.notna()].sort_values('place', kind='stable')
  assert [(r['model'], r['x'], r['value'], r['text']) for r in rows] == [
    (row.model, row.place, row.value, str(row.interval))
    for row in measured.itertuples()
  ]
  assert len(rows) == len(frame) - 1


def test_one_model_has_one_look_in_all_charts(parts):
  looks = charts.palette(NAMES, ['oracle'])
  assert looks['oracle'].colour == charts.BASELINE
  for name, spec in every_kind(parts[1]).items():
    if name in ('lines', 'dots'):
      for channel, part in (('color', 'colour'), ('shape', 'mark')):
        scale = chart_specs.encoding(spec, channel)['scale']
        drawn = dict(zip(scale['domain'], scale['range'], strict=True))
        assert drawn == {n: getattr(looks[n], part) for n in NAMES}


def test_grey_is_seen_on_white_and_on_black():
  share = int(charts.BASELINE[1:3], 16) / 255
  light = ((share + 0.055) / 1.055) ** 2.4
  assert '#' + charts.BASELINE[1:3] * 3 == charts.BASELINE
  assert min(1.05 / (light + 0.05), (light + 0.05) / 0.05) > 4.5


def test_each_kind_of_chart_is_rendered(parts):
  for name, spec in every_kind(parts[1]).items():
    image = charts.render(spec).decode()
    assert image.startswith('<svg'), name
    assert '<script' not in image, name
    assert 'currentColor' not in image, name


def test_hostile_names_stay_text_in_the_page(parts, tmp_path):
  kinds = every_kind(parts[1])
  pictures = [charts.picture(n, HOSTILE, spec) for n, spec in kinds.items()]
  page = saved(tmp_path, pictures).read_text()
  assert 'alert(1)</script>' not in page
  blocks = re.findall(
    r'<script type="application/json">(.*?)</script>', page, re.DOTALL
  )
  assert len(blocks) == len(kinds)
  for block, spec in zip(blocks, kinds.values(), strict=True):
    assert json.loads(block)['datasets'] == spec['datasets']
  tag = charts.script_tag(pictures, tmp_path, embed=True)
  assert tag.count('</script') == 1, 'the embedded script ends once'
  assert charts.script_tag([], tmp_path) == ''


def test_a_hollow_mark_has_an_outline():
  looks = charts.palette(['m'])
  row = {'model': 'm', 'x': 1, 'value': 0.5}
  for x, draw in ((1, charts.lines), ('m', charts.dots)):
    rows = [{**row, 'x': x}, {**row, 'x': x, 'pale': True}]
    image = charts.render(draw([Panel('x', 'y', rows)], looks)).decode()
    marks = re.findall(r'<path aria-label="[^>]*>', image)
    hollow = [mark for mark in marks if 'fill-opacity="0"' in mark]
    assert hollow
    assert all(f'stroke="{looks["m"].colour}"' in mark for mark in hollow)


def test_points_of_a_paper_leave_the_band_of_intervals_whole():
  row = {'model': 'm', 'value': 0.5, 'low': 0.4, 'high': 0.6}
  ours = [{**row, 'x': x} for x in range(4)]
  theirs = [{'model': 'm', 'value': 0, 'x': x, 'pale': True} for x in range(4)]
  panel = Panel('x', 'y', [*ours, *theirs])
  image = charts.render(charts.lines([panel], charts.palette(['m']))).decode()
  (band,) = re.findall(r'aria-roledescription="area mark" d="([^"]*)"', image)
  assert band.count('M') == 1


def test_a_caption_says_how_many_trials_a_mark_is_of(parts):
  looks = charts.palette(NAMES, ['oracle'])
  spec = curves.draw_curves(parts[1], looks)
  picture = charts.picture('a', 'What is drawn', spec)
  assert picture.caption == (
    'What is drawn; a mark is of n = 9 trials; baselines are grey'
  )
  rows = [{'model': 'm', 'x': n, 'value': n, 'n': 10**n} for n in (0, 3)]
  rows += [{'model': 'm', 'x': 1, 'value': 0, 'pale': True, 'about': 'paper'}]
  spec = charts.lines([Panel('x', 'y', rows)], {})
  assert charts.picture('a', 'Drawn', spec).caption == (
    'Drawn; a mark is of n = 1 to 1,000 trials; pale: paper'
  )


def test_numbers_that_json_lacks_are_left_out():
  rows = [
    {'model': 'm', 'x': n, 'value': [1.0, float('nan')][n]} for n in (0, 1)
  ]
  spec = charts.lines([Panel('x', 'y', rows)], {})
  assert [row['value'] for row in chart_specs.rows(spec)] == [1.0, None]
  assert 'NaN' not in json.dumps(spec)


# In a browser.


HEADS = ('model', 'share, %', 'n')
CELLS = [
  (HOSTILE, tables.Cell('0.500', ' [0.400, 0.600]'), '1,000'),
  ('b|a_2', tables.Cell('0.25', ' [0.1, 0.4]'), '30'),
  ('=cmd()', '–', '200'),
]


def saved(folder, pictures):
  """The path of a page with these pictures and a table of `CELLS`."""
  frame = pd.DataFrame(CELLS, columns=HEADS)
  table = tables.Table('Values', frame)
  page = pages.AnswersPage('t', '', [table], pictures, {}, {})
  return pages.save(page, folder)


@pytest.fixture(scope='module')
def browser():
  api = pytest.importorskip('playwright.sync_api', reason='no Playwright')
  path = shutil.which('chromium') or shutil.which('google-chrome')
  if path is None:
    pytest.skip('no Chromium on this machine')
  quiet = (
    *('--no-sandbox', '--disable-gpu', '--disable-background-networking'),
    *('--disable-component-update', '--disable-sync', '--no-first-run'),
  )
  with api.sync_playwright() as play:
    chromium = play.chromium.launch(executable_path=path, args=quiet)
    yield chromium
    chromium.close()
