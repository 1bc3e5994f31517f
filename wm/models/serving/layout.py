"""How a world's tokens become the input of a model, and its output logits.

    sequence          7   10    1
    input        67  45   12   33    `before`, then the model's id of each token
    logits        -   o    o    o    those of the next token after each token

`InputLayout` describes this, and `LaidOut` applies it to the methods of a
user's object, whatever the object returns: logits of all positions, or of the
last one alone, as many generating models do.

`compare` asks which layout a model was trained in. Of all layouts that it
tries, the right one has the least loss on sequences of the world.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import plugins
from wm.models.serving.adapters import METHODS, as_array, has, logits_of
from wm.models.serving.outputs import Outputs

BOS = '<bos>'  # Name of the id before sequences, in a table of tokens.
SEQUENCES = 32  # Sequences by which layouts are compared.
# A layout is better if its loss is lower by so many nats a token, and by so
# many standard errors of the difference.
MARGIN, ERRORS = 0.05, 4
LEARNED = 0.9  # Largest loss of a trained model, as a share of a uniform one's.
# Logits that are of the token just read, among losses by ids before sequences.
SHIFTED = (-1,)
FEW = 8  # Most ids of the model beyond the world's that are tried before.


@dataclasses.dataclass(frozen=True)
class InputLayout:
  """The ids that a model reads before a sequence, and its window.

  Attributes:
    before: the model's ids before every sequence, such as that of BOS.
    window: most ids that the model reads at once, `before` included: of longer
      inputs it reads the last ones. 0: it reads all.
  """

  before: tuple[int, ...] = ()
  window: int = 0

  def __post_init__(self) -> None:
    # `type`, not isinstance: True is no id.
    good = isinstance(self.before, tuple) and all(
      type(each) is int and each >= 0 for each in self.before
    )
    if not good:
      raise core.InputError(
        f'before={self.before!r}; expected a tuple of ids of the model, such '
        'as (50256,)'
      )
    if type(self.window) is not int or self.window < 0:
      raise core.InputError(
        f'window={self.window!r}; expected a number of ids, or 0 for all'
      )
    if self.window and self.window <= len(self.before):
      raise core.InputError(
        f'window={self.window} and {len(self.before)} ids before a sequence '
        'leave no room for it'
      )


PLAIN = InputLayout()


def sizes_differ(of_model: int, of_world: int) -> str:
  """Advice for a model with another number of tokens."""
  return (
    f'has {of_model} tokens, the world {of_world}: pass tokens=[...], the '
    "names of the model's tokens in its order"
  )


class LaidOut:
  """An object that reads and returns a world's tokens, from a user's.

  It has those methods of `adapters.METHODS` that the user's object has.

  Attributes:
    layout: see InputLayout.
    label: name of the model in errors.
    last_only: whether the object returns logits of the last position alone.
    size: tokens of its output, 0 until it was called.
  """

  def __init__(
    self,
    thing: Any,
    layout: InputLayout,
    ids: np.ndarray | None,
    label: str,
    outputs: Outputs,
  ) -> None:
    """Wraps an object; no code of it runs.

    Args:
      thing: methods of NumPy arrays, see `adapters.adapted`.
      layout: what it reads.
      ids: [V] the model's id of each token of the world; DEAD for padding
        without an id, which is read as 0 and impossible. None if ids are equal.
      label: name of the model in errors.
      outputs: collects statistics of the outputs of all ids.
    """
    self._thing, self.layout, self._ids = thing, layout, ids
    self.label, self._outputs = label, outputs
    self.last_only, self.size = False, 0
    # Capabilities are found by the methods that an object has.
    for name in METHODS:
      if has(thing, name):
        setattr(self, name, getattr(self, f'_{name}'))

  @property
  def matters(self) -> bool:
    """Whether the object cannot be called as it is."""
    return self.stepwise or self._ids is not None or self.layout.before != ()

  def candidates(self, vocab_size: int, end: int) -> list[int]:
    """Ids that the model may have been trained with before sequences.

    They are its ids beyond the world's tokens, if these are few, padding and
    the end of sequences.
    """
    ids = np.arange(vocab_size) if self._ids is None else self._ids
    taken = {*ids.tolist()}
    # Such as a BOS that the world does not have.
    spare = [each for each in range(self.size) if each not in taken]
    ends = [int(ids[each]) for each in (core.PAD, end) if each != core.DEAD]
    spare = spare if len(spare) <= FEW else []
    return [each for each in dict.fromkeys((*ends, *spare)) if each >= 0]

  @property
  def stepwise(self) -> bool:
    """Whether positions are asked about one by one."""
    return self.last_only or self.layout.window > 0

  def ids(self, tokens: np.ndarray) -> np.ndarray:
    """[..., P + L] int32 input of the model, of the world's tokens [..., L]."""
    tokens = np.asarray(tokens)
    if self._ids is not None:
      tokens = np.maximum(self._ids, 0)[tokens]
    if before := self.layout.before:
      head = np.broadcast_to(before, (*tokens.shape[:-1], len(before)))
      tokens = np.concatenate([head, tokens], -1)
    return tokens.astype(np.int32)

  def places(self, places: np.ndarray) -> np.ndarray:
    """Places of a sequence in the input; DEAD stays."""
    moved = places + len(self.layout.before)
    return np.where(places == core.DEAD, core.DEAD, moved)

  def num_ids(self, vocab_size: int) -> int:
    """One more than the largest id that the model may read."""
    ids = [vocab_size - 1] if self._ids is None else self._ids.tolist()
    return max([*ids, *self.layout.before]) + 1

  def probe(self, tokens: np.ndarray, vocab_size: int) -> None:
    """Finds out of which positions the object returns logits.

    An object that fails here is refused later, with the reason; InputError if
    it fails at ids that it does not have.

    tokens: [R, L] of the world, L > 1. vocab_size: V.
    """
    # A window of 0 cuts nothing: x[:, -0:] is all of x.
    ids = self.ids(tokens)[:, -self.layout.window :]
    if (shape := self._shape(ids)) is None:
      other = self._shape(np.zeros_like(ids)) or (vocab_size,)
      if other[-1] < vocab_size and self._ids is None:
        raise core.InputError(
          f'{self.label} {sizes_differ(other[-1], vocab_size)}'
        )
      return
    if len(shape) in (2, 3) and shape[0] == len(ids):
      fits = shape[-1] == vocab_size
      if self._ids is not None:
        fits = shape[-1] > self._ids.max()
      # [R, V], or [R, 1, V] for inputs of more than one token.
      alone = len(shape) == 2 or shape[1] == 1 < ids.shape[1]
      self.last_only = bool(fits and alone)
      self.size = shape[-1]

  def _shape(self, ids: np.ndarray) -> tuple[int, ...] | None:
    """Shape of the logits after ids [R, K]; None if the object fails."""
    try:
      with plugins.user_code(self.label), np.errstate(all='ignore'):
        return as_array(logits_of(self._thing(ids), len(ids))).shape
    except core.InputError:
      return None

  def check_last(self, tokens: np.ndarray) -> None:
    """Raises InputError for one row of logits that is not of the last token.

    Sequences are changed at their last token, and at their first one: logits of
    the first position would depend on the first one alone.

    tokens: [R, L] of the world.
    """
    if not self.last_only or tokens.shape[1] < 2:
      return
    ids = self.ids(tokens)
    # The sequences of other rows: tokens that the model knows.
    last, first = ids.copy(), ids.copy()
    last[:, -1] = np.roll(ids[:, -1], 1)
    start = len(self.layout.before)
    first[:, start] = np.roll(ids[:, start], 1)
    with plugins.user_code(self.label):
      plain, other_last, other_first = map(self._last, (ids, last, first))
    reads_last = not np.array_equal(plain, other_last)
    if not reads_last and not np.array_equal(plain, other_first):
      raise core.InputError(
        f'{self.label} gives a row of logits for each sequence, which depends '
        'on its first token and not on its last one; expected floats of shape '
        '[rows, length, vocabulary], or those after the last token'
      )

  def describe(self) -> str:
    """The layout in words."""
    before, window = self.layout.before, self.layout.window
    return ', '.join(
      [
        'reads [rows, length]',
        'gives logits of the last position alone'
        if self.last_only
        else 'gives logits of all positions',
        f'{" ".join(map(str, before))} before each sequence'
        if before
        else 'nothing before a sequence',
        *([f'the last {window} ids'] if window else []),
      ]
    )

  def last(self, tokens: np.ndarray) -> np.ndarray:
    """[R, V] logits after sequences [R, L] without padding."""
    ids = self.ids(tokens)[:, -self.layout.window :]
    return self._of_world(self._last(ids), np.ones(len(ids), bool))

  def _last(self, ids: np.ndarray) -> np.ndarray:
    """[R, V'] logits after ids [R, K]."""
    values = as_array(logits_of(self._thing(ids), len(ids)))
    return values[:, -1] if values.ndim == 3 else values

  def _whole(self, tokens: np.ndarray) -> np.ndarray:
    ids, num = self.ids(tokens), len(self.layout.before)
    used = np.asarray(tokens) != core.PAD
    window = self.layout.window or ids.shape[1]
    # window 4, one id before:   b 7 10 1 | 12 33
    #   the first call           b 7 10 1            positions 0, 1, 2
    #   a call for each other      7 10 1 12, 10 1 12 33
    parts, first = [], 0
    if not self.last_only:
      head = ids[:, :window]
      values = as_array(logits_of(self._thing(head), len(ids)))
      if values.shape[:2] != head.shape:
        return values  # Refused by the caller, who knows what is expected.
      parts, first = [values[:, num:]], window - num
    # The other positions are the last ones of calls of their own. Padding is
    # not asked about: no world's sequence has any.
    size = max(int(np.flatnonzero(used.any(0)).max(initial=0)) + 1, first)
    parts += [
      self._last(ids[:, max(end - window, 0) : end])[:, None]
      for end in range(num + first + 1, num + size + 1)
    ]
    missing = ((0, 0), (0, ids.shape[1] - num - size), (0, 0))
    values = np.pad(np.concatenate(parts, 1), missing)
    return self._of_world(values, used)

  def _of_world(self, values: np.ndarray, used: np.ndarray) -> np.ndarray:
    """[..., V] logits of the world's tokens, from [..., V'] of the model's.

    Logits of other ids are dropped; probabilities of the rest add up to 1.

    used: [...] bool, False at padding.
    """
    ids = self._ids
    self.size = values.shape[-1] if values.ndim else 0
    if ids is None:
      return values
    if (large := ids[ids >= self.size]).size:
      raise core.InputError(
        f'{self.label} gives logits of {self.size} tokens; tokens= has the id '
        f'{large[0]}'
      )
    if values.shape[:-1] == used.shape and values.dtype.kind in 'fiu':
      self._outputs.see(values[used])
      self._outputs.count_ids(values[used])
    chosen = values[..., np.maximum(ids, 0)]
    chosen = chosen.astype(np.result_type(values, np.float32))
    chosen[..., ids < 0] = -np.inf
    return chosen

  def _hidden(self, tokens: np.ndarray, layer: int) -> Any:
    # Activations before the sequence belong to no token of the world.
    values = as_array(self._thing.hidden(self.ids(tokens), layer))
    return values[:, len(self.layout.before) :]

  def _patched(self, tokens: np.ndarray, layer: int, hidden: Any) -> np.ndarray:
    ids, num = self.ids(tokens), len(self.layout.before)
    if num:
      # What precedes the sequence keeps its own activations.
      whole = np.array(as_array(self._thing.hidden(ids, layer)))
      whole[:, num:] = hidden
      hidden = whole
    values = as_array(logits_of(self._thing.patched(ids, layer, hidden)))
    return self._of_world(values[:, num:], np.asarray(tokens) != core.PAD)

  def _start(self, tokens: np.ndarray, lengths: np.ndarray) -> Any:
    # Lengths count what is before a sequence, as the model reads it.
    after = np.asarray(lengths) + len(self.layout.before)
    states, values = self._thing.start(self.ids(tokens), after.astype(np.int32))
    return states, self._of_world(as_array(values), np.ones(len(after), bool))

  def _step(self, states: Any, tokens: np.ndarray) -> Any:
    ids = np.asarray(tokens)
    if self._ids is not None:
      ids = np.maximum(self._ids, 0)[ids]
    states, values = self._thing.step(states, ids.astype(np.int32))
    return states, self._of_world(as_array(values), np.ones(len(ids), bool))

  def _answers(
    self, prefixes: Sequence[tuple], suffixes: Sequence[tuple]
  ) -> Any:
    def sent(texts: Sequence[tuple]) -> list[tuple]:
      if self._ids is None:
        return list(texts)
      read = np.maximum(self._ids, 0)
      return [tuple(read[list(text)].tolist()) for text in texts]

    # A suffix goes on from its prefix, and has nothing before it.
    heads = [(*self.layout.before, *prefix) for prefix in sent(prefixes)]
    return self._thing.answers(heads, sent(suffixes))


