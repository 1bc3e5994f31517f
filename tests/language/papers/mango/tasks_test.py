"""Inspect's tasks on a real game, by answerers that are known."""

import asyncio
import math

import pytest

from tests.worlds.text_game import games
from wm import core
from wm.language.papers.mango import questions

inspect_ai = pytest.importorskip('inspect_ai')

from inspect_ai.model import ModelAPI  # noqa: E402

import wm.language.providers  # noqa: E402, F401 (makes wm/solver known)
from wm.language.papers.mango import report as reports  # noqa: E402
from wm.language.papers.mango import score as scoring  # noqa: E402
from wm.language.papers.mango import task as tasks  # noqa: E402

GAME = {'game': 905, 'tokenizer': 'estimate'}


@pytest.fixture(scope='module')
def folder(testdata):
  return str(games.archive(testdata))


def run(task, model='wm/solver', **options):
  """The log of an evaluation."""
  log = inspect_ai.eval(
    task, model=model, display='none', log_samples=True, **options
  )[0]
  assert log.status == 'success', log.error
  return log


def errors(log):
  """Name of a value -> its standard error; `wm/stderr` where installed."""
  return {
    score.name: metric.value
    for score in log.results.scores
    for name, metric in score.metrics.items()
    if name.rpartition('/')[2] == 'stderr'
  }


def means(log):
  """Name of a value -> its mean."""
  return {s.name: s.metrics['mean'].value for s in log.results.scores}


@pytest.fixture(scope='module')
def solved(folder, tmp_path_factory):
  """A log of the solver, in the simple setting."""
  task = tasks.mango_destination(folder, setting='simple', budget=0, **GAME)
  return run(task, log_dir=str(tmp_path_factory.mktemp('logs')))


def test_the_solver_is_right_on_the_simple_setting(solved):
  result = means(solved)
  for name in ('success', 'exact', 'reasoning', 'well_formed'):
    assert result[name] == 1
  assert result['unknown_moves'] == result['repaired'] == 0
  assert 0.2 < result['chance'] < 0.5
  success = next(s for s in solved.results.scores if s.name == 'success')
  assert {'grouped_easy', 'grouped_hard'} <= set(success.metrics)
  assert solved.eval.task_version == tasks.VERSION
  assert len(solved.samples) == 16
  known = solved.samples[0].metadata
  assert (known['game'], known['step']) == ('905', 22)
  assert questions.asked_of(known).start == known['start']


def test_a_log_is_scored_again(solved, folder):
  again = inspect_ai.score(solved, tasks.mango_scorer(folder), display='none')
  assert means(again)['success'] == 1


def test_routes_and_ill_formed_answers(folder, tmp_path):
  """The whole text has names that the solver cannot tell from others."""
  task = tasks.mango_route(folder, budget=0, num=6, **GAME)
  log = run(task, log_dir=str(tmp_path))
  assert len(log.samples) == 6
  result = means(log)
  assert result['chance'] == 0
  for sample in log.samples:
    score = sample.scores['mango_scorer']
    formed = score.value['well_formed']
    assert (score.reason is None) == formed
    assert math.isnan(score.value['success_formed']) != formed
  # One game says nothing of how uncertain a mean over games is.
  assert math.isnan(errors(log)['success'])


def test_answers_of_other_models_and_other_ways_of_asking_stay_apart(solved):
  """Two providers' models of one name; scored a second time."""

  def log(model, **more):
    inputs = {**solved.eval.task_args, **more}
    mine = {'model': model, 'task_args': inputs}
    sample = solved.samples[0].model_copy()
    (score,) = sample.scores.values()
    worse = score.model_copy(update={'metadata': {**score.metadata}})
    worse.metadata['success'] = 0.5
    sample.scores = {'mango_scorer': score, 'mango_scorer1': worse}
    spec = solved.eval.model_copy(update=mine)
    return solved.model_copy(update={'eval': spec, 'samples': [sample]})

  several = [log('a/x'), log('b/x'), log('b/y', num=3)]
  result = scoring.answer_frame(reports.scored(several))
  assert list(result.model) == ['a/x-S', 'b/x-S', 'b/y-S']
  assert list(result.success) == [0.5] * 3


