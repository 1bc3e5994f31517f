"""Othello in words: the board, the discs of the start, and the rules."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from wm import core
from wm.worlds.base import in_words
from wm.worlds.othello import labels

_FRAME = {
  'othello': (
    'This is the game of Othello on a board of {size} x {size} squares. A '
    'square is named by its file, a letter from a to {file}, and its rank, a '
    'number from 1 to {size}. At the start, black has discs on {black} and '
    'white on {white}; all other squares are empty.\n{rules}'
  ),
  'discs': (
    'Two players, black and white, put discs on a square grid with {size} '
    'columns, a to {file}, and {size} rows, 1 to {size}; b3 is the square in '
    'column b and row 3. Black begins. Black discs lie on {black} and white '
    'discs on {white}, and nowhere else, when the game begins.\n{rules}'
  ),
}
_RULES = {
  'othello': (
    'Black moves first. The sides take turns, one disc each.',
    'A game is a list of the squares on which discs are placed; whose disc it '
    'is follows from the rules.',
    'A side can place a disc on a square exactly if the square is empty and '
    'the disc outflanks at least one disc of the other side. The squares where '
    'the side to move can place a disc are what can come next.',
    'A disc outflanks a row of one or more discs, all of them of the other '
    'side, if the row begins right beside the disc, runs in a straight line '
    '(along a rank, along a file or diagonally, in any of eight directions) '
    'without an empty square, and ends right before a disc of its own side.',
    'All discs that a new disc outflanks, in all directions, are turned to the '
    'side that placed it.',
    'A side that can place a disc nowhere passes. A pass is not written: the '
    'other side moves again.',
    'When neither side can place a disc, the game is over, and nothing can '
    'come next.',
  ),
  'discs': (
    'A game is written as the list of squares that discs were put on, without '
    'their colours.',
    'Where the player whose turn it is puts a disc, go from it in each of the '
    'eight directions: if you pass one or more discs of the opponent, without '
    'a gap, and then come to a disc of the player, all those that you passed '
    'change their colour.',
    'A square can come next exactly if no disc is on it yet and a disc of the '
    'player whose turn it is would make at least one disc change its colour '
    'there.',
    'After each disc it is the turn of the opponent, if there is a square '
    'where the opponent can put a disc by these rules; otherwise the same '
    'player goes on, and nothing is written for the missed turn.',
    'If neither player can put a disc anywhere, nothing can come next.',
  ),
}


class InWords(labels.Counted, core.Verbal):
  """A board, told in words."""

  wordings: ClassVar[tuple[str, ...]] = tuple(_RULES)

  def rules(self, telling: core.PromptStyle) -> str:
    """See core.Verbal; squares keep their names."""
    wording = core.wording_of(self, telling)
    discs = self.labels(self.init(1))[0, :-1].reshape(self.size, self.size)
    places = {
      side: [f'{"abcdefgh"[c]}{r + 1}' for r, c in np.argwhere(discs == side)]
      for side in (labels.BLACK, labels.WHITE)
    }
    black, white = (
      ' and '.join(in_words.in_order(some, telling)) for some in places.values()
    )
    return _FRAME[wording].format(
      size=self.size,
      file='abcdefgh'[self.size - 1],
      black=black,
      white=white,
      rules='\n'.join(in_words.in_order(_RULES[wording], telling)),
    )
