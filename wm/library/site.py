"""The documentation site: pages of plug-ins, papers, calls and notebooks.

Pages are Markdown, written from the registry, from docstrings and from the
files of a checkout; MkDocs with its theme Material makes the site of them. The
site is a folder of files that opens from a disk: no page asks a network.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import wm
from wm import core
from wm.core import fields, registry, resources
from wm.evaluation import needs
from wm.library import film
from wm.options.calls import Path
from wm.reporting import catalog, miniatures, papers, tables
from wm.runtime import files, pages

TOOLS = ('material', 'mkdocstrings', 'nbconvert')  # Modules of the extra.
KINDS = {'world': 'Worlds', 'model': 'Models', 'metric': 'Metrics'}
ABOUT = {
  'world': 'A world has rules that are known exactly, and produces sequences.',
  'model': 'A model is trained on sequences, or is right or wrong by design.',
  'metric': 'A metric compares what a model accepts, predicts or represents '
  'with what the rules say.',
}
HOW_TO = (
  *('model', 'world', 'metric', 'graph', 'automaton', 'games'),
  'language_model',
)
# Models that need a file or a provider -> a spec for their example.
EXAMPLES = {
  'huggingface': "huggingface(path='FOLDER')",
  'language': "language(model='openai/gpt-5')",
  'user': 'user(function="launch/examples/my_model.py:model", files=())',
}
# Predictors of orbits that are filmed: one knows the law, one knows none.
FILMED = ('orbit_fit', 'ballistic')
_SECONDS = 600  # Guards against a tool that hangs.


class MarkdownPage(NamedTuple):
  """A page of the site.

  Attributes:
    path: of its Markdown, from the folder of pages.
    title: in the menu.
    text: its Markdown.
    about: a line on it, for lists.
  """

  path: str
  title: str
  text: str
  about: str = ''


class Format(NamedTuple):
  """A kind of file that a user brings.

  Attributes:
    title: of its page.
    module: whose docstring describes it.
    kind, plug_in: that reads it; '' where a command does.
    fields: of the plug-in that name such files.
    command: that reads it, or ''.
  """

  title: str
  module: str
  kind: str = ''
  plug_in: str = ''
  fields: Sequence[str] = ()
  command: str = ''


def formats() -> dict[str, Format]:
  """Name of a page -> a kind of file that wm reads."""
  records = json.loads(_text('formats.json'))
  return {name: Format(**record) for name, record in records.items()}


def site(
  out: Path,
  *,
  worlds: Sequence[str] = (),
  models: Sequence[str] = (),
  metrics: Sequence[str] = (),
  log: Callable[[str], None] = lambda line: None,
) -> pathlib.Path:
  """Writes the documentation site, which opens from a disk without a network.

  It has a page for each world, model, metric and file format, for each paper
  with the verdicts on its findings, for each notebook and for each thing to
  bring; a film; and the reference of all calls.

  Args:
    out: folder of the site; an older site there is replaced.
    worlds, models, metrics: specs. If any is given, the site has their pages
      alone, each with the settings of its spec.
    log: gets the number of pages, and the file to open.

  Returns:
    Path of index.html.

  Raises:
    InputError: a bad spec, a folder with other files in it, an installation
      without the extra `site`, or one that is no checkout.
  """
  folder, root = pathlib.Path(out).absolute(), papers.folder().parents[1]
  _require(folder, root)
  asked = {'world': worlds, 'model': models, 'metric': metrics}
  for kind, specs in asked.items():
    for spec in specs:
      catalog.plug_in(kind, spec)  # Raises InputError before any file.
  folder.parent.mkdir(parents=True, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=folder.parent) as name:
    place = pathlib.Path(name)
    docs = place / 'docs'
    docs.mkdir()
    written = {}
    for section, listed in _sections(root, docs, asked):
      written[section] = list(listed)
      for page in written[section]:
        files.write_text(docs / page.path, page.text)
    _configure(place, written)
    _run(place, 'mkdocs', 'build', '--strict', '--quiet')
    if folder.exists():
      shutil.rmtree(folder)
    os.replace(place / 'site', folder)
  log(f'{sum(map(len, written.values()))} pages')
  log(f'site: {out}/index.html')
  return pathlib.Path(out) / 'index.html'


def _require(folder: pathlib.Path, root: pathlib.Path) -> None:
  """Raises InputError where the site cannot be made, or would harm files."""
  missing = [name for name in TOOLS if importlib.util.find_spec(name) is None]
  if missing:
    raise core.InputError(
      f"the site needs {missing[0]}: pip install -e '.[site]'"
    )
  if not (root / 'launch/notebooks').is_dir():
    raise core.InputError(
      f'{root} has no launch/notebooks; expected a checkout of wm, as the site '
      'shows its notebooks and flagfiles'
    )
  other = folder.is_dir() and any(folder.iterdir())
  if other and not (folder / 'search/search_index.js').is_file():
    raise core.InputError(
      f'{folder} holds other files; expected a new folder, or an older site'
    )


def _sections(
  root: pathlib.Path, docs: pathlib.Path, asked: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, Iterable[MarkdownPage]]]:
  """Yields the title of a menu and its pages; files of pages go to `docs`."""
  whole = not any(asked.values())
  if whole:
    shutil.copy(root / 'launch/flags/quickstart_overview.svg', docs)
    yield '', [MarkdownPage('index.md', 'Home', _text('home.md'))]
    yield 'Bring your own', _how_to(root)
    yield 'Notebooks', _notebooks(root, docs)
  else:
    rows = [
      (f'[{KINDS[kind]}]({kind}s/index.md)', ', '.join(specs))
      for kind, specs in asked.items()
      if specs
    ]
    text = _list('wm', 'Pages of some plug-ins.', rows)
    yield '', [MarkdownPage('index.md', 'Home', text)]
  for kind, title in KINDS.items():
    if specs := registry.names(kind) if whole else asked[kind]:
      yield title, _plug_ins(kind, specs, docs, whole=whole)
  if whole:
    yield 'File formats', _formats()
    yield 'Papers and studies', _papers(docs)
    yield 'Film', _films(docs)
    yield 'Reference', _reference(root, docs)


def _text(template: str, **values: Any) -> str:
  return pages.render('wm.library', template, **values)


def _list(title: str, lead: str, rows: Iterable[tuple[str, str]]) -> str:
  return _text('list.md', title=title, lead=lead, rows=list(rows))


def _index(
  folder: str, title: str, lead: str, listed: Sequence[MarkdownPage]
) -> MarkdownPage:
  """The page that lists a section's others, by title or, of plug-ins, name."""
  rows = [
    (f'[{page.title}]({pathlib.Path(page.path).name})', page.about)
    for page in listed
  ]
  return MarkdownPage(
    f'{folder}/index.md', 'Overview', _list(title, lead, rows)
  )


