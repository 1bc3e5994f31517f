"""The page of `wm/seating`: figure 4 with a row for each log of a model.

Beside the models of logs are those of the paper. Bars and shares are those of
`score`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inspect_ai.log import EvalLog

from wm import core
from wm.core import registry
from wm.core.queries import Answer
from wm.language import pages, world_questions
from wm.language.pages import Report
from wm.language.papers import reports
from wm.language.papers.seating import score as scoring
from wm.language.papers.seating.task import VERSION
from wm.reporting import tables
from wm.reporting.tables import Table

REPORT = Report('seating')


# Metadata of samples, and answers; see `world_questions.log_answers`.
Pairs = Sequence[tuple[Mapping[str, Any], Answer]]


def printed() -> dict[str, dict[str, str]]:
  """Model of the paper -> bar of figure 4 -> value and its standard error."""
  bars: dict[str, dict[str, str]] = {}
  for table in REPORT.published['worlds']['seating']['tables']:
    part = table['metric'].partition('(')[0]
    (bar,) = (x for (metric, _), x in scoring.BARS.items() if metric == part)
    for model, (value,) in table['values'].items():
      numbers = value if isinstance(value, list) else [value]
      bars.setdefault(model, {})[bar] = ' ± '.join(f'{x:.2f}' for x in numbers)
  return bars


def figure_4(runs: Mapping[str, tuple[str, Pairs]]) -> Table:
  """A row for each model, then those of the paper.

  runs: name of a model -> variant of the examination, and answers.
  """
  rows: list[dict[str, Any]] = []
  for model, (variant, pairs) in runs.items():
    bars = scoring.bars(world_questions.gathered(pairs))
    unread = scoring.unread(pairs)
    shares = (unread.get(part) for part, _ in scoring.BARS)
    rows.append(
      {
        'model': model,
        'bars': {
          name: f'{tables.interval(bars[name])}, n={bars[name]["n"]}'
          for name in scoring.BARS.values()
          if name in bars
        },
        'unread': ', '.join('–' if x is None else f'{x:.3f}' for x in shares),
        'prompts': variant,
      }
    )
  about = {'unread': '', 'prompts': 'paper'}
  rows += [
    {'model': model, 'bars': bars, **about}
    for model, bars in (printed() if runs else {}).items()
    if model not in ('oracle', 'perfect')
  ]
  return REPORT.table('figure_4', rows)


def page(logs: Sequence[EvalLog]) -> pages.AnswersPage:
  """Figure 4 with a row for each log.

  Raises:
    InputError: a log is none of the task, or of an earlier version.
  """
  runs: dict[str, tuple[str, Pairs]] = {}
  for log in logs:
    if log.eval.task_version != VERSION:
      raise core.InputError(
        f'{log.location} is a log of wm/seating, version '
        f'{log.eval.task_version}; expected version {VERSION}, whose samples '
        'have the form of wm/world: ask again'
      )
    name = pages.unused_name(log.eval.model, runs)
    variant = (log.eval.task_args or {}).get('variant', scoring.VARIANTS[0])
    runs[name] = variant, [*world_questions.log_answers(log)]
  fields = 'trial', 'kind', 'prefix', 'suffixes', 'truth'
  rows = [
    {'model': model, **{k: data[k] for k in fields}, 'said': answer.value}
    for model, (_, pairs) in runs.items()
    for data, answer in pairs
  ]
  content = reports.assembled(
    REPORT,
    f'{len(runs)} models beside those of the paper.',
    [figure_4(runs), *reports.unread(logs)],
    {},
    {'seating': rows},
  )
  return content._replace(
    words={
      name: registry.find('metric', part).glossary[quantity]
      for (part, quantity), name in scoring.BARS.items()
    }
  )
