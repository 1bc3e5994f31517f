"""Positions of sequences at which a teacher-forced model is judged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from wm import core
from wm.evaluation.prefixes import membership

# Quantities of `set_scores`.
SETS = 'set_precision', 'set_recall', 'exact_set'


class Position(NamedTuple):
  """R sequences that have a next token after as many tokens each.

  Attributes:
    rows: [R] which sequences.
    length: tokens before.
    states: [R, W] states of the world there.
    legal: [R, V] bool, at least one token in each row.
    log_probs: [R, V] the model's, in nats.
    silent: [S] sequences where a predictor that only answers gives no answer;
      they are not among `rows`.
  """

  rows: np.ndarray
  length: int
  states: np.ndarray
  legal: np.ndarray
  log_probs: np.ndarray
  silent: np.ndarray


def first(world: core.World, sequences: core.Sequences) -> np.ndarray:
  """[N] place of the last token before the first judged one, as in the paper.

  It is the last token of the prompt, or the first token of all.
  """
  return np.full(len(sequences), max(world.prompt_len, 1) - 1)


def positions(
  predictor: core.Predictor,
  world: core.World,
  sequences: core.Sequences,
  first: np.ndarray,
  last_only: bool = False,
) -> Iterator[Position]:
  """Runs the model once; all sequences of a part go on in step.

  Positions where nothing is legal are left out: the world is over.

  Args:
    predictor: what is judged.
    world: the truth.
    sequences: N legal ones.
    first: [N] place of the last token before the first position.
    last_only: the position after the last token is the only one that counts.
  """
  read = (
    membership.last_by_rows if last_only else core.predictor.log_probs_by_rows
  )
  for part, chunk in read(predictor, sequences.tokens, sequences.lengths):
    batch = sequences.take(np.arange(part.start, part.stop))
    start, log_probs = first[part], np.asarray(chunk)
    states = world.init(len(batch))
    for t in range(log_probs.shape[1]):
      rows = np.flatnonzero(t < batch.lengths)
      states[rows] = world.advance(states[rows], batch.tokens[rows, t])
      rows = rows[t >= start[rows]]
      if not rows.size:
        continue
      legal = world.legal(states[rows])
      going = legal.any(-1)
      silent = going & membership.silent(predictor, log_probs[rows, t])
      quiet = rows[silent] + part.start
      going &= ~silent
      rows, legal = rows[going], legal[going]
      yield Position(
        rows + part.start, t + 1, states[rows], legal, log_probs[rows, t], quiet
      )


def set_scores(
  mask: np.ndarray, legal: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """[R, 3] `SETS` of accepted tokens against legal ones [R, V].

  And [R] bool: is any token accepted, so that there is a precision?
  """
  both, accepted = (mask & legal).sum(-1), mask.sum(-1)
  precision = both / np.maximum(accepted, 1)
  exact = (mask == legal).all(-1)
  recall = both / np.maximum(legal.sum(-1), 1)
  values = np.stack([precision, recall, exact], axis=-1)
  return values, accepted > 0
