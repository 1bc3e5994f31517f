"""Reads what a language model wrote, by the names of a world's tokens."""

from __future__ import annotations

import collections
from collections.abc import Sequence

from wm import core
from wm.core import queries, verbal
from wm.core.predictor import Tokens
from wm.core.queries import Answer, Query
from wm.language import replies

_STRIPPED = ' \t\n.,;:!?*_"\'`'


class NameReader:
  """Reads what a language model wrote, by the names of a world's tokens."""

  def __init__(self, names: Sequence[str]) -> None:
    """names: of all tokens, by id."""
    self._exact = {name: token for token, name in enumerate(names) if token}
    # Names that differ in case or in marks alone are read exactly or not.
    alike = collections.Counter(map(_plain, names))
    self._ids = {
      plain: token
      for name, token in self._exact.items()
      if alike[plain := _plain(name)] == 1
    }
    self._longest = max(len(name.split()) for name in names)

  def read(self, question: Query, text: str) -> Answer:
    """The answer that a text gives to a question.

    Failures are those of `replies`, and 'unknown_name', a token's name that is
    none, or none of the choices.
    """
    if question.kind == queries.YES_NO:
      found = replies.yes_no(text)
      return Answer(found.value, found.failure, text=text)
    found = replies.after_answer(text, loose=True)
    if found.failure == 'nothing' and len(text) < 200 and '\n' not in text:
      found = replies.visible(text)  # The answer alone.
    if found.failure:
      return Answer(None, found.failure, text=text)
    value: Tokens | int | None
    if question.kind == queries.ALL_NEXT:
      value = self._all(found.value)
    else:
      value = self._one(found.value, question.suffixes)
    return Answer(value, 'unknown_name' if value is None else '', text=text)

  def _token(self, name: str) -> int | None:
    token = self._exact.get(name.strip())
    return self._ids.get(_plain(name)) if token is None else token

  def _all(self, text: str) -> Tokens | None:
    """Tokens of a list, PAD for names of none; None where all are of none.

    What has more words than any name is prose, and left out.
    """
    text = text.split('\n\n')[0]
    if _plain(text) == verbal.NOTHING:
      return ()
    parts = text.replace('\n', ';').split(';')
    if len(parts) == 1:
      parts = text.split(',')
    listed: set[int] = set()
    for part in parts:
      token = self._token(part)
      if token is not None:
        listed.add(token)
      elif 0 < len(_plain(part).split()) <= self._longest:
        listed.add(core.PAD)
    return tuple(sorted(listed)) if listed - {core.PAD} else None

  def _one(self, text: str, choices: tuple[Tokens, ...]) -> int | None:
    token = self._token(text.split('\n')[0])
    places = [k for k, (choice,) in enumerate(choices) if choice == token]
    return places[0] if places else None


def _plain(name: str) -> str:
  name = name.strip().removeprefix('- ').strip(_STRIPPED)
  return ' '.join(name.casefold().split())
