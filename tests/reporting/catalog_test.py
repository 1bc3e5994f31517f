"""The list of plug-ins says what the registry would accept."""

import json
import subprocess
import sys

import pytest

from wm import core
from wm.core import registry
from wm.evaluation import needs
from wm.reporting import catalog


@pytest.fixture(scope='module')
def entries():
  return list(catalog.plug_ins(*catalog.SIZES))


def test_every_plug_in_is_there_once_in_order(entries):
  for kind in registry.KINDS:
    found = [entry.name for entry in entries if entry.kind == kind]
    assert found == registry.names(kind)
    assert found


def test_every_one_says_in_a_line_what_it_is(entries):
  for entry in entries:
    assert entry.line.endswith(('.', ':')), entry
    assert '\n' not in entry.line


def test_fields_and_defaults_are_a_spec_that_parses(entries):
  for entry in entries:
    if all(default for _, default in entry.fields):
      given = ', '.join(f'{name}={value}' for name, value in entry.fields)
      thing = registry.make(entry.kind, f'{entry.name}({given})')
      assert registry.spec(thing) == f'{entry.name}()'


def test_networks_are_counted_and_nothing_else(entries):
  counted = {entry.name for entry in entries if entry.parameters is not None}
  assert 'transformer' in counted
  assert not counted & {'ngram', 'oracle', 'uniform', 'user'}


def test_the_count_follows_the_vocabulary():
  def size(vocab):
    return next(
      entry.parameters
      for entry in catalog.plug_ins(vocab, 102)
      if entry.name == 'transformer'
    )

  # Width 64 and a tied head: one row of the embedding for each token.
  assert size(200) - size(100) == 64 * 100


def test_the_text_shows_all_of_it(entries):
  text = catalog.text()
  for entry in entries:
    assert f'  {entry.name}(' in text
    assert entry.line in text


def test_the_counts_on_disk_are_those_of_the_networks():
  counts = json.loads(catalog.COUNTS.read_text())
  for name in registry.names('model'):
    cls = registry.find('model', name)
    if not all(default for _, default in catalog.defaults(cls)):
      continue
    if isinstance(thing := cls(), core.Trainable):
      size = catalog.parameters(thing, *catalog.SIZES)
      assert counts.pop(catalog.spelled(thing), size) == size
  assert not counts


QUICK = """
import sys
from wm.reporting import catalog
{}
sys.stdout.write(catalog.quick_list())
assert not {{'jax', 'flax', 'optax', 'scipy'}} & sys.modules.keys()
"""


def quick(root, change: str = '') -> str:
  return subprocess.run(
    [sys.executable, '-c', QUICK.format(change)],
    cwd=root,
    capture_output=True,
    text=True,
    check=True,
  ).stdout


def test_the_quick_list_is_the_list(root):
  assert quick(root) == f'{catalog.text()}\n\n{needs.text()}'


@pytest.mark.parametrize(
  'change',
  [
    "catalog.COUNTS = catalog.COUNTS.with_name('none.json')",
    "catalog.spelled = lambda thing: 'a new network'",
  ],
)
def test_what_the_quick_list_lacks_is_made_in_full(root, change):
  assert quick(root, change) == ''


def test_a_told_world_is_shown_in_words_or_by_their_length():
  small, large = (
    catalog.world(f'lattice(size={size}, length=4)') for size in (3, 90_000)
  )
  assert 'At place 2, "right" cannot come next' in small
  assert 'At 0, stay can come next and leads to 0.' in small
  assert 'At 0, stay' not in large
  assert 'places: about 7,' in large
  assert 'In words' not in catalog.world('groups()')
