"""Finite automata in words: a sentence for each step, or for each state."""

from __future__ import annotations

import abc
import functools
import re
from typing import ClassVar

import numpy as np

from wm import core
from wm.worlds.automaton import machine
from wm.worlds.base import in_words, table

_TEXT = {
  'machine': (
    'A machine has {num} states: {names}. It starts in state {first} and '
    'reads one symbol after the other.\n{body}\n'
    'No other step is possible.\n'
    'A sequence is a list of the symbols that the machine reads. A symbol can '
    'come next exactly if a step reads it in the state that the machine is '
    'in.{end}'
  ),
  'rooms': (
    'A house has {num} rooms: {names}. A walk begins in room {first}.\n{body}\n'
    'There are no other doors, and a door can be used one way only.\n'
    'A walk is written as the list of the doors that are taken. A door can '
    'come next exactly if the room where the walk is has it.{end}'
  ),
}
_ENDS = {
  'machine': (
    ' Exactly in a final state, the word {end} can come next; after it '
    'nothing can come.\nThe final states are: {names}.'
  ),
  'rooms': (
    ' Exactly in a room with a way out, the word {end} can come next; after '
    'it nothing can come.\nRooms with a way out: {names}.'
  ),
}
_TELL = {
  'machine': functools.partial(
    in_words.by_step,
    step='In state {here}, reading {label} leads to state {there}.',
    none='',
  ),
  'rooms': functools.partial(
    in_words.by_row,
    row='Room {here} has {steps}.',
    step='door {label} to room {there}',
    between=' and ',
    none='no door',
  ),
}
# Symbols that can stand in a list as they are; others are numbered.
_PLAIN, _QUOTABLE = re.compile(r'\w+'), re.compile(r'[^,;."\s]+')


class InWords(table.NamedTableWorld, core.Verbal):
  """An automaton, told in words."""

  wordings: ClassVar[tuple[str, ...]] = tuple(_TEXT)

  @property
  @abc.abstractmethod
  def given(self) -> machine.Machine:
    """The automaton as given."""

  def token_names(self, telling: core.PromptStyle) -> tuple[str, ...]:
    """Symbols as they are, in quotes or numbered where lists ask for it."""
    core.wording_of(self, telling)
    symbols = self.given.symbols
    if not all(map(_PLAIN.fullmatch, symbols)):
      if all(map(_QUOTABLE.fullmatch, symbols)):
        symbols = tuple(f'"{symbol}"' for symbol in symbols)
      else:
        symbols = tuple(f'symbol{k}' for k in range(1, len(symbols) + 1))
    return (*self.vocab[: len(self.vocab) - len(symbols)], *symbols)

  def _table(
    self, telling: core.PromptStyle
  ) -> tuple[in_words.Table, np.ndarray]:
    """States, without that after the end, and the rows of final ones."""
    symbols = len(self.given.symbols)
    ends = len(self.vocab) - 1 - symbols
    delta = self.delta[: len(self.delta) - ends, ends:]
    num = len(delta)
    names = tuple(f'S{row}' for row in range(num))
    if telling.seed:
      names = core.new_names(num, telling)
    final = np.flatnonzero(self.delta[:num, :ends].ravel() >= 0)
    spoken = self.token_names(telling)[-symbols:]
    return in_words.Table(delta, names, spoken), final

  def rules(self, telling: core.PromptStyle) -> str:
    """See core.Verbal: all states by name, and all steps."""
    wording = core.wording_of(self, telling)
    told, final = self._table(telling)
    rows = core.shuffled(len(told.names), telling)
    end = ''
    if self.end != core.DEAD:
      names = [told.names[row] for row in final]
      end = _ENDS[wording].format(
        end=self.token_names(telling)[self.end],
        names=', '.join(in_words.in_order(names, telling)),
      )
    return _TEXT[wording].format(
      num=len(rows),
      names=', '.join(told.names[row] for row in rows),
      first=told.names[0],
      body='\n'.join(_TELL[wording](told, rows, telling)),
      end=end,
    )

  def extent(self, telling: core.PromptStyle) -> core.Extent:
    """See core.Verbal."""
    wording, (told, final) = (
      core.wording_of(self, telling),
      self._table(telling),
    )

    def tell(rows: np.ndarray) -> list[str]:
      return _TELL[wording](told, rows, telling)

    frame = _TEXT[wording] + _ENDS[wording]
    frame += ', '.join(told.names[row] for row in final)
    return in_words.extent(told, tell, 'states', frame)
