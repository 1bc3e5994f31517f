"""Predictors without state: sessions store tokens and read them again.

`Stateless` needs only `log_probs`. `Accepting` makes a predictor from a
function that decides whether a suffix can follow a prefix, such as a language
model (`llm_predictor`) or a user's object (`user_objects`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core import basics
from wm.core.predictor import Tokens


class Stateless(core.Predictor):
  """A predictor with only `log_probs`; sessions recompute prefixes."""

  def last(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[R, V] float32: log p(next | tokens[:, :length]) of each row.

    tokens: [R, L] int32. lengths: [R], at least 1. Override if a cheaper way
    exists than computing all positions.
    """
    out = np.empty((len(tokens), self.vocab_size), np.float32)
    for rows, log_probs in core.predictor.log_probs_by_rows(
      self, tokens, lengths
    ):
      # [R, L, V] at each row's last token: [R, 1, V].
      at = np.asarray(lengths[rows])[:, None, None] - 1
      out[rows] = np.take_along_axis(np.asarray(log_probs), at, 1)[:, 0]
    return out

  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> core.Session:
    """See core.Predictor."""
    return HistorySession(self.last, prefixes, lengths, num)


class HistorySession(core.Session):
  """A session that keeps token histories [B, M, L] and recomputes.

  Equal histories are computed once, so the first step of M continuations
  costs as much as one.
  """

  least = 1  # Tokens of the shortest prefix with a prediction: 0 or 1.

  def __init__(
    self,
    last: Callable[[np.ndarray, np.ndarray], np.ndarray],
    prefixes: np.ndarray,
    lengths: np.ndarray,
    num: int,
  ) -> None:
    """last: (tokens [R, L], lengths [R]) -> log-probabilities [R, V]."""
    batch = len(lengths)
    self._last = last
    self._tokens = np.zeros((batch, num, 0), np.int32)
    self._lengths = np.zeros((batch, num), np.int32)
    self._log_probs: np.ndarray | None = None
    self.restart(np.arange(batch), prefixes, lengths)

  def _grow(self, length: int) -> None:
    missing = length - self._tokens.shape[2]
    if missing > 0:
      room = ((0, 0), (0, 0), (0, missing + 16))
      self._tokens = np.pad(self._tokens, room)  # Grows 16 tokens at a time.

  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """See core.Session; raises InputError for prefixes shorter than `least`."""
    lengths = np.asarray(lengths)
    if self.least:
      core.predictor.check_prefixes(lengths)
    longest = int(lengths.max(initial=0))
    self._grow(longest)
    prefixes = core.predictor.padded(prefixes, lengths, len(lengths), longest)
    # Tokens appended to the old prefix are dropped too.
    self._tokens[rows] = core.PAD
    self._tokens[rows, :, :longest] = prefixes[:, None]
    self._lengths[rows] = lengths[:, None]
    self._log_probs = None

  def log_probs(self) -> np.ndarray:
    """See core.Session."""
    if self._log_probs is None:
      batch, num = self._lengths.shape
      longest = int(self._lengths.max(initial=self.least))
      # The length separates histories that end in a pad from shorter ones.
      used = self._tokens[..., :longest].reshape(batch * num, longest)
      # [B M, 1 + L]: one row per continuation.
      table = np.concatenate([self._lengths.reshape(-1, 1), used], axis=1)
      first, back = basics.distinct(table)
      rows = table[first]
      last = self._last(np.ascontiguousarray(rows[:, 1:]), rows[:, 0])
      self._log_probs = last[back].reshape(batch, num, -1)
    return self._log_probs

  def advance(self, tokens: np.ndarray) -> None:
    """See core.Session."""
    self._grow(int(self._lengths.max(initial=0)) + 1)
    row, branch = np.nonzero(np.asarray(tokens) != core.DEAD)
    at = self._lengths[row, branch]
    self._tokens[row, branch, at] = np.asarray(tokens)[row, branch]
    self._lengths[row, branch] += 1
    self._log_probs = None


# (prefixes, suffixes) -> for each pair, whether the suffix may follow the
# prefix.
Accepts = Callable[[list[Tokens], list[Tokens]], np.ndarray]

ANY = rules.epsilon(0.0)
# Limit of questions per call of `accepts`.
QUESTIONS = 1 << 18


