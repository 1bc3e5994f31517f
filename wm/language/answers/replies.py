r"""Finds the answer in a reply of a language model, and makes it plain text.

The text of a reply comes in; the passage that answers goes to a parser of
`grammar`, and a `Reading` goes out: a value, or why there is none. The text is
data, and nothing runs it.

One way for all tasks. A text becomes plain: its reasoning goes, and so do
Markdown, LaTeX, HTML and what is struck out. Tables, JSON and tool calls become
lines. It may then mark answers, by `Answer:`, a heading, `\boxed{}`, `<answer>`
or a key of a JSON object:

  Let me see. ▸ 1, 7   Wait, 7 is closed. ▸ 1, 11, 2   This takes 2 steps.
              draft                       the last one counts

Without a mark all of a short text counts. A text that cannot be read has a
failure, one of FAILURES, and never a value that is made up. All readers take
any string, and time linear in its length.
"""

from __future__ import annotations

import functools
import json
import math
import pathlib
import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

# Words and forms are data, in lexicon.toml: a language is added there.
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
# What can be wrong with a reply -> what that means.
FAILURES: dict[str, str] = _DATA['failures']
short: dict[str, str] = _DATA['short']
signs = {ord(x): text for many, text in _DATA['signs'].items() for x in many}
signs |= {0x2460 + n: f'\x1d{n + 1}. ' for n in range(20)}  # Circled numbers.
signs |= {0x2776 + n: f'\x1d{n + 1}. ' for n in range(10)}
replaced = [
  (_compiled(pattern), text.replace('@mark@', MARK).replace('@end@', END))
  for pattern, text in _DATA['markup']['replaced']
]

LIMIT = 1 << 20
LONGEST = 100_000  # Characters of the passage that answers.
DEPTH = 32  # Deeper nesting of brackets is not read.

STRIPPED = ' \t\n.,;:!*_"\'`[]{}'
# Why a reply that cannot be read ended -> what that is called.
_STOPPED = {
  'max_tokens': 'cut_off',
  'model_length': 'cut_off',
  'content_filter': 'refused',
}


def cause(failure: str, stop: str | None) -> str:
  """Why a reply is unread: that it was cut off, where it was.

  failure: '', or a key of FAILURES. stop: Inspect's word for its end.
  """
  return _STOPPED.get(stop or '', failure) if failure else ''


class Reading(NamedTuple):
  """A value that was read from a reply.

  Attributes:
    value: see the reader; None where there is none.
    failure: '', or a key of FAILURES.
    reasoning: characters of reasoning, which were not read.
  """

  value: Any
  failure: str = ''
  reasoning: int = 0


_SURROGATE = re.compile('[\ud800-\udfff]')


def _channel(match: re.Match[str]) -> str:
  # What goes to the user or to a tool is no reasoning.
  spoken = match[1] == 'final' or 'to=' in match[2]
  return '</think>' if spoken else '<think>'


def visible(text: str) -> Reading:
  """The text without its reasoning, `<think>...</think>` and its like.

  A closing tag alone ends reasoning that began with the text, as where a
  model's template opened it. What is not UTF-8 (lone surrogates) becomes
  U+FFFD.

  Returns:
    value: the stripped text; '' beside a failure ('empty', 'too_long',
      'unfinished').
  """
  if len(text) > LIMIT:
    return Reading('', 'too_long')
  if not text.isascii():
    text = _SURROGATE.sub('\ufffd', text)
  if '<|' in text:
    text = lex.turn_mark.sub('', lex.channel.sub(_channel, text))
  rest, reasoning = _apart(text) if lex.tag.search(text) else (text, 0)
  rest = rest.strip()
  if rest:
    return Reading(rest, '', reasoning)
  return Reading('', 'unfinished' if reasoning else 'empty', reasoning)


def _apart(text: str) -> tuple[str, int]:
  """(text without reasoning, characters of reasoning)."""
  outside: list[str] = []
  # text  <think> r r </think> answer      one pass over the tags, in order
  start, reasoning, inside = 0, 0, False
  for tag in lex.tag.finditer(text):
    piece = text[start : tag.start()]
    closes, start = tag.group(1) == '/', tag.end()
    if inside:
      reasoning += len(piece)
    elif closes:
      # All of it so far was reasoning.
      reasoning += sum(map(len, outside)) + len(piece)
      outside = []
    else:
      outside.append(piece)
    # An opening tag within reasoning changes nothing: blocks do not nest.
    inside = not closes
  rest = text[start:]
  if inside:
    return ''.join(outside), reasoning + len(rest)
  return ''.join([*outside, rest]), reasoning


# Literals: JSON, JSON5 and Python's, each rewritten as JSON.

