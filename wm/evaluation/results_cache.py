"""What earlier runs measured in a folder, kept as long as it stands.

A part of the results (`wm.evaluation.results`) stands as long as all that its
rows depend on is as it was (`wm.runtime.provenance`). Its summaries are made
anew where only the statistics have changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from wm import core
from wm.core import registry
from wm.evaluation import results
from wm.evaluation.results import Entry
from wm.runtime import files, partial_results, provenance

# What a trial depends on besides the things themselves; what sums them up.
_ENGINE = (
  'wm.evaluation.needs',
  'wm.evaluation.trials.engine',
  'wm.core.accept',
)
_SUMMARIES = ('wm.evaluation.results',)
UNFINISHED = 'unfinished'  # Folder of what a metric has so far.

Log = Callable[[str], None]


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
    part = dataclasses.replace(
      part,
      entries=entries,
      breakdown=breakdown,
      summed_from=self.summed_from,
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
    mark = partial_results.digest(
      [registry.spec(metric), sorted(origin.inputs.items())]
    )
    return partial_results.kept(self.folder / UNFINISHED, mark)

  def add(
    self, metric: core.Metric, rows: tuple[core.Scores, ...]
  ) -> results.Part:
    """Claims the folder and writes what a metric found."""
    files.claim(self.folder, 'score', self.claim)
    spec, origin = registry.spec(metric), self.origin(metric)
    path = results.path(self.folder, metric.name, spec)
    part = results.Part(spec, *origin, {}, self.about, [], [], rows)
    return self._written(metric, path, part)
