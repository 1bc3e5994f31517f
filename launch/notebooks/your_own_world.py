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
# # Your own map or automaton
#
# A world may be a graph that you have, or an automaton that you write down.
# All metrics run on both exactly.

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

import networkx as nx
import pandas as pd
from IPython.display import SVG

import wm
from wm.data import published
from wm.reporting import charts

folder = Path(tempfile.mkdtemp())

# %% [markdown]
# ## A map from a networkx graph
#
# Any graph of networkx is a map. Nodes may have `x` and `y` in degrees, as
# those of OSMnx have. Without them a layout is computed for the pictures, and a
# street without `length` has 100 m.

# %%
town = nx.grid_2d_graph(4, 4)
town.remove_edge((1, 1), (1, 2))
for place in town:
  town.nodes[place].update(x=0.001 * place[0], y=0.001 * place[1])
world = published.from_graph(town, folder, max_moves=10)
print(wm.spec(world).replace(str(folder), ''), len(world.vocab), 'tokens')
state = world.sample_states(1, seed=2)[0]
SVG(world.render(state))

# %% [markdown]
# ## An automaton
#
# `automaton(preset='tomita3')` is one of the seven Tomita grammars,
# `dyck_2_3` two kinds of brackets at most three deep. A file holds any other.

# %%
(folder / 'door.json').write_text("""{
  "start": "closed",
  "transitions": {
    "closed": {"open": "opened", "lock": "locked"},
    "opened": {"close": "closed"},
    "locked": {"unlock": "closed"}
  }
}""")
door = wm.make('world', f'automaton(file="{folder}/door.json")')
SVG(door.render(door.init(1)[0]))

# %% [markdown]
# The *Myhill-Nerode boundary* of two states are the shortest suffixes that are
# legal from one and not from the other. A model that takes the states for the
# same must be wrong on one of them.

# %%
apart = wm.boundary(door, 'closed', 'opened', depth=3)
print(
  'suffixes of at most 1, 2, 3 tokens:', [size for _, size, _ in apart.sizes]
)
print('legal from `closed`, not from `opened`:', apart.suffixes())

# %%
brackets = wm.make('world', "automaton(preset='dyck_2_3')")
numbers = list(wm.count(brackets, depth=12))
rows = [
  {'model': 'dyck_2_3', 'x': n, 'value': number}
  for n, number in enumerate(numbers, 1)
]
panel = charts.Panel('tokens', 'legal sequences', rows, y_scale={'type': 'log'})
SVG(charts.render(charts.lines([panel], charts.palette(['dyck_2_3']))))

# %% [markdown]
# ## Metrics on it
#
# An n-gram that is fitted to sequences of the world knows what it has seen of
# the last few tokens, and no more.

# %%
run_folder = folder / 'brackets'
wm.sample(brackets, run_folder, wm.Sampling(num=2000, num_heldout=200))
run = wm.train(brackets, 'ngram(order=4)', run_folder)
entries = wm.score(
  run, ['next_token(num=100)', 'compression(trials=200)'], brackets
)
shown = pd.DataFrame(entries)[['metric', 'quantity', 'value', 'low', 'high']]
shown.round(3)
