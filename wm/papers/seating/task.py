"""Inspect's task `wm/seating`."""

from __future__ import annotations

import math
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
from wm.language import arguments, providers
from wm.language.metrics import stderr
from wm.papers.seating import questions
from wm.papers.seating import score as scoring
from wm.papers.seating.questions import Protocol, Question

VERSION = 1
LONGEST = 1000  # Tokens of a reply, as published.


@task
@arguments.in_one_line
def seating(
  variant: str = 'corrected',
  people: int = 3,
  puzzles: int = 60,
  trials: int = 100,
  samples: int = 5,
  seed: int = 0,
) -> Task:
  """Capability, compression and distinction on seating puzzles (figure 4).

  Args:
    variant: 'corrected', or 'published': replies are read by its program's rule
      and states that have not two prefixes at the first draw are dropped.
    people: 3 as published, to 5.
    puzzles: in which somebody's seat is asked for.
    trials: states for compression, and pairs for distinction.
    samples: continuations of each, at most.
    seed: of all of them.
  """
  fields: dict[str, Any] = {
    'variant': variant,
    'people': people,
    'puzzles': puzzles,
    'trials': trials,
    'samples': samples,
    'seed': seed,
  }
  protocol = Protocol(**fields)
  asked = questions.questions(protocol)
  return Task(
    dataset=MemoryDataset(
      [_sample(n, one, people) for n, one in enumerate(asked)], name='seating'
    ),
    solver=generate(),
    scorer=seating_scorer(people, protocol.strict),
    metrics=[
      {
        'right': [mean(), stderr(cluster='cluster')],
        'unread': [mean(), stderr(cluster='cluster')],
      },
      figure_4(**fields),
    ],
    config=GenerateConfig(temperature=0.0, max_tokens=LONGEST),
    version=VERSION,
  )


def _sample(number: int, one: Question, people: int) -> Sample:
  told = str(one.truth) if not one.suffix else ('no', 'yes')[one.truth]
  return Sample(
    id=f'{one.part}-{number}',
    input=one.prompt,
    target=told,
    metadata={
      **one._asdict(),
      'people': people,
      'prompt': '',
      'prefix': list(one.prefix),
      'suffix': list(one.suffix),
      # Puzzles of the same statements, and verdicts about one state.
      'cluster': one.state if one.suffix else str(one.prefix),
    },
  )


def asked_of(sample: dict[str, Any], prompt: str = '') -> Question:
  """The question of a sample's metadata; KeyError where it has none."""
  return Question(
    part=sample['part'],
    prompt=prompt,
    prefix=tuple(sample['prefix']),
    suffix=tuple(sample['suffix']),
    place=sample['place'],
    state=sample['state'],
    truth=sample['truth'],
  )


@scorer(metrics=[{'*': [mean(), stderr(cluster='cluster')]}])
def seating_scorer(people: int = 3, strict: bool = False) -> Scorer:
  """Is a reply right, and can it be read?

  people: seats there are; strict: see `reading`.
  """

  async def score(state: TaskState, target: Target) -> Score:
    """Of one reply."""
    del target
    one, reply = asked_of(state.metadata), state.output.completion
    if one.suffix:
      found = scoring.verdict(reply, strict)
    else:
      found = scoring.seat(reply, people, strict)
    silent = found.value is None
    said = math.nan if silent else float(found.value)
    return Score(
      value={
        'right': math.nan if silent else float(said == one.truth),
        'unread': float(silent),
        'said': said,
      },
      answer=found.failure or str(found.value),
      metadata={'failure': found.failure, 'reasoning': found.reasoning},
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
    """All of it, NaN where nothing was measured."""
    asked, said = voted(scores)
    values: dict[str, float] = {}
    bars = scoring.headlines(scoring.scores(protocol, asked, said))
    for name, summary in bars.items():
      for end, key in (('', 'value'), ('_low', 'low'), ('_high', 'high')):
        number = summary[key]
        values[name + end] = math.nan if number is None else number
      values[f'{name}_n'] = summary['n']
    for part, share in scoring.unread(asked, said).items():
      values[f'unread_{part}'] = share
    return values

  return of


def voted(
  found: list[SampleScore],
) -> tuple[list[Question], list[scoring.Said]]:
  """Questions, and what most replies to each say."""
  asked: dict[str, Question] = {}
  votes: dict[str, dict[int, int]] = {}
  for one in found:
    name, value = str(one.sample_id), one.score.value
    if not isinstance(value, dict) or one.sample_metadata is None:
      continue
    asked[name] = asked_of(one.sample_metadata)
    mine, said = votes.setdefault(name, {}), value['said']
    if isinstance(said, float | int) and not math.isnan(said):
      mine[int(said)] = mine.get(int(said), 0) + 1
  return [*asked.values()], [most(votes[name]) for name in asked]


def most(votes: dict[int, int]) -> scoring.Said:
  """What has most votes; None where there are none, or two have as many."""
  ranked = sorted(votes, key=lambda said: -votes[said])
  if not ranked or (len(ranked) > 1 and votes[ranked[0]] == votes[ranked[1]]):
    return None
  return ranked[0]


def known_answer(request: providers.Request) -> str:
  """A verdict or a seat; see providers.answer."""
  question = asked_of(dict(request.metadata))
  if question.suffix:
    valid = request.coin() if request.guesses else question.truth == core.YES
    return f'ANSWER: {"yes" if valid else "no"}'
  seats = range(1, request.metadata['people'] + 1)
  seat = request.choice(seats) if request.guesses else question.truth
  return f'ANSWER: {seat}'
