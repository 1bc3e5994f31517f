"""Reads answers of a language model: names of tokens, yes or no, labels."""

from __future__ import annotations

import collections
import re
from collections.abc import Sequence
from typing import Any

from wm import core
from wm.core import queries, verbal
from wm.core.predictor import Tokens
from wm.core.queries import Answer, Query
from wm.models.serving import replies

_NUMBERED = re.compile(r'\s*(\d{1,6})[.):]\s*(\S.*)')
_NUMBER = re.compile(r'[-+]?\d{1,30}(?:\.\d{0,30})?(?:[eE][-+]?\d{1,3})?')
_STRIPPED = ' \t\n.,;:!?*_"\'`'


class AnswerReader:
  """Reads answers of a language model, by the names of a world's tokens."""

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
    if question.kind == queries.LABELS:
      return read_labels(question, text)
    if question.kind == queries.YES_NO:
      reading = replies.yes_no(text)
      return Answer(reading.value, reading.failure, text=text)
    reading = replies.after_answer(text, loose=True)
    if reading.failure == 'nothing' and len(text) < 200 and '\n' not in text:
      reading = replies.visible(text)  # The answer alone.
    if reading.failure:
      return Answer(None, reading.failure, text=text)
    value: Tokens | int | None
    if question.kind == queries.ALL_NEXT:
      value = self._all(reading.value)
    else:
      value = self._one(reading.value, question.suffixes)
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


def read_labels(question: Query, text: str) -> Answer:
  """A list of as many labels as were asked for, or numbered lines of them.

  Failures are those of `replies`, 'wrong_length', and 'unknown_label', what is
  no class, or no finite number.

  Returns:
    value: tuple of integers, or of M * d floats.
  """
  ((num, width, classes),) = question.suffixes
  seen = replies.visible(text)
  if seen.failure:
    return Answer(None, seen.failure, text=text)
  answer = replies.after_answer(seen.value)
  words = seen.value if answer.failure else answer.value
  reading = replies.first_value(words, opening='[')
  if isinstance(reading.value, list) and not reading.failure:
    labels = _flat(reading.value)
  elif reading.failure == 'nothing':
    labels = _bare_labels(words)
    if not labels:
      return Answer(None, answer.failure or 'nothing', text=text)
  else:
    return Answer(None, reading.failure or 'nothing', text=text)
  if len(labels) != num * width:
    return Answer(None, 'wrong_length', text=text)
  numbers = tuple(_label(label, classes) for label in labels)
  if None in numbers:
    return Answer(None, 'unknown_label', text=text)
  return Answer(numbers, text=text)


def _flat(values: Sequence[Any]) -> list[Any]:
  """A list of labels, or of lists of them."""
  labels: list[Any] = []
  for value in values:
    labels += value if isinstance(value, list) else [value]
  return labels


def _bare_labels(text: str) -> list[str]:
  """Labels without brackets: behind commas, or on lines that are numbered."""
  matches = [_NUMBERED.fullmatch(line) for line in text.splitlines()]
  numbered = [match for match in matches if match]
  if numbered and [int(match[1]) for match in numbered] == [
    *range(1, len(numbered) + 1)
  ]:
    return [match[2].rpartition(':')[2].strip(' .*') for match in numbered]
  parts = text.split('\n\n')[0].replace('\n', ',').split(',')
  return [part.strip(' .*') for part in parts if part.strip(' .*')]


def _label(value: Any, classes: int) -> float | int | None:
  """A class below `classes`, or any number where that is 0; None is neither."""
  if isinstance(value, str):
    if not _NUMBER.fullmatch(value.strip()):
      return None
    value = float(value)
  if isinstance(value, bool) or not isinstance(value, int | float):
    return None
  if classes:
    whole = 0 <= value < classes and value == int(value)
    return int(value) if whole else None
  return float(value) if abs(value) < 1e30 else None
