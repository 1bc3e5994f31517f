"""Rows of data sets, cut behind the last place that matters.

row 0..n-1  ####....   by length, in GROUPS groups of one length each
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from wm import core
from wm.models.nn import network

# Rows of a data set are cut to one length in each of so many groups.
GROUPS, ROUND = 4, 8


class Rows(NamedTuple):
  """Rows of C data sets, all of one length.

  Attributes:
    tokens: [C, n, L] int32.
    places: [C, n, P] int32, 0 where there is none.
    labels: [C, n, P, H] int32 or [C, n, P, d] float32.
    weight: [C, n, P] float32: a label's part in the mean; 0 without one.
  """

  tokens: Any
  places: Any
  labels: Any
  weight: Any


class Cut(NamedTuple):
  """Rows of all D data sets in groups of one length each.

  Attributes:
    groups: arrays [D, n, ...] of each group.
    orders: [D, n] of each group: which row of its data set each one is.
  """

  groups: list[Rows]
  orders: list[np.ndarray]


def cut(
  tokens: np.ndarray, places: np.ndarray, labels: np.ndarray | None
) -> Cut:
  """Rows by their last place, in groups that are cut behind the longest."""
  last = places.max(-1)
  order = np.argsort(last, axis=1, kind='stable')
  used = (places != core.DEAD).astype(np.float32)
  weight = used / np.maximum(used.sum((1, 2), keepdims=True), 1)
  if labels is None:
    labels = np.zeros((*places.shape, 0), np.int32)
  parts = GROUPS if tokens.shape[1] >= 4 * GROUPS else 1
  groups, orders = [], []
  for rows in np.array_split(order, parts, axis=1):
    if not rows.size:
      continue
    at = np.arange(len(rows))[:, None], rows
    length = -(-(int(last[at].max()) + 1) // ROUND) * ROUND
    length = min(max(length, 1), tokens.shape[2])
    kept = np.maximum(places[at], 0)
    given = tokens[at][:, :, :length], kept, labels[at], weight[at]
    groups.append(Rows(*given))
    orders.append(rows)
  return Cut(groups, orders)


def taken(groups: list[Rows], rows: np.ndarray) -> list[Rows]:
  """The groups of some data sets."""
  return [Rows(*(jnp.asarray(x[rows]) for x in group)) for group in groups]


def check(
  spec: network.NetworkSpec, tokens: np.ndarray, places: np.ndarray
) -> None:
  """Raises InputError for what the network cannot read up to the last place."""
  used = np.arange(tokens.shape[2]) <= places.max(-1, initial=0)[..., None]
  wrong = tokens[used & ((tokens < 0) | (tokens >= spec.vocab_size))]
  if wrong.size:
    raise core.InputError(
      f'token {wrong[0]}: the model has ids 0 to {spec.vocab_size - 1}'
    )
  if int(places.max(initial=0)) >= spec.max_len:
    raise core.InputError(
      f'place {int(places.max())}: the model takes up to {spec.max_len} tokens'
    )
