"""How the words of an automaton are distributed, a token at a time.

A length w is drawn, then a word of that length, each as likely. With L_r(s) the
number of words of r letters that are accepted from state s, a word that is in s
after k letters goes on with mass

  T_k(s) = sum over w >= k of p(w) L_{w-k}(s) / L_w(start)

of which p(k) L_0(s) / L_k(start) ends it, and T_{k+1}(v) goes to state v.
"""

from __future__ import annotations

import numpy as np

from wm import core

END = 1  # Token; those of letters follow.


class Words(core.SequenceProcess):
  """Words and `end`; the memory is the state and the letters so far."""

  def __init__(
    self, delta: np.ndarray, log_lengths: np.ndarray, replan: bool
  ) -> None:
    """Takes the automaton, and how likely lengths are.

    delta: [S, A] int32 next states by label, `end` the first, DEAD for none.
    log_lengths: [W] float64 log-probability of each number of letters.
    replan: mixed with a vanishing share of random legal letters, which are left
      where no word can be completed.
    """
    self._delta, self._replan = delta, replan
    with np.errstate(divide='ignore'):
      counts = np.log((delta[:, 0] >= 0).astype(float))[None]  # L_0
    for _ in range(1, len(log_lengths)):
      heads = np.where(delta[:, 1:] >= 0, counts[-1][delta[:, 1:]], -np.inf)
      counts = np.vstack([counts, np.logaddexp.reduce(heads, axis=1)])
    possible = np.isfinite(counts[:, 0])
    start = np.where(possible, counts[:, 0], 0)
    share = np.where(possible, log_lengths - start, -np.inf)  # Of each word.
    self._ending = share[:, None] + counts[0]
    goes_on = np.full((len(share) + 1, len(delta)), -np.inf)
    for k in range(len(share)):
      terms = share[k:, None] + counts[: len(share) - k]
      goes_on[k] = np.logaddexp.reduce(terms, axis=0)
    self._goes_on = goes_on

  def init(self, batch: int) -> np.ndarray:
    """See core.SequenceProcess."""
    return np.zeros((batch, 2), np.int32)

  def advance(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.SequenceProcess."""
    labels = np.asarray(tokens) - END
    known = (labels >= 0) & (labels < self._delta.shape[1])
    known &= memory[:, 0] >= 0
    rows = self._delta[memory[:, 0], np.where(known, labels, 0)]
    rows = np.where(known, rows, core.DEAD)
    return np.stack([rows, memory[:, 1] + 1], axis=1).astype(np.int32)

  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See core.SequenceProcess; [B, A] one entry for each label."""
    rows, letters = memory.T
    heads = self._delta[rows]
    heads[rows < 0] = core.DEAD
    last = len(self._ending) - 1
    now, after = np.minimum(letters, last), np.minimum(letters + 1, last + 1)
    mass = np.where(heads >= 0, self._goes_on[after[:, None], heads], -np.inf)
    mass[:, 0] = np.where(heads[:, 0] >= 0, self._ending[now, rows], -np.inf)
    mass[letters > last] = -np.inf
    if self._replan:
      lost = ~np.isfinite(mass).any(1)
      mass[lost] = np.where(heads[lost] >= 0, 0.0, -np.inf)
    total = np.logaddexp.reduce(mass, axis=1, keepdims=True)
    there = np.isfinite(mass)
    log_probs = np.where(there, mass - np.where(there, total, 0), -np.inf)
    tokens = np.arange(END, END + mass.shape[1], dtype=np.int32)
    return np.where(there, tokens, core.DEAD), log_probs
