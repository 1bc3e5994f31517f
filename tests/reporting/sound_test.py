"""Results of any content are reported, or refused in one line."""

import json
import pathlib
import re
import struct
import zlib

import pytest

import wm
from tests import page_text
from tests.launch import binaries
from tests.reporting.write_test import entry
from wm import core
from wm.library import report as reports
from wm.reporting import write


def scored(folder: pathlib.Path, *entries: dict, **files: object) -> str:
  """A run's folder with these results and files, as JSON or as they are."""
  folder.mkdir()
  held = entries or (entry(folder.name, 'next_token', 'accuracy', 0.5),)
  (folder / 'scores.json').write_text(json.dumps(held))
  for name, value in files.items():
    path = folder / name.replace('_', '.')
    if isinstance(value, bytes):
      path.write_bytes(value)
    else:
      path.write_text(value if isinstance(value, str) else json.dumps(value))
  return str(folder)


def png(shade: int) -> bytes:
  """A picture of one grey point."""

  def part(kind: bytes, held: bytes) -> bytes:
    check = struct.pack('>I', zlib.crc32(kind + held))
    return struct.pack('>I', len(held)) + kind + held + check

  head = struct.pack('>IIBBBBB', 1, 1, 8, 0, 0, 0, 0)
  data = zlib.compress(bytes([0, shade]))
  return (
    b'\x89PNG\r\n\x1a\n'
    + part(b'IHDR', head)
    + part(b'IDAT', data)
    + part(b'IEND', b'')
  )


# Maps.


@pytest.mark.parametrize(
  'names',
  [
    ('transformer', 'transformer'),
    ('m(1)', 'm[1]'),
    ('m', 'M'),
    ('../m', '.._m', 'x' * 400, 'x' * 401),
    ('m', 'm_2', 'm'),
    ('far_m', 'm'),
  ],
)
def test_each_run_has_maps_of_its_own(tmp_path, names):
  folders = []
  for number, name in enumerate(names):
    result = entry(name, 'next_token', 'accuracy', 0.5)
    place = tmp_path / f'run{number}'
    folders.append(scored(place, result, map_html=f'page {number}'))
    (place / 'map_far.png').write_bytes(png(100 + number))
  out = tmp_path / 'out' / 'report'
  write.report(folders, out)
  assert not list(out.glob('*.png')), 'the interactive map shows as much'
  pages = [path.read_text() for path in out.glob('map_*.html')]
  assert sorted(pages) == [f'page {number}' for number in range(len(names))]
  assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []
  # Each model links the page of its own run.
  text = (out / 'report.html').read_text()
  links = re.findall('<iframe [^>]* src="([^"]*)"', text)
  linked = [(out / link).read_text() for link in links]
  assert linked == [f'page {number}' for number in range(len(names))]


def test_maps_of_one_name_are_told_apart_by_their_captions(tmp_path):
  folders = [scored(tmp_path / name, map_html='a map') for name in 'ab']
  for folder in folders:
    result = [entry('net', 'next_token', 'accuracy', 0.5)]
    pathlib.Path(folder, 'scores.json').write_text(json.dumps(result))
  write.report(folders, tmp_path / 'report')
  text = page_text.read(tmp_path / 'report')
  for name in 'ab':
    assert f'The map that routes of net on maps() ({name}) imply' in text


# Curves.


def test_a_curve_without_any_value_is_a_table_and_no_picture(tmp_path):
  none = entry('uniform', 'distinction', 'precision', None)
  parts = [{**none, 'where': {'moves': n}} for n in range(9)]
  folder = scored(tmp_path / 'run', none, breakdown_json=parts)
  write.report([folder], tmp_path / 'report')
  text = page_text.read(tmp_path / 'report')
  assert '| uniform | distinction() | precision | moves=8 | – |' in text
  assert not list((tmp_path / 'report').glob('*.png'))


def test_a_log_without_any_loss(tmp_path):
  folder = scored(tmp_path / 'run', metrics_jsonl='{"step": 1, "rate": 1.0}\n')
  write.report([folder], tmp_path / 'report')


# Names.

NAMES = (
  'a|b',
  '<script>alert(1)</script>',
  'a\nb',
  r'a\|b',
  '`x`',
  '](http://a.b)',
  r'$\frac$',
  '_hidden',
  'x' * 3000,
)


@pytest.mark.parametrize('name', NAMES, ids=range(len(NAMES)))
def test_names_are_shown_as_they_are(tmp_path, name):
  result = entry(name, 'next_token', 'accuracy', 0.5)
  log = '{"step": 1, "heldout_loss": 2.0}\n{"step": 2, "heldout_loss": 1.0}\n'
  more = {'metrics_jsonl': log, 'map_png': png(3)}
  parts = [{**result, 'where': {'moves': n}} for n in range(9)]
  folders = [
    scored(tmp_path / 'a', result, breakdown_json=parts, **more),
    scored(tmp_path / 'b'),
  ]
  write.report(folders, tmp_path / 'report')
  text = page_text.read(tmp_path / 'report')
  assert f'| {" ".join(name.split(chr(10)))} | ' in text
  page = (tmp_path / 'report' / 'report.html').read_text()
  assert '<script>alert' not in page


# Folders.


def test_a_folder_called_report_is_the_report(tmp_path):
  folder = scored(tmp_path / 'a')
  out = tmp_path / 'x' / 'report'
  page = reports.report([folder], out)
  assert page == out / 'report.html'
  assert not (out / 'report').exists()
  assert reports.report([folder], out) == page  # Again.
  assert reports.report([folder], tmp_path / 'x') == page


def test_a_new_folder_is_the_report(tmp_path):
  folder = scored(tmp_path / 'a')
  page = reports.report([folder], tmp_path / 'new')
  assert page == tmp_path / 'new' / 'report.html'
  assert reports.report([folder], tmp_path / 'new') == page  # Again.
  # A folder of other things keeps these apart.
  assert reports.report([folder], tmp_path).parent == tmp_path / 'report'
  assert reports.report([folder]).parent == tmp_path / 'a' / 'report'


def test_a_run_called_report_keeps_its_results(tmp_path):
  folder = scored(tmp_path / 'report')
  before = (tmp_path / 'report' / 'scores.json').read_bytes()
  assert reports.report(folder).parent == tmp_path / 'report' / 'report'
  (tmp_path / 'report' / 'scores').mkdir()
  other = scored(tmp_path / 'b')
  page = reports.report([other], tmp_path / 'report')
  assert page.parent == tmp_path / 'report' / 'report'
  assert (tmp_path / 'report' / 'scores.json').read_bytes() == before


# Values.


def test_arguments_that_are_no_text(tmp_path):
  out = f'--out={tmp_path}/a\udcff'
  line = binaries.refused('sample', '--world=lattice()', out)
  assert "a\\udcff' is not UTF-8" in line


def test_a_name_that_no_file_can_hold(tmp_path):
  with pytest.raises(core.InputError, match=r"name='a\\udcff'"):
    wm.score('uniform()', 'next_token(num=3)', 'lattice()', name='a\udcff')
