"""Deterministic automata as given, and the part of them that a world keeps.

A world keeps a state if some word reaches it from the start and some word leads
from it to acceptance. States from which the same words are accepted become one.
The table of S kept states and A symbols:

                 column 0     columns 1..A
                 `end`        the symbols
    row 0..S-1   S or DEAD    next row or DEAD      row 0 is the start
    row S        DEAD         DEAD                  reached by `end`

An automaton without accepting states has neither column 0 nor row S.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from wm import core
from wm.kernels import dfa

END, OVER, PADDING = 'end', 'over', '<pad>'
RESERVED = ('dead', OVER)  # Written forms of states that no file has.
MOST_SYMBOLS = 125  # Compiled kernels take 126 labels; one is `end`.
SHOWN = 3  # A merged state's name lists so many of its members.


class Machine(NamedTuple):
  """An automaton as it was given.

  Attributes:
    symbols: of the alphabet, in order; A of them.
    states: names in order, or None where they have none.
    delta: [S, A] int32 next states, DEAD where there is none.
    start: the state of the empty word.
    accepting: [S] bool, or None where sequences just stop.
  """

  symbols: tuple[str, ...]
  states: tuple[str, ...] | None
  delta: np.ndarray
  start: int
  accepting: np.ndarray | None


class Reduced(NamedTuple):
  """The part of a machine that a world keeps.

  Attributes:
    delta: int32 table, as drawn at the top of the module.
    names: name of each row.
    rows: name -> row; each member of a merged state has its own name here too.
    need: [rows] int64 fewest tokens to the end of a sequence, `end` included;
      all 0 without accepting states.
    facts: counts for `core.Described.stats`.
  """

  delta: np.ndarray
  names: tuple[str, ...]
  rows: dict[str, int]
  need: np.ndarray
  facts: dict[str, int]


def build(
  where: str,
  states: Sequence[str],
  edges: Iterable[tuple[str, str, str]],
  start: str,
  accepting: Sequence[str] | None,
  symbols: Sequence[str] | None = None,
) -> Machine:
  """A machine of named states.

  Args:
    where: name of the source in errors, such as a path.
    states: all names.
    edges: (state, symbol, next state).
    start: one of the states.
    accepting: some of the states, or None where sequences just stop.
    symbols: the alphabet in order; None is the edges' symbols, sorted.

  Raises:
    InputError: an unknown state or symbol, a name that cannot be used, or two
      edges from one state with one symbol.
  """
  edges = list(edges)
  if symbols is None:
    symbols = sorted({symbol for _, symbol, _ in edges})
  _check_symbols(where, symbols, accepting is not None)
  row = _numbered(where, 'state', states)
  column = _numbered(where, 'symbol', symbols)
  for state in RESERVED:
    if state in row:
      raise core.InputError(
        f'{where}: a state is named {state!r}; the names {", ".join(RESERVED)} '
        'are taken: rename it'
      )
  delta = np.full((len(states), len(symbols)), core.DEAD, np.int32)
  for state, symbol, after in edges:
    at = (
      _known(where, 'state', state, row),
      _known(where, 'symbol', symbol, column),
    )
    following = _known(where, 'state', after, row)
    if delta[at] not in (core.DEAD, following):
      raise core.InputError(
        f'{where}: state {state!r} leads with {symbol!r} to both '
        f'{states[delta[at]]!r} and {after!r}; expected a deterministic '
        'automaton'
      )
    delta[at] = following
  final = None
  if accepting is not None:
    final = np.zeros(len(states), bool)
    final[[_known(where, 'state', name, row) for name in accepting]] = True
  first = _known(where, 'start state', start, row)
  return Machine(tuple(symbols), tuple(states), delta, first, final)


def _check_symbols(where: str, symbols: Sequence[str], ends: bool) -> None:
  """Raises InputError where symbols cannot be tokens."""
  taken = (PADDING, END) if ends else (PADDING,)
  for symbol in symbols:
    if symbol.split() != [symbol] or symbol in taken:
      raise core.InputError(
        f'{where}: {symbol!r} is no symbol; expected words without blanks '
        f'other than {", ".join(taken)}'
      )
  if not 1 <= len(symbols) <= MOST_SYMBOLS:
    raise core.InputError(
      f'{where} has {len(symbols)} symbols; expected 1 to {MOST_SYMBOLS}'
    )


def _numbered(where: str, what: str, names: Sequence[str]) -> dict[str, int]:
  rows: dict[str, int] = {}
  for name in names:
    if not name or name != name.strip() or name in rows:
      wrong = 'is there twice' if name in rows else 'is no name'
      raise core.InputError(f'{where}: {what} {name!r} {wrong}')
    rows[name] = len(rows)
  return rows


def _known(where: str, what: str, name: str, numbers: dict[str, int]) -> int:
  if name not in numbers:
    listed = ', '.join([*numbers][:8]) + (', ...' if len(numbers) > 8 else '')
    raise core.InputError(
      f'{where}: unknown {what} {name!r}; available: {listed}'
    )
  return numbers[name]


def reduced(where: str, machine: Machine, minimise: bool) -> Reduced:
  """Drops useless states, merges equal ones, numbers the rest breadth first.

  minimise: whether states from which the same words are accepted become one.

  Raises:
    InputError: the machine accepts no word.
  """
  reach = dfa.reachable(machine.delta, np.array([machine.start]))
  alive = np.ones(len(reach), bool)
  if machine.accepting is not None:
    need = _distances(_table(machine.delta, machine.accepting))
    alive = np.isfinite(need[:-1])
  if not alive[machine.start]:
    raise core.InputError(f'{where} accepts no word: its language is empty')
  useful = np.flatnonzero(reach & alive)
  place = np.full(len(reach) + 1, core.DEAD, np.int32)  # DEAD is the last.
  place[useful] = np.arange(len(useful))
  delta = place[machine.delta[useful]]
  final = None if machine.accepting is None else machine.accepting[useful]
  block = np.arange(len(useful), dtype=np.int32)
  if minimise:
    block = dfa.minimize(delta, block * 0 if final is None else final)
  order = _breadth_first(delta, block, int(place[machine.start]))
  row = np.full(block.max() + 2, core.DEAD, np.int32)
  row[block[order]] = np.arange(len(order))
  small = row[np.append(block, core.DEAD)[delta[order]]]
  table = _table(small, None if final is None else final[order])
  place = row[block]
  members = np.split(
    useful[np.argsort(place, kind='stable')], np.cumsum(np.bincount(place))[:-1]
  )
  names, rows = _names(machine.states, members, final is not None)
  stuck = reach & ~alive
  if final is None:
    stuck = reach & (machine.delta < 0).all(1)
  facts = {
    'states': len(order),
    'states_given': len(reach),
    'unreachable': int((~reach).sum()),
    'dead_ends': int(stuck.sum()),
    'merged': len(useful) - len(order),
  }
  need = _distances(table) if final is not None else np.zeros(len(table))
  return Reduced(table, names, rows, need.astype(np.int64), facts)


def _table(delta: np.ndarray, accepting: np.ndarray | None) -> np.ndarray:
  """`delta` with the column of `end` and row S, if any state accepts."""
  if accepting is None:
    return delta
  over = len(delta)
  ends = np.where(accepting, over, core.DEAD).astype(np.int32)
  wide = np.column_stack([ends, delta])
  after = np.full((1, wide.shape[1]), core.DEAD, np.int32)
  return np.concatenate([wide, after])


def _distances(table: np.ndarray) -> np.ndarray:
  """[rows] float64 fewest steps to the last row, infinite if there are none."""
  sources, labels = np.nonzero(table >= 0)
  # SciPy before 1.15 searches by int32 alone, and makes no copy of its own.
  edges = np.stack([table[sources, labels], sources]).astype(np.int32)
  back = sparse.coo_array(
    (np.ones(len(sources)), tuple(edges)), (len(table),) * 2
  )
  return csgraph.dijkstra(back.tocsr(), indices=len(table) - 1, unweighted=True)


def _breadth_first(
  delta: np.ndarray, block: np.ndarray, start: int
) -> np.ndarray:
  """The first state met of each block, in breadth-first order from `start`."""
  order, seen = [start], {int(block[start])}
  queue = collections.deque(order)
  while queue:
    for after in delta[queue.popleft()].tolist():
      if after >= 0 and int(block[after]) not in seen:
        seen.add(int(block[after]))
        order.append(after)
        queue.append(after)
  return np.array(order)


def _names(
  states: tuple[str, ...] | None, members: list[np.ndarray], ends: bool
) -> tuple[tuple[str, ...], dict[str, int]]:
  """Names of all rows, and the row that each name stands for."""
  groups = [
    [f'q{row}'] if states is None else [states[k] for k in merged]
    for row, merged in enumerate(members)
  ]
  rows = {name: row for row, group in enumerate(groups) for name in group}
  names = []
  for row, group in enumerate(groups):
    more = len(group) - SHOWN
    name = '|'.join(group[:SHOWN]) + (f'|+{more}' if more > 0 else '')
    while rows.get(name, row) != row:  # A state of the file is called so.
      name += "'"
    names.append(name)
    rows[name] = row
  if ends:
    rows[OVER] = len(names)
    names.append(OVER)
  return tuple(names), rows
