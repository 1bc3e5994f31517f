"""A user's own model: a function from tokens to logits, or an object.

Methods of an object are listed in `wm.models.serving.user_objects`: logits,
activations, a cache, or yes-or-no answers.

Checks: a function predicts the next token only from earlier tokens
(`wm.core.contract`), at the shortest and the longest input of scoring; it
returns logits, and not those of the last input token. Activations and
continuations are checked likewise. The checks are samples: a model that passes
may still be wrong.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import os
import pathlib
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from wm import core
from wm.core import contract, inputs, plugins, registry, resources
from wm.core.fields import field
from wm.models.serving import (
  adapters,
  few_shot,
  module_cache,
  outputs,
  reasked,
  stateless,
  user_objects,
)
from wm.models.serving import layout as layouts
from wm.models.serving.layout import PLAIN, InputLayout

# Evidence of a shift: mean probability of the token just read, and the minimum
# number of positions.
SURE, LEAST_PLACES = 0.9, 32
# Or the advantage of that token over the next one, in nats (models fitted to
# predict t + 1 from t - 1 reach 0.11 on the built-in worlds, shifted bigrams
# 0.28 to 1.3), in standard errors, and the minimum numbers of sequences and
# positions.
ADVANTAGE, DEVIATIONS, MANY, MANY_PLACES = 0.25, 6, 128, 24


def check(
  predictor: core.Predictor,
  world: core.World,
  label: str,
  *,
  tolerance: float = contract.TOLERANCE,
  copies: bool = False,
) -> None:
  """Raises InputError, with the evidence, where a check fails.

  `predictor.contract` records the passed checks.

  Args:
    predictor: written by a user.
    world: its sequences are the inputs.
    label: name of the model in errors.
    tolerance: largest permitted difference of log-probabilities, in nats, times
      the largest absolute logit where that is above 1.
    copies: True if the model may legitimately predict the last input token.
  """
  if predictor.vocab_size != len(world.vocab):
    return  # Metrics report the missing interface.
  if not tolerance > 0:
    raise core.InputError(
      f'{label}: tolerance={tolerance} was given; expected nats, above 0'
    )
  checked = ('logits',)
  predictor.contract = contract.Contract(checked, max(tolerance, DRIFT))
  sequences = world.sample(contract.ROWS, 0)
  if not len(sequences):
    return
  # The shortest and the longest padded length of scoring: some models read
  # padding only where there is much padding.
  longest, rows = min(predictor.max_len, world.max_len), contract.ROWS
  sizes = {min(user_objects.MULTIPLE, longest), longest}
  ask = functools.partial(_by_log_probs, predictor, tolerance)
  if isinstance(predictor, user_objects.FromCallable):
    rows = predictor.rows
    sizes = {predictor.padded(1), predictor.padded(longest)}
    outputs.check_sizes(
      predictor.logits, rows, sorted(sizes), predictor.vocab_size, label
    )
    ask = functools.partial(_by_logits, predictor, tolerance)
  lengths = tuple(sorted(sizes))
  whole = contract.Invariances(ask, rows, lengths, predictor.vocab_size, label)
  question, answer = whole.check(sequences)
  # Outputs that identify the model if its files are not declared.
  likely = np.exp(answer.values[: contract.ROWS, -1].max(-1))
  predictor.contract.fingerprint = tuple(map(float, likely))
  if isinstance(predictor, user_objects.FromCallable):
    predictor.contract.cautions = predictor.outputs.cautions
    predictor.contract.allowed = max(tolerance, DRIFT, 8 * predictor.spacing)
  _check_shift(whole, world, sequences, question, answer, copies)
  if isinstance(predictor, core.HiddenStates):
    # Other layers are checked on first use.
    activations = functools.partial(
      _check_layer, predictor, whole, sequences, tolerance
    )
    activations(-1)
    if isinstance(predictor, user_objects.WithHidden):
      predictor.check_layer = activations
    predictor.contract.checked += ('activations',)
  # A predictor with its own session has a cache, whose states may be wrong.
  if type(predictor).session is not stateless.Stateless.session:
    contract.check_session(predictor, sequences, label, tolerance)
    predictor.contract.checked += ('continuations',)


DRIFT = 1e-3  # Largest permitted difference of probabilities when repeated.


def _by_logits(
  predictor: user_objects.FromCallable,
  tolerance: float,
  question: contract.Sample,
) -> contract.Observed:
  logits = predictor.logits(question.tokens)
  used = np.arange(logits.shape[1]) < question.lengths[:, None]
  if predictor.outputs.ids is None:
    predictor.outputs.see(logits[used])
  predictor.outputs.verify(predictor.label)
  # [N, L, V] -> [N, P, V]: a few positions per row, as V may be large.
  logits = np.take_along_axis(logits, question.at[..., None], 1)
  # Floored: two answers of -inf agree, but their difference is NaN.
  log_probs = np.maximum(predictor.normal(logits), contract.FLOOR)
  # The spacing of low-precision numbers grows with their size.
  least = max(tolerance, 8 * predictor.spacing)
  greatest = np.abs(logits.max(-1)).astype(np.float64)
  return contract.Observed(log_probs, least * np.maximum(greatest, 1))


def _by_log_probs(
  predictor: core.Predictor, tolerance: float, question: contract.Sample
) -> contract.Observed:
  log_probs = np.asarray(predictor.log_probs(question.tokens, question.lengths))
  log_probs = np.take_along_axis(log_probs, question.at[..., None], 1)
  log_probs = np.maximum(log_probs, contract.FLOOR)
  return contract.Observed(log_probs, np.full(question.at.shape, tolerance))


def _check_layer(
  predictor: Any,  # Has `log_probs` if it has `patched`.
  whole: contract.Invariances,
  sequences: core.Sequences,
  tolerance: float,
  layer: int,
) -> None:
  """Raises InputError for wrong activations of a layer.

  And where `patched` does not use them.
  """
  least = tolerance
  if isinstance(predictor, user_objects.FromCallable):
    # Low-precision numbers have a larger spacing.
    least = max(tolerance, 8 * predictor.spacing)

  def ask(question: contract.Sample) -> contract.Observed:
    # [N, L, D] -> [N, P, D].
    values = predictor.hidden(question.tokens, question.lengths, layer)
    values = np.take_along_axis(values, question.at[..., None], 1)
    contract.finite(values, f'{whole.label}: layer {layer} of hidden')
    return contract.relative(values, least)

  noun = f'the activation of layer {layer}'
  inner = dataclasses.replace(whole, ask=ask, noun=noun, unit='')
  question, _ = inner.check(sequences)
  if not core.can(type(predictor), core.HiddenStates.patched):
    return
  size = whole.rows
  question = contract.Sample(*(part[:size] for part in question))
  tokens, lengths, _ = question
  used = np.arange(tokens.shape[1]) < lengths[:, None]
  # A model's own activations must reproduce its predictions.
  hidden = predictor.hidden(tokens, lengths, layer)
  right = np.exp(predictor.log_probs(tokens, lengths)[used])
  same = np.exp(predictor.patched(tokens, lengths, layer, hidden)[used])
  apart = np.abs(same - right).max()
  if not apart <= max(least, DRIFT):
    raise core.InputError(
      f'{whole.label}: patched with the activations of layer {layer} that '
      f'hidden gave changes a probability by {apart:.2g}; expected those of '
      'the model itself'
    )
  # With several rows: activations of another row must change predictions.
  moved = np.exp(
    predictor.patched(tokens, lengths, layer, np.roll(hidden, 1, 0))[used]
  )
  if np.ptp(hidden, 0).any() and np.array_equal(moved, same):
    raise core.InputError(
      f'{whole.label}: patched gives the same logits whatever activations of '
      f'layer {layer} it is given; expected it to go on from them'
    )


def _check_shift(
  whole: contract.Invariances,
  world: core.World,
  sequences: core.Sequences,
  question: contract.Sample,
  answer: contract.Observed,
  copies: bool,
) -> None:
  """Refuses logits that are clearly those of the token just read.

  Two kinds of evidence. First: after token t the model predicts t again almost
  surely, while the world's sequences repeat a token at most half as often.
  Second: logits after token t depend on t - 1 but not on t, and in sequences of
  the world they favour t over t + 1, clearly and by many standard errors. An
  ignorant model favours neither; a copying model is less sure, or sets
  `copies`; an unshifted model of t - 1 alone fits t + 1.
  """
  read, again, gains = _last_tokens(world, sequences, question, answer)
  if len(read) < LEAST_PLACES:
    return
  wrong = 'logits at position t must be of token t + 1'
  # First kind: the model repeats the token just read.
  sure, often = np.exp(read).mean(), again.mean()
  if not copies and sure >= SURE and often <= SURE / 2:
    raise core.InputError(
      f'{whole.label}: it gives the token just read a probability of '
      f'{sure:.3g} (mean of {len(read)} positions), which comes again '
      f'at {often:.2g} of them: {wrong}; one that means to copy, or is '
      'untrained with tied embeddings, is given copies=True'
    )
  # Second kind: a few sequences hint at a shift, and MANY decide.
  if gains.mean() <= 0 or not _lags(whole, question, world.prompt_len):
    return
  more = world.sample(-(-MANY // whole.rows) * whole.rows, 1)
  if len(more) < MANY:
    return
  asked = contract.cut(
    more, question.tokens.shape[1], contract.WHOLE, MANY_PLACES
  )
  *_, gains = _last_tokens(world, more, asked, whole.answer(asked))
  # Sequences are independent: this is the standard error of their mean.
  error = gains.std() / np.sqrt(len(gains))
  if gains.mean() > max(ADVANTAGE, DEVIATIONS * error):
    raise core.InputError(
      f'{whole.label}: its prediction after token t does not depend on token '
      f't, and gives it {gains.mean():.2g} nats more than the next one, by '
      f'{len(gains)} sequences ({error:.1g} standard error): {wrong}'
    )


def _lags(
  whole: contract.Invariances, question: contract.Sample, prompt: int
) -> bool:
  """True if predictions ignore the last token, but not the one before."""
  rng, rows = np.random.default_rng(1), np.arange(len(question.tokens))
  # One position per row, different ones in turn, as in the checks.
  last = question.at[rows, 1 + rows % (contract.PLACES - 1)]
  at_last = question._replace(at=last[:, None])
  answer, other = whole.answer(at_last), whole.others(question.tokens, rng)
  differs = []
  # Changes in turn the token just read and the one before.
  for back in (0, 1):
    place = np.maximum(last - back, 0)
    tokens = question.tokens.copy()
    tokens[rows, place] = other[rows, place]
    apart = answer.apart(whole.answer(at_last._replace(tokens=tokens)))
    differs.append((apart > answer.allowed)[last > max(prompt, 1)])
  now, before = differs
  return bool(before.size) and not now.any() and before.mean() > 0.5


def _last_tokens(
  world: core.World,
  sequences: core.Sequences,
  question: contract.Sample,
  answer: contract.Observed,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Predictions of the token just read, and of the one that follows.

  Returns:
    [T] log-probability of the token just read, at the T positions after the
    prompt that have both tokens; [T] bool, whether the two are equal; and the
    mean advantage of the token just read, nats, by sequence.
  """
  num = len(sequences)  # Others come twice in the sample.
  at, log_probs = question.at[:num], answer.values[:num]
  tokens, rows = sequences.tokens, np.arange(num)[:, None]
  # Prompts are not predicted, and the last token has no next one.
  used = (at >= world.prompt_len) & (at + 1 < sequences.lengths[:, None])
  read = tokens[rows, at]
  after = tokens[rows, np.minimum(at + 1, tokens.shape[1] - 1)]
  both = np.stack([read, after], -1)
  first, second = np.moveaxis(np.take_along_axis(log_probs, both, 2), 2, 0)
  # Averaged by sequence, as positions of a sequence are not independent.
  gains = np.where(used, first - second, 0).sum(1)[used.any(1)]
  num_used = used.sum(1)[used.any(1)]
  return first[used], (read == after)[used], gains / num_used


