"""Scoring: runs metrics on a predictor, and keeps and reuses their results.

The result of each metric is written to a part of its own as soon as it is
there, and a killed run resumes from these (`ResultCache`). The result files are
joined from all parts (`wm.evaluation.results`).

A part stands as long as all that its rows depend on is as it was
(`wm.runtime.provenance`). Its summaries are computed anew where only the
statistics have changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from wm import core
from wm.core import registry, resources
from wm.evaluation import needs, query_plans, results
from wm.evaluation.results import Entry
from wm.runtime import files, partial_results, progress, provenance

# Follow from what a folder is claimed for; older folders do not say them.
_DERIVED = ('recipe', 'training_seed')
# What a trial depends on besides the things themselves; what sums them up.
_ENGINE = ('wm.evaluation.needs', 'wm.evaluation.engine', 'wm.core.accept')
_SUMMARIES = ('wm.evaluation.results',)
UNFINISHED = 'unfinished'  # Folder of what a metric has so far.

Log = Callable[[str], None]


def _checked(
  metric: core.Metric, rows: tuple[core.Scores, ...]
) -> tuple[core.Scores, ...]:
  """The rows of a metric; raises InputError where they are malformed."""
  label = f'metric {registry.spec(metric)}'
  if not isinstance(rows, tuple) or {*map(type, rows)} != {core.Scores}:
    raise core.InputError(
      f'{label} gave {type(rows).__name__}; expected a tuple of core.Scores'
    )
  # Quantities are keys of tables and pages: they must differ.
  names = [scores.quantity for scores in rows]
  for name in names:
    if not isinstance(name, str) or not name or names.count(name) > 1:
      raise core.InputError(
        f'{label} gave quantities {names}; expected different names'
      )
  for scores in rows:
    _check(f'{label}: {scores.quantity!r}', scores)
  return rows


def _limits(label: str, scores: core.Scores) -> tuple[float, float]:
  """Least and greatest value possible; InputError where bounds are no two."""
  bounds = (None, None) if scores.bounds is None else scores.bounds
  if len(bounds) != 2 or not all(
    isinstance(end, int | float | None) for end in bounds
  ):
    raise core.InputError(
      f'{label} has bounds {scores.bounds!r}; expected two numbers, or None'
    )
  # An interval is scaled to its bounds, which must not be equal.
  least, most = scores.limits
  if not least < most:
    raise core.InputError(
      f'{label} has bounds {scores.bounds}; expected the least value possible, '
      'and a greater one'
    )
  return least, most


def _check(label: str, scores: core.Scores) -> None:
  """Raises InputError where what a metric gave fits no interval or table.

  label: what the error calls it.
  """
  if np.ndim(scores.value) != 1:
    raise core.InputError(
      f'{label} has values of shape {np.shape(scores.value)}; expected one '
      'number for each trial'
    )
  num = len(scores.value)
  fields = {key: getattr(scores, key) for key in ('reason', 'group', 'weight')}
  for name, array in {**scores.columns, **fields}.items():
    if np.shape(array) != (num,):
      raise core.InputError(
        f'{label} has {name} of shape {np.shape(array)}; expected ({num},), '
        'one for each value'
      )
  least, most = _limits(label, scores)
  value = scores.value[scores.measured]
  slack = 1e-6  # Of sums of float32.
  # Written so that NaN is outside too.
  outside = value[~((value >= least - slack) & (value <= most + slack))]
  if len(outside):
    raise core.InputError(
      f'{label} has a value of {outside[0]:g}; expected {least:g} to {most:g}, '
      'the bounds of its core.Scores'
    )


@dataclasses.dataclass(frozen=True)
class Loaded:
  """A predictor, and all that results say of it.

  Attributes:
    predictor: what reads tokens, mostly a core.Predictor.
    world: that it is used in.
    name: of its model, in tables.
    about: what else identifies it: spec, checkpoint, step, training. Fields of
      every entry, and part of what a folder is claimed for.
    origin: inputs that it is made from, by `provenance.Reader`, best taken
      before they are read. Without it no result is kept for the next run.
  """

  predictor: core.TokenReader
  world: core.World
  name: str
  about: dict[str, Any] = dataclasses.field(default_factory=dict)
  origin: provenance.Origin = provenance.UNKNOWN

  def check(self) -> None:
    """Raises InputError where results of it could not be written or read."""
    if any('\ud800' <= char <= '\udfff' for char in self.name):
      raise core.InputError(f'name={self.name!a}: half a surrogate pair')
    if self.predictor.vocab_size != len(self.world.vocab):
      raise core.InputError(
        f'model {self.name!r} knows {self.predictor.vocab_size} tokens, but '
        f'{registry.spec(self.world)} has {len(self.world.vocab)}: it was made '
        'for another world'
      )


@files.locked_stage('score')
def run(
  loaded: Loaded,
  metrics: Sequence[core.Metric],
  *,
  seed: int,
  out: str | pathlib.Path,
  max_calls: int = 0,
  log: Log = print,
) -> list[Entry]:
  """Scores a predictor by metrics; goes on where a killed run stopped.

  Writes OUT/scores.json (a list of entries, see `results.entry`),
  OUT/rows.csv (every trial of every metric, for pandas.read_csv) and
  OUT/breakdown.json. What was found before in the same folder is kept as long
  as it stands; what no longer does goes, and is measured anew if it is asked
  for. A folder is claimed once something is found.

  Args:
    loaded: what to score.
    metrics: what to measure.
    seed: of all randomness.
    out: folder of this model's results.
    max_calls: of a predictor each of whose answers costs: see
      `query_plans.plans`.
    log: gets a line on what is kept, and on what is not and why.

  Raises:
    InputError: the folder holds scores of another model, world or seed; the
      model's vocabulary is not the world's; a metric would ask too much.
  """
  loaded.check()
  predictor, world = loaded.predictor, loaded.world
  folder = pathlib.Path(out)
  # All that makes results of a folder comparable; a run of something else is
  # refused instead of mixed in.
  claimed = {
    'world': registry.spec(world),
    'world_version': world.version,
    'model': loaded.name,
    'seed': seed,
    **{k: x for k, x in loaded.about.items() if k not in _DERIVED},
  }
  more = {**loaded.about, 'commit': provenance.commit()}
  about = {'seed': seed, 'model_name': loaded.name, 'extra': more}
  parts = ResultCache(folder, claimed, world, loaded.origin, about, log)
  # A language model is asked all questions of a metric at once, cheaper and in
  # parallel; then the metric finds them answered.
  plans: dict[str, query_plans.Plan] = {}
  if core.can(predictor, core.QueryModel.ask):
    planned = query_plans.plans(metrics, predictor, world, seed, max_calls, log)
    metrics = [plan.metric for plan in planned]
    plans = {registry.spec(plan.metric): plan for plan in planned}
  asked = {registry.spec(metric): metric for metric in metrics}
  finished = parts.load_valid(asked)
  for spec, metric in asked.items():
    if spec in finished:
      continue
    rows: tuple[core.Scores, ...]
    # A pair that does not fit is a row with a reason, as a trial would be.
    if missing := needs.lacks(metric, type(predictor), type(world)):
      rows = (needs.row(missing),)
    else:
      resources.require(metric, world)
      with (
        progress.Progress(spec, unit='trials', keep=False),
        parts.unfinished(metric),
      ):
        if spec in plans:
          plans[spec].ask()
        rows = _checked(metric, metric(predictor, world, seed))
        if spec in plans:
          rows += plans[spec].scores(world)
    finished[spec] = parts.add(metric, rows)
  # What was asked for comes first, then what is kept from before.
  order = [*asked, *(spec for spec in finished if spec not in asked)]
  return results.join(folder, [finished[spec] for spec in order])


def table(entries: Sequence[Entry]) -> str:
  """Entries as lines of text, for the terminal."""
  lines = []
  for e in entries:
    value = '-' if e['value'] is None else f'{e["value"]:.3f}'
    bounds = ''
    if e['low'] is not None:
      bounds = f'[{e["low"]:.3f}, {e["high"]:.3f}]'
    elif e['value'] is not None:
      bounds = f'({e["interval"]})'
    missing = json.dumps(e['unmeasured']) if e['unmeasured'] else ''
    name = f'{e["metric"]}: {e["quantity"]}'
    num = f'n={e["n"]} clusters={e["clusters"]}'
    lines.append(f'{name:<36} {value:>7} {bounds:<16} {num} {missing}'.rstrip())
  return '\n'.join(lines)


class ResultCache:
  """Cached and newly computed metric results of a run folder."""

  def __init__(
    self,
    folder: pathlib.Path,
    claim: Mapping[str, Any],
    world: core.World,
    origin: provenance.Origin,
    about: Entry,
    log: Log,
  ) -> None:
    """Looks whether the folder is free.

    Args:
      folder: of the run.
      claim: what the folder is claimed for once something is found.
      world: the truth.
      origin: what the predictor is made from.
      about: what entries say of the run.
      log: gets a line on what is kept, and on what is not and why.

    Raises:
      InputError: the folder is claimed for another run.
    """
    files.claimed(folder, 'score', claim)
    self.folder, self.claim, self.world = folder, claim, world
    self.about, self.log, self.made_of = about, log, origin
    self.reader = provenance.Reader()
    self.summed_from = self.reader.of(*_SUMMARIES).inputs
    self.origins: dict[str, provenance.Origin] = {}

  def origin(self, metric: core.Metric) -> provenance.Origin:
    """All that the metric's rows depend on, as it was when first asked."""
    # Taken before measuring: a source file that changes meanwhile must not
    # count as what was run.
    spec = registry.spec(metric)
    if spec not in self.origins:
      origin = self.reader.of(metric, self.world, *_ENGINE, self.made_of.inputs)
      unknown = origin.unknown or self.made_of.unknown
      self.origins[spec] = origin._replace(unknown=unknown)
    return self.origins[spec]

  def load_valid(
    self, asked: Mapping[str, core.Metric]
  ) -> dict[str, results.Part]:
    """Spec -> part that still stands; the others are left out."""
    for metric in asked.values():
      self.origin(metric)  # Before anything is measured.
    if self.made_of.unknown:
      self.log(f'{self.made_of.unknown}: all is measured anew each time')
    valid, stale = {}, False
    for path in results.paths(self.folder):
      try:
        part = self._load_if_valid(path, asked)
        valid[part.spec] = part
      # Damaged, of another version, or made from other inputs: never an error.
      except results.Unusable as error:
        stale = True
        self._discard(path, asked, error)
    # What was put together from parts that stand no more must not be read.
    if stale:
      for name in results.JOINED:
        (self.folder / name).unlink(missing_ok=True)
    return valid

  def _load_if_valid(
    self, path: pathlib.Path, asked: Mapping[str, core.Metric]
  ) -> results.Part:
    """A part, its summaries as they would be made now; raises Unusable."""
    part = results.read(path)
    # Its metric may be a user's file that is gone.
    try:
      metric = asked.get(part.spec) or registry.make('metric', part.spec)
    except core.InputError as error:
      raise results.Unusable(str(error), part.spec) from error
    origin = self.origin(metric)
    why = part.unknown or origin.unknown
    why = why or provenance.difference(part.origin, origin.inputs)
    if why:
      raise results.Unusable(why, part.spec)
    # The rows stand; only the statistics over them are computed again.
    changed = provenance.difference(part.summed_from, self.summed_from)
    self.log(
      f'{part.spec}: kept from before'
      + (f', summed up anew: {changed}' if changed else '')
    )
    return self._written(metric, path, part) if changed else part

  def _discard(
    self,
    path: pathlib.Path,
    asked: Mapping[str, core.Metric],
    error: results.Unusable,
  ) -> None:
    """Says why a part is not used; removes it where it is measured again."""
    # A part that cannot be read is known by its file name.
    paths = {results.path(self.folder, m.name, s): s for s, m in asked.items()}
    spec = error.spec or paths.get(path, path.stem)
    if spec not in asked:
      self.log(f'{spec}: left out, name the metric to measure it: {error}')
      return
    results.remove(path)
    if not self.made_of.unknown:
      self.log(f'{spec}: measured anew: {error}')

  def _written(
    self, metric: core.Metric, path: pathlib.Path, part: results.Part
  ) -> results.Part:
    """Sums up the rows of a part and writes it."""
    entries, breakdown = results.summed_up(
      metric, part.scores, self.world, **part.about
    )
    # Written at once: results of a killed run are kept up to here.
    part = dataclasses.replace(
      part, entries=entries, breakdown=breakdown, summed_from=self.summed_from
    )
    results.write(path, part)
    return part

  def unfinished(
    self, metric: core.Metric
  ) -> contextlib.AbstractContextManager[None]:
    """Keeps what a metric has so far, for a run that goes on after a kill."""
    origin = self.origin(metric)
    if origin.unknown:  # It may be another model's the next time.
      return contextlib.nullcontext()
    # Partial results count only for the same spec and the same inputs.
    mark = partial_results.digest(
      [registry.spec(metric), sorted(origin.inputs.items())]
    )
    return partial_results.kept(self.folder / UNFINISHED, mark)

  def add(
    self, metric: core.Metric, rows: tuple[core.Scores, ...]
  ) -> results.Part:
    """Claims the folder and writes what a metric found."""
    # Claimed with the first result, so that a run that fails leaves no mark.
    files.claim(self.folder, 'score', self.claim)
    spec, origin = registry.spec(metric), self.origin(metric)
    path = results.path(self.folder, metric.name, spec)
    part = results.Part(spec, *origin, {}, self.about, [], [], rows)
    return self._written(metric, path, part)
