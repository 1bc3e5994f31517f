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
# # Games and states
#
# A world can do more than say which tokens are legal. It can draw a state,
# write it down, and give it as labels that a model can be trained to name.

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

import numpy as np
import pandas as pd
from IPython.display import SVG

import wm
from wm import core
from wm.reporting import charts, collect, curves

# %% [markdown]
# ## A board

# %%
othello = wm.make('world', 'othello(size=6)')
games = othello.sample(4, seed=1)
steps, states = othello.walk(
  othello.init(4), games.tokens[:, :12], np.full(4, 12)
)
print(
  'after', steps[0], 'moves of:', [othello.vocab[t] for t in games.tokens[0]]
)
SVG(othello.render(states[0]))

# %%
legal = othello.legal(states[:1])[0]
print(
  'legal:', [word for word, ok in zip(othello.vocab, legal, strict=True) if ok]
)

# %% [markdown]
# What a world can do is a class that it inherits.

# %%
abilities = (core.Prefixed, core.Enumerable, core.Labelled, core.Written)
pd.DataFrame(
  {
    name: [isinstance(wm.make('world', name), one) for one in abilities]
    for name in ('othello', 'chess', 'connect4', 'lattice', 'seating')
  },
  index=[one.__name__ for one in abilities],
)

# %% [markdown]
# ## Another state
#
# One disc turns, and other moves are legal. Does a model that names this disc
# from its activations also use it? `intervention` moves the activations to
# where a probe reads the other colour, and asks whether the model then expects
# the moves that are legal there.

# %%
labels = othello.labels(states[:1])[0]
discs = np.flatnonzero(labels[:36])  # Labels are the squares, then the side.
edited = othello.edited(
  np.repeat(states[:1], len(discs), 0), discs, 3 - labels[discs]
)
same = (othello.legal(edited) == legal).all(-1)
print(f'{len(discs)} discs, of which {same.sum()} may turn unnoticed')
SVG(othello.render(edited[np.flatnonzero(~same)[0]]))

# %% [markdown]
# ## A model that names the state
#
# With `objective='state'` a model gives the whole state after every token. Here
# it is the product so far of permutations of three things, which a recurrent
# network learns in a minute and which is hard for a shallow transformer when
# sequences are long.

# %%
folder = Path(tempfile.mkdtemp())
world = wm.make('world', "groups(group='s3', length=16)")
wm.sample(world, folder, wm.Sampling(num=4000, num_heldout=300))
options = wm.Training(
  objective='state', steps=1000, batch=64, lr=1e-2, warmup=50, eval_every=100
)
run = wm.train(world, 'lstm(layers=1, width=32)', folder, options)
entries = wm.score(run, ['exactness(num=200)'], world)
SVG(charts.render(curves.draw_training([collect.load(folder)])))

# %%
table = pd.DataFrame(entries)
table[['quantity', 'value', 'low', 'high', 'n']].head(8).round(3)

# %% [markdown]
# Is it right at lengths that it was not trained on?

# %%
longer = wm.make('world', "groups(group='s3', length=128)")
predictor = wm.load_predictor(run, longer).predictor
assert isinstance(predictor, core.StatePredictor)  # Not what it plays next.
words = longer.sample(300, seed=9)
named = predictor.states(words.tokens, words.lengths)
true = longer.sequence_labels(words.tokens, words.lengths)
right = (named == true).all(-1).mean(0)
rows = [
  {'model': 'lstm', 'x': n, 'value': share} for n, share in enumerate(right, 1)
]
panel = charts.Panel(
  *('tokens read', 'states named right', rows), y_scale={'domain': [0, 1]}
)
SVG(charts.render(charts.lines([panel], charts.palette(['lstm']))))
