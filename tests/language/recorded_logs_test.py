"""Logs of recorded answers, beside those that Inspect itself would write."""

import json
import math
import zipfile

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

# Of an event, a span or a message, or a time: they differ between two logs.
RANDOM = {'uuid', 'timestamp', 'working_start', 'span_id', 'parent_id'}


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


def alike(value):
  """A value of JSON without what is drawn at random, in its order."""
  if isinstance(value, dict):
    kept = {k: alike(x) for k, x in value.items() if k not in RANDOM}
    drawn = len(str(kept.get('id'))) == 22
    return [*{**kept, 'id': 'drawn'}.items()] if drawn else [*kept.items()]
  if isinstance(value, list):
    return [*map(alike, value)]
  return 'nan' if value != value else value


def spans(sample):
  """What happens in which span of a sample, all numbered in order."""
  seen = {}
  return [
    [
      seen.setdefault(event.get(name), len(seen))
      for name in ('id', 'span_id', 'parent_id')
    ]
    for event in sample['events']
  ]


def members(path):
  """Name -> value of an archive's members, but for a running log's."""
  with zipfile.ZipFile(path) as archive:
    values = {
      name: json.loads(archive.read(name))
      for name in archive.namelist()
      if '/summaries/' not in name
    }
  drawn = {name: spans(x) for name, x in values.items() if 'events' in x}
  assert len(drawn) == 5
  return {name: alike(value) for name, value in values.items()}, drawn


@pytest.mark.parametrize('judge', [several, exact])
def test_a_log_is_the_one_that_inspect_writes(tmp_path, judge):
  ours, theirs = tmp_path / 'ours.eval', tmp_path / 'theirs.eval'
  recorded_logs.run_coroutine(log(judge()).write(ours))
  write_eval_log(log(judge()).scored(), str(theirs))
  assert members(ours) == members(theirs)


@pytest.mark.parametrize('judge', [several, exact])
def test_means_over_epochs_are_those_of_inspect(judge):
  whole = log(judge())._head()
  whole.samples = list(log(judge()).samples)
  theirs = inspect_ai.score(whole, judge(), display='none', action='append')
  ours = log(judge()).scored()
  for name in ('reductions', 'results'):
    values = [getattr(x, name) for x in (ours, theirs)]
    dumped = [
      [y.model_dump() for y in x] if name == 'reductions' else x.model_dump()
      for x in values
    ]
    assert alike(dumped[0]) == alike(dumped[1])


def test_inspect_reads_the_log(tmp_path):
  path = tmp_path / 'log.eval'
  recorded_logs.run_coroutine(log(exact()).write(path))
  read = read_eval_log(str(path))
  assert (read.status, len(read.samples)) == ('success', 5)
  summaries = read_eval_log_sample_summaries(str(path))
  assert [x.id for x in summaries] == [f'question/{k}' for k in range(5)]
  sample = read_eval_log_sample(str(path), 'question/1')
  assert sample.scores['exact'].value['right'] == 1
  again = inspect_ai.score(read, exact(), display='none')
  assert [x.name for x in again.results.scores][-2:] == ['right', 'unread']
