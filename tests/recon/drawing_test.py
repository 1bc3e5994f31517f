"""Pictures and pages: well-formed, complete, and they open in a browser."""

import html.parser
import json
import pathlib
import re
import shutil
import subprocess
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.recon import cities
from tests.recon.cities import E, N, make_routes
from wm.core import registry
from wm.options.calls import Reconstruction
from wm.recon import draw, reconstruct, routes
from wm.runtime import pages

SVG = '{http://www.w3.org/2000/svg}'


def _made(graph, outcome, **options):
  edges = reconstruct.reconstruct(graph, outcome, Reconstruction(**options))
  return graph, outcome, reconstruct.edge_table(graph, outcome, edges)


@pytest.fixture(scope='module')
def city():
  """A generated city, with 200 routes of which a third go astray."""
  world = registry.make(
    'world', "maps(rows=8, columns=8, traversal='shortest')"
  )
  result, _ = routes.extract(world.sample(200, seed=3), world)
  rng = np.random.default_rng(3)
  labels = result.labels.copy()
  for n in range(0, 200, 3):
    labels[result.offsets[n] + rng.integers(result.lengths[n])] ^= 4
  return _made(world.graph, result._replace(labels=labels))


@pytest.fixture(scope='module')
def plain():
  """A map without any new edge."""
  return _made(cities.row(5), make_routes((0, 4, [E, E, E, E])))


def _page(made, title='A city', facts=(('failed', 3),)):
  data = draw.page_data(*made)
  values = {'title': title, 'subtitle': 'maps()', 'facts': facts, 'data': data}
  return pages.render('wm.recon', 'map.html', **values)


@pytest.mark.parametrize('name', ['city', 'plain'])
def test_pictures_are_well_formed(name, request, tmp_path):
  graph, _, table = request.getfixturevalue(name)
  paths = draw.write(graph, table, tmp_path, 'A map')
  names = [p.name for p in paths]
  assert names == ['map_far.png', 'map_far.svg']
  assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names)
  for path in paths:
    if path.suffix == '.png':
      assert path.read_bytes()[:8] == b'\x89PNG\r\n\x1a\n'
      continue
    root = ElementTree.fromstring(path.read_bytes())
    assert root.tag == f'{SVG}svg'
    words = ' '.join(''.join(t.itertext()) for t in root.iter(f'{SVG}text'))
    count = int((table.kind == reconstruct.FALSE).sum())
    assert f'new edge ({count:,})' in words


def test_svg_has_a_curve_for_each_new_edge(city, tmp_path):
  graph, _, table = city
  draw.write(graph, table, tmp_path, 'A map')
  drawn = (tmp_path / 'map_far.svg').read_text()
  curves = re.findall(r'\bd="M [-\d. \n]+Q ', drawn)
  assert len(curves) == (table.kind == reconstruct.FALSE).sum() > 20


def test_curves_leave_by_their_label():
  graph = cities.row(3)
  lat, lon = draw.control_points(
    graph, np.arange(2).repeat(9), np.tile(np.arange(9), 2)
  )
  bend = draw.BEND
  north = np.array([1, 1, 0, -1, -1, -1, 0, 1, 0]) * bend
  east = np.array([0, 1, 1, 1, 0, -1, -1, -1, 0]) * bend
  np.testing.assert_allclose(lat, np.tile(north, 2))
  np.testing.assert_allclose(lon, np.r_[east, east + cities.STEP])


def test_manhattan_gets_the_published_view(manhattan):
  world = registry.make(
    'world',
    f"maps(nodes='{manhattan}/nodes.csv', edges='{manhattan}/edges.csv')",
  )
  assert draw.view_of(world.graph) == draw.FAR


def test_other_maps_are_seen_whole(city):
  graph = city[0]
  far = draw.view_of(graph)
  assert far.south < graph.lat.min()
  assert far.north > graph.lat.max()
  assert far.west < graph.lon.min()
  assert far.east > graph.lon.max()


class _Elements(html.parser.HTMLParser):
  """Tags with their attributes, and the text of each script."""

  def __init__(self, source: str) -> None:
    super().__init__()
    self.tags: list[tuple[str, dict]] = []
    self.scripts: list[str] = []
    self.feed(source)

  def handle_starttag(self, tag: str, attrs: list) -> None:
    self.tags.append((tag, dict(attrs)))

  def handle_data(self, data: str) -> None:
    if self.tags and self.tags[-1][0] == 'script':
      self.scripts.append(data)


@pytest.mark.parametrize('name', ['city', 'plain'])
def test_pages_need_nothing_else(name, request):
  source = _page(request.getfixturevalue(name))
  assert not re.search(r'https?:|//[a-z]+\.|@import|url\(', source)
  for tag, attributes in _Elements(source).tags:
    assert tag not in ('link', 'iframe', 'img', 'object'), tag
    assert 'src' not in attributes


def test_pages_hold_every_edge(city):
  graph, result, table = city
  data = json.loads(_Elements(_page(city)).scripts[0])
  assert len(data['nodes']['ids']) == len(graph)
  for key in ('u', 'v', 'label', 'kind', 'line', 'metres', 'error'):
    assert len(data['edges'][key]) == len(table.source)
  assert data['edges']['u'] == table.source.tolist()
  assert data['labels'][:2] == ['N', 'NE']
  assert data['labels'][8:] == list(result.others)


def test_names_cannot_break_out_of_a_page(plain):
  evil = '</script><script>alert(1)</script>'
  graph, result, table = plain
  source = _page((graph, result._replace(others=(evil,)), table), title=evil)
  assert evil not in source
  assert '<h1>&lt;/script&gt;&lt;script&gt;alert(1)' in source
  data = json.loads(_Elements(source).scripts[0])
  assert data['labels'][-1] == evil


