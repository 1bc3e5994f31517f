"""Texts that a causal language model of transformers has read so far."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers

from wm import core
from wm.core import plugins

# Greatest difference from whole texts, nats, of log-probabilities above FLOOR.
TOLERANCE, FLOOR = 1e-3, float(np.log(1e-6))
ROWS, STEPS = 4, 6  # Texts that a cache is checked on, and how often they grow.


class Rows(NamedTuple):
  """R texts read so far.

  All rows end in the last column, and padding stands in front of their first
  piece. So columns are as far apart as their pieces, which is what windows of
  attention and ALiBi go by.

  Attributes:
    parts: what is remembered of columns, [R, heads, columns, D] each: keys and
      values of each layer in turn, or the pieces themselves.
    real: [R, columns] bool: the column is a piece, no padding.
    last: [R, pieces] log-probabilities of the next piece, nats.
  """

  parts: tuple[torch.Tensor, ...]
  real: torch.Tensor
  last: torch.Tensor

  def taken(self, rows: torch.Tensor | slice) -> Rows:
    """Some rows, in any order, repeated or not."""
    real = self.real[rows]
    first = real.shape[1] - int(real.sum(1).max())
    parts = tuple(part[:, :, first:][rows] for part in self.parts)
    return Rows(parts, real[:, first:], self.last[rows])

  def replaced(self, rows: torch.Tensor, new: Rows) -> Rows:
    """With `new` in the place of some rows."""
    width = max(self.real.shape[1], new.real.shape[1])

    def put(old: torch.Tensor, part: torch.Tensor, axis: int) -> torch.Tensor:
      old, part = _widened(old, width, axis), _widened(part, width, axis)
      return old.index_copy(0, rows, part)

    pairs = zip(self.parts, new.parts, strict=True)
    parts = tuple(put(*pair, 2) for pair in pairs)
    last = self.last.index_copy(0, rows, new.last)
    real = put(self.real, new.real, 1)
    return Rows(parts, real, last).taken(slice(None))


def _widened(part: torch.Tensor, width: int, axis: int) -> torch.Tensor:
  shape = list(part.shape)
  shape[axis] = width - shape[axis]
  return torch.cat([part.new_zeros(shape), part], axis)


def _sorted(
  parts: tuple[torch.Tensor, ...], key: torch.Tensor
) -> tuple[torch.Tensor, ...]:
  """Parts [R, heads, columns, D], their columns by key [R, columns] bool."""
  order = key.to(torch.int8).argsort(dim=1, stable=True)[:, None, :, None]
  return tuple(torch.take_along_dim(part, order, 2) for part in parts)


def _packed(
  parts: tuple[torch.Tensor, ...], real: torch.Tensor, last: torch.Tensor
) -> Rows:
  """Rows of columns among which padding stands anywhere."""
  moved = _sorted(parts, real)
  return Rows(moved, real.sort(dim=1).values, last).taken(slice(None))


def _tensors(
  pieces: np.ndarray, lengths: np.ndarray
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
  """Pieces [R, K], their lengths [R], and which are no padding [R, K]."""
  ids = torch.as_tensor(np.asarray(pieces, np.int64))
  sizes = torch.as_tensor(np.asarray(lengths, np.int64))
  return ids, sizes, torch.arange(ids.shape[1])[None] < sizes[:, None]


def _last(logits: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
  """[R, pieces] log-probabilities after texts of `sizes` [R]."""
  at = logits[torch.arange(len(sizes)), sizes - 1]
  return at.float().log_softmax(-1)


class Reader:
  """A causal language model that reads texts from their beginning each time."""

  def __init__(self, model: Any, label: str, batch: int) -> None:
    """Takes a model of `transformers`.

    Args:
      model: in evaluation mode.
      label: what errors call it.
      batch: texts that it reads at once.
    """
    self.label, self.batch, self._model = label, batch, model
    self._takes = inspect.signature(model.forward).parameters

  def run(self, ids: torch.Tensor, **inputs: Any) -> Any:
    """What the model gives for pieces [R, K]."""
    # Texts from their beginning need no mask: no piece sees padding behind it.
    inputs = {'attention_mask': torch.ones_like(ids), **inputs}
    for key in ('attention_mask', 'position_ids'):  # Not all families'.
      if key not in self._takes:
        inputs.pop(key, None)
    with plugins.user_code(self.label):
      return self._model(input_ids=ids, **inputs)

  @torch.inference_mode()
  def read(
    self, pieces: np.ndarray, lengths: np.ndarray, before: Rows | None = None
  ) -> Rows:
    """Rows after more pieces [R, K] of lengths [R], which may be 0.

    Padding comes behind a row's pieces. Without `before` no length is 0.
    """
    ids, sizes, real = _tensors(pieces, lengths)
    texts = ids[:, None, :, None]
    if before is None:
      return _packed((texts,), real, self._after(ids, sizes))
    moved = sizes.nonzero()[:, 0]
    texts = torch.cat([before.parts[0], texts], 2)
    real = torch.cat([before.real, real], 1)
    last = before.last.clone()
    if len(moved):
      sizes = real[moved].sum(1)
      (whole,) = _sorted((texts[moved],), ~real[moved])
      last[moved] = self._after(whole[:, 0, : int(sizes.max()), 0], sizes)
    return _packed((texts,), real, last)

  def _after(self, ids: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """[R, pieces] log-probabilities after texts [R, K] of `sizes` [R]."""
    parts = []
    for rows in core.chunks(len(ids), 1, self.batch):
      logits = self.run(ids[rows], use_cache=False).logits
      parts.append(_last(logits, sizes[rows]))
    return torch.cat(parts)

  @torch.inference_mode()
  def all(
    self, pieces: np.ndarray, hidden: bool = False
  ) -> tuple[torch.Tensor, ...]:
    """Log-probabilities [R, K, pieces] at each piece; activations if `hidden`.

    Activations are [R, K, D] for the embedding and after each layer. Padding
    comes behind a row's pieces.
    """
    ids = torch.as_tensor(np.asarray(pieces, np.int64))
    outputs = self.run(ids, use_cache=False, output_hidden_states=hidden)
    if hidden:
      return outputs.hidden_states
    return (outputs.logits.float().log_softmax(-1),)


class CachedReader(Reader):
  """A causal language model that keeps keys and values of what it has read."""

  @torch.inference_mode()
  def read(
    self, pieces: np.ndarray, lengths: np.ndarray, before: Rows | None = None
  ) -> Rows:
    """See Reader."""
    ids, sizes, real = _tensors(pieces, lengths)
    if before is None:
      chunks = [
        self._cached(ids[rows], sizes[rows])
        for rows in core.chunks(len(ids), 1, self.batch)
      ]
      parts, last = zip(*chunks, strict=True)
      parts = tuple(map(torch.cat, zip(*parts, strict=True)))
      return _packed(parts, real, torch.cat(last))
    # Rows that read as many pieces go together: no padding comes between.
    for size in sorted(set(sizes.tolist()) - {0}):
      rows = (sizes == size).nonzero()[:, 0]
      old = before.taken(rows) if len(rows) < len(ids) else before
      kept, last = self._cached(ids[rows, :size], sizes[rows], old)
      seen = torch.cat([old.real, real[rows, :size]], 1)
      new = Rows(kept, seen, last)
      before = before.replaced(rows, new) if len(rows) < len(ids) else new
    return before

  def _cached(
    self, ids: torch.Tensor, sizes: torch.Tensor, before: Rows | None = None
  ) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """Keys and values of all columns, and log-probabilities [R, pieces]."""
    if 'past_key_values' not in self._takes:
      raise core.InputError('the model has none of keys and values')
    cache, inputs = transformers.DynamicCache(), {}
    if before is not None:
      real = torch.cat([before.real, torch.ones_like(ids, dtype=torch.bool)], 1)
      inputs['attention_mask'] = real.to(torch.int64)
      inputs['position_ids'] = real.cumsum(1)[:, -ids.shape[1] :] - 1
      for layer in range(len(before.parts) // 2):
        cache.update(*before.parts[2 * layer : 2 * layer + 2], layer)
    outputs = self.run(ids, past_key_values=cache, use_cache=True, **inputs)
    with plugins.user_code(self.label):
      layers = outputs.past_key_values.layers
      parts = tuple(part for x in layers for part in (x.keys, x.values))
    return parts, _last(outputs.logits, sizes)


class _Visit(NamedTuple):
  """What a reader says after the first `sizes` [R] pieces of texts [R]."""

  text: np.ndarray
  sizes: np.ndarray
  last: torch.Tensor


def _visits(reader: Reader, texts: np.ndarray) -> Iterator[_Visit]:
  """Reads texts [ROWS, K] as sessions do: unevenly, branched and restarted."""
  text, longest = np.arange(ROWS), texts.shape[1]
  # By 0, 1 or 2 pieces a step: the longest ends where its text does.
  starts = [longest - 2 * STEPS, longest // 2, longest - STEPS, 1]
  sizes = np.clip(starts, 1, longest)
  rows = reader.read(texts[:, : sizes.max()], sizes)
  yield _Visit(text, sizes, rows.last)
  for step in range(STEPS):
    if step == STEPS // 3:  # Row 1 goes on from row 0.
      parents = np.array([0, 0, 2, 3])
      text, sizes = text[parents], sizes[parents]
      rows = rows.taken(torch.as_tensor(parents))
    if step == 2 * STEPS // 3:  # Row 2 begins again.
      text, sizes = np.array([*text[:2], 1, text[3]]), sizes.copy()
      sizes[2] = max(1, longest // 3)
      again = reader.read(texts[1:2, : sizes[2]], sizes[2:3])
      rows = rows.replaced(torch.as_tensor([2]), again)
    more = np.minimum((np.arange(ROWS) + step) % 3, longest - sizes)
    at = np.minimum(sizes[:, None] + np.arange(2), longest - 1)
    rows = reader.read(texts[text[:, None], at], more, rows)
    sizes = sizes + more
    yield _Visit(text, sizes, rows.last)


def _apart(visits: Iterable[_Visit], text: int, whole: torch.Tensor) -> float:
  """Greatest difference, nats, from what a whole text gives, [K, pieces]."""
  whole = whole.clamp(min=FLOOR)
  differences = [
    float((log_probs.clamp(min=FLOOR) - whole[size - 1]).abs().max())
    for visit in visits
    for number, size, log_probs in zip(*visit, strict=True)
    if number == text
  ]
  return np.max(differences, initial=0)


def reader(
  model: Any, texts: np.ndarray, label: str, batch: int
) -> tuple[Reader, str]:
  """A reader of a model, and why it has no cache; '' where it has one.

  A cache is used where it gives what whole texts give.

  Args:
    model: of `transformers`, in evaluation mode.
    texts: [ROWS, K] pieces, as long as texts come to be: some caches go wrong
      beyond the window of a model's attention only.
    label: what errors call the model.
    batch: texts that are read at once.

  Raises:
    InputError: it gives NaN, or what it says of a piece depends on later ones.
  """
  whole, why = Reader(model, label, batch), ''
  first, visits = [next(_visits(whole, texts))], []
  try:
    with plugins.user_code(label):
      visits = list(_visits(CachedReader(model, label, batch), texts))
  except core.InputError as error:
    why = str(error)
  changed = off = np.float32(0)
  for number in range(ROWS):
    (log_probs,) = whole.all(texts[number : number + 1])
    if log_probs.isnan().any():
      raise core.InputError(f'{label} gives NaN; expected log-probabilities')
    changed = np.maximum(changed, _apart(first, number, log_probs[0]))
    off = np.maximum(off, _apart(visits, number, log_probs[0]))
  if not changed <= TOLERANCE:
    raise core.InputError(
      f'{label}: the pieces behind a piece change the prediction after it by '
      f'{changed:.2g} nats; expected a causal language model'
    )
  if not off <= TOLERANCE:
    why = f'with it, predictions are off by {off:.2g} nats'
  return (whole if why else CachedReader(model, label, batch)), why
