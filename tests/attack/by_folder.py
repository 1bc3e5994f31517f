"""Run folders, data and results whose files are damaged, cut or of no sense."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

from tests.attack.bases import LINE, WORLD
from tests.attack.case import (
  Action,
  Case,
  cut,
  drop,
  edit,
  fifo,
  flip,
  folder,
  gone,
  loop,
  put,
)

DEEP = '[' * 100_000
WORLD_FLAG = f'--world={WORLD}'
SCORE = ('score', WORLD_FLAG, '--metric=next_token(num=5)', '--out=new')
TRAIN = (
  *('train', WORLD_FLAG, '--model=ngram(order=2)', '--out=new'),
  '--data=sampled/data',
)
# Of a number, of a text, of a list or an object.
WRONG: dict[type, tuple[Any, ...]] = {
  int: ('x', [1], 1.5, {'a': 1}),
  float: ('x', [], {}),
  str: (5, ['a'], {'a': 1}, 1.5),
  bool: (5, 'x'),
  list: ('x', 5, {}, [5]),
  dict: ('x', 5, [], None),
  type(None): ({}, 'x', []),
}


def _shapes(path: str, whole: bool = True) -> dict[str, tuple[Action, ...]]:
  """Ways in which a JSON file is none."""
  spoilt: dict[str, tuple[Action, ...]] = {
    'empty': (put(path),),
    'cut': (cut(path, 0.6),),
    'bytes': (put(path, b'\xff\xfe\x00{'),),
    'deep': (put(path, DEEP),),
    'folder': (folder(path),),
    'pipe': (fifo(path),),
    'loop': (loop(path),),
    'list': (edit(path, to=[1]),),
    'null': (edit(path, to=None),),
    'number': (put(path, '9' * 5000),),
  }
  return spoilt if whole else {k: spoilt[k] for k in ('cut', 'list', 'pipe')}


def ways(
  category: str,
  base: str,
  path: str,
  run: tuple[str, ...],
  whole: bool = True,
  **more: Any,
) -> Iterator[Case]:
  """A file that can't be read, in each way."""
  for way, files in _shapes(f'{base}/{path}', whole).items():
    yield Case(
      category, f'{run[0]} {base}/{path} {way}', run, files, (base,), **more
    )


def wrong(
  category: str,
  base: str,
  path: str,
  kinds: dict[str, type],
  run: tuple[str, ...],
  where: tuple[str | int, ...] = (),
  each: int = 1,
) -> Iterator[Case]:
  """Values of wrong types at each key of a JSON file, and keys left out."""
  full = f'{base}/{path}'
  for number, (key, kind) in enumerate(kinds.items()):
    values = WRONG[kind]
    for k in range(each):
      value = values[(number + k) % len(values)]
      name = f'{full} {" ".join(map(str, (*where, key)))}={value!r}'
      files = (edit(full, *where, key, to=value),)
      yield Case(category, name, run, files, (base,), says='')


def without(
  category: str, base: str, path: str, run: tuple[str, ...], *keys: str | int
) -> Case:
  name = f'{base}/{path} without {keys[-1]}'
  files = (drop(f'{base}/{path}', *keys),)
  return Case(category, name, run, files, (base,), says=str(keys[-1]))


def data() -> Iterator[Case]:
  """Stored sequences, as training reads them."""
  kind = 'stored sequences'
  path = 'data/train/manifest.json'
  yield from ways(kind, 'sampled', path, TRAIN)
  for key in ('format', 'shards', 'dtype', 'rows'):
    yield without(kind, 'sampled', path, TRAIN, key)
  place = 'sampled/data/train/00000'
  spoilt: dict[str, tuple[Action, ...]] = {
    'tokens flipped': (flip(f'{place}.tokens', 1),),
    'tokens gone': (gone(f'{place}.tokens'),),
    'tokens pipe': (fifo(f'{place}.tokens'),),
    'offsets cut': (cut(f'{place}.offsets'),),
    'offsets empty': (put(f'{place}.offsets'),),
    'shard outside': (
      edit(f'sampled/{path}', 'shards', 0, 'name', to='../../x'),
    ),
    'dtype of Python': (edit(f'sampled/{path}', 'dtype', to='|O'),),
    'other format': (edit(f'sampled/{path}', 'format', to='wm-sequences-9'),),
    'of another world': (edit(f'sampled/{path}', 'vocab_sha256', to='00'),),
    'more rows': (edit(f'sampled/{path}', 'rows', to=10**12),),
    'heldout gone': (gone('sampled/data/heldout/manifest.json'),),
  }
  for name, files in spoilt.items():
    yield Case(kind, name, TRAIN, files, ('sampled',))
  again = 'sample', WORLD_FLAG, '--num=200', '--num_heldout=40', '--seed=2'
  for name, run in {
    'of another seed': (*again, '--out=sampled'),
    'other sizes': (*again[:2], '--num=9', '--seed=1', '--out=sampled'),
  }.items():
    yield Case(kind, name, run, (), ('sampled',))


