"""The list of plug-ins says what the registry would accept."""

import pytest

from wm.core import registry
from wm.reporting import catalog


@pytest.fixture(scope='module')
def entries():
  return list(catalog.plug_ins(*catalog.SIZES))


def test_every_plug_in_is_there_once_in_order(entries):
  for kind in registry.KINDS:
    result = [entry.name for entry in entries if entry.kind == kind]
    assert result == registry.names(kind)
    assert result


def test_every_one_says_in_a_line_what_it_is(entries):
  for entry in entries:
    assert entry.line.endswith(('.', ':')), entry
    assert '\n' not in entry.line


def test_fields_and_defaults_are_a_spec_that_parses(entries):
  for entry in entries:
    if all(default for _, default in entry.fields):
      inputs = ', '.join(f'{name}={value}' for name, value in entry.fields)
      thing = registry.make(entry.kind, f'{entry.name}({inputs})')
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
  assert max(map(len, text.splitlines())) < 80
  words = ' '.join(text.split())
  for entry in entries:
    assert f'  {entry.name}(' in text
    assert entry.line in words


def test_a_told_world_is_shown_in_words_or_by_their_length():
  small, large = (
    catalog.world(f'maps(rows={size}, columns={size})') for size in (2, 30)
  )
  assert 'There are no other streets' in small
  assert 'There are no other streets' not in large
  assert '    about 52,982 tokens' in large
  assert 'In words' not in catalog.world('groups()')
