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
# # Reading a report and its statistics
#
# Every number of a report has an interval, a count of trials, and a reason for
# each trial that could not be measured. This notebook takes them apart.

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
from wm.evaluation import statistics
from wm.reporting import charts

folder = Path(tempfile.mkdtemp())
WORLD = 'maps(rows=4, columns=4, max_moves=12)'
METRICS = ['compression(trials=200)', 'distinction(trials=200)']

# %% [markdown]
# The model follows the rules but for a share of wrong probabilities.

# %%
MODEL = 'noisy_oracle(illegal=0.05, wrong=0.1)'
entries = wm.score(MODEL, METRICS, WORLD, out=folder)
table = pd.DataFrame(entries)
table[['metric', 'quantity', 'value', 'low', 'high', 'n', 'clusters']].round(3)

# %% [markdown]
# ## Trials and clusters
#
# Each row of `rows.parquet`, and of `wm.rows`, is a trial. Trials that share a
# state are not independent. They share a `group`, and intervals count groups,
# not trials.

# %%
rows = wm.rows(folder)
one = rows[(rows.metric == 'compression') & (rows.quantity == 'precision')]
print(len(one), 'trials of', one.group.nunique(), 'states')
one[['value', 'reason', 'group', 'weight']].head()

# %% [markdown]
# ## Trials that were not measured
#
# A trial that cannot be measured has a reason instead of a value. Distinction
# has no recall where the true boundary is empty, and no precision where the
# model accepts the same after both prefixes.

# %%
reasons = rows.replace({'reason': {'': 'measured'}})
reasons.groupby(['metric', 'quantity']).reason.value_counts().unstack(
  fill_value=0
)

# %% [markdown]
# A compression trial is *vacuous* where the model accepts nothing at all. There
# are three ways to count it: `precision` leaves it out, by the definition it is
# precise, and the published program counts it as a failure.

# %%
precision = table[table.quantity.str.startswith('precision')]
precision[['metric', 'quantity', 'value', 'n']].round(3)

# %% [markdown]
# ## The interval
#
# Shares get the interval of Korn and Graubard: exact for independent trials,
# and for clustered ones at the number of independent trials that would vary as
# much. Here is how wide it is.

# %%
shares = {f'share {share}': share for share in (0.5, 0.9, 1.0)}
widths = []
for name, share in shares.items():
  for n in (20, 50, 100, 300, 1000):
    low, high = statistics.proportion(share, n)
    widths.append({'model': name, 'x': n, 'value': high - low})
log = {'type': 'log'}
panel = charts.Panel(
  *('independent trials', 'width of the 95 % interval', widths),
  x_scale=log,
  y_scale=log,
)
SVG(charts.render(charts.lines([panel], charts.palette(shares))))

# %% [markdown]
# The same trials in fewer clusters say less.

# %%
value = np.repeat([1.0, 0.0, 1.0, 1.0], 25)
summaries = {}
for name, group in (
  ('100 clusters', np.arange(100)),
  ('20 clusters', np.arange(100) // 5),
):
  trials = core.scores('share', value, group=group)
  summaries[name] = statistics.summarize(trials)
pd.DataFrame(summaries).loc[['value', 'low', 'high', 'n', 'clusters']]

# %% [markdown]
# ## Two models on the same trials
#
# Trials are drawn from the seed, not from the model, so two models are measured
# on the same ones. The differences of a pair vary less than each alone.

# %%
other = folder / 'other'
wm.score('noisy_oracle(illegal=0.05, wrong=0.3)', METRICS, WORLD, out=other)
compared = wm.compare(folder, other)
compared.drop(columns=['metric', 'spec']).round(3)

# %% [markdown]
# `trial_key` is the same in both models, and finds in `wm.rows` the trials that
# changed most.

# %%
names = ['trial_key', 'quantity', 'state', 'other_state', 'value']
both = wm.rows(folder)[names].merge(
  wm.rows(other)[['trial_key', 'value']], on='trial_key'
)
both['change'] = both.value_x - both.value_y
both.sort_values('change', key=abs, ascending=False).drop(
  columns='trial_key'
).head()

# %% [markdown]
# ## The report
#
# One page holds all of it, with a glossary.

# %%
page = wm.report([folder, other], folder / 'both')
print(page.name, page.stat().st_size // 1000, 'kB')
SVG(filename=page.parent / 'overview.svg')