_CLOSING = {'[': ']', '{': '}', '(': ')'}
_CONSTANTS = {'True': 'true', 'False': 'false', 'None': 'null'}
# A quote ends a string where a mark, a closing bracket or the text's end
# follows, so names may hold apostrophes.
_TOKEN = re.compile(
  r"""(?P<blank>\s++|//[^\n]*+|\#[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)
  |(?P<open>[\[{(])|(?P<close>[\]})])|(?P<mark>[,:])
  |"(?P<double>(?:[^"\\]|\\.|"(?!\s*+(?:[,:\]})]|//|\Z)))*+)"
  |'(?P<single>(?:[^'\\]|\\.|'(?!\s*+(?:[,:\]})]|//|\Z)))*+)'
  |(?P<number>[-+]?(?:\d{1,300}+(?:\.\d{0,300}+)?|\.\d{1,300}+)
    (?:[eE][-+]?\d{1,3})?)(?![\w.])
  |(?P<word>[A-Za-z_]\w{0,60}+)""",
  re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r'\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|["\\/bfnrt]|.)', re.S)
# A constant, the key of an object, or the text's end within either.
_WORD = re.compile(r'(?:true|false|null|True|False|None)\b|\w++\s*+(?::|\Z)')


def _constant(name: str) -> float:
  raise ValueError(name)


_JSON = json.JSONDecoder(parse_constant=_constant, strict=False)


class Literal(NamedTuple):
  """A value in brackets.

  Attributes:
    value: list or dict; None beside a failure, but for the complete items of a
      'truncated' one.
    failure: '', 'malformed', 'truncated' or 'too_deep'.
    start, end: of the outermost brackets in the text.
  """

  value: Any
  failure: str
  start: int
  end: int


def literals(text: str, opening: str = '[{') -> Iterator[Literal]:
  """Yields the lists and dicts of a text: JSON, JSON5, Python's literals.

  Tuples become lists, and numbers that are keys become text. In brackets that
  hold no literal, complete ones within count. The time is linear in the text's
  length.

  opening: the brackets that a value may begin with, of '[{('.
  """
  at, size = 0, len(text)
  # Not a bracket in quotes of its own.
  starts = re.compile(rf'[{re.escape(opening)}](?!(?<=["\'].)["\'])')
  # Python writes single quotes: without others in the text they are JSON's.
  plain = '"' not in text and '\\' not in text
  quick = text.replace("'", '"') if plain else text
  escaped = '\\u' in text
  while match := starts.search(text, at):
    at = match.start()
    try:
      value, end = _JSON.raw_decode(quick, at) if text[at] != '(' else (0, 0)
    except (ValueError, RecursionError):
      end = 0
    if end and not escaped and _finite(value, DEPTH):
      yield Literal(value, '', at, end)
      at = end
    else:
      scan = _Scan(text, at, opening)
      for value, failure in scan.values():
        yield Literal(value, failure, at, scan.end)
      at = scan.end
    if at >= size:
      return


def _finite(value: Any, depth: int) -> bool:
  """No infinities in it, and no more levels than `depth`?"""
  if isinstance(value, float):
    return math.isfinite(value)
  if not isinstance(value, list | dict):
    return True
  inner = value.values() if isinstance(value, dict) else value
  return depth > 0 and all(_finite(item, depth - 1) for item in inner)


class _Scan:
  """Brackets at a place of a text, rewritten as JSON.

  Attributes:
    end: where the next ones may begin.
  """

  def __init__(self, text: str, start: int, opening: str) -> None:
    self._json: list[str] = []
    self._failure = 'malformed'
    # Brackets that are open, as (bracket, place in `_json`), and where complete
    # values within stand there.
    stack: list[tuple[str, int]] = []
    self._inner: list[tuple[int, int]] = []
    self._complete = 0  # Places of `_json` before the last item.
    self.end = start
    while token := _TOKEN.match(text, self.end):
      kind, piece = str(token.lastgroup), token[0]
      if kind == 'open' and len(stack) == DEPTH:
        self._failure, self.end = 'too_deep', len(text)
        return
      if kind == 'close' and _CLOSING[stack[-1][0]] != piece:
        break
      if kind == 'word' and not _WORD.match(text, token.start()):
        break  # Prose.
      self.end = token.end()
      if kind == 'open':
        stack.append((piece, len(self._json)))
        self._json.append('{' if piece == '{' else '[')
      elif kind == 'close':
        bracket, place = stack.pop()
        if self._json[-1] == ',':
          self._json.pop()  # JSON has no comma at the end.
        self._json.append('}' if piece == '}' else ']')
        if not stack:
          self._failure = ''
          return
        if bracket in opening:
          self._inner = [s for s in self._inner if s[0] < place]
          self._inner.append((place, len(self._json)))
      elif kind != 'blank':
        if piece == ',' and len(stack) == 1:
          self._complete = len(self._json)
        self._json.append(_as_json(kind, token))
    rest = text[self.end : self.end + 80]
    # A string without its end runs to the end of the text.
    if not rest.strip() or rest[0] in '"\'':
      self._failure, self.end = 'truncated', len(text)
    else:
      self.end += 1

  def values(self) -> Iterator[tuple[Any, str]]:
    """See literals."""
    if not self._failure:
      value = self._value(0, len(self._json))
      if value is not None:
        yield value, ''
        return
      self._failure = 'malformed'
    inner = [self._value(*span) for span in self._inner]
    values = [value for value in inner if value is not None]
    yield from ((value, '') for value in values)
    if self._failure == 'truncated':
      closing = _CLOSING[self._json[0]]
      self._json[self._complete or 1 :] = [closing]
      yield self._value(0, len(self._json)), 'truncated'
    elif not values:
      yield None, self._failure

  def _value(self, start: int, end: int) -> Any:
    pieces = self._json[start:end]
    for k in range(len(pieces) - 1):  # Keys of JSON are text.
      if pieces[k + 1] == ':' and pieces[k][0] not in '"]}':
        pieces[k] = f'"{pieces[k]}"'
    try:
      value = json.loads(' '.join(pieces), parse_constant=_constant)
    except ValueError:
      return None
    return value if _finite(value, DEPTH) else None


