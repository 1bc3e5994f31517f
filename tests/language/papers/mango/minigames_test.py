"""Minigames: prompts, what is made of answers, and a solver that reads them."""

import random

import pytest

from tests.language.stand_ins import asked as askeds
from tests.language.stand_ins import mango as mango_reader
from tests.language.stand_ins import minigames as reader
from wm.language.papers.mango import maze_questions, questions
from wm.worlds import mazes

MAZE = mazes.World(dark=0, doors=0, one_way=0, named=1).maze
ASKED = maze_questions.minigames(MAZE)
ALLOWED = ['north', 'enter tent', 'up']


def solved(text, knows='solver'):
  return reader.answer(askeds.Asked([text], knows, random.Random(0)))


def test_a_prompt_shows_the_steps_before_and_the_map_if_asked():
  one = ASKED[-1]
  bare, with_map = (
    questions.minigame_prompt(MAZE, one, m) for m in (False, True)
  )
  assert f'==>STEP NUM: {one.step - 1}\n' in bare
  assert f'==>STEP NUM: {one.step}\n' not in bare
  assert bare.endswith('put it after "Answer:".')
  assert str(list(MAZE.actions)) in bare
  for there, action in one.ways:
    assert f'To go to {there}, go {action}.' in with_map
    assert f'To go to {there}' not in bare
  assert (one.next_place, one.action) in one.ways
  assert mango_reader.answer(askeds.Asked([bare])) is None
  assert reader.answer(askeds.Asked(['What next?'])) is None


@pytest.mark.parametrize(
  ('reply', 'success', 'failure', 'action'),
  [
    ('Answer: north', 1, '', 'north'),
    ('I go back.\n**Answer:** "North".', 1, '', 'north'),
    ('Answer: up\nNo: Answer: go north\nbecause', 1, '', 'north'),
    ('<think>Answer: up</think> Answer: north', 1, '', 'north'),
    ('Answer: enter  tent', 0, '', 'enter tent'),
    ('Answer: west', 0, 'not_allowed', ''),
    ('north', 1, '', 'north'),
    ('Answer:', 0, 'nothing', ''),
    ('', 0, None, ''),
    ('Answer: __import__("os").system("true")', 0, 'not_allowed', None),
    ('Answer: ' + 'north ' * 200_000, 0, None, None),
    ('Answer: ' + '[' * 100_000, 0, None, None),
    ('Answer: a' + ' ' * 900_000 + 'b', 0, None, None),
  ],
)
def test_answers_are_read_and_classified(reply, success, failure, action):
  result, read = questions.judge_minigame(reply, 'north', ALLOWED)
  assert result.success == success
  assert result.failure == failure or (failure is None and result.failure)
  assert action is None or read == action


def test_the_solver_reads_the_map_or_makes_it_of_the_steps():
  right = [0, 0]
  for item in ASKED:
    ways = {action for _, action in item.ways}
    for k in (False, True):
      output = solved(questions.minigame_prompt(MAZE, item, k))
      result, read = questions.judge_minigame(output, item.action, MAZE.actions)
      assert read in ways
      right[k] += result.success
      if len(ways) == 1:
        assert result.success == 1
  assert right[0] == right[1] >= len(ASKED) / 3


def test_others_that_are_known():
  text = questions.minigame_prompt(MAZE, ASKED[-1], False)
  assert solved(text, 'yes') == f'Answer: {MAZE.actions[0]}'
  assert solved(text, 'random').removeprefix('Answer: ') in MAZE.actions
  assert solved(text, 'old_map').startswith('Answer: ')
