"""A causal language model of Hugging Face's transformers, in a local folder.

  huggingface(path='gpt2', tokens='pieces.json')

The folder is one that `save_pretrained` writes. Weights are read only from
safetensors files and must match config.json. No code of the folder is run, and
nothing is downloaded.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from wm import core
from wm.core import contract, inputs, plugins
from wm.core.fields import field
from wm.models.serving import few_shot, layout, user_objects

if TYPE_CHECKING:
  from wm.models.serving import tokenization  # Needs PyTorch.


ROWS = 16  # Sequences by which layouts are compared.
BATCH = 16  # Texts per forward pass.


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """A world's sequences as text, scored by a language model.

  Tokens are spelled in pieces of the model's tokenizer;
  `wm.models.serving.tokenization` explains their probabilities. Pieces that
  spell no token have leaked probability, which is reported after scoring.

  Attributes:
    path: folder of the model (config.json, *.safetensors, tokenizer files).
    before: what is before every sequence: 'tokenizer', the pieces that the
      tokenizer adds to any text; 'bos', its `bos_token`; 'none'; ids of pieces,
      such as (50256,); or a text, behind the pieces that the tokenizer adds.
      The id of <bos> in the file `tokens` is put before every sequence, too.
    renormalised: divide by the probability that does not leak, so that the
      tokens' probabilities add up to 1. By default they are the model's own,
      as epsilon rules expect.
  """

  version: ClassVar[str] = '3'
  gives: ClassVar[tuple[type, ...]] = (few_shot.TunedReader,)

  path: str = ''
  tokens: str = field(
    '',
    'file with the spelling of each token, a text or ids of pieces; by default '
    "a blank and the word, `end` being the tokenizer's own end",
    format=f'{user_objects.__name__}.read_tokens',
  )
  before: str | tuple[int, ...] = 'tokenizer'
  renormalised: bool = False

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model.

    Raises:
      InputError: no such folder or files, weights that are not those of the
        folder's model, a token without spelling, or a model that is not causal
        or takes too short texts.
    """
    del seed
    with inputs.extra('torch', self.name):
      from wm.language import pretrained
      from wm.models.serving import tokenization
    folder = pathlib.Path(self.path)
    label = pretrained.label(folder)
    network, remarks = pretrained.load(folder)
    # A folder may have none: a file of ids needs no tokenizer.
    has_files = any(folder.glob('tokenizer*'))
    words = _Tokenizer(
      label, pretrained.tokenizer(folder) if has_files else None
    )
    table = self._pieces(world, words)
    before = self._before(world, words)
    # [pieces of `before`] [pieces of tokens ...]
    spelled = tokenization.spelling(world.vocab, table, before)
    num_pieces = network.config.get_text_config().vocab_size
    limit = tokenization.position_limit(network)
    max_len = self._max_len(world, spelled, num_pieces, limit)
    # Texts as long as the longest sequence: a cache may fail only there.
    size = len(before) + max_len * max(map(len, spelled.paths))
    texts = tokenization.sample_texts(spelled, size)
    reader, why = tokenization.text_reader(network, texts, label, BATCH)
    # With an inexact cache, each text is read whole: slower, but correct.
    if why:
      remarks = (*remarks, f'{label}: no cache is used: {why}')

    def read(before: tuple[int, ...]) -> tokenization.PiecePredictor:
      """The predictor whose texts begin with some pieces."""
      # More pieces before a sequence leave less room for its tokens.
      room = max_len
      if limit:
        longest = max(map(len, spelled.paths))
        room = min(max_len, (limit - len(before)) // longest)
      return tokenization.PiecePredictor(
        reader,
        spelled._replace(before=before),
        end=world.end,
        max_len=room,
        renormalised=self.renormalised,
        batch=BATCH,
      )

    compared = layout.compare(
      read, world, before, words.starts(), lambda ids: f'before={ids}', ROWS
    )
    predictor = read(before)
    predictor.remarks = [
      *remarks,
      *([f'{label}: {compared.line}'] if compared.line else []),
    ]
    predictor.contract = contract.Contract((), 0.0)
    predictor.contract.cautions = lambda: [*compared.cautions]
    return predictor

  def _before(self, world: core.World, words: _Tokenizer) -> tuple[int, ...]:
    """Pieces before every sequence; InputError for a text that has none."""
    if not isinstance(self.before, str):
      return layout.InputLayout(self.before).before
    # A table of tokens knows the model better than its tokenizer does.
    if self.tokens and self.before == 'tokenizer':
      table = user_objects.read_tokens(self.tokens, self.name)
      named = layout.with_bos(layout.PLAIN, table, world.vocab, self.name)
      if named.before:
        return named.before
    if self.before == 'none':
      return ()
    if self.before == 'bos':
      return words.bos()
    added = words.added()
    if self.before == 'tokenizer':
      return added
    return (*added, *words.of(self.before))

  def _max_len(
    self,
    world: core.World,
    spelled: tokenization.TokenSpelling,
    num_pieces: int,
    limit: int | None,
  ) -> int:
    """Longest sequence, in tokens, that the network can read.

    Args:
      world, spelled: its tokens, and their pieces.
      num_pieces: of the network's vocabulary.
      limit: most pieces that it reads; None is any number.

    Raises:
      InputError: unknown pieces, or too short a limit.
    """
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
    self, world: core.World, words: _Tokenizer
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


class _Tokenizer(NamedTuple):
  """The tokenizer of a folder, if it has one; label: its name in errors."""

  label: str
  words: Any

  def of(self, text: str) -> tuple[int, ...]:
    """Ids of a text's pieces, without special pieces."""
    return self._encoded(text, add_special_tokens=False)

  def _encoded(self, text: str, **options: bool) -> tuple[int, ...]:
    if self.words is None:
      raise core.InputError(
        f'{self.label} has no tokenizer; give ids of pieces in the file tokens='
      )
    label = f'{self.label}: text {plugins.shortened(repr(text))}'
    with plugins.user_code(label):
      return tuple(self.words.encode(text, **options))

  def bos(self) -> tuple[int, ...]:
    """The piece `bos_token`; raises InputError if there is none."""
    piece = self.words and self.words.bos_token_id
    if piece is None:
      raise core.InputError(
        f"{self.label} has no bos_token; expected before='none' or ids"
      )
    return (piece,)

  def added(self) -> tuple[int, ...]:
    """The pieces that the tokenizer adds before any text."""
    if self.words is None:
      return ()
    # What comes before and behind a text is found by encoding one twice.
    bare = self.of('a')
    whole = self._encoded('a', add_special_tokens=True)
    for start in range(len(whole) - len(bare) + 1):
      if whole[start : start + len(bare)] == bare:
        return whole[:start]
    return ()

  def starts(self) -> list[tuple[int, ...]]:
    """Pieces that a model may have been trained with before sequences."""
    if self.words is None:
      return []
    pieces = self.words.bos_token_id, self.words.eos_token_id
    return [(piece,) for piece in pieces if piece is not None]

  def end(self) -> int | None:
    """The piece that ends every text, or None."""
    return self.words and self.words.eos_token_id
