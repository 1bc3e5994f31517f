r"""Reads replies of language models: yes or no, one of some names, a list.

The text of a reply comes in; a `Reading` goes out: a value, or why there is
none. The text is data, and nothing runs it. `structures` has the readers of
numbers, paths and objects, and `AnswerReader`, which chooses a reader for a
question.

One way for all tasks. A text becomes plain: its reasoning goes, and so do
Markdown, LaTeX and HTML. It may then mark answers, by `Answer:`, a heading,
`\boxed{}`, `<answer>` or a key of a JSON object:

  Let me see. ▸ 1, 7   Wait, 7 is closed. ▸ 1, 11, 2   This takes 2 steps.
              draft                       the last one counts

Without a mark all of a short text counts. A reader for each kind of answer
looks at that passage. A text that it cannot read has a failure, one of
FAILURES, and never a value that is made up. All readers take any string, and
time linear in its length.
"""

from __future__ import annotations

import collections
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from wm import core

LIMIT = 1 << 20
DEPTH = 32  # Deeper nesting of brackets is not read.

# What can be wrong with a reply -> what that means.
FAILURES = {
  'empty': 'no text',
  'too_long': f'more than {LIMIT:,} characters',
  'unfinished': 'reasoning that never ends, and nothing after it',
  'refused': 'the model declines to answer',
  'nothing': 'text without an answer of the form asked for',
  'both': 'yes and no',
  'several': 'several answers where one was asked for',
  'retracted': 'an answer that is taken back, and no other one',
  'malformed': 'brackets, and no literal list or dict in them',
  'truncated': 'a list or dict that the text ends in',
  'too_deep': f'brackets nested more than {DEPTH} deep',
  'unknown_name': 'a name that is none, or none of the choices',
  'unknown_label': 'a label that is no class, or no finite number',
  'wrong_length': 'more or fewer labels than were asked for',
  'cut_off': 'a reply that the limit of tokens cut off',
}
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
# A block of reasoning; one that never ends runs to the end of the text.
_TAG = re.compile(r'<(/?)(?:think|thinking|reasoning|thought)>', re.IGNORECASE)


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
  # Most replies have no tag: they are not scanned.
  rest, reasoning = (text, 0) if '<' not in text else _apart(text)
  rest = rest.strip()
  if rest:
    return Reading(rest, '', reasoning)
  return Reading('', 'unfinished' if reasoning else 'empty', reasoning)


