"""Prompts as the shipped sample has them, and prefixes of whole steps."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wm import core
from wm.language.papers.mango import questions
from wm.language.papers.mango.score import MazeQuestion
from wm.worlds import mazes
from wm.worlds.text_game.maze import WalkthroughStep

MAZE = mazes.World(dark=0, doors=0, one_way=0, named=1).maze

STEPS = [
  WalkthroughStep(k, f'act {k}' if k else 'Init', f'You see {"x" * k}.')
  for k in range(12)
]


FRAME = '{walkthrough}\n\n{allowed} {places}\n\n'


def test_published_questions_come_from_the_files_of_the_user(real, tmp_path):
  """A file with places, made of one recorded question, says all the others."""
  path = real('mango/example-answers-905.jsonl.gz')
  with gzip.open(path, 'rt', encoding='utf-8') as lines:
    rows = [row for row in map(json.loads, lines) if row['answerable']]
  assert len(rows) == 32
  folder = str(tmp_path)
  for row in rows:
    kind, end = 'route', row['dst_node']
    if 'action_list' in row:
      kind, end = 'destination', str(row['action_list'])
    last = '{target}' if kind == 'route' else '{actions}'
    text = row['question'].replace(end, last)
    text = FRAME + text.replace(f'"{row["src_node"]}"', '"{start}"')
    file = tmp_path / f'{kind}.txt'
    if not file.exists():
      file.write_text(text)
    assert file.read_text() == text
  for row in rows:
    actions = tuple(row.get('action_list', ()))
    asked = MazeQuestion(row['src_node'], row['dst_node'], actions)
    text = questions.prompt(
      'W {start}', asked, (['north'], ['a']), folder=folder
    )
    assert text == f"W {{start}}\n\n['north'] ['a']\n\n{row['question']}"


def test_files_that_are_no_prompts_are_refused_in_a_line(tmp_path):
  asked = MazeQuestion('a', 'b', ('north',))
  folder = str(tmp_path)
  names = ['north'], ['a', 'b']
  message = 'expected destination.txt, route.txt, minigame.txt'
  with pytest.raises(core.InputError, match=f'no destination.txt; {message}'):
    questions.prompt('W', asked, names, folder=folder)
  file = tmp_path / 'destination.txt'
  file.write_text(FRAME + '{actions}')
  with pytest.raises(core.InputError, match=r'has no \{start\}; expected \{wa'):
    questions.prompt('W', asked, names, folder=folder)
  file.write_text(FRAME + '{start}{actions}{0: 1}{other}')
  text = questions.prompt('W', asked, names, folder=folder)
  assert text.endswith("\n\na['north']{0: 1}{other}")
  file.write_bytes(b'\xff')
  with pytest.raises(core.InputError, match='is not a prompt'):
    questions.prompt('W', asked, names, folder=folder)
  (tmp_path / 'rout.txt').write_text('')
  with pytest.raises(core.InputError, match=f'unknown rout.txt; {message}'):
    questions.prompt('W', asked, names, folder=folder)


def test_the_two_generations_name_the_values_of_a_move_differently():
  asked = MazeQuestion('a', 'b', ('north',))
  text = questions.prompt('W', asked, (['north'], ['a', 'b']), 'paper')
  assert "the keys 'prev_node', 'action' and 'node'" in text
  assert "Actions of the game: ['north'].\n" in text


@given(st.integers(20, 400))
def test_a_prefix_is_the_longest_that_fits(budget):
  def tokens(text: str) -> int:
    return len(text)

  whole = [tokens(questions.render(STEPS[: k + 1])) for k in range(len(STEPS))]
  if budget < whole[0]:
    with pytest.raises(core.InputError, match='does not hold step 0'):
      questions.cut(STEPS, tokens, budget)
    return
  last = questions.cut(STEPS, tokens, budget)
  assert whole[last] <= budget
  assert last == len(STEPS) - 1 or whole[last + 1] > budget


def test_a_prefix_ends_where_the_map_does():
  assert questions.cut(STEPS, len, 10_000, last=7) == 7
  assert questions.cut(STEPS, len, 10_000) == 11


def test_few_texts_are_counted():
  counted = []
  questions.cut(STEPS, lambda text: counted.append(text) or len(text), 200)
  assert len(counted) <= 5


def test_steps_are_shown_as_in_the_published_walkthroughs():
  text = questions.render(STEPS[:2])
  assert text == (
    '===========\n==>STEP NUM: 0\n==>ACT: Init\n==>OBSERVATION: You see .\n\n'
    '===========\n==>STEP NUM: 1\n==>ACT: act 1\n==>OBSERVATION: You see x.'
  )
  simple = questions.shown_steps(MAZE, 'simple')
  assert [step.observation for step in simple] == questions.places_walked(MAZE)
  assert (simple[0].action, simple[1].number) == ('Init', 1)
