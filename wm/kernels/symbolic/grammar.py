"""Formulas of a grammar, all of them, and those that fit best at each size.

    leaf      a quantity: r, m1, m2, ...
    one       inv(x) = 1 / x   exp(x)   sin(x)   cos(x)
    two       x + y            x * y

The grammar of the inductive-bias probes' symbolic regression (Vafa et al. 2025)
but for its constants: a formula has one factor in front, which is fitted in
closed form. The size is the number of leaves and operators; the factor is not
counted. Newton's law is inv(r * r) * m1 * m2, size 8.

Formulas are numbered by size; within a size those of one operand come first,
INV, EXP, SIN, COS in turn, each of all operands in order; then ADD and MUL,
each by the size of the smaller operand, then by first and second operand. Of
formulas of one size that fit alike the first is taken.
"""

from __future__ import annotations

import numpy as np

# Codes in postfix order; those from 0 are quantities.
INV, EXP, SIN, COS, ADD, MUL = range(-1, -7, -1)
UNARY, BINARY = (INV, EXP, SIN, COS), (ADD, MUL)
NAMES = {INV: 'inv', EXP: 'exp', SIN: 'sin', COS: 'cos', ADD: '+', MUL: '*'}
# A formula is dropped, with all that contain it, where on some row it is beyond
# this, or an angle is: nothing would be left of its digits.
LARGEST, ANGLE = 1e100, 1e6
# An error below this is rounding: nothing is better.
EXACT = 1e-24
# A formula is better than another if its error is smaller by this share.
BETTER = 1e-9
# Rows on which all formulas are looked at; few of them need more.
PROBES = 32


def count(quantities: int, size: int) -> list[int]:
  """Numbers of formulas of sizes 0, 1, ..., size."""
  found = [0, quantities]
  for n in range(2, size + 1):
    pairs = 0
    for a in range(1, (n - 1) // 2 + 1):
      b = n - 1 - a
      same = found[a] * (found[a] + 1) // 2
      pairs += same if a == b else found[a] * found[b]
    found.append(len(UNARY) * found[n - 1] + len(BINARY) * pairs)
  return found[: size + 1]


def written(code: tuple[int, ...], names: tuple[str, ...]) -> str:
  """A formula in words, with as few parentheses as needed."""
  stack: list[tuple[str, bool]] = []  # Text, and is it a sum?
  for c in code:
    if c >= 0:
      stack.append((names[c], False))
    elif c in UNARY:
      stack.append((f'{NAMES[c]}({stack.pop()[0]})', False))
    else:
      two = [stack.pop(), stack.pop()][::-1]
      if c == MUL:
        two = [(f'({text})' if s else text, False) for text, s in two]
      stack.append((f'{two[0][0]} {NAMES[c]} {two[1][0]}', c == ADD))
  return stack.pop()[0]


def values(code: tuple[int, ...], columns: np.ndarray) -> np.ndarray:
  """[n] a formula's values of quantities [Q, n]; NaN where it has none."""
  stack: list[np.ndarray] = []
  with np.errstate(all='ignore'):
    for c in code:
      if c >= 0:
        stack.append(np.asarray(columns[c], np.float64))
      elif c in BINARY:
        right, left = stack.pop(), stack.pop()
        stack.append(left + right if c == ADD else left * right)
      else:
        x = stack.pop()
        if c in (SIN, COS):
          x = np.where(np.abs(x) <= ANGLE, x, np.nan)
        form = {INV: np.reciprocal, EXP: np.exp, SIN: np.sin, COS: np.cos}
        stack.append(form[c](x))
      stack[-1] = np.where(np.abs(stack[-1]) <= LARGEST, stack[-1], np.nan)
  return stack.pop()
