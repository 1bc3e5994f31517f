"""Exposure: how much training sequences show of the held-out ones.

Shares are exact: hashes of the held-out prefixes, and ids of their states, are
kept in memory, and training sequences are read past them chunk by chunk.
OUT/exposure.json is written once a run has ended, and holds nothing that
depends on the clock.
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
# Tokens that are compared at most, of training and of held-out sequences.
MOST, HELD = 1 << 23, 1 << 20
_CHUNK = 1 << 14  # Rows read at a time.


class Counts(NamedTuple):
  """How much there is in a store.

  Attributes:
    sequences: all of them.
    distinct: equal ones counted once.
    tokens: of all sequences, without padding.
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

  One for each sequence that has k tokens; equal prefixes have equal hashes,
  and prefixes of different lengths different ones.
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

  One for each sequence that has k tokens and is legal as far as these.
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
  """Values of held-out sequences, and which of them training has shown."""

  def __init__(self, values: Iterator[np.ndarray], dtype: type) -> None:
    every = np.concatenate([np.zeros(0, dtype), *values])
    self.values, self.counts = np.unique(every, return_counts=True)
    self.shown = np.zeros(len(self.values), bool)

  def look(self, values: Iterator[np.ndarray]) -> None:
    """Marks those that are among values of training sequences."""
    if self.shown.all():
      return
    for several in values:
      place = np.searchsorted(self.values, several)
      place = np.minimum(place, len(self.values) - 1)
      self.shown[place[self.values[place] == several]] = True

  def share(self, weights: np.ndarray) -> float | None:
    """The share of weight that is marked; None where there is none."""
    total = int(weights.sum())
    return float(weights[self.shown].sum() / total) if total else None


def compared(store: stores.Store, most: int = MOST) -> int:
  """First sequences of a store that have up to `most` tokens together."""
  total = np.cumsum(store.lengths, dtype=np.int64)
  return max(int(np.searchsorted(total, most, side='right')), 1)


def measure(
  world: core.World,
  train: stores.Store,
  heldout: stores.Store,
  most: int = MOST,
) -> dict[str, Any]:
  """Counts training data, and what they show of held-out sequences.

  Args:
    world: whose states are compared.
    train, heldout: stores of sequences of its vocabulary.
    most: training tokens that are compared at most.

  Returns:
    sequences, distinct, tokens: of the training data, whole.
    compared: training sequences that the shares are of, the first ones.
    heldout_sequences: that are compared, the first ones with HELD tokens.
    heldout_prefixes: prefixes of held-out sequences, of every length from one
      token to the whole sequence, counted as often as they occur.
    prefixes_shown: share of these that some training sequence begins with.
    heldout_states: distinct states after these prefixes.
    states_shown: share of these that some training sequence visits.
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
  """Writes exposure.json of a run that has ended, unless it is there.

  Args:
    world: that the run was trained on.
    out: folder of the run.
    data: folder of train/ and heldout/ sequences; None is OUT/data.
    summary: what `loop.train` returns.
    training_loss: see `run_log.training_loss`; None of a model that is counted.

  Returns:
    `measure`'s counts and shares of the data; best_step, the step of
    the checkpoint that is scored; heldout_loss, its loss in nats a token after
    the prompt; training_loss, as given; epochs, tokens trained on over those
    that the data predict.
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
