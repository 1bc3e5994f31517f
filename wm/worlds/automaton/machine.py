"""Deterministic automata, and their reduction to the states of a world.

A world keeps a state if some word reaches it from the start and some word leads
from it to acceptance. States that accept the same words are merged. The table
of S kept states and A symbols:

                 column 0     columns 1..A
                 `end`        the symbols
    row 0..S-1   S or DEAD    next row or DEAD      row 0 is the start
    row S        DEAD         DEAD                  reached by `end`

An automaton without accepting states has neither column 0 nor row S.

Presets are automata known by name:

tomita1 .. tomita7: the seven languages over 0 and 1 of Tomita (1982), as
complete minimal automata. Their trap states count as dead ends.

dyck_K_D: balanced words of K kinds of brackets, nested at most D deep. A state
is the stack of open brackets.

z5, s3, a5 ..: the word problem of a finite group (see `groups`), that is, the
words over its elements whose product is the identity. z5_generators and the
like have words over a few generators of the group. The `groups` world has the
same tables without `end`, for models that are trained to predict the state.

random_STATES_SYMBOLS_LEGAL_SEED: a random automaton without accepting states.
There are three sets of LEGAL symbols; each state has one of them at random, so
that equal legal symbols say nothing about the distance of two states. Random
play visits all states equally often in the long run. STATES is from 3 to
1,000,000, and SYMBOLS from 3 to 125. LEGAL is at least 2, as with 1 play is a
single cycle; less than SYMBOLS, so that three sets exist; and at least a third
of SYMBOLS, so that every symbol is in one of the sets.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy

from wm import core
from wm.core import inputs
from wm.kernels import dfa
from wm.worlds import groups

END, OVER, PADDING = 'end', 'over', '<pad>'
RESERVED = ('dead', OVER)  # State names that files must not use.
MOST_SYMBOLS = 4096
PRESET_SYMBOLS = 125  # Limit for random automata and word problems.
SHOWN = 3  # Number of members in the name of a merged state.


# States, symbols and next states, E of each.
Edges = tuple[Sequence[str], Sequence[str], Sequence[str]]


class FiniteAutomaton(NamedTuple):
  """An automaton before reduction.

  Attributes:
    symbols: A symbols of the alphabet, in order.
    states: names in order, or None for unnamed states.
    delta: [S, A] int32 next states, DEAD if illegal.
    start: the state of the empty word.
    accepting: [S] bool, or None where sequences just stop.
    read_as: interpretation of its file, see core.Described.
  """

  symbols: tuple[str, ...]
  states: tuple[str, ...] | None
  delta: np.ndarray
  start: int
  accepting: np.ndarray | None
  read_as: Mapping[str, str] = types.MappingProxyType({})


class Reduced(NamedTuple):
  """The part of a machine that a world keeps.

  Attributes:
    delta: int32 table, see the module's docstring.
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
  edges: Edges,
  start: str,
  accepting: Sequence[str] | None,
  symbols: Sequence[str] | None = None,
) -> FiniteAutomaton:
  """A machine of named states.

  Args:
    where: name of the source in errors, such as a path.
    states: all names.
    edges: states, symbols and next states, E of each.
    start: one of the states.
    accepting: some of the states, or None where sequences just stop.
    symbols: the alphabet in order; None is the edges' symbols, sorted. Blanks
      in them become '_'.

  Raises:
    InputError: an unknown state or symbol, an invalid name, or two edges from
      one state with one symbol.
  """
  sources, labels, targets = edges
  if symbols is None:
    symbols = sorted({*labels})
  tokens = ['_'.join(symbol.split()) for symbol in symbols]
  _check_symbols(where, tokens, accepting is not None)
  row = _numbered(where, 'state', states)
  column = _numbered(where, 'symbol', symbols)
  for token, symbol in zip(tokens, symbols, strict=True):
    if tokens.count(token) > 1 and token != symbol:
      raise core.InputError(
        f'{where}: symbol {symbol!r} becomes {token!r}, which another one is, '
        'too; expected symbols that differ by more than blanks'
      )
  for state in RESERVED:
    if state in row:
      raise core.InputError(
        f'{where}: a state is named {state!r}; the names {", ".join(RESERVED)} '
        'are taken: rename it'
      )
  delta = np.full((len(states), len(symbols)), core.DEAD, np.int32)
  at = (
    _places(where, 'state', sources, row),
    _places(where, 'symbol', labels, column),
  )
  following = _places(where, 'state', targets, row)
  delta[at] = following
  if (unlike := delta[at] != following).any():  # A later edge took its place.
    first = int(unlike.argmax())
    same = (at[0] == at[0][first]) & (at[1] == at[1][first])
    second = int((same & (following != following[first])).argmax())
    raise core.InputError(
      f'{where}: state {sources[first]!r} leads with {labels[first]!r} to both '
      f'{targets[first]!r} and {targets[second]!r}; expected a deterministic '
      'automaton'
    )
  final = None
  if accepting is not None:
    final = np.zeros(len(states), bool)
    final[_places(where, 'state', accepting, row)] = True
  (head,) = _places(where, 'start state', [start], row).tolist()
  return FiniteAutomaton(tuple(tokens), tuple(states), delta, head, final)


