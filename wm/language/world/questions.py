"""The plan of a world as questions of an Inspect data set, and back.

A sample's metadata says all that its answer is scored by, as JSON values, so a
log needs nothing else.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wm import core
from wm.core import registry, trust
from wm.core.queries import Answer, Query
from wm.core.verbal import PromptStyle, Verbal
from wm.evaluation import needs, query_plans
from wm.models import language
from wm.models.serving import answer_reader, llm_predictor

# What is asked unless told otherwise, of worlds that have what it needs.
METRICS = (
  "compression(suffixes='world', k=1, samples=5, trials=100)",
  'distinction(samples=0, max_elements=5, trials=100)',
  "next_token(states='drawn', num=100)",
  'capability(num=60)',
)


class Setting(NamedTuple):
  """What a group of questions has in common.

  Attributes:
    world: its spec.
    metrics: specs, with as many trials as are asked.
    seed: of all randomness.
    told, wording, names: see core.verbal.PromptStyle.
    most_told: tokens of the world in words, at most.
    before: spec of a world that is told first, as what held before; or ''.
    version: of the world; '' is not known, as of older logs.
  """

  world: str
  metrics: tuple[str, ...]
  seed: int
  told: str
  wording: str
  names: int
  most_told: int
  before: str = ''
  version: str = ''

  @property
  def telling(self) -> PromptStyle:
    """How the world is told."""
    return PromptStyle(self.told, self.wording, self.names)

  @property
  def label(self) -> str:
    """The variant in a few words."""
    return f'{self.told} {self.wording} {self.names}'

  def model(self, name: str) -> language.Model:
    """The model of a name of Inspect's that is asked so."""
    return language.Model(
      name,
      told=self.told,
      wording=self.wording,
      before=self.before,
      names=self.names,
      most_told=self.most_told,
    )

  def predictor(
    self, asker: llm_predictor.Backend
  ) -> llm_predictor.LanguageModel:
    """The predictor that such questions are of.

    Raises:
      InputError: the world is of another version than the questions.
    """
    world = made_world(self.world)
    if self.version not in ('', world.version):
      raise core.InputError(
        f'{self.world}: the questions are of its version {self.version!r}; '
        f'expected {world.version!r}, which may have other right answers'
      )
    before = made_world(self.before) if self.before else None
    return llm_predictor.LanguageModel(
      world, self.telling, asker, self.most_told, before
    )


def made_world(spec: str) -> Verbal:
  """The world of a spec; InputError where it cannot be told in words."""
  if any(registry.files(spec)):  # Which may change, or be trusted no more.
    return _built.__wrapped__(spec)
  return _built(spec)


@functools.lru_cache(maxsize=8)
def _built(spec: str) -> Verbal:
  world = registry.make('world', spec)
  if not isinstance(world, Verbal):
    raise core.InputError(
      f'{spec} cannot be told in words; a world that can is core.Verbal'
    )
  return world


@functools.lru_cache(maxsize=64)
def reader(setting: Setting) -> answer_reader.AnswerReader:
  """What reads answers about a world."""
  return answer_reader.AnswerReader(
    made_world(setting.world).token_names(setting.telling)
  )


def default_metrics(world: core.World) -> list[str]:
  """Those of METRICS that can be asked of a world."""
  found = []
  for spec in METRICS:
    metric = registry.make('metric', spec)
    drawn = vars(metric).get('states') == 'drawn'
    missing = needs.lacks(metric, llm_predictor.LanguageModel, type(world))
    if not missing and (isinstance(world, core.Prefixed) or not drawn):
      found.append(spec)
  return found


