"""wm: does this sequence model have a world model, and how good is it?

Everything that a binary does is one call, on objects or specs:

  wm.sample('maps(rows=6)', 'runs/city')
  run = wm.train('maps(rows=6)', 'transformer(layers=2)', 'runs/city')
  scores = wm.score(run, ['compression(trials=100)', 'next_token()'])
  wm.report('runs/city')

Files of your own, such as automata, street maps, text games and token maps, are
described with what reads them: print(wm.describe('world', 'automaton')), or
`python launch/list.py --world=automaton`. launch/examples has a file of each.

Words, as they are used here:

  acceptance rule   decides which next tokens a model accepts: those above a
                    probability, the k most likely, a share of the mass
  audit             asks for the next token in every state of a finite world
  boundary          Myhill-Nerode boundary of two states: the shortest suffixes
                    that are legal from the first and not from the second
  capability        a small class for an optional ability, which a world, a
                    model or a predictor inherits
  class             Myhill-Nerode equivalence class: prefixes after which the
                    same suffixes are legal; two states may fall into one class
  cluster           trials that share a draw, such as a state, and are not
                    independent; intervals count clusters, not trials; where all
                    states of a world were drawn, each draw is a cluster
  coherence         does an error recur after another prefix of the same state?
  compression       does a model accept the same suffixes after two prefixes
                    that lead to the same state? (Vafa et al. 2024)
  distinction       does it tell apart prefixes that lead to different states?
  entry             one quantity of one metric for one model: value, interval,
                    n, clusters, settings; a line of scores.json
  exposure          share of held-out prefixes and states that occur in the
                    training data; exposure.json of a run
  inductive bias    how a fine-tuned model generalises from few labels: does
                    it answer prefixes of one state alike? (Vafa et al. 2025)
  interior          suffixes that are legal from both of two states
  legal             allowed as the next token by the world's rules
  matched           a row of a study with equal data or training as another row
  metric            a measurement: (predictor, world, seed) -> scores
  miniature         small-scale replication: a study small enough for two cores,
                    whose results show a paper's findings or do not
  model             a spec that becomes a predictor, some of them by training
  null model        errs as much as a trained model, at random
  origin            all code and files that a result depends on, by hash; a
                    result is reused while its origin is the same
  predictor         gives next-token probabilities: a network, a table, an API
  prefix, suffix    tokens up to a place in a sequence, and tokens after it
  run folder        OUT: data, checkpoints, scores and report of one run
  seed              a number that fixes all randomness of a run
  session           many continuations of many prefixes, a token at a time
  spec              a name and literal arguments, 'othello(size=6)'
  split key         a hash that decides whether a sequence is held out; on a map
                    the hash of origin and destination
  state             the part of a prefix that determines the legal suffixes; two
                    prefixes of the same state allow the same suffixes
  trial             one row of a metric: a value, or the reason for none
  twin prefix       the second prefix of a pair
  unit              one row and seed of a miniature, and its small result file
  world             exactly known rules that produce sequences of tokens
"""

import importlib
import sys
import types
from typing import Any

__version__ = '0.2.0'

# Module -> its members that `wm.NAME` gives. Modules are imported when they are
# first asked for, and by computed names: results are kept by the imports of
# what made them (`runtime.provenance`), and all code imports wm.
_CALLS = {
  'core': ('InputError', 'Model'),
  'core.registry': ('names', 'spec'),
  'core.plugins': ('trust',),
  'data.published': ('fetch_map', 'from_graph'),
  'evaluation.scoring': ('Loaded',),
  'explorer.page': ('ExplorerPage', 'explore'),
  'library.calls': (
    *('ask', 'ingest', 'ingest_text', 'reconstruct', 'sample', 'score'),
    'train',
  ),
  'library.course': ('course',),
  'library.exact': (*('audit', 'boundary', 'count', 'extract'),),
  'library.loading': (
    *('Checked', 'Run', 'check', 'load_predictor', 'make', 'wrap'),
  ),
  'library.plan': ('PodPlan', 'plan'),
  'library.report': (*('compare', 'recorded', 'report', 'rows'),),
  'models.serving.layout': ('InputLayout',),
  'options.calls': ('Reconstruction', 'Sampling', 'Scoring'),
  'options.training': ('Training',),
  'reporting.catalog': ('describe',),
  'language.harness': ('export',),
  'lab.cross_page': ('findings',),
  'lab.miniature': ('miniature',),
  'studies.rows': ('Row',),
  'studies.study': ('study',),
  'studies.sweep': ('sweep',),
}
_HOME = {name: home for home, names in _CALLS.items() for name in names}
_CHECKS = 'wm.library.arguments'  # Of what these are given.
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
  if name not in _HOME:
    line = f'module {__name__!r} has no attribute {name!r}'
    # With these Python adds the nearest name to what it prints.
    raise AttributeError(line, name=name, obj=sys.modules[__name__])
  member = getattr(importlib.import_module(f'wm.{_HOME[name]}'), name)
  if not isinstance(member, types.FunctionType):
    return member
  return importlib.import_module(_CHECKS).checked(member)


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})
