"""Drawings: well-formed, escaped, and with the marks where they belong."""

import re
from xml.etree import ElementTree

import pytest

from wm.worlds.base import svg

NS = '{http://www.w3.org/2000/svg}'


def parsed(drawing: str) -> ElementTree.Element:
  root = ElementTree.fromstring(drawing)
  assert root.tag == f'{NS}svg'
  return root


def words(root: ElementTree.Element) -> list[str]:
  return [element.text for element in root.iter(f'{NS}text')]


def places(root: ElementTree.Element) -> set[tuple[float, float]]:
  return {
    tuple(map(float, re.findall(r'[\d.]+', group.get('transform'))))
    for group in root.iter(f'{NS}g')
  }


def corner(column: int, row: int) -> tuple[float, float]:
  """Of a square, rows counted from the top."""
  return svg.MARGIN + svg.SQUARE * column, svg.MARGIN + svg.SQUARE * row


@pytest.mark.parametrize(
  ('upwards', 'row'), [(False, 2), (True, 5)], ids=['othello', 'chess']
)
def test_a_piece_stands_on_its_square(upwards, row):
  pieces = {19: svg.disc(svg.BLACK)}  # d3: row index 2, column 3.
  root = parsed(svg.board(8, 8, pieces, upwards=upwards))
  assert places(root) == {corner(3, row)}


def test_each_piece_is_drawn():
  pieces = dict.fromkeys(range(20), svg.chessman('p'))
  root = parsed(svg.board(8, 8, {**pieces, 63: svg.chessman('K')}))
  assert len(places(root)) == 21


def test_every_chess_piece_has_a_shape_of_its_own():
  shapes = {letter: svg.chessman(letter) for letter in 'PNBRQKpnbrqk'}
  assert len(set(shapes.values())) == 12
  for shape in shapes.values():
    assert ElementTree.fromstring(shape).tag == 'text'


BAD = '<script>"&\'</script>'


@pytest.mark.parametrize(
  'drawing',
  [
    svg.card([BAD], BAD),
    svg.table([BAD], [[BAD]], BAD, notes=[BAD]),
    svg.board(4, 4, {}, note=BAD),
    svg.picture(9, 9, [svg.text(0, 0, BAD)], BAD),
  ],
)
def test_words_are_escaped(drawing):
  root = parsed(drawing)
  assert not list(root.iter(f'{NS}script'))
  assert BAD in words(root)
