"""A metric that counts its calls, and how it is run."""

import dataclasses
import json
from typing import ClassVar

import numpy as np

from tests import tiny
from wm import core
from wm.evaluation import scoring
from wm.models.serving import oracles
from wm.runtime import provenance

WORLD = tiny.World()
ORACLE = oracles.Oracle(WORLD)
ORIGIN = provenance.Origin({'model': 'oracle'})
OTHER = provenance.Origin({'model': 'another'})


@dataclasses.dataclass(frozen=True)
class Counted(core.Metric):
  """Counts its calls; may be interrupted or need what is not there."""

  version: ClassVar[str] = '7'
  calls: ClassVar[list[str]] = []
  interrupted: ClassVar[set[str]] = set()
  breakdown: ClassVar[tuple[str, ...]] = ('kind',)

  label: str = 'a'

  def __call__(self, predictor, world, seed):
    if self.label in self.interrupted:
      raise KeyboardInterrupt
    self.calls.append(self.label)
    return (
      core.scores(
        'share',
        [1, 0, 0.1 + 0.2, 9],
        reason=['', '', '', 'empty'],
        group=np.array([1, 1, 2**40, 3]),
        columns={
          'kind': np.array(['x', 'y', 'x', 'x']),
          'even': np.array([True, False, True, True]),
          'many': np.arange(4),
        },
        counts={'tries': np.int64(3)},
      ),
      core.scores('plain', [2.5], bounds=None),
    )


def silent(predictor, world, metric, out, **fields):
  """Entries of a metric, none of them told; `fields` as in scoring.run."""
  origin = fields.pop('origin', provenance.UNKNOWN)
  inputs = {'seed': 0, 'out': out, **fields}
  loaded = scoring.Loaded(predictor, world, 'm', origin=origin)
  return scoring.run(loaded, [metric], log=lambda line: None, **inputs)


def results_of(folder):
  """Entries that were written to a folder."""
  return json.loads((folder / 'scores.json').read_text())


def run(out, *metrics, **fields):
  """Entries of some metrics; `fields` as in scoring.run."""
  loaded = scoring.Loaded(
    fields.pop('predictor', ORACLE),
    WORLD,
    fields.pop('model_name', 'm'),
    fields.pop('extra', {}),
    fields.pop('origin', ORIGIN),
  )
  inputs = {'seed': 3, 'out': out, **fields}
  return scoring.run(loaded, metrics or (Counted(),), **inputs)
