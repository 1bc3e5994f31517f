"""Inspect's task: samples, turns, scores, clusters; with known answers."""

import inspect_ai
import pytest

from wm import core
from wm.language import providers
from wm.language.cogeval import prompts, tasks
from wm.worlds.cognitive_graph import questions


@pytest.fixture(scope='module')
def logs(tmp_path_factory):
  """Model -> log of a small run."""
  assert providers.Known
  task = tasks.cogeval(
    graphs='B,n15star',
    domains='socialTies',
    conditions='valuePath,transReval,3stepPath,nClusters',
    repeats=2,
    temperatures='0,0.5',
  )
  folder = str(tmp_path_factory.mktemp('logs'))
  found = {}
  for model in ('solver', 'old_map'):
    found[model] = inspect_ai.eval(
      task, model=f'wm/{model}', display='none', log_dir=folder
    )[0]
  return found


def test_known_answers_have_the_scores_that_they_must(logs):
  for model, right in (('solver', 24), ('old_map', 16)):
    log = logs[model]
    assert log.status == 'success'
    assert len(log.samples) == 24
    found = {s.name: s.metrics['mean'].value for s in log.results.scores}
    assert found['correct'] == pytest.approx(right / 24)
    assert found['strict'] == found['correct']
  shares = {s.name: s.metrics for s in logs['old_map'].results.scores}
  # Repeats and temperatures of one question are one cluster.
  assert shares['correct']['stderr'].value > 0.15


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
    one
    for one in logs['old_map'].samples
    if one.metadata['graph'] == 'n15star'
    and one.metadata['condition'] == 'transReval'
  )
  score = sample.scores['planned']
  assert score.explanation == 'hallucinated_edge'
  assert score.metadata['perseverations'] == 1
  assert sample.metadata['group'] == 'TransReval'
  dialog = tasks.asked_of(sample.metadata)
  assert dialog.first == sample.messages[1].text
  assert dialog.second == sample.messages[3].text
  assert sample.target == ['Amir, Sara, Raj, Kim']


def all_samples(**more):
  return list(tasks.cogeval(**more).dataset)


def test_all_conditions_of_all_graphs_are_asked():
  found = all_samples()
  asked = {(s.metadata['graph'], s.metadata['condition']) for s in found}
  assert asked == {
    (name, condition)
    for name in tasks.graphs.GRAPHS
    for condition in questions.conditions(name)
  }
  assert len({s.id for s in found}) == len(found) == 3 * len(asked)


def test_repeats_ask_of_other_nodes_and_of_other_names_where_told():
  few = {'graphs': ['C'], 'domains': ['objects'], 'repeats': 3}
  found = all_samples(conditions='nstepPath,valuePath', **few)
  ends = {(s.metadata['start'], s.metadata['goal']) for s in found}
  assert ends == {(1, 11), (2, 12), (0, 9), (None, None)}
  anew = all_samples(conditions='valuePath', relabel=True, **few)
  assert len({s.input[1].text for s in anew}) == 3
  assert len({s.metadata['question'] for s in anew}) == 3
  forced = all_samples(conditions='transReval', turns='forced', **few)
  assert [turn.role for turn in forced[0].input] == [
    'system',
    'user',
    'assistant',
    'user',
  ]
  hinted = all_samples(conditions='transReval', hint='bfs', **few)
  assert prompts.HINTS['bfs'] in hinted[0].metadata['second']


def test_what_is_not_there_is_named():
  with pytest.raises(core.InputError, match="unknown graph 'n8'; available"):
    tasks.cogeval(graphs='n8')
  with pytest.raises(core.InputError, match='no graph has one of the cond'):
    tasks.cogeval(conditions='valuPath')
