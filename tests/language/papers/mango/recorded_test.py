"""Recorded answers, scored to the digits that were worked out by hand."""

import gzip

import numpy as np
import pytest

from wm import core
from wm.language.papers import published
from wm.language.papers.mango import questions, recorded
from wm.language.papers.mango import report as reports
from wm.language.papers.mango import score as scoring
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game import readers


@pytest.fixture(scope='module')
def folder(real):
  return real('mango')


def select(rows, **values):
  """The rows that have these values."""
  equal = [rows[name] == value for name, value in values.items()]
  return rows[np.logical_and.reduce(equal)]


def authors_sample(folder):
  """The authors' sample: 16 destinations and 16 routes of game 905."""
  archive = folder / 'camera-ready-70.tar.gz'
  mazes_of = {'905': readers.read(archive, '905')}
  index = recorded.QuestionIndex(mazes_of)
  answers, unmatched = [], 0
  path = folder / 'example-answers-905.jsonl.gz'
  for record in published.read_lines(path, {'response': str}):
    actions = tuple(record.get('action_list') or ())
    asked = index.next('905', record['src_node'], record['dst_node'], actions)
    if asked is None:
      unmatched += 1
    else:
      answer = recorded.RecordedAnswer('claude', asked, record['response'])
      answers.append(answer)
  return mazes_of, answers, unmatched


@pytest.mark.parametrize('published', [False, True])
def test_the_worked_evaluation_of_905(folder, published):
  mazes_of, answers, unmatched = authors_sample(folder)
  assert (len(answers), unmatched) == (32, 4)
  result = recorded.score_records(mazes_of, answers, published=published)
  assert (result.failure == '').all()
  destinations = select(result, kind='destination')
  assert destinations.success.sum() == pytest.approx(14 + 4 / 11)
  assert round(destinations.success.mean(), 6) == 0.897727
  assert destinations.reasoning.sum() == 14
  means = {
    (kind, easy): reports.REPORT.mean(
      select(result, kind=kind, easy=easy), 'success'
    )
    for kind in ('destination', 'route')
    for easy in (True, False)
  }
  expected = [(1.0, 11), (0.672727, 5), (8 / 11, 11), (3 / 5, 5)]
  for (value, n), got in zip(expected, means.values(), strict=True):
    assert (got.n, got.clusters) == (n, 1)
    assert got.value == pytest.approx(value, abs=1e-6)
    assert got.low <= got.value <= got.high
  hard = select(destinations, easy=False)
  assert hard.reasoning.mean() == pytest.approx(0.6)
  routes = select(result, kind='route')
  for column in ('success', 'reasoning'):
    assert routes[column].sum() == 11


# Well-formed answers and their success, destinations easy and hard, by the
# authors' way of reading.
EASY, HARD = (9523, 1653, 0.188), (1955, 244, 0.178)
SIMPLE = (9523, 1370, 0.205), (1955, 198, 0.176)


@pytest.mark.slow
def test_all_answers_of_rwkv(folder):
  mazes_of, answers, unmatched = recorded.rwkv(folder)
  assert (len(answers), unmatched) == (39024, 836)
  result = recorded.score_records(mazes_of, answers, published=True)
  for model, expected in (('RWKV', (EASY, HARD)), ('RWKV-S', SIMPLE)):
    for easy, (num, well, value) in zip((True, False), expected, strict=True):
      sample = select(result, model=model, kind='destination', easy=easy)
      formed = select(sample, failure='')
      assert (len(sample), len(formed)) == (num, well)
      assert round(formed.success.mean(), 3) == value
      # Below chance, and reasoning is never right.
      assert scoring.corrected(formed) < 0
      assert formed.reasoning.sum() <= 1
  # Easy and hard routes depend on the order in which the authors' program lists
  # paths, which no data tells; their sums do not.
  for model, well, right in (('RWKV', 1052, 14), ('RWKV-S', 1037, 7)):
    sample = select(result, model=model, kind='route')
    assert len(sample) == 8034
    formed = select(sample, failure='')
    assert (len(formed), formed.success.sum()) == (well, right)
  ill = result[result.failure != '']
  share = len(select(ill, kind='destination')) / (2 * 11478)
  assert round(share, 2) == 0.85


def test_a_few_answers_of_rwkv(folder):
  games = '905', 'zenon'
  mazes_of, answers, _ = recorded.rwkv(folder, games)
  assert {item.asked.game for item in answers} == set(games)
  models = {item.model for item in answers}
  assert models == {'RWKV', 'RWKV-S'}
  strict = recorded.score_records(mazes_of, answers, published=True)
  better = recorded.score_records(mazes_of, answers)
  # The better reader loses none that the authors' program reads.
  formed = strict.failure == ''
  assert formed.sum() > 20
  assert (better.failure[formed] == '').all()
  assert (better.failure == '').sum() > formed.sum()
  both = formed & (better.kind == 'destination')
  assert (better.success[both] == strict.success[both]).mean() > 0.9


def test_means_by_question_and_by_game(folder):
  results = recorded.score_records(*recorded.rwkv(folder, ('905',))[:2])
  macro = reports.REPORT.mean(results, 'success', macro=True)
  assert macro.value == pytest.approx(results.success.mean())
  assert reports.REPORT.mean(results[:0], 'success').value is None


@pytest.mark.parametrize(
  ('text', 'cut', 'message'),
  [
    (b'{"a": 1}', 9, 'is not a file of recorded answers'),
    (b'[1]\n', 0, 'line 1: expected an object'),
    (b'"x"', 0, 'expected an object'),
    (b'{"a": \xff}', 0, 'is not a file of recorded answers'),
    (b'{"game": 905}', 0, 'line 1: game: expected a text, has 905'),
  ],
)
def test_damaged_files_are_one_line(tmp_path, text, cut, message):
  path = tmp_path / 'answers.jsonl.gz'
  packed = gzip.compress(text)
  path.write_bytes(packed[: len(packed) - cut])
  with pytest.raises(core.InputError, match=message):
    list(published.read_lines(path, {'game': str}))


def test_a_missing_file_and_one_of_another_kind_are_one_line(tmp_path):
  path = tmp_path / 'answers.jsonl.gz'
  with pytest.raises(core.InputError, match='no such file'):
    list(published.read_lines(path, {'game': str}))
  path.write_bytes(b'no gzip')
  with pytest.raises(
    core.InputError, match='is not a file of recorded answers'
  ):
    list(published.read_lines(path, {'game': str}))


@pytest.mark.parametrize('game', ['905', 'zenon', 'huntdark'])
def test_the_map_as_shown_answers_every_question(folder, game):
  """As it does for all 53 games, 35,942 questions, in a minute and a half."""
  maze = readers.read(str(folder / 'camera-ready-70.tar.gz'), game)
  graph = questions.judge_graph(maze)
  moves = scoring.visible_moves(maze, mazes.LAST)
  for kind in questions.KINDS:
    for asked in questions.questions(maze, kind):
      path = scoring.walk(moves, *asked[:3])
      text = repr([dict(zip(scoring.KEYS[0], m, strict=True)) for m in path])
      answer = scoring.parse(text, actions=graph.actions)
      result = scoring.judge(graph, asked, answer)
      assert (result.success, result.reasoning) == (1, 1)
