"""Wrong values of every flag that a binary reads, and wrong command lines."""

from __future__ import annotations

import os
from collections.abc import Iterator

from tests.attack.bases import LINE, WORLD
from tests.attack.case import (
  NOBODY,
  Action,
  Case,
  closed,
  fifo,
  folder,
  loop,
  put,
)

LONG = '9' * 5000
SURROGATE = b'a\xff'.decode(errors='surrogateescape')
# A command of each binary that has all that it needs.
GOOD: dict[str, dict[str, str]] = {
  'count': {'world': LINE},
  'explore': {'world': WORLD, 'model': 'uniform()'},
  'extract': {'world': LINE, 'model': 'uniform()'},
  'ask': {
    'world': LINE,
    'model': "language(model='wm/yes', answers='cache')",
    'metric': 'next_token(num=5)',
    'budget': '90000tok',
    'out': 'new',
  },
  'ingest': {'pgn': 'g.pgn', 'out': 'new'},
  'list': {},
  'miniature': {
    'world': LINE,
    'row': 'a: uniform()',
    'metric': 'next_token()',
    'out': 'new',
  },
  'plan': {'world': LINE, 'model': 'transformer(layers=1, width=8)'},
  'reconstruct': {'world': WORLD, 'model': 'uniform()', 'out': 'new'},
  'export': {'task': 'world', 'out': 'new'},
  'report': {'out': 'new'},
  'sample': {'world': LINE, 'num': '50', 'out': 'new'},
  'score': {
    'world': LINE,
    'model': 'uniform()',
    'metric': 'next_token()',
    'out': 'new',
  },
  'study': {
    'world': LINE,
    'row': 'a: uniform()',
    'metric': 'next_token()',
    'out': 'new',
  },
  'sweep': {'world': LINE, 'model': 'ngram()', 'grid': 'lr=1|2', 'out': 'new'},
  'train': {'world': LINE, 'model': 'ngram()', 'out': 'new'},
}
SEED = ('-1', '4294967296', '0.5', LONG)
# Flags of each type; their limits are those of the library's arguments.
TYPED = {
  ('sample', 'num'): ('0', '-3', '2.5', 'ten', '', LONG),
  ('train', 'lr'): ('-1', 'nan', 'inf', 'x'),
  ('train', 'decay_all'): ('perhaps',),
  ('train', 'batching'): ('none',),
}
SPECS = (  # Of every kind; see by_spec.py for those of each.
  *('nope', 'nope()', '()', '', ' ', '1', 'a b', 'x.py', 'x.py:', ':World'),
  *('gone.py:World()', '\0', SURROGATE, 'x' * 5000, '(' * 300, 'uniform(('),
)
ODD: dict[str, dict[str, tuple[str, ...]]] = {
  'ask': {
    'budget': ('', '5', '-5usd', '1eur', 'nantok', LONG),
    'prices': ('gone.json', 'm.osm'),
    'metric_overrides': ('trials', 'nope=1'),
    'name': ('', 'a\nb'),
  },
  'count': {'state': ('7', '-1', '1 2 right', LONG)},
  'explore': {
    'port': ('-1', '65536', 'x'),
    'run': ('gone', '', SURROGATE),
    'accept': ('nope', 'epsilon(2)'),
    'open': ('nope', 'prefix=nowhere', 'from=1', SURROGATE, LONG),
  },
  'extract': {
    'accept': ('nope', 'epsilon(2)'),
    'longest_word': ('-1', '1', '13', 'x'),
    'out': (' ', 'm.osm', 'm.osm/inner'),
    'queries': ('99', '1e9', 'x'),
  },
  'ingest': {'shard': ('1', '0/0', '2/2', '-1/2', 'a/b', LONG)},
  'plan': {
    'topology': (
      *('', 'v5e', 'v9:2x2', 'v5e:0x2', 'h100:0', 'h100:8x2', 'cpu:0'),
      *('cpu:2000', 'cpu:99999', LONG),
    ),
    'length': ('-1', '99', 'x'),
  },
  'reconstruct': {
    'order': ('-1', 'first'),
    'variant': ('mine', ''),
    'pairs': ('all',),
    'routes': ('oracle()', 'a: ', 'a: nope()', ': oracle()'),
  },
  'report': {'paper': ('nope', '')},
  'export': {
    'task': ('', 'nope'),
    'option': ('world', 'wrold=maps()', 'form=tool', 'max_tokens=0'),
  },
  'score': {
    'checkpoint': ('none_such', 'best/../x'),
    'metric_overrides': ('trials', 'trials=', 'trails=3', 'trials=-1', 'a.b=1'),
  },
  'study': {
    'grid': ('lr', 'world=a|b', 'match=steps|tokens', 'steps=0', 'seed=x')
  },
  'sweep': {
    'grid': ('lr', 'lr=', '=1', 'lr=1|1', 'lr=x', 'out=a|b', 'lr=nan'),
    'per': ('width',),
    'winners_of': ('none', 'm.osm'),
  },
  'train': {
    'keep': ('500', 'every:0', 'every:x', LONG),
    'accumulate': ('-1', '3', '1000000000'),
    'data': ('none', 'm.osm', ''),
    'start': ('none', 'm.osm'),
  },
}
OUTS = (
  *('', ' ', '/proc/x', 'dangling', 'dangling/inner', 'm.osm', 'm.osm/inner'),
  *('x' * 300, 'a\0b', 'pipe', 'round'),
)
# Of file systems that are unknown, or lack a package; and no folder at all.
URLS = (
  *('nope://a/b', 's3://', 'file:///m.osm', 'memory://a/../b', 'abfs://a/b'),
  'memory://gone/run',
)
URL_FLAGS = {
  'out': 'sample',
  'pgn': 'ingest',
  'run': 'explore',
  'runs': 'report',
  'data': 'train',
  'start': 'train',
  'row': 'study',
}
FILES: tuple[Action, ...] = (
  put('m.osm', 'no map'),
  put('w.pt', 'no weights'),
  put('g.pgn', '1. e4 *\n'),
  fifo('pipe'),
  loop('round'),
  lambda: os.symlink('nothing', 'dangling'),
)


