"""A bar on a terminal, lines off it."""

import io
import re
import sys
import time

import pytest

from wm.runtime import progress


class Terminal(io.StringIO):
  def isatty(self):
    return True


def test_a_bar_shows_what_is_done_noted_and_left(monkeypatch):
  monkeypatch.setattr(sys, 'stderr', Terminal())
  with progress.Progress('train', 40, 'steps', done=10) as shown:
    for _ in range(20):
      shown.update(note='loss 1.2500')
      time.sleep(0.01)
    shown.log('no line')
  text = sys.stderr.getvalue()
  assert '30/40' in text
  assert 'loss 1.2500' in text
  assert 'no line' not in text


def test_off_a_terminal_there_is_a_line_when_asked(capsys):
  with progress.Progress('train', 4000, 'steps', done=1000) as shown:
    shown.update(1, 'loss 1.25')
    time.sleep(0.01)
    shown.update(999)
    assert capsys.readouterr().err == ''
    shown.log('held-out loss 1.5')
  assert re.fullmatch(
    r'train: 2,000/4,000 steps, 0:00 so far, \d+:\d\d left, loss 1\.25, '
    r'held-out loss 1\.5\n',
    capsys.readouterr().err,
  )


class FakeClock:
  """Work whose units take as long as it is told."""

  def __init__(self):
    self.now = 0.0

  def monotonic(self):
    return self.now

  def run(self, work, seconds, report):
    """A unit after each of so many seconds; lines by the time."""
    lines = {}
    for done, each in enumerate(seconds, 1):
      self.now += each
      report(done)
      lines[self.now] = str(work)
    return lines


@pytest.fixture
def clock(monkeypatch):
  fake = FakeClock()
  monkeypatch.setattr(progress.time, 'monotonic', fake.monotonic)
  return fake


def left(line: str) -> float:
  """Seconds that a line says are left."""
  *hours, minutes, seconds = re.search(r'([\d:]+) left', line)[1].split(':')
  return 3600 * int((hours or [0])[0]) + 60 * int(minutes) + int(seconds)


def test_a_run_that_goes_on_counts_its_own_steps(clock):
  with progress.Progress('train', 500, 'steps', done=400) as work:
    lines = clock.run(work, [1.0] * 99, lambda _: work.update())
  assert left(lines[49.0]) == 51


@pytest.fixture
def often(monkeypatch):
  monkeypatch.setattr(progress, 'EVERY', 0.01)


def lines_of(stream: io.StringIO, number: int) -> list[str]:
  """At least so many; they come by themselves."""
  for _ in range(60000):
    results = stream.getvalue().splitlines()
    if len(results) >= number:
      return results
    time.sleep(0.01)
  raise AssertionError(f'no {number} lines in ten minutes')


@pytest.mark.usefixtures('often')
def test_long_work_says_so_by_itself(monkeypatch):
  monkeypatch.setattr(sys, 'stderr', io.StringIO())
  with progress.Progress('score'):
    assert re.fullmatch(r'score: 0:\d\d so far', lines_of(sys.stderr, 2)[0])
    with progress.Progress('probe()', 7, 'trials'):
      before = len(sys.stderr.getvalue().splitlines())
      last = lines_of(sys.stderr, before + 3)[-1]
    assert re.fullmatch(r'probe\(\): 0/7 trials, 0:\d\d so far', last)
  output = sys.stderr.getvalue()
  time.sleep(0.05)
  assert sys.stderr.getvalue() == output, 'nothing once it has ended'
