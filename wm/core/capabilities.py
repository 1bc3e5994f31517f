"""Abilities that a world may have beyond `World`.

A world inherits a class for each ability and may define the class's optional
methods (in lower case below). Metrics and models declare the classes and
optional methods that they need; `core.can(world, core.Labelled.edited)` tests
for either.

  Prefixed    samples states, and prefixes that reach them
  Enumerable  lists and counts the suffixes that separate two states
    traced          rules that JAX can trace; see wm.core.traced
    distance_to_end tokens from each legal token to the end of the sequence
  Finite      is a finite automaton (Enumerable too)
  Labelled    writes a state as K class labels
    edited          changes one label of a state
    from_labels     builds a state from its labels
    surface_labels  reads labels off the tokens without the rules
    functions       named functions of the state
  Written     writes a state as text and as a picture, and parses the text; may
              locate tokens in the picture
  Described   provides further descriptions for reports
    tags            columns that break results down
    locations       the part of a state that decides which moves are legal
    move_tags       kinds of moves that are scored separately
    stats           counts from its files or its generator
    read_as         how its files were interpreted
    costs           the cost of a sequence, and the least cost of its task
  Generative  gives the distribution of the sequences that it samples; if it is
              Latent too, the process has a `belief` about the hidden state
  Latent      has a state that its tokens do not determine
    forecast        the tokens that follow a latent state
    trajectory      the positions of bodies
  Verbal      can be described in words; see wm.core.verbal
    questions       questions with one right answer
"""

from __future__ import annotations

import abc
import html
import types
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from wm.core import boundary as boundaries
from wm.core.basics import DEAD, InputError, can, optional, plug_in_name
from wm.core.predictor import chunks
from wm.core.world import Prefixes, Sequences, World

if TYPE_CHECKING:
  from wm.core.traced import Rules

# Most entries of a table of legal tokens that is held at once.
_BLOCK = 1 << 24
# `_always_legal`: random walks, their steps, and most states enumerated.
_WALKS, _STEPS, _STATES = 16, 32, 2048


class Prefixed(World):
  """Samples states for a metric's trials, and prefixes that reach them."""

  @abc.abstractmethod
  def sample_states(self, num: int, seed: int) -> np.ndarray:
    """[num, W] states, independent and identically distributed."""

  @abc.abstractmethod
  def prefix_moves(self, states: np.ndarray) -> np.ndarray:
    """[T, 2] int32: fewest and most moves of a prefix that reaches each state.

    The state of a row with most < fewest has no prefix.
    """

  @abc.abstractmethod
  def sample_prefixes(
    self, states: np.ndarray, moves: np.ndarray, seeds: np.ndarray
  ) -> Prefixes:
    """Samples for each t a prefix of moves[t] moves that reaches states[t].

    seeds: [T]; the prefix of row t depends on seeds[t] alone.
    A world in which all prefixes of a length are equal may return fewer.
    """

  @optional
  def num_states(self) -> int:
    """Number of states that `sample_states` draws from, all equally likely."""
    raise NotImplementedError

  def sample_others(self, states: np.ndarray, seed: int) -> np.ndarray:
    """[T, W]: for each of T states, a state to compare it with.

    Default: states drawn independently by `sample_states`.
    """
    return self.sample_states(len(states), seed)


