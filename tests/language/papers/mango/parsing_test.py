"""Reading answers: both key sets, what names hold, and hostile text."""

import json
import time

import pytest

from wm.language.papers.mango import score as scoring

MOVE = scoring.MazeMove('hall', 'go "up"', "aunt jemima's lair")


def _dict(
  move: scoring.MazeMove, keys: tuple[str, ...] = scoring.KEYS[0]
) -> dict:
  return dict(zip(keys, move, strict=True))


@pytest.mark.parametrize('keys', scoring.KEYS)
@pytest.mark.parametrize('published', [False, True])
@pytest.mark.parametrize('write', [json.dumps, repr])
def test_moves_come_back(keys, published, write):
  moves = [MOVE, scoring.MazeMove('a', 'b', 'c')]
  text = f'Sure! {write([_dict(move, keys) for move in moves])} [the end]'
  answer = scoring.parse(text, published=published)
  assert answer == scoring.MovesAnswer(tuple(moves))


def test_brackets_and_quotes_inside_names():
  text = (
    "```python\n[{'location_before': 'cell [north]', 'action': 'north', "
    "'location_after': 'aunt jemima's lair'},]\n```"
  )
  expected = scoring.MazeMove('cell [north]', 'north', "aunt jemima's lair")
  assert scoring.parse(text).moves == (expected,)
  assert scoring.parse(text, published=True).failure == 'malformed'


def test_reasoning_is_stripped_and_counted():
  answer = json.dumps([_dict(MOVE)])
  result = scoring.parse(f'<think>[{{"x": 1}}]</think>{answer}')
  assert (result.moves, result.reasoning) == ((MOVE,), 10)


@pytest.mark.parametrize(
  ('text', 'balanced', 'first'),
  [
    ('', 'empty', 'empty'),
    ('  \n', 'empty', 'empty'),
    ('I went north.', 'nothing', 'nothing'),
    ("I'm sorry, I cannot help.", 'refused', 'nothing'),
    ('] [', 'truncated', 'nothing'),
    ('[]', 'empty_list', 'empty_list'),
    ('[1, 2]', 'not_a_dict', 'not_a_dict'),
    ('["north"]', 'not_a_dict', 'not_a_dict'),
    ('[{"action": "north"}]', 'missing_key', 'missing_key'),
    (
      '[{"prev_node": "a", "action": "b", "location_after": "c"}]',
      'missing_key',
      'missing_key',
    ),
    (
      '[{"prev_node": "a", "action": 1, "node": "c"}]',
      'wrong_type',
      'wrong_type',
    ),
    ('[{"prev_node": "a", "act', 'truncated', 'truncated'),
    ('[{"prev_node": "a" "b"}]', 'missing_key', 'missing_key'),
    ('[{"prev_node": 3 4}]', 'malformed', 'malformed'),
    ('[__import__("os").getcwd()]', 'malformed', 'malformed'),
    ('[' * 1000, 'too_deep', 'truncated'),
    ('[' * 1000 + ']', 'too_deep', 'malformed'),
  ],
)
def test_each_failure_has_a_class(text, balanced, first):
  result = scoring.parse(text)
  assert result.failure in scoring.FAILURES
  assert scoring.parse(text, published=True).failure == first
  assert result.failure == balanced


def test_a_truncated_answer_is_no_answer():
  plain = scoring.MazeMove('hall', 'up', 'lair')
  for move in (MOVE, plain):
    for whole in (json.dumps([_dict(move)] * 3), repr([_dict(move)] * 3)):
      for size in range(1, len(whole)):
        assert scoring.parse(whole[:size]).failure == 'truncated'
      assert scoring.parse(whole).failure == ''


def test_the_last_list_counts_and_actions_have_spellings():
  first, last = (
    json.dumps([_dict(MOVE)]),
    json.dumps([_dict(scoring.MazeMove('a', 'go North (to c)', 'c'))]),
  )
  text = f'{first}\nThat is wrong. Corrected:\n{last}'
  (move,) = scoring.parse(text, actions=['north', 'northeast']).moves
  assert move == ('a', 'north', 'c')
  (move,) = scoring.parse(text).moves
  assert move.action == 'go North (to c)'


@pytest.mark.parametrize(
  'text',
  [
    'x' * 3_000_000,
    '[{' * 250_000,
    "[{'" + "a' " * 300_000,
    '[' + '-' * 400_000 + '1]',
    '[' + '(' * 400 + ')' * 400 + ']',
    "[{'location_before': '\ud800'}]",
    '[{"prev_node": "' + 'a' * 900_000 + '", "action": "", "node": ""}]',
    '[\x00]',
    "['\\d']",
  ],
)
def test_hostile_text_is_read_in_little_time(text):
  started = time.process_time()
  for rule in (False, True):
    assert scoring.parse(text, published=rule).failure in (
      '',
      *scoring.FAILURES,
    )
  assert time.process_time() - started < 2


@pytest.mark.parametrize(
  'text',
  [
    '[{"prev_node": "a", "action": "b", "node": "c"}] so {it} is',
    '[{"prev_node": "a", "action": "b", "node": "c"}] {',
    "[{'prev_node': 'a', 'action': 'b', 'node': 'c'}], {'prev_node': '",
  ],
)
def test_text_behind_a_list_is_no_part_of_it(text):
  assert scoring.parse(text) == scoring.MovesAnswer(
    (scoring.MazeMove('a', 'b', 'c'),)
  )
