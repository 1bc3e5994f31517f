"""Good folders that cases damage: golden runs, and what binaries make."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

GOLDEN = (
  *('half', 'reconstructed', 'sampled', 'scored', 'study', 'sweep'),
  'trained',
)
WORLD = 'maps(rows=3, columns=3, max_moves=12)'  # Of the golden folders.
LOG = '2026-01-01T00-00-00_world_x.json'  # Of the folder logs.
LINE = 'lattice(size=3, length=12)'


def _log() -> None:
  import inspect_ai

  from wm.language import (
    registry,  # noqa: F401
    world_task,
  )

  metrics = "compression(suffixes='world', k=1, samples=2, trials=3)"
  inspect_ai.eval(
    world_task.world(world='maps(rows=3, columns=3)', metrics=metrics),
    model='wm/yes',
    log_dir='logs',
    log_format='json',
    display='none',
    score_display=False,
  )
  (log,) = pathlib.Path('logs').glob('*.json')
  log.rename(log.with_name(LOG))


# Name -> commands or calls that make it; run where it will be.
MADE: dict[str, tuple[tuple[str, ...] | Callable[[], None], ...]] = {
  'logs': (_log,),
  'ngram': (
    (
      'sample',
      f'--world={LINE}',
      '--num=60',
      '--num_heldout=20',
      '--out=ngram',
    ),
    ('train', f'--world={LINE}', '--model=ngram(order=2)', '--out=ngram'),
    ('score', f'--world={LINE}', '--metric=next_token(num=10)', '--out=ngram'),
  ),
}
