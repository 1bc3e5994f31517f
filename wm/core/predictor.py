"""What metrics measure, a class for each thing that it can do.

TokenReader
  Predictor             next-token probabilities, sessions
    AnswersOnly           from nothing but yes and no
      Questioned            each answer costs a call; see wm.core.plan
  Chooses               says which one of some tokens comes next
  HiddenStates          activations
    Reinitializable       the same network with random weights
    Patchable             goes on from others; see wm.core.patching
  NamesStates           the world's state after each token
    StateLosses           with probabilities
  Adaptable             new tasks from few labels; see wm.core.adapting
  Remarks               something to say of how it was used
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wm.core.basics import CAPPED, DEAD, ENDED, PAD, STUCK, uniforms

Tokens = tuple[int, ...]  # Ids of one sequence.
YES, NO, NO_ANSWER = 1, 0, -1  # Of predictors that only answer.
# Most float32 numbers of log-probabilities held at once (256 MB).
BUDGET = 1 << 26


class Session(abc.ABC):
  """B prefixes, each with M continuations under way, advanced in step.

  Rows are independent: what a row gives does not depend on the others, on B,
  or on the number of devices. `restart` puts a new prefix in a row so that
  batches stay full as trials are decided.
  """

  @abc.abstractmethod
  def log_probs(self) -> np.ndarray:
    """[B, M, V] float32: log-probability of each next token, in nats."""

  @abc.abstractmethod
  def advance(
    self, tokens: np.ndarray, parents: np.ndarray | None = None
  ) -> None:
    """Appends tokens [B, M]; DEAD leaves a continuation as it was.

    parents: [B, M] index of the continuation each one goes on from (default:
    itself), for searches that branch.
    """

  @abc.abstractmethod
  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """Gives rows [R] the prefixes [R, L] of lengths [R], nothing appended."""

  def draw(self, accept: Any, uniform: np.ndarray) -> np.ndarray:
    """[B, M] int32 tokens drawn from the accepted ones, renormalised.

    uniform: [B, M] float32 in [0, 1); the token whose cumulative mass first
    exceeds it, in order of id, is taken. DEAD where nothing is accepted.
    """
    log_probs = np.asarray(self.log_probs())
    return accept.draw(log_probs, uniform)

  def mask(self, accept: Any) -> np.ndarray:
    """[B, M, V] bool: the tokens accepted next."""
    return np.asarray(accept.mask(np.asarray(self.log_probs())))

  def accepted(self, accept: Any, tokens: np.ndarray) -> np.ndarray:
    """[B, M] bool: is each token [B, M] accepted next? DEAD never is."""
    mask = self.mask(accept)
    taken = np.take_along_axis(mask, np.maximum(tokens, 0)[..., None], -1)
    return taken[..., 0] & (tokens != DEAD)


class TokenReader(abc.ABC):
  """Anything that reads sequences of a world's tokens, to be measured.

  What it can do besides is a class of its own, which metrics ask for by type:
  `Predictor`, `HiddenStates`, `NamesStates` and those that refine them.

  Attributes:
    vocab_size: V.
    end: id of the end token, or DEAD.
    max_len: longest sequence, in tokens, that it was made for.
  """

  vocab_size: int
  end: int
  max_len: int


class Predictor(TokenReader):
  """A reader that gives next-token probabilities."""

  @abc.abstractmethod
  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[B, L, V] float32: log p(next | tokens[:, :t + 1]) at each t.

    tokens: [B, L] int32; lengths: [B]. Positions t >= lengths are undefined.
    """

  @abc.abstractmethod
  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> Session:
    """A session with `num` continuations of each prefix [B, L]."""


class HiddenStates(TokenReader):
  """A reader whose activations can be probed."""

  @abc.abstractmethod
  def hidden(
    self, tokens: np.ndarray, lengths: np.ndarray, layer: int
  ) -> np.ndarray:
    """[B, L, D] float32 activations after each token.

    layer: 0 is after the embedding; -1 the last, final norm included.

    Raises:
      InputError: there is no such layer.
    """


class Reinitializable(HiddenStates):
  """A reader that can be had again with random weights, as a control."""

  @abc.abstractmethod
  def untrained(self, seed: int) -> HiddenStates:
    """The same network with fresh weights."""


