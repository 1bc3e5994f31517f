"""Null models beside the cross: losses, replacement and what is written."""

import pathlib

import numpy as np
import pandas as pd
import pytest

from wm.lab import agreement, cross_nulls

FOLDER = pathlib.Path(__file__).parents[2] / 'launch/flags/cross'

LOSS = 'excess_loss'


def models(*lines) -> pd.DataFrame:
  columns = ['world', 'recipe', 'level', 'seed', 'metric', 'raw']
  return pd.DataFrame(lines, columns=columns)


def test_losses_span_those_of_the_models():
  rows = [
    ('w', f'r{n}', 1, 0, 'excess_loss', x)
    for n, x in enumerate((0.0, 0.1, 0.2, 0.3, 0.4, 1.0))
  ]
  expected = [0.001, 0.1, 0.2, 0.3, 0.4, 1.0]
  assert cross_nulls.losses(models(*rows), LOSS) == pytest.approx(expected)
  assert len(cross_nulls.losses(models(*rows[:1] * 3), LOSS)) == 1


def test_a_model_gets_the_value_of_a_null_with_its_loss():
  about = ('w', 'r', 1, 0)
  table = models(
    (*about, 'excess_loss', 0.1),
    (*about, 'same', 0.9),
    (*about, 'apart', 0.9),
    ('w', 'q', 1, 0, 'excess_loss', 5.0),
  )
  nulls = pd.DataFrame(
    {
      'world': 'w',
      'kind': ['prefix'] * 2 + ['state'],
      'excess': [1.0, 0.01, 0.1],
      'same': [0.2, 0.6, 1.0],
      'apart': [0.3, 0.7, 0.5],
    }
  )
  got = cross_nulls.replaced(table, nulls, 'prefix', LOSS)
  wide = got.pivot_table(index='recipe', columns='metric', values='raw')
  # Half way between both losses, by their logarithms; beyond, the nearest.
  assert wide.loc['r'].to_dict() == pytest.approx(
    {'excess_loss': 0.1, 'same': 0.4, 'apart': 0.5}
  )
  assert wide.loc['q', ['same', 'apart']].tolist() == [0.2, 0.3]
  state = cross_nulls.replaced(table, nulls, 'state', LOSS)
  assert set(state.raw[state.metric == 'same']) == {1.0}


def test_worlds_are_means_of_their_cells():
  cells = pd.DataFrame(
    {
      'world': ['a', 'a', 'b', 'c'],
      'mean': [0.1, 0.3, 0.5, 0.7],
      'correlation': [-1, 0, np.nan, 1],
    }
  )
  means = agreement.of_worlds(cells)
  assert means.index.tolist() == ['a', 'c']
  assert means['correlation'].tolist() == [-0.5, 1]
  assert means['mean'].tolist() == pytest.approx([0.2, 0.7])


def test_of_one_world_it_measures_what_the_flagfile_says():
  world = cross_nulls._world(FOLDER, 'lattice')
  assert world == 'lattice(size=4, length=32)'
