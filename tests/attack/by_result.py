"""Results of runs that are damaged or of no sense, as reports read them."""

from __future__ import annotations

from collections.abc import Iterator

from tests.attack.by_folder import DEEP, ways, without, wrong
from tests.attack.case import (
  NOBODY,
  Action,
  Case,
  closed,
  edit,
  fifo,
  folder,
  put,
  replace,
)

LONG_NAME = edit('scored/scores.json', 0, 'model', to='m' * 1_000_000)
REPORT = 'report', '--runs=scored', '--out=new'
ENTRY = {
  'metric': str,
  'n': int,
  'value': float,
  'unmeasured': dict,
  'clusters': int,
  'checkpoint': str,
}


def results() -> Iterator[Case]:
  """Results, as reports read them."""
  kind = 'results'
  yield from ways(kind, 'scored', 'scores.json', REPORT)
  yield from ways(kind, 'scored', 'breakdown.json', REPORT, whole=False)
  yield from wrong(kind, 'scored', 'scores.json', ENTRY, REPORT, (0,), each=2)
  for key in ('metric', 'quantity', 'value', 'n', 'seed'):
    yield without(kind, 'scored', 'scores.json', REPORT, 0, key)
  for name in ('train.run.json', 'train.json'):
    yield from ways(kind, 'scored', name, REPORT, whole=False)
  training = {'parameters': int, 'seconds': float, 'step': int}
  yield from wrong(kind, 'scored', 'train.json', training, REPORT)
  spoilt: dict[str, tuple[Action, ...]] = {
    'a model of a long name': (LONG_NAME,),
    'value nan': (replace('scored/scores.json', '"n": 40', '"n": NaN'),),
    'n of 400 digits': (edit('scored/scores.json', 0, 'n', to=10**400),),
    'n below zero': (edit('scored/scores.json', 0, 'n', to=-3),),
    'where of lists': (edit('scored/scores.json', 0, 'where', to={'a': [1]}),),
    'rows.parquet without heads': (put('scored/rows.parquet'),),
    'rows.parquet bytes': (
      put('scored/rows.parquet', b'metric,value\n\xff\xfe,1\n'),
    ),
    'rows.parquet pipe': (fifo('scored/rows.parquet'),),
    'rows.parquet folder': (folder('scored/rows.parquet'),),
    'log of words': (put('scored/metrics.jsonl', 'step one\n'),),
    'log deep': (put('scored/metrics.jsonl', DEEP),),
    'log pipe': (fifo('scored/metrics.jsonl'),),
    'log step x': (put('scored/metrics.jsonl', '{"step": "x", "loss": 1}\n'),),
    'log loss huge': (
      put('scored/metrics.jsonl', '{"step": 1, "train_loss": 1e999}\n'),
    ),
    'summary a list': (put('scored/summary.json', '[]'),),
    'extraction a list': (put('scored/extraction.json', '[]'),),
  }
  for name, files in spoilt.items():
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
    kind, 'closed', REPORT, (closed('scored'),), ('scored',), user=NOBODY
  )


def all() -> Iterator[Case]:
  """Every case of this file."""
  yield from results()
