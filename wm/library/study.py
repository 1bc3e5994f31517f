"""Several models on one world: trained, scored, mapped, reported together."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from wm import core, options
from wm.core import registry
from wm.core.accept import Accept
from wm.library import baselines as baselines_lib
from wm.library import calls, loading, report
from wm.library.calls import Tell
from wm.options import takes
from wm.options.calls import (
  Baselines,
  Path,
  Routes,
  Scoring,
  Sweeping,
  Units,
)
from wm.options.reconstruction import Reconstruction
from wm.options.sampling import Sampling
from wm.options.training import Training
from wm.recon.routes import has_streets
from wm.runtime import files, locks, threads
from wm.tasks import pool

# What a row may have to itself.
SETTINGS: dict[str, dataclasses.Field] = {
  **{name: field for name, (field, _) in options.declared(Sampling).items()},
  **{name: field for name, (field, _) in options.declared(Training).items()},
  'seeds': options.declared(Units)['seeds'][0],
}
for name in ('seed', 'text', 'coordinator', 'threads'):
  del SETTINGS[name]
_ROW = (
  r'\s*(\w+)\s*:\s*(.+?)'
  r'(?:\s+in\s+(.+?)|\s+on\s+(.+?)(?:\s+then\s+on\s+(.+?))?)?'
  r'(?:\s+with\s+(.+?))?\s*'
)


_REPORT = 'report'  # OUT/report is no row.


@dataclasses.dataclass(frozen=True)
class Row:
  """A model of a study.

  Attributes:
    name: of its folder and its row in tables; letters, digits, underscores.
    model: spec or object; of a study also the folder of a run, with a slash,
      which was trained before.
    trained_on: world that it is trained on first; None: scored as it is.
    scored_in: world that it is scored in; None is `trained_on`, or else the
      study's.
    settings: fields of Sampling and Training that this row has to itself; and
      `seeds`, of a miniature.
  """

  name: str
  model: core.Model | str
  trained_on: core.World | str | None = None
  scored_in: core.World | str | None = None
  settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  @classmethod
  def parse(cls, text: str) -> Row:
    """'NAME: MODEL', '... in WORLD', '... on WORLD', '... then on WORLD'.

    '... with steps=500, lr=3e-3' may follow.

    Raises:
      InputError: it is not of this form.
    """
    match = re.fullmatch(_ROW, text)
    if not match:
      expected = "expected 'NAME: MODEL' or 'NAME: MODEL on WORLD'"
      raise core.InputError(f'bad row {text!r}: {expected}')
    name, model, used_in, trained_on, after, settings = match.groups()
    _, bare, given = registry.parse(f'row({settings or ""})')
    for key, value in given.items():
      if key not in SETTINGS:
        available = registry.suggest(key, [*SETTINGS])
        raise core.InputError(
          f'row {name!r} has no setting {key!r}; {available}'
        )
      if not registry.fits(value, SETTINGS[key]):
        default = SETTINGS[key].default
        expected = f'the type of its default {default!r}'
        raise core.InputError(
          f'row {name!r}: {key}={value!r} is not of {expected}'
        )
      if wrong := options.unmet(value, options.details(SETTINGS[key])):
        options.refuse(f'row {name!r}: {key}={value!r}', wrong)
    if bare:
      raise core.InputError(
        f"bad row {text!r}: expected 'with NAME=VALUE, ...'"
      )
    return cls(name, model, trained_on, used_in or after, given)

  def own(self, given: Any) -> Any:
    """Options of a stage, with this row's settings."""
    known = {field.name for field in dataclasses.fields(given)}
    mine = {k: x for k, x in self.settings.items() if k in known}
    return dataclasses.replace(given, **mine)


def rows_of(
  rows: Sequence[Row | str], world: core.World | str, runs: bool = False
) -> list[Row]:
  """Rows with objects for specs; raises InputError where one is bad.

  runs: may a model be the folder of a run? It stays text.
  """
  found: list[Row] = []
  for given in rows:
    row = Row.parse(given) if isinstance(given, str) else given
    if row.name in [other.name for other in found]:
      raise core.InputError(f'two rows are named {row.name!r}')
    trained_on = row.trained_on
    if trained_on is not None:
      trained_on = registry.made('world', trained_on)
    scored_in = registry.made('world', row.scored_in or trained_on or world)
    model = _model(row, runs)
    if trained_on is not None:
      _check_trained(row.name, model, trained_on, scored_in)
    found.append(Row(row.name, model, trained_on, scored_in, row.settings))
  return found


