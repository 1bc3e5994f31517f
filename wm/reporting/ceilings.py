"""Ceilings: the best possible values in a world, and the roles of runs.

There are two ceilings. *Bayes* knows the rules and the sampler, but has no
prediction where the sampler never goes. *Bayes, replanning* follows the rules
and the goal from any state. The role of a run follows from its spec, so that
results of any folders can share a report.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wm import core
from wm.core import registry
from wm.reporting import catalog
from wm.reporting.collect import Entry, Run

UNTRAINED: str = 'untrained'
UNIFORM: str = 'uniform'
NULL: str = 'null'
TRAINED: str = 'trained'
PARTICLES: str = 'particles'
BAYES: str = 'bayes'
REPLANNING: str = 'replanning'
ORACLE: str = 'oracle'
ROLES = (
  *(UNTRAINED, UNIFORM, TRAINED, PARTICLES, BAYES, REPLANNING, ORACLE, NULL),
)
NULLS = 'prefix', 'state'  # What the errors of null models depend on.
# Particles come near the Bayes predictor where it cannot be computed.
NAMES = {
  BAYES: 'Bayes',
  REPLANNING: 'Bayes, replanning',
  PARTICLES: 'Bayes, by particles',
}
# The first of these that is measured is the ceiling.
BEST = REPLANNING, BAYES, PARTICLES
_MANY = 0.2  # Share of unmeasured trials that is said in words.


def role(name: str, model: str, trained: bool, specs: Iterable[str]) -> str:
  """Returns the role of a row, one of ROLES.

  Args:
    name: of the row.
    model: its spec.
    trained: whether it was trained.
    specs: specs of all trained models of the report.
  """
  plug_in = model.partition('(')[0].strip()
  if plug_in == 'bayes':
    return REPLANNING if "'replan'" in model else BAYES
  if plug_in == 'particle_filter':
    return PARTICLES
  if plug_in in (UNIFORM, ORACLE, NULL):
    return plug_in
  if not trained and (model in specs or name.startswith(UNTRAINED)):
    return UNTRAINED
  return TRAINED


def null_name(row: str, kind: str) -> str:
  """Name of the null model of a row whose errors depend on `kind`."""
  return f'{row}_null_{kind}'


def _model(run: Run) -> str:
  first = run.entries[0] if run.entries else {}
  return first.get('model_spec') or run.name


def is_trained(run: Run) -> bool:
  """Was the model of a run trained, here or before?"""
  return bool(run.entries and run.entries[0].get('training'))


def roles(runs: Sequence[Run]) -> list[str]:
  """The role of each run."""
  specs = {_model(run) for run in runs if is_trained(run)}
  return [role(r.name, _model(r), is_trained(r), specs) for r in runs]


def ordered(runs: Sequence[Run]) -> list[Run]:
  """Runs by role, those of one kind of world together; else as they are."""
  kinds = [kind(run.world) for run in runs]
  keys = [
    (kinds.index(name), ROLES.index(role))
    for name, role in zip(kinds, roles(runs), strict=True)
  ]
  return [runs[n] for n in sorted(range(len(runs)), key=keys.__getitem__)]


def ends(entry: Mapping[str, Any]) -> tuple[float, float]:
  """Returns the interval, or the value twice without one.

  With several seeds it spans all of their intervals: a value outside is outside
    the interval of each seed.
  """
  values, lows, highs = (
    entry.get(f'seed_{key}s') or [entry[key]]
    for key in ('value', 'low', 'high')
  )
  return (
    min(x if low is None else low for x, low in zip(values, lows, strict=True)),
    max(
      x if top is None else top for x, top in zip(values, highs, strict=True)
    ),
  )


def spec(entry: Mapping[str, Any]) -> str:
  """Returns the metric's canonical spec."""
  return entry.get('spec') or entry['metric']


def _key(entry: Entry) -> tuple[str, str, str]:
  return spec(entry), entry['quantity'], json.dumps(entry.get('where'))


class Against:
  """Ceilings of runs."""

  def __init__(self, runs: Sequence[Run]) -> None:
    """runs: all runs of a report."""
    self.roles = roles(runs)
    self._runs = runs
    self._by_key: dict[tuple[str, str, str], dict[tuple, Entry]] = {}
    for run, role in zip(runs, self.roles, strict=True):
      for entry in run.entries if role in NAMES else ():
        beside = self._by_key.setdefault(_key(entry), {})
        beside.setdefault((role, run.world), entry)

  def ceiling(self, place: int, entry: Entry) -> tuple[str, Entry] | None:
    """Returns which of NAMES the ceiling of an entry is, and its entry.

    It is of the same world as the run at a place, and replanning if measured;
    None if none is measured.
    """
    beside = self._by_key.get(_key(entry), {})
    for name in BEST:
      entry_above = beside.get((name, self._runs[place].world))
      if entry_above and entry_above['value'] is not None:
        return name, entry_above
    return None

  def missing(self) -> list[str]:
    """A line on each world that trained runs lack a ceiling in."""
    pairs = [*zip(self._runs, self.roles, strict=True)]
    have = {run.world for run, role in pairs if role in NAMES}
    lack = [run.world for run, role in pairs if role == TRAINED and run.world]
    return [_advice(x) for x in dict.fromkeys(lack) if x not in have]


def kind(world: str) -> str:
  """Name of a world, without its fields."""
  return world.partition('(')[0]


def _advice(world: str) -> str:
  """The command that adds the ceilings of a world, or why it has none."""
  name = kind(world)
  if not catalog.is_known(name):
    return f'No ceiling: {name} is not run.'
  of = registry.find('world', name)
  if not issubclass(of, core.Generative):
    return f'No ceiling: {core.capabilities.lacks_law(of)}.'
  return (
    f"No ceiling of {world} was measured: wm.score('bayes()', metrics, "
    f'"{world}") or launch/score.py --model=\'bayes()\' measures that of '
    "Bayes, and the model bayes(off='replan') that of replanning Bayes."
  )


def measured(entry: Mapping[str, Any]) -> str:
  """Says how many trials were not measured, in words if many; else ''."""
  missing = sum((entry.get('unmeasured') or {}).values())
  if not missing or entry['value'] is None:
    return ''
  every = entry['n'] + missing
  share = missing / every
  if share > _MANY:
    return f'{entry["n"]} of {every} measured'
  return f'{max(100 * share, 1):.0f} % unmeasured'
