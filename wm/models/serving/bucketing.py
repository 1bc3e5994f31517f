"""Rows of tokens in arrays of few shapes, which are compiled once each."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from wm import core

if TYPE_CHECKING:
  from wm.models.nn.network import (
    NetworkSpec,
  )  # Needs JAX, as `padded` does not.

SMALL = 5_000_000  # Parameters below which compiling costs more than pads.


@functools.lru_cache(maxsize=64)
def buckets(spec: NetworkSpec) -> np.ndarray:
  """Lengths that rows are padded to, ascending; the last is max_len."""
  # One bucket is one program; four cut the padding of large networks.
  if spec.num_params < SMALL:
    return np.array([spec.max_len])
  return np.unique([-(-spec.max_len * n // 4) for n in (1, 2, 3, 4)])


def check_prefixes(lengths: np.ndarray) -> None:
  """Raises InputError where a length [R] is 0."""
  if (np.asarray(lengths) < 1).any():
    raise core.InputError(
      'an empty prefix was given; this predictor needs at least one token'
    )


def check_ids(spec: NetworkSpec, tokens: np.ndarray) -> None:
  """Raises InputError for ids [N] outside the vocabulary."""
  wrong = tokens[(tokens < 0) | (tokens >= spec.vocab_size)]
  if wrong.size:
    raise core.InputError(
      f'token {wrong[0]}: the model has ids 0 to {spec.vocab_size - 1}'
    )


def check_tokens(
  spec: NetworkSpec, tokens: np.ndarray, lengths: np.ndarray
) -> None:
  """Raises InputError for ids outside the vocabulary or too long rows."""
  check_ids(spec, tokens[np.arange(tokens.shape[1]) < lengths[:, None]])
  if lengths.size and lengths.max() > spec.max_len:
    raise core.InputError(
      f'a sequence of {lengths.max()} tokens: the model takes up to '
      f'{spec.max_len}'
    )


def padded(
  tokens: np.ndarray, lengths: np.ndarray, rows: int, length: int
) -> np.ndarray:
  """[rows, length, ...]: the used part of tokens [N, L, ...], PAD elsewhere.

  Of type int32 where there are no further dimensions.
  """
  # Tokens [N, L] may come in any integer type; labels [N, L, K] keep theirs.
  kind = np.int32 if tokens.ndim == 2 else tokens.dtype
  out = np.full((rows, length, *tokens.shape[2:]), core.PAD, kind)
  cut = tokens[:, :length]
  used = np.arange(cut.shape[1]) < np.asarray(lengths)[:, None]
  out[: len(cut), : cut.shape[1]][used] = cut[used]
  return out
