"""The support of a world's sampler, and trials that stay on it.

A goal-directed sampler draws few of the legal sequences. The data do not
determine predictions elsewhere, even for a model that fits them perfectly.
Metrics with support='sampler' judge only what the data determine. After a
prefix

  supported   is a token of conditional probability above a bound, which the
              metric's acceptance rule accepts from the sampler itself
  judged      is a supported token, or an illegal one, which has probability 0
  not judged  is a legal token that the sampler rarely or never takes

and the tokens of a continuation count up to the first that is not judged. The
world itself and the sampler's Bayes predictor are right about every judged
token.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import basics
from wm.evaluation import context, engine

CHOICES = 'all', 'sampler'
# Sequences in a pool for each trial, and fewest and most in a pool.
EACH, LEAST, MOST = 16, 4000, 20_000
BOUND = 0.01  # A supported token has a probability above this.
_ATTEMPTS = 32  # Draws of a second prefix before a trial is given up.
_CELLS = 1 << 24  # Most entries of arrays by token that are held at once.


class SupportedLength(NamedTuple):
  """Leading tokens of N continuations that are on the support.

  Attributes:
    judged: [N] int32 leading tokens that are judged.
    supported: [N] int32 leading tokens that are supported.
    log_probs: [N] float64 log-probability of the supported tokens under the
      sampler, in nats.
  """

  judged: np.ndarray
  supported: np.ndarray
  log_probs: np.ndarray


@dataclasses.dataclass(frozen=True)
class Support:
  """The support of a world's sampler.

  Attributes:
    world: the world.
    process: distribution of its sampled sequences.
    accept: rule that accepts supported tokens.
  """

  world: core.World
  process: core.SequenceProcess
  accept: rules.Accept

  @classmethod
  def of(cls, world: core.World, accept: rules.Accept) -> Support:
    """The support under an acceptance rule.

    Raises:
      InputError: the distribution of the world's sequences is not known.
    """
    if not isinstance(world, core.Generative):
      lack = core.capabilities.lacks_law(type(world))
      raise core.InputError(
        f"support='sampler': {lack}; available: support='all'"
      )
    return cls(world, world.data_distribution(), accept)

  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Supported tokens [B, V] bool, and log-probabilities [B, V] in nats.

    memory: [B, W] states of the process.
    """
    vocab = len(self.world.vocab)
    log_probs = np.full((len(memory), vocab), -np.inf)
    # [B, V] of float64 may not fit where V is large: in chunks of rows.
    for part in core.predictor.chunks(len(memory), vocab, _CELLS):
      # The process lists the K possible tokens: [B, K] -> [B, V].
      tokens, odds = self.process.next(memory[part])
      rows, place = np.nonzero(tokens != core.DEAD)
      log_probs[part][rows, tokens[rows, place]] = odds[rows, place]
    # float32, like models' outputs, so that ties at the threshold agree.
    accepted = np.asarray(self.accept.mask(log_probs.astype(np.float32)))
    return accepted & (log_probs > np.log(BOUND)), log_probs

  def follow(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """States of the process and of the world [N, W] after sequences."""
    num, most = tokens.shape
    memory, states = self.process.init(num), self.world.init(num)
    for t in range(most):
      rows = np.flatnonzero(t < lengths)
      memory[rows] = self.process.advance(memory[rows], tokens[rows, t])
      states[rows] = self.world.advance(states[rows], tokens[rows, t])
    return memory, states

  def judge(
    self,
    memory: np.ndarray,
    states: np.ndarray,
    tokens: np.ndarray,
    lengths: np.ndarray,
  ) -> SupportedLength:
    """Judges continuations [N, K] from memories and states [N, W]."""
    num = len(tokens)
    judged, supported = np.zeros((2, num), np.int32)
    log_probs, rows = np.zeros(num), np.arange(num)
    for t in range(tokens.shape[1]):
      going = t < lengths[rows]
      rows, memory, states = rows[going], memory[going], states[going]
      if not rows.size:
        break
      token = tokens[rows, t]
      # Equal memories have equal distributions.
      first, back = basics.distinct(memory)
      # The process runs once for each distinct memory.
      mask, odds = self.next(memory[first])
      on = mask[back, token]
      states = self.world.advance(states, token)
      # Judged: supported, or illegal. Tokens count up to the first legal token
      # that is not supported.
      judged[rows] += on | (self.world.state_id(states) == core.DEAD)
      supported[rows] += on
      log_probs[rows[on]] += odds[back[on], token[on]]
      # There is no state after an illegal token.
      rows, states = rows[on], states[on]
      memory = self.process.advance(memory[on], token[on])
    return SupportedLength(judged, supported, log_probs)


class PrefixPool(NamedTuple):
  """N distinct supported prefixes that reach a state.

  Attributes:
    sequence: [N] index of the sequence of each prefix.
    length: [N] number of tokens of each prefix.
    state: [N, W] state that it reaches.
    id: [N] int64 id of the state.
  """

  sequence: np.ndarray
  length: np.ndarray
  state: np.ndarray
  id: np.ndarray


def pool(support: Support, sequences: core.Sequences) -> PrefixPool:
  """All proper prefixes of sequences that are longer than the prompt.

  A prefix is left out if one of its tokens after the prompt is not supported,
  or if it equals an earlier prefix.
  """
  world, tokens = support.world, sequences.tokens
  num, start = len(sequences), world.prompt_len
  memory, states = support.process.init(num), world.init(num)
  # A mark is the hash of the tokens so far; equal marks mean equal prefixes.
  marks, rows = np.zeros(num, np.uint64), np.arange(num)
  parts: list[tuple[np.ndarray, ...]] = []
  for t in range(tokens.shape[1]):
    if t >= start:  # Is the next token of the sequence supported?
      first, back = basics.distinct(memory)
      mask, _ = support.next(memory[first])
      on = mask[back, tokens[rows, t]]
    else:
      on = np.ones(len(rows), bool)
    # Proper prefixes only: a whole sequence has no continuation.
    on &= t + 1 < sequences.lengths[rows]
    rows, memory, states, marks = rows[on], memory[on], states[on], marks[on]
    if not rows.size:
      break
    token = tokens[rows, t]
    memory = support.process.advance(memory, token)
    states = world.advance(states, token)
    marks = basics.hash64(marks, token)
    if t + 1 > start:
      # The first sequence with a prefix represents it.
      _, fresh = np.unique(marks, return_index=True)
      length = np.full(len(fresh), t + 1)
      parts.append((rows[fresh], length, states[fresh]))
  if not parts:
    none = np.zeros(0, np.int64)
    return PrefixPool(none, none, world.init(0), none)
  sequence, lengths, reached = map(np.concatenate, zip(*parts, strict=True))
  return PrefixPool(sequence, lengths, reached, world.state_id(reached))


def prefix_pairs(
  support: Support, num: int, seed: int, *, two_states: bool
) -> context.PrefixPairs:
  """Two supported prefixes of equal length for each of `num` trials.

  The prefixes are cut from a pool of sequences that the world samples. For one
  state, a state and length is drawn uniformly from those with two distinct
  prefixes in the pool, and then two of these prefixes. For two states, the
  first is any prefix of the pool, and the second any prefix of equal length
  that reaches another state. A trial without such prefixes has a reason.

  Args:
    support: support of the world's sampler.
    num: number of trials, T.
    seed: seed of the pool and of trials.
    two_states: whether the two prefixes reach different states.
  """
  size = int(np.clip(EACH * num, LEAST, MOST))
  sequences = support.world.sample(size, seed)
  prefixes = pool(support, sequences)
  draw = _two_states if two_states else _one_state
  first, second = draw(prefixes, num, seed)
  good = second >= 0
  place = np.where(good[:, None], np.stack([first, second], 1), 0)
  width = support.world.max_len
  tokens = np.zeros((num, 2, width), np.int32)
  lengths = np.zeros((num, 2), np.int32)
  # [T, 2, W], initial states for trials without a pair.
  states = np.repeat(support.world.init(1)[None], num, 0).repeat(2, 1)
  if good.any():
    lengths[good] = prefixes.length[place[good]]
    states[good] = prefixes.state[place[good]]
    taken = sequences.tokens[prefixes.sequence[place[good]]][..., :width]
    # Cut from whole sequences: tokens past the prefix are padding.
    used = np.arange(taken.shape[2]) < lengths[good][..., None]
    tokens[good, :, : taken.shape[2]] = np.where(used, taken, core.PAD)
  return context.PrefixPairs(
    states[:, 0],
    states[:, 1],
    tokens,
    lengths,
    moves=np.maximum(lengths[:, 0] - support.world.prompt_len, 0),
    reason=np.where(good, '', 'no_two_supported_prefixes'),
    trial=np.arange(num),
    counts={},
  )


def _one_state(
  prefixes: PrefixPool, num: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
  """[T], [T] rows of the pool that share state and length; -1 if none."""
  order = np.lexsort((prefixes.id, prefixes.length))
  # Groups of equal length and state, each a run of `order`.
  keys = np.stack([prefixes.length, prefixes.id], 1)[order]
  _, starts, sizes = np.unique(
    keys, axis=0, return_index=True, return_counts=True
  )
  several = np.flatnonzero(sizes > 1)
  if not several.size:
    return np.zeros(num, np.int64), np.full(num, core.DEAD)
  picks = [
    basics.uniforms(seed, context.PREFIXES, np.arange(num), n) for n in range(3)
  ]
  group = several[(picks[0] * len(several)).astype(np.int64)]
  size = sizes[group]
  first = (picks[1] * size).astype(np.int64)
  second = (picks[2] * (size - 1)).astype(np.int64)
  # Uniform over the others: the second index skips the first.
  second += second >= first
  return order[starts[group] + first], order[starts[group] + second]


def _two_states(
  prefixes: PrefixPool, num: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
  """[T], [T] rows of the pool of equal length and two states; -1 if none."""
  second = np.full(num, core.DEAD)
  if not len(prefixes.id):
    return np.zeros(num, np.int64), second
  trials = np.arange(num)
  first = basics.uniforms(seed, context.STATES, trials) * len(prefixes.id)
  first = first.astype(np.int64)
  # Rows of equal length follow each other.
  # Candidates are all prefixes as long as the first.
  low = np.searchsorted(prefixes.length, prefixes.length[first], side='left')
  high = np.searchsorted(prefixes.length, prefixes.length[first], side='right')
  for attempt in range(_ATTEMPTS):
    rows = np.flatnonzero(second < 0)
    if not rows.size:
      break
    pick = basics.uniforms(seed, context.OTHERS, rows, attempt)
    drawn = low[rows] + (pick * (high - low)[rows]).astype(np.int64)
    other = prefixes.id[drawn] != prefixes.id[first[rows]]
    second[rows[other]] = drawn[other]
  return first, second


def of_pairs(trials: context.Trials, drawn: engine.Continuations) -> np.ndarray:
  """[R, M] number of leading tokens that are judged after both prefixes."""
  num, samples, width = drawn.tokens.shape
  trial = np.repeat(np.arange(num), samples)
  # Explicit sizes, because there may be no pairs.
  flat = drawn.tokens.reshape(len(trial), width), drawn.lengths.reshape(-1)
  sides = [_judge(trials, side, trial, *flat) for side in (0, 1)]
  judged = np.minimum(sides[0].judged, sides[1].judged)
  return judged.reshape(num, samples)


def of_elements(
  trials: context.Trials, elements: core.Boundary, sides: tuple[int, ...]
) -> SupportedLength:
  """Leading supported tokens of suffixes of R trials, minimum over sides.

  sides: prefixes after which suffixes are judged: 0, 1 or both.
  """
  parts = [
    _judge(trials, side, elements.pair_ids, elements.tokens, elements.lengths)
    for side in sides
  ]
  # Each suffix is judged as far as its worse side.
  return SupportedLength(
    *(np.minimum.reduce(values) for values in zip(*parts, strict=True))
  )


def _judge(
  trials: context.Trials,
  side: int,
  trial: np.ndarray,
  tokens: np.ndarray,
  lengths: np.ndarray,
) -> SupportedLength:
  """Leading supported tokens of continuations [N, K] after one prefix."""
  support = Support.of(trials.world, trials.accept)
  memory, states = support.follow(
    trials.tokens[:, side], trials.lengths[:, side]
  )
  return support.judge(memory[trial], states[trial], tokens, lengths)
