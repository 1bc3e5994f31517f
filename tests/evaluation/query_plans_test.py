"""What is listed beforehand is what is asked, and no more than may be."""

import dataclasses
import re

import numpy as np
import pytest

from tests.evaluation import counted
from tests.models.played import Played
from wm import core
from wm.core import queries, registry
from wm.evaluation import query_plans
from wm.language import llm_predictor, provider
from wm.language.answer_cache import CallReply

WORLD = registry.make('world', 'maps(rows=3, columns=3)')
METRICS = [
  "compression(suffixes='world', k=1, samples=5, trials=12)",
  "compression(suffixes='world', k=3, samples=4, trials=6)",
  'distinction(samples=0, max_elements=5, trials=12)',
  "next_token(states='drawn', num=12)",
]


@pytest.fixture
def predictor(monkeypatch, tmp_path):
  played = Played()
  monkeypatch.setattr(provider, 'replies', played)
  spec = f"language(model='a/b', answers={str(tmp_path)!r})"
  result = registry.make('model', spec).predictor(WORLD, 0)
  result.played, result.folder = played, str(tmp_path)
  return result


@pytest.mark.parametrize('spec', METRICS)
def test_a_metric_asks_what_its_plan_lists(predictor, spec):
  metric = registry.make('metric', spec)
  made = query_plans.plan_of(metric, predictor, WORLD, 0)
  made.ask()
  calls = predictor.played.calls
  assert sorted(calls) == sorted(item.prompt for item in made.questions)
  assert made.calls == len(calls)
  # Prompts are told twice as long as they are, at most.
  assert sum(map(len, calls)) / 4 < made.tokens < sum(map(len, calls))
  results = metric(predictor, WORLD, 0)
  assert len(predictor.played.calls) == len(calls)
  for scores in results:
    assert scores.value[scores.measured].min() == pytest.approx(1)
  for scores in made.scores(WORLD):
    assert scores.quantity == 'right_answers'
    assert scores.value.min() == 1.0


def test_one_call_a_question_of_a_quiz(predictor):
  puzzle = registry.make('world', 'seating()')
  model = registry.make('model', "language(model='a/b')")
  model = dataclasses.replace(model, answers=predictor.folder)
  metric = registry.make('metric', 'capability(num=6)')
  made = query_plans.plan_of(metric, model.predictor(puzzle, 0), puzzle, 0)
  assert {item.kind for item in made.questions} == {queries.ONE_NEXT}
  made.ask()
  assert len(predictor.played.calls) == len(made.questions)
  for scores in (*metric(made.predictor, puzzle, 0), *made.scores(puzzle)):
    assert scores.value.tolist() == [1.0] * len(scores.value)


def test_questions_of_a_trial_are_one_group(predictor):
  metric = registry.make('metric', METRICS[0])
  made = query_plans.plan_of(metric, predictor, WORLD, 0)
  (scores,) = made.scores(WORLD)
  assert 1 < len({*scores.group.tolist()}) <= 12
  assert len(scores.group) == len(made.questions)


def _entries(predictor, tmp_path, *specs, **fields):
  metrics = [registry.make('metric', spec) for spec in specs]
  lines = []
  entries = counted.scoring.run(
    counted.scoring.Loaded(predictor, WORLD, 'm'),
    metrics,
    seed=0,
    out=tmp_path / 'out',
    log=lines.append,
    **fields,
  )
  return {(e['metric'], e['quantity']): e for e in entries}, lines


def test_always_yes_is_seen_through_by_distinction(predictor, tmp_path):
  predictor.played.knows = 'yes'
  result, lines = _entries(predictor, tmp_path, METRICS[0])
  assert result['compression', 'precision']['value'] == 1.0
  assert result['distinction', 'recall']['value'] == 0.0
  assert result['distinction', 'recall']['n'] == 12
  assert 0 < result['compression', 'right_answers']['value'] < 1
  assert 'calls' in lines[0]
  assert 'tokens' in lines[0]


def test_causes_of_silence_are_counted(predictor, tmp_path):
  predictor.played.reply = lambda call: CallReply('', failure='rate_limit')
  result, _ = _entries(predictor, tmp_path, METRICS[2])
  right = result['distinction', 'right_answers']
  assert right['value'] is None
  assert right['unmeasured'] == {'rate_limit': len(predictor.played.calls)}
  assert result['distinction', 'recall']['unmeasured']['no_answer'] == 12


def test_where_nothing_is_said_next_tokens_are_not_judged(predictor, tmp_path):
  known = predictor.played.known

  def reply(prompt):
    half = len(predictor.played.calls) and len(prompt) % 2
    return CallReply('', failure='timeout') if half else known(prompt)

  predictor.played.reply = reply
  result, _ = _entries(predictor, tmp_path, METRICS[3])
  causes = result['next_token', 'right_answers']['unmeasured']
  assert 0 < causes['timeout'] < 12
  for name in ('validity', 'set_precision', 'set_recall', 'exact_set'):
    entry = result['next_token', name]
    assert entry['value'] == 1.0
    assert entry['unmeasured'] == {'no_answer': causes['timeout']}
    assert entry['counts']['positions_no_answer'] == causes['timeout']


