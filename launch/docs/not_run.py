"""Writes into the heads of flagfiles what a run that has no result here takes.

  python launch/docs/not_run.py

A head's paragraph `Not run:` has the hours of one H100, by 6ND: six operations
for each parameter and token, at SHARE of its peak in bfloat16. Tokens are those
of sequences, without pads, so it is a lower bound. In `pods/` it is the time of
the recorded plan. A test compares.
"""

from __future__ import annotations

import json
import math
import pathlib
import re
import sys
import textwrap
from collections.abc import Mapping
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from wm.core import registry  # noqa: E402
from wm.library.plan import CHIPS  # noqa: E402
from wm.models.nn.network import NetworkSpec  # noqa: E402

FLAGS = ROOT / 'launch' / 'flags'
SHARE = 0.4
# Files whose own runs have no result, as a pattern -> tokens of a sequence on
# average (as published, or the world's own), and vocabulary and longest
# sequence where the world needs files to say so.
RUNS: Mapping[str, tuple[float, tuple[int, int] | None]] = {
  'vafa2024/manhattan_shortest': (41.1, (4589, 99)),
  'vafa2024/manhattan_noisy': (54.8, (4589, 99)),
  'vafa2024/manhattan_random': (52.2, (4589, 102)),
  'vafa2024/othello_*': (60, (62, 60)),
  'inductive2025/lattice_*': (100, None),
  'inductive2025/othello_*': (60, None),
  'inductive2025/orbits_published': (1000, None),
  'chess2026/sizes/*': (72.5, None),
}
# A search -> runs of each size in chess2026/sizes, and the share of its steps.
SEARCHES = {'chess2026/stage1': (108, 1 / 4), 'chess2026/stage2': (2, 1.0)}
FAMILIES = 'transformer', 'slice', 'mamba3', 'deltanet'
LINE = 'Not run: needs {hours} H100-hours ({what}).'


def values(path: pathlib.Path) -> dict[str, str]:
  """Flags of a flagfile and of those that it reads; the last counts."""
  result: dict[str, str] = {}
  for line in path.read_text(encoding='utf-8').splitlines():
    name, _, value = line.removeprefix('--').partition('=')
    if line.startswith('--flagfile='):
      result |= values(ROOT / value)
    elif line.startswith('--'):
      result[name] = value
  return result


def hours(path: pathlib.Path) -> tuple[float, int, float]:
  """H100-hours of a training run, its parameters and its tokens."""
  name = str(path.relative_to(FLAGS).with_suffix(''))
  length, sizes = next(
    each for glob, each in RUNS.items() if pathlib.PurePath(name).match(glob)
  )
  flags = values(path)
  outputs = 0
  if sizes is None:
    world: Any = registry.resolve('world', flags['world'])
    sizes = len(world.vocab), world.max_len
    if flags.get('objective') == 'state':
      outputs = sum(world.heads.sizes)
  model: Any = registry.resolve('model', flags['model'])
  num = NetworkSpec(model, *sizes, outputs).num_params
  tokens = int(flags['steps']) * int(flags['batch']) * length
  rate = SHARE * CHIPS['h100'].flops
  return 6 * num * tokens / rate / 3600, num, tokens


def paragraph(path: pathlib.Path) -> str:
  """What the head of a flagfile says of its cost."""
  name = str(path.relative_to(FLAGS).with_suffix(''))
  if name in SEARCHES:
    runs, share = SEARCHES[name]
    sizes = [
      file
      for family in FAMILIES
      for file in sorted(
        (FLAGS / 'chess2026' / 'sizes').glob(f'{family}_d[0-9]*')
      )
    ]
    total = runs * share * sum(hours(file)[0] for file in sizes)
    what = f'{runs * len(sizes):,} runs of the settings in sizes/'
    return LINE.format(hours=_short(total), what=what)
  if path.parent.name == 'pods':
    plan = json.loads(path.with_suffix('.json').read_text(encoding='utf-8'))
    days = next(x for label, x in plan['rows'] if label.startswith('days'))
    shape = values(path)['topology'].partition(':')[2]
    chips = math.prod(int(size) for size in shape.split('x'))
    what = 'chip-hours at least, by the plan below'
    return f'Not run: needs {_short(24 * days * chips)} {what}.'
  total, num, tokens = hours(path)
  what = (
    f'{num / 1e6:,.1f} M parameters, {tokens / 1e9:,.3g} G tokens, 6ND at '
    f'{SHARE:.0%} of {CHIPS["h100"].flops / 1e12:.0f} TFLOP/s'.replace(
      '%', ' %'
    )
  )
  return LINE.format(hours=_short(total), what=what)


def _short(number: float) -> str:
  digits = max(0, 1 - len(str(int(number)))) if number >= 1 else 2
  return f'{number:,.{digits}f}' if number >= 10 else f'{number:.2g}'


def files() -> list[pathlib.Path]:
  """Flagfiles whose head has the paragraph with a cost of its own."""
  names = [*RUNS, *SEARCHES, 'pods/*']
  return sorted(p for n in names for p in FLAGS.glob(f'{n}.flags'))


def written(path: pathlib.Path) -> str:
  """The text of a flagfile with its paragraph as it should be."""
  lines = textwrap.wrap(paragraph(path), 77, break_on_hyphens=False)
  text = ''.join(f'# {line}\n' for line in lines)
  return re.sub(
    r'(?m)^# Not run: needs [\d.,e]+ \S+-hours.+\n(# .+\n)*',
    text,
    path.read_text(encoding='utf-8'),
    count=1,
  )


if __name__ == '__main__':
  for each in files():
    each.write_text(written(each), encoding='utf-8')
    print(each.relative_to(ROOT), paragraph(each))