EXPECTED = "expected function='package.module:name' or 'file.py:name'"


def _label(function: str) -> str:
  return f'user model {plugins.shortened(function)!r}'


def load(function: str) -> Any:
  """The object named by 'package.module:name' or 'file.py:name'.

  Runs the user's module. Raises InputError, with file and line, if the module
  fails or has no such object.
  """
  where, colon, attribute = function.rpartition(':')
  if not colon or not where or not attribute:
    raise core.InputError(f'user model: {function!r} was given; {EXPECTED}')
  label = _label(function)
  # A file is run by its path; a module is imported.
  if where.endswith('.py'):
    thing = plugins.load(where, label)
  else:
    thing = _imported(where, label)
  with plugins.user_code(label):
    for name in attribute.split('.'):
      if not hasattr(thing, name):
        public = [key for key in dir(thing) if not key.startswith('_')]
        raise core.InputError(
          f'user model: {where!r} has no {attribute!r}; '
          + inputs.suggest(name, public)
        )
      thing = getattr(thing, name)
    is_class = isinstance(thing, type)
    if is_class or not user_objects.usable(thing):
      what = 'a class' if is_class else f'of type {type(thing).__name__}'
      such = f', such as {thing.__name__}(...)' if is_class else ''
      raise core.InputError(
        f'user model: {function!r} is {what}; {user_objects.EXPECTED}{such}'
      )
  return thing


