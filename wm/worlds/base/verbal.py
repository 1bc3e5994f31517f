"""Worlds in words: texts from Jinja files, and transition tables as sentences.

by_step   From Mira, north leads to Kulo.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import numpy as np

from wm import core
from wm.core import verbal

SAMPLED = 16  # Number of rows from which the total length is estimated.


_BLOCK = re.compile(r'{% block (\w+) %}\n(.*?)\n{% endblock %}', re.DOTALL)


def words(text: str) -> tuple[str, ...]:
  """The words of a text."""
  return tuple(text.split())


class Texts:
  """The texts of a world, blocks of a template file beside its module.

  The file is `prompt.md.j2` in a package, else `NAME.md.j2` beside `NAME.py`.
  """

  def __init__(self, module: str) -> None:
    """module: path of the world's module."""
    path = Path(module).with_suffix('.md.j2')
    if Path(module).stem == '__init__':
      path = path.with_name('prompt.md.j2')
    environment = jinja2.Environment(
      undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    source = path.read_text('utf-8')
    self._template = environment.from_string(source)
    self._sources = dict(_BLOCK.findall(source))

  def render(self, block: str, **values: Any) -> str:
    """A block with its values; a missing value raises UndefinedError."""
    context = self._template.new_context(values)
    return ''.join(self._template.blocks[block](context)).removesuffix('\n')

  def frame(self, block: str) -> str:
    """A block with names in place of values."""
    return re.sub(r'{{ (\w+) }}', r'{\1}', self._sources[block])

  def lines(
    self, block: str, style: core.PromptStyle, **values: Any
  ) -> list[str]:
    """The lines of a block in the order of the style."""
    return in_order(self.render(block, **values).split('\n'), style)


class VerbalTable(NamedTuple):
  """A transition table with names, for descriptions in words.

  Attributes:
    delta: [S, A] next rows, DEAD if illegal.
    names: of rows.
    labels: names of columns.
    step: template with {here}, {label} and {there}.
    none: template with {here} for rows without steps; '' omits these rows.
  """

  delta: np.ndarray
  names: Sequence[str]
  labels: Sequence[str]
  step: str
  none: str = ''

  def listed(self, rows: np.ndarray) -> str:
    """Names of some rows."""
    return ', '.join(self.names[row] for row in rows)

  def by_step(self, rows: np.ndarray, style: core.PromptStyle) -> list[str]:
    """A sentence for each step from some rows, in the style's order."""
    lines = []
    for row in rows:
      name = self.names[row]
      labels = np.flatnonzero(self.delta[row] >= 0).tolist()
      lines += [
        self.step.format(
          here=name,
          label=self.labels[label],
          there=self.names[self.delta[row, label]],
        )
        for label in labels
      ]
      if self.none and not labels:
        lines.append(self.none.format(here=name))
    return in_order(lines, style)

  def extent(
    self, style: core.PromptStyle, name: str, frame: str
  ) -> verbal.Extent:
    """Estimates the length of the full description from a few rows.

    name: noun for rows. frame: the rest of the text, without the list of all
    names.
    """
    num = len(self.names)
    rows = np.linspace(0, num - 1, min(num, SAMPLED)).astype(int)
    few = [*self.by_step(rows, style), *(f'{self.names[row]},' for row in rows)]
    each = sum(map(verbal.text_tokens, few)) / len(rows)
    return verbal.Extent(num, name, verbal.text_tokens(frame) + int(each * num))


def in_order(lines: Sequence[str], style: core.PromptStyle) -> list[str]:
  """Lines in the order of the style."""
  return [lines[k] for k in verbal.shuffled(len(lines), style)]
