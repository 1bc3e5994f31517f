"""Recorded conversations of CogEval, read and judged again, on one core."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench import harness
from tests.language.papers.cogeval import recorded_test
from wm.language.papers.cogeval import recorded


def bench_rescoring() -> Iterator[harness.Line]:
  """9,906 conversations with audited prompts: parser, solver, classes; files.

  The files have 61,696 rows and the text of 10,487 conversations.
  """
  folder = harness.MANHATTAN.parent / 'cogeval'
  if not (folder / recorded.SAMPLE).is_file():
    raise harness.Skip(f'no recorded conversations at {folder}')
  result = recorded.load(folder)
  texts = [asked for asked in result.itertuples() if asked.expected]

  def ours() -> None:
    for asked in texts:
      recorded_test.verdict_of(asked)

  def whole() -> None:
    for asked in recorded.load(folder).itertuples():
      if asked.expected:
        recorded_test.verdict_of(asked)

  yield harness.Line(
    'cogeval rescoring', len(texts) / harness.measure(ours, 3).wall, 'texts/s'
  )
  yield harness.Line(
    'cogeval rescoring, files included',
    harness.measure(whole, 1).wall,
    's',
    target='<= 5 s',
  )
