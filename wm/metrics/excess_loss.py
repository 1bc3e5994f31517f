"""Excess loss: how far is the model from the best possible predictor?

The loss of the Bayes predictor is the entropy of the world's samples. A model's
expected loss minus this entropy is the Kullback-Leibler divergence (1951) from
the world's next-token distribution to the model's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np

from wm import core
from wm.core.fields import field
from wm.evaluation import context, membership

QUANTITIES = ('excess_loss', 'loss', 'entropy', 'impossible')
BIN = 10  # Tokens of a row.
# Infinite if the model rules out a possible token.
OF_MODEL = ('excess_loss', 'loss')


@dataclasses.dataclass(frozen=True)
class Metric(core.Metric):
  """Compares next-token distributions at positions of held-out sequences.

  The positions are those of `next_token` that have a next token: from the last
  token of the prompt on. The end token counts, the prompt does not, and neither
  does the position after the last token of a sequence without an end token.
  Each quantity is a mean over positions, with a row for every ten tokens of a
  sequence; `step` is the first of them. Expectations over the next token are
  exact sums, not samples.

  Reasons of unmeasured rows: impossible (the model gives probability 0 to a
  token that the world may draw: the loss is infinite), longer_than_model. The
  mean of the other rows is too good for a model with impossible rows.

  Attributes:
    num: held-out sequences.

  Glossary:
    excess_loss: Expected loss of the model minus that of the best possible
      predictor, in nats a token. It is 0 if the model's probabilities are the
      world's.
    loss: Expected loss of the model, in nats a token. It is the sum of entropy
      and excess loss.
    entropy: Expected loss of the best possible predictor, in nats a token. No
      model has less.
    impossible: Share of positions at which the model gives probability 0 to a
      token that the world may draw. The loss is infinite there, and
      excess_loss leaves out rows with such a position.
    step: tokens of the sequence so far
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Predictor, core.Generative)
  sized_by: ClassVar[tuple[str, ...]] = ('num',)
  measures: ClassVar[Mapping[str, core.Measure]] = {
    'excess_loss': core.Measure(0, 'predicts like the sampler', likely=True),
    'loss': core.Measure(less_is_better=True),
    'impossible': core.Measure(less_is_better=True),
  }
  cautions: ClassVar[tuple[core.Caution, ...]] = (
    core.Caution(
      'impossible',
      'gives probability 0 to a possible token at {value} of positions, where '
      'its loss is infinite',
      above=0.0,
    ),
  )
  breakdown: ClassVar[tuple[str, ...]] = ('step',)

  num: int = field(1000, least=1)

  def __call__(
    self, predictor: core.Predictor, world: core.Generative, seed: int
  ) -> tuple[core.Scores, ...]:
    """See core.Metric; sequences of one task are one cluster."""
    process = world.data_distribution()
    sequences = world.sample(self.num, seed, split='heldout')
    fits = membership.fits(predictor, sequences.lengths)
    count = -(-sequences.tokens.shape[1] // BIN)
    sums = np.zeros((len(sequences), count, len(QUANTITIES)))
    places = np.zeros((len(sequences), count), np.int64)
    rows = np.flatnonzero(fits)
    fitting = sequences.take(rows)
    for part, log_probs in core.predictor.log_probs_by_rows(
      predictor, fitting.tokens, fitting.lengths
    ):
      batch = fitting.take(np.arange(part.start, part.stop))
      for t, going, chosen_log_probs in _compared(
        world, process, batch, log_probs
      ):
        on = rows[part][going]
        sums[on, t // BIN] += chosen_log_probs
        places[on, t // BIN] += 1
    places[~fits, 0] = 1
    group = context.clusters(world, sequences)
    return self._scores(sums, places, group, fits)

  def _scores(
    self,
    sums: np.ndarray,
    places: np.ndarray,
    group: np.ndarray,
    fits: np.ndarray,
  ) -> tuple[core.Scores, ...]:
    """Rows of sequences and bins with at least one position."""
    sequence, step = np.nonzero(places)
    weight = places[sequence, step]
    values = sums[sequence, step] / weight[:, None]
    reason = np.where(fits[sequence], '', 'longer_than_model')
    impossible = (reason == '') & np.isinf(values[:, 0])
    wrong = np.where(impossible, 'impossible', reason)
    return tuple(
      core.scores(
        quantity,
        value,
        reason=wrong if quantity in OF_MODEL else reason,
        group=group[sequence],
        weight=weight,
        columns={'step': step * BIN, 'positions': weight},
        bounds=(0.0, 1.0 if quantity == 'impossible' else None),
      )
      for quantity, value in zip(QUANTITIES, values.T, strict=True)
    )


def _compared(
  world: core.World,
  process: core.SequenceProcess,
  sequences: core.Sequences,
  log_probs: np.ndarray,
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
  """The QUANTITIES of R sequences, from log_probs [R, L, V].

  Yields each position, the rows [B] with a token after it, and values [B, 4].
  """
  memory = process.init(len(sequences))
  first = max(world.prompt_len, 1) - 1
  for t in range(log_probs.shape[1]):
    rows = np.flatnonzero(t + 1 < sequences.lengths)
    memory[rows] = process.advance(memory[rows], sequences.tokens[rows, t])
    if t < first or not rows.size:
      continue
    tokens, true = process.next(memory[rows])
    possible = tokens != core.DEAD
    share = np.where(possible, np.exp(true), 0)
    predicted = np.take_along_axis(log_probs[rows, t], np.maximum(tokens, 0), 1)
    entropy, loss = (
      -(share * np.where(possible, nats, 0)).sum(-1)
      for nats in (true, predicted.astype(np.float64))
    )
    excess = np.maximum(loss - entropy, 0)  # Only rounding makes it negative.
    yield t, rows, np.stack([excess, loss, entropy, np.isinf(loss)], axis=-1)
