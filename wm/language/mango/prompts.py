"""Prompts of MANGO: walkthrough, lists, question. Source: appendix A.4.

The two generations of the authors' program differ in the names of the three
values of a move; both lists name all of the map of 70 steps, however short the
prefix is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from wm import core
from wm.language.mango import parsing, prefix
from wm.language.mango.scoring import Question

# Names of the data's generations, as text_game.Maze has them -> keys.
KEYS = {
  'camera_ready': parsing.KEYS[0],
  'paper': parsing.KEYS[1],
  'annotation': parsing.KEYS[0],
}
SETTINGS = {
  'full': 'observations as the game gives them',
  'simple': 'of each observation the name of the place alone (-S)',
  'function': 'as full; the answer is the argument of a function call',
}
# Tokens that a model may write: the camera-ready program's for GPT.
ANSWER_TOKENS = 512


@dataclasses.dataclass(frozen=True)
class Style:
  """How a question is put.

  Attributes:
    generation: of the authors' program: 'camera_ready', 'paper' or
      'annotation', which is asked as the camera-ready one.
    setting: a key of SETTINGS.
    forced: the prompt ends with the beginning of an answer, as for models that
      only go on with a text (Llama, RWKV).
  """

  generation: str = 'camera_ready'
  setting: str = 'full'
  forced: bool = False

  def __post_init__(self) -> None:
    """Raises InputError where a field has no such value."""
    for name, given, known in (
      ('generation', self.generation, KEYS),
      ('setting', self.setting, SETTINGS),
    ):
      if given not in known:
        raise core.InputError(
          f'no {name} {given!r}; available: {", ".join(known)}'
        )

  @property
  def keys(self) -> tuple[str, str, str]:
    """Names of the three values of a move."""
    return KEYS[self.generation]

  @property
  def start(self) -> str:
    """What a forced answer begins with, and what is put before its reply."""
    return f"[{{'{self.keys[0]}':" if self.forced else ''


def lists(actions: Sequence[str], places: Sequence[str]) -> str:
  """The two lists of a prompt."""
  return (
    f'The allowed actions are: {list(actions)}.\n'
    f'The list of locations are: {list(places)}.'
  )


def question(asked: Question, style: Style) -> str:
  """A destination question of one with actions, else a route question."""
  before, action, after = style.keys
  keys = f"'{before}', '{action}' and '{after}'"
  form = f'a python list of python dictionary with keys {keys}'
  if style.setting == 'function':
    ends = 'Give your answer by a call of the function trajectory.'
  else:
    ends = "Start your response with '['."
  if asked.actions:
    return (
      f'!!! Starting from place "{asked.start}", perform a list of action '
      f'{list(asked.actions)}, where are you now? Describe the trajectory in '
      f'{form}. {ends}'
    )
  return (
    f'!!! Can you find a path from "{asked.start}" to "{asked.target}", and '
    f'format the output as {form}? {ends}'
  )


def prompt(shown: str, names: str, asked: Question, style: Style) -> str:
  """The whole prompt.

  Args:
    shown: the walkthrough's prefix, see prefix.render.
    names: see lists.
    asked: the question.
    style: how it is put.
  """
  text = (
    f'!!! Here is a walkthrough of a text game:\n{shown}\n\n{names}\n\n'
    f'{question(asked, style)}'
  )
  return f'{text}\nAnswer: {style.start}' if style.forced else text


def longest(names: str, asked: Sequence[Question], style: Style) -> str:
  """All of the longest prompt but its walkthrough."""
  rest = (prompt('', names, one, style) for one in asked)
  return max(rest, key=len, default=names)


def answer(reply: str, begun: str) -> str:
  """A reply after what the prompt began of it, unless it begins anew."""
  words = reply.lstrip()
  return begun + reply if words and words[0] != '[' else reply


def simple(
  steps: Sequence[prefix.Shown], places: Sequence[str]
) -> list[prefix.Shown]:
  """Steps whose observation is the name of the place alone.

  places: after each step; '' where it is not known, which is shown so.
  """
  return [
    step._replace(observation=place)
    for step, place in zip(steps, places, strict=False)
  ]
