"""Continuations of predictors that answer about whole sequences.

Such a predictor gives the next token's probabilities at all places of a
sequence at the price of one. So the next tokens are guessed, and one call shows
how far the guesses are right:

  prefix              7 10
  guessed, by state         4  5  4  9    the model is asked about all at once
  drawn from it             4  5  6       the guess is wrong at the third token
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import basics
from wm.evaluation.context import SAMPLES, Trials
from wm.runtime import progress

# Tokens guessed at a time: fewest and most at first, and most. They double as
# long as most are right, since what follows a wrong one is computed in vain.
LEAST_GUESSED, GUESSED, MOST_GUESSED = 2, 16, 64


class _Guesses:
  """Guesses a model's next tokens: as it last went on from the same state."""

  def __init__(self, world: core.World) -> None:
    # An id that no state has: a search always ends at one.
    self._world, self._ids = world, np.array([np.iinfo(np.int64).max])
    self._log_probs = np.zeros((1, len(world.vocab)), np.float32)

  def learn(self, ids: np.ndarray, log_probs: np.ndarray) -> None:
    """Keeps log-probabilities [N, V] for the ids [N] of states."""
    if self._log_probs.size > core.predictor.BUDGET // 4:
      self._ids, self._log_probs = self._ids[-1:], self._log_probs[-1:]
    # The newest come first, and `unique` takes the first of each.
    every = np.concatenate([ids, self._ids])
    self._ids, first = np.unique(every, return_index=True)
    self._log_probs = np.concatenate([log_probs, self._log_probs])[first]

  def _after(self, ids: np.ndarray, states: np.ndarray) -> np.ndarray:
    """[N, V] log-probabilities after states; of unknown ones, by the rules."""
    at = np.searchsorted(self._ids, ids)
    new, out = self._ids[at] != ids, self._log_probs[at]
    if new.any():
      legal = self._world.legal(states[new])
      with np.errstate(divide='ignore'):
        out[new] = np.log(legal / np.maximum(legal.sum(-1, keepdims=True), 1))
    return out

  def draw(
    self, states: np.ndarray, most: np.ndarray, uniform: np.ndarray, rule: Any
  ) -> tuple[np.ndarray, ...]:
    """Draws up to most [N] tokens after states [N, W], none of them the end.

    Returns:
      tokens: [N, K] int32.
      sizes: [N] number of these.
      paths: [N, K + 1, W] the states before each token, and after the last.
      ids: [N, K + 1] of these.
    """
    (num, width), world = uniform.shape, self._world
    tokens, sizes = np.zeros((num, width - 1), np.int32), np.zeros(num, int)
    paths = np.repeat(states[:, None], width, 1)
    ids = np.repeat(world.state_id(states)[:, None], width, 1)
    for k in range(width - 1):
      rows = np.flatnonzero((sizes == k) & (k < most))
      log_probs = self._after(ids[rows, k], paths[rows, k])
      drawn = rule.draw(log_probs, uniform[rows, k])
      moved = (drawn != core.DEAD) & (drawn != world.end)
      rows, drawn = rows[moved], drawn[moved]
      after = world.advance(paths[rows, k], drawn)
      tokens[rows, k], sizes[rows] = drawn, k + 1
      paths[rows, k + 1] = after
      ids[rows, k + 1] = world.state_id(after)
    return tokens, sizes, paths, ids


def _log_probs_after(
  predictor: core.Predictor,
  heads: np.ndarray,
  tails: np.ndarray,
  sizes: tuple[np.ndarray, np.ndarray, np.ndarray],
  width: int,
) -> np.ndarray:
  """[N, width, V] log-probabilities at consecutive places of tails.

  Args:
    predictor: that is asked about whole sequences, about equal ones once.
    heads: [N, L] the first tokens of sequences.
    tails: [N, K] those that follow.
    sizes: [N] each, of heads and of tails, and the number of tokens of a tail
      before the first place.
    width: number of places; those past the end of a tail are undefined.
  """
  head, tail, skip = sizes
  # Each tail is put directly behind its head, whatever the head's length.
  whole = np.pad(heads, ((0, 0), (0, tails.shape[1])))
  row, at = np.nonzero(np.arange(tails.shape[1]) < tail[:, None])
  whole[row, head[row] + at] = tails[row, at]
  total = head + tail
  used = np.arange(whole.shape[1]) < total[:, None]
  table = np.concatenate([total[:, None], whole * used], 1).astype(np.int32)
  first, back = basics.distinct(table)
  order = np.argsort(total[first], kind='stable')  # Calls have one length.
  first, back = first[order], np.argsort(order)[back]
  out = np.empty((len(head), width, predictor.vocab_size), np.float32)
  asked = table[first]
  for part, log_probs in core.predictor.log_probs_by_rows(
    predictor, asked[:, 1:], asked[:, 0]
  ):
    rows = np.flatnonzero((part.start <= back) & (back < part.stop))
    places = (head + skip - 1)[rows, None] + np.arange(width)
    # Places past a tail's end are undefined, but must exist.
    places = np.minimum(places, log_probs.shape[1] - 1)
    number = back[rows, None] - part.start
    out[rows] = np.asarray(log_probs)[number, places]
  return out


