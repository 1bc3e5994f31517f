"""Looks up what plug-ins declare of themselves, for entries that name them.

Entries are data: a plug-in in a file that is not trusted is not run, and
declares nothing. Its numbers are shown; what is drawn by its code is not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from wm import core
from wm.core import registry, trust
from wm.reporting.collect import Entry


def is_known(name: str) -> bool:
  """Is it a plug-in of wm, or in a file that may run?"""
  return all(map(trust.allowed, registry.files(name)))


def metric(name: str) -> type[core.Metric]:
  """Returns the class of a metric; core.Metric, which declares nothing, for one
  that is not known.
  """
  return registry.find('metric', name) if is_known(name) else core.Metric


def fields(name: str) -> tuple[dataclasses.Field, ...]:
  """Returns the fields of a metric; () for one that is not known."""
  cls: Any = metric(name)
  return dataclasses.fields(cls) if is_known(name) else ()


def headline(name: str, quantities: Iterable[str]) -> Sequence[str]:
  """Returns the headline quantities of a metric; all of these for one that is
  not known.
  """
  names = metric(name).headline
  return names if is_known(name) else tuple(dict.fromkeys(quantities))


def left_out(entries: Sequence[Entry]) -> list[str]:
  """Returns a line for each file that entries name and that may not run."""
  names = {
    name: what
    for entry in entries
    for name, what in (
      (entry['metric'], 'its words and pictures'),
      (entry['world'].partition('(')[0].strip(), 'pictures of its states'),
    )
    if not is_known(name)
  }
  return [
    f'{name}: {what} are left out, as code that results name is not run; add '
    f'--trust={next(registry.files(name))} to run it'
    for name, what in names.items()
  ]
