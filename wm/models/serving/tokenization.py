"""Predictors of Hugging Face models: a world's tokens spelled in their pieces.

`PiecePredictor` computes probabilities of the world's tokens from a network of
`transformers` and a spelling of each token.

  world's tokens      7     10     1
  pieces         bos  34    12 5   12      TokenSpelling, by the tokenizer
  columns        -    o     o  o   o       TextRows: keys and values of each

A token of the world has one piece or several; its probability is the product
along its pieces. One spelling may begin another, as '1' begins '10'. Such an
open token ends only when the next piece begins another token. The probability
of this event is a factor too, and the next token is conditioned on it. So the
probability of a sequence of tokens is that of its pieces.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers

from wm import core
from wm.core import adapting, plugins
from wm.models.serving import adapters, few_shot

# Largest permitted difference, nats, from reading whole texts, for
# log-probabilities above FLOOR.
TOLERANCE, FLOOR = 1e-3, float(np.log(1e-6))
ROWS, STEPS = 4, 6  # Texts and steps in the check of a cache.


class TextRows(NamedTuple):
  """R texts read so far.

  All rows end in the last column; padding precedes their first piece. So
  distances between columns are distances between pieces, as attention windows
  and ALiBi need.

  Attributes:
    parts: cached arrays [R, heads, columns, D]: keys and values of each layer
      in turn, or the pieces themselves.
    real: [R, columns] bool: True for pieces, False for padding.
    last: [R, pieces] log-probabilities of the next piece, nats.
  """

  parts: tuple[torch.Tensor, ...]
  real: torch.Tensor
  last: torch.Tensor

  def taken(self, rows: torch.Tensor | slice) -> TextRows:
    """Some rows, in any order, possibly repeated."""
    # Columns that are padding in all chosen rows are dropped:
    #   . . a b      rows 0, 1 chosen:   . a b
    #   . c d e                          c d e
    real = self.real[rows]
    first = real.shape[1] - int(real.sum(1).max())
    parts = tuple(part[:, :, first:][rows] for part in self.parts)
    return TextRows(parts, real[:, first:], self.last[rows])

  def replaced(self, rows: torch.Tensor, new: TextRows) -> TextRows:
    """Replaces some rows by those of `new`."""
    # The narrower one is padded in front: all rows end in the last column.
    width = max(self.real.shape[1], new.real.shape[1])

    def put(old: torch.Tensor, part: torch.Tensor, axis: int) -> torch.Tensor:
      old, part = _widened(old, width, axis), _widened(part, width, axis)
      return old.index_copy(0, rows, part)

    pairs = zip(self.parts, new.parts, strict=True)
    parts = tuple(put(*pair, 2) for pair in pairs)
    last = self.last.index_copy(0, rows, new.last)
    real = put(self.real, new.real, 1)
    return TextRows(parts, real, last).taken(slice(None))


def _widened(part: torch.Tensor, width: int, axis: int) -> torch.Tensor:
  shape = list(part.shape)
  shape[axis] = width - shape[axis]
  return torch.cat([part.new_zeros(shape), part], axis)


def _sorted(
  parts: tuple[torch.Tensor, ...], key: torch.Tensor
) -> tuple[torch.Tensor, ...]:
  """Parts [R, heads, columns, D], columns sorted by key [R, columns] bool."""
  # Stable: pieces keep their order, padding (False) moves in front of them.
  order = key.to(torch.int8).argsort(dim=1, stable=True)[:, None, :, None]
  return tuple(torch.take_along_dim(part, order, 2) for part in parts)


def _packed(
  parts: tuple[torch.Tensor, ...], real: torch.Tensor, last: torch.Tensor
) -> TextRows:
  """Rows from columns with padding at any place."""
  moved = _sorted(parts, real)
  return TextRows(moved, real.sort(dim=1).values, last).taken(slice(None))


def _tensors(
  pieces: np.ndarray, lengths: np.ndarray
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
  """Pieces [R, K], their lengths [R], and the mask [R, K] of real pieces."""
  ids = torch.as_tensor(np.asarray(pieces, np.int64))
  sizes = torch.as_tensor(np.asarray(lengths, np.int64))
  return ids, sizes, torch.arange(ids.shape[1])[None] < sizes[:, None]


def _last(logits: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
  """[R, pieces] log-probabilities after texts of `sizes` [R]."""
  at = logits[torch.arange(len(sizes)), sizes - 1]
  return at.float().log_softmax(-1)


class TextReader:
  """A causal language model that reads texts from the beginning each time."""

  def __init__(self, model: Any, label: str, batch: int) -> None:
    """Takes a model of `transformers`.

    Args:
      model: in evaluation mode.
      label: name in errors.
      batch: texts per forward pass.
    """
    self.label, self.batch, self.model = label, batch, model
    self._untouched = adapters.Untouched(model)
    self._takes = inspect.signature(model.forward).parameters

  def run(self, ids: torch.Tensor, **inputs: Any) -> Any:
    """Outputs of the model for pieces [R, K]."""
    # Texts read from the beginning need no mask: padding comes last.
    inputs = {'attention_mask': torch.ones_like(ids), **inputs}
    for key in ('attention_mask', 'position_ids'):  # Some families lack them.
      if key not in self._takes:
        inputs.pop(key, None)
    with plugins.user_code(self.label), self._untouched():
      return self.model(input_ids=ids, **inputs)

  @torch.inference_mode()
  def read(
    self,
    pieces: np.ndarray,
    lengths: np.ndarray,
    before: TextRows | None = None,
  ) -> TextRows:
    """Rows after more pieces [R, K] of lengths [R], which may be 0.

    Padding comes after a row's pieces. Without `before` no length is 0.
    """
    ids, sizes, real = _tensors(pieces, lengths)
    texts = ids[:, None, :, None]
    if before is None:
      return _packed((texts,), real, self._after(ids, sizes))
    # Rows that read nothing are not computed again.
    moved = sizes.nonzero()[:, 0]
    # Without a cache, the pieces themselves are stored and read again.
    texts = torch.cat([before.parts[0], texts], 2)
    real = torch.cat([before.real, real], 1)
    last = before.last.clone()
    if len(moved):
      # `whole` has pieces first and padding last, as the model reads them.
      sizes = real[moved].sum(1)
      (whole,) = _sorted((texts[moved],), ~real[moved])
      last[moved] = self._after(whole[:, 0, : int(sizes.max()), 0], sizes)
    return _packed((texts,), real, last)

  def _after(self, ids: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """[R, pieces] log-probabilities after texts [R, K] of `sizes` [R]."""
    parts = []
    for rows in core.predictor.chunks(len(ids), 1, self.batch):
      logits = self.run(ids[rows], use_cache=False).logits
      parts.append(_last(logits, sizes[rows]))
    return torch.cat(parts)

  @torch.inference_mode()
  def all(
    self, pieces: np.ndarray, hidden: bool = False
  ) -> tuple[torch.Tensor, ...]:
    """Log-probabilities [R, K, pieces] at each piece; activations if `hidden`.

    Activations are [R, K, D] for the embedding and after each layer. Padding
    comes after a row's pieces.
    """
    ids = torch.as_tensor(np.asarray(pieces, np.int64))
    outputs = self.run(ids, use_cache=False, output_hidden_states=hidden)
    if hidden:
      return outputs.hidden_states
    return (outputs.logits.float().log_softmax(-1),)


class CachedTextReader(TextReader):
  """A causal language model with a cache of keys and values."""

  @torch.inference_mode()
  def read(
    self,
    pieces: np.ndarray,
    lengths: np.ndarray,
    before: TextRows | None = None,
  ) -> TextRows:
    """See TextReader."""
    ids, sizes, real = _tensors(pieces, lengths)
    if before is None:
      chunks = [
        self._cached(ids[rows], sizes[rows])
        for rows in core.predictor.chunks(len(ids), 1, self.batch)
      ]
      parts, last = zip(*chunks, strict=True)
      parts = tuple(map(torch.cat, zip(*parts, strict=True)))
      return _packed(parts, real, torch.cat(last))
    # Rows with equal numbers of new pieces run together, without padding.
    for size in sorted(set(sizes.tolist()) - {0}):
      rows = (sizes == size).nonzero()[:, 0]
      old = before.taken(rows) if len(rows) < len(ids) else before
      cached, last = self._cached(ids[rows, :size], sizes[rows], old)
      seen = torch.cat([old.real, real[rows, :size]], 1)
      new = TextRows(cached, seen, last)
      before = before.replaced(rows, new) if len(rows) < len(ids) else new
    return before

  def _cached(
    self, ids: torch.Tensor, sizes: torch.Tensor, before: TextRows | None = None
  ) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """Keys and values of all columns, and log-probabilities [R, pieces]."""
    # transformers 5.24 renamed it.
    name = 'cache' if 'cache' in self._takes else 'past_key_values'
    if name not in self._takes:
      raise core.InputError('the model has none of keys and values')
    # Positions count real pieces, not the padding in front of a row.
    cache, inputs = transformers.DynamicCache(), {}
    if before is not None:
      # mask  [R, old columns + new]; positions are counts of real pieces.
      real = torch.cat([before.real, torch.ones_like(ids, dtype=torch.bool)], 1)
      inputs['attention_mask'] = real.to(torch.int64)
      inputs['position_ids'] = real.cumsum(1)[:, -ids.shape[1] :] - 1
      for layer in range(len(before.parts) // 2):
        # parts alternate: keys of layer 0, its values, keys of layer 1, ...
        cache.update(*before.parts[2 * layer : 2 * layer + 2], layer)
    outputs = self.run(ids, use_cache=True, **inputs, **{name: cache})
    with plugins.user_code(self.label):
      layers = outputs[name].layers
      parts = tuple(part for x in layers for part in (x.keys, x.values))
    return parts, _last(outputs.logits, sizes)


# Indices of texts [R], pieces of each read so far [R], and log-probabilities
# after them.
_Visit = tuple[np.ndarray, np.ndarray, torch.Tensor]


def _visits(reader: TextReader, texts: np.ndarray) -> Iterator[_Visit]:
  """Reads texts [ROWS, K] as a session does: uneven and restarted."""
  text, longest = np.arange(ROWS), texts.shape[1]
  # 0, 1 or 2 pieces per step: the longest row ends with its text.
  # First prefixes of various lengths, from one piece to nearly the whole text.
  starts = [longest - 2 * STEPS, longest // 2, longest - STEPS, 1]
  sizes = np.clip(starts, 1, longest)
  rows = reader.read(texts[:, : sizes.max()], sizes)
  yield text, sizes, rows.last
  for step in range(STEPS):
    if step == 2 * STEPS // 3:  # Row 2 restarts.
      text, sizes = np.array([*text[:2], 1, text[3]]), sizes.copy()
      sizes[2] = max(1, longest // 3)
      again = reader.read(texts[1:2, : sizes[2]], sizes[2:3])
      rows = rows.replaced(torch.as_tensor([2]), again)
    more = np.minimum((np.arange(ROWS) + step) % 3, longest - sizes)
    at = np.minimum(sizes[:, None] + np.arange(2), longest - 1)
    rows = reader.read(texts[text[:, None], at], more, rows)
    sizes = sizes + more
    yield text, sizes, rows.last


def _apart(visits: Iterable[_Visit], text: int, whole: torch.Tensor) -> float:
  """Largest difference, nats, from reading the whole text, [K, pieces]."""
  # Below one in a million, log-probabilities differ by rounding.
  whole = whole.clamp(min=FLOOR)
  # Only the rows that read this text, at their places.
  differences = [
    float((log_probs.clamp(min=FLOOR) - whole[size - 1]).abs().max())
    for visit in visits
    for number, size, log_probs in zip(*visit, strict=True)
    if number == text
  ]
  return np.max(differences, initial=0)


def text_reader(
  model: Any, texts: np.ndarray, label: str, batch: int
) -> tuple[TextReader, str]:
  """A reader of a model, and the reason for having no cache, or ''.

  The cache is used if it agrees with reading whole texts.

  Args:
    model: of `transformers`, in evaluation mode.
    texts: [ROWS, K] pieces, of the maximum length: some caches fail only beyond
      the attention window.
    label: name of the model in errors.
    batch: texts per forward pass.

  Raises:
    InputError: the model gives NaN or is not causal.
  """
  whole, why = TextReader(model, label, batch), ''
  first, visits = [next(_visits(whole, texts))], []
  try:
    with plugins.user_code(label):
      visits = list(_visits(CachedTextReader(model, label, batch), texts))
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
  return (whole if why else CachedTextReader(model, label, batch)), why


Path = tuple[int, ...]


class TokenSpelling(NamedTuple):
  """The spelling of each token in pieces.

  Attributes:
    paths: [V] the pieces of each token; () of the padding token.
    before: pieces before every sequence.
    starts: the first pieces of all tokens, ascending.
    unfinished: proper prefixes of spellings, shortest first.
    open: [V] bool: True if the spelling is a prefix of another.
  """

  paths: tuple[Path, ...]
  before: Path
  starts: tuple[int, ...]
  unfinished: tuple[Path, ...]
  open: np.ndarray


def spelling(
  vocab: Sequence[str], pieces: Mapping[str, Path], before: Path
) -> TokenSpelling:
  """Spellings of a vocabulary whose id 0 is padding.

  Raises:
    InputError: two tokens are spelled alike, or spellings are ambiguous: the
      piece that extends a spelling to a longer one also begins a token.
  """
  paths = ((), *(pieces[word] for word in vocab[1:]))
  # Spelling -> its token, for the message about equal spellings.
  owner: dict[Path, str] = {}
  for word, path in zip(vocab[1:], paths[1:], strict=True):
    if path in owner:
      raise core.InputError(
        f'huggingface: tokens {owner[path]!r} and {word!r} are spelled alike, '
        f'by pieces {list(path)}'
      )
    owner[path] = word
  # Pieces that begin a token; after an open spelling, they close it.
  starts = {path[0] for path in paths[1:]}
  unfinished = {path[:n] for path in paths for n in range(1, len(path))}
  for path in paths[1:]:
    for n in range(1, len(path)):
      if path[:n] in owner and path[n] in starts:
        raise core.InputError(
          f'huggingface: {owner[path[:n]]!r} followed by another token may be '
          f'{owner[path]!r}: piece {path[n]} goes on and begins; give '
          'spellings that begin with a blank, such as " 1" and " 10"'
        )
  return TokenSpelling(
    paths,
    before,
    tuple(sorted(starts)),
    tuple(sorted(unfinished, key=lambda path: (len(path), path))),
    np.array([path in unfinished for path in paths]),
  )


def position_limit(network: Any) -> int | None:
  """Most pieces that a network reads; None without learned positions."""
  # The text config: the text part of a model of text and pictures.
  config = network.config.get_text_config()
  return getattr(config, 'max_position_embeddings', None)


def sample_texts(spelled: TokenSpelling, size: int) -> np.ndarray:
  """[ROWS, size] pieces of sequences of any tokens, for `text_reader`."""
  # Any tokens, legal or not: these texts check only the network's cache.
  rng, rows = np.random.default_rng(0), []
  for _ in range(ROWS):
    row = list(spelled.before)
    # [before ...][pieces of a token][pieces of another] ..., cut at `size`.
    while len(row) < size:
      row += spelled.paths[rng.integers(1, len(spelled.paths))]
    rows.append(row[:size])
  return np.array(rows)


class PiecePredictor(few_shot.TunedReader):
  """Next-token probabilities of a language model for a world's tokens."""

  def __init__(
    self,
    reader: TextReader,
    spelled: TokenSpelling,
    *,
    end: int,
    max_len: int,
    renormalised: bool,
    batch: int,
  ) -> None:
    """See `TokenSpelling`, `TextReader` and `core.Predictor`.

    batch: texts per forward pass.
    """
    self.vocab_size, self.end, self.max_len = len(spelled.paths), end, max_len
    self.reader, self.spelled, self.batch = reader, spelled, batch
    self.renormalised = renormalised
    # Probability of pieces that spell no token: sum, maximum, places.
    self._lost = np.zeros(3)
    self.remarks: list[str] = []  # On loading the model.

  def diagnostics(self) -> list[str]:
    """See core.TokenReader."""
    total, most, places = self._lost
    if not places:
      return [*self.remarks]
    done = 'renormalised' if self.renormalised else 'left out'
    return [
      *self.remarks,
      f'{total / places:.3g} of the probability went to no token of the world '
      f'on average ({most:.3g} at most, at {places:.0f} places); {done}',
    ]

  def written(
    self, tokens: np.ndarray, lengths: np.ndarray, opened: bool = True
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pieces [R, K] of tokens [R, L], their lengths [R], and ends [R, L].

    ends: place of each token's last piece; 0 past a row's length.
    opened: True begins with the pieces before every sequence.
    """
    paths, rows = self.spelled.paths, []
    ends = np.zeros(np.shape(tokens), np.int64)
    for n, (row, length) in enumerate(zip(tokens, lengths, strict=True)):
      pieces = list(self.spelled.before) if opened else []
      for t, token in enumerate(row[:length]):
        pieces += paths[token]
        ends[n, t] = len(pieces) - 1
      rows.append(pieces)
    sizes = np.array([len(pieces) for pieces in rows], np.int64)
    padded = np.zeros((len(rows), max(1, sizes.max(initial=0))), np.int64)
    for n, pieces in enumerate(rows):
      padded[n, : len(pieces)] = pieces
    return padded, sizes, ends

  def next_tokens(self, rows: TextRows, closing: np.ndarray) -> np.ndarray:
    """[R, V] log-probabilities of the next token, in nats.

    closing: [R] log-probability that the last token has ended; 0 if its
      spelling is not open.
    """
    # after[path]: the model's rows once it has read an unfinished spelling.
    spelled, after = self.spelled, dict[Path, TextRows]({(): rows})
    log_probs = np.full((len(closing), self.vocab_size), -np.inf, np.float32)
    single = np.ones(len(closing), np.int64)
    # The shortest first, so that their own prefixes are present.
    for path in spelled.unfinished:
      pieces = np.full((len(single), 1), path[-1])
      after[path] = self.reader.read(pieces, single, after[path[:-1]])
    at = {path: texts.last.numpy() for path, texts in after.items()}
    for token, path in enumerate(spelled.paths):
      if path:
        # log p(w) = sum over its pieces, less the log-probability that the last
        # token has ended; plus, if w is open, the one that w ends.
        steps = [at[path[:n]][:, piece] for n, piece in enumerate(path)]
        log_probs[:, token] = sum(steps) - closing
        if spelled.open[token]:
          log_probs[:, token] += _mass(at[path][:, list(spelled.starts)])
    return self._counted(log_probs)

  def _counted(self, log_probs: np.ndarray) -> np.ndarray:
    """Log-probabilities [..., V] as returned; counts the leak."""
    mass = _mass(log_probs)
    # In float64, since 1 - p is mostly below the precision of float32.
    lost = 1 - np.exp(np.minimum(mass.astype(np.float64), 0))
    self._lost[[0, 2]] += lost.sum(), lost.size
    self._lost[1] = max(self._lost[1], lost.max(initial=0))
    return log_probs - mass[..., None] if self.renormalised else log_probs

  def closed(self, rows: TextRows, tokens: np.ndarray) -> np.ndarray:
    """[R] log-probability that the last tokens [R] have ended."""
    mass = _mass(rows.last[:, list(self.spelled.starts)].numpy())
    return np.where(self.spelled.open[tokens], mass, 0).astype(np.float32)

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.Predictor."""
    tokens, lengths = np.asarray(tokens), np.asarray(lengths)
    log_probs = np.zeros((*tokens.shape, self.vocab_size), np.float32)
    for part in core.predictor.chunks(len(tokens), 1, self.batch):
      # Spellings of several pieces need a model call between the pieces.
      read = self._stepwise if self.spelled.unfinished else self._at_once
      log_probs[part] = read(tokens[part], lengths[part])
    return log_probs

  def _at_once(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """A single pass, if every token is one piece."""
    # [V - 1] the only piece of each token.
    first = np.array([path[0] for path in self.spelled.paths[1:]])
    inside = np.arange(tokens.shape[1]) < lengths[:, None]
    longest, before = int(lengths.max(initial=1)), self.spelled.before
    head = np.broadcast_to(
      np.array(before, np.int64), (len(tokens), len(before))
    )
    tail = np.where(inside, np.concatenate([[0], first])[tokens], 0)
    pieces = np.concatenate([head, tail[:, :longest]], 1)
    (read,) = self.reader.all(pieces)
    log_probs = np.full((*tokens.shape, self.vocab_size), -np.inf, np.float32)
    log_probs[:, :longest, 1:] = read[:, len(before) :].numpy()[..., first]
    log_probs[inside] = self._counted(log_probs[inside])
    return log_probs

  def _stepwise(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    log_probs = np.zeros((*tokens.shape, self.vocab_size), np.float32)
    session = PieceSession(self, tokens[:, :1], np.ones(len(tokens), int), 1)
    for t in range(int(lengths.max(initial=0))):
      if t:
        inside = (t < lengths)[:, None]
        session.advance(np.where(inside, tokens[:, t : t + 1], core.DEAD))
      log_probs[:, t] = session.log_probs()[:, 0]
    return log_probs

  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> core.Session:
    """See core.Predictor."""
    return PieceSession(self, prefixes, lengths, num)

  @property
  def by_sequence(self) -> bool:  # type: ignore[override]
    """See core.Predictor; a large model has a cache that is cheaper."""
    return not self.spelled.unfinished and adapters.is_small(self.reader.model)

  def hidden(
    self, tokens: np.ndarray, lengths: np.ndarray, layer: int
  ) -> np.ndarray:
    """See core.HiddenStates; at the last piece of each token."""
    tokens, lengths = np.asarray(tokens), np.asarray(lengths)
    parts = []
    for part in core.predictor.chunks(len(tokens), 1, self.batch):
      pieces, _, ends = self.written(tokens[part], lengths[part])
      layers = self.reader.all(pieces, hidden=True)
      if not -len(layers) <= layer < len(layers):
        raise core.InputError(
          f'layer {layer} was asked for; expected -1..{len(layers) - 1}'
        )
      rows = torch.arange(len(ends))[:, None]
      parts.append(layers[layer][rows, torch.as_tensor(ends)].float().numpy())
    return np.concatenate(parts)

  def learn(
    self, draws: few_shot.Draws, task: adapting.TaskSpec
  ) -> few_shot.Predict:
    """See few_shot.TaskByTask: a new head on the last piece of each token."""

    def written(
      tokens: np.ndarray, places: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
      """Pieces, and the last piece of the token at each place."""
      pieces, _, ends = self.written(tokens, places.max(1, initial=0) + 1)
      return pieces, np.take_along_axis(ends, places, 1)

    def features(model: Any, ids: torch.Tensor) -> torch.Tensor:
      """Activations of the last layer."""
      reader = TextReader(model, self.reader.label, self.batch)
      outputs = reader.run(ids, use_cache=False, output_hidden_states=True)
      return outputs.hidden_states[-1]

    return few_shot.tune_torch(
      self.reader.model, features, written, draws, task
    )


def _mass(log_probs: np.ndarray) -> np.ndarray:
  """Log of the sum of probabilities [..., N], some of which may be 0."""
  most = np.maximum(log_probs.max(-1, keepdims=True), np.finfo(np.float32).min)
  with np.errstate(divide='ignore'):
    return np.log(np.exp(log_probs - most).sum(-1)) + most[..., 0]


class PieceSession(core.Session):
  """A session of B x M continuations that caches keys and values."""

  def __init__(
    self,
    predictor: PiecePredictor,
    prefixes: np.ndarray,
    lengths: np.ndarray,
    num: int,
  ) -> None:
    self._model, self._num = predictor, num
    self._rows, self._closing = self._read(prefixes, lengths)
    self._log_probs: np.ndarray | None = None

  def _read(
    self, prefixes: np.ndarray, lengths: np.ndarray
  ) -> tuple[TextRows, np.ndarray]:
    """Reads each prefix once per continuation: rows and closings."""
    prefixes, lengths = np.asarray(prefixes), np.asarray(lengths)
    core.predictor.check_prefixes(lengths)
    pieces, sizes, _ = self._model.written(prefixes, lengths)
    read = self._model.reader.read(pieces, sizes)
    last = prefixes[np.arange(len(prefixes)), lengths - 1]
    closing = self._model.closed(read, last)
    # Row b M + m is continuation m of prefix b.
    copies = torch.arange(len(lengths)).repeat_interleave(self._num)
    return read.taken(copies), np.repeat(closing, self._num)

  def log_probs(self) -> np.ndarray:
    """See core.Session."""
    if self._log_probs is None:
      parts = []
      for rows in core.predictor.chunks(
        len(self._closing), 1, self._model.batch
      ):
        texts = self._rows.taken(rows)
        parts.append(self._model.next_tokens(texts, self._closing[rows]))
      log_probs = np.concatenate(parts)
      self._log_probs = log_probs.reshape(-1, self._num, log_probs.shape[-1])
    return self._log_probs

  def advance(self, tokens: np.ndarray) -> None:
    """See core.Session."""
    flat = np.asarray(tokens).reshape(-1)
    moved = flat != core.DEAD
    # Continuations that stay read 0 pieces: their row is unchanged.
    pieces, sizes, _ = self._model.written(
      np.maximum(flat, 0)[:, None], moved.astype(int), opened=False
    )
    self._rows = self._model.reader.read(pieces, sizes, self._rows)
    # Continuations that stay keep the closing of their last token.
    closing = self._model.closed(self._rows, np.maximum(flat, 0))
    self._closing = np.where(moved, closing, self._closing)
    self._log_probs = None

  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """See core.Session."""
    read, closing = self._read(prefixes, lengths)
    at = np.asarray(rows)[:, None] * self._num + np.arange(self._num)
    at = at.reshape(-1)
    self._rows = self._rows.replaced(torch.as_tensor(at), read)
    self._closing[at] = closing
    self._log_probs = None