def _heading(text: str) -> str:
  """The title of a page of Markdown."""
  return re.findall(r'^# (.*)$', text, re.M)[0]


def _run(place: pathlib.Path, module: str, *arguments: str) -> None:
  """Runs a program of Python in a folder; RuntimeError with its last lines."""
  done = subprocess.run(
    [sys.executable, '-m', module, *arguments],
    cwd=place,
    env={**os.environ, 'NO_MKDOCS_2_WARNING': '1'},
    capture_output=True,
    text=True,
    timeout=_SECONDS,
    check=False,
  )
  if done.returncode:
    raise RuntimeError(f'{module} failed: {done.stderr[-2000:]}')


def _configure(
  place: pathlib.Path, written: Mapping[str, Sequence[MarkdownPage]]
) -> None:
  """Writes mkdocs.yml; JSON is YAML."""
  for name in ('site.css', 'iframe-worker.js'):
    files.write_text(place / 'docs/assets' / name, _text(name))
  nav: list[Any] = []
  for section, listed in written.items():
    items = [{page.title: page.path} for page in listed]
    nav += [{section: items}] if len(items) > 1 else items
  config = json.loads(_text('mkdocs.json'))
  python = config['plugins'][2]['mkdocstrings']['handlers']['python']
  python['paths'] = [str(place / 'api')]
  files.write_json(place / 'mkdocs.yml', {**config, 'nav': nav})


