"""Greedy decoding under the world's eye, shared by traversal and detours.

Each trial follows a policy token by token until it is decided: completed,
a first token that the world refuses, or the cap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from wm import core
from wm.evaluation import engine, prefix_pairs

ROWS = 64  # Trials in flight; results do not depend on it.

# Outcome of a trial.
VALID, PATH_FAIL, DEST_FAIL, CAP, STUCK = range(5)
OUTCOMES = ('valid', 'path_fail', 'dest_fail', 'cap', 'stuck')


class Drives(NamedTuple):
  """What T trials did.

  Attributes:
    tokens: [T, L] int32, prompt included, padded with PAD; the refused token
      is included.
    lengths: [T] int32.
    outcome: [T] int8, index into OUTCOMES.
  """

  tokens: np.ndarray
  lengths: np.ndarray
  outcome: np.ndarray


class Step(NamedTuple):
  """What a policy sees of R rows.

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


Policy = Callable[[Step], np.ndarray]


def greedy(step: Step) -> np.ndarray:
  """[R] the most likely tokens, ties by lowest id; DEAD if none is possible."""
  best = step.log_probs.argmax(-1)
  top = np.take_along_axis(step.log_probs, best[:, None], 1)[:, 0]
  return np.where(top > -np.inf, best, core.DEAD)


def prompts(
  world: core.World, sequences: core.Sequences, moves: int = 0
) -> tuple[np.ndarray, np.ndarray]:
  """Prompts [N, P] and lengths [N]: the task's tokens, and so many moves.

  Predictors need one token to start from, so in a world that states no task
  the prompt is at least the sequence's first move. A sequence's last token is
  never given, unless it belongs to the task.
  """
  least = max(world.prompt_len(), 1)
  size = max(world.prompt_len() + moves, least)
  lengths = np.clip(sequences.lengths - 1, least, size).astype(np.int32)
  tokens = sequences.tokens[:, :size]
  used = np.arange(tokens.shape[1]) < lengths[:, None]
  return np.where(used, tokens, core.PAD), lengths


def alike(
  prompts: tuple[np.ndarray, np.ndarray], group: np.ndarray
) -> np.ndarray:
  """[N] int64 clusters `group` where equal prompts are one cluster too.

  Greedy decoding of equal prompts is one trial, however often it is run. On
  maps equal prompts are one task anyway.
  """
  _, first, back = np.unique(
    prompts[0], axis=0, return_index=True, return_inverse=True
  )
  return group[first][back.reshape(-1)]


def at_least(metric: core.Metric, **fields: int) -> None:
  """Raises InputError for a field of a metric below its least value."""
  for name, least in fields.items():
    if getattr(metric, name) < least:
      raise core.InputError(
        f'{metric.name}: {name}={getattr(metric, name)} was given; '
        f'expected at least {least}'
      )


def cap(predictor: core.Predictor, world: core.World, max_len: int) -> int:
  """Total tokens at which decoding stops; max_len 0 is the world's own."""
  return min(max_len or world.max_len, predictor.max_len)


def drive(
  predictor: core.Predictor,
  world: core.World,
  prompts: tuple[np.ndarray, np.ndarray],
  policy: Policy,
  max_len: int,
  rows: int = ROWS,
) -> Drives:
  """Runs one trial for each prompt.

  In a world with an end token a trial is valid when it gets there legally;
  one without is valid when every token up to the cap, or up to where the
  world is over, is legal.

  Args:
    predictor: whose probabilities the policy sees.
    world: which judges each token; its `advance` defines what is legal.
    prompts: (tokens [T, P], lengths [T]), legal.
    policy: gives the next token of each row, DEAD for none.
    max_len: total tokens at most, prompt included.
    rows: trials in flight at once.
  """
  tokens, lengths = prompts
  room = np.zeros((len(tokens), max(max_len - tokens.shape[1], 0)), np.int32)
  drives = Drives(
    tokens=np.concatenate([tokens, room], axis=1).astype(np.int32),
    lengths=np.array(lengths, np.int32),
    outcome=np.full(len(lengths), core.DEAD, np.int8),
  )
  program = _Driving(world, drives, policy, max_len)
  undecided = np.flatnonzero(drives.outcome == core.DEAD)
  engine.run_rows(
    predictor,
    tokens[:, None],
    drives.lengths[:, None].copy(),
    1,
    program,
    undecided,
    batch=rows,
  )
  return drives


