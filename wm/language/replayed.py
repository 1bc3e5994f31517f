"""The provider of recorded answers: `recorded/NAME` scores, and is not asked.

Logs that recorded answers are converted to name their model so. Inspect looks
the model up to score a log again, though nothing is asked of it.
"""

from __future__ import annotations

from typing import Any

from inspect_ai.model import (
  ChatMessage,
  GenerateConfig,
  ModelAPI,
  ModelOutput,
  modelapi,
)
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
