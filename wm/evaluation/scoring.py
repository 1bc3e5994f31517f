"""Runs metrics and writes scores.json, rows.csv and breakdown.json.

What each metric finds is kept in a part of its own under `scores/` as soon as
it is there, so a killed run goes on where it was; the three files are put
together from all parts. A part is used again as long as all that its rows
depend on is as it was (`wm.runtime.provenance`); summaries are made anew from
kept rows where only the statistics have changed.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from wm import core
from wm.core import registry
from wm.evaluation import needs, results
from wm.evaluation.results import Entry
from wm.runtime import commit, files, locks, progress, provenance

# Follow from what a folder is claimed for; older folders do not say them.
_DERIVED = ('recipe', 'training_seed')
# What a trial depends on besides the things themselves; what sums them up.
_ENGINE = ('wm.evaluation.needs', 'wm.evaluation.engine', 'wm.core.accept')
_SUMMARIES = ('wm.evaluation.results',)

Tell = Callable[[str], None]


def _need_memory(metric: core.Metric, world: core.World) -> None:
  """Raises InputError where a metric's trials are more than memory holds."""
  for name in metric.sized_by[:1]:
    trials = getattr(metric, name)
    tokens = 2 * (world.max_len + world.init(1).shape[1])
    for more in metric.sized_by[1:]:
      tokens += getattr(metric, more) * world.max_len
    core.need_memory(4 * trials * tokens, f'{metric.name}({name}={trials})')


def _checked(
  metric: core.Metric, found: tuple[core.Scores, ...]
) -> tuple[core.Scores, ...]:
  """What a metric gave; raises InputError where it is not what it should be."""
  label = f'metric {registry.spec(metric)}'
  if not isinstance(found, tuple) or {*map(type, found)} != {core.Scores}:
    raise core.InputError(
      f'{label} gave {type(found).__name__}; expected a tuple of core.Scores'
    )
  for scores in found:
    _check(f'{label}: {scores.quantity!r}', scores)
  return found


def _check(label: str, scores: core.Scores) -> None:
  """Raises InputError where what a metric gave fits no interval or table.

  label: what the error calls it.
  """
  num = len(scores.value)
  fields = {key: getattr(scores, key) for key in ('reason', 'group', 'weight')}
  for name, array in {**scores.columns, **fields}.items():
    if np.shape(array) != (num,):
      raise core.InputError(
        f'{label} has {name} of shape {np.shape(array)}; expected ({num},), '
        'one for each value'
      )
  least, most = scores.bounds or (-math.inf, None)
  most = math.inf if most is None else most
  value = scores.value[scores.measured]
  slack = 1e-6  # Of sums of float32.
  outside = value[~((value >= least - slack) & (value <= most + slack))]
  if len(outside):
    raise core.InputError(
      f'{label} has a value of {outside[0]:g}; expected {least:g} to {most:g}, '
      'the bounds of its core.Scores'
    )


