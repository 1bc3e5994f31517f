"""Repeats some queries to a user's model after each metric.

A model whose answers depend on the number of calls or on the rest of the batch
may pass every check at the start and change later. A hundredth of all queries
is stored with its answer, and repeated in other batches. The largest difference
goes into the scores; a large difference is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wm import core
from wm.core import contract, queries
from wm.core.predictor import chunks, histories
from wm.models.serving import stateless, user_objects

SHARE = 0.01  # Share of queries that are stored.
FIRST, MOST = 8, 256  # Minimum number, and maximum number stored at a time.
NEXT, ANSWERS = 'next', 'answers'  # Kinds of queries; other kinds are layers.


class _Asked:
  """Stored queries and their answers, by kind."""

  def __init__(self) -> None:
    self._rng = np.random.default_rng(0)
    self._resting = False  # True while queries are repeated.
    self._clear()

  def _clear(self) -> None:
    self._held: dict[Any, list[tuple[Any, Any]]] = {}
    self._due = float(FIRST)

  def note(
    self, kind: Any, num: int, question: Callable[[int], tuple[Any, Any]]
  ) -> None:
    """Stores some of `num` queries; question(k) is query k and its answer."""
    # The due number accumulates, so that small calls count too.
    self._due += 0 if self._resting else SHARE * num
    count = 0 if self._resting else min(int(self._due), num)
    self._due -= count
    held = self._held.setdefault(kind, [])
    for row in self._rng.choice(num, count, replace=False) if count else ():
      if len(held) >= MOST:  # Replaces a stored query.
        held.pop(int(self._rng.integers(MOST)))
      held.append(question(int(row)))

  def rows(
    self, kind: Any, out: np.ndarray, tokens: np.ndarray, lengths: np.ndarray
  ) -> None:
    """Stores some of the answers [N, L, K] after tokens [N, L], one per row."""
    # Empty rows have no answer.
    used = np.flatnonzero(lengths)

    def question(k: int) -> tuple[Any, Any]:
      at = int(self._rng.integers(lengths[used[k]]))
      return tuple(tokens[used[k], : at + 1].tolist()), out[used[k], at].copy()

    self.note(kind, len(used), question)

  def again(self, reader: Any) -> tuple[float, int]:
    """Repeats the stored queries in other batches, then drops them.

    Returns:
      The largest difference: of a probability, of an activation relative to the
      largest at its position, or 1 for a changed yes or no.
      The number of repeated queries.
    """
    self._resting, worst = True, [0.0]
    rng = np.random.default_rng(1)
    try:
      for kind, held in self._held.items():
        # Another order puts other rows in the batch.
        turned = [held[k] for k in rng.permutation(len(held))]
        for part in chunks(len(turned), reader.vocab_size):
          asked, before = zip(*turned[part], strict=True)
          first = np.stack(before).astype(np.float64)
          now = _asked_once(reader, kind, asked)
          # Logarithms of rare tokens vary widely, so probabilities are
          # compared.
          if kind == NEXT:
            first, now = np.exp(first), np.exp(now.astype(np.float64))
          change = np.abs(now - first)
          if kind not in (NEXT, ANSWERS):
            change /= np.maximum(np.abs(first).max(-1), 1)[:, None]
          worst.append(float(change.max()))
      return max(worst), sum(map(len, self._held.values()))
    finally:
      # The next metric has other queries.
      self._resting = False
      self._clear()


def _asked_once(reader: Any, kind: Any, questions: Any) -> np.ndarray:
  """Answers [R, ...] to R stored queries of a kind."""
  if kind == ANSWERS:
    prefixes, suffixes = zip(*questions, strict=True)
    return np.asarray(reader.answers(prefixes, suffixes))
  tokens, lengths = queries.table(questions)
  if kind == NEXT:
    return reader.session(tokens, lengths, 1).log_probs()[:, 0]
  hidden = reader.hidden(tokens, lengths, kind)
  return hidden[np.arange(len(lengths)), lengths - 1]


def recorded(reader: Any) -> Any:
  """A reader that stores some of its queries.

  `reader.contract.asked_again` is then a function that repeats them.
  """
  # A new subclass, so that metrics still recognise the reader's type.
  asked, cls = _Asked(), type(reader)

  def log_probs(
    self: Any, tokens: np.ndarray, lengths: np.ndarray
  ) -> np.ndarray:
    """See core.Predictor."""
    out = cls.log_probs(self, tokens, lengths)
    asked.rows(NEXT, out, tokens, lengths)
    return out

  def session(
    self: Any, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> core.Session:
    """See core.Predictor."""
    inner = cls.session(self, prefixes, lengths, num)
    return _Recorded(inner, asked, prefixes, lengths, num)

  def hidden(
    self: Any, tokens: np.ndarray, lengths: np.ndarray, layer: int
  ) -> np.ndarray:
    """See core.HiddenStates."""
    out = cls.hidden(self, tokens, lengths, layer)
    used = np.arange(out.shape[1]) < np.asarray(lengths)[:, None]
    contract.finite(out[used], f'layer {layer} of hidden')
    asked.rows(layer, out, tokens, lengths)
    return out

  def answers(
    self: Any, prefixes: Any, suffixes: Any, trials: Any = None
  ) -> np.ndarray:
    """See core.QueryModel."""
    out = cls.answers(self, prefixes, suffixes, trials)
    pairs = [*zip(prefixes, suffixes, strict=True)]
    asked.note(ANSWERS, len(out), lambda k: (pairs[k], out[k]))
    return out

  # A recorded session cannot rewind: all continuations run at a time.
  methods: dict[str, Any] = {
    'log_probs': log_probs,
    'session': session,
    'session_lanes': 0,
  }
  if isinstance(reader, core.QueryModel):
    methods = {'answers': answers}
  elif isinstance(reader, core.HiddenStates):
    methods['hidden'] = hidden
  if reader.contract:
    reader.contract.asked_again = lambda: asked.again(reader)
  return user_objects.extended(reader, (), methods)


class _Recorded(stateless.HistorySession):
  """A session that records the tokens of its queries."""

  def __init__(
    self,
    inner: core.Session,
    asked: _Asked,
    prefixes: np.ndarray,
    lengths: np.ndarray,
    num: int,
  ) -> None:
    self._inner: Any = None  # Until the inner session has the same state.
    self._asked = asked
    # No recomputation: `log_probs` queries the inner session.
    super().__init__(lambda *_: np.zeros(0), prefixes, lengths, num)
    self._inner = inner

  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """See core.Session."""
    super().restart(rows, prefixes, lengths)
    if self._inner is not None:
      self._inner.restart(rows, prefixes, lengths)

  def advance(self, tokens: np.ndarray) -> None:
    """See core.Session."""
    self._inner.advance(tokens)
    super().advance(tokens)

  def log_probs(self) -> np.ndarray:
    """See core.Session."""
    if self._log_probs is None:
      self._log_probs = now = np.asarray(self._inner.log_probs())
      tokens, lengths = self._tokens, self._lengths

      def question(k: int) -> tuple[Any, Any]:
        at = divmod(k, lengths.shape[1])
        (prefix,) = histories(tokens[at][None], lengths[at][None])
        return prefix, now[at].copy()

      self._asked.note(NEXT, lengths.size, question)
    return self._log_probs
