"""Enumerates the formulas of a grammar, and finds the best fit of each size.

    leaf      a quantity: r, m1, m2, ...
    one       inv(x) = 1 / x   exp(x)   sin(x)   cos(x)
    two       x + y            x * y

This is the grammar of the symbolic regression in the inductive-bias probes
(Vafa et al. 2025) without its constants: a formula has one factor, fitted in
closed form. The size is the number of leaves and operators, without the factor.
Newton's law is inv(r * r) * m1 * m2, size 8.

Formulas are numbered by size. Within a size, formulas with one operand come
first, INV, EXP, SIN, COS in turn, each with all operands in order; then ADD and
MUL, each by the size of the smaller operand, then by first and second operand.
On ties the first formula of a size is taken.

The compiled search has a table of formulas:

    formula   0 .. Q-1 | Q ..        |  ...        stored formulas
    size      1        | 2           |  3 ..
    vals      values on PROBES rows, enough to rule out most formulas:

least squares over some rows, with their own best factor, never exceed those
over all rows. A formula whose values on these rows equal those of an earlier
one to nine digits is left out; formulas of the last size are not stored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from wm.kernels.base import calls
from wm.kernels.base.bits import put, splitmix
from wm.kernels.base.jit import njit

# Codes in postfix order; codes from 0 on are quantities.
INV, EXP, SIN, COS, ADD, MUL = range(-1, -7, -1)
UNARY, BINARY = (INV, EXP, SIN, COS), (ADD, MUL)
NAMES = {INV: 'inv', EXP: 'exp', SIN: 'sin', COS: 'cos', ADD: '+', MUL: '*'}
# A formula, and all that contain it, are dropped if a value or an angle exceeds
# this on some row, since no digits would remain.
MOST_VALUE, ANGLE = 1e100, 1e6
# An error below this is rounding: no formula is better.
EXACT = 1e-24
# A formula is better than another if its error is smaller by this share.
BETTER = 1e-9
# Rows on which all formulas are evaluated; few formulas need more rows.
PROBES = 32


def count(quantities: int, size: int) -> list[int]:
  """Numbers of formulas of sizes 0, 1, ..., size."""
  numbers = [0, quantities]
  for n in range(2, size + 1):
    pairs = 0
    for a in range(1, (n - 1) // 2 + 1):
      b = n - 1 - a
      # Both operators commute: of two operands of one size, unordered pairs.
      same = numbers[a] * (numbers[a] + 1) // 2
      pairs += same if a == b else numbers[a] * numbers[b]
    numbers.append(len(UNARY) * numbers[n - 1] + len(BINARY) * pairs)
  return numbers[: size + 1]


def written(code: tuple[int, ...], names: tuple[str, ...]) -> str:
  """A formula as text, without redundant parentheses."""
  stack: list[tuple[str, bool]] = []  # Text, and True for a sum.
  for c in code:
    if c >= 0:
      stack.append((names[c], False))
    elif c in UNARY:
      stack.append((f'{NAMES[c]}({stack.pop()[0]})', False))
    else:
      two = [stack.pop(), stack.pop()][::-1]
      # A sum needs parentheses within a product, and nowhere else.
      if c == MUL:
        two = [(f'({text})' if s else text, False) for text, s in two]
      stack.append((f'{two[0][0]} {NAMES[c]} {two[1][0]}', c == ADD))
  return stack.pop()[0]


def values(code: tuple[int, ...], columns: np.ndarray) -> np.ndarray:
  """[n] a formula's values of quantities [Q, n]; NaN where undefined."""
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
      stack[-1] = np.where(np.abs(stack[-1]) <= MOST_VALUE, stack[-1], np.nan)
  return stack.pop()


class Law(NamedTuple):
  """A formula with its factor.

  Attributes:
    code: postfix; see above.
    size: leaves and operators.
    error: mean square residual over the variance of the target; of logarithms
      if the loss is 'log'.
    factor: factor of the formula.
    text: the formula, e.g. 'm2 * (m1 * inv(r * r))'.
  """

  code: tuple[int, ...]
  size: int
  error: float
  factor: float
  text: str

  def __str__(self) -> str:
    return f'{self.factor:.4g} * {self.text}'


