"""Reads logs of Inspect, and reports them: `launch/report.py --runs=logs`.

Logs come in. Those of `wm/world` become folders of results, as `score` writes
them; those of a paper become its page, by `page(logs)` of the paper's module
`report`. `pages` writes such pages.
"""

from __future__ import annotations

import collections
import math
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from wm import core
from wm.core import inputs
from wm.language import pages, papers
from wm.language.pages import AnswersPage, Row

if TYPE_CHECKING:
  from inspect_ai.log import EvalLog

Path = str | pathlib.Path
SUFFIXES = '.eval', '.json'


def paths(place: Path) -> list[pathlib.Path]:
  """Logs at a path: the file itself, or those in a folder; () if a run is.

  Nothing is read: a folder that `score` wrote to has none.
  """
  with inputs.reading(place, 'a folder of logs or results'):
    folder = pathlib.Path(place)
    if folder.is_file():
      return [folder] if folder.suffix in SUFFIXES else []
    if (folder / 'scores.json').exists() or not folder.is_dir():
      return []
    # Inspect begins their names with a time; other JSON may lie beside them.
    is_log = re.compile(r'.+\.eval|\d{4}-\d\d-\d\dT.*\.json', re.DOTALL)
    inside = sorted(folder.iterdir())
    return [x for x in inside if x.is_file() and is_log.fullmatch(x.name)]


def read(path: Path) -> EvalLog:
  """A log; raises InputError where the file is none, or was not finished."""
  with inputs.extra('language', 'a log'):
    from inspect_ai.log import read_eval_log
  with inputs.reading_file(path, 'a log of Inspect'):
    log = read_eval_log(str(path))
  if not log.samples:
    raise core.InputError(
      f'{path} is a log without samples (status {log.status})'
    )
  return log


def task(log: EvalLog) -> str:
  """Its task's name without a package."""
  return log.eval.task.rpartition('/')[2]


def never_asked(log: EvalLog) -> int:
  """Number of samples that a log planned and has not, as it was cancelled."""
  planned = log.eval.dataset.sample_ids or ()
  epochs = log.eval.config.epochs or 1
  return max(len(planned) * epochs - len(log.samples or ()), 0)


def rows(log: EvalLog) -> Iterator[Row]:
  """A row for each number that a scorer gave a sample in an epoch.

  Keys: task, model, sample, epoch, scorer, quantity, value (a number, or a
  text), answer, reason (why there is no value, else ''), group (of samples that
  depend on each other: metadata's `trial`, or the sample).
  """
  for sample in log.samples or []:
    head = {
      'task': task(log),
      'model': log.eval.model,
      'sample': sample.id,
      'epoch': sample.epoch,
    }
    group = (sample.metadata or {}).get('trial', sample.id)
    for name, score in (sample.scores or {}).items():
      single = {'value': score.value}
      values = score.value if isinstance(score.value, dict) else single
      for quantity, value in values.items():
        missing = isinstance(value, float) and math.isnan(value)
        yield {
          **head,
          'scorer': name,
          'quantity': quantity,
          'value': '' if missing else value,
          'answer': score.answer or '',
          'reason': _reason(sample, score) if missing else '',
          'group': group,
        }


def _reason(sample: Any, score: Any) -> str:
  if sample.error:
    return 'error'
  failure = (score.metadata or {}).get('failure', '')
  return failure or score.reason or 'no_value'


def costs(logs: Sequence[EvalLog]) -> list[Row]:
  """A row for each task and model: calls, tokens, and seconds of waiting."""
  rows: list[Row] = []
  for log in logs:
    samples = log.samples or ()
    events = (event for sample in samples for event in sample.events)
    calls = [x for x in events if x.event == 'model' and x.cache != 'read']
    if not calls:
      continue
    used = [call.output.usage for call in calls if call.output.usage]
    again = sum(usage.input_tokens_cache_read or 0 for usage in used)
    tokens_in = sum(usage.input_tokens for usage in used) + again
    waited = sum(call.working_time or 0.0 for call in calls)
    rows.append(
      {
        'task': task(log),
        'model': log.eval.model,
        'calls': f'{len(calls):,}',
        'tokens in': f'{tokens_in:,}',
        "of them in the provider's cache": f'{again:,}',
        'tokens out': f'{sum(usage.output_tokens for usage in used):,}',
        'seconds': f'{waited:,.0f}',
      }
    )
  return rows