class _Driving(engine.Program):
  """Fills in `drives`; holds the world state of each trial, [T, W]."""

  def __init__(
    self, world: core.World, drives: Drives, policy: Policy, max_len: int
  ) -> None:
    self.world, self.drives = world, drives
    self.policy, self.max_len = policy, max_len
    start = world.init(len(drives.lengths))
    self.states = world.walk(start, drives.tokens, drives.lengths)[1]
    if len(start):
      self._settle(np.arange(len(start)))

  def _settle(self, trials: np.ndarray) -> None:
    """Decides living trials that are complete or at the cap."""
    full = self.drives.lengths[trials] >= self.max_len
    if self.world.end == core.DEAD:
      over = self.world.over(self.states[trials])
      self.drives.outcome[trials[full | over]] = VALID
    else:
      self.drives.outcome[trials[full]] = CAP

  def step(self, session: core.Session, trials: np.ndarray) -> engine.Step:
    """See engine.Program."""
    places = np.flatnonzero(trials != core.DEAD)
    on = trials[places]
    length = self.drives.lengths[on]
    log_probs = np.asarray(session.log_probs())[places, 0]
    token = self.policy(Step(on, length, self.states[on], log_probs))
    self._follow(on, token)
    tokens = np.full((len(trials), 1, 1), core.DEAD, np.int32)
    tokens[places, 0, 0] = token
    done = np.zeros(len(trials), bool)
    done[places] = self.drives.outcome[on] != core.DEAD
    return engine.Step(tokens, done)

  def _follow(self, trials: np.ndarray, token: np.ndarray) -> None:
    drives, world = self.drives, self.world
    stuck = token == core.DEAD
    drives.outcome[trials[stuck]] = STUCK
    trials, token = trials[~stuck], token[~stuck]
    drives.tokens[trials, drives.lengths[trials]] = token
    drives.lengths[trials] += 1
    self.states[trials] = world.advance(self.states[trials], token)
    dead = world.state_id(self.states[trials]) == core.DEAD
    ended = (token == world.end) & (world.end != core.DEAD)
    drives.outcome[trials[dead]] = np.where(ended[dead], DEST_FAIL, PATH_FAIL)
    drives.outcome[trials[ended & ~dead]] = VALID
    self._settle(trials[~ended & ~dead])


def pictured(
  world: core.World, prompts: tuple[np.ndarray, np.ndarray], drives: Drives
) -> dict[str, np.ndarray]:
  """Side columns [T] that a report pictures trials from.

  `prefix`: the prompt; `state`: what it reaches; `suffix`: what was driven;
  `wrong_at`: place in it, from 1, of the token that the world refused, 0 where
  it refused none.
  """
  tokens, lengths = prompts
  start = world.walk(world.init(len(tokens)), tokens, lengths)[1]
  refused = np.isin(drives.outcome, (PATH_FAIL, DEST_FAIL))
  vocab = world.vocab
  ends = list(zip(drives.tokens, lengths, drives.lengths, strict=True))
  prefix = [
    prefix_pairs.words(world, row[:given], vocab) for row, given, _ in ends
  ]
  suffix = [
    prefix_pairs.words(world, row[given:whole], vocab)
    for row, given, whole in ends
  ]
  return {
    'prefix': np.array(prefix, dtype=str),
    'state': np.array([world.format_state(s) for s in start], dtype=str),
    'suffix': np.array(suffix, dtype=str),
    'wrong_at': np.where(refused, drives.lengths - lengths, 0).astype(np.int64),
  }
