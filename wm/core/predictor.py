"""What metrics measure, a class for each ability; some have optional methods.

TokenReader       reads sequences; has `diagnostics` of how it was used
  Predictor         next-token probabilities, sessions
    machine           runs inside one compiled program; see wm.core.traced
    QueryModel        answers only whether a suffix is valid
      ask               each answer costs a call; see wm.core.queries
      choose            names which one of several tokens comes next
  HiddenStates      activations
    untrained         the same network with random weights
    patched           continues from other activations
    patched_gradient  knows how they change what follows
  StatePredictor    the world's state after each token
    state_loss        with probabilities
  Adaptable         new tasks from few labels; see wm.core.adapting
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from wm.core import basics

if TYPE_CHECKING:
  from wm.core.traced import Machine

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
    return taken[..., 0] & (tokens != basics.DEAD)


class TokenReader(abc.ABC):
  """Anything that reads sequences of a world's tokens, to be measured.

  What else it can do is a class of its own, which metrics ask for by type:
  `Predictor`, `HiddenStates`, `StatePredictor`, `Adaptable`.

  Attributes:
    vocab_size: V.
    end: id of the end token, or DEAD.
    max_len: longest sequence, in tokens, that it was made for.
    shared: is each process of several to compute a part of the rows? See
      `wm.runtime.compute`.
  """

  vocab_size: int
  end: int
  max_len: int
  shared: bool = False

  def diagnostics(self) -> list[str]:
    """Lines about all calls so far, for people to read."""
    return []

  def across_processes(self) -> Self:
    """The same reader, shared by all processes if it can be; else each has it.

    All processes then make the same calls in the same order.
    """
    return self

  def interactive(self) -> Self:
    """The same reader for a person who waits: quick for one row at a time.

    Numbers may differ in the last bits from those of many rows.
    """
    return self


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
    """The machine of trials with prefixes [T, 2, L], and how many slots suit.

    Args:
      prefixes: [T, 2, L] int32.
      lengths: [T, 2] int32.
      num: continuations of each prefix, M.
      room: most tokens of a continuation.
      accept: the rule that checks, from `wm.core.accept`.
      sampler: the rule that draws.

    Raises:
      Untraceable: it has too many states, or they are not known.
    """
    raise NotImplementedError

  @property
  def devices(self) -> tuple[Any, ...]:
    """JAX devices that trials of a `machine` are dealt out to."""
    return ()

  @property
  def prefers_device_loop(self) -> bool:
    """Does a step of the `machine` cost less than the host's loop around it?"""
    return False


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
    """[B, L, V] float32: as `log_probs`, from these activations on.

    Does a model use what a probe reads from it? Its activations are moved to
    where the probe reads another state, the model continues from there, and its
    predictions are compared with that state (Li et al. 2023, section 4; Nanda
    et al. 2023).

    layer: where the activations are, see `hidden`.
    hidden: [B, L, D] float32, instead of what `hidden` gives there. With the
      same activations, the answer is that of `log_probs`.

    Raises:
      InputError: there is no such layer, or activations have another width.
    """
    raise NotImplementedError

  @basics.optional
  def memory(self) -> HiddenStates | None:
    """A reader of the network's recurrent states instead of its activations.

    `hidden` is then [B, L, D] the state after each token: of block `layer`, or
    of all blocks where it is -1. `patched` adds to the state after each token
    what the state that it is given differs by, and goes on from there: what was
    added stays. The next token is predicted before, so that an edit shows from
    the token after it on. None where nothing recurs.
    """
    raise NotImplementedError

  @basics.optional
  def patched_gradient(
    self,
    tokens: np.ndarray,
    lengths: np.ndarray,
    layer: int,
    hidden: np.ndarray,
    weights: np.ndarray,
  ) -> np.ndarray:
    """[B, L, D] float32: gradient of sum(weights * patched) by `hidden`.

    weights: [B, L, V] float32; the others as of `patched`.
    """
    raise NotImplementedError


class StatePredictor(TokenReader):
  """A reader that names the world's state after each token."""

  @abc.abstractmethod
  def states(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[B, L, K] integers: the class named for each of the K state labels."""

  @basics.optional
  def state_loss(
    self, tokens: np.ndarray, lengths: np.ndarray, labels: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """`states`, and [B, L] float32 mean of -log p(labels [B, L, K]), nats."""
    raise NotImplementedError


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
  """Raises InputError where a length [R] is 0."""
  if (np.asarray(lengths) < 1).any():
    raise basics.InputError(
      'an empty prefix was given; this predictor needs at least one token'
    )


def padded(
  tokens: np.ndarray, lengths: np.ndarray, rows: int, length: int
) -> np.ndarray:
  """[rows, length, ...]: the used part of tokens [N, L, ...], PAD elsewhere.

  Of type int32 where there are no further dimensions.
  """
  # Tokens [N, L] may come in any integer type; labels [N, L, K] keep theirs.
  kind = np.int32 if tokens.ndim == 2 else tokens.dtype
  out = np.full((rows, length, *tokens.shape[2:]), basics.PAD, kind)
  cut = tokens[:, :length]
  used = np.arange(cut.shape[1]) < np.asarray(lengths)[:, None]
  out[: len(cut), : cut.shape[1]][used] = cut[used]
  return out
