"""A unit of a miniature: one row and seed, from its data to a result file."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
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
from wm.core import registry
from wm.library import calls, study
from wm.library import rows as rows_lib
from wm.library.calls import Log
from wm.library.rows import Row
from wm.options.reconstruction import Reconstruction
from wm.options.sampling import Sampling
from wm.options.training import Training
from wm.reporting import findings, units
from wm.runtime import commit, files, spent
from wm.tasks import pool
from wm.training import exposure_file

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
_STARTED, _SPENT = 'started.json', 'spent.json'
# Parts and settings of a key that follow from another row's data.
_MATCHED = ('sampling', 'num'), ('training', 'steps')
# Of its exposure.json.
_SEEN = (
  *('sequences', 'distinct', 'compared', 'epochs', 'training_loss'),
  *('prefixes_shown', 'states_shown'),
)


@dataclasses.dataclass(frozen=True)
class Unit:
  """A unit to be made: JSON values, as its process is told them.

  Attributes:
    row: of specs, without settings.
    seed: of everything.
    sampling, training, reconstruction: options, with the row's settings.
    num_samples: routes of a map.
    metrics: specs.
    out: folder of data and runs.
    results: folder of result files; its name is the miniature's.
    first_seed: the seed whose map is kept.
    allow_dirty: do results of code that was not committed stand, although
      findings are judged by others only?
    matched: see `wm.reporting.units.Unit`.
    left_open: settings among these that are not known, as the data that they
      follow from are not here.
  """

  row: Row
  seed: int
  sampling: Sampling
  training: Training
  reconstruction: Reconstruction
  num_samples: int
  metrics: tuple[str, ...]
  out: str
  results: str
  first_seed: int = 0
  allow_dirty: bool = False
  matched: Mapping[str, str] = dataclasses.field(default_factory=dict)
  left_open: Sequence[str] = ()

  @classmethod
  def of(cls, order: dict[str, Any]) -> Unit:
    """The unit that `dataclasses.asdict` has written."""
    parts: dict[str, Any] = {
      'row': Row(**order['row']),
      'sampling': Sampling(**order['sampling']),
      'training': Training(**order['training']),
      'reconstruction': Reconstruction(**order['reconstruction']),
    }
    return cls(**{**order, **parts})

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
    row = self.row
    asked = calls.metrics_of(self.metrics)
    key: units.Key = {
      'seed': self.seed,
      'model': _described('model', row.model),
      'scored_in': _described('world', row.scored_in),
      'metrics': {registry.spec(m): _described('metric', m) for m in asked},
    }
    if row.trained_on is not None:
      key['trained_on'] = _described('world', row.trained_on)
      key['training'] = self.training.run()
      if self.training.data is None:
        key['sampling'] = dataclasses.asdict(self.sampling)
      else:
        key['data'] = _hash_of(self.training.data)
    if study.is_mapped(row):
      map_of = dataclasses.asdict(self.reconstruction)
      key['reconstruction'] = {**map_of, 'num_samples': self.num_samples}
    for stage, setting in _MATCHED:
      if stage in key and setting in self.left_open:
        key[stage] = {**key[stage], setting: None}
    return key

  @property
  def folder(self) -> pathlib.Path:
    """Of its run, by how that is made; other metrics are measured in it too."""
    apart = 'metrics', 'data', 'reconstruction'
    identity = {k: x for k, x in self.key.items() if k not in apart}
    return pathlib.Path(self.out, 'units', f'{self.name}-{_mark(identity)}')

  @property
  def shared(self) -> pathlib.Path:
    """Of sampled data, which all rows have that train on the same."""
    identity = {k: self.key.get(k) for k in ('trained_on', 'sampling')}
    return pathlib.Path(self.out, 'data', f'{self.seed}-{_mark(identity)}')

  @property
  def code(self) -> list[str]:
    """Files that its plug-ins are taken from."""
    row = self.row
    named = row.model, row.trained_on, row.scored_in, *self.metrics
    return list(dict.fromkeys(registry.files(named)))

  def stands(self) -> bool:
    """Is there a result of this key, and one that is of use?"""
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
    return path.exists() and stands(units.read(path).key, self.key)

  def _needs_committed(self) -> bool:
    """Must it be made by committed code?"""
    return not self.allow_dirty and findings.beside(self.results) is not None

  def begin(self) -> None:
    """Claims its folder; a run of changed code that is there begins anew.

    What goes on with such a run would be refused like it.
    """
    record = _record(self)
    begun = 'commit' in record and not commit.is_clean(record['commit'])
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
      elif path.name not in (_STARTED, pool.LOCK):
        path.unlink(missing_ok=True)

  def renew(self) -> None:
    """Gives a result that stands the fields of its key that came since.

    The seeds of a row are told to be of one recipe by equal keys, and by what
    their numbers follow from.
    """
    old = units.read(self.path)
    key = json.loads(json.dumps(self.key))
    if 'data' in key and key['data'] is None:
      key['data'] = old.key['data']
    new = dataclasses.replace(old, key=key, matched=dict(self.matched))
    if new != old:
      units.write(self.results, new)

  def said(self) -> str:
    """A line on how it stands."""
    name = f'{pathlib.Path(self.results).name}/{self.name}'
    if self.stands():
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


def stands(old: units.Key, new: units.Key) -> bool:
  """Whether a result with the key `old` is that of the key `new`.

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
  return _same(old, new, _usual(new))


