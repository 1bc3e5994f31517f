"""Exact comparison of two prefixes to a depth, breadth first.

The deterministic alternative to sampling: every continuation that the model
accepts after the first prefix is followed after both, level by level, as long
as the second accepts it too. Exact up to the depth unless a level holds more
continuations than the cap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.evaluation import endings as ends
from wm.evaluation import engine


class Found(NamedTuple):
  """What the search found out about T pairs of prefixes.

  Attributes:
    refused: [T] bool, some continuation accepted after the first prefix is
      not accepted after the second.
    vacuous: [T] bool, nothing is accepted after the first prefix.
    capped: [T] bool, a level outgrew the cap: the rest is unknown.
    mass: [T] float64, probability that a continuation, drawn by the model
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


class _Level(NamedTuple):
  """Continuations of one length.

  Attributes:
    paths: [n, k] int32 tokens.
    mass: [n] the model's probability of each.
    states: [n, W] of the world after each, where it is asked for endings.
  """

  paths: np.ndarray
  mass: np.ndarray
  states: np.ndarray | None


class _Search(engine.Program):
  def __init__(
    self,
    depth: np.ndarray,
    cap: int,
    end: int,
    accept: rules.Accept,
    decide: bool,
    endings: ends.Endings | None,
  ) -> None:
    total = len(depth)
    self.depth, self.cap, self.end = depth, cap, end
    self.accept, self.decide, self.endings = accept, decide, endings
    self.levels: list[_Level | None] = [None] * total
    self.refused, self.vacuous, self.capped = np.zeros((3, total), bool)
    self.mass = np.zeros(total)
    # Of each trial, level by level.
    self.boundary: list[list[np.ndarray]] = [[] for _ in range(total)]
    self.shares: list[list[np.ndarray]] = [[] for _ in range(total)]

  def found(self) -> Found:
    """What is known once all trials are decided."""
    shares = [share for some in self.shares for share in some]
    return Found(
      self.refused,
      self.vacuous,
      self.capped,
      self.mass,
      core.stacked(self.boundary),
      np.concatenate([np.zeros(0), *shares]),
    )

  def step(self, session: core.Session, trials: np.ndarray) -> engine.Step:
    """See engine.Program."""
    log_probs = np.asarray(session.log_probs())
    mask = np.asarray(session.mask(self.accept))
    shape = (len(trials), 2, self.cap)
    tokens = np.full(shape, core.DEAD, np.int32)
    parents = np.broadcast_to(np.arange(self.cap), shape).copy()
    done = np.zeros(len(trials), bool)
    for place, trial in enumerate(trials):
      if trial == core.DEAD:
        continue
      level = self._level(trial)
      both = np.s_[2 * place : 2 * place + 2, : len(level.paths)]
      branches = self._expand(trial, level, log_probs[both][0], *mask[both])
      done[place] = not len(branches)
      if done[place]:
        self.levels[trial] = None
      tokens[place, :, : len(branches)] = branches[:, 1]
      parents[place, :, : len(branches)] = branches[:, 0]
    return engine.Step(tokens, done, parents)

  def _level(self, trial: int) -> _Level:
    """Where a trial has got to; at first, the prefix itself."""
    if self.levels[trial] is None:
      start = self.endings and self.endings.start[trial : trial + 1]
      self.levels[trial] = _Level(np.zeros((1, 0), np.int32), np.ones(1), start)
    return self.levels[trial]

  def _expand(
    self,
    trial: int,
    level: _Level,
    log_probs: np.ndarray,
    accepted: np.ndarray,
    agreed: np.ndarray,
  ) -> np.ndarray:
    """[n, 2] (parent, token) of the next level; none when decided.

    log_probs, accepted: [n, V] after the first prefix; agreed: accepted after
    the second.
    """
    if not level.paths.shape[1]:
      self.vacuous[trial] = not accepted.any()
    share = np.where(accepted, np.exp(log_probs.astype(np.float64)), 0)
    total = np.maximum(share.sum(-1, keepdims=True), np.finfo(float).tiny)
    share *= level.mass[:, None] / total
    refused = accepted & ~agreed
    self.refused[trial] |= refused.any()
    self.mass[trial] += share[refused].sum()
    self.shares[trial].append(share[refused])
    parents, tokens = np.nonzero(refused)
    self.boundary[trial].append(np.column_stack([level.paths[parents], tokens]))
    kept = accepted & agreed
    if self.end != core.DEAD:
      kept[:, self.end] = False
    branches = np.argwhere(kept)
    last = level.paths.shape[1] + 1 >= self.depth[trial]
    if last or (self.decide and self.refused[trial]):
      return branches[:0]
    branches, states = self._going_on(level, branches)
    if len(branches) > self.cap:
      self.capped[trial] = True
      return branches[:0]
    parents, tokens = branches.T
    paths = np.column_stack([level.paths[parents], tokens])
    self.levels[trial] = _Level(paths, share[parents, tokens], states)
    return branches

  def _going_on(
    self, level: _Level, branches: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray | None]:
    """Branches [n, 2] after which the world is not over, and its states."""
    if self.endings is None:
      return branches, None
    world, (parents, tokens) = self.endings.world, branches.T
    states = world.advance(level.states[parents], tokens)
    going = ~world.over(states)
    return branches[going], states[going]


def search(
  predictor: core.Predictor,
  prefixes: np.ndarray,
  lengths: np.ndarray,
  *,
  depth: int,
  max_len: int,
  cap: int,
  accept: rules.Accept,
  decide: bool = False,
  endings: ends.Endings | None = None,
  batch: int = engine.BATCH,
) -> Found:
  """Compares the accepted continuations of two prefixes, exactly.

  Args:
    predictor: what to score.
    prefixes: [T, 2, L] int32.
    lengths: [T, 2] int32.
    depth: longest continuation.
    max_len: total tokens, the longer prefix included, that bound it too.
    cap: most continuations of one length followed side by side.
    accept: the acceptance rule.
    decide: stop a pair at its first refused continuation.
    endings: of the world, from the states of the first prefixes [T, W];
      nothing follows a continuation after which it is over.
    batch: pairs in flight; no effect on results.
  """
  room = np.maximum(max_len - lengths.max(1), 0)
  depths = np.minimum(room, depth)
  program = _Search(depths, cap, predictor.end, accept, decide, endings)
  rows = np.flatnonzero(room > 0)
  engine.run_rows(predictor, prefixes, lengths, cap, program, rows, batch=batch)
  return program.found()
