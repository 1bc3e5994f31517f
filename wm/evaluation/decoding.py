"""Decoding, greedy or sampled, judged by the world; for traversal and detours.

Each trial follows a policy token by token until it is complete, takes an
illegal token, or reaches the cap on length.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import accept, basics, capabilities
from wm.evaluation import boundaries, context, engine
from wm.evaluation.context import SAMPLES, TIES

ANY = accept.epsilon(0.0)  # All tokens of nonzero probability.
BATCH = 64  # Trials in flight; results do not depend on it.

# Outcome of a trial.
VALID, PATH_FAIL, DEST_FAIL, CAP, STUCK = range(5)
OUTCOMES = ('valid', 'path_fail', 'dest_fail', 'cap', 'stuck')


class Decoded(NamedTuple):
  """The sequences that T trials decoded.

  Attributes:
    tokens: [T, L] int32, prompt included, padded with PAD; the refused token
      is included.
    lengths: [T] int32.
    outcome: [T] int8, index into OUTCOMES.
  """

  tokens: np.ndarray
  lengths: np.ndarray
  outcome: np.ndarray


class DecodingStep(NamedTuple):
  """The input of a policy, R rows.

  Attributes:
    trial: [R] index of each row's trial.
    length: [R] tokens so far, prompt included.
    states: [R, W] world states.
    log_probs: [R, V] the predictor's, in nats.
  """

  trial: np.ndarray
  length: np.ndarray
  states: np.ndarray
  log_probs: np.ndarray


Policy = Callable[[DecodingStep], np.ndarray]


def most_likely(log_probs: np.ndarray) -> np.ndarray:
  """[..., V] bool: the most likely token, and all ties with it.

  All are False if no token has a nonzero probability.
  """
  # Ties are equal to the bit; a rounding difference breaks them.
  best = log_probs.max(-1, keepdims=True)
  return (log_probs == best) & (best > -np.inf)


@dataclasses.dataclass(frozen=True)
class Greedy:
  """The policy that takes the most likely token.

  Ties are broken by a uniform draw, not by the order of the vocabulary, which
  is no choice of the model.

  Attributes:
    seed: a trial's draws depend on the seed, its number and its length.
  """

  seed: int

  def __call__(self, step: DecodingStep) -> np.ndarray:
    """[R] tokens; DEAD if none is possible."""
    # By trial and length, so that draws do not depend on batches.
    uniform = basics.uniforms(self.seed, TIES, step.trial, step.length)
    return boundaries.choice(most_likely(step.log_probs), uniform)


@dataclasses.dataclass(frozen=True)
class Sampled:
  """The policy that draws a token from all of the model's probabilities.

  Attributes:
    seed: a trial's draws depend on the seed, its number and its length.
  """

  seed: int

  def __call__(self, step: DecodingStep) -> np.ndarray:
    """[R] tokens; DEAD if none is possible."""
    uniform = basics.uniforms(self.seed, SAMPLES, step.trial, step.length)
    return ANY.draw(step.log_probs, uniform)


def legal(decoded: Decoded) -> np.ndarray:
  """[T] bool: are all tokens legal, up to the end or the cap on length?"""
  return ~np.isin(decoded.outcome, (PATH_FAIL, DEST_FAIL))


def prompts(
  world: core.World, sequences: core.Sequences, moves: int = 0
) -> tuple[np.ndarray, np.ndarray]:
  """Prompts [N, P] and lengths [N]: the task's tokens, and `moves` moves.

  Predictors need one token to start from, so in a world without a task the
  prompt has at least the first move. It never has the last token of a sequence,
  unless that belongs to the task.
  """
  # At least one token, as predictors do not predict the first.
  least = max(world.prompt_len, 1)
  size = max(world.prompt_len + moves, least)
  lengths = np.clip(sequences.lengths - 1, least, size).astype(np.int32)
  tokens = sequences.tokens[:, :size]
  used = np.arange(tokens.shape[1]) < lengths[:, None]
  return np.where(used, tokens, core.PAD), lengths


def merged(
  prompts: tuple[np.ndarray, np.ndarray], group: np.ndarray
) -> np.ndarray:
  """[N] int64 clusters `group`, joined for equal prompts.

  Greedy decoding of equal prompts gives the same trial. On maps equal prompts
  are one task anyway.
  """
  first, back = basics.distinct(prompts[0])
  # The cluster of the first row with each prompt.
  return group[first][back]


def decode(
  predictor: core.Predictor,
  world: core.World,
  prompts: tuple[np.ndarray, np.ndarray],
  policy: Policy,
  max_len: int,
  batch: int = BATCH,
) -> Decoded:
  """Runs one trial for each prompt.

  In a world with an end token a trial is valid if it reaches that token
  legally. In other worlds it is valid if every token is legal up to the cap, or
  until the world is over. A prompt without room for a token has the outcome
  CAP.

  Args:
    predictor: model whose probabilities the policy sees.
    world: world whose `advance` decides which tokens are legal.
    prompts: (tokens [T, P], lengths [T]), legal.
    policy: function to the next token of each row, DEAD for none.
    max_len: maximum total tokens, prompt included.
    batch: maximum number of trials in flight; results do not depend on it.
  """
  tokens, lengths = prompts[0], np.array(prompts[1], np.int32)
  # Prompts [T, P], widened to the cap: [T, max_len].
  space = np.zeros((len(tokens), max(max_len - tokens.shape[1], 0)), np.int32)
  decoded = Decoded(
    tokens=np.concatenate([tokens, space], axis=1).astype(np.int32),
    lengths=lengths.copy(),  # Updated below; the prompts' lengths stay.
    outcome=np.full(len(lengths), core.DEAD, np.int8),
  )
  states = world.walk(world.init(len(tokens)), tokens, decoded.lengths)[1]
  judge = _Judge(world, decoded, states, max_len)
  # A prompt may be complete already; at the cap no token is decoded.
  fits = (lengths < max_len) | world.over(states)
  decoded.outcome[~fits] = CAP
  judge.settle(np.flatnonzero(fits))
  rows = np.flatnonzero(decoded.outcome == core.DEAD)
  slots = engine.Slots(
    predictor, tokens[:, None], lengths[:, None], 1, batch=batch, rows=rows
  )
  while slots.live.any():
    places = np.flatnonzero(slots.live)
    on = slots.trials[places]
    log_probs = np.asarray(slots.session.log_probs())[places, 0]
    token = policy(DecodingStep(on, decoded.lengths[on], states[on], log_probs))
    judge.follow(on, token)
    # A prefix and a continuation for each trial: [R, 1, 1].
    appended = np.full((len(slots.trials), 1, 1), core.DEAD, np.int32)
    appended[places, 0, 0] = token
    slots.advance(appended, decoded.outcome[slots.trials] != core.DEAD)
  return decoded


class _Judge(NamedTuple):
  """Follows trials in the world, and sets their outcomes.

  Attributes:
    world: world that decides which tokens are legal.
    decoded: results of all trials, updated; a running trial has outcome DEAD.
    states: [T, W] states of all trials, updated.
    max_len: maximum total tokens.
  """

  world: core.World
  decoded: Decoded
  states: np.ndarray
  max_len: int

  def follow(self, trials: np.ndarray, token: np.ndarray) -> None:
    """Appends a token [R], DEAD for none, to each of the trials [R]."""
    world, (tokens, lengths, outcome) = self.world, self.decoded
    outcome[trials[token == core.DEAD]] = STUCK
    trials, token = trials[token != core.DEAD], token[token != core.DEAD]
    tokens[trials, lengths[trials]] = token
    lengths[trials] += 1
    self.states[trials] = world.advance(self.states[trials], token)
    # The refused token stays in `tokens`: pictures of a trial show it.
    dead = world.state_id(self.states[trials]) == core.DEAD
    ended = (token == world.end) & (world.end != core.DEAD)
    outcome[trials[dead]] = np.where(ended[dead], DEST_FAIL, PATH_FAIL)
    outcome[trials[ended & ~dead]] = VALID
    # Ended trials are decided; living ones may be over, or at the cap.
    self.settle(trials[~ended & ~dead])

  def settle(self, trials: np.ndarray) -> None:
    """Sets the outcome of living trials that are complete or at the cap."""
    # Without an end token a sequence is complete if no token is legal, or if
    # there is no room for another token.
    full = self.decoded.lengths[trials] >= self.max_len
    if self.world.end != core.DEAD:
      self.decoded.outcome[trials[full]] = CAP
    else:
      over = self.world.over(self.states[trials])
      self.decoded.outcome[trials[full | over]] = VALID


def picture_columns(
  world: core.World, prompts: tuple[np.ndarray, np.ndarray], decoded: Decoded
) -> dict[str, np.ndarray]:
  """Side columns [T] from which reports picture trials.

  `prefix` is the prompt, `state` the state that it reaches, `suffix` the
  decoded tokens, and `wrong_at` the position in them, from 1, of the illegal
  token, 0 if there is none.
  """
  tokens, lengths = prompts
  start = world.walk(world.init(len(tokens)), tokens, lengths)[1]
  refused = ~legal(decoded)
  wrong_at = np.where(refused, decoded.lengths - lengths, 0)
  cuts = zip(decoded.tokens, lengths, decoded.lengths, strict=True)
  suffixes = [row[begin:whole] for row, begin, whole in cuts]
  return {
    'prefix': context.token_texts(world, decoded.tokens, lengths),
    'state': capabilities.written(world, start),
    'suffix': context.token_texts(world, suffixes),
    'wrong_at': wrong_at.astype(np.int64),
  }
