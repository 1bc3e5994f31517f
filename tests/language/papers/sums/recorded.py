"""Recorded sums: a JSON object, 'a+b' to a reply."""

import json
import pathlib

from inspect_ai.model import ChatMessageUser
from wm.language.papers.sums import task as tasks

from wm.language import recorded_logs


def logs(folder):
  replies = json.loads((pathlib.Path(folder) / 'replies.json').read_text())
  samples = []
  for name, reply in replies.items():
    asked = tasks.sample(*map(int, name.split('+')))
    samples.append(
      recorded_logs.sample(
        name,
        [ChatMessageUser(content=asked.input)],
        reply,
        model='clerk',
        target=asked.target,
        metadata=asked.metadata,
      )
    )
  record = recorded_logs.Record(
    'sums', 1, '2024-01-01T00:00:00+00:00', 'by hand'
  )
  scorer = tasks.sums_scorer()
  yield recorded_logs.RecordedLog(record, 'clerk', samples, scorer)
