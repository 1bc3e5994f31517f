"""Worlds' tokens spelled in the pieces of a language model's tokenizer.

A world's token is one piece or several. Of several, the probability is the
product along the pieces. A spelling may begin another, as '1' begins '10': such
a token is only over when the next piece begins another token, so that
probability is a factor too, and the next token is conditioned on it. The
probabilities of sequences then multiply up to those of their pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch

from wm import core
from wm.models.serving import tiles
from wm.models.serving.causal import Reader, Rows

Path = tuple[int, ...]


class Spelling(NamedTuple):
  """How tokens are spelled.

  Attributes:
    paths: [V] the pieces of each token; () of the padding token.
    before: pieces in front of every sequence.
    starts: the first pieces of all tokens, ascending.
    unfinished: proper beginnings of spellings, the shortest first.
    open: [V] bool: the spelling begins another one.
  """

  paths: tuple[Path, ...]
  before: Path
  starts: tuple[int, ...]
  unfinished: tuple[Path, ...]
  open: np.ndarray


def spelling(
  vocab: Sequence[str], pieces: Mapping[str, Path], before: Path
) -> Spelling:
  """Spellings of a vocabulary whose id 0 is padding.

  Raises:
    InputError: two tokens are spelled alike, or it is not clear where one
      ends: what goes on from it in a longer spelling also begins a token.
  """
  paths = ((), *(pieces[word] for word in vocab[1:]))
  owner: dict[Path, str] = {}
  for word, path in zip(vocab[1:], paths[1:], strict=True):
    if path in owner:
      raise core.InputError(
        f'huggingface: tokens {owner[path]!r} and {word!r} are spelled alike, '
        f'by pieces {list(path)}'
      )
    owner[path] = word
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
  return Spelling(
    paths,
    before,
    tuple(sorted(starts)),
    tuple(sorted(unfinished, key=lambda path: (len(path), path))),
    np.array([path in unfinished for path in paths]),
  )


class Leak:
  """How much probability went to pieces that spell no token."""

  def __init__(self) -> None:
    self.total, self.most, self.places = 0.0, 0.0, 0

  def add(self, log_mass: np.ndarray) -> None:
    """log_mass: [N] log of the mass on all tokens, at N places."""
    lost = 1 - np.exp(np.minimum(log_mass.astype(np.float64), 0))
    self.total += float(lost.sum())
    self.most = max(self.most, float(lost.max(initial=0)))
    self.places += len(lost)


class PiecePredictor(core.Predictor, core.HiddenStates):
  """Next-token probabilities of a language model for a world's tokens."""

  def __init__(
    self,
    reader: Reader,
    spelled: Spelling,
    *,
    end: int,
    max_len: int,
    renormalised: bool,
    batch: int,
    remarks: tuple[str, ...] = (),
  ) -> None:
    """Takes what `Spelling`, `Reader` and `core.Predictor` say.

    batch: texts that the model reads at once; remarks: on how it was loaded.
    """
    self.vocab_size, self.end, self.max_len = len(spelled.paths), end, max_len
    self.reader, self.spelled, self.batch = reader, spelled, batch
    self.renormalised, self.leak = renormalised, Leak()
    self._remarks = list(remarks)

  def diagnostics(self) -> list[str]:
    """See core.TokenReader."""
    if not self.leak.places:
      return self._remarks
    mean = self.leak.total / self.leak.places
    done = 'renormalised' if self.renormalised else 'left out'
    return [
      *self._remarks,
      f'{mean:.3g} of the probability went to no token of the world on average '
      f'({self.leak.most:.3g} at most, at {self.leak.places} places); {done}',
    ]

  def written(
    self, tokens: np.ndarray, lengths: np.ndarray, opened: bool = True
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pieces [R, K] of tokens [R, L], their lengths [R], and ends [R, L].

    ends: place of each token's last piece; 0 past a row's length.
    opened: begin with what is in front of every sequence.
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
    found = np.zeros((len(rows), max(1, sizes.max(initial=0))), np.int64)
    for n, pieces in enumerate(rows):
      found[n, : len(pieces)] = pieces
    return found, sizes, ends

  def next_tokens(self, rows: Rows, closing: np.ndarray) -> np.ndarray:
    """[R, V] log-probabilities of the next token, in nats.

    closing: [R] log-probability that the last token was over, 0 where its
      spelling begins no other.
    """
    spelled, after = self.spelled, dict[Path, Rows]({(): rows})
    found = np.full((len(closing), self.vocab_size), -np.inf, np.float32)
    one = np.ones(len(closing), np.int64)
    # The shortest first, so that what a beginning begins with is there.
    for path in spelled.unfinished:
      pieces = np.full((len(one), 1), path[-1])
      after[path] = self.reader.read(pieces, one, after[path[:-1]])
    at = {path: some.last.numpy() for path, some in after.items()}
    for token, path in enumerate(spelled.paths):
      if path:
        # log p(w) = sum over its pieces, less what was paid for the last token
        # being over; and, if w may go on as another token, that w is over.
        steps = [at[path[:n]][:, piece] for n, piece in enumerate(path)]
        found[:, token] = sum(steps) - closing
        if spelled.open[token]:
          found[:, token] += _mass(at[path][:, list(spelled.starts)])
    return self._counted(found)

  def _counted(self, log_probs: np.ndarray) -> np.ndarray:
    """Log-probabilities [..., V] as they are given; what leaks is counted."""
    mass = _mass(log_probs)
    self.leak.add(mass.reshape(-1))
    return log_probs - mass[..., None] if self.renormalised else log_probs

  def closed(self, rows: Rows, tokens: np.ndarray) -> np.ndarray:
    """[R] log-probability that the last tokens [R] are over."""
    mass = _mass(rows.last[:, list(self.spelled.starts)].numpy())
    return np.where(self.spelled.open[tokens], mass, 0).astype(np.float32)

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.Predictor."""
    tokens, lengths = np.asarray(tokens), np.asarray(lengths)
    found = np.zeros((*tokens.shape, self.vocab_size), np.float32)
    for some in core.chunks(len(tokens), 1, self.batch):
      read = self._stepwise if self.spelled.unfinished else self._at_once
      found[some] = read(tokens[some], lengths[some])
    return found

  def _at_once(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Where every token is one piece: a single pass."""
    pieces, _, ends = self.written(tokens, lengths)
    (read,) = self.reader.all(pieces)
    first = np.array([path[0] for path in self.spelled.paths[1:]])
    rows = np.arange(len(tokens))[:, None]
    found = np.full((*tokens.shape, self.vocab_size), -np.inf, np.float32)
    found[..., 1:] = read[rows, torch.as_tensor(ends)].numpy()[..., first]
    inside = np.arange(tokens.shape[1]) < lengths[:, None]
    found[inside] = self._counted(found[inside])
    return found

  def _stepwise(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    found = np.zeros((*tokens.shape, self.vocab_size), np.float32)
    session = PieceSession(self, tokens[:, :1], np.ones(len(tokens), int), 1)
    for t in range(int(lengths.max(initial=0))):
      if t:
        inside = (t < lengths)[:, None]
        session.advance(np.where(inside, tokens[:, t : t + 1], core.DEAD))
      found[:, t] = session.log_probs()[:, 0]
    return found

  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> core.Session:
    """See core.Predictor."""
    return PieceSession(self, prefixes, lengths, num)

  def hidden(
    self, tokens: np.ndarray, lengths: np.ndarray, layer: int
  ) -> np.ndarray:
    """See core.HiddenStates; at the last piece of each token."""
    tokens, lengths = np.asarray(tokens), np.asarray(lengths)
    parts = []
    for some in core.chunks(len(tokens), 1, self.batch):
      pieces, _, ends = self.written(tokens[some], lengths[some])
      layers = self.reader.all(pieces, hidden=True)
      if not -len(layers) <= layer < len(layers):
        raise core.InputError(
          f'layer {layer} was asked for; expected -1..{len(layers) - 1}'
        )
      rows = torch.arange(len(ends))[:, None]
      parts.append(layers[layer][rows, torch.as_tensor(ends)].float().numpy())
    return np.concatenate(parts)


def _mass(log_probs: np.ndarray) -> np.ndarray:
  """Log of the sum of probabilities [..., N], of which some may be 0."""
  return np.logaddexp.reduce(log_probs, -1)


class PieceSession(core.Session):
  """B x M continuations with their keys and values kept."""

  def __init__(
    self,
    predictor: PiecePredictor,
    prefixes: np.ndarray,
    lengths: np.ndarray,
    num: int,
  ) -> None:
    self._model, self._num = predictor, num
    self._rows, self._closing = self._read(prefixes, lengths)
    self._found: np.ndarray | None = None

  def _read(
    self, prefixes: np.ndarray, lengths: np.ndarray
  ) -> tuple[Rows, np.ndarray]:
    """The given prefixes, each once a continuation: rows and closings."""
    prefixes, lengths = np.asarray(prefixes), np.asarray(lengths)
    tiles.check_prefixes(lengths)
    pieces, sizes, _ = self._model.written(prefixes, lengths)
    read = self._model.reader.read(pieces, sizes)
    last = prefixes[np.arange(len(prefixes)), lengths - 1]
    closing = self._model.closed(read, last)
    copies = torch.arange(len(lengths)).repeat_interleave(self._num)
    return read.taken(copies), np.repeat(closing, self._num)

  def log_probs(self) -> np.ndarray:
    """See core.Session."""
    if self._found is None:
      parts = []
      for rows in core.chunks(len(self._closing), 1, self._model.batch):
        some = self._rows.taken(rows)
        parts.append(self._model.next_tokens(some, self._closing[rows]))
      found = np.concatenate(parts)
      self._found = found.reshape(-1, self._num, found.shape[-1])
    return self._found

  def advance(
    self, tokens: np.ndarray, parents: np.ndarray | None = None
  ) -> None:
    """See core.Session."""
    if parents is not None:
      batch = np.arange(len(parents))[:, None] * self._num
      rows = (batch + parents).reshape(-1)
      self._rows = self._rows.taken(torch.as_tensor(rows))
      self._closing = self._closing[rows]
    flat = np.asarray(tokens).reshape(-1)
    moved = flat != core.DEAD
    # Continuations that stay read 0 pieces: their row is as it was.
    pieces, sizes, _ = self._model.written(
      np.maximum(flat, 0)[:, None], moved.astype(int), opened=False
    )
    self._rows = self._model.reader.read(pieces, sizes, self._rows)
    closing = self._model.closed(self._rows, np.maximum(flat, 0))
    self._closing = np.where(moved, closing, self._closing)
    self._found = None

  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """See core.Session."""
    read, closing = self._read(prefixes, lengths)
    at = np.asarray(rows)[:, None] * self._num + np.arange(self._num)
    at = at.reshape(-1)
    self._rows = self._rows.replaced(torch.as_tensor(at), read)
    self._closing[at] = closing
    self._found = None
