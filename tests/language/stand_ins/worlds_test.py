"""Verbal worlds are read back to the same edges, states and answers."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import every_world
from tests.language.stand_ins import asked, base, maps, worlds
from wm import core
from wm.core import registry, verbal
from wm.language import llm_predictor as models

CITY = registry.make('world', 'maps(rows=3, columns=4)')
TOLD = every_world.having(core.Verbal)


class Known:
  """Answers questions as a provider does, without one."""

  def __init__(self, knows):
    self.knows = knows

  def answers(self, questions, model):
    """What is known of each prompt, read as a language model's replies are."""
    return [
      model.read(item, worlds.answer(asked.Asked([item.prompt], self.knows)))
      for item in questions
    ]


def asking(world, tell, knows='solver'):
  """A language model that is a known answerer."""
  return models.LanguageModel(world, tell, Known(knows))


@given(
  city=st.builds(
    '{}(rows={}, columns={}, city_seed={})'.format,
    st.just('maps'),
    st.integers(2, 5),
    st.integers(2, 5),
    st.integers(0, 50),
  ),
  number=st.integers(0, 30),
)
@settings(max_examples=12)
def test_a_map_is_read_back_edge_by_edge(city, number):
  world = registry.make('world', city)
  tell = core.PromptStyle(number)
  spoken = world.token_names(tell)
  read = worlds.told(verbal.render_description(world, tell))
  sources, labels, targets = world.graph.edges()
  names = spoken[10:]
  assert isinstance(read, maps.Map)
  assert set(read.places) == set(names)
  assert read.edges == {
    (names[s], spoken[2 + w], names[t])
    for s, w, t in zip(sources, labels, targets, strict=True)
  }


