"""Inspect and launch/score.py ask the same and find the same."""

import dataclasses
import json
import math
import re
import subprocess
import sys
import zipfile

import click
import inspect_ai
import numpy as np
import pytest
from inspect_ai._eval.registry import task_create
from inspect_ai._eval.task.constants import TASK_ALL_PARAMS_ATTR
from inspect_ai._util import config as command_line
from inspect_ai._util.registry import registry_info

import wm
from tests import small
from tests.evaluation import counted
from wm import core
from wm.core import registry
from wm.language import (
  inspect_tasks,
  logs,
  papers,
  provider,
  providers,
  world_questions,
  world_task,
)
from wm.language import registry as registered
from wm.language.models import language
from wm.library import report as reports

WORLD = 'maps(rows=3, columns=3)'
METRICS = (
  "compression(suffixes='world', k=1, samples=3, trials=8); "
  "next_token(states='drawn', num=6)"
)
NAMES = ('solver', 'yes')


def _run(folder, model, epochs=1, **fields):
  task = world_task.world(**{'world': WORLD, 'metrics': METRICS, **fields})
  (log,) = inspect_ai.eval(
    task,
    model=f'wm/{model}',
    epochs=epochs,
    log_dir=str(folder),
    log_format='json',
    display='none',
    score_display=False,
  )
  assert log.status == 'success'
  return log


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp('logs')


@pytest.fixture(scope='module')
def result(folder):
  """Name of a provider -> log of it."""
  return {name: _run(folder, name) for name in NAMES}


@pytest.mark.parametrize('name', NAMES)
def test_a_log_scores_as_the_predictor_does(result, name, tmp_path):
  world = registry.make('world', WORLD)
  spec = f"language(model='wm/{name}', answers={str(tmp_path)!r})"
  live = registry.make('model', spec).predictor(world, 0)
  known = world_questions.gathered(world_questions.log_answers(result[name]))
  ((setting, answers),) = known.items()
  assert len(setting.metrics) == 3  # Distinction is beside compression.
  recalled = world_questions.recalled_predictor(setting, answers)
  for spec in setting.metrics:
    metric = registry.make('metric', spec)
    pairs = zip(metric(live, world, 0), metric(recalled, world, 0), strict=True)
    for first, other in pairs:
      np.testing.assert_array_equal(first.value, other.value)
      np.testing.assert_array_equal(first.reason, other.reason)
      np.testing.assert_array_equal(first.group, other.group)
      assert first.columns.keys() == other.columns.keys()
  assert live.diagnostics()[0].startswith(f'wm/{name}: ')


def test_the_plan_is_the_data_set(result, tmp_path):
  world = registry.make('world', WORLD)
  spec = f"language(model='wm/solver', answers={str(tmp_path)!r})"
  predictor = registry.make('model', spec).predictor(world, 0)
  asked = set()
  for metric in inspect_tasks.listed(METRICS, ';'):
    made = registry.make('metric', metric)
    twin, listed = predictor.dry_run()
    made(twin, world, 0)
    asked |= {question.prompt for question in listed}
  inputs = [sample.input for sample in result['solver'].samples]
  assert asked <= {*inputs}
  assert len(inputs) == len({*inputs})


def _numbers(log):
  return {
    f'{score.name} {name}': number.value
    for score in log.results.scores
    for name, number in score.metrics.items()
  }


def test_inspect_shows_the_metrics_and_clustered_errors(result):
  solver, yes = (_numbers(result[name]) for name in NAMES)
  assert solver['answers compression_precision'] == 1
  assert solver['answers distinction_recall'] == 1
  assert solver['right mean'] == 1
  assert solver['right grouped_yes_no'] == 1
  assert solver['right grouped_all_next'] == 1
  assert yes['answers compression_precision'] == 1
  assert yes['answers distinction_recall'] == 0
  assert 0 < yes['right mean'] < 1
  assert yes['answered mean'] == 1
  scored = [s for s in result['yes'].samples]
  groups = {}
  for sample in scored:
    value = sample.scores['answers'].value['right']
    groups.setdefault(sample.metadata['trial'], []).append(value)
  mean = yes['right mean']
  sums = [sum(x - mean for x in several) ** 2 for several in groups.values()]
  num = len(groups)
  error = math.sqrt(sum(sums) * num / (num - 1)) / len(scored)
  # Where the package is installed, it is `wm/stderr`.
  (found_error,) = (
    x for n, x in yes.items() if re.fullmatch('right (wm/)?stderr', n)
  )
  assert found_error == pytest.approx(error)