class NamesStates(TokenReader):
  """A reader that names the world's state after each token."""

  @abc.abstractmethod
  def states(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[B, L, K] integers: the class named for each of the K state labels."""


class StateLosses(NamesStates):
  """A reader that gives every state label a probability."""

  @abc.abstractmethod
  def state_loss(
    self, tokens: np.ndarray, lengths: np.ndarray, labels: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """`states`, and [B, L] float32 mean of -log p(labels [B, L, K]), nats."""


class Remarks(TokenReader):
  """A reader that has something to say of how its numbers came about."""

  @abc.abstractmethod
  def remarks(self) -> list[str]:
    """Lines about all calls so far, for people to read."""


class AnswersOnly(Predictor):
  """A predictor that has nothing but yes and no, as a closed language model.

  Its language is what it says yes to, whatever the acceptance rule. Its
  next-token probabilities are uniform over the single tokens it says yes to.
  """

  @abc.abstractmethod
  def answers(
    self, prefixes: Sequence[Tokens], suffixes: Sequence[Tokens]
  ) -> np.ndarray:
    """[N] int8: is each suffix valid after its prefix? YES, NO, NO_ANSWER.

    prefixes, suffixes: N tuples of token ids each.
    """


def histories(tokens: np.ndarray, lengths: np.ndarray) -> list[Tokens]:
  """Rows [R, L] of given lengths [R] as tuples of token ids."""
  rows = np.asarray(tokens).tolist()
  sizes = np.asarray(lengths).tolist()
  return [tuple(row[:n]) for row, n in zip(rows, sizes, strict=True)]


def chunks(num: int, row_size: int, budget: int = BUDGET) -> Iterator[slice]:
  """Slices over `num` rows that keep rows * row_size within a budget."""
  rows = max(1, budget // max(row_size, 1))
  for start in range(0, num, rows):
    yield slice(start, min(start + rows, num))


def log_probs_by_rows(
  predictor: Predictor, tokens: np.ndarray, lengths: np.ndarray
) -> Iterator[tuple[slice, np.ndarray]]:
  """Yields (rows, log-probabilities [R, L, V]) in chunks that fit in memory.

  tokens: [N, L] int32, lengths: [N]; L is cut to the chunk's longest row.
  """
  row_size = tokens.shape[1] * predictor.vocab_size
  for rows in chunks(len(tokens), row_size):
    longest = int(lengths[rows].max(initial=1))
    yield rows, predictor.log_probs(tokens[rows, :longest], lengths[rows])


class Samples(NamedTuple):
  """Sampled continuations.

  Attributes:
    tokens: [B, M, K] int32, padded with PAD; the end token is included.
    lengths: [B, M] int32.
    status: [B, M] int8: ENDED, CAPPED (no token budget left) or STUCK
      (nothing was accepted).
  """

  tokens: np.ndarray
  lengths: np.ndarray
  status: np.ndarray


def sample(
  predictor: Predictor,
  prefixes: np.ndarray,
  lengths: np.ndarray,
  *,
  num: int,
  max_len: int,
  seeds: np.ndarray,
  accept: Any,
) -> Samples:
  """Samples `num` continuations of each prefix, temperature 1.

  Args:
    predictor: what to sample from.
    prefixes: [B, L] int32.
    lengths: [B] int32.
    num: continuations a prefix, M.
    max_len: total tokens, prefix included, at which sampling is capped.
    seeds: [B] integers; row b depends on seeds[b] alone.
    accept: rule from `wm.core.accept`; only accepted tokens are drawn, with
      probabilities renormalised over them.
  """
  batch, budget = len(lengths), max_len - np.asarray(lengths)
  steps = max(int(budget.max(initial=0)), 0)
  tokens = np.zeros((batch, num, steps), np.int32)
  count = np.zeros((batch, num), np.int32)
  status = np.zeros((batch, num), np.int8)
  status[budget <= 0] = CAPPED
  session = predictor.session(prefixes, lengths, num)
  branch = np.arange(num)[None]
  for k in range(steps):
    drawn = session.draw(accept, uniforms(seeds[:, None], branch, k))
    drawn = np.where(status == 0, drawn, DEAD)
    status[(status == 0) & (drawn == DEAD)] = STUCK
    moved = drawn != DEAD
    tokens[..., k] = np.where(moved, drawn, PAD)
    count += moved
    status[moved & (drawn == predictor.end)] = ENDED
    status[moved & (status == 0) & (k + 1 >= budget)[:, None]] = CAPPED
    if status.all():
      break
    session.advance(np.where(status == 0, drawn, DEAD))
  return Samples(tokens, count, status)
