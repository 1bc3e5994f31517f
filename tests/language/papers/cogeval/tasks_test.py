"""Inspect's task: samples, turns, scores, clusters; with known answers."""

import inspect_ai
import inspect_ai.model
import pytest
from inspect_ai.log import write_eval_log

from tests import page_text
from wm import core
from wm.language import logs as log_reports
from wm.language import providers
from wm.language.papers.cogeval import report as reports
from wm.language.papers.cogeval import task as tasks
from wm.worlds.cognitive_graph import questions


@pytest.fixture(scope='module')
def logs(tmp_path_factory):
  """Model -> log of a small run."""
  assert providers.KnownAnswers
  task = tasks.cogeval(
    graphs='B,n15star',
    domains='socialTies',
    conditions='valuePath,transReval,3stepPath,nClusters',
    repeats=2,
  )
  folder = str(tmp_path_factory.mktemp('logs'))
  result = {}
  for model in ('solver', 'old_map'):
    result[model] = inspect_ai.eval(
      task, model=f'wm/{model}', display='none', log_dir=folder
    )[0]
  return result


def test_known_answers_have_the_scores_that_they_must(logs):
  for model, right in (('solver', 12), ('old_map', 8)):
    log = logs[model]
    assert log.status == 'success'
    assert len(log.samples) == 12
    result = {s.name: s.metrics['mean'].value for s in log.results.scores}
    assert result['correct'] == pytest.approx(right / 12)
  shares = {s.name: s.metrics for s in logs['old_map'].results.scores}
  for condition, right in (('valuePath', 1), ('transReval', 0)):
    assert shares['correct'][f'grouped_{condition}'].value == right
  # Repeats of one question are one cluster.
  (error,) = (m.value for n, m in shares['correct'].items() if 'stderr' in n)
  assert error > 0.15


def test_a_change_is_told_after_the_models_own_answer(logs):
  roles = {}
  for sample in logs['solver'].samples:
    key = sample.metadata['graph'], sample.metadata['condition']
    roles[key] = ''.join(turn.role[0] for turn in sample.messages)
  assert roles == {
    ('n7tree', 'valuePath'): 'sua',
    ('n7tree', 'transReval'): 'suaua',
    ('n15star', 'valuePath'): 'sua',
    ('n15star', 'transReval'): 'suaua',
    ('n15star', '3stepPath'): 'sua',
    ('n15star', 'nClusters'): 'sua',
  }


def test_a_sample_knows_what_it_asks(logs):
  sample = next(
    item
    for item in logs['old_map'].samples
    if item.metadata['graph'] == 'n15star'
    and item.metadata['condition'] == 'transReval'
  )
  score = sample.scores['planned']
  assert score.explanation == 'hallucinated_edge'
  assert score.metadata['hallucinated_edges'] == 1
  assert sample.metadata['group'] == 'TransReval'
  dialog = tasks.asked_of(sample.metadata)
  assert dialog.first == sample.messages[1].text
  assert dialog.second == sample.messages[3].text
  assert sample.target == ['Amir, Sara, Raj, Kim']


def all_samples(**more):
  return list(tasks.cogeval(**more).dataset)


def test_all_conditions_of_all_graphs_are_asked():
  results = all_samples(domains='people', temperatures='0,0.5')
  asked = {(s.metadata['graph'], s.metadata['condition']) for s in results}
  assert asked == {
    (name, condition)
    for name in tasks.graphs.GRAPHS
    for condition in questions.conditions(name)
  }
  assert len({s.id for s in results}) == len(results) == 2 * len(asked)


def test_repeats_ask_of_other_nodes():
  few = {'graphs': ['C'], 'domains': ['rooms'], 'repeats': 3}
  results = all_samples(conditions='nstepPath,valuePath', **few)
  ends = {(s.metadata['start'], s.metadata['goal']) for s in results}
  assert ends == {(1, 11), (2, 12), (0, 9), (None, None)}


