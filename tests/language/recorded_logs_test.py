"""Logs of recorded answers, beside those that Inspect itself would write."""

import math

import pytest

inspect_ai = pytest.importorskip('inspect_ai')

from inspect_ai.log import (  # noqa: E402
  read_eval_log,
  read_eval_log_sample,
  read_eval_log_sample_summaries,
  write_eval_log,
)
from inspect_ai.model import ChatMessageUser  # noqa: E402
from inspect_ai.scorer import Score, mean, scorer  # noqa: E402

from wm.language import recorded_logs  # noqa: E402


@scorer(metrics={'*': [mean()]})
def several():
  """A whole number, one that may be missing, and a word."""

  async def score(state, target):
    number = len(state.output.completion)
    return Score(
      value={
        'number': number,
        'odd': float(number) if number % 2 else math.nan,
        'word': 'C' if number % 3 else 'I',
      },
      answer=target.text,
      explanation='long ' * 400,
      metadata={'replies': ['a' * 2000]},
    )

  return score


@scorer(metrics={'*': [mean()]})
def exact():
  """Numbers alone."""

  async def score(state, target):
    right = state.output.completion == target.text
    return Score(value={'right': float(right), 'unread': math.nan})

  return score


def log(judge):
  samples = [
    recorded_logs.sample(
      f'question/{number}',
      [ChatMessageUser(content='How many?')],
      reply,
      model='clerk',
      target='\u00e9',
      metadata={
        'group': number % 2,
        'blanks': f' a\u00a0\tb\n\x1c c-d  {reply}',
        'long': 'a-b c ' * (100 * number),
        'edge': 'x' * (1022 + number),
        'others': [None, {'deep': ['y' * 300 * number]}],
        'none': None,
        'right': True,
      },
      scores={'recorded': Score(value=1)} if number % 2 else None,
    )
    # A lone surrogate is no UTF-8; Inspect writes it by its number.
    for number, reply in enumerate(['', '\u00e9', '\ud800', 'x' * 3000, 'no'])
  ]
  record = recorded_logs.Record('count', 2, '2024-01-01T00:00:00+00:00', 'here')
  return recorded_logs.RecordedLog(record, 'clerk', samples, judge)


def test_a_log_has_the_scores_of_its_scorer_and_of_the_record():
  whole = log(several()).scored()
  samples = whole.samples
  assert [x.scores['several'].value['number'] for x in samples] == [
    *(0, 1, 1, 3000, 2),
  ]
  assert [*samples[1].scores] == ['recorded', 'several']
  (number,) = (x for x in whole.results.scores if x.name == 'number')
  assert number.metrics['mean'].value == pytest.approx(3004 / 5)
  assert whole.eval.dataset.samples == 5


def test_inspect_reads_the_log(tmp_path):
  path = tmp_path / 'log.eval'
  write_eval_log(log(exact()).scored(), path)
  read = read_eval_log(str(path))
  assert (read.status, len(read.samples)) == ('success', 5)
  summaries = read_eval_log_sample_summaries(str(path))
  assert [x.id for x in summaries] == [f'question/{k}' for k in range(5)]
  sample = read_eval_log_sample(str(path), 'question/1')
  assert sample.scores['exact'].value['right'] == 1
  again = inspect_ai.score(read, exact(), display='none')
  assert [x.name for x in again.results.scores][-2:] == ['right', 'unread']


def test_many_answers_are_several_logs(monkeypatch):
  monkeypatch.setattr(recorded_logs, 'MOST', 2)
  parts = [*log(exact()).parts()]
  assert [len(part.samples) for part in parts] == [2, 2, 1]
  assert [part.title for part in parts] == [
    *('count-clerk', 'count-clerk-2', 'count-clerk-3'),
  ]
