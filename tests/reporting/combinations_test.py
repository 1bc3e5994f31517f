"""What can be run, by type, against really running it."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest

from tests import combinations, small, tiny
from tests.evaluation import counted
from tests.evaluation.counted import Counted
from wm import core
from wm.core import registry
from wm.core.measure import headline_quantities, lacking_row, lacks, need_word
from wm.models.serving import oracles

WORLD = tiny.World()
CELLS = tuple(combinations.matrix())
# Small ones of each world; a world's type may depend on its fields.
WORLDS = {
  'automaton': "automaton(preset='tomita3')",
  'chess': 'chess(length=12)',
  'lattice': 'lattice(length=12)',
  'maps': 'maps(rows=3, columns=3, max_moves=12)',
  'othello': 'othello(size=4)',
}


@dataclasses.dataclass(frozen=True)
class Needy(Counted):
  needs: ClassVar[tuple[core.Need, ...]] = (
    core.HiddenStates,
    core.Described.costs,
  )


class Seeing(oracles.Oracle, core.HiddenStates):
  def hidden(self, tokens, lengths, layer):
    return np.zeros((*tokens.shape, 1), np.float32)


class Free(core.World):
  """Has no costs."""


def test_needs_are_looked_for_by_type():
  assert lacks(Needy(), oracles.Oracle, tiny.World) == [core.HiddenStates]
  assert lacks(Needy(), Seeing, tiny.World) == []
  assert lacks(Needy(), Seeing, Free) == [core.Described.costs]
  assert lacks(Needy(), oracles.Oracle, Free) == [*Needy.needs]
  assert lacks(Counted(), oracles.Oracle, Free) == []


def test_of_one_kind_alone_only_its_needs_are_looked_for():
  assert lacks(Needy, Free) == [core.Described.costs]
  assert lacks(Needy, oracles.Oracle) == [core.HiddenStates]


def test_reasons_name_what_is_missing():
  assert lacking_row([core.Verbal.questions]).reason.tolist() == [
    'needs_questions'
  ]
  assert lacking_row([core.Described.costs]).reason.tolist() == ['needs_costs']


def test_reasons_differ_where_what_is_missing_does():
  lacking = {
    need
    for kind in ('metric', 'model')
    for name in registry.names(kind)
    for need in registry.find(kind, name).needs
  }
  assert {core.Latent, core.HiddenStates} <= lacking
  assert len({need_word(need) for need in lacking}) == len(lacking)


def test_every_need_is_a_class_of_a_world_or_of_a_predictor():
  for kind in ('metric', 'model'):
    for name in registry.names(kind):
      for need in registry.find(kind, name).needs:
        kinds = (core.World, core.TokenReader)[: 2 - (kind == 'model')]
        assert issubclass(core.owner(need), kinds), (name, need)


def _model(name):
  small = '(layers=1, width=8)'
  trained = issubclass(registry.find('model', name), core.Trainable)
  return registry.make('model', f'{name}{small if trained else "()"}')


# Made from what a user brings.
OWN = ('huggingface', 'language', 'user')


def _models():
  """All but a user's own; of networks one, as all are alike."""
  for name in registry.names('model'):
    trained = issubclass(registry.find('model', name), core.Trainable)
    if name not in OWN and (name == 'rnn' or not trained):
      yield name


MODELS = tuple(_models())


@pytest.mark.parametrize('name', MODELS)
def test_models_give_what_they_declare(name):
  model = _model(name)
  if lacks(model, type(WORLD)):
    with pytest.raises(core.InputError):
      model.predictor(WORLD, 0)
  else:
    assert isinstance(model.predictor(WORLD, 0), model.gives[0])


def _metric(name):
  made = registry.make('metric', name)
  sizes = {'trials': 2, 'samples': 2, 'num': 6, 'epochs': 1, 'k': 1}
  sizes |= {'examples': 5, 'pool': 32, 'steps': (2,)}
  known = {field.name for field in dataclasses.fields(made)}
  return dataclasses.replace(made, **{k: sizes[k] for k in known & {*sizes}})


def _some():
  """A cell of every world and metric, and of every kind of predictor."""
  seen, result = set(), []
  for cell in CELLS:
    model = registry.find('model', cell.model)
    if cell.model not in MODELS or cell.predictor is not model.gives[0]:
      continue  # Not what the model gives before training.
    if cell.model == 'rnn' and cell.world != 'lattice':
      continue  # Compiled: one world is enough.
    # What is not missing runs for each world in tests/metrics_test.py.
    missing = cell.world if cell.missing else ''
    keys = (missing, cell.metric), (cell.predictor, cell.metric)
    if not seen.issuperset(keys):
      seen.update(keys)
      result.append(cell)
  return result


def _cases():
  """Pairs of a world and a metric run in `tests/metrics_test.py`, too."""
  for cell in _some():
    twice = cell.model == 'adversary' and not cell.missing
    yield pytest.param(cell, marks=pytest.mark.slow if twice else ())


@pytest.mark.parametrize('cell', _cases(), ids=lambda c: '-'.join(c[:3]))
def test_the_matrix_is_what_happens(cell, tmp_path):
  world = registry.make('world', WORLDS.get(cell.world, cell.world))
  model, metric = _model(cell.model), _metric(cell.metric)
  if lacks(model, type(world)):
    assert cell.missing
    with pytest.raises(core.InputError):
      model.predictor(world, 0)
    return
  reader = model.predictor(world, 0)
  with small.constants():
    entries = counted.silent(reader, world, metric, tmp_path)
  reasons = [reason for e in entries for reason in e['unmeasured']]
  if cell.missing:
    assert reasons == [f'needs_{need_word(cell.missing[0])}']
  else:
    assert not [r for r in reasons if r.startswith('needs_')]
    headline = headline_quantities(metric)[0]
    assert [e for e in entries if e['quantity'].startswith(headline)]