# Docstrings as Markdown.


def prose(text: str) -> str:
  """Returns a docstring as Markdown.

  Paragraphs that are indented or have columns keep their layout; in others no
  sign but a backtick has a meaning.
  """
  parts: list[tuple[bool, str]] = []
  for part in re.split(r'\n\s*\n', inspect.cleandoc(text)):
    laid_out = bool(re.search(r'^ |\S {2,}\S', part, re.M))
    if laid_out and parts and parts[-1][0]:
      parts[-1] = True, f'{parts[-1][1]}\n\n{part}'
    else:
      parts.append((laid_out, part))
  return '\n\n'.join(
    f'```text\n{part.rstrip()}\n```' if laid_out else _escaped(part)
    for laid_out, part in parts
    if part.strip()
  )


def _escaped(text: str) -> str:
  """A paragraph in which signs of Markdown are text, but for backticks."""
  spans = re.split(r'(`[^`]+`)', text)
  spans[::2] = [
    re.sub(r'([*_|\[\]\\])', r'\\\1', span).replace('<', '&lt;')
    for span in spans[::2]
  ]
  return ''.join(spans)


# Worlds, models and metrics.


def _plug_ins(
  kind: str, specs: Sequence[str], docs: pathlib.Path, *, whole: bool
) -> list[MarkdownPage]:
  listed = [_plug_in(kind, spec, docs, whole=whole) for spec in specs]
  index = _index(f'{kind}s', KINDS[kind], ABOUT[kind], listed)
  return [index, *listed]


def _plug_in(
  kind: str, spec: str, docs: pathlib.Path, *, whole: bool
) -> MarkdownPage:
  """The page of a plug-in with the settings of its spec.

  docs: folder of pages; pictures are written there.
  whole: whether the site has all pages, which links then name.
  """
  name = registry.parse(spec)[0]
  title, cls, instance = catalog.resolved(kind, spec)
  slug = re.sub(r'\W+', '_', name if whole else title).strip('_')
  texts, partners = catalog.attributes(cls), needs.partners(kind, cls)
  text = inspect.cleandoc(cls.__doc__ or '')
  text = re.split(r'^(?:Attributes|Glossary):', text, flags=re.M)[0]
  module = sys.modules[cls.__module__].__doc__ or ''
  values: dict[str, Any] = {
    'title': title,
    'text': f'{prose(module)}\n\n{prose(text)}',
    'commands': _commands(kind, name, title, partners),
    'links': _links(kind, name) if whole else [],
    'fields': [
      (field, default, texts.get(field, ''))
      for field, default in catalog.defaults(cls)
    ],
    'quantities': [*cls.glossary.items()] if kind == 'metric' else [],
    'partners': [
      (KINDS[other], _cells(other, cells, instance, whole=whole))
      for other, cells in partners.items()
    ],
    'costs': _costs(kind, instance),
    **{'pictures': [], 'legend': '', 'facts': [], 'blocks': []},
  }
  if kind == 'world':
    assert isinstance(instance, core.World)  # Worlds have defaults.
    values |= _world(instance, title, slug, docs)
  text = _text('plug_in.md', **values)
  about = _escaped(catalog.summary(cls))
  return MarkdownPage(f'{kind}s/{slug}.md', name, text, about)