# Acts on the page as a reader does and leaves what came of it in the title.
ACTS = """
<script>
const seen = {};
seen.ready = document.body.dataset.ready;
seen.counts = [...document.querySelectorAll('#legend b')]
  .map((b) => b.textContent);
const fire = (kind, x, y, id) => canvas.dispatchEvent(new PointerEvent(kind,
  {clientX: x, clientY: y, pointerId: id || 1, bubbles: true}));
canvas.setPointerCapture = () => {};
const e = kind.indexOf(1);
$('find').value = ids[u[e]];
$('find').dispatchEvent(new KeyboardEvent('keydown',
  {key: 'Enter', bubbles: true}));
seen.chosen = $('chosen').textContent;
seen.edges = $('edges').children.length;
const at = (t) => { const [px, py] = point(e, t);
  return [px * view.scale + view.x, py * view.scale + view.y]; };
fire('pointermove', ...at(0));
seen.node = $('tip').textContent;
// Somewhere along it, it is nearer than everything else.
let tip = '';
for (let t = 0.1; t < 0.95 && !tip.startsWith('New edge'); t += 0.02) {
  fire('pointermove', ...at(t));
  tip = $('tip').textContent;
}
seen.edge = tip;
const before = {...view};
fire('pointerdown', 500, 400);
fire('pointermove', 530, 380);
fire('pointerup', 530, 380);
seen.pan = [view.x - before.x, view.y - before.y];
canvas.dispatchEvent(new WheelEvent('wheel',
  {deltaY: -400, clientX: 500, clientY: 400, cancelable: true}));
seen.zoom = view.scale / before.scale;
const box = document.querySelectorAll('#legend input');
for (const b of box) {
  b.checked = false;
  b.dispatchEvent(new Event('change'));
}
draw();
seen.hidden = under(...at(0.5)) === null || 'node' in under(...at(0.5));
seen.routes = data.routes.map((r, k) => {
  $('route').value = k;
  $('route').dispatchEvent(new Event('change'));
  return [$('fate').textContent,
    [...$('moves').children].map((li) => li.textContent)];
});
$('route').value = '';
$('route').dispatchEvent(new Event('change'));
seen.none = $('fate').textContent + $('moves').textContent;
document.title = JSON.stringify(seen);
</script>
"""


@pytest.fixture(scope='module')
def chromium():
  result = shutil.which('chromium') or shutil.which('chromium-browser')
  if not result:
    pytest.skip('no Chromium here (Debian: apt-get install chromium)')

  def run(url: str, *flags: str) -> str:
    command = [
      result,
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-dev-shm-usage',
      '--window-size=1300,900',
      '--virtual-time-budget=4000',
    ]
    done = subprocess.run(
      [*command, *flags, url],
      capture_output=True,
      text=True,
      timeout=600,
      check=True,
    )
    return done.stdout

  return run


def _act(chromium, made, folder: pathlib.Path) -> dict:
  path = folder / 'map.html'
  path.write_text(_page(made) + ACTS, encoding='utf-8')
  dom = chromium(path.as_uri(), '--dump-dom')
  title = re.search(r'<title>(.*?)</title>', dom, re.S)[1]
  return json.loads(html.unescape(title))


@pytest.mark.process
def test_page_works_in_a_browser(city, chromium, tmp_path):
  graph, _, table = city
  seen = _act(chromium, city, tmp_path)
  assert seen['ready'] == str(len(table.source))
  counts = [int(text.replace(',', '')) for text in seen['counts']]
  assert sum(counts) == len(table.source)
  assert counts[0] == (table.kind == reconstruct.TRUE).sum()
  assert counts[-1] == (table.kind == reconstruct.UNUSED).sum()
  first = table.source[np.flatnonzero(table.kind == reconstruct.FALSE)[0]]
  assert seen['chosen'] == f'Node {graph.ids[first]}'
  out = (table.source == first) & (table.kind != reconstruct.UNUSED)
  assert seen['edges'] == out.sum()
  assert seen['node'].startswith(f'Node {graph.ids[first]}')
  assert seen['edge'].startswith('New edge')
  assert seen['pan'] == [30, -20]
  assert seen['zoom'] > 1.2
  assert seen['hidden']
  lines = [line for _, moves in seen['routes'][8:16] for line in moves]
  assert any(line.endswith(', a new edge') for line in lines)


@pytest.mark.process
def test_page_shows_routes_and_their_directions(chromium, tmp_path):
  made = _made(
    cities.row(5),
    make_routes((0, 4, [E, E, E, E]), (0, 2, [E]), (0, 2, [E, N]), (1, 3, [N])),
  )
  classes = [(r['class'], r['line']) for r in draw.page_data(*made)['routes']]
  assert classes == [(0, 1), (1, 3), (1, 4), (2, 2)]
  seen = _act(chromium, made, tmp_path)
  (_, valid), (fate, astray), (_, failed), (_, short) = seen['routes']
  assert valid == [f'E → {node}' for node in (101, 102, 103, 104)]
  assert fate.startswith('From 100 (dot) to 102 (ring). A direction of it is')
  assert astray == ['E → 101', 'N → 102, a new edge']
  # It would need a second edge N out of node 101.
  assert failed == ['N → 102, a new edge']
  assert short == ['E → 101']
  assert seen['none'] == ''


def test_no_more_than_eight_routes_of_a_class_are_shown(city):
  shown = [r['class'] for r in draw.page_data(*city)['routes']]
  assert shown == [0] * 8 + [1] * 8 + [2] * 8
