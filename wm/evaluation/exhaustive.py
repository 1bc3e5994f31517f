"""Exact comparisons of a model with its world, breadth first to a depth.

`compare_boundaries` compares the boundaries of model and world between two
states: it follows every continuation that the model accepts after both
prefixes, level by level. `recovery` tests on all short sequences whether a
model recovers a language.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import basics
from wm.evaluation import boundaries, context, membership


def model_boundary(
  trials: context.Trials, depth: int, most: int
) -> core.Boundary | None:
  """The exact boundary of a trial's two prefixes for the model.

  In a world without an end token, continuations end where the world is over.

  Args:
    trials: one trial.
    depth: longest suffix.
    most: maximum number of continuations of one length.

  Returns:
    The suffixes, shortest first; None if there are more continuations.
  """
  predictor, world = trials.predictor, trials.world
  session = predictor.session(trials.tokens[0], trials.lengths[0], most)
  # Continuations of one length that both prefixes accept [n, k], and states.
  paths, states = np.zeros((1, 0), np.int32), trials.first
  boundary: list[np.ndarray] = []
  for k in range(1, depth + 1):
    accepted, agreed = np.asarray(session.mask(trials.accept))[:, : len(paths)]
    # In the order of the parents, then of tokens, so boundaries are sorted.
    parents, tokens = np.nonzero(accepted & ~agreed)
    boundary.append(np.column_stack([paths[parents], tokens]))
    going = accepted & agreed
    if predictor.end != core.DEAD:
      going[:, predictor.end] = False  # Nothing follows the end.
    parents, tokens = np.nonzero(going)
    if world.end == core.DEAD:
      # The model's continuations may be illegal; a dead state is not over, so
      # these are followed too.
      after = world.advance(states[parents], tokens.astype(np.int32))
      on = ~world.over(after)
      parents, tokens, states = parents[on], tokens[on], after[on]
    if k == depth or not len(parents):
      break
    if len(parents) > most:
      return None
    paths = np.column_stack([paths[parents], tokens]).astype(np.int32)
    # Continuation m of the next level goes on from parents[m].
    appended = np.full((2, most), core.DEAD, np.int32)
    origin = np.broadcast_to(np.arange(most), (2, most)).copy()
    appended[:, : len(tokens)], origin[:, : len(tokens)] = tokens, parents
    session.advance(appended, origin)
  return core.boundary.stacked([boundary])


ACCEPT = 'epsilon(0.01)'
MOST = 4096  # Most continuations of one length.
_FEW = 64  # Size of the first session, which computes idle rows too.


class BoundaryComparison(NamedTuple):
  """The boundaries of a model and of its world between two prefixes.

  Attributes:
    world: the world.
    prefixes: both prefixes in words.
    sizes: (k, world's, model's) boundary sizes up to each length k.
    model: [S] words of the model's boundary, shortest first.
    right: [S] bool, whether a suffix separates the states in the world too.
    truth: [R] words of the world's boundary, shortest first.
    recalled: [R] bool, whether a suffix separates them for the model too.
  """

  world: core.World
  prefixes: tuple[str, str]
  sizes: list[tuple[int, int, int]]
  model: list[str]
  right: np.ndarray
  truth: list[str]
  recalled: np.ndarray

  @property
  def precision(self) -> float:
    """Share of the model's boundary that is right; NaN if it is empty."""
    return float(self.right.mean()) if len(self.right) else float('nan')

  @property
  def recall(self) -> float:
    """Share of the world's boundary that is recalled; NaN if it is empty."""
    return float(self.recalled.mean()) if len(self.recalled) else float('nan')

  def lines(self, show: bool = False) -> list[str]:
    """Lines of text; `show` lists the suffixes that differ."""
    wrong = [x for x, ok in zip(self.model, self.right, strict=True) if not ok]
    lost = [
      x for x, ok in zip(self.truth, self.recalled, strict=True) if not ok
    ]
    return [
      *(f'prefix {prefix}' for prefix in self.prefixes),
      *(f"model's, not the world's: {suffix}" for suffix in wrong * show),
      *(f"world's, not the model's: {suffix}" for suffix in lost * show),
      *(' '.join(map(str, row)) for row in self.sizes),
      f'precision {_share(self.right)}',
      f'recall {_share(self.recalled)}',
    ]


