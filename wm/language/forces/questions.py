"""Which questions about forces are asked: systems, and a prompt for each."""

from __future__ import annotations

import pathlib
from typing import NamedTuple

from wm import core
from wm.language.forces import prompts, systems
from wm.language.forces.systems import System

EVERY = {'published': 1, 'corrected': 1, 'several': 10}


class Question(NamedTuple):
  """A prompt, and the system whose forces it asks for."""

  prompt: str
  system: System


def questions(
  variant: str = 'published',
  *,
  folder: str = '',
  num: int = 5,
  told: int = 10,
  every: int = 0,
  others: int = 4,
  last: int = 0,
  seed: int = 0,
  world: str = systems.WORLD,
) -> list[Question]:
  """The questions of a variant of prompts.

  Args:
    variant: 'published'; 'corrected', with the sun where it is and forces told
      over the whole range; or 'several', which tells of other systems first.
    folder: of published systems; '' draws `num` new ones.
    num: systems that are asked about.
    told: steps of a system whose force is told; of published systems as they
      are, unless the variant is another.
    every: each which time step is shown, besides those that are told; 0 is 10
      for 'several' and 1 else.
    others: of 'several', the systems told before.
    last: of 'several', steps that are told of the system that is asked about.
    seed: of systems, and of the steps that are told.
    world: that systems are drawn from.

  Raises:
    InputError: no such variant, numbers that are too small, or no such folder.
  """
  if variant not in prompts.VARIANTS:
    raise core.InputError(
      f'forces: variant={variant!r}; available: {", ".join(prompts.VARIANTS)}'
    )
  if min(num, told, others) < 1 or min(last, every) < 0:
    raise core.InputError(
      f'forces: num={num}, told={told}, others={others}, last={last}, '
      f'every={every}; expected at least 1, 1, 1, 0 and 0'
    )
  several = variant == 'several'
  if folder:
    found = systems.load(pathlib.Path(folder))
    least = others + 1 if several else 1
    if len(found) < least:
      raise core.InputError(
        f'forces: {folder} has {len(found)} systems; expected {least}'
      )
    num = min(num, len(found))
  else:
    more = others if several else 0
    found = systems.draw(num + more, seed, world=world, told=told)
  step = every or EVERY[variant]
  if variant == 'published':
    if not folder:
      found = [systems.early(one, told, seed) for one in found]
    shown = [one.every(step) for one in found[:num]]
    return [Question(prompts.published(one), one) for one in shown]
  spread = [systems.spread(one, told, seed) for one in found]
  if not several:
    shown = [one.every(step) for one in spread[:num]]
    return [Question(prompts.corrected(one), one) for one in shown]
  made = []
  for n in range(num):
    before = [spread[(n + 1 + k) % len(spread)] for k in range(others)]
    asked = systems.spread(found[n], last, seed).every(step)
    told_of = [one.every(step) for one in before]
    made.append(Question(prompts.several(told_of, asked), asked))
  return made
