"""Findings of papers, and whether the units of miniatures show them.

A findings.json lists them:

    name, title     in files; and in a few words
    sentence        what the paper found
    paper, printed  which paper, and where in it
    miniature       whose units decide it
    seeds           that each row needs; default 3
    claims          all of which the finding says, each with
      metric        name or spec; of the specs that have its fields, the
                    shortest is meant. 'map' is the reconstructed map
      quantity      of the metric, or a count of the map
      where         of a breakdown, as {"step": 20}; optional
      rows          that it is about
      relation      'above' or 'below': each row is, of each of `than`;
                    'ordered': each row is above the next
      than          rows, or a number
      times         what `than` is multiplied by; default 1
      some          one row is enough; default false
      beyond        intervals must not overlap, nor hold the number; default
                    true. Otherwise values are compared, and may be equal to
                    a number
      published     row -> the paper's value; optional
    picture         how it is drawn, see `wm.reporting.pictured`; optional

A verdict follows from result files and these rules alone.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wm import core
from wm.core import registry
from wm.evaluation import seeds as seeds_lib
from wm.reporting import tables, units
from wm.reporting.units import Entry, Unit
from wm.runtime import files

SHOWN, NOT_SHOWN, UNTESTED = VERDICTS = 'shown', 'not shown', 'not tested here'
RELATIONS = 'above', 'below', 'ordered'
MAP = 'map'  # Instead of a metric's name.
_SEEDS = ('seed', 'data')  # Parts of a key in which the seeds of a row differ.


class Amount(NamedTuple):
  """A quantity of a row, over its seeds.

  Attributes:
    value, low, high: mean and interval, see `over_seeds`; low and high None
      where a seed has no interval.
    n, clusters: sums over seeds.
    seeds: how many.
  """

  value: float
  low: float | None
  high: float | None
  n: int
  clusters: int
  seeds: int


@dataclasses.dataclass(frozen=True)
class Claim:
  """What a finding says of a quantity; see the module's docstring."""

  metric: str
  quantity: str
  rows: tuple[str, ...]
  relation: str
  than: tuple[str, ...] | float = ()
  times: float = 1.0
  some: bool = False
  beyond: bool = True
  where: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  published: Mapping[str, float] = dataclasses.field(default_factory=dict)

  @property
  def label(self) -> str:
    """'compression: precision, step 20'."""
    place = ''.join(f', {key} {value}' for key, value in self.where.items())
    return f'{self.metric}: {self.quantity}{place}'

  @property
  def named(self) -> tuple[str, ...]:
    """All rows that it compares."""
    others = self.than if isinstance(self.than, tuple) else ()
    return tuple(dict.fromkeys((*self.rows, *others)))

  def __str__(self) -> str:
    """In words."""
    rows = (' or ' if self.some else ', ').join(self.rows)
    beyond = '' if self.beyond else ' (in value)'
    if self.relation == 'ordered':
      return f'{self.label}: {" above ".join(self.rows)}{beyond}'
    than = (
      ', '.join(self.than) if isinstance(self.than, tuple) else f'{self.than:g}'
    )
    times = '' if self.times == 1 else f'{self.times:g} times '
    return f'{self.label}: {rows} {self.relation} {times}{than}{beyond}'


@dataclasses.dataclass(frozen=True)
class Finding:
  """One finding of a paper; see the module's docstring."""

  name: str
  title: str
  sentence: str
  paper: str
  printed: str
  miniature: str
  claims: tuple[Claim, ...]
  seeds: int = 3
  picture: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Judged:
  """A finding, and what the units say of it.

  Attributes:
    finding: what was judged.
    verdict: one of VERDICTS.
    claims: verdict and reason of each claim.
    amounts: for each claim, row -> its amount, where there is one.
  """

  finding: Finding
  verdict: str
  claims: tuple[tuple[str, str], ...]
  amounts: tuple[dict[str, Amount], ...]

  @property
  def pairs(self) -> list[tuple[str, tuple[str, str]]]:
    """Each claim in words, with its verdict and reason."""
    words = map(str, self.finding.claims)
    return list(zip(words, self.claims, strict=True))


