"""Replies about seatings read, and accuracy, compression and distinction.

A reply that cannot be read is a third outcome: the paper drops it, and so do
these numbers; `unread` counts them, and `accuracy_all` takes them for wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from wm import core
from wm.core.predictor import Tokens
from wm.evaluation import context, statistics
from wm.models.serving import replies, structures
from wm.models.serving.replies import Reading
from wm.papers.seating.questions import PARTS, Protocol, SeatingQuestion
from wm.worlds.seating import text

KEYWORD = re.compile(rf'{text.KEYWORD}\W*:\W*(\w+)', re.IGNORECASE)


def verdict(reply: str, strict: bool = False) -> Reading:
  """Reads yes or no.

  strict: as the published program does: what follows the last 'ANSWER: ' is
    'yes' or 'no' in small letters, full stops and line ends aside.

  Returns:
    value: bool.
  """
  if not strict:
    return replies.yes_no(reply)
  _, keyword, rest = reply.rpartition(f'{text.KEYWORD}: ')
  word = rest.replace('.', '').replace('\n', '') if keyword else ''
  return _strictly({'yes': True, 'no': False}.get(word), reply)


def seat(reply: str, people: int, strict: bool = False) -> Reading:
  """Reads the number of a seat.

  strict: as the published program does, a whole number right behind the last
    'ANSWER: ', whichever.

  Returns:
    value: int, from 1 to `people`, and any if `strict`.
  """
  if not strict:
    return structures.seat(reply, people)
  words = KEYWORD.findall(reply)
  number = words[-1] if words else ''
  plain = number.isdecimal() and len(number) < 4
  return _strictly(int(number) if plain else None, reply)


def _strictly(value: int | None, reply: str) -> Reading:
  """The value, or why there is none."""
  seen = replies.visible(reply)
  failure = seen.failure or ('nothing' if value is None else '')
  return Reading(None if failure else value, failure, seen.reasoning)


# What the figure shows -> part, quantity.
HEADLINES = {
  'accuracy': ('capability', 'accuracy'),
  'compression': ('compression', 'precision'),
  'distinction': ('distinction', 'recall'),
}
# Of a question: the seat, or YES or NO; None where the reply cannot be read.
SeatingReply = int | None


def scores(
  protocol: Protocol,
  asked: Sequence[SeatingQuestion],
  answers: Sequence[SeatingReply],
) -> dict[str, tuple[core.Scores, ...]]:
  """Part -> all its quantities, from what was said to each question.

  Questions that are not among `asked` have no answer, as where a run was cut
  short.
  """
  return {
    'capability': _capability(protocol, asked, answers),
    **_of_metrics(protocol, asked, answers),
  }


def _capability(
  protocol: Protocol,
  asked: Sequence[SeatingQuestion],
  answers: Sequence[SeatingReply],
) -> tuple[core.Scores, ...]:
  rows = [
    (question, heard)
    for question, heard in zip(asked, answers, strict=True)
    if question.part == PARTS[0]
  ]
  right = np.array([question.truth == heard for question, heard in rows], float)
  silent = np.array([heard is None for _, heard in rows], bool)
  drawn = core.Sequences(protocol.drawn.tokens, protocol.drawn.lengths)
  group = context.clusters(protocol.world, drawn)
  group = group[[question.place for question, _ in rows]]
  reason = np.where(silent, 'no_answer', '')
  return (
    core.scores('accuracy', right, reason=reason, group=group),
    core.scores('accuracy_all', right, group=group),
  )


def _of_metrics(
  protocol: Protocol,
  asked: Sequence[SeatingQuestion],
  answers: Sequence[SeatingReply],
) -> dict[str, tuple[core.Scores, ...]]:
  by_tokens: dict[tuple[Tokens, Tokens], int] = {
    (question.prefix, question.suffix): core.NO_ANSWER
    if heard is None
    else heard
    for question, heard in zip(asked, answers, strict=True)
    if question.suffix
  }

  def accepts(prefixes: list[Tokens], suffixes: list[Tokens]) -> np.ndarray:
    pairs = zip(prefixes, suffixes, strict=True)
    codes = [by_tokens.get(pair, core.NO_ANSWER) for pair in pairs]
    return np.array(codes, np.int8)

  predictor, world = protocol.predictor(accepts), protocol.world
  return {
    part: metric(predictor, world, protocol.seed)
    for part, metric in protocol.metrics().items()
  }


def headlines(
  scored: Mapping[str, tuple[core.Scores, ...]],
) -> dict[str, statistics.Summary]:
  """'accuracy', 'accuracy_all', 'compression', 'distinction' -> summary."""
  by = {
    (part, scores.quantity): scores
    for part, several in scored.items()
    for scores in several
  }
  shown = {**HEADLINES, 'accuracy_all': ('capability', 'accuracy_all')}
  return {
    name: statistics.summarize(by[place]) for name, place in shown.items()
  }


def unread(
  asked: Sequence[SeatingQuestion], answers: Sequence[SeatingReply]
) -> dict[str, float]:
  """Part -> share of its replies that cannot be read; NaN of none."""
  shares = {}
  for part in PARTS:
    silent = [
      heard is None
      for question, heard in zip(asked, answers, strict=True)
      if question.part == part
    ]
    shares[part] = float(np.mean(silent)) if silent else np.nan
  return shares
