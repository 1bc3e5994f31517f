"""Worlds in words: what every one of them says, and what is refused."""

from tests import every_world
from wm import core
from wm.core import registry, verbal

TOLD = every_world.having(core.Verbal)


STYLES = core.PromptStyle(), core.PromptStyle(5)


@TOLD
def test_tokens_have_names_of_their_own(world):
  for style in STYLES:
    spoken = world.token_names(style)
    assert len(spoken) == len(world.vocab)
    assert len({name.lower() for name in spoken}) == len(spoken)
    assert not any(set(name) & set(';\n') for name in spoken)
    assert world.render_tokens((), style) == ''


@TOLD
def test_the_length_is_known_before_anything_is_written(world):
  for style in STYLES:
    guess = world.extent(style).tokens
    tokens = verbal.text_tokens(verbal.render_description(world, style))
    assert 0.6 < guess / tokens < 1.6


@TOLD
def test_texts_depend_on_the_seed(world):
  texts = [verbal.render_description(world, style) for style in STYLES]
  assert texts == [verbal.render_description(world, style) for style in STYLES]
  assert len(set(texts)) == len(texts)
  assert all(text == text.strip() for text in texts)


def test_what_is_too_long_is_refused_in_a_line_that_says_what_fits(one_line):
  world = registry.make('world', 'maps(rows=66, columns=66)')
  with one_line('room for about'):
    verbal.render_description(world, core.PromptStyle())
  fits = registry.make('world', 'maps(rows=24, columns=24)')
  text = verbal.render_description(fits, core.PromptStyle())
  assert verbal.text_tokens(text) < 32_000


def test_new_names_are_unlike_and_go_by_the_seed():
  names = verbal.new_names(5000, core.PromptStyle(seed=1))
  assert len(set(names)) == 5000
  assert names[:9] != verbal.new_names(5000, core.PromptStyle(seed=2))[:9]
  assert all(name.isalpha() for name in names)


def test_a_question_ends_with_what_is_asked():
  asked = verbal.yes_or_no('Rules.', 'north, east', 'south')
  assert asked.startswith('Rules.\n\nSo far: north, east.\n')
  assert asked.endswith('go on with: south?\nAnswer yes or no.')
  assert 'So far: nothing.' in verbal.all_next('Rules.', '')
  assert 'north; east' in verbal.one_next('Rules.', '', ['north', 'east'])