def _share(good: np.ndarray) -> str:
  if not len(good):
    return 'undefined: the boundary is empty (1 by definition)'
  return f'{good.mean():.3f} ({good.sum()} of {len(good)})'


def compare_boundaries(
  world: core.Written,
  predictor: core.Predictor,
  texts: tuple[str, str],
  states: np.ndarray,
  depth: int,
  accept: rules.Accept,
  *,
  seed: int,
  most: int,
) -> BoundaryComparison:
  """See `wm.model_boundary`; states: [2, W], which the texts name."""
  trials = _pair(world, predictor, texts, states, accept, seed)
  if trials.room[0] < depth:
    raise core.InputError(
      f'depth={depth}: {trials.room[0]} tokens fit behind the longer prefix'
    )
  # A session computes all of its rows, used or not: begin with few rows, and
  # search again with more if they do not suffice.
  cap = min(_FEW, most)
  boundary = model_boundary(trials, depth, cap)
  while boundary is None and cap < most:
    cap = min(8 * cap, most)
    boundary = model_boundary(trials, depth, cap)
  if boundary is None:
    raise core.InputError(
      f'depth={depth}: the model accepts more than {most} continuations of one '
      'length after both prefixes; take a smaller depth'
    )
  pair = trials.first, trials.second
  assert isinstance(world, core.Enumerable)  # By the caller.
  truth = world.boundary(*pair, depth)
  # Suffixes of the model's boundary that separate the states in the world, and
  # suffixes of the world's that separate them for the model.
  right = boundaries.model_divergence(world, *pair, boundary) == 0
  truth, wrong_at = membership.divergence(trials, truth)
  # Cumulative over lengths.
  sizes = [
    (k, int((truth.lengths <= k).sum()), int((boundary.lengths <= k).sum()))
    for k in range(1, depth + 1)
  ]
  first, second = context.token_texts(
    world, trials.tokens[0], trials.lengths[0]
  ).tolist()
  return BoundaryComparison(
    world,
    (first, second),
    sizes,
    context.token_texts(world, boundary.listed()[0]).tolist(),
    right,
    context.token_texts(world, truth.listed()[0]).tolist(),
    wrong_at == 0,
  )


def _pair(
  world: core.Written,
  predictor: core.Predictor,
  texts: tuple[str, str],
  states: np.ndarray,
  accept: rules.Accept,
  seed: int,
) -> context.Trials:
  """One trial: the prefixes that two texts name."""
  prefixes = [
    _prefix(world, text, state, seed)
    for text, state in zip(texts, states, strict=True)
  ]
  tokens = np.zeros((1, 2, world.max_len), np.int32)
  for side, prefix in enumerate(prefixes):
    tokens[0, side, : len(prefix)] = prefix
  lengths = np.array([[len(prefix) for prefix in prefixes]], np.int32)
  # One trial, whose states and prefixes are given rather than drawn.
  zeros = np.zeros(1, np.int32)
  pairs = context.PrefixPairs(
    *(states[:1], states[1:], tokens, lengths, zeros, np.array([''])),
    *(zeros, zeros, {}),
  )
  accept = membership.rule_for(predictor, accept)
  return context.Trials(predictor, world, pairs, accept, accept, seed)


