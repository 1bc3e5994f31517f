"""The models that metrics measure: a class for each ability of a model.

Names in lower case are optional methods of the class above them.

TokenReader       reads sequences; `diagnostics` say how it was used
  Predictor         gives next-token probabilities and sessions
    machine           runs inside one compiled program; see wm.core.traced
    QueryModel        answers only whether a suffix is valid
      ask               pays a call for each answer; see wm.core.queries
      choose            picks the token that comes next from several
  HiddenStates      gives activations
    untrained         the same network with random weights
    patched           predicts from replaced activations
  StatePredictor    predicts the world's state after each token
    state_loss        also gives the loss of true states
  Adaptable         learns new tasks from few labels; see wm.core.adapting
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from wm.core import basics

if TYPE_CHECKING:
  from wm.core.contract import Contract
  from wm.core.traced import Machine

Tokens = tuple[int, ...]  # Ids of one sequence.
YES, NO, NO_ANSWER = 1, 0, -1  # Answers of a `QueryModel`.
# Most float32 numbers of log-probabilities held at once (256 MB).
BUDGET = 1 << 26


class Session(abc.ABC):
  """B prefixes with M continuations each, all advanced by a token at a time.

  Rows are independent: the values of a row do not depend on other rows, on B
  or on the number of devices. `restart` puts a new prefix in a row, so that
  batches stay full as trials are decided.
  """

  @abc.abstractmethod
  def log_probs(self) -> np.ndarray:
    """[B, M, V] float32: log-probability of each next token, in nats."""

  @abc.abstractmethod
  def advance(self, tokens: np.ndarray) -> None:
    """Appends tokens [B, M]; DEAD leaves a continuation unchanged."""

  @abc.abstractmethod
  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """Restarts rows [R] from prefixes [R, L] of lengths [R]."""

  def rewind(self, lanes: np.ndarray) -> None:
    """Takes continuations, lanes [B, M] bool, back to the end of their prefix.

    Sessions of predictors with `session_lanes` can do so.
    """
    raise NotImplementedError

  def draw(self, accept: Any, uniform: np.ndarray) -> np.ndarray:
    """[B, M] int32 tokens drawn from the accepted tokens' renormalised mass.

    DEAD where no token is accepted.

    uniform: [B, M] float32 in [0, 1). The drawn token is the first in order of
      id whose cumulative mass exceeds it.
    """
    log_probs = np.asarray(self.log_probs())
    return accept.draw(log_probs, uniform)

  def mask(self, accept: Any) -> np.ndarray:
    """[B, M, V] bool: the next tokens that a rule accepts."""
    return np.asarray(accept.mask(np.asarray(self.log_probs())))

  def accepted(self, accept: Any, tokens: np.ndarray) -> np.ndarray:
    """[B, M] bool: is each token [B, M] accepted next? DEAD is not accepted."""
    mask = self.mask(accept)
    taken = np.take_along_axis(mask, np.maximum(tokens, 0)[..., None], -1)
    return taken[..., 0] & (tokens != basics.DEAD)


class TokenReader(abc.ABC):
  """A model that reads sequences of a world's tokens and can be measured.

  Each further ability is a class, which metrics ask for by type: `Predictor`,
  `HiddenStates`, `StatePredictor`, `Adaptable`.

  Attributes:
    vocab_size: V.
    end: id of the end token, or DEAD.
    max_len: longest sequence that it reads, in tokens.
    contract: the checks of a user's reader, see `wm.core.contract`; None for
      wm's own readers.
  """

  vocab_size: int
  end: int
  max_len: int
  contract: Contract | None = None

  def diagnostics(self) -> list[str]:
    """Lines of text about all calls so far, for reports."""
    return []

  def interactive(self) -> Self:
    """The same reader, fast for one row at a time, for interactive use.

    Values may differ in the last bits from those of large batches.
    """
    return self


class Predictor(TokenReader):
  """A reader that gives next-token probabilities."""

  @abc.abstractmethod
  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[B, L, V] float32 nats: log p(next | tokens[:, :t + 1]) at each t.

    tokens: [B, L] int32; lengths: [B]. Positions t >= lengths are undefined.
    """

  @abc.abstractmethod
  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> Session:
    """A session with `num` continuations of each prefix [B, L]."""

  @basics.optional
  def machine(
    self,
    prefixes: np.ndarray,
    lengths: np.ndarray,
    *,
    num: int,
    room: int,
    accept: Any,
    sampler: Any,
  ) -> tuple[Machine, int]:
    """A `Machine` for trials with prefixes [T, 2, L], and its number of slots.

    Args:
      prefixes: [T, 2, L] int32.
      lengths: [T, 2] int32.
      num: continuations of each prefix, M.
      room: maximum number of tokens of a continuation.
      accept: acceptance rule that checks tokens, from `wm.core.accept`.
      sampler: acceptance rule that tokens are drawn by.

    Raises:
      Untraceable: the predictor has too many states, or an unknown number.
    """
    raise NotImplementedError

  # Trials in flight of a session; 0 is the caller's choice.
  in_flight: int = 0

  # Continuations of a prefix that a session decodes at a time, where a caller
  # needs more: the next takes the lane of one that has ended. 0: all at a time.
  session_lanes: int = 0

  # Does it answer about all places of a sequence at the price of one, and about
  # one place at that of all?
  by_sequence: bool = False

  @property
  def devices(self) -> tuple[Any, ...]:
    """JAX devices among which the trials of a `machine` are divided."""
    return ()

  @property
  def prefers_device_loop(self) -> bool:
    """Is a step of the `machine` cheaper than the host loop's overhead?"""
    return False


