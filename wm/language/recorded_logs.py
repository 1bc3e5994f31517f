"""Makes logs of Inspect from the recorded answers that papers have published.

A paper's folder of answers comes in. Its module `recorded` makes a
`RecordedLog` for each log of them; its module `report` then makes the same page
as of logs of live models. `launch/recorded.py` calls `rescore` and `convert`.

A log has ten thousand samples and more. Inspect's own `score` holds all of them
at once, and copies each for every number of its score. Here samples are scored
and written one by one; the log is the one that `score` and `write_eval_log`
would make.
"""

from __future__ import annotations

import gzip
import json
import pathlib
import secrets
import types
import zipfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from inspect_ai._eval import score as scoring
from inspect_ai._eval.task import log as headers
from inspect_ai._eval.task.results import eval_results
from inspect_ai._util._async import run_coroutine
from inspect_ai._util.json import to_json_safe
from inspect_ai._util.registry import registry_params, registry_unqualified_name
from inspect_ai.event import ScoreEvent, SpanBeginEvent, SpanEndEvent
from inspect_ai.log import (
  EvalConfig,
  EvalDataset,
  EvalLog,
  EvalPlan,
  EvalSample,
  EvalSampleReductions,
  EvalSampleScore,
  EvalSampleSummary,
  EvalSpec,
  EventsData,
  transcript,
)
from inspect_ai.log._util import THIN_TEXT_WIDTH, thin_metadata
from inspect_ai.model import (
  ChatMessage,
  ChatMessageAssistant,
  GenerateConfig,
  Model,
  ModelAPI,
  ModelOutput,
  ModelUsage,
  get_model,
  modelapi,
)
from inspect_ai.scorer import SampleScore, Score, Scorer, mean_score
from inspect_ai.scorer._scorer import as_scorer_spec, unique_scorer_name
from inspect_ai.tool import ToolChoice, ToolInfo

from wm import core, papers
from wm.core import inputs
from wm.language import pages
from wm.language.pages import AnswersPage, Row
from wm.runtime import files

NAME = 'recorded'


@modelapi(name=NAME)
class RecordedModel(ModelAPI):
  """A model whose answers are those of a record.

  Inspect looks a log's model up to score it again, though it asks nothing.
  """

  def __init__(self, model_name: str, **settings: Any) -> None:
    taken = {'base_url', 'api_key', 'config'}
    super().__init__(
      model_name, **{k: x for k, x in settings.items() if k in taken}
    )

  async def generate(
    self,
    input: list[ChatMessage],
    tools: list[ToolInfo],
    tool_choice: ToolChoice,
    config: GenerateConfig,
  ) -> ModelOutput:
    """Refuses: a record has no other answers."""
    raise core.InputError(
      f'{NAME}/{self.model_name} has recorded answers alone; expected a '
      'model that can be asked'
    )


def sample(
  name: str,
  messages: Sequence[ChatMessage],
  reply: str,
  *,
  model: str,
  target: str | list[str],
  metadata: Mapping[str, Any],
  scores: Mapping[str, Score] | None = None,
) -> EvalSample:
  """A recorded answer as a sample of a log.

  Args:
    name: of the sample.
    messages: all before the reply.
    reply: the answer.
    model: who answered.
    target: right answers.
    metadata: as the task makes it.
    scores: that the record has.
  """
  output = ModelOutput.from_content(model, reply)
  output.usage = ModelUsage()
  return EvalSample(
    id=name,
    epoch=1,
    input=list(messages),
    target=target,
    messages=[*messages, ChatMessageAssistant(content=reply)],
    output=output,
    metadata=dict(metadata),
    scores=dict(scores or {}),
    # All that Inspect would shorten is pictures, and events of models.
    events_data=EventsData(messages=[], calls=[]),
  )


def read_lines(
  path: pathlib.Path, needed: Mapping[str, type]
) -> Iterator[dict[str, Any]]:
  """Objects of a packed JSON-lines file.

  needed: name -> `str` or `float`, what each object's value of it is.

  Raises:
    InputError: it is missing or damaged, or an object lacks such a value.
  """
  with (
    inputs.reading_file(path, 'a file of recorded answers'),
    gzip.open(path, 'rt', encoding='utf-8') as file,
  ):
    for number, line in enumerate(file, 1):
      record = inputs.parse_json(line)
      if not isinstance(record, dict):
        raise core.InputError(f'{path}, line {number}: no object')
      for name, kind in needed.items():
        value = record.get(name)
        if not isinstance(value, str if kind is str else int | float):
          what = 'text' if kind is str else 'number'
          raise core.InputError(
            f'{path}, line {number}: {name}={value!r:.80}; expected a {what}'
          )
      yield record


class Record(NamedTuple):
  """The source of recorded answers.

  Attributes:
    task: its name, without the package.
    version: of the task.
    created: when, in ISO 8601.
    source: of the record, and its licence.
    args: the task's.
  """

  task: str
  version: int
  created: str
  source: str
  args: Mapping[str, Any] = types.MappingProxyType({})


