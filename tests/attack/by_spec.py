"""Specs that no plug-in takes, and work without end."""

from __future__ import annotations

from collections.abc import Iterator

from tests.attack.bases import LINE, WORLD
from tests.attack.by_plugin import score
from tests.attack.case import Case

# Of each kind; fields of every plug-in are tried by its own tests, and any text
# by tests/registry_test.py.
WORLDS = (
  *('lattice(size=0)', f'lattice(size={"9" * 4000})', 'chess(start="no fen")'),
  *('chess(start="8/8/8/8/8/8/8/8 w - - 0 1")', 'mazes(doors=99)'),
  *('orbits(box=1e400)', 'orbits(systems="none")', 'othello(size=5)'),
  *('text_game(game="zork1")', 'text_game(folder="x")', 'lattice(exit())'),
  *('automaton(preset="odd")', 'automaton(file="a", preset="tomita1")'),
)
MODELS = (
  *('transformer(layers=0)', 'transformer(width=7, heads=2)'),
  *('transformer(context=2)', 'ngram(smoothing=1e999)', 'mamba2(channels=7)'),
)
UNTRAINED = (
  *('noisy_oracle(wrong=2.0)', 'noisy_oracle(by="x")', 'solver(errors=2.0)'),
  *('lookup(by="x")', 'particle_filter(particles=0)', 'huggingface()'),
  *('huggingface(path="gone")', 'language()', 'language(model="nope")'),
  *('language(model="nope/x")', 'language(model="wm/solver", names=-1)'),
  *('language(model="wm/solver", temperature=-1.0)', 'language(5)'),
  *('language(model="wm/nope")', 'language(model="a/b/\\0")'),
  *('language(model="openai/x")', 'language(model="wm/solver", args=("x",))'),
)
METRICS = (
  *('compression(accept="epsilon(2.0)")', 'compression(world="nope()")'),
  *('detour(probabilities=("x",))', 'exactness(data="gone")'),
  *('next_token(num="5")', 'probe(data="gone")', 'inductive_bias(steps=(0,))'),
  *('transfer(steps="x")', 'force_law(targets=("x",))'),
)
# Of things that would take all memory or time there is. Every integer of every
# plug-in is tried by `tests.bounded`; here is what binaries make of some.
EXPLODING = (
  *('lattice(size=1000000000000)', 'orbits(bins=1000000000)'),
  'automaton(length=1000000000)',
  *('maps(rows=1000000, columns=1000000)', 'chess(length=1000000000000)'),
  *("maps(around='x', radius=5)", 'maps(radius=5)', "maps(around='0,0')"),
  *("maps(around='nan,1', radius=1e9)", "maps(box='1,2,3')"),
  "maps(around='0,0', radius=5)",
)
SIZES = (
  *('transformer(layers=1000000000)', 'transformer(context=1000000000000)'),
  *('ngram(order=1000000000)', 'slice(block_size=1000000000)'),
)
TRIALS = (
  *('compression(samples=1000000000000)', 'next_token(num=1000000000000)'),
  *('probe(num=1000000000000)', 'inductive_bias(num=1000000000)'),
)


# Of networks: what they need, an oracle has not.
TRAINED = 'probe', 'intervention', 'inductive_bias', 'transfer'
TRAINED += 'state_recovery', 'relearn'


def tuned(metric: str) -> tuple[str, ...]:
  """Scores a trained network in ./new."""
  return (
    *('score', f'--world={WORLD}', f'--metric={metric}', '--out=new'),
    '--checkpoint=trained',
  )


def sample(world: str, *more: str) -> tuple[str, ...]:
  """Samples a little in ./new."""
  few = '--num=5', '--num_heldout=5'
  return 'sample', f'--world={world}', *few, *more, '--out=new'


def train(model: str, *more: str) -> tuple[str, ...]:
  """Trains for a step in ./new, on data beside it."""
  return (
    *('train', f'--world={LINE}', f'--model={model}', '--out=new'),
    *('--data=ngram/data', '--steps=1', *more),
  )


def specs() -> Iterator[Case]:
  """Texts that are no spec of a plug-in, and fields out of their range."""
  for world in WORLDS:
    yield Case('specs', world[:60], sample(world))
  for model in MODELS:
    yield Case('specs', model, train(model), bases=('ngram',))
  for model in UNTRAINED:
    world = 'orbits()' if 'spread' in model or 'particle' in model else LINE
    needs = 'inspect_ai' if model.startswith('language') else ''
    yield Case('specs', model, score(model, world), needs=needs)
  for metric in METRICS:
    world = 'maps(rows=3, columns=3)' if 'detour' in metric else LINE
    world = 'orbits()' if metric[:5] in ('force', 'traje', 'extra') else world
    if metric.partition('(')[0] in TRAINED:
      yield Case('specs', metric, tuned(metric), bases=('trained',))
    else:
      yield Case('specs', metric, score('oracle()', world, metric))


def without_end() -> Iterator[Case]:
  """Work that is refused before it begins."""
  kind = 'work without end'
  for world in EXPLODING:
    yield Case(kind, world, sample(world))
  for model in SIZES:
    yield Case(kind, model, train(model), bases=('ngram',))
  for metric in TRIALS:
    if metric.partition('(')[0] in TRAINED:
      yield Case(kind, metric, tuned(metric), bases=('trained',))
    else:
      yield Case(kind, metric, score('oracle()', LINE, metric))
  for name, run in {
    'num': (*sample('lattice()')[:2], '--num=1000000000000000', '--out=new'),
    'batch': train('transformer(layers=1, width=8)', '--batch=1000000000'),
    'depth': ('count', '--world=chess()', '--depth=1000000000'),
    'boundary': (
      *('count', '--world=chess()', '--first_state=e4', '--second_state=d4'),
      '--depth=1000000',
    ),
    'recovery': (
      *('count', '--world=chess()', '--model=uniform()', '--depth=40'),
    ),
    'shuffles': (
      *('reconstruct', '--world=maps(rows=3, columns=3)', '--out=new'),
      *('--model=uniform()', '--shuffles=1000000000000', '--num_samples=9'),
    ),
    'routes': (
      *('reconstruct', '--world=maps(rows=3, columns=3)', '--out=new'),
      *('--model=uniform()', '--num_samples=1000000000000'),
    ),
    'seeds': (
      *('miniature', f'--world={LINE}', '--row=a: uniform()', '--out=new'),
      *('--metric=next_token(num=5)', '--seeds=1000000000000'),
    ),
    'grid': (
      *('sweep', f'--world={LINE}', '--model=ngram()', '--out=new'),
      *(
        f'--grid={flag}=' + '|'.join(map(str, range(1, 100)))
        for flag in ('steps', 'seed', 'warmup', 'eval_every', 'save_every')
      ),
    ),
    'lines': ('list', '--world=lattice(size=1000000000)'),
    'answers': score('language(model="wm/yes")', 'maps()', 'compression()'),
  }.items():
    yield Case(kind, name, run, bases=('ngram',))


def all() -> Iterator[Case]:
  """Every case of this file."""
  yield from specs()
  yield from without_end()
