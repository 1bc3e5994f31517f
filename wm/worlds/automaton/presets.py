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
"""

from __future__ import annotations

import re

import numpy as np

from wm import core
from wm.worlds.automaton import machine
from wm.worlds.base import finite_groups

MOST_STATES = 100_000
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
  f'{finite_groups.AVAILABLE}, each of these with _generators behind it'
)


def make(name: str) -> machine.Machine:
  """The automaton of a name; raises InputError where there is none."""
  if name in TOMITA:
    return _tomita(*TOMITA[name])
  if found := re.fullmatch(r'dyck_([1-4])_([1-9][0-9]{0,2})', name):
    return _dyck(int(found[1]), int(found[2]))
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
