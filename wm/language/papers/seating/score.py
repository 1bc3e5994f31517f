"""The paper's prompts, readers and bars for the seating puzzle.

Three parts: where somebody sits (`capability`), and whether a list of
statements can go on (`compression`, `distinction`). What goes in are the
options of an examination, a `Protocol`; what comes out are questions of
`wm.language.world_questions`, in the words of `prompts`, and the bars of
figure 4. `task` asks them through Inspect, and `report` makes the page.

The numbers are the paper's: 60 puzzles, 100 states for compression and 100
pairs for distinction, up to five continuations of one statement each. A reply
that cannot be read is a third outcome: the paper drops it, and so do the bars;
`unread` counts them, and `accuracy_all` takes them for wrong.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from wm import core
from wm.core import fields, queries, registry
from wm.core.fields import field
from wm.core.predictor import Tokens
from wm.core.queries import Answer, Query
from wm.evaluation import query_plans, statistics
from wm.language import llm_predictor, world_questions
from wm.language.answers import grammar, replies, values
from wm.language.answers.replies import Reading
from wm.language.papers import published
from wm.language.papers.seating import prompts
from wm.language.world_questions import Known, Setting
from wm.worlds.seating import World

VARIANTS = ('corrected', 'published')
# No puzzle is as long: all of them are asked.
LENGTH = 100
# Parts of the examination, and the bar of figure 4 that each gives.
BARS = {
  ('capability', 'accuracy'): 'accuracy',
  ('compression', 'precision'): 'compression',
  ('distinction', 'recall'): 'distinction',
}


@fields.documented
@dataclasses.dataclass(frozen=True)
class Protocol:
  """Options of the examination.

  Attributes:
    variant: 'corrected', or 'published', which is no wording: a state without
      two prefixes at the first draw is dropped, and replies are read as the
      program does.
  """

  variant: str = field('corrected', choices=VARIANTS)
  people: int = field(3, 'of the puzzle, 3 as published, to 5')
  puzzles: int = field(60, "in which somebody's seat is asked for", least=1)
  trials: int = field(
    100, 'states for compression, and pairs for distinction', least=1
  )
  samples: int = field(5, 'continuations of each, at most', least=1)
  seed: int = field(0, 'of all of them')
  prompts: str = field('', published.HELP)

  def __post_init__(self) -> None:
    fields.check(self)
    World(people=self.people)

  @property
  def strict(self) -> bool:
    """Are replies read as the published program reads them?"""
    return self.variant == 'published'

  def settings(self) -> Iterator[tuple[Setting, list[tuple[Query, str]]]]:
    """Settings, their questions and their trials; see `world_questions`."""
    attempts = 1 if self.strict else 32
    same = f'k=1, trials={self.trials}, attempts={attempts}'
    world = f'seating(people={self.people})'
    for spec, metrics in (
      (
        world.replace(')', f', length={LENGTH})'),
        [f'capability({self.puzzles})'],
      ),
      (
        world,
        [
          f"compression({same}, suffixes='world', samples={self.samples})",
          f'distinction({same}, samples=0, max_elements={self.samples})',
        ],
      ),
    ):
      base = Setting(
        *(spec, tuple(metrics), self.seed, 0),
        most_told=core.verbal.MAX_TOKENS,
      )
      yield from world_questions.settings(
        base, [0], query_plans.NO_LIMIT, self.model
      )

  def model(
    self, setting: Setting, backend: llm_predictor.Backend
  ) -> llm_predictor.LanguageModel:
    """The model that is asked about a setting."""
    world = world_questions.made_world(setting.world)
    model = PaperModel(world, setting.style, backend)
    model.folder = self.prompts
    return model


class PaperModel(llm_predictor.LanguageModel):
  """A language model that is asked as the paper asks; folder: of its words."""

  world: World
  folder = ''

  def yes_no(self, prefix: Tokens, suffix: Tokens, trial: int = 0) -> Query:
    """See LanguageModel."""
    prompt = prompts.continuation_question(
      self.world.names,
      self._statements(prefix),
      self._statements(suffix),
      self.folder,
    )
    return Query(prompt, queries.YES_NO, prefix, (suffix,), trial)

  def one_next(self, prefix: Tokens, choices: Tokens, trial: int = 0) -> Query:
    """See LanguageModel; the choices are the seats of one person, in order."""
    person, _, _ = self.world.vocab[choices[0]].partition('@')
    prompt = prompts.seat_question(
      self.world.names, self._statements(prefix), person, self.folder
    )
    single = tuple((token,) for token in choices)
    return Query(prompt, queries.ONE_NEXT, prefix, single, trial)

  def _statements(self, tokens: Tokens) -> list[str]:
    return [self.world.vocab[token] for token in tokens]


KEYWORD = re.compile(rf'{prompts.KEYWORD}\W*:\W*(\w+)', re.IGNORECASE)


def verdict(reply: str, strict: bool = False) -> Reading:
  """Reads yes or no.

  strict: as the published program does: what follows the last 'ANSWER: ' is
    'yes' or 'no' in small letters, full stops and line ends aside.

  Returns:
    value: bool.
  """
  if not strict:
    return grammar.yes_no(reply)
  _, keyword, rest = reply.rpartition(f'{prompts.KEYWORD}: ')
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
    return values.seat(reply, people)
  words = KEYWORD.findall(reply)
  number = words[-1] if words else ''
  plain = number.isdecimal() and len(number) < 4
  return _strictly(int(number) if plain else None, reply)


def _strictly(value: int | None, reply: str) -> Reading:
  """The value, or why there is none."""
  seen = replies.visible(reply)
  failure = seen.failure or ('nothing' if value is None else '')
  return Reading(None if failure else value, failure, seen.reasoning)


def read(
  question: Query, reply: str, truth: int, strict: bool = False
) -> Answer:
  """Reads a reply; another seat than the right one stands for a number of none.

  truth: place of the right choice; of verdicts it does not matter.
  """
  if question.kind == queries.YES_NO:
    reading = verdict(reply, strict)
  else:
    num = len(question.suffixes)
    reading = seat(reply, num, strict)
    if reading.value is not None:
      is_seat = 1 <= reading.value <= num
      place = reading.value - 1 if is_seat else (truth + 1) % num
      reading = reading._replace(value=place)
  return Answer(reading.value, reading.failure, text=reply)


def bars(answered: Known) -> dict[str, statistics.Summary]:
  """Bars of figure 4, and 'accuracy_all', of answers."""
  summaries = {}
  for setting, answers in answered.items():
    model = world_questions.recalled_predictor(setting, answers)
    world = world_questions.made_world(setting.world)
    for spec in setting.metrics:
      metric = registry.make('metric', spec)
      for scores in metric(model, world, setting.seed):
        if name := BARS.get((metric.name, scores.quantity)):
          summaries[name] = statistics.summarize(scores)
    seats = [query for query in answers if query.kind == queries.ONE_NEXT]
    if seats:
      voted = model.ask(seats)
      truths = queries.truths(world, seats)
      right = [x.value == y for x, y in zip(voted, truths, strict=True)]
      group = pd.factorize(pd.Series([q.prefix for q in seats]))[0]
      scores = core.scores('accuracy_all', np.array(right, float), group=group)
      summaries['accuracy_all'] = statistics.summarize(scores)
  return summaries


def unread(
  pairs: Iterable[tuple[Mapping[str, Any], Answer]],
) -> dict[str, float]:
  """Part -> share of its replies that cannot be read.

  pairs: metadata of samples, and answers.
  """
  # A trial is called 'METRIC n', by the metric that asks its question first.
  rows = [(data['trial'].split()[0], bool(x.failure)) for data, x in pairs]
  frame = pd.DataFrame(rows, columns=['part', 'unread'])
  return dict(frame.groupby('part')['unread'].mean())
