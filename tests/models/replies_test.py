"""What is read of a model's text, and of text that means no good."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wm.models.serving import replies

YES_NO = {
  'yes': True,
  'No.': False,
  '**Yes**, because it is near': True,
  'Yes it can.': True,
  'No it is not': False,
  'I see a road.\nNo': False,
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
  found, expected = replies.yes_no(text), YES_NO[text]
  if isinstance(expected, bool):
    assert found[:2] == (expected, '')
  else:
    assert found[:2] == (None, expected)
    assert expected in replies.FAILURES


def test_only_the_word_alone_counts_as_published():
  for text, value in {'Yes.\n': True, 'no': False, 'Yes, it is': None}.items():
    assert replies.yes_no(text, strict=True).value is value


def test_reasoning_is_counted_and_not_read():
  text = '<think>Answer: 1</think>Answer: 2<reasoning>Answer: 345'
  assert replies.after_answer(text) == ('2', '', 20)
  assert replies.visible('ab</think>c') == ('c', '', 2)
  assert replies.visible('a < b') == ('a < b', '', 0)


def test_the_last_answer_counts():
  assert replies.after_answer('ANSWER: a\n**Answer:** b, c\n').value == 'b, c'
  assert replies.after_answer('Answer:').failure == 'nothing'
  assert replies.after_answer('I cannot help with it').failure == 'refused'


VALUES = {
  'so [1, 2.5, -3e2] it is [4]': [1, 2.5, -300.0],
  '```json\n[{"a": null}]\n```': [{'a': None}],
  "{'a': True, 'b': (1, 2),}": {'a': True, 'b': [1, 2]},
  "['it's', 'a \"b\" c', \"d's\"]": ["it's", 'a "b" c', "d's"],
  r'["é \u00e9 \ud83d\ude00 \ud800 \x41\n"]': ['é é 😀 \ufffd A\n'],
  'Steps [see {"a": 1}, {"b": 2}]': {'a': 1},
  '[{"a": 1}, then {"b": 2}]': {'a': 1},
  '[1 [2]]': [2],
  '{1: 2}': {1: 2},
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
  '[{"a": 1}, {"b": "c': ('truncated', [{'a': 1}]),
  "{'a': ['b', 'c'], 'd'": ('truncated', {'a': ['b', 'c']}),
  '[true, fal': ('truncated', [True]),
  '[' * 33 + ']' * 33: ('too_deep', None),
  '{"a":' * 100_000: ('too_deep', None),
}


@pytest.mark.parametrize('text', VALUES)
def test_a_first_value_is_read(text):
  assert replies.first_value(text) == (VALUES[text], '', 0)


@pytest.mark.parametrize('text', FAILED, ids=lambda text: text[:20])
def test_what_is_no_value_has_a_failure(text):
  failure, value = FAILED[text]
  assert replies.first_value(text)[:2] == (value, failure)
  assert failure in replies.FAILURES


def test_tuples_may_be_first():
  assert replies.first_value('(1, 2), (3, 4)', '([{').value == [1, 2]


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
  assert replies.first_value(f'It is {text}.').value == value
  # Without the fast decoder too; a quote before a mark needs its backslash.
  assert replies.scan_literal(text) == (value, '')


@given(JSON.map(repr), st.integers(0, 200))
def test_a_cut_off_value_is_never_taken_for_whole(text, size):
  found = replies.first_value(text[: min(size, len(text) - 1)])
  inner = found.failure == ''
  assert not inner or json.dumps(found.value) != text


@given(st.text(alphabet='[]{}(),:"\'\\ 1etrue\ud800\n<think/>') | st.text())
def test_any_text_is_read_without_error(text):
  for read in (replies.first_value, replies.yes_no, replies.after_answer):
    found = read(text)
    assert found.failure in {'', *replies.FAILURES}
    assert (found.value is None) <= bool(found.failure)


HOSTILE = (
  '[',
  "['",
  "['a', ",
  "[' ",
  '[1 ',
  '[\'"',
  '[ \t',
  "{'a'",
  '<think>',
  '</think>',
  '```\n',
  'answer: no ',
  'no ',
  '\\',
)


def test_time_grows_with_the_length_alone():
  def seconds(size):
    start = time.process_time()
    for piece in HOSTILE:
      text = (piece * size)[:size]
      replies.first_value(text)
      replies.yes_no(text)
      replies.after_answer(text)
    return time.process_time() - start

  small = min(seconds(2_000) for _ in range(5))
  # Quadratic time would be 256 times as much.
  assert seconds(32_000) < 100 * max(small, 1e-3)
