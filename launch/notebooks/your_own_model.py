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
# # Your own model
#
# Whatever gives next-token logits can be measured: a function of tokens in a
# file of yours, in any framework.

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

from IPython.display import SVG

import wm

folder = Path(tempfile.mkdtemp())
world = 'connect4(rows=3, columns=4)'
vocab = wm.make('world', world).vocab
print(len(vocab), 'tokens:', ' '.join(vocab))

# %% [markdown]
# The function takes tokens `[batch, length]` and gives logits
# `[batch, length, vocabulary]`. Position t may look at tokens up to t only.
# This one has counted how full each column is, but knows nothing of a win.

# %%
(folder / 'stacks.py').write_text("""
import numpy as np

ROWS, COLUMNS = 3, 4

def logits(tokens):
  played = tokens[..., None] == np.arange(1 + COLUMNS)
  height = played.cumsum(1)
  free = height < ROWS
  free[..., 0] = False  # Padding.
  return np.where(free, 0.0, -30.0)
""")
mine = f'user(function="{folder}/stacks.py:logits", files=())'

# %% [markdown]
# Before a model is scored, it is checked: later tokens, other rows of the batch
# and padding must not matter, and a repeated call must give the same. A model
# that looks ahead is refused.

# %%
(folder / 'ahead.py').write_text("""
import numpy as np

def logits(tokens):
  later = np.roll(tokens, -1, axis=1)
  return 9.0 * (later[..., None] == np.arange(5))
""")
try:
  wm.load_predictor(f'user(function="{folder}/ahead.py:logits")', world)
except ValueError as error:
  print(error)

# %% [markdown]
# The metrics say what it does not know. Compression compares games that reach
# one position; distinction compares games that reach different ones.

# %%
METRICS = [
  'next_token(num=100)',
  'compression(trials=200, samples=10)',
  'distinction(trials=200, samples=10)',
]
sources = {'stacks': mine, 'uniform': 'uniform()', 'oracle': 'oracle()'}
runs = [folder / name for name in sources]
for name, source in sources.items():
  wm.score(source, METRICS, world, out=folder / name, name=name)
page = wm.report(runs, folder / 'all')
SVG(filename=page.parent / 'overview.svg')

# %% [markdown]
# All three were asked the same questions. `wm.compare` gives the differences
# with their intervals. `wm.rows` has every trial, with a key by which those of
# two models are paired.

# %%
compared = wm.compare(folder / 'stacks', folder / 'uniform')
compared[
  ['metric', 'quantity', 'value_a', 'value_b', 'difference', 'low', 'high']
].round(3)

# %%
names = ['trial_key', 'quantity', 'prefix', 'other_prefix', 'value']
both = wm.rows(folder / 'stacks')[names].merge(
  wm.rows(folder / 'uniform')[['trial_key', 'value']], on='trial_key'
)
both[both.value_x != both.value_y].drop(columns='trial_key').head(4)

# %% [markdown]
# A model that is to be one word in a spec, with fields of its own, is a file
# with a class: see `launch/examples/repeats.py`. A folder of Hugging Face's
# transformers is `huggingface(path=...)`.
