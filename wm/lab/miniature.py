"""Runs rows x seeds: each pair is a unit, and gives one small result file.

Rows, seeds and options come in; RESULTS/ROW-SEED.json goes out, which
`wm.lab.units` reads and findings are judged by. A unit is made again only
where something that decides its result has changed (`key_of`).
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import pathlib
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import wm
from wm import core
from wm.core import registry
from wm.core.measure import headline_quantities
from wm.data.exposure import FILE as EXPOSURE_FILE
from wm.evaluation import results
from wm.lab import findings, units
from wm.library import calls
from wm.library.calls import Log
from wm.options import takes
from wm.options.calls import Path, Scoring, Stages, Units
from wm.options.training import Training
from wm.runtime import files, provenance
from wm.studies import baselines
from wm.studies.rows import DECIDES, Row, partner_of, resolve_matches, rows_of
from wm.studies.runs import FAILED, JobPool, Run, is_mapped

try:
  import resource
except ImportError:  # Not a Unix: the memory of a process is not known.
  resource = None  # type: ignore[assignment]

_LAYOUT = (
  2  # Of a unit's folder; those of another version are not gone on with.
)
_PIXELS, _COLOURS = 480, 16  # Width and palette of a kept map.
_PACKAGES = 'jax', 'jaxlib', 'flax', 'optax', 'numpy'
_MAP = (
  *('sequences', 'routes', 'failed', 'ill_formed'),
  *('true_edges', 'new_edges', 'unused_edges'),
  *('illegal_directions', 'failed_routes'),
  *('distinct_directions', 'distinct_illegal_directions'),
)
_TRAINED = (
  *('parameters', 'step', 'tokens', 'seconds'),
  *('heldout_loss', 'best_loss_moves', 'best_step'),
)
# Counts up where a default of sampling, training or reconstruction changes.
DEFAULTS = 1
_ALWAYS = frozenset(DECIDES.values())  # Matched to those of other rows.
_NO_RUN = 'metrics', 'data', 'reconstruction'  # Parts of a key besides the run.
# Of its exposure.json.
_SEEN = (
  *('sequences', 'distinct', 'compared', 'epochs', 'training_loss'),
  *('prefixes_shown', 'states_shown'),
)


@dataclasses.dataclass(frozen=True)
class UnitRun(Run):
  """A row and seed of a miniature.

  Attributes:
    key: all that decides the result.
    results: folder of result files; its name is the miniature's.
    matched: see `wm.lab.units.Unit`.
    pictured: is its map kept?
    allow_dirty: is a result kept that no finding is judged by?
  """

  key: units.Key = dataclasses.field(default_factory=dict)
  results: str = ''
  matched: Mapping[str, str] = dataclasses.field(default_factory=dict)
  pictured: bool = False
  allow_dirty: bool = False

  @property
  def seed(self) -> int:
    """Seed of data, training and scoring."""
    return self.stages.sampling.seed

  @property
  def name(self) -> str:
    """Name of the result file, without suffix."""
    return units.name(self.row.name, self.seed)

  @property
  def path(self) -> pathlib.Path:
    """Path of the result file."""
    return units.path(self.results, self.row.name, self.seed)

  def result(self) -> units.Unit | None:
    """The stored result with this key; None without one."""
    if not self.path.exists():
      return None
    unit = units.read(self.path)
    return unit if same_inputs(unit.key, self.key) else None

  def done(self) -> bool:
    """Is a result with this key stored, and accepted for findings?"""
    return self.result() is not None and not self.is_refused()

  def is_refused(self) -> bool:
    """Is a result with this key stored that findings may not use?"""
    if self.allow_dirty or findings.beside(self.results) is None:
      return False
    result = self.result()
    return result is not None and not units.is_committed(result)

  def status(self) -> str:
    """One line: the cost of the unit, or why it has no result."""
    name = f'{pathlib.Path(self.results).name}/{self.name}'
    failed = pathlib.Path(self.folder, FAILED)
    if self.done() and (unit := self.result()):
      return (
        f'{name}: {unit.cost["wall_seconds"] / 60:.1f} minutes, '
        f'{unit.cost["cpu_seconds"] / 60:.1f} of a processor, '
        f'{unit.cost["peak_mb"]} MiB'
      )
    if failed.exists():
      return f'{name}: failed: {files.read_record(failed, {})["error"]}'
    if self.is_refused():
      return f'{name}: refused: made by code that was not committed'
    return f'{name}: not made'

  def rules(self) -> dict[str, str]:
    """The rules of findings when the first data of its row and seed were begun.

    A unit that is made again keeps the rules of its first result.
    """
    path = pathlib.Path(self.folder).parent / f'{self.name}.rules.json'
    if path.exists():
      return files.read_record(path, {})
    rules = findings.rule_hashes(self.results)
    if self.path.exists():
      try:
        rules = units.read(self.path).rules
      except core.InputError:  # A damaged one, which may have had any.
        rules = {}
    files.write_json(path, rules)
    return rules

  def do(self, log: Log) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Runs the remaining stages, and writes the result."""
    rules, code, start = self.rules(), self._commit(), time.monotonic()
    folder = pathlib.Path(self.folder)
    entries, summary = super().do(log)
    parts = results.whole(files.read_json(folder / 'breakdown.json'), entries)
    entries = [*entries, *filter(_headline, parts)]
    training, seen = (
      files.read_record(path, {}) if path.exists() else {}
      for path in (folder / 'train.json', folder / EXPOSURE_FILE)
    )
    if self.pictured:
      _pictured(folder / 'map_far.png', self.path.with_suffix('.png'))
    unit = units.Unit(
      *(pathlib.Path(self.results).name, self.row.name, self.seed, self.key),
      about=_about(code),
      cost=_cost(start),
      training={
        **{k: training[k] for k in _TRAINED if k in training},
        **{k: seen[k] for k in _SEEN if k in seen},
      },
      scores=units.compact([e for e in entries if e['spec'] in self.specs]),
      map={k: summary[k] for k in _MAP if k in summary},
      rules=rules,
      matched=dict(self.matched),
    )
    units.write(self.results, unit)
    return entries, summary

  def _commit(self) -> str | None:
    """The commit of the code, marked if uncommitted changes are possible."""
    results, row = pathlib.Path(self.results), self.row
    judged = findings.beside(results) is not None
    named = row.model, row.trained_on, row.scored_in, *self.specs
    code = [*registry.files(named)]
    outside = results.parent if judged else results
    commit = provenance.commit_outside(outside, code)
    if commit and judged and self.allow_dirty and provenance.is_clean(commit):
      return f'{commit}-dirty'
    return commit


