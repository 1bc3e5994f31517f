"""Makes logs of Inspect from the recorded answers that papers have published.

A paper's folder of answers comes in. Its module `recorded` makes a
`RecordedLog` for each log of them; its module `report` then makes the same page
as of logs of live models. `launch/recorded.py` calls `rescore` and `convert`.

Inspect's `write_eval_log` holds all samples of a log at once: `convert` makes
several logs of a model that has many answers.
"""

from __future__ import annotations

import gzip
import itertools
import json
import pathlib
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import inspect_ai
import numpy as np
from inspect_ai.log import (
  EvalConfig,
  EvalDataset,
  EvalLog,
  EvalPlan,
  EvalSample,
  EvalSpec,
  recompute_metrics,
  write_eval_log,
)
from inspect_ai.model import (
  ChatMessage,
  ChatMessageAssistant,
  GenerateConfig,
  ModelAPI,
  ModelName,
  ModelOutput,
  ModelUsage,
  modelapi,
)
from inspect_ai.scorer import Score, Scorer, Target
from inspect_ai.solver import TaskState
from inspect_ai.tool import ToolChoice, ToolInfo

from wm import core
from wm.core import inputs
from wm.language import pages, papers, provider
from wm.language.pages import AnswersPage
from wm.runtime import files

NAME = 'recorded'

# Samples of a log, at most: the time in which Inspect writes one goes by their
# square, and who reads one holds all of them in memory.
MOST = 1000


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

  def parts(self) -> Iterator[RecordedLog]:
    """Logs of MOST samples at most; names of all but the first are numbered."""
    samples = iter(self.samples)
    for number in itertools.count(1):
      if not (part := [*itertools.islice(samples, MOST)]):
        return
      name = self.title + f'-{number}' * (number > 1)
      yield self._replace(samples=part, name=name)

  def scored(self) -> EvalLog:
    """The log with all samples, which its scorer has scored.

    Inspect's `score` would copy all metadata of a sample for each number of its
    score, and add six events to it: it scores one sample, whose log names the
    scorer.
    """
    samples = [*self.samples]
    log = self._log(samples)
    first = samples[0].model_copy(update={'scores': {}})
    log.samples = [first]
    log = provider.wait(
      inspect_ai.score_async(log, [self.scorer], display='none', copy=False)
    )
    (name,) = dict(first.scores or {})
    scores = provider.wait(self._scores(samples))
    log.samples = [
      EvalSample(
        id=sample.id,
        epoch=sample.epoch,
        input='',
        target='',
        metadata={
          key: value
          for key, value in (sample.metadata or {}).items()
          if isinstance(value, str | int | float)  # Others are no groups.
        },
        scores={name: Score(value=score.value)},
      )
      for sample, score in zip(samples, scores, strict=True)
    ]
    recompute_metrics(log)
    for sample, score in zip(samples, scores, strict=True):
      sample.scores = {**(sample.scores or {}), name: score}
    log.samples = samples
    return log

  def _log(self, samples: Sequence[EvalSample]) -> EvalLog:
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
        dataset=EvalDataset(
          name=record.task,
          samples=len(samples),
          sample_ids=[str(sample.id) for sample in samples],
        ),
        model=f'{NAME}/{self.model}',
        config=EvalConfig(),
        metadata={'source': record.source, 'recorded': True},
      ),
      plan=EvalPlan(),
    )

  async def _scores(self, samples: Sequence[EvalSample]) -> list[Score]:
    """The scorer's score of each sample."""
    model = ModelName(f'{NAME}/{self.model}')
    scores = []
    for sample in samples:
      state = TaskState(
        model=model,
        sample_id=sample.id,
        epoch=sample.epoch,
        input=sample.input,
        messages=sample.messages,
        output=sample.output,
        metadata=sample.metadata,
      )
      score = await self.scorer(state, Target(sample.target))
      assert score is not None, (
        'scorers of papers score all that they are given'
      )
      scores.append(score)
    return scores


def _module(paper: str) -> Any:
  """The module `recorded` of a paper; or InputError."""
  recorded = [name for name in papers.names() if papers.has(name, 'recorded')]
  inputs.check_known(paper, recorded, f'no recorded answers of {paper!r}')
  return papers.load(paper, 'recorded')


def rescore(paper: str, data: str | pathlib.Path) -> AnswersPage:
  """Scores a paper's recorded answers again.

  Raises:
    InputError: no such paper, or its files are missing or damaged.
  """
  if not pathlib.Path(data).is_dir():
    raise core.InputError(f'no folder of recorded answers at {data}')
  module = _module(paper)
  if 'rescore' in vars(module):
    page: AnswersPage = module.rescore(data)
  else:
    logs = [log.scored() for log in module.logs(data)]
    page = papers.load(paper, 'report').page(logs)
  return page


def convert(
  paper: str, data: str | pathlib.Path, out: str | pathlib.Path
) -> list[pathlib.Path]:
  """Writes a paper's recorded answers as logs of Inspect into `out`.

  Raises:
    InputError: no such paper, or its files are missing or damaged.
  """
  folder = pathlib.Path(out)
  paths = []
  module = _module(paper)
  with files.stage_lock(folder, 'logs'):
    for log in module.logs(data):
      for part in log.parts():
        title = part.title
        name = ''.join(c if c.isalnum() or c in '.-' else '_' for c in title)
        path = folder / f'{name}.eval'
        with files.replacing(path) as temporary:
          write_eval_log(part.scored(), temporary, format='eval')
        paths.append(path)
  return paths


def save(page: AnswersPage, out: str | pathlib.Path) -> pathlib.Path:
  """Writes report.html, CSV files, pictures, and scores.json.

  Returns:
    Path of report.html, one page that needs no network.
  """
  path = pages.save(page, out)
  # Numbers of NumPy become Python's; NaN and infinity become null.
  text = json.dumps(page.rows, default=np.generic.item)
  rows = json.loads(text, parse_constant=lambda name: None)
  files.write_json(path.with_name('scores.json'), rows)
  return path