def _imported(where: str, label: str) -> types.ModuleType:
  with plugins.user_code(label), plugins.import_path(pathlib.Path.cwd()):
    try:
      return importlib.import_module(where)
    except ModuleNotFoundError as error:
      if not f'{where}.'.startswith(f'{error.name}.'):
        raise  # Raised by the user's code.
      raise core.InputError(
        f'{label}: no module {error.name!r} (from {where!r}); {EXPECTED}'
      ) from error


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Tokens [rows, L] int32 -> logits [rows, L, V], causal; or an object.

  Attributes:
    function: 'package.module:name' or 'file.py:name'.
    max_len: longest input of the model, in tokens; 0 means the world's.
    rows: batch size of every call; the last call is padded.
    files: paths of all files that the model reads, such as weights; () for
      none. Cached results stay valid while these files and the function's
      module with its imports do not change. None: unknown, so no result is
      cached.
    tolerance: permitted difference of log-probabilities that should be equal,
      in nats, times the largest logit where that is above 1; for 16-bit logits
      at least eight spacings. A model that computes in 16 bits but returns
      float32 may need 0.1.
    copies: True if the model may legitimately predict the last input token, as
      an untrained one with tied embeddings does; otherwise this is reported as
      an off-by-one error in its logits.
    before: the model's ids before every sequence, such as that of BOS.
    window: most ids that the model reads at once; of longer inputs it reads the
      last ones. 0: all.
  """

  gives: ClassVar[tuple[type, ...]] = (
    user_objects.FromCallable,
    user_objects.CachedWithHidden,
    user_objects.WithPatched,
    stateless.Accepting,
  )

  function: str = ''
  max_len: int = field(0, least=0)
  rows: int = 16
  files: tuple[str, ...] | None = dataclasses.field(default=None, compare=False)
  tolerance: float = contract.TOLERANCE
  copies: bool = False
  tokens: str = field(
    '',
    "file with the model's id of each token of the world, where they are "
    'numbered differently; other ids are left out, and the probabilities of '
    'these add up to 1. The id of <bos> is put before every sequence',
    format=f'{user_objects.__name__}.read_tokens',
  )
  before: tuple[int, ...] = ()
  window: int = field(0, least=0)

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded: the memory of a call's tokens and logits."""
    length, vocab = (world.max_len, len(world.vocab)) if world else (1, 2)
    return core.Cost(4 * self.rows * length * (1 + vocab), 0, ('rows',))

  def __post_init__(self) -> None:
    super().__post_init__()
    names = self.files
    if names is not None and not (
      isinstance(names, tuple) and all(isinstance(n, str) for n in names)
    ):
      raise core.InputError(
        f'user model: files={names!r} was given; expected a tuple of paths, '
        "such as files=('weights.pt',), or files=() for none"
      )

  def code(self) -> tuple[str, ...]:
    """See core.Model."""
    return (self.function.rpartition(':')[0],)

  def undeclared_inputs(self) -> str:
    """See core.Model."""
    if self.files is not None:
      return ''
    return (
      'a user model without files= does not say what files it reads '
      "(files=('weights.pt',); files=() for none)"
    )

  def predictor(self, world: core.World, seed: int) -> core.TokenReader:
    """See core.Model.

    Raises:
      InputError: `function` or a file is not found, the function fails, or
        `check` refuses the function.
    """
    del seed
    resources.require(self, world)
    for name in self.files or ():
      if not os.path.exists(name):
        name = plugins.shortened(name)
        raise core.InputError(f'user model: no file {name!r}, of files=')
      if not os.path.isdir(name):
        with inputs.reading_file(name, 'a file, of files=') as path:
          path.open('rb').close()
    label = _label(self.function)
    with plugins.user_code(label):  # An object may fail where it is looked at.
      thing = load(self.function)
    return checked_predictor(
      thing,
      world,
      label,
      max_len=self.max_len,
      rows=self.rows,
      tolerance=self.tolerance,
      copies=self.copies,
      tokens=self.tokens or None,
      layout=InputLayout(self.before, self.window),
    )