def load(path: str | pathlib.Path) -> list[Finding]:
  """Findings of a file; InputError names what is wrong."""
  listed = files.read_record(path, {'findings': list})['findings']
  found = [
    _finding(one, f'{path}: finding {n}') for n, one in enumerate(listed)
  ]
  names = [one.name for one in found]
  if twice := [name for name in names if names.count(name) > 1]:
    raise core.InputError(f'{path}: two findings are called {twice[0]!r}')
  return found


def _finding(given: Any, where: str) -> Finding:
  text = dict.fromkeys(('name', 'title', 'sentence', 'paper', 'printed'), str)
  needed = {**text, 'miniature': str, 'claims': list}
  optional = {'seeds': int, 'picture': dict}
  files.record(given, where, needed, optional)
  _known(given, {*needed, *optional}, where)
  claims = [
    _claim(one, f'{where}, claim {n}') for n, one in enumerate(given['claims'])
  ]
  if not claims:
    raise core.InputError(f'{where} has no claims')
  return Finding(**{**given, 'claims': tuple(claims)})


def _claim(given: Any, where: str) -> Claim:
  needed: dict[str, Any] = dict.fromkeys(
    ('metric', 'quantity', 'relation'), str
  )
  needed['rows'] = list
  optional = {
    **{'than': list | int | float, 'times': int | float},
    **{'some': bool, 'beyond': bool, 'where': dict, 'published': dict},
  }
  files.record(given, where, needed, optional)
  _known(given, {*needed, *optional}, where)
  relation, rows, than = given['relation'], given['rows'], given.get('than', [])
  if relation not in RELATIONS:
    available = registry.suggest(relation, [*RELATIONS])
    raise core.InputError(f'{where}: no relation {relation!r}; {available}')
  if not rows or (relation == 'ordered' and (len(rows) < 2 or than != [])):
    raise core.InputError(f'{where}: expected two rows or more and no `than`')
  if relation != 'ordered' and than == []:
    raise core.InputError(f'{where}: expected rows or a number as `than`')
  if given['metric'] != MAP:
    registry.find('metric', registry.parse(given['metric'])[0])
  as_given = tuple(than) if isinstance(than, list) else float(than)
  return Claim(**{**given, 'rows': tuple(rows), 'than': as_given})


def _known(given: Mapping[str, Any], known: set[str], where: str) -> None:
  for key in given:
    if key not in known:
      available = registry.suggest(key, sorted(known))
      raise core.InputError(f'{where} has an unknown {key!r}; {available}')


# Units and their quantities.


def read_units(results: str | pathlib.Path) -> dict[str, list[Unit]]:
  """Row -> its units in the order of seeds, of one recipe.

  Where the units of a row differ in more than their seed, those of the most
  frequent recipe are taken, and of equally frequent ones that of the first.
  """
  found: dict[str, dict[str, list[Unit]]] = {}
  for path in sorted(pathlib.Path(results).glob('*.json')):
    unit = units.read(path)
    recipe = json.dumps(_without_seeds(unit.key), sort_keys=True)
    found.setdefault(unit.row, {}).setdefault(recipe, []).append(unit)
  kept = {}
  for row, recipes in found.items():
    several = sorted(recipes.values(), key=len, reverse=True)  # Stable.
    kept[row] = sorted(several[0], key=lambda unit: unit.seed)
  return kept


def _without_seeds(key: Any) -> Any:
  if not isinstance(key, dict):
    return key
  return {k: _without_seeds(x) for k, x in key.items() if k not in _SEEDS}


def entries_of(
  unit: Unit, metric: str, quantity: str, where: Mapping[str, Any]
) -> Entry | None:
  """The entry that a claim means; None where the unit has none."""
  if metric == MAP:
    value = unit.map.get(quantity)
    ends = dict.fromkeys(('value', 'low', 'high'), value)
    num = unit.map.get('sequences', 0)
    return {**ends, 'n': num, 'clusters': num}
  name, _, fields = registry.parse(metric)
  suited = [
    entry
    for entry in unit.scores
    if entry['quantity'] == quantity
    and entry.get('where', {}) == where
    and registry.parse(entry['spec'])[0] == name
    and _has(entry['spec'], fields)
  ]
  return min(suited, key=lambda entry: len(entry['spec']), default=None)


def _has(spec: str, fields: Mapping[str, Any]) -> bool:
  given = tables.arguments(spec)
  return all(given.get(key) == value for key, value in fields.items())


