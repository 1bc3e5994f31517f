"""Reports: every number is there, the page stands alone, a browser shows it."""

import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import urllib.parse

import numpy as np
import pytest

from tests import page_text
from wm import core
from wm.core.measure import headline_quantities
from wm.reporting import collect, tables, write


def entry(model: str, metric: str, quantity: str, value, **more) -> dict:
  """One result of made-up trials."""
  known = value is not None
  return {
    'metric': metric,
    'spec': f'{metric}()',
    'quantity': quantity,
    'world': 'maps()',
    'model': model,
    'n': 40 if known else 0,
    'value': value,
    'low': value - 0.1 if known else None,
    'high': value + 0.1 if known else None,
    'unmeasured': {} if known else {'vacuous': 40},
    'seed': 3,
    **more,
  }


@pytest.fixture
def runs(tmp_path: pathlib.Path) -> list[pathlib.Path]:
  """Two runs: one trained with a curve, a map and two settings, one not."""
  first, second = tmp_path / 'shortest_paths', tmp_path / 'untrained'
  headline = core_headline('compression')
  scores = {
    first: [
      entry('shortest_paths', 'compression', headline, 0.25),
      entry(
        'shortest_paths', 'compression', headline, 0.75, spec='compression(k=1)'
      ),
    ],
    second: [
      entry('untrained', 'compression', headline, None),
      entry('untrained', 'compression', 'precision_published', 0.125),
    ],
  }
  for folder, entries in scores.items():
    folder.mkdir()
    (folder / 'scores.json').write_text(json.dumps(entries))
    with open(folder / 'rows.csv', 'w', newline='') as file:
      writer = csv.writer(file)
      writer.writerow(['metric', 'value', folder.name])
      writer.writerow(['compression', '0.5', 'x'])
  lines = [{'step': 1, 'loss': 3.0}, {'step': 2, 'heldout_loss': 2.5}]
  (first / 'metrics.jsonl').write_text('\n'.join(map(json.dumps, lines)))
  (first / 'summary.json').write_text('{"sequences": 6400, "failed": 7}')
  (first / 'map.html').write_text('<html></html>')
  return [first, second]


def core_headline(metric: str) -> str:
  """The metric's first quantity of the main table."""
  from wm.core import registry

  return headline_quantities(registry.find('metric', metric))[0]


def test_report_holds_every_number(runs, tmp_path):
  out = tmp_path / 'report'
  summary = write.report(runs, out)
  assert summary['results'] == 4
  text = page_text.read(out)
  assert '0.250 [0.150, 0.350] n=40' in text
  assert '0.750' in text
  assert 'vacuous 40' in text
  assert '| untrained | 0.125 [0.025, 0.225] | 0.00 ± 0.00 | Manhattan' in text
  assert (out / 'map_shortest_paths.html').is_file()
  assert len(json.loads((out / 'scores.json').read_text())) == 4


def test_page_needs_no_network(runs, tmp_path):
  write.report(runs, tmp_path / 'report')
  out = tmp_path / 'report'
  page = (out / 'report.html').read_text()
  assert not re.search(r'(src|href)="(?:https?:)?//', page)
  assert page.count('<figure class="chart') == 1, 'a curve'
  assert '<script defer src="vega.js">' in page
  assert (out / 'vega.js').stat().st_size > 500_000
  beside = re.findall(r'src="([^"]+)"', page)
  assert all((out / urllib.parse.unquote(name)).is_file() for name in beside)
  assert 'data:image' not in page
  first = (out / 'overview.svg').read_text()
  assert '>shortest_paths<' in first
  assert '>untrained<' not in first  # It has no value.
  write.report(runs, out, single_file=True)
  page = (out / 'report.html').read_text()
  assert 'vega.js' not in page
  assert '<iframe' in page
  shown = re.sub(r'<script>.*?</script>', '', page, flags=re.S)
  assert not re.search(r' src="(?!data:)', shown)


def test_text_is_escaped(runs, tmp_path):
  bad = '<script>alert(1)</script>'
  path = runs[1] / 'scores.json'
  entries = json.loads(path.read_text())
  entries[0]['model'] = bad
  path.write_text(json.dumps(entries))
  write.report(runs[1:], tmp_path / 'report')
  assert bad not in (tmp_path / 'report' / 'report.html').read_text()


