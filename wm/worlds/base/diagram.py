"""Pictures of automata: a table of the moves of one state."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from wm.core.capabilities import Box
from wm.worlds.base import svg
from wm.worlds.base.table import TableWorld

LISTED_MOVES = 16  # Moves listed for a state.


def draw(automaton: TableWorld, row: int) -> str:
  """SVG of the legal tokens of a row and their next states; DEAD has none."""
  name = automaton.format(np.array([row]))
  listed, more = _listed(automaton, row)
  if not listed:
    return svg.card([name])
  rows = [
    (automaton.vocab[k], automaton.format(automaton.delta[row, k - 1 : k]))
    for k in listed
  ]
  notes = [f'and {more} more'] if more else []
  return svg.table(('token', 'leads to'), rows, f'at {name}', notes=notes)


def move_boxes(
  automaton: TableWorld, row: int, tokens: Iterable[int]
) -> dict[int, list[Box]]:
  """Token -> box of its line in the table that `draw` makes of a row."""
  listed, _ = _listed(automaton, row)
  return {
    token: [svg.row_box(listed.index(token))]
    for token in tokens
    if token in listed
  }


def _listed(automaton: TableWorld, row: int) -> tuple[list[int], int]:
  """Tokens in the table of a row, and the number of further legal tokens."""
  legal = np.flatnonzero((automaton.delta[row] >= 0) & (row >= 0)) + 1
  return legal[:LISTED_MOVES].tolist(), max(len(legal) - LISTED_MOVES, 0)
