"""Relearning: which exchanges change a world, and who learns them at once."""

import numpy as np
import pytest

from tests.metrics import table
from wm.core import registry
from wm.metrics import relearn
from wm.models import lookup

LINE = registry.make('world', 'lattice(size=5, length=20)')


@pytest.fixture(autouse=True)
def few(monkeypatch):
  monkeypatch.setattr(relearn, 'HELDOUT', 40)


class Renamed(lookup.LookUp):
  """A learner of states that knows which tokens are exchanged."""

  def __init__(self, world, swaps):
    super().__init__(world, 'state', True, 0)
    self.swaps = swaps

  def keys(self, tokens, places):
    # Data sets come by exchange, each with all its sizes.
    swaps = np.repeat(self.swaps, len(tokens) // len(self.swaps), 0)
    renamed = [swap[rows] for swap, rows in zip(swaps, tokens, strict=True)]
    return super().keys(np.array(renamed), places)


def run(learner, world=LINE, seed=1, **fields):
  settings = {'sizes': (4, 64), **fields}
  return table.by_name(relearn.Metric(**settings)(learner, world, seed))


def by(key, world=LINE):
  return lookup.LookUp(world, key, True, 0)


def test_a_learner_of_states_relearns_what_did_not_change():
  scores = run(by('state'), swap=False)
  assert table.mean(scores['illegal']) < 0.03
  assert table.mean(scores['sequences']) == 4


def test_token_frequencies_are_what_reads_no_context():
  scores = run(by('nothing'), sizes=(64,))
  for name in ('illegal', 'illegal_frequencies'):
    assert table.mean(scores[name]) == pytest.approx(2 / 15, abs=0.04)
  assert table.mean(scores['illegal']) == pytest.approx(
    table.mean(scores['illegal_frequencies']), abs=2e-3
  )
  assert set(scores['sequences'].reason) == {'not_in_these'}


def test_a_learner_that_knows_the_exchange_has_nothing_to_relearn():
  metric = relearn.Metric(sizes=(4, 64))
  swaps = metric._task(LINE, 1).swaps
  knows = run(Renamed(LINE, swaps))
  before = run(by('state'), swap=False)
  assert table.mean(knows['illegal']) < 0.03
  assert table.mean(knows['sequences']) == table.mean(before['sequences'])
  # Who does not know it loses track of the state.
  assert table.mean(run(by('state'))['illegal']) > 0.06


def test_exchanges_that_change_nothing_are_no_changes():
  """Every word over a group is legal, and columns of equal height are alike."""
  for spec in ('groups(length=8)', 'connect4(rows=3, columns=4)'):
    world = registry.make('world', spec)
    scores = run(by('state', world), world)
    assert set(scores) == {'illegal', 'sequences'}
    assert set(scores['illegal'].reason) == {'no_rule_changes'}


def test_the_commonest_tokens_are_exchanged(monkeypatch):
  monkeypatch.setattr(relearn, 'CHANGES', 1)
  metric = relearn.Metric(sizes=(64,))
  task = metric._task(LINE, 1)
  counts = np.bincount(task.trained.tokens[:, 1:].ravel())[1:]
  rarest = counts.argmin() + 1
  (swap,) = task.swaps
  assert swap[rarest] == rarest
  assert sorted(swap[1:]) == [1, 2, 3]
  monkeypatch.setattr(relearn, 'CHANGES', 5)
  every = run(by('state'))['illegal'].columns['change']
  assert len(set(every)) == 3


def test_sequences_are_interpolated_on_a_scale_of_logarithms():
  sizes = (10, 1000)
  for mass, least, number in (
    ((0.5, 0.1), 0.3, 100),
    ((0.2, 0.1), 0.3, 10),
    ((0.5, 0.4), 0.3, np.nan),
    ((0.5, 0.3), 0.3, 1000),
  ):
    crossing = relearn._crossing(sizes, np.array(mass), least)
    assert crossing == pytest.approx(number, nan_ok=True)
