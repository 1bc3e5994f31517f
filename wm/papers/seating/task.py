"""Inspect's task `wm/seating`."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import (
  Metric,
  SampleScore,
  Score,
  Scorer,
  Target,
  Value,
  mean,
  metric,
  scorer,
)
from inspect_ai.solver import TaskState, generate

from wm import core
from wm.language import providers
from wm.language.inspect_tasks import stderr, with_options
from wm.models.serving import replies
from wm.papers.seating import score as scoring
from wm.papers.seating.score import Protocol, SeatingQuestion

VERSION = 1
LONGEST = {'published': 1000, 'corrected': 8192}  # Tokens of a reply.


@task
@with_options
def seating(protocol: Protocol) -> Task:
  """Capability, compression and distinction on seating puzzles (figure 4)."""
  asked = scoring.questions(protocol)
  return Task(
    dataset=MemoryDataset(
      [
        _sample(n, question, protocol.people)
        for n, question in enumerate(asked)
      ],
      name='seating',
    ),
    solver=generate(),
    scorer=seating_scorer(protocol.people, protocol.strict),
    metrics=[
      {
        'right': [mean(), stderr(cluster='cluster')],
        'right_all': [mean(), stderr(cluster='cluster')],
        'unread': [mean(), stderr(cluster='cluster')],
      },
      figure_4(**dataclasses.asdict(protocol)),
    ],
    config=GenerateConfig(
      temperature=0.0, max_tokens=LONGEST[protocol.variant]
    ),
    version=VERSION,
  )


def _sample(number: int, question: SeatingQuestion, people: int) -> Sample:
  target = (
    str(question.truth)
    if not question.suffix
    else ('no', 'yes')[question.truth]
  )
  return Sample(
    id=f'{question.part}-{number}',
    input=question.prompt,
    target=target,
    metadata={
      **question._asdict(),
      'people': people,
      'prompt': '',
      'prefix': list(question.prefix),
      'suffix': list(question.suffix),
      # Puzzles of the same statements, and verdicts about one state.
      'cluster': question.state if question.suffix else str(question.prefix),
    },
  )


def asked_of(sample: Mapping[str, Any]) -> SeatingQuestion:
  """The question of a sample's metadata; KeyError where it has none."""
  fields = {name: sample[name] for name in SeatingQuestion._fields}
  tokens = {name: tuple(sample[name]) for name in ('prefix', 'suffix')}
  return SeatingQuestion(**fields | tokens | {'prompt': ''})


@scorer(metrics=[{'*': [mean(), stderr(cluster='cluster')]}])
def seating_scorer(people: int = 3, strict: bool = False) -> Scorer:
  """Is a reply right, and can it be read?

  `right` leaves unread replies out, `right_all` takes them for wrong.

  people: seats there are; strict: see `score.seat`.
  """

  async def score(state: TaskState, target: Target) -> Score:
    """Scores one reply."""
    del target
    question, reply = asked_of(state.metadata), state.output.completion
    if question.suffix:
      reading = scoring.verdict(reply, strict)
    else:
      reading = scoring.seat(reply, people, strict)
    silent = reading.value is None
    failure = replies.cause(reading.failure, state.output.stop_reason)
    number = math.nan if silent else float(reading.value)
    return Score(
      value={
        'right': math.nan if silent else float(number == question.truth),
        'right_all': float(number == question.truth),
        'unread': float(silent),
        'said': number,
      },
      answer=failure or str(reading.value),
      metadata={'failure': failure, 'reasoning': reading.reasoning},
    )

  return score


@metric(scores='unreduced')
def figure_4(
  variant: str, people: int, puzzles: int, trials: int, samples: int, seed: int
) -> Metric:
  """The bars of figure 4, their 95 % intervals, and shares of unread replies.

  Of several replies to a question, that counts which most agree on; a tie is
  no answer.
  """
  protocol = Protocol(variant, people, puzzles, trials, samples, seed)

  def of(scores: list[SampleScore]) -> Value:
    """The bars and shares, NaN where nothing was measured."""
    asked, answers = voted(scores)
    values: dict[str, float] = {}
    bars = scoring.headlines(scoring.scores(protocol, asked, answers))
    for name, summary in bars.items():
      for end, key in (('', 'value'), ('_low', 'low'), ('_high', 'high')):
        number = summary[key]
        values[name + end] = math.nan if number is None else number
      values[f'{name}_n'] = summary['n']
    for part, share in scoring.unread(asked, answers).items():
      values[f'unread_{part}'] = share
    return values

  return of


def voted(
  scores: list[SampleScore],
) -> tuple[list[SeatingQuestion], list[scoring.SeatingReply]]:
  """Questions, and what most replies to each say; a tie is no answer."""
  asked: dict[str, SeatingQuestion] = {}
  votes: dict[str, list[int]] = {}
  for score in scores:
    name, value = str(score.sample_id), score.score.value
    if not isinstance(value, dict) or score.sample_metadata is None:
      continue
    asked[name] = asked_of(score.sample_metadata)
    number = value['said']
    if isinstance(number, float | int) and not math.isnan(number):
      votes.setdefault(name, []).append(int(number))
  modes = {name: statistics.multimode(said) for name, said in votes.items()}
  single = {name: mode[0] for name, mode in modes.items() if len(mode) == 1}
  return [*asked.values()], [*map(single.get, asked)]


def known_answer(request: providers.Request) -> str:
  """A verdict or a seat; see providers.answer."""
  question = asked_of(request.metadata)
  if question.suffix:
    valid = request.coin() if request.guesses else question.truth == core.YES
    return f'ANSWER: {"yes" if valid else "no"}'
  seats = range(1, request.metadata['people'] + 1)
  seat = request.choice(seats) if request.guesses else question.truth
  return f'ANSWER: {seat}'
