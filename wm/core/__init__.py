"""Base classes: World, Sequences, Predictor, Session, Metric and Scores.

  World --sample--> Sequences --train--> Predictor --score--> Scores -> report
    |                                        ^                   ^
    +-------------- as oracle ---------------+                   |
    +-------------- ground truth (legal, state, boundary) -------+

Shape letters: B batch, L length, V vocabulary, D width, H heads, N sequences,
S states, E edges, T trials, M continuations of one prefix, K steps of a
continuation, W words of a state.
"""

from wm.core import boundary, capabilities, predictor
from wm.core.adapting import Adaptable
from wm.core.basics import (
  CAPPED,
  DEAD,
  ENDED,
  PAD,
  REFUSED,
  STUCK,
  InputError,
  Need,
  can,
  optional,
  owner,
)
from wm.core.boundary import Boundary
from wm.core.capabilities import (
  Costs,
  Described,
  Enumerable,
  Finite,
  Generative,
  Heads,
  Labelled,
  Latent,
  Prefixed,
  SequenceProcess,
  Written,
)
from wm.core.measure import (
  Caution,
  Fittable,
  Measure,
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
  HiddenStates,
  Predictor,
  Samples,
  Session,
  StatePredictor,
  TokenReader,
  sample,
)
from wm.core.queries import Query, QueryModel
from wm.core.resources import Bounded, Cost
from wm.core.verbal import PromptStyle, Verbal
from wm.core.world import Prefixes, Sequences, World