def command(binary: str, **flags: str) -> tuple[str, ...]:
  """A good command line of a binary with other values of some flags."""
  return binary, *(f'--{k}={v}' for k, v in (GOOD[binary] | flags).items())


def _short(text: str) -> str:
  text = ascii(text)[1:-1]
  return text if len(text) < 40 else f'{text[:20]}~{len(text)}'


def _wrong(binary: str, flag: str, values: tuple[str, ...]) -> Iterator[Case]:
  for value in values:
    yield Case(
      'flags',
      f'{binary} {flag}={_short(value)}',
      command(binary, **{flag: value}),
      FILES,
    )


def flags() -> Iterator[Case]:
  """Numbers, choices and texts of each binary's flags."""
  for binary, good in GOOD.items():
    if binary not in ('report', 'export', 'list'):
      yield from _wrong(binary, 'seed', SEED[: 2 if binary != 'train' else 4])
    for flag, values in ODD.get(binary, {}).items():
      yield from _wrong(binary, flag, values)
    for kind, good_value in good.items():
      if kind in ('world', 'model', 'metric'):
        taken = SPECS if binary == 'score' else SPECS[len(binary) % 4 :: 4]
        yield from _wrong(binary, kind, taken)
      elif good_value == 'new':
        yield from _wrong(binary, kind, OUTS)


def typed() -> Iterator[Case]:
  """Texts that are no value of a flag's type."""
  for (binary, flag), values in TYPED.items():
    yield from _wrong(binary, flag, values)


def urls() -> Iterator[Case]:
  """Folders and files that no file system has."""
  for flag, binary in URL_FLAGS.items():
    for url in URLS[: 5 if flag == 'out' else 6]:
      value = f'a: {url}' if flag == 'row' else url
      run = command(binary, **{flag: value})
      yield Case('flags', f'{binary} {flag}={url}', run, FILES)


def lines() -> Iterator[Case]:
  """Command lines that lack a flag, or have what is none."""
  for binary, good in GOOD.items():
    tried: list[tuple[str, tuple[str, ...]]] = [
      ('unknown flag', (*command(binary), '--nope=1')),
      ('argument', (*command(binary), 'more')),
      ('flagfile gone', (binary, '--flagfile=gone.flags')),
    ]
    for name in good:
      rest = {k: v for k, v in good.items() if k != name}
      if name != 'num':  # It has a default.
        without = binary, *(f'--{k}={v}' for k, v in rest.items())
        tried.append((f'no {name}', without))
    for what, line in tried:
      yield Case('command lines', f'{binary} {what}', line, FILES)


def flagfiles() -> Iterator[Case]:
  """Files of flags that cannot be read or say nonsense."""
  texts = {
    'words': 'this is no flag\n',
    'unknown': '--nope=1\n',
    'old name': '--fields=trials=5\n',
    'bytes': b'--name=\xff\xfe\n',
    'nul': '--world=lattice(\0)\n',
    'number': '--num=many\n',
    'another': '--flagfile=gone.flags\n',
  }
  shapes: dict[str, tuple[Action, ...]] = {
    **{name: (put('f.flags', text),) for name, text in texts.items()},
    'folder': (folder('f.flags'),),
    'pipe': (fifo('f.flags'),),
    'loop': (loop('f.flags'),),
  }
  for name, files in shapes.items():
    for binary in ('sample', 'study'):
      line = (*command(binary), '--flagfile=f.flags')
      yield Case('flagfiles', f'{binary} {name}', line, files)
    grid = command('sweep', grid='flagfile=f.flags|f.flags')
    yield Case('flagfiles', f'sweep grid {name}', grid, files)
  locked = put('f.flags', '--num=5\n'), closed('f.flags')
  line = (*command('sample'), '--flagfile=f.flags')
  yield Case('flagfiles', 'sample closed', line, locked, user=NOBODY)


def maps() -> Iterator[Case]:
  """Limits of several maps."""
  for value in ('4', '0, 1', '4, x', '4, nan', '4, -1', '4, .5, 6', ''):
    run = (*command('reconstruct', routes='a: oracle()', limits=value),)
    yield Case('flags', f'reconstruct limits={value}', run, FILES)


def all() -> Iterator[Case]:
  """Every case of this file."""
  yield from flags()
  yield from typed()
  yield from maps()
  yield from urls()
  yield from lines()
  yield from flagfiles()