def check_what_follows(world, number):
  """Of all tokens in states of a sampled sequence, by words from the start."""
  tell = core.PromptStyle(number)
  spoken = world.token_names(tell)
  read = worlds.told(verbal.render_description(world, tell))
  result = world.sample(1, number)
  for row, size in zip(result.tokens, result.lengths, strict=True):
    for cut in {c for c in (0, 1, 2, size // 2, size - 1, size) if c <= size}:
      prefix = tuple(row[:cut].tolist())
      states = world.walk(
        world.init(1), row[None, :cut], np.array([cut], np.int32)
      )[1]
      text = world.render_tokens(prefix, tell)
      state = read.follow(read.start(), read.split(text))
      legal = np.flatnonzero(world.legal(states)[0])
      assert state is not None
      assert set(read.following(state)) == {spoken[t] for t in legal}


@TOLD
@pytest.mark.parametrize('number', range(2))
def test_what_can_follow_is_read_as_the_world_has_it(world, number):
  check_what_follows(world, 3 * number)  # Of another seed.


def built(form, *parts):
  return st.builds(form.format, *parts)


FEW = st.integers(2, 6)


@given(
  spec=st.one_of(
    built('maps(rows={}, columns={}, city_seed={})', FEW, FEW, FEW),
    built('lattice(size={}, length=9)', FEW),
    built('connect4(rows={}, columns={})', FEW, FEW),
    built("automaton(preset='dyck_2_{}')", st.integers(1, 4)),
    built("automaton(preset='tomita{}')", st.integers(1, 7)),
    built("automaton(preset='z{}')", FEW),
    built('seating(people={})', st.integers(3, 4)),
    built('othello(size={})', st.sampled_from([4, 6])),
    built('mazes(seed={})', st.integers(0, 99)),
    built(
      'cognitive_graph(name="{}", edit="{}")',
      *(st.sampled_from('ABCDEF'), st.sampled_from(['', 'teleShortcut'])),
    ),
  ),
  number=st.integers(0, 40),
)
@settings(max_examples=20)
def test_worlds_of_any_size_are_read_in_any_order(spec, number):
  check_what_follows(registry.make('world', spec), number)


METRICS = [
  "compression(suffixes='world', k=2, samples=4, trials=8)",
  'distinction(samples=0, k=2, max_elements=3, trials=8)',
  'next_token(num=2)',
]
# Small worlds with something to tell apart, one for each way of telling.
ASKED = [
  'maps(rows=2, columns=3, max_moves=8)',
  "automaton(preset='dyck_1_3')",
  'lattice(size=3, length=8)',
  'connect4(rows=2, columns=3)',
  'othello(size=4)',
  'seating()',
]


def means(world, predictor, specs=METRICS):
  """Metric and quantity -> mean of what was measured."""
  result = {}
  for spec in specs:
    for scores in registry.make('metric', spec)(predictor, world, 0):
      measured = scores.value[scores.reason == '']
      name = f'{spec.partition("(")[0]}: {scores.quantity}'
      result[name] = measured.mean() if measured.size else np.nan
  return result


@pytest.mark.parametrize('spec', ASKED)
def test_the_solver_is_perfect_and_yes_tells_nothing_apart(spec):
  world = registry.make('world', spec)
  known = means(world, asking(world, core.PromptStyle(3)))
  assert known['compression: precision'] == 1
  assert known['distinction: recall'] == 1
  assert known['next_token: exact_set'] == 1
  always = means(world, asking(world, core.PromptStyle(0), 'yes'))
  assert always['compression: precision'] == 1
  assert always['distinction: recall'] == 0
  assert always['next_token: exact_set'] < 1


def test_the_solver_solves_puzzles_and_yes_takes_the_first_seat():
  world = registry.make('world', 'seating()')
  spec = ['capability(num=40)']
  known = means(world, asking(world, core.PromptStyle(5)), spec)
  first = means(world, asking(world, core.PromptStyle(5), 'yes'), spec)
  (quantity,) = (name for name in known if not np.isnan(known[name]))
  assert known[quantity] == 1
  assert 0.1 < first[quantity] < 0.7


def test_who_knows_the_old_map_is_consistent_and_wrong():
  before = registry.make('world', 'maps(rows=3, columns=4, city_seed=1)')
  tell = core.PromptStyle(3)
  result = {
    knows: means(
      CITY, models.LanguageModel(CITY, tell, Known(knows), 9999, old)
    )
    for knows, old in (('solver', before), ('old_map', before))
  }
  result['told once'] = means(CITY, asking(CITY, tell, 'old_map'))
  for right in ('solver', 'told once'):
    assert result[right]['distinction: recall'] == 1
    assert result[right]['next_token: exact_set'] == 1
  old = result['old_map']
  assert old['next_token: exact_set'] < 1
  assert old['distinction: recall'] < 1


def test_a_coin_is_right_half_the_time():
  output = [
    worlds.answer(asked.Asked([verbal.yes_or_no('X', 'a', 'b')], 'random', rng))
    for rng in [np.random.default_rng(0)]
    for _ in range(200)
  ]
  assert 70 < output.count('Yes.') < 130


def test_lists_and_choices_are_answered():
  tell = core.PromptStyle()
  text = verbal.render_description(CITY, tell)
  prefix = CITY.render_tokens((10, 12), tell)
  states = CITY.walk(CITY.init(1), np.array([[10, 12]]), np.array([2]))[1]
  legal = np.flatnonzero(CITY.legal(states)[0])
  can = {CITY.token_names(tell)[t] for t in legal}
  output = worlds.answer(asked.Asked([verbal.all_next(text, prefix)]))
  assert set(output.removeprefix('Answer: ').split('; ')) == can
  one = sorted(can)[0]
  choices = ['stop', one, '12']
  output = worlds.answer(asked.Asked([verbal.one_next(text, prefix, choices)]))
  assert output == f'Answer: {one}'
  wrong = verbal.all_next(text, 'stop')
  assert worlds.answer(asked.Asked([wrong])) == 'Answer: nothing'


@pytest.mark.parametrize(
  'text', ['', 'Hello', 'So far: x', 'Rules.\n\nSo far: a.\nWhy?']
)
def test_other_prompts_are_nobodys(text):
  assert base.question(text) is None
  assert worlds.answer(asked.Asked([text])) is None


@pytest.mark.parametrize(
  'told',
  [
    'A world of riddles.',
    'This is a street map with 1 intersections: A.\n"stop" can come next',
    verbal.render_description(CITY, core.PromptStyle())
    + '\nFrom 1, north leads to 1.\n'
    'From 1, north leads to 2.',
    '3 people, A, take 3 seats in a row',
    'x' * 300_000,
  ],
)
def test_texts_that_nobody_knows_are_not_answered_rightly(told):
  prompt = verbal.yes_or_no(told, 'a', 'b')
  assert worlds.answer(asked.Asked([prompt])) in (None, 'No.')


def test_readers_share_nothing_with_the_worlds_that_they_read(root):
  """But for the rules of chess, which the text names and does not tell."""
  folder = root / 'tests' / 'language' / 'stand_ins'
  for path in set(folder.glob('*.py')) - set(folder.glob('*_test.py')):
    ours = set(re.findall(r'(?:from|import) (wm\.\w+)', path.read_text()))
    allowed = {'wm.language', *['wm.kernels'] * (path.stem == 'boards')}
    assert ours <= allowed, path
