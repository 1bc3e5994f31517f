"""Texts that a causal language model of transformers has read so far."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
import transformers


class Rows(NamedTuple):
  """R texts read so far.

  Columns of the cache are pieces in the order they were read. Rows read
  different numbers of pieces at a time, so some columns are padding.

  Attributes:
    cache: keys and values of each layer in turn, each [R, heads, columns, D].
    real: [R, columns] bool: the column is a piece, no padding.
    last: [R, pieces] log-probabilities of the next piece, nats.
  """

  cache: tuple[torch.Tensor, ...]
  real: torch.Tensor
  last: torch.Tensor

  def taken(self, rows: torch.Tensor | slice) -> Rows:
    """Some rows, in any order, repeated or not."""
    cache = tuple(one[rows] for one in self.cache)
    return Rows(cache, self.real[rows], self.last[rows])

  def compact(self) -> Rows:
    """The same without padding in front of pieces or in every row."""
    # Pieces first, in order (stable), then padding, which is cut off.
    order = (~self.real).to(torch.int8).argsort(dim=1, stable=True)
    order = order[:, : int(self.real.sum(1).max())]

    def moved(one: torch.Tensor) -> torch.Tensor:
      at = order[:, None, :, None].expand(-1, one.shape[1], -1, one.shape[3])
      return one.gather(2, at)

    cache = tuple(map(moved, self.cache))
    return Rows(cache, self.real.gather(1, order), self.last)

  def replaced(self, rows: torch.Tensor, new: Rows) -> Rows:
    """With `new` in the place of some rows."""
    width = max(self.real.shape[1], new.real.shape[1])

    def put(old: torch.Tensor, one: torch.Tensor, axis: int) -> torch.Tensor:
      old, one = _widened(old, width, axis), _widened(one, width, axis)
      return old.index_copy(0, rows, one)

    pairs = zip(self.cache, new.cache, strict=True)
    cache = tuple(put(*pair, 2) for pair in pairs)
    last = self.last.index_copy(0, rows, new.last)
    return Rows(cache, put(self.real, new.real, 1), last)


def _widened(one: torch.Tensor, width: int, axis: int) -> torch.Tensor:
  shape = list(one.shape)
  shape[axis] = width - shape[axis]
  return torch.cat([one, one.new_zeros(shape)], axis)


class Reader:
  """A causal language model that reads rows of pieces."""

  def __init__(self, model: Any) -> None:
    """model: of `transformers`, in evaluation mode."""
    self._model = model

  @torch.inference_mode()
  def read(
    self, pieces: np.ndarray, lengths: np.ndarray, before: Rows | None = None
  ) -> Rows:
    """Rows after more pieces [R, K] of lengths [R], which may be 0.

    Padding comes behind a row's pieces and is masked. Positions count pieces.
    """
    ids = torch.as_tensor(np.asarray(pieces, np.int64))
    size = torch.as_tensor(np.asarray(lengths, np.int64))
    real = torch.arange(ids.shape[1])[None] < size[:, None]
    seen, cache = real, transformers.DynamicCache()
    if before is not None:
      seen = torch.cat([before.real, real], 1)
      for layer in range(len(before.cache) // 2):
        cache.update(*before.cache[2 * layer : 2 * layer + 2], layer)
    # Padding columns lie anywhere: a piece's position is how many came before.
    place = seen.cumsum(1)[:, -ids.shape[1] :] - 1
    found = self._model(
      input_ids=ids,
      attention_mask=seen.to(torch.int64),
      position_ids=place.clamp(min=0),
      past_key_values=cache,
      use_cache=True,
    )
    at = (size - 1).clamp(min=0)
    last = found.logits[torch.arange(len(ids)), at].float().log_softmax(-1)
    if before is not None:
      # Rows that read nothing say what they said before.
      last = torch.where(size[:, None] > 0, last, before.last)
    layers = found.past_key_values.layers
    kept = tuple(part for x in layers for part in (x.keys, x.values))
    return Rows(kept, seen, last)

  @torch.inference_mode()
  def all(
    self, pieces: np.ndarray, lengths: np.ndarray, hidden: bool = False
  ) -> tuple[torch.Tensor, ...]:
    """Log-probabilities [R, K, pieces] at each piece; activations if `hidden`.

    Activations are [R, K, D] for the embedding and after each layer.
    """
    ids = torch.as_tensor(np.asarray(pieces, np.int64))
    real = torch.arange(ids.shape[1])[None] < torch.as_tensor(lengths)[:, None]
    found = self._model(
      input_ids=ids,
      attention_mask=real.to(torch.int64),
      use_cache=False,
      output_hidden_states=hidden,
    )
    if hidden:
      return found.hidden_states
    return (found.logits.float().log_softmax(-1),)
