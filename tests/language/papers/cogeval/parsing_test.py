"""Replies as nodes: forms of answers, prose, and hostile text."""

import time

import pytest

from wm.language.answers import values
from wm.language.papers.cogeval import score as scoring
from wm.worlds.cognitive_graph import questions
from wm.worlds.cognitive_graph.questions import Question

ROOMS = questions.node_names('n15star', 'ordRooms', 22)
FIELDS = questions.node_names('n15star', 'unordSpatial', 22)
PEOPLE = questions.node_names('n15star', 'socialTies', 22)
NONE = scoring.UNKNOWN


@pytest.mark.parametrize(
  ('text', 'known', 'nodes'),
  [
    ('Answer: 1, 7, 4', ROOMS, (1, 7, 4)),
    ('**Answer:** 1 -> 7 → 4.', ROOMS, (1, 7, 4)),
    ('answer: Room 1, room 7 and room4', ROOMS, (1, 7, 4)),
    ('Answer: 1,2\nSo, finally:\nAnswer: 1,7', ROOMS, (1, 7)),
    ('Answer: 1, 7, 4. This takes 2 steps.', ROOMS, (1, 7, 4)),
    ('Answer: 1, 7 (a reward of 50)', ROOMS, (1, 7)),
    ('The answer is: lobby, 2', ROOMS, (0, 2)),
    ('1, 7, 4', ROOMS, (1, 7, 4)),
    (
      'Starting from room 1, the shortest path to room 7 is: 1, 7.',
      ROOMS,
      (1, 7),
    ),
    ('If you start in the lobby, the path is 1, 4, 7.', ROOMS, (1, 4, 7)),
    ('Answer: 1, 99', ROOMS, (1, NONE)),
    ('Answer: Rose field, the Lily Field, daisy', FIELDS, (1, 7, 4)),
    ('Answer: rose, tulips, elm', FIELDS, (1, NONE, NONE)),
    ('Answer: Amir, Reza, Max', PEOPLE, (1, 7, 15)),
    ('Answer: The shortest path from Amir to Wei is Raj, Wei', PEOPLE, (3, 5)),
    ('Answer: The path with most is Rose field, Lily field', FIELDS, (1, 7)),
    ('Answer: The lily field has the path, which is 9', FIELDS, (7,)),
    ('<think>Answer: 5</think>Answer: 1, 7', ROOMS, (1, 7)),
    ('Answer: 1, 7\n\nuser: thanks. Answer:', ROOMS, (1, 7)),
    ('', ROOMS, ()),
    ('I cannot help with that.', ROOMS, ()),
    ('Answer:', FIELDS, ()),
  ],
)
def test_forms_of_answers(text, known, nodes):
  assert scoring.read_path(text, known) == nodes


def test_a_reply_is_read_anew_for_other_names_and_another_kind_of_question():
  """What was read of the same words before is not taken for it."""
  path, choice, count = (
    questions.problem(Question(graph, condition, 'ordRooms'))
    for graph, condition in (
      ('n15star', 'valuePath'),
      ('n7line', 'valuePath'),
      ('n16cluster', 'nClusters'),
    )
  )
  assert [x.kind for x in (path, choice, count)] == ['path', 'choice', 'count']
  swapped = {**dict(ROOMS), 1: '7', 7: '1'}
  text = 'Answer: 7'
  for _ in range(2):
    for problem, names, expected in (
      (path, ROOMS, (7,)),
      (choice, swapped, (1,)),
      (count, swapped, (7,)),
    ):
      assert scoring.read_reply(problem, text, names) == expected
  long = 'Answer: 1, 7' + '.' * 4000
  assert scoring.read_reply(path, long, swapped) == (7, 1)


def test_alternatives_are_no_answer():
  known = questions.node_names('n7line', 'socialTies', 9)
  problem = questions.problem(Question('n7line', 'valuePath', 'socialTies'))
  for text, outcome in (
    ('Answer: Wim', 'correct'),
    ('Answer: Vicky -> Wim -> Jing -> Nisha', 'correct'),
    ('Answer: Amir or Wim', 'no_answer'),
    ('Answer: Amir', 'wrong_choice'),
    ('Nobody.', 'no_answer'),
  ):
    reply = scoring.read_reply(problem, text, known)
    assert scoring.judge(problem, reply).outcome == outcome


def verdict(text, condition='valuePath', **ends):
  problem = questions.problem(Question('n15star', condition, **ends))
  return scoring.judge(problem, scoring.read_reply(problem, text, ROOMS))


@pytest.mark.parametrize(
  ('text', 'outcome'),
  [
    ('Answer: 1, 11, 2, 8', 'correct'),
    ('Answer: 1, 11, 14, 2, 8', 'too_long'),
    ('Answer: 1, 11, 1, 11, 2, 8', 'loop'),
    ('Answer: 1, 7, 4, 15', 'wrong_goal'),
    ('Answer: 1, 8', 'hallucinated_edge'),
    ('Answer: 11, 2, 8', 'wrong_start'),
    ('Answer: 1, 30, 8', 'hallucinated_node'),
    ('Answer: none', 'hallucinated_node'),
    ('What?', 'no_answer'),
  ],
)
def test_classes_exclude_each_other(text, outcome):
  assert verdict(text).outcome == outcome


def test_what_is_made_up_is_counted():
  result = verdict('Answer: 1, 8, 1, 11, 2, 8')
  assert result.outcome == 'hallucinated_edge'
  assert result.hallucinated_edges == 2
  assert verdict('Answer: there are 3 clusters', 'nClusters').outcome == (
    'correct'
  )
  assert verdict('3', 'nClusters').outcome == 'correct'
  assert verdict('Answer: 4', 'nClusters').outcome == 'wrong_count'


@pytest.mark.parametrize(
  'text',
  [
    'Answer: ' * 100_000,
    'Answer: ' + '1, ' * 400_000,
    '(' * 500_000,
    'Answer: ' + '(1' * 200_000,
    'answer ' + ' ' * 500_000,
    '-' * 500_000 + '>',
    'Answer: ' + 'is ' * 200_000,
    '1 ' * 300_000 + 'cluster',
    '\ud800Answer: 1, 7',
    "Answer: __import__('os').system('true')",
    'Answer: \x00\n' * 1000,
    '\n' * 500_000,
  ],
)
def test_hostile_text_is_read_in_time(text):
  start = time.process_time()
  scoring.read_path(text, ROOMS)
  values.number(text, 'cluster')
  assert time.process_time() - start < 2
