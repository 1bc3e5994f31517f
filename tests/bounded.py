"""What becomes of numbers that no machine has room or time for.

`python -m tests.bounded KIND HOW` tries each integer of each plug-in of a kind,
and prints a line for each that is neither refused nor done with: it raised
something else than InputError, or was too much for the limits of the process.
"""

from __future__ import annotations

import dataclasses
import functools
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wm import core
from wm.core import registry, resources
from wm.evaluation import scoring
from wm.models.base import family
from wm.models.nn import network

LARGE = 10**9, 2**62
# Bytes and seconds of the processor; what is refused needs next to nothing.
MEMORY, SECONDS = 8 << 30, 60
LINE = 'lattice(size=3, length=8)'
ORBITS = 'orbits(rows=10)'
# Of orbits: the rest is asked about a line.
TRACKS = 'ballistic', 'particle_filter', 'previous_position'
NETWORK = 'transformer(layers=1, width=8)'
# Metric -> model and world that it is run on, where not the oracle on a line.
PAIRS = {
  'belief': ('oracle()', 'hmm()'),
  'capability': ('oracle()', 'seating()'),
  'extrapolation': (NETWORK, ORBITS),
  'force_law': (NETWORK, ORBITS),
  'inductive_bias': (NETWORK, LINE),
  'intervention': (NETWORK, 'othello(size=4)'),
  'probe': (NETWORK, LINE),
  'relearn': (NETWORK, LINE),
  'state_recovery': (NETWORK, LINE),
  'trajectory': ('oracle()', ORBITS),
  'transfer': (NETWORK, LINE),
}
# Kind -> fields that are small beside the one that is not.
SMALL: dict[str, dict[str, Any]] = {
  'world': {},
  'model': {'width': 16, 'state': 8, 'channels': 16, 'model': 'wm/yes'},
  'metric': {
    **dict.fromkeys(('trials', 'samples', 'labels', 'bins', 'places'), 2),
    **dict.fromkeys(('num', 'examples', 'states', 'tested', 'clock'), 4),
    **{
      'points': 6,
      'pool': 6,
      'tried': 3,
      'epochs': 1,
      'steps': (1,),
      'sizes': (4,),
    },
    **{'systems': 12, 'nodes': 2, 'searches': 1, 'sequences': 4},
  },
  'accept': {},
}


def fields(cls: type) -> dict[str, Any]:
  """Field -> what makes a value of an integer, for all that hold integers."""
  kinds = {'int': int, 'tuple[int, ...]': lambda number: (number,)}
  return {
    field.name: kinds[str(field.type)]
    for field in dataclasses.fields(cls)
    if str(field.type) in kinds
  }


def small(kind: str, cls: type, **inputs: Any) -> Any:
  """A plug-in whose other numbers are small."""
  known = {field.name: field.default for field in dataclasses.fields(cls)}
  other = {
    name: value
    for name, value in SMALL[kind].items()
    if name in known and not isinstance(known[name], str)
  }
  return cls(**other | inputs)


def cases(kind: str) -> Iterator[tuple[str, str, Callable[[], Any]]]:
  """Plug-in, field and value, and what makes it."""
  for name in registry.names(kind):
    cls = registry.find(kind, name)
    for field, value in fields(cls).items():
      for number in LARGE:
        inputs = {field: value(number)}
        yield name, f'{inputs}', functools.partial(small, kind, cls, **inputs)


@functools.cache
def world(spec: str) -> core.World:
  return registry.make('world', spec)


def use_world(made: core.World) -> None:
  """Has a few sequences and states."""
  results = made.sample(2, 0)
  made.walk(made.init(len(results)), results.tokens, results.lengths)
  if isinstance(made, core.Prefixed):
    made.sample_states(2, 0)


def use_model(made: core.Model) -> None:
  """Asks about a few sequences; networks are only shaped."""
  truth = world(ORBITS if made.name in TRACKS else LINE)
  if isinstance(made, family.NetworkModel):
    made.check_world(truth)
    spec = network.NetworkSpec(made, len(truth.vocab), truth.max_len)
    assert spec.abstract
    return
  result = truth.sample(2, 0)
  if isinstance(made, core.Fittable):
    made.fit([result], truth)
    return
  predictor = made.predictor(truth, 0)
  if isinstance(predictor, core.Predictor):
    predictor.log_probs(result.tokens, result.lengths)


def use_metric(made: core.Metric) -> None:
  """Scores a tiny model."""
  model, spec = PAIRS.get(made.name, ('oracle()', LINE))
  truth = world(spec)
  predictor = registry.make('model', model).predictor(truth, 0)
  with tempfile.TemporaryDirectory() as out:
    scoring.run(
      *(scoring.Loaded(predictor, truth, 'm'), [made]),
      seed=0,
      out=out,
      log=lambda line: None,
    )


def use_accept(made: Any) -> None:
  """Asks about equal probabilities."""
  made.mask(np.log(np.full((2, 3), 1 / 3)))


USES = {
  'world': use_world,
  'model': use_model,
  'metric': use_metric,
  'accept': use_accept,
}


def main(kind: str, how: str) -> None:
  """how: 'make' what there is of a kind, or also 'use' it."""
  resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
  for name, inputs, make in cases(kind):
    case = f'{kind} {name} {inputs}'
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (int(used) + SECONDS, hard))
    print(case, end='', flush=True)
    try:
      made = make()
      if isinstance(made, core.Metric):
        resources.require(made, world(PAIRS.get(name, ('', LINE))[1]))
      if how == 'use':
        USES[kind](made)
      else:
        np.testing.assert_equal(vars(made), vars(make()))
    except core.InputError as error:
      print(' refused:', error)
    except Exception as error:
      print(f' FAILED: {type(error).__name__}: {error}')
    else:
      print(' done')
  print('ended')


if __name__ == '__main__':
  main(*sys.argv[1:])
