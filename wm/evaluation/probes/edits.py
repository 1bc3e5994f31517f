"""Edits: places where one label of the state gets another value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.evaluation.probes import probing

# Draws of a label and a value at a place before it is given up.
ATTEMPTS = 64
# Streams of randomness under one seed.
PLACES, DRAWS = 11, 12


class Edits(NamedTuple):
  """One place in each of T sequences, and what is changed there.

  Attributes:
    row: [T] sequence.
    tokens: [T, L] int32.
    place: [T] the token after which the state is edited.
    label: [T] which of the labels that a probe reads.
    old, new: [T] its values, as a probe reads them.
    legal: [T, V] bool, tokens that are legal.
    wanted: [T, V] bool, tokens that are legal in the edited state.
    done: [T] bool, is there an edit?
  """

  row: np.ndarray
  tokens: np.ndarray
  place: np.ndarray
  label: np.ndarray
  old: np.ndarray
  new: np.ndarray
  legal: np.ndarray
  wanted: np.ndarray
  done: np.ndarray

  def take(self, rows: np.ndarray) -> Edits:
    """Some of them, in order."""
    return Edits(*(array[rows] for array in self))


def draw(
  world: core.Labelled,
  sequences: core.Sequences,
  points: probing.Points,
  chosen: np.ndarray,
  values: Sequence[np.ndarray],
  seed: int,
  *,
  label: int = -1,
  value: int = -1,
) -> Edits:
  """One edit of each sequence that has chosen points.

  The place is uniform over these points; label and value are uniform over
  those that give a state with other legal tokens.

  Args:
    world: whose states.
    sequences: of the world.
    points: labelled places of them.
    chosen: [P] bool, points that may be edited.
    values: ascending, those that each of the K labels may get.
    seed: of all draws; each sequence has its own.
    label, value: the only ones, where they are not -1.
  """
  at = _one_a_row(points, chosen, seed)
  row, place = points.row[at], points.position[at]
  tokens = sequences.tokens[row]
  states = world.walk(world.init(len(at)), tokens, place + 1)[1]
  legal, none = world.legal(states), np.zeros(len(at), np.int64)
  found = Edits(
    *(row, tokens, place, none, none.copy(), none.copy()),
    *(legal, legal.copy(), np.zeros(len(at), bool)),
  )
  counts = np.array([len(some) for some in values])
  for attempt in range(ATTEMPTS):
    left = np.flatnonzero(~found.done)
    if not left.size:
      break
    # A label and a value of it: uniform over all pairs of both.
    first, second = (
      core.uniforms(seed, DRAWS, row[left], attempt, k) for k in range(2)
    )
    pick = np.searchsorted(np.cumsum(counts), first * counts.sum(), 'right')
    label_T = np.full(len(left), label) if label >= 0 else pick
    place_T = (second * counts[label_T]).astype(np.int64)
    drawn = [values[k][v] for k, v in zip(label_T, place_T, strict=True)]
    new = np.full(len(left), value) if value >= 0 else np.array(drawn)
    old = points.label[at[left], label_T].astype(np.int64)
    edited = _edited(world, states[left], label_T, new)
    wanted = world.legal(edited)
    may = [n in values[k] for k, n in zip(label_T, new, strict=True)]
    good = (
      np.array(may, bool) & (new != old) & (world.state_id(edited) != core.DEAD)
    )
    good &= wanted.any(-1) & (wanted != legal[left]).any(-1)
    rows = left[good]
    found.label[rows], found.wanted[rows] = label_T[good], wanted[good]
    found.old[rows], found.new[rows] = old[good], new[good]
    found.done[rows] = True
  return found


def _one_a_row(
  points: probing.Points, chosen: np.ndarray, seed: int
) -> np.ndarray:
  """[T] one of the chosen points of each sequence, by row."""
  some = np.flatnonzero(chosen)
  keys = core.hash64(seed, PLACES, points.row[some], points.position[some])
  some = some[np.lexsort((keys, points.row[some]))]
  return some[np.unique(points.row[some], return_index=True)[1]]


def _edited(
  world: core.Labelled, states: np.ndarray, label: np.ndarray, new: np.ndarray
) -> np.ndarray:
  """States with another value, as a probe reads it, of its label `label`."""
  heads = world.heads
  first = heads.probe.start if heads.probe is not None else 0
  if heads.turn is not None and heads.mine:
    turn = world.labels(states)[:, heads.turn].astype(np.int64)
    new = probing.by_mover(new, turn, heads.sizes[first])
  return world.edited(states, first + label, new)
