"""Predictors that need no training: oracles, uniform; and their sessions.

`Stateless` turns a `log_probs` over whole prefixes into a full predictor: its
sessions keep the tokens of each continuation and compute them again.
`Accepting` makes one from yes-or-no answers, all that a closed language model
gives. The oracles keep world states instead and never recompute.
"""

from wm.predictors.accepting import (
  NO,
  NO_ANSWER,
  YES,
  Accepting,
  AcceptingSession,
  histories,
)
from wm.predictors.oracles import (
  NoisyOracle,
  Oracle,
  Reader,
  Uniform,
  likely,
  world_log_probs,
)
from wm.predictors.stateless import (
  HistorySession,
  Stateless,
  chunks,
  log_probs_by_rows,
)
from wm.predictors.states import (
  SparsePredictor,
  SparseSession,
  StatePredictor,
  StateSession,
  Support,
)

__all__ = [
  'NO',
  'NO_ANSWER',
  'YES',
  'Accepting',
  'AcceptingSession',
  'HistorySession',
  'NoisyOracle',
  'Oracle',
  'Reader',
  'SparsePredictor',
  'SparseSession',
  'StatePredictor',
  'StateSession',
  'Stateless',
  'Support',
  'Uniform',
  'chunks',
  'histories',
  'likely',
  'log_probs_by_rows',
  'world_log_probs',
]
