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
  assert '0:00 left' in text
  assert 'no line' not in text


def test_a_bar_starts_anew_with_another_stage(monkeypatch):
  monkeypatch.setattr(sys, 'stderr', Terminal())
  with progress.Progress('metric', unit='trials', keep=False) as shown:
    shown.reach(9, 9)
    shown.reach(1, 7)
    assert (shown._bar.n, shown._bar.total) == (1, 7)
    assert str(shown).startswith('metric: 1/7 trials, pass 2 of 2, ')


def test_off_a_terminal_there_is_a_line_when_asked(capsys):
  with progress.Progress('train', 4000, 'steps', done=1000) as shown:
    shown.update(1, 'loss 1.25')
    time.sleep(0.01)
    shown.update(999)
    assert capsys.readouterr().err == ''
    shown.log('held-out loss 1.5')
  assert re.fullmatch(
    r'train: 2,000/4,000 steps, [\d.e+]+/s, \d+:\d\d left, loss 1\.25, '
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


def is_near(lines, end: float, since: float) -> bool:
  """Within a factor of two from ten seconds after a time on?"""
  late = {
    at: line
    for at, line in lines.items()
    if since + 10 <= at < end - 5 and 'left' in line
  }
  assert late
  return all(0.5 <= left(x) / (end - at) <= 2 for at, x in late.items())


def test_compilation_is_no_part_of_a_rate(clock):
  with progress.Progress('train', 500, 'steps') as work:
    lines = clock.run(work, [90, *[0.2] * 499], lambda _: work.update())
  assert lines[90] == 'train: 1/500 steps, 1:30 so far'
  assert is_near(lines, clock.now, 90)


def test_a_run_that_goes_on_counts_its_own_steps(clock):
  with progress.Progress('train', 500, 'steps', done=400) as work:
    lines = clock.run(work, [30, *[1.0] * 99], lambda _: work.update())
  assert is_near(lines, clock.now, 30)


def test_evaluations_between_steps_are_a_part_of_it(clock):
  seconds = [60, *([0.1] * 99 + [3]) * 10]
  with progress.Progress('train', len(seconds), 'steps') as work:
    lines = clock.run(work, seconds, lambda _: work.update())
  assert is_near(lines, clock.now, 60)


def test_all_passes_of_a_metric_are_left(clock):
  with progress.Progress('metric', unit='trials') as work:
    work.passes, lines = 3, {}
    for count, compiled in ((100, 40), (100, 3), (149, 3)):
      seconds = [compiled + 0.3, *[0.3] * (count - 1)]
      lines |= clock.run(work, seconds, lambda n, all=count: work.reach(n, all))
  assert is_near(lines, clock.now, 40)
  assert 'left' not in lines[clock.now], 'what follows the last unit is unknown'
  starts = {line.partition('s, ')[2][:11] for line in lines.values()}
  assert starts == {'pass 1 of 3', 'pass 2 of 3', 'pass 3 of 3'}
  assert str(work).startswith('metric: 149/149 trials, pass 3 of 3, ')


def test_more_passes_than_expected_are_counted(clock):
  with progress.Progress('metric', unit='trials') as work:
    for _ in range(6):
      clock.run(work, [1.0] * 10, lambda n: work.reach(n, 10))
    assert 'pass 6 of 6' in str(work)


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


def test_times_are_read_as_clocks():
  assert [progress._clock(s) for s in (5, 65.2, 3600)] == [
    '0:05',
    '1:05',
    '1:00:00',
  ]
