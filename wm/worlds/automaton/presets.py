"""Automata known by name.

tomita1 .. tomita7: the seven languages over 0 and 1 of Tomita (1982), as
complete minimal automata. Their trap states count as dead ends.

dyck_K_D: balanced words of K kinds of brackets, nested at most D deep. A state
is the stack of open brackets.

z5, s3, a5 ..: the word problem of a finite group (`base.finite_groups`), that
is, the words over its elements whose product is the identity. z5_generators and
the like have words over a few elements that generate the group. The `groups`
world has the same tables without `end`; it is for models that are trained to
name the state.

random_STATES_SYMBOLS_LEGAL_SEED: a random automaton without accepting states.
In each state LEGAL of the symbols are legal, in one of three ways, which are
dealt to the states by chance: whether two states have the same legal symbols
says nothing of how far apart they are. Random play is in all states equally
often in the long run. STATES is from 3 to 100,000, and SYMBOLS from 3 to 125.
LEGAL is at least 2: with 1, play is a single cycle. It is less than SYMBOLS, so
that there are three ways, and at least a third of SYMBOLS, so that every symbol
is in one of them.
"""

from __future__ import annotations

import re

import numpy as np

from wm import core
from wm.kernels import dfa
from wm.worlds.automaton import machine
from wm.worlds.base import finite_groups

MOST_STATES = 100_000
# Sets of legal symbols of a random automaton, and draws until one will do.
LEGAL_SETS, ATTEMPTS = 3, 1000
LEAST_LEGAL = 2
RANDOM = 'random_12_6_3_0'  # What errors name as one that there is.
BRACKETS = ('()', '[]', '{}', '<>')

# Accepting states; then, for each state, the states that 0 and 1 lead to. State
# 0 is the start.
TOMITA = {
  # Ones alone.
  'tomita1': ('0', '10 11'),
  # 10 any number of times.
  'tomita2': ('0', '21 02 22'),
  # After any odd run of ones, only even runs of zeros.
  'tomita3': ('013', '01 20 34 23 44'),
  # No three zeros in a row.
  'tomita4': ('012', '10 20 30 33'),
  # An even number of zeros, and of ones.
  'tomita5': ('0', '12 03 30 21'),
  # Zeros and ones differ in number by a multiple of 3.
  'tomita6': ('0', '12 20 01'),
  # Zeros, ones, zeros, ones, each run may be empty.
  'tomita7': ('0123', '01 21 23 43 44'),
}
AVAILABLE = (
  'tomita1 to tomita7, dyck_KINDS_DEPTH such as dyck_2_3, '
  f'random_STATES_SYMBOLS_LEGAL_SEED such as {RANDOM}, '
  f'{finite_groups.AVAILABLE}, each of these with _generators behind it'
)


def make(name: str) -> machine.Machine:
  """The automaton of a name; raises InputError where there is none."""
  if name in TOMITA:
    return _tomita(*TOMITA[name])
  if match := re.fullmatch(r'dyck_([1-4])_([1-9][0-9]{0,2})', name):
    return _dyck(int(match[1]), int(match[2]))
  if match := re.fullmatch(r'random((?:_[0-9]{1,9}){4})', name):
    return _random(name, *map(int, match[1][1:].split('_')))
  group = name.removesuffix('_generators')
  if finite_groups.kind_and_degree(group) is None:
    raise core.InputError(
      f'automaton: unknown preset {name!r}; available: {AVAILABLE}'
    )
  return _word_problem(name, finite_groups.make(group))


def _tomita(final: str, table: str) -> machine.Machine:
  delta = np.array([[int(head) for head in row] for row in table.split()])
  accepting = np.isin(np.arange(len(delta)), [int(k) for k in final])
  return machine.Machine(('0', '1'), None, delta.astype(np.int32), 0, accepting)


def _dyck(kinds: int, depth: int) -> machine.Machine:
  """Stacks by depth, then in order of the brackets' kinds."""
  size = sum(kinds**k for k in range(depth + 1))
  if size > MOST_STATES:
    raise core.InputError(
      f'automaton: dyck_{kinds}_{depth} has {size:,} states; at most '
      f'{MOST_STATES:,} are supported'
    )
  stacks = ['']
  for stack in stacks:  # It grows as stacks are found.
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
  return machine.Machine(symbols, names, delta, 0, np.arange(size) == 0)


def _word_problem(name: str, group: finite_groups.Group) -> machine.Machine:
  size = len(group.elements)
  rows = np.arange(size)
  if name.endswith('_generators'):
    rows = group.generators()
  if len(rows) > machine.MOST_SYMBOLS:
    raise core.InputError(
      f'automaton: {name} has {len(rows)} symbols; at most '
      f'{machine.MOST_SYMBOLS} are supported: {name}_generators has few'
    )
  symbols = tuple(group.names[row] for row in rows)
  delta = group.products(rows)
  return machine.Machine(symbols, group.names, delta, 0, np.arange(size) == 0)


def _random(
  name: str, states: int, symbols: int, legal: int, seed: int
) -> machine.Machine:
  """Strongly connected and minimal, drawn anew until it is.

  The moves of each state are drawn first, LEGAL into each state and out of it,
  so that random play has no favourites; then the symbols that stand for them.
  Distances depend on the moves alone, and the sets of symbols are dealt
  whatever the moves are. Two moves with one symbol may meet, so that the last
  symbols soon tell the state.
  """
  if not (
    LEGAL_SETS <= states <= MOST_STATES
    and LEGAL_SETS <= symbols <= machine.MOST_SYMBOLS
    and max(LEAST_LEGAL, symbols / LEGAL_SETS) <= legal < symbols
  ):
    raise core.InputError(
      f'automaton: preset {name!r}; expected STATES from {LEGAL_SETS} to '
      f'{MOST_STATES:,}, SYMBOLS from {LEGAL_SETS} to {machine.MOST_SYMBOLS}, '
      f'and LEGAL at least {LEAST_LEGAL}, at least a third of SYMBOLS, and '
      f'less than SYMBOLS; available: such as {RANDOM}'
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
      return machine.Machine(labels, None, delta, 0, None)
  raise core.InputError(_none(name, 'minimal'))


def _none(name: str, what: str) -> str:
  return (
    f'automaton: preset {name!r}: none of {ATTEMPTS} draws is {what}; '
    'available: another SEED, or a greater LEGAL'
  )


def _dealt(
  states: int, symbols: int, legal: int, rng: np.random.Generator
) -> np.ndarray:
  """[states, legal] ascending legal symbols; each symbol is in some set."""
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
  """[states, legal] int32 moves; as many lead into each state as out of it."""
  for _ in range(ATTEMPTS):
    heads = np.repeat(np.arange(states, dtype=np.int32), legal)
    moves = rng.permutation(heads).reshape(states, legal)
    # Such moves that lead from a state to all others also lead back.
    if dfa.reachable(moves, np.array([0])).all():
      return moves
  raise core.InputError(_none(name, 'connected'))
