"""Recorded conversations of CogEval, read and judged again, on one core."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.bench import harness
from wm.language.cogeval import conversations

ANSWER = re.compile(r'Answer: .*')


def bench_rescoring() -> Iterator[harness.Line]:
  """9,906 conversations with audited prompts: files, parser, solver, classes.

  The baseline matches the authors' form in each reply, and reads no more.
  """
  folder = harness.MANHATTAN.parent / 'cogeval'
  if not (folder / conversations.SAMPLE).is_file():
    raise harness.Skip(f'no recorded conversations at {folder}')
  found = conversations.load(folder)
  texts = [asked for asked in found if asked.expected]

  def ours() -> None:
    for asked in texts:
      conversations.rescored(asked)

  def matched() -> None:
    for asked in texts:
      ANSWER.findall(asked.answer)

  def whole() -> None:
    for asked in conversations.load(folder):
      if asked.expected:
        conversations.rescored(asked)

  took, form = harness.measure(ours, 3), harness.measure(matched, 3)
  yield harness.Line(
    'cogeval rescoring',
    took.wall,
    's/9,906 conversations',
    'the published form alone, same run',
    form.wall / took.wall,
  )
  yield harness.Line(
    'cogeval rescoring, files included',
    harness.measure(whole, 1).wall,
    's',
    target='<= 5 s',
  )