def checked_predictor(
  thing: Any,
  world: core.World,
  label: str,
  *,
  max_len: int = 0,
  rows: int = 16,
  tokens: Mapping[str, Any]
  | Sequence[str]
  | str
  | os.PathLike[str]
  | None = None,
  layout: InputLayout = PLAIN,
  **checks: Any,
) -> core.TokenReader:
  """A user's object as a predictor that has passed the checks of this module.

  Args:
    thing: a function or object, see `wm.models.serving.user_objects`.
    world: the world whose sequences are read.
    label: name in errors.
    max_len, rows: see Model.
    tokens: the model's id of each token of the world, a file of ids, see
      `user_objects.read_tokens`, or the names of its tokens in its order, of
      which there may be fewer than the world's; None if ids are equal.
    layout: what the model reads around and of a sequence; by default what
      `tokens` calls <bos>.
    checks: tolerance and copies, see Model.

  Raises:
    InputError: the object fails, does not return logits of the world's tokens,
      or looks ahead.
  """
  for call in (thing, type(thing).__call__ if callable(thing) else None):
    if inspect.iscoroutinefunction(call):
      raise core.InputError(
        f'{label} is an async function; expected one that returns logits'
      )
  ids = None
  if tokens is not None:
    table = user_objects.read_tokens(tokens, label)
    needed: set[str] = set()
    if isinstance(tokens, list | tuple):
      # It may lack tokens that no sequence has, such as other directions.
      used = world.sample(USED, 0).tokens
      needed = {world.vocab[token] for token in np.unique(used)}
    ids = user_objects.token_ids(table, world.vocab, label, needed)
    layout = layouts.with_bos(layout, table, world.vocab, label)
  with plugins.user_code(label):  # An object may fail where it is looked at.
    adapted = adapters.adapted(thing, label)
  if not layout.window:  # A cache has no window.
    _add_cache(adapted, thing, world, ids, label)

  limit = max_len or world.max_len + len(layout.before)
  cached = _cached_reader(thing, world, label, ids, rows)
  most = max_len or world.max_len
  # Compiled programs of JAX and others take one number of rows.
  grows = rows == ROWS and adapters.is_a(thing, 'torch.nn', 'Module')
  door = _Door(adapted, world, label, ids, rows, (limit, most), cached, grows)
  # Other layouts are read by predictors of their own, with statistics apart.
  laid_out, reader = door.read(layout)
  # Yes or no answers have no probabilities to check.
  if isinstance(reader, core.QueryModel):
    _check_answers(reader, world, label)
  else:
    # Before the checks: these see the model as it is scored.
    compared = _layouts_compared(door.read, laid_out, world)
    check(reader, world, label, **checks)
    _add_layout(reader, laid_out, compared)
  with plugins.user_code(label):
    if not isinstance(reader, few_shot.TunedReader):
      reader = few_shot.adaptable(reader, thing, laid_out, label)
    return reasked.recorded(reader)


