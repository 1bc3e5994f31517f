"""An exported task asks and scores as Inspect's does."""

import json
import math
import random
import subprocess
import sys

import inspect_ai
import pytest

import wm
from tests.launch import binaries
from wm import core
from wm.language import harness, papers, providers, world_task

WORLD = {'world': 'maps(rows=3, columns=3)', 'metrics': 'next_token(num=3)'}
COGEVAL = {'graphs': 'n7line', 'domains': 'ordRooms'}
FORCES = {'num': 1}
TASKS = {'world': WORLD, 'cogeval': COGEVAL, 'forces': FORCES}


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp('tasks')
  for name, options in TASKS.items():
    wm.export(name, folder, options)
  return folder


def _questions(folder, name):
  lines = (folder / f'wm_{name}.jsonl').read_text(encoding='utf-8').splitlines()
  return [json.loads(line) for line in lines]


def _replies(doc, name, answerer):
  module = papers.load(name, 'task') if name != 'world' else world_task
  metadata = json.loads(doc['metadata'])
  request = providers.Request(
    answerer, doc['prompt'], 0, metadata, '', random.Random(0)
  )
  return [module.known_answer(request)]


@pytest.mark.parametrize('name', TASKS)
def test_known_answers_have_their_scores(folder, name):
  path = str(folder / f'wm_{name}.py')
  _, score = harness.exported(path, name, TASKS[name])
  main = {'world': 'right', 'cogeval': 'correct', 'forces': 'r'}[name]
  docs = _questions(folder, name)
  values = [score(doc, _replies(doc, name, 'oracle'))[main] for doc in docs]
  assert min(values) > 0.99
  nonsense = [score(doc, ['lol']) for doc in docs]
  assert not any(each[main] > 0 for each in nonsense)
  known = f'metric: {main}\n    aggregation: !function wm_{name}.mean\n'
  assert known in (folder / f'wm_{name}.yaml').read_text(encoding='utf-8')


def test_replies_have_the_scores_of_inspect(folder, tmp_path):
  (log,) = inspect_ai.eval(
    world_task.world(**WORLD),
    model='wm/random',
    log_dir=str(tmp_path),
    display='none',
  )
  _, score = harness.exported('', 'world', WORLD)
  docs = _questions(folder, 'world')
  for doc, sample in zip(docs, log.samples, strict=True):
    assert doc['prompt'] == sample.input
    (known,) = sample.scores.values()
    scores = score(doc, [sample.output.completion])
    assert scores == pytest.approx(known.value, nan_ok=True)
  assert len(docs) > 20


def test_what_is_not_measured_is_left_out_of_means():
  assert harness.mean([1.0, math.nan, 0.0]) == 0.5
  assert math.isnan(harness.mean([math.nan]))


@pytest.mark.parametrize(
  ('task', 'options', 'line'),
  [
    ('wm/mango', {}, "no task 'wm/mango'"),
    ('world', {'form': 'tool'}, "form='tool': lm_eval reads texts"),
    ('world', {'wrold': 'maps()'}, "no option 'wrold' of wm/world"),
    ('cogeval', {**COGEVAL, 'turns': 'two'}, 'lm_eval asks once'),
  ],
)
def test_what_cannot_be_exported_is_one_line(task, options, line, tmp_path):
  with pytest.raises(core.InputError, match=line):
    wm.export(task, tmp_path / 'new', options)
  assert not (tmp_path / 'new').exists()


def test_options_of_the_command_line_are_those_of_the_task(tmp_path):
  flags = (f'--option={name}={value}' for name, value in FORCES.items())
  out = f'--out={tmp_path}'
  code, shown, err = binaries.run('export', '--task=wm/forces', *flags, out)
  assert (code, err) == (0, '')
  assert shown.startswith('1 questions')
  assert len(_questions(tmp_path, 'forces')) == 1
  assert 'is required' in binaries.refused('export', out)
  wrong = binaries.refused('export', out, '--task=forces', '--option=num')
  assert 'expected NAME=VALUE' in wrong


@pytest.mark.process
def test_the_harness_runs_them(folder, root):
  pytest.importorskip('lm_eval')
  code = '\n'.join(
    (
      'import json, lm_eval',
      'from lm_eval.tasks import TaskManager',
      f'tasks = TaskManager(include_path={str(folder)!r})',
      f'names = {[f"wm_{name}" for name in TASKS]!r}',
      'runs = lm_eval.simple_evaluate(model="dummy", tasks=names,',
      '  task_manager=tasks, limit=5)',
      'print(json.dumps(runs["results"]))',
    )
  )
  done = subprocess.run(
    [sys.executable, '-c', code],
    **{'check': True, 'cwd': root, 'capture_output': True, 'text': True},
  )
  results = json.loads(done.stdout.splitlines()[-1])
  assert results['wm_world']['answered,none'] == 0
  assert results['wm_cogeval']['no_answer,none'] == 1
  assert results['wm_forces']['unread,none'] == 1