class Accepting(Stateless, core.QueryModel):
  """A predictor from yes or no answers, as of a closed language model.

  Its language is the set of sequences answered with yes. Next-token
  probabilities are uniform over the single tokens answered with yes, whatever
  the acceptance rule; tokens without an answer are not accepted. Repeated
  questions of a call are asked once (Vafa et al. 2024, section 4.2: logic
  puzzles).
  """

  def __init__(
    self,
    accepts: Accepts,
    *,
    vocab_size: int,
    end: int,
    max_len: int,
    label: str = 'the callable',
  ) -> None:
    """Wraps a function.

    Args:
      accepts: (prefixes, suffixes), each N tuples of token ids, -> [N]
        integers: YES, NO, or NO_ANSWER.
      vocab_size: V.
      end: id of the end token, or DEAD.
      max_len: longest sequence in tokens.
      label: name in errors.
    """
    self._accepts, self._label = accepts, label
    self.vocab_size, self.end, self.max_len = vocab_size, end, max_len

  def answers(
    self,
    prefixes: Sequence[Tokens],
    suffixes: Sequence[Tokens],
    trials: Sequence[int] | None = None,
  ) -> np.ndarray:
    """[N] int8 YES, NO or NO_ANSWER to each (prefix, suffix).

    Raises InputError where `accepts` returns anything else.
    """
    del trials  # Every question is asked: there is no budget.
    questions = list(zip(prefixes, suffixes, strict=True))
    # Each answer may cost a call: equal questions are asked once.
    place = {question: n for n, question in enumerate(dict.fromkeys(questions))}
    answers = np.zeros(len(place), np.int8)
    unique = list(place)
    for rows in core.predictor.chunks(len(unique), 1, QUESTIONS):
      asked = unique[rows]
      got = self._accepts([p for p, _ in asked], [s for _, s in asked])
      answers[rows] = self._checked(got, len(asked))
    return answers[[place[question] for question in questions]]

  def _checked(self, answers: np.ndarray, num: int) -> np.ndarray:
    answers = np.asarray(answers)
    if (
      answers.shape != (num,)
      or answers.dtype.kind not in 'biu'
      or not np.isin(answers, (core.YES, core.NO, core.NO_ANSWER)).all()
    ):
      raise core.InputError(
        f'{self._label} gave {answers.dtype} of shape {answers.shape}; '
        f'expected {num} answers: 1 yes, 0 no, -1 none'
      )
    return answers.astype(np.int8)

  def next_mask(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[R, V] bool: tokens accepted after tokens[r, :lengths[r]].

    Override if a cheaper way exists than V - 1 questions per row.
    """
    prefixes = core.predictor.histories(tokens, lengths)
    # R x (V - 1) questions: the mask without the column of padding.
    single = [(token,) for token in range(1, self.vocab_size)]
    answers = self.answers(
      [prefix for prefix in prefixes for _ in single], single * len(prefixes)
    )
    mask = np.zeros((len(prefixes), self.vocab_size), bool)
    mask[:, 1:] = (answers == core.YES).reshape(len(prefixes), -1)
    return mask

  def last(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[R, V] float32, uniform over accepted tokens; see Stateless."""
    mask = self.next_mask(tokens, np.asarray(lengths))
    # A row without accepted tokens is -inf throughout, without division by 0.
    total = np.maximum(mask.sum(-1, keepdims=True), 1)
    with np.errstate(divide='ignore'):
      return np.log(mask / total).astype(np.float32)

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.Predictor."""
    out = np.full((*tokens.shape, self.vocab_size), -np.inf, np.float32)
    # Each position of each row is a separate prefix.
    row, at = np.nonzero(
      np.arange(tokens.shape[1]) < np.asarray(lengths)[:, None]
    )
    for part in core.predictor.chunks(
      len(row), tokens.shape[1] + self.vocab_size
    ):
      out[row[part], at[part]] = self.last(tokens[row[part]], at[part] + 1)
    return out

  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> core.Session:
    """See core.Predictor; prefixes may be empty."""
    return AcceptingSession(self, prefixes, lengths, num)


class AcceptingSession(HistorySession):
  """A session of an `Accepting` predictor; acceptance rules have no effect."""

  least = 0

  def __init__(
    self,
    predictor: Accepting,
    prefixes: np.ndarray,
    lengths: np.ndarray,
    num: int,
  ) -> None:
    """See core.Predictor.session."""
    super().__init__(predictor.last, prefixes, lengths, num)
    self._predictor = predictor

  def mask(self, accept: rules.Accept) -> np.ndarray:
    """[B, M, V] bool, by any rule."""
    return super().mask(ANY)

  def draw(self, accept: rules.Accept, uniform: np.ndarray) -> np.ndarray:
    """[B, M] tokens uniform over the accepted ones, by any rule."""
    return super().draw(ANY, uniform)

  def accepted(self, accept: rules.Accept, tokens: np.ndarray) -> np.ndarray:
    """[B, M] bool; asks about these tokens only."""
    if self._log_probs is not None:
      return super().accepted(ANY, tokens)
    tokens = np.asarray(tokens)
    at = np.nonzero(tokens > core.PAD)
    asked = [(token,) for token in tokens[at].tolist()]
    accepted = np.zeros(tokens.shape, bool)
    prefixes = core.predictor.histories(self._tokens[at], self._lengths[at])
    accepted[at] = self._predictor.answers(prefixes, asked) == core.YES
    return accepted