def _add_cache(
  adapted: Any,
  thing: Any,
  world: core.World,
  ids: np.ndarray | None,
  label: str,
) -> None:
  """Adds `start` and `step` of a PyTorch module that returns its cache."""
  if (
    not adapters.is_a(thing, 'torch.nn', 'Module')
    or adapters.is_a(thing, 'transformers', 'PreTrainedModel')
    or adapters.has(adapted, 'start', 'step')
    or adapters.has(adapted, 'patched')  # It has no form with a cache.
  ):
    return
  tokens = layouts.probing(world, 4, world.max_len)
  tokens = tokens if ids is None else np.maximum(ids, 0)[tokens]
  if cache := module_cache.of(thing, tokens, label):
    adapted.start, adapted.step = cache.start, cache.step


class _Door(NamedTuple):
  """A user's object, to be read in any layout.

  Attributes:
    adapted: its methods of NumPy arrays.
    world, label, ids, rows: as in `checked_predictor`.
    limits: most ids of an input, and most tokens of a sequence.
    cached: see `_cached_reader`.
    grows: whether calls may have more than `rows` rows.
  """

  adapted: Any
  world: core.World
  label: str
  ids: np.ndarray | None
  rows: int
  limits: tuple[int, int]
  cached: Callable[[InputLayout, int], Any] | None
  grows: bool

  def read(self, layout: InputLayout) -> tuple[layouts.LaidOut, Any]:
    """The object in a layout, and a predictor that is not checked."""
    limit, most = self.limits
    # No input is longer than the model takes, in any layout.
    room = limit if layout.window else limit - len(layout.before)
    seen = outputs.Outputs(self.ids)
    with plugins.user_code(self.label):
      called = callable(self.adapted)
      kind = layouts.CalledLaidOut if called else layouts.LaidOut
      laid_out = kind(self.adapted, layout, self.ids, self.label, seen)
      if called:
        sample = layouts.probing(self.world, self.rows, room)
        laid_out.probe(sample, len(self.world.vocab))
        laid_out.check_last(sample)
      if self.cached and (predictor := self.cached(layout, room)):
        return laid_out, predictor
      reader = user_objects.predictor(
        laid_out if laid_out.matters else self.adapted,
        vocab_size=len(self.world.vocab),
        end=self.world.end,
        max_len=min(room, most),
        rows=self.rows,
        label=self.label,
        outputs=seen,
      )
      if self.grows and isinstance(reader, user_objects.FromCallable):
        width = max(laid_out.size, reader.vocab_size)
        reader.call_tokens = min(CALL_TOKENS, core.predictor.BUDGET // width)
      return laid_out, reader


def _cached_reader(
  thing: Any, world: core.World, label: str, ids: np.ndarray | None, rows: int
) -> Callable[[InputLayout, int], Any] | None:
  """Makes predictors that use the cache of a model of Hugging Face.

  Args:
    thing, world, label, ids, rows: as in `checked_predictor`.

  Returns:
    (layout, tokens of the longest sequence) -> predictor, or None where the
    object has to be called as it is. None for other objects.
  """
  if not adapters.is_a(thing, 'transformers', 'PreTrainedModel'):
    return None
  if adapters.has(thing, 'patched'):  # Its cache knows no other activations.
    return None
  from wm.models.serving import gpt2, tokenization  # They need PyTorch.

  pieces = np.arange(len(world.vocab)) if ids is None else ids
  config = thing.config.get_text_config()
  fits = ids is not None or config.vocab_size == len(world.vocab)
  if not fits or pieces.max() >= config.vocab_size:
    return None
  longest = tokenization.position_limit(thing)
  table = {
    word: (int(piece),)
    for word, piece in zip(world.vocab[1:], pieces[1:], strict=True)
  }
  readers: list[tokenization.TextReader] = []

  def read(layout: InputLayout, room: int) -> Any:
    """The predictor in a layout; None if it has no room there."""
    before = layout.before
    if layout.window or (longest and longest < len(before) + room):
      return None
    spelled = tokenization.spelling(world.vocab, table, before)
    if not readers:  # The cache is checked once, for all layouts.
      size = len(before) + min(room, world.max_len)
      texts = tokenization.sample_texts(spelled, size)
      # With a cache, larger batches cost no more memory than whole texts do.
      batch = max(rows, CACHED_ROWS)
      readers.append(tokenization.text_reader(thing, texts, label, batch)[0])
    fields: dict[str, Any] = {
      'end': world.end,
      'max_len': min(room, world.max_len),
      'renormalised': True,
      'batch': readers[0].batch,
    }
    if not before and (spec := gpt2.spec(thing)):
      compiled = gpt2.CompiledPredictor(
        readers[0], spelled, pieces, spec, **fields
      )
      if compiled.agrees(world):
        return compiled
    return tokenization.PiecePredictor(readers[0], spelled, **fields)

  return read


# Rows of a call, unless the user says otherwise; and tokens of a call of a
# module of PyTorch that takes any number of rows.
ROWS, CALL_TOKENS = 16, 1 << 14
USED = 1000  # Sequences whose tokens a model must have.
CACHED_ROWS = 256  # Rows of a call to a model of Hugging Face with a cache.


def _layouts_compared(
  read: Callable[[InputLayout], Any],
  laid_out: layouts.LaidOut,
  world: core.World,
) -> layouts.LayoutLosses:
  """The losses of an object in several layouts; `read` makes its predictor."""
  layout = laid_out.layout
  if not callable(laid_out):  # Steps alone: whole sequences are slow.
    return layouts.NOTHING
  return layouts.compare(
    lambda before: read(dataclasses.replace(layout, before=before))[1],
    world,
    layout.before,
    [(each,) for each in laid_out.candidates(len(world.vocab), world.end)],
    lambda before: f'before={before}',
    layouts.SEQUENCES // 2 if laid_out.stepwise else layouts.SEQUENCES,
  )


def _add_layout(
  reader: Any, laid_out: layouts.LaidOut, compared: layouts.LayoutLosses
) -> None:
  """Adds the layout to a reader's diagnostics, and a better one to cautions."""
  if not reader.contract:
    return
  # Those on probability outside the world's tokens come later, by calls.
  cautions = reader.contract.cautions
  reader.contract.cautions = lambda: [*cautions(), *compared.cautions]
  lines = laid_out.describe(), compared.line
  reader.remarks = [f'{laid_out.label}: {line}' for line in lines if line]


def _check_answers(reader: Any, world: core.World, label: str) -> None:
  """Raises InputError if an answer depends on the other questions of a call."""
  reader.contract = contract.Contract(('answers',), 0)
  sequences = world.sample(ROWS_ALONE, 0)
  sizes = np.maximum(sequences.lengths // 2, 1)
  prefixes = core.predictor.histories(sequences.tokens, sizes)
  wholes = core.predictor.histories(sequences.tokens, sequences.lengths)
  # Each suffix after each prefix: a few are valid, most are not.
  asked = [
    (prefix, suffix)
    for prefix in prefixes
    for whole, size in zip(wholes, sizes, strict=True)
    if (suffix := whole[size:])
  ]
  if not asked:
    return
  answers = reader.answers(*zip(*asked, strict=True))
  reader.contract.fingerprint = tuple(map(float, answers))
  # The same questions in reverse order, and a few of them alone.
  again = reader.answers(*zip(*asked[::-1], strict=True))[::-1]
  few = reader.answers(*zip(*asked[:ROWS_ALONE], strict=True))
  for what, other in (('again in another order', again), ('alone', few)):
    wrong = np.flatnonzero(answers[: len(other)] != other)
    if wrong.size:
      raise core.InputError(
        f'{label}: asked {what}, it gives {len(wrong)} of {len(other)} other '
        'answers; expected an answer to depend on its question only'
      )


ROWS_ALONE = 4  # Number of sequences, and of questions asked alone.


def predictor(
  model: core.Model, world: core.World, seed: int
) -> core.TokenReader:
  """The predictor of a model; that of a user's own file is checked.

  Raises InputError where `check` refuses the predictor, which may predict the
  last input token.
  """
  reader = model.predictor(world, seed)
  if registry.is_file(model.name):
    return checked_reader(reader, world, f'model {model.name!r}')
  return reader


def checked_reader(
  reader: core.TokenReader, world: core.World, label: str
) -> core.TokenReader:
  """A user's own reader after the checks, which then records some queries.

  Raises InputError where `check` refuses the reader, which may predict the last
  input token.
  """
  if not isinstance(reader, core.Predictor):
    return reader
  if isinstance(reader, core.QueryModel):
    _check_answers(reader, world, label)
  else:
    check(reader, world, label, copies=True)
  return reasked.recorded(reader)