class CalledLaidOut(LaidOut):
  """As LaidOut, of an object that can be called."""

  def __call__(self, tokens: np.ndarray) -> np.ndarray:
    """[R, L, V] logits after each of the tokens [R, L]."""
    return self._whole(tokens)


def probing(world: core.World, rows: int, most: int) -> np.ndarray:
  """[rows, L] tokens of sequences to ask a model with, L of at most `most`."""
  # Few worlds have fewer sequences than a call has rows: some come twice.
  tokens = world.sample(rows, 0).tokens
  if not len(tokens):
    tokens = np.ones((1, 2), np.int32)
  length = min(int(np.clip(tokens.shape[1], 2, 16)), most)
  return np.resize(tokens[:, :length], (rows, length))


def with_bos(
  layout: InputLayout,
  table: Mapping[str, Any],
  vocab: Iterable[str],
  label: str,
) -> InputLayout:
  """The layout with the id that a table of tokens calls <bos>, if it has one.

  Raises InputError where `before` says otherwise.
  """
  if BOS not in table or BOS in vocab:
    return layout
  value = table[BOS]
  before = tuple(value) if isinstance(value, list | tuple) else (value,)
  if layout.before not in ((), before):
    raise core.InputError(
      f'{label}: before={layout.before} and {BOS} of tokens= is {value}; '
      'expected one of the two'
    )
  return dataclasses.replace(layout, before=before)


