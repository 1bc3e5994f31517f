"""Says where the settings of a run and those of a paper differ."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from wm import core
from wm.core import registry
from wm.reporting import papers, tables
from wm.reporting.collect import Entry, Run
from wm.reporting.papers import Paper, Row, Trained


def differences(source: Paper, row: Row, entry: Entry, run: Run) -> list[str]:
  """Returns the paper's settings that a run lacks, in words; [] if none."""
  trained = source.models.get(papers.model_key(entry['model']), Trained())
  usual = tables.arguments(row.metric)
  fields = registry.find('metric', row.metric).__dataclass_fields__
  metric = {
    key: value
    for key, value in {**usual, **row.fields, **row.settings}.items()
    if key not in row.free and fields[key].compare
  }
  arguments, world = tables.arguments(tables.spec(entry)), entry['world']
  world = filled('world', world)
  if arguments.get('world'):  # It draws what is asked about.
    world |= registry.parse(arguments['world'])[2]
  return [
    *place(source.facts, source.place, entry['world']),
    *lacking({**row.world, **trained.world}, world),
    *(f'{row.metric} {field}' for field in lacking(metric, arguments)),
    *size(trained.model, entry.get('model_spec') or run.training.get('model')),
    *training(trained, run),
  ]


def lacking(
  expected: Mapping[str, Any], values: Mapping[str, Any]
) -> list[str]:
  """Returns 'trials=1000' for each wanted value that differs from the given
  one.
  """
  return [
    key if value == papers.GIVEN else f'{key}={value!r}'
    for key, value in expected.items()
    if not suits(value, values.get(key))
  ]


def training(trained: Trained, run: Run) -> list[str]:
  """As `lacking`; an imported checkpoint counts as trained like the paper's."""
  imported = 'imported_sha256' in run.training
  return [] if imported else lacking(trained.training, run.training)


def place(facts: Mapping[str, int], place: str, world: str) -> list[str]:
  """Returns the name `place` if a world's counts are not `facts`."""
  stats = _facts(world) if facts else {}
  return [place] if any(stats.get(k) != x for k, x in facts.items()) else []


@functools.lru_cache
def _facts(world: str) -> dict[str, int]:
  """Returns a world's counts; {} if its files are missing."""
  try:
    instance = registry.make('world', world)
    return instance.stats() if core.can(instance, core.Described.stats) else {}
  except core.InputError:
    return {}


def size(expected: Mapping[str, Any], spec: str | None) -> list[str]:
  """Returns '48 x 1600' if depth or width differ, then further fields that
  do.
  """
  if not expected:
    return []
  fields = {**filled('model', spec), 'family': _name(spec)} if spec else {}
  missing = lacking(expected, fields)
  size = [x for x in missing if x.split('=')[0] in ('layers', 'width')]
  words = [f'{expected["layers"]} x {expected["width"]}'] if size else []
  return [*words, *(x for x in missing if x not in size)]


def _name(spec: str) -> str:
  return registry.parse(spec)[0]


def filled(kind: str, spec: str) -> dict[str, Any]:
  """Returns a spec's fields, with defaults if the plug-in can be found."""
  name, _, arguments = registry.parse(spec)
  try:
    fields = dataclasses.fields(registry.find(kind, name))
  except core.InputError:
    return arguments
  return {**{field.name: field.default for field in fields}, **arguments}


def suits(expected: Any, value: Any) -> bool:
  """Is a value as wanted?"""
  return bool(value) if expected == papers.GIVEN else expected == value


def has(text: str, fields: Mapping[str, Any]) -> bool:
  """Has the metric of a spec these fields?"""
  arguments = tables.arguments(text)
  return all(suits(value, arguments.get(key)) for key, value in fields.items())
