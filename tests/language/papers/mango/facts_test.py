"""Numbers of games, and what success is regressed on."""

import numpy as np
import pandas as pd
import pytest

from wm.language.papers.mango import facts
from wm.worlds import text_game
from wm.worlds.text_game import readers

# Confusion of names, worked out apart.
CONFUSION = {
  '905': 0,
  'zork1': 5.5,
  'zork2': 6.25,
  'zenon': 3.7937,
  'detective': 11.3305,
  'night': 13.1714,
}


def test_numbers_of_games(testdata):
  path = testdata / 'mango' / 'camera-ready-70.tar.gz'
  if not path.exists():
    pytest.skip(f'no MANGO data at {path}')
  mazes = [readers.read(path, game) for game in CONFUSION]
  numbers = facts.facts_of_all(mazes)
  result = {item.game: item for item in numbers.itertuples(index=False)}
  for game, value in CONFUSION.items():
    assert result[game].confusion == pytest.approx(value, abs=5e-5)
  zork1 = result['zork1']
  assert (zork1.steps, zork1.locations) == (396, 19)
  assert zork1.explicit + zork1.imputed == 34
  assert round(zork1.length, 2) == 7.16
  assert zork1[-4:] == (351, 46, 279, 45)
  (at,) = facts.facts_of_all(mazes[1:2], {'zork1': 40}).itertuples(index=False)
  assert (at.cut, at.locations, at.explicit + at.imputed) == (40, 17, 27)
  assert at[-4:] == (142, 19, 142, 19)


def test_a_game_without_walkthrough_has_no_scene():
  result = facts.facts_of(text_game.hotel())
  assert result['steps'] == 0
  assert np.isnan(result['scene'])
  assert facts.confusion(['the hall']) == 0


@pytest.fixture
def drawn():
  """40 games whose success falls with their locations, and nothing else."""
  draws = np.random.default_rng(0)
  blank = facts.facts_of(text_game.hotel())
  known, answers = [], []
  for game in range(40):
    numbers = draws.normal(size=3)
    locations = 20 + 5 * numbers[0]
    known.append(
      {
        **blank,
        'game': f'g{game}',
        'locations': locations,
        'explicit': 2 * locations + numbers[1],
        'confusion': numbers[2],
        'length_easy': 3.0,
        'scene': 20 + draws.normal(),
      }
    )
    success = 0.6 - 0.1 * numbers[0] + 0.02 * draws.normal()
    answers += [('m', f'g{game}', 'route', True, '', success)] * 2
    answers.append(('m', f'g{game}', 'route', True, 'empty', 0.0))
  names = ['model', 'game', 'kind', 'easy', 'failure', 'success']
  return pd.DataFrame(known), pd.DataFrame(answers, columns=names)


def test_success_is_regressed_on_the_numbers_of_games(drawn):
  known, answers = drawn
  frame = facts.regressions(answers, known)
  assert {*frame['model'], *frame['asked'], *frame['easy']} == {
    'm',
    'route',
    True,
  }
  results = list(frame.itertuples())
  simple = {c.variable: c for c in results if c.kind == 'simple'}
  # A variable that is the same everywhere is no variable.
  assert set(simple) == {'locations', 'explicit', 'confusion', 'scene'}
  # Per standard deviation: 0.1 for each five locations.
  slope = -0.02 * np.std(known.locations)
  assert simple['locations'].beta == pytest.approx(slope, abs=0.01)
  assert simple['locations'].low < slope < simple['locations'].high
  assert simple['locations'].p < 1e-6 < 0.05 < simple['confusion'].p
  assert {c.n for c in results} == {40}
  several = {c.variable: c for c in results if c.kind == 'multiple'}
  # Locations and edges say the same: both at once are uncertain.
  width = several['locations'].high - several['locations'].low
  assert width > 3 * (simple['locations'].high - simple['locations'].low)


def test_too_few_games_have_no_regression(drawn):
  known, answers = drawn
  few = answers[answers.game.isin(['g1', 'g2', 'g3'])]
  assert facts.regress(few, known, facts.EASY) == []