def _prefix(
  world: core.Written, text: str, state: np.ndarray, seed: int
) -> np.ndarray:
  """[L] tokens that lead to a state, from its text or drawn."""
  index = {token: k for k, token in enumerate(world.vocab) if k}
  tokens = np.array([index.get(word, 0) for word in text.split()], np.int32)
  # A text may be a sequence itself, which is used if it leads to the state.
  if tokens.size and tokens.all():
    size = np.array([tokens.size])
    steps, ends = world.walk(world.init(1), tokens[None], size)
    if steps[0] == tokens.size and (ends[0] == state).all():
      return tokens
  if isinstance(world, core.Prefixed):
    least, most = world.prefix_moves(state[None])[0].tolist()
    # Else the shortest prefix that the world can draw.
    for moves in range(least, most + 1):
      seeds = basics.hash64(np.array([seed]), moves)
      prefixes = world.sample_prefixes(state[None], np.array([moves]), seeds)
      if prefixes.ok[0]:
        return prefixes.tokens[0, : prefixes.lengths[0]]
  raise core.InputError(
    f'no sequence is known that leads to {text!r}; give a sequence of tokens'
  )


class Recovery(NamedTuple):
  """Two definitions of Vafa et al. 2024, section 2.2, checked to a depth.

  Rows are the P legal sequences of fewer than `depth` tokens, from the prompt
  on, that are not over.

  Attributes:
    depth: longest sequence, in tokens.
    sequences: [P] str.
    exact: [P] bool, whether the accepted next tokens are the legal ones.
    recovered: [P] bool, whether the accepted continuations, up to `depth`
      tokens in total, are the legal ones.
    first: the first sequence after which a next token differs, in words, with
      accepted and legal tokens; '' if there is none.
  """

  depth: int
  sequences: np.ndarray
  exact: np.ndarray
  recovered: np.ndarray
  first: str

  @property
  def agree(self) -> bool:
    """Are all next tokens exact if and only if the language is recovered?"""
    return bool(self.exact.all() == self.recovered.all())

  def lines(self) -> list[str]:
    """The result as lines of text."""
    everywhere = ('no', 'yes')[int(self.exact.all())]
    language = ('no', 'yes')[int(self.recovered.all())]
    return [
      f'sequences of fewer than {self.depth} tokens {len(self.exact)}',
      f'exact next tokens after {self.exact.sum()}',
      f'language recovered after {self.recovered.sum()}',
      f'exact everywhere: {everywhere}; language recovered: {language}',
      *([self.first] if self.first else []),
    ]


class _SameLength(NamedTuple):
  """All N legal sequences of one length.

  Attributes:
    tokens: [N, k] int32.
    states: [N, W].
    starts: [N, D] number of each shorter sequence with which it begins.
    member: [N, D] bool, whether the model accepts the rest after that sequence.
  """

  tokens: np.ndarray
  states: np.ndarray
  starts: np.ndarray
  member: np.ndarray


def recovery(
  world: core.World,
  predictor: core.Predictor,
  depth: int,
  accept: rules.Accept,
  *,
  most: int,
) -> Recovery:
  """See `wm.recovery`."""
  start = max(world.prompt_len, 1)
  longest = min(world.max_len, predictor.max_len)
  if not start < depth <= longest:
    raise core.InputError(
      f'depth={depth}: expected {start + 1} to {longest} tokens in all'
    )
  level = _prompts(world, start, most)
  words: list[str] = []
  exact: list[np.ndarray] = []
  wrong: set[int] = set()  # Beginnings whose continuations differ.
  first = ''
  # Level by level; all legal sequences of one length are held at once.
  for _ in range(start, depth):
    legal, accepted = _next(world, predictor, accept, level)
    # Ended sequences have no next tokens.
    asked = np.flatnonzero(~_ended(world, level))
    right = (legal == accepted)[asked].all(-1)
    if not right.all() and not first:
      at = asked[np.argmin(right)]
      first = _difference(world, level.tokens[at], accepted[at], legal[at])
    number = np.full(len(level.tokens), core.DEAD)
    number[asked] = len(words) + np.arange(len(asked))
    words += context.token_texts(world, level.tokens[asked]).tolist()
    exact.append(right)
    level, differs = _longer(world, level, number, legal, accepted, most)
    # Beginnings whose languages differ are found at any later level.
    wrong |= differs
  recovered = np.ones(len(words), bool)
  recovered[sorted(wrong)] = False
  return Recovery(
    depth, np.array(words), np.concatenate(exact), recovered, first
  )