def settings(
  world: str,
  metrics: Sequence[str],
  *,
  told: str,
  wordings: Sequence[str],
  names: Sequence[int],
  seed: int,
  max_calls: int,
  most_told: int,
  before: str = '',
) -> Iterator[tuple[Setting, list[tuple[Query, str]]]]:
  """A setting, its questions and their trials, by wording and seed of names.

  Args:
    world, told, seed, most_told, before: see Setting.
    metrics: specs; none is the default ones.
    wordings: ('',) is the world's first, ('all',) all of them.
    names: seeds of names.
    max_calls: see query_plans.plans.

  Raises:
    InputError: see query_plans.plans and LanguageModel.
  """
  trust.allow(*registry.files([world, before, *metrics]))  # Of the user's.
  made = made_world(world)
  specs = list(metrics) or default_metrics(made)
  known = [_askable(registry.make('metric', spec), made) for spec in specs]
  if list(wordings) == ['all']:
    wordings = made.wordings
  for wording, name in itertools.product(wordings, names):
    one = Setting(
      *(registry.spec(made), (), seed, told, wording or made.wordings[0]),
      names=name,
      most_told=most_told,
      before=before,
      version=made.version,
    )
    one.model('any/model')  # What no model could be asked so is refused now.
    predictor = one.predictor(llm_predictor.DryRunBackend())
    plans = query_plans.plans(known, predictor, made, seed, max_calls, print)
    # Metrics may ask the same: it is asked once, and counts for the first.
    trials: dict[str, tuple[Query, str]] = {}
    for found in plans:
      for question in found.questions:
        trial = f'{found.metric.name} {question.trial}'
        trials.setdefault(question.prompt, (question, trial))
    asks = tuple(registry.spec(found.metric) for found in plans)
    yield one._replace(metrics=asks), list(trials.values())


def _askable(metric: core.Metric, world: core.World) -> core.Metric:
  """The metric; InputError where no language model can be asked by it."""
  if missing := needs.lacks(metric, llm_predictor.LanguageModel, type(world)):
    available = ', '.join(default_metrics(world)) or 'none'
    raise core.InputError(
      f'{registry.spec(metric)} needs {missing[0].__name__}, which '
      f'{registry.spec(world)} told to a language model does not give; '
      f'expected such as {available}'
    )
  return metric


def metadata(
  setting: Setting, question: Query, truth: Any, trial: str
) -> dict[str, Any]:
  """All of it as JSON values."""
  return {
    **setting._asdict(),
    'metrics': list(setting.metrics),
    'variant': setting.label,
    'kind': question.kind,
    'prefix': list(question.prefix),
    'suffixes': [list(suffix) for suffix in question.suffixes],
    'trial': trial,
    'truth': truth,
  }


_ASIDE = 'metrics', 'version'


def restored(data: Mapping[str, Any]) -> tuple[Setting, Query, Any]:
  """Setting, question (without its prompt) and truth of a sample's metadata.

  Raises:
    InputError: it is another task's, or another version's.
  """
  with core.reading('a sample', 'one of wm/world'):
    setting = Setting(
      **{name: data[name] for name in Setting._fields if name not in _ASIDE},
      metrics=tuple(data['metrics']),
      version=data.get('version', ''),
    )
    question = Query(
      '',
      data['kind'],
      tuple(data['prefix']),
      tuple(tuple(suffix) for suffix in data['suffixes']),
    )
    return setting, question, data['truth']


def stored(value: Any) -> Any:
  """A truth or an answer's value as JSON has it; `value` reads it."""
  return list(value) if isinstance(value, tuple) else value


def value(data: Any) -> Any:
  """See stored."""
  return tuple(data) if isinstance(data, list) else data


Recall = tuple[str, tuple[int, ...], tuple[tuple[int, ...], ...]]


def recall(question: Query) -> Recall:
  """What an answer is found by, within a setting."""
  return question.kind, question.prefix, question.suffixes


class Recalled:
  """Answers questions by what is known; see llm_predictor.QueryBackend."""

  repeats = 1

  def __init__(self, known: Mapping[Recall, Answer]) -> None:
    self._known = known

  def answers(
    self, questions: Sequence[Query], read: llm_predictor.Read
  ) -> list[Answer]:
    """What is known of each."""
    del read
    return [
      self._known.get(recall(one), llm_predictor.UNASKED) for one in questions
    ]

  def diagnostics(self) -> list[str]:
    """None."""
    return []