def test_reports_are_made_from_logs(result, folder, tmp_path):
  lines = []
  page = reports.report([folder], tmp_path, log=lines.append)
  text = page.read_text()
  assert 'wm/solver' in text
  assert 'wm/yes' in text
  entries = counted.results_of(page.parent)
  recall = {
    e['model']: e['value'] for e in entries if e['quantity'] == 'recall'
  }
  assert recall == {'wm/solver': 1.0, 'wm/yes': 0.0}
  rows = list(logs.rows(result['yes']))
  assert {row['quantity'] for row in rows} == {
    *('answered', 'right', 'right_all', 'probability')
  }
  assert {row['reason'] for row in rows if row['value'] == ''} <= {
    *('no_value', 'no_probability')
  }


def test_a_call_that_failed_is_counted_by_cause(result):
  log = result['yes'].model_copy(deep=True)
  output = 'openai.APITimeoutError: Request timed out.'
  log.samples[0].error = inspect_ai.log.EvalError(
    message=output, traceback=output, traceback_ansi=output
  )
  log.samples[1].scores = {}
  failures = [answer.failure for _, answer in world_questions.log_answers(log)]
  assert failures[:3] == ['timeout', 'not_scored', '']


def test_logs_of_other_tasks_are_refused(result, tmp_path):
  other = result['yes'].model_copy(deep=True)
  other.eval.task = 'their/own'
  path = tmp_path / '2026-01-01T00-00-00_own.json'
  inspect_ai.log.write_eval_log(other, str(path))
  with pytest.raises(core.InputError, match='their/own; expected a task of wm'):
    reports.report([path], tmp_path / 'out')


def test_variants_are_told_apart_and_spread(folder, tmp_path):
  fields = {
    'metrics': "next_token(states='drawn', num=3)",
    'names': [0, 1],
    'logprobs': True,
  }
  log = _run(tmp_path, 'solver', **fields)
  variants = {sample.metadata['variant'] for sample in log.samples}
  assert len(variants) == 2
  assert _numbers(log)['answers next_token_validity_sd'] == 0
  folders = world_questions.score_logs([log], tmp_path / 'out')
  assert len(folders) == len(variants)


def test_who_knows_the_old_map_is_wrong_after_a_change(tmp_path):
  log = _run(
    tmp_path,
    'old_map',
    metrics="next_token(states='drawn', num=8)",
    before='maps(rows=3, columns=3, city_seed=2)',
  )
  assert _numbers(log)['answered mean'] == 1
  assert _numbers(log)['right mean'] < 1


def test_a_log_is_scored_again(result):
  log = inspect_ai.score(
    result['yes'], world_task.answers(), action='overwrite'
  )
  assert _numbers(log) == pytest.approx(_numbers(result['yes']), nan_ok=True)


def test_epochs_are_voted(tmp_path):
  log = _run(
    tmp_path,
    'random',
    epochs=3,
    metrics='distinction(samples=0, max_elements=2, trials=4)',
  )
  known = world_questions.gathered(world_questions.log_answers(log))
  ((setting, answers),) = known.items()
  assert {len(sample) for sample in answers.values()} == {3}
  predictor = world_questions.recalled_predictor(setting, answers)
  for question, sample in answers.items():
    ((value, *_),) = predictor.ask([question])
    assert value == (sum(item.value for item in sample) > 1.5)


def test_probabilities_of_known_answers(tmp_path):
  log = _run(
    tmp_path,
    'solver',
    metrics='distinction(samples=0, max_elements=2, trials=4)',
    read='logprobs',
  )
  assert _numbers(log)['probability mean'] == pytest.approx(providers.SURE)


def test_one_call_scores_a_language_model(result, tmp_path):
  lines = []
  entries = small.scored(
    f"language(model='wm/yes', answers={str(tmp_path)!r})",
    inspect_tasks.listed(METRICS, ';')[0],
    WORLD,
    log=lines.append,
  )
  values = {(e['metric'], e['quantity']): e['value'] for e in entries}
  assert values['compression', 'precision'] == 1
  assert values['distinction', 'recall'] == 0
  assert any(line.startswith('wm/yes: ') for line in lines)
  assert lines[0].endswith('tokens of prompts')


def test_what_is_missing_is_one_line(monkeypatch, tmp_path):
  monkeypatch.setitem(sys.modules, 'wm.language.registry', None)
  with pytest.raises(core.InputError, match=r"install -e '\.\[language\]'"):
    wm.score("language(model='wm/yes')", 'next_token()', WORLD)
  monkeypatch.setitem(sys.modules, 'inspect_ai.model', None)
  settings = language.Model('wm/yes')
  with pytest.raises(core.InputError, match=r"install -e '\.\[language\]'"):
    provider.replies(settings, ['a'], lambda number, reply: None)