def _prompts(world: core.World, start: int, most: int) -> _SameLength:
  """All legal sequences of `start` tokens."""
  states, tokens = world.init(1), np.zeros((1, 0), np.int32)
  for _ in range(start):
    # Every legal child of every sequence.
    rows, token = np.nonzero(world.legal(states))
    _check(len(rows), most)
    states = world.advance(states[rows], token)
    tokens = np.column_stack([tokens[rows], token]).astype(np.int32)
  none = np.zeros((len(tokens), 0))
  return _SameLength(tokens, states, none.astype(int), none.astype(bool))


def _check(number: int, most: int) -> None:
  if number > most:
    raise core.InputError(
      f'there are more than {most} sequences of one length; take a smaller '
      'depth or world'
    )


def _ended(world: core.World, level: _SameLength) -> np.ndarray:
  """[N] bool: sequences that have ended."""
  if world.end != core.DEAD:
    return level.tokens[:, -1] == world.end
  return world.over(level.states)


def _next(
  world: core.World,
  predictor: core.Predictor,
  accept: rules.Accept,
  level: _SameLength,
) -> tuple[np.ndarray, np.ndarray]:
  """[N, V] bool each: legal next tokens, and accepted ones."""
  tokens = level.tokens
  accepted = np.zeros((len(tokens), len(world.vocab)), bool)
  lengths = np.full(len(tokens), tokens.shape[1], np.int32)
  for rows, log_probs in core.predictor.log_probs_by_rows(
    predictor, tokens, lengths
  ):
    # All sequences have one length: their last position is the last column.
    accepted[rows] = accept.mask(np.asarray(log_probs)[:, -1])
  accepted[_ended(world, level)] = False
  return world.legal(level.states), accepted


def _longer(
  world: core.World,
  level: _SameLength,
  number: np.ndarray,
  legal: np.ndarray,
  accepted: np.ndarray,
  most: int,
) -> tuple[_SameLength, set[int]]:
  """Sequences with one more token, and the beginnings whose languages differ.

  An illegal token that is accepted after a beginning makes its language differ.

  number: [N] number of each sequence, DEAD for those that are over.
  """
  # [N, D] -> [N, D + 1]: a sequence is also a beginning of what follows it.
  starts = np.column_stack([level.starts, number])
  member = np.column_stack([level.member, np.ones(len(number), bool)])
  # Legal children, and illegal ones in the language of some beginning: the
  # latter show a different language, and are not followed further.
  rows, token = np.nonzero(legal | (accepted & member.any(-1, keepdims=True)))
  _check(len(rows), most)
  starts = starts[rows]
  member = member[rows] & accepted[rows, token].reshape(-1, 1)
  good = legal[rows, token]
  # The language of a beginning is right if it has exactly the legal ones.
  differs = member != good.reshape(-1, 1)
  wrong = set(starts[differs].tolist())
  rows, token = rows[good], token[good]
  longer = _SameLength(
    np.column_stack([level.tokens[rows], token]).astype(np.int32),
    world.advance(level.states[rows], token),
    starts[good],
    member[good],
  )
  return longer, wrong


def _difference(
  world: core.World, tokens: np.ndarray, accepted: np.ndarray, legal: np.ndarray
) -> str:
  """The accepted and the legal tokens after a sequence, in words."""
  lists = [
    ', '.join(world.vocab[k] for k in np.flatnonzero(mask)) or 'nothing'
    for mask in (accepted, legal)
  ]
  (words,) = context.token_texts(world, tokens[None]).tolist()
  return f'first after {words!r}: accepted {lists[0]}; legal {lists[1]}'
