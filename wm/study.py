"""A study: several models on one world, trained, scored, mapped, reported.

Every stage is the library call that its own binary makes, in a run folder of
its own, so a study that was stopped goes on where it was and each of its
models can be looked at, scored again or reported alone.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any

from wm import core, registry


@dataclasses.dataclass(frozen=True)
class Row:
  """One model of the study.

  Attributes:
    name: its name in tables, and of its run folder.
    model: what is scored.
    world: what it is trained on first; None for no training.
  """

  name: str
  model: core.Model
  world: core.World | None


def parse_row(text: str) -> Row:
  """'NAME: MODEL' is scored as it is, 'NAME: MODEL on WORLD' trained first."""
  match = re.fullmatch(r'\s*(\w+)\s*:\s*(.+?)(?:\s+on\s+(.+?))?\s*', text)
  if not match:
    raise core.InputError(
      f"bad row {text!r}: expected 'NAME: MODEL' or 'NAME: MODEL on WORLD'"
    )
  name, model, world = match.groups()
  return Row(
    name,
    registry.make('model', model),
    registry.make('world', world) if world else None,
  )


@dataclasses.dataclass(frozen=True)
class Plan:
  """What a study does to each row.

  Attributes:
    world: where rows without a world of their own are scored.
    metrics: run on every row that has what they need.
    train: (model, world, folder) -> None; samples and trains, resumable.
    score: (row, world, folder) -> None; writes scores.json.
    draw: (row, world, folder) -> None; reconstructs the map it implies.
  """

  world: core.World
  train: Callable[[Row, pathlib.Path], Any]
  score: Callable[[Row, core.World, pathlib.Path], Any]
  draw: Callable[[Row, core.World, pathlib.Path], Any]


def run(
  rows: Sequence[Row], plan: Plan, out: str | pathlib.Path
) -> dict[str, Any]:
  """Runs every stage of every row, then the report over all of them."""
  from wm.report import write

  names = [row.name for row in rows]
  if len(set(names)) < len(names):
    raise core.InputError(f'rows of one name: {", ".join(names)}')
  folders = [pathlib.Path(out) / row.name for row in rows]
  for row, folder in zip(rows, folders, strict=True):
    if row.world:
      plan.train(row, folder)
  for row, folder in zip(rows, folders, strict=True):
    plan.score(row, row.world or plan.world, folder)
    if row.world:
      plan.draw(row, row.world, folder)
  return write.report(folders, pathlib.Path(out) / 'report')
