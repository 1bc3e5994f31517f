"""A causal language model of Hugging Face's transformers, in a local folder.

  huggingface(path='gpt2', tokens='pieces.json')

The folder is what `save_pretrained` writes; weights are read as safetensors
only, no code in it is run, and nothing is downloaded.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import json
import pathlib
from typing import Any, ClassVar

from wm import core

# Nothing is downloaded, and no code of the folder's is run.
_SAFE: dict[str, Any] = {'local_files_only': True, 'trust_remote_code': False}
INSTALL = "pip install -e '.[torch]'"


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """A world's sequences as text, scored by a language model.

  Tokens are spelled in pieces of the model's tokenizer; what the probability
  of a token is then, `wm.models.serving.pieces` says. Probability that goes to
  pieces that spell no token leaks; how much is said after scoring.

  Attributes:
    path: folder of the model: config.json, *.safetensors, tokenizer files.
    tokens: file of how tokens are spelled. JSON: {token: text, id of a piece,
      or list of ids}; CSV: columns `token` and `text`, or `token` and `id`.
      '': each token is a blank and the word, `end` the tokenizer's own end.
    before: text in front of every sequence; behind the tokenizer's first
      piece, if it has one (`bos_token`).
    renormalised: leave what leaks out, so that the tokens' probabilities add up
      to 1. By default they are the model's own, which epsilon rules mean.
    batch: texts read at once; no effect on results.
  """

  version: ClassVar[str] = '1'

  path: str = ''
  tokens: str = ''
  before: str = ''
  renormalised: bool = False
  batch: int = dataclasses.field(default=16, compare=False)

  def __post_init__(self) -> None:
    if self.batch < 1:
      raise core.InputError(
        f'huggingface: batch={self.batch} was given; expected at least 1'
      )

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model.

    Raises:
      InputError: no such folder or files, a token without spelling, or a model
        that takes too short texts.
    """
    del seed
    try:
      import torch
      import transformers

      from wm.models.serving import causal, pieces
    except ModuleNotFoundError as error:
      raise core.InputError(
        f'huggingface needs {error.name}: {INSTALL}'
      ) from error
    folder = pathlib.Path(self.path)
    if not self.path or not (folder / 'config.json').is_file():
      raise core.InputError(
        f'huggingface: no config.json in {self.path!r}; expected path=, the '
        'folder that save_pretrained wrote'
      )
    transformers.logging.disable_progress_bar()
    try:
      network = transformers.AutoModelForCausalLM.from_pretrained(
        folder, use_safetensors=True, dtype=torch.float32, **_SAFE
      )
    except (OSError, ValueError) as error:
      said = ' '.join(str(error).split())
      raise core.InputError(f'huggingface: {self.path}: {said}') from error
    words = _Words(folder)
    table = self._pieces(world, words)
    before = (*words.first(), *(words.of(self.before) if self.before else ()))
    spelled = pieces.spelling(world.vocab, table, before)
    longest = max(map(len, table.values()))
    known = network.config.vocab_size
    for word, path in table.items():
      if bad := [piece for piece in path if not 0 <= piece < known]:
        raise core.InputError(
          f'huggingface: token {word!r} has piece {bad[0]}; expected 0..'
          f'{known - 1}'
        )
    limit = getattr(network.config, 'max_position_embeddings', None)
    max_len = world.max_len
    if limit is not None:
      max_len = min(max_len, (limit - len(before)) // longest)
    if max_len < 2:
      raise core.InputError(
        f'huggingface: {self.path} takes {limit} pieces; {len(before)} before '
        f'each sequence and {longest} a token leave no room for two tokens'
      )
    return pieces.PiecePredictor(
      causal.Reader(network.eval()),
      spelled,
      end=world.end,
      max_len=max_len,
      renormalised=self.renormalised,
      batch=self.batch,
    )

  def _pieces(
    self, world: core.World, words: _Words
  ) -> dict[str, tuple[int, ...]]:
    """Pieces of each token but padding; InputError."""
    if self.tokens:
      given = _read(pathlib.Path(self.tokens))
    else:
      given = {word: f' {word}' for word in world.vocab[1:]}
      if world.end != core.DEAD and (end := words.end()) is not None:
        given[world.vocab[world.end]] = end
    missing = [word for word in world.vocab[1:] if word not in given]
    if missing:
      raise core.InputError(
        f'huggingface: {self.tokens} spells {len(given)} tokens, not '
        f'{missing[0]!r} and {len(missing) - 1} more of the world'
      )
    found = {}
    for word in world.vocab[1:]:
      value = given[word]
      path = words.of(value) if isinstance(value, str) else value
      path = (path,) if isinstance(path, int) else tuple(path)
      if not path or not all(type(piece) is int for piece in path):
        raise core.InputError(
          f'huggingface: token {word!r} is spelled {value!r}; expected a text, '
          'the id of a piece, or a list of ids'
        )
      found[word] = path
    return found


class _Words:
  """The tokenizer of a folder, loaded when a text is first to be cut."""

  def __init__(self, folder: pathlib.Path) -> None:
    self._folder = folder
    self._there = any(folder.glob('tokenizer*'))

  @functools.cached_property
  def _tokenizer(self) -> Any:
    import transformers

    if not self._there:
      raise core.InputError(
        f'huggingface: {self._folder} has no tokenizer; give ids of pieces '
        'in the file tokens='
      )
    load = transformers.AutoTokenizer.from_pretrained
    return load(self._folder, **_SAFE)

  def of(self, text: str) -> tuple[int, ...]:
    """Ids of a text's pieces, without special ones."""
    return tuple(self._tokenizer.encode(text, add_special_tokens=False))

  def first(self) -> tuple[int, ...]:
    """The piece that texts begin with, if there is one."""
    piece = self._tokenizer.bos_token_id if self._there else None
    return () if piece is None else (piece,)

  def end(self) -> int | None:
    """The piece that texts end with, if there is one."""
    return self._tokenizer.eos_token_id if self._there else None


def _read(path: pathlib.Path) -> dict[str, Any]:
  """Token -> text, id or ids, of a file; InputError."""
  try:
    text = path.read_text(encoding='utf-8')
  except (OSError, UnicodeDecodeError) as error:
    raise core.InputError(
      f'huggingface: cannot read {path}: {error}'
    ) from error
  if path.suffix == '.csv':
    rows = list(csv.DictReader(text.splitlines()))
    columns = list(rows[0]) if rows else []
    if columns == ['token', 'text']:
      return {row['token']: row['text'] for row in rows}
    if columns == ['token', 'id'] and all(r['id'].isdecimal() for r in rows):
      return {row['token']: int(row['id']) for row in rows}
    raise core.InputError(
      f'huggingface: {path} has columns {columns}; expected token and text, or '
      'token and id (whole numbers)'
    )
  try:
    found = json.loads(text)
  except ValueError as error:
    raise core.InputError(f'huggingface: {path}: {error}') from error
  if not isinstance(found, dict):
    raise core.InputError(
      f'huggingface: {path} holds a {type(found).__name__}; expected '
      '{token: text, id or list of ids}'
    )
  return found
