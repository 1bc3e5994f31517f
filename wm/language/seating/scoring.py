"""Accuracy, compression and distinction of what was answered.

A reply that cannot be read is a third outcome: the paper drops it, and so do
these numbers; `unread` says how many there were, and `accuracy_all` counts them
as wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from wm import core
from wm.core.predictor import Tokens
from wm.evaluation import statistics
from wm.evaluation.trials import context
from wm.language.seating.questions import PARTS, Protocol, Question

# What the figure shows -> part, quantity.
HEADLINES = {
  'accuracy': ('capability', 'accuracy'),
  'compression': ('compression', 'precision'),
  'distinction': ('distinction', 'recall'),
}
# Of a question: the seat, or YES or NO; None where the reply cannot be read.
Said = int | None


def scores(
  protocol: Protocol, asked: Sequence[Question], said: Sequence[Said]
) -> dict[str, tuple[core.Scores, ...]]:
  """Part -> all its quantities, from what was said to each question.

  Questions that are not among `asked` have no answer, as where a run was cut
  short.
  """
  return {
    'capability': _capability(protocol, asked, said),
    **_of_metrics(protocol, asked, said),
  }


def _capability(
  protocol: Protocol, asked: Sequence[Question], said: Sequence[Said]
) -> tuple[core.Scores, ...]:
  rows = [
    (one, heard)
    for one, heard in zip(asked, said, strict=True)
    if one.part == PARTS[0]
  ]
  right = np.array([one.truth == heard for one, heard in rows], float)
  silent = np.array([heard is None for _, heard in rows], bool)
  drawn = core.Sequences(protocol.drawn.tokens, protocol.drawn.lengths)
  group = context.clusters(protocol.world, drawn)
  group = group[[one.place for one, _ in rows]]
  reason = np.where(silent, 'no_answer', '')
  return (
    core.scores('accuracy', right, reason=reason, group=group),
    core.scores('accuracy_all', right, group=group),
  )


def _of_metrics(
  protocol: Protocol, asked: Sequence[Question], said: Sequence[Said]
) -> dict[str, tuple[core.Scores, ...]]:
  known: dict[tuple[Tokens, Tokens], int] = {
    (one.prefix, one.suffix): core.NO_ANSWER if heard is None else heard
    for one, heard in zip(asked, said, strict=True)
    if one.suffix
  }

  def accepts(prefixes: list[Tokens], suffixes: list[Tokens]) -> np.ndarray:
    pairs = zip(prefixes, suffixes, strict=True)
    found = [known.get(pair, core.NO_ANSWER) for pair in pairs]
    return np.array(found, np.int8)

  predictor, world = protocol.predictor(accepts), protocol.world
  return {
    part: metric(predictor, world, protocol.seed)
    for part, metric in protocol.metrics().items()
  }


def headlines(
  found: Mapping[str, tuple[core.Scores, ...]],
) -> dict[str, statistics.Summary]:
  """'accuracy', 'accuracy_all', 'compression', 'distinction' -> summary."""
  by = {
    (part, one.quantity): one for part, some in found.items() for one in some
  }
  shown = {**HEADLINES, 'accuracy_all': ('capability', 'accuracy_all')}
  return {
    name: statistics.summarize(by[place]) for name, place in shown.items()
  }


def unread(asked: Sequence[Question], said: Sequence[Said]) -> dict[str, float]:
  """Part -> share of its replies that cannot be read; NaN of none."""
  found = {}
  for part in PARTS:
    silent = [
      heard is None
      for one, heard in zip(asked, said, strict=True)
      if one.part == part
    ]
    found[part] = float(np.mean(silent)) if silent else np.nan
  return found
