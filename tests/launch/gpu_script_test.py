"""launch/gpu.sh in small, without a GPU, killed and given again."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = {
  *('log.txt', 'tests.txt', 'bench.txt', 'train.run.json', 'metrics.jsonl'),
  *('scores.json', 'summary.json', 'report.html'),
}


def start(*arguments):
  environment = {**os.environ, 'WM_PYTHON': sys.executable}
  return subprocess.Popen(
    ['bash', 'launch/gpu.sh', *arguments],
    cwd=ROOT,
    env=environment,
    start_new_session=True,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
  )


@pytest.mark.process
def test_slices_that_are_killed_end_in_eight_files(tmp_path):
  # The first stage has a sixth of the time, which a slow machine needs.
  flags = '--tiny', '--minutes=2', '--slice=0.8', f'--out={tmp_path}'
  first = start(*flags)
  for _ in range(600):
    time.sleep(0.1)
    if (tmp_path / 'run' / 'metrics.jsonl').exists():
      break
  os.killpg(first.pid, signal.SIGKILL)
  first.wait()
  assert float((tmp_path / 'spent').read_text()) > 0
  for _ in range(20):
    process = start(*flags)
    text, _ = process.communicate()
    if process.returncode != 75:
      break
    assert 'give the same command again' in text
  assert process.returncode == 0, text
  results = {path.name for path in (tmp_path / 'results').iterdir()}
  assert results == RESULTS
  size = sum(p.stat().st_size for p in (tmp_path / 'results').iterdir())
  assert size < 16e6
  log = (tmp_path / 'results' / 'log.txt').read_text()
  stages = re.findall(r'\] (\w+): ended', log)
  assert stages[-3:] == ['score', 'reconstruct', 'report']
  assert 'skipped' in (tmp_path / 'results' / 'tests.txt').read_text()


@pytest.mark.parametrize(
  ('flag', 'words'),
  [
    ('--minutes=soon', "'soon'; expected a number of minutes"),
    ('--slice=0', "'0'; expected 0.2 minutes or more"),
    ('--map=nowhere', 'expected a folder of nodes.csv and edges.csv'),
    ('--gpus=2', 'see bash launch/gpu.sh --help'),
  ],
)
def test_bad_input_is_one_line(flag, words, tmp_path):
  process = start(flag, f'--out={tmp_path}/run')
  text, _ = process.communicate()
  assert process.returncode == 2
  assert words in text
  assert len(text.splitlines()) == 1
  assert not (tmp_path / 'run').exists()
