"""The question about forces in words, as published and corrected.

The published words (Vafa et al. 2025; see third_party/NOTICES.md) say of every
system that its sun is at the origin, which is false, and tell forces of the
first half of the steps alone. `corrected` says where the sun is and which
masses there are; `several` tells forces of other systems first, so that a law
can be read off, and asks about one of which few are told.
"""

from __future__ import annotations

from collections.abc import Sequence

from wm import core
from wm.language.forces.systems import System

VARIANTS = ('published', 'corrected', 'several')
UNKNOWN = 'Unk'

# Byte for byte, spaces at line ends included.
_HEAD = (
  '\n'
  '    You are a physics expert. You are given a sequence of coordinates and '
  'outcomes.\n'
  '    The coordinates are the positions of a planet in a 2-body solar system. '
  '\n'
  '    The planet is orbiting the sun.\n'
  '    The sun is at the origin.\n'
  '\n'
  '    Here is a sequence of observations. Some of them are unknown. \n'
  '    Your job is to predict the outcomes for the unknown timesteps. \n'
  '\n'
  '    '
)
_TAIL = (
  '\n'
  "    You can reason all you'd like, but your answer should end with "
  '"ANSWER: " followed by the predicted outcomes for all of the timesteps, '
  'even the unknown ones. \n'
  '    You should structure your predictions as a dict, where each key is a '
  'timestep and each value is the prediction.\n'
  '    You should make predictions for all of the timesteps, even the ones '
  'that are known.\n'
  '\n'
  '    Here is an example of the output format:\n'
  '    ANSWER: {\n'
  '        0: 1.0e-8,\n'
  '        1: 1.0e-8,\n'
  '        2: 1.0e-8,\n'
  '        ...\n'
  '        449: 1.0e-8,\n'
  '    }\n'
  '    '
)


def lines(system: System) -> str:
  """A line for each step: its number, coordinates, and what is told."""
  known = system.known
  return ''.join(
    f'Timestep: {step}, Coordinates: ({x:.2f}, {y:.2f}), Outcome: '
    f'{force if told else UNKNOWN}\n'
    for step, ((x, y), force, told) in enumerate(
      zip(system.places.tolist(), system.force.tolist(), known, strict=True)
    )
  )


def published(system: System) -> str:
  """The published prompt, byte for byte of the published systems."""
  last = f'        {len(system.force) - 1}: 1.0e-8,\n'
  tail = _TAIL.replace('        449: 1.0e-8,\n', last)
  return _HEAD + lines(system) + tail


def _given(system: System) -> str:
  x, y = system.sun
  return (
    f'The sun is at ({x:.2f}, {y:.2f}) and has {system.star:.6g} solar masses, '
    f'the planet {system.planet:.6g}.\n'
  )


_SCENE = (
  'You are a physics expert. A planet orbits a sun that does not move. You are '
  'given where the planet is at equal steps of time, in astronomical units, '
  'and at some of the steps an outcome, a positive number that follows from '
  'where both bodies are and from their masses. '
)


def _closing(system: System) -> str:
  last = len(system.force) - 1
  return (
    '\nPredict the outcome at every step, the known ones included. You may '
    'reason as long as you like. End with "ANSWER: " and a dict of all steps, '
    f'0 to {last}, and the outcomes that you predict, in this form:\n'
    'ANSWER: {0: 1.0e-8, 1: 1.0e-8}\n'
  )


def corrected(system: System) -> str:
  """The question about one system, its sun where it is."""
  return f'{_SCENE}\n\n{_given(system)}\n{lines(system)}{_closing(system)}'


def several(others: Sequence[System], system: System) -> str:
  """The question about a system, after others of the same law.

  Raises:
    InputError: there are no others.
  """
  if not others:
    raise core.InputError('several: no other system; expected one or more')
  shown = [
    f'System {n}. {_given(one)}\n{lines(one)}\n'
    for n, one in enumerate(others, 1)
  ]
  num = len(others) + 1
  return (
    f'{_SCENE}There are {num} systems; the same law holds in all of them.\n\n'
    f'{"".join(shown)}System {num}, the one to predict. {_given(system)}\n'
    f'{lines(system)}{_closing(system)}'
  )
