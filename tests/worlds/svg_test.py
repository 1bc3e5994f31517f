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


@pytest.mark.parametrize('upwards', [False, True])
def test_coordinates_are_beside_their_rows(upwards):
  root = parsed(svg.board(6, 6, {}, upwards=upwards))
  names = {e.text: float(e.get('y')) for e in root.iter(f'{NS}text')}
  assert set('abcdef123456') == set(names)
  assert (names['1'] > names['6']) == upwards


def test_each_piece_is_drawn():
  pieces = dict.fromkeys(range(20), svg.chessman('p'))
  root = parsed(svg.board(8, 8, {**pieces, 63: svg.chessman('K')}))
  assert len(places(root)) == 21


def test_marks_of_a_board():
  drawn = svg.board(
    8, 8, {5: svg.disc(svg.WHITE)}, svg.Marks((5, 9), (1,), (2, 3))
  )
  assert drawn.count(svg.MARK) == 1
  assert drawn.count(svg.HERE) == 2
  assert len(re.findall(r'<circle[^>]*r="17.5"', drawn)) == 1  # On a piece.
  assert len(re.findall(r'<circle[^>]*r="5"', drawn)) == 1


def test_every_chess_piece_has_a_shape_of_its_own():
  shapes = {letter: svg.chessman(letter) for letter in 'PNBRQKpnbrqk'}
  assert len(set(shapes.values())) == 12
  for shape in shapes.values():
    assert ElementTree.fromstring(shape).tag == 'text'


def test_a_board_is_small():
  pieces = {s: svg.chessman('PNBRQKpnbrqk'[s % 12]) for s in range(64)}
  assert len(svg.board(8, 8, pieces, svg.Marks(range(64)))) < 25_000


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


def test_a_card_folds_long_lines():
  root = parsed(svg.card(['x' * 200, ''], wide=72))
  assert [len(word or '') for word in words(root)] == [72, 72, 56, 0]
  assert float(root.get('width')) < 640


def test_a_table_has_its_words_in_order():
  drawn = svg.table(['1', '2'], [['A', 'B'], ['B', 'A']])
  assert words(parsed(drawn)) == ['1', '2', 'A', 'B', 'B', 'A']