class HiddenStates(TokenReader):
  """A reader whose activations can be probed."""

  @abc.abstractmethod
  def hidden(
    self, tokens: np.ndarray, lengths: np.ndarray, layer: int
  ) -> np.ndarray:
    """[B, L, D] float32 activations after each token.

    layer: 0 is after the embedding; -1 is the last, after the final norm.

    Raises:
      InputError: the network does not have that layer.
    """

  @basics.optional
  def untrained(self, seed: int) -> HiddenStates:
    """The same network with fresh weights, as a control."""
    raise NotImplementedError

  @basics.optional
  def patched(
    self,
    tokens: np.ndarray,
    lengths: np.ndarray,
    layer: int,
    hidden: np.ndarray,
  ) -> np.ndarray:
    """[B, L, V] float32 log-probabilities from replaced activations, in nats.

    This tests whether a model uses the state that a probe reads from it. The
    activations are moved so that the probe reads another state. The
    predictions are then compared with that state (Li et al. 2023, section 4;
    Nanda et al. 2023).

    layer: the layer whose activations are replaced; see `hidden`.
    hidden: [B, L, D] float32 activations in place of the network's own. With
      the network's own activations the result equals `log_probs`.

    Raises:
      InputError: the network does not have that layer, or that width.
    """
    raise NotImplementedError


class StatePredictor(TokenReader):
  """A reader that predicts the world's state after each token."""

  @abc.abstractmethod
  def states(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[B, L, K] integers: the predicted class of each of the K state labels."""

  @basics.optional
  def state_loss(
    self, tokens: np.ndarray, lengths: np.ndarray, labels: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """`states`, and the loss: [B, L] float32 mean of -log p(labels) in nats.

    labels: [B, L, K] true classes; the mean is over the K labels.
    """
    raise NotImplementedError


def histories(tokens: np.ndarray, lengths: np.ndarray) -> list[Tokens]:
  """Rows [R, L] of lengths [R] as tuples of token ids."""
  rows = np.asarray(tokens).tolist()
  sizes = np.asarray(lengths).tolist()
  return [tuple(row[:n]) for row, n in zip(rows, sizes, strict=True)]


def chunks(num: int, row_size: int, budget: int = BUDGET) -> Iterator[slice]:
  """Yields slices over `num` rows, each with rows * row_size <= budget.

  A slice has at least one row.
  """
  rows = max(1, budget // max(row_size, 1))
  for start in range(0, num, rows):
    yield slice(start, min(start + rows, num))


def log_probs_by_rows(
  predictor: Predictor, tokens: np.ndarray, lengths: np.ndarray
) -> Iterator[tuple[slice, np.ndarray]]:
  """Yields (rows, log-probabilities [R, L, V]) in chunks that fit in memory.

  tokens: [N, L] int32; lengths: [N]. Each chunk's L is its longest row's.
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
    status: [B, M] int8: ENDED, CAPPED (token budget used up) or STUCK (no token
      was accepted).
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
  """Samples `num` continuations of each prefix at temperature 1.

  Args:
    predictor: model to sample from.
    prefixes: [B, L] int32.
    lengths: [B] int32.
    num: continuations of each prefix, M.
    max_len: maximum number of tokens, prefix included.
    seeds: [B] integers; the randomness of row b depends on seeds[b] alone.
    accept: rule from `wm.core.accept`. Only accepted tokens are drawn, with
      probabilities renormalised over them.
  """
  batch, budget = len(lengths), max_len - np.asarray(lengths)
  steps = max(int(budget.max(initial=0)), 0)
  tokens = np.zeros((batch, num, steps), np.int32)
  count = np.zeros((batch, num), np.int32)
  status = np.zeros((batch, num), np.int8)
  status[budget <= 0] = basics.CAPPED
  session = predictor.session(prefixes, lengths, num)
  branch = np.arange(num)[None]
  for k in range(steps):
    drawn = session.draw(accept, basics.uniforms(seeds[:, None], branch, k))
    drawn = np.where(status == 0, drawn, basics.DEAD)
    status[(status == 0) & (drawn == basics.DEAD)] = basics.STUCK
    moved = drawn != basics.DEAD
    tokens[..., k] = np.where(moved, drawn, basics.PAD)
    count += moved
    status[moved & (drawn == predictor.end)] = basics.ENDED
    status[moved & (status == 0) & (k + 1 >= budget)[:, None]] = basics.CAPPED
    if status.all():
      break
    session.advance(np.where(status == 0, drawn, basics.DEAD))
  return Samples(tokens, count, status)


def check_prefixes(lengths: np.ndarray) -> None:
  """Raises InputError if a length [R] is 0."""
  if (np.asarray(lengths) < 1).any():
    raise basics.InputError(
      'an empty prefix was given; this predictor needs at least one token'
    )


def padded(
  tokens: np.ndarray, lengths: np.ndarray, rows: int, length: int
) -> np.ndarray:
  """Copies tokens [N, L, ...] into an array [rows, length, ...] of PAD.

  Row n is copied up to lengths[n]. Tokens [N, L] become int32.
  """
  # Tokens [N, L] may come in any integer type; labels [N, L, K] keep theirs.
  kind = np.int32 if tokens.ndim == 2 else tokens.dtype
  out = np.full((rows, length, *tokens.shape[2:]), basics.PAD, kind)
  cut = tokens[:, :length]
  used = np.arange(cut.shape[1]) < np.asarray(lengths)[:, None]
  out[: len(cut), : cut.shape[1]][used] = cut[used]
  return out
