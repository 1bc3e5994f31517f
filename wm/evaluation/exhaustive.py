"""Exact comparisons of a model with its world, breadth first to a depth.

`compare_prefixes` is the deterministic alternative to sampling: every
continuation that the model accepts after the first prefix is followed after
both, level by level, as long as the second accepts it too. It is exact up to
the depth unless a level holds more continuations than the cap.
`compare_boundaries` compares the boundaries of model and world between two
states, and `recovery` asks about all short sequences whether a model recovers
a language.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import basics
from wm.evaluation import boundaries, context, engine, membership


class PrefixComparison(NamedTuple):
  """Results of the search for R pairs of prefixes.

  Attributes:
    refused: [R] bool, some continuation accepted after the first prefix is
      not accepted after the second.
    vacuous: [R] bool, nothing is accepted after the first prefix.
    capped: [R] bool, a level outgrew the cap: the rest is unknown.
    mass: [R] float64, probability that a continuation, drawn by the model
      from accepted tokens only, meets a refused token.
    boundary: the refused continuations of each pair (the model's boundary);
      complete unless capped or decided early.
    shares: [S] float64, the model's probability of each of these.
  """

  refused: np.ndarray
  vacuous: np.ndarray
  capped: np.ndarray
  mass: np.ndarray
  boundary: core.Boundary
  shares: np.ndarray


def compare_prefixes(
  trials: context.Trials, *, depth: int, cap: int, decide: bool = False
) -> PrefixComparison:
  """Compares the accepted continuations of two prefixes, exactly.

  Nothing follows a continuation after which a world without an end token is
  over.

  Args:
    trials: what is run.
    depth: longest continuation.
    cap: most continuations of one length followed side by side.
    decide: stop a pair at its first refused continuation.
  """
  # Each trial goes as deep as there is room behind its longer prefix.
  depths = np.minimum(trials.room, depth)
  paths = [_CommonPaths(trials, *each) for each in enumerate(depths.tolist())]
  slots = engine.slots_of(trials, cap, np.flatnonzero(depths > 0))
  while slots.live.any():
    # Rows 2 r and 2 r + 1 of the session are the prefixes of slot r; its
    # continuations 0 .. width - 1 are those followed, the others idle.
    log_probs = np.asarray(slots.session.log_probs())  # [2 R, cap, V]
    mask = np.asarray(slots.session.mask(trials.accept))
    shape = len(slots.trials), 2, cap
    tokens = np.full(shape, core.DEAD, np.int32)
    parents = np.broadcast_to(np.arange(cap), shape).copy()
    done = np.zeros(len(slots.trials), bool)
    for slot in np.flatnonzero(slots.live):
      path = paths[slots.trials[slot]]
      width = len(path.tokens)
      # [width, V] each: after the first prefix, and after the second.
      accepted, agreed = mask[2 * slot : 2 * slot + 2, :width]
      share = path.refuse(log_probs[2 * slot, :width], accepted, agreed)
      branches = path.follow(accepted & agreed, share, cap, decide)
      # Continuation m of the next level goes on from parents[m].
      done[slot] = not len(branches)
      parents[slot, :, : len(branches)] = branches[:, 0]
      tokens[slot, :, : len(branches)] = branches[:, 1]
    slots.advance(tokens, done, parents)
  # One list of the model's boundary, trial after trial.
  shares = [share for path in paths for share in path.shares]
  return PrefixComparison(
    refused=np.array([path.refused for path in paths], bool),
    vacuous=np.array([path.vacuous for path in paths], bool),
    capped=np.array([path.capped for path in paths], bool),
    mass=np.array([path.lost for path in paths], float),
    boundary=core.boundary.stacked([path.boundary for path in paths]),
    shares=np.concatenate([np.zeros(0), *shares]),
  )


class _CommonPaths:
  """Continuations of one trial that both prefixes accept, all of one length.

  Attributes:
    tokens: [n, k] int32.
    mass: [n] float64, the model's probability of each.
    states: [n, W] of the world after each, where it has no end token.
    lost: probability of the refused continuations so far.
    boundary, shares: the refused continuations of each length, and the model's
      probability of each.
  """

  def __init__(self, trials: context.Trials, trial: int, depth: int) -> None:
    self._trials, self._depth = trials, depth
    self.tokens, self.mass = np.zeros((1, 0), np.int32), np.ones(1)
    self.states = trials.prefixes.first[trials.rows[trial]][None]
    self.vacuous = self.capped = self.refused = False
    self.lost = 0.0
    self.boundary: list[np.ndarray] = []
    self.shares: list[np.ndarray] = []

  def refuse(
    self, log_probs: np.ndarray, accepted: np.ndarray, agreed: np.ndarray
  ) -> np.ndarray:
    """Notes the tokens that the first prefix accepts and the second does not.

    log_probs, accepted: [n, V] after the first prefix; agreed: accepted after
    the second.

    Returns:
      [n, V] the model's probability of each continuation with a token more.
    """
    if not self.tokens.shape[1]:
      self.vacuous = not accepted.any()
    # The model draws from the accepted tokens only, renormalised.
    share = np.where(accepted, np.exp(log_probs.astype(np.float64)), 0)
    total = np.maximum(share.sum(-1, keepdims=True), np.finfo(float).tiny)
    share *= self.mass[:, None] / total
    refused = accepted & ~agreed
    self.refused |= bool(refused.any())
    # Continuations with a refused token exclude one another: masses add up.
    self.lost += share[refused].sum()
    self.shares.append(share[refused])
    # In the order of the parents, then of tokens, so boundaries are sorted.
    parents, tokens = np.nonzero(refused)
    self.boundary.append(np.column_stack([self.tokens[parents], tokens]))
    return share

  def follow(
    self, mask: np.ndarray, share: np.ndarray, cap: int, decide: bool
  ) -> np.ndarray:
    """[m, 2] (parent, token) of the next level; none when decided.

    mask: [n, V] bool, tokens that both prefixes accept; share: as `refuse`
    gives it.
    """
    world, end = self._trials.world, self._trials.predictor.end
    if end != core.DEAD:
      mask[:, end] = False  # Nothing follows the end.
    branches = np.argwhere(mask)
    # Children of the last level would be too long; a decided pair needs none.
    last = self.tokens.shape[1] + 1 >= self._depth
    if last or (decide and self.refused):
      return branches[:0]
    # The model's continuations may be illegal; a dead state is not over, and
    # what follows is still asked about.
    if world.end == core.DEAD:
      states = world.advance(self.states[branches[:, 0]], branches[:, 1])
      going = ~world.over(states)
      branches, self.states = branches[going], states[going]
    if len(branches) > cap:
      self.capped = True
      return branches[:0]
    parents, tokens = branches.T
    self.tokens = np.column_stack([self.tokens[parents], tokens])
    self.mass = share[parents, tokens]
    return branches


ACCEPT = 'epsilon(0.01)'
MOST = 4096  # Continuations of one length that are followed side by side.
_FEW = 64  # As many at first: a session computes for those that idle too.


class BoundaryComparison(NamedTuple):
  """The boundaries of a model and of its world between two prefixes.

  Attributes:
    world: whose rules.
    prefixes: both, in words.
    sizes: (k, world's, model's) boundary sizes up to each length k.
    model: [S] words of the model's boundary, shortest first.
    right: [S] bool, does a suffix tell the two states apart in the world too?
    truth: [R] words of the world's boundary, shortest first.
    recalled: [R] bool, does a suffix tell them apart for the model too?
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
    """Share of the model's boundary that is right; NaN where it is empty."""
    return float(self.right.mean()) if len(self.right) else float('nan')

  @property
  def recall(self) -> float:
    """Share of the world's boundary that is found; NaN where it is empty."""
    return float(self.recalled.mean()) if len(self.recalled) else float('nan')

  def lines(self, show: bool = False) -> list[str]:
    """For people to read; `show` lists the suffixes that they differ in."""
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
  # A session computes for all of its rows, followed or not: begin with few, and
  # search again with more where they do not suffice.
  cap = min(_FEW, most)
  comparison = compare_prefixes(trials, depth=depth, cap=cap)
  while comparison.capped[0] and cap < most:
    cap = min(8 * cap, most)
    comparison = compare_prefixes(trials, depth=depth, cap=cap)
  if comparison.capped[0]:
    raise core.InputError(
      f'depth={depth}: the model accepts more than {most} continuations of one '
      'length after both prefixes; take a smaller depth'
    )
  boundary, pair = comparison.boundary, (trials.first, trials.second)
  assert isinstance(world, core.Enumerable)  # By the caller.
  truth = world.boundary(*pair, depth)
  # Of the model's boundary: what tells the states apart in the world too. Of
  # the world's: what the model recognises.
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
  """[L] tokens that lead to a state: those of its text, or drawn."""
  index = {token: k for k, token in enumerate(world.vocab) if k}
  tokens = np.array([index.get(word, 0) for word in text.split()], np.int32)
  # A text may be a sequence itself; it is used where it leads to the state.
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

  Rows are the P legal sequences, from the prompt on, of fewer than `depth`
  tokens that can go on.

  Attributes:
    depth: longest sequence, in tokens.
    sequences: [P] str.
    exact: [P] bool, are the accepted next tokens the legal ones?
    recovered: [P] bool, are the continuations, up to `depth` tokens in all,
      that are accepted token by token those that are legal?
    first: the first sequence after which a next token differs, in words, and
      what is accepted and what is legal there; '' where there is none.
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
    """For people to read."""
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
    starts: [N, D] number of each shorter sequence that it begins with.
    member: [N, D] bool, does the model accept the rest after this beginning?
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
    # Nothing is asked after sequences that have ended.
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
  """[N] bool: sequences after which nothing is asked for."""
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
  """Sequences of one token more, and the beginnings whose languages differ.

  number: [N] of each sequence, DEAD of those that are over. An illegal token
  that is accepted after a beginning makes its language another one, whatever
  comes after.
  """
  # [N, D] -> [N, D + 1]: a sequence is also a beginning of what follows it.
  starts = np.column_stack([level.starts, number])
  member = np.column_stack([level.member, np.ones(len(number), bool)])
  # Legal children, and illegal ones that the language of some beginning has:
  # these show that it is another language, and are followed no further.
  rows, token = np.nonzero(legal | (accepted & member.any(-1, keepdims=True)))
  _check(len(rows), most)
  starts = starts[rows]
  member = member[rows] & accepted[rows, token].reshape(-1, 1)
  good = legal[rows, token]
  # The language of a beginning is right if just its legal continuations are in.
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
