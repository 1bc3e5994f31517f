"""Pages of papers: declared charts, and rows of logs.

A paper's module `report` makes tables of a frame of answers and drawings of
their figures; `assembled` makes the page. Charts of dots are declared in
report.toml:

    [charts.mango_success]
    panels = ["kind"]     # A panel for each combination of their values.
    x = "model"           # A column; a list of them has a panel for each.
    model = "easy"        # The column whose values colours tell apart.
    value = "interval success of formed"
    title = "success"     # Of values.

Values are measures of the rows of a dot; see wm/language/pages.py. Further
keys: `pale` is a measure that is drawn beside it without an interval; `sorted`
dots go by their mean, and `apart` ones lie below each other. A chart is `of`
all rows, or of a subset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from wm import core
from wm.language import pages
from wm.language.answers import replies
from wm.language.pages import ClusterMean, Report
from wm.reporting import charts
from wm.reporting.tables import Table

if TYPE_CHECKING:
  from inspect_ai.log import EvalLog

_Row = dict[str, Any]


def chart(report: Report, name: str, frame: pd.DataFrame) -> charts.Spec:
  """The chart of a name in report.toml; {} where no mark has a value.

  Args:
    report: of the paper.
    name: there.
    frame: an answer a row.
  """
  spec: _Row = report.declared['charts'][name]
  if 'of' in spec:
    frame = report.subset(frame, spec['of'])
  columns = [spec['x']] if isinstance(spec['x'], str) else spec['x']
  by = spec.get('panels', [])
  panels = []
  for x in columns:
    for keys, part in report.groups(frame, *by) if by else [({}, frame)]:
      if rows := _dots(report, spec, x, part):
        title = ', '.join(str(report.label(*pair)) for pair in keys.items())
        head = '' if isinstance(spec['x'], str) else x
        scale = {'domain': [0, 1]}
        panels.append(
          charts.Panel(spec['title'], head, rows, title, x_scale=scale)
        )
  if not panels:
    return {}
  names = pages.ordered(frame[spec['model']], report.labels.get(spec['model']))
  looks = charts.palette(report.label(spec['model'], name) for name in names)
  width, apart = spec.get('columns', 3), spec.get('apart', True)
  return charts.dots(panels, looks, columns=width, apart=apart)


def _dots(report: Report, spec: _Row, x: str, part: pd.DataFrame) -> list[_Row]:
  """A dot for each value of x and each model."""
  rows: list[_Row] = []
  model = spec['model']
  for keys, group in report.groups(part, x, model):
    measured = report.measure(spec['value'], group)
    numbers: _Row = {'value': measured}
    if isinstance(measured, ClusterMean):
      numbers = {**measured._asdict(), 'text': str(report.shown(measured))}
    if numbers['value'] is None:
      continue
    at = {
      'model': report.label(model, keys[model]),
      'x': report.label(x, keys[x]),
    }
    about = f'{numbers.get("n", len(group))} answers'
    rows.append({**at, 'about': about, **numbers})
    if 'pale' in spec and (pale := report.measure(spec['pale'], group)):
      rows.append({**at, 'value': pale, 'about': 'chance', 'pale': True})
  if spec.get('sorted') and rows:
    means = pd.DataFrame(rows).groupby('x').value.mean()
    rows.sort(key=lambda row: (means[row['x']], row['x']))
  return rows


def causes(failures: pd.Series) -> str:
  """'cut_off 2, nothing 1': how many replies are unread by each cause."""
  counts = failures[failures != ''].value_counts().sort_index()
  return ', '.join(f'{cause} {num}' for cause, num in counts.items())


def meanings(
  failures: pd.Series, words: Mapping[str, str] = replies.FAILURES
) -> str:
  """What each cause means."""
  present = sorted({*failures} - {''})
  return '; '.join(f'{cause}: {words.get(cause, cause)}' for cause in present)


def unread(answers: Iterable[Mapping[str, Any]]) -> list[Table]:
  """A table of replies that could not be read, by cause; [] if all were.

  A reply that the limit of tokens cut off is told from one without an answer.

  answers: rows with `model` and `failure`; others are left out.
  """
  pairs = [(x['model'], x['failure']) for x in answers if 'failure' in x]
  frame = pd.DataFrame(pairs, columns=['model', 'failure'])
  rows = [
    {
      'model': model,
      'replies': len(failures),
      'unread': int((failures != '').sum()),
      'causes': causes(failures),
    }
    for model, failures in frame.groupby('model', sort=False)['failure']
  ]
  title, note = 'Replies that could not be read', meanings(frame['failure'])
  return [pages.table(title, rows, note)] if note else []


def sample_rows(logs: Sequence[EvalLog]) -> Iterator[_Row]:
  """A row for each sample of logs that has a score.

  Keys: those of its metadata; its scores' numbers (`value` where a score is a
  single one), and their metadata, of which the last score counts; `model`,
  `sample` and `epoch`.
  """
  for log in logs:
    for sample in log.samples or ():
      row = dict(sample.metadata or {})
      for score in (sample.scores or {}).values():
        value = score.value
        row |= value if isinstance(value, dict) else {'value': value}
        row |= score.metadata or {}
      if sample.scores:
        about = {'sample': sample.id, 'epoch': sample.epoch}
        yield {**row, 'model': log.eval.model, **about}


def drawn(report: Report, frame: pd.DataFrame) -> dict[str, charts.Spec]:
  """All declared charts of a frame, by name; {} of one without marks."""
  names = report.declared['charts']
  return {name: chart(report, name, frame) for name in names}


def assembled(
  report: Report,
  lead: str,
  tables: Sequence[Table],
  drawings: Mapping[str, charts.Spec],
  rows: Mapping[str, Sequence[pages.Row]],
) -> pages.AnswersPage:
  """A page; tables without rows and empty drawings are left out.

  Args:
    report: declares the page's title and words, and captions of figures.
    lead: see pages.AnswersPage; as are `tables` and `rows`.
    tables: in order.
    drawings: name of a figure -> chart.
    rows: name of a CSV file -> its rows.
  """
  return pages.AnswersPage(
    report.declared['title'],
    lead,
    [table for table in tables if len(table.rows)],
    [
      charts.picture(name, report.declared['figures'][name], drawing)
      for name, drawing in drawings.items()
      if drawing
    ],
    report.declared.get('words', {}),
    rows,
  )


def page(paper: str, logs: Sequence[EvalLog]) -> pages.AnswersPage:
  """The page of a paper that has no module `report`: report.toml alone.

  Tables and charts are of a frame of `sample_rows`. `title` and `lead` are of
  the page; a lead may have `answers` and `models` in braces.

  Raises:
    InputError: no sample has a score.
  """
  report, rows = Report(paper), list(sample_rows(logs))
  if not rows:
    raise core.InputError(f'the logs hold no scored answer of wm/{paper}')
  frame, declared = pd.DataFrame(rows), report.declared
  models = ', '.join(frame['model'].unique())
  return assembled(
    report,
    declared['lead'].format_map({'answers': len(rows), 'models': models}),
    [*(report.table(k, frame) for k in declared['tables']), *unread(rows)],
    drawn(report, frame),
    {'answers': rows},
  )
