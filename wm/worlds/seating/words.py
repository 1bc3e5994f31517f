"""The seating puzzle in words, told as rules of what can be stated next."""

from __future__ import annotations

import abc
from typing import ClassVar

from wm import core
from wm.worlds.base import in_words, table

_FRAME = {
  'seats': (
    '{num} people, {names}, take {num} seats in a row. The seats are numbered '
    '1 to {num} from left to right.\n{rules}'
  ),
  'places': (
    'At one side of a table there are {num} places, from place 1 at the left '
    'to place {num} at the right, for {names}, one place for each of these '
    '{num} guests.\n{rules}'
  ),
}
_RULES = {
  'seats': (
    'Each seat takes exactly one person.',
    'Two people whose seat numbers differ by 1 sit 1 seat apart, by 2, 2 seats '
    'apart, and so on.',
    'A sequence is a list of statements about who sits where. They have the '
    'form "P sits in seat 1" or "P and Q sit 1 seats apart", for any of the '
    'people and numbers.',
    'A statement can come next exactly if all people can be seated so that it '
    'and all statements before it are true.',
    'Statements may be repeated.',
  ),
  'places': (
    'Every guest has a place, and no two have the same one.',
    'The distance of two guests is by how much the numbers of their places '
    'differ.',
    'Hints are listed one after the other. A hint reads "P is at place 1" or '
    '"the distance of P to Q is 1", with other guests and other numbers too.',
    'A hint can come next exactly when at least one way of placing the '
    'guests agrees with it and with every hint that is listed already.',
    'It does not matter whether a hint says anything new.',
  ),
}
_SEAT = {
  'seats': '{person} sits in seat {seat}',
  'places': '{person} is at place {seat}',
}
_APART = {
  'seats': '{person} and {other} sit {seats} seats apart',
  'places': 'the distance of {person} to {other} is {seats}',
}


class InWords(table.TableWorld, core.Verbal):
  """People who are being seated, told in words."""

  wordings: ClassVar[tuple[str, ...]] = tuple(_RULES)

  @property
  @abc.abstractmethod
  def names(self) -> tuple[str, ...]:
    """Of the people."""

  def _called(self, telling: core.PromptStyle) -> dict[str, str]:
    """What people are called."""
    names = self.names
    if telling.seed:
      names = core.new_names(len(names), telling)
    return dict(zip(self.names, names, strict=True))

  def token_names(self, telling: core.PromptStyle) -> tuple[str, ...]:
    """Statements as sentences, without a full stop."""
    wording, called = core.wording_of(self, telling), self._called(telling)
    found = ['<pad>']
    for token in self.vocab[1:]:
      if '@' in token:
        person, seat = token.split('@')
        text = _SEAT[wording].format(person=called[person], seat=seat)
      else:
        pair, seats = token.split('=')
        person, other = (called[name] for name in pair.split('-'))
        text = _APART[wording].format(person=person, other=other, seats=seats)
      found.append(text)
    return tuple(found)

  def rules(self, telling: core.PromptStyle) -> str:
    """See core.Verbal; people have new names, or are told in another order."""
    wording = core.wording_of(self, telling)
    names = in_words.in_order(list(self._called(telling).values()), telling)
    return _FRAME[wording].format(
      num=len(names),
      names=f'{", ".join(names[:-1])} and {names[-1]}',
      rules='\n'.join(in_words.in_order(_RULES[wording], telling)),
    )
