"""The documentation site: all plug-ins have pages, and nothing needs a network.

Its search is looked at where a browser is installed, see `explorer.browser`.
"""

import html.parser
import json
import pathlib
import re
import shlex
import urllib.parse

import pytest

import wm
from wm import core
from wm.core import registry
from wm.evaluation import needs
from wm.library import site

for name in site.TOOLS:
  pytest.importorskip(name, reason='the extra site is not installed')


class Links(html.parser.HTMLParser):
  """Anchors, links and files that a page names.

  Attributes:
    anchors: ids in the page.
    links: that a reader may follow.
    loaded: files that a browser asks for by itself.
  """

  def __init__(self, text: str):
    super().__init__()
    self.anchors, self.links, self.loaded = {''}, [], []
    self.feed(text)

  def handle_starttag(self, tag, attrs):
    attrs = dict(attrs)
    self.anchors |= {attrs.get('id') or '', attrs.get('name') or ''}
    if tag == 'a':
      self.links.append(attrs.get('href') or '')
    elif tag != 'meta':
      self.loaded += [attrs[k] for k in ('src', 'href', 'srcset') if k in attrs]


def check_links(folder: pathlib.Path) -> int:
  """Pages whose links all resolve, and whose files lie beside them."""
  pages = {
    path: Links(path.read_text(encoding='utf-8'))
    for path in folder.rglob('*.html')
    if path.name != '404.html'  # Its addresses are a server's.
  }
  for path, page in pages.items():
    # A heading that Markdown took for text.
    text = path.read_text(encoding='utf-8')
    assert not re.search(r'>#{2,4} \w', text), path
    for address in page.loaded + page.links:
      parts = urllib.parse.urlsplit(address)
      loaded = address in page.loaded
      assert parts.scheme in ('', 'data') or not loaded, (path, address)
      if parts.scheme or parts.netloc:
        continue
      target = (path.parent / urllib.parse.unquote(parts.path)).resolve()
      target = target if parts.path else path
      assert target.exists(), (path, address)
      if target in pages and not loaded:
        anchor = urllib.parse.unquote(parts.fragment)
        assert anchor in pages[target].anchors, (path, address)
  for path in folder.rglob('*.css'):
    text = path.read_text(encoding='utf-8')
    assert not re.search(r'url\(["\']?https?:', text), path
  return len(pages)


@pytest.fixture(scope='module')
def small(tmp_path_factory) -> pathlib.Path:
  """A site of one page of each kind."""
  out = tmp_path_factory.mktemp('site') / 'pages'
  told = []
  page = wm.site(
    out,
    worlds=['lattice(size=3, length=5)'],
    models=['slice(block_size=4)'],
    metrics=['compression(k=5)'],
    log=told.append,
  )
  assert page == out / 'index.html'
  assert told == ['7 pages', f'site: {page}']
  return out


def test_links_resolve_and_nothing_asks_a_network(small):
  assert check_links(small) == 7


def test_a_page_has_what_the_plug_in_declares(small):
  page = (small / 'metrics/compression_k_5.html').read_text()
  for text in ('compression(k=5)', 'Vafa et al. 2024, section 2.3', 'trials'):
    assert text in page
  for name in registry.find('metric', 'compression').glossary:
    assert name in page
  page = (small / 'worlds/lattice_size_3_length_5.html').read_text()
  for number in range(3):
    name = f'lattice_size_3_length_5-{number}.svg'
    assert name in page
    assert (small / 'worlds' / name).is_file()
  assert 'longest sequence' in page
  assert (
    'parameters for 1,000 tokens'
    in (small / 'models/slice_block_size_4.html').read_text()
  )


def test_search_has_an_index_beside_the_page(small):
  text = (small / 'search/search_index.js').read_text()
  index = json.loads(text.removeprefix('var __index = '))
  assert any('compression' in each['title'] for each in index['docs'])


def test_a_site_replaces_a_site_and_no_other_folder(small, tmp_path):
  (tmp_path / 'mine.txt').write_text('mine')
  with pytest.raises(core.InputError, match='holds other files'):
    wm.site(tmp_path, metrics=['wander()'])
  assert [path.name for path in tmp_path.iterdir()] == ['mine.txt']
  with pytest.raises(core.InputError, match='did you mean'):
    wm.site(small, metrics=['compresion()'])
  assert (small / 'index.html').is_file()