def amount(
  row: Sequence[Unit], metric: str, quantity: str, where: Mapping[str, Any]
) -> Amount | None:
  """A quantity over the seeds that have measured it; None where none has."""
  found = [entries_of(unit, metric, quantity, where) for unit in row]
  entries = [one for one in found if one and one['value'] is not None]
  if not entries:
    return None
  columns = ([e[k] for e in entries] for k in ('value', 'low', 'high'))
  n, clusters = (sum(e[k] for e in entries) for k in ('n', 'clusters'))
  return Amount(*seeds_lib.over_seeds(*columns), n, clusters, len(entries))


# Verdicts.


def judge(finding: Finding, rows: Mapping[str, Sequence[Unit]]) -> Judged:
  """Whether the units of a miniature, by row, show a finding.

  One claim that does not hold is enough for 'not shown'; else one that cannot
  be decided for 'not tested here'.
  """
  verdicts, amounts = [], []
  for claim in finding.claims:
    held = {}
    for name in claim.named:
      given = claim.metric, claim.quantity, claim.where
      if (one := amount(rows.get(name, ()), *given)) is not None:
        held[name] = one
    amounts.append(held)
    verdicts.append(_judge(claim, held, finding.seeds))
  said = [verdict for verdict, _ in verdicts]
  verdict = SHOWN
  if NOT_SHOWN in said or UNTESTED in said:
    verdict = NOT_SHOWN if NOT_SHOWN in said else UNTESTED
  return Judged(finding, verdict, tuple(verdicts), tuple(amounts))


def _judge(
  claim: Claim, held: Mapping[str, Amount], seeds: int
) -> tuple[str, str]:
  """Verdict and reason, '' where it is shown."""
  ready = {name: one for name, one in held.items() if one.seeds >= seeds}
  said = _steps(claim, ready)
  good = [text for text, holds in said if holds]
  bad = [text for text, holds in said if holds is False]
  lacking = [
    f'{name}: {held[name].seeds if name in held else 0} of {seeds} seeds'
    for name in claim.named
    if name not in ready
  ]
  if claim.some and good:  # Whatever the others would say.
    return SHOWN, ''
  if bad and not (claim.some and lacking):
    return NOT_SHOWN, '; '.join(bad)
  return (UNTESTED, '; '.join(lacking)) if lacking else (SHOWN, '')


def _steps(
  claim: Claim, ready: Mapping[str, Amount]
) -> list[tuple[str, bool | None]]:
  """Why not, and whether it holds, None where that cannot be said; for each
  row, or neighbours of an order.
  """
  if claim.relation == 'ordered':
    return [
      (
        f'{one} is not above {other}',
        _apart(ready[one], ready[other], claim.beyond)
        if {one, other} <= ready.keys()
        else None,
      )
      for one, other in zip(claim.rows, claim.rows[1:], strict=False)
    ]
  others = claim.than if isinstance(claim.than, tuple) else ()
  known = set(others) <= ready.keys()
  return [
    (
      f'{name} is not {claim.relation}',
      _holds(claim, ready, name) if known and name in ready else None,
    )
    for name in claim.rows
  ]


def _holds(claim: Claim, ready: Mapping[str, Amount], name: str) -> bool:
  """Is a row above, or below, everything that it is compared with?"""
  mine, number = ready[name], not isinstance(claim.than, tuple)
  if isinstance(claim.than, tuple):
    others = [_times(ready[other], claim.times) for other in claim.than]
  else:
    point = claim.than * claim.times
    others = [Amount(point, point, point, 0, 0, 0)]
  return all(
    (number and not claim.beyond and mine.value == other.value)
    or _apart(
      *((mine, other) if claim.relation == 'above' else (other, mine)),
      claim.beyond,
    )
    for other in others
  )


def _times(given: Amount, factor: float) -> Amount:
  low, high = (x if x is None else x * factor for x in (given.low, given.high))
  return given._replace(value=given.value * factor, low=low, high=high)


def _apart(above: Amount, below: Amount, beyond: bool) -> bool:
  """Is one above the other, beyond both intervals where that is asked?"""
  if not beyond:
    return above.value > below.value
  if above.low is None or below.high is None:
    return False
  return above.low > below.high
