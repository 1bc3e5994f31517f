"""The forms that a recurrence can be run in, and which one 'auto' is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from wm import core

FORMS = ('auto', 'sequential', 'associative', 'chunked')


def usual(measured: Mapping[str, Any]) -> Any:
  """What was measured best for this backend; others do as a GPU does."""
  return measured.get(jax.default_backend(), measured['gpu'])


def diagonal(decay: jax.Array, added: jax.Array, start: jax.Array) -> jax.Array:
  """All h_t = decay_t h_(t-1) + added_t [B, L, ...] by an associative scan."""

  def after(first: Any, second: Any) -> Any:
    # Maps h -> d h + u composed: the second after the first.
    return first[0] * second[0], second[0] * first[1] + second[1]

  product, total = jax.lax.associative_scan(after, (decay, added), axis=1)
  return product * start[:, None] + total


def resolve(form: str, chunk: int, best: str, size: int) -> tuple[str, int]:
  """Form and steps of a chunk, with 'auto' and 0 replaced by best and size.

  Raises:
    InputError: there is no such form, or the chunk is negative.
  """
  if form not in FORMS:
    raise core.InputError(f'form={form!r}; available: {", ".join(FORMS)}')
  if chunk < 0:
    raise core.InputError(f'chunk={chunk}; expected 1 or more, or 0: measured')
  return best if form == 'auto' else form, chunk or size