class Enumerable(World):
  """Lists and counts suffixes exactly; default: by product construction.

  The boundary of two states holds the minimal suffixes that are legal from the
  first and not from the second (Vafa et al. 2024, Def. 2.4). Their interior
  holds the suffixes that are legal from both (Def. 2.3).
  """

  @property
  def boundary_depth(self) -> int:
    """Default of the longest suffix that metrics list, in tokens."""
    return 5

  def boundary(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> boundaries.Boundary:
    """Boundaries of T pairs of states [T, W]; suffixes of <= `depth` tokens."""
    return boundaries.products(self, first, second, depth)

  def count(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> tuple[list[int], list[int]]:
    """Exact sizes of boundary and interior of one pair of states [W].

    Each list has one count for each suffix length, 1..depth. The interior of a
    state with itself holds all suffixes that are legal from it.
    """
    return boundaries.pair_sizes(self, first, second, depth)

  @optional
  def traced(self, states: np.ndarray) -> tuple[Rules, Any]:
    """The rules, and the positions of states [B, W]: a tree of arrays [B, ...].

    Raises:
      InputError: a state is within the prompt, before the task is stated.
    """
    raise NotImplementedError

  @optional
  def distance_to_end(
    self, states: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """Legal tokens, and the distance from each to the end of a sequence.

    Returns:
      tokens: [B, K] int32 legal tokens of states [B, W], ascending, padded with
        DEAD.
      needed: [B, K] int64 number of tokens of the shortest completion that
        begins with the legal token, which counts too; far above `max_len` if
        there is no completion.
    """
    raise NotImplementedError


class Finite(Enumerable):
  """Is a finite automaton."""

  @abc.abstractmethod
  def boundary(
    self,
    first: np.ndarray,
    second: np.ndarray,
    depth: int,
    published: bool = False,
  ) -> boundaries.Boundary:
    """As Enumerable.boundary; or the suffixes that the published program lists.

    published: list as the program of Vafa et al. 2024, which ignores the end
      token, drops continuations that die before `depth`, and leaves a state at
      the first label, in the program's order, that leads nowhere.
    """


def enumerated(world: World, most: int) -> tuple[np.ndarray, np.ndarray]:
  """All states that legal sequences reach, and their transition table.

  Returns:
    states: [S, W], the initial one first, then breadth first.
    delta: [S, V - 1] int32 next states, DEAD where a token is illegal; column
      a is token a + 1.

  Raises:
    InputError: the world has more than `most` states.
  """
  start = world.init(1)
  row = {int(world.state_id(start)[0]): 0}
  levels, tables = [start], []
  for level in levels:  # Grows by the states that are new.
    for chunk in chunks(len(level), len(world.vocab), _BLOCK):
      legal = world.legal(level[chunk])
      at, tokens = np.nonzero(legal)
      after = level[:0]
      if at.size:  # Worlds may refuse empty batches.
        after = world.advance(level[chunk][at], tokens)
      old = len(row)
      heads = [
        row.setdefault(key, len(row)) for key in world.state_id(after).tolist()
      ]
      if len(row) > most:
        raise InputError(
          f'{world.name} has more than {most} states: too many to enumerate; '
          'take a smaller one'
        )
      table = np.full(legal.shape, DEAD, np.int32)
      table[at, tokens] = heads
      tables.append(table[:, 1:])
      first = np.unique(np.array(heads, np.int64), return_index=True)
      new = first[1][first[0] >= old]
      if new.size:
        levels.append(after[new])
  return np.concatenate(levels), np.concatenate(tables)


class Heads(NamedTuple):
  """Description of the K labels of a state.

  Attributes:
    sizes: number of classes of each label.
    groups: name -> slice of labels; results are broken down by group.
    probe: the labels that a linear probe reads; None: it reads the whole state
      as one class.
    turn: index of the label for the side to move: 0, 1, or 2 for nobody; None
      if the world has no sides. In a world with sides, probed labels are 0
      (empty), 1 to k (pieces of side 0) or k + 1 to 2k (pieces of side 1).
    mine: whether probes read pieces as mine and theirs by default.
  """

  sizes: tuple[int, ...]
  groups: Mapping[str, slice] = types.MappingProxyType({})
  probe: slice | None = None
  turn: int | None = None
  mine: bool = True

  @property
  def dtype(self) -> np.dtype:
    """Smallest unsigned integer type that holds every label."""
    return np.min_scalar_type(max(self.sizes, default=1) - 1)


class Labelled(World):
  """Writes a state as K class labels, for models trained to name the state.

  Two states with equal labels are the same state (Walker and Lyons 2026,
  section 2).
  """

  @property
  @abc.abstractmethod
  def heads(self) -> Heads:
    """Description of the K labels."""

  @abc.abstractmethod
  def labels(self, states: np.ndarray) -> np.ndarray:
    """[B, K] labels of states [B, W], of type `heads.dtype`.

    Label k is below heads.sizes[k]; all labels of a dead state are 0.
    """

  def sequence_labels(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> np.ndarray:
    """[N, L, K] labels after each token of sequences [N, L] of lengths [N].

    Labels are 0 past a sequence's length and from its first illegal token on.
    """
    heads = self.heads
    labels = np.zeros((*tokens.shape, len(heads.sizes)), heads.dtype)
    rows, states = np.arange(len(tokens)), self.init(len(tokens))
    for k in range(tokens.shape[1]):
      going = k < np.asarray(lengths)[rows]
      rows, states = rows[going], states[going]
      states = self.advance(states, tokens[rows, k])
      alive = self.state_id(states) != DEAD
      rows, states = rows[alive], states[alive]
      if not rows.size:
        break
      labels[rows, k] = self.labels(states)
    return labels

  @optional
  def surface_labels(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> np.ndarray:
    """Baseline of `sequence_labels` that uses the tokens without the rules.

    It follows the surface meaning of each token, legal or not.
    """
    raise NotImplementedError

  @optional
  def from_labels(self, labels: np.ndarray) -> np.ndarray:
    """States [B, W] with labels [B, K] and an unknown history.

    A state is dead if no state has these labels. It need not be reachable.
    """
    raise NotImplementedError

  @optional
  def edited(
    self, states: np.ndarray, label: np.ndarray, value: np.ndarray
  ) -> np.ndarray:
    """States [B, W] with label[b] set to value[b] and other labels unchanged.

    A state is dead if no state with these labels exists from which the rules
    can continue. It need not be reachable. The edit drops the history.

    label: [B] indices of labels, below K.
    value: [B] classes.
    """
    raise NotImplementedError

  @optional
  def functions(self, states: np.ndarray) -> dict[str, np.ndarray]:
    """Named functions of the state, which serve as transfer tasks.

    Returns name -> [B] int64 classes from 0 of states [B, W], none of them
    dead. A name with the suffix '_published' is the function as a published
    program computes it, where that differs from its paper.
    """
    raise NotImplementedError


# In a picture: x and y of the upper left corner, width and height, in pixels.
Box = tuple[float, float, float, float]


class Written(World):
  """Writes a state as text and as a picture, and parses the text."""

  @abc.abstractmethod
  def parse(self, text: str) -> np.ndarray:
    """[1, W] state from its written form; raises InputError."""

  @abc.abstractmethod
  def format(self, state: np.ndarray) -> str:
    """Written form of one state [W]."""

  def render(self, state: np.ndarray) -> str:
    """SVG picture of one state [W]; default: its written form."""
    text = html.escape(self.format(state))
    return (
      '<svg xmlns="http://www.w3.org/2000/svg" width="360" height="48">'
      f'<text x="8" y="30" font-family="monospace" font-size="14">{text}'
      '</text></svg>'
    )

  def token_boxes(
    self, state: np.ndarray, tokens: Iterable[int]
  ) -> dict[int, list[Box]]:
    """Boxes to click in the picture of a state [W] to choose tokens.

    Args:
      state: the state that `render` draws.
      tokens: token ids, legal or not.

    Returns:
      Token -> boxes to click one after the other: one for most tokens, two for
      a chess move. Several tokens may have the same boxes. Tokens without a
      place in the picture are missing; default: all tokens are.
    """
    return {}


class Costs(NamedTuple):
  """Costs of N sequences by C cost functions; the first is the true one.

  Attributes:
    cost: [C, N] float64 (maps: metres); NaN if the sequence is not a complete
      route.
    least: [C, N] float64, least cost of the same task; NaN if the task has no
      solution.
  """

  cost: np.ndarray
  least: np.ndarray


class Described(World):
  """Provides descriptions for reports: columns, move kinds, counts, costs.

  A class may give axis titles of its columns for figures:

    class World(core.Described, words={'left': 'arrangements left'}):
  """

  _tag_words: ClassVar[Mapping[str, str]] = {}

  def __init_subclass__(
    cls, words: Mapping[str, str] | None = None, **more: Any
  ) -> None:
    super().__init_subclass__(**more)
    cls._tag_words = {**cls._tag_words, **(words or {})}

  @optional
  def tags(self, states: np.ndarray) -> dict[str, np.ndarray]:
    """Name -> column [B] of states [B, W]; results are broken down by it."""
    raise NotImplementedError

  @optional
  def locations(self, states: np.ndarray) -> np.ndarray:
    """[B] str: the part of states [B, W] that decides which moves are legal.

    On a map it is the intersection, whatever the destination; the end token,
    which depends on more, is no move. Default: the whole state.
    """
    raise NotImplementedError

  @optional
  def move_tags(self, sequences: Sequences) -> dict[str, np.ndarray]:
    """Name of a move kind -> [N, L] bool mask; kinds are scored separately."""
    raise NotImplementedError

  @optional
  def stats(self) -> dict[str, int]:
    """Name -> number of items read from files, generated or dropped."""
    raise NotImplementedError

  @optional
  def read_as(self) -> dict[str, str]:
    """How files were interpreted: quantity -> its source in the file.

    An example: {'places': 'attributes lat, lon (degrees)', 'lengths':
    'attribute weight (metres)'}. It names substitutes for missing data, too.
    """
    raise NotImplementedError

  @optional
  def costs(self, sequences: Sequences) -> Costs:
    """Costs of sequences, complete or not, and least costs of their tasks."""
    raise NotImplementedError


class SequenceProcess(abc.ABC):
  """A distribution of sequences, generated a token at a time.

  It is a Markov process. Its state (`memory`) is a row of W numbers of one
  type, such as int32 words or float64 probabilities; rows of equal bytes have
  equal next-token distributions.
  """

  @abc.abstractmethod
  def init(self, batch: int) -> np.ndarray:
    """[batch, W] state of the process before the first token."""

  @abc.abstractmethod
  def advance(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """State [B, W] of the process after one token each [B]."""

  @abc.abstractmethod
  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The possible next tokens and their log-probabilities.

    Returns:
      tokens: [B, K] int32, ascending; DEAD, in any column, for no token.
      log_probs: [B, K] float64 nats, -inf for no token. A finished sequence, or
        a prefix of no sequence, has no next token.
    """

  def after_each(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[N, L, W] state after each token; 0 past the lengths [N]."""
    memory = self.init(len(tokens))
    after = np.zeros((*tokens.shape, memory.shape[1]), memory.dtype)
    for t in range(tokens.shape[1]):
      rows = np.flatnonzero(t < np.asarray(lengths))
      memory[rows] = self.advance(memory[rows], tokens[rows, t])
      after[rows, t] = memory[rows]
    return after

  @optional
  def belief(self, memory: np.ndarray) -> np.ndarray:
    """[B, S] float64 posterior over S hidden states of a `Latent` world.

    It determines the next-token distribution; NaN after a prefix of no
    sequence.
    """
    raise NotImplementedError


class Generative(World):
  """Gives the distribution of the sequences that it samples."""

  @abc.abstractmethod
  def data_distribution(self, replan: bool = False) -> SequenceProcess:
    """The distribution of one sequence that `sample` draws.

    replan: also define next-token probabilities after legal prefixes that the
      sampler never draws: the limit, as e -> 0, of a sampler with a share e of
      random legal moves. Other prefixes keep their probabilities.

    Raises:
      InputError: the distribution is not known.
    """


def notes(world: World) -> dict[str, str]:
  """Notes on a world: how its files were read, and a caution for metrics.

  Returns name -> text; reports, logs and scores show it before any number.
  """
  texts = world.read_as() if can(world, Described.read_as) else {}
  texts = {f'read as {name}': text for name, text in texts.items()}
  if _always_legal(world):
    texts['caution'] = (
      'the same tokens are legal in every state: legality tells nothing of '
      'states, and the compression of a uniform model is 1'
    )
  return texts


def _always_legal(world: World) -> bool:
  """Are the same tokens legal in every state that is not over?"""
  states, rng = world.init(_WALKS), np.random.default_rng(0)
  mask = world.legal(states)[0]
  if not mask.any():
    return False
  for _ in range(min(world.max_len, _STEPS)):
    if (world.legal(states) != mask)[~world.over(states)].any():
      return False
    tokens = rng.choice(np.flatnonzero(mask), len(states))
    states = world.advance(states, tokens.astype(np.int32))
    states = states[~world.over(states)]
    if not len(states):
      break
  try:  # Walks may have missed a state.
    reached, delta = enumerated(world, _STATES)
  except InputError:
    return True
  going = ~world.over(reached)
  return bool(((delta[going] != DEAD) == mask[1:]).all())


def tag_words(cls: type[World]) -> Mapping[str, str]:
  """Column -> its axis title, as the world's class declares it."""
  return cls._tag_words if issubclass(cls, Described) else {}


def feasible_tokens(
  world: World, states: np.ndarray, budget: np.ndarray
) -> np.ndarray:
  """[B, V] bool: legal tokens after which a sequence can still complete.

  All legal tokens if the world does not define `distance_to_end`.

  budget: [B] tokens left, this one included.
  """
  legal = world.legal(states)
  if not can(world, Enumerable.distance_to_end):
    return legal
  tokens, needed = world.distance_to_end(states)
  feasible = (tokens != DEAD) & (needed <= np.asarray(budget)[:, None])
  rows, place = np.nonzero(feasible)
  mask = np.zeros_like(legal)
  mask[rows, tokens[rows, place]] = True
  return mask


def written(world: World, states: np.ndarray) -> np.ndarray:
  """[B] str of states [B, W]; their integers if the world is not `Written`."""
  if isinstance(world, Written):
    texts = [world.format(state) for state in states]
  else:
    texts = [','.join(map(str, state.tolist())) for state in states]
  return np.array(texts, dtype=str)


class Rollout(NamedTuple):
  """The tokens that follow N states.

  Attributes:
    tokens: [N, K] int32; DEAD if the token is unknown.
    frame: [N, K] int32, time in steps after the last observed frame, from 1.
  """

  tokens: np.ndarray
  frame: np.ndarray


class Trajectory(NamedTuple):
  """The motion of bodies in N sequences of R rows.

  Attributes:
    position: [N, R, 2] float64, not rounded to bins, in the world's unit.
    body: [N, R] int32 number of the body: planets from 0, then the sun.
    frame: [N, R] int32, time in steps.
    bodies: [N] int32, number of rows of a frame.
    step: [N] float64, years from frame to frame.
    state: [N, R, C] float64, see `Latent.hidden_states`; NaN for the sun.
  """

  position: np.ndarray
  body: np.ndarray
  frame: np.ndarray
  bodies: np.ndarray
  step: np.ndarray
  state: np.ndarray


class Latent(World):
  """Has a hidden state that the tokens do not determine; samples carry it.

  `init`, `advance`, `legal` and `state_id` use the format of the tokens alone.
  The hidden state is side data of sequences from `sample`; `hidden_states`
  reads it.

  A world that can `forecast` also samples states with a latent part
  (`core.Prefixed`). Such a state determines the sequence that follows. `legal`
  accepts the tokens of that sequence and tokens within a tolerance of them.
  Prefixes that reach the state do not determine its latent part.

  Sequences of a world with a `trajectory` show positions of bodies: after the
  prompt, rows of an x and a y token. The state of a planet begins with position
  and velocity relative to the sun and ends with the two masses: x, y, vx, vy,
  planet, sun. The world also has `width`, `coordinates` and
  `coordinate_tokens`.
  """

  @property
  def width(self) -> float:
    """Width of a bin of coordinates, in astronomical units."""
    raise NotImplementedError

  @abc.abstractmethod
  def hidden_states(self, sequences: Sequences) -> np.ndarray:
    """[N, L, C] float64 hidden state after each token; NaN if there is none.

    Raises:
      InputError: the sequences lack the side data of this world.
    """

  @optional
  def forecast(self, states: np.ndarray, num: int) -> Rollout:
    """The `num` tokens that follow each of the states [N, W]."""
    raise NotImplementedError

  @optional
  def posterior(
    self, particles: int, sweeps: int, seed: int
  ) -> SequenceProcess:
    """Particle filter for the distribution of sequences.

    More particles and more sweeps bring it nearer to the exact distribution.

    particles: number of hidden states that represent the posterior.
    sweeps: moves of each particle whenever few particles fit the tokens.

    Raises:
      InputError: the filter does not support the world's fields.
    """
    raise NotImplementedError

  @optional
  def trajectory(self, sequences: Sequences) -> Trajectory:
    """The motion of bodies in whole sequences from this world's `sample`."""
    raise NotImplementedError

  @optional
  def coordinates(self, tokens: np.ndarray) -> np.ndarray:
    """Bin centres in AU of tokens of any shape; NaN for other tokens."""
    raise NotImplementedError

  @optional
  def coordinate_tokens(self, places: np.ndarray) -> np.ndarray:
    """int32 tokens for coordinates in AU of any shape, clipped to the box."""
    raise NotImplementedError


def lacks_law(cls: type[World]) -> str:
  """A line that says why a class of worlds is not `Generative`.

  A `Generative` world without a known distribution raises the reason itself;
  see `data_distribution`.
  """
  line = (
    f'{plug_in_name(cls)} does not say how its samples are distributed '
    '(core.Generative)'
  )
  if issubclass(cls, Latent):
    line += (
      ': what comes next depends on a state that the tokens do not show, and '
      'the exact mean over all such states cannot be computed; '
      "'particle_filter()' comes near it by sampled states, and its expected "
      'loss is no smaller'
    )
  return line


ROW = 2  # Tokens of a row of a trajectory: x and y.


def row_width(world: World) -> int:
  """Tokens of a row of a world's sequences; 1 without a `trajectory`."""
  return ROW if can(world, Latent.trajectory) else 1
