"""Signals: processes that are told to stop, at moments of all kinds."""

import random
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.launch import binaries
from wm.runtime import stopping

# What a process does once it has said that it is ready.
BUSY = 'while True: pass'
ASLEEP = 'time.sleep(600)'
# Python shows an exception of these, and goes on: nothing may be raised there.
SWALLOWING = """
class Thing:
  def __del__(self):
    for _ in range(300): pass
while True:
  Thing()
"""
HOLDS = """
with stopping.deferred():
  print('in', flush=True)
  while not stopping.requested(): time.sleep(.001)
  print('saved', flush=True)
  stopping.check()
"""
STUCK = 'with stopping.deferred(): print("in", flush=True); time.sleep(600)'
LATE = """
with stopping.deferred():
  print('in', flush=True)
  while not stopping.requested(): time.sleep(.001)
print('not here', flush=True)
"""
# Python gives signals back their defaults before it destroys modules.
ENDS = """
class Last:
  def __del__(self, os=__import__('os'), sleep=time.sleep):
    os.write(1, b'in\\n')
    sleep(.5)
sys.modules['last'] = Last()
"""
CLEANS = """
from wm.runtime import files
with files.replacing(sys.argv[1]) as name:
  name.write_text('half'); print('in', flush=True); time.sleep(60)
"""


def start(root, work: str, *arguments: str) -> subprocess.Popen:
  """A process that is ready, or in the midst of `work`."""
  code = f"""
import sys, time
from wm.runtime import exit_codes, stopping
stopping.install(lambda: True)
print('ready', flush=True)
with exit_codes.exit_on_error('here'):
  exec({work!r})
"""
  process = subprocess.Popen(
    [sys.executable, '-c', code, *arguments],
    cwd=root,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    preexec_fn=binaries.heard,
  )
  assert process.stdout.readline() == 'ready\n'
  return process


@pytest.mark.process
@pytest.mark.parametrize(
  ('number', 'code', 'word'),
  [
    (signal.SIGINT, 130, 'interrupted'),
    (signal.SIGTERM, 75, 'stopped'),
    (signal.SIGHUP, 75, 'stopped'),
    (signal.SIGUSR1, 75, 'stopped'),
  ],
)
@pytest.mark.parametrize('work', [BUSY, ASLEEP, HOLDS, LATE])
def test_a_signal_is_one_line_and_a_code(root, work, number, code, word):
  process = start(root, work)
  if work in (HOLDS, LATE):
    assert process.stdout.readline() == 'in\n'
  process.send_signal(number)
  out, err = process.communicate(timeout=600)
  assert process.returncode == code
  assert err == f'{word}; run the same command again to go on\n'
  assert out == ('saved\n' if work == HOLDS else '')


@pytest.mark.process
def test_no_signal_is_swallowed(root):
  dice = random.Random(0)
  for _ in range(5):
    process = start(root, SWALLOWING)
    time.sleep(dice.random() / 50)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=600)[1].startswith('interrupted; ')
    assert process.returncode == 130


@pytest.mark.process
def test_a_second_signal_does_not_wait(root):
  process = start(root, STUCK)
  assert process.stdout.readline() == 'in\n'
  process.send_signal(signal.SIGINT)
  time.sleep(0.2)
  assert process.poll() is None
  process.send_signal(signal.SIGTERM)
  err = process.communicate(timeout=600)[1]
  assert process.returncode == 130, 'the first says why'
  assert err == 'interrupted; run the same command again to go on\n'


@pytest.mark.process
def test_a_signal_after_the_end_changes_nothing(root):
  process = start(root, ENDS)
  assert process.stdout.readline() == 'in\n'
  process.send_signal(signal.SIGTERM)
  assert process.communicate(timeout=600)[1] == ''
  assert process.returncode == 0


@pytest.mark.process
def test_nothing_half_written_is_left(root, tmp_path):
  process = start(root, CLEANS, str(tmp_path / 'file'))
  assert process.stdout.readline() == 'in\n'
  assert len(list(tmp_path.iterdir())) == 1
  process.send_signal(signal.SIGTERM)
  assert process.wait(600) == 75
  assert not list(tmp_path.iterdir())
  process.communicate()


def test_without_it_signals_are_those_of_python():
  before = signal.getsignal(signal.SIGINT)
  with stopping.deferred():
    assert stopping.requested() is None
    stopping.check()
  assert signal.getsignal(signal.SIGINT) is before


def test_the_readme_names_the_codes(root):
  text = (root / 'launch' / 'docs' / 'pages' / 'shell.md').read_text()
  (listed,) = re.findall(r'Exit codes: (.*?);', text, re.S)
  codes = [int(number) for number in re.findall(r'\b\d+\b', listed)]
  assert codes == [code.value for code in stopping.Exit]