def test_names_of_no_token_are_wrong(predictor, tmp_path):
  known = predictor.played.known
  predictor.played.reply = lambda prompt: CallReply(
    known(prompt).text + '; Xanadu'
  )
  result, _ = _entries(predictor, tmp_path, METRICS[3])
  assert result['next_token', 'right_answers']['value'] == 0.0
  assert result['next_token', 'exact_set']['value'] == 0.0
  assert result['next_token', 'validity']['value'] == 1.0
  assert 0.3 < result['next_token', 'set_precision']['value'] < 1


def test_probabilities_are_kept(predictor, tmp_path):
  predictor.played.reply = lambda call: CallReply('yes', probability=0.75)
  result, _ = _entries(predictor, tmp_path, METRICS[2])
  right = result['distinction', 'right_answers']['value']
  graded = result['distinction', 'right_probability']['value']
  assert graded == pytest.approx(0.75 * right + 0.25 * (1 - right))


def test_too_large_a_plan_is_refused_with_what_fits(
  predictor, tmp_path, monkeypatch
):
  monkeypatch.setattr(query_plans, 'MOST_CALLS', 50)
  with pytest.raises(core.InputError, match=r'trials=\d+, .* fit') as lines:
    _entries(predictor, tmp_path, METRICS[0])
  assert not predictor.played.calls
  spec = str(lines.value).split('calls: ')[-1].split(' would fit')[0]
  metric = registry.make('metric', spec)
  assert query_plans.plan_of(metric, predictor, WORLD, 0).calls <= 50


def test_max_calls_keeps_whole_trials(predictor, tmp_path):
  result, _ = _entries(predictor, tmp_path, METRICS[0], max_calls=40)
  num = result['compression', 'precision']['n']
  assert 1 <= num < 12
  assert len(predictor.played.calls) <= 80  # Of two metrics.
  whole, _ = _entries(predictor, tmp_path / 'whole', METRICS[0])
  assert whole['compression', 'precision']['n'] == 12
  with pytest.raises(core.InputError, match='no number of trials fits'):
    _entries(predictor, tmp_path / 'few', METRICS[0], max_calls=1)


@pytest.fixture
def listed(monkeypatch):
  """All questions that are listed."""
  result, listing = [], llm_predictor.RecordedBackend.answers

  def answers(self, questions, model):
    result.extend(questions)
    return listing(self, questions, model)

  monkeypatch.setattr(llm_predictor.RecordedBackend, 'answers', answers)
  return result


@pytest.mark.parametrize('num', [300_000, 10**12])
@pytest.mark.parametrize(
  'spec',
  [
    "compression(suffixes='world', k=1, samples=5, trials={})",
    "next_token(states='drawn', num={})",
  ],
)
def test_of_far_too_large_a_plan_few_questions_are_listed(
  predictor, listed, monkeypatch, spec, num
):
  monkeypatch.setattr(query_plans, 'MOST_CALLS', 100)
  metric = registry.make('metric', spec.format(num))
  with pytest.raises(core.InputError) as lines:
    query_plans.plans([metric], predictor, WORLD, 0, 0, print)
  at_least, fits = re.fullmatch(
    rf'.*={num}.*: at least ([\d,]+) calls, those of its first \d+ trials; '
    r'expected at most 100 calls: (.*) would fit, or set --max_calls',
    str(lines.value),
  ).groups()
  # The first trials, those that are too many, and what is cut to fit.
  assert 100 < int(at_least.replace(',', '')) <= len(listed) < 800
  fitting = registry.make('metric', fits)
  assert 50 < query_plans.plan_of(fitting, predictor, WORLD, 0).calls <= 100
  # Where that is allowed, the same plan is cut so as fast.
  listed.clear()
  result, *_ = query_plans.plans([metric], predictor, WORLD, 0, 100, print)
  assert result.metric == fitting
  assert len(listed) < 800 + 800  # Of the metric beside it, too.


def test_many_trials_that_ask_little_are_all_listed(predictor):
  few = registry.make('world', 'lattice(length=4)')
  model = registry.make('model', "language(model='a/b')").predictor(few, 0)
  metric = registry.make('metric', "next_token(states='drawn', num=3000)")
  (result,) = query_plans.plans([metric], model, few, 0, 0, print)
  assert result.metric is metric
  assert 1 < result.calls < 200


def test_what_depends_on_answers_is_refused_with_what_does_not(
  predictor, tmp_path
):
  for metric in ('compression()', 'distinction()'):
    with pytest.raises(core.InputError, match='expected s'):
      _entries(predictor, tmp_path, metric)
  with pytest.raises(core.InputError, match='depend on the answers'):
    _entries(predictor, tmp_path, 'detour()')


def test_truth_is_the_worlds():
  legal = WORLD.legal(WORLD.init(1))[0]
  legal[core.PAD] = False
  good = np.flatnonzero(legal).tolist()
  bad = np.flatnonzero(~legal).tolist()[1:]
  ask = queries.Query
  assert queries.truths(
    WORLD,
    [
      ask('', queries.YES_NO, (), ((good[0],),)),
      ask('', 'other'),
      ask('', queries.ONE_NEXT, (), ((bad[0],), (good[0],))),
      ask('', queries.ALL_NEXT),
      ask('', queries.YES_NO, (), ((bad[0],),)),
      ask('', queries.ONE_NEXT, (), ((good[0],), (good[1],))),
    ],
  ) == [True, None, 1, tuple(good), False, core.DEAD]
