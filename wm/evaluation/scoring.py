"""Scoring: runs metrics on a predictor, and stores and reuses their results.

The result of each metric is written to its own file as soon as it is complete,
and a killed run resumes from these files: see `results.ResultCache`.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from wm import core
from wm.core import basics, capabilities, registry, resources
from wm.core.measure import lacking_row, lacks
from wm.evaluation import membership, query_plans, results
from wm.runtime import progress, provenance

# Fields that follow from a folder's claim; older folders lack them.
_DERIVED = ('recipe', 'training_seed', 'status', 'cautions')


def _checked(
  metric: core.Metric, rows: tuple[core.Scores, ...]
) -> tuple[core.Scores, ...]:
  """Checks the rows of a metric; raises InputError if they are malformed."""
  label = f'metric {registry.spec(metric)}'
  if not isinstance(rows, tuple) or {*map(type, rows)} != {core.Scores}:
    raise core.InputError(
      f'{label} gave {type(rows).__name__}; expected a tuple of core.Scores'
    )
  # Quantities are keys of tables and pages, so they must differ.
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
    # Rounding errors of sums may put a share slightly above 1.
    dataclasses.replace(scores, value=np.clip(scores.value, *scores.limits))
    if len(scores.value)
    else empty(scores.quantity, counts=scores.counts, bounds=scores.bounds)
    for scores in rows
  )


def _check(label: str, scores: core.Scores) -> None:
  """Raises InputError if Scores of a metric are malformed.

  label: name of the scores in errors.
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
  value = scores.value[scores.measured]
  slack = 1e-5  # For sums of float32, which are then clipped to the bounds.
  # NaN counts as outside.
  outside = value[~((value >= least - slack) & (value <= most + slack))]
  if len(outside):
    raise core.InputError(
      f'{label} has a value of {outside[0]:g}; expected {least:g} to {most:g}, '
      'the bounds of its core.Scores'
    )


@dataclasses.dataclass(frozen=True)
class Loaded:
  """A predictor, with its description for results.

  Attributes:
    predictor: a reader of tokens, usually a core.Predictor.
    world: the world that it is scored in.
    name: name of its model in tables.
    about: further fields that identify it: spec, checkpoint, step, training.
      They are in every entry, and in the claim of a folder.
    origin: its inputs, by `provenance.Reader`, best taken before they are
      read. Without it no result is reused by the next run.
  """

  predictor: core.TokenReader
  world: core.World
  name: str
  about: dict[str, Any] = dataclasses.field(default_factory=dict)
  origin: provenance.Origin = provenance.UNKNOWN

  def claim(self, seed: int) -> dict[str, Any]:
    """Fields that all results of a folder share; others are refused."""
    return {
      'world': registry.spec(self.world),
      'world_version': self.world.version,
      'model': self.name,
      'seed': seed,
      **{k: x for k, x in self.about.items() if k not in _DERIVED},
    }

  def check(self) -> None:
    """Raises InputError for a bad name, or for another world's predictor."""
    if any('\ud800' <= char <= '\udfff' for char in self.name):
      raise core.InputError(f'name={self.name!a}: half a surrogate pair')
    if self.predictor.vocab_size != len(self.world.vocab):
      raise core.InputError(
        f'model {self.name!r} knows {self.predictor.vocab_size} tokens, but '
        f'{registry.spec(self.world)} has {len(self.world.vocab)}: it was made '
        'for another world'
      )


def run(
  loaded: Loaded,
  metrics: Sequence[core.Metric],
  *,
  seed: int,
  out: str | pathlib.Path,
  max_calls: int = 0,
  log: results.Log = print,
) -> list[results.Entry]:
  """Scores a predictor by metrics; a rerun resumes a killed run.

  Writes OUT/scores.json (a list of entries, see `results.entry`),
  OUT/rows.parquet (every trial of every metric, for pandas.read_parquet) and
  OUT/breakdown.json; the caller locks OUT. Cached results are reused while
  their inputs are unchanged; others are left out, or recomputed if they are in
  `metrics`. A folder is claimed with its first result.

  Args:
    loaded: predictor to score.
    metrics: metrics to run.
    seed: seed of all randomness.
    out: folder of this model's results.
    max_calls: maximum number of calls to a predictor whose answers cost; see
      `query_plans.plans`.
    log: gets notes on the world, and why results are or are not reused.

  Returns:
    Entries of `metrics`; the files also hold the folder's other results.

  Raises:
    InputError: the folder holds scores of another model, world or seed; the
      model's vocabulary is not the world's; a metric would need too many calls.
  """
  loaded.check()
  if not registry.is_ours(type(loaded.world)):
    check_oracle(loaded.world)
  predictor, world = loaded.predictor, loaded.world
  folder = pathlib.Path(out)
  more = loaded.about | _about(world, log)
  about = {'seed': seed, 'model_name': loaded.name, 'extra': more}
  terms = predictor.contract
  mark = terms.fingerprint if terms else ()
  fields = folder, loaded.claim(seed), world, loaded.origin, about, log, mark
  cache = results.ResultCache(*fields)
  plans = _plans(metrics, loaded, seed, max_calls, log)
  metrics = [plan.metric for plan in plans.values()] or metrics
  asked = {registry.spec(metric): metric for metric in metrics}
  results_of = cache.load_unchanged(asked)
  rows: tuple[core.Scores, ...]
  for number, (spec, metric) in enumerate(asked.items(), 1):
    if spec in results_of:
      continue
    title = f'{number} of {len(asked)}: {spec}' if len(asked) > 1 else spec
    # A pair that does not fit gives an unmeasured row, like a trial.
    if missing := lacks(metric, type(predictor), type(world)):
      rows = (lacking_row(missing),)
    else:
      resources.require(metric, world)
      with progress.Progress(title, unit='trials', keep=False):
        if spec in plans:
          plans[spec].ask()
        rows = _checked(metric, metric(predictor, world, seed))
        if spec in plans:
          rows += plans[spec].scores(world)
    settled = membership.threshold(metric, predictor, world)
    settled |= terms.settle(loaded.name) if terms else {}
    results_of[spec] = cache.add(metric, rows, settled)
  # Results of `metrics` come first, then other cached results.
  order = [*asked, *(spec for spec in results_of if spec not in asked)]
  entries = results.join(folder, [results_of[spec] for spec in order])
  return [entry for entry in entries if entry['spec'] in asked]


