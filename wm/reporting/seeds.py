"""Runs of one model that differ in their training seed alone, as one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence

from wm.reporting.collect import Entry, Run


def pooled(runs: Sequence[Run]) -> list[Run]:
  """The runs, those of several seeds as one where the first of them stands.

  Runs are put together that have one name and one world and were trained the
  same way but for the seed. An entry of theirs holds the mean, the least and
  the greatest of the seeds' values as `value`, `low` and `high`, and as `seeds`
  how many have a value, of how many.
  """
  together: dict[tuple, list[Run]] = {}
  for number, run in enumerate(runs):
    recipe = run.entries[0].get('recipe') if run.entries else None
    key = (run.name, run.world, recipe) if recipe else (number,)
    together.setdefault(key, []).append(run)
  found = []
  for members in together.values():
    several = len(members) > 1 and _apart(members)
    found += [_pool(members)] if several else members
  return found


def _apart(members: Sequence[Run]) -> bool:
  """Were all of them trained, each by itself?"""
  marks = {run.entries[0].get('training') for run in members}
  return len(marks) == len(members) and None not in marks


def _pool(members: Sequence[Run]) -> Run:
  first = members[0]
  return dataclasses.replace(
    first,
    entries=_merge(run.entries for run in members),
    breakdown=_merge(run.breakdown for run in members),
    seeds=tuple(run.entries[0].get('training_seed') for run in members),
  )


def _merge(lists: Iterable[Sequence[Entry]]) -> list[Entry]:
  alike: dict[tuple[str, ...], list[Entry]] = {}
  for entries in lists:
    for entry in entries:
      where = json.dumps(entry.get('where'))
      spec = entry.get('spec') or entry['metric']
      key = spec, entry['quantity'], where
      alike.setdefault(key, []).append(entry)
  return [_mean(entries) for entries in alike.values()]


def _mean(entries: Sequence[Entry]) -> Entry:
  values = [e['value'] for e in entries if e['value'] is not None]
  unmeasured: dict[str, int] = {}
  for entry in entries:
    for cause, num in entry['unmeasured'].items():
      unmeasured[cause] = unmeasured.get(cause, 0) + num
  return {
    **entries[0],
    'n': sum(entry['n'] for entry in entries),
    'clusters': sum(entry.get('clusters', entry['n']) for entry in entries),
    'value': sum(values) / len(values) if values else None,
    'low': min(values, default=None),
    'high': max(values, default=None),
    'unmeasured': unmeasured,
    'seeds': (len(values), len(entries)),
  }
