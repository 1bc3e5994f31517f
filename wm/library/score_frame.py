"""The data frame of a score, which is shown with the columns that are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from wm.reporting import collect

SHOWN = ('model', 'spec', 'quantity', 'value', 'low', 'high', 'n')


class ScoreFrame(pd.DataFrame):
  """A row for each quantity; its rows, columns and copies are plain frames.

  All columns are in `wm.evaluation.results`; seven of them are shown.
  """

  @property
  def _constructor(self) -> Callable[..., pd.DataFrame]:
    return pd.DataFrame

  def _shown(self) -> pd.DataFrame:
    return self.reindex(columns=[*SHOWN])

  def __repr__(self) -> str:
    return self._shown().to_string(index=False, float_format='{:.3f}'.format)

  def _repr_html_(self) -> str:
    return str(self._shown().to_html(index=False, float_format='{:.3f}'.format))


def of_runs(folders: Sequence[str]) -> ScoreFrame:
  """The scores of several runs, with the folder of each in `run`."""
  return ScoreFrame(
    [{'run': run, **e} for run in folders for e in collect.load(run).entries]
  )
