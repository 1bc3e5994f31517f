"""Logs of Inspect, damaged."""

from __future__ import annotations

from collections.abc import Iterator

from tests.attack.bases import LOG
from tests.attack.by_folder import DEEP
from tests.attack.case import (
  Action,
  Case,
  cut,
  drop,
  edit,
  fifo,
  folder,
  put,
  replace,
)

HELD = f'logs/{LOG}'
READ_LOG = 'report', '--runs=logs', '--out=new'


def all() -> Iterator[Case]:
  """Every case of this file."""
  ways: dict[str, tuple[Action, ...]] = {
    'cut': (cut(HELD, 0.7),),
    'empty': (put(HELD),),
    'deep': (put(HELD, DEEP),),
    'pipe': (fifo(HELD),),
    'a folder': (folder(HELD),),
    'samples gone': (drop(HELD, 'samples'),),
    'no samples': (edit(HELD, 'samples', to=[]),),
    'samples a text': (edit(HELD, 'samples', to='x'),),
    'task a number': (edit(HELD, 'eval', 'task', to=5),),
    'eval gone': (drop(HELD, 'eval'),),
    'status odd': (edit(HELD, 'status', to='lost'),),
    'world is none': (replace(HELD, 'maps(rows=3, columns=3)', 'nope()'),),
    'world cut': (replace(HELD, 'maps(rows=3, columns=3)', 'maps(('),),
    'metric is none': (replace(HELD, 'compression(', 'nope('),),
    'trial a list': (edit(HELD, 'samples', 0, 'metadata', to=[1]),),
    'no metadata': (edit(HELD, 'samples', 0, 'metadata', to={}),),
    'scores a text': (edit(HELD, 'samples', 0, 'scores', to='x'),),
  }
  for name, files in ways.items():
    yield Case(*('logs', name, READ_LOG, files, ('logs',)), needs='inspect_ai')
