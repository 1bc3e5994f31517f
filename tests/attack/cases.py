"""All cases, by category."""

from __future__ import annotations

import collections

from tests.attack import (
  by_call,
  by_file,
  by_flag,
  by_folder,
  by_log,
  by_plugin,
  by_result,
  by_spec,
)
from tests.attack.case import Case

FAMILIES = (
  *(by_flag, by_spec, by_file, by_folder, by_result),
  *(by_plugin, by_call, by_log),
)


def all() -> list[Case]:
  """Every case; titles differ."""
  results = [case for family in FAMILIES for case in family.all()]
  titles = collections.Counter(case.title for case in results)
  twice = [title for title, count in titles.items() if count > 1]
  assert not twice, twice
  return results
