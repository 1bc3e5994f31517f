"""Checks that outputs of a user's model are logits, of the world's tokens.

Probabilities, percentages, sigmoids and masks of legal tokens have the shape of
logits, and would be read as nearly equal logits. Their range and their sums
over the model's vocabulary give them away.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable

import numpy as np

from wm import core

# Outputs needed for a verdict; the largest logit with enough precision.
FEWEST, GREATEST = 64, 1e30
SPREAD = 64  # Positions per call at which outside probability is counted.
CAUTION = 0.01  # Mean outside probability above which scores warn.


class Outputs:
  """Statistics of a model's outputs over its whole vocabulary.

  Attributes:
    ids: [V] the model's id of each token of the world, DEAD for none; None if
      ids are equal.
    mass: [2] summed probability outside the world's tokens, and positions.
  """

  def __init__(self, ids: np.ndarray | None = None) -> None:
    """See the attributes."""
    self.ids, self.mass = ids, np.zeros(2)
    self._count = 0
    self._least, self._greatest = math.inf, -math.inf
    self._sums = [math.inf, -math.inf]
    self._whole = True

  def see(self, logits: np.ndarray) -> None:
    """Adds outputs [P, V'] to the statistics."""
    if not logits.size:
      return
    with np.errstate(all='ignore'):  # NaN is refused elsewhere.
      # -inf makes the sum -inf: such outputs are logits.
      sums = logits.astype(np.float64).sum(-1)
      self._count += logits.size
      # NaN counts as a negative output, so that `verify` passes.
      self._least = min(float(np.nan_to_num(logits.min(), nan=-1)), self._least)
      self._greatest = max(self._greatest, float(logits.max()))
      self._sums = [
        min(self._sums[0], sums.min()),
        max(self._sums[1], sums.max()),
      ]
      self._whole &= bool((logits == np.rint(logits)).all())

  def verify(self, label: str) -> None:
    """Raises InputError if the outputs so far are not logits."""
    if self._greatest > GREATEST:
      raise core.InputError(
        f'{label} gave a logit of {self._greatest:.3g}; expected less than '
        f'{GREATEST:g}, as the differences of larger ones are lost'
      )
    if self._least < 0:  # Probabilities are never negative.
      return
    adds_up = [
      np.allclose(self._sums, total, rtol=1e-3, atol=0) for total in (1, 100)
    ]
    kind = ''
    if adds_up[0] and self._whole:
      kind = 'one-hot rows, of zeros and a one'
    elif adds_up[0]:
      kind = 'probabilities, which add up to 1'
    elif adds_up[1]:
      kind = 'percent, which add up to 100'
    # Equal outputs are those of a uniform model.
    elif self._least < self._greatest <= 1 and self._count >= FEWEST:
      kind = 'numbers from 0 to 1, as sigmoids and marks of legal tokens are'
    if kind:
      raise core.InputError(
        f'{label} gave {kind}; expected logits or log-probabilities, such as '
        'their logarithm (if they are logits, subtract 1 from all)'
      )

  def count(self, mass: np.ndarray) -> None:
    """Counts probability outside the world's tokens at positions [P]."""
    self.mass += float(mass.sum()), mass.size

  def count_ids(self, logits: np.ndarray) -> None:
    """As `count`, from outputs [P, V'] over all ids of the model."""
    # Only a few positions: a vocabulary may have 100,000 ids.
    step = max(len(logits) // SPREAD, 1)
    chosen = logits[::step].astype(np.float64)
    weights = np.exp(chosen - chosen.max(-1, keepdims=True))
    ids = np.arange(weights.shape[1]) if self.ids is None else self.ids
    inside = weights[:, ids[ids >= 0]].sum(-1)
    self.count(1 - inside / weights.sum(-1))

  def cautions(self) -> list[str]:
    """A warning if much probability is outside the world's tokens."""
    share = self.mass[0] / max(self.mass[1], 1)
    if share < CAUTION:
      return []
    where = '<pad>' if self.ids is None else 'ids that tokens= does not list'
    return [
      f'puts {share:.2g} of its probability on {where} (mean of '
      f'{self.mass[1]:,.0f} positions), which is taken out'
    ]


def check_sizes(
  ask: Callable[[np.ndarray], np.ndarray],
  rows: int,
  sizes: list[int],
  vocab_size: int,
  label: str,
) -> None:
  """Raises InputError where inputs are too long for a model, or ids too large.

  Args:
    ask: tokens [rows, L] -> outputs; raises InputError where it fails.
    rows: rows per call.
    sizes: lengths L, ascending.
    vocab_size: V.
    label: name of the model in errors.
  """

  def fails(size: int, token: int) -> core.InputError | None:
    try:
      ask(np.full((rows, size), token, np.int32))
    except core.InputError as error:
      return error
    return None

  def last_good(low: int, high: int, bad: Callable[[int], object]) -> int:
    """The largest good number in low .. high - 1; `low` is good."""
    # Bisection: good numbers below, bad ones above.
    above = range(low + 1, high)
    return low + bisect.bisect_left(above, True, key=lambda n: bool(bad(n)))

  # Inputs that are only long, or only have large ids, separate the two causes.
  longest, last = sizes[-1], vocab_size - 1
  token, size = fails(sizes[0], last), fails(longest, 1)
  if not (token or size):
    return
  # A valid input; without any, later checks report the fault.
  short = next((n for n in (sizes[0], 1) if not fails(n, 1)), 0)
  if not short:
    return
  if size:
    most = last_good(short, longest, lambda n: fails(n, 1))
    raise core.InputError(
      f'{label} takes inputs of up to {most} tokens, and the world has '
      f'sequences of up to {longest}; expected a longer context, or '
      f'max_len={most} ({size})'
    )
  most = last_good(1, last, lambda n: fails(short, n))
  raise core.InputError(
    f'{label} takes ids up to {most}, and the world has ids up to {last}; '
    f'expected a vocabulary of {vocab_size}, or tokens= with the id of each '
    f'token ({token})'
  )
