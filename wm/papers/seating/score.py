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
import pandas as pd

from wm import core
from wm.core import basics, fields, queries
from wm.core.fields import field
from wm.core.predictor import Tokens
from wm.evaluation import context, statistics
from wm.evaluation.context import STATES
from wm.metrics import compression, distinction
from wm.models.serving import replies, stateless, structures
from wm.models.serving.replies import Reading
from wm.worlds.seating import World, text

# Of a question: the seat, or YES or NO; None where the reply cannot be read.
SeatingReply = int | None
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
  def drawn(self) -> core.Sequences:
    """The puzzles; see `World.questions`."""
    stream = basics.stream(self.seed, STATES)
    return self.world.questions(self.puzzles, stream)

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


class Examinee(stateless.Accepting):
  """A predictor that gives known answers, and lists what it is asked.

  Attributes:
    asked: (prefix, suffix) of each question, in order.
  """

  def __init__(
    self, world: World, known: Mapping[tuple[Tokens, Tokens], SeatingReply]
  ) -> None:
    """known: answers by prefix and suffix; other questions have none."""
    size, label = len(world.vocab), 'what was answered'
    super().__init__(
      self._known,
      vocab_size=size,
      end=world.end,
      max_len=world.max_len,
      label=label,
    )
    self._by_tokens = known
    self.asked: dict[tuple[Tokens, Tokens], None] = {}

  def _known(
    self, prefixes: list[Tokens], suffixes: list[Tokens]
  ) -> np.ndarray:
    pairs = [*zip(prefixes, suffixes, strict=True)]
    self.asked |= dict.fromkeys(pairs)
    replies = [self._by_tokens.get(pair) for pair in pairs]
    codes = [core.NO_ANSWER if reply is None else reply for reply in replies]
    return np.array(codes, np.int8)


def questions(protocol: Protocol) -> list[SeatingQuestion]:
  """All questions; each is put once, however often it comes up."""
  world, drawn = protocol.world, protocol.drawn
  names, vocab = world.names, world.vocab
  choices, right = drawn.side['choices'][:, 0], drawn.side['answer']
  prefixes = core.predictor.histories(drawn.tokens, drawn.lengths)
  listed = []
  for n, prefix in enumerate(prefixes):
    words = [vocab[token] for token in prefix]
    person, _, _ = vocab[choices[n]].partition('@')
    prompt = text.seat_question(names, words, person)
    state, seat = _state(world, prefix), int(right[n] - choices[n]) + 1
    listed.append(SeatingQuestion(PARTS[0], prompt, prefix, (), n, state, seat))
  examinee = Examinee(world, {})
  for part, metric in protocol.metrics().items():
    num = len(examinee.asked)
    metric(examinee, world, protocol.seed)
    for prefix, suffix in [*examinee.asked][num:]:
      words, more = ([vocab[t] for t in part] for part in (prefix, suffix))
      prompt, state = (
        text.continuation_question(names, words, more),
        _state(world, prefix),
      )
      query = queries.Query('', queries.YES_NO, prefix, (suffix,))
      (truth,) = queries.truths(world, [query])
      listed.append(
        SeatingQuestion(
          part, prompt, prefix, suffix, core.DEAD, state, int(truth)
        )
      )
  return listed


def _state(world: World, tokens: Tokens) -> str:
  _, states = world.walk(world.init(1), *queries.table([tokens]))
  return world.format(states[0])


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


def scores(
  protocol: Protocol,
  asked: Sequence[SeatingQuestion],
  answers: Sequence[SeatingReply],
) -> dict[str, tuple[core.Scores, ...]]:
  """Part -> all its quantities, from what was said to each question.

  Questions that are not among `asked` have no answer, as where a run was cut
  short.
  """
  world, drawn = protocol.world, protocol.drawn
  pairs = [*zip(asked, answers, strict=True)]
  seats = [
    (question, reply) for question, reply in pairs if not question.suffix
  ]
  right = np.array(
    [question.truth == reply for question, reply in seats], float
  )
  silent = np.array([reply is None for _, reply in seats], bool)
  group = context.clusters(world, drawn)[[q.place for q, _ in seats]]
  reason = np.where(silent, 'no_answer', '')
  known = {(q.prefix, q.suffix): reply for q, reply in pairs if q.suffix}
  examinee = Examinee(world, known)
  return {
    'capability': (
      core.scores('accuracy', right, reason=reason, group=group),
      core.scores('accuracy_all', right, group=group),
    ),
    **{
      part: metric(examinee, world, protocol.seed)
      for part, metric in protocol.metrics().items()
    },
  }


def headlines(
  scored: Mapping[str, tuple[core.Scores, ...]],
) -> dict[str, statistics.Summary]:
  """'accuracy', 'accuracy_all', 'compression', 'distinction' -> summary."""
  shown = {**HEADLINES, 'accuracy_all': ('capability', 'accuracy_all')}
  return {
    name: statistics.summarize(scores)
    for name, (part, quantity) in shown.items()
    for scores in scored[part]
    if scores.quantity == quantity
  }


def unread(
  asked: Sequence[SeatingQuestion], answers: Sequence[SeatingReply]
) -> dict[str, float]:
  """Part -> share of its replies that cannot be read; NaN of none."""
  parts = pd.Series([question.part for question in asked])
  silent = pd.Series([reply is None for reply in answers], dtype=float)
  shares = silent.groupby(parts).mean().reindex(PARTS)
  return shares.to_dict()