def _world(
  world: core.World, spec: str, slug: str, docs: pathlib.Path
) -> dict[str, Any]:
  """Pictures, facts, tokens, sequences and words of a world."""
  examples = catalog.examples(world)
  pictures = []
  for number, each in enumerate(examples):
    if each.drawing:
      name = f'{slug}-{number}.svg'
      files.write_text(docs / 'worlds' / name, each.drawing)
      text = catalog.words(world, each.tokens[: each.at])
      pictures.append((name, f'after {each.at} tokens: {text}'))
  stop = 'none' if world.end == core.DEAD else world.vocab[world.end]
  facts = {
    **{'tokens': len(world.vocab), 'end token': f'`{stop}`'},
    **{'longest sequence': world.max_len, 'prompt': world.prompt_len},
  }
  if core.can(world, core.Described.stats):
    facts |= world.stats()
  blocks = [
    ('Vocabulary', catalog.vocabulary(world)),
    ('Sequences, and a state on the way of each', catalog.sequences(world)),
  ]
  if isinstance(world, core.Verbal):
    head, *lines = catalog.in_words(world)
    blocks.append((head.strip(), lines))
  return {
    'pictures': pictures,
    'legend': catalog.picture(spec) if pictures else '',
    'facts': [*facts.items()],
    'blocks': blocks,
  }


def _links(kind: str, name: str) -> list[str]:
  """Lines to the formats that a plug-in reads."""
  return [
    f'It reads files of yours: [{each.title}](../formats/{key}.md).'
    for key, each in formats().items()
    if (each.kind, each.plug_in) == (kind, name)
  ]


def _cells(
  kind: str, cells: Mapping[str, str], instance: Any, *, whole: bool
) -> list[tuple[str, str, str]]:
  """Partners: name, as a link if it has a page, what is missing, and cost."""
  rows = []
  for name, cell in cells.items():
    cost = ''
    if kind == 'world' and cell == '+' and instance is not None:
      least = instance.cost(registry.make('world', f'{name}()'))
      cost = str(least) if least.memory or least.seconds else ''
    runs = 'yes' if cell == '+' else f'yes, {cell}'
    if cell != '+' and not cell.startswith('as '):
      runs = f'no: needs `{cell}`'
    shown = f'[{name}](../{kind}s/{name}.md)' if whole else name
    rows.append((shown, runs, cost))
  return rows


def _costs(kind: str, instance: Any) -> list[str]:
  """Lines on the memory and time that a plug-in takes at least."""
  if instance is None:
    return []
  if kind == 'world':
    batch = resources.sequences_cost(
      instance.max_len, vocab=len(instance.vocab)
    )
    return [f'It takes at least {max(instance.cost(), batch)}.']
  if (count := catalog.parameters(instance, *catalog.SIZES)) is None:
    return []
  return [f'It has {catalog.counted(count, *catalog.SIZES)}.']


def _commands(
  kind: str, name: str, spec: str, partners: Mapping[str, Mapping[str, str]]
) -> list[str]:
  """Commands that run a plug-in with partners that it fits."""
  fits = {
    other: [each for each, cell in cells.items() if cell == '+']
    for other, cells in partners.items()
  }
  first = f'python launch/list.py --{kind}={_quoted(spec)}'
  if any(not names for names in fits.values()):
    return [first]
  chosen = {other: _preferred(other, names) for other, names in fits.items()}
  chosen[kind] = EXAMPLES.get(name, spec) if kind == 'model' else spec
  world, model, metric = (f'--{k}={_quoted(chosen[k])}' for k in KINDS)
  out = f'--out=runs/{name}'
  cls = registry.find('model', registry.parse(chosen['model'])[0])
  if issubclass(cls, core.Trainable):
    return [
      first,
      f'python launch/sample.py {world} --num=10000 {out}',
      f'python launch/train.py {world} {model} --steps=500 {out}',
      f'python launch/score.py {world} {metric} {out}',
    ]
  scored = f'python launch/score.py {world} {model}'
  return [first, f'{scored} \\', f'  {metric} {out}']


