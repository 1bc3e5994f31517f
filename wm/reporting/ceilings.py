"""Where a value lies between an untrained model and the best that can be had.

Two ceilings, which tables name apart. *Bayes* knows the rules and the sampler,
and nothing where the sampler never goes; *Bayes, replanning* is what the rules
and the goal imply from any state. Roles of runs are told by their specs, so
that results of any folder may stand beside each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

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
  """One of ROLES.

  Args:
    name: of the row.
    model: its spec.
    trained: whether it was trained.
    specs: of all trained models beside it.
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


class Position(NamedTuple):
  """Where a value lies.

  Attributes:
    place: 0 is untrained, 1 the ceiling; None where the ceiling is not clear
      of the untrained model, or there is none.
    ceiling: whose, a key of NAMES.
    beyond: whether the interval is clear of the ceiling's, on its far side.
  """

  place: float | None
  ceiling: str
  beyond: bool

  def __str__(self) -> str:
    """As it stands beside a value."""
    return ', '.join(words(self))


def words(position: Position | None) -> list[str]:
  """What stands beside a value: 'position 0.83' and 'beyond Bayes', or []."""
  if position is None:
    return []
  shown = []
  if position.place is not None:
    shown.append(f'position {position.place:.2f}')
  if position.beyond:
    shown.append(f'beyond {NAMES[position.ceiling]}')
  return shown


def position(
  entry: Mapping[str, Any],
  untrained: Mapping[str, Any] | None,
  ceiling: Mapping[str, Any],
  name: str = BAYES,
  better: int = 0,
) -> Position | None:
  """Where a value lies below a ceiling; None if nothing is said.

  Args:
    entry, untrained, ceiling: value, low and high; low and high may be None.
    name: of the ceiling.
    better: 1 where more is better, -1 where less is; 0 is not known, and the
      ceiling is taken for better than untrained.
  """
  if entry['value'] is None or ceiling['value'] is None:
    return None
  place = None
  if untrained is not None and untrained['value'] is not None:
    way = _above(ceiling, untrained) - _above(untrained, ceiling)
    if way and way == (better or way):
      better = way
      start = untrained['value']
      place = (entry['value'] - start) / (ceiling['value'] - start)
  beyond = better > 0 and _above(entry, ceiling)
  beyond = beyond or (better < 0 and _above(ceiling, entry))
  if place is None and not beyond:
    return None
  return Position(place, name, bool(beyond))


def _above(entry: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
  """Is an interval clear of another, above it?"""
  return ends(entry)[0] > ends(other)[1]


def better(entry: Mapping[str, Any]) -> int:
  """1 where more of a quantity is better, -1 where less is, 0 if not known."""
  measure = catalog.measure(entry['metric'], entry['quantity'])
  return measure.direction if measure else 0


def ends(entry: Mapping[str, Any]) -> tuple[float, float]:
  """Returns the interval, or the value where there is none.

  Of several seeds it reaches from the lowest end of theirs to the highest: what
  is clear of it is clear of each seed.
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
  """Ceilings of runs, and the positions of trained ones below them."""

  def __init__(self, runs: Sequence[Run]) -> None:
    """runs: all that stand in one report."""
    self.roles = roles(runs)
    self._runs = runs
    self._by_key: dict[tuple[str, str, str], dict[tuple, Entry]] = {}
    for run, role in zip(runs, self.roles, strict=True):
      if role not in (UNTRAINED, *NAMES):
        continue
      of = _model(run) if role == UNTRAINED else ''
      for entry in run.entries:
        for world in (run.world, kind(run.world)):
          if world == run.world or role == UNTRAINED:
            self._by_key.setdefault(_key(entry), {}).setdefault(
              (role, of, world), entry
            )

  def position(self, place: int, entry: Entry) -> Position | None:
    """The position of an entry of the run at a place; None if nothing is said.

    Of models that were not trained it says no more than that they are beyond.
    The untrained model is of the same spec, in the same world or else in one
    of its kind. The ceiling is of the same world, and replanning if measured.
    """
    role = self.roles[place]
    if role not in (TRAINED, UNTRAINED, UNIFORM):
      return None
    beside = self._by_key.get(_key(entry), {})
    run, untrained = self._runs[place], None
    for world in (kind(run.world), run.world) if role == TRAINED else ():
      untrained = beside.get((UNTRAINED, _model(run), world)) or untrained
    ceiling = self.ceiling(place, entry)
    if ceiling is None:
      return None
    return position(entry, untrained, ceiling[1], ceiling[0], better(entry))

  def ceiling(self, place: int, entry: Entry) -> tuple[str, Entry] | None:
    """Returns which of NAMES the ceiling of an entry is, and its entry.

    It is of the same world as the run at a place, and replanning if measured;
    None if none is measured.
    """
    beside = self._by_key.get(_key(entry), {})
    for name in BEST:
      entry_above = beside.get((name, '', self._runs[place].world))
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
  """How to get the ceilings of a world, or why there are none."""
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
