"""The report's page: its size, the processor's time, and the browser's."""

from __future__ import annotations

import json
import pathlib
import shutil
import tempfile
import time
from collections.abc import Iterator

import numpy as np

import wm
from tests.bench import harness
from wm.evaluation import results

CITY = 'maps(rows=5, columns=5, city_seed=1)'
METRICS = (
  *('next_token(num=100)', 'traversal(num=100)'),
  *('compression(trials=100)', 'distinction(trials=100)'),
)
BROWSER = shutil.which('chromium') or shutil.which('google-chrome')


def bench_page_of_20_models() -> Iterator[harness.Line]:
  """What a page of 20 models weighs with all pictures in it."""
  with tempfile.TemporaryDirectory() as name:
    runs = _runs(pathlib.Path(name), 20, 0)
    page = wm.report(runs, name, single_file=True)
    size = page.stat().st_size / 1e6
  yield harness.Line(
    'report: 20 models, a single file', size, 'MB', target='under 5 MB'
  )


def bench_page_of_200_runs() -> Iterator[harness.Line]:
  """200 runs that have 100,000 trials together, made and opened."""
  with tempfile.TemporaryDirectory() as name:
    runs = _runs(pathlib.Path(name), 200, 500)
    start = time.process_time()
    page = wm.report(runs, name)
    spent = time.process_time() - start
    opened = _opening(page)
  name = 'report: 200 runs of 500 rows'
  yield harness.Line(name, spent, 'CPU-s', target='under 20 s')
  if opened is None:
    raise harness.Skip('opening the page needs playwright and Chromium')
  yield harness.Line(f'{name}, opened', opened, 's', target='under 2 s')


def bench_rows_of_200_runs() -> Iterator[harness.Line]:
  """A report of 6,600,000 trials."""
  with tempfile.TemporaryDirectory() as name:
    out = pathlib.Path(name)
    folders = _runs(out, 200, 33_000)
    start = time.process_time()
    wm.report(folders, out)
    whole = time.process_time() - start
  name = 'report: 200 runs of 33,000 rows'
  yield harness.Line(name, whole, 'CPU-s', target='10 CPU-s at 5,000,000 rows')


def _runs(out: pathlib.Path, num: int, rows: int) -> list[pathlib.Path]:
  """Folders of `num` scored runs; of each `rows` trials, 0 is as scored.

  One model is scored; the others are copies, their values moved a little.
  """
  first = out / 'first'
  wm.score('noisy_oracle()', METRICS, CITY, out=first, name='first')
  entries = json.loads((first / 'scores.json').read_text())
  table = results.arrow_rows(first / 'rows.parquet')
  places = np.arange(rows or len(table)) % len(table)
  folders = []
  for k in range(num):
    folder = out / f'run_{k}'
    folder.mkdir()
    for entry in entries:
      entry |= {'model': f'model_{k}', 'model_spec': f'lstm(width={k + 1})'}
      entry['training'] = f'{k}'
      if entry['value'] is not None:
        entry['value'] *= 1 - 0.001 * (k % 7)
    (folder / 'scores.json').write_text(json.dumps(entries))
    path = folder / 'rows.parquet'
    if not k:
      results.write_parquet(table.take(places), path)
    else:
      path.hardlink_to(folders[0] / path.name)
    folders.append(folder)
  return folders


def _opening(page: pathlib.Path) -> float | None:
  """Seconds from the address to the page's load; None without a browser."""
  try:
    from playwright import sync_api
  except ImportError:
    return None
  if BROWSER is None:
    return None
  with sync_api.sync_playwright() as playwright:
    browser = playwright.chromium.launch(
      executable_path=BROWSER, args=['--no-sandbox']
    )
    tab = browser.new_page()
    tab.goto('about:blank')
    start = time.perf_counter()
    tab.goto(page.as_uri(), wait_until='load')
    spent = time.perf_counter() - start
    browser.close()
  return spent
