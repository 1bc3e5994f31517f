"""Prompts of MANGO's minigames, and how answers to them are judged.

A model is shown the steps of a walkthrough before one that goes where it has
been, and names the next action; right is what the walkthrough did. The map, a
list of the known ways from there, may be added. Source: Ding et al. 2024,
section 3.4. Of the published prompts two parts are not in the data: rewards,
and the list of valid actions, for which the map's list of actions stands in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wm.language import replies
from wm.language.mango import prefix
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game import minigames

ASKS = (
  '!!! What is the best next action? Choose one of the allowed actions and '
  'write it after "Answer:".'
)
FAILURES = {
  '': 'one of the allowed actions',
  'nothing': 'no text after "Answer:"',
  'not_allowed': 'an action that is not on the list',
}
_AROUND = ' \t"\'`*_<>[]().,;:!-'  # Of an action, in an answer.
LONGEST = 100  # Characters of an action; what is read beyond is not kept.


class Judged(NamedTuple):
  """What an answer is worth.

  Attributes:
    success: 1 where it is what the walkthrough did, else 0.
    failure: a key of FAILURES; a wrong action that is allowed is none. Others
      are those of replies.
    action: the action as read; '' where none was.
  """

  success: float
  failure: str
  action: str


def prompt(maze: mazes.Maze, asked: minigames.Minigame, with_map: bool) -> str:
  """The whole prompt of one minigame.

  with_map: adds a line for each way that the steps before show from there.
  """
  shown = prefix.render(
    [prefix.Shown(*step) for step in maze.steps[: asked.step]]
  )
  known = ''
  if with_map:
    lines = [f'To go to {there}, go {action}.' for there, action in asked.ways]
    known = 'Ways that are known from here:\n' + '\n'.join(lines) + '\n\n'
  return (
    f'!!! Here is a walkthrough of a text game:\n{shown}\n\n{known}'
    f'The allowed actions are: {list(maze.actions)}.\n\n{ASKS}'
  )


def judge(reply: str, right: str, allowed: Sequence[str]) -> Judged:
  """Reads an answer and compares it; nothing in it is executed.

  The first line after the last `Answer:` is the action, without quotes and
  marks around it, in any case; 'go north' is north where that is allowed.

  Args:
    reply: of a model, of any form or size.
    right: what the walkthrough did.
    allowed: the list of the prompt.
  """
  read = replies.after_answer(reply)
  if read.failure:
    return Judged(0.0, read.failure, '')
  line = read.value.splitlines()[0].strip(_AROUND).lower()
  action = ' '.join(line.split())[:LONGEST]
  known = {name.lower() for name in allowed} | {right}
  bare = action.removeprefix('go ')
  if action not in known and bare in known:
    action = bare
  if action not in known:
    return Judged(0.0, 'not_allowed', action)
  return Judged(float(action == right), '', action)