def _apart(text: str) -> tuple[str, int]:
  """(text without reasoning, characters of reasoning)."""
  outside: list[str] = []
  # text  <think> r r </think> answer      one pass over the tags, in order
  start, reasoning, inside = 0, 0, False
  for tag in _TAG.finditer(text):
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
_WORD = re.compile(
  r'(?:true|false|null|True|False|None)\b|\w++\s*+(?::|\Z)',
)


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
  while match := starts.search(text, at):
    at = match.start()
    try:
      value, end = _JSON.raw_decode(quick, at) if text[at] != '(' else (0, 0)
    except (ValueError, RecursionError):
      end = 0
    if end and '\\u' not in text and _finite(value, DEPTH):
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
MARK, END = '\x1e', '\x1f'
_REPLACED = tuple(
  (re.compile(pattern, re.IGNORECASE | re.MULTILINE), text)
  for pattern, text in (
    # Signs and HTML.
    (r'[\x1e\x1f\u200b\ufeff]', ''),
    (r'[ \t\u00a0\u202f\u2009]+', ' '),
    (r'\n\s*\n', '\n\n'),
    ('[\u2018\u2019\u02bc\u2032]', "'"),
    ('[\u201c\u201d\u201e\u00ab\u00bb]', '"'),
    ('\uff1a', ':'),
    ('[\u2022\u25cf\u25aa]', '\n- '),
    (r'<answer>([^<]{0,4000})</answer>', f'{MARK}\\1{END}'),
    # LaTeX: boxes and commands around text, arrows, delimiters.
    (
      r'\\(?:text|textbf|textit|texttt|mathbf|mathrm|mathit|emph|operatorname)'
      r'\s?\{([^{}]{0,2000})\}',
      r'\1',
    ),
    (
      r'\\(?:boxed|fbox|framebox)\s?'
      r'\{((?:[^{}]|\{(?:[^{}]|\{[^{}]{0,9999}\}){0,9999}\}){0,9999})\}',
      f'{MARK}\\1{END}',
    ),
    (r'\\(?:long)?(?:right|left)+arrow\b|\\to\b|\\implies\b', '->'),
    (r'\\[()\[\],;:! ]|\\q?quad|\$', ' '),
    (
      '[\u2192\u2794\u27f6\u21d2\u27a1\u279c]|\u00e2\u2020\u2019|={1,2}>|-{1,3}>',
      '->',
    ),
    # Markdown: fences, rules, headings, emphasis.
    (r'^[ \t]*```[\w+-]*[ \t]*$|`', ''),
    (r'^[ \t]{0,3}(?:-{3,}|\*{3,}|_{3,})[ \t]*$', ''),
    (r'^[ \t]*#{1,6}[ \t]+', ''),
    (r'^([ \t]*)\*[ \t]+', r'\1- '),
    (r'\*|(?<!\w)_{1,2}(?=[^\W_])|(?<=[^\W_]|[.!?)])_{1,2}(?!\w)', ''),
  )
)
# `Answer:`, `My final answer is:`, a heading of this kind; also in French,
# German and Spanish.
_NOUN = r'(?:answer|antwort|r[e\u00e9]ponse|respuesta)'
_MARKS = re.compile(
  rf'(?:\b(?:(?:the|my|final|correct|best)[ ]){{0,3}}{_NOUN}"?[ ]?'
  r'(?:(?:is|should be|must be)?[ ]{0,2}[:=]|[ ]?[-\u2013\u2014][ ]'
  r'|[ \t]{0,4}(?=\n))'
  r'|^[ \t]*(?:final )?(?:verdict|solution|conclusion|result|correction)'
  r'[ ]?(?::|(?=\n))|^Q:[^\n]*\n+A:)(?!\s?"[\s.,)])',
  re.IGNORECASE | re.MULTILINE,
)
# A mark where a text has no other one.
_WEAK_MARKS = re.compile(
  rf'\b{_NOUN}(?: to (?:your|the|this) question)?'
  r' (?:is|must be|should be|would be|has to be)\b(?! not\b)',
  re.IGNORECASE,
)
# Keys of objects that hold an answer, and those that hold none.
_ANSWER_KEYS = re.compile(r'(?:final_?)?(?:answer|result|verdict)', re.I)
_ASIDE_KEYS = re.compile(
  r'.*(?:reason|expla|why|confiden|note|thought|step|length|cost|reward'
  r'|arrangement|comment|analysis)',
  re.IGNORECASE,
)
_RETRACTS = re.compile(
  r'\b(?:wait\b(?=,? |[.!\u2014\u2013-])|hold on|hmm|scratch that|correction'
  r'|oops|edit:|my mistake|on reflection|i overlooked'
  r'|on second thoughts?|let me (?:correct|revise|redo|fix|reconsider)'
  r'|i (?:made a mistake|made an error|was wrong|misread|take (?:that|it) back)'
  r"|that(?:'s| is| was) (?:not right|not correct|wrong|incorrect))",
  re.IGNORECASE,
)
DECLINES = re.compile(
  r"\s*(?:i'?m sorry|i am sorry|sorry\b|i apologi[sz]e"
  r"|i (?:cannot|can't|cant|can not|am unable|am not able|won'?t)"
  r"|i'm (?:unable|not able)|as an ai\b|unfortunately,? i\b)",
  re.IGNORECASE,
)
SENTENCE = re.compile(r'(?<=[\w)"\'\]])[.!?]["\')]?(?=\s+\S)|\n')


def plain(text: str) -> str:
  """A text without Markdown, LaTeX and HTML, and with MARKs."""
  for pattern, replacement in _REPLACED:
    text = pattern.sub(replacement, text)
  text = _MARKS.sub(MARK, _unwrapped(text))
  return text if MARK in text else _WEAK_MARKS.sub(MARK, text)


def _unwrapped(text: str) -> str:
  """A text with what a JSON object in it gives as its answer in its place."""
  for literal in [*literals(text, '{')][::-1]:
    if isinstance(literal.value, dict) and not literal.failure:
      words = written(answered(literal.value))
      if words:
        before, behind = text[: literal.start], text[literal.end :]
        return f'{before}{MARK}{words}{END}{behind}'
  return text


def answered(value: dict[str, Any]) -> Any:
  """The answer that an object holds; None where that is not clear."""
  keys = [key for key in value if _ANSWER_KEYS.fullmatch(key)]
  keys = keys or [key for key in value if not _ASIDE_KEYS.match(key)]
  return value[keys[0]] if len(keys) == 1 else None


def written(value: Any) -> str:
  """A value of JSON as a person would write it; '' of None and objects."""
  if isinstance(value, bool):
    return 'yes' if value else 'no'
  if isinstance(value, list):
    inner = [written(item) for item in value]
    nested = any(isinstance(item, list) for item in value)
    return (
      ', '.join(f'({item})' for item in inner) if nested else '; '.join(inner)
    )
  return '' if value is None or isinstance(value, dict) else str(value)


