"""Chess states as text, and chess from the command line."""

import subprocess
import sys

import numpy as np
import pytest

from wm import core
from wm.worlds import chess
from wm.worlds.chess import notation as chess_notation

KIWIPETE = (
  'r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1'
)


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
  ('text', 'said'),
  [
    ('', 'expected a FEN'),
    ('e4 e5 Ke3', "ply 3: 'Ke3' is illegal in 'rnbqkbnr/pppp1ppp/8/4p3"),
    ('e4 e5 e1e3', "ply 3: 'e1e3' is illegal"),
    ('e4 e5 xyz', "ply 3: 'xyz' is unreadable"),
    ('4k3/8/8/8/8/8/8/8 w - - 0 1', 'kings'),
    ('4k3/8/8/8/8/8/8/4K2P w - - 0 1', 'pawns'),
    ('4k3/8/8/8/8/8/8/4K3 w K - 0 1', 'castling'),
    ('4k3/8/8/8/8/8/8/4K3 x - - 0 1', 'side'),
    ('4k3/8/8/8/8/8/8/4R1K1 w - - 0 1', 'check'),
  ],
)
def test_bad_states_are_refused(world, text, said):
  with pytest.raises(core.InputError, match=said) as error:
    world.parse(text)
  assert '\n' not in str(error.value)


@pytest.mark.parametrize(
  ('fields', 'said'),
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
def test_bad_fields_are_refused(fields, said):
  with pytest.raises(core.InputError, match=said):
    chess.World(**fields)


# The command line.


def run(root, name, *args):
  return subprocess.run(
    [sys.executable, root / 'launch' / name, *args],
    capture_output=True,
    text=True,
    check=False,
  )


@pytest.mark.process
def test_count_from_the_command_line(root):
  done = run(root, 'count.py', '--world=chess()', '--depth=4')
  assert (done.returncode, done.stderr) == (0, '')
  assert done.stdout == '1 20\n2 400\n3 8902\n4 197281\n'
  done = run(
    root, 'count.py', '--world=chess()', '--depth=2', f'--state={KIWIPETE}'
  )
  assert done.stdout == '1 48\n2 2039\n'


@pytest.mark.process
def test_boundary_from_the_command_line(root):
  done = run(
    root,
    'count.py',
    '--world=chess()',
    '--first_state=4k3/8/8/8/8/8/8/4K2R w K - 0 1',
    '--second_state=4k3/8/8/8/8/8/8/4K2R w - - 0 1',
    '--depth=2',
    '--show',
  )
  assert (done.returncode, done.stderr) == (0, '')
  assert done.stdout == 'e1g1\n1 1 14\n2 1 77\n'


@pytest.mark.process
@pytest.mark.parametrize(
  ('state', 'said'),
  [
    ('e2e4 e7e5 e1e3', "ply 3: 'e1e3' is illegal in"),
    ('4k3/8/8/8/8/8/4K3 w - - 0 1', '7 ranks'),
    ('<start> e2e4 e2e4', "token 'e2e4', number 3"),
  ],
)
def test_bad_states_from_the_command_line(root, state, said):
  done = run(root, 'count.py', '--world=chess()', f'--state={state}')
  assert done.returncode == 2
  assert said in done.stderr
  assert len(done.stderr.splitlines()) == 1
