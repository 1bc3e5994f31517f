"""Sweeps of processes that pretend to train: order, failures, locks, tables."""

import json
import math
import os
import signal
import subprocess
import sys
import time

import pytest

import wm
from wm import core
from wm.options.calls import Sweeping
from wm.runtime import files, stopping
from wm.studies import grid, sweep
from wm.studies import runs as pools

FLAGS = {'world': 'lattice()', 'model': 'ngram()', 'seed': 0, 'lr': 1.0}
# A run: notes that it began; fails, waits or reports as its lr says.
TRAINER = """
import json, os, sys, time
out, lr, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
open(f'{out}/began', 'a').write('x')
print('a remark', file=sys.stderr)
if lr == 13 and not os.path.exists(f'{out}/well'):
  sys.exit('error: loss nan')
if lr == 12: raise ValueError('twelve')
if lr == 14: os.kill(os.getpid(), 9)
if lr == 16 and not os.path.exists(f'{out}/well'): sys.exit(75)
while lr == 15 and not os.path.exists(f'{out}/well'): time.sleep(.02)
json.dump({'best_loss': lr + seed / 10, 'best_step': 3, 'seconds': 1.5,
           'step': 0, 'devices': os.environ.get('CUDA_VISIBLE_DEVICES')},
          open(f'{out}/train.new', 'w'))
os.replace(f'{out}/train.new', f'{out}/train.json')
"""


# Scores a run: fails, waits or counts as the run's lr says.
SCORER = """
import json, os, sys, time
out, lr, mark = sys.argv[1], float(sys.argv[2]), sys.argv[4]
if lr == 2 and not os.path.exists(f'{out}/well'): sys.exit('error: no metric')
while lr == 5 and not os.path.exists(f'{out}/well'): time.sleep(.02)
open(f'{out}/scored', 'a').write('x')
json.dump(mark, open(f'{out}/run.json', 'w'))
"""


@pytest.fixture(autouse=True)
def pretending(monkeypatch) -> None:
  monkeypatch.setattr(pools, 'command', command)


def command(job) -> list[str]:
  """A process that pretends to do a run, whose settings its name says."""
  (run,) = job
  script = SCORER if run.metrics else TRAINER
  settings = dict(x.split('=') for x in run.name.split(',') if '=' in x)
  words = [run.folder, settings.get('lr', '1'), settings.get('seed', '0')]
  return [sys.executable, '-S', '-c', script, *words, run.mark()]


def runs(*texts: str) -> list[grid.Place]:
  def value(name: str, text: str) -> int | float:
    return int(text) if name == 'seed' else float(text)

  start = [grid.Place({}, FLAGS, {})]
  return grid.places(grid.parse(texts, value, dict), {}, start)


def work(out, todo, **options) -> tuple[list, list[str]]:
  lines = []
  made = sweep.Sweep(out, todo, Sweeping(**{'jobs': 2, **options}))
  made.check(None)
  made.work([*map(made.run_of, todo)], lines.append)
  return made.table(), lines


def began(out, name: str) -> int:
  path = out / 'runs' / name / 'began'
  return len(path.read_text()) if path.exists() else 0


@pytest.mark.process
def test_every_run_is_done_once_and_tabled(tmp_path):
  todo = runs('lr=3|1|2', 'seed=0|1')
  ended, lines = work(tmp_path, todo)
  assert [s.status for s in ended] == ['done'] * 6
  assert len(lines) == 6
  assert lines[-1].startswith('[6/6] ')
  assert 'loss 3' in next(line for line in lines if 'lr=3,seed=0' in line)
  page = (tmp_path / 'sweep.md').read_text()
  assert '6 runs; 6 done, 0 failed, 0 running, 0 waiting' in page
  best = page.index('| 1 | 2/2 | 1.05 | 0.1 | 3, 3 | 3 | done |')
  assert best < page.index('| 2 | 2/2 | 2.05 |')
  again, lines = work(tmp_path, todo)
  assert again == ended
  assert lines == []
  assert all(began(tmp_path, run.name) == 1 for run in todo)


@pytest.mark.process
def test_a_failure_is_recorded_and_stops_no_other(tmp_path):
  todo = runs('lr=13|14|1')
  (odd,), _ = work(tmp_path / 'odd', runs('lr=12'))
  assert odd.error == 'ValueError: twelve'
  ended, lines = work(tmp_path, todo, jobs=1)
  assert [s.status for s in ended] == ['failed', 'failed', 'done']
  assert [s.error for s in ended] == ['loss nan', 'killed by signal 9', '']
  assert lines[0] == '[1/3] lr=13: failed, loss nan'
  assert 'failed: killed by signal 9' in (tmp_path / 'sweep.md').read_text()
  rows = files.read_json(tmp_path / 'sweep.json')['runs']
  assert [row['status'] for row in rows] == ['failed', 'failed', 'done']
  # Started again, it tries those once more, and only those.
  (tmp_path / 'runs' / 'lr=13' / 'well').touch()
  ended, _ = work(tmp_path, todo, jobs=1)
  assert [s.status for s in ended] == ['done', 'failed', 'done']
  assert [began(tmp_path, f'lr={n}') for n in (13, 14, 1)] == [2, 2, 1]
  assert not (tmp_path / 'runs' / 'lr=13' / 'failed.json').exists()