@pytest.mark.parametrize('tool', site.TOOLS)
def test_a_missing_tool_is_one_line(tool, tmp_path, monkeypatch):
  find = site.importlib.util.find_spec
  hidden = lambda name: None if name == tool else find(name)  # noqa: E731
  monkeypatch.setattr(site.importlib.util, 'find_spec', hidden)
  with pytest.raises(core.InputError, match=r'needs .*\[site\]'):
    wm.site(tmp_path / 'new')
  assert not (tmp_path / 'new').exists()


@pytest.mark.parametrize('kind', site.KINDS)
def test_example_commands_have_specs_that_fit(kind):
  for name in registry.names(kind):
    partners = needs.partners(kind, registry.find(kind, name))
    lines = site._commands(kind, name, f'{name}()', partners)
    specs = {}
    for word in shlex.split(' '.join(lines).replace('\\', '')):
      flag, _, value = word.removeprefix('--').partition('=')
      if flag in registry.KINDS:
        specs[flag] = registry.parse(value)[0]
        if value != 'language()':  # Its model must be given.
          registry.resolve(flag, value)
    for other, cells in partners.items():
      if len(specs) == 3:
        assert cells[specs[other]] == '+', (name, specs)


def test_docstrings_keep_their_layout_and_their_signs():
  text = """A *sign* of <pad> and `a|b` in W_A.

    0 -- 1

    2 -- 3

  name   columns
  """
  assert site.prose(text) == (
    'A \\*sign\\* of &lt;pad> and `a|b` in W\\_A.\n\n'
    '```text\n  0 -- 1\n\n  2 -- 3\n\nname   columns\n```'
  )


def test_stubs_have_the_signature_and_text_of_help():
  stub = site._stub('sample', wm.sample)
  assert "num: 'int' = 100000" in stub
  assert 'Keyword Args:' in stub
  compile(stub, 'stub', 'exec')
  for name in wm.__all__:
    compile(site._stub(name, getattr(wm, name)), name, 'exec')


def test_published_numbers_are_written_with_their_errors():
  assert site._number(0.5) == '0.5'
  assert site._number([0.5, 0.01]) == '0.5 (0.01)'
  assert site._number([0.5, [0.01, 0.02]]) == '0.5 (0.01 to 0.02)'
  assert site._number(None) == ''
  table = {
    **{'metric': 'probe()', 'quantities': ['a'], 'by': 'ply', 'places': [1, 2]},
    'values': {'m_1': [[3, 4]]},
  }
  assert site._table(table).splitlines()[-3:] == [
    '| model | a, ply 1 | a, ply 2 |',
    '| --- | --- | --- |',
    '| m 1 | 3 | 4 |',
  ]


def test_formats_name_fields_that_exist():
  for each in site.formats().values():
    if each.kind:
      cls = registry.find(each.kind, each.plug_in)
      assert set(each.fields) <= set(cls.__dataclass_fields__), each


@pytest.mark.slow
def test_the_whole_site_has_a_page_for_everything(tmp_path, root):
  out = tmp_path / 'site'
  wm.site(out)
  names = {
    str(path.relative_to(out).with_suffix('')) for path in out.rglob('*.html')
  }
  expected = {
    f'{kind}s/{name}' for kind in site.KINDS for name in registry.names(kind)
  }
  expected |= {f'formats/{name}' for name in site.formats()}
  expected |= {f'bring/{name}' for name in site.HOW_TO}
  flags, notebooks = root / 'launch/flags', root / 'launch/notebooks'
  expected |= {f'papers/{p.parent.name}' for p in flags.glob('*/*.flags')}
  expected |= {f'notebooks/{path.stem}' for path in notebooks.glob('*.ipynb')}
  assert expected <= names
  assert check_links(out) > 100
  calls = (out / 'reference/calls.html').read_text()
  classes = (out / 'reference/classes.html').read_text()
  for name in wm.__all__:
    assert f'id="wm.{name}"' in calls + classes, name
  paper = (out / 'papers/vafa2024.html').read_text()
  assert 'random walks teach the map better, with more data' in paper
