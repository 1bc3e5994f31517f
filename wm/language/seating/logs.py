"""Pages about seatings from Inspect's logs of `wm/seating`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from inspect_ai.log import EvalLog

from wm import core
from wm.language import rescored
from wm.language.seating import figures, tasks
from wm.language.seating.questions import Protocol, Question


def page(logs: Sequence[EvalLog]) -> rescored.Rescored:
  """Figure 4 with a row for each log, and contradictions.

  Raises:
    InputError: a log is none of the task.
  """
  runs: dict[str, figures.Run] = {}
  for log in logs:
    name, number = log.eval.model, 2
    while name in runs:
      name, number = f'{log.eval.model} ({number})', number + 1
    runs[name] = _run(log)
  return figures.page(runs)


def _run(log: EvalLog) -> figures.Run:
  asked: dict[str, Question] = {}
  votes: dict[str, dict[int, int]] = {}
  try:
    given = {**_DEFAULTS, **(log.eval.task_args or {})}
    protocol = Protocol(**{name: given[name] for name in _DEFAULTS})
    for sample in log.samples or ():
      name = str(sample.id)
      asked[name] = tasks.asked_of(sample.metadata)
      value: Any = (sample.scores or {})['seating_scorer'].value
      mine, said = votes.setdefault(name, {}), float(value['said'])
      if not math.isnan(said):
        mine[int(said)] = mine.get(int(said), 0) + 1
  except (KeyError, TypeError, ValueError) as error:
    raise core.InputError(
      f'{log.location}: {error!r}; expected a log of wm/seating'
    ) from error
  said_of = [tasks.most(votes[name]) for name in asked]
  return figures.Run(protocol, [*asked.values()], said_of)


_DEFAULTS = {
  'variant': 'corrected',
  'people': 3,
  'puzzles': 60,
  'trials': 100,
  'samples': 5,
  'seed': 0,
}