def _plans(
  metrics: Sequence[core.Metric],
  loaded: Loaded,
  seed: int,
  max_calls: int,
  log: results.Log,
) -> dict[str, query_plans.Plan]:
  """Spec -> plan of a metric's questions; empty if answers are free.

  A language model is asked all questions of a metric at once, which is cheaper
  and parallel; the metric then reads the cached answers.
  """
  predictor, world = loaded.predictor, loaded.world
  # A predictor with free answers is asked by the metric itself.
  if not core.can(predictor, core.QueryModel.ask):
    return {}
  plans = query_plans.plans(metrics, predictor, world, seed, max_calls, log)
  return {registry.spec(plan.metric): plan for plan in plans}


def _about(world: core.World, log: results.Log) -> results.Entry:
  """Fields of every entry; logs notes on the world before any number."""
  # How its files were read, and whether legality depends on the state.
  notes = capabilities.notes(world)
  for name, text in notes.items():
    log(f'{name}: {text}')
  noted = {'world_notes': notes} if notes else {}
  rules = core.world.rules_hash(world)
  return {**noted, 'rules': rules, 'commit': provenance.commit()}


_sound: set[tuple[type, str]] = set()  # Checked worlds: class and spec.


def check_oracle(world: core.World) -> None:
  """Raises InputError if the oracle, which accepts the legal tokens, fails.

  Sequences that the world samples then do not follow its own rules.
  """
  if (key := (type(world), registry.spec(world))) in _sound:
    return
  oracle = registry.make('model', 'oracle()').predictor(world, 0)
  metric = registry.make('metric', "next_token(num=64, accept='epsilon(0)')")
  # Means must be 1 up to rounding; no held-out sequence gives no mean.
  for scores in metric(oracle, world, 0):
    values = scores.value[scores.measured]
    if values.size and values.min() < 1 - basics.OPTIMAL_TOLERANCE:
      raise core.InputError(
        f'{registry.spec(world)}: the oracle, which accepts what legal says, '
        f'has {scores.quantity} {values.mean():.3f}; expected 1: what is legal '
        'must follow from the tokens of a sequence'
      )
  _sound.add(key)


def unmeasured(entries: Sequence[results.Entry], strict: bool = False) -> str:
  """Reason why scores count as a failure, as a line, or ''.

  Scores fail if no trial of any metric was measured. With `strict` every metric
  must be measured, and the model's training must be finished.
  """
  # A metric counts as measured if any of its quantities is.
  specs = dict.fromkeys(e['spec'] for e in entries)
  measured = {e['spec'] for e in entries if e['n']}
  empty = [e for e in entries if e['spec'] not in measured]
  if empty and (strict or not measured):
    reasons = ', '.join(empty[0]['unmeasured']) or 'no trials'
    return f'{empty[0]["spec"]} was not measured in any trial: {reasons}' + (
      f' (and {len(specs) - len(measured) - 1} more)' * (len(specs) > 1)
    )
  # The cautions name the training step.
  partial = [e for e in entries if e['status'] == results.PARTIAL]
  if strict and partial:
    return f'{partial[0]["model"]} {"; ".join(partial[0]["cautions"])}'
  return ''


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
    # Specs distinguish several settings of a metric.
    label = e['spec'] if len(specs[e['metric']]) > 1 else e['metric']
    name = f'{label}: {e["quantity"]}'
    num = f'n={e["n"]} clusters={e["clusters"]}'
    cells = f'{value:>7} {bounds:<16} {num} {missing}'.rstrip()
    lines.append((name, cells))
  width = max([36, *(len(name) for name, _ in lines)])
  return '\n'.join(f'{name:<{width}} {cells}' for name, cells in lines)