@pytest.mark.slow
def test_a_log_is_a_page_of_tables(solved):
  result = reports.page([solved])
  titles = [table.title for table in result.tables]
  assert titles[0] == 'Success'
  assert result.rows['answers'][0]['model'] == 'wm/solver-S'
  success = dict(
    zip(result.tables[0].heads, result.tables[0].rows[0], strict=True)
  )
  assert success['success, micro'].startswith('1.000')
  with pytest.raises(core.InputError, match='score them with inspect score'):
    reports.page([solved.model_copy(update={'samples': []})])


def test_the_budget_decides_which_questions_are_asked(folder):
  every = tasks.mango_destination(folder, budget=0, **GAME).dataset
  several = tasks.mango_destination(folder, budget=1800, **GAME).dataset
  assert 0 < len(several) < len(every) == 16
  for sample in several:
    assert questions.estimate(sample.input) + questions.ANSWER_TOKENS <= 1800
    assert sample.metadata['step'] < 22
    kept = every[[s.id for s in every].index(sample.id)]
    assert kept.target == sample.target


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    ({}, 'no folder of games was given; expected -T folder='),
    ({'folder': '/none'}, 'no such folder'),
    ({'game': 'x'}, "no game 'x'; available: 905, advent"),
    ({'budget': 600}, 'leaves none for the walkthrough'),
    ({'budget': -1}, 'budget=-1; expected at least 0'),
    ({'setting': 'x'}, 'available: full, simple'),
    ({'tokenizer': 'x'}, 'available: model, estimate'),
    ({'last': 1}, 'hold no question of mango_destination'),
  ],
)
def test_bad_settings_are_one_line(folder, options, message, one_line):
  inputs = {'folder': folder, **GAME} if options else {}
  with one_line(message):
    tasks.mango_destination(**{**inputs, **options})


class Plain(ModelAPI):
  """It counts nothing of its own."""

  async def generate(self, input, tools, tool_choice, config):
    raise NotImplementedError


class Counting(Plain):
  """It counts words."""

  async def count_text_tokens(self, text):
    return len(text.split())


class Unreachable(Plain):
  """It cannot count."""

  async def count_text_tokens(self, text):
    raise ConnectionError('no network')


class Fake:
  """A model of Inspect with this provider."""

  name = 'fake'

  def __init__(self, api):
    self.api = api

  async def count_tokens(self, text):
    return await self.api.count_text_tokens(text)


@pytest.mark.parametrize('running', [False, True])
def test_models_count_tokens_their_own_way(monkeypatch, running):
  def count(api):
    monkeypatch.setattr(questions, 'get_model', lambda: Fake(api))

    def go():
      return questions.counter()('three little words')

    async def within():
      return go()

    return asyncio.run(within()) if running else go()

  assert count(Counting('solver')) == 3
  assert count(Plain('solver')) == questions.estimate('x' * 18)
  with pytest.raises(core.InputError, match='counts no tokens: no network'):
    count(Unreachable('solver'))


def test_minigames_by_their_map(folder, tmp_path):
  inputs = {'game': 'zork1', 'tokenizer': 'estimate'}
  task = tasks.mango_minigames(folder, budget=0, map=True, **inputs)
  log = run(task, log_dir=str(tmp_path))
  assert len(log.samples) == 18
  assert log.samples[0].metadata['task'] == 'mango_minigames'
  result = means(log)
  assert result['well_formed'] == 1
  assert result['success'] > 0.3
  only = reports.page([log])
  assert [table.title for table in only.tables] == ['Minigames (table 10)']
  heads = 'game', 'wm/solver, minigame with map'
  assert only.tables[0].heads == heads
  assert only.tables[0].rows[0][1].endswith(' of 18')
  always = run(task, 'wm/yes', log_dir=str(tmp_path))
  assert means(always)['success'] < result['success']
  short = tasks.mango_minigames(folder, budget=2600, **inputs)
  assert 0 < len(short.dataset) < 18
  with pytest.raises(
    core.InputError, match='hold no question of mango_minigames'
  ):
    tasks.mango_minigames(folder, budget=200, **inputs)