class Reported(NamedTuple):
  """The output of a report of logs.

  Attributes:
    results: folders of results, for `wm.report`.
    pages: of papers' logs.
  """

  results: list[pathlib.Path]
  pages: list[pathlib.Path]


def report(
  places: Sequence[Path],
  out: Path,
  log: Callable[[str], None] = lambda line: None,
  *,
  alone: bool = True,
) -> Reported:
  """Writes a page for the logs of each paper.

  Logs of `wm/world` become folders of results, as `score` writes them. Of logs
  of one evaluation, as `inspect eval-retry` makes them, the last one counts.
  Samples without a score are told of, and left out.

  Args:
    places: logs.
    out: folder of the pages.
    log: gets each path.
    alone: nothing else is written to `out`. Otherwise, and where logs are of
      several papers, each of these has a folder in it, for their tables and
      pictures have the same names.

  Raises:
    InputError: a file is no log, or no whole one.
  """
  last: dict[str, EvalLog] = {}
  for place in places:
    run = read(place)
    if run.status != 'success':
      log(
        f'{place}: status {run.status}, {len(run.samples or ())} samples, '
        f'{never_asked(run)} more were never asked'
      )
    identity = run.eval.task_id or str(place)
    if identity in last:
      both = sorted((last[identity], run), key=lambda each: each.eval.created)
      log(f'{both[0].location}: left out, as {both[1].location} is of it')
      run = both[1]
    last[identity] = run
  by_paper: dict[str, list[EvalLog]] = {}  # Or 'world'.
  for run in last.values():
    name = task(run)
    paper = name if name == 'world' else papers.paper_of(name)
    if not paper:
      raise core.InputError(
        f'{run.location} is a log of {run.eval.task}; expected a task of wm'
      )
    by_paper.setdefault(paper, []).append(run)
  reported = Reported([], [])
  for paper, logs in by_paper.items():
    if paper == 'world':
      from wm.language import world_questions

      reported.results.extend(
        world_questions.score_logs(
          logs, pathlib.Path(out), log, [*map(never_asked, logs)]
        )
      )
      continue
    folder = '' if alone and len(by_paper) == 1 else paper
    path = pages.save(_page(paper, logs), pathlib.Path(out) / folder)
    log(f'report: {path}')
    reported.pages.append(path)
  return reported


def _page(paper: str, logs: Sequence[EvalLog]) -> AnswersPage:
  """The page of a paper's logs."""
  scored, lost = _scored(logs)
  page: AnswersPage = papers.load(paper, 'report').page(scored)
  if spent := costs(logs):
    note = "As the provider counts them; answers from Inspect's cache are free."
    table = pages.table('Costs', spent, note)
    page = page._replace(tables=[*page.tables, table])
  if not lost:
    return page
  causes = ', '.join(f'{cause} {num}' for cause, num in sorted(lost.items()))
  remark = f'{sum(lost.values()):,} more samples have no score: {causes}.'
  return page._replace(lead=f'{page.lead.rstrip(".")}. {remark}')


def _scored(
  logs: Sequence[EvalLog],
) -> tuple[list[EvalLog], collections.Counter[str]]:
  """Logs with their scored samples, and why others have no score."""
  from wm.language import provider  # It is slow to load.

  lost: collections.Counter[str] = collections.Counter()
  scored = []
  for log in logs:
    samples = []
    if missing := never_asked(log):
      lost['never_asked'] += missing
    for sample in log.samples or []:
      if sample.scores:
        samples.append(sample)
      elif sample.error is not None:
        message = f'{sample.error.message} {sample.error.traceback}'
        lost[provider.named_cause(message)] += 1
      else:
        lost['not_scored'] += 1
    scored.append(log.model_copy(update={'samples': samples}))
  return scored, lost
