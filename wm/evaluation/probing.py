"""Labelled positions of sequences, and a model's activations there."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import basics

SPLITS = 'heldout', 'train', 'all'  # Splits of a world's sequences.
HELD_OUT = 5  # One in five tasks or points is for testing.


class ProbeMetric(core.Metric):
  """A metric that fits probes."""

  epochs: int

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded; an epoch takes a millisecond at least."""
    cost = super().cost(world)
    fields = (*cost.fields, 'epochs')
    return cost._replace(seconds=1e-3 * self.epochs, fields=fields)


class LabelledPoints(NamedTuple):
  """Positions with a label.

  Attributes:
    row: [P] sequence.
    position: [P] token.
    label: [P, K] integers; K is 1 unless a state has several.
    prompt: [P] bool, a prompt token, whose label is trivial.
  """

  row: np.ndarray
  position: np.ndarray
  label: np.ndarray
  prompt: np.ndarray


def label(world: core.World, sequences: core.Sequences) -> LabelledPoints:
  """All labelled positions, sorted by sequence and position; see `targets`."""
  num, longest = sequences.tokens.shape
  states, last = world.init(num), world.prompt_len - 1
  ends = (sequences.tokens == world.end) & (world.end != core.DEAD)
  none = np.zeros(0, np.int64)
  blocks = [(none, none, targets(world, world.init(1))[:0])]
  for t in range(longest):
    # All sequences advance together: blocks are in order of position.
    rows = np.flatnonzero(t < sequences.lengths)
    states[rows] = world.advance(states[rows], sequences.tokens[rows, t])
    rows = rows[~ends[rows, t]]
    if t != last:
      step_labels = targets(world, states[rows])
      labelled = (step_labels != core.DEAD).all(-1)
      blocks.append(
        (rows[labelled], np.full(labelled.sum(), t), step_labels[labelled])
      )
  row, position, labels = map(np.concatenate, zip(*blocks, strict=True))
  order = np.lexsort((position, row))
  position = position[order]
  return LabelledPoints(row[order], position, labels[order], position < last)


def targets(
  world: core.World, states: np.ndarray, mine: bool | None = None
) -> np.ndarray:
  """[B, K] classes that probes read; DEAD if no side is to move.

  They are the whole state as one class, or the labels of `core.Heads.probe`.

  mine: whether pieces are read as mine and theirs instead of by colour; None is
    the default of the world's heads.
  """
  heads = world.heads if isinstance(world, core.Labelled) else core.Heads(())
  turn, read = heads.turn, heads.probe
  if not isinstance(world, core.Labelled) or read is None:
    return world.state_id(states)[:, None]
  # To save memory, the smallest type that holds all classes and DEAD.
  kind = np.min_scalar_type(-max(heads.sizes))
  labels = world.labels(states).astype(kind)
  read_labels = labels[:, read]
  if turn is None or not (heads.mine if mine is None else mine):
    return read_labels
  # Colours become mine and theirs, depending on the side to move (Nanda et al.
  # 2023).
  mover = labels[:, [turn]]
  read_labels = by_mover(read_labels, mover, heads.sizes[read.start])
  return np.where(mover < 2, read_labels, core.DEAD)


def sizes(world: core.Labelled) -> tuple[int, ...]:
  """Numbers of classes of the labels that probes read.

  Raises:
    InputError: probes read the whole state, which has several labels.
  """
  heads = world.heads
  if heads.probe is None and len(heads.sizes) > 1:
    raise core.InputError(
      f'{world.name} names none of its {len(heads.sizes)} labels to be read '
      'by probes (core.Heads.probe)'
    )
  return heads.sizes[heads.probe] if heads.probe is not None else heads.sizes


def by_mover(pieces: np.ndarray, turn: np.ndarray, classes: int) -> np.ndarray:
  """Converts pieces from colours to mine and theirs, or back.

  pieces: 0 for none, then kinds of one colour, then of the other (or mine,
    then theirs).
  turn: 0 or 1, broadcast to `pieces`: the colour to move.
  classes: number of classes, 2 * kinds + 1.
  """
  kinds = (classes - 1) // 2
  turned = 1 + (pieces - 1 + kinds * turn) % (2 * kinds)
  return np.where(pieces > 0, turned, 0).astype(pieces.dtype)


def activations(
  predictor: core.HiddenStates,
  sequences: core.Sequences,
  points: LabelledPoints,
  layer: int,
) -> np.ndarray:
  """[P, D] float32 activations at the points."""
  parts = []
  for rows in core.predictor.chunks(
    len(sequences), sequences.tokens.shape[1] * 1024
  ):
    hidden = predictor.hidden(
      sequences.tokens[rows], sequences.lengths[rows], layer
    )
    # Points of the sequences of this chunk.
    inside = (points.row >= rows.start) & (points.row < rows.stop)
    at = points.row[inside] - rows.start, points.position[inside]
    parts.append(np.asarray(hidden)[at])
  return np.concatenate(parts).astype(np.float32)


def ridge(
  x: np.ndarray, y: np.ndarray, penalty: float
) -> Callable[[np.ndarray], np.ndarray]:
  """Fits a linear map with intercept from rows [P, D] to targets [P, S].

  penalty: factor of the squared weights of standardised columns, relative to
    the mean square error.
  """
  level, scale = x.mean(0, dtype=np.float64), x.std(0, dtype=np.float64)
  scale = np.where(scale > 0, scale, 1)
  z, mean = (x - level) / scale, y.mean(0)
  # Normal equations: (z'z / P + penalty) w = z'y / P.
  gram = z.T @ z / len(z) + penalty * np.eye(z.shape[1])
  weights = np.linalg.solve(gram, z.T @ (y - mean) / len(z))
  return lambda rows: mean + (rows - level) / scale @ weights


def by_task(points: LabelledPoints, keys: np.ndarray, seed: int) -> np.ndarray:
  """[P] bool: test points, all points of one in HELD_OUT tasks.

  keys: [N] split key of each sequence, which identifies its task.
  """
  tasks, task = np.unique(keys, return_inverse=True)
  # By hash of the task, so that all sequences of a task are in one part.
  order = np.argsort(basics.hash64(seed, tasks), kind='stable')
  chosen = np.zeros(len(tasks), bool)
  chosen[order[: -(-len(tasks) // HELD_OUT)]] = True
  return chosen[task][points.row]


def classes(labels: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
  """Labels [P, K] as classes 0, 1, ... of each column, and their labels."""
  # Softmax needs classes from 0 on; columns may have different values.
  columns = [np.unique(column, return_inverse=True) for column in labels.T]
  kind = np.min_scalar_type(max(len(seen) for seen, _ in columns))
  target = [back.astype(kind) for _, back in columns]
  return np.stack(target, axis=-1), [seen for seen, _ in columns]
