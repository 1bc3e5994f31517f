"""Token coverage: how many tokens of the vocabulary stored sequences have."""

import numpy as np
import pytest

import wm
from tests.launch import binaries
from wm import core
from wm.core import registry
from wm.data import sampling, store
from wm.reporting import paper_comparison
from wm.runtime import files


def keep(path, spec, sequences):
  """A folder of sequences of a world."""
  world = registry.make('world', spec)
  about = sampling.describe(world, 0, 'train', len(sequences))
  with store.Writer(path, about) as writer:
    writer.add(sequences)
    writer.finish()
  return path


def games(spec, *texts):
  """Sequences of chess by their moves in UCI."""
  world = registry.make('world', spec)
  start = world.vocab[world.header[0]]
  words = [[start, *text.split()] for text in texts]
  tokens = np.zeros((len(words), 9), np.int32)
  for row, some in zip(tokens, words, strict=True):
    row[: len(some)] = [world.vocab.index(word) for word in some]
  return core.Sequences(tokens, np.array([*map(len, words)], np.int32))


CHESS = 'chess(length=8)'
FIRST = 'e2e4 e7e5 g1f3', 'e2e4 c7c5'
SECOND = 'e2e4 e7e5 g1f3 b8c6', 'd2d4 b8c6'


@pytest.mark.parametrize('vocabulary', ['compact', 'packed'])
def test_known_counts(tmp_path, vocabulary):
  spec = f"chess(length=8, vocabulary='{vocabulary}')"
  folders = [
    keep(tmp_path / name, spec, games(spec, *texts))
    for name, texts in (('a', FIRST), ('b', SECOND))
  ]
  lines = []
  first, second = wm.coverage(folders, tmp_path / 'out', log=lines.append)
  flags = [f'--coverage={folder}' for folder in folders]
  code, said, _ = binaries.run('count', *flags, f'--out={tmp_path / "out"}')
  assert (code, said.splitlines()) == (0, lines)
  ids = 1968 if vocabulary == 'compact' else 20480
  assert first[2:] == (2, 5, ids, 4, 0, 0.0)
  # d2d4 and b8c6 are new, three of six occurrences.
  assert second[2:] == (2, 6, ids, 5, 2, 0.5)
  assert lines[0].endswith(
    f'a: 4 of {ids:,} tokens ({4 / ids:.2%}) in 2 sequences; 0 of them, 0 of '
    'all occurrences, are new'
  )
  kept = files.read_json(tmp_path / 'out/coverage.json')
  assert [tuple(row.values()) for row in kept] == [first, second]


def test_few_random_games_have_most_moves(tmp_path):
  spec = 'chess(length=704)'
  world = registry.make('world', spec)
  folder = keep(tmp_path / 'a', spec, world.sample(200, 0))
  (found,) = wm.coverage(folder)
  assert found.ids == 1968
  assert 0.9 * found.ids < found.seen <= found.ids


def test_prompts_are_no_moves(tmp_path):
  spec = 'maps(rows=3, columns=3)'
  world = registry.make('world', spec)
  folder = keep(tmp_path / 'a', spec, world.sample(40, 0))
  (found,) = wm.coverage([folder])
  moves = {word for word in world.vocab if not word.isdigit()} - {'<pad>'}
  assert found.seen <= found.ids <= len(moves)


def test_a_report_tables_it_beside_the_paper(tmp_path):
  for name, texts in (('a', FIRST), ('b', SECOND)):
    keep(tmp_path / name, CHESS, games(CHESS, *texts))
  wm.coverage([tmp_path / 'a', tmp_path / 'b'], tmp_path)
  table = paper_comparison.coverage_table([tmp_path, tmp_path])
  assert table.title == 'Token coverage'
  cells = ['4 of 1,968', '0.20%', '0', '0', '1,968 of 20,480, 9.61%']
  assert list(table.rows[0][3:]) == cells
  assert list(table.rows[1][5:]) == ['2', '0.5', '1,968 of 20,480, 9.61%']
  assert table.note.endswith('Paper: table 3, train.; Paper: table 3, test.')
  assert paper_comparison.coverage_table([tmp_path / 'a']) is None


def test_bad_folders_and_files_are_one_line(tmp_path):
  one = keep(tmp_path / 'a', CHESS, games(CHESS, *FIRST))
  other = "chess(length=8, vocabulary='packed')"
  two = keep(tmp_path / 'b', other, games(other, *FIRST))
  for folders, words in (
    ([], 'expected at least one'),
    ([tmp_path / 'none'], 'none'),
    ([one, two], 'vocabulary is not that of chess'),
  ):
    with pytest.raises(core.InputError, match=words) as caught:
      wm.coverage(folders, tmp_path / 'out')
    assert '\n' not in str(caught.value)
  assert not (tmp_path / 'out').exists()
  both = f'--coverage={one}', '--classes'
  said = binaries.refused('count', *both, cwd=tmp_path)
  assert '--coverage were given: expected one of the two' in said
  for other in ('--depth=2', '--model=uniform()'):
    said = binaries.refused('count', '--world=maps()', '--classes', other)
    assert f'{other} and --classes were given' in said
  for text, words in (('{}', 'expected a list'), ('[{"data": 1}]', 'entry 0')):
    (tmp_path / 'coverage.json').write_text(text)
    with pytest.raises(core.InputError, match=words):
      paper_comparison.coverage_table([tmp_path])
