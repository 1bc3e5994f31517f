"""The nouns: World, Sequences, Predictor, Session, Metric and Scores.

  World --sample--> Sequences --train--> Predictor --score--> Scores -> report
    |                                        ^                   ^
    +-------------- as oracle ---------------+                   |
    +-------------- ground truth (legal, state, boundary) -------+

Shape letters: B batch, L length, V vocabulary, D width, H heads, N sequences,
S states, E edges, T trials, M continuations of one prefix, K steps of a
continuation, W words of a state.
"""

from wm.core.adapting import (
  FINE_TUNE,
  Adaptable,
  Adapted,
  Classes,
  FewShotTasks,
  FineTuneConfig,
  LabelSpec,
  QueryPoints,
  Real,
  TaskStream,
  at_places,
  check_adapting,
)
from wm.core.basics import (
  CAPPED,
  DEAD,
  ENDED,
  OPTIMAL_TOLERANCE,
  PAD,
  REFUSED,
  STUCK,
  InputError,
  Need,
  can,
  hash64,
  one_line,
  optional,
  owner,
  section,
  uniforms,
)
from wm.core.boundary import Boundary, joined, product, products, stacked
from wm.core.capabilities import (
  Costed,
  Costs,
  Described,
  Enumerable,
  Finite,
  Generative,
  Heads,
  Labelled,
  Prefixed,
  SequenceProcess,
  Written,
  feasible_tokens,
  tag_words,
  written,
)
from wm.core.inputs import (
  parse_json,
  read_json,
  read_text,
  reading,
  reading_file,
)
from wm.core.latent import (
  Latent,
  Rollout,
  Trajectory,
  lacks_law,
  row_width,
)
from wm.core.measure import (
  Caution,
  Fittable,
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
  chunks,
  histories,
  log_probs_by_rows,
  sample,
)
from wm.core.queries import Answer, Query, QueryModel
from wm.core.resources import (
  AT_ONCE,
  Bounded,
  Cost,
  require,
  require_disk,
  require_memory,
  require_sequences,
  sequences_cost,
)
from wm.core.sequences import Prefixes, Sequences
from wm.core.traced import Machine, Rules, Untraceable
from wm.core.verbal import (
  Extent,
  PromptStyle,
  Verbal,
  all_next,
  changed,
  description_extent,
  new_names,
  one_next,
  render_description,
  shuffled,
  text_tokens,
  wording_of,
  yes_or_no,
)
from wm.core.world import World