def _as_json(kind: str, token: re.Match[str]) -> str:
  """A string, number, word or mark as JSON has it."""
  text = token[kind]
  if kind in ('single', 'double'):
    value = _ESCAPE.sub(_unescaped, text)
    # Halves of a pair that belong together become one character.
    value = value.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')
    return json.dumps(value)
  if kind == 'number':
    return repr(float(text)) if set(text) & set('.eE') else text.lstrip('+')
  return _CONSTANTS.get(text, text)


def _unescaped(escape: re.Match[str]) -> str:
  code = escape[1]
  if len(code) > 1:
    return chr(int(code[1:], 16))
  # A backslash before any other character stands for that character.
  return dict(zip('nrtbf\n', '\n\r\t\b\f', strict=False)).get(code, code)


# Plain text and its marks. MARK stands before an answer, END behind one that
# has an end of its own; both are removed from what a model writes.
YES, NO, UNSURE = '\u2713', '\u2717', '?'  # What marks of a list become.


def plain(text: str) -> str:
  """A text without Markdown, LaTeX and HTML, and with MARKs."""
  text = text.translate(signs)
  for pattern, replacement in replaced:
    text = pattern.sub(replacement, text)
  text = lex.marks.sub(MARK, _unwrapped(tables(text)))
  return text if MARK in text else lex.weak_marks.sub(MARK, text)


def tables(text: str) -> str:
  """A text with its Markdown tables as lists of JSON."""
  return lex.table.sub(_table, text) if '|' in text else text


def _table(match: re.Match[str]) -> str:
  lines = [line.strip().strip('|') for line in match[0].strip().split('\n')]
  rows = [
    [cell.strip(' `*') for cell in line.split('|')]
    for line in lines
    if not lex.rule.fullmatch(line)
  ]
  if not rows or len(rows) == len(lines):
    return '\n'.join(': '.join(row) for row in rows)
  head, *rows = rows
  if len({*head}) < len(head) or {len(head)} != {*map(len, rows)}:
    return match[0]
  return json.dumps([dict(zip(head, row, strict=True)) for row in rows]) + '\n'


def fields(text: str) -> list[dict[str, str]]:
  """Records that are written as lines `- key: value`, as in YAML."""
  records: list[dict[str, str]] = []
  for dash, key, value in lex.field.findall(text):
    if dash or not records:
      records.append({})
    records[-1][key] = value.strip(' \'"')
  return records


_REMARK = 150  # Characters of a remark behind a list.


def _unwrapped(text: str) -> str:
  """A text with what JSON in it gives as its answer in its place."""
  start = max(len(text) - LONGEST, 0)
  for literal in [*literals(text[start:])][::-1]:
    value = literal.value
    simple = isinstance(value, dict) or (
      all(isinstance(item, bool | str | dict) for item in value or ())
      # A list or table in a reasoning is followed by more of it.
      and len(text) - start - literal.end < _REMARK
    )
    if literal.failure or not (simple or _pairs(value)):
      continue
    words = written(value)
    if not words and 2 * (literal.end - literal.start) > len(text):
      words = UNSURE  # Its text would be taken for an answer.
    if words:
      before = text[: start + literal.start]
      behind = text[start + literal.end :]
      return f'{before}{MARK}{words}{END}{behind}'
  return text


def _pairs(value: list[Any]) -> bool:
  """Is this a list of names, each with a verdict?"""
  return all(
    isinstance(item, list)
    and len(item) == 2
    and isinstance(item[0], str)
    and lex.verdict.fullmatch(written(item[1]))
    for item in value
  )


