"""The scorer of MANGO's tasks, and the function that answers may call."""

from __future__ import annotations

import json
import math
from typing import TypedDict

from inspect_ai.scorer import (
  Score,
  Scorer,
  Target,
  grouped,
  mean,
  scorer,
)
from inspect_ai.solver import TaskState
from inspect_ai.tool import Tool, tool

from wm.language.mango import (
  baselines,
  parsing,
  prompts,
  questions,
  scoring,
)
from wm.language.mango.graphs import Graph, Rules
from wm.language.mango.questions import DESTINATION
from wm.language.metrics import stderr
from wm.worlds.text_game import readers


class _Step(TypedDict):
  location_before: str
  action: str
  location_after: str


@tool
def trajectory() -> Tool:
  """The function that the setting 'function' asks to be called."""

  async def execute(moves: list[_Step]) -> str:
    """Gives a trajectory.

    Args:
      moves: where each move begins, its action, and where it ends.
    """
    return f'{len(moves)} moves'

  return execute


def said(state: TaskState, begun: str = '') -> str:
  """What a model answered: the argument of its call, else its text."""
  calls = state.output.message.tool_calls if state.output.choices else None
  if calls:
    return json.dumps(calls[0].arguments.get('moves', []))
  return prompts.answer(state.output.completion, begun)


@scorer(
  metrics={
    '*': [mean(), stderr(cluster='game')],
    'success*': [grouped(mean(), 'difficulty', all=False)],
  }
)
def mango_scorer(
  folder: str,
  graph: str = 'loose',
  scope: str = 'graph',
  aliases: bool = False,
  reject: float = 0.0,
  reading: str = parsing.BALANCED,
  begun: str = '',
) -> Scorer:
  """All of scoring.Score; standard errors are clustered by game.

  `success` counts ill-formed answers as 0; `success_formed` leaves them out, as
  the paper does.

  Args:
    folder: of games, or a packed archive of it.
    graph: see graphs.Rules; as are scope, aliases, reject.
    scope: 'graph' or 'node'.
    aliases: whether `n` is north.
    reject: least similarity at which a move is taken for an action.
    reading: how a list is found, see parsing.parse.
    begun: what the prompt began of the answer.
  """
  rules = Rules(graph, scope, aliases, reject)
  graphs: dict[str, Graph] = {}

  async def score(state: TaskState, target: Target) -> Score:
    """Of one answer."""
    del target
    asked = questions.asked_of(state.metadata)
    if asked.game not in graphs:
      graphs[asked.game] = questions.graph(
        readers.read(folder, asked.game), rules
      )
    answer = parsing.parse(said(state, begun), reading)
    judge = baselines.judged(asked.kind)
    found = judge(graphs[asked.game], asked.question, answer)
    return Score(
      value=values(found),
      answer=shown(asked, answer),
      reason='invalid_response_format' if found.failure else None,
      explanation=parsing.FAILURES[found.failure] if found.failure else None,
      metadata=found._asdict(),
    )

  return score


def values(found: scoring.Score) -> dict[str, float]:
  """What Inspect takes means of; NaN is left out of them."""
  formed = not found.failure
  moves = found.moves or math.nan
  return {
    'success': found.success,
    'success_formed': found.success if formed else math.nan,
    'exact': found.exact,
    'plain': found.plain,
    'nearest': found.nearest,
    'reasoning': found.reasoning,
    'july2023': found.july2023,
    'camera_ready': found.camera_ready,
    'chance': found.chance,
    'well_formed': float(formed),
    'repaired': found.repaired / moves,
    'unknown_places': found.places / (2 * moves),
    'unknown_moves': found.edges / moves,
  }


def shown(asked: questions.Asked, answer: parsing.Answer) -> str:
  """An answer in short: the last place, or the actions; else its failure."""
  if answer.failure:
    return answer.failure
  if asked.kind == DESTINATION:
    return answer.moves[-1].after
  return ', '.join(move.action for move in answer.moves)
