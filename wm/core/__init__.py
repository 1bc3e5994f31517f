"""The nouns: World, Sequences, Predictor, Session, Metric and Scores.

  World --sample--> Sequences --train--> Predictor --score--> Scores -> report
    |                                        ^                   ^
    +-------------- as oracle ---------------+                   |
    +-------------- ground truth (legal, state, boundary) -------+

Shape letters: B batch, L length, V vocabulary, D width, H heads, N sequences,
S states, E edges, T trials, M continuations of one prefix, K steps of a
continuation, W words of a state.
"""

from wm.core.basics import (
  CAPPED,
  DEAD,
  ENDED,
  OPTIMAL_TOLERANCE,
  PAD,
  REFUSED,
  STUCK,
  InputError,
  hash64,
  uniforms,
)
from wm.core.boundary import Boundary, joined, stacked
from wm.core.measure import (
  Fittable,
  Fitted,
  Metric,
  Model,
  Scores,
  Trainable,
  scores,
)
from wm.core.predictor import (
  NO,
  NO_ANSWER,
  YES,
  AnswersOnly,
  HiddenStates,
  NamesStates,
  Predictor,
  Reinitializable,
  Remarks,
  Samples,
  Session,
  StateLosses,
  TablePredictor,
  TokenReader,
  chunks,
  histories,
  log_probs_by_rows,
  sample,
)
from wm.core.room import need_disk, need_memory
from wm.core.sequences import Automaton, Prefixes, Sequences
from wm.core.traced import (
  Machine,
  Rules,
  TracedPredictor,
  TracedWorld,
  Untraceable,
)
from wm.core.world import World

__all__ = [
  'CAPPED',
  'DEAD',
  'ENDED',
  'NO',
  'NO_ANSWER',
  'OPTIMAL_TOLERANCE',
  'PAD',
  'REFUSED',
  'STUCK',
  'YES',
  'AnswersOnly',
  'Automaton',
  'Boundary',
  'Fittable',
  'Fitted',
  'HiddenStates',
  'InputError',
  'Machine',
  'Metric',
  'Model',
  'NamesStates',
  'Predictor',
  'Prefixes',
  'Reinitializable',
  'Remarks',
  'Rules',
  'Samples',
  'Scores',
  'Sequences',
  'Session',
  'StateLosses',
  'TablePredictor',
  'TokenReader',
  'TracedPredictor',
  'TracedWorld',
  'Trainable',
  'Untraceable',
  'World',
  'chunks',
  'hash64',
  'histories',
  'joined',
  'log_probs_by_rows',
  'need_disk',
  'need_memory',
  'sample',
  'scores',
  'stacked',
  'uniforms',
]
