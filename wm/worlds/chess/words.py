"""Chess in words: the position games start from, and what is other than usual.

The rules of moving are the game's own, and are named rather than told.
"""

from __future__ import annotations

import functools
from typing import ClassVar

from wm import core
from wm.worlds.base import in_words
from wm.worlds.chess import fen, moves, states

_FRAME = {
  'coordinates': (
    'This is chess, by the standard rules for moving the pieces. The first '
    'element of a game is the word begin, which sets up the position {fen} '
    '(in Forsyth-Edwards Notation) and can come nowhere else.\n{rules}'
  ),
  'hyphens': (
    'A game of chess is written as a list. It begins with the word setup, '
    'which only stands there and means that the pieces are placed as in '
    'the FEN {fen}. All moves follow the rules of standard chess.\n{rules}'
  ),
}
_RULES = {
  'coordinates': (
    'All further elements are moves, white and black in turn: the square a '
    'piece leaves and the square it goes to, such as e2e4.',
    'Castling is written as the move of the king, such as e1g1.',
    'A promotion has the letter of the new piece behind it: q, r, b or n, '
    'such as e7e8q.',
    'A move can come next exactly if it is legal in the position reached.',
    'No game is drawn by repetition, by the fifty-move rule or by lack of '
    'material: such a game can go on. After checkmate or stalemate nothing '
    'can come next.',
  ),
  'hyphens': (
    'Every other element of the list is one move of one side: from-square, '
    'hyphen, to-square, such as e2-e4.',
    'When a king castles, only its own move is written, such as e8-c8.',
    'When a pawn promotes, "=" and q, r, b or n are added, such as a2-a1=n.',
    'What can come next are exactly the legal moves. Draws are never claimed '
    'or imposed, so that a list may continue after repetitions, after fifty '
    'quiet moves, and with bare kings; it cannot continue after mate or '
    'stalemate.',
  ),
}
_BEGIN = {'coordinates': 'begin', 'hyphens': 'setup'}


class InWords(states.ChessLabels, core.Verbal):
  """Chess, told in words."""

  wordings: ClassVar[tuple[str, ...]] = tuple(_RULES)

  def token_names(self, telling: core.PromptStyle) -> tuple[str, ...]:
    """Moves as UCI writes them, or with a hyphen."""
    return _spoken(self.vocabulary, core.wording_of(self, telling))

  def rules(self, telling: core.PromptStyle) -> str:
    """See core.Verbal; squares keep their names."""
    wording = core.wording_of(self, telling)
    return _FRAME[wording].format(
      fen=fen.format(self.origin),
      rules='\n'.join(in_words.in_order(_RULES[wording], telling)),
    )


@functools.cache
def _spoken(vocabulary: str, wording: str) -> tuple[str, ...]:
  pad, *found, _ = moves.vocab(vocabulary)
  if wording == 'hyphens':
    found = [
      f'{move[:2]}-{move[2:4]}' + (f'={move[4:]}' if move[4:] else '')
      for move in found
    ]
  return (pad, *found, _BEGIN[wording])