@pytest.mark.parametrize(
  ('name', 'text', 'message'),
  [
    ('rows.csv', b'\x00\xff junk', 'rows.csv is not a table of trials'),
    ('rows.csv', b'a,b\n1,2\n', "rows.csv has no column 'metric'"),
    ('metrics.jsonl', b'junk', r'metrics\.jsonl, line 1: not JSON'),
    ('metrics.jsonl', b'{"step": 1}\n[]', 'line 2: expected an object'),
    ('metrics.jsonl', b'{"step": "one"}', "step: expected a number, has 'one'"),
    (
      'metrics.jsonl',
      b'{"step": 1, "loss": NaN}',
      'loss: expected a number, has nan',
    ),
    ('metrics.jsonl', b'{"step": 1, "loss": [2]}', r'loss: .*has \[2\]'),
    ('summary.json', b'[]', r'summary\.json: expected an object'),
    ('train.run.json', b'7', r'train\.run\.json: expected an object'),
    ('breakdown.json', b'[{}]', r'\[0\] lacks metric'),
  ],
)
def test_junk_beside_results_is_named(runs, tmp_path, name, text, message):
  (runs[0] / name).write_bytes(text)
  with pytest.raises(core.InputError, match=message):
    write.report(runs, tmp_path / 'report')


def test_no_results(tmp_path):
  with pytest.raises(core.InputError, match=r'has no scores\.json'):
    collect.load(tmp_path)


def test_one_name_on_several_worlds(tmp_path):
  runs = []
  for world, value in (('maps()', 0.25), ('lattice()', 0.75)):
    fixed = {'world': world, 'spec': f'detour(num={len(world)})'}
    entries = [entry('m', 'detour', 'valid_0', value, **fixed)]
    entries.append(entry('m', 'next_token', 'validity', value, world=world))
    runs.append(collect.Run(tmp_path, entries, [], [], None))
  assert [
    row[:2] for row in tables.main_table(runs, tables.results(runs)).rows
  ] == [
    ('m on maps()', '0.250 [0.150, 0.350], n=40'),
    ('m on lattice()', '0.750 [0.650, 0.850], n=40'),
  ]
  series = [table.rows for table in tables.series_tables(tables.results(runs))]
  assert series == [
    (('m on maps()', '0.250 [0.150, 0.350], n=40'),),
    (('m on lattice()', '0.750 [0.650, 0.850], n=40'),),
  ]


def test_clusters_stand_beside_trials():
  result = entry('m', 'compression', 'precision', 0.5)
  few, mine = {**result, 'clusters': 12}, {**result, 'clusters': 40}
  assert tables.cell(few).endswith('n=40 in 12 clusters')
  assert tables.cell(mine).endswith('n=40')
  run = collect.Run(pathlib.Path(), [few], [], [], None)
  assert '40 in 12 clusters' in tables.full_table(tables.results([run])).rows[0]


def test_number_formats():
  assert tables.number(None) == '–'
  assert tables.number(0.5) == '0.500'
  assert tables.number(12345.0) == '12,345'
  assert tables.number(4.43e17) == '4.43e+17'


def _chromium() -> str:
  for name in ('chromium', 'chromium-browser', 'google-chrome'):
    if path := shutil.which(name):
      return path
  pytest.skip('no Chromium on this machine')


@pytest.mark.process
def test_browser_shows_the_page(runs, tmp_path):
  browser = _chromium()
  write.report(runs, tmp_path / 'report')
  picture = tmp_path / 'page.png'
  subprocess.run(
    [
      browser,
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      f'--user-data-dir={tmp_path / "profile"}',
      '--window-size=1300,1600',
      f'--screenshot={picture}',
      (tmp_path / 'report' / 'report.html').as_uri(),
    ],
    check=True,
    capture_output=True,
    timeout=600,
    env={**os.environ, 'HOME': str(tmp_path)},
  )
  from matplotlib import image

  pixels = image.imread(picture)
  assert pixels.shape[0] >= 1000
  assert np.ptp(pixels[..., :3]) > 0.5, 'the page is not blank'


def test_what_an_earlier_report_wrote_is_removed(tmp_path, runs):
  out = tmp_path / 'report'
  out.mkdir()
  (out / 'notes.svg').write_text('a file of the user')
  write.report(runs, out)
  both = {path.name for path in out.rglob('*')}
  write.report(runs[1:], out)
  alone = {path.name for path in out.rglob('*')}
  assert 'map_shortest_paths.html' in both - alone
  assert 'notes.svg' in alone
  write.report(runs[1:], tmp_path / 'other')
  fresh = {path.name for path in (tmp_path / 'other').rglob('*')}
  assert alone == fresh | {'notes.svg'}
  # A list that was changed removes nothing outside of the report.
  kept = tmp_path / 'kept.txt'
  kept.write_text('x')
  (out / '.files.json').write_text('{"files": ["../kept.txt", "trials", 5]}')
  write.report(runs[1:], out)
  assert kept.exists()
  (out / '.files.json').write_text('[1]')
  page = (out / 'report.html').read_bytes()
  with pytest.raises(core.InputError, match=r'files\.json'):
    write.report(runs, out)
  assert (out / 'report.html').read_bytes() == page