RUN = {
  'world': str,
  'model': str,
  'seed': int,
  'objective': str,
  'max_len': int,
  'vocab_sha256': str,
}


def _load() -> None:
  import wm

  wm.load_predictor(pathlib.Path('scored'))


def runs() -> Iterator[Case]:
  """Training runs, as scoring and further training read them."""
  kind = 'training runs'
  score = (*SCORE, '--checkpoint=scored')
  yield from ways(kind, 'scored', 'train.run.json', score)
  yield from wrong(kind, 'scored', 'train.run.json', RUN, score, each=2)
  for key in ('world', 'model', 'max_len'):
    yield without(kind, 'scored', 'train.run.json', score, key)
  place = 'scored/checkpoints/8'
  for name in (
    'params/_METADATA',
    'params/manifest.ocdbt',
    'params/_sharding',
    'progress/metadata',
  ):
    yield Case(
      kind, f'{name} flipped', score, (flip(f'{place}/{name}', 3),), ('scored',)
    )
    yield Case(
      kind, f'{name} gone', score, (gone(f'{place}/{name}'),), ('scored',)
    )
  yield from ways(kind, 'scored', 'checkpoints/8/sha256.json', score)
  for name in ('params/_METADATA', 'progress/metadata'):
    yield Case(
      kind, f'{name} pipe', score, (fifo(f'{place}/{name}'),), ('scored',)
    )
  specs = {
    'world': ('nope()', 'lattice()', 'evil.py:World()', 'x' * 20_000),
    'model': ('nope()', 'uniform()', 'transformer(layers=3)', 'transformer(('),
  }
  for key, values in specs.items():
    for value in values:
      files = (edit('scored/train.run.json', key, to=value),)
      name = f'{key} is {value[:30]}'
      yield Case(kind, name, _load, files, ('scored',))


def later_runs() -> Iterator[Case]:
  """Runs that are gone on with, and models that are counted."""
  kind = 'training runs'
  go_on = (
    *('train', WORLD_FLAG, '--model=transformer(layers=1, width=8, heads=2)'),
    *('--steps=8', '--batch=8', '--eval_every=4', '--save_every=4'),
    *('--warmup=2', '--seed=1', '--lr=0.001', '--optimizer=adamw'),
  )
  for name, more, files in (
    ('of another rate', ('--lr=0.5',), ()),
    ('of another model', ('--model=ngram()',), ()),
    ('of another world', (f'--world={LINE}',), ()),
    ('log a pipe', (), (fifo('half/metrics.jsonl'),)),
    ('record cut', (), (cut('half/train.run.json'),)),
    ('data flipped', (), (flip('half/data/train/00000.tokens', 5),)),
    ('checkpoint flipped', (), (flip('half/checkpoints/4/sha256.json', 5),)),
    ('data gone', (), (gone('half/data/train/manifest.json'),)),
  ):
    yield Case(
      kind, f'goes on {name}', (*go_on, *more, '--out=half'), files, ('half',)
    )
  fitted = 'score', f'--world={LINE}', '--metric=next_token(num=5)'
  fitted += '--checkpoint=ngram', '--out=new'
  place = 'ngram/checkpoints/fitted.npz'
  for name, files in {
    'flipped': (flip(place, 7, 20),),
    'cut': (cut(place),),
    'empty': (put(place),),
    'words': (put(place, 'weights'),),
  }.items():
    yield Case(kind, f'fitted.npz {name}', fitted, files, ('ngram',))


def sweeps() -> Iterator[Case]:
  """Sweeps, studies and maps that are gone on with."""
  kind = 'sweeps and studies'
  grid = (
    *('sweep', WORLD_FLAG, '--model=ngram()', '--out=new'),
    *('--grid=seed=1|2', '--winners_of=sweep', '--data=sweep/data'),
  )
  yield from ways(kind, 'sweep', 'sweep.json', grid)
  samples = (
    *('reconstruct', WORLD_FLAG, '--out=new'),
    '--samples=reconstructed/samples.txt',
  )
  place = 'reconstructed/samples.txt'
  spoilt: dict[str, tuple[Action, ...]] = {
    'empty': (put(place),),
    'words': (put(place, 'this is no route\n'),),
    'bytes': (put(place, b'\xff\xfe\x00\x01' * 50),),
    'nodes of no map': (put(place, '901 902 N S end\n'),),
  }
  for name, files in spoilt.items():
    yield Case(kind, f'samples {name}', samples, files, ('reconstructed',))
  study = (*('study', WORLD_FLAG, '--metric=next_token(num=5)', '--out=new'),)
  for name, rows in {
    'row of an absolute path': ('/tmp/a: uniform()',),
    'row of a long name': (f'{"a" * 300}: uniform()',),
    'row with a NUL': ('a\0b: uniform()',),
    'row of code': (f'a: ngram() on {WORLD} with steps=open("x")',),
  }.items():
    run = (*study, *(f'--row={row}' for row in rows))
    yield Case(kind, name, run, (), ('sampled',))


def all() -> Iterator[Case]:
  """Every case of this file."""
  yield from data()
  yield from runs()
  yield from later_runs()
  yield from sweeps()