def test_every_paper_has_tables_of_logs():
  tasks_of = {'cogeval', 'forces', 'mango'}
  assert set(papers.names()) == tasks_of
  for name in (*tasks_of, 'mango_route', 'mango_destination'):
    assert callable(papers.load(papers.paper_of(name), 'report').page)
  assert papers.paper_of('wm/world') == papers.paper_of('their/own') == ''
  assert len(registered.TASKS) == len(tasks_of)


def test_values_that_the_command_line_splits_are_joined():
  inputs = (
    f'world={WORLD}',
    'metrics=compression(k=1, trials=4); distinction(samples=0)',
    'names=0,2',
    'before=maps(rows=2)',
  )
  parsed = command_line.parse_cli_args(inputs)
  assert isinstance(parsed['world'], list)
  assert inspect_tasks.joined(parsed['world']) == WORLD
  metrics = inspect_tasks.joined(parsed['metrics'])
  assert inspect_tasks.listed(metrics, ';') == [
    'compression(k=1, trials=4)',
    'distinction(samples=0)',
  ]
  names = inspect_tasks.joined(parsed['names'])
  assert inspect_tasks.numbers(names, 'names') == [0, 2]
  assert inspect_tasks.joined(parsed['before']) == 'maps(rows=2)'
  with pytest.raises(core.InputError, match='names='):
    inspect_tasks.numbers('a,b', 'names')


def test_options_of_the_command_line_reach_a_task():
  """Defaults are written into logs too, and an unknown name is an error."""
  options = command_line.parse_cli_args((f'world={WORLD}', 'names=1'))
  options['metrics'] = "next_token(states='drawn', num=2)"
  name = registry_info(world_task.world).name  # 'wm/world' if installed.
  task = task_create(name, **options)
  assert task.dataset.name == WORLD
  assert {s.metadata['names'] for s in task.dataset} == {1}
  written = getattr(task, TASK_ALL_PARAMS_ATTR)
  names = [f.name for f in dataclasses.fields(world_task.WorldOptions)]
  assert list(written) == names
  assert (written['names'], written['max_tokens']) == (1, 8192)
  with pytest.raises(core.InputError, match="no option 'wrld' of wm/world; a"):
    task_create(name, wrld=WORLD)


@pytest.mark.parametrize(
  ('fields', 'line'),
  [
    ({'world': 'groups()'}, 'cannot be told'),
    ({'metrics': 'compression()'}, 'expected suffixes'),
    ({'metrics': 'probe()'}, 'needs HiddenStates'),
    ({'metrics': 'capability()'}, 'needs questions'),
    ({'read': 'ears'}, 'available'),
    ({'names': 'x'}, 'expected integers'),
    ({'names': -1}, 'names=-1; expected at least 0'),
    ({'seed': 'a'}, 'seed=.*expected int'),
    ({'max_calls': True}, 'max_calls=.*expected int'),
    ({'max_calls': -5}, 'at most -5 calls'),
    ({'logprobs': 'maybe'}, 'expected bool'),
    ({'most_told': 0}, 'expected at least 1'),
    ({'form': 'tool', 'read': 'logprobs'}, "expected read='text'"),
    ({'before': 'maps(rows=2, columns=2)'}, 'of the same'),
    ({'before': 'groups()'}, 'cannot be told'),
  ],
)
def test_bad_arguments_are_one_line(fields, line):
  with pytest.raises(core.InputError, match=line) as caught:
    world_task.world(**{'world': WORLD, 'metrics': METRICS, **fields})
  # Inspect's command line shows these as one line.
  assert isinstance(caught.value, click.ClickException)
  assert '\n' not in caught.value.message


def test_a_metric_that_cannot_be_asked_is_a_reason_and_others_are_asked(capsys):
  few = "next_token(states='drawn', num=2)"
  task = world_task.world(world=WORLD, metrics=f'probe(); {few}')
  assert 'not asked: probe' in capsys.readouterr().out
  assert task.dataset[0].metadata['metrics'] == [
    registry.spec(registry.make('metric', few))
  ]