def _check_trained(
  name: str,
  model: core.Model | str,
  trained_on: core.World,
  scored_in: core.World,
) -> None:
  """Raises InputError where a row cannot be trained and then scored."""
  if not loading.is_trained(model):
    raise core.InputError(
      f'row {name!r}: there is nothing to train in {registry.spec(model)}; '
      "leave out 'on WORLD'"
    )
  if trained_on.vocab != scored_in.vocab:
    raise core.InputError(
      f'row {name!r}: {registry.spec(scored_in)} has another vocabulary than '
      f'{registry.spec(trained_on)}, on which it is trained'
    )


def _model(row: Row, runs: bool) -> core.Model | str:
  """The row's model, or the folder of a run as it is."""
  text = row.model if isinstance(row.model, str) else ''
  if not re.fullmatch(r'[^()]*/[^()]*', text) or registry.is_file(text):
    return registry.made('model', row.model)
  if not runs or row.trained_on is not None:
    raise core.InputError(
      f'row {row.name!r}: {text} is a folder; expected a model, as what was '
      "trained before is a row of a study, and 'on WORLD' trains anew"
    )
  if not os.path.isdir(text):
    raise core.InputError(
      f'row {row.name!r}: there is no run in {text}; train it first'
    )
  return text


@takes(Baselines)
def study(
  rows: Sequence[Row | str],
  world: core.World | str,
  metrics: core.Metric | str | Sequence[core.Metric | str],
  out: Path,
  *,
  seed: int = Scoring.seed,
  accept: Accept | str | None = Scoring.accept,
  fields: str | None = Scoring.fields,
  sampling: Sampling | None = None,
  training: Training | None = None,
  reconstruction: Reconstruction | None = None,
  num_samples: int = Routes.num,
  jobs: int = Sweeping.jobs,
  baselines: bool = Baselines.baselines,
  tell: Tell = calls.silent,
) -> pathlib.Path:
  """Samples for, trains, scores and maps every row, then reports them.

  Args:
    rows: models, as `Row` or as text (see `Row.parse`).
    world: that rows are scored in which name none.
    metrics: what to measure.
    out: folder; each row is a run in OUT/NAME.
    seed: of every stage, whatever the options say.
    accept: rule for all metrics that have one; None leaves theirs.
    fields: other fields of all metrics that have them, as in a spec.
    sampling, training, reconstruction: options of these stages.
    num_samples: routes sampled for a map.
    jobs: rows that are trained at a time, in processes of their own; those of
      one job are trained in this process. Several are of plug-ins.
    tell: gets a title for each stage, and what the stages say.

  Returns:
    Path of the report, OUT/report/report.html.

  Raises:
    InputError: bad specs, or a folder that holds something else.
  """
  place, found = pathlib.Path(out), rows_of(rows, world, runs=True)
  if _REPORT in [row.name for row in found]:
    raise core.InputError(
      f'no row can be named {_REPORT!r}: the report is in {place / _REPORT}'
    )
  asked = calls.metrics_of(metrics, accept, fields=fields)
  given: tuple[Any, ...] = (
    sampling or Sampling(),
    training or Training(),
    reconstruction or Reconstruction(),
  )
  stages = [dataclasses.replace(one, seed=seed) for one in given]
  with locks.writer(place, 'study'):
    if jobs > 1:
      _train(found, place, stages, jobs, tell)
    for row in found:
      done(row, asked, place / row.name, stages, num_samples, tell)
    more: list[Row] = []
    notes: list[str] = []
    if baselines:
      more, notes = baselines_of(found, stages[1], asked)
    for row in more:
      try:
        done(row, asked, place / row.name, stages, num_samples, tell)
        found.append(row)
      except core.InputError as error:  # The rows are reported without it.
        notes.append(f'No {row.name}: {error}')
    tell('== report')
    folders = [place / row.name for row in found]
    return report.report(folders, place, notes=notes, tell=tell)


