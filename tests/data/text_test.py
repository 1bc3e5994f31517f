"""The published text format, on odd lines and on the real files."""

import json

import numpy as np
import pytest

from tests import tiny
from wm import core
from wm.core import registry
from wm.data import text

WORLD = tiny.World()


def put(tmp_path, content: str | bytes):
  path = tmp_path / 'samples.txt'
  path.write_bytes(content if isinstance(content, bytes) else content.encode())
  return path


@pytest.mark.parametrize('last', ['', '\n'])
def test_a_newline_at_the_end_is_optional(tmp_path, last):
  got = text.read(put(tmp_path, 'at0 x x end\nat2 y end' + last), WORLD)
  np.testing.assert_array_equal(got.lengths, [4, 3])
  np.testing.assert_array_equal(got.tokens, [[4, 2, 2, 1], [6, 3, 1, 0]])
  np.testing.assert_array_equal(got.side['line'], [1, 2])


def test_a_byte_order_mark_is_no_token(tmp_path):
  got = text.read(put(tmp_path, b'\xef\xbb\xbfat0 x x end\n'), WORLD)
  np.testing.assert_array_equal(got.tokens, [[4, 2, 2, 1]])


def test_ill_formed_lines_are_kept_and_counted(tmp_path):
  path = put(
    tmp_path,
    'at0 x x end\n'
    'at0 x x x\n'  # No end.
    'at3 end\n'  # Too short for the published programs.
    '\n'
    'at0 at1 x end end\n'  # A place among the moves is a token like others.
    'at0 x end x\n',
  )
  kept = text.read(path, WORLD)
  assert kept.counts == {'ill_formed': 4}
  np.testing.assert_array_equal(kept.side['line'], [1, 2, 3, 5, 6])


def test_an_unknown_token_is_named_with_its_line(tmp_path):
  path = put(tmp_path, 'at0 x x end\nat0 x NNE end\n')
  with pytest.raises(core.InputError, match=r"line 2: unknown token 'NNE'"):
    text.read(path, WORLD)


def test_padding_is_no_token(tmp_path):
  path = put(tmp_path, 'at0 x <pad> end\n')
  with pytest.raises(core.InputError, match='<pad>'):
    text.read(path, WORLD)


def test_files_that_hold_no_sequences(tmp_path):
  for content in ('', '\n\n'):
    with pytest.raises(core.InputError, match='no sequences'):
      text.read(put(tmp_path, content), WORLD)
  with pytest.raises(core.InputError, match='not UTF-8'):
    text.read(put(tmp_path, b'at0 \xff\xfe end'), WORLD)
  with pytest.raises(core.InputError, match='no such file'):
    text.read(tmp_path / 'none.txt', WORLD)
  with pytest.raises(core.InputError, match='is a folder'):
    text.read(tmp_path, WORLD)


# Spec section 15: tokens a line, ill-formed lines and odd tokens.
@pytest.mark.parametrize(
  ('folder', 'least', 'median', 'most', 'ill_formed', 'odd'),
  [
    ('shortest', 4, 48, 99, 0, 2),
    ('traffic', 4, 59, 128, 10, 0),
    ('random', 5, 90, 102, 0, 0),
  ],
)
def test_published_samples(
  manhattan, folder, least, median, most, ill_formed, odd
):
  maps = pytest.importorskip('wm.worlds.maps')
  world = maps.World(
    nodes=str(manhattan / 'nodes.csv'),
    edges=str(manhattan / folder / 'edges.csv'),
  )
  got = text.read(manhattan / folder / 'samples.txt', world)
  assert len(got) == 6400
  assert got.lengths.min() == least
  assert np.median(got.lengths) == median
  assert got.lengths.max() == most
  assert got.counts == {'ill_formed': ill_formed}
  node0 = world.vocab.index('NW') + 1
  assert (got.tokens[:, 2:] >= node0).sum() == odd


@pytest.mark.parametrize(
  'line',
  [
    '{"tokens": ["at0", "x", "y", "end"], "moves": 7}',
    '{"id": "g1", "moves": "at0 x y end", "states": [[1, 2]]}',
    ' ["at0", "x", "y", "end"]',
  ],
)
def test_a_line_may_be_json(tmp_path, line):
  plain = text.read(put(tmp_path, 'at2 y end x\nat0 x y end\n'), WORLD)
  mixed = text.read(put(tmp_path, f'at2 y end x\n{line}\n'), WORLD)
  np.testing.assert_array_equal(mixed.tokens, plain.tokens)
  np.testing.assert_array_equal(mixed.lengths, plain.lengths)


@pytest.mark.parametrize(
  ('line', 'message'),
  [
    ('{"moves": ["at0"', 'line 2 is not JSON: '),
    ('{"id": 1, "fen": ""}', "'tokens' or 'moves' .*; available: id, fen"),
    ('{"moves": ["at0", 3]}', 'line 2 holds 3; expected a text of tokens'),
    ('{"moves": null}', 'line 2 holds None; expected'),
    ('["at0", "NNE"]', "line 2: unknown token 'NNE'"),
    ('[' * 99_999, 'line 2 is not JSON: it nests too deep'),
  ],
)
def test_bad_json_is_refused_with_its_line(tmp_path, line, message):
  with pytest.raises(core.InputError, match=message):
    text.read(put(tmp_path, f'at0 x x end\n{line}\n'), WORLD)


def test_a_token_may_begin_with_a_bracket(tmp_path):
  loop = {'start': 'a', 'transitions': {'a': {'[x': 'a', 'y': 'a'}}}
  (tmp_path / 'loop.json').write_text(json.dumps(loop))
  world = registry.make(
    'world', f"automaton(file='{tmp_path}/loop.json', length=4)"
  )
  lines = '[x y [x [x\n["[x", "y", "[x", "[x"]\n'
  plain, quoted = text.read(put(tmp_path, lines), world).tokens
  np.testing.assert_array_equal(plain, quoted)
