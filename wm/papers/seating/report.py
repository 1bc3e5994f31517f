"""Figure 4 with rows of one's own models, and what models contradict."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from inspect_ai.log import EvalLog
from inspect_ai.scorer import SampleScore

from wm import core
from wm.core.predictor import Tokens
from wm.evaluation import statistics
from wm.language import pages
from wm.papers.seating import score as scoring
from wm.papers.seating import task as tasks
from wm.papers.seating.questions import Protocol, Question
from wm.reporting import papers, tables
from wm.runtime import files
from wm.worlds.seating import text

PAPER = 'vafa2024'
SHOWN = 12  # Contradictions, at most.


class Run(NamedTuple):
  """What one model said.

  Attributes:
    protocol: how it was examined.
    asked, said: questions and answers.
  """

  protocol: Protocol
  asked: Sequence[Question]
  said: Sequence[scoring.Said]


def printed() -> dict[str, dict[str, Any]]:
  """Model of the paper -> bar of figure 4 -> value, and its standard error.

  The error is a number, a range of two, or None.
  """
  given = files.read_json(papers.folder() / PAPER / 'published.json')
  found: dict[str, dict[str, Any]] = {}
  for table in given['worlds']['seating']['tables']:
    part = table['metric'].partition('(')[0]
    (name,) = (k for k, place in scoring.HEADLINES.items() if place[0] == part)
    for model, (value,) in table['values'].items():
      pair = value if isinstance(value, list) else (value, None)
      found.setdefault(model, {})[name] = tuple(pair)
  return found


def figure_4(runs: Mapping[str, Run]) -> tables.Table:
  """A row for each model, then those of the paper."""
  rows: list[dict[str, Any]] = []
  for model, run in runs.items():
    found = scoring.scores(run.protocol, run.asked, run.said)
    bars = scoring.headlines(found)
    silent = scoring.unread(run.asked, run.said)
    rows.append(
      {
        'model': model,
        **{name: _bar(bars[name]) for name in scoring.HEADLINES},
        'unread': ', '.join(_share(one) for one in silent.values()),
        'prompts': run.protocol.variant,
      }
    )
  names = printed()
  for model in names if runs else ():
    if model not in ('oracle', 'perfect'):
      theirs = {
        name: _theirs(*names[model][name]) for name in scoring.HEADLINES
      }
      rows.append({'model': model, **theirs, 'unread': '', 'prompts': 'paper'})
  return pages.table(
    'Capability, compression and distinction (figure 4)',
    rows,
    'Intervals are of 95 %, clustered by puzzle and state; of the paper, '
    'standard errors, or their range where we have no more. Unread are the '
    "shares of each part's replies: they are left out of its value.",
  )


def _bar(summary: statistics.Summary) -> str:
  return f'{tables.interval(summary)}, n={summary["n"]}'


def _share(value: float) -> str:
  return '–' if math.isnan(value) else f'{value:.3f}'


def _theirs(value: float, error: Any) -> str:
  if error is None:
    return f'{value:.2f}'
  if isinstance(error, list):
    return f'{value:.2f} ± {error[0]:.2f} to {error[1]:.2f}'
  return f'{value:.2f} ± {error:.2f}'


class Contradiction(NamedTuple):
  """A continuation that is said to hold after one list, and not another.

  Attributes:
    state: that both lists leave.
    yes, no: the lists.
    more: the continuation.
    truth: core.YES or NO.
  """

  state: str
  yes: Tokens
  no: Tokens
  more: Tokens
  truth: int


def contradictions(run: Run) -> Iterator[Contradiction]:
  """Pairs of answers about one state that cannot both be right."""
  by: dict[tuple[str, Tokens], dict[int, Question]] = {}
  for one, said in zip(run.asked, run.said, strict=True):
    if not one.suffix or said is None:
      continue
    known = by.setdefault((one.state, one.suffix), {})
    known.setdefault(said, one)
    if len(known) == 2 and known[said] is one:
      yes, no = known[core.YES], known[core.NO]
      yield Contradiction(
        one.state, yes.prefix, no.prefix, one.suffix, one.truth
      )


def contradicted(model: str, run: Run) -> tables.Table | None:
  """The first contradictions of a model in words; None where it has none."""
  every = list(contradictions(run))
  if not every:
    return None
  vocab = run.protocol.world.vocab

  def said(tokens: Tokens) -> str:
    """A list in sentences."""
    return ' '.join(text.statement(vocab[token]) for token in tokens)

  return pages.table(
    f'{model}: one state, two answers ({len(every)})',
    [
      {
        'yes after': said(one.yes),
        'no after': said(one.no),
        'about': said(one.more),
        'right is': 'yes' if one.truth else 'no',
      }
      for one in every[:SHOWN]
    ],
    folded=True,
  )


def runs_page(runs: Mapping[str, Run]) -> pages.Page:
  """The figure and contradictions of models."""
  shown = [figure_4(runs)]
  for model, run in runs.items():
    if (table := contradicted(model, run)) is not None:
      shown.append(table)
  metrics = Protocol().metrics()
  words = {
    name: metrics[part].glossary[quantity]
    for name, (part, quantity) in scoring.HEADLINES.items()
    if part in metrics
  }
  words['accuracy'] = 'Share of puzzles in which the seat is named rightly.'
  rows = [
    {'model': model, **one._asdict(), 'said': said, 'prompt': ''}
    for model, run in runs.items()
    for one, said in zip(run.asked, run.said, strict=True)
  ]
  return pages.Page(
    'Seating puzzles, as language models answer',
    f'{len(runs)} models beside those of the paper.',
    shown,
    [],
    words,
    {'seating': rows},
  )


def page(logs: Sequence[EvalLog]) -> pages.Page:
  """Figure 4 with a row for each log, and contradictions.

  Raises:
    InputError: a log is none of the task.
  """
  runs: dict[str, Run] = {}
  for log in logs:
    runs[pages.unused_name(log.eval.model, runs)] = _run(log)
  return runs_page(runs)


def _run(log: EvalLog) -> Run:
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
  return Run(protocol, asked, said)
