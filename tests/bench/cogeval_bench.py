"""Recorded conversations of CogEval, read and judged again, on one core."""

from __future__ import annotations

import copy
import itertools
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

import inspect_ai
from inspect_ai.log import write_eval_log

from tests.bench import harness
from wm.language import recorded_logs
from wm.papers.cogeval import recorded
from wm.papers.cogeval import score as scoring
from wm.worlds.cognitive_graph import questions


def _verdict(asked: Any) -> scoring.AnswerVerdict:
  problem = questions.problem(asked.question)
  names = recorded.known_names(asked.question)
  return scoring.scored(problem, asked.answer, names)[1]


def bench_rescoring() -> Iterator[harness.Line]:
  """9,906 conversations with audited prompts: parser, solver, classes; files.

  The files have 61,696 rows and the text of 10,487 conversations.
  """
  folder = harness.MANHATTAN.parent / 'cogeval'
  if not (folder / recorded.SAMPLE).is_file():
    raise harness.Skip(f'no recorded conversations at {folder}')
  found = recorded.load(folder)
  texts = [asked for asked in found.itertuples() if asked.expected]

  def ours() -> None:
    scoring._read.cache_clear()  # No text was read before.
    for asked in texts:
      _verdict(asked)

  def whole() -> None:
    scoring._read.cache_clear()
    for asked in recorded.load(folder).itertuples():
      if asked.expected:
        _verdict(asked)

  yield harness.Line(
    'cogeval rescoring', len(texts) / harness.measure(ours, 3).wall, 'texts/s'
  )
  yield harness.Line(
    'cogeval rescoring, files included',
    harness.measure(whole, 1).wall,
    's',
    target='<= 5 s',
  )


def bench_recorded_log() -> Iterator[harness.Line]:
  """A log of 1,500 conversations, scored and written sample by sample."""
  folder = harness.MANHATTAN.parent / 'cogeval'
  if not (folder / recorded.SAMPLE).is_file():
    raise harness.Skip(f'no recorded conversations at {folder}')
  log = next(x for x in recorded.logs(folder) if x.model == 'gpt-4-32k')
  samples = list(itertools.islice(log.samples, 1500))
  with tempfile.TemporaryDirectory() as place:
    path = pathlib.Path(place) / 'log.eval'

    def ours() -> None:
      scoring._read.cache_clear()
      fresh = log._replace(samples=copy.deepcopy(samples))
      recorded_logs.run_coroutine(fresh.write(path))

    def inspects() -> None:
      scoring._read.cache_clear()
      whole = log._head()
      whole.samples = copy.deepcopy(samples)
      scored = inspect_ai.score(whole, log.scorer, display='none', copy=False)
      write_eval_log(scored, str(path))

    spent = harness.in_turns({'ours': ours, 'inspects': inspects}, 1)
  yield harness.Line(
    'log of recorded answers',
    1e3 * spent['ours'].cpu / len(samples),
    'CPU-ms/sample',
    baseline='score and write_eval_log of Inspect, same run',
    ratio=spent['inspects'].cpu / spent['ours'].cpu,
  )
