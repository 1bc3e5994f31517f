"""Rows of data sets, cut behind the last place that matters.

row 0..n-1  ####....   by length, in GROUPS groups of one length each
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
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
  """Rows of D data sets in groups, each cut to one length.

  Attributes:
    sets: as given; rows are copied when they are `taken`.
    number: type of labels.
    orders: [D, n] of each group: which row of its data set each one is.
    lengths: of each group.
  """

  sets: core.Sets
  number: np.dtype
  orders: list[np.ndarray]
  lengths: list[int]

  @property
  def size(self) -> int:
    """Tokens of one data set."""
    groups = zip(self.orders, self.lengths, strict=True)
    return sum(order.shape[1] * length for order, length in groups)

  def taken(self, chosen: np.ndarray) -> list[Rows]:
    """The groups of some data sets [C]."""
    places = self.sets.places[chosen]
    used = (places != core.DEAD).astype(np.float32)
    weight = used / np.maximum(used.sum((1, 2), keepdims=True), 1)
    groups = []
    for order, length in zip(self.orders, self.lengths, strict=True):
      row = order[chosen]
      at, own = (chosen[:, None], row), (np.arange(len(row))[:, None], row)
      given = (
        self.sets.tokens[at][..., :length],
        np.maximum(places[own], 0),
        self.sets.labels[at].astype(self.number),
        weight[own],
      )
      groups.append(Rows(*map(jnp.asarray, given)))
    return groups


def cut(sets: core.Sets, number: str, least: Sequence[int] = ()) -> Cut:
  """Rows by their last place, in groups that are cut behind the longest.

  number: type of labels; least: lengths of the groups, at least.
  """
  last = sets.places.max(-1)
  size, most = sets.tokens.shape[1:]
  order = np.argsort(last, axis=1, kind='stable')
  parts = np.array_split(order, GROUPS if size >= 4 * GROUPS else 1, axis=1)
  orders = [rows for rows in parts if rows.size]
  lengths = []
  for rows in orders:
    longest = int(np.take_along_axis(last, rows, 1).max()) + 1
    lengths.append(min(max(-(-longest // ROUND) * ROUND, 1), most))
  if least:
    lengths = [*map(max, lengths, least)]
  return Cut(sets, np.dtype(number), orders, lengths)


def questions(asked: core.Asked) -> Cut:
  """Rows without labels."""
  none = np.zeros((*asked.places.shape, 0), np.int32)
  return cut(core.Sets(*asked, none), 'int32')


class Supply(NamedTuple):
  """What D data sets are tuned on, step by step.

  Attributes:
    first: of the first step.
    kind: of labels.
    spec: the network that reads them.
    stream: where other steps' sequences come from; None: all have the first's.
  """

  first: Cut
  kind: core.Kind
  spec: network.NetworkSpec
  stream: core.Stream | None

  @classmethod
  def of(
    cls,
    spec: network.NetworkSpec,
    sets: core.Sets | core.Stream,
    kind: core.Kind,
  ) -> Supply:
    """Raises InputError for what the network cannot read."""
    number = 'int32' if isinstance(kind, core.Classes) else 'float32'
    stream = sets if isinstance(sets, core.Stream) else None
    given = stream.batch(0, kind) if stream else sets
    assert isinstance(given, core.Sets)  # One or the other.
    check(spec, given.tokens, given.places)
    return cls(cut(given, number), kind, spec, stream)

  def steps(self, chosen: np.ndarray) -> Iterator[list[Rows]]:
    """The groups of some data sets at each step, without end.

    Of a stream, groups are as long as any so far had to be: few lengths are
    compiled for.

    Raises:
      InputError: shapes differ from the first's, or the network cannot read it.
    """
    made = self.first
    groups = made.taken(chosen)
    shapes = [array.shape for array in made.sets]
    for step in itertools.count(1):
      yield groups
      if self.stream is None:
        continue
      sets = self.stream.batch(step, self.kind)
      if (found := [array.shape for array in sets]) != shapes:
        raise core.InputError(
          f'step {step}: tokens, places and labels of shapes {found} were '
          f'drawn; expected {shapes}, as at the first step'
        )
      check(self.spec, sets.tokens, sets.places)
      made = cut(sets, made.number.name, made.lengths)
      groups = made.taken(chosen)


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