def key_of(
  row: Row, stages: Stages, metrics: Sequence[core.Metric]
) -> units.Key:
  """All that decides the result of a row, whose settings are in its stages.

  Fields at their default are left out, so that a field that comes or goes
  changes no key. Where a default changes, the version of its plug-in or
  `DEFAULTS` counts up.
  """
  key: units.Key = {
    'defaults': DEFAULTS,
    'seed': stages.sampling.seed,
    'model': _described('model', row.model),
    'scored_in': _described('world', row.scored_in),
    'metrics': {registry.spec(m): _described('metric', m) for m in metrics},
  }
  if row.trained_on is not None:
    key['trained_on'] = _described('world', row.trained_on)
    usual = Training().run()
    key['training'] = {
      name: value
      for name, value in stages.training.run().items()
      if name in _ALWAYS or name not in usual or value != usual[name]
    }
    if stages.training.data is None:
      key['sampling'] = _unusual(stages.sampling)
    else:
      key['data'] = _hash_of(stages.training.data)
  if is_mapped(row):
    map_of = _unusual(stages.reconstruction)
    key['reconstruction'] = {**map_of, 'num_samples': stages.num_samples}
  return key


def _described(kind: str, plug_in: Any) -> dict[str, Any]:
  """A plug-in, its version, and its fields that are not at their default."""
  thing: Any = registry.resolve(kind, plug_in)
  name = registry.parse(registry.spec(thing))[0]
  return {'name': name, 'version': thing.version, **_unusual(thing)}


def _unusual(thing: Any) -> dict[str, Any]:
  """Fields of a dataclass that decide a result and are not at their default."""
  return {
    field.name: value
    for field in dataclasses.fields(thing)
    if field.compare
    and (
      (value := getattr(thing, field.name)) != field.default
      or field.name in _ALWAYS
    )
  }


