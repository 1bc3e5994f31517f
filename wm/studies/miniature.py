"""Runs rows x seeds: each pair is a unit, and gives one small result file.

Rows, seeds and options come in; RESULTS/ROW-SEED.json goes out, which
`wm.reporting.units` reads and findings are judged by. A unit is made again only
where something that decides its result has changed (`UnitSpec.key`).
`make_unit` makes one in a process of its own, by the stages of `study.run_row`.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import json
import os
import pathlib
import platform
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import wm
from wm import core
from wm.core import inputs, registry
from wm.core.accept import Accept
from wm.data import exposure
from wm.data import store as stores
from wm.data.exposure import FILE as EXPOSURE_FILE
from wm.library import calls
from wm.library.calls import Log
from wm.options import takes
from wm.options.calls import Path, Sampling, Scoring, Stages, Units
from wm.options.reconstruction import Reconstruction
from wm.options.training import Training
from wm.reporting import findings, units
from wm.runtime import files, provenance
from wm.studies import baselines, study
from wm.studies import jobs as pools
from wm.studies.rows import (
  Row,
  decided,
  open_settings,
  partners,
  resolve_matches,
  rows_of,
  spec_of,
)

STAGE = 'unit'
MINUTES = 20  # In which a unit should end.
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
# Files of its folder: what it was begun with, and what it has cost so far.
_STARTED, _COST = 'started.json', 'spent.json'
# Parts and settings of a key that follow from another row's data.
_MATCHED = ('sampling', 'num'), ('training', 'steps')
# Of its exposure.json.
_SEEN = (
  *('sequences', 'distinct', 'compared', 'epochs', 'training_loss'),
  *('prefixes_shown', 'states_shown'),
)


@dataclasses.dataclass(frozen=True)
class UnitSpec:
  """What a unit is made from: JSON values, which its process is started with.

  Attributes:
    row: of specs, without settings.
    seed: of everything.
    stages: options of each, with the row's settings.
    metrics: specs.
    out: folder of data and runs.
    results: folder of result files; its name is the miniature's.
    first_seed: the seed whose map is kept.
    allow_dirty: is a result of code that was not committed kept? No finding is
      judged by it.
    matched: see `wm.reporting.units.Unit`.
    left_open: names of settings that are unknown here, as they follow from
      data that have not been sampled.
  """

  row: Row
  seed: int
  stages: Stages
  metrics: tuple[str, ...]
  out: str
  results: str
  first_seed: int = 0
  allow_dirty: bool = False
  matched: Mapping[str, str] = dataclasses.field(default_factory=dict)
  left_open: Sequence[str] = ()

  @classmethod
  def of(cls, order: dict[str, Any]) -> UnitSpec:
    """The unit that `dataclasses.asdict` has written."""
    parts = {'row': Row(**order['row']), 'stages': Stages.of(order['stages'])}
    return cls(**order | parts)

  @property
  def name(self) -> str:
    """As its file is called."""
    return units.name(self.row.name, self.seed)

  @property
  def path(self) -> pathlib.Path:
    """Its result file."""
    return units.path(self.results, self.row.name, self.seed)

  @functools.cached_property
  def key(self) -> units.Key:
    """All that decides the result."""
    row, stages = self.row, self.stages
    asked = calls.metrics_of(self.metrics)
    key: units.Key = {
      'seed': self.seed,
      'model': _described('model', row.model),
      'scored_in': _described('world', row.scored_in),
      'metrics': {registry.spec(m): _described('metric', m) for m in asked},
    }
    if row.trained_on is not None:
      key['trained_on'] = _described('world', row.trained_on)
      key['training'] = stages.training.run()
      if stages.training.data is None:
        key['sampling'] = dataclasses.asdict(stages.sampling)
      else:
        key['data'] = _hash_of(stages.training.data)
    if study.is_mapped(row):
      map_of = dataclasses.asdict(stages.reconstruction)
      key['reconstruction'] = {**map_of, 'num_samples': stages.num_samples}
    for stage, setting in _MATCHED:
      if stage in key and setting in self.left_open:
        key[stage] = {**key[stage], setting: None}
    return key

  @property
  def folder(self) -> pathlib.Path:
    """Of its run; its name hashes model, worlds, sampling and training."""
    others = 'metrics', 'data', 'reconstruction'
    identity = {k: x for k, x in self.key.items() if k not in others}
    mark = files.json_hash(identity)[:8]
    return pathlib.Path(self.out, 'units', f'{self.name}-{mark}')

  @property
  def shared(self) -> pathlib.Path:
    """Of sampled data, which all rows have that train on the same."""
    identity = {k: self.key.get(k) for k in ('trained_on', 'sampling')}
    mark = files.json_hash(identity)[:8]
    return pathlib.Path(self.out, 'data', f'{self.seed}-{mark}')

  @property
  def code(self) -> list[str]:
    """Files that its plug-ins are taken from."""
    row = self.row
    named = row.model, row.trained_on, row.scored_in, *self.metrics
    return list(dict.fromkeys(registry.files(named)))

  def is_cached(self) -> bool:
    """Is there a result of this key that is not refused?"""
    return self._has_result() and not self.is_refused()

  def is_refused(self) -> bool:
    """Is there a result of this key that findings are not judged by?"""
    return (
      self._needs_committed()
      and self._has_result()
      and not units.is_committed(units.read(self.path))
    )

  def _has_result(self) -> bool:
    path = self.path
    return path.exists() and same_inputs(units.read(path).key, self.key)

  def _needs_committed(self) -> bool:
    """Must it be made by committed code?"""
    return not self.allow_dirty and findings.beside(self.results) is not None

  def begin(self) -> None:
    """Claims its folder; removes a run there that was not of committed code.

    A result that went on with such a run would be refused as well.
    """
    record = _record(self)
    begun = 'commit' in record and not provenance.is_clean(record['commit'])
    if begun and self._needs_committed():
      self.clear()
    files.claim(self.folder, STAGE, {'row': self.row.name, 'seed': self.seed})

  def clear(self) -> None:
    """Removes its run, but for the record of the rules of its first data."""
    rules = _record(self)['rules']
    files.write_json(self.folder / _STARTED, {'rules': rules})
    for path in self.folder.iterdir():
      if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
      elif path.name not in (_STARTED, pools.LOCK):
        path.unlink(missing_ok=True)

  def renew(self) -> None:
    """Writes the present key into a cached result.

    A field that was added to the code since is missing in the old key. Seeds of
    a row count as one recipe only if their keys are equal.
    """
    old = units.read(self.path)
    key = json.loads(json.dumps(self.key))
    if 'data' in key and key['data'] is None:
      key['data'] = old.key['data']
    new = dataclasses.replace(old, key=key, matched=dict(self.matched))
    if new != old:
      units.write(self.results, new)

  def status(self) -> str:
    """One line: what it has cost, or why it has no result."""
    name = f'{pathlib.Path(self.results).name}/{self.name}'
    if self.is_cached():
      cost = units.read(self.path).cost
      minutes = cost['wall_seconds'] / 60
      over = f', more than {MINUTES}' if minutes > MINUTES else ''
      return (
        f'{name}: {minutes:.1f} minutes{over}, {cost["cpu_seconds"] / 60:.1f} '
        f'of a processor, {cost["peak_mb"]} MiB'
      )
    failed = self.folder / 'failed.json'
    if failed.exists():
      return f'{name}: failed: {files.read_record(failed, {})["error"]}'
    if self.is_refused():
      return f'{name}: refused: made by code that was not committed'
    return f'{name}: not made'


def _described(kind: str, plug_in: Any) -> dict[str, Any]:
  """A plug-in with all fields that decide what it gives, and its version."""
  thing: Any = registry.resolve(kind, plug_in)
  fields = {
    field.name: getattr(thing, field.name)
    for field in dataclasses.fields(thing)
    if field.compare
  }
  name = registry.parse(registry.spec(thing))[0]
  return {'name': name, 'version': thing.version, **fields}


def same_inputs(old: units.Key, new: units.Key) -> bool:
  """Whether a result with the key `old` is also that of the key `new`.

  A field that came since is that of the old as long as it is at its default.
  The hash of data that are not at hand (None) is not compared, nor are settings
  that follow from such data.
  """
  new = json.loads(json.dumps(new))
  for stage, setting in _MATCHED:
    if new.get(stage, {}).get(setting, 0) is None and stage in old:
      new[stage] = {**new[stage], setting: old[stage].get(setting)}
  if None in (old.get('data'), new.get('data')):
    old, new = {**old, 'data': None}, {**new, 'data': None}
  return bool(_completed(old, new, _usual(new)) == new)


def _completed(old: Any, new: Any, usual: Any) -> Any:
  """The old key, with the defaults of fields that only the new one has."""
  if not (isinstance(old, dict) and isinstance(new, dict)):
    return old
  defaults = usual if isinstance(usual, dict) else {}
  return old | {
    key: _completed(old.get(key, default), value, default)
    for key, value in new.items()
    for default in [defaults.get(key, {})]
  }


def _usual(key: units.Key) -> dict[str, Any]:
  """The defaults of what a key describes."""
  defaults = {
    'sampling': dataclasses.asdict(Sampling()),
    'training': dataclasses.asdict(Training()),
    'reconstruction': dataclasses.asdict(Reconstruction()),
    'metrics': {
      spec: _defaults('metric', metric['name'])
      for spec, metric in key['metrics'].items()
    },
  }
  for part in ('model', 'trained_on', 'scored_in'):
    kind = 'model' if part == 'model' else 'world'
    if key.get(part):
      defaults[part] = _defaults(kind, key[part]['name'])
  return json.loads(json.dumps(defaults))


def _defaults(kind: str, name: str) -> dict[str, Any]:
  return {
    field.name: field.default
    for field in dataclasses.fields(registry.find(kind, name))
    if field.default is not dataclasses.MISSING
  }


def _hash_of(data: Path) -> str | None:
  """Of the manifests of stored sequences; None where there are none here."""
  paths = [pathlib.Path(data, s, 'manifest.json') for s in ('train', 'heldout')]
  if not all(path.is_file() for path in paths):
    return None
  return files.json_hash([files.sha256(path) for path in paths])[:8]


def make_unit(unit: UnitSpec, log: Log) -> None:
  """Makes a unit, in a process of its own; it goes on where one was stopped."""
  assert unit.row.scored_in is not None  # By `wm.miniature`.
  started = _started(unit)
  (row,) = rows_of([unit.row], unit.row.scored_in)
  with pools.CostMeter(unit.folder / _COST) as meter:
    entries, summary = study.run_row(
      row,
      calls.metrics_of(unit.metrics),
      unit.folder,
      unit.shared,
      unit.stages,
      log,
    )
    parts = files.read_json(unit.folder / 'breakdown.json')
    entries = [*entries, *filter(_headline, parts)]
    asked = [e for e in entries if e['spec'] in unit.key['metrics']]
    trained = unit.folder / 'train.json'
    training = files.read_record(trained, {}) if trained.exists() else {}
    seen = trained.with_name(EXPOSURE_FILE)
    shown = files.read_record(seen, {}) if seen.exists() else {}
  if unit.seed == unit.first_seed:
    _pictured(unit.folder / 'map_far.png', unit.path.with_suffix('.png'))
  units.write(
    unit.results,
    units.Unit(
      pathlib.Path(unit.results).name,
      unit.row.name,
      unit.seed,
      unit.key,
      _about(started['commit']),
      meter.totals(),
      {
        **{k: training[k] for k in _TRAINED if k in training},
        **{k: shown[k] for k in _SEEN if k in shown},
      },
      units.compact(asked),
      {k: summary[k] for k in _MAP if k in summary},
      started['rules'],
      dict(unit.matched),
    ),
  )


def _started(unit: UnitSpec) -> dict[str, Any]:
  """The commit of a unit, and the rules of findings when it was begun.

  A run that goes on keeps its first record, and so a changed rule shows. It is
  of the present commit only if its first code was committed too.
  """
  results = pathlib.Path(unit.results)
  judged = findings.beside(results) is not None
  outside = results.parent if judged else results
  before = _record(unit)
  record = dict(before)
  if 'commit' not in before or provenance.is_clean(before['commit']):
    record['commit'] = provenance.commit_outside(outside, unit.code)
  if record != before:
    files.write_json(unit.folder / _STARTED, record)
  return record


def _record(unit: UnitSpec) -> dict[str, Any]:
  """What is known of the start of a unit; of one to be begun, no commit.

  Its rules are those under which the first data of its row and seed were begun,
  as long as a result or a run of these is there: what is made again is not
  earlier than a rule that came after them.
  """
  path = unit.folder / _STARTED
  if path.exists():
    return files.read_record(path, {'rules': dict}, {'commit': str | None})
  if (unit.folder / _COST).exists():  # Of a version that recorded neither.
    return {'commit': None, 'rules': {}}
  if unit.path.exists():
    return {'rules': _rules(unit.path)}
  return {'rules': findings.rule_hashes(unit.results)}


def _rules(path: pathlib.Path) -> dict[str, str]:
  """That a result records; none of a damaged one, which may have had any."""
  try:
    return units.read(path).rules
  except core.InputError:
    return {}


def _pictured(source: pathlib.Path, target: pathlib.Path) -> None:
  """Keeps a map: fewer pixels and colours, some 20 kB."""
  from PIL import Image  # Matplotlib's.

  if not source.is_file():
    return
  with Image.open(source) as picture:
    size = _PIXELS, round(picture.height * _PIXELS / picture.width)
    small = picture.convert('RGB').resize(size)
    small = small.quantize(_COLOURS, Image.Quantize.FASTOCTREE)
    with files.replacing(target) as name:
      small.save(name, format='png', optimize=True)


def _headline(entry: dict[str, Any]) -> bool:
  """Is it of a quantity that tables begin with?"""
  metric: Any = registry.find('metric', entry['metric'])
  return entry['quantity'] in metric.headline


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
  """What the system calls it."""
  info = pathlib.Path('/proc/cpuinfo')  # Linux.
  lines = info.read_text().splitlines() if info.exists() else []
  named = [line for line in lines if line.startswith('model name')]
  return named[0].partition(':')[2].strip() if named else platform.processor()


def _units(
  rows: Sequence[Row | str],
  world: core.World | str,
  stages: Stages,
  options: Units,
  log: Log,
  **same: Any,
) -> list[UnitSpec]:
  """All units, the first seed of each row first; raises InputError.

  same: fields that all units have.
  """
  every = [Row.parse(row) if isinstance(row, str) else row for row in rows]
  # What is bad of one shows before the first.
  checked = rows_of(every, world)
  if stages.baselines:
    asked = calls.metrics_of(same['metrics'])
    more, _ = baselines.added(checked, stages, asked)
    more = [*filter(baselines.is_possible, more)]
    checked, every = checked + more, every + more
  names = [row.name for row in every]
  for name in options.row_names:
    inputs.check_known(name, names, f'no row is called {name!r}')
  plain = {row.name: row.specs(world) for row in every}
  number = {row.name: row.settings.get('seeds', options.seeds) for row in every}
  todo: list[UnitSpec] = []
  for offset in range(max(number.values())):
    asked_for = [
      name for name in options.row_names or names if offset < number[name]
    ]
    seeded = stages.seeded(options.first_seed + offset)
    todo += _of_seed(
      *(checked, asked_for, seeded, plain, options.dry_run, log, same)
    )
  return todo


def _of_seed(
  rows: Sequence[Row],
  names: Sequence[str],
  stages: Stages,
  plain: Mapping[str, Row],
  dry_run: bool,
  log: Log,
  same: dict[str, Any],
) -> list[UnitSpec]:
  """Units of one seed, of the rows with these names; see `_units`."""
  by_name = {row.name: row for row in rows}
  matched = {
    name: decided(by_name[name], other)
    for name, other in partners(rows).items()
  }

  def unit(row: Row) -> UnitSpec:
    mine = row.stages(stages)
    more = same | {
      'matched': matched.get(row.name, {}),
      'left_open': open_settings(row),
    }
    return UnitSpec(plain[row.name], mine.sampling.seed, mine, **more)

  def counts(row: Row) -> exposure.Counts | None:
    """Counts training data, which a dry run does not sample."""
    spec = unit(row)
    if not dry_run:
      where = spec.folder, spec.shared, spec.stages
      return study.counts(row, *where, calls.no_log)
    folder = pathlib.Path(spec.stages.training.data or spec.shared / 'data')
    if not (folder / 'train' / 'manifest.json').is_file():
      return None
    return exposure.counts(stores.open(folder / 'train'))

  resolved = resolve_matches(rows, stages, counts, log, names, draw=not dry_run)
  return [unit(row) for row in resolved]


def _texts(
  metrics: core.Metric | str | Sequence[core.Metric | str],
  accept: Accept | str | None,
  overrides: str | None,
) -> tuple[str, ...]:
  """Metrics as text, which may hold fields that no spec has.

  Such fields change no result.
  """
  several = [metrics] if isinstance(metrics, str | core.Metric) else metrics
  changed = calls.metrics_of(several, accept, overrides=overrides)
  return tuple(
    spec_of(text if metric == plain else metric)
    for text, plain, metric in zip(
      several, calls.metrics_of(several), changed, strict=True
    )
  )


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
  """Makes the units of a study that are missing: a row and a seed each.

  A unit is sampled for, trained, scored and mapped in a process of its own. Its
  result is a small file, RESULTS/ROW-SEED.json (`wm.reporting.units`), which is
  not made again while its inputs are unchanged. What was stopped goes on.

  Results in FOLDER/results/NAME are judged by the rules of
  FOLDER/findings.json (`wm.reporting.findings`), if there is one: units record
  them when they begin, and start from committed code only. A result of other
  code is refused, and made again. What is made again keeps the rules of the
  first result of its row and seed.

  Args:
    rows: models, as `Row` or as text (see `Row.parse`), all of plug-ins. A
      seed of a row that is matched (see `wm.study`) is matched to the same
      seed of the other row.
    world: that rows are scored in which name none.
    metrics: what to measure.
    out: folder of data and runs.
    options: seeds and rows, and jobs, how many units are made at a time. A dry
      run says which units are cached, and does nothing; numbers of matched rows
      that follow from data which are not there are not compared.
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
    Stopped: a signal came; what is done is kept.
  """
  results = pathlib.Path(options.results or pathlib.Path(out, 'results'))
  dry_run = options.dry_run
  pool = pools.JobPool(cluster=None if dry_run else options.cluster)
  specs = _texts(metrics, scoring.accept, scoring.metric_overrides)
  if not (dry_run or options.allow_dirty):  # Before anything is sampled.
    named = [
      thing
      for row in (Row.parse(x) if isinstance(x, str) else x for x in rows)
      for thing in (row.model, row.trained_on, row.scored_in)
      if thing is not None
    ]
    code = registry.files([*map(spec_of, [*named, world]), *specs])
    _check_committed(results, [*code])
  todo = _units(
    *(rows, world, stages, options, log),
    metrics=specs,
    out=str(out),
    results=str(results),
    first_seed=options.first_seed,
    allow_dirty=options.allow_dirty,
  )
  if options.overwrite and not dry_run:
    for unit in todo:
      if not (unit.folder.exists() or unit.path.exists()):
        continue
      with pools.hold_lock(unit.folder) as lock:
        if lock is None:
          raise core.InputError(
            f'{unit.folder} is used by another process; --overwrite removes it'
          )
        unit.clear()
        unit.path.unlink(missing_ok=True)
  by_name = {unit.name: unit for unit in todo}
  cached = [unit for unit in todo if unit.is_cached()]
  log(f'{results}: {len(cached)} of {len(todo)} units cached{_refused(todo)}')
  if dry_run:
    for unit in todo:
      log(unit.status())
    return []
  for unit in cached:
    unit.renew()
  jobs_of = [_job(unit) for unit in todo]
  pool.work(jobs_of, options.jobs, lambda job: by_name[job.name].status(), log)
  return [unit.status() for unit in todo if not unit.is_cached()]


def _refused(units: Sequence[UnitSpec]) -> str:
  """Says how many units have results that no finding is judged by."""
  num = sum(unit.is_refused() for unit in units)
  return f', {num} refused, made by code that was not committed' if num else ''


def _check_committed(results: pathlib.Path, code: Sequence[str]) -> None:
  """Raises InputError where results would be of no use to findings.

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


def _job(unit: UnitSpec) -> pools.Job:
  order = dataclasses.asdict(unit)
  return pools.Job(
    unit.name,
    STAGE,
    unit.folder,
    command=lambda: pools.command(STAGE, **order),
    done=unit.is_cached,
    begin=unit.begin,
  )
