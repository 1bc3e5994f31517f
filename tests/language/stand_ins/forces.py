"""Forces on planets from a prompt's text alone, by Newton's law.

The prompt is taken literally: where it has the sun at the origin, so it is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.language.stand_ins.asked import Asked

_NUMBER = r'(-?[\d.]+(?:e[-+]?\d+)?)'
_LINE = re.compile(
  rf'^\s*Timestep: (\d+), Coordinates: \({_NUMBER}, {_NUMBER}\), '
  r'Outcome: (\S+)$',
  re.MULTILINE,
)
_SUN = re.compile(
  rf'The sun is at (?:the origin|\({_NUMBER}, {_NUMBER}\))'
  rf'(?: and has {_NUMBER} solar masses, the planet {_NUMBER}\.)?'
)


class _System(NamedTuple):
  """Step -> square of the distance from the sun, and step -> told force."""

  square: dict[int, float]
  told: dict[int, float]
  masses: float

  @property
  def factor(self) -> float:
    """Mean of force times square of the distance."""
    products = [force * self.square[step] for step, force in self.told.items()]
    return sum(products) / len(products)


def _systems(text: str) -> list[_System]:
  """All systems of a prompt, each behind the sentence about its sun."""
  suns = list(_SUN.finditer(text))
  ends = [sun.start() for sun in suns[1:]] + [len(text)]
  result = []
  for sun, end in zip(suns, ends, strict=True):
    x, y, star, planet = (float(part or 0) for part in sun.groups())
    square, lines = {}, {}
    for line in _LINE.finditer(text, sun.end(), end):
      step = int(line[1])
      away = (float(line[2]) - x) ** 2 + (float(line[3]) - y) ** 2
      square[step] = max(away, 1e-12)
      if line[4] != 'Unk':
        lines[step] = float(line[4])
    result.append(_System(square, lines, star * planet))
  return result


def answer(asked: Asked) -> str | None:
  """Forces at all steps of the last system; None where none are asked for."""
  if not _LINE.search(asked.text):
    return None
  systems = _systems(asked.text)
  if not systems or not any(item.told for item in systems):
    return None
  last = systems[-1]
  if asked.knows in ('yes', 'random'):
    known = [force for item in systems for force in item.told.values()]
    output = {
      step: known[0] if asked.knows == 'yes' else asked.draws.choice(known)
      for step in last.square
    }
  else:
    if last.told:
      factor = last.factor
    else:
      others = [item.factor / item.masses for item in systems if item.told]
      factor = last.masses * sum(others) / len(others)
    output = {step: factor / square for step, square in last.square.items()}
  listed = ',\n'.join(f'{step}: {force!r}' for step, force in output.items())
  return f'ANSWER: {{{listed}}}'
