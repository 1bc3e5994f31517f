"""What a world can do beyond `World`.

A world inherits the classes whose abilities it has, and defines the optional
methods that it can. Metrics and models declare which of both they need;
`core.can(world, core.Labelled.edited)` asks for either.

  Prefixed    draws states, and prefixes that reach them
  Enumerable  lists and counts the suffixes that separate two states
    traced          has rules that JAX can trace; see wm.core.traced
    distance_to_end knows how far each token is from the end of the sequence
  Finite      is a finite automaton (Enumerable too)
  Labelled    writes a state as K class labels
    edited          changes one label of a state
    from_labels     makes a state of its labels
    surface_labels  reads labels off the tokens without the rules
    functions       knows named functions of the state
  Written     writes a state as text and as a picture, and reads the text; may
              know where tokens are in the picture
  Described   says more of itself for reports
    tags            names columns that results are broken down by
    move_tags       names kinds of moves that are scored apart
    stats           counts what its files or its generator gave
    costs           knows what a sequence costs, and the least for its task
  Generative  knows how the sequences that it samples are distributed; where it
              is Latent too, its process has the `belief` about the hidden state
  Latent      has a state that its tokens do not determine
    forecast        knows what follows from a latent state
    trajectory      shows where bodies are
  Verbal        can be told in words; see wm.core.verbal
    questions       has questions with one right answer
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

# Entries of a table of legal tokens that is held at once.
_BLOCK = 1 << 24


class Prefixed(World):
  """Draws states for a metric's trials, and prefixes that reach them."""

  @abc.abstractmethod
  def sample_states(self, num: int, seed: int) -> np.ndarray:
    """[num, W] states, independent and identically distributed."""

  @abc.abstractmethod
  def prefix_moves(self, states: np.ndarray) -> np.ndarray:
    """[T, 2] int32: least and most moves of a prefix that reaches the state.

    A row with most < least has no prefix.
    """

  @abc.abstractmethod
  def sample_prefixes(
    self, states: np.ndarray, moves: np.ndarray, seeds: np.ndarray
  ) -> Prefixes:
    """One random prefix of moves[t] moves that ends in states[t], each t.

    A world in which all prefixes of a length are equal may return fewer.
    """

  @optional
  def num_states(self) -> int:
    """How many states `sample_states` draws from, each with equal chance."""
    raise NotImplementedError

  def sample_others(self, states: np.ndarray, seed: int) -> np.ndarray:
    """[T, W]: for each of T states, one to compare it with; default: any."""
    return self.sample_states(len(states), seed)


