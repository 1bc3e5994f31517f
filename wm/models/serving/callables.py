"""A user's callable, tokens to logits, as a predictor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wm import core
from wm.core import plugins
from wm.models.serving import stateless, tiles

MULTIPLE = 16  # Lengths that a callable is given are multiples of this.
# Spacing of numbers next to 1, of floats narrower than float32.
_NARROW = {'bfloat16': 2**-7, 'float16': 2**-10}


class FromCallable(stateless.Stateless):
  """Any callable, tokens [R, L] int32 -> logits [R, L, V], as a predictor.

  The callable must be causal: position t may depend on tokens[:, :t + 1]
  only, as rows are padded at the end. It is always called with exactly
  `rows` rows, each padded to a multiple of
  `MULTIPLE` tokens that depends on its own
  length only, so that results do not depend on how trials were batched.
  """

  def __init__(
    self,
    function: Callable[[np.ndarray], np.ndarray],
    *,
    vocab_size: int,
    end: int,
    max_len: int,
    rows: int = 16,
    label: str = 'the callable',
  ) -> None:
    """label: what errors call it; rows: batch size of every call."""
    if rows < 1:
      raise core.InputError(f'{label}: rows={rows} was given; expected >= 1')
    self._function, self.rows, self.label = function, rows, label
    self.vocab_size, self.end, self.max_len = vocab_size, end, max_len
    self.spacing = 2**-23
    self._place = plugins.placed(function)

  def logits(self, tokens: np.ndarray) -> np.ndarray:
    """[rows, L, V] what the callable gives for tokens [rows, L].

    Floats, or integers; of 16 bits they come as float32. Raises InputError
    where it fails or gives something else.
    """
    with (
      plugins.user_code(self.label, self._function),
      np.errstate(all='ignore'),  # NaN is refused, -inf is allowed.
    ):
      logits = self._function(tokens.copy())
      width = str(getattr(logits, 'dtype', '')).rpartition('.')[2]
      self.spacing = _NARROW.get(width, 2**-23)
      logits = as_array(logits)
    expected = (*tokens.shape, self.vocab_size)
    if logits.shape != expected or logits.dtype.kind not in 'fiu':
      raise core.InputError(
        f'{self._place}{self.label} gave {logits.dtype} of shape '
        f'{logits.shape} for tokens {tokens.shape}; expected floats of shape '
        f'[rows, length, vocabulary] = {expected}'
      )
    return logits

  def padded(self, longest: int) -> int:
    """Length of the input that a row of `longest` tokens is padded to."""
    up = -(-longest // MULTIPLE) * MULTIPLE
    return max(longest, min(up, self.max_len))

  def _blocks(
    self, tokens: np.ndarray, lengths: np.ndarray
  ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields rows [R] of one padded length and their logits [R, L', V]."""
    padded = np.array([self.padded(int(n)) for n in lengths], int)
    for size in np.unique(padded):
      of_size = np.flatnonzero(padded == size)
      width = min(int(size), tokens.shape[1])
      for part in core.chunks(len(of_size), 1, self.rows):
        rows = of_size[part]
        given = tiles.padded(tokens[rows], lengths[rows], self.rows, int(size))
        yield rows, self.logits(given)[: len(rows), :width]

  def normal(self, logits: np.ndarray) -> np.ndarray:
    """[P, V] float32 log-probabilities, in nats, from logits of P positions."""
    if not np.isfinite(logits.max(-1)).all():
      raise core.InputError(
        f'{self._place}{self.label} gave NaN, or no finite logit, at some '
        'position; expected finite logits (-inf only for impossible tokens)'
      )
    logits = logits.astype(np.float32)
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.Predictor; InputError if the callable's output is no logits."""
    lengths = np.maximum(np.asarray(lengths), 1)
    out = np.full((*tokens.shape, self.vocab_size), -np.inf, np.float32)
    for rows, logits in self._blocks(tokens, lengths):
      row, at = np.nonzero(np.arange(logits.shape[1]) < lengths[rows, None])
      out[rows[row], at] = self.normal(logits[row, at])
    return out

  def last(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See stateless.Stateless."""
    out = np.empty((len(tokens), self.vocab_size), np.float32)
    for rows, logits in self._blocks(tokens, np.asarray(lengths)):
      out[rows] = self.normal(logits[np.arange(len(rows)), lengths[rows] - 1])
    return out


def as_array(found: Any) -> np.ndarray:
  """A NumPy, JAX or PyTorch array on any device; 16-bit floats as float32."""
  narrow = str(getattr(found, 'dtype', '')).rpartition('.')[2] in _NARROW
  if hasattr(found, 'detach'):  # PyTorch's.
    found = found.detach().cpu()
    found = (found.float() if narrow else found).numpy()
  found = np.asarray(found)
  return found.astype(np.float32) if narrow else found
