"""A plug-in in full says what each field means; a world shows itself."""

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.reporting import catalog

KINDS = ('world', 'model', 'metric')
PLUG_INS = [(kind, name) for kind in KINDS for name in registry.names(kind)]
WORLDS = (
  'maps(rows=3, columns=3)',
  'othello(size=6)',
  'chess()',
  'seating()',
  'connect4(rows=3)',
  'lattice()',
  'groups()',
)


@pytest.mark.parametrize(('kind', 'name'), PLUG_INS)
def test_every_field_is_explained(kind, name):
  cls = registry.find(kind, name)
  known = catalog.attributes(cls)
  for field, _ in catalog.defaults(cls):
    assert len(known.get(field, '').split()) >= 2, (name, field)


def test_a_class_explains_better_than_its_base():
  class Base:
    """A base.

    Attributes:
      size: of the base.
      kept: in all of them,
        over two lines.
    """

  class Derived(Base):
    """A derived one.

    Attributes:
      size: of the derived.

    More text: not a field.
    """

  assert catalog.attributes(Derived) == {
    'size': 'of the derived.',
    'kept': 'in all of them, over two lines.',
  }


@pytest.mark.parametrize('spec', WORLDS)
def test_a_world_shows_tokens_with_ids_sequences_and_states(spec):
  text = catalog.world(spec)
  world = registry.make('world', spec)
  assert f'{len(world.vocab)} tokens' in text
  assert f'1 {world.vocab[1]}' in text
  tokens, at, written = catalog.examples(world)[0]
  words = [world.vocab[token] for token in tokens[:5]]
  assert ' '.join(words) in text
  assert written in text
  state = world.parse(written)
  legal = np.flatnonzero(world.legal(state)[0])
  assert tokens[at] in legal


def test_a_long_vocabulary_is_cut_in_the_middle():
  lines = catalog.vocabulary(registry.make('world', 'chess()'))
  assert any('more ...' in line for line in lines)
  assert len(lines) < 60


def test_an_unknown_name_is_one_line():
  with pytest.raises(core.InputError, match='did you mean'):
    catalog.plug_in('model', 'slise')


def test_what_must_be_given_is_said_of_a_name_alone():
  result = catalog.plug_in('model', 'language')
  assert result.startswith('language\n')
  assert '    model (must be given)\n' in result
