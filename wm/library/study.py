"""Several models on one world: trained, scored, mapped, reported together."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Sequence
from typing import Any

from wm import core
from wm.core import registry
from wm.core.accept import Accept
from wm.library import calls, report
from wm.library.calls import Tell
from wm.options.calls import Path, Routes, Scoring
from wm.options.reconstruction import Reconstruction
from wm.options.sampling import Sampling
from wm.options.training import Training
from wm.recon.routes import has_streets
from wm.runtime import locks

_ROW = r'\s*(\w+)\s*:\s*(.+?)(?:\s+on\s+(.+?)(?:\s+then\s+on\s+(.+?))?)?\s*'


@dataclasses.dataclass(frozen=True)
class Row:
  """A model of a study.

  Attributes:
    name: of its folder and its row in tables; letters, digits, underscores.
    model: spec or object.
    trained_on: world that it is trained on first; None: scored as it is.
    scored_in: world that it is scored in; None is `trained_on`, or else the
      study's.
  """

  name: str
  model: core.Model | str
  trained_on: core.World | str | None = None
  scored_in: core.World | str | None = None

  @classmethod
  def parse(cls, text: str) -> Row:
    """'NAME: MODEL', 'NAME: MODEL on WORLD' or '... then on WORLD'.

    Raises:
      InputError: it is not of this form.
    """
    match = re.fullmatch(_ROW, text)
    if not match:
      expected = "expected 'NAME: MODEL' or 'NAME: MODEL on WORLD'"
      raise core.InputError(f'bad row {text!r}: {expected}')
    return cls(*match.groups())


def rows_of(rows: Sequence[Row | str], world: core.World | str) -> list[Row]:
  """Rows with objects for specs; raises InputError where one is bad."""
  found: list[Row] = []
  for given in rows:
    row = Row.parse(given) if isinstance(given, str) else given
    if row.name in [other.name for other in found]:
      raise core.InputError(f'two rows are named {row.name!r}')
    trained_on = row.trained_on
    if trained_on is not None:
      trained_on = registry.made('world', trained_on)
    scored_in = row.scored_in or trained_on or world
    found.append(
      Row(
        row.name,
        registry.made('model', row.model),
        trained_on,
        registry.made('world', scored_in),
      )
    )
  return found


def study(
  rows: Sequence[Row | str],
  world: core.World | str,
  metrics: core.Metric | str | Sequence[core.Metric | str],
  out: Path,
  *,
  seed: int = Scoring.seed,
  accept: Accept | str | None = Scoring.accept,
  sampling: Sampling | None = None,
  training: Training | None = None,
  reconstruction: Reconstruction | None = None,
  num_samples: int = Routes.num,
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
    sampling, training, reconstruction: options of these stages.
    num_samples: routes sampled for a map.
    tell: gets a title for each stage, and what the stages say.

  Returns:
    Path of the report, OUT/report/report.html.

  Raises:
    InputError: bad specs, or a folder that holds something else.
  """
  place, found = pathlib.Path(out), rows_of(rows, world)
  asked = calls.metrics_of(metrics, accept)
  options: tuple[Any, ...] = (
    sampling or Sampling(),
    training or Training(),
    reconstruction or Reconstruction(),
  )
  stages = [dataclasses.replace(one, seed=seed) for one in options]
  with locks.writer(place, 'study'):
    for row in found:
      _row(row, asked, place / row.name, stages, num_samples, tell)
    tell('== report')
    folders = [place / row.name for row in found]
    return report.report(folders, place, tell=tell)


def _row(
  row: Row,
  metrics: list[core.Metric],
  out: pathlib.Path,
  stages: list[Any],
  num_samples: int,
  tell: Tell,
) -> None:
  sampling, training, reconstruction = stages
  assert isinstance(row.scored_in, core.World)  # By `rows_of`.
  source: Any = row.model
  if row.trained_on is not None:
    tell(f'== {row.name}: sample')
    calls.sample(row.trained_on, out, sampling, tell=tell)
    tell(f'== {row.name}: train')
    source = calls.train(row.trained_on, row.model, out, training, tell=tell)
  tell(f'== {row.name}: score')
  where: dict[str, Any] = {'name': row.name, 'tell': tell}
  calls.score(
    source, metrics, row.scored_in, out=out, seed=training.seed, **where
  )
  if row.trained_on is not None and has_streets(row.scored_in):
    tell(f'== {row.name}: reconstruct')
    calls.reconstruct(
      source, out, row.scored_in, reconstruction, num=num_samples, **where
    )