def search(
  columns: Mapping[str, np.ndarray],
  targets: np.ndarray,
  size: int,
  loss: str = 'log',
) -> list[list[Law]]:
  """Fits all formulas up to a size to each of K targets.

  Deterministic and exact: no formula of a size has a smaller error than the
  result, up to a share of 1e-9.

  Args:
    columns: quantity -> [n] finite numbers.
    targets: [K, n] finite, none of them constant; all > 0 for loss 'log'.
    size: of the largest formulas.
    loss: 'log' squares the difference of logarithms, for formulas of one sign;
      'raw' squares the difference itself.

  Returns:
    The front of each target: laws of ascending size, each with a smaller error
    than all before. Empty where no formula has values on all rows.
  """
  x = np.array([*columns.values()], np.float64)
  y = np.asarray(targets, np.float64)
  names, logs = tuple(columns), loss == 'log'
  rows = _order(y)
  x, aim = x[:, rows], y[:, rows]
  if logs:
    aim = np.log(aim)
  results = _FormulaSearch(
    calls.frozen(x, np.float64),
    calls.frozen(aim, np.float64),
    logs,
    count(len(names), size),
  ).run()
  fronts = []
  for k, laws in enumerate(results):
    front = []
    for code, error in laws:
      # The search returns only errors: the factor is fitted again.
      _, factor = fitted(values(code, x), aim[k], logs)
      text = written(code, names)
      front.append(Law(code, len(code), error, factor, text))
    fronts.append(front)
  return fronts


def fitted(
  values: np.ndarray, aim: np.ndarray, logs: bool
) -> tuple[float, float]:
  """Error and factor of a formula's values [n]; see Law.

  aim: [n], the target, or its logarithm where `logs`.
  """
  spread = ((aim - aim.mean()) ** 2).sum()
  if np.isnan(values).any():
    return math.inf, math.nan
  if not logs:
    square = (values * values).sum()
    # Least squares in one factor.
    factor = (values * aim).sum() / square if square > 0 else 0.0
    rest = aim - factor * values
    return max(float((rest * rest).sum() / spread), EXACT), float(factor)
  sign = 1.0 if values[0] > 0 else -1.0
  if not (sign * values > 0).all():
    return math.inf, math.nan
  rest = aim - np.log(np.abs(values))
  # The factor's logarithm: the mean difference of all rows.
  level = rest.mean()
  rest = rest - level
  error = max(float((rest * rest).sum() / spread), EXACT)
  return error, float(sign * np.exp(level))