class LayoutLosses(NamedTuple):
  """The layout in which a model was trained, by its loss.

  Attributes:
    line: the losses in words.
    cautions: a warning if another layout than the chosen one is better.
  """

  line: str
  cautions: tuple[str, ...]


NOTHING = LayoutLosses('', ())
# Ids before a sequence -> predictor that reads sequences so.
Reader = Callable[[tuple[int, ...]], core.Predictor]


def compare(
  reader: Reader,
  world: core.World,
  chosen: tuple[int, ...],
  candidates: Iterable[tuple[int, ...]],
  flag: Callable[[tuple[int, ...]], str],
  num: int = SEQUENCES,
) -> LayoutLosses:
  """Compares ids before sequences by the loss on sequences of the world.

  Losses are of the tokens after the prompt, in nats. Those of a model that was
  not trained differ little, and give no caution.

  Args:
    reader: makes a predictor of a layout.
    world: samples the sequences.
    chosen: ids that are used.
    candidates: other ids to try.
    flag: how a user chooses these ids.
    num: number of sequences.
  """
  # Nothing, and twice what is chosen: what people most often get wrong.
  several = dict.fromkeys((chosen, (), (*chosen, *chosen), *candidates))
  if not (losses := _losses(reader, world, several, num)):
    return NOTHING
  mean = {key: float(each.mean()) for key, each in losses.items()}
  names = {key: f'with {_named(key)}' for key in several} | {
    SHIFTED: 'if its logits are of the token just read'
  }
  shown = '; '.join(
    f'{mean[key]:.3g} {text}'
    for key, text in names.items()
    if key in mean and key != chosen
  )
  line = (
    f'{mean[chosen]:.3g} nats a token with {_named(chosen)} before a sequence '
    f'({shown})'
  )
  # Logits one off are refused by evidence of their own, see `wm.models.user`.
  best = min(losses.keys() - {SHIFTED}, key=lambda key: mean[key])
  gain = losses[chosen] - losses[best]
  # The same tokens in both layouts: their differences are compared.
  error = gain.std() / np.sqrt(len(gain))
  # What was not trained prefers a layout by chance, and knows no token.
  untrained = mean[best] > LEARNED * np.log(len(world.vocab) - 1)
  if untrained or gain.mean() <= max(MARGIN, ERRORS * error):
    return LayoutLosses(line, ())
  return LayoutLosses(
    line,
    (
      f'has {mean[chosen]:.3g} nats a token with {_named(chosen)} before a '
      f'sequence, and {mean[best]:.3g} {names[best]}: it was trained so; give '
      f'{flag(best)}',
    ),
  )


