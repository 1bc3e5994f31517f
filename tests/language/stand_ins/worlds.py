"""Answers to questions about worlds told in words."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable

from tests.language.stand_ins import (
  base,
  boards,
  graphs,
  maps,
  mazes,
  puzzles,
  trips,
  walks,
)
from tests.language.stand_ins.asked import Asked

CHANGED = '\n\nThis has changed. Now the following holds instead.\n\n'
# Readers of what is told, tried in this order; each gives None where a text is
# not its own.
READERS: tuple[Callable[[str], base.Reading | None], ...] = (
  maps.read,
  mazes.read,
  graphs.read,
  trips.read,
  puzzles.read_line,
  puzzles.read_columns,
  puzzles.read_seats,
  boards.read_othello,
  boards.read_chess,
  maps.read_walks,
  mazes.read_walks,
  walks.read,
)


@functools.lru_cache(maxsize=32)
def told(text: str) -> base.Reading | None:
  """What a text tells, by the first reader that knows it.

  None where nobody knows it, or it contradicts itself.
  """
  first, _, now = text.rpartition(CHANGED)
  try:
    result = next((got for read in READERS if (got := read(now))), None)
  except base.ContradictionError:
    return None
  if result and first:
    result.before = told(first)
  return result


@functools.lru_cache(maxsize=1024)
def _reached(reading: base.Reading, prefix: str) -> Hashable | None:
  """The state after a prefix, which several questions have."""
  return reading.follow(reading.start(), reading.split(prefix))


def answer(asked: Asked) -> str | None:
  """An answer to a question about a world; None where it is none."""
  question = base.question(asked.text)
  if question is None:
    return None
  if question.kind == 'yes_or_no' and asked.knows in ('yes', 'random'):
    return 'Yes.' if asked.yes() else 'No.'
  reading = told(question.told)
  if reading is None:
    return None
  if asked.knows == 'old_map':
    reading = reading.before or reading
  return _ANSWERS[question.kind](asked, question, reading)


def _verdict(
  asked: Asked, question: base.Question, reading: base.Reading
) -> str:
  del asked
  state = _reached(reading, question.prefix)
  after = reading.follow(state, reading.split(question.more))
  return 'No.' if after is None else 'Yes.'


def _all_next(
  asked: Asked, question: base.Question, reading: base.Reading
) -> str:
  if asked.knows in ('yes', 'random'):
    words = [word for word in reading.every() if asked.yes()]
  else:
    state = _reached(reading, question.prefix)
    words = [] if state is None else reading.following(state)
  return f'Answer: {"; ".join(words) or base.NOTHING}'


def _one_next(
  asked: Asked, question: base.Question, reading: base.Reading
) -> str:
  choices = question.more.split('; ')
  if asked.knows in ('yes', 'random'):
    return f'Answer: {asked.one_of(choices)}'
  state = _reached(reading, question.prefix)
  can = [
    word
    for word in choices
    if state is not None and reading.step(state, word) is not None
  ]
  return f'Answer: {can[0] if len(can) == 1 else "unknown"}'


_ANSWERS = {'yes_or_no': _verdict, 'all_next': _all_next, 'one_next': _one_next}