Parse = Callable[[str, bool], Any]


class Unread(str):
  """Why a parser reads nothing of a passage that is an answer."""


SEVERAL = Unread('several')


def read(text: str, parse: Parse) -> Reading:
  """Reads a text by a parser of one kind of answer.

  The last marked passage counts, or all of a text without marks.

  parse: (a passage, is it marked?) -> the value, Unread, or None.
  """
  seen = visible(text)
  if seen.failure:
    return seen._replace(value=None)
  head, *passages = plain(seen.value).split(MARK)
  passages = [x for x in passages if re.search(r'\w', x.split(END)[0])]
  passage, _, behind = (passages or [head])[-1].partition(END)
  value = parse(passage.strip(' \t\n:"'), bool(passages))
  failure = ''
  if value is None or isinstance(value, Unread):
    value, failure = None, str(value or 'nothing')
  elif passages:
    # Is what the passage begins with taken back behind it?
    first = SENTENCE.search(passage)
    behind = (passage[first.end() :] if first else '') + behind
    if _RETRACTS.search(behind):
      value, failure = None, 'retracted'
  if failure == 'nothing' and DECLINES.match(seen.value.replace('\u2019', "'")):
    failure = 'refused'
  return Reading(value, failure, seen.reasoning)


# Readers of each kind.

_SAYS = re.compile(
  r"""[\W_]*+(?:A:|so|thus|therefore|hence|then|actually|in\ short)?[\W_]*+
  (?P<word>(?:yes|yep|yeah|ja|oui|s\u00ed|\u662f|no|nope|nein|non|\u5426)\b)
  (?!\s*+(?:/|\?|(?:or|and|yes|no)\b)
    |\W{1,3}(?:wait|hold\ on|hmm|scratch)\b)""",
  re.IGNORECASE | re.VERBOSE,
)
# 'No' of `No road leads there` is no answer, nor is that of 'no idea'.
_CLAUSE = re.compile(
  r"""["')\]]*+(?:\s*+(?:[.,;:!(\u2013\u2014-]|$)|[ \t]*+\n
    |\s++(?:it|this|that|you|they|we|i|there|because|since|as|the|is)\b)""",
  re.IGNORECASE | re.VERBOSE,
)
# A text without a mark that goes on so may come to another answer.
_TURNS = {
  yes: re.compile(
    rf'\b(?:{other}|wait|actually|however|but|therefore|so|thus|hence|hmm)\b',
    re.IGNORECASE,
  )
  for yes, other in ((True, 'no'), (False, 'yes'))
}
_YES = frozenset(('yes', 'yep', 'yeah', 'ja', 'oui', 's\u00ed', '\u662f'))


def yes_no_words(text: str, marked: bool) -> Any:
  """Yes or no as the word that a passage begins with, as bool; or None."""
  match = _SAYS.match(text)
  if match is None:
    return None
  yes = match['word'].lower() in _YES
  if not marked and _TURNS[yes].search(text, match.end()):
    return SEVERAL
  return yes if yes or _CLAUSE.match(text, match.end()) else None


def yes_no(text: str) -> Reading:
  """Reads yes or no: the word that the answer begins with.

  A text without a mark that goes on with a 'but', a 'so' or another answer is
  'both'.

  Returns:
    value: bool.
  """
  reading = read(text, yes_no_words)
  both = reading.failure == 'several'
  return reading._replace(failure='both') if both else reading


SHORT = {
  'n': 'north',
  's': 'south',
  'e': 'east',
  'w': 'west',
  'ne': 'northeast',
  'nw': 'northwest',
  'se': 'southeast',
  'sw': 'southwest',
  'u': 'up',
  'd': 'down',
}  # What players type for a direction.
_VERB = re.compile(r'^(?:go|walk|move|head|run|travel)\s+(?:to the\s+|to\s+)?')
_ARTICLE = re.compile(r'\b(?:the|an?)\s+')
BRACKETED = re.compile(r'\([^()]{0,200}\)')
_ITEM = re.compile(r'\s*(?:[-*>]\s+|>|\(?(?:\d{1,3}|[a-hA-H])[.)]\s+)+')
# What follows a name and is no part of it.
_ASIDE = re.compile(
  r'\s(?:because|since|as|which|where|so that|to get)\b|[,;:.!]\s'
  r'|\s[-\u2013\u2014]\s|\s*->'
)
DENIES = re.compile(
  r'\b(?:not|cannot|never|neither|nor|none|except|avoid|rather than|instead of'
  r'|(?:any|every)thing but|invalid|illegal|impossible|forbidden'
  r"|possibly|perhaps|maybe|probably)\b|n't\b",
  re.IGNORECASE,
)
_LINE_LENGTH = 2000  # Characters of a line with a choice, at most.
STRIPPED = ' \t\n.,;:!?*_"\'`[]{}'


