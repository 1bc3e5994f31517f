"""Pages about seatings from Inspect's logs of `wm/seating`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from inspect_ai.log import EvalLog
from inspect_ai.scorer import SampleScore

from wm import core
from wm.language import rescored
from wm.language.seating import figures, tasks
from wm.language.seating.questions import Protocol


def page(logs: Sequence[EvalLog]) -> rescored.Rescored:
  """Figure 4 with a row for each log, and contradictions.

  Raises:
    InputError: a log is none of the task.
  """
  runs: dict[str, figures.Run] = {}
  for log in logs:
    runs[rescored.unlike(log.eval.model, runs)] = _run(log)
  return figures.page(runs)


def _run(log: EvalLog) -> figures.Run:
  given = log.eval.task_args or {}
  names = [field.name for field in dataclasses.fields(Protocol)]
  with core.reading(log.location, 'a log of wm/seating'):
    protocol = Protocol(
      **{name: given[name] for name in names if name in given}
    )
    found = [
      SampleScore(
        score=(sample.scores or {})['seating_scorer'],
        sample_id=sample.id,
        sample_metadata=sample.metadata,
      )
      for sample in log.samples or ()
    ]
    asked, said = tasks.voted(found)
  return figures.Run(protocol, asked, said)
