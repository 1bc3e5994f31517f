"""Run folders, data and results whose files are damaged, cut or of no sense."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.attack.bases import LINE, WORLD
from tests.attack.case import (
  Action,
  Case,
  closed,
  cut,
  drop,
  edit,
  fifo,
  flip,
  folder,
  gone,
  loop,
  put,
  replace,
)

DEEP = '[' * 100_000
WORLD_FLAG = f'--world={WORLD}'
SCORE = ('score', WORLD_FLAG, '--metric=next_token(num=5)', '--out=new')
OF_RUN = (*SCORE, '--checkpoint=trained')
TRAIN = (
  *('train', WORLD_FLAG, '--model=ngram(order=2)', '--out=new'),
  '--data=sampled/data',
)
REPORT = 'report', '--runs=scored', '--out=new'
# Of a number, of a text, of a list or an object.
WRONG: dict[type, tuple[Any, ...]] = {
  int: ('x', None, [1], 1.5, -1),
  float: ('x', [], {}, True),
  str: (5, None, ['a'], {'a': 1}),
  bool: (5, 'x'),
  list: ('x', 5, {}, [5]),
  dict: ('x', 5, [], None),
  type(None): ({}, 'x', []),
}


def _shapes(path: str, whole: bool = True) -> dict[str, tuple[Action, ...]]:
  """Ways in which a JSON file is none."""
  ways: dict[str, tuple[Action, ...]] = {
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
  return ways if whole else {k: ways[k] for k in ('cut', 'list', 'pipe')}


def _files(
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


def _keys(
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


def _lacks(
  category: str, base: str, path: str, run: tuple[str, ...], *keys: str | int
) -> Case:
  name = f'{base}/{path} without {keys[-1]}'
  files = (drop(f'{base}/{path}', *keys),)
  return Case(category, name, run, files, (base,), says=str(keys[-1]))


MANIFEST = {
  'format': str,
  'world': str,
  'world_version': str,
  'seed': int,
  'split': str,
  'num': int,
  'vocab_size': int,
  'vocab_sha256': str,
  'end': int,
  'max_len': int,
  'dtype': str,
  'rows': int,
  'tokens': int,
  'counts': dict,
  'shards': list,
}
SHARD = {
  'name': str,
  'rows': int,
  'tokens': int,
  'tokens_sha256': str,
  'offsets_sha256': str,
}


def data() -> Iterator[Case]:
  """Stored sequences, as training reads them."""
  kind = 'stored sequences'
  path = 'data/train/manifest.json'
  yield from _files(kind, 'sampled', path, TRAIN)
  yield from _keys(kind, 'sampled', path, MANIFEST, TRAIN, each=2)
  yield from _keys(kind, 'sampled', path, SHARD, TRAIN, ('shards', 0))
  for key in ('format', 'shards', 'vocab_sha256', 'dtype', 'rows', 'end'):
    yield _lacks(kind, 'sampled', path, TRAIN, key)
  place = 'sampled/data/train/00000'
  ways: dict[str, tuple[Action, ...]] = {
    'tokens flipped': (flip(f'{place}.tokens', 1),),
    'tokens cut': (cut(f'{place}.tokens'),),
    'tokens gone': (gone(f'{place}.tokens'),),
    'tokens folder': (folder(f'{place}.tokens'),),
    'tokens pipe': (fifo(f'{place}.tokens'),),
    'offsets flipped': (flip(f'{place}.offsets', 2),),
    'offsets cut': (cut(f'{place}.offsets'),),
    'offsets gone': (gone(f'{place}.offsets'),),
    'offsets empty': (put(f'{place}.offsets'),),
    'shard outside': (edit(f'sampled/{path}', 'shards', 0, 'name', to='../../x'),),
    'dtype of Python': (edit(f'sampled/{path}', 'dtype', to='|O'),),
    'other format': (edit(f'sampled/{path}', 'format', to='wm-sequences-9'),),
    'of another world': (edit(f'sampled/{path}', 'vocab_size', to=7),),
    'more rows': (edit(f'sampled/{path}', 'rows', to=10**12),),
    'heldout gone': (gone('sampled/data/heldout/manifest.json'),),
  }
  for name, files in ways.items():
    yield Case(kind, name, TRAIN, files, ('sampled',))
  again = 'sample', WORLD_FLAG, '--num=200', '--num_heldout=40', '--seed=2'
  for name, run in {
    'of another seed': (*again, '--out=sampled'),
    'other sizes': (*again[:2], '--num=9', '--seed=1', '--out=sampled'),
    'counted': ('count', '--coverage=sampled', '--coverage=nowhere'),
  }.items():
    yield Case(kind, name, run, (), ('sampled',))
  yield from _files(
    kind,
    'sampled',
    path,
    ('count', '--coverage=sampled/data/train', '--out=new'),
    whole=False,
  )


RUN = {
  'world': str,
  'model': str,
  'seed': int,
  'objective': str,
  'max_len': int,
  'vocab_sha256': str,
  'data_sha256': str,
  'world_version': str,
  'model_version': str,
  'steps': int,
}


def runs() -> Iterator[Case]:
  """Training runs, as scoring and further training read them."""
  kind = 'training runs'
  score = (*SCORE, '--checkpoint=scored')
  yield from _files(kind, 'scored', 'train.run.json', score)
  yield from _keys(kind, 'scored', 'train.run.json', RUN, score, each=2)
  for key in ('world', 'model', 'max_len', 'objective'):
    if key != 'objective':  # Earlier versions had none.
      yield _lacks(kind, 'scored', 'train.run.json', score, key)
  place = 'scored/checkpoints/8'
  for name in (
    'params/_METADATA',
    'params/manifest.ocdbt',
    'params/_sharding',
    'progress/metadata',
    '_CHECKPOINT_METADATA',
  ):
    yield Case(
      kind, f'{name} flipped', score, (flip(f'{place}/{name}', 3),), ('scored',)
    )
    yield Case(
      kind, f'{name} gone', score, (gone(f'{place}/{name}'),), ('scored',)
    )
  yield from _files(kind, 'scored', 'checkpoints/8/sha256.json', score)
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
      yield Case(kind, name, score, files, ('scored',))
  go_on = (
    *('train', WORLD_FLAG, '--model=transformer(layers=1, width=8, heads=2)'),
    *('--steps=8', '--batch=8', '--eval_every=4', '--save_every=4'),
    *('--warmup=2', '--seed=1', '--lr=0.001', '--optimizer=adamw'),
  )
  for name, more, files in (
    ('of other steps', ('--steps=9',), ()),
    ('of another model', ('--model=ngram()',), ()),
    ('of another world', (f'--world={LINE}',), ()),
    ('log cut', (), (cut('half/metrics.jsonl', 0.9),)),
    ('log of words', (), (put('half/metrics.jsonl', 'step one\n'),)),
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
    'gone': (gone(place),),
    'folder': (folder(place),),
    'pipe': (fifo(place),),
    'words': (put(place, 'weights'),),
  }.items():
    yield Case(kind, f'fitted.npz {name}', fitted, files, ('ngram',))


ENTRY = {
  'metric': str,
  'quantity': str,
  'world': str,
  'model': str,
  'n': int,
  'value': float,
  'low': float,
  'high': float,
  'unmeasured': dict,
  'seed': int,
  'spec': str,
  'counts': dict,
  'clusters': int,
  'interval': str,
  'training_seed': int,
  'commit': str,
  'recipe': str,
  'training': str,
  'checkpoint': str,
  'step': int,
  'metric_version': str,
  'wm_version': str,
  'accept': str,
}


def results() -> Iterator[Case]:
  """Results, as reports read them."""
  kind = 'results'
  yield from _files(kind, 'scored', 'scores.json', REPORT)
  yield from _files(kind, 'scored', 'breakdown.json', REPORT, whole=False)
  yield from _keys(kind, 'scored', 'scores.json', ENTRY, REPORT, (0,), each=2)
  for key in ('metric', 'quantity', 'value', 'n', 'seed'):
    yield _lacks(kind, 'scored', 'scores.json', REPORT, 0, key)
  for name in ('train.run.json', 'train.json'):
    yield from _files(kind, 'scored', name, REPORT, whole=False)
  training = {'parameters': int, 'seconds': float, 'step': int}
  yield from _keys(kind, 'scored', 'train.json', training, REPORT)
  ways: dict[str, tuple[Action, ...]] = {
    'value nan': (replace('scored/scores.json', '"n": 40', '"n": NaN'),),
    'value infinite': (edit('scored/scores.json', 0, 'low', to=float('inf')),),
    'value huge': (edit('scored/scores.json', 0, 'value', to=1e308),),
    'n of 400 digits': (edit('scored/scores.json', 0, 'n', to=10**400),),
    'n below zero': (edit('scored/scores.json', 0, 'n', to=-3),),
    'where of lists': (edit('scored/scores.json', 0, 'where', to={'a': [1]}),),
    'commit a number': (edit('scored/scores.json', 0, 'commit', to=7),),
    'metric of a file': (
      put('evil.py', 'open("ran", "w")\n'),
      edit('scored/scores.json', 0, 'spec', to='evil.py:Metric()'),
      edit('scored/scores.json', 0, 'metric', to='evil.py:Metric'),
    ),
    'world of a file': (
      put('evil.py', 'open("ran", "w")\n'),
      edit('scored/scores.json', 0, 'world', to='evil.py:World()'),
    ),
    'rows.csv without heads': (put('scored/rows.csv'),),
    'rows.csv cut': (cut('scored/rows.csv', 0.7),),
    'rows.csv bytes': (put('scored/rows.csv', b'metric,value\n\xff\xfe,1\n'),),
    'rows.csv pipe': (fifo('scored/rows.csv'),),
    'rows.csv folder': (folder('scored/rows.csv'),),
    'rows.csv of words': (
      put('scored/rows.csv', 'metric,quantity,value\na,b,c\n'),
    ),
    'rows.csv wide': (put('scored/rows.csv', 'metric,value\na,1,2,3\n'),),
    'log of words': (put('scored/metrics.jsonl', 'step one\n'),),
    'log deep': (put('scored/metrics.jsonl', DEEP),),
    'log a list': (put('scored/metrics.jsonl', '[1]\n'),),
    'log pipe': (fifo('scored/metrics.jsonl'),),
    'log step x': (put('scored/metrics.jsonl', '{"step": "x", "loss": 1}\n'),),
    'log loss huge': (
      put('scored/metrics.jsonl', '{"step": 1, "train_loss": 1e999}\n'),
    ),
    'summary a list': (put('scored/summary.json', '[]'),),
    'summary of words': (put('scored/summary.json', '{"counts": "many"}'),),
    'summary pipe': (fifo('scored/summary.json'),),
    'coverage a list': (put('scored/coverage.json', '[1]'),),
    'coverage words': (put('scored/coverage.json', '{"data": 4}'),),
  }
  for name, files in ways.items():
    yield Case(kind, name, REPORT, files, ('scored',))
  for name, run in {
    'no results': ('report', '--runs=sampled', '--out=new'),
    'no folder': ('report', '--runs=nowhere', '--out=new'),
    'one of two': ('report', '--runs=scored', '--runs=sampled', '--out=new'),
    'a file': ('report', '--runs=scored/rows.csv', '--out=new'),
    'a name too long': ('report', f'--runs={"x" * 5000}', '--out=new'),
  }.items():
    yield Case(kind, name, run, (), ('sampled', 'scored'))
  yield Case(
    kind, 'closed', REPORT, (closed('scored'),), ('scored',), user=65534
  )


def sweeps() -> Iterator[Case]:
  """Sweeps, studies and maps that are gone on with."""
  kind = 'sweeps and studies'
  grid = (
    *('sweep', WORLD_FLAG, '--model=ngram()', '--out=new'),
    *('--grid=seed=1|2', '--winners_of=sweep'),
  )
  yield from _files(kind, 'sweep', 'sweep.json', grid)
  listed = {'runs': list}
  yield from _keys(kind, 'sweep', 'sweep.json', listed, grid, each=4)
  one = {
    'name': str,
    'labels': dict,
    'flags': dict,
    'status': str,
    'best_loss': float,
  }
  yield from _keys(kind, 'sweep', 'sweep.json', one, grid, ('runs', 0), each=2)
  samples = (
    *('reconstruct', WORLD_FLAG, '--out=new'),
    '--samples=reconstructed/samples.txt',
  )
  place = 'reconstructed/samples.txt'
  ways: dict[str, tuple[Action, ...]] = {
    'gone': (gone(place),),
    'empty': (put(place),),
    'words': (put(place, 'this is no route\n'),),
    'bytes': (put(place, b'\xff\xfe\x00\x01' * 50),),
    'folder': (folder(place),),
    'pipe': (fifo(place),),
    'loop': (loop(place),),
    'a long line': (put(place, 'N ' * 200_000),),
    'nodes of no map': (put(place, '901 902 N S end\n'),),
  }
  for name, files in ways.items():
    yield Case(
      kind, f'samples {name}', samples, files, ('reconstructed',)
    )
  study = (
    *('study', WORLD_FLAG, '--metric=next_token(num=5)', '--out=new'),
  )
  for name, rows in {
    'row of a folder that is none': ('a: nowhere/run',),
    'row of a folder without a run': ('a: sampled',),
    'rows of one name': ('a: uniform()', 'a: oracle()'),
    'row without a name': (': uniform()',),
    'row of a path': ('../a: uniform()',),
    'row of an absolute path': ('/tmp/a: uniform()',),
    'row of a dot': ('.: uniform()',),
    'row called report': ('report: uniform()',),
    'row of a long name': (f'{"a" * 300}: uniform()',),
    'row with a NUL': ('a\0b: uniform()',),
    'row of no settings': ('a: ngram() on lattice() with',),
    'row of wrong settings': (f'a: ngram() on {WORLD} with stops=3',),
    'row of a wrong value': (f'a: ngram() on {WORLD} with steps=0',),
    'row of a wrong type': (f'a: ngram() on {WORLD} with steps="many"',),
    'row of code': (f'a: ngram() on {WORLD} with steps=open("x")',),
    'row on no world': ('a: ngram() on nope()',),
    'row scored on no world': (f'a: ngram() on {WORLD} then on nope()',),
    'row of another vocabulary': (f'a: ngram() on {WORLD} then on {LINE}',),
    'row that is not trained': ('a: ngram()',),
    'row trained that cannot be': (f'a: uniform() on {WORLD}',),
    'row with seeds': (f'a: ngram() on {WORLD} with seeds=-1',),
    'row of a stranger': ('a: uniform',),
  }.items():
    run = (*study, *(f'--row={row}' for row in rows))
    yield Case(kind, name, run, (), ('sampled',))


def all() -> Iterator[Case]:
  """Every case of this file."""
  yield from data()
  yield from runs()
  yield from results()
  yield from sweeps()