@pytest.mark.process
def test_a_run_that_was_told_to_stop_has_not_failed(tmp_path):
  todo = runs('lr=16|1')
  with pytest.raises(stopping.Stopped) as error:
    work(tmp_path, todo, jobs=1)
  assert error.value.code == stopping.Exit.STOPPED
  assert '2 runs; 1 done, 0 failed, 0 running, 1 waiting' in (
    (tmp_path / 'sweep.md').read_text()
  )
  (tmp_path / 'runs' / 'lr=16' / 'well').touch()
  ended, _ = work(tmp_path, todo)
  assert [s.status for s in ended] == ['done', 'done']
  assert began(tmp_path, 'lr=1') == 1


def score(out, todo, by='exactness()', **options) -> tuple[list, list[str]]:
  """Names that are scored, and what was told."""
  lines = []
  made = sweep.Sweep(out, todo, Sweeping(**{'jobs': 2, **options}))
  made.work([*map(made.run_of, todo)], lambda line: None)
  folders = made.score(wm.Scoring(by), lines.append)
  return [os.path.basename(folder) for folder in folders], lines


def standings(out, todo) -> list[sweep.Standing]:
  return sweep.Sweep(out, todo, Sweeping()).standings()


def times_scored(out, *names: str) -> list[int]:
  paths = [out / 'runs' / name / 'scored' for name in names]
  return [len(p.read_text()) if p.exists() else 0 for p in paths]


@pytest.mark.process
def test_what_is_trained_is_scored_once_by_the_same(tmp_path):
  todo = runs('lr=1|13|3', 'seed=0|1')
  names, lines = score(tmp_path, todo)
  assert names == ['lr=1,seed=0', 'lr=1,seed=1', 'lr=3,seed=0', 'lr=3,seed=1']
  assert len(lines) == 4
  assert lines[-1].startswith('[4/4] ')
  assert lines[-1].endswith(': scored')
  assert score(tmp_path, todo) == (names, [])
  assert times_scored(tmp_path, *names) == [1] * 4
  # By more metrics, or of more runs, it is gone on with.
  more = runs('lr=1|13|3|4', 'seed=0|1')
  assert len(score(tmp_path, more)[1]) == 2
  assert len(score(tmp_path, more, by='next_token()')[1]) == 6
  assert times_scored(tmp_path, *names) == [2] * 4


@pytest.mark.process
def test_a_failed_scoring_is_recorded_beside_the_training(tmp_path):
  todo = runs('lr=1|2')
  names, lines = score(tmp_path, todo, jobs=1)
  assert names == ['lr=1']
  assert lines[1] == '[2/2] lr=2: failed, no metric'
  page = (tmp_path / 'sweep.md').read_text()
  assert '2 runs; 1 done, 1 failed' in page
  assert '| 2 | 1/1 | 2 |' in page, 'its loss stands'
  assert 'failed: no metric' in page
  assert [run.labels for run in sweep.winners(tmp_path, 2)] == [
    {'lr': '1'},
    {'lr': '2'},
  ]
  (tmp_path / 'runs' / 'lr=2' / 'well').touch()
  names, _ = score(tmp_path, todo, jobs=1)
  assert names == ['lr=1', 'lr=2']
  assert times_scored(tmp_path, *names) == [1, 1]
  assert [began(tmp_path, name) for name in names] == [1, 1]
  assert '2 runs; 2 done' in (tmp_path / 'sweep.md').read_text()


@pytest.mark.process
def test_only_runs_that_keep_their_checkpoints_are_scored(tmp_path):
  todo = runs('lr=3|1|4', 'seed=0|1')
  for run in todo:
    (tmp_path / 'runs' / run.name / 'checkpoints').mkdir(parents=True)
  names, _ = score(tmp_path, todo, keep_best=1)
  assert names == ['lr=1,seed=0', 'lr=1,seed=1']
  kept = sorted(p.parent.name for p in tmp_path.glob('runs/*/checkpoints'))
  assert kept == names


@pytest.mark.process
def test_nothing_to_score(tmp_path):
  assert score(tmp_path, runs('lr=13')) == ([], [])


