"""Predictors that say yes or no to whole continuations, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from wm import core
from wm.core import accept as rules
from wm.core.predictor import Tokens
from wm.models.serving.stateless import HistorySession, Stateless

# Is a suffix a valid continuation of a prefix? One answer for each question.
Accepts = Callable[[list[Tokens], list[Tokens]], np.ndarray]
# The same for all single tokens at once: tokens [R, L], lengths [R] -> [R, V].
NextMask = Callable[[np.ndarray, np.ndarray], np.ndarray]

ANY = rules.epsilon(0.0)
# Most questions that are put to `accepts` in one call.
QUESTIONS = 1 << 18


class Accepting(Stateless, core.QueryModel):
  """A predictor from answers alone, as a closed language model gives them.

  Its language is what it says yes to. Next-token probabilities are uniform
  over the single tokens it says yes to, whatever the acceptance rule; where it
  gives no answer, a token is not accepted. A question is put once in a call,
  however often it comes up (Vafa et al. 2024, section 4.2: logic puzzles).
  """

  def __init__(
    self,
    accepts: Accepts,
    *,
    vocab_size: int,
    end: int,
    max_len: int,
    next_mask: NextMask | None = None,
    label: str = 'the callable',
  ) -> None:
    """Wraps a function.

    Args:
      accepts: (prefixes, suffixes), each N tuples of token ids, -> [N]
        integers: YES, NO, or NO_ANSWER where it cannot be told.
      vocab_size: V.
      end: id of the end token, or DEAD.
      max_len: longest sequence in tokens.
      next_mask: (tokens [R, L], lengths [R]) -> [R, V] bool, the same for all
        single tokens, where that is cheaper than V - 1 questions.
      label: what errors call it.
    """
    self._accepts, self._next_mask, self._label = accepts, next_mask, label
    self.vocab_size, self.end, self.max_len = vocab_size, end, max_len

  def answers(
    self,
    prefixes: Sequence[Tokens],
    suffixes: Sequence[Tokens],
    trials: Sequence[int] | None = None,
  ) -> np.ndarray:
    """[N] int8 YES, NO or NO_ANSWER to each (prefix, suffix).

    Raises InputError where `accepts` gives anything else.
    """
    del trials  # No answer is cut.
    questions = list(zip(prefixes, suffixes, strict=True))
    place = {question: n for n, question in enumerate(dict.fromkeys(questions))}
    found = np.zeros(len(place), np.int8)
    unique = list(place)
    for rows in core.chunks(len(unique), 1, QUESTIONS):
      asked = unique[rows]
      got = self._accepts([p for p, _ in asked], [s for _, s in asked])
      found[rows] = self._checked(got, len(asked))
    return found[[place[question] for question in questions]]

  def _checked(self, found: np.ndarray, num: int) -> np.ndarray:
    found = np.asarray(found)
    if (
      found.shape != (num,)
      or found.dtype.kind not in 'biu'
      or not np.isin(found, (core.YES, core.NO, core.NO_ANSWER)).all()
    ):
      raise core.InputError(
        f'{self._label} gave {found.dtype} of shape {found.shape}; expected '
        f'{num} answers: 1 yes, 0 no, -1 none'
      )
    return found.astype(np.int8)

  def next_mask(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[R, V] bool: tokens accepted after tokens[r, :lengths[r]]."""
    if self._next_mask is not None:
      return self._next_mask(tokens, lengths)
    prefixes = core.histories(tokens, lengths)
    single = [(token,) for token in range(1, self.vocab_size)]
    found = self.answers(
      [prefix for prefix in prefixes for _ in single], single * len(prefixes)
    )
    mask = np.zeros((len(prefixes), self.vocab_size), bool)
    mask[:, 1:] = (found == core.YES).reshape(len(prefixes), -1)
    return mask

  def last(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[R, V] float32, uniform over accepted tokens; see Stateless."""
    mask = self.next_mask(tokens, np.asarray(lengths))
    total = np.maximum(mask.sum(-1, keepdims=True), 1)
    with np.errstate(divide='ignore'):
      return np.log(mask / total).astype(np.float32)

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.Predictor."""
    out = np.full((*tokens.shape, self.vocab_size), -np.inf, np.float32)
    row, at = np.nonzero(
      np.arange(tokens.shape[1]) < np.asarray(lengths)[:, None]
    )
    for some in core.chunks(len(row), tokens.shape[1] + self.vocab_size):
      out[row[some], at[some]] = self.last(tokens[row[some]], at[some] + 1)
    return out

  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> core.Session:
    """See core.Predictor; prefixes may be empty."""
    return AcceptingSession(self, prefixes, lengths, num)


class AcceptingSession(HistorySession):
  """A session of an `Accepting` predictor; acceptance rules do not matter."""

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
    found = np.zeros(tokens.shape, bool)
    prefixes = core.histories(self._tokens[at], self._lengths[at])
    found[at] = self._predictor.answers(prefixes, asked) == core.YES
    return found