def same_inputs(old: units.Key, new: units.Key) -> bool:
  """Whether a result with the key `old` is also that of the key `new`.

  The hash of missing data (None) is not compared.
  """
  new = json.loads(json.dumps(new))
  if None in (old.get('data'), new.get('data')):
    old, new = {**old, 'data': None}, {**new, 'data': None}
  return old == new


def _hash_of(data: Path) -> str | None:
  """Hash of stored sequences, whatever their source; None without data."""
  paths = [pathlib.Path(data, s, 'manifest.json') for s in ('train', 'heldout')]
  if not all(path.is_file() for path in paths):
    return None
  return files.json_hash([files.read_json(x)['shards'] for x in paths])[:8]


def _cost(start: float) -> dict[str, Any]:
  """The cost of this process since a time of the monotonic clock."""
  # Linux counts kibibytes, macOS bytes.
  unit = 2**20 if sys.platform == 'darwin' else 2**10
  usage = resource and resource.getrusage(resource.RUSAGE_SELF)
  return {
    'cpu_seconds': round(time.process_time()),
    'wall_seconds': round(time.monotonic() - start),
    'peak_mb': round(usage.ru_maxrss / unit) if usage else 0,
  }


def _headline(entry: dict[str, Any]) -> bool:
  """Is the entry one of a headline quantity?"""
  metric: Any = registry.find('metric', entry['metric'])
  return entry['quantity'] in headline_quantities(metric)


def _pictured(source: pathlib.Path, target: pathlib.Path) -> None:
  """Stores a map with fewer pixels and colours, about 20 kB."""
  from PIL import Image  # Matplotlib's.

  if not source.is_file():
    return
  with Image.open(source) as picture:
    size = _PIXELS, round(picture.height * _PIXELS / picture.width)
    small = picture.convert('RGB').resize(size)
    small = small.quantize(_COLOURS, Image.Quantize.FASTOCTREE)
    with files.replacing(target) as name:
      small.save(name, format='png', optimize=True)


def _about(code: str | None) -> dict[str, Any]:
  """Commit, versions and hardware."""
  versions = {name: importlib.metadata.version(name) for name in _PACKAGES}
  return {
    'commit': code,
    'wm': wm.__version__,
    'python': platform.python_version(),
    **versions,
    'processor': _processor(),
    'cores': os.cpu_count(),
  }


def _processor() -> str:
  """Name of the processor, as the system gives it."""
  info = pathlib.Path('/proc/cpuinfo')  # Linux.
  lines = info.read_text().splitlines() if info.exists() else []
  named = [line for line in lines if line.startswith('model name')]
  return named[0].partition(':')[2].strip() if named else platform.processor()


def _units(
  rows: Sequence[Row | str],
  world: core.World | str,
  metrics: Sequence[core.Metric],
  out: Path,
  options: Units,
  stages: Stages,
  log: Log,
) -> list[UnitRun]:
  """All units, the first seed of each row first; raises InputError."""
  checked = rows_of(rows, world)
  if stages.baselines:
    more, _ = baselines.added(checked, stages, metrics)
    checked += filter(baselines.is_possible, more)
  partner = partner_of(checked)
  results = str(options.results or pathlib.Path(out, 'results'))
  number = [row.settings.get('seeds', options.seeds) for row in checked]

  def unit(row: Row, of_seed: Stages) -> UnitRun:
    """The unit of a row, whose folder is named by a hash of its run."""
    plain, mine = row.specs(), row.stages(of_seed)
    key, seed = key_of(row, mine, metrics), mine.sampling.seed
    run = {k: x for k, x in key.items() if k not in _NO_RUN}
    data = {k: key.get(k) for k in ('trained_on', 'sampling')}
    name = f'{units.name(row.name, seed)}-{files.json_hash([_LAYOUT, run])[:8]}'
    name += '-dirty' * options.allow_dirty
    matched = {
      DECIDES[x]: f'{x} of {partner.name}' for x in row.kinds if partner
    }
    return UnitRun(
      *(plain, mine, metrics, str(pathlib.Path(out, 'units', name))),
      str(pathlib.Path(out, 'data', f'{seed}-{files.json_hash(data)[:8]}')),
      is_mapped(row),
      key,
      results,
      matched=matched,
      pictured=seed == options.first_seed,
      allow_dirty=options.allow_dirty,
    )

  todo: list[UnitRun] = []
  for offset in range(max(number)):
    of_seed = stages.replaced({'seed': options.first_seed + offset})

    def distinct(row: Row, of_seed: Stages = of_seed) -> int | None:
      """Counts training data; without data, reads the row's result."""
      partner = unit(row, of_seed)
      num = partner.distinct(calls.no_log, options.dry_run)
      result = partner.result() if num is None else None
      return result.training.get('distinct') if result else num

    resolved = resolve_matches(checked, of_seed, distinct, log)
    todo += [
      unit(row, of_seed)
      for row, num in zip(resolved, number, strict=True)
      if offset < num
    ]
  return todo


