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
from wm.models.serving import replies
from wm.models.serving.replies import Reading
from wm.papers.seating.questions import PARTS, Protocol, SeatingQuestion
from wm.worlds.seating import text

WORDS = {'one': 1, 'two': 2, 'three': 3, 'four': 4, 'five': 5}
_ORDER = {'first': 1, 'second': 2, 'third': 3, 'fourth': 4, 'fifth': 5}
_NUMBERS = {**WORDS, **_ORDER, **{str(n): n for n in range(1, 10)}}
# Not a distance, nor 'no one' or 'the one on the left'.
_NEAR = r'(?! (?:seats? )?(?:away|apart))'
_NUMBER = re.compile(
  rf'\b(?!(?<=\bno )one)(?!(?<=\bthe )one)'
  rf'({"|".join(_NUMBERS)})\b{_NEAR}',
  re.IGNORECASE,
)
# Repeats have ends, so that odd texts take linear time.
_SEAT = re.compile(
  r'\bseat(?:ed)?'
  r'(?: (?:in|at|on|is|number|the|seat|position|place|:|#)){0,4}[ :#]{0,3}'
  rf'({"|".join(_NUMBERS)})\b{_NEAR}',
  re.IGNORECASE,
)
# A line that says where somebody is not says nothing of where they are.
_DENIES = re.compile(r"\b(?:not|cannot|never|neither)\b|n['\u2019]t\b", re.I)
_ORDINAL = re.compile(rf'\b({"|".join(_ORDER)}) seat\b', re.IGNORECASE)


def verdict(reply: str, strict: bool = False) -> Reading:
  """Reads yes or no; strict: as the published program does.

  Returns:
    value: bool.
  """
  seen = replies.visible(reply)
  if seen.failure:
    return seen._replace(value=None)
  word = text.read_verdict(reply if strict else seen.value, strict)
  if word != core.NO_ANSWER:
    return Reading(word == core.YES, '', seen.reasoning)
  if strict:
    return Reading(None, 'nothing', seen.reasoning)
  return replies.yes_no(reply)


def seat(reply: str, people: int, strict: bool = False) -> Reading:
  """Reads the number of a seat.

  That is the only number behind the last `ANSWER:`; without one, the seat that
  the last line that names any names, if it names one alone. A line with a
  denial, such as 'not', has none.

  strict: as the published program reads it, a whole number right behind the
    last 'ANSWER: ', whichever.

  Returns:
    value: int, from 1 to `people`, and any if `strict`.
  """
  seen = replies.visible(reply)
  if seen.failure:
    return seen._replace(value=None)
  if strict:
    number = text.read_seat(reply)
    if number == core.NO_ANSWER:
      return Reading(None, 'nothing', seen.reasoning)
    return Reading(number, '', seen.reasoning)
  answer = replies.after_answer(seen.value, loose=True)
  if answer.failure:
    lines = [line for line in seen.value.splitlines() if _named(line)]
    # A bare number is an answer too.
    bare = seen.value if len(seen.value) < 12 else ''
    line = lines[-1] if lines else bare
    seats = _named(line) if lines else _numbers(line)
  else:
    line = answer.value.splitlines()[0]
    seats = _numbers(line)
  if len(seats) > 1:
    return Reading(None, 'several', seen.reasoning)
  if _DENIES.search(line):
    return Reading(None, 'nothing', seen.reasoning)
  if not seats:
    return Reading(None, answer.failure or 'nothing', seen.reasoning)
  if not 1 <= min(seats) <= people:
    return Reading(None, 'no_such_seat', seen.reasoning)
  return Reading(seats.pop(), '', seen.reasoning)


def _numbers(line: str) -> set[int]:
  """Numbers of a line; only those of seats if it names any."""
  return _named(line) or {
    _NUMBERS[word.lower()] for word in _NUMBER.findall(line)
  }


def _named(line: str) -> set[int]:
  """The seats that a line names."""
  words = _SEAT.findall(line) + _ORDINAL.findall(line)
  return {_NUMBERS[word.lower()] for word in words}


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
