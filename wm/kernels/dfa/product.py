"""Pairs of states of an automaton: what is legal from one and not the other.

States are (row, goal) of a transition table, see `wm.kernels.dfa.table`. The
searches follow both states at once: the product of the table with itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.kernels.base import checks

VARIANTS = ('exact', 'published')


class Suffixes(NamedTuple):
  """Suffixes of many pairs; those of pair t are rows offsets[t]:offsets[t + 1].

  Attributes:
    offsets: [T + 1] int64.
    labels: [N, depth] int8, DEAD after each suffix's last; A is the end label.
    lengths: [N] int8.
  """

  offsets: np.ndarray
  labels: np.ndarray
  lengths: np.ndarray


def boundary(
  delta: np.ndarray,
  first: np.ndarray,
  second: np.ndarray,
  first_goal: np.ndarray,
  second_goal: np.ndarray,
  depth: int,
  variant: str = 'exact',
  *,
  turns: np.ndarray | None = None,
  known: np.ndarray | None = None,
  end_first: bool = False,
) -> Suffixes:
  """Myhill-Nerode boundaries of T pairs of states, up to a length bound.

  The boundary holds the suffixes of at most `depth` labels that are legal
  from the first state and not from the second while every proper prefix is
  legal from both (Vafa et al. 2024, Def. 2.4). Shorter ones come first, then
  the order is that of the labels.

  Args:
    delta: [S, A].
    first: [T] rows, DEAD for a state from which nothing is legal.
    second: [T] rows.
    first_goal: [T], NONE where there is none.
    second_goal: [T].
    depth: longest suffix, 1..127.
    variant: 'exact', or 'published': only what the published program lists.
      That program enumerates continuations of exactly `depth` labels, knows
      no end label, and leaves a row at the first label, in the row's own
      order, that leads to a row without an entry of its own.
    turns: [S, A] label order of each row, DEAD padded; ascending by default.
      Read by 'published' only.
    known: [S] bool, rows that have an entry; by default those with any legal
      label. Read by 'published' only.
    end_first: whether the end label is the lowest of all or the highest.

  Raises:
    InputError: rows outside the table, unequal lengths, or a depth or a
      variant that there is not.
  """
  from wm.kernels.dfa import product_numba

  delta = checks.table(delta)
  if variant not in VARIANTS:
    raise core.InputError(
      f'unknown boundary variant {variant!r}; available: {VARIANTS}'
    )
  if not 1 <= depth <= 127:
    raise core.InputError(f'depth is {depth}; expected 1..127')
  columns = {
    'first': checks.rows(first, len(delta), 'first'),
    'second': checks.rows(second, len(delta), 'second'),
    'first_goal': checks.goals(first_goal, len(delta), 'first_goal'),
    'second_goal': checks.goals(second_goal, len(delta), 'second_goal'),
  }
  checks.same_length(**columns)
  pairs = tuple(columns.values())
  # Without rules all labels are followed, to any row.
  rules = (checks.frozen(np.ones((0, 0)), bool),) * 2
  if variant == 'published':
    rules = _published(delta, turns, known, depth)
    # That program knows no end label: no row is a goal.
    nowhere = checks.frozen(np.full(len(pairs[0]), checks.NONE), np.int32)
    pairs = *pairs[:2], nowhere, nowhere
  found = product_numba.boundary(delta, rules, pairs, depth, end_first)
  return Suffixes(*found)


def _published(
  delta: np.ndarray,
  turns: np.ndarray | None,
  known: np.ndarray | None,
  depth: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Labels that the published program follows, and rows that it goes on from.

  It leaves a row at the first label, in the row's order, that leads to a row
  without an entry: the labels after that one are lost. The end label leads to
  no row and comes last, so it is always lost.

  Returns:
    allowed: [S, A] bool, labels that it takes from each row.
    alive: [S, depth + 1] bool, whether a continuation of that length exists.
      Of a suffix the program keeps those whose labels are all allowed and
      that reach a row with a continuation of the length that is left.
  """
  if turns is None:
    every = np.broadcast_to(np.arange(delta.shape[1]), delta.shape)
    turns = np.where(delta >= 0, every, core.DEAD)
  entry = (delta >= 0).any(1) if known is None else np.asarray(known, bool)
  entry = np.append(entry, False)  # DEAD reads the last.
  allowed = np.zeros(delta.shape, bool)
  rows = np.arange(len(delta))
  running = np.ones(len(delta), bool)  # Rows not left yet.
  for label in np.asarray(turns).T:
    here = label >= 0
    running &= ~here | entry[delta[rows, label]]
    allowed[rows[here & running], label[here & running]] = True
  alive = np.ones((len(delta), depth + 1), bool)
  for left in range(1, depth + 1):
    alive[:, left] = (allowed & alive[delta, left - 1]).any(1)
  return checks.frozen(allowed, bool), checks.frozen(alive, bool)
