"""Folders, archives and files of games, good and damaged; sets of places."""

import itertools
import json
import tarfile

import numpy as np
import pytest

from tests.language.stand_ins import mazes as readers_of_words
from tests.worlds.text_game import games
from wm import core
from wm.core import verbal
from wm.worlds import mazes, text_game
from wm.worlds.text_game import maze, readers

WORLD = mazes.World(places=5, loops=0, one_way=0, doors=0, named=0, dark=0)


@pytest.fixture
def folder(tmp_path):
  """A folder with one game in it, 'inn'."""
  readers.write(WORLD.maze, tmp_path, 'inn')
  return tmp_path


def edit(folder, kind, change):
  """Changes a file of the game as JSON."""
  path = folder / 'inn' / f'inn.{kind}'
  value = json.loads(path.read_text())
  change(value)
  path.write_text(json.dumps(value))


def drop(folder, kind):
  (folder / 'inn' / f'inn.{kind}').unlink()


def put(folder, kind, text):
  (folder / 'inn' / f'inn.{kind}').write_bytes(
    text if isinstance(text, bytes) else text.encode()
  )


def replaced(folder, old, new):
  path = folder / 'inn' / 'inn.walkthrough'
  text = path.read_text()
  assert old in text
  path.write_text(text.replace(old, new, 1))


DAMAGE = {
  r'inn has neither inn.edges.json nor inn.map.human; found: act': lambda f: (
    drop(f, 'edges.json')
  ),
  r'inn.locations.json is missing': lambda f: drop(f, 'locations.json'),
  r'inn.actions.json is not JSON': lambda f: put(f, 'actions.json', '["a'),
  r'inn.edges.json is not UTF-8 text': lambda f: put(f, 'edges.json', b'\xff['),
  r'inn.edges.json has no edge': lambda f: put(f, 'edges.json', '[]'),
  r"unknown location 'bar, \"the\" \[old\]'; available": lambda f: edit(
    f, 'edges.json', lambda e: e[0].update(src_node='bar, "the" [old]')
  ),
  r"unknown action 'fly'": lambda f: edit(
    f, 'edges.json', lambda e: e[2].update(action='fly')
  ),
  r'edges.json: \[1\] lacks dst_node': lambda f: edit(
    f, 'edges.json', lambda e: e[1].pop('dst_node')
  ),
  r'steps are 0 to 9999, which is never': lambda f: edit(
    f, 'edges.json', lambda e: e[1].update(edge_min_step=10**12)
  ),
  r'is there twice': lambda f: edit(
    f, 'edges.json', lambda e: e.append(dict(e[0]))
  ),
  r"the location '.*' is listed twice": lambda f: edit(
    f, 'locations.json', lambda names: names.append(names[0])
  ),
  r"step '3' comes after 1; expected 2": lambda f: replaced(
    f, 'STEP NUM: 2', 'STEP NUM: 3'
  ),
  r'step 0 lacks ==>ACT: or ==>OBSERVATION:': lambda f: replaced(
    f, '==>ACT: ', 'x'
  ),
  r'inn.walkthrough has no step': lambda f: put(f, 'walkthrough', 'Hello.'),
  r'row 1 starts with': lambda f: put(f, 'valid_moves.csv', 'a\n7,b,c\n'),
  r'row 1 has an unknown place': lambda f: put(
    f, 'valid_moves.csv', 'a\n1,nowhere,c\n'
  ),
  r'valid_moves.csv is not a CSV file: field larger than': lambda f: put(
    f, 'valid_moves.csv', 'a\n1,' + 'x' * 200_000
  ),
  r'map.human, line 1: ': lambda f: put(
    f, 'map.human', 'x --> ' * 2_000 + 'x, step 1'
  ),
}


@pytest.mark.parametrize('message', DAMAGE)
def test_damage_is_one_line(folder, message, one_line):
  DAMAGE[message](folder)
  with one_line(message):
    readers.read(folder, 'inn')


def test_folders_that_are_none(folder, tmp_path):
  for path, message in (
    (folder / 'absent', 'no such folder of games'),
    (folder / 'inn', 'has no game; expected files'),
    (folder / 'inn' / 'inn.edges.json', 'is not a readable archive'),
  ):
    with pytest.raises(core.InputError, match=message):
      readers.read(path, 'inn')
  with pytest.raises(core.InputError, match="no game 'out'; available: inn"):
    readers.read(folder, 'out')
  with pytest.raises(core.InputError, match='expected the folder of the game'):
    text_game.World(game='inn')
  with pytest.raises(core.InputError, match="no game ''; available: inn"):
    text_game.World(folder=str(folder)).maze  # noqa: B018


