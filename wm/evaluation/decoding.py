"""Decoding, greedy or sampled, judged by the world; for traversal and detours.

Each trial follows a policy token by token until it is decided: completed,
at a first token that the world refuses, or at the cap on length.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import accept, basics, capabilities
from wm.evaluation import context, engine
from wm.evaluation.context import SAMPLES

ANY = accept.epsilon(0.0)  # All tokens that are possible.
BATCH = 64  # Trials in flight; no effect on results.

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


def greedy(step: DecodingStep) -> np.ndarray:
  """[R] the most likely tokens, ties by lowest id; DEAD if none is possible."""
  best = step.log_probs.argmax(-1)
  top = np.take_along_axis(step.log_probs, best[:, None], 1)[:, 0]
  return np.where(top > -np.inf, best, core.DEAD)


@dataclasses.dataclass(frozen=True)
class Sampled:
  """The policy that draws a token from all of the model's probabilities.

  Attributes:
    seed: a trial's draws depend on this, its number and its length.
  """

  seed: int

  def __call__(self, step: DecodingStep) -> np.ndarray:
    """[R] tokens; DEAD if none is possible."""
    uniform = basics.uniforms(self.seed, SAMPLES, step.trial, step.length)
    return ANY.draw(step.log_probs, uniform)


def legal(decoded: Decoded) -> np.ndarray:
  """[T] bool: was no token illegal, up to the end or the cap on length?"""
  return ~np.isin(decoded.outcome, (PATH_FAIL, DEST_FAIL))


def prompts(
  world: core.World, sequences: core.Sequences, moves: int = 0
) -> tuple[np.ndarray, np.ndarray]:
  """Prompts [N, P] and lengths [N]: the task's tokens, and so many moves.

  Predictors need one token to start from, so in a world that states no task
  the prompt is at least the sequence's first move. A sequence's last token is
  never given, unless it belongs to the task.
  """
  # One token at least, as predictors say nothing of the first.
  least = max(world.prompt_len, 1)
  size = max(world.prompt_len + moves, least)
  lengths = np.clip(sequences.lengths - 1, least, size).astype(np.int32)
  tokens = sequences.tokens[:, :size]
  used = np.arange(tokens.shape[1]) < lengths[:, None]
  return np.where(used, tokens, core.PAD), lengths


def merged(
  prompts: tuple[np.ndarray, np.ndarray], group: np.ndarray
) -> np.ndarray:
  """[N] int64 clusters `group` where equal prompts are one cluster too.

  Greedy decoding of equal prompts is one trial, however often it is run. On
  maps equal prompts are one task anyway.
  """
  first, back = basics.distinct(prompts[0])
  # The cluster of the row in which each prompt comes up first.
  return group[first][back]


def cap(predictor: core.Predictor, world: core.World, max_len: int) -> int:
  """Total tokens at which decoding stops; max_len 0 is the world's own."""
  return min(max_len or world.max_len, predictor.max_len)


def decode(
  predictor: core.Predictor,
  world: core.World,
  prompts: tuple[np.ndarray, np.ndarray],
  policy: Policy,
  max_len: int,
  batch: int = BATCH,
) -> Decoded:
  """Runs one trial for each prompt.

  In a world with an end token a trial is valid when it gets there legally;
  one without is valid when every token up to the cap, or up to where the
  world is over, is legal. A prompt that leaves no room has the outcome CAP.

  Args:
    predictor: whose probabilities the policy sees.
    world: what judges each token; its `advance` defines what is legal.
    prompts: (tokens [T, P], lengths [T]), legal.
    policy: gives the next token of each row, DEAD for none.
    max_len: total tokens at most, prompt included.
    batch: most trials in flight; no effect on results.
  """
  tokens, lengths = prompts[0], np.array(prompts[1], np.int32)
  # Prompts [T, P], widened to the cap: [T, max_len].
  space = np.zeros((len(tokens), max(max_len - tokens.shape[1], 0)), np.int32)
  decoded = Decoded(
    tokens=np.concatenate([tokens, space], axis=1).astype(np.int32),
    lengths=lengths.copy(),  # Counted up; the prompts' own stay.
    outcome=np.full(len(lengths), core.DEAD, np.int8),
  )
  states = world.walk(world.init(len(tokens)), tokens, decoded.lengths)[1]
  judge = _Judge(world, decoded, states, max_len)
  # A prompt may be complete before any token; at the cap nothing is decoded.
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
  """Follows trials in the world, and says what becomes of them.

  Attributes:
    world: the truth.
    decoded: of all trials, filled in; outcome DEAD is under way.
    states: [T, W] of all trials, which follow.
    max_len: total tokens at most.
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
    # What has ended is decided; what lives may be over, or at the cap.
    self.settle(trials[~ended & ~dead])

  def settle(self, trials: np.ndarray) -> None:
    """Decides those of some living trials that are complete or at the cap."""
    # Without an end token a sequence is complete when nothing is legal any
    # more, or when there is no room for more.
    full = self.decoded.lengths[trials] >= self.max_len
    if self.world.end != core.DEAD:
      self.decoded.outcome[trials[full]] = CAP
    else:
      over = self.world.over(self.states[trials])
      self.decoded.outcome[trials[full | over]] = VALID


def picture_columns(
  world: core.World, prompts: tuple[np.ndarray, np.ndarray], decoded: Decoded
) -> dict[str, np.ndarray]:
  """Side columns [T] that a report pictures trials from.

  `prefix`: the prompt; `state`: what it reaches; `suffix`: what was decoded;
  `wrong_at`: place in it, from 1, of the token that the world refused, 0 where
  it refused none.
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