def baselines_of(
  rows: Sequence[Row], training: Training, metrics: Sequence[core.Metric]
) -> tuple[list[Row], list[str]]:
  """Baselines of rows that `rows_of` has made, and why others are missing.

  Those of which no metric measures anything are left out.
  """
  scored = []
  for row in rows:
    model, trained = row.model, row.trained_on is not None
    if isinstance(model, str):  # The folder of a run.
      run = files.read_record(pathlib.Path(model, 'train.run.json'), {})
      model, trained = registry.make('model', run['model']), True
    assert isinstance(row.scored_in, core.World)  # By `rows_of`.
    names = row.own(training).objective == 'state'
    scored.append(
      baselines_lib.Scored(row.name, model, row.scored_in, trained, names)
    )
  more, reasons = baselines_lib.added(scored, metrics)
  return [Row(one.name, one.model, None, one.world) for one in more], reasons


def _train(
  rows: Sequence[Row],
  out: pathlib.Path,
  stages: Sequence[Any],
  jobs: int,
  tell: Tell,
) -> None:
  """Samples for and trains rows, `jobs` at a time.

  What fails here is trained again by `done`, where it says why.
  """
  waiting = []
  for row in rows:
    if row.trained_on is None:
      continue
    training = _sampled(row, out / row.name, stages, tell)
    order = {
      'world': registry.spec(row.trained_on),
      'model': registry.spec(row.model),
      'out': str(out / row.name),
      'training': dataclasses.asdict(training),
    }
    waiting.append(_job(row.name, order, training.steps))
  tell(f'== train {jobs} at a time; each says how far it is in train.log')
  pool.Pool().work(waiting, jobs, lambda one: str(one.folder), tell)


def _job(name: str, order: dict[str, Any], steps: int) -> pool.Job:
  folder = pathlib.Path(order['out'])
  summary = folder / 'train.json'
  return pool.Job(
    name,
    'train',
    folder,
    command=lambda: pool.command('train', **order),
    done=lambda: (
      summary.exists() and files.read_record(summary, {}).get('step') == steps
    ),
    begin=lambda: None,  # Training claims its folder itself.
  )


def _sampled(
  row: Row,
  out: pathlib.Path,
  stages: Sequence[Any],
  tell: Tell,
  shared: Path | None = None,
) -> Training:
  """Samples what a row is trained on; the options of its training."""
  sampling, training, _ = [row.own(one) for one in stages]
  if training.data is not None:
    return training
  assert isinstance(row.trained_on, core.World)  # By `rows_of`.
  place = pathlib.Path(shared or out)
  tell(f'== {row.name}: sample')
  with locks.writer(place, 'share', wait=True):
    calls.sample(row.trained_on, place, sampling, tell=tell)
  return dataclasses.replace(training, data=str(place / 'data'))


def done(
  row: Row,
  metrics: Sequence[core.Metric],
  out: Path,
  stages: Sequence[Any],
  num_samples: int,
  tell: Tell,
  shared: Path | None = None,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
  """Samples for, trains, scores and maps a row that `rows_of` has made.

  Args:
    row: what to do; its settings are stronger than the stages'.
    metrics: what to measure.
    out: folder of the run.
    stages: options of sampling, training and reconstruction, of one seed.
    num_samples: routes sampled for a map.
    tell: gets a title for each stage, and what the stages say.
    shared: folder of sampled data, where several rows have them; its other
      users are waited for. None is `out`.

  Returns:
    The entries of the scores, and the summary of the map, {} without one.
  """
  _, training, reconstruction = [row.own(one) for one in stages]
  threads.fix(training.threads)  # Before a row that is not trained starts JAX.
  assert isinstance(row.scored_in, core.World)  # By `rows_of`.
  source: Any = row.model
  if row.trained_on is not None:
    training = _sampled(row, pathlib.Path(out), stages, tell, shared)
    tell(f'== {row.name}: train')
    source = calls.train(row.trained_on, row.model, out, training, tell=tell)
  tell(f'== {row.name}: score')
  where: dict[str, Any] = {'name': row.name, 'tell': tell}
  entries = calls.score(
    source, list(metrics), row.scored_in, out=out, seed=training.seed, **where
  )
  if row.trained_on is None or not has_streets(row.scored_in):
    return entries, {}
  tell(f'== {row.name}: reconstruct')
  return entries, calls.reconstruct(
    source, out, row.scored_in, reconstruction, num=num_samples, **where
  )