@takes(
  options=Units, stages=Stages, scoring=(Scoring, 'accept', 'metric_overrides')
)
def miniature(
  rows: Sequence[Row | str],
  world: core.World | str,
  metrics: core.Metric | str | Sequence[core.Metric | str],
  out: Path,
  *,
  options: Units,
  stages: Stages,
  scoring: Scoring,
  log: Log = calls.no_log,
) -> list[str]:
  """Makes the missing units of a study; a unit is a row with a seed.

  A unit is sampled for, trained, scored and mapped in a process of its own. Its
  result is a small file, RESULTS/ROW-SEED.json (`wm.lab.units`), which is
  not made again while its inputs are unchanged. A stopped unit resumes.

  Results in FOLDER/results/NAME are judged by the rules of
  FOLDER/findings.json (`wm.lab.findings`), if there is one: units record
  them when they begin, and start from committed code only. A result of other
  code is refused, and made again. A unit that is made again keeps the rules of
  the first result of its row and seed.

  Args:
    rows: models, as `Row` or as text (see `Row.parse`), all of plug-ins. A
      seed of a row that is matched (see `wm.study`) is matched to the same
      seed of the other row.
    world: the world of rows that name none.
    metrics: metrics of every unit.
    out: folder of data and runs.
    options: seeds; and jobs, the number of units made at a time. A dry run
      lists the cached units, and does nothing.
    stages: options of sampling, training and reconstruction, and num_samples,
      routes sampled for a map; baselines are rows as well, see `wm.study`.
    scoring: accept, the rule for all metrics that have one, None leaves theirs;
      and other fields of all metrics that have them, as in a spec.
    log: gets a line on each unit that ends.

  Returns:
    A line on each unit that has failed, or whose result is refused.

  Raises:
    InputError: bad specs, options or findings, or files that are changed and
      not committed.
    Stopped: a signal came; finished work is kept.
  """
  results, dry_run = pathlib.Path(out, 'results'), options.dry_run
  results = pathlib.Path(options.results or results)
  pool = JobPool(options.jobs)
  asked = calls.metrics_of(metrics, scoring.accept, scoring.metric_overrides)
  if not (dry_run or options.allow_dirty):  # Before anything is sampled.
    named = [
      thing if isinstance(thing, str) else registry.spec(thing)
      for row in (Row.parse(x) if isinstance(x, str) else x for x in rows)
      for thing in (row.model, row.trained_on, row.scored_in, world, *asked)
      if thing is not None
    ]
    _check_committed(results, [*registry.files(named)])
  todo = _units(rows, world, asked, out, options, stages, log)
  cached = [unit for unit in todo if unit.done()]
  refused = sum(unit.is_refused() for unit in todo)
  more = f', {refused} refused, made by code that was not committed'
  log(
    f'{results}: {len(cached)} of {len(todo)} units cached'
    + more * bool(refused)
  )
  if dry_run:
    for unit in todo:
      log(unit.status())
    return []
  by_name = {unit.name: unit for unit in todo}
  pool.work(
    [[unit] for unit in todo], lambda job: by_name[job[0].name].status(), log
  )
  return [unit.status() for unit in todo if not unit.done()]


def _check_committed(results: pathlib.Path, code: Sequence[str]) -> None:
  """Raises InputError if findings could not use the results.

  code: files that plug-ins are taken from.
  """
  if findings.beside(results) is None:
    return
  findings.rule_hashes(results)  # Bad rules show before the first unit.
  changed = provenance.uncommitted(results.parent, code)
  if changed == []:
    return
  what = f'{changed[0]} is not committed' if changed else 'no commit'
  raise core.InputError(
    f'{what}; results that findings are judged by need committed code: commit '
    'it, or give --allow_dirty (allow_dirty=True) for results that no finding '
    'is judged by'
  )
