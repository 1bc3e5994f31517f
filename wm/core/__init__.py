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
  STUCK,
  InputError,
  hash64,
  uniforms,
)
from wm.core.boundary import Boundary, joined, stacked
from wm.core.measure import Metric, Model, Scores, scores
from wm.core.predictor import (
  Predictor,
  Samples,
  Session,
  accepted_steps,
  sample,
)
from wm.core.room import need_disk, need_memory
from wm.core.sequences import Automaton, Prefixes, Sequences
from wm.core.world import World

__all__ = [
  'CAPPED',
  'DEAD',
  'ENDED',
  'OPTIMAL_TOLERANCE',
  'PAD',
  'STUCK',
  'Automaton',
  'Boundary',
  'InputError',
  'Metric',
  'Model',
  'Predictor',
  'Prefixes',
  'Samples',
  'Scores',
  'Sequences',
  'Session',
  'World',
  'accepted_steps',
  'hash64',
  'joined',
  'need_disk',
  'need_memory',
  'sample',
  'scores',
  'stacked',
  'uniforms',
]
