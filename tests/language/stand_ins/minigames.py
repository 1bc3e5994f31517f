"""Reads a prompt of MANGO's minigames, and goes a way that it shows.

Known ways from where the walk is: those of the list, else those that the steps
show. The solver goes on rather than back, and takes the way that was taken
last: what a walkthrough does next is not in its text.
"""

from __future__ import annotations

import ast
import re

from tests.language.stand_ins import asked as askeds
from tests.language.stand_ins.mango import OPPOSITE

_ASKS = 'Which of these actions is best now?'
_WAY = re.compile(r'^To go to .*, go (.+)\.$', re.MULTILINE)
_ACTIONS = re.compile(r'^Actions of the game: (\[.*\])\.$', re.MULTILINE)
_BLOCK = re.compile(
  r'^==>STEP NUM: \d+\n==>ACT: (.*)\n==>OBSERVATION: ?(.*)$', re.MULTILINE
)


def answer(asked: askeds.Asked) -> str | None:
  """What a known answerer says; None where the prompt is none of these."""
  if _ASKS not in asked.text:
    return None
  actions = _ACTIONS.search(asked.text)
  if not actions:
    return None
  if asked.knows in ('yes', 'random'):
    return f'Answer: {asked.one_of(ast.literal_eval(actions[1]))}'
  steps = [
    (action.strip().lower(), output.strip())
    for action, output in _BLOCK.findall(asked.text)
  ]
  if asked.knows == 'old_map':
    steps = steps[: len(steps) // 2]
  ways = _WAY.findall(asked.text) or _shown(steps)
  moves = [action for action, _ in steps if action in OPPOSITE]
  back = OPPOSITE[moves[-1]] if moves else ''
  on = [way for way in ways if way != back] or ways
  return f'Answer: {on[-1]}' if on else 'Answer: none'


def _shown(steps: list[tuple[str, str]]) -> list[str]:
  """Actions that lead on from the last place, as the steps show."""
  here = ''
  ways: dict[str, dict[str, None]] = {}
  for action, output in steps:
    if action in OPPOSITE and output != here:
      ways.setdefault(here, {})[action] = None
      ways.setdefault(output, {})[OPPOSITE[action]] = None
    if action in OPPOSITE or not here:
      here = output
  return list(ways.get(here, {}))
