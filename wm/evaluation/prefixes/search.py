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
from wm.evaluation.trials import engine
from wm.evaluation.trials.context import Trials


class Found(NamedTuple):
  """What the search found out about R pairs of prefixes.

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


def search(
  trials: Trials, *, depth: int, cap: int, decide: bool = False
) -> Found:
  """Compares the accepted continuations of two prefixes, exactly.

  Nothing follows a continuation after which a world without an end token is
  over.

  Args:
    trials: what is run.
    depth: longest continuation.
    cap: most continuations of one length followed side by side.
    decide: stop a pair at its first refused continuation.
  """
  depths = np.minimum(trials.room, depth)
  paths = [_Paths(trials, *each) for each in enumerate(depths.tolist())]
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
      one = paths[slots.trials[slot]]
      width = len(one.tokens)
      accepted, agreed = mask[2 * slot : 2 * slot + 2, :width]
      share = one.refuse(log_probs[2 * slot, :width], accepted, agreed)
      branches = one.follow(accepted & agreed, share, cap, decide)
      # Continuation m of the next level goes on from parents[m].
      done[slot] = not len(branches)
      parents[slot, :, : len(branches)] = branches[:, 0]
      tokens[slot, :, : len(branches)] = branches[:, 1]
    slots.advance(tokens, done, parents)
  shares = [share for one in paths for share in one.shares]
  return Found(
    refused=np.array([one.refused for one in paths], bool),
    vacuous=np.array([one.vacuous for one in paths], bool),
    capped=np.array([one.capped for one in paths], bool),
    mass=np.array([one.lost for one in paths], float),
    boundary=core.stacked([one.boundary for one in paths]),
    shares=np.concatenate([np.zeros(0), *shares]),
  )


class _Paths:
  """Continuations of one trial that both prefixes accept, all of one length.

  Attributes:
    tokens: [n, k] int32.
    mass: [n] float64, the model's probability of each.
    states: [n, W] of the world after each, where it has no end token.
    lost: probability of the refused continuations so far.
    boundary, shares: the refused continuations of each length, and the model's
      probability of each.
  """

  def __init__(self, trials: Trials, trial: int, depth: int) -> None:
    self._trials, self._depth = trials, depth
    self.tokens, self.mass = np.zeros((1, 0), np.int32), np.ones(1)
    self.states = trials.pairs.first[trials.rows[trial]][None]
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
    self.lost += share[refused].sum()
    self.shares.append(share[refused])
    parents, tokens = np.nonzero(refused)
    self.boundary.append(np.column_stack([self.tokens[parents], tokens]))
    return share

  def follow(
    self, kept: np.ndarray, share: np.ndarray, cap: int, decide: bool
  ) -> np.ndarray:
    """[m, 2] (parent, token) of the next level; none when decided.

    kept: [n, V] bool, tokens that both prefixes accept; share: as `refuse`
    gives it.
    """
    world, end = self._trials.world, self._trials.predictor.end
    if end != core.DEAD:
      kept[:, end] = False  # Nothing follows the end.
    branches = np.argwhere(kept)
    last = self.tokens.shape[1] + 1 >= self._depth
    if last or (decide and self.refused):
      return branches[:0]
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
