"""Every name, verdict and correction is explained, or a reply is unread.

`every_word.jsonl` has answers in the styles of 2026 with their right reading:
[task, truth, text], and a domain of names for paths. A third, by a hash of the
text, was kept apart while the grammar was tuned on the others.
"""

import collections
import hashlib
import json
import time

import numpy as np
import pytest

from tests.language import answers_test
from wm.language.answers import grammar, values

TURNS = 'turn north', 'turn east', 'turn south', 'turn west', 'go on'
NAMES = {name: k for k, name in enumerate(TURNS, 1)}


def _read(task, text, domain):
  if task == 'turns':
    tokens = grammar.listed(text, grammar.Spellings(NAMES)).value
    names = ['?', *TURNS]
    return None if tokens is None else {names[token] for token in tokens}
  row = {'task': task, 'text': text, 'domain': domain}
  return answers_test._read(row)


def outcome(task, truth, text, domain=''):
  """'right', 'unread' or 'misread'."""
  value = _read(task, text, domain)
  if task in ('all_next', 'turns') and truth is not None:
    truth = set(truth)
  if task == 'forces' and value and truth:
    return 'right' if np.allclose(value, truth, rtol=1e-9) else 'misread'
  if value == truth:
    return 'right'
  if value is None:
    return 'unread'
  return 'misread'


def held_apart(text):
  """Was an answer kept apart?"""
  return hashlib.sha256(text.encode()).digest()[0] % 3 == 0


@pytest.mark.parametrize(
  ('apart', 'num', 'least'), [(False, 383, 362), (True, 230, 211)]
)
def test_no_answer_is_misread(apart, num, least):
  lines = (answers_test.FOLDER / 'every_word.jsonl').read_text('utf-8')
  rows = [json.loads(line) for line in lines.splitlines()]
  rows = [row for row in rows if held_apart(row[2]) == apart]
  assert len(rows) == num
  outcomes = {row[2]: outcome(*row) for row in rows}
  assert [x for x, result in outcomes.items() if result == 'misread'] == []
  assert collections.Counter(outcomes.values())['right'] >= least


READERS = {
  'yes_no': grammar.yes_no,
  'choice': lambda text: grammar.choice(text, grammar.Spellings(NAMES)),
  'listed': lambda text: grammar.listed(text, grammar.Spellings(NAMES)),
  'number': lambda text: values.number(text, 'cluster'),
  'path': lambda text: values.path(text, {'1': 1, 'rose': 2}),
  'numbers': lambda text: values.numbers(text, 2),
  'records': lambda text: values.records(text, lambda value: ''),
}
HOSTILE = (
  *('~~', '~~a', '<s>', '<del>x', '| a ', '|\n', '| a |\n', '|-|\n', '[ ] '),
  *('1. ', '\u2460', '- [x] ', 'a: b\n', '- a: b\n', '{"a": ', '{"a": 1}'),
  *('not ', 'not a but ', 'rather than ', 'turn east, ', 'turn east: no; '),
  *('(turn east ', ' and ', 'Possible: ', '<|channel|>', '<|channel|>final'),
  *('<|channel|>final<|message|>', '[THINK]', '\u7b54\u6848\u662f', '\u662f '),
  *('a\u0336', '\u00ab', '\u00bb', '1 or ', 'answer: turn east\n', '$\\boxed{'),
  *('\\text{', 'Q1: yes; ', 'yes -> ', '...', 'option ', 'no, '),
  *('[{"a": "b"},', '[', "['", "['a', ", "[' ", '[1 ', '[\'"', '[ \t', "{'a'"),
  *('<think>', '</think>', '```\n', 'answer: no ', '\\', ' ', '1, ', '(1'),
)


def _seconds(read, text):
  start = time.process_time()
  read(text)
  return time.process_time() - start


@pytest.mark.parametrize('name', READERS)
def test_time_grows_with_the_length_alone(name):
  for piece in HOSTILE:
    short, long = ((piece * size)[:size] for size in (4_000, 32_000))
    least = min(_seconds(READERS[name], short) for _ in range(2))
    # Quadratic time would be 64 times as much. A busy machine may interrupt one
    # reading, and seldom three.
    limit = 30 * max(least, 0.01)
    tries = (_seconds(READERS[name], long) for _ in range(3))
    assert any(seconds < limit for seconds in tries), piece


def test_a_megabyte_is_read_in_seconds():
  size = 1 << 20
  for piece in HOSTILE[::4]:
    text = (piece * size)[:size]
    assert _seconds(grammar.yes_no, text) < 20, piece
