"""The documentation: all plug-ins have a place, and nothing needs a network."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import wm
from tests import scripts
from wm.core import registry

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope='module')
def gallery():
  return scripts.load('gallery')


def test_every_recorded_model_is_on_the_page_of_results():
  results = scripts.load('results')
  every = list(results.rows())
  paths = [
    path
    for kind in ('miniatures', 'cross')
    for path in (results.FLAGS / kind / 'results').glob('*/*.json')
  ]
  assert sum(len(row.seeds) for row in every) == len(paths) > 1000
  names = {(row.study, row.name): row for row in every}
  row = names['maps', 'random_walks']
  unit = json.loads(
    (results.FLAGS / 'miniatures/results/maps/random_walks-6.json').read_text()
  )
  values = dict(x[:2] for x in unit['scores']['audit()'])
  # Units of seeds 3 to 5 have no audit.
  assert row.values['false states'][0] == values['false']
  oracle = names['maps', 'oracle']
  for heading in ('next token', 'compression', 'distinction, recall'):
    assert set(oracle.values[heading]) == {1.0}
  text = results.page('flags')
  assert 'flags/miniatures/results/maps/random_walks-6.png' in text
  assert 'href' not in results.page()
  assert text.count('<tr>') == len(every) + 1


def test_the_gallery_has_all_plug_ins_and_their_files(gallery):
  text = gallery.gallery()
  for kind in gallery.KINDS:
    for name in registry.names(kind):
      assert f'\n### {name}\n\n`{name}(' in text
  assert '`lattice(size=5, length=100' in text
  assert wm.describe('world', 'hmm') in text
  assert wm.describe('model', 'user') in text
  for module, command in gallery.READERS.items():
    assert sys.modules[module].__doc__.splitlines()[0] in text
    binary, flag = command.split()
    assert (ROOT / binary).is_file()
    assert f"'{flag[2:].partition('=')[0]}'" in (ROOT / binary).read_text()


def test_every_task_has_its_options_and_a_prompt(gallery):
  pytest.importorskip('inspect_ai')
  from wm.language import harness

  text = gallery.tasks()
  for name in harness.tasks():
    assert f'\n## wm/{name}\n' in text
  tables = text.split('\n## ')[1:]
  assert all('| option | default | |' in table for table in tables)
  assert sum('```text' in table for table in tables) == len(tables)
  assert text.count('A prompt:') == text.count('Its right answer:') == 3
  assert '| `names` | ' in text


def test_every_call_has_an_entry(gallery):
  assert re.findall(r'^::: wm\.(\w+)$', gallery.calls(), re.M) == wm.__all__


@pytest.mark.slow
def test_mkdocs_builds_the_site(tmp_path):
  for tool in ('material', 'mkdocstrings'):
    pytest.importorskip(tool, reason='the extra site is not installed')
  subprocess.run(
    [sys.executable, '-m', 'mkdocs', 'build', '--strict', '-d', tmp_path],
    cwd=ROOT,
    env={**os.environ, 'PYTHONPATH': str(ROOT), 'NO_MKDOCS_2_WARNING': '1'},
    check=True,
  )
  calls = (tmp_path / 'calls.html').read_text()
  for name in wm.__all__:
    assert f'id="wm.{name}"' in calls, name
  page = re.sub('<[^>]*>', '', (tmp_path / 'bring/world.html').read_text())
  assert 'class World' in page
  for path in tmp_path.rglob('*.html'):
    text = path.read_text()
    assert not re.search(r'(src=|rel="stylesheet" href=)"?https?:', text), path