def _order(targets: np.ndarray) -> np.ndarray:
  """Order of rows for the evaluation of formulas; the first PROBES are probes.

  Half of the probes are the largest values of the first target, which dominate
  its squares; the other rows are spread evenly over its order, coarse to fine.
  """
  order = np.argsort(np.abs(targets[0]), kind='stable')[::-1]
  top, rest = order[: PROBES // 2], order[PROBES // 2 :]
  # Bit-reversed places: any initial part is spread over all rows.
  bits = max(len(rest) - 1, 1).bit_length()
  place = np.arange(len(rest))
  turned = sum(((place >> k) & 1) << (bits - 1 - k) for k in range(bits))
  return np.concatenate([top, rest[np.argsort(turned)]])


# Digits by which formulas are distinguished, as a factor of the mantissa.
DIGITS = 2.0**30
GROWTH = 4  # Growth factor of the number of evaluated rows.
SLACK = 1e-12  # Generous bound of the relative rounding of sums over probes.


class _FormulaTable(NamedTuple):
  """Stored formulas: arrays with room for M.

  Attributes:
    op, left, right: [M] int32; for a quantity, op is its index.
    vals: [M, P] float64 on the probes.
    seen: [H] uint64 hashes of rows of `vals`, open addressing; 0 is free.
    num: [1] int64 formulas so far.
  """

  op: np.ndarray
  left: np.ndarray
  right: np.ndarray
  vals: np.ndarray
  seen: np.ndarray
  num: np.ndarray


class _Goal(NamedTuple):
  """The targets of the fits, and the best formulas so far.

  Attributes:
    x: [Q, n] float64 quantities; the first rows are the probes.
    aim: [K, n] float64 targets, or their logarithms.
    spread: [K] float64 squared deviations of targets from their mean.
    best: [K] float64 smallest error, relative to `spread`.
    code: [K, size] int64 postfix of the best; length: [K] int64.
    room: [size, n] float64, for values.
    post: [2, size] int64, for a postfix and nodes to visit.
  """

  x: np.ndarray
  aim: np.ndarray
  spread: np.ndarray
  best: np.ndarray
  code: np.ndarray
  length: np.ndarray
  room: np.ndarray
  post: np.ndarray


@njit(error_model='numpy', inline='always')
def _apply(op, x, y) -> float:
  # A value of a formula; NaN where undefined.
  if op == ADD:
    z = x + y
  elif op == INV:
    z = 1.0 / x
  elif op == EXP:
    z = math.exp(x)
  elif op in (SIN, COS):
    if abs(x) > ANGLE:
      return math.nan
    z = math.sin(x) if op == SIN else math.cos(x)
  else:
    z = x * y
  return z if abs(z) <= MOST_VALUE else math.nan


@njit
def _hash(row) -> np.uint64:
  # A hash of values to nine digits, by mantissa and exponent.
  # Equal formulas with different rounding may get two keys: both are stored,
  # which costs only time. Different formulas collide by chance: among 3e7
  # formulas any two do with probability 5e-5.
  mixed = np.uint64(0)
  for p in range(len(row)):
    mantissa, exponent = math.frexp(row[p])
    word = np.int64(math.floor(mantissa * DIGITS + 0.5))
    mixed = splitmix(mixed ^ np.uint64(word) ^ (np.uint64(exponent) << 40))
  return mixed | np.uint64(1)


@njit
def _is_new(seen, key) -> bool:
  # Enters a key; False if it is already present.
  mask = np.uint64(len(seen) - 1)
  place = (key >> np.uint64(1)) & mask
  while seen[place] != 0:
    if seen[place] == key:
      return False
    place = (place + np.uint64(1)) & mask
  seen[place] = key
  return True


@njit(error_model='numpy')
def _logarithms(row) -> bool:
  # Replaces values by the logarithms of their sizes; False if signs differ.
  positive = row[0] > 0
  for n in range(len(row)):
    if row[n] == 0 or (row[n] > 0) != positive:
      return False
    row[n] = math.log(abs(row[n]))
  return True


@njit(error_model='numpy')
def _least(row, aim, logs) -> float:
  # Lower bound of the least squares on the probes, with slack for rounding.
  num = len(row)
  # The best factor for these rows: no other factor fits them better, so this is
  # a lower bound of the error on all rows.
  if logs:
    total = squares = 0.0
    for p in range(num):
      d = aim[p] - row[p]
      total += d
      squares += d * d
    return squares - total * total / num - SLACK * squares
  across = size = squares = 0.0
  for p in range(num):
    across += aim[p] * row[p]
    size += row[p] * row[p]
    squares += aim[p] * aim[p]
  slack = SLACK * squares
  if not size > 0:
    return squares - slack
  return squares - across * (across / size) - slack


@njit
def _postfix(table, op, i, j, unary, post) -> int:
  # Writes the postfix of op(formula i, formula j) to post[0]; returns its
  # length. The tree is walked from the root, right operands first, and the
  # result is reversed; `visit` is a stack of nodes.
  out, visit = post[0], post[1]
  length, waiting = 1, 1
  out[0], visit[0] = op, i
  if not unary:
    visit[1], waiting = j, 2
  while waiting:
    waiting -= 1
    node = visit[waiting]
    code = table.op[node]
    out[length] = code
    length += 1
    if code < 0:
      visit[waiting] = table.left[node]
      waiting += 1
      if table.right[node] >= 0:
        visit[waiting] = table.right[node]
        waiting += 1
  for k in range(length // 2):
    out[k], out[length - 1 - k] = out[length - 1 - k], out[k]
  return length


@njit(error_model='numpy')
def _evaluate(code, length, x, room) -> bool:
  # Evaluates a formula into room[0]; False if it is undefined on some row.
  top = -1
  for k in range(length):
    op = code[k]
    if op >= 0:
      top += 1
      put(room[top], x[op])
      continue
    # ADD and MUL, the lowest codes, take two operands; for one operand the
    # second row is arbitrary and not read.
    if op == ADD or op < ADD:
      top -= 1
    first, second = room[top], room[min(top + 1, len(room) - 1)]
    for n in range(x.shape[1]):
      z = _apply(op, first[n], second[n])
      if math.isnan(z):
        return False
      first[n] = z
  return True


@njit(error_model='numpy')
def _error(row, aim, spread, logs) -> float:
  # See `fitted`; `row` is of logarithms where `logs`.
  num, left = len(row), 0.0
  if logs:
    level = 0.0
    for n in range(num):
      level += aim[n] - row[n]
    level /= num
    for n in range(num):
      d = aim[n] - row[n] - level
      left += d * d
    return max(left / spread, EXACT)
  across = size = 0.0
  for n in range(num):
    across += aim[n] * row[n]
    size += row[n] * row[n]
  factor = across / size if size > 0 else 0.0
  for n in range(num):
    d = aim[n] - factor * row[n]
    left += d * d
  return max(left / spread, EXACT)


@njit(error_model='numpy')
def _try(table, goal, row, op, i, j, unary, logs) -> None:
  # Fits a formula with these values on the probes, if it may be the best.
  if logs and not _logarithms(row):
    return
  length, rows = 0, len(row)
  while True:
    promising = False
    for k in range(len(goal.aim)):
      limit = goal.best[k] * (1 - BETTER) * goal.spread[k]
      promising |= _least(row, goal.aim[k, :rows], logs) < limit
    if not promising or rows == goal.x.shape[1]:
      break
    if not length:
      length = _postfix(table, op, i, j, unary, goal.post)
    # More rows at a time: few losing formulas are evaluated on all rows.
    rows = min(GROWTH * rows, goal.x.shape[1])
    room = goal.room[:, :rows]
    if not _evaluate(goal.post[0], length, goal.x[:, :rows], room):
      return
    row = room[0]
    if logs and not _logarithms(row):
      return
  if not promising:
    return
  if not length:
    length = _postfix(table, op, i, j, unary, goal.post)
  for k in range(len(goal.aim)):
    error = _error(row, goal.aim[k], goal.spread[k], logs)
    if error < goal.best[k] * (1 - BETTER):
      goal.best[k], goal.length[k] = error, length
      put(goal.code[k], goal.post[0, :length])


@njit(error_model='numpy')
def _combine_pairs(
  table, goal, op, lefts, rights, same, unary, keep, logs
) -> None:
  """Tries an operator on pairs of formulas, and stores new formulas.

  lefts, rights: (first, last + 1) of operands; rights is (0, 1) for one
    operand.
  same: the second operand is not before the first. keep: False only tries.
  """
  row = np.empty(table.vals.shape[1])
  for i in range(lefts[0], lefts[1]):
    first = table.vals[i]
    for j in range(max(i, rights[0]) if same else rights[0], rights[1]):
      second, good = table.vals[j], True
      for p in range(len(row)):
        z = _apply(op, first[p], second[p])
        if math.isnan(z):
          good = False
          break
        row[p] = z
      # A formula that equals an earlier one, of smaller or equal size, is not
      # tried.
      if not good or (keep and not _is_new(table.seen, _hash(row))):
        continue
      if keep:
        at = table.num[0]
        table.op[at], table.left[at] = op, i
        table.right[at] = -1 if unary else j
        table.vals[at] = row
        table.num[0] = at + 1
      _try(table, goal, row, op, i, j, unary, logs)


@njit
def _leaves(table, goal, quantities, logs) -> None:
  """Tries and stores the quantities, whose values are in the table."""
  for q in range(quantities):
    _is_new(table.seen, _hash(table.vals[q]))
    put(goal.room[0], goal.x[q])
    if logs and not _logarithms(goal.room[0]):
      continue
    for k in range(len(goal.aim)):
      error = _error(goal.room[0], goal.aim[k], goal.spread[k], logs)
      if error < goal.best[k] * (1 - BETTER):
        goal.best[k], goal.length[k], goal.code[k, 0] = error, 1, q


class _FormulaSearch:
  """One search, with arrays of the maximum size that it can need."""

  def __init__(
    self, x: np.ndarray, aim: np.ndarray, logs: bool, counts: list[int]
  ) -> None:
    """x: [Q, n], probes first; aim: [K, n]; counts: formulas by size."""
    self.sizes, self.logs = len(counts) - 1, logs
    # Formulas of the last size are tried but not stored.
    room, probes = max(sum(counts[:-1]), counts[1]), min(PROBES, x.shape[1])
    # `seen` has at least twice as many slots as keys.
    self.table = _FormulaTable(
      np.arange(room, dtype=np.int32),
      np.full(room, -1, np.int32),
      np.full(room, -1, np.int32),
      np.empty((room, probes)),
      np.zeros(1 << (2 * room).bit_length(), np.uint64),
      np.array([len(x)]),
    )
    self.table.vals[: len(x)] = x[:, :probes]
    spread = ((aim - aim.mean(1, keepdims=True)) ** 2).sum(1)
    self.goal = _Goal(
      x,
      aim,
      spread,
      np.full(len(aim), np.inf),
      np.zeros((len(aim), self.sizes), np.int64),
      np.zeros(len(aim), np.int64),
      np.empty((self.sizes + 1, x.shape[1])),
      np.zeros((2, self.sizes + 1), np.int64),
    )

  def run(self) -> list[list[tuple[tuple[int, ...], float]]]:
    """The front of each target: codes and errors, by size."""
    fronts: list[list[tuple[tuple[int, ...], float]]]
    fronts = [[] for _ in self.goal.aim]
    quantities = len(self.goal.x)
    # Formulas of size n are starts[n]:starts[n + 1].
    starts = [0, 0, quantities]
    _leaves(self.table, self.goal, quantities, self.logs)
    self._note(fronts, 1)
    for n in range(2, self.sizes + 1):
      self._level(n, starts)
      starts.append(int(self.table.num[0]))
      self._note(fronts, n)
    return fronts

  def _level(self, n: int, starts: list[int]) -> None:
    for op in UNARY:
      self._combine(op, starts[n - 1 : n + 1], [0, 1], False, n)
    for op in BINARY:
      # The smaller operand comes first: x + y and y + x are one formula.
      for a in range(1, (n - 1) // 2 + 1):
        b = n - 1 - a
        lefts, rights = starts[a : a + 2], starts[b : b + 2]
        self._combine(op, lefts, rights, a == b, n)

  def _combine(
    self, op: int, lefts: list[int], rights: list[int], same: bool, n: int
  ) -> None:
    first, unary, keep = lefts[0], op in UNARY, n < self.sizes
    for rows in calls.slices(lefts[1] - first):
      span = first + rows.start, first + rows.stop
      args = span, tuple(rights), same, unary, keep, self.logs
      _combine_pairs(self.table, self.goal, op, *args)

  def _note(
    self, fronts: list[list[tuple[tuple[int, ...], float]]], size: int
  ) -> None:
    for k, front in enumerate(fronts):
      if self.goal.length[k] == size and np.isfinite(self.goal.best[k]):
        code = tuple(self.goal.code[k, :size].tolist())
        front.append((code, float(self.goal.best[k])))
