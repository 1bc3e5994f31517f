"""One truth by every route: a model scores the same however it is brought.

Routes: a spec, a function, an object with a cache, answers of yes and no, and a
second call that reads what the first one stored. Worlds that language models
are asked about have the route of Inspect's logs, see
`tests/language/world_task_test.py`.
"""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

import wm
from tests import small
from wm import core
from wm.core import registry
from wm.core.measure import lacks

WORLDS = (
  'maps(rows=3, columns=3, max_moves=8)',
  'othello(size=4)',
  'connect4(rows=2, columns=4)',
  'lattice(size=3, length=12)',
  "groups(group='s3', length=12)",
  'seating(people=3)',
  "hmm(preset='z1r', length=12)",
  'mazes(places=8)',
  "automaton(preset='tomita3')",
  'cognitive_graph()',
)
# Large vocabularies: a list of numbers for each question.
LARGE = ('chess(length=12)', 'orbits(bins=32, rows=6)', 'text_game()')
# The noisy one adds no tokens: a function of tokens has no logits that say
# "nothing" behind a token that no rule allows.
MODELS = 'oracle()', "noisy_oracle(wrong=0.2, by='prefix')"
SIZES = {
  **dict.fromkeys(('num', 'trials'), 5),
  **{'samples': 2, 'probabilities': (0.0, 0.5), 'prefixes': 2},
}
# Where the noisy one may refuse all tokens, which no logits say.
SILENT = 'connect4', 'text_game'
FIELDS = 'spec', 'quantity', 'n', 'clusters', 'unmeasured'
NUMBERS = 'value', 'low', 'high'


def asking(world: core.World) -> list[core.Metric]:
  """All metrics that ask for next tokens alone, made small."""
  metrics = []
  # An automaton is learned by thousands of questions, each after an answer.
  for name in sorted({*registry.names('metric')} - {'automaton'}):
    cls = registry.find('metric', name)
    if lacks(cls, core.Predictor, type(world)):
      continue
    fields = {field.name for field in dataclasses.fields(cls)}
    sizes = {key: size for key, size in SIZES.items() if key in fields}
    try:
      metrics.append(cls(**sizes))
    except core.InputError:  # It has a least size of its own.
      metrics.append(cls())
  return metrics


def table(entries) -> pd.DataFrame:
  return pd.DataFrame(entries)[[*FIELDS, *NUMBERS]]


def same(entries, expected: pd.DataFrame, route: str) -> None:
  """Asserts that entries are as expected but for rounding."""
  actual = table(entries)
  assert actual[[*FIELDS]].equals(expected[[*FIELDS]]), route
  for name in NUMBERS:
    np.testing.assert_allclose(
      actual[name].astype(float),
      expected[name].astype(float),
      atol=2e-6,
      err_msg=f'{route}: {name}',
    )


class Stepping:
  """A reader as a user's object with a cache: a state is its history."""

  def __init__(self, reader: core.Predictor) -> None:
    self._reader = reader

  def _after(self, histories):
    lengths = np.array([len(history) for history in histories], np.int32)
    tokens = np.zeros((len(lengths), lengths.max()), np.int32)
    for row, history in enumerate(histories):
      tokens[row, : len(history)] = history
    log_probs = self._reader.log_probs(tokens, lengths)
    return finite(log_probs[np.arange(len(lengths)), lengths - 1])

  def start(self, tokens, lengths):
    states = core.predictor.histories(tokens, lengths)
    return states, self._after(states)

  def step(self, states, tokens):
    after = [(*s, t) for s, t in zip(states, tokens.tolist(), strict=True)]
    return after, self._after(after)


def finite(log_probs: np.ndarray) -> np.ndarray:
  """Where nothing may follow, everything is as likely: logits say something."""
  over = ~np.isfinite(log_probs).any(-1, keepdims=True)
  return np.where(over, np.float32(0), log_probs)


def function(reader: core.Predictor):
  """A reader as a function of tokens."""

  def logits(tokens):
    used = tokens != core.PAD
    # Padding behind a sequence: its length is where it begins.
    lengths = np.where(used.all(1), tokens.shape[1], (~used).argmax(1))
    log_probs = reader.log_probs(tokens, np.maximum(lengths, 1))
    return finite(np.where(np.isnan(log_probs), -np.inf, log_probs))

  return logits


class Answers:
  """Yes where a reader gives every token of a suffix some probability."""

  def __init__(self, reader: core.Predictor) -> None:
    self._reader = reader

  def answers(self, prefixes, suffixes):
    replies = []
    for prefix, suffix in zip(prefixes, suffixes, strict=True):
      row = np.array([[*prefix, *suffix]], np.int32)
      log_probs = self._reader.log_probs(row, np.array([row.shape[1]]))[0]
      at = np.arange(len(prefix), row.shape[1])
      replies.append(int((log_probs[at - 1, row[0, at]] > -np.inf).all()))
    return replies


def compared(world: core.World, spec: str, folder) -> int:
  """Scores one model by all routes; returns how many numbers were equal."""
  metrics = asking(world)
  expected = table(small.scored(spec, metrics, world, out=folder / 'spec'))
  reader = wm.load_predictor(spec, world).predictor
  routes = {
    'cache': lambda: small.scored(spec, metrics, world, out=folder / 'spec'),
    'function': lambda: small.scored(function(reader), metrics, world),
    'object': lambda: small.scored(Stepping(reader), metrics, world),
  }
  if spec != MODELS[0] and world.name in SILENT:
    routes = {'cache': routes['cache']}
  for route, run in routes.items():
    same(run(), expected, f'{spec} by {route}')
  return len(routes) * int(expected.value.notna().sum())


def _cases():
  """Worlds and models; most of them are for long runs of the suite."""
  for world in (*WORLDS, *LARGE):
    for spec in MODELS:
      quick = world in WORLDS[3:5] and spec == MODELS[0]
      yield pytest.param(world, spec, marks=() if quick else pytest.mark.slow)


@pytest.mark.parametrize(('world', 'spec'), [*_cases()])
def test_every_route_gives_the_same_numbers(world, spec, tmp_path):
  world = registry.resolve('world', world)
  if spec != MODELS[0] and not isinstance(world, core.Prefixed):
    pytest.skip('a noisy oracle needs states to draw')
  num = compared(world, spec, tmp_path)
  assert num > 20
  print(f'{registry.spec(world)}, {spec}: {num} numbers equal')


@pytest.mark.parametrize('world', WORLDS[:4])
def test_answers_of_the_oracle_are_the_oracle_s(world):
  world = registry.resolve('world', world)
  reader = wm.load_predictor('oracle()', world).predictor
  metrics = [
    'next_token(num=5)',
    "compression(trials=5, samples=2, suffixes='world', k=1)",
    'distinction(trials=5, samples=0)',
  ]
  for entry in small.scored(Answers(reader), metrics, world):
    if not math.isnan(entry['value']) and entry['metric'] != 'distinction':
      assert entry['value'] == pytest.approx(1), entry['quantity']
