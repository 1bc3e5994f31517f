"""Chess states as text, and chess from the command line."""

import numpy as np
import pytest

from wm import core
from wm.worlds import chess
from wm.worlds.chess import notation as chess_notation


@pytest.fixture(scope='module')
def world():
  return chess.World()


def test_states_are_read_from_fens_and_moves(world):
  fen = 'r1bqkbnr/pppp1ppp/2n5/1B2p3/4P3/5N2/PPPP1PPP/RNBQK2R b KQkq - 3 3'
  for text in (
    'e4 e5 Nf3 Nc6 Bb5',
    '1. e4 e5 2. Nf3 Nc6 3. Bb5',
    'e2e4 e7e5 g1f3 b8c6 f1b5',
    fen,
  ):
    state = world.parse(text)
    assert world.format(state[0]) == fen
  assert world.format(world.opening()[0]) == chess_notation.START_FEN
  assert world.format(world.parse('e4')[0]).endswith('b KQkq e3 0 1')


def test_fens_come_back_with_their_counters(world):
  states = world.sample_states(200, 9)
  for state in states:
    read = world.parse(world.format(state))[0]
    np.testing.assert_array_equal(read[: chess.KNOWN], state[: chess.KNOWN])


@pytest.mark.parametrize(
  ('text', 'message'),
  [
    ('', 'expected a FEN'),
    ('e4 e5 Ke3', "ply 3: 'Ke3' is illegal in 'rnbqkbnr/pppp1ppp/8/4p3"),
    ('4k3/8/8/8/8/8/8/8 w - - 0 1', 'kings'),
  ],
)
def test_bad_states_are_refused(world, text, message, one_line):
  with one_line(message):
    world.parse(text)


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'vocabulary': 'all'}, 'available: compact, packed'),
    ({'stop': 'never'}, 'available: claims, automatic, moves'),
    ({'ep': 'pseudo'}, 'available: raw, legal'),
    ({'states': 'none'}, 'available: stratified, recurring'),
    ({'length': 1}, 'expected 2 to 5900 plies'),
    ({'least': -1}, 'least=-1'),
    ({'pool': 0}, 'pool=0'),
  ],
)
def test_bad_fields_are_refused(fields, message):
  with pytest.raises(core.InputError, match=message):
    chess.World(**fields)