def test_two_games_of_one_name_are_refused(folder, tmp_path):
  path = tmp_path / 'games.tar.gz'
  with tarfile.open(path, 'w:gz') as archive:
    for generation in ('old', 'new'):
      archive.add(folder / 'inn', f'{generation}/inn')
  with pytest.raises(core.InputError, match=r'inn/inn\..* in two places'):
    readers.games(path)


def test_archives_are_read_as_they_are(folder, tmp_path, monkeypatch):
  path = tmp_path / 'games.tar.gz'
  with tarfile.open(path, 'w:gz') as archive:
    archive.add(folder / 'inn', 'generation/inn')
  assert readers.games(path) == ('inn',)
  packed, plain = readers.read(path, 'inn'), readers.read(folder, 'inn')
  assert packed.steps == plain.steps
  assert packed.places == plain.places
  np.testing.assert_array_equal(packed.trail, plain.trail)
  for name, most in (('LARGEST', 100), ('MOST', 1000)):
    with monkeypatch.context() as patch:
      patch.setattr(readers, name, most)
      readers._packed.cache_clear()
      with pytest.raises(core.InputError, match='expected at most'):
        readers.read(path, 'inn')
  data = path.read_bytes()
  for size in (10, len(data) // 2):
    path.write_bytes(data[:size])
    with pytest.raises(core.InputError, match='is not a readable archive'):
      readers.read(path, 'inn')
  put(folder, 'noise', np.random.default_rng(0).bytes(100_000))
  with tarfile.open(path, 'w:xz') as archive:
    archive.add(folder / 'inn', 'generation/inn')
  flipped = bytearray(path.read_bytes())
  flipped[len(flipped) // 2] ^= 255
  path.write_bytes(flipped)
  with pytest.raises(core.InputError, match='readable archive: Corrupt'):
    readers.read(path, 'inn')


ODD = (
  ('a "b" [c], d', 'say "plugh", twice', "e's {f}", 1),
  ("e's {f}", 'in', 'a "b" [c], d', 2),
  ("e's {f}", 'in', 'g | h', 3),
  ('g | h', 'say "plugh", twice', "e's {f}", 4),
)


def odd():
  """A maze whose names hold quotes, brackets and commas."""
  names = list(dict.fromkeys(n for u, _, v, _ in ODD for n in (u, v)))
  actions = list(dict.fromkeys(a for _, a, _, _ in ODD))
  stamps = [[k, maze.NEVER, k] * 2 for *_, k in ODD]
  edges = [row[:3] for row in ODD]
  return maze.made('odd', 'camera_ready', (names, actions), edges, stamps, '')


def test_names_with_quotes_and_brackets(tmp_path):
  readers.write(odd(), tmp_path)
  world = text_game.World(folder=str(tmp_path), game='odd', length=6)
  assert world.maze.places == odd().places
  assert world.names[-1] == 'a "b" [c], d | g | h'
  for name in world.names:
    assert world.format(world.parse(name)[0]) == name
  tell = core.PromptStyle()
  assert world.token_names(tell) == ('<pad>', 'action1', 'in')
  taken = odd()._replace(actions=('say "plugh", twice', 'action1'))
  readers.write(taken, tmp_path, 'taken')
  other = text_game.World(folder=str(tmp_path), game='taken')
  assert other.token_names(tell) == ('<pad>', 'action1', 'action2')
  read = readers_of_words.read(verbal.render_description(world, tell))
  label = dict(zip(odd().actions, world.token_names(tell)[1:], strict=True))
  assert read.edges == {(u, label[a], v) for u, a, v, _ in ODD}


def test_an_action_with_two_outcomes_leads_to_a_set():
  world = text_game.World()
  hotel = text_game.hotel()
  assert world.stats()['ambiguous'] == 1
  lift = world.parse('lift')
  token = world.vocab.index
  both = world.advance(lift, np.array([token('out')]))
  assert world.format(both[0]) == 'hall | roof'
  # What either allows is legal, and leads on from those that allow it.
  legal = {world.vocab[t] for t in np.flatnonzero(world.legal(both)[0])}
  assert legal == {'east', 'up', 'south', 'enter_lift', 'jump'}
  after = world.advance(both, np.array([token('jump')]))
  assert world.format(after[0]) == 'yard'
  # As one place after the other says.
  result = text_game.place_sets(hotel, hotel.start)
  for row, members in enumerate(result.members):
    for column, action in enumerate(result.actions):
      there = np.zeros(len(hotel.places), bool)
      for place in members:
        there |= games.reached(hotel, place, [action])
      expected = tuple(np.flatnonzero(there).tolist())
      known = result.delta[row, column]
      assert expected == (result.members[known] if known >= 0 else ())


def last_but(places_back):
  """A maze whose walk can tell what it did so many steps ago, by sets."""
  names = [f'room {k}' for k in range(places_back + 2)]
  edges = [(names[0], action, names[0]) for action in ('left', 'right')]
  edges.append((names[0], 'left', names[1]))
  for here, there in itertools.pairwise(names[1:]):
    edges += [(here, 'left', there), (here, 'right', there)]
  stamps = [[k, maze.NEVER, k] * 2 for k in range(1, len(edges) + 1)]
  inputs = names, ['left', 'right']
  return maze.made('dial', 'camera_ready', inputs, edges, stamps, 'dial')


def test_sets_of_places_are_limited(tmp_path, monkeypatch):
  assert len(text_game.place_sets(last_but(5), 0).members) == 2**6
  monkeypatch.setattr(text_game, 'MOST_SETS', 40)
  readers.write(last_but(5), tmp_path)
  world = text_game.World(folder=str(tmp_path), game='dial')
  with pytest.raises(core.InputError, match='more than 40 sets of places'):
    world.delta  # noqa: B018


def test_actions_are_limited_and_unlike(tmp_path):
  num = text_game.MOST_ACTIONS + 1
  for game, actions, message in (
    ('many', [f'go {k}' for k in range(num)], '127 actions; expected at most'),
    ('alike', ['go  up', 'go up'], "are the token 'go_up'"),
  ):
    edges = [('here', action, 'here') for action in actions]
    stamps = [[1, maze.NEVER, 1] * 2] * len(edges)
    result = maze.made(
      game, 'camera_ready', (['here'], actions), edges, stamps, game
    )
    readers.write(result, tmp_path)
    world = text_game.World(folder=str(tmp_path), game=game)
    with pytest.raises(core.InputError, match=message):
      len(world.vocab)


def test_walkthroughs_are_read_block_by_block():
  text = (
    '===========\n==>STEP NUM: 0\n==>ACT: Init\n==>OBSERVATION: One\n\n===\n'
    'two\n\n===========\n'
    '==>STEP NUM: 1\n==>ACT: \n==>OBSERVATION: \n\n===========\n'
  )
  assert readers.walkthrough(text) == (
    maze.WalkthroughStep(0, 'Init', 'One\n\n===\ntwo'),
    maze.WalkthroughStep(1, '', ''),
  )


def test_annotations_keep_the_first_step_of_an_edge(tmp_path):
  put_in = tmp_path / 'inn'
  put_in.mkdir()
  (put_in / 'inn.map.human').write_text(
    '\ufeffBar --> north --> Hall, step 5, answerable 6\n'
    'Hall --> Enter Lift --> Lift, step 7, answerable 7\n'
    'bar --> north --> hall, step 3, answerable 4\n'
    'Lift -->  --> Bar, step 9\n'
  )
  (put_in / 'inn.map.reversed').write_text(
    'Hall --> south --> Bar, step 3, answerable 4, desc: None\n\n'
  )
  result = readers.read(tmp_path, 'inn')
  assert result.places == ('bar', 'hall', 'lift')
  assert result.actions == ('north', 'enter lift', '', 'south')
  output = result.edges.answerable
  assert output.forward.tolist() == [4, 7, 9, maze.NEVER]
  assert output.total.tolist() == [4, 7, 9, 4]
  assert result.edges.played.forward.tolist() == [3, 7, 9, maze.NEVER]
  (put_in / 'inn.map.reversed').write_text('Hall -> south -> Bar, step 3\n')
  with pytest.raises(core.InputError, match=r'map\.reversed, line 1'):
    readers.read(tmp_path, 'inn')