def _named(before: tuple[int, ...]) -> str:
  noun = 'id' if len(before) == 1 else 'ids'
  return f'{noun} {" ".join(map(str, before))}' if before else 'nothing'


def _losses(
  reader: Reader,
  world: core.World,
  layouts: Iterable[tuple[int, ...]],
  num: int,
) -> dict[tuple[int, ...], np.ndarray]:
  """Layout -> [N] nats a token of each sequence; {} if there are none.

  SHIFTED has the first layout's, if logits are of the token just read. A layout
  in which the model fails, as its input is too long, is left out.
  """
  sequences = world.sample(num, 2)
  predictors = {}
  for before in layouts:
    with contextlib.suppress(core.InputError):  # No room in its window, say.
      predictors[before] = reader(before)
  # All are asked about the same tokens, so that their losses can be compared.
  length = min(each.max_len for each in predictors.values())
  length = min(length, sequences.tokens.shape[1])
  tokens = sequences.tokens[:, :length]
  sizes = np.minimum(sequences.lengths, length)
  # A prompt is not predicted, and the first token has no prediction.
  at = np.arange(1, length)
  scored = (at >= max(world.prompt_len, 1)) & (at < sizes[:, None])
  rows = np.flatnonzero(scored.any(1))
  if not len(rows):
    return {}
  tokens, sizes, scored = tokens[rows], sizes[rows], scored[rows]

  def nats(log_probs: np.ndarray) -> np.ndarray:
    """[N] from log-probabilities [N, L - 1, V] of all tokens but the first."""
    picked = np.take_along_axis(log_probs, tokens[:, 1:, None], 2)[..., 0]
    # One impossible token must not decide.
    lost = -np.where(scored, np.maximum(picked, np.log(1e-6)), 0)
    return lost.sum(1) / scored.sum(1)

  losses: dict[tuple[int, ...], np.ndarray] = {}
  for before, predictor in predictors.items():
    try:
      log_probs = np.asarray(predictor.log_probs(tokens, sizes))
    except core.InputError:  # Too long for the model, say.
      continue
    if not losses:
      losses[SHIFTED] = nats(log_probs[:, 1:])
    losses[before] = nats(log_probs[:, :-1])
  return losses if next(iter(predictors)) in losses else {}