def _preferred(kind: str, names: Sequence[str]) -> str:
  """A spec of one of several plug-ins: a usual one, if it is among them."""
  usual = {
    'world': ('maps', 'seating', 'orbits', 'hmm'),
    'model': ('oracle', 'transformer'),
    'metric': ('compression', 'exactness', 'next_token'),
  }[kind]
  name = next((each for each in usual if each in names), names[0])
  named = dict(catalog.defaults(registry.find(kind, name)))
  few = next((field for field in ('trials', 'num') if field in named), '')
  return f'{name}({few}=100)' if few and kind == 'metric' else f'{name}()'


def _quoted(spec: str) -> str:
  return f'"{spec}"' if "'" in spec else f"'{spec}'"


# Guides, notebooks and formats.


def _how_to(root: pathlib.Path) -> Iterator[MarkdownPage]:
  examples = {
    path.name: path.read_text(encoding='utf-8').rstrip()
    for path in (root / 'launch/examples').glob('*.py')
  }
  for name in HOW_TO:
    text = _text(f'howto_{name}.md', files=examples)
    yield MarkdownPage(f'bring/{name}.md', _heading(text), text)


def _notebooks(root: pathlib.Path, docs: pathlib.Path) -> list[MarkdownPage]:
  """Notebooks as they are kept, with their outputs."""
  place = docs / 'notebooks'
  place.mkdir()
  paths = sorted((root / 'launch/notebooks').glob('*.ipynb'))
  arguments = '--to', 'markdown', '--output-dir', str(place), '--log-level=40'
  _run(root, 'nbconvert', *arguments, *map(str, paths))
  listed = []
  for path in paths:
    text = (place / f'{path.stem}.md').read_text(encoding='utf-8')
    title = _heading(text).partition(':')[0]
    name = f'notebooks/{path.stem}.md'
    _, about, *_ = re.split(r'\n\n+', text.strip())
    listed.append(MarkdownPage(name, title, _wide(text), about))
  lead = 'Each is in `launch/notebooks`, and opens in Jupyter and in Colab.'
  return [_index('notebooks', 'Notebooks', lead, listed), *listed]


def _wide(text: str) -> str:
  """A notebook whose tables scroll by themselves, without styles of theirs."""
  text = re.sub(r'<style scoped>.*?</style>', '', text, flags=re.S)
  return re.sub(r'<div>\s*(<table)', r'<div class="wide">\n\1', text)


def _formats() -> list[MarkdownPage]:
  listed = [_format(key, each) for key, each in formats().items()]
  lead = 'Files that wm reads. All are data: none is run, but Python.'
  return [_index('formats', 'File formats', lead, listed), *listed]


def _format(key: str, each: Format) -> MarkdownPage:
  module = importlib.import_module(each.module)
  cls = registry.find(each.kind, each.plug_in) if each.kind else None
  text = _text(
    'format.md',
    format=each,
    about=prose(module.__doc__ or ''),
    texts=catalog.attributes(cls) if cls else {},
    readers=[
      (names, prose(catalog.format_text(reader)))
      for reader, names in (fields.formats(cls) if cls else {}).items()
      if reader != each.module and {*names} & {*each.fields}
    ],
  )
  about = _escaped(catalog.summary(module))
  return MarkdownPage(f'formats/{key}.md', each.title, text, about)


# Papers.


def _papers(docs: pathlib.Path) -> list[MarkdownPage]:
  """A page for each folder of flagfiles, and each other paper of findings."""
  place = papers.folder()
  judged, read = miniatures.judged(place / 'miniatures')
  (docs / 'papers').mkdir()
  sections: dict[str, list[miniatures.Section]] = {}
  for each in judged:
    section = miniatures.section(
      each, read, place / 'miniatures', docs / 'papers'
    )
    sections.setdefault(each.finding.paper, []).append(section)
  folders = [p for p in sorted(place.iterdir()) if any(p.rglob('*.flags'))]
  titles = {folder: _title(folder) for folder in folders}
  several = [
    _paper(title, sections.get(title, []), folder)
    for folder, title in titles.items()
  ]
  several += [
    _paper(title, of_paper, None)
    for title, of_paper in sections.items()
    if title not in titles.values()
  ]
  several.sort(key=lambda page: (' ' not in page.title, page.title))
  lead = 'What papers print and find, and what came of it here.'
  return [_index('papers', 'Papers and studies', lead, several), *several]


