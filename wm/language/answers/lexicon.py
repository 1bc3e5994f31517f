"""Words and forms of answers, from lexicon.toml; a language is added there."""

from __future__ import annotations

import pathlib
import re
import tomllib

MARK, END = '\x1e', '\x1f'  # Before an answer, and behind one.
_FILE = pathlib.Path(__file__).with_name('lexicon.toml')
_DATA = tomllib.loads(_FILE.read_text(encoding='utf-8'))
_PLACE = re.compile(r'@(\w+)@')


def _joined(text: str) -> str:
  """A pattern on one line, with those that it holds."""
  text = re.sub(r'\n\s*', '', text.lstrip(' '))
  text = text.replace('@mark@', MARK).replace('@end@', END)
  return _PLACE.sub(lambda m: f'(?:{_joined(_DATA["patterns"][m[1]])})', text)


def _compiled(text: str) -> re.Pattern[str]:
  return re.compile(_joined(text), re.IGNORECASE | re.MULTILINE)


class Lexicon:
  """The patterns, by name."""

  def __init__(self) -> None:
    self._all = {k: _compiled(x) for k, x in _DATA['patterns'].items()}

  def __getattr__(self, name: str) -> re.Pattern[str]:
    return self._all[name]


lex = Lexicon()
sets = {name: frozenset(x.split()) for name, x in _DATA['words'].items()}
lists = {name: x.split() for name, x in _DATA['lists'].items()}
failures: dict[str, str] = _DATA['failures']
short: dict[str, str] = _DATA['short']
signs = {ord(x): text for many, text in _DATA['signs'].items() for x in many}
signs |= {0x2460 + n: f'\x1d{n + 1}. ' for n in range(20)}  # Circled numbers.
signs |= {0x2776 + n: f'\x1d{n + 1}. ' for n in range(10)}
replaced = [
  (_compiled(pattern), text.replace('@mark@', MARK).replace('@end@', END))
  for pattern, text in _DATA['markup']['replaced']
]
