"""Questions about seatings, their replies read, and the scores of these.

Questions are where somebody sits, and whether a list can go on. The numbers are
the paper's: 60 puzzles, 100 states for compression and 100 pairs for
distinction, up to five continuations of one statement each. The metrics
compression and distinction themselves list their questions.

A reply that cannot be read is a third outcome: the paper drops it, and so do
these numbers; `unread` counts them, and `accuracy_all` takes them for wrong.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import basics, fields
from wm.core.fields import field
from wm.core.predictor import Tokens
from wm.evaluation import context, statistics
from wm.evaluation.context import STATES
from wm.metrics import compression, distinction
from wm.models.serving import replies, stateless, structures
from wm.models.serving.replies import Reading
from wm.worlds.seating import Puzzles, World, text

PARTS = ('capability', 'compression', 'distinction')
VARIANTS = ('corrected', 'published')


@fields.documented
@dataclasses.dataclass(frozen=True)
class Protocol:
  """Options of the examination.

  Attributes:
    variant: 'corrected', or 'published': a state without two prefixes at the
      first draw is dropped, and replies are read as the program does.
  """

  variant: str = field('corrected', choices=VARIANTS)
  people: int = field(3, 'of the puzzle, 3 as published, to 5')
  puzzles: int = field(60, "in which somebody's seat is asked for", least=1)
  trials: int = field(
    100, 'states for compression, and pairs for distinction', least=1
  )
  samples: int = field(5, 'continuations of each, at most', least=1)
  seed: int = field(0, 'of all of them')

  def __post_init__(self) -> None:
    fields.check(self)

  @property
  def strict(self) -> bool:
    """Are replies read as the published program reads them?"""
    return self.variant == 'published'

  @property
  def world(self) -> World:
    """The puzzle."""
    return World(people=self.people)

  @property
  def drawn(self) -> Puzzles:
    """The puzzles."""
    stream = basics.stream(self.seed, STATES)
    return self.world.puzzles(self.puzzles, stream)

  def metrics(self) -> dict[str, core.Metric]:
    """Compression and distinction, by the paper's numbers."""
    attempts = 1 if self.strict else 32
    return {
      'compression': compression.Metric(
        trials=self.trials,
        samples=self.samples,
        k=1,
        suffixes='world',
        attempts=attempts,
      ),
      'distinction': distinction.Metric(
        trials=self.trials,
        samples=0,
        k=1,
        max_elements=self.samples,
        attempts=attempts,
      ),
    }

  def predictor(self, accepts: stateless.Accepts) -> stateless.Accepting:
    """Answers as a predictor."""
    world = self.world
    return stateless.Accepting(
      accepts,
      vocab_size=len(world.vocab),
      end=world.end,
      max_len=world.max_len,
      label='what was answered',
    )


class SeatingQuestion(NamedTuple):
  """A question.

  Attributes:
    part: of PARTS, the one that asks it first.
    prompt: its text.
    prefix: statements that hold.
    suffix: those that somebody proposes; none of a puzzle.
    place: of a puzzle, its number; else DEAD.
    state: written; what is asked about one state depends on each other.
    truth: the seat from 1, or core.YES or NO.
  """

  part: str
  prompt: str
  prefix: Tokens
  suffix: Tokens
  place: int
  state: str
  truth: int


def questions(protocol: Protocol) -> list[SeatingQuestion]:
  """All questions; each is put once, however often it comes up."""
  world, drawn = protocol.world, protocol.drawn
  names, vocab = world.names, world.vocab
  prefixes = core.predictor.histories(drawn.tokens, drawn.lengths)
  listed_questions = []
  for n, prefix in enumerate(prefixes):
    words = [vocab[token] for token in prefix]
    prompt = text.seat_question(names, words, names[drawn.person[n]])
    seat, state = int(drawn.seat[n]), _state(world, prefix)
    listed_questions.append(
      SeatingQuestion(PARTS[0], prompt, prefix, (), n, state, seat)
    )
  seen: set[tuple[Tokens, Tokens]] = set()
  for part, metric in protocol.metrics().items():
    listed: list[tuple[Tokens, Tokens]] = []

    def unanswered(
      prefixes: list[Tokens],
      suffixes: list[Tokens],
      listed: list[tuple[Tokens, Tokens]] = listed,
    ) -> np.ndarray:
      listed += zip(prefixes, suffixes, strict=True)
      return np.full(len(prefixes), core.NO_ANSWER, np.int8)

    metric(protocol.predictor(unanswered), world, protocol.seed)
    for pair in dict.fromkeys(listed):
      if pair not in seen:
        seen.add(pair)
        listed_questions.append(_verdict(world, part, *pair))
  return listed_questions


def _verdict(
  world: World, part: str, prefix: Tokens, suffix: Tokens
) -> SeatingQuestion:
  holding, more = (
    [world.vocab[t] for t in tokens] for tokens in (prefix, suffix)
  )
  prompt = text.continuation_question(world.names, holding, more)
  after = _reached(world, prefix + suffix)
  truth = core.NO if after[0, 0] == core.DEAD else core.YES
  state = _state(world, prefix)
  return SeatingQuestion(part, prompt, prefix, suffix, core.DEAD, state, truth)


def _reached(world: World, tokens: Tokens) -> np.ndarray:
  state = world.init(1)
  for token in tokens:
    state = world.advance(state, np.array([token]))
  return state


def _state(world: World, tokens: Tokens) -> str:
  return world.format(_reached(world, tokens)[0])


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