def _title(folder: pathlib.Path) -> str:
  """'Vafa et al. 2024', by published.json or the heads of flagfiles."""
  path = folder / 'published.json'
  if path.is_file():
    return re.split(r'[:(]', files.read_json(path)['source'])[0].strip()
  name = re.fullmatch(r'([a-z]+)(\d{4})', folder.name)
  heads = ' '.join(_head(path) for path in sorted(folder.glob('*.flags')))
  if name is None:
    return folder.name
  cited = re.search(
    rf'\b{name[1]}\b[\w. ]*{name[2]}', ' '.join(heads.split()), re.I
  )
  return cited[0] if cited else folder.name


def _head(flagfile: pathlib.Path) -> str:
  """The comment that a flagfile begins with."""
  lines = flagfile.read_text(encoding='utf-8').splitlines()
  count = next((n for n, x in enumerate(lines) if x[:1] != '#'), len(lines))
  return '\n'.join(line[1:].removeprefix(' ') for line in lines[:count])


def _paper(
  title: str,
  sections: Sequence[miniatures.Section],
  folder: pathlib.Path | None,
) -> MarkdownPage:
  """folder: of its flagfiles, or None."""
  published, flagfiles = {}, []
  if folder is not None:
    if (folder / 'published.json').is_file():
      published = files.read_json(folder / 'published.json')
    flagfiles = [
      _flagfile(path, folder) for path in sorted(folder.rglob('*.flags'))
    ]
  slug = folder.name if folder else re.sub(r'\W+', '_', title).lower()
  text = _text(
    'paper.md',
    title=title,
    source=published.get('source', ''),
    folder=f'launch/flags/{folder.name}' if folder else '',
    sections=sections,
    findings=[
      pages.render('wm.reporting', 'finding.md', section=section)
      for section in sections
    ],
    printed=[*_printed(published.get('worlds', {}))],
    flagfiles=flagfiles,
  )
  about = f'{len(sections)} findings, {len(flagfiles)} flagfiles'
  return MarkdownPage(f'papers/{slug}.md', title, text, about)


def _flagfile(path: pathlib.Path, folder: pathlib.Path) -> dict[str, str]:
  """A flagfile's name, head and flags, and when its numbers were recorded."""
  lines = path.read_text(encoding='utf-8').splitlines()
  about = path.with_suffix('.json')
  recorded = ''
  if about.is_file() and about.name != 'published.json':
    record = files.read_json(about)
    recorded = (
      f'Recorded {record["date"]} on {record["machine"]}; commit '
      f'{record["commit"]}. Source: {record["source"]}.'
    )
  return {
    'name': str(path.relative_to(folder)),
    'head': _head(path),
    'flags': '\n'.join(line for line in lines if line[:2] == '--'),
    'recorded': prose(recorded) if recorded else '',
  }


def _printed(worlds: Mapping[str, Any]) -> Iterator[dict[str, str]]:
  """Tables of a published.json: a row for each model."""
  for world, record in worlds.items():
    yield {
      'title': world,
      'note': f'{record["table"]}. Setting: {record["setting"]}.',
      'markdown': '\n\n'.join(map(_table, record['tables'])),
    }


def _table(table: Mapping[str, Any]) -> str:
  ((field, values),) = table.get('each', {'': table['quantities']}).items()
  heads = [f'{field}={value}' if field else value for value in values]
  if 'by' in table:
    heads = [
      f'{head}, {table["by"]} {place}'
      for head in heads
      for place in table['places']
    ]
  rows = []
  for model, numbers in table['values'].items():
    if 'by' in table:
      numbers = [number for group in numbers for number in group]
    cells = dict(zip(heads, map(_number, numbers), strict=True))
    rows.append({'model': model.replace('_', ' '), **cells})
  where = f'{table["in"]}, ' if 'in' in table else ''
  shown = tables.of_rows('', rows).markdown().rstrip()
  return f'{where}`{table["metric"]}`:\n\n{shown}'


