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
# Where wm is not installed, as on Colab: set this to a folder or a git+https
# address. Packages that are there already, JAX above all, are left alone.
INSTALL = ''
if INSTALL:
  # %pip install --quiet --upgrade-strategy only-if-needed "wm @ {INSTALL}"
  pass


# %%
import tempfile
from pathlib import Path

import pandas as pd
from IPython.display import SVG

import wm
from wm.reporting import charts, collect, curves

out = Path(tempfile.mkdtemp()) / 'city'
world = wm.make('world', 'maps(rows=4, columns=4, max_moves=12)')

# %% [markdown]
# A state of this world is a place and a destination. `sample` draws routes;
# training and held-out routes never share an origin and a destination.

# %%
stores = wm.sample(world, out, wm.Sampling(num=3000, num_heldout=100))
routes = stores['train'].read(0, 3)
for tokens, length in zip(routes.tokens, routes.lengths, strict=True):
  print(' '.join(world.vocab[token] for token in tokens[:length]))

# %%
SVG(world.render(world.sample_states(1, seed=0)[0]))

# %% [markdown]
# ## Train a model
#
# The model is small, and so is its training: enough to see how things fit
# together, not enough to learn the map well.

# %%
options = wm.Training(steps=100, batch=32, lr=5e-3, warmup=10, eval_every=50)
run = wm.train(world, 'transformer(layers=1, width=32)', out, options)
pd.DataFrame(run.log()).tail(3)

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
  'next_token(num=100)',
  'compression(trials=40, samples=10)',
  'distinction(trials=40, samples=10)',
]
entries = wm.score(run, METRICS, world)
table = pd.DataFrame(entries)
table[['metric', 'quantity', 'value', 'low', 'high', 'n', 'clusters']]

# %% [markdown]
# Every value has a 95 % interval. Two models bracket it: the *oracle* follows
# the rules, *uniform* gives every token the same probability.

# %%
SHOWN = [
  ('next_token', 'validity'),
  ('compression', 'precision'),
  ('distinction', 'precision'),
  ('distinction', 'recall'),
]
sources: list[wm.Run | str] = [run, 'oracle()', 'uniform()']
rows = [
  {**entry, 'x': f'{entry["metric"]} {entry["quantity"]}'}
  for source in sources
  for entry in wm.score(source, METRICS, world)
  if (entry['metric'], entry['quantity']) in SHOWN
]
columns = ['model', 'x', 'value', 'low', 'high']
values = pd.DataFrame(rows)[columns].to_dict('records')
panel = charts.Panel('value', '', values, x_scale={'domain': [0, 1]})
looks = charts.palette([row['model'] for row in rows], ['oracle', 'uniform'])
SVG(charts.render(charts.dots([panel], looks)))

# %% [markdown]
# ## The report
#
# `wm.report` writes one page with all tables, and pictures of the worst trials.
# Its figures can be shown here too.

# %%
page = wm.report(out)
print(page.name, page.stat().st_size // 1000, 'kB')
SVG(charts.render(curves.draw_training([collect.load(out)])))