class Spellings:
  """Names that an answer may hold, each read in several spellings.

  A name is read without regard to case, articles, hyphens and marks around it,
  where no other name is alike; 'go north' and 'n' are north where that is a
  name.
  """

  def __init__(self, names: Mapping[str, int]) -> None:
    """names: name -> what it stands for."""
    self._exact = dict(names)
    alike = collections.Counter(map(_key, names))
    self._ids = {
      key: place
      for name, place in names.items()
      if alike[key := _key(name)] == 1
    }
    # Words of the longest name: more words than that are prose.
    self.longest = max((len(name.split()) for name in names), default=0)

  def exactly(self, text: str) -> int | None:
    """What all of a text names, in one of its spellings."""
    text = text.strip()
    if text in self._exact:
      return self._exact[text]
    key = _key(text)
    for spelling in (key, unabridged(key)):
      if spelling in self._ids:
        return self._ids[spelling]
    return None

  def item(self, text: str) -> int | None:
    """What a text names that may be numbered, or go on with an aside."""
    if text in self._exact or not self._exact:
      return self._exact.get(text)
    text = ' '.join(text.split())
    head = _ITEM.match(text)
    line = text[head.end() :] if head else text
    for part in (text, line, BRACKETED.sub(' ', line)):
      for words in (part, _ASIDE.split(part, maxsplit=1)[0]):
        token = self.exactly(words)
        if token is not None:
          return token
    return None

  def only(self, text: str) -> int | None:
    """As `item`, of a text that goes on with no other name."""
    if len(text) > _LINE_LENGTH:
      return None
    token = self.item(text)
    others = [
      self.item(part) for part in re.split('[,;]', text, maxsplit=2)[1:2]
    ]
    return token if set(others) <= {None, token} else None


def unabridged(action: str) -> str:
  """A direction without its verb, and in full: 'north' of 'go n'."""
  bare = _VERB.sub('', action)
  return SHORT.get(bare, bare)


def _key(name: str) -> str:
  name = name.casefold().strip(STRIPPED).replace('-', '')
  return _ARTICLE.sub('', ' '.join(name.split()))


def choice(text: str, names: Spellings) -> Reading:
  """Reads one of several names, which the answer begins with.

  Returns:
    value: what it stands for.
  """

  def parse(words: str, marked: bool) -> Any:
    """See read."""
    lines = [line for line in words.split('\n') if line.strip()]
    if not marked and (len(lines) != 1 or len(words) > 200):
      return None
    token = names.only(lines[0])
    return Unread('unknown_name') if token is None and marked else token

  return read(text, parse)


def listed(text: str, names: Spellings) -> Reading:
  """Reads a list of names, divided by semicolons, lines or commas.

  What has more words than any name is prose, and left out.

  Returns:
    value: sorted tuple of what they stand for, PAD for names of none; () of
      the word 'nothing'.
  """

  def parse(words: str, marked: bool) -> Any:
    """See read."""
    words = words.split('\n\n')[0] if marked else words.split('\n\n')[-1]
    if re.fullmatch(r'(?:nothing|none)(?: (?:can|is)\b.*)?', _key(words)):
      return ()
    tokens = _items(words, names)
    if tokens is None:
      return Unread('nothing') if marked else None
    if not marked and core.PAD in tokens:
      return None
    if marked and not tokens - {core.PAD}:
      return Unread('unknown_name')
    return tuple(sorted(tokens)) or None

  return read(text, parse)


def _items(words: str, names: Spellings) -> set[int] | None:
  """Tokens of the lines of a list; those of nothing but prose have none.

  None where a heading or an item denies or doubts what it names.
  """
  tokens: set[int] = set()
  for line in filter(str.strip, words.split('\n')):
    parts = line.split(';')
    # Names may have commas: they separate only where nothing else does.
    if len(parts) == 1 and '\n' not in words.strip():
      parts = re.split(r',|\band\b', line)
    head, colon, rest = parts[0].rpartition(':')
    if colon and DENIES.search(head):
      return None
    if colon and names.item(parts[0]) is None:
      parts[0] = rest  # 'The next elements are: north'
    places = [names.item(part) for part in parts if part.strip()]
    if places == [None] and len(_key(line).split()) > names.longest:
      continue
    if any(DENIES.search(x) and names.item(x) is None for x in parts):
      return None
    tokens |= {core.PAD if place is None else place for place in places}
  return tokens
