"""Asking a language model: the bridge beside Inspect's bare `generate`."""

from __future__ import annotations

import asyncio
import itertools
import pathlib
import tempfile
import time
from collections.abc import Iterator

from tests.bench import harness
from wm.core import queries, registry
from wm.language import llm_predictor
from wm.language.models import language

QUESTIONS, CONNECTIONS, RUNS = 1000, 50, 5
WORLD = 'maps(rows=4, columns=5)'


def _questions(predictor: llm_predictor.LanguageModel) -> list[queries.Query]:
  """Different ones: tokens after sampled prefixes."""
  world = predictor.world
  drawn = world.sample(200, 0)
  pairs = zip(drawn.tokens.tolist(), drawn.lengths.tolist(), strict=True)
  pieces = (tuple(row[:n]) for row, size in pairs for n in range(2, size))
  result = itertools.product(dict.fromkeys(pieces), range(1, 9))
  return [
    predictor.yes_no(prefix, (token,))
    for prefix, token in itertools.islice(result, QUESTIONS)
  ]


async def _bare(questions: list[queries.Query], config: object) -> None:
  from inspect_ai.model import get_model

  model = get_model('wm/solver', config=config, memoize=False)
  await asyncio.gather(*(model.generate(one.prompt) for one in questions))


def _predictor(folder: pathlib.Path) -> llm_predictor.LanguageModel:
  settings = language.Model(
    'wm/solver', connections=CONNECTIONS, answers=str(folder)
  )
  return settings.predictor(registry.make('world', WORLD), 0)


def _seconds(work: object) -> float:
  start = time.perf_counter()
  work()
  return time.perf_counter() - start


def bench_bridge() -> Iterator[harness.Line]:
  """1,000 known-answer questions, 50 at a time, and the same again."""
  from wm.language import registry as providers

  assert providers.providers
  with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    questions = _questions(_predictor(folder / 'none'))
    assert len(questions) == QUESTIONS
    settings = language.Model('wm/solver', connections=CONNECTIONS)
    config = settings.config()
    bare, ours, again = [], [], []
    for run in range(RUNS + 1):  # The first of each warms up.
      bare.append(_seconds(lambda: asyncio.run(_bare(questions, config))))
      place = folder / str(run)
      fresh = _predictor(place)
      ours.append(_seconds(lambda asks=fresh.ask: asks(questions)))
      known = _predictor(place)
      again.append(_seconds(lambda asks=known.ask: asks(questions)))
      assert known.diagnostics()[0].count(' 0 calls were made now') == 1
  # The least of each: what others on the machine take comes on top.
  yield harness.Line(
    name='1,000 known-answer questions through the bridge',
    value=QUESTIONS / min(ours[1:]),
    unit='questions/s',
    baseline="Inspect's bare generate, same prompts, same connections",
    ratio=min(bare[1:]) / min(ours[1:]),
    target='at least 0.83: 20 % more time',
  )
  yield harness.Line(
    name='the same asked again',
    value=1e3 * min(again[1:]) / QUESTIONS,
    unit='ms/question',
    target='at most 2',
  )
