"""Reading of lists and dicts that stand in free text; nothing is executed."""

from __future__ import annotations

import json
import math
import re
from typing import Any

# Deeper nesting is not read.
DEPTH = 32


def first(text: str, opening: str = '[{') -> tuple[Any, str]:
  """Reads the first balanced list or dict: JSON, or Python's literals.

  Either kind of quotes may hold a string, and a quote inside of one needs no
  backslash where no comma, colon or bracket follows. Tuples become lists. A
  trailing comma is allowed; NaN and infinities are not. The time is linear in
  the text's length.

  Args:
    text: any.
    opening: the brackets that a value may begin with, of '[{('.

  Returns:
    value: list or dict of str, int, float, bool, None, list and dict; keys are
      str, int, float, bool or None. None where there is none; of a truncated
      one what was complete.
    failure: '', 'nothing' (no bracket), 'malformed' (no literal in brackets),
      'truncated' (the text ends within it), 'too_deep'.
  """
  found = _decoded(text, opening)
  return scanned(text, opening) if found is None else found


def scanned(text: str, opening: str = '[{') -> tuple[Any, str]:
  """As `first`, by the scan that reads what is not JSON too."""
  return _Scan(text, opening).read()


def _finite(number: str) -> float:
  value = float(number)
  if not math.isfinite(value):
    raise ValueError(number)
  return value


def _constant(name: str) -> float:
  raise ValueError(name)


_JSON = json.JSONDecoder(
  parse_float=_finite, parse_constant=_constant, strict=False
)


def _decoded(text: str, opening: str) -> tuple[Any, str] | None:
  """The same by Python's JSON decoder, much faster; None where it cannot."""
  starts = [at for at in map(text.find, opening) if at >= 0]
  if not starts:
    return None, 'nothing'
  text = text[min(starts) :]
  if '"' not in text and '\\' not in text:
    text = text.replace("'", '"')
  try:
    value, end = _JSON.raw_decode(text)
  except (ValueError, RecursionError):
    return None
  if '\\u' in text:
    return None  # There may be halves of pairs, which the scan replaces.
  brackets = text.count('[', 0, end) + text.count('{', 0, end)
  if brackets > DEPTH and _deeper(value):
    return None, 'too_deep'
  return value, ''


def _deeper(value: Any) -> bool:
  """Does a value nest deeper than DEPTH?"""
  level = [value]
  for _ in range(DEPTH):
    level = [
      inner
      for outer in level
      for inner in (outer.values() if isinstance(outer, dict) else outer)
      if isinstance(inner, list | dict)
    ]
  return bool(level)


_WORDS = {'true': True, 'false': False, 'null': None}
_WORDS |= {'True': True, 'False': False, 'None': None}
_PAIRS = {'[': ']', '{': '}', '(': ')'}
_TOKEN = re.compile(
  r'\s*+(?:(?P<open>[\[{(])|(?P<close>[\]})])|(?P<mark>[,:])|(?P<quote>["\'])'
  r'|(?P<number>[-+]?(?:\d{1,300}+(?:\.\d{0,300}+)?|\.\d{1,300}+)'
  r'(?:[eE][-+]?\d{1,3})?)(?![\w.])'
  rf'|(?P<word>{"|".join(_WORDS)})\b)'
)
_END = re.compile(r'\s*+\Z')
# The rest of a string: a quote ends it where a mark, a closing bracket or the
# text's end follows.
_STRING = {
  quote: re.compile(
    rf'((?:[^{quote}\\]|\\.|{quote}(?!\s*+(?:[,:\]}})]|\Z)))*+){quote}',
    re.DOTALL,
  )
  for quote in '"\''
}
_ESCAPE = re.compile(
  r'\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})'
  r'|\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)',
  re.DOTALL,
)
_ESCAPES = {'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f', '\n': ''}


def _unescaped(found: re.Match[str]) -> str:
  high, low, code = found.groups()
  if high:
    return chr(
      0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF)
    )
  if len(code) == 1:
    return _ESCAPES.get(code, code)
  value = int(code[1:], 16)
  return '\ufffd' if 0xD800 <= value < 0xE000 else chr(value)


