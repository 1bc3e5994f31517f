"""A language model: asked in words what can come next in a world.

Vafa et al. 2024, section 4.2: a closed model gives answers, not probabilities.
The models and their providers are those of inspect_ai.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from wm import core
from wm.core import registry
from wm.core.fields import field
from wm.core.verbal import MAX_TOKENS, PromptStyle, Verbal
from wm.language import call_ledger, llm_predictor

if TYPE_CHECKING:
  from inspect_ai.model import GenerateConfig

CALL = 10_000  # Bytes of a call that is under way.
# Alternatives at each token that log-probabilities are asked of.
ALTERNATIVES = 20


def require_verbal(world: core.World) -> Verbal:
  """The world; InputError where it cannot be told in words."""
  if not isinstance(world, Verbal):
    raise core.InputError(
      f'{registry.spec(world)} cannot be told in words; a world that can is '
      'core.Verbal'
    )
  return world


def make_verbal(spec: str) -> Verbal:
  """The world of a spec; InputError where it cannot be told in words."""
  return require_verbal(registry.make('world', spec))


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Any model that Inspect can reach, by 'provider/model'.

  Keys are read from the environment, such as OPENAI_API_KEY. Answers are kept
  on disk, by prompt, model and settings: nothing is asked twice. What
  can be asked is what a metric lists beforehand, see wm.core.queries.

  Attributes:
    model: such as 'openai/gpt-5', 'openai-api/local/NAME' with `base_url`, or
      the known answers 'wm/solver', 'wm/yes', 'wm/random', 'wm/old_map'.
    before: spec of a world of the same tokens that is told first, as what held
      until the world asked about took its place; '' is none.
    names: seed of new names and of the order in which things are said; 0 is as
      they are.
    temperature: of the sampling of tokens.
    max_tokens: most tokens of an answer, reasoning included.
    logprobs: also ask for log-probabilities, which give P(yes).
    read: 'text', or 'logprobs': yes where it is the likelier of yes and no as
      the first token.
    most_told: tokens of the world in words, at most.
    base_url: address of the provider; '' is its own.
    args: of the provider, as pairs such as (('max_retries', 0),).
    connections: calls at a time; no effect on results.
    retries: of a call that fails.
    timeout: seconds of one try.
    answers: folder of the answers that are kept; '' is the user's own.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (Verbal,)
  gives: ClassVar[tuple[type, ...]] = (llm_predictor.LanguageModel,)
  paraphrases: ClassVar[tuple[str, ...]] = ('names',)

  # What is asked, and in which words.
  model: str
  before: str = ''
  names: int = field(0, least=0)
  # How an answer is drawn, and how it is read.
  temperature: float = field(0.0, least=0, most=2)
  max_tokens: int = field(1024, least=1)
  logprobs: bool = False
  read: str = field('text', choices=('text', 'logprobs'))
  # Where it is asked, and how long a prompt may be.
  most_told: int = field(MAX_TOKENS, least=1)
  base_url: str = ''
  args: tuple[tuple[str, Any], ...] = ()
  # No part of the spec's identity: how calls are made changes no answer.
  connections: int = field(10, least=1, compare=False)
  retries: int = field(5, least=0, compare=False)
  timeout: int = field(120, least=1, compare=False)
  answers: str = dataclasses.field(default='', compare=False)

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded: a millisecond a call, calls that are under way."""
    del world
    calls = self.connections * CALL
    return core.Cost(calls, 1e-3, ('connections',))

  def __post_init__(self) -> None:
    super().__post_init__()
    # 'openai-api/local/NAME' has two slashes: the first part is the provider.
    provider_name, slash, name = self.model.partition('/')
    if not (provider_name and slash and name):
      raise core.InputError(
        f"language: model={self.model!r}; expected 'provider/model', such as "
        "'openai/gpt-5' or 'wm/solver'"
      )
    # Pairs, not a dict: a spec holds hashable literals.
    if not all(
      isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)
      for pair in self.args
    ):
      raise core.InputError(
        f'language: args={self.args!r}; expected pairs of a name and a value, '
        "such as (('max_retries', 0),)"
      )

  def undeclared_inputs(self) -> str:
    """See core.Model."""
    return (
      'a language model may change behind its provider; its answers are kept '
      'one by one'
    )

  def _asks_logprobs(self) -> bool:
    # Reading by log-probabilities implies asking for them.
    return self.logprobs or self.read == 'logprobs'

  def identity(self) -> dict[str, Any]:
    """What an answer to a prompt depends on, as JSON values."""
    return {
      'model': self.model,
      'base_url': self.base_url,
      'temperature': self.temperature,
      'max_tokens': self.max_tokens,
      'logprobs': self._asks_logprobs(),
      'args': self.args,
    }

  def config(self) -> GenerateConfig:
    """How Inspect makes calls."""
    logprobs = self._asks_logprobs()
    config: GenerateConfig = call_ledger.inspect_models().GenerateConfig(
      max_connections=self.connections,
      max_retries=self.retries,
      attempt_timeout=self.timeout,
      temperature=self.temperature,
      max_tokens=self.max_tokens,
      # None leaves a setting out of the request.
      logprobs=logprobs or None,
      top_logprobs=ALTERNATIVES if logprobs else None,
    )
    return config

  def style(self) -> PromptStyle:
    """How the world is described in prompts."""
    return PromptStyle(self.names)

  def predictor(
    self, world: core.World, seed: int
  ) -> llm_predictor.LanguageModel:
    """See core.Model.

    Raises:
      InputError: the world cannot be told so.
    """
    del seed
    return self.asked_through(llm_predictor.QueryBackend(self), world)

  def asked_through(
    self, backend: llm_predictor.Backend, world: core.World
  ) -> llm_predictor.LanguageModel:
    """Its questions about a world, which a backend answers.

    Raises:
      InputError: the world cannot be told so.
    """
    # A world that held before: what a model must unlearn from the prompt.
    before = make_verbal(self.before) if self.before else None
    style, most = self.style(), self.most_told
    return llm_predictor.LanguageModel(
      require_verbal(world), style, backend, most, before
    )
