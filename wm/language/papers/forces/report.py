"""Tables and figures about forces, and which law the answers follow.

Masses are constant in a system, and so, nearly, is the force: over few systems
a law tells little more than systems apart. Whoever repeats the mean of the told
forces in each system follows Newton's law over systems of different masses and
distances. Knowledge of the distance shows within systems: `SpeakerLaw.within`
compares steps of one system alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from inspect_ai.log import EvalLog

from wm import core
from wm.core import inputs
from wm.evaluation import force_laws
from wm.language import pages
from wm.language.pages import Report
from wm.language.papers import reports
from wm.language.papers.forces import score as scoring
from wm.language.papers.forces import task as tasks
from wm.language.papers.forces.questions import AT_ORIGIN, System
from wm.reporting import charts
from wm.reporting.tables import Cell, Table

# Share of numbers that are above 0, as `force_law` has it.
POSITIVE = force_laws.POSITIVE
TOLERANCE = 0.05


class SpeakerLaw(NamedTuple):
  """The law of one speaker's forces.

  Attributes:
    reason: '' where there is a law over all systems, else why not, as of
      `force_law`: not_positive, constant, undetermined.
    power: the law of r, m1 and m2 over all systems; None where there is a
      reason.
    within: name of a system -> exponent of r in it alone, and the share of the
      logarithm's variance in it that a power of r explains; NaN where what is
      said is constant or not positive.
    judged: 'newton' or 'other' by the test of `force_law`, or why it does not
      judge.
  """

  reason: str
  power: force_laws.PowerLaw | None
  within: dict[str, tuple[float, float]]
  judged: str


_VARIABLES = ['r', 'm1', 'm2']


def laws(
  systems: Sequence[System], speakers: Mapping[str, Sequence[np.ndarray]]
) -> dict[str, SpeakerLaw]:
  """Speaker -> the law of what it says.

  Args:
    systems: S of them.
    speakers: name -> S arrays [T]; NaN where nothing is said.
  """
  parts = [
    pd.DataFrame({'r': s.distance, 'm1': s.planet, 'm2': s.star, 'of': s.name})
    for s in systems
  ]
  rows = pd.concat(parts, ignore_index=True)
  return {
    name: _law(rows, np.concatenate(forces))
    for name, forces in speakers.items()
  }


def _law(rows: pd.DataFrame, force: np.ndarray) -> SpeakerLaw:
  """The law of a speaker's forces at all steps.

  rows: a step of a system each, with _VARIABLES and `of`, the system's name.
  """
  within = {
    name: _within(part['r'].to_numpy(), force[part.index])
    for name, part in rows.groupby('of', sort=False)
  }
  # x and y from the sun; only their distance counts for a magnitude.
  state = rows.assign(y=0.0)[['r', 'y', 'm1', 'm2']].to_numpy()
  systems = rows['of'].to_numpy(str)
  of_metric = force_laws.LawRows(state, systems, False)
  verdict = of_metric.verdict('force', force[:, None], TOLERANCE)
  judged = verdict.reason or ('newton' if verdict.newton else 'other')
  finite = np.isfinite(force)
  good = finite & (force > 0)
  reason, power = '', None
  if good.sum() < POSITIVE * max(finite.sum(), 1):
    reason = 'not_positive'
  elif good.sum() < 2 or np.ptp(force[good]) == 0:
    reason = 'constant'
  else:
    columns = {name: rows[name][good].to_numpy(float) for name in _VARIABLES}
    try:
      power = force_laws.fit_power_law(force[good], columns, systems[good])
    except core.InputError:
      reason = 'undetermined'
  return SpeakerLaw(reason, power, within, judged)


def _within(distance: np.ndarray, force: np.ndarray) -> tuple[float, float]:
  """Exponent of r, and how far log force goes with log r (r squared)."""
  good = np.isfinite(force) & (force > 0)
  if good.sum() < 3 or good.sum() < POSITIVE * np.isfinite(force).sum():
    return np.nan, np.nan
  x, y = np.log(distance[good]), np.log(force[good])
  if np.ptp(x) == 0 or np.ptp(y) <= scoring.COPIED:
    return np.nan, np.nan
  x = x - x.mean()
  slope = float(x @ y / (x @ x))
  return slope, scoring.correlation(x, y) ** 2


_LOOKS = {
  'true': charts.Look('#777777', 'circle'),
  'said': charts.Look('#D55E00', 'square'),
  'told': charts.Look('#0072B2', 'circle'),
}
_EVERY = 4  # Times between points of a line.


def grid(
  systems: Sequence[System], speakers: Mapping[str, Sequence[np.ndarray]]
) -> charts.Spec:
  """A row for each speaker, a column for each system.

  speakers: name -> for each system forces [T]; NaN is left out. Axes hold
    the true forces and what is said, up to ten times the range of the former.
  """
  panels = []
  for name, forces in speakers.items():
    for system, values in zip(systems, forces, strict=True):
      rows = [
        {'model': kind, 'x': at, 'value': line[at], 'marked': False}
        for kind, line in (('true', system.force), ('said', values))
        for at in range(0, len(line), _EVERY)
      ]
      rows += [
        {'model': 'told', 'x': at, 'value': system.force[at], 'joined': False}
        for at in map(int, system.told_steps)
      ]
      title = f'{name}, system {system.name}'
      scale = {'domain': [*_limits(system.force, values)]}
      panels.append(
        charts.Panel(
          *('time', 'force', rows, title),
          y_scale=scale,
          width=170,
          height=110,
          clip=True,
        )
      )
  return charts.lines(panels, _LOOKS, columns=len(systems))


def _limits(truth: np.ndarray, force: np.ndarray) -> tuple[float, float]:
  low, high = float(truth.min()), float(truth.max())
  wide = max(high - low, 0.02 * high)
  finite = force[np.isfinite(force)]
  if finite.size:
    low = max(min(low, float(finite.min())), low - 5 * wide)
    high = min(max(high, float(finite.max())), high + 5 * wide)
  edge = 0.08 * (high - low)
  return low - edge, high + edge


def _short(rows: pd.DataFrame, *columns: str) -> str:
  """Numbers of a row: whole ones as they are, of others four decimals."""
  return ', '.join(
    '–' if np.isnan(x) else f'{x:.0f}' if x == int(x) else f'{x:.4f}'
    for x in rows.iloc[0][[*columns]]
  )


REPORT = Report('forces', measures={'short': _short})
FITTED = 'Newton with the sun fitted knows what the prompt shows, and no more.'
FALSE = 'The prompts have the sun at the origin, where it is not.'


def _tables(
  rows: Sequence[pages.Row], laws_of: Mapping[str, SpeakerLaw]
) -> list[Table]:
  frame = pd.DataFrame(rows)
  exponents = [
    {'speaker': name, 'system': key, 'exponent': slope, 'r2': r2}
    for name, law in laws_of.items()
    for key, (slope, r2) in law.within.items()
  ]
  note = FITTED * ('newton_fitted' in set(frame['speaker']))
  return [
    REPORT.table('errors', _named(frame), note=note),
    REPORT.table('unknown', _named(frame)),
    REPORT.table('laws', [{'law': row} for row in _law_rows(laws_of)]),
    REPORT.table('exponents', _named(pd.DataFrame(exponents))),
  ]


def _named(frame: pd.DataFrame) -> pd.DataFrame:
  """Rows whose systems are called 'system 0' and so on."""
  return frame.assign(system='system ' + frame['system'].astype(str))


def _law_rows(laws_of: Mapping[str, SpeakerLaw]) -> list[dict[str, Any]]:
  """A row for each speaker."""
  rows = []
  for name, law in laws_of.items():
    row: dict[str, Any] = {'speaker': name}
    for key in _VARIABLES:
      row[f'exponent of {key}'] = law.reason
      if law.power is not None:
        low, high = law.power.interval(key)
        row[f'exponent of {key}'] = Cell(
          f'{law.power.exponents[key]:.3f}', f' [{low:.3f}, {high:.3f}]'
        )
    rows.append({**row, 'force_law': law.judged})
  return rows


def page(logs: Sequence[EvalLog]) -> pages.AnswersPage:
  """Tables and a picture of the systems that models were asked about.

  Args:
    logs: of the task, whole ones, about the same systems in the same prompts.
      Of several replies to a prompt the mean of each step counts; a step
      without any has none. The second log of a model is called 'MODEL (2)'.

  Raises:
    InputError: a sample is none of the task, or logs ask differently.
  """
  read = [_read(log) for log in logs]
  variant, systems, _ = read[0]
  asked, speakers = _asked(variant, systems), dict[str, list[np.ndarray]]()
  for log, (prompts, of, forces) in zip(logs, read, strict=True):
    if _asked(prompts, of) != asked:
      raise core.InputError(
        f'{log.location} asks otherwise than {logs[0].location}; expected the '
        'same systems and prompts, or reports of their own'
      )
    speakers[pages.unused_name(log.eval.model, speakers)] = forces
  content = of_systems(variant, systems, speakers)
  more = reports.unread(reports.sample_rows(logs))
  return content._replace(tables=[*content.tables, *more])


def _asked(variant: str, systems: Sequence[System]) -> list[Any]:
  """All that prompts tell of systems."""
  return [
    variant,
    *((s.force.tolist(), s.told_steps.tolist()) for s in systems),
  ]


def of_systems(
  variant: str,
  systems: Sequence[System],
  models: Mapping[str, Sequence[np.ndarray]],
) -> pages.AnswersPage:
  """The page of what models answer about systems, baselines beside them.

  Args:
    variant: of prompts.
    systems: that were asked about.
    models: name -> forces [T] of each system.
  """
  baselines = {
    name: [scoring.baseline(name, system) for system in systems]
    for name in scoring.BASELINES
    if any(len(system.told_steps) for system in systems)
  }
  speakers = {**models, **baselines}
  rows = [
    {'speaker': name, 'system': system.name, **scoring.scores(force, system)}
    for name, forces in speakers.items()
    for system, force in zip(systems, forces, strict=True)
  ]
  truth = [system.force for system in systems]
  laws_of = laws(systems, {'truth': truth, **speakers})
  num = len(baselines)
  many = f'{num} baselines' if num else 'no baseline (none is told)'
  remark = FALSE if variant in AT_ORIGIN else ''
  lead = f'{len(models)} models and {many} on {len(systems)} systems. {remark}'
  return reports.assembled(
    REPORT,
    lead.rstrip(),
    _tables(rows, laws_of),
    {'forces': grid(systems, models)},
    {'forces': rows, 'laws': _law_rows(laws_of)},
  )


def _read(log: EvalLog) -> tuple[str, list[System], list[np.ndarray]]:
  """Variant of prompts, systems, and a model's mean forces of each."""
  systems: dict[str, System] = {}
  replies: dict[str, list[np.ndarray]] = {}
  variant = ''
  for sample in log.samples or ():
    name = f'{log.location}: sample {sample.id}'
    with inputs.reading(name, 'one of wm/forces'):
      system = tasks.restored(sample.metadata)
      score = (sample.scores or {})['forces_scorer']
      variant = sample.metadata['variant']
      force = np.array((score.metadata or {})['said'], np.float64)
    systems[str(sample.id)] = system
    replies.setdefault(str(sample.id), []).append(force)
  # NaN where no reply has a number at a step.
  means = [pd.DataFrame(replies[name]).mean().to_numpy() for name in systems]
  return variant, [*systems.values()], means
