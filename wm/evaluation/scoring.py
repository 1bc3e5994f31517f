"""Scoring: runs metrics on a predictor, and keeps and reuses their results.

The result of each metric is written to a part of its own as soon as it is
there, and a killed run resumes from these: see `results.ResultCache`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from wm import core
from wm.core import registry, resources
from wm.core.measure import lacking_row, lacks
from wm.evaluation import query_plans, results, shared_prompts
from wm.runtime import compute, files, progress, provenance

T = TypeVar('T')
# Follow from what a folder is claimed for; older folders do not say them.
_DERIVED = ('recipe', 'training_seed')


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
  # A world may have no held-out sequence, say.
  empty = functools.partial(core.scores, value=[np.nan], reason=['no_trials'])
  return tuple(
    scores
    if len(scores.value)
    else empty(scores.quantity, counts=scores.counts, bounds=scores.bounds)
    for scores in rows
  )


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

  def claim(self, seed: int) -> dict[str, Any]:
    """What makes results of a folder comparable; others are refused there."""
    return {
      'world': registry.spec(self.world),
      'world_version': self.world.version,
      'model': self.name,
      'seed': seed,
      **{k: x for k, x in self.about.items() if k not in _DERIVED},
    }

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
  sequential: bool = False,
  log: results.Log = print,
) -> list[results.Entry]:
  """Scores a predictor by metrics; goes on where a killed run stopped.

  Writes OUT/scores.json (a list of entries, see `results.entry`),
  OUT/rows.csv (every trial of every metric, for pandas.read_csv) and
  OUT/breakdown.json. Cached results of the folder are reused while their
  inputs are unchanged; others are left out, or recomputed if `metrics` has
  them. A folder is claimed with its first result.

  Args:
    loaded: what to score.
    metrics: what to measure.
    seed: of all randomness.
    out: folder of this model's results.
    max_calls: of a predictor each of whose answers costs: see
      `query_plans.plans`.
    sequential: see core.Scores.
    log: gets a line on each cached result: reused, or why not.

  Returns:
    Entries of `metrics`; the files also hold what else the folder has.

  Raises:
    InputError: the folder holds scores of another model, world or seed; the
      model's vocabulary is not the world's; a metric would ask too much.
  """
  loaded.check()
  predictor, world = _across_processes(loaded.predictor), loaded.world
  folder = pathlib.Path(out)
  more = {**loaded.about, 'commit': provenance.commit()}
  about = {'seed': seed, 'model_name': loaded.name, 'extra': more}
  fields = folder, loaded.claim(seed), world, loaded.origin, about, log
  cache = _if_process_0_can(lambda: results.ResultCache(*fields))
  # A language model is asked all questions of a metric at once, cheaper and in
  # parallel; then the metric finds them answered.
  plans: dict[str, query_plans.Plan] = {}
  if core.can(predictor, core.QueryModel.ask):
    planned = query_plans.plans(metrics, predictor, world, seed, max_calls, log)
    metrics = [plan.metric for plan in planned]
    plans = {registry.spec(plan.metric): plan for plan in planned}
    if max_calls < query_plans.NO_LIMIT:  # Nothing of it was asked before.
      questions = [query for plan in planned for query in plan.questions]
      shared_prompts.check(questions, predictor, world, log)
  asked = {registry.spec(metric): metric for metric in metrics}
  results_of = _load_cached(cache, asked, sequential)
  rows: tuple[core.Scores, ...]
  for number, (spec, metric) in enumerate(asked.items(), 1):
    if _agreed(spec in results_of):
      continue
    title = f'{number} of {len(asked)}: {spec}' if len(asked) > 1 else spec
    # A pair that does not fit is a row with a reason, as a trial would be.
    if missing := lacks(metric, type(predictor), type(world)):
      rows = (lacking_row(missing),)
    else:
      resources.require(metric, world)
      # Processes would not agree on what is left of a metric.
      keeps = compute.num_processes() == 1
      with (
        progress.Progress(title, unit='trials', keep=False) as shown,
        cache.unfinished(metric) if keeps else contextlib.nullcontext(),
      ):
        shown.passes = metric.passes()
        if spec in plans:
          plans[spec].ask()
        rows = _checked(metric, metric(predictor, world, seed))
        if spec in plans:
          rows += plans[spec].scores(world)
    add = functools.partial(cache.add, metric, _marked(rows, sequential))
    results_of[spec] = _if_process_0_can(add)
  # What was asked for comes first, then other cached results.
  order = [*asked, *(spec for spec in results_of if spec not in asked)]
  # Processes other than 0 lack what process 0 has cached.
  listed = [results_of[spec] for spec in order if spec in results_of]
  entries = results.join(folder, listed)
  return [entry for entry in entries if entry['spec'] in asked]


def _across_processes(predictor: core.TokenReader) -> core.TokenReader:
  """The predictor, shared by the processes where they are several."""
  if compute.num_processes() == 1:
    return predictor
  if core.can(predictor, core.QueryModel.ask):  # Each would pay for itself.
    raise core.InputError(
      f'a language model was given to {compute.num_processes()} processes; '
      'expected one, which asks many questions at a time'
    )
  return predictor.across_processes()


def _if_process_0_can(act: Callable[[], T]) -> T:
  """What `act` returns; where process 0 fails, no process waits for it."""
  failure: core.InputError | OSError | None = None
  try:
    result = act()
  except (core.InputError, OSError) as error:
    failure = error
  if _agreed(failure is not None) and failure is None:
    raise core.InputError('process 0 could not write to --out; it says why')
  if failure is not None:
    raise failure
  return result


def _agreed(word: bool) -> bool:
  """What process 0 says: it alone has results of earlier runs."""
  words = compute.gathered(np.array([word]), compute.num_processes())
  return bool(words[0])


def _load_cached(
  cache: results.ResultCache,
  asked: Mapping[str, core.Metric],
  sequential: bool,
) -> dict[str, results.Result]:
  """Spec -> usable cached result, whose rows say how they were stopped."""
  cached = cache.load_unchanged(asked)
  for spec in asked.keys() & cached.keys():
    rows = _marked(cached[spec].scores, sequential)
    if rows is not cached[spec].scores:
      cached[spec] = cache.add(asked[spec], rows)
  return cached


def _marked(
  rows: tuple[core.Scores, ...], sequential: bool
) -> tuple[core.Scores, ...]:
  """The rows of a metric, which say how it was stopped."""
  if all(scores.sequential == sequential for scores in rows):
    return rows
  return tuple(
    dataclasses.replace(scores, sequential=sequential) for scores in rows
  )


def table(entries: Sequence[results.Entry]) -> str:
  """Entries as lines of text, for the terminal."""
  specs: dict[str, set[str]] = {}
  for e in entries:
    specs.setdefault(e['metric'], set()).add(e['spec'])
  lines = []
  for e in entries:
    value = '-' if e['value'] is None else f'{e["value"]:.3f}'
    bounds = ''
    if e['low'] is not None:
      bounds = f'[{e["low"]:.3f}, {e["high"]:.3f}]'
    elif e['value'] is not None:
      bounds = f'({e["interval"]})'
    missing = json.dumps(e['unmeasured']) if e['unmeasured'] else ''
    # Several settings of a metric are told apart by its spec.
    label = e['spec'] if len(specs[e['metric']]) > 1 else e['metric']
    name = f'{label}: {e["quantity"]}'
    num = f'n={e["n"]} clusters={e["clusters"]}'
    cells = f'{value:>7} {bounds:<16} {num} {missing}'.rstrip()
    lines.append((name, cells))
  width = max([36, *(len(name) for name, _ in lines)])
  return '\n'.join(f'{name:<{width}} {cells}' for name, cells in lines)
