"""Laws of state labels, for every world that gives any."""

import numpy as np
import pytest

from wm import core
from wm.core import registry

NUM = 24


def worlds(ability: core.Need) -> list[str]:
  results = [*registry.names('world'), 'othello(size=6)', "chess(ep='legal')"]
  return [n for n in results if core.can(registry.make('world', n), ability)]


@pytest.fixture(params=worlds(core.Labelled))
def world(request) -> core.World:
  return registry.make('world', request.param)


def data(world) -> core.Sequences:
  return world.sample(NUM, 3)


def used(sequences) -> np.ndarray:
  return np.arange(sequences.tokens.shape[1]) < sequences.lengths[:, None]


def test_labels_are_classes(world):
  result = data(world)
  labels = world.sequence_labels(result.tokens, result.lengths)
  assert labels.shape == (*result.tokens.shape, len(world.heads.sizes))
  assert labels.dtype == world.heads.dtype
  assert labels.dtype.kind == 'u'
  assert (labels < np.array(world.heads.sizes)).all()
  assert not labels[~used(result)].any()


def test_compiled_labels_are_those_of_walking(world):
  result = data(world)
  tokens = result.tokens.copy()
  # A token out of place in some rows: labels end there.
  broken = np.flatnonzero(result.lengths > 6)[::3]
  tokens[broken, 5] = tokens[broken, 0] if world.prompt_len else 10**6
  fast = world.sequence_labels(tokens, result.lengths)
  slow = core.Labelled.sequence_labels(world, tokens, result.lengths)
  np.testing.assert_array_equal(fast, slow)
  if world.prompt_len == 1:
    assert not fast[broken, 5:].any()


def test_a_label_row_depends_on_its_own_row(world):
  result = data(world)
  whole = world.sequence_labels(result.tokens, result.lengths)
  for row in (0, 5):
    size = int(result.lengths[row])
    item = world.sequence_labels(
      result.tokens[[row], :size], result.lengths[[row]]
    )
    np.testing.assert_array_equal(item[0], whole[row, :size])
  half = result.lengths // 2
  part = world.sequence_labels(result.tokens, half)
  inside = np.arange(result.tokens.shape[1]) < half[:, None]
  np.testing.assert_array_equal(part[inside], whole[inside])
  assert not part[~inside].any()


def test_equal_labels_mean_the_same_state(world):
  result = data(world)
  states, seen = world.init(NUM), {}
  for k in range(result.tokens.shape[1]):
    rows = np.flatnonzero(k < result.lengths)
    states[rows] = world.advance(states[rows], result.tokens[rows, k])
    labels = world.labels(states[rows])
    ids = world.state_id(states[rows])
    for label, item in zip(labels, ids, strict=True):
      assert seen.setdefault(label.tobytes(), item) == item
  assert len(seen) > 1


def test_groups_are_runs_of_labels(world):
  for part in world.heads.groups.values():
    assert len(world.heads.sizes[part]) > 0


def test_the_dead_have_no_labels(world):
  states = world.advance(world.init(3), np.full(3, 10**6))
  assert (world.state_id(states) == core.DEAD).all()
  assert not world.labels(states).any()


def test_no_sequences_and_empty_ones(world):
  none = world.sequence_labels(np.zeros((0, 4), np.int32), np.zeros(0, int))
  assert none.shape == (0, 4, len(world.heads.sizes))
  empty = world.sequence_labels(np.zeros((2, 4), np.int32), np.zeros(2, int))
  assert not empty.any()


@pytest.mark.parametrize('spec', worlds(core.Labelled.surface_labels))
def test_naive_readers_have_the_right_shape(spec):
  world = registry.make('world', spec)
  result = data(world)
  labels = world.surface_labels(result.tokens, result.lengths)
  truth = world.sequence_labels(result.tokens, result.lengths)
  assert labels.dtype == truth.dtype
  assert not labels[~used(result)].any()
  right = (labels == truth)[used(result)]
  assert 0.5 < right.mean() < 1