# A process started in the background may have been told to ignore SIGINT.
SWEEP = """
import pathlib, signal, sys
from tests.studies import sweep_test
from wm.runtime import exit_codes, stopping
signal.signal(signal.SIGINT, signal.default_int_handler)
stopping.install(lambda: True)
out = pathlib.Path(sys.argv[1])
do = getattr(sweep_test, sys.argv[3])
sweep_test.pools.command = sweep_test.command
with exit_codes.exit_on_error(str(out)):
  do(out, sweep_test.runs(sys.argv[2]), jobs=1)
"""


def background(root, out, text='lr=1|15|2', do='work') -> subprocess.Popen:
  return subprocess.Popen(
    [sys.executable, '-c', SWEEP, str(out), text, do],
    cwd=root,
    stderr=subprocess.DEVNULL,
  )


def wait_for(condition) -> None:
  """Until it holds; ten minutes at most, for a machine that is busy."""
  for _ in range(30000):
    if condition():
      return
    time.sleep(0.02)
  raise AssertionError('nothing happened for ten minutes')


@pytest.mark.process
@pytest.mark.parametrize('how', [signal.SIGKILL, signal.SIGINT])
def test_a_sweep_that_is_stopped_goes_on(tmp_path, root, how):
  process = background(root, tmp_path)
  wait_for(lambda: began(tmp_path, 'lr=15'))
  os.kill(process.pid, how)
  assert process.wait(600) == (-9 if how == signal.SIGKILL else 130)
  todo = runs('lr=1|15|2')
  states = [s.status for s in standings(tmp_path, todo)]
  assert states == ['done', 'waiting', 'waiting']
  # Killed, it leaves a process at the second run; that one may end its work.
  (tmp_path / 'runs' / 'lr=15' / 'well').touch()
  ended, _ = work(tmp_path, todo)
  assert [s.status for s in ended] == ['done'] * 3
  orphaned = how == signal.SIGKILL
  assert began(tmp_path, 'lr=15') == (1 if orphaned else 2)
  assert began(tmp_path, 'lr=1') == began(tmp_path, 'lr=2') == 1


@pytest.mark.process
@pytest.mark.parametrize('how', [signal.SIGKILL, signal.SIGINT])
def test_a_sweep_that_is_stopped_while_it_scores_goes_on(tmp_path, root, how):
  process = background(root, tmp_path, 'lr=1|5|3', 'score')
  wait_for((tmp_path / 'runs' / 'lr=1' / 'scored').exists)
  os.kill(process.pid, how)
  assert process.wait(600) == (-9 if how == signal.SIGKILL else 130)
  assert not list(tmp_path.glob('runs/*/failed.json'))
  assert times_scored(tmp_path, 'lr=1', 'lr=5', 'lr=3') == [1, 0, 0]
  (tmp_path / 'runs' / 'lr=5' / 'well').touch()
  names, lines = score(tmp_path, runs('lr=1|5|3'))
  assert names == ['lr=1', 'lr=5', 'lr=3']
  assert len(lines) == 2
  assert times_scored(tmp_path, 'lr=1', 'lr=3') == [1, 1]
  assert [began(tmp_path, name) for name in names] == [1] * 3


@pytest.mark.process
def test_two_sweeps_share_the_work(tmp_path, root):
  process = background(root, tmp_path)
  wait_for(lambda: began(tmp_path, 'lr=15'))
  todo = runs('lr=1|15|2')
  made = sweep.Sweep(tmp_path, todo, Sweeping())

  def log(line: str) -> None:
    if 'lr=2' in line:  # The one that was free comes before the one held.
      (tmp_path / 'runs' / 'lr=15' / 'well').touch()

  made.work([*map(made.run_of, todo)], log)
  assert process.wait(600) == 0
  assert [s.status for s in made.table()] == ['done'] * 3
  assert [began(tmp_path, f'lr={n}') for n in (1, 15, 2)] == [1, 1, 1]


def test_worlds_and_models_may_be_objects(tmp_path):
  models = [wm.make('model', f'ngram(order={k})') for k in (1, 2)]
  fixed = {'world': wm.make('world', 'lattice()')}
  runs = sweep.runs_of({'model': models}, tmp_path, fixed, Sweeping())
  assert [run.flags['model'] for run in runs] == [
    'ngram(order=1)',
    'ngram(order=2)',
  ]
  assert runs[0].flags['world'] == 'lattice()'


def test_a_run_without_a_world_is_refused(tmp_path):
  (run,) = grid.places({}, {'world': None}, [grid.Place({}, FLAGS, {})])
  with pytest.raises(core.InputError, match='run has no --world'):
    work(tmp_path, [run])


