"""What a report warns of before its first table, by rules of the metrics.

A rule judges the interval of one quantity, in the plainest setting of its
metric (`core.Caution`). A model has one line, with all that holds of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from wm import core
from wm.core import registry
from wm.evaluation import needs
from wm.reporting import ceilings, declared, tables
from wm.reporting.collect import Entry, Run

_FIELD = re.compile(r'{(\w+)}')  # Of a rule's text.


def lines(runs: Sequence[Run]) -> list[str]:
  """Returns a line on each run that a rule holds of, and on what is missing."""
  found, against = [], ceilings.Against(runs)
  for place, (run, label) in enumerate(
    zip(runs, tables.labels(runs), strict=True)
  ):
    clauses = [
      text
      for values in _plain(run)
      for rule in _rules(next(iter(values.values())))
      if (text := _clause(rule, values, against, place))
    ]
    if clauses:
      found.append(f'{label} {"; ".join(dict.fromkeys(clauses))}.')
  return found + _missing(runs)


def rules(runs: Sequence[Run]) -> list[str]:
  """Returns each rule of what was measured, in words."""
  metrics = dict.fromkeys(e['metric'] for run in runs for e in run.entries)
  return [
    f'{name}: {rule.quantity} {_limit(rule)}: "{_FIELD.sub("…", rule.text)}"'
    for name in metrics
    for rule in declared.metric(name).cautions
  ]


def _limit(rule: core.Caution) -> str:
  if rule.unmeasured:
    return f'not measured in any trial, as {rule.unmeasured}'
  limit = f'below {rule.below}' if rule.above is None else f'above {rule.above}'
  more = ' of that of the Bayes predictor' if rule.of_best else ''
  return f'{limit}{more}'


def _rules(entry: Entry) -> tuple[core.Caution, ...]:
  return declared.metric(entry['metric']).cautions


def _plain(run: Run) -> Iterator[Mapping[str, Entry]]:
  """Yields quantity -> entry, for the plainest setting of each metric."""
  for metric, spec in tables.plainest(run.entries).items():
    yield {
      entry['quantity']: entry
      for entry in run.entries
      if entry['metric'] == metric and tables.spec(entry) == spec
    }


def _clause(
  rule: core.Caution,
  values: Mapping[str, Entry],
  against: ceilings.Against,
  place: int,
) -> str:
  """Returns the rule's text with values; '' where it does not hold."""
  entry = values.get(rule.quantity)
  if entry is None:
    return ''
  if entry['value'] is None:
    only = [*entry['unmeasured']] == [rule.unmeasured]
    return rule.text if rule.unmeasured and only else ''
  best = 1.0
  if rule.of_best:
    ceiling = against.ceiling(place, entry)
    if not ceiling:
      return ''  # The best predictor there is may have less than 1.
    best = ceiling[1]['value']
  low, high = ceilings.ends(entry)
  limit = rule.below if rule.below is None else rule.below * best
  holds = limit is not None and high < limit
  holds = holds or (rule.above is not None and low > rule.above)
  if not holds:
    return ''
  numbers = {name: one['value'] for name, one in values.items()}
  numbers |= {'value': entry['value'], 'rest': 1 - entry['value'], 'best': best}
  shown = {name: tables.number(one, 2) for name, one in numbers.items()}
  # Results of older versions may lack a quantity.
  return _FIELD.sub(lambda field: shown.get(field[1], '–'), rule.text)


def _missing(runs: Sequence[Run]) -> list[str]:
  """Returns a line on metrics that have rules and were not measured."""
  measured = {entry['metric'] for run in runs for entry in run.entries}
  worlds = [
    registry.find('world', kind)
    for kind in dict.fromkeys(run.world.partition('(')[0] for run in runs)
    if kind and declared.is_known(kind)
  ]
  if not any(declared.metric(name).cautions for name in measured):
    return []
  names = [
    name
    for name in registry.names('metric')
    if name not in measured
    and (cls := registry.find('metric', name)).cautions
    and any(not needs.lacks(cls, world) for world in worlds)
  ]
  return [f'Not measured, and not warned of: {", ".join(names)}.'] * bool(names)
