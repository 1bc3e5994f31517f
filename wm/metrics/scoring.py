"""Runs metrics and writes scores.json, rows.csv and breakdown.json.

Each metric's results are kept in a part file of their own under `scores/` as
soon as they are there, so a killed run goes on where it was; the three files
are put together from all parts.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import pathlib
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tqdm

import wm
from wm import core, files, registry
from wm.metrics import rollouts, stats

PARTS = 'scores'
# A side column is broken down only where it takes no more values than this.
MOST_VALUES = 128
# Columns of rows.csv that every metric has; side columns follow.
COLUMNS = (
  'metric',
  'spec',
  'quantity',
  'row',
  'value',
  'reason',
  'group',
  'weight',
)

# Follow from what a folder is claimed for; older folders do not say them.
_DERIVED = ('recipe', 'training_seed')

Entry = dict[str, Any]


def lacks(
  metric: core.Metric, predictor: core.Predictor, world: core.World
) -> list[str]:
  """What the metric needs that predictor and world leave at the default."""
  missing = []
  for need in metric.needs:
    of_model = hasattr(core.Predictor, need)
    thing, base = (
      (predictor, core.Predictor) if of_model else (world, core.World)
    )
    if getattr(type(thing), need, None) is getattr(base, need, None):
      missing.append(need)
  return missing


def commit() -> str | None:
  """Commit of the checkout this package is imported from, or None."""
  root = pathlib.Path(wm.__file__).resolve().parent.parent
  if not (root / '.git').exists():
    return None
  try:
    found = subprocess.run(
      [
        'git',
        '-C',
        str(root),
        'describe',
        '--always',
        '--dirty',
        '--abbrev=40',
      ],
      capture_output=True,
      text=True,
      check=True,
    )
  except (FileNotFoundError, subprocess.CalledProcessError):
    return None
  return found.stdout.strip()


def entry(
  metric: core.Metric,
  scores: core.Scores,
  world: core.World,
  *,
  seed: int,
  model_name: str,
  summary: stats.Summary | None = None,
  extra: Entry | None = None,
) -> Entry:
  """One object of scores.json; `summary` defaults to that of all trials."""
  summary = stats.summarize(scores, seed) if summary is None else summary
  return {
    'metric': metric.name,
    'quantity': scores.quantity,
    'world': registry.spec(world),
    'model': model_name,
    **summary,
    'seed': seed,
    'spec': registry.spec(metric),
    'accept': getattr(metric, 'accept', None),
    'counts': {cause: int(num) for cause, num in scores.counts.items()},
    'metric_version': metric.version,
    'world_version': world.version,
    'wm_version': wm.__version__,
    **(extra or {}),
  }


def breakdown(
  metric: core.Metric,
  scores: core.Scores,
  world: core.World,
  *,
  seed: int,
  model_name: str,
  extra: Entry | None = None,
) -> Iterator[Entry]:
  """Entries of subsets: by each of the world's tags, and as the metric says.

  A metric names further columns in its attribute `breakdown`. Each entry has
  `where`, the column and its value.
  """
  names = [*world.tags(world.init(1)), *getattr(metric, 'breakdown', ())]
  for name in names:
    column = scores.columns.get(name)
    if column is None or not 1 < len(np.unique(column)) <= MOST_VALUES:
      continue
    for value, summary in stats.by_column(scores, name, seed):
      yield {
        **entry(
          metric,
          scores,
          world,
          seed=seed,
          model_name=model_name,
          summary=summary,
          extra=extra,
        ),
        'counts': {},
        'where': {name: value},
      }


def _unmeasurable(missing: list[str]) -> core.Scores:
  """A row that says why a metric could not be run at all."""
  return core.scores('all', [np.nan], reason=[f'needs_{missing[0]}'])


@contextlib.contextmanager
def _progress(spec: str) -> Iterator[None]:
  """A bar of decided trials, on a terminal only."""
  with tqdm.tqdm(
    desc=spec, unit='trial', disable=None, leave=False, dynamic_ncols=True
  ) as bar:

    def watch(done: int, total: int) -> None:
      if done < bar.n:  # Another stage of the same metric.
        bar.reset()
      bar.total = total
      bar.update(done - bar.n)

    with rollouts.watching(watch):
      yield


def _measure(
  metric: core.Metric, predictor: core.Predictor, world: core.World, seed: int
) -> tuple[core.Scores, ...]:
  if missing := lacks(metric, predictor, world):
    return (_unmeasurable(missing),)
  with _progress(registry.spec(metric)):
    return metric(predictor, world, seed)


def _part(folder: pathlib.Path, metric: core.Metric) -> pathlib.Path:
  spec = registry.spec(metric)
  mark = hashlib.sha256(f'{spec} {metric.version}'.encode()).hexdigest()[:12]
  return folder / PARTS / f'{metric.name}-{mark}.json'


def _plain(value: Any) -> Any:
  return value.item() if isinstance(value, np.generic) else value


def _write_part(
  path: pathlib.Path,
  metric: core.Metric,
  found: Sequence[core.Scores],
  entries: list[Entry],
  parts: list[Entry],
) -> None:
  """Rows first: the JSON file says that the part is whole."""
  side = list(dict.fromkeys(n for scores in found for n in scores.columns))
  names = [*COLUMNS, *(n for n in side if n not in COLUMNS)]
  with (
    files.replacing(path.with_suffix('.csv')) as temporary,
    open(temporary, 'w', encoding='utf-8', newline='') as file,
  ):
    writer = csv.DictWriter(file, names, lineterminator='\n')
    writer.writeheader()
    for scores in found:
      for row in _rows(metric, scores):
        writer.writerow(row)
  files.write_json(path, {'entries': entries, 'breakdown': parts})


def _rows(metric: core.Metric, scores: core.Scores) -> Iterator[Entry]:
  fixed = {
    'metric': metric.name,
    'spec': registry.spec(metric),
    'quantity': scores.quantity,
  }
  for t in range(len(scores.value)):
    yield {
      **{name: _plain(column[t]) for name, column in scores.columns.items()},
      **fixed,
      'row': t,
      'value': '' if scores.reason[t] else float(scores.value[t]),
      'reason': str(scores.reason[t]),
      'group': int(scores.group[t]),
      'weight': float(scores.weight[t]),
    }


def _join(folder: pathlib.Path, order: Sequence[pathlib.Path]) -> list[Entry]:
  """Writes the three files from all parts, the given ones first."""
  rest = sorted(set((folder / PARTS).glob('*.json')) - set(order))
  paths = [*order, *rest]
  parts = [files.read_json(path) for path in paths]
  names = list(COLUMNS)
  for path in paths:
    with open(path.with_suffix('.csv'), encoding='utf-8', newline='') as file:
      header = next(csv.reader(file))
    names += [name for name in header if name not in names]
  with (
    files.replacing(folder / 'rows.csv') as temporary,
    open(temporary, 'w', encoding='utf-8', newline='') as file,
  ):
    writer = csv.DictWriter(file, names, lineterminator='\n')
    writer.writeheader()
    for path in paths:
      with open(path.with_suffix('.csv'), encoding='utf-8', newline='') as part:
        writer.writerows(csv.DictReader(part))
  entries = [e for part in parts for e in part['entries']]
  files.write_json(
    folder / 'breakdown.json', [e for part in parts for e in part['breakdown']]
  )
  files.write_json(folder / 'scores.json', entries)
  return entries


def run(
  predictor: core.Predictor,
  world: core.World,
  metrics: Sequence[core.Metric],
  *,
  seed: int,
  model_name: str,
  out: str | pathlib.Path,
  extra: Entry | None = None,
) -> list[Entry]:
  """Scores a predictor by metrics; goes on where a killed run stopped.

  Writes OUT/scores.json (a list of entries, see `entry`), OUT/rows.csv (every
  trial of every metric, for pandas.read_csv) and OUT/breakdown.json. Metrics
  scored before in the same folder are kept and not run again.

  Args:
    predictor: what to score.
    world: the truth.
    metrics: what to measure.
    seed: of all randomness.
    model_name: name in tables.
    out: folder of this model's results.
    extra: further fields of every entry, e.g. which checkpoint; part of what
      the folder is claimed for.

  Raises:
    InputError: the folder holds scores of another model, world or seed; the
      model's vocabulary is not the world's.
  """
  if predictor.vocab_size != len(world.vocab):
    raise core.InputError(
      f'model {model_name!r} knows {predictor.vocab_size} tokens, but '
      f'{registry.spec(world)} has {len(world.vocab)}: it was made for '
      'another world'
    )
  folder = pathlib.Path(out)
  claimed = {
    'world': registry.spec(world),
    'world_version': world.version,
    'model': model_name,
    'seed': seed,
    **{k: x for k, x in (extra or {}).items() if k not in _DERIVED},
  }
  files.claim(folder, 'score', claimed)
  more = {**(extra or {}), 'commit': commit()}
  paths = []
  for metric in metrics:
    paths.append(_part(folder, metric))
    if paths[-1].exists() and paths[-1].with_suffix('.csv').exists():
      continue
    found = _measure(metric, predictor, world, seed)
    named = {'seed': seed, 'model_name': model_name, 'extra': more}
    entries = [entry(metric, scores, world, **named) for scores in found]
    parts = [
      part
      for scores in found
      for part in breakdown(metric, scores, world, **named)
    ]
    _write_part(paths[-1], metric, found, entries, parts)
  return _join(folder, list(dict.fromkeys(paths)))


def table(entries: Sequence[Entry]) -> str:
  """Entries as lines of text, for the terminal."""
  lines = []
  for e in entries:
    value = '-' if e['value'] is None else f'{e["value"]:.3f}'
    bounds = ''
    if e['low'] is not None:
      bounds = f'[{e["low"]:.3f}, {e["high"]:.3f}]'
    missing = json.dumps(e['unmeasured']) if e['unmeasured'] else ''
    name = f'{e["metric"]}: {e["quantity"]}'
    lines.append(
      f'{name:<36} {value:>7} {bounds:<16} n={e["n"]} {missing}'.rstrip()
    )
  return '\n'.join(lines)