def chess(text: str, **fields) -> tuple[core.World, core.Sequences]:
  """A game given by its moves."""
  inputs = {'length': 40, **fields}
  world = registry.find('world', 'chess')(**inputs)
  state = world.parse(text)
  moves = world.history(state)[0]
  moves = moves[moves > 0]
  tokens = np.array([[*world.header, *moves]], np.int32)
  return world, core.Sequences(tokens, np.array([tokens.size], np.int32))


GAME = 'e4 Nf6 e5 d5 exd6 Nc6 Nf3 Bf5 Bb5 Qd7 O-O O-O-O dxe7 Bg6 exd8=Q+ Kxd8'


def test_known_games_have_known_kinds():
  world, game = chess(GAME)
  kinds = world.move_tags(game)
  plies = {
    name: np.flatnonzero(mask[0]).tolist() for name, mask in kinds.items()
  }
  assert plies == {
    'castling': [11, 12],
    'en_passant': [5],
    'promotion': [15],
    'lost_rights': [],
  }
  # A rook taken at home takes a right with it, one that moves does not.
  world, game = chess('a4 b5 axb5 a6 bxa6 Bb7 axb7 Nc6 bxa8=Q Nd4')
  kinds = world.move_tags(game)
  assert np.flatnonzero(kinds['lost_rights'][0]).tolist() == [9]
  assert np.flatnonzero(kinds['promotion'][0]).tolist() == [9]
  world, game = chess('a4 a5 Ra3 Ra6 Nf3')
  assert not world.move_tags(game)['lost_rights'].any()


def test_the_naive_reader_by_hand():
  world, game = chess(GAME)
  labels = world.surface_labels(game.tokens, game.lengths)[0]
  truth = world.sequence_labels(game.tokens, game.lengths)[0]
  np.testing.assert_array_equal(labels[0], truth[0])
  # Side and counters need no rule but that pawns and captures count.
  np.testing.assert_array_equal(labels[:, 71:], truth[:, 71:])
  np.testing.assert_array_equal(labels[:, 64], truth[:, 64])
  assert (labels[:, 65:69] == 1).all()
  assert not labels[:, 69:71].any()
  wrong = [np.flatnonzero(row).tolist() for row in (labels != truth)[:, :64]]
  d5, h1, f1, a8, d8 = 27, 63, 61, 0, 3
  assert wrong[:5] == [[]] * 5
  assert wrong[5] == [d5]  # Taken in passing.
  assert wrong[11] == [d5, f1, h1]
  assert wrong[12] == [a8, d8, d5, f1, h1]
  assert wrong[15] == [a8, d8, d5, f1, h1]  # A pawn there, no queen.


def test_the_en_passant_convention_is_that_of_the_world():
  for ep, shown in (('raw', [5, 1]), ('legal', [0, 0])):
    world, game = chess('e4 Nf6', ep=ep)
    labels = world.sequence_labels(game.tokens, game.lengths)[0]
    assert labels[1, 69:71].tolist() == shown
    np.testing.assert_array_equal(
      labels[-1], world.labels(world.parse('e4 Nf6'))[0]
    )


def test_a_wrong_start_has_no_labels():
  world, game = chess('e4 e5')
  tokens = np.repeat(game.tokens, 3, axis=0)
  tokens[1, 0], tokens[2, 0] = tokens[1, 1], -5
  labels = world.sequence_labels(tokens, np.full(3, 3))
  assert labels[0, 2].any()
  assert not labels[1:].any()


def test_map_labels_are_place_and_goal():
  world = registry.make('world', 'maps()')
  result = data(world)
  labels = world.sequence_labels(result.tokens, result.lengths)
  origins = result.tokens[:, 0] - 9
  np.testing.assert_array_equal(labels[:, 0, 0], origins)
  assert not labels[:, 0, 1].any()
  np.testing.assert_array_equal(labels[:, 1, 1], result.tokens[:, 1] - 9)
  ends = labels[np.arange(NUM), result.lengths - 1]
  assert not ends.any()  # After `end`.
  before = labels[np.arange(NUM), result.lengths - 2]
  np.testing.assert_array_equal(before[:, 0], before[:, 1])
