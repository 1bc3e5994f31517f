# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A tour: does this model have a world model?
#
# A *world* has rules that are known exactly. Here it is a street map: a
# sequence says where a traveller starts, where they want to go, and the turns
# they take. A *model* is trained on such sequences alone. *Metrics* then ask
# whether it has found out about the map.

# %%
# Where wm is not installed, as on Colab: set this to the address of its
# repository. It is cloned and installed; packages that are there already, JAX
# above all, are left alone.
REPOSITORY = ''
if REPOSITORY:
  # !git clone --quiet --depth 1 {REPOSITORY} wm-clone
  # %pip install --quiet --upgrade-strategy only-if-needed ./wm-clone
  pass


# %%
import tempfile
from pathlib import Path

import pandas as pd
from IPython.display import SVG

import wm

folder = Path(tempfile.mkdtemp())
out = folder / 'city'
world = wm.make('world', 'maps(rows=4, columns=4, max_moves=12)')

# %% [markdown]
# A state of this world is a place and a destination. `sample` draws routes;
# training and held-out routes never share an origin and a destination.

# %%
stores = wm.sample(world, out, wm.Sampling(num=50_000, num_heldout=200))
routes = stores['train'].read(0, 3)
for tokens, length in zip(routes.tokens, routes.lengths, strict=True):
  print(' '.join(world.vocab[token] for token in tokens[:length]))

# %%
SVG(world.render(world.sample_states(1, seed=0)[0]))

# %% [markdown]
# ## Train a model
#
# A transformer of two layers learns to predict the next token. It takes about a
# minute on two cores.

# %%
MODEL = 'transformer(layers=2, width=64)'
options = wm.Training(steps=1500, batch=64, lr=3e-3, warmup=100, eval_every=500)
run = wm.train(world, MODEL, out, options)
pd.DataFrame(run.log()).dropna(subset='heldout_loss')

# %% [markdown]
# ## Score it
#
# `next_token` asks whether the likeliest next token is legal. `compression`
# takes two routes that lead to one state, and asks whether the model accepts
# the same continuations after both. `distinction` takes routes to different
# states, and asks whether the model knows which continuations tell them apart
# (Vafa et al. 2024).

# %%
METRICS = [
  'next_token(num=200)',
  'compression(trials=100)',
  'distinction(trials=100)',
]
entries = wm.score(run, METRICS, world)
table = pd.DataFrame(entries)
table[['metric', 'quantity', 'value', 'low', 'high', 'n', 'clusters']].round(3)

# %% [markdown]
# Every value has a 95 % interval. Three references bracket it: the same network
# *untrained*, *uniform* guessing, which gives every token the same probability,
# and the *oracle*, which follows the rules.

# %%
references = [folder / name for name in ('untrained', 'uniform', 'oracle')]
for model, place in zip(
  (MODEL, 'uniform()', 'oracle()'), references, strict=True
):
  wm.score(model, METRICS, world, out=place, name=place.name)
page = wm.report([out, *references], folder / 'all')
SVG(filename=page.parent / 'overview.svg')

# %% [markdown]
# The untrained network accepts nearly every token, and so does the uniform
# guesser: both pass compression and fail distinction. Read the two together.
#
# All models are measured on the same trials. `wm.compare` gives the difference
# of each pair with its interval.

# %%
compared = wm.compare(run, folder / 'untrained')
compared[
  ['metric', 'quantity', 'value_a', 'value_b', 'difference', 'low', 'high']
].round(3)

# %% [markdown]
# `wm.rows` has every trial: here, how many could be measured.

# %%
rows = wm.rows(run)
rows[rows.metric != 'next_token'].groupby(['metric', 'quantity']).value.agg(
  ['count', 'mean']
).round(3)

# %% [markdown]
# ## The report
#
# `wm.report` has written one page with all tables. Its charts lie beside it.

# %%
print(page.name, page.stat().st_size // 1000, 'kB')
SVG(filename=page.parent / 'training.svg')