def test_what_is_not_there_is_named():
  with pytest.raises(core.InputError, match="unknown graph 'n8'; available"):
    tasks.cogeval(graphs='n8')
  for inputs, output in (
    ({'conditions': 'valuePath,valuPath'}, "no condition 'valuPath' of n7"),
    ({'graphs': 'B', 'conditions': 'nClusters'}, 'available: valuePath, 1st'),
    ({'temperatures': 'hot'}, "could not convert string to float: 'hot'"),
    ({'repeats': 0}, 'repeats=0; expected at least 1'),
    ({'domains': ''}, "domains=''; expected one or more"),
    ({'hints': 'bfs'}, "no option 'hints' of wm/cogeval; available: graphs"),
  ):
    with pytest.raises(core.InputError, match=output):
      tasks.cogeval(**inputs)


def test_logs_of_live_models_are_tabled(logs):
  several = list(logs.values())
  frame = reports.answers_of_logs(several)
  assert set(frame['group']) <= {*questions.GROUPS}
  solver = frame[frame['model'] == 'wm/solver']
  assert (solver['solver'] == 1).all()
  result = reports.page(several)
  assert f'{len(frame):,} answers' in result.lead
  with pytest.raises(core.InputError, match='no scored answer'):
    reports.page([])


def test_an_evaluation_counts_once_and_says_what_has_no_score(logs, tmp_path):
  """A second log of it comes later; a call of that has failed."""
  first = logs['solver']
  again = first.model_copy(deep=True)
  again.eval.created = '2999-01-01T00:00:00+00:00'
  failed = again.samples[0]
  failed.scores = {}
  failed.error = inspect_ai.log.EvalError(
    message='APITimeoutError()', traceback='', traceback_ansi=''
  )
  places = [tmp_path / name for name in ('b.eval', 'a.eval')]
  for place, log in zip(places, (first, again), strict=True):
    write_eval_log(log, str(place))
  lines = []
  log_reports.report(sorted(places), tmp_path / 'out', lines.append)
  assert 'left out' in lines[0]
  text = page_text.read(tmp_path / 'out')
  assert '11 answers of 1 models' in text
  assert '1 more samples have no score: timeout 1.' in text


def test_published_prompts_come_from_the_recorded_conversations(
  cogeval, conversations, tmp_path
):
  """Texts are the authors'; a planner that knows the graph answers them."""
  task = tasks.cogeval(
    graphs='n7line,n15star',
    domains='ordRooms,socialTies',
    conditions='valuePath,transReval,1stepPath',
    prompts=str(cogeval),
  )
  texts = {
    tuple(text for role, text in row['messages'] if role != 'a')
    for row in conversations.dropna(subset=['messages']).to_dict('records')
  }
  assert len(task.dataset) == 12
  for sample in task.dataset:
    asked = [*(turn.text for turn in sample.input), sample.metadata['second']]
    assert tuple(filter(None, asked)) in texts
    assert sample.metadata['wording'] == 'published'
    assert '/published/' in sample.id
  (log,) = inspect_ai.eval(
    task, model='wm/solver', display='none', log_dir=str(tmp_path)
  )
  assert log.status == 'success', log.error
  result = {s.name: s.metrics['mean'].value for s in log.results.scores}
  assert result['correct'] == 1
  for options, output in (
    ({'turns': 'one'}, 'expected no other option of conversations'),
    ({'prompts': '', 'turns': 'three'}, "turns='three'.*; available: two, one"),
    (
      {'conditions': 'teleShortcutShortest'},
      'no conversation of n7line, teleShortcutShortest, ordRooms',
    ),
  ):
    with pytest.raises(core.InputError, match=output):
      tasks.cogeval(**{'prompts': str(cogeval), **options})


def test_a_folder_without_conversations_is_refused_in_a_line(tmp_path):
  files = 'conversations_sample.jsonl.gz, scores_all.csv.gz'
  with pytest.raises(core.InputError, match=f'no conv.*; expected {files}$'):
    tasks.cogeval(prompts=str(tmp_path))


def test_logs_of_a_wording_that_is_no_more_are_scored(logs):
  (sample, *_) = logs['solver'].samples
  old = {**sample.metadata, 'wording': 'published'}
  assert tasks.asked_of(old).problem == tasks.asked_of(sample.metadata).problem