@pytest.mark.process
def test_another_sweep_under_the_same_names_is_refused(tmp_path):
  work(tmp_path, runs('lr=1|2'))
  about = {'world': 'lattice()', 'model': 'ngram()', **wm.Training(lr=1).run()}
  files.write_json(tmp_path / 'runs' / 'lr=1' / 'train.run.json', about)
  changed = [
    grid.Place(run.labels, {**run.flags, 'steps': 7}, run.chosen)
    for run in runs('lr=1|3')
  ]
  with pytest.raises(core.InputError, match='its steps is 1000, not 7'):
    work(tmp_path, changed)
  assert not began(tmp_path, 'lr=3')
  ended, _ = work(tmp_path, runs('lr=1|2|3'))  # A grid may grow.
  assert [s.status for s in ended] == ['done'] * 3
  assert began(tmp_path, 'lr=1') == 1


@pytest.mark.process
def test_only_the_best_keep_their_checkpoints(tmp_path):
  todo = runs('lr=3|1|2', 'seed=0|1')
  for run in todo:
    (tmp_path / 'runs' / run.name / 'checkpoints').mkdir(parents=True)
  work(tmp_path, todo, keep_best=1)
  kept = sorted(p.parent.name for p in tmp_path.glob('runs/*/checkpoints'))
  assert kept == ['lr=1,seed=0', 'lr=1,seed=1']
  for run in runs('lr=1|2'):
    (tmp_path / 'per' / 'runs' / run.name / 'checkpoints').mkdir(parents=True)
  work(tmp_path / 'per', runs('lr=1|2'), keep_best=1, per=['lr'])
  assert len(list(tmp_path.glob('per/runs/*/checkpoints'))) == 2


@pytest.mark.process
def test_jobs_get_their_devices_in_turn(tmp_path):
  work(tmp_path, runs('lr=1|2|3|4'), devices=['6'])
  result = {
    json.loads(path.read_text())['devices']
    for path in tmp_path.glob('runs/*/train.json')
  }
  assert result == {'6'}


def test_an_unknown_axis_for_the_best_is_refused_at_once(tmp_path):
  with pytest.raises(core.InputError, match=r'--per=model.*available: lr'):
    work(tmp_path, runs('lr=1|2'), per=['model'])
  assert not list(tmp_path.iterdir())


@pytest.mark.process
def test_winners_are_ranked_by_the_mean_over_seeds(tmp_path):
  todo = runs('lr=3|1|13', 'seed=0|1', 'floor=0|1')
  work(tmp_path, todo, per=['floor'])
  best = sweep.winners(tmp_path, 1)
  assert [run.labels for run in best] == [
    {'lr': '1', 'floor': '0'},
    {'lr': '1', 'floor': '1'},
  ]
  assert best[0].chosen == {'lr': 1.0, 'floor': 0.0}
  assert best[0].flags['seed'] == 0
  # The failed are no winners, however many are wanted.
  assert len(sweep.winners(tmp_path, 3)) == 4


def test_a_candidate_is_as_bad_as_its_worst_seed_is_lost():
  first, second = runs('lr=1', 'seed=0|1')
  made = [
    sweep.Standing(first, 'done', {'best_loss': 0.1}),
    sweep.Standing(second, 'failed', {}),
  ]
  (candidate,) = sweep.groups(made, ())[()]
  assert math.isinf(sweep.mean_loss(candidate))
  assert sweep.has_ended(candidate)


def test_a_page_has_a_column_for_what_all_seeds_have_evaluated(tmp_path):
  several = []
  for run in runs('floor=1|2', 'seed=0|1'):
    floor, seed = float(run.labels['floor']), int(run.labels['seed'])
    best = {'best_loss': floor, 'best_exact': 1 / floor + seed / 100}
    best |= {'best_step': 1, 'seconds': 1.0, 'best_labelwise': None}
    several.append(sweep.Standing(run, sweep.DONE, best))
  sweep.write(tmp_path, several, [])
  page = (tmp_path / 'sweep.md').read_text()
  assert '| exact | labelwise |' in page
  assert '| 1 | 2/2 | 1 | 0 | 1.005 |  | 1, 1 | 2 | done |' in page


@pytest.mark.process
def test_winners_of_a_sweep_under_way_are_refused(tmp_path):
  todo = runs('lr=1|2')
  sweep.write(tmp_path, standings(tmp_path, todo), ())
  with pytest.raises(core.InputError, match='2 of 2 runs have not ended'):
    sweep.winners(tmp_path, 1)
  with pytest.raises(core.InputError, match='no such file'):
    sweep.winners(tmp_path / 'none', 1)
  work(tmp_path / 'bad', runs('lr=13'), per=['lr'])
  with pytest.raises(core.InputError, match='every run of 13 failed'):
    sweep.winners(tmp_path / 'bad', 1)
  files.write_json(tmp_path / 'sweep.json', {'rows': []})
  with pytest.raises(core.InputError, match='lacks runs, per'):
    sweep.winners(tmp_path, 1)
