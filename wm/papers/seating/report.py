"""Figure 4 with a row for each model, and answers that contradict others."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from inspect_ai.log import EvalLog
from inspect_ai.scorer import SampleScore

from wm import core
from wm.core import inputs
from wm.core.predictor import Tokens
from wm.evaluation import statistics
from wm.language import pages
from wm.language.pages import Report
from wm.papers import reports
from wm.papers.seating import score as scoring
from wm.papers.seating import task as tasks
from wm.papers.seating.score import Protocol, SeatingQuestion
from wm.reporting import tables
from wm.reporting.tables import Table
from wm.worlds.seating import text

REPORT = Report('seating')
SHOWN = 12  # Contradictions, at most.


class ModelAnswers(NamedTuple):
  """The answers of one model.

  Attributes:
    protocol: how it was examined.
    asked, answers: questions and what was answered.
  """

  protocol: Protocol
  asked: Sequence[SeatingQuestion]
  answers: Sequence[scoring.SeatingReply]


def printed() -> dict[str, dict[str, Any]]:
  """Model of the paper -> bar of figure 4 -> value, and its standard error.

  That of the rules is None.
  """
  bars: dict[str, dict[str, Any]] = {}
  for table in REPORT.published['worlds']['seating']['tables']:
    part = table['metric'].partition('(')[0]
    (name,) = (k for k, place in scoring.HEADLINES.items() if place[0] == part)
    for model, (value,) in table['values'].items():
      pair = value if isinstance(value, list) else (value, None)
      bars.setdefault(model, {})[name] = tuple(pair)
  return bars


def figure_4(runs: Mapping[str, ModelAnswers]) -> Table:
  """A row for each model, then those of the paper."""
  rows: list[dict[str, Any]] = []
  for model, run in runs.items():
    bars = scoring.headlines(
      scoring.scores(run.protocol, run.asked, run.answers)
    )
    silent = scoring.unread(run.asked, run.answers)
    rows.append(
      {
        'model': model,
        'bars': {name: _bar(bars[name]) for name in scoring.HEADLINES},
        'unread': ', '.join(_share(share) for share in silent.values()),
        'prompts': run.protocol.variant,
      }
    )
  for model, theirs in printed().items() if runs else ():
    if model not in ('oracle', 'perfect'):
      bars_of = {name: _theirs(*theirs[name]) for name in scoring.HEADLINES}
      rows.append(
        {'model': model, 'bars': bars_of, 'unread': '', 'prompts': 'paper'}
      )
  return REPORT.table('figure_4', rows)


def _bar(summary: statistics.Summary) -> str:
  return f'{tables.interval(summary)}, n={summary["n"]}'


def _share(value: float) -> str:
  return '–' if math.isnan(value) else f'{value:.3f}'


def _theirs(value: float, error: float | None) -> str:
  if error is None:
    return f'{value:.2f}'
  return f'{value:.2f} ± {error:.2f}'


def contradictions(run: ModelAnswers) -> Iterator[dict[str, str]]:
  """Pairs of answers about one state that cannot both be right, in words.

  Keys: `yes` and `no`, the lists after which the model says that `more` holds,
  and that it does not; and `right`, yes or no.
  """
  vocab = run.protocol.world.vocab

  def words(tokens: Tokens) -> str:
    """A list in sentences."""
    return ' '.join(text.statement(vocab[token]) for token in tokens)

  by: dict[tuple[str, Tokens], dict[int, SeatingQuestion]] = {}
  for question, answer in zip(run.asked, run.answers, strict=True):
    if not question.suffix or answer is None:
      continue
    by_answer = by.setdefault((question.state, question.suffix), {})
    by_answer.setdefault(answer, question)
    if len(by_answer) == 2 and by_answer[answer] is question:
      yield {
        'yes': words(by_answer[core.YES].prefix),
        'no': words(by_answer[core.NO].prefix),
        'more': words(question.suffix),
        'right': 'yes' if question.truth else 'no',
      }


def runs_page(runs: Mapping[str, ModelAnswers]) -> pages.AnswersPage:
  """The figure and contradictions of models."""
  shown = [figure_4(runs)]
  for model, run in runs.items():
    if pairs := list(contradictions(run)):
      names = {'model': model, 'num': len(pairs)}
      shown.append(REPORT.table('contradictions', pairs[:SHOWN], **names))
  metrics = Protocol().metrics()
  words = {
    name: metrics[part].glossary[quantity]
    for name, (part, quantity) in scoring.HEADLINES.items()
    if part in metrics
  }
  words['accuracy'] = 'Share of puzzles in which the seat is named rightly.'
  rows = [
    {'model': model, **question._asdict(), 'said': answer, 'prompt': ''}
    for model, run in runs.items()
    for question, answer in zip(run.asked, run.answers, strict=True)
  ]
  return pages.AnswersPage(
    'Seating puzzles, as language models answer',
    f'{len(runs)} models beside those of the paper.',
    shown,
    [],
    words,
    {'seating': rows},
  )


def page(logs: Sequence[EvalLog]) -> pages.AnswersPage:
  """Figure 4 with a row for each log, and contradictions.

  Raises:
    InputError: a log is none of the task.
  """
  runs: dict[str, ModelAnswers] = {}
  for log in logs:
    runs[pages.unused_name(log.eval.model, runs)] = _run(log)
  content = runs_page(runs)
  return content._replace(tables=[*content.tables, *reports.unread(logs)])


def _run(log: EvalLog) -> ModelAnswers:
  args = log.eval.task_args or {}
  names = [field.name for field in dataclasses.fields(Protocol)]
  with inputs.reading(log.location, 'a log of wm/seating'):
    protocol = Protocol(**{name: args[name] for name in names if name in args})
    scores = [
      SampleScore(
        score=(sample.scores or {})['seating_scorer'],
        sample_id=sample.id,
        sample_metadata=sample.metadata,
      )
      for sample in log.samples or ()
    ]
    asked, answers = tasks.voted(scores)
  return ModelAnswers(protocol, asked, answers)