def _same(old: Any, new: Any, usual: Any) -> bool:
  if not (isinstance(old, dict) and isinstance(new, dict)):
    return old == new
  if old.keys() - new.keys():
    return False
  for key, value in new.items():
    inner = usual.get(key, {}) if isinstance(usual, dict) else {}
    if key not in old:
      if inner != value:
        return False
    elif not _same(old[key], value, inner):
      return False
  return True


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


def _mark(value: Any) -> str:
  text = json.dumps(value, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()[:8]


def _hash_of(data: str) -> str | None:
  """Of the manifests of stored sequences; None where there are none here."""
  paths = [pathlib.Path(data, s, 'manifest.json') for s in ('train', 'heldout')]
  if not all(path.is_file() for path in paths):
    return None
  return _mark([files.sha256(path) for path in paths])


def make(unit: Unit, log: Log) -> None:
  """Makes a unit, in a process of its own; it goes on where one was stopped."""
  assert unit.row.scored_in is not None  # By `wm.miniature`.
  started = _started(unit)
  (row,) = rows_lib.rows_of([unit.row], unit.row.scored_in)
  with spent.Meter(unit.folder / _SPENT) as meter:
    entries, summary = study.done(
      row,
      calls.metrics_of(unit.metrics),
      unit.folder,
      (unit.sampling, unit.training, unit.reconstruction),
      unit.num_samples,
      log,
      unit.shared,
    )
    parts = files.read_json(unit.folder / 'breakdown.json')
    entries = [*entries, *filter(_headline, parts)]
    asked = [e for e in entries if e['spec'] in unit.key['metrics']]
    trained = unit.folder / 'train.json'
    training = files.read_record(trained, {}) if trained.exists() else {}
    seen = trained.with_name(exposure_file.FILE)
    exposure = files.read_record(seen, {}) if seen.exists() else {}
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
      meter.spent(),
      {
        **{k: training[k] for k in _TRAINED if k in training},
        **{k: exposure[k] for k in _SEEN if k in exposure},
      },
      units.compact(asked),
      {k: summary[k] for k in _MAP if k in summary},
      started['rules'],
      dict(unit.matched),
    ),
  )


def _started(unit: Unit) -> dict[str, Any]:
  """The commit of a unit, and the rules of findings when it was begun.

  A run that goes on keeps its first record, and so a changed rule shows. It is
  of the present commit only if its first code was committed too.
  """
  results = pathlib.Path(unit.results)
  judged = findings.beside(results) is not None
  outside = results.parent if judged else results
  before = _record(unit)
  record = dict(before)
  if 'commit' not in before or commit.is_clean(before['commit']):
    record['commit'] = commit.describe_outside(outside, unit.code)
  if record != before:
    files.write_json(unit.folder / _STARTED, record)
  return record


def _record(unit: Unit) -> dict[str, Any]:
  """What is known of the start of a unit; of one to be begun, no commit.

  Its rules are those under which the first data of its row and seed were begun,
  as long as a result or a run of these is there: what is made again is not
  earlier than a rule that came after them.
  """
  path = unit.folder / _STARTED
  if path.exists():
    return files.read_record(path, {'rules': dict}, {'commit': str | None})
  if (unit.folder / _SPENT).exists():  # Of a version that recorded neither.
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