class _Run:
  """A run of `run`: what is kept, what is stale, what is measured."""

  def __init__(
    self,
    folder: pathlib.Path,
    world: core.World,
    origin: provenance.Origin,
    about: Entry,
    tell: Tell,
  ) -> None:
    self.folder, self.world, self.about = folder, world, about
    self.tell, self.made_of = tell, origin
    self.reader = provenance.Reader()
    self.summed_from = self.reader.of(*_SUMMARIES).inputs

    self.origins: dict[str, provenance.Origin] = {}

  def origin(self, metric: core.Metric) -> provenance.Origin:
    """All that the metric's rows depend on, as it was when first asked."""
    spec = registry.spec(metric)
    if spec not in self.origins:
      found = self.reader.of(metric, self.world, *_ENGINE, self.made_of.inputs)
      unknown = found.unknown or self.made_of.unknown
      self.origins[spec] = found._replace(unknown=unknown)
    return self.origins[spec]

  def found_before(
    self, asked: Mapping[str, core.Metric]
  ) -> dict[str, results.Part]:
    """Spec -> part that still stands; the others are left out."""
    for metric in asked.values():
      self.origin(metric)  # Before anything is measured.
    if self.made_of.unknown:
      self.tell(f'{self.made_of.unknown}: all is measured anew each time')
    found, stale = {}, False
    for path in results.paths(self.folder):
      try:
        part = self._standing(path, asked)
        found[part.spec] = part
      except results.Unusable as error:
        stale = True
        self._leave_out(path, asked, error)
    if stale:
      for name in results.JOINED:
        (self.folder / name).unlink(missing_ok=True)
    return found

  def _standing(
    self, path: pathlib.Path, asked: Mapping[str, core.Metric]
  ) -> results.Part:
    """A part, its summaries as they would be made now; raises Unusable."""
    part = results.read(path)
    try:
      metric = asked.get(part.spec) or registry.make('metric', part.spec)
    except core.InputError as error:
      raise results.Unusable(str(error), part.spec) from error
    origin = self.origin(metric)
    why = part.unknown or origin.unknown
    why = why or provenance.difference(part.origin, origin.inputs)
    if why:
      raise results.Unusable(why, part.spec)
    changed = provenance.difference(part.summed_from, self.summed_from)
    self.tell(
      f'{part.spec}: kept from before'
      + (f', summed up anew: {changed}' if changed else '')
    )
    return self._written(metric, path, part) if changed else part

  def _leave_out(
    self,
    path: pathlib.Path,
    asked: Mapping[str, core.Metric],
    error: results.Unusable,
  ) -> None:
    """Says why a part is not used; removes it where it is measured again."""
    own = {results.path(self.folder, m.name, s): s for s, m in asked.items()}
    spec = error.spec or own.get(path, path.stem)
    if spec not in asked:
      self.tell(f'{spec}: left out, name the metric to measure it: {error}')
      return
    results.remove(path)
    if not self.made_of.unknown:
      self.tell(f'{spec}: measured anew: {error}')

  def _written(
    self, metric: core.Metric, path: pathlib.Path, part: results.Part
  ) -> results.Part:
    """Sums up the rows of a part and writes it."""
    named = part.about
    entries, breakdown = results.summed_up(
      metric, part.scores, self.world, **named
    )
    part = dataclasses.replace(
      part,
      entries=entries,
      breakdown=breakdown,
      summed_from=self.summed_from,
    )
    results.write(path, part)
    return part

  def measured(
    self, metric: core.Metric, found: tuple[core.Scores, ...]
  ) -> results.Part:
    """Writes what a metric found."""
    spec, origin = registry.spec(metric), self.origin(metric)
    path = results.path(self.folder, metric.name, spec)
    part = results.Part(spec, *origin, {}, self.about, [], [], found)
    return self._written(metric, path, part)


@locks.alone('score')
def run(
  predictor: core.Predictor,
  world: core.World,
  metrics: Sequence[core.Metric],
  *,
  seed: int,
  model_name: str,
  out: str | pathlib.Path,
  extra: Entry | None = None,
  origin: provenance.Origin = provenance.UNKNOWN,
  tell: Tell = print,
) -> list[Entry]:
  """Scores a predictor by metrics; goes on where a killed run stopped.

  Writes OUT/scores.json (a list of entries, see `results.entry`),
  OUT/rows.csv (every trial of every metric, for pandas.read_csv) and
  OUT/breakdown.json. What was found before in the same folder is kept as long
  as it stands; what no longer does goes, and is measured anew if it is asked
  for. A folder is claimed once something is found.

  Args:
    predictor: what to score.
    world: the truth.
    metrics: what to measure.
    seed: of all randomness.
    model_name: name in tables.
    out: folder of this model's results.
    extra: further fields of every entry, e.g. which checkpoint; part of what
      the folder is claimed for.
    origin: what the predictor is made from, its model's and its weights', by
      `provenance.Reader`; best taken before they are read. Without it nothing
      is kept for the next run.
    tell: gets a line on what is kept, and on what is not and why.

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
  files.claimed(folder, 'score', claimed)
  more = {**(extra or {}), 'commit': commit.describe()}
  about = {'seed': seed, 'model_name': model_name, 'extra': more}
  one = _Run(folder, world, origin, about, tell)
  asked = {registry.spec(metric): metric for metric in metrics}
  found = one.found_before(asked)
  for spec, metric in asked.items():
    if spec in found:
      continue
    if missing := needs.lacks(metric, predictor, world):
      rows = (needs.unmeasurable(missing),)
    else:
      _need_memory(metric, world)
      with progress.Progress(spec, unit='trials', keep=False):
        rows = _checked(metric, metric(predictor, world, seed))
    files.claim(folder, 'score', claimed)
    found[spec] = one.measured(metric, rows)
  order = [*asked, *(spec for spec in found if spec not in asked)]
  return results.join(folder, [found[spec] for spec in order])


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
    num = f'n={e["n"]} clusters={e["clusters"]}'
    lines.append(f'{name:<36} {value:>7} {bounds:<16} {num} {missing}'.rstrip())
  return '\n'.join(lines)