def _check_symbols(where: str, symbols: Sequence[str], ends: bool) -> None:
  """Raises InputError for symbols that cannot be tokens."""
  taken = (PADDING, END) if ends else (PADDING,)
  for symbol in symbols:
    if not symbol or symbol in taken:
      raise core.InputError(
        f'{where}: {symbol!r} is no symbol; expected words other than '
        f'{", ".join(taken)}'
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


def _places(
  where: str, what: str, names: Sequence[str], numbers: dict[str, int]
) -> np.ndarray:
  """[N] numbers of N names; raises InputError for an unknown one."""
  try:
    return np.fromiter(map(numbers.__getitem__, names), np.int32, len(names))
  except KeyError as error:
    name = error.args[0]
    inputs.check_known(name, numbers, f'{where}: unknown {what} {name!r}', 8)
    raise


def reduced(where: str, machine: FiniteAutomaton) -> Reduced:
  """Drops useless states, merges equal ones, numbers the rest breadth first.

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
  classes = np.zeros(len(useful), np.int32) if final is None else final
  block = dfa.minimize(delta, classes)
  # A state of each block stands for all of them.
  _, order = np.unique(block, return_index=True)
  after = np.append(block, core.DEAD)[delta[order]]
  order = order[dfa.breadth_first(after, int(block[place[machine.start]]))]
  row = np.full(block.max() + 2, core.DEAD, np.int32)
  row[block[order]] = np.arange(len(order))
  small = row[np.append(block, core.DEAD)[delta[order]]]
  table = _table(small, None if final is None else final[order])
  place = row[block]
  merged = useful[np.argsort(place, kind='stable')]
  sizes = np.bincount(place)
  names, rows = _names(machine.states, merged, sizes, final is not None)
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
  """[rows] float64 fewest steps to the last row, inf if it is unreachable."""
  sources, labels = np.nonzero(table >= 0)
  # SciPy before 1.15 supports only int32 and does not convert.
  edges = np.stack([table[sources, labels], sources]).astype(np.int32)
  back = scipy.sparse.coo_array(
    (np.ones(len(sources)), tuple(edges)), (len(table),) * 2
  )
  return scipy.sparse.csgraph.dijkstra(
    back.tocsr(), indices=len(table) - 1, unweighted=True
  )


def _names(
  states: tuple[str, ...] | None,
  merged: np.ndarray,
  sizes: np.ndarray,
  ends: bool,
) -> tuple[tuple[str, ...], dict[str, int]]:
  """Names of all rows, and the row of each name.

  merged: states by row, of which row r has sizes[r].
  """
  if states is None:
    sizes = np.ones(len(sizes), int)
    each = [f'q{row}' for row in range(len(sizes))]
  else:
    each = [states[k] for k in merged.tolist()]
  numbers = np.repeat(np.arange(len(sizes)), sizes).tolist()
  rows = dict(zip(each, numbers, strict=True))
  last = np.cumsum(sizes)
  names = [each[k] for k in (last - sizes).tolist()]
  # Few rows have several states: no list is made for each of the others.
  for row in np.flatnonzero(sizes > 1).tolist():
    group = each[last[row] - sizes[row] : last[row]]
    more = len(group) - SHOWN
    name = '|'.join(group[:SHOWN]) + (f'|+{more}' if more > 0 else '')
    while rows.get(name, row) != row:  # A state of the file has this name.
      name += "'"
    names[row] = name
    rows[name] = row
  if ends:
    rows[OVER] = len(names)
    names.append(OVER)
  return tuple(names), rows


MOST_STATES = 1_000_000
# Number of sets of legal symbols of a random automaton, and limit of draws.
LEGAL_SETS, ATTEMPTS = 3, 1000
LEAST_LEGAL = 2
RANDOM_EXAMPLE = 'random_12_6_3_0'  # Example in errors.
BRACKETS = ('()', '[]', '{}', '<>')

# Accepting states; then, for each state, the next states for 0 and 1. State 0
# is the start.
TOMITA = {
  # Only ones.
  'tomita1': ('0', '10 11'),
  # Repetitions of 10.
  'tomita2': ('0', '21 02 22'),
  # After any odd run of ones, only even runs of zeros.
  'tomita3': ('013', '01 20 34 23 44'),
  # No three zeros in a row.
  'tomita4': ('012', '10 20 30 33'),
  # An even number of zeros, and of ones.
  'tomita5': ('0', '12 03 30 21'),
  # Zeros and ones differ in number by a multiple of 3.
  'tomita6': ('0', '12 20 01'),
  # Zeros, ones, zeros, ones; each run may be empty.
  'tomita7': ('0123', '01 21 23 43 44'),
}
PRESETS = (
  'tomita1 to tomita7, dyck_KINDS_DEPTH such as dyck_2_3, '
  f'random_STATES_SYMBOLS_LEGAL_SEED such as {RANDOM_EXAMPLE}, '
  f'{groups.AVAILABLE}, each of these with _generators behind it'
)


def preset(name: str) -> FiniteAutomaton:
  """The automaton of a name; raises InputError where there is none."""
  if name in TOMITA:
    return _tomita(*TOMITA[name])
  if match := re.fullmatch(r'dyck_([1-4])_([1-9][0-9]{0,2})', name):
    return _dyck(int(match[1]), int(match[2]))
  if match := re.fullmatch(r'random((?:_[0-9]{1,9}){4})', name):
    return _random(name, *map(int, match[1][1:].split('_')))
  group = name.removesuffix('_generators')
  if groups.kind_and_degree(group) is None:
    raise core.InputError(
      f'automaton: unknown preset {name!r}; available: {PRESETS}'
    )
  return _word_problem(name, groups.make_group(group))


def _tomita(final: str, table: str) -> FiniteAutomaton:
  delta = np.array([[int(head) for head in row] for row in table.split()])
  accepting = np.isin(np.arange(len(delta)), [int(k) for k in final])
  return FiniteAutomaton(('0', '1'), None, delta.astype(np.int32), 0, accepting)


def _dyck(kinds: int, depth: int) -> FiniteAutomaton:
  """Stacks by depth, then in order of the brackets' kinds."""
  size = sum(kinds**k for k in range(depth + 1))
  if size > MOST_STATES:
    raise core.InputError(
      f'automaton: dyck_{kinds}_{depth} has {size:,} states; at most '
      f'{MOST_STATES:,} are supported'
    )
  stacks = ['']
  for stack in stacks:  # The list grows during the loop.
    if len(stack) < depth:
      stacks += [stack + pair[0] for pair in BRACKETS[:kinds]]
  row = {stack: k for k, stack in enumerate(stacks)}
  delta = np.full((size, 2 * kinds), core.DEAD, np.int32)
  for stack, k in row.items():
    for kind, pair in enumerate(BRACKETS[:kinds]):
      delta[k, 2 * kind] = row.get(stack + pair[0], core.DEAD)
      if stack.endswith(pair[0]):
        delta[k, 2 * kind + 1] = row[stack[:-1]]
  symbols = tuple(''.join(BRACKETS[:kinds]))
  names = ('empty', *stacks[1:])
  return FiniteAutomaton(symbols, names, delta, 0, np.arange(size) == 0)


def _word_problem(name: str, group: groups.FiniteGroup) -> FiniteAutomaton:
  size = len(group.elements)
  rows = np.arange(size)
  if name.endswith('_generators'):
    rows = group.generators()
  if len(rows) > PRESET_SYMBOLS:
    raise core.InputError(
      f'automaton: {name} has {len(rows)} symbols; at most '
      f'{PRESET_SYMBOLS} are supported: {name}_generators has few'
    )
  symbols = tuple(group.names[row] for row in rows)
  delta = group.products(rows)
  return FiniteAutomaton(symbols, group.names, delta, 0, np.arange(size) == 0)


def _random(
  name: str, states: int, symbols: int, legal: int, seed: int
) -> FiniteAutomaton:
  """A random automaton, drawn again until strongly connected and minimal.

  The moves are drawn first, LEGAL into and out of each state, so that random
  play is uniform over states; then their symbols. Distances depend only on the
  moves, and the sets of symbols are independent of the moves. Moves with equal
  symbols may lead to one state, so that the last symbols soon reveal the state.
  """
  if not (
    LEGAL_SETS <= states <= MOST_STATES
    and LEGAL_SETS <= symbols <= PRESET_SYMBOLS
    and max(LEAST_LEGAL, symbols / LEGAL_SETS) <= legal < symbols
  ):
    raise core.InputError(
      f'automaton: preset {name!r}; expected STATES from {LEGAL_SETS} to '
      f'{MOST_STATES:,}, SYMBOLS from {LEGAL_SETS} to {PRESET_SYMBOLS}, '
      f'and LEGAL at least {LEAST_LEGAL}, at least a third of SYMBOLS, and '
      f'less than SYMBOLS; available: such as {RANDOM_EXAMPLE}'
    )
  rng = np.random.default_rng(seed)
  moves = _connected(name, states, legal, rng)
  for _ in range(ATTEMPTS):
    delta = np.full((states, symbols), core.DEAD, np.int32)
    columns = _dealt(states, symbols, legal, rng)
    np.put_along_axis(delta, columns, moves, axis=1)
    blocks = dfa.minimize(delta, np.zeros(states, np.int32))
    sets = np.unique(columns, axis=0)
    if len(sets) == LEGAL_SETS and len(np.unique(blocks)) == states:
      labels = tuple(f'a{k}' for k in range(symbols))
      return FiniteAutomaton(labels, None, delta, 0, None)
  raise core.InputError(_none(name, 'minimal'))


def _none(name: str, what: str) -> str:
  return (
    f'automaton: preset {name!r}: none of {ATTEMPTS} draws is {what}; '
    'available: another SEED, or a greater LEGAL'
  )


def _dealt(
  states: int, symbols: int, legal: int, rng: np.random.Generator
) -> np.ndarray:
  """[states, legal] ascending legal symbols; every symbol is in some set."""
  order = rng.permutation(symbols)
  sets = []
  for first in range(LEGAL_SETS):
    part = order[first::LEGAL_SETS]
    rest = rng.permutation(np.setdiff1d(order, part))
    sets.append(np.sort(np.concatenate([part, rest])[:legal]))
  return np.array(sets)[rng.permutation(np.arange(states) % LEGAL_SETS)]


def _connected(
  name: str, states: int, legal: int, rng: np.random.Generator
) -> np.ndarray:
  """[states, legal] int32 moves, `legal` of them into each state."""
  for _ in range(ATTEMPTS):
    heads = np.repeat(np.arange(states, dtype=np.int32), legal)
    moves = rng.permutation(heads).reshape(states, legal)
    # As in- and out-degrees are equal, reachability is mutual.
    if dfa.reachable(moves, np.array([0])).all():
      return moves
  raise core.InputError(_none(name, 'connected'))
