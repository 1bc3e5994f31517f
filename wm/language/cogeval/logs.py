"""The paper's tables and figures of any logs of the task `wm/cogeval`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from wm import core
from wm.language import rescored
from wm.language.cogeval import clusters, prompts, scores, tables
from wm.language.cogeval import page as pages
from wm.language.rescored import Rescored
from wm.reporting.tables import Table

if TYPE_CHECKING:
  from inspect_ai.log import EvalLog, EvalSample

# Numbers of the task's scorers -> columns of ours.
VALUES = {
  'correct': 'solver',
  'strict': 'strict',
  'graded': 'graded',
  'token': 'token',
  'precision': 'precision',
  'recall': 'recall',
}
ASKED = ('graph', 'domain', 'condition', 'start', 'goal')
SETTINGS = [name for name in prompts.Settings._fields if name != 'seed']


def page(logs: Sequence[EvalLog]) -> Rescored:
  """Tables and figures of logs; what is uncertain goes by questions.

  Raises:
    InputError: no sample of them is a question of this task with a score.
  """
  found = frame(logs)
  listed = found[found['precision'].notna()]
  answered = found[found['solver'].notna()]
  if answered.empty and listed.empty:
    raise core.InputError(
      'the logs hold no scored answer to a question of wm/cogeval'
    )
  checked = [edges(listed)] if len(listed) else []
  if answered.empty:
    said = f'{len(listed):,} lists of edges'
    return Rescored(pages.TITLE, said, checked, (), pages.WORDS, {})
  made = pages.of_answers(answered)
  more = [settings(answered)] if answered['setting'].nunique() > 1 else []
  return made._replace(tables=[*made.tables, *more, *checked])


def frame(logs: Sequence[EvalLog]) -> pd.DataFrame:
  """An answer a row, see `scores`; models are those of the logs.

  Columns besides: `solver`, `strict`, `graded`, `token`, `outcome`, `nodes`,
  and `precision` and `recall` of lists of edges; NaN where there is none.
  """
  rows = [row for log in logs for row in _rows(log)]
  found = pd.DataFrame(rows, columns=_COLUMNS)
  known = [found[name].astype(object) for name in SETTINGS]
  names = [
    '/'.join(str(x) for x in own if x) for own in zip(*known, strict=True)
  ]
  return found.assign(
    setting=names, group=found['condition'].map(scores.GROUP).fillna('')
  )


_COLUMNS = [
  *('model', 'repeat', 'temperature', 'question', 'outcome', 'nodes'),
  *(*ASKED, *SETTINGS, *VALUES.values()),
]


def _rows(log: EvalLog) -> Iterator[dict[str, Any]]:
  """Samples of a log; those without this task's metadata are left out."""
  for sample in log.samples or []:
    metadata = sample.metadata or {}
    if all(name in metadata for name in (*ASKED, 'question')):
      yield {
        'model': log.eval.model.removeprefix('recorded/'),
        'repeat': metadata.get('repeat', 0) * 1000 + sample.epoch,
        'temperature': float(metadata.get('temperature', 0)),
        'question': metadata['question'],
        **{name: metadata[name] for name in ASKED},
        **{name: metadata.get(name, '') for name in SETTINGS},
        **_values(sample),
      }


def _values(sample: EvalSample) -> dict[str, Any]:
  """Numbers and classes of the scorers of a sample."""
  found: dict[str, Any] = {}
  for score in (sample.scores or {}).values():
    if not isinstance(score.value, dict):
      continue
    for name, value in score.value.items():
      if name in VALUES and isinstance(value, int | float):
        found[VALUES[name]] = float(value)
    told = score.metadata or {}
    if 'outcome' in told:
      found['outcome'] = told['outcome']
      found['nodes'] = '-'.join('?' if n < 0 else str(n) for n in told['nodes'])
  return found


def settings(found: pd.DataFrame) -> Table:
  """Scores of each way of asking: wording, turns and hints."""
  return tables.by_model(found, 'solver', 'setting', 'By the way of asking')


def edges(found: pd.DataFrame) -> Table:
  """The manipulation check: precision and recall of listed edges."""
  rows = [
    {
      'model': tables.label(model),
      'graph': scores.LETTERS.get(str(graph), str(graph)),
      'check': check,
      'precision': tables.interval(clusters.mean(own, 'precision')),
      'recall': tables.interval(clusters.mean(own, 'recall')),
    }
    for (model, graph, check), own in found.groupby(['model', 'graph', 'check'])
  ]
  return rescored.table('Edges that models list', rows)