class RecordedLog(NamedTuple):
  """A log of recorded answers, as a task of a paper makes them.

  Attributes:
    record: where they come from.
    model: who answered.
    samples: with the answers, iterated over once. Scores that they have stay.
    scorer: of the task.
    name: differs from that of all other logs of recorded answers; files are
      called so. By default TASK-MODEL.
  """

  record: Record
  model: str
  samples: Iterable[EvalSample]
  scorer: Scorer
  name: str = ''

  @property
  def title(self) -> str:
    """The name, or what stands for it."""
    return self.name or f'{self.record.task}-{self.model}'

  def scored(self) -> EvalLog:
    """The log with all samples."""
    return run_coroutine(self._scored())

  async def _scored(self) -> EvalLog:
    log = self._head()
    log.samples = [sample async for sample in self._samples(log)]
    return log

  async def write(self, path: pathlib.Path) -> None:
    """Writes the log, which never holds all samples.

    A log is a ZIP archive of JSON texts. Inspect's recorder compresses each by
    twelve threads, and reads the archive's whole list again for each part.
    """
    log, summaries = self._head(), []
    kind = zipfile.ZIP_DEFLATED
    with path.open('wb') as file:
      with zipfile.ZipFile(file, 'w', kind, compresslevel=1) as archive:
        async for sample in self._samples(log):
          name = f'samples/{sample.id}_epoch_{sample.epoch}.json'
          archive.writestr(name, _json(sample))
          summaries.append(_json(_summary(sample)))
        start = {'version': log.version, 'eval': log.eval, 'plan': log.plan}
        header = log.model_copy(update={'reductions': None})
        archive.writestr('_journal/start.json', _json(start))
        archive.writestr('summaries.json', b'[' + b','.join(summaries) + b']')
        archive.writestr('reductions.json', _json(log.reductions))
        archive.writestr('header.json', _json(header))
      files.sync(file)

  def _head(self) -> EvalLog:
    """The log without samples and results."""
    record = self.record
    return EvalLog(
      status='success',
      eval=EvalSpec(
        eval_id=self.title,
        run_id=f'{record.task}-recorded',
        task_id=self.title,
        created=record.created,
        task=record.task,
        task_version=record.version,
        task_registry_name=f'wm/{record.task}',
        task_args=dict(record.args),
        dataset=EvalDataset(name=record.task),
        model=f'{NAME}/{self.model}',
        config=EvalConfig(),
        metadata={'source': record.source, 'recorded': True},
        scorers=headers.resolve_eval_scorers([as_scorer_spec(self.scorer)]),
      ),
      plan=EvalPlan(),
    )

  async def _samples(self, log: EvalLog) -> AsyncIterator[EvalSample]:
    """Scored samples; after the last one `log` has what is of all of them."""
    model = get_model(log.eval.model)
    scores: list[dict[str, SampleScore]] = []
    ids: list[str] = []
    for sample in self.samples:
      scores.append(await _score(log, sample, self.scorer, model))
      ids.append(str(sample.id))
      yield sample
    names = [name for new in scores[:1] for name in new]
    log.results, _ = eval_results(
      len(scores), scores, [], [self.scorer], None, names
    )
    log.reductions = [_reductions(name, scores) for name in names]
    log.eval.dataset.samples, log.eval.dataset.sample_ids = len(ids), ids


async def _score(
  log: EvalLog, sample: EvalSample, scorer: Scorer, model: Model
) -> dict[str, SampleScore]:
  """Scores a sample, which gets its score and events, as by Inspect's `score`.

  That copies what a sample stores at each of four events, which takes longer
  than most scorers.

  Returns:
    Name of the scorer -> score.
  """
  state, target, _ = scoring.task_state_from_sample(
    sample,
    model=model,
    model_name=log.eval.model,
    model_roles={},
    append_scores=True,
  )
  name = unique_scorer_name(scorer, [*(state.scores or {})])
  score = await scorer(state, target)
  if score is None:
    return {}
  outer, inner = _drawn(), _drawn()
  sample.scores = {**(sample.scores or {}), name: score}
  sample.events = [
    *sample.events,
    SpanBeginEvent(
      uuid=_drawn(), span_id=outer, id=outer, type='scorers', name='scorers'
    ),
    SpanBeginEvent(
      uuid=_drawn(),
      span_id=inner,
      id=inner,
      parent_id=outer,
      type='scorer',
      name=name,
    ),
    *transcript().events[len(sample.events) :],
    ScoreEvent(
      uuid=_drawn(),
      span_id=inner,
      score=score,
      target=target.target,
      scorer=name,
      scorer_args=registry_params(scorer),
    ),
    SpanEndEvent(uuid=_drawn(), span_id=inner, id=inner),
    SpanEndEvent(uuid=_drawn(), span_id=outer, id=outer),
  ]
  return {
    name: _Light(
      score=score,
      sample_id=state.sample_id,
      sample_metadata=state.metadata,
      scorer=registry_unqualified_name(scorer),
    )
  }