def _number(value: Any) -> str:
  """A printed number, and its standard error or the range of it."""
  if not isinstance(value, list):
    return '' if value is None else f'{value:g}'
  number, error = value
  if isinstance(error, list):
    error = f'{error[0]:g} to {error[1]:g}'
  return f'{number:g} ({error})' if error is not None else f'{number:g}'


# The film, and the reference.


def _films(docs: pathlib.Path) -> Iterator[MarkdownPage]:
  films = []
  for name in FILMED:
    path = film.film(f'{name}()', docs / 'film' / name, 'orbits()', systems=4)
    about = catalog.summary(registry.find('model', name))
    page = path.relative_to(docs / 'film')
    films.append((name, about, page))
  yield MarkdownPage('film/index.md', 'Film', _text('film.md', films=films))


def _reference(
  root: pathlib.Path, docs: pathlib.Path
) -> Iterator[MarkdownPage]:
  """Calls and classes, programs, and words."""
  members = {name: getattr(wm, name) for name in vars(wm)['__all__']}
  stubs = [_stub(name, member) for name, member in members.items()]
  files.write_text(docs.parent / 'api/wm.py', '\n'.join(stubs))
  for title, classes in (('Calls', False), ('Classes', True)):
    lines = [f'# {title}']
    lines += [
      f'::: wm.{name}'
      for name, member in members.items()
      if inspect.isclass(member) == classes
    ]
    name = f'reference/{title.lower()}.md'
    yield MarkdownPage(name, title, '\n\n'.join(lines))
  yield MarkdownPage('reference/commands.md', 'Commands', _commands_page(root))
  rules = {
    name: inspect.getdoc(registry.find('accept', name)) or ''
    for name in registry.names('accept')
  }
  text = _docstrings('Acceptance rules', '', rules)
  yield MarkdownPage('reference/accept.md', 'Acceptance rules', text)
  text = f'# Words\n\n{prose(wm.__doc__ or "")}'
  yield MarkdownPage('reference/words.md', 'Words', text)


def _commands_page(root: pathlib.Path) -> str:
  """What --help of each program says of it."""
  texts = {
    path.name: path.read_text(encoding='utf-8')
    for path in sorted((root / 'launch').glob('*.py'))
  }
  programs = {
    name: ast.get_docstring(ast.parse(text)) or ''
    for name, text in texts.items()
    if "__name__ == '__main__'" in text
  }
  lead = 'Every program has `--help` with all of its flags.'
  return _docstrings('Commands', lead, programs)


def _docstrings(title: str, lead: str, texts: Mapping[str, str]) -> str:
  """A page of docstrings, each below its name."""
  parts = [f'## {name}\n\n{prose(text)}' for name, text in texts.items()]
  return '\n\n'.join(filter(None, [f'# {title}', lead, *parts])) + '\n'


def _stub(name: str, member: Any) -> str:
  """A call or class in Python, with the signature and text that help() shows.

  Some signatures are made when a module is imported, which tools that read its
  source do not see.
  """
  if not inspect.isclass(member):
    return _definition(name, member)
  lines = [f'class {name}:', f'  {inspect.getdoc(member)!r}']
  for key, value in vars(member).items():
    call = value.fget if isinstance(value, property) else value
    if isinstance(value, classmethod | staticmethod):
      call = value.__func__
    if not key.startswith('_') and inspect.isfunction(call):
      text = _definition(key, call)
      before = '@property\n' if isinstance(value, property) else ''
      lines.append(textwrap.indent(before + text, '  '))
  return '\n'.join(lines)


def _definition(name: str, call: Callable[..., Any]) -> str:
  # A default that is a function has no literal.
  signature = str(inspect.signature(call))
  signature = re.sub(r'<function .*? at 0x\w+>', '...', signature)
  return f'def {name}{signature}:\n  {inspect.getdoc(call)!r}'
