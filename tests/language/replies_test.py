"""What is read of a model's text, and of text that means no good."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wm.language.answers import grammar, replies, values

YES_NO = {
  'yes': True,
  'No.': False,
  '**Yes**, because it is near': True,
  'Yes it can.': True,
  'No it is not': False,
  'I see a road.\nNo': 'nothing',
  'Answer: no': False,
  'Final answer: **No**.': False,
  'Answer: "Yes"': True,
  'Yes.\nThe answer is no.': False,
  '<think>no, no</think>Yes': True,
  'so, no</think>\nYes': True,
  'yes\udcff': True,
  'No road leads there': 'nothing',
  'Yes or no? It depends': 'nothing',
  'Yesterday': 'nothing',
  'def f(): return "yes"': 'nothing',
  'Yes.\nNo.': 'both',
  '<think>yes': 'unfinished',
  "I'm sorry, but I cannot say": 'refused',
  'As an AI I have no maps': 'refused',
  ' \n': 'empty',
  'yes ' * 300_000: 'too_long',
}


@pytest.mark.parametrize('text', YES_NO, ids=lambda text: repr(text[:20]))
def test_yes_or_no_is_read_or_a_failure_named(text):
  result, expected = grammar.yes_no(text), YES_NO[text]
  if isinstance(expected, bool):
    assert result[:2] == (expected, '')
  else:
    assert result[:2] == (None, expected)
    assert expected in replies.FAILURES


def test_reasoning_is_counted_and_not_read():
  text = '<think>Answer: 1</think>Answer: 2<reasoning>Answer: 345'
  assert values.number(text, 'room')[:3] == (2, '', 20)
  assert replies.visible('ab</think>c')[:3] == ('c', '', 2)
  assert replies.visible('a < b')[:3] == ('a < b', '', 0)
  call = '<|channel|>commentary to=functions.submit<|message|>{}<|end|>'
  assert replies.visible(call)[:3] == ('{}', '', 0)


def test_one_of_two_words_is_checked():
  for yes, mark, other in ((True, 'x', ' '), (False, ' ', 'x')):
    text = f'- [{mark}] yes\n- [{other}] no'
    assert grammar.yes_no(text).value is yes


def test_the_last_answer_counts():
  for text, value, failure in (
    ('ANSWER: 1\n**Answer:** 2, as told\n', 2, ''),
    ('Answer: 1\nAnswer: none', None, 'nothing'),
    ('Answer: 1\nNo, wait, that is wrong.', None, 'retracted'),
    ('Answer:', None, 'nothing'),
    ('I cannot help with it', None, 'refused'),
  ):
    assert values.number(text, 'room')[:2] == (value, failure)


def first(text, opening='[{'):
  """The first value in brackets, or the last failure."""
  parsed = [literal[:2] for literal in replies.literals(text, opening)]
  values = [literal for literal in parsed if not literal[1]]
  return (values or parsed[-1:] or [(None, 'nothing')])[0]


VALUES = {
  'so [1, 2.5, -3e2] it is [4]': [1, 2.5, -300.0],
  '```json\n[{"a": null}]\n```': [{'a': None}],
  "{'a': True, 'b': (1, 2),}": {'a': True, 'b': [1, 2]},
  "['it's', 'a \"b\" c', \"d's\"]": ["it's", 'a "b" c', "d's"],
  r'["é \u00e9 \ud83d\ude00 \ud800 \x41\n"]': ['é é 😀 \ufffd A\n'],
  'Steps [see {"a": 1}, {"b": 2}]': {'a': 1},
  '[{"a": 1}, then {"b": 2}]': {'a': 1},
  '[1 [2]]': [2],
  '{1: 2}': {'1': 2},
  '{a: 1, // one\n}': {'a': 1},
  '[' * 32 + ']' * 32: json.loads('[' * 32 + ']' * 32),
}
FAILED = {
  'none at all': ('nothing', None),
  '__import__("os").system("true")': ('nothing', None),
  '[x for x in range(3)]': ('malformed', None),
  '{"a"}': ('malformed', None),
  '[1, NaN]': ('malformed', None),
  '[1e999]': ('malformed', None),
  '[' + '9' * 5000 + ']': ('malformed', None),
  '[1, 2, 34': ('truncated', [1, 2]),
  "{'a': 'b', 'd'": ('truncated', {'a': 'b'}),
  '[true, fal': ('truncated', [True]),
  '[' * 33 + ']' * 33: ('too_deep', None),
  '{"a":' * 100_000: ('too_deep', None),
}


@pytest.mark.parametrize('text', VALUES)
def test_a_first_value_is_read(text):
  assert first(text) == (VALUES[text], '')


@pytest.mark.parametrize('text', FAILED, ids=lambda text: text[:20])
def test_what_is_no_value_has_a_failure(text):
  failure, value = FAILED[text]
  assert first(text) == (value, failure)
  assert failure in replies.FAILURES


def test_tuples_may_be_first():
  assert first('(1, 2), (3, 4)', '([{')[0] == [1, 2]


JSON = st.recursive(
  st.none()
  | st.booleans()
  | st.integers()
  | st.floats(allow_nan=False, allow_infinity=False)
  | st.text(),
  lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
  max_leaves=12,
).filter(lambda value: isinstance(value, list | dict))


@given(JSON)
def test_what_json_writes_is_read_back(value):
  text = json.dumps(value)
  assert first(f'It is {text}.') == (value, '')


@given(JSON.map(json.dumps), st.integers(0, 200))
def test_a_cut_off_value_is_never_taken_for_whole(text, size):
  value, failure = first(text[: min(size, len(text) - 1)])
  assert failure or json.dumps(value) != text


NAMES = grammar.Spellings({'north': 1, 'enter car': 2})
READERS = (
  grammar.yes_no,
  lambda text: grammar.choice(text, NAMES),
  lambda text: grammar.listed(text, NAMES),
  lambda text: values.number(text, 'cluster'),
  lambda text: values.path(text, {'1': 1, 'rose': 2}),
  lambda text: values.numbers(text, 2),
  lambda text: values.records(text, lambda value: ''),
)


@given(st.text(alphabet='[]{}(),:"\'\\ 1etrue\ud800\n<think/>') | st.text())
def test_any_text_is_read_without_error(text):
  for read in READERS:
    result = read(text)
    assert result.failure in {'', *replies.FAILURES}
    assert (result.value is None) == bool(result.failure)
