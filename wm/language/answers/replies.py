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

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

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
  'incomplete': 'an answer that leaves a part of itself out',
  'unclear': 'names, verdicts or doubts that no rule explains',
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
    leftover: words of the text that the value does not need.
  """

  value: Any
  failure: str = ''
  reasoning: int = 0
  leftover: int = 0


_SURROGATE = re.compile('[\ud800-\udfff]')
# A block of reasoning; one that never ends runs to the end of the text.
_TAG = re.compile(
  r'[<\[\u25c1](/?)(?:seed:)?(?:think|thinking|reasoning|thoughts?|scratchpad'
  r'|analysis|reflection|cot)[>\]\u25b7]',
  re.IGNORECASE,
)
# Channels of OpenAI's open models; other marks of turns go.
_CHANNEL = re.compile(
  r'<\|channel\|>\s{0,9}(\w{1,20})([^<]{0,200}(?:<\|constrain\|>\w{1,20})?)'
  r'<\|message\|>'
)
_TURN_MARK = re.compile(r'<\|\w{1,20}\|>(?:assistant\b)?')


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
    text = _TURN_MARK.sub('', _CHANNEL.sub(_channel, text))
  rest, reasoning = _apart(text) if _TAG.search(text) else (text, 0)
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
YES, NO, UNSURE = '\u2713', '\u2717', '?'  # What marks of a list become.
_SIGNS = str.maketrans(
  {
    **dict.fromkeys('\x1d\x1e\x1f\u200b\ufeff', ''),
    **dict.fromkeys('\u2018\u2019\u02bc\u2032', "'"),
    **dict.fromkeys('\u201c\u201d\u201e', '"'),
    **dict(zip('\uff1a\uff0c\u3001\uff1b\u3002', ':,,;.', strict=True)),
    **dict(zip('\uff08\uff09\uff1f\uff01', '()?!', strict=True)),
    **{chr(0x2460 + n): f'\x1d{n + 1}. ' for n in range(20)},
    **{chr(0x2776 + n): f'\x1d{n + 1}. ' for n in range(10)},
    **dict.fromkeys('\u2705\u2714\u2611\U0001f44d\U0001f197', f' {YES} '),
    **dict.fromkeys('\u274c\u2718\u2610\U0001f44e\U0001f6ab\u26d4', f' {NO} '),
    **dict.fromkeys('\u2612\u274e', f' {UNSURE} '),
    **dict.fromkeys(map(chr, range(0x2798, 0x27BF)), '->'),
    **dict.fromkeys('\u2192\u2794\u27f6\u21d2\u2b95\u21e8\u21a6', '->'),
    **dict.fromkeys('\u25cf\u25aa\u2022', '\x1d- '),
  }
)
_CJK = '\u3040-\u30ff\u4e00-\u9fff'
_ALONE = rf'(?<![{_CJK}])(?:%s)(?![{_CJK}])'
_REPLACED = tuple(
  (re.compile(pattern, re.IGNORECASE | re.MULTILINE), text)
  for pattern, text in (
    # What is struck out is taken back.
    (
      r'~~[^~]{1,2000}~~|<(del|s|strike)>[^<]{0,2000}</\1>'
      r'|\\(?:sout|cancel)\{[^{}]{0,500}\}|(?:\S\u0336)+',
      ' ',
    ),
    # Signs and HTML.
    (r'(\d)\ufe0f?\u20e3', '\x1d\\1. '),
    ('\\s{0,99}\x1d', '\n'),
    (r'[\U0001f300-\U0001faff\u2600-\u26ff\u2728\u2b50\ufe0f]', ' '),
    (r'[ \t\u00a0\u202f\u2009]+', ' '),
    (r'\n\s*\n', '\n\n'),
    ('\u00ab([^\u00ab\u00bb]{0,500})\u00bb', r'"\1"'),
    (
      r'<(answer|output|final|response|result)>([^<]{0,4000})</\1>',
      f'{MARK}\\2{END}',
    ),
    (r'</?(?:b|i|u|em|strong|code|span|p|br)\b[^<>]{0,99}>', ''),
    (r'</?(?:tool_call|function_call|invoke|parameter)\b[^<>]{0,200}>', ' '),
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
    (r'\\[()\[\],;:!{}]|\\q?quad|\$', ' '),
    (r'\u00e2\u2020\u2019|={1,2}>|-{1,3}>|~>|\u00bb', '->'),
    # Markdown: fences, rules, headings, emphasis, checklists.
    (r'^[ \t]*```[\w+-]*[ \t]*$|`', ''),
    (r'^[ \t]{0,3}(?:-{3,}|\*{3,}|_{3,})[ \t]*$', ''),
    (r'^[ \t]*#{1,6}[ \t]+', ''),
    (r'^([ \t]*)\*[ \t]+', r'\1- '),
    (r'^((?:[ \t]*[-+])?[ \t]*(?:\d{1,3}[.):])?[ \t]*)\[x\]', rf'\1{YES}'),
    (r'^((?:[ \t]*[-+])?[ \t]*(?:\d{1,3}[.):])?[ \t]*)\[ \]', rf'\1{NO}'),
    (r'\*|(?<!\w)_{1,2}(?=[^\W_])|(?<=[^\W_]|[.!?)])_{1,2}(?!\w)', ''),
    # Chinese and Japanese, whose words have no borders.
    ('\u7b54\u6848(?:[\u662f\u4e3a]|(?=:))|\u7b54\u3048', 'answer: '),
    (
      _ALONE
      % '(?:\u4e0d(?:\u662f|\u53ef\u4ee5|\u80fd|\u884c|\u53ef\u80fd|\u5bf9)'
      '|\u5426|\u65e0\u6548|\u9519\u8bef|\u3044\u3044\u3048)\u7684?',
      ' no ',
    ),
    (
      _ALONE % '(?:\u662f|\u53ef\u4ee5|\u80fd|\u5bf9|\u884c|\u6709\u6548'
      '|\u6b63\u786e|\u53ef\u80fd|\u306f\u3044)\u7684?',
      ' yes ',
    ),
  )
)
# Words of verdicts, denials, doubts, and of parts that are left out.
_GOOD = (
  'possible|allowed|valid|legal|true|ok|okay|permitted|available|correct|open'
)
VERDICT = re.compile(
  rf"""(?<![\w-])(?:(?P<no>no|nope|nein|non|\u043d\u0435\u0442|{NO}|false
  |invalid|illegal|impossible|forbidden|blocked|closed|shut|wrong|incorrect
  |prohibited|unavailable|disallowed|cannot|can't|infeasible
  |(?:not|isn't|never)\ (?:be\ )?(?:{_GOOD}|taken|reached))
  |(?P<yes>yes|yep|yeah|ja|oui|s\u00ed|\u0434\u0430|{YES}|free|feasible|{_GOOD})
  )(?![\w-])""",
  re.IGNORECASE | re.VERBOSE,
)
DENIES = re.compile(
  r'\b(?:not|cannot|never|neither|nor|none|except|avoid\w*|rather than'
  r'|instead of|(?:any|every|all)\w{0,9} (?:\w{1,20} )?but|invalid|illegal|impossible|forbidden'
  rf"|blocked|closed|shut|wrong|ruled out|all but)\b|n't\b|{NO}",
  re.IGNORECASE,
)
DOUBTS = re.compile(
  r'\b(?:possibly|perhaps|maybe|probably|likely|unsure|uncertain|unclear'
  r'|unknown|depends?|unless|might|may|either|neither|torn'
  r'|one of (?:these|them)|undecided|not sure)\b|\?',
  re.IGNORECASE,
)
MORE = re.compile(
  r'(?<!\.)\.\.\.(?!\.)|\u2026|\betc\b|\band so (?:on|forth)\b|\bomitted\b|\bthe rest\b'
  r'|\bsame pattern\b|\b(?:\d{1,6}|several|many|some|a few|two|three) '
  r'(?:\w{1,20} )?(?:more|others?|people|further)\b|\band others\b'
  r'|\bcontinu(?:es?|ing)\b|\bsome(?:one|body|where)\b',
  re.IGNORECASE,
)
# `Answer:`, `My final answer is:`, a heading of this kind; also in French,
# German and Spanish.
_NOUN = (
  r'(?:answer|antwort|r[e\u00e9]ponse|respuesta|\u043e\u0442\u0432\u0435\u0442)'
)
_MARKS = re.compile(
  rf'(?:\b(?:(?:the|my|final|correct|best)[ ]){{0,3}}{_NOUN}"?[ ]?'
  r'(?:(?:is|should be|must be)?[ ]{0,2}[:=]|[ ]?[-\u2013\u2014][ ]'
  r'|[ \t]{0,4}(?=\n))'
  r'|^[ \t]*(?:final )?(?:verdict|solution|conclusion|result)'
  r'[ ]?(?::|(?=\n))|^Q:[^\n]*\n+A:)(?!\s?"[\s.,)])',
  re.IGNORECASE | re.MULTILINE,
)
# A mark where a text has no other one.
_WEAK_MARKS = re.compile(
  rf'\b{_NOUN}(?: to (?:your|the|this) question)?'
  r' (?:is|must be|should be|would be|has to be)\b(?! not\b)',
  re.IGNORECASE,
)
# Keys of objects, as words: those that hold an answer, those that hold none,
# numbers of items, ends of a step, and those of which yes means no.
_ANSWER_KEYS = re.compile(r'(?:final )?(?:answers?|result|verdict)')
_ASIDE_KEYS = re.compile(
  r'.*(?:reason|expla|why|confiden|note|thought|step|length|cost|reward'
  r'|arrangement|comment|analysis|remark)'
)
_NUMBER_KEYS = re.compile(r'#|no\.?|n|id|index|item|number|question|q|position')
_ENDS = re.compile(r'from|start|source'), re.compile(r'to|end|target')
_TOOL_KEYS = re.compile(r'arguments|input|parameters|args')
_ITEM_KEY = re.compile(r'(?:q|question|item|answer|#)? ?(\d{1,3})')
RETRACTS = re.compile(
  r'\b(?:wait\b(?=,? |[.!\u2014\u2013-])|hold on|hmm|scratch that|correction'
  r'|actually|(?<=\n)no, |(?<=[a-z][.!] )no, '
  r"|oops|edit:|can(?:no|')t (?:decide|tell)|not sure|forgot\b|oh, "
  r'|my mistake|on reflection|i overlooked'
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
  text = text.translate(_SIGNS)
  for pattern, replacement in _REPLACED:
    text = pattern.sub(replacement, text)
  text = _MARKS.sub(MARK, _unwrapped(tables(text)))
  return text if MARK in text else _WEAK_MARKS.sub(MARK, text)


_TABLE = re.compile(
  r'(?:^[ ]{0,9}\|[^\n]{1,9999}\|[ ]*(?:\n|\Z)){2,9999}', re.M
)
_RULE = re.compile(r'[\s|:=-]+')
_FIELD = re.compile(
  r'^(\s*-)?[ ]*([A-Za-z_]{1,30}):[ ]+(\S[^\n]{0,500})$', re.M
)


def tables(text: str) -> str:
  """A text with its Markdown tables as lists of JSON."""
  return _TABLE.sub(_table, text) if '|' in text else text


def _table(match: re.Match[str]) -> str:
  lines = [line.strip().strip('|') for line in match[0].strip().split('\n')]
  rows = [
    [cell.strip(' `*') for cell in line.split('|')]
    for line in lines
    if not _RULE.fullmatch(line)
  ]
  if len(rows) == len(lines):
    return '\n'.join(': '.join(row) for row in rows)
  head, *rows = rows
  if len({*head}) < len(head) or {len(head)} != {*map(len, rows)}:
    return match[0]
  return json.dumps([dict(zip(head, row, strict=True)) for row in rows]) + '\n'


def fields(text: str) -> list[dict[str, str]]:
  """Records that are written as lines `- key: value`, as in YAML."""
  records: list[dict[str, str]] = []
  for dash, key, value in _FIELD.findall(text):
    if dash or not records:
      records.append({})
    records[-1][key] = value.strip(' \'"')
  return records


def _unwrapped(text: str) -> str:
  """A text with what JSON in it gives as its answer in its place."""
  for literal in [*literals(text)][::-1]:
    value = literal.value
    if literal.failure or (
      isinstance(value, list)
      and not all(isinstance(item, bool | str | dict) for item in value)
      and not _pairs(value)
    ):
      continue
    words = written(value)
    if not words and 2 * (literal.end - literal.start) > len(text):
      words = UNSURE  # Its text would be taken for an answer.
    if words:
      before, behind = text[: literal.start], text[literal.end :]
      return f'{before}{MARK}{words}{END}{behind}'
  return text


def _pairs(value: list[Any]) -> bool:
  """Is this a list of names, each with a verdict?"""
  return all(
    isinstance(item, list)
    and len(item) == 2
    and isinstance(item[0], str)
    and VERDICT.fullmatch(written(item[1]))
    for item in value
  )


def key_words(key: str) -> str:
  """A key in words: 'finalAnswer' and 'final_answer' are 'final answer'."""
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
    if _TOOL_KEYS.fullmatch(key) and len(words) < 5:
      if isinstance(item, str):
        item = next((x.value for x in literals(item) if not x.failure), item)
      return written(item)
  answers = [key for key in words if _ANSWER_KEYS.fullmatch(key)]
  ends = [
    item for end in _ENDS for key, item in words.items() if end.fullmatch(key)
  ]
  numbers = [
    key
    for key, item in words.items()
    if _NUMBER_KEYS.fullmatch(key) and str(item).isdecimal()
  ]
  keys = [
    key
    for key in words
    if not _ASIDE_KEYS.match(key) and key not in numbers[:1]
  ]
  items = [written(words[key]) for key in keys]
  denied = any(DENIES.search(key) for key in keys)
  if len(keys) == 2 and len(ends) == 2:
    return f'{written(ends[0])} -> {written(ends[1])}'
  if len(keys) == 2 and isinstance(words[keys[0]], str):
    first, second = map(VERDICT.fullmatch, items)
    if second and not first:
      return f'{items[0]}: {UNSURE if denied else items[1]}'
  if len(answers) == 1:
    keys, items, denied = answers, [written(words[answers[0]])], False
  if len(keys) == 1 and not (denied and not isinstance(words[keys[0]], list)):
    line = f'{keys[0]}: {items[0]}' if denied else items[0]
    return f'{words[numbers[0]]}. {line}' if numbers else line
  pairs = [
    f'{m[1] + "." if (m := _ITEM_KEY.fullmatch(key)) else key + ":"} {item}'
    for key, item in zip(keys, items, strict=True)
  ]
  return '\n'.join(pairs) if all(items) else ''


Parse = Callable[[str, bool], Any]


class Unread(Exception):
  """Why a parser reads nothing of an answer: a key of FAILURES."""


def read(text: str, parse: Parse, retractable: bool = True) -> Reading:
  """Reads a text by a parser of one kind of answer.

  The last marked passage counts, or all of a text without marks.

  Args:
    text: any.
    parse: (a passage, is it marked?) -> the value, or None; it raises Unread.
    retractable: is an answer unread that the next sentences take back?
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
    value = parse(passage, bool(passages))
    first = SENTENCE.search(passage)
    if retractable and first and RETRACTS.search(passage, first.end()):
      raise Unread('retracted')
  except Unread as reason:
    value, failure = None, str(reason)
  if value is None:
    failure = failure or 'nothing'
  if failure == 'nothing' and DECLINES.match(seen.value.replace('\u2019', "'")):
    failure = 'refused'
  return Reading(value, failure, seen.reasoning)


_SAYS_SOMETHING = re.compile(rf'[\w{YES}{NO}\[]')
