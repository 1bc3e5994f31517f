"""Worlds in words: what every one of them says, and what is refused."""

import pytest

from tests import every_world
from wm import core
from wm.core import registry, verbal

TOLD = every_world.having(core.Verbal)
SEEDS = 0, 5


def styles(world, told='rules'):
  return [
    core.PromptStyle(told, wording, seed)
    for wording in world.wordings
    for seed in SEEDS
  ]


@TOLD
def test_there_are_at_least_two_wordings_and_no_others(world):
  assert len(set(world.wordings)) >= 2
  first = core.PromptStyle(wording=world.wordings[0])
  assert world.rules(core.PromptStyle()) == world.rules(first)
  with pytest.raises(core.InputError, match=world.wordings[-1]) as error:
    verbal.render_description(world, core.PromptStyle(wording='in rhymes'))
  assert '\n' not in str(error.value)


@TOLD
def test_tokens_have_names_of_their_own(world):
  for style in styles(world):
    spoken = world.token_names(style)
    assert len(spoken) == len(world.vocab)
    assert len({name.lower() for name in spoken}) == len(spoken)
    assert not any(set(name) & set(';\n') for name in spoken)
    assert world.render_tokens((), style) == ''


@TOLD
def test_the_length_is_known_before_anything_is_written(world):
  for style in styles(world) + styles(world, 'walks(20)'):
    guess = verbal.description_extent(world, style).tokens
    tokens = verbal.text_tokens(verbal.render_description(world, style))
    assert 0.6 < guess / tokens < 1.6


@TOLD
def test_texts_depend_on_wording_seed_and_walks(world):
  asked = styles(world)
  texts = [verbal.render_description(world, style) for style in asked]
  assert texts == [verbal.render_description(world, style) for style in asked]
  assert len(set(texts)) == len(texts)
  assert all(text == text.strip() for text in texts)
  first, other = (
    verbal.render_description(world, core.PromptStyle('walks(3)', seed=seed))
    for seed in SEEDS
  )
  assert first.splitlines()[0] == other.splitlines()[0]
  assert first != other


def test_what_is_too_long_is_refused_in_a_line_that_says_what_fits():
  world = registry.make('world', 'maps(rows=66, columns=66)')
  with pytest.raises(core.InputError, match='room for about') as error:
    verbal.render_description(world, core.PromptStyle())
  assert '\n' not in str(error.value)
  fits = registry.make('world', 'maps(rows=24, columns=24)')
  text = verbal.render_description(fits, core.PromptStyle())
  assert verbal.text_tokens(text) < 32_000
  with pytest.raises(core.InputError, match='sequences in words'):
    verbal.render_description(fits, core.PromptStyle('walks(100000)'))


@pytest.mark.parametrize('told', ['rule', 'walks(0)', 'walks()', 'walks(-1)'])
def test_what_is_told_is_rules_or_walks(told):
  world = registry.make('world', 'maps(rows=2, columns=2)')
  with pytest.raises(core.InputError, match="'rules', or 'walks"):
    verbal.render_description(world, core.PromptStyle(told))


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
