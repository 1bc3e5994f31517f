"""A causal language model of Hugging Face's transformers, in a local folder.

  huggingface(path='gpt2', tokens='pieces.json')

The folder is one that `save_pretrained` writes. Weights are read only from
safetensors files and must match config.json. No code of the folder is run, and
nothing is downloaded.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from wm import core
from wm.core import inputs, plugins
from wm.core.fields import field
from wm.models.serving import few_shot, user_objects

if TYPE_CHECKING:
  from wm.models.serving import tokenization  # Needs PyTorch.


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """A world's sequences as text, scored by a language model.

  Tokens are spelled in pieces of the model's tokenizer;
  `wm.models.serving.tokenization` explains their probabilities. Pieces that
  spell no token have leaked probability, which is reported after scoring.

  Attributes:
    path: folder of the model (config.json, *.safetensors, tokenizer files).
    before: text before every sequence, after the tokenizer's `bos_token`, if
      it has one.
    renormalised: divide by the probability that does not leak, so that the
      tokens' probabilities add up to 1. By default they are the model's own,
      as epsilon rules expect.
    batch: texts per forward pass; no effect on results.
  """

  version: ClassVar[str] = '2'
  gives: ClassVar[tuple[type, ...]] = (few_shot.TunedReader,)

  path: str = ''
  tokens: str = field(
    '',
    'file with the spelling of each token, a text or ids of pieces; by default '
    "a blank and the word, `end` being the tokenizer's own end",
    format=f'{user_objects.__name__}.read_tokens',
  )
  before: str = ''
  renormalised: bool = False
  batch: int = field(16, least=1, compare=False)

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model.

    Raises:
      InputError: no such folder or files, weights that are not those of the
        folder's model, a token without spelling, or a model that is not causal
        or takes too short texts.
    """
    del seed
    with inputs.extra('torch', self.name):
      from wm.models.serving import pretrained, tokenization
    folder = pathlib.Path(self.path)
    label = pretrained.label(folder)
    network, remarks = pretrained.load(folder)
    words = _FolderTokenizer(folder, label, pretrained.tokenizer)
    table = self._pieces(world, words)
    # [bos piece] [pieces of `before`] [pieces of tokens ...]
    before = (*words.first(), *(words.of(self.before) if self.before else ()))
    spelled = tokenization.spelling(world.vocab, table, before)
    # The text config: the text part of a model of text and pictures.
    max_len = self._max_len(world, spelled, network.config.get_text_config())
    # Texts as long as the longest sequence: a cache may fail only there.
    size = len(before) + max_len * max(map(len, spelled.paths))
    texts = _texts(spelled, tokenization.ROWS, size)
    reader, why = tokenization.text_reader(network, texts, label, self.batch)
    # With an inexact cache, each text is read whole: slower, but correct.
    if why:
      remarks = (*remarks, f'{label}: no cache is used: {why}')
    return tokenization.PiecePredictor(
      reader,
      spelled,
      end=world.end,
      max_len=max_len,
      renormalised=self.renormalised,
      batch=self.batch,
      remarks=remarks,
    )

  def _max_len(
    self, world: core.World, spelled: tokenization.TokenSpelling, config: Any
  ) -> int:
    """Longest sequence, in tokens, that the network can read.

    Raises InputError for unknown pieces or too short a limit.
    """
    num_pieces = config.vocab_size
    # The padding token has no pieces, and passes.
    whose = zip(
      [f'token {word!r}' for word in world.vocab]
      + ['what is before sequences'],
      [*spelled.paths, spelled.before],
      strict=True,
    )
    for what, path in whose:
      if bad := [piece for piece in path if not 0 <= piece < num_pieces]:
        raise core.InputError(
          f'huggingface: {what} has piece {bad[0]}; expected '
          f'0..{num_pieces - 1}'
        )
    # Networks without learned positions may have no limit.
    limit = getattr(config, 'max_position_embeddings', None)
    if limit is None:
      return world.max_len
    before, longest = len(spelled.before), max(map(len, spelled.paths))
    # The worst case: every token takes as many pieces as the longest.
    max_len = min(world.max_len, (limit - before) // longest)
    if max_len < 2:
      raise core.InputError(
        f'huggingface: {self.path} takes {limit} pieces; {before} before '
        f'each sequence and {longest} a token leave no room for two tokens'
      )
    return max_len

  def _pieces(
    self, world: core.World, words: _FolderTokenizer
  ) -> dict[str, tuple[int, ...]]:
    """Pieces of each token but padding; InputError if a spelling is missing."""
    if self.tokens:
      spellings = user_objects.read_tokens(self.tokens, self.name)
    else:
      # A leading blank: tokenizers of the GPT family cut texts before blanks.
      spellings = {word: f' {word}' for word in world.vocab[1:]}
      # The end of sequences is the model's own end of text, which has one
      # piece.
      if world.end != core.DEAD and (end := words.end()) is not None:
        spellings[world.vocab[world.end]] = end
    # vocab[0] is padding, which occurs in no text.
    missing = [word for word in world.vocab[1:] if word not in spellings]
    if missing:
      raise core.InputError(
        f'huggingface: {self.tokens} spells {len(spellings)} tokens, not '
        f'{missing[0]!r} and {len(missing) - 1} more of the world'
      )
    paths = {}
    for word in world.vocab[1:]:
      value = spellings[word]
      path = words.of(value) if isinstance(value, str) else value
      path = path if isinstance(path, list | tuple) else (path,)
      # `type`, not isinstance: JSON's true and false are no ids.
      if not path or not all(type(piece) is int for piece in path):
        raise core.InputError(
          f'huggingface: token {word!r} is spelled '
          f'{plugins.shortened(repr(value))}; expected a text, the id of a '
          'piece, or a list of ids'
        )
      paths[word] = tuple(path)
    return paths


def _texts(
  spelled: tokenization.TokenSpelling, num: int, size: int
) -> np.ndarray:
  """[num, size] pieces of sequences of any tokens."""
  # Any tokens, legal or not: these texts check only the network's cache.
  rng, rows = np.random.default_rng(0), []
  for _ in range(num):
    row = list(spelled.before)
    # [before ...][pieces of a token][pieces of another] ..., cut at `size`.
    while len(row) < size:
      row += spelled.paths[rng.integers(1, len(spelled.paths))]
    rows.append(row[:size])
  return np.array(rows)


class _FolderTokenizer:
  """The tokenizer of a folder, loaded on first use."""

  def __init__(
    self, folder: pathlib.Path, label: str, load: Callable[[pathlib.Path], Any]
  ) -> None:
    self._folder, self._label, self._load = folder, label, load
    # A folder may have none: a file of ids needs no tokenizer.
    self._has_files = any(folder.glob('tokenizer*'))

  @functools.cached_property
  def _tokenizer(self) -> Any:
    if not self._has_files:
      raise core.InputError(
        f'huggingface: {self._folder} has no tokenizer; give ids of pieces '
        'in the file tokens='
      )
    return self._load(self._folder)

  def of(self, text: str) -> tuple[int, ...]:
    """Ids of a text's pieces, without special pieces."""
    label = f'{self._label}: text {plugins.shortened(repr(text))}'
    with plugins.user_code(label):
      return tuple(self._tokenizer.encode(text, add_special_tokens=False))

  def first(self) -> tuple[int, ...]:
    """The piece that begins every text, as a tuple; empty if there is none."""
    piece = self._tokenizer.bos_token_id if self._has_files else None
    return () if piece is None else (piece,)

  def end(self) -> int | None:
    """The piece that ends every text, or None."""
    return self._tokenizer.eos_token_id if self._has_files else None
