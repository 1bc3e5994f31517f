"""N-gram model: counts of the last `order` tokens, interpolated downwards.

A baseline whose state is only its last tokens: success of this baseline needs
no world model.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable
from typing import ClassVar

import numpy as np
import scipy

from wm import core
from wm.core import inputs
from wm.core.fields import field
from wm.models.serving import oracles, process
from wm.runtime import files

Path = pathlib.Path


@dataclasses.dataclass(frozen=True)
class Model(core.Fittable):
  """Counts of grams of up to `order` tokens, interpolated.

  p_k(w | h) = (c(h, w) + a p_{k-1}(w | h')) / (c(h) + a), from k = 1, where
  h is the last k - 1 tokens, h' the same without its first, c counts in the
  training set, and p_0 is uniform over all tokens but padding. After an unseen
  context, p_k = p_{k-1}. The first token of a sequence is never predicted.

  Attributes:
    order: tokens in the longest gram, its last one predicted.
    smoothing: a, the pseudo-count of the prior; 0 is maximum likelihood.
    legal: give the model the rules: p is restricted to the legal tokens of the
      true state and renormalised. For data without a known distribution, such
      as human games, its loss is an upper bound of the Bayes loss.
  """

  gives: ClassVar[tuple[type, ...]] = (process.TablePredictor,)

  order: int = field(3, least=1)
  smoothing: float = field(0.1, least=0)
  legal: bool = False

  def predictor(self, world: core.World, seed: int) -> NgramPredictor:
    """The model before any data: uniform."""
    del seed
    none = np.zeros(0, np.int64)
    return self._counted(world, none, none)

  def _counted(
    self, world: core.World, grams: np.ndarray, counts: np.ndarray
  ) -> NgramPredictor:
    size = len(world.vocab)
    # Without the rules; `LegalNgram` restricts this model.
    ngram = Ngram(self, size, world.end, world.max_len, grams, counts)
    return LegalNgram(world, ngram) if self.legal else ngram

  def fit(
    self, data: Iterable[core.Sequences], world: core.World
  ) -> NgramPredictor:
    """Counts the grams of sequences, one batch at a time."""
    size = len(world.vocab)
    # A gram is a number in base V, its last token the lowest digit:
    #   tokens a b c  ->  (a V + b) V + c
    grams = counts = np.zeros(0, np.int64)
    for part in data:
      keys = _grams(part, _power(size, self.order), size)
      new, number = np.unique(keys, return_counts=True)
      grams, counts = _sums(
        np.concatenate([grams, new]), np.concatenate([counts, number])
      )
    return self._counted(world, grams, counts)

  def size(self, predictor: NgramPredictor) -> int:
    """Distinct grams that were counted."""
    return predictor.counts.size

  def save(self, predictor: NgramPredictor, path: str | Path) -> None:
    """Writes an .npz file atomically."""
    with files.replacing(path) as name, name.open('wb') as file:
      np.savez(
        file,
        order=np.int64(self.order),
        vocab_size=np.int64(predictor.vocab_size),
        grams=predictor.grams,
        counts=predictor.counts,
      )

  def load(self, path: str | Path, world: core.World) -> NgramPredictor:
    """Reads what `save` wrote.

    Raises:
      InputError: no such file, a damaged one, or one of another spec or
        vocabulary.
    """
    arrays = _read(Path(path))
    size = len(world.vocab)
    expected = {'order': self.order, 'vocab_size': size}
    for key, value in expected.items():
      if int(arrays[key]) != value:
        raise core.InputError(
          f'{path} does not fit this model and world: its {key} is '
          f'{int(arrays[key])}, not {value}'
        )
    return self._counted(world, arrays['grams'], arrays['counts'])


def _read(path: Path) -> dict[str, np.ndarray]:
  names = ('order', 'vocab_size', 'grams', 'counts')
  with (
    inputs.reading_file(path, 'an n-gram model') as file,
    np.load(file) as archive,
  ):
    arrays = {name: archive[name] for name in names}
    shapes = [(array.shape, array.dtype.kind) for array in arrays.values()]
    if (
      shapes[:2] != [((), 'i')] * 2
      or shapes[2:] != [((arrays['grams'].size,), 'i')] * 2
    ):
      raise ValueError(f'its arrays are {shapes}')
    return arrays


def _power(size: int, order: int) -> int:
  """size ** order; raises InputError if a gram does not fit an int64."""
  longest = 1
  while size ** (longest + 1) < 2**63:
    longest += 1
  if order > longest:
    raise core.InputError(
      f'ngram(order={order}) with {size} tokens: expected order <= {longest}'
    )
  return size**order


def _grams(part: core.Sequences, power: int, size: int) -> np.ndarray:
  """[G] int64 gram of every predicted token; PAD precedes the first token."""
  # [N] the last `order` tokens of each row; the modulus drops older tokens.
  key = np.zeros(len(part), np.int64)
  # Order 3, V = 10, row 7 4 5:    t      key    counted
  #                                0        7    no: never predicted
  #                                1       74    yes, PAD before it
  #                                2      745    yes
  grams = [np.zeros(0, np.int64)]
  for t in range(part.tokens.shape[1]):
    key = (key * size + part.tokens[:, t]) % power
    if t:
      grams.append(key[t < part.lengths])
  return np.concatenate(grams)


def _sums(
  keys: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Distinct keys, ascending, and the sum of counts of each."""
  unique, place = np.unique(keys, return_inverse=True)
  total = np.zeros(len(unique), np.int64)
  np.add.at(total, place, counts)
  return unique, total


@dataclasses.dataclass(frozen=True, eq=False)
class _GramCounts:
  """Counts of one gram length, by context.

  contexts: [C] int64, ascending. counts: [C, V], sparse. totals: [C].
  """

  contexts: np.ndarray
  counts: scipy.sparse.csr_array
  totals: np.ndarray

  @classmethod
  def make(
    cls, grams: np.ndarray, counts: np.ndarray, size: int
  ) -> _GramCounts:
    """The table of grams [G] of one length and their counts."""
    # gram = context V + token: grams ascend, so each context's are neighbours
    # and the CSR table needs no sorting.
    contexts, tokens = np.divmod(grams, size)
    first = np.flatnonzero(np.diff(contexts, prepend=-1))
    starts = np.append(first, len(grams))
    table = scipy.sparse.csr_array((counts, tokens, starts), (len(first), size))
    return cls(contexts[first], table, table.sum(1))

  def update(self, probs: np.ndarray, keys: np.ndarray, a: float) -> None:
    """Sets rows of seen contexts to (c(h, w) + a p(w)) / (c(h) + a)."""
    if not len(self.contexts):
      return
    # Unseen contexts keep the probabilities of a shorter context.
    place = np.searchsorted(self.contexts, keys)
    place = np.minimum(place, len(self.contexts) - 1)
    rows = np.flatnonzero(self.contexts[place] == keys)
    place = place[rows]
    # [rows, V]: dense only for the queried contexts.
    seen = a * probs[rows] + self.counts[place].toarray()
    # c(h) counts what follows the context: the row sums of the table.
    probs[rows] = seen / (self.totals[place] + a)[:, None]


class Ngram(process.TablePredictor):
  """A fitted n-gram model.

  Attributes:
    model: its spec.
    grams: [G] int64, distinct grams as numbers in base V, last token lowest.
    counts: [G] int64.
  """

  def __init__(
    self,
    model: Model,
    vocab_size: int,
    end: int,
    max_len: int,
    grams: np.ndarray,
    counts: np.ndarray,
  ) -> None:
    self.model, self.vocab_size = model, vocab_size
    self.end, self.max_len = end, max_len
    self.grams, self.counts = grams, counts
    # V^(order - 1): a context is the last order - 1 tokens.
    self._modulus = _power(vocab_size, model.order) // vocab_size
    self._levels = [
      # The last k tokens of each gram; counts of equal short grams add up.
      _GramCounts.make(*_sums(grams % vocab_size**k, counts), vocab_size)
      for k in range(1, model.order + 1)
    ]

  def init(self, batch: int) -> np.ndarray:
    """[batch, 1] the last order - 1 tokens as a number, initially PAD."""
    return np.zeros((batch, 1), np.int64)

  def advance(self, contexts: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.SequenceProcess."""
    return (contexts * self.vocab_size + tokens[:, None]) % self._modulus

  def next(self, contexts: np.ndarray) -> process.NextTokens:
    """See core.SequenceProcess; every token is listed."""
    size, a = self.vocab_size, self.model.smoothing
    uniform = np.full(size, 1 / max(size - 1, 1))
    uniform[core.PAD] = 0
    probs = np.tile(uniform, (len(contexts), 1))
    # Level k has contexts of k tokens: context mod V^k is its key.
    for k, level in enumerate(self._levels):
      level.update(probs, contexts[:, 0] % size**k, a)
    # Smoothing 0 leaves zeros, whose logarithm is -inf: impossible tokens.
    with np.errstate(divide='ignore'):
      return process.all_tokens(np.log(probs).astype(np.float32))

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.Predictor; equal contexts are looked up once."""
    del lengths
    # steps [B, L]: contexts after each token, most of which repeat.
    context, steps = self.init(len(tokens)), np.zeros(tokens.shape, np.int64)
    for t in range(tokens.shape[1]):
      context = self.advance(context, tokens[:, t])
      steps[:, t] = context[:, 0]
    options, index = self.lookup(steps.reshape(-1, 1))
    return options.log_probs[index.reshape(steps.shape)]


class LegalNgram(oracles.WorldPredictor):
  """A fitted n-gram model restricted to the legal tokens of the true state.

  Attributes:
    ngram: the model without the rules.
    grams, counts, vocab_size: see Ngram.
  """

  # The history beside the state: the last order - 1 tokens, a number in base V.
  many_states = True

  def __init__(self, world: core.World, ngram: Ngram) -> None:
    super().__init__(world)
    self.ngram = ngram
    self.grams, self.counts = ngram.grams, ngram.counts

  def recall(self, history: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See WorldPredictor: [R] uint64 last order - 1 tokens as a number."""
    contexts = history.astype(np.int64)[:, None]
    return self.ngram.advance(contexts, tokens)[:, 0].astype(np.uint64)

  def support(
    self, states: np.ndarray, history: np.ndarray
  ) -> process.NextTokens:
    """See WorldPredictor; uniform where legal tokens have no mass."""
    # legal, probs [R, V]. Legal tokens share the mass of illegal tokens in
    # proportion, or are uniform where they have no mass.
    legal = self.world.legal(states)
    options = self.ngram.next(history.astype(np.int64)[:, None])
    probs = np.where(legal, np.exp(options.log_probs), 0)
    total = probs.sum(-1, keepdims=True, dtype=np.float64)
    probs = np.where(total > 0, probs, legal)
    # Dead and finished states have no legal token: 0 / 1e-300, not 0 / 0.
    total = np.maximum(probs.sum(-1, keepdims=True, dtype=np.float64), 1e-300)
    with np.errstate(divide='ignore'):
      return process.all_tokens(np.log(probs / total).astype(np.float32))


NgramPredictor = Ngram | LegalNgram