def key_words(key: str) -> str:
  """A key in words: 'finalAnswer' and 'final_answer' are 'final answer'."""
  # Answers repeat a few keys; a long one is not worth its room.
  return _key_words(key) if len(key) <= _KEY else _key_words.__wrapped__(key)


_KEY = 40  # Characters.


@functools.lru_cache(maxsize=1024)
def _key_words(key: str) -> str:
  key = re.sub(r'(?<=[a-z0-9])(?=[A-Z])|[_\s-]+', ' ', key).strip().lower()
  return re.sub(r'^(?:is|are|can) (?=\w)', '', key)


def written(value: Any) -> str:
  """A value of JSON as a person would write it; '' of what is not clear."""
  if isinstance(value, bool):
    return 'yes' if value else 'no'
  if isinstance(value, dict):
    return _written_object(value)
  if isinstance(value, list):
    inner = [written(item) for item in value]
    if any(isinstance(item, dict) for item in value):
      clear = all(inner) and not any('\n' in line for line in inner)
      return '\n'.join(inner) if clear else ''
    if value and _pairs(value):
      return '\n'.join(f'{name}: {written(yes)}' for name, yes in value)
    nested = any(isinstance(item, list) for item in value)
    listed = ', '.join(f'({x})' for x in inner) if nested else '; '.join(inner)
    return listed or '[]'
  return '' if value is None else str(value)


def _written_object(value: dict[str, Any]) -> str:
  """The answer of an object, else its entries, a line each."""
  words = {key_words(key): item for key, item in value.items()}
  for key, item in words.items():
    if lex.tool_keys.fullmatch(key) and len(words) < 5:
      if isinstance(item, str):
        item = next((x.value for x in literals(item) if not x.failure), item)
      return written(item)
  answers = [key for key in words if lex.answer_keys.fullmatch(key)]
  ends = [
    item
    for end in (lex.from_key, lex.to_key)
    for key, item in words.items()
    if end.fullmatch(key)
  ]
  numbers = [
    key
    for key, item in words.items()
    if lex.number_keys.fullmatch(key) and str(item).isdecimal()
  ]
  keys = [
    key
    for key in words
    if not lex.aside_keys.match(key) and key not in numbers[:1]
  ]
  items = [written(words[key]) for key in keys]
  denied = any(lex.denies.search(key) for key in keys)
  if len(keys) == 2 and len(ends) == 2:
    return f'{written(ends[0])} -> {written(ends[1])}'
  if len(keys) == 2 and isinstance(words[keys[0]], str):
    first, second = map(lex.verdict.fullmatch, items)
    if second and not first:
      return f'{items[0]}: {UNSURE if denied else items[1]}'
  if len(answers) == 1:
    keys, items, denied = answers, [written(words[answers[0]])], False
  if len(keys) == 1 and not (denied and not isinstance(words[keys[0]], list)):
    line = f'{keys[0]}: {items[0]}' if denied else items[0]
    return f'{words[numbers[0]]}. {line}' if numbers else line
  pairs = [
    f'{m[1] + "." if (m := lex.item_key.fullmatch(key)) else key + ":"} {item}'
    for key, item in zip(keys, items, strict=True)
  ]
  return '\n'.join(pairs) if all(items) else ''


Parse = Callable[[str, bool], Any]


class Unread(Exception):
  """Why a parser reads nothing of an answer: a key of FAILURES."""


def refuse(condition: object, failure: str) -> None:
  """Leaves an answer unread where a condition holds."""
  if condition:
    raise Unread(failure)


def read(text: str, parse: Parse) -> Reading:
  """Reads a text by a parser of one kind of answer.

  The last marked passage counts, or all of a text without marks.

  Args:
    text: any.
    parse: (a passage, is it marked?) -> the value, or None; it raises Unread.
  """
  seen = visible(text)
  if seen.failure:
    return seen._replace(value=None)
  head, *passages = plain(seen.value).split(MARK)
  passages = [x for x in passages if _SAYS_SOMETHING.search(x.split(END)[0])]
  # What an answer with an end of its own is followed by is a new paragraph.
  passage = (passages or [head])[-1].replace(END, '\n\n').strip(' \t\n:"')
  value, failure = None, ''
  try:
    if len(passage) > LONGEST:
      raise Unread('too_long')
    value = parse(passage, bool(passages))
    first = lex.sentence.search(passage)
    if first and lex.retracts.search(passage, first.end()):
      raise Unread('retracted')
  except Unread as reason:
    value, failure = None, str(reason)
  if value is None:
    failure = failure or 'nothing'
  text = seen.value.replace('\u2019', "'")
  if failure == 'nothing' and lex.declines.match(text):
    failure = 'refused'
  return Reading(value, failure, seen.reasoning)


_SAYS_SOMETHING = re.compile(rf'[\w{YES}{NO}\[]')