class _Open:
  """A list, dict or tuple whose end has not been read."""

  def __init__(self, bracket: str, start: int) -> None:
    self.bracket, self.start = bracket, start
    self.keys: list[Any] = []
    self.items: list[Any] = []
    # What may come next: an item (or key), the colon after a key, or a comma.
    self.due = 'item'

  def value(self) -> Any:
    """What it holds; a key without a value is dropped."""
    if self.bracket == '{':
      return dict(zip(self.keys, self.items, strict=False))
    return self.items

  def put(self, value: Any) -> bool:
    """Takes an item, or the key of one; False where none is due."""
    if self.due != 'item':
      return False
    if self.bracket == '{' and len(self.keys) == len(self.items):
      self.keys.append(value)
      self.due = ':'
      return not isinstance(value, list | dict)
    self.items.append(value)
    self.due = ','
    return True

  def mark(self, mark: str) -> bool:
    """Takes a comma or a colon; False where it is not due."""
    due, self.due = self.due, 'item'
    return due == mark

  def close(self, bracket: str) -> bool:
    """Takes a closing bracket; False where it does not fit."""
    whole = self.bracket != '{' or len(self.keys) == len(self.items)
    return _PAIRS[self.bracket] == bracket and whole


class _Scan:
  """Reads a text once, from its first bracket on.

  Where what is open turns out to be no literal, the first complete value inside
  of it counts; without one, reading goes on behind that place with nothing
  open. So each character is read a bounded number of times.
  """

  def __init__(self, text: str, opening: str) -> None:
    self._text, self._at, self._opening = text, 0, opening
    self._bracket = re.compile('[' + re.escape(opening) + ']')
    self._stack: list[_Open] = []
    # The first complete value inside of what is open: (its start, it).
    self._inner: tuple[int, Any] | None = None
    self._whole: Any = None
    self._failure = 'nothing'

  def read(self) -> tuple[Any, str]:
    """See first."""
    while True:
      if not self._stack:
        start = self._bracket.search(self._text, self._at)
        if not start:
          return None, self._failure
        self._at = start.start()
      token = _TOKEN.match(self._text, self._at)
      if token and self._take(token):
        if not self._stack:
          return self._whole, ''
        continue
      if self._failure == 'too_deep':
        return None, 'too_deep'
      if self._failure == 'truncated' or (token is None and self._ends()):
        return self._rest(), 'truncated'
      if self._inner:
        return self._inner[1], ''
      # Nothing of what is open can be read: begin behind it.
      self._stack.clear()
      self._failure = 'malformed'
      self._at += token is None

  def _ends(self) -> bool:
    """Does the text end here, perhaps within a word?"""
    if _END.match(self._text, self._at):
      return True
    rest = self._text[self._at : self._at + 9].lstrip()
    ends = self._at + 9 > len(self._text)
    return ends and any(word.startswith(rest) for word in _WORDS)

  def _take(self, token: re.Match[str]) -> bool:
    """Takes a token; False where it cannot follow what was read."""
    kind, text = token.lastgroup, token[0].lstrip()
    if kind == 'open':
      return self._opened(text, token.end())
    top, self._at = self._stack[-1], token.end()
    if kind == 'close':
      return self._closed(text)
    if kind == 'mark':
      return top.mark(text)
    if kind == 'word':
      return top.put(_WORDS[text])
    if kind == 'quote':
      return self._string(text)
    if self._at == len(self._text):
      self._failure = 'truncated'  # More of its digits may have been cut off.
      return False
    value = float(text) if set(text) & set('.eE') else int(text)
    return math.isfinite(value) and top.put(value)

  def _opened(self, bracket: str, end: int) -> bool:
    if len(self._stack) >= DEPTH:
      self._failure = 'too_deep'
      return False
    if self._stack and self._stack[-1].due != 'item':
      return False  # It may begin a value of its own.
    self._at = end
    self._stack.append(_Open(bracket, end))
    return True

  def _closed(self, bracket: str) -> bool:
    top = self._stack[-1]
    if not top.close(bracket):
      return False
    self._stack.pop()
    self._whole = top.value()
    if not self._stack:
      return True
    earlier = self._inner is not None and self._inner[0] < top.start
    if not earlier and top.bracket in self._opening:
      self._inner = top.start, self._whole
    return self._stack[-1].put(self._whole)

  def _string(self, quote: str) -> bool:
    found = _STRING[quote].match(self._text, self._at)
    if not found:
      self._failure = 'truncated'
      return False
    self._at = found.end()
    value = found[1]
    if '\\' in value:
      value = _ESCAPE.sub(_unescaped, value)
    return self._stack[-1].put(value)

  def _rest(self) -> Any:
    """What was complete where the text was cut off."""
    while len(self._stack) > 1:
      value = self._stack.pop().value()
      if value:
        self._stack[-1].put(value)
    return self._stack[0].value()