class Continuing:
  """Continuations of R trials, by rounds of guesses."""

  def __init__(self, trials: Trials, rows: np.ndarray, num: int) -> None:
    """Takes the trials.

    Args:
      trials: in a world with an end token.
      rows: [R] indices of the trials to run.
      num: continuations of each trial, M.
    """
    self._trials, self._seeds = trials, trials.keys(SAMPLES)[rows]
    self._prefixes, self._lengths = trials.tokens[rows], trials.lengths[rows]
    self._states = np.repeat(trials.first[rows][:, None], num, 1)
    self._guesses = _Guesses(trials.world)
    # The first guesses are blind, and mostly wrong. What a round costs beside
    # them is reading the prefixes: short ones make short guesses cheap.
    first = int(self._lengths.sum()) // max(2 * self._lengths.size, 1)
    self._width = min(max(first, LEAST_GUESSED), GUESSED) + 1
    self.count = np.zeros((len(rows), num), np.int32)
    self.status = np.zeros((len(rows), num), np.int8)
    self.vacuous = np.zeros(len(rows), bool)

  def run(self, budget: np.ndarray, decide: bool) -> tuple[np.ndarray, ...]:
    """Results of `engine.sample_and_check`, but for ties.

    Args:
      budget: [R] maximum tokens of a continuation, at least 1.
      decide: drop a trial at its first refused token.
    """
    limit = budget.copy()
    self.tokens = np.zeros((*self.count.shape, int(budget.max())), np.int32)
    while True:
      size = 4 * self._width * len(self._trials.world.vocab)
      going = (self.status == 0) & (self.count < limit[:, None])
      trial, branch = np.nonzero(going)
      if not len(trial):
        break
      # As many as fit in memory; the rest waits for another round.
      most = max(1, core.predictor.BUDGET // size)
      at = trial[:most], branch[:most]
      self._round(at, limit[at[0]], budget[at[0]])
      if decide:  # The others go on up to the place of a refusal.
        refused = self.status[at] == core.REFUSED
        np.minimum.at(limit, at[0][refused], self.count[at][refused])
      done = (self.status != 0) | (self.count >= limit[:, None])
      progress.report(int(done.all(1).sum()), len(limit))
    # What others drew after it is dropped.
    late = self.count + (self.status == core.STUCK) > limit[:, None]
    self.status[late] = 0
    count = np.minimum(self.count, limit[:, None]).astype(np.int32)
    self.tokens *= np.arange(self.tokens.shape[2]) < count[..., None]
    return self.tokens, count, self.status, self.vacuous

  def _round(
    self,
    at: tuple[np.ndarray, np.ndarray],
    limit: np.ndarray,
    budget: np.ndarray,
  ) -> None:
    """Extends continuations `at` [N] by guesses, and keeps the drawn tokens."""
    trials, (trial, branch), done = self._trials, at, self.count[at]
    places = done[:, None] + np.arange(self._width)
    uniform = basics.uniforms(
      self._seeds[trial][:, None], branch[:, None], places
    )
    guess, sizes, paths, ids = self._guesses.draw(
      self._states[at], limit - done - 1, uniform, trials.sampler
    )
    first, second = self._both(at, guess, sizes)
    drawn = np.asarray(trials.sampler.draw(first, uniform))
    # By the first place of a trial, before any token is drawn.
    begun = done == 0
    self.vacuous[trial[begun]] = ~trials.accept.mask(first[begun, 0]).any(-1)
    cases = {
      core.STUCK: drawn == core.DEAD,
      core.REFUSED: ~_taken(trials.accept, second, drawn),
      core.ENDED: drawn == trials.world.end,
      core.CAPPED: places + 1 >= budget[:, None],
    }
    ends = np.select([*cases.values()], [*cases], 0).astype(np.int8)
    # A draw is right where all guesses before it are; it ends at the first end.
    same = (drawn[:, :-1] == guess) & (places[:, 1:] <= (done + sizes)[:, None])
    right = np.cumprod(same & (ends[:, :-1] == 0), 1).sum(1)
    row = np.arange(len(trial))
    last = ends[row, right]
    # A continuation that is stuck has no token there.
    more = right + (last != core.STUCK)
    each, k = np.nonzero(np.arange(self._width) < more[:, None])
    new = trial[each], branch[each], places[each, k]
    self.tokens[new] = drawn[each, k]
    self.status[at], self.count[at] = last, done + more
    # The next round begins at the state after the last token drawn.
    self._states[at] = trials.world.advance(
      paths[row, right], np.maximum(drawn[row, right], 0)
    )
    seen = np.arange(self._width) <= right[:, None]
    self._guesses.learn(ids[seen], first[seen])
    # Long guesses pay only where most of them are right.
    if (right >= sizes).mean() > 0.5:
      self._width = min(2 * self._width, MOST_GUESSED + 1)
    elif (right < sizes / 4).mean() > 0.5:
      self._width = max(self._width // 2, 5)

  def _both(
    self, at: tuple[np.ndarray, np.ndarray], guess: np.ndarray, sizes: Any
  ) -> Any:
    """Log-probabilities [2, N, width, V] after both prefixes and guesses."""
    done = self.count[at]
    tails = np.pad(self.tokens[at], ((0, 0), (0, self._width)))
    places = done[:, None] + np.arange(self._width - 1)
    np.put_along_axis(tails, places, guess, 1)
    heads, lengths = (
      np.concatenate([*x[at[0]].swapaxes(0, 1)])
      for x in (self._prefixes, self._lengths)
    )
    # Both sides in one call: their rows fill the same passes.
    counts = lengths, np.tile(done + sizes, 2), np.tile(done, 2)
    log_probs = _log_probs_after(
      self._trials.predictor, heads, np.tile(tails, (2, 1)), counts, self._width
    )
    return log_probs.reshape(2, len(done), *log_probs.shape[1:])


def _taken(rule: Any, log_probs: np.ndarray, tokens: np.ndarray) -> np.ndarray:
  """[N, K] bool: does a rule accept each token [N, K]? DEAD is not."""
  mask = rule.mask(log_probs)
  taken = np.take_along_axis(mask, np.maximum(tokens, 0)[..., None], 2)
  return taken[..., 0] & (tokens != core.DEAD)


def teacher_force(
  predictor: core.Predictor,
  prefixes: np.ndarray,
  lengths: np.ndarray,
  suffixes: np.ndarray,
  suffix_lengths: np.ndarray,
  accept: rules.Accept,
) -> np.ndarray:
  """[T, P, M] of `engine.teacher_force`, by whole sequences."""
  (total, paths), (num, longest) = lengths.shape, suffixes.shape[1:]
  steps = np.zeros((total, paths, num), np.int32)
  if not longest:
    return steps
  size = paths * num * (longest + 1) * predictor.vocab_size
  for part in core.predictor.chunks(total, size):
    shape = steps[part].shape
    trial, path, branch = (x.reshape(-1) for x in np.indices(shape))
    tails = suffixes[part][trial, branch]
    tail = suffix_lengths[part][trial, branch]
    head = lengths[part][trial, path]
    log_probs = _log_probs_after(
      predictor,
      prefixes[part][trial, path],
      tails,
      (head, np.maximum(tail - 1, 0), np.zeros_like(tail)),
      longest,
    )
    # Steps are counted up to the first token that is not accepted.
    agreed = _taken(accept, log_probs, tails)
    agreed &= np.arange(longest) < tail[:, None]
    steps[part] = np.cumprod(agreed, 1).sum(1).reshape(shape)
  return np.minimum(steps, steps[:, :1])
