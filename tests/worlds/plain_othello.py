"""Othello in its plainest form: a dictionary of discs and lists of flips."""

from __future__ import annotations

EMPTY, BLACK, WHITE = 0, 1, 2
LINES = [(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1) if r or c]


class Board:
  """Discs by (row, column), and whose turn it is."""

  def __init__(self, size):
    half = size // 2
    self.size, self.turn = size, BLACK
    self.discs = {
      (half - 1, half - 1): WHITE,
      (half, half): WHITE,
      (half - 1, half): BLACK,
      (half, half - 1): BLACK,
    }

  def flips(self, place, turn):
    result = []
    for down, right in LINES if place not in self.discs else ():
      line, (r, c) = [], place
      while True:
        r, c = r + down, c + right
        disc = self.discs.get((r, c), EMPTY)
        if disc != 3 - turn:
          break
        line.append((r, c))
      result += line if disc == turn else []
    return result

  def legal(self, turn=None):
    turn = turn or self.turn
    places = [(r, c) for r in range(self.size) for c in range(self.size)]
    return [place for place in places if self.flips(place, turn)]

  def play(self, place):
    for flipped in [place, *self.flips(place, self.turn)]:
      self.discs[flipped] = self.turn
    if self.legal(3 - self.turn):
      self.turn = 3 - self.turn


def name(place):
  return f'{"abcdefgh"[place[1]]}{place[0] + 1}'
