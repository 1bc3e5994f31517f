"""Known answers as providers of Inspect."""

import asyncio
import math

import pytest

from wm import core
from wm.core import registry

model = pytest.importorskip('inspect_ai.model')

from wm.language import llm_predictor, providers  # noqa: E402

WORLD = registry.make('world', 'maps(rows=2, columns=2)')
TELL = core.PromptStyle()
# From the first intersection no way leads to the first one in one step.
READER = llm_predictor.LanguageModel(
  WORLD, TELL, llm_predictor.RecordedBackend()
)
NAMES = {name: token for token, name in enumerate(WORLD.token_names(TELL))}


def prompt(prefix, suffix):
  """A question as messages, as `wm.score` puts it."""
  tokens = [tuple(NAMES[name] for name in words) for words in (prefix, suffix)]
  question = READER.yes_no(*tokens)
  (solution,) = llm_predictor.solutions(WORLD, TELL, None, [question])
  return [model.ChatMessageUser(content=question.prompt, metadata=solution)]


RIGHT = prompt((), ('1', '2'))
WRONG = prompt(('1', '2'), ('stop',))


def message(name, prompt, **config):
  """The output of wm/name for one prompt, a text or messages."""
  made = model.get_model(f'wm/{name}', memoize=False)
  config = model.GenerateConfig(**config)
  return asyncio.run(made.generate(prompt, config=config))


def test_the_solver_knows_what_the_world_allows():
  assert message('solver', RIGHT).completion == 'Yes.'
  assert message('solver', WRONG).completion == 'No.'
  assert message('old_map', WRONG).completion == 'No.'
  assert message('yes', WRONG).completion == 'Yes.'


def test_every_one_reports_usage_and_answers_anything():
  for name in (*providers.ANSWERERS, *providers.ALIASES):
    output = message(name, 'What is the weather like?')
    assert output.completion == providers.UNKNOWN
    assert output.usage.total_tokens == (
      output.usage.input_tokens + output.usage.output_tokens
    )


def test_log_probabilities_come_where_they_are_asked_for():
  assert message('solver', RIGHT).choices[0].logprobs is None
  for name, share in (('solver', providers.SURE), ('random', 0.5)):
    output = message(name, WRONG, logprobs=True, top_logprobs=2)
    first = output.choices[0].logprobs.content[0]
    assert first.token == output.completion.rstrip('.')
    assert math.isclose(first.logprob, math.log(share))
    assert {item.token for item in first.top_logprobs} == {'Yes', 'No'}
    total = sum(math.exp(item.logprob) for item in first.top_logprobs)
    assert math.isclose(total, 1)


def test_a_coin_is_tossed_again_and_falls_the_same_for_one_seed():
  def tosses(seed):
    made = model.get_model('wm/random', memoize=False)
    config = model.GenerateConfig(seed=seed)

    async def ask():
      return [await made.generate(RIGHT, config=config) for _ in range(40)]

    return [output.completion for output in asyncio.run(ask())]

  first = tosses(1)
  assert first == tosses(1) != tosses(2)
  assert 8 < first.count('Yes.') < 32


def test_an_unknown_name_is_refused_in_one_line():
  with pytest.raises(core.InputError, match="'wm/sage'; available: wm/sol"):
    model.get_model('wm/sage', memoize=False)
  with pytest.raises(core.InputError, match='no arguments'):
    model.get_model('wm/solver', memoize=False, depth=3)
