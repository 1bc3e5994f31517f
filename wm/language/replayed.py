"""Logs of recorded answers, and their provider `recorded/NAME`.

Inspect looks a log's model up to score it again, though nothing is asked of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inspect_ai import score
from inspect_ai.log import (
  EvalConfig,
  EvalDataset,
  EvalLog,
  EvalPlan,
  EvalSample,
  EvalSpec,
)
from inspect_ai.model import (
  ChatMessage,
  GenerateConfig,
  ModelAPI,
  ModelOutput,
  modelapi,
)
from inspect_ai.scorer import Scorer
from inspect_ai.tool import ToolChoice, ToolInfo

from wm import core

NAME = 'recorded'


@modelapi(name=NAME)
class Recorded(ModelAPI):
  """A model whose answers are those of a record."""

  def __init__(self, model_name: str, **given: Any) -> None:
    known = {'base_url', 'api_key', 'config'}
    super().__init__(
      model_name, **{k: x for k, x in given.items() if k in known}
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


def log(
  name: str,
  samples: Sequence[EvalSample],
  scorer: Scorer,
  *,
  task: str,
  version: int,
  model: str,
  created: str,
  source: str,
  dataset: str = '',
  args: Mapping[str, Any] | None = None,
) -> EvalLog:
  """A scored log of recorded answers, as a task of this package makes them.

  Args:
    name: tells it from all other logs of recorded answers; files are called so.
    samples: with what was answered. Scores that they have stay.
    scorer: of the task.
    task: its name, without the package.
    version: of the task.
    model: who answered.
    created: when, in ISO 8601.
    source: of the record.
    dataset: default the task's name.
    args: the task's.
  """
  whole = EvalLog(
    status='success',
    eval=EvalSpec(
      eval_id=name,
      run_id=f'{task}-recorded',
      task_id=name,
      created=created,
      task=task,
      task_version=version,
      task_registry_name=f'wm/{task}',
      task_args=dict(args or {}),
      dataset=EvalDataset(
        name=dataset or task,
        samples=len(samples),
        sample_ids=[str(sample.id) for sample in samples],
      ),
      model=f'{NAME}/{model}',
      config=EvalConfig(),
      metadata={'source': source, 'recorded': True},
    ),
    plan=EvalPlan(),
    samples=list(samples),
  )
  return score(whole, scorer, action='append', display='none', copy=False)
