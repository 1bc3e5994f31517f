"""Questions about a world in words, for Inspect, and the scores of the answers.

A `Setting` (world, metrics, names) comes in; `settings` gives its questions,
and `metadata` writes each as JSON values that say all that its answer is scored
by. So a log needs nothing else: `gathered` reads its answers, and `score_logs`
runs the metrics on them, asking nothing. `world_task` is the task;
`wm.language.llm_predictor` words the questions.
"""

from __future__ import annotations

import collections
import functools
import math
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wm import core
from wm.core import inputs, plugins, queries, registry, schema
from wm.core.measure import headline_quantities, lacks
from wm.core.queries import Answer, Query
from wm.core.verbal import PromptStyle, Verbal
from wm.evaluation import query_plans, results, statistics
from wm.evaluation import scoring as trials
from wm.language import llm_predictor, provider
from wm.language.answers import grammar
from wm.language.models import language

if TYPE_CHECKING:
  from inspect_ai.log import EvalLog


# The default metrics, of worlds that have what these need.
METRICS = (
  "compression(suffixes='world', k=1, samples=5, trials=100)",
  'distinction(samples=0, max_elements=5, trials=100)',
  "next_token(states='drawn', num=100)",
  'capability(num=60)',
)


class Setting(NamedTuple):
  """What a group of questions shares: world, metrics and names.

  Its fields stand in the metadata of each sample. With a model's name it makes
  the model that `wm.score` would ask in the same words (`model`).

  Attributes:
    world: its spec.
    metrics: specs, with as many trials as are asked.
    seed: of all randomness.
    names: seed of names and order, see core.verbal.PromptStyle.
    most_told: tokens of the world in words, at most.
    before: spec of a world that is told first, as what held before; or ''.
    version: of the world; '' is not known, as of older logs.
    form: of answers, see WorldOptions.
  """

  world: str
  metrics: tuple[str, ...]
  seed: int
  names: int
  most_told: int
  before: str = ''
  version: str = ''
  form: str = 'text'

  @property
  def style(self) -> PromptStyle:
    """How the world is told."""
    return PromptStyle(self.names)

  @property
  def label(self) -> str:
    """The variant in a few words."""
    form = '' if self.form == 'text' else f' as {self.form}'
    return f'names {self.names}{form}'

  def model(self, name: str) -> language.Model:
    """The model of a name of Inspect's that is asked so."""
    return language.Model(
      name, before=self.before, names=self.names, most_told=self.most_told
    )

  def predictor(
    self, backend: llm_predictor.Backend
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
    return self.model('any/model').asked_through(backend, world)


def made_world(spec: str) -> Verbal:
  """The world of a spec; InputError where it cannot be told in words."""
  if any(registry.files(spec)):  # Which may change, or be trusted no more.
    return language.make_verbal(spec)
  return _cached(spec)


_cached = functools.lru_cache(maxsize=8)(language.make_verbal)


@functools.lru_cache(maxsize=64)
def reader(setting: Setting) -> grammar.AnswerReader:
  """The reader of answers about a world."""
  return grammar.AnswerReader(
    made_world(setting.world).token_names(setting.style)
  )


def default_metrics(world: core.World) -> list[str]:
  """The METRICS that can be asked of a world."""
  specs = []
  for spec in METRICS:
    metric = registry.make('metric', spec)
    drawn = vars(metric).get('states') == 'drawn'
    missing = lacks(metric, llm_predictor.LanguageModel, type(world))
    if not missing and (isinstance(world, core.Prefixed) or not drawn):
      specs.append(spec)
  return specs


def settings(
  base: Setting, names: Sequence[int], max_calls: int = 0
) -> Iterator[tuple[Setting, list[tuple[Query, str]]]]:
  """A setting, its questions and their trials, by seed of names.

  Args:
    base: what all settings share; without metrics the default ones.
    names: seeds of names.
    max_calls: see query_plans.plans.

  Raises:
    InputError: see query_plans.plans and LanguageModel.
  """
  # Files of the user's are loaded where the user has named them.
  plugins.allow(*registry.files([base.world, base.before, *base.metrics]))
  world = made_world(base.world)
  checked = _askable(base.metrics or default_metrics(world), world)
  for name in names:
    setting = base._replace(
      world=registry.spec(world), names=name, version=world.version
    )
    predictor = setting.predictor(llm_predictor.RecordedBackend())
    plans = query_plans.plans(
      checked, predictor, world, base.seed, max_calls, print
    )
    # Metrics may ask the same: it is asked once, and counts for the first.
    trials: dict[str, tuple[Query, str]] = {}
    for plan in plans:
      for question in plan.questions:
        trial = f'{plan.metric.name} {question.trial}'
        trials.setdefault(question.prompt, (question, trial))
    asks = tuple(registry.spec(plan.metric) for plan in plans)
    # Sorted, so that the order does not tell what is right.
    ordered = [trials[prompt] for prompt in sorted(trials)]
    yield setting._replace(metrics=asks), ordered


def _askable(specs: Sequence[str], world: core.World) -> list[core.Metric]:
  """The metrics that a language model can be asked by; others are told.

  Raises:
    InputError: it can be asked by none of them.
  """
  metrics = [registry.make('metric', spec) for spec in specs]
  askable, reasons = [], []
  for metric in metrics:
    missing = lacks(metric, llm_predictor.LanguageModel, type(world))
    if not missing:
      askable.append(metric)
      continue
    available = ', '.join(default_metrics(world)) or 'none'
    reasons.append(
      f'{registry.spec(metric)} needs {missing[0].__name__}, which '
      f'{registry.spec(world)} told to a language model does not give; '
      f'expected such as {available}'
    )
  if reasons and not askable:
    raise core.InputError(reasons[0])
  for reason in reasons:
    print(f'not asked: {reason}')
  return askable


def metadata(
  setting: Setting, question: Query, truth: Any, trial: str
) -> dict[str, Any]:
  """A sample's metadata: setting, question and truth as JSON values."""
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


_TOKENS = schema.List(schema.Number(int, 0))
_SAMPLE = schema.Object(
  {
    **dict.fromkeys(('world', 'before', 'version', 'form'), str),
    **dict.fromkeys(('kind', 'trial'), str),
    **dict.fromkeys(('names', 'most_told'), int),
    'seed': schema.Number(int, 0, 2**32 - 1),
    'metrics': schema.List(str),
    'prefix': _TOKENS,
    'suffixes': schema.List(_TOKENS),
    'truth': object,
  }
)
_SCORE = schema.Object(
  {'value': object, 'failure': str, 'probability': float | None}
)
# What a setting has where a log's samples lack it.
_OLDER = {'version': '', 'form': 'text'}


def restored(data: Mapping[str, Any]) -> tuple[Setting, Query, Any]:
  """Setting, question (without its prompt) and truth of a sample's metadata.

  Raises:
    InputError: it is another task's, or another version's.
  """
  if 'told' in data:
    raise core.InputError(
      'a sample is of an earlier version of wm/world, which had several '
      'wordings; expected one of this version'
    )
  with inputs.reading('a sample', 'one of wm/world'):
    data = schema.check({**_OLDER, **data}, _SAMPLE, 'metadata')
    text = f'no kind of question {data["kind"]!r:.40}'
    inputs.check_known(data['kind'], queries.KINDS, text)
    setting = Setting(**{name: data[name] for name in Setting._fields})
    setting = setting._replace(metrics=tuple(setting.metrics))
    question = Query(
      '',
      data['kind'],
      tuple(data['prefix']),
      tuple(tuple(suffix) for suffix in data['suffixes']),
    )
    return setting, question, data['truth']


def to_json(value: Any) -> Any:
  """A truth or an answer's value as JSON has it; `from_json` reads it."""
  return list(value) if isinstance(value, tuple) else value


def from_json(data: Any) -> Any:
  """The value that `to_json` wrote."""
  return tuple(data) if isinstance(data, list) else data


# Answers to one question, one for each epoch, by setting and question.
Known = dict[Setting, dict[Query, list[Answer]]]


def answer_to_json(answer: Answer) -> dict[str, Any]:
  """An answer as metadata of a score; `answer_from_json` reads it."""
  unknown = math.isnan(answer.probability)
  return {
    'value': to_json(answer.value),
    'failure': answer.failure,
    'probability': None if unknown else answer.probability,
  }


def answer_from_json(data: Mapping[str, Any]) -> Answer:
  """The answer in metadata of a score; InputError if there is none."""
  with inputs.reading('a score', 'one of wm/world'):
    chance = schema.check(dict(data), _SCORE, 'metadata')['probability']
    chance = math.nan if chance is None else chance
    return Answer(from_json(data['value']), data['failure'], chance)


def gathered(pairs: Iterable[tuple[Mapping[str, Any], Answer]]) -> Known:
  """Answers by setting and question, from samples' metadata and answers."""
  by_setting: Known = collections.defaultdict(
    lambda: collections.defaultdict(list)
  )
  for data, answer in pairs:
    setting, question, _ = restored(data)
    by_setting[setting][question].append(answer)
  return by_setting


def recalled_predictor(
  setting: Setting, answers: Mapping[Query, Sequence[Answer]]
) -> llm_predictor.LanguageModel:
  """A predictor that answers what is known; most of several answers win."""
  voted = {
    key: llm_predictor.voted(several) for key, several in answers.items()
  }
  return setting.predictor(llm_predictor.RecordedBackend(voted))


def headline_values(gathered_answers: Known) -> dict[str, float]:
  """Headline quantities of all metrics, means over the settings.

  NAME_sd is the standard deviation over settings that differ in names
  and order, where there are several.
  """
  columns: dict[str, list[float]] = collections.defaultdict(list)
  for setting, answers in gathered_answers.items():
    model = recalled_predictor(setting, answers)
    for spec in setting.metrics:
      metric = registry.make('metric', spec)
      world = made_world(setting.world)
      try:
        measured = metric(model, world, setting.seed)
      except core.InputError as error:  # The others are measured all the same.
        print(f'{spec}: {error}')
        for quantity in headline_quantities(metric):
          columns[f'{metric.name}_{quantity}'].append(math.nan)
        continue
      for scores in measured:
        if scores.quantity in headline_quantities(metric):
          value = statistics.summarize(scores)['value']
          columns[f'{metric.name}_{scores.quantity}'].append(
            math.nan if value is None else value
          )
  means = {name: float(np.mean(numbers)) for name, numbers in columns.items()}
  spread = {
    f'{name}_sd': float(np.std(numbers, ddof=1))
    for name, numbers in columns.items()
    if len(numbers) > 1
  }
  return means | spread


def worth(answer: Answer, truth: Any) -> dict[str, float]:
  """Whether an answer can be read, is right, and P(right); NaN if unknown."""
  right, chance = math.nan, answer.probability
  wrong = math.nan if truth is None else 0.0
  if not answer.failure and truth is not None:
    right = float(answer.value == truth)
  return {
    'answered': float(not answer.failure),
    'right': right,
    'right_all': wrong if math.isnan(right) else right,
    'probability': chance if truth is True else 1 - chance,
  }


def log_answers(log: EvalLog) -> Iterator[tuple[dict[str, Any], Answer]]:
  """Metadata of each sample and what it was answered, epoch by epoch.

  Raises:
    InputError: the log is of another task or version.
  """
  for sample in log.samples or ():
    answer = Answer(None, 'not_scored')
    if sample.error is not None:
      # Inspect keeps what the error said, in place of the error.
      message = f'{sample.error.message} {sample.error.traceback}'
      answer = Answer(None, provider.named_cause(message))
    elif sample.scores:  # A task has one scorer.
      score, *_ = sample.scores.values()
      answer = answer_from_json(score.metadata or {})
    yield sample.metadata, answer


def score_logs(
  logs: Sequence[EvalLog],
  out: pathlib.Path,
  log: Callable[[str], None] = lambda line: None,
  missing: Sequence[int] = (),
) -> list[pathlib.Path]:
  """Runs the metrics of logs on their answers.

  Args:
    logs: of `wm/world`.
    out: each log and variant gets a folder in OUT/logs, as `score` writes it.
    log: gets what scoring tells.
    missing: of each log, how many samples were never asked; () is none.

  Returns:
    The folders.
  """
  folders = []
  for run, never_asked in zip(logs, missing or [0] * len(logs), strict=True):
    by_setting = gathered(log_answers(run))
    line = (
      f'is scored on a part of its log (status {run.status}): {never_asked} '
      'samples were never asked, and trials that need them are unmeasured'
    )
    cut = {'status': results.PARTIAL, 'cautions': [line]} if never_asked else {}
    for setting, answers in by_setting.items():
      name = run.eval.model
      if len(by_setting) > 1:
        name = f'{name} ({setting.label})'
      mark = re.sub(r'[^\w.-]+', '-', f'{run.eval.task_id}-{setting.label}')
      folders.append(out / 'logs' / mark)
      # Tables compare the styles of one model by its spec.
      spec = registry.spec(setting.model(run.eval.model))
      trials.run(
        trials.Loaded(
          recalled_predictor(setting, answers),
          made_world(setting.world),
          name,
          {'model_spec': spec, 'checkpoint': 'none', **cut},
        ),
        [registry.make('metric', spec) for spec in setting.metrics],
        seed=setting.seed,
        out=folders[-1],
        max_calls=query_plans.NO_LIMIT,
        log=log,
      )
  return folders