class Enumerable(World):
  """Lists and counts suffixes exactly; by default by product construction.

  The boundary of two states holds the minimal suffixes legal from the first
  and not from the second (Vafa et al. 2024, Def. 2.4), their interior the
  suffixes legal from both (Def. 2.3).
  """

  @property
  def boundary_depth(self) -> int:
    """Longest suffix that metrics list by default."""
    return 5

  def boundary(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> boundaries.Boundary:
    """Boundaries of the pairs of states [T, W], suffixes to `depth` tokens."""
    return boundaries.products(self, first, second, depth)

  def count(
    self, first: np.ndarray, second: np.ndarray, depth: int
  ) -> tuple[list[int], list[int]]:
    """Sizes of boundary and interior of one pair of states [W], exact.

    Each by length of suffix, 1..depth, not cumulated. The interior of a state
    with itself is all that is legal from there.
    """
    return boundaries.pair_sizes(self, first, second, depth)

  @optional
  def traced(self, states: np.ndarray) -> tuple[Rules, Any]:
    """The rules, and positions (a tree of arrays [B, ...]) of states [B, W].

    Raises:
      InputError: a state in which the task itself is still to be stated.
    """
    raise NotImplementedError

  @optional
  def distance_to_end(
    self, states: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """Legal tokens, and how many more a sequence needs with each of them.

    Returns:
      tokens: [B, K] int32 legal in states [B, W], ascending; DEAD is none.
      needed: [B, K] int64 tokens to the end of the shortest sequence that
        continues with this one, itself included; far above `max_len` where
        none ends.
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
    """As of Enumerable, or what the `published` program lists instead.

    That enumeration (Vafa et al. 2024) knows no end token, drops continuations
    that die before `depth`, and leaves a state at the first label, in an order
    of its own, that leads nowhere.
    """


def enumerated(world: World, most: int) -> tuple[np.ndarray, np.ndarray]:
  """All states that legal sequences reach, and the table of their tokens.

  Returns:
    states: [S, W], the initial one first, then breadth first.
    delta: [S, V - 1] int32 next states, DEAD where a token is illegal; column
      a is token a + 1.

  Raises:
    InputError: there are more than `most`.
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
  """What the K labels of a state are.

  Attributes:
    sizes: number of classes of each label.
    groups: named runs of labels that results are told apart by.
    probe: the labels that a linear probe reads out; None is the whole state,
      as one class.
    turn: the label of whose turn it is, 0, 1, or 2 for nobody; None where no
      side is to move. Probed labels are then 0 (empty), 1 to k (pieces of
      side 0) or k + 1 to 2k (pieces of side 1).
    mine: a probe reads these as mine and theirs, unless told otherwise.
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
    """What the K labels are."""

  @abc.abstractmethod
  def labels(self, states: np.ndarray) -> np.ndarray:
    """[B, K] labels of states [B, W], of type `heads.dtype`.

    Label k is below heads.sizes[k]; all labels of a dead state are 0.
    """

  def sequence_labels(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> np.ndarray:
    """[N, L, K] labels after each token of sequences [N, L].

    0 past a sequence's length [N] and from its first illegal token on.
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
    """As `sequence_labels`, read off the tokens without the rules: a baseline.

    Every token is taken at its word.
    """
    raise NotImplementedError

  @optional
  def from_labels(self, labels: np.ndarray) -> np.ndarray:
    """States [B, W] with labels [B, K], their history unknown.

    DEAD if no state has these labels. The state need not be reachable.
    """
    raise NotImplementedError

  @optional
  def edited(
    self, states: np.ndarray, label: np.ndarray, value: np.ndarray
  ) -> np.ndarray:
    """States [B, W] with label[b] set to value[b], all other labels alike.

    Dead if there is no such state from which the rules can continue. The state
    need not be reachable. The history is forgotten.

    label: [B] integers below K.
    value: [B] integers.
    """
    raise NotImplementedError

  @optional
  def functions(self, states: np.ndarray) -> dict[str, np.ndarray]:
    """Named functions of the state, for tasks to transfer to.

    Name -> [B] int64 classes from 0, of states [B, W] that are not dead. A name
    that ends in '_published' is what a published program computes in place of
    what its paper says.
    """
    raise NotImplementedError


# In a picture: x and y of the upper left corner, width and height, in pixels.
Box = tuple[float, float, float, float]


class Written(World):
  """Writes a state as text and as a picture, and reads the text."""

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
    """Boxes in the picture of a state [W] in which tokens are chosen.

    Args:
      state: that `render` draws.
      tokens: ids, legal or not.

    Returns:
      Token -> boxes to be chosen one after the other: most tokens have one, a
      chess move has two. Several tokens may have the same boxes. A token
      without a place in the picture is left out; default: all are.
    """
    return {}


class Costs(NamedTuple):
  """Costs of N sequences by C ways of weighing; the first is the true one.

  Attributes:
    cost: [C, N] float64 (maps: metres); NaN if the sequence is no complete
      route.
    least: [C, N] float64, least cost of the same task; NaN where there is none.
  """

  cost: np.ndarray
  least: np.ndarray


class Described(World):
  """Says more of itself for reports: columns, kinds of moves, counts, costs.

  A class says what its columns are, as the axis of a figure has it:

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
    """Named columns [B] of states [B, W] that results are broken down by."""
    raise NotImplementedError

  @optional
  def move_tags(self, sequences: Sequences) -> dict[str, np.ndarray]:
    """Masks [N, L] bool of the moves of each named kind, scored apart."""
    raise NotImplementedError

  @optional
  def stats(self) -> dict[str, int]:
    """Sizes of what the files or the generator gave, and what was dropped."""
    raise NotImplementedError

  @optional
  def costs(self, sequences: Sequences) -> Costs:
    """Costs of sequences, complete or not, and the least of their tasks."""
    raise NotImplementedError


class SequenceProcess(abc.ABC):
  """A distribution of sequences, a token at a time.

  A Markov process whose state is a row of W numbers of one type, such as int32
  words or float64 probabilities; rows of equal bytes have equal next-token
  distributions.
  """

  @abc.abstractmethod
  def init(self, batch: int) -> np.ndarray:
    """[batch, W] memory before the first token."""

  @abc.abstractmethod
  def advance(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Memory [B, W] after one token each [B]."""

  @abc.abstractmethod
  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The tokens that may follow, and how likely they are.

    Returns:
      tokens: [B, K] int32, ascending; DEAD is none, anywhere.
      log_probs: [B, K] float64 nats, -inf where there is none. Nothing may
        follow what is over, or a prefix that no sequence has.
    """

  def after_each(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[N, L, W] memory after each token; 0 past the lengths [N]."""
    memory = self.init(len(tokens))
    after = np.zeros((*tokens.shape, memory.shape[1]), memory.dtype)
    for t in range(tokens.shape[1]):
      rows = np.flatnonzero(t < np.asarray(lengths))
      memory[rows] = self.advance(memory[rows], tokens[rows, t])
      after[rows, t] = memory[rows]
    return after

  @optional
  def belief(self, memory: np.ndarray) -> np.ndarray:
    """[B, S] float64 posterior of S hidden states, of a world that is `Latent`.

    A point of the simplex, which determines what may follow; NaN after a prefix
    that no sequence has.
    """
    raise NotImplementedError


class Generative(World):
  """Knows how the sequences that it samples are distributed."""

  @abc.abstractmethod
  def data_distribution(
    self, split: str = 'all', distinct: bool = False, replan: bool = False
  ) -> SequenceProcess:
    """The distribution of one sequence that `sample` draws from a split.

    distinct: of a sample of all sequences that there are, where sampling
      repeats none: each then counts once, however likely it is to be drawn.
    replan: also gives next-token probabilities after legal prefixes that the
      sampler never draws: the limit, as e -> 0, of the sampler with a share e
      of random legal moves. After prefixes that it draws nothing changes.

    Raises:
      InputError: no such split, or no law of it is known.
    """


def tag_words(cls: type[World]) -> Mapping[str, str]:
  """Column -> what it is, as far as the class of a world says so."""
  return cls._tag_words if issubclass(cls, Described) else {}


def feasible_tokens(
  world: World, states: np.ndarray, budget: np.ndarray
) -> np.ndarray:
  """[B, V] bool: legal tokens after which a sequence can still complete.

  budget: [B] tokens left, this one included. Every legal token where the world
  does not know the distance.
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
  """[B] str of states [B, W]; their words where the world is not `Written`."""
  if isinstance(world, Written):
    texts = [world.format(state) for state in states]
  else:
    texts = [','.join(map(str, state.tolist())) for state in states]
  return np.array(texts, dtype=str)


class Rollout(NamedTuple):
  """The tokens that follow N states.

  Attributes:
    tokens: [N, K] int32; DEAD where nothing is known.
    frame: [N, K] int32, time in steps from the last observed one, 1..
  """

  tokens: np.ndarray
  frame: np.ndarray


class Trajectory(NamedTuple):
  """The motion that N sequences of R rows show.

  Attributes:
    position: [N, R, 2] float64, not rounded to bins, in the world's unit.
    body: [N, R] int32: 0.. the planets, then the sun.
    frame: [N, R] int32, time in steps.
    bodies: [N] int32, rows of a frame.
    step: [N] float64, years from frame to frame.
    state: [N, R, C] float64, see `Latent.hidden_states`; NaN of the sun.
  """

  position: np.ndarray
  body: np.ndarray
  frame: np.ndarray
  bodies: np.ndarray
  step: np.ndarray
  state: np.ndarray


class Latent(World):
  """Has a state that is no function of its tokens; samples carry it.

  `init`, `advance`, `legal` and `state_id` know what the tokens alone
  determine: the format. The state is side data of sequences from `sample`,
  which `hidden_states` reads.

  A world that can `forecast` also draws states (`core.Prefixed`) of which a
  latent one is part. One sequence follows from such a state. `legal` accepts
  the token that follows, and those within a tolerance. Prefixes that reach the
  state leave its latent part as open as tokens do.

  A world with a `trajectory` shows where bodies are: after the prompt, rows of
  an x and a y token. The state of a planet begins with position and velocity
  from the sun and ends with the two masses: x, y, vx, vy, planet, sun. It also
  has `width`, `coordinates` and `coordinate_tokens`.
  """

  @property
  def width(self) -> float:
    """Width of a bin, in astronomical units."""
    raise NotImplementedError

  @abc.abstractmethod
  def hidden_states(self, sequences: Sequences) -> np.ndarray:
    """[N, L, C] float64 state after each token; NaN where there is none.

    Raises:
      InputError: the sequences have no side data of this world.
    """

  @optional
  def forecast(self, states: np.ndarray, num: int) -> Rollout:
    """The `num` tokens that follow from states [N, W], of one sequence each."""
    raise NotImplementedError

  @optional
  def posterior(
    self, particles: int, sweeps: int, seed: int
  ) -> SequenceProcess:
    """The distribution of what follows tokens, by particles that agree.

    sweeps: moves of each particle whenever few agree; with more of both it is
    nearer to the exact distribution of sequences.

    Raises:
      InputError: the world's fields have no such filter.
    """
    raise NotImplementedError

  @optional
  def trajectory(self, sequences: Sequences) -> Trajectory:
    """The motion that whole sequences of this world's `sample` show."""
    raise NotImplementedError

  @optional
  def coordinates(self, tokens: np.ndarray) -> np.ndarray:
    """Centres of bins in AU of tokens of any shape; NaN for other tokens."""
    raise NotImplementedError

  @optional
  def coordinate_tokens(self, places: np.ndarray) -> np.ndarray:
    """int32 tokens of coordinates in AU of any shape, clipped to the box."""
    raise NotImplementedError


def lacks_law(cls: type[World]) -> str:
  """A line on a class of worlds that is not `Generative`: why it is not.

  One that is `Generative` but has no law says so itself, see
  `data_distribution`.
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


ROW = 2  # Tokens of a row: x and y.


def row_width(world: World) -> int:
  """Tokens of each row of a world's sequences; 1 where these have no rows."""
  return ROW if can(world, Latent.trajectory) else 1
