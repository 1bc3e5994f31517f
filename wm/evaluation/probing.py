"""Labelled places of sequences, and a model's activations there."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import basics

# How a probe reads pieces: as the world's heads say, as mine and theirs, or by
# colour.
PIECES = '', 'mine', 'colours'
SPLITS = 'heldout', 'train', 'all'  # Of a world's sequences.
HELD_OUT = 5  # One part in so many is for testing.


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


def label(
  world: core.World, sequences: core.Sequences, pieces: str = ''
) -> LabelledPoints:
  """All labelled positions, by sequence and then position; see `targets`."""
  num, longest = sequences.tokens.shape
  states, last = world.init(num), world.prompt_len - 1
  ends = (sequences.tokens == world.end) & (world.end != core.DEAD)
  none = np.zeros(0, np.int64)
  blocks = [(none, none, targets(world, world.init(1), pieces)[:0])]
  for t in range(longest):
    # All sequences go on in step: blocks come by position.
    rows = np.flatnonzero(t < sequences.lengths)
    states[rows] = world.advance(states[rows], sequences.tokens[rows, t])
    rows = rows[~ends[rows, t]]
    if t != last:
      step_labels = targets(world, states[rows], pieces)
      labelled = (step_labels != core.DEAD).all(-1)
      blocks.append(
        (rows[labelled], np.full(labelled.sum(), t), step_labels[labelled])
      )
  row, position, labels = map(np.concatenate, zip(*blocks, strict=True))
  order = np.lexsort((position, row))
  position = position[order]
  return LabelledPoints(row[order], position, labels[order], position < last)


def targets(
  world: core.World, states: np.ndarray, pieces: str = ''
) -> np.ndarray:
  """[B, K] classes that probes read out; DEAD where nobody is to move.

  The state as one class, or the labels that `core.Heads.probe` names.

  pieces: one of PIECES.

  Raises:
    InputError: pieces of no side that is to move.
  """
  heads = world.heads if isinstance(world, core.Labelled) else core.Heads(())
  turn, read = heads.turn, heads.probe
  if pieces and turn is None:
    raise core.InputError(
      f'pieces={pieces!r} was given for {world.name}, where no side is to '
      "move; expected pieces=''"
    )
  if not isinstance(world, core.Labelled) or read is None:
    return world.state_id(states)[:, None]
  # Many numbers: the smallest type that holds all classes, and DEAD.
  kind = np.min_scalar_type(-max(heads.sizes))
  labels = world.labels(states).astype(kind)
  read_labels = labels[:, read]
  if turn is None or pieces == 'colours' or not (pieces or heads.mine):
    return read_labels
  # Colours become mine and theirs: which they are follows from who is to move
  # (Nanda et al. 2023).
  mover = labels[:, [turn]]
  read_labels = by_mover(read_labels, mover, heads.sizes[read.start])
  return np.where(mover < 2, read_labels, core.DEAD)


def sizes(world: core.Labelled) -> tuple[int, ...]:
  """Numbers of values of the labels that probes read out.

  Raises:
    InputError: they read the state as one class, which is several labels.
  """
  heads = world.heads
  if heads.probe is None and len(heads.sizes) > 1:
    raise core.InputError(
      f'{world.name} names none of its {len(heads.sizes)} labels to be read '
      'by probes (core.Heads.probe)'
    )
  return heads.sizes[heads.probe] if heads.probe is not None else heads.sizes


def by_mover(pieces: np.ndarray, turn: np.ndarray, classes: int) -> np.ndarray:
  """Pieces of two colours as mine and theirs, or these as colours again.

  pieces: 0 for none, then one colour's kinds, then the other's (mine, theirs).
  turn: 0 or 1, broadcast to `pieces`: the colour that is to move.
  classes: all of these, 2 * kinds + 1.
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
  """The linear map from rows [P, D] to targets [P, S], with an intercept.

  penalty: of squared weights of columns that are standardised, relative to the
    mean square error.
  """
  level, scale = x.mean(0, dtype=np.float64), x.std(0, dtype=np.float64)
  scale = np.where(scale > 0, scale, 1)
  z, mean = (x - level) / scale, y.mean(0)
  # Normal equations: (z'z / P + penalty) w = z'y / P.
  gram = z.T @ z / len(z) + penalty * np.eye(z.shape[1])
  weights = np.linalg.solve(gram, z.T @ (y - mean) / len(z))
  return lambda rows: mean + (rows - level) / scale @ weights


def by_task(points: LabelledPoints, keys: np.ndarray, seed: int) -> np.ndarray:
  """[P] bool: points to test on, all those of one task in HELD_OUT.

  keys: [N] split key of each sequence, which stands for its task.
  """
  tasks, task = np.unique(keys, return_inverse=True)
  # By hash of the task, so that a task's sequences are all in one part.
  order = np.argsort(basics.hash64(seed, tasks), kind='stable')
  chosen = np.zeros(len(tasks), bool)
  chosen[order[: -(-len(tasks) // HELD_OUT)]] = True
  return chosen[task][points.row]


def classes(labels: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
  """Labels [P, K] as classes 0, 1, ... of each column, and what they are."""
  # Softmax needs classes from 0 on; columns may have different values.
  columns = [np.unique(column, return_inverse=True) for column in labels.T]
  kind = np.min_scalar_type(max(len(seen) for seen, _ in columns))
  target = [back.astype(kind) for _, back in columns]
  return np.stack(target, axis=-1), [seen for seen, _ in columns]