def test_logs_of_others_are_refused(result, tmp_path):
  for name, text in {'a.json': '{}', 'b.eval': 'no', 'c.json': '['}.items():
    (tmp_path / name).write_text(text)
    with pytest.raises(core.InputError, match='is not a log of Inspect'):
      logs.read(tmp_path / name)
  deep = tmp_path / 'deep.eval'
  with zipfile.ZipFile(deep, 'w') as archive:
    archive.writestr('header.json', '[' * 100_000)
  with pytest.raises(core.InputError, match='is not a log of Inspect'):
    logs.read(deep)
  deep.unlink()
  assert [path.name for path in logs.paths(tmp_path)] == ['b.eval']
  assert logs.paths(tmp_path / 'a.json') == [tmp_path / 'a.json']
  with pytest.raises(core.InputError, match=r'no scores\.json'):
    reports.report([tmp_path / 'none'], tmp_path / 'out')
  other = result['yes'].model_copy(deep=True)
  del other.samples[0].metadata['kind']
  with pytest.raises(core.InputError, match='kind'):
    world_questions.gathered(world_questions.log_answers(other))
  for field, value in (
    *(('seed', 'x'), ('seed', 2**70), ('world', ['lattice()']), ('names', {})),
    *(('prefix', [[1]]), ('suffixes', [1]), ('metrics', 'a'), ('trial', 7)),
  ):
    other = result['yes'].model_copy(deep=True)
    other.samples[0].metadata[field] = value
    with pytest.raises(core.InputError, match=rf'metadata: {field}.*expected'):
      world_questions.gathered(world_questions.log_answers(other))
  other = result['yes'].model_copy(deep=True)
  for sample in other.samples:
    sample.metadata['version'] += ' of old'
  with pytest.raises(core.InputError, match='other right answers'):
    world_questions.score_logs([other], tmp_path / 'out')
  other.samples = []
  inspect_ai.log.write_eval_log(other, str(tmp_path / 'd.json'))
  with pytest.raises(core.InputError, match='without samples'):
    logs.read(tmp_path / 'd.json')


@pytest.mark.process
def test_the_entry_point_loads_no_jax(root):
  setup = (root / 'setup.py').read_text()
  assert "'inspect_ai': ['wm = wm.language.registry']" in setup
  code = (
    'import sys, wm.language.registry\n'
    "heavy = {'jax', 'numba', 'torch', 'flax'} & {*sys.modules}\n"
    'sys.exit(str(heavy) if heavy else 0)'
  )
  subprocess.run([sys.executable, '-c', code], check=True, cwd=root)


# What a small server says instead of an answer is in faulty_provider_test.py;
# here is what Inspect's own objects are read as.


def test_outputs_are_read_without_inspects_types():
  from inspect_ai.model import ContentReasoning, ContentText, ModelOutput

  output = ModelOutput.from_content('m', 'yes')
  assert provider.read(output)[:2] == ('yes', 'stop')
  output.choices[0].message.content = [
    ContentReasoning(reasoning='hm hm'),
    ContentText(text='no'),
  ]
  result = provider.read(output)
  assert (result.text, result.reasoning) == ('no', 5)
  assert provider.read(ModelOutput()).failure == 'bad_reply'


@pytest.mark.parametrize('form', ['schema', 'tool'])
def test_structured_answers_are_read(form, tmp_path):
  asked = world_task.world(
    'maps(rows=3, columns=3)',
    "compression(suffixes='world', k=1, samples=2, trials=4); "
    "next_token(states='drawn', num=3)",
    form=form,
  )
  log, *_ = inspect_ai.eval(
    asked, model='wm/solver', log_dir=str(tmp_path), display='none'
  )
  assert log.status == 'success'
  forms = [sample.metadata['form'] for sample in log.samples]
  assert {*forms} == {form}
  first = log.samples[0].output
  answers = first.message.tool_calls or [json.loads(first.completion)]
  assert answers
  by_scorer = {score.name: score.metrics for score in log.results.scores}
  assert by_scorer['right_all']['mean'].value == 1
  (measured,) = [x for x in by_scorer.values() if 'next_token_validity' in x]
  assert measured['next_token_validity'].value == 1


def test_a_cancelled_log_says_what_was_never_asked(tmp_path):
  """Questions that were not asked are not questions without an answer."""
  whole = _run(tmp_path / 'whole', 'solver')
  cut = whole.model_copy(deep=True)
  cut.status = 'cancelled'
  left = len(whole.samples) // 2
  cut.samples = cut.samples[:left]
  cut.eval.task_id = 'cut'
  path = tmp_path / 'cut.json'
  inspect_ai.log.write_eval_log(cut, str(path))
  lines = []
  (folder,) = logs.report([path], tmp_path / 'out', lines.append).results
  missing = len(whole.samples) - left
  assert any(f'cancelled, {left} samples, {missing} more' in x for x in lines)
  entries = json.loads((folder / 'scores.json').read_text())
  for entry in entries:
    assert entry['status'] in ('partial', 'nothing measured')
    (caution,) = (c for c in entry['cautions'] if 'never asked' in c)
    assert f'(status cancelled): {missing} samples' in caution
  assert logs.never_asked(whole) == 0