def _drawn() -> str:
  """A name of an event that no other one has; Inspect's own takes longer."""
  return secrets.token_urlsafe(16)


def _json(value: Any) -> bytes:
  """JSON as Inspect writes it: without None, and with no broken character."""
  return to_json_safe(value, indent=None)


def _summary(sample: EvalSample) -> EvalSampleSummary:
  """What Inspect's `sample.summary()` is, which wraps the shortest of texts."""
  summary = sample.model_copy(update={'metadata': {}, 'scores': {}}).summary()
  summary.metadata = _short(sample.metadata)
  summary.scores = {
    name: Score(
      value=score.value,
      **_short({key: vars(score)[key] for key in _WORDS}),
      metadata=None if score.metadata is None else _short(score.metadata),
    )
    for name, score in (sample.scores or {}).items()
  }
  return summary


_WORDS = 'answer', 'explanation', 'reason'


def _short(values: Mapping[str, Any]) -> dict[str, Any]:
  """Values of a summary, of which only long ones are shortened."""
  return {
    name: ' '.join(value.split())
    if isinstance(value, str) and len(value) <= THIN_TEXT_WIDTH
    else thin_metadata({name: value})[name]
    for name, value in values.items()
  }


class _Light(SampleScore):
  """A score whose copies share what Inspect's metrics do not change."""

  def __deepcopy__(self, memo: Any = None) -> _Light:
    return self.model_copy(update={'score': self.score.model_copy()})


def _reductions(
  name: str, scores: Sequence[Mapping[str, SampleScore]]
) -> EvalSampleReductions:
  """Scores of samples as means over their epochs, of which each has one."""
  each = (new[name] for new in scores if name in new)
  return EvalSampleReductions(
    scorer=name,
    samples=[
      EvalSampleScore(**vars(_mean(x.score)), sample_id=x.sample_id)
      for x in each
    ],
  )


_OVER_EPOCHS = mean_score()


def _mean(score: Score) -> Score:
  """The mean of one score: numbers stay, words become numbers."""
  values = score.value.values() if isinstance(score.value, dict) else ()
  if values and all(type(value) is float for value in values):
    return score
  return _OVER_EPOCHS([score])


def _module(paper: str, function: str, lacking: str) -> Any:
  """The module `recorded` of a paper, which has a function; or InputError."""
  recorded = [name for name in papers.names() if papers.has(name, 'recorded')]
  text = f'no recorded answers of {paper!r}'
  inputs.check_known(paper, recorded, text)
  modules = {name: papers.load(name, 'recorded') for name in recorded}
  having = [name for name in recorded if function in vars(modules[name])]
  inputs.check_known(paper, having, lacking.format(paper))
  return modules[paper]


def rescore(paper: str, data: str | pathlib.Path) -> AnswersPage:
  """Scores a paper's recorded answers again.

  Raises:
    InputError: no such paper, or its files are missing or damaged.
  """
  if not pathlib.Path(data).is_dir():
    raise core.InputError(f'no folder of recorded answers at {data}')
  module = _module(paper, 'logs', 'answers of {} are not read')
  if 'rescore' in vars(module):
    page: AnswersPage = module.rescore(data)
  else:
    logs = [log.scored() for log in module.logs(data)]
    page = papers.load(paper, 'report').page(logs)
  return page


def errors(paper: str, data: str | pathlib.Path) -> Sequence[Row]:
  """Answer keys of a paper that are wrong, a row each.

  Raises:
    InputError: no such paper, none of its keys are known to be wrong, or its
      files are missing or damaged.
  """
  module = _module(paper, 'errors', 'no answer keys of {} are checked')
  rows: Sequence[Row] = module.errors(data)
  return rows


def convert(
  paper: str, data: str | pathlib.Path, out: str | pathlib.Path
) -> list[pathlib.Path]:
  """Writes a paper's recorded answers as logs of Inspect into `out`.

  Raises:
    InputError: no such paper, or its files are missing or damaged.
  """
  folder = pathlib.Path(out)
  paths = []
  module = _module(paper, 'logs', 'answers of {} are not read')
  with files.stage_lock(folder, 'logs'):
    for log in module.logs(data):
      name = ''.join(c if c.isalnum() or c in '.-' else '_' for c in log.title)
      path = folder / f'{name}.eval'
      with files.replacing(path) as temporary:
        run_coroutine(log.write(temporary))
      paths.append(path)
  return paths


def save(page: AnswersPage, out: str | pathlib.Path) -> pathlib.Path:
  """Writes report.html, report.md, CSV files, pictures, and scores.json.

  Returns:
    Path of report.html, one page that needs no network.
  """
  path = pages.save(page, out)
  # Numbers of NumPy become Python's; NaN and infinity become null.
  text = json.dumps(page.rows, default=np.generic.item)
  rows = json.loads(text, parse_constant=lambda name: None)
  files.write_json(path.with_name('scores.json'), rows)
  return path
