"""Exposure: the share of held-out prefixes and states that training data show.

Shares are exact: hashes of the held-out prefixes, and ids of their states, are
in memory, and training sequences are compared chunk by chunk.
OUT/exposure.json is written when a run has ended, and has no values that depend
on the clock.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import basics, registry
from wm.data import store as stores
from wm.runtime import files

FILE = 'exposure.json'
# Most compared tokens of training and of held-out sequences.
MOST, HELD = 1 << 23, 1 << 20
_CHUNK = 1 << 14  # Rows read at a time.


class Counts(NamedTuple):
  """Sizes of a store.

  Attributes:
    sequences: number of sequences.
    distinct: number of different sequences.
    tokens: tokens of all sequences, without padding.
  """

  sequences: int
  distinct: int
  tokens: int


def counts(store: stores.Store) -> Counts:
  """Counts the sequences of a store (8 bytes a row in memory)."""
  hashes = [chunk.hashes() for chunk in store.chunks()]
  distinct = len(np.unique(np.concatenate(hashes))) if hashes else 0
  return Counts(len(store), distinct, int(store.manifest['tokens']))


def prefix_hashes(sequences: core.Sequences) -> Iterator[np.ndarray]:
  """Yields for k = 1, 2, ... the hashes of the first k tokens, uint64.

  Each sequence with k tokens has one. Equal prefixes have equal hashes, and
  prefixes of different lengths have different ones.
  """
  mixed = np.zeros(len(sequences), np.uint64)
  for k, column in enumerate(sequences.tokens.T):
    rows = np.flatnonzero(k < sequences.lengths)
    mixed[rows] = basics.hash64(mixed[rows], column[rows])
    yield basics.hash64(mixed[rows], k)


def state_ids(
  world: core.World, sequences: core.Sequences
) -> Iterator[np.ndarray]:
  """Yields for k = 1, 2, ... the ids of the states after k tokens, int64.

  Each sequence with k tokens, all of them legal, has one.
  """
  states = np.array(world.init(len(sequences)))
  alive = np.ones(len(sequences), bool)
  for k, column in enumerate(sequences.tokens.T):
    rows = np.flatnonzero(alive & (k < sequences.lengths))
    if not rows.size:
      return
    states[rows] = world.advance(states[rows], column[rows])
    ids = world.state_id(states[rows])
    alive[rows] = ids != core.DEAD
    yield ids[ids != core.DEAD]


class _Targets:
  """Values of held-out sequences, with marks for those in training data."""

  def __init__(self, values: Iterator[np.ndarray], dtype: type) -> None:
    every = np.concatenate([np.zeros(0, dtype), *values])
    self.values, self.counts = np.unique(every, return_counts=True)
    self.shown = np.zeros(len(self.values), bool)

  def look(self, values: Iterator[np.ndarray]) -> None:
    """Marks values that also occur among those of training sequences."""
    if self.shown.all():
      return
    for several in values:
      place = np.searchsorted(self.values, several)
      place = np.minimum(place, len(self.values) - 1)
      self.shown[place[self.values[place] == several]] = True

  def share(self, weights: np.ndarray) -> float | None:
    """The marked share of the weight; None if the total is 0."""
    total = int(weights.sum())
    return float(weights[self.shown].sum() / total) if total else None


def compared(store: stores.Store, most: int = MOST) -> int:
  """Number of first sequences with up to `most` tokens in total."""
  total = np.cumsum(store.lengths, dtype=np.int64)
  return max(int(np.searchsorted(total, most, side='right')), 1)


def measure(
  world: core.World,
  train: stores.Store,
  heldout: stores.Store,
  most: int = MOST,
) -> dict[str, Any]:
  """Counts training data, and the held-out prefixes and states in them.

  Args:
    world: world that gives the states.
    train, heldout: stores of sequences of its vocabulary.
    most: maximum number of compared training tokens.

  Returns:
    sequences, distinct, tokens: counts of the whole training data.
    compared: number of first training sequences that are compared.
    heldout_sequences: number of first held-out sequences that are compared,
      with HELD tokens.
    heldout_prefixes: number of prefixes of held-out sequences, of every length
      from one token to the whole sequence, with repeats.
    prefixes_shown: share of these with which a training sequence begins.
    heldout_states: number of distinct states after these prefixes.
    states_shown: share of these that a training sequence visits.
  """
  held = heldout.read(0, compared(heldout, HELD))
  prefixes = _Targets(prefix_hashes(held), np.uint64)
  states = _Targets(state_ids(world, held), np.int64)
  num = compared(train, most)
  for first in range(0, num, _CHUNK):
    chunk = train.read(first, min(first + _CHUNK, num))
    prefixes.look(prefix_hashes(chunk))
    states.look(state_ids(world, chunk))
  return {
    **counts(train)._asdict(),
    'compared': num,
    'heldout_sequences': len(held),
    'heldout_prefixes': int(prefixes.counts.sum()),
    'prefixes_shown': prefixes.share(prefixes.counts),
    'heldout_states': len(states.values),
    'states_shown': states.share(np.ones(len(states.values), np.int64)),
  }


def record(
  world: core.World,
  out: pathlib.Path,
  data: str | pathlib.Path | None,
  summary: dict[str, Any],
  training_loss: float | None,
) -> dict[str, Any]:
  """Writes exposure.json of a finished run, unless it exists.

  Args:
    world: world that the run was trained on.
    out: folder of the run.
    data: folder of train/ and heldout/ sequences; None is OUT/data.
    summary: result of `loop.train`.
    training_loss: see `run_log.training_loss`; None for a fitted model.

  Returns:
    `measure`'s counts and shares of the data; best_step, the step of the scored
    checkpoint; heldout_loss, its loss in nats a token after the prompt;
    training_loss, as passed; epochs, tokens trained on divided by the predicted
    tokens of the data.
  """
  folder = pathlib.Path(data or out / 'data')
  splits = [folder / split for split in ('train', 'heldout')]
  totals = {key: summary[key] for key in ('step', 'best_step', 'tokens')}
  made_from = {
    'world': registry.spec(world),
    'world_version': world.version,
    'most_tokens': MOST,
    'data': [files.sha256(split / 'manifest.json') for split in splits],
    **totals,
  }
  path = out / FILE
  if path.exists():
    before = files.read_record(path, {})
    if before.get('made_from') == made_from:
      return before
  train, heldout = (stores.open(split) for split in splits)
  seen = measure(world, train, heldout)
  predicted = seen['tokens'] - seen['sequences']
  result = {
    'made_from': made_from,
    **seen,
    'epochs': summary['tokens'] / predicted if predicted else None,
    'best_step': summary['best_step'],
    'heldout_loss': summary['best_loss_moves'],
    'training_loss': training_loss,
  }
  files.write_json(path, result)
  return result
